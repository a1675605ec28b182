//! Which commit is this built from? Puts it into `IOWEIR_COMMIT`, `-dirty` behind it where tracked files were changed;
//! "unknown" where this is not a checkout of the project.

use std::process::Command;

fn main() {
    println!("cargo:rustc-env=IOWEIR_COMMIT={}", commit().unwrap_or_else(|| "unknown".into()));
    // A change of any source may make the tree dirty, and a commit makes it clean again.
    println!("cargo:rerun-if-changed=..");
    println!("cargo:rerun-if-changed=../../Cargo.toml");
    for name in ["HEAD", "index", "packed-refs"] {
        watch(name);
    }
    if let Some(branch) = git(&["symbolic-ref", "-q", "HEAD"]) {
        watch(&branch);
    }
}

/// Has this run again when a file of the repository's administration changes. A file that is not there would have it run
/// every time.
fn watch(name: &str) {
    if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| std::path::Path::new(path).exists()) {
        println!("cargo:rerun-if-changed={path}");
    }
}

fn commit() -> Option<String> {
    // A package unpacked inside some other repository must not take over its commit.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let head = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| !changes.is_empty());
    Some(if changed { format!("{head}-dirty") } else { head })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_string())
}
