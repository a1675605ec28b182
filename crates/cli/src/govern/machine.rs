//! Checks that this machine has what a govern file names: the disks of sources, and the programs of workers.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ioweir_block::real::{Stat, System};
use ioweir_config::{Complaint, shown};
use ioweir_govern::spec::WorkerKeys;

use super::file::GovernFile;

/// The first thing that is missing here, if there is one.
pub(super) fn missing(file: &GovernFile, system: &System, path: &str) -> Option<Complaint> {
    let disks = file.source.iter().enumerate().filter_map(|(number, source)| Some((number, source.disk.as_deref()?)));
    for (number, disk) in disks {
        if Stat::of(system, disk.strip_prefix("/dev/").unwrap_or(disk)).is_none() {
            let problem = format!("there is no disk {} here: /proc/diskstats does not list it", shown(disk));
            return Some(Complaint::of_value(format!("source[{number}].disk"), problem).hint("`lsblk -d` lists disks"));
        }
    }
    for (name, worker) in &file.worker {
        for (key, words) in commands(worker) {
            if let Some(program) = words.first().filter(|program| !is_there(program, path)) {
                let problem = format!("there is no program {} here", shown(program));
                let hint = if program.contains('/') { "check the path" } else { "install it, or write its whole path" };
                return Some(Complaint::of_value(format!("worker.{name}.{key}"), problem).hint(hint));
            }
        }
    }
    None
}

fn commands(worker: &WorkerKeys) -> impl Iterator<Item = (&'static str, &Vec<String>)> {
    let WorkerKeys { start, run, step, pause, resume, end, progress, rate, .. } = worker;
    let all = [("start", start), ("run", run), ("step", step), ("pause", pause), ("resume", resume), ("end", end)];
    all.into_iter().chain([("progress", progress)]).chain(rate.as_ref().map(|rate| ("rate.command", &rate.command)))
}

fn is_there(program: &str, path: &str) -> bool {
    let is_program = |path: &Path| path.metadata().is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        return is_program(Path::new(program));
    }
    std::env::split_paths(path).any(|folder: PathBuf| is_program(&folder.join(program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_disks_and_programs_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("diskstats"), "8 0 sda 1 0 8 1 0 0 0 0 0 1 1\n").unwrap();
        let system = System { proc: folder.path().into(), ..System::default() };
        let file = |disk: &str, program: &str| {
            let text = format!(
                "state = \"s\"\n[[source]]\nkind = \"disk\"\ndisk = \"{disk}\"\n[service.scrub]\nowed = \"1GiB\"\n\
                 [worker.scrub]\nstart = [\"{program}\"]\npause = [\"true\"]\n"
            );
            let file = GovernFile::parse("a.toml", &text).unwrap();
            let complaint = missing(&file, &system, "/usr/bin:/bin");
            complaint.map(|complaint| complaint.in_file("a.toml", Some(&text)).to_string())
        };
        assert_eq!(file("/dev/sda", "true"), None);
        assert_eq!(file("sda", "/bin/true"), None);
        for (disk, program, said) in [
            ("sdb", "true", "a.toml:4:8: there is no disk sdb here"),
            ("sda", "no-such-program", "a.toml:8:9: there is no program no-such-program here"),
            ("sda", "/bin", "a.toml:8:9: there is no program /bin here"),
        ] {
            let error = file(disk, program).unwrap();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
