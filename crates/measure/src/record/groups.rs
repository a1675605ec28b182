//! Counts requests by owner: this program's own, and those of each process's control group.
//!
//! The kernel's events name the process and not its group, so a process is asked for it when its first request has been read, a few
//! hundredths of a second after it was submitted. A process that is gone by then has no known group.

use ioweir_trace::Names;
use ioweir_trace::tracefs::Recorded;
use serde::Serialize;

use ioweir_block::real::System;

/// A control group, with the requests of its processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The path below the root of its hierarchy; absent for processes that had ended before they could be asked.
    pub path: Option<String>,
    /// Requests of its processes.
    pub requests: u64,
    /// The streams of its processes, by name.
    pub streams: Vec<String>,
}

/// The owner of a stream, and its number of requests.
#[derive(Clone, Copy, Debug)]
struct Stream {
    group: usize,
    is_own: bool,
    requests: u64,
}

/// Counts the requests of streams.
#[derive(Debug)]
pub(super) struct Groups {
    system: System,
    streams: Vec<Stream>,
    paths: Vec<Option<String>>,
}

impl Groups {
    pub(super) const fn new(system: System) -> Self {
        Self { system, streams: Vec::new(), paths: Vec::new() }
    }

    /// Counts records, and asks after streams that are new.
    pub(super) fn count(&mut self, records: &[Recorded], names: &Names) {
        for name in names.streams.iter().skip(self.streams.len()) {
            let pid = name.split(' ').next().and_then(|pid| pid.parse().ok());
            let path = pid.and_then(|pid| self.system.control_group(pid));
            let group = self.paths.iter().position(|known| *known == path).unwrap_or_else(|| {
                self.paths.push(path);
                self.paths.len() - 1
            });
            self.streams.push(Stream { group, is_own: pid == Some(std::process::id()), requests: 0 });
        }
        for recorded in records {
            if let Some(stream) = self.streams.get_mut(recorded.record.stream.0 as usize) {
                stream.requests += 1;
            }
        }
    }

    /// Requests of this program itself.
    pub(super) fn requests_own(&self) -> u64 {
        self.streams.iter().filter(|stream| stream.is_own).map(|stream| stream.requests).sum()
    }

    /// The groups, that with the most requests first.
    pub(super) fn into_found(self, names: &Names) -> Vec<Group> {
        let group = |path| Group { path, ..Group::default() };
        let mut groups: Vec<Group> = self.paths.into_iter().map(group).collect();
        for (stream, name) in self.streams.iter().zip(&names.streams) {
            if let Some(group) = groups.get_mut(stream.group) {
                group.requests += stream.requests;
                group.streams.push(name.clone());
            }
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.requests));
        groups
    }
}

#[cfg(test)]
mod tests {
    use ioweir_core::{Flags, Nanos, Operation, Priority, StreamId};
    use ioweir_trace::Record;

    use super::*;

    /// A machine with these processes, each with the text of its control groups.
    fn machine(processes: &[(u32, &str)]) -> (tempfile::TempDir, System) {
        let folder = tempfile::tempdir().expect("a folder");
        for (pid, text) in processes {
            let process = folder.path().join(pid.to_string());
            std::fs::create_dir(&process).expect("a folder");
            std::fs::write(process.join("cgroup"), text).expect("it is written");
        }
        let system = System { proc: folder.path().to_owned(), ..System::default() };
        (folder, system)
    }

    fn of_stream(stream: u32) -> Recorded {
        let record = Record {
            time: Nanos::ZERO,
            offset_bytes: 0,
            length_bytes: 4096,
            operation: Operation::Read,
            flags: Flags::NONE,
            priority: Priority::NONE,
            stream: StreamId(stream),
            volume: 0,
            latency: None,
        };
        Recorded { record, issued: None }
    }

    #[test]
    fn process_keeps_the_group_first_seen() {
        let own = std::process::id();
        let (folder, system) = machine(&[
            (7, "0::/system.slice/db.service\n"),
            (8, "12:memory:/m\n4:blkio,io:/disk/web\n0::/system.slice/web.service\n"),
            (own, "0::/system.slice/db.service\n"),
        ]);
        let mut groups = Groups::new(system);
        let mut names = Names { streams: vec!["7 a b".into(), "8 web".into()], volumes: Vec::new() };
        groups.count(&[of_stream(0), of_stream(1), of_stream(0)], &names);
        // A process that moves to another group later still counts for its first.
        std::fs::write(folder.path().join("7/cgroup"), "0::/other\n").expect("it is written");
        names.streams.extend(["9 gone".into(), format!("{own} ioweir")]);
        groups.count(&[of_stream(0), of_stream(2), of_stream(3)], &names);
        assert_eq!(groups.requests_own(), 1);
        let found = groups.into_found(&names);
        let found: Vec<_> =
            found.iter().map(|group| (group.path.as_deref(), group.requests, &group.streams[..])).collect();
        let names = |of: &[usize]| of.iter().map(|at| names.streams[*at].clone()).collect::<Vec<_>>();
        assert_eq!(
            found,
            [
                (Some("/system.slice/db.service"), 4, &names(&[0, 3])[..]),
                (Some("/disk/web"), 1, &names(&[1])),
                (None, 1, &names(&[2])),
            ]
        );
    }
}
