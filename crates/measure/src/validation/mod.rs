//! Validation: how far device models are from devices whose response times were measured.

mod device;
mod drives;
mod measured;

use ioweir_device::validate::Distribution;

pub(crate) use device::folded_remark;
pub use device::{DeviceValidation, cdf_charts, class_table, range_of};
pub use drives::{DEMERIT_GATE_RATIO, DRIVES, Drive, DriveReport, DriveRow, compare, validate_drives};
pub use measured::MeasuredTrace;

use ioweir_lab::document::{Cell, Column, Document, DocumentError, Format, Table, records_of};

/// The presets beside their drives.
///
/// # Errors
/// [`DocumentError`], which is a defect of the program.
pub fn document(report: &DriveReport) -> Result<Document, DocumentError> {
    let mut document = Document::new("ioweir calibrate --validate", "Device presets against their drives", report)?;
    let passing = report.rows.iter().filter(|row| row.passes).count();
    document.headline = match report.rows.len() {
        0 => "No measured drive is at hand.".into(),
        all => format!("{passing} of {all} presets pass: {DEMERIT_GATE_RATIO} times the demerit of DiskSim at most."),
    };
    document.records = records_of(&report.rows, &["preset", "requests"]);
    document.push(drive_table(&report.rows));
    if !report.rows.is_empty() {
        document.text(
            "The demerit is the root mean square distance between the two distributions of response times; resampled is the mean \
             over replays whose think times differ by up to a revolution.",
        );
    }
    for drive in DRIVES.iter().filter(|drive| report.rows.iter().any(|row| row.preset == drive.preset)) {
        if let Some(rate) = drive.bench_rate {
            document.text(format!(
                "{} was measured over a bus of {rate}, which stands in for its own interface.",
                drive.preset
            ));
        }
    }
    for file in &report.absent {
        document.text(format!("skipped: no {file}.gz in the folder"));
    }
    Ok(document)
}

/// A table with two rows for each drive: the measured figures, and the model's.
fn drive_table(rows: &[DriveRow]) -> Table {
    let time = |name: &str| Column::digits(name, 3).unit("ms");
    let columns = [
        Column::text("preset"),
        Column::count("requests"),
        Column::text("response"),
        time("mean"),
        time("p50"),
        time("p95"),
        time("p99"),
        time("demerit"),
        Column::digits("of mean", 1).unit("%"),
        time("resampled"),
        time("DiskSim"),
        Column::digits("ratio", 2),
        Column::text("verdict").format(Format::Fitted),
    ];
    let millis = |nanos: f64| Cell::from(nanos / 1e6);
    let times = |times: &Distribution| {
        [times.mean_nanos, times.p50_nanos as f64, times.p95_nanos as f64, times.p99_nanos as f64].map(millis)
    };
    let mut table = Table::new("", columns);
    for row in rows {
        let mut drive: Vec<Cell> = vec![row.preset.into(), row.requests.into(), "drive".into()];
        drive.extend(times(&row.measured));
        drive.extend([
            millis(row.demerit_nanos),
            (row.demerit_share * 100.0).into(),
            millis(row.demerit_resampled_nanos),
            millis(row.disksim_demerit_nanos),
            row.disksim_ratio.into(),
            Cell::from(if row.passes { "passes" } else { "fails" }).fails_if(!row.passes),
        ]);
        table.row(drive);
        let mut model: Vec<Cell> = vec!["".into(), "".into(), "model".into()];
        model.extend(times(&row.modelled));
        model.resize(table.columns.len(), "".into());
        table.row(model);
    }
    table
}
