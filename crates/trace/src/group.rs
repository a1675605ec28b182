//! Groups files into traces: a capture has one file for each processor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::input::{PACKED_ENDINGS, is_standard_input};
use crate::{Position, TraceError};

/// The files of one trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceGroup {
    /// The name of the trace: the file name, or the common part of the names of per-processor files.
    pub name: String,
    /// The files; per-processor files in the order of their processors.
    pub files: Vec<PathBuf>,
}

/// Splits the name of a per-processor file into the common part and the processor.
fn processor(file_name: &str) -> Option<(&str, u32)> {
    let plain = PACKED_ENDINGS.iter().find_map(|ending| file_name.strip_suffix(ending)).unwrap_or(file_name);
    let (base, number) = plain.rsplit_once('.')?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let of = |ending: &str| base.strip_suffix(ending).is_some_and(|name| !name.is_empty());
    let named = of(".blktrace") || of(".replay") || base == "octf.trace";
    if digits && named { Some((base, number.parse().ok()?)) } else { None }
}

/// Groups files into traces. `X.blktrace.0`, `X.blktrace.1` ... are one trace, with or without compression, and so are
/// `X.replay.0` ... of btrecord and `octf.trace.0` ... of Open CAS. A name that is no file, but the common part of
/// per-processor files, stands for all of them. Every other file is a trace of its own, and so is standard input, `-`.
///
/// # Errors
/// If a name is no file, or two files belong to one processor.
pub fn group(paths: &[PathBuf]) -> Result<Vec<TraceGroup>, TraceError> {
    let mut groups: Vec<Found> = Vec::new();
    for path in paths {
        if is_standard_input(path) {
            groups.push(Found { base: "stdin".into(), files: vec![(0, path.clone())] });
            continue;
        }
        if is_device(path) {
            let name = path.display();
            return Err(TraceError::new(name.to_string(), Position::File, "is a device, and no trace").expected("a trace").hint(
                format!("`ioweir record {name} -o seen.parquet` makes one, and `ioweir calibrate {name} -o own.toml` a device file"),
            ));
        }
        let files = if path.exists() { vec![path.clone()] } else { siblings(path)? };
        for file in files {
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            match processor(&name) {
                Some((base, number)) => add(&mut groups, &file.with_file_name(base), Some(number), file)?,
                None => add(&mut groups, &file.clone(), None, file)?,
            }
        }
    }
    Ok(groups.into_iter().map(Found::sorted).collect())
}

/// Whether a name is that of a block device.
#[cfg(unix)]
fn is_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    path.metadata().is_ok_and(|about| about.file_type().is_block_device())
}

#[cfg(not(unix))]
fn is_device(_path: &Path) -> bool {
    false
}

struct Found {
    base: PathBuf,
    files: Vec<(u32, PathBuf)>,
}

impl Found {
    fn sorted(mut self) -> TraceGroup {
        self.files.sort();
        TraceGroup {
            name: self.base.display().to_string(),
            files: self.files.into_iter().map(|(_, file)| file).collect(),
        }
    }
}

fn add(groups: &mut Vec<Found>, base: &Path, number: Option<u32>, file: PathBuf) -> Result<(), TraceError> {
    let group = number.and_then(|_| groups.iter_mut().find(|group| group.base == base));
    let entry = (number.unwrap_or(0), file);
    let Some(group) = group else {
        groups.push(Found { base: base.to_path_buf(), files: vec![entry] });
        return Ok(());
    };
    if group.files.contains(&entry) {
        return Ok(());
    }
    if let Some((_, other)) = group.files.iter().find(|(number, _)| *number == entry.0) {
        let problem = format!("processor {} is in {} as well", entry.0, other.display());
        return Err(TraceError::new(entry.1.display().to_string(), Position::File, problem)
            .expected("one file for each processor")
            .hint("name the files one by one, or remove one of the two"));
    }
    group.files.push(entry);
    Ok(())
}

/// The per-processor files that `X` or `X.blktrace` stands for.
fn siblings(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let error = |problem: String| TraceError::new(path.display().to_string(), Position::File, problem);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let bases = [name.clone(), format!("{name}.blktrace")];
    let files = in_folder(path, &bases)?;
    if files.is_empty() {
        return Err(error("no such file".to_owned()).expected(format!("a trace, or files {name}.blktrace.0 and so on")));
    }
    Ok(files.into_iter().map(|(_, file)| file).collect())
}

/// The per-processor files with one of these common parts in the folder of `path`, in the order of their processors.
fn in_folder(path: &Path, bases: &[String]) -> Result<Vec<(u32, PathBuf)>, TraceError> {
    let error = |bad: std::io::Error| {
        TraceError::new(path.display().to_string(), Position::File, format!("cannot be read: {bad}"))
    };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(error)? {
        let file_name = entry.map_err(error)?.file_name().to_string_lossy().into_owned();
        if let Some((base, number)) = processor(&file_name)
            && bases.iter().any(|known| known == base)
        {
            files.push((number, path.with_file_name(&file_name)));
        }
    }
    // The order of a directory is not defined.
    files.sort();
    Ok(files)
}

/// The files of the same capture that are missing among `paths`: those between the lowest and the highest processor, and those that lie
/// beside the given files. The latter are an error unless the file is to be read `alone`.
pub(crate) fn files_missing(paths: &[PathBuf], alone: bool) -> Result<Vec<String>, TraceError> {
    let name_of = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Some((first, base)) = paths.iter().find_map(|path| {
        let name = name_of(path);
        processor(&name).map(|(base, _)| (path, base.to_owned()))
    }) else {
        return Ok(Vec::new());
    };
    let given: BTreeSet<u32> = paths.iter().filter_map(|path| Some(processor(&name_of(path))?.1)).collect();
    let beside: BTreeMap<u32, PathBuf> = in_folder(first, std::slice::from_ref(&base))?.into_iter().collect();
    let others: Vec<u32> = beside.keys().copied().filter(|number| !given.contains(number)).collect();
    if let Some(other) = others.first().filter(|_| !alone) {
        let (file, name) = (first.display(), first.with_file_name(&base));
        let problem = format!("is one of {} files of one capture; {base}.{other} lies beside it", beside.len());
        let whole = name.display();
        return Err(TraceError::new(file.to_string(), Position::File, problem)
            .expected("the whole capture: with one processor's events alone, requests and completions are missing")
            .hint(format!(
                "name it `{whole}`, which stands for all of its files; `--alone` reads the named files all the same"
            )));
    }
    let highest = given.iter().chain(&others).copied().max().unwrap_or(0).min(PROCESSORS_MAX);
    let missing = (0..=highest).filter(|number| !given.contains(number));
    Ok(missing.map(|number| format!("{base}.{number}")).collect())
}

/// The highest number of a processor up to which files are looked for.
const PROCESSORS_MAX: u32 = 1 << 12;
