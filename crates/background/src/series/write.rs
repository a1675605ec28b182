//! Writes series as a table.

use std::fmt::Write as _;

use super::Series;

/// The series side by side, one row a time; a gap is an empty cell.
#[must_use]
pub fn to_csv(series: &[Series]) -> String {
    let mut out = String::from("unix_seconds");
    for series in series {
        out += &format!(",\"{}\"", series.name.replace('"', "'"));
    }
    out.push('\n');
    let bin = series.first().map_or(1, |series| i64::from(series.bin_seconds));
    let end = |series: &Series| series.start_unix_seconds + series.values.len() as i64 * bin;
    let first = series.iter().map(|series| series.start_unix_seconds).min().unwrap_or(0);
    let last = series.iter().map(end).max().unwrap_or(0);
    for time in (first..last).step_by(usize::try_from(bin).unwrap_or(1)) {
        let _ = write!(out, "{time}");
        for series in series {
            let place = usize::try_from((time - series.start_unix_seconds).div_euclid(bin)).ok();
            match place.and_then(|place| series.values.get(place).copied().flatten()) {
                Some(value) => {
                    let _ = write!(out, ",{value}");
                }
                None => out.push(','),
            }
        }
        out.push('\n');
    }
    out
}
