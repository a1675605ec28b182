//! How does it read how close the presets are to their drives?

use std::fmt::Write as _;

use super::ReportError;
use super::terminal::{align_right, new_table, push_table};
use ioweir_device::drives::{DEMERIT_GATE_RATIO, DriveReport};
use ioweir_device::validate::Distribution;

/// A time in milliseconds.
fn millis(nanos: f64) -> String {
    format!("{:.3}", nanos / 1e6)
}

/// The drive's number above the model's: two lines of a cell.
fn both(measured: &Distribution, modelled: &Distribution, number: fn(&Distribution) -> f64) -> String {
    format!("{}\n{}", millis(number(measured)), millis(number(modelled)))
}

/// Renders a table, two lines a drive; what is not at hand is named behind it.
#[must_use]
pub fn render_validation(report: &DriveReport, colour: bool) -> String {
    let mut out = String::new();
    if !report.rows.is_empty() {
        let mut table = new_table(colour);
        table.set_header([
            "\npreset",
            "\nrequests",
            "response\n",
            "mean\nms",
            "p50\nms",
            "p95\nms",
            "p99\nms",
            "demerit\nms",
            "\n% of mean",
            "resampled\nms",
            "DiskSim\nms",
            "ratio\n",
        ]);
        for row in &report.rows {
            let (measured, modelled) = (&row.measured, &row.modelled);
            table.add_row([
                row.preset.to_owned(),
                row.requests.to_string(),
                "drive\nmodel".to_owned(),
                both(measured, modelled, |times| times.mean_nanos),
                both(measured, modelled, |times| times.p50_nanos as f64),
                both(measured, modelled, |times| times.p95_nanos as f64),
                both(measured, modelled, |times| times.p99_nanos as f64),
                millis(row.demerit_nanos),
                format!("{:.1}", row.demerit_share * 100.0),
                millis(row.demerit_resampled_nanos),
                millis(row.disksim_demerit_nanos),
                format!("{:.2}{}", row.disksim_ratio, if row.passes { "" } else { " fails" }),
            ]);
        }
        align_right(&mut table);
        push_table(&mut out, &table);
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "\nThe demerit is the root mean square distance between the two distributions of response times; a preset passes \
             with at most {DEMERIT_GATE_RATIO} times that of DiskSim."
        );
    }
    for file in &report.absent {
        let _ = writeln!(out, "skipped: no {file}.gz in the folder");
    }
    out
}

/// Renders one JSON object, indented, with a newline at its end.
///
/// # Errors
/// [`ReportError::Json`] where the serialiser fails, which no report makes it do.
pub fn render_validation_json(report: &DriveReport) -> Result<String, ReportError> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}
