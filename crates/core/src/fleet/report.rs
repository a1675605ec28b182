//! The report that a server of a fleet gives to the others: the demand and the service of each of its tenants. The report is text, so that
//! people can read it where it is kept; readers validate every line.
//!
//! ```text
//! ioweir-fleet 1
//! 1200 0 1200 88412 0 gold
//! ```
//!
//! A line is the demand in units of cost a second, that in bytes a second, the demand behind the reservation, the units of
//! cost served since the server began, and the tenant's name up to the end of the line. The fifth number is the bytes served.

use alloc::string::String;
use core::fmt::{self, Write as _};

use super::{MEMBERS_MAX, WHOLE_MAX};

/// The first line.
pub const HEAD: &str = "ioweir-fleet 1";

/// The longest name of a tenant, in bytes.
pub const NAME_BYTES_MAX: usize = 4096;

/// The longest report, in bytes.
pub const REPORT_BYTES_MAX: usize = 1 << 20;

/// The part of a report about one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// The tenant's demand within its limit, in units of cost a second.
    pub demand: u64,
    /// The tenant's demand within its limit, in bytes a second.
    pub demand_bytes: u64,
    /// The tenant's demand within its reservation, in units of cost a second.
    pub demand_reserved: u64,
    /// The tenant's service since the server began, in units of cost.
    pub served: u64,
    /// The bytes that the tenant was served since the server began.
    pub served_bytes: u64,
}

impl Entry<'_> {
    const fn numbers(&self) -> [u64; 5] {
        [self.demand, self.demand_bytes, self.demand_reserved, self.served, self.served_bytes]
    }
}

/// Writes a report. A tenant whose name no line can hold is left out.
pub fn write<'a>(entries: impl Iterator<Item = Entry<'a>>, out: &mut String) {
    out.push_str(HEAD);
    out.push('\n');
    for entry in entries.filter(|entry| is_name(entry.tenant)) {
        for number in entry.numbers() {
            // Writing to a string cannot fail.
            let _ = write!(out, "{number} ");
        }
        out.push_str(entry.tenant);
        out.push('\n');
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(['\n', '\r'])
}

/// An error in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportError {
    /// The line, from one.
    pub line: usize,
    /// The error in words.
    pub problem: &'static str,
}

impl fmt::Display for ReportError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}", self.line, self.problem)
    }
}

impl core::error::Error for ReportError {}

/// Reads a report, entry by entry. Demands count up to [`WHOLE_MAX`].
///
/// # Errors
/// [`ReportError`]: any line that is not one is an error of all.
pub fn read(bytes: &[u8]) -> Result<impl Iterator<Item = Entry<'_>>, ReportError> {
    let wrong = |line, problem| Err(ReportError { line, problem });
    if bytes.len() > REPORT_BYTES_MAX {
        return wrong(1, "longer than a report may be");
    }
    let Ok(text) = core::str::from_utf8(bytes) else { return wrong(1, "not text") };
    let mut lines = text.split_terminator('\n');
    if lines.next() != Some(HEAD) {
        return wrong(1, "not a report of this version: expected `ioweir-fleet 1`");
    }
    let mut count = 0;
    for (number, line) in (2..).zip(lines.clone()) {
        if entry(line).is_none() {
            return wrong(number, "expected five whole numbers and the name of a tenant");
        }
        count += 1;
        if count > MEMBERS_MAX {
            return wrong(number, "more tenants than a report may have");
        }
    }
    Ok(lines.filter_map(entry))
}

fn entry(line: &str) -> Option<Entry<'_>> {
    let mut fields = line.splitn(6, ' ');
    let mut number = || {
        let field = fields.next().filter(|field| field.bytes().all(|byte| byte.is_ascii_digit()))?;
        field.parse::<u64>().ok()
    };
    let [demand, demand_bytes, demand_reserved] = [number()?, number()?, number()?].map(|asked| asked.min(WHOLE_MAX));
    let [served, served_bytes] = [number()?, number()?];
    let tenant = fields.next().filter(|name| is_name(name))?;
    Some(Entry { tenant, demand, demand_bytes, demand_reserved, served, served_bytes })
}
