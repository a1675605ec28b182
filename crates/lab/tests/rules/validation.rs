//! What the validation of the presets shows.

use ioweir_device::drives::validate_drives;
use ioweir_lab::report::{render_validation, render_validation_json};

#[test]
fn a_drive_that_is_absent_is_named_and_one_that_is_there_has_its_row() {
    let folder = tempfile::tempdir().unwrap();
    let report = validate_drives(folder.path()).unwrap();
    assert!(render_validation(&report, false).contains("skipped: no barracuda.trace.gz"));
    let requests = "R Hit 100 8 9000.0 1000.0\nR Hit 108 8 900.0 1000.0\n";
    std::fs::write(folder.path().join("barracuda.trace"), requests).unwrap();
    let report = validate_drives(folder.path()).unwrap();
    let text = render_validation(&report, false);
    assert!(text.contains("barracuda") && text.contains("0.348"), "{text}");
    let json = render_validation_json(&report).unwrap();
    assert!(json.contains("\"preset\": \"barracuda\"") && json.contains("\"p99_nanos\""), "{json}");
}
