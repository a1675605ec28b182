//! Opens series by the names that a user gives: tables, block traces, or generated weeks.

use std::path::PathBuf;

use ioweir_lab::run::Progress;

use super::{Series, SeriesError, SeriesOptions, Vdi, read_inputs, series_of_trace};
use ioweir_trace::{self as trace, Doubted, Input, Position, ReadOptions};

/// Prefix of generated series: `vdi:7` is six weeks of virtual desktops from seed 7.
pub const VDI_PREFIX: &str = "vdi:";
/// The length of a bin for input without a step of its own.
const BIN_SECONDS: u32 = 600;

/// Opens the series of `names`. Several files form one table or one trace, in the order of time. A file that is recognised
/// as a block trace, or named as one, is counted; any other file is read as a table.
///
/// # Errors
/// [`SeriesError`] if a file cannot be read in its format, or the work is stopped.
pub fn open_series(
    names: &[String],
    options: &SeriesOptions,
    reading: &ReadOptions,
    progress: &dyn Progress,
) -> Result<Vec<Series>, SeriesError> {
    let bin_seconds = options.bin_seconds.unwrap_or(BIN_SECONDS);
    if let [name] = names
        && let Some(seed) = name.strip_prefix(VDI_PREFIX)
    {
        let seed = seed.parse().map_err(|_| {
            SeriesError::new(name, Position::File, "is no generated series").expected("vdi:SEED, such as vdi:1")
        })?;
        let bins = 42 * 86_400 / bin_seconds.max(1) as usize;
        return Ok(vec![Vdi { seed, bin_seconds, bins, ..Vdi::default() }.generate().series]);
    }
    let paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    if reading.format.is_some() || trace::recognise(&paths, reading).is_ok() {
        let file = names.first().map_or("", String::as_str);
        let mut source = Doubted::new(trace::open(&paths, reading)?);
        let counted = series_of_trace(&mut source, bin_seconds, file, progress)?;
        let all = counted.requests.into_iter().chain(counted.bytes).chain([counted.unique_ratio]);
        // If the trace lacks a kind of request, that kind gives no series.
        let mut out: Vec<Series> =
            all.filter(|series| series.values.iter().flatten().any(|value| *value > 0.0)).collect();
        if !options.columns.is_empty() {
            out.retain(|series| options.columns.iter().any(|name| name.eq_ignore_ascii_case(&series.name)));
        }
        return if out.is_empty() {
            Err(SeriesError::new(file, Position::File, "holds no such series")
                .hint("leave the columns away to see all"))
        } else {
            Ok(out)
        };
    }
    let inputs: Vec<Input> = paths.iter().map(|path| Input::from_path(path)).collect();
    read_inputs(&inputs, options)
}
