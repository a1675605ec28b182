//! Files of earlier versions are still read: captures, and folders of sweeps. `tests/kept/make` keeps those of a release.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::run;

#[test]
fn captures_and_sweeps_of_earlier_versions_are_read() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept");
    let versions: Vec<_> = fs::read_dir(kept).unwrap().map(|entry| entry.unwrap().path()).collect();
    let versions: Vec<_> = versions.into_iter().filter(|path| path.is_dir()).collect();
    assert!(!versions.is_empty(), "what at least one version has written is kept");
    for version in versions {
        let folder = tempfile::tempdir().unwrap();
        let copied = Command::new("cp").args(["-r"]).arg(version.join("sweep")).arg(folder.path()).status().unwrap();
        assert!(copied.success());
        let capture = version.join("capture.parquet").display().to_string();
        let compared = run(
            folder.path(),
            &["compare", &capture, "--load", "closed:4", "--scheduler", "noop,sfq", "--by", "stream", "--json", "-"],
        );
        let report: serde_json::Value = serde_json::from_slice(&compared.stdout).unwrap();
        for result in report["results"].as_array().unwrap() {
            // Sixty-four writes of 4 KiB by one tenant.
            assert_eq!(result["write"]["bytes"], 64 * 4096, "{}: {result}", version.display());
            assert_eq!(result["streams"][0]["name"], "gold", "{}: {result}", version.display());
        }
        let merged = run(folder.path(), &["sweep", "merge", "sweep", "--export", "table.csv"]);
        assert!(merged.status.success(), "{}: {}", version.display(), String::from_utf8_lossy(&merged.stderr));
        let table = fs::read_to_string(folder.path().join("table.csv")).unwrap();
        // Two schedulers with two seeds, and the names of the columns.
        assert_eq!(table.lines().count(), 5, "{}: {table}", version.display());
    }
}
