//! Makes tables of the reports of tools that are none: of iostat, sar, dstat, fio, diskspd and Prometheus.

use std::borrow::Cow;

use ioweir_trace::{HEAD_BYTES, Input, Position, unreadable};

use super::{SeriesError, exports, fio, json, sysstat};

/// The longest report that is read.
const BYTES_MAX: usize = 1 << 28;

/// A report as a table.
pub(super) struct Report {
    pub(super) input: Input,
    /// Rows that are left out: averages, marks of a restart, and what counts from the start of the machine.
    pub(super) passed_over: u64,
    /// Whether the file leaves open if its dates begin with the month, which is assumed then.
    pub(super) is_month_first: bool,
    /// Whether the file is of one of several jobs that ran side by side.
    pub(super) is_of_job: bool,
}

impl Report {
    pub(super) fn new(input: &Input, table: String, passed_over: u64) -> Self {
        let input = Input::from_bytes(input.name(), table.into_bytes());
        Self { input, passed_over, is_month_first: false, is_of_job: false }
    }
}

/// The table of a file, from its name and its first bytes; `None` if the file is a table itself.
type MakeTable = fn(&Input, &[u8]) -> Result<Option<Report>, SeriesError>;

const TOOLS: [MakeTable; 7] = [
    json::table,
    json::of_promtool,
    fio::table,
    exports::of_dstat,
    exports::of_diskspd,
    sysstat::table,
    exports::below_preamble,
];

/// The table of a report; `None` if the file is a table itself.
pub(super) fn as_table(input: &Input) -> Result<Option<Report>, SeriesError> {
    let head = input.head()?;
    for tool in TOOLS {
        if let Some(report) = tool(input, &head)? {
            return Ok(Some(report));
        }
    }
    Ok(None)
}

/// The whole text of a report that begins with `head`.
pub(super) fn whole<'a>(input: &Input, head: &'a [u8]) -> Result<Cow<'a, str>, SeriesError> {
    if head.len() < HEAD_BYTES {
        return Ok(String::from_utf8_lossy(head));
    }
    let mut chunks = input.open()?;
    let mut text = Vec::new();
    let broken = |error: std::io::Error| unreadable(input.name(), Position::File, &error);
    while chunks.more().map_err(broken)? || !chunks.available().is_empty() {
        text.extend_from_slice(chunks.available());
        let length = chunks.available().len();
        chunks.consume(length);
        if text.len() > BYTES_MAX {
            let problem = format!("is a report of more than {} MiB", BYTES_MAX >> 20);
            return Err(SeriesError::new(input.name(), Position::File, problem).expected("a shorter part of it"));
        }
    }
    Ok(Cow::Owned(String::from_utf8_lossy(&text).into_owned()))
}

/// A cell of a table whose cells are divided by semicolons.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\"").replace(['\n', '\r'], " "))
}
