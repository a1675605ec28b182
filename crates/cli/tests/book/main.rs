//! The commands of the documents, each run and held to what its document says it prints.
//!
//! A block of ```` ```console ```` holds commands behind `$ ` and what each prints. Of a document, all run one after another in a
//! folder of its own that shows the repository's traces and examples. `BOOK=write cargo test --test book` puts what is printed in
//! the place of what is no longer true; a line `???` stands for all that a command prints. A command behind which ` &` stands, a
//! server, stays until the end of its document.
//!
//! It uses no crate: `packaging/try.sh` compiles this file alone, for the program that a package has installed.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

mod document;
mod links;
mod output;

use std::fs;
use std::io::BufRead as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use document::{Block, Document};

/// The parts of the repository that the folder of a document links to.
const SHOWN: &[&str] = &["README.md", "docs", "examples", "experiments", "packaging", "traces"];

/// The folder of stand-ins for other programs.
const BIN: &str = ".bin";

/// The folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The documents, in a stable order.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|suffix| suffix == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A folder for the commands of a document, which ends with it.
struct Folder(PathBuf);

impl Folder {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn folder() -> Folder {
    let made = Command::new("mktemp").arg("-d").output().unwrap();
    let folder = Folder(String::from_utf8(made.stdout).unwrap().trim_end().into());
    assert!(folder.path().is_dir(), "mktemp makes a folder");
    for name in SHOWN {
        std::os::unix::fs::symlink(root().join(name), folder.path().join(name)).unwrap();
    }
    // Examples were built with the tests: a stand-in for `cargo run --example NAME` runs them.
    let bin = folder.path().join(BIN);
    fs::create_dir(&bin).unwrap();
    let examples = Path::new(env!("CARGO_BIN_EXE_ioweir")).parent().unwrap().join("examples");
    fs::write(bin.join("cargo"), format!("#!/bin/sh\nexec \"{}/$5\"\n", examples.display())).unwrap();
    fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// A shell with a command in the folder of a document.
fn shell(folder: &Path, command: &str) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_ioweir"));
    let built = binary.parent().unwrap();
    let path = format!("{}:{}:{}", folder.join(BIN).display(), built.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(folder)
        .env("PATH", path)
        .env_remove("COLUMNS")
        .env("TZ", "UTC")
        .env("LC_ALL", "C")
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null());
    shell
}

/// A command's output, with its exit code where that is not zero.
fn printed(folder: &Path, command: &str) -> String {
    let output = shell(folder, command).output().unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    match output.status.code() {
        Some(0) => {}
        code => text += &format!("(exit code {})\n", code.unwrap_or(-1)),
    }
    text
}

/// A command that stays until the end of its document, such as a server.
struct Staying {
    child: std::process::Child,
    /// The rest of the output, kept open so that the program can still write to it.
    _output: std::io::BufReader<std::process::ChildStdout>,
}

impl Staying {
    /// Starts the program, and reads its output until it is as expected, or the program has ended.
    fn start(folder: &Path, command: &str, expected: &str) -> (Self, String) {
        let mut child = shell(folder, &format!("exec {command}")).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        while output.read_line(&mut text).unwrap() > 0 && !output::is_as_expected(expected, &text) {}
        (Self { child, _output: output }, text)
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the commands of a document. Returns what is not as it says, and the document as it should be.
fn run(path: &Path) -> (Vec<String>, String) {
    let document = Document::read(&fs::read_to_string(path).unwrap());
    let folder = folder();
    let (mut wrong, mut text, mut staying) = (Vec::new(), String::new(), Vec::new());
    for block in &document.blocks {
        match block {
            Block::Text(lines) => text += lines,
            Block::File { name, content, lines } => {
                fs::write(folder.path().join(name), content).unwrap();
                text += lines;
            }
            Block::Copy { name, content, lines } => {
                let file = fs::read_to_string(root().join(name)).unwrap_or_default();
                if !file.contains(content.as_str()) {
                    wrong.push(format!("the block is not part of {name}:\n{content}"));
                }
                text += lines;
            }
            Block::Commands(commands) => {
                text += "```console\n";
                for command in commands {
                    let printed = match command.line.trim_end().strip_suffix(" &") {
                        None => printed(folder.path(), &command.line),
                        Some(line) => {
                            let (one, printed) = Staying::start(folder.path(), line, &command.expected);
                            staying.push(one);
                            printed
                        }
                    };
                    text += &command.shown;
                    if output::is_as_expected(&command.expected, &printed) {
                        text += &command.expected;
                    } else {
                        wrong.push(format!("$ {}\n{printed}--- the document has\n{}", command.line, command.expected));
                        text += &output::renewed(&command.expected, &printed);
                    }
                }
                text += "```\n";
            }
        }
    }
    (wrong, text)
}

#[test]
fn document_commands_print_what_they_say() {
    let only = std::env::var("BOOK_ONLY").unwrap_or_default();
    let paths: Vec<PathBuf> =
        documents().into_iter().filter(|path| path.display().to_string().contains(&only)).collect();
    assert!(!paths.is_empty(), "BOOK_ONLY={only} is the path of no document");
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut wrong = Vec::new();
        while let Some(path) = paths.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            let (found, text) = run(path);
            if !found.is_empty() && std::env::var("BOOK").is_ok_and(|mode| mode == "write") {
                fs::write(path, text).unwrap();
            }
            wrong.extend(found.into_iter().map(|found| format!("{}: {found}", path.display())));
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_command_that_is_not_run_says_why() {
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        let mut before = "";
        for line in text.lines() {
            if line == document::NOT_RUN_FENCE {
                let reason = document::reason(before);
                assert!(reason.is_some_and(|reason| reason.len() > 10), "{}: a block without reason", path.display());
            }
            before = line;
        }
    }
}
