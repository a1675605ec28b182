//! What the validation of the presets shows.

use ioweir_device::drives::validate_drives;
use ioweir_lab::document::Form;
use ioweir_lab::validation::document;

#[test]
fn a_drive_that_is_absent_is_named_and_one_that_is_there_has_its_row() {
    let folder = tempfile::tempdir().unwrap();
    let report = validate_drives(folder.path()).unwrap();
    assert!(document(&report).unwrap().to_terminal(false).contains("skipped: no barracuda.trace.gz"));
    let requests = "R Hit 100 8 9000.0 1000.0\nR Hit 108 8 900.0 1000.0\n";
    std::fs::write(folder.path().join("barracuda.trace"), requests).unwrap();
    let report = validate_drives(folder.path()).unwrap();
    let text = document(&report).unwrap().to_terminal(false);
    assert!(text.contains("barracuda") && text.contains("0.348"), "{text}");
    let json = Form::from_file_name("a.json").unwrap().render(&document(&report).unwrap()).unwrap();
    let json = String::from_utf8(json).unwrap();
    assert!(json.contains("\"preset\": \"barracuda\"") && json.contains("\"p99_nanos\""), "{json}");
}
