//! Which files form one trace.

use std::path::PathBuf;

use ioweir_trace::{TraceGroup, group};

fn folder(files: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        std::fs::write(folder.path().join(file), b"").unwrap();
    }
    folder
}

fn grouped(folder: &tempfile::TempDir, names: &[&str]) -> Result<Vec<(String, Vec<String>)>, String> {
    let paths: Vec<PathBuf> = names.iter().map(|name| folder.path().join(name)).collect();
    let short = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let groups: Vec<TraceGroup> =
        group(&paths).map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))?;
    Ok(groups
        .into_iter()
        .map(|group| (short(&group.name), group.files.iter().map(|file| short(&file.to_string_lossy())).collect()))
        .collect())
}

const FILES: [&str; 6] =
    ["a.blktrace.10", "a.blktrace.2.gz", "a.blktrace.0.zst", "b.blktrace.0", "c.csv", "a.blktrace.x"];

#[test]
fn files_of_processors_are_one_trace() {
    let folder = folder(&FILES);
    let found = grouped(&folder, &["a.blktrace.10", "c.csv", "b.blktrace.0", "a.blktrace.2.gz"]).unwrap();
    let expected = [
        ("a.blktrace", vec!["a.blktrace.2.gz", "a.blktrace.10"]),
        ("c.csv", vec!["c.csv"]),
        ("b.blktrace", vec!["b.blktrace.0"]),
    ];
    assert_eq!(found, expected.map(|(name, files)| (name.to_owned(), files.into_iter().map(str::to_owned).collect())));
}

#[test]
fn name_without_processor_finds_all() {
    let folder = folder(&FILES);
    for name in ["a", "a.blktrace"] {
        let found = grouped(&folder, &[name]).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1, ["a.blktrace.0.zst", "a.blktrace.2.gz", "a.blktrace.10"]);
    }
}

#[test]
fn name_of_nothing_is_an_error() {
    let folder = folder(&FILES);
    assert_eq!(
        grouped(&folder, &["nothing"]).unwrap_err(),
        "nothing: no such file\n  expected: a trace, or files nothing.blktrace.0 and so on"
    );
}

#[test]
fn two_files_of_one_processor_are_an_error() {
    let folder = folder(&["a.blktrace.0", "a.blktrace.0.gz"]);
    assert_eq!(
        grouped(&folder, &["a"]).unwrap_err(),
        "a.blktrace.0.gz: processor 0 is in a.blktrace.0 as well\n  expected: one file for each processor\n\n\
         hint: name the files one by one, or remove one of the two"
    );
}

#[test]
fn a_file_named_twice_counts_once() {
    let folder = folder(&FILES);
    let found = grouped(&folder, &["b.blktrace.0", "b.blktrace.0"]).unwrap();
    assert_eq!(found, [("b.blktrace".to_owned(), vec!["b.blktrace.0".to_owned()])]);
}
