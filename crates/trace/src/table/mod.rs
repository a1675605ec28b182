//! Text formats that are tables: one request on each line, in columns that have a role and a unit.
//!
//! A [`Table`] says where the columns are; [`reader`] reads any table, and `doc` writes its documentation. A user's own
//! format is a table as well, from a TOML file or the command line ([`own`]).

mod columns;
mod doc;
mod fast;
pub(crate) mod own;
pub(crate) mod reader;
#[cfg(test)]
mod tests;

use ioweir_config::date::DateOrder;
use ioweir_core::{Operation, SECTOR_BYTES};

use crate::reader::fields::Unit;
use crate::reader::order::WINDOW_RECORDS;
use crate::writer::Writer;

/// A text format as a table of columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Remarks to read before the columns, if their names do not explain them.
    pub(crate) about: &'static str,
    /// Remarks to read after the columns.
    pub(crate) notes: &'static str,
    pub(crate) separator: Separator,
    pub(crate) heading: Heading,
    pub(crate) columns: &'static [Column],
    /// Whether further columns may follow, which are ignored.
    pub(crate) more_columns: bool,
    /// The operation of every line, if no column gives it.
    pub(crate) operation: Option<Operation>,
    /// Whether a write of zero bytes is a flush.
    pub(crate) empty_write_flushes: bool,
    /// Whether numbers are written as in the machine's country; the times, which have decimals, show how.
    pub(crate) localised: bool,
    pub(crate) clock: Zero,
    /// The most records by which the format may be out of order.
    pub(crate) window_records: usize,
    pub(crate) ambiguous: bool,
    pub(crate) write: Option<Writer>,
}

/// How columns are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    /// One byte; blanks around a column are not part of it.
    Byte(u8),
    /// One byte; inside double quotes it does not separate.
    Quoted(u8),
    /// A semicolon if the heading has one, else a comma; inside double quotes neither separates.
    SemicolonOrComma,
    /// One or more blanks.
    Blanks,
    /// Whichever of the usual separators the first line has.
    Guessed,
}

/// The first line of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heading {
    /// The first line is a request.
    None,
    /// The first line may name the columns.
    Optional,
    /// The first line names the columns, in their order.
    Required,
    /// The first line names the columns, in any order and among others; the function compares a name in it with that of a column.
    Names(fn(&[u8], &str) -> bool),
    /// The first line is a heading if it cannot be read as a request.
    Guessed,
}

/// The time zero of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zero {
    /// An arbitrary time.
    Arbitrary,
    /// 1970-01-01 UTC.
    Unix,
    /// 1601-01-01 UTC, as Windows counts.
    FileTime,
}

/// The Unix time of the zero of Windows file times, 1601-01-01.
pub(crate) const FILETIME_ZERO_UNIX_NANOS: i128 = -11_644_473_600 * 1_000_000_000;

impl Zero {
    pub(crate) const fn unix_nanos(self) -> Option<i128> {
        match self {
            Self::Arbitrary => None,
            Self::Unix => Some(0),
            Self::FileTime => Some(FILETIME_ZERO_UNIX_NANOS),
        }
    }
}

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// When the request arrived.
    Time,
    /// When the request completed. Together with the arrival it gives the latency; together with a latency, the arrival.
    Completion,
    /// The time from this arrival to the next.
    Gap,
    /// The time from this completion to the next arrival; it needs a latency.
    Think,
    /// The time from arrival to completion; several columns are added.
    Latency,
    Offset,
    Length,
    /// The number of bytes moved; it is an error if this is not the length.
    Moved,
    Operation,
    /// The device; two columns form one name.
    Volume,
    /// The client, by name; two columns form one name.
    Stream,
    /// The client, as the number of a process.
    Pid,
    /// The command of the client's process.
    Command,
    /// A column of which only the form is checked.
    Ignored,
    /// Lines with other words here are no requests, and are passed over.
    Event,
}

impl Role {
    /// The number of roles.
    pub(crate) const COUNT: usize = Self::Event as usize + 1;
}

/// How the value of a column is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A time with or without decimals; fractions of a nanosecond are dropped.
    Time(Unit),
    /// Seconds with at most nine decimals.
    Seconds,
    /// A whole number in units of this number of nanoseconds.
    Ticks(u64),
    /// A whole number in units of this number of bytes.
    Size(u64),
    /// Bytes in hexadecimal digits.
    Hexadecimal,
    /// A whole number.
    Number,
    /// A word of this list.
    Words(&'static [(&'static str, Operation)]),
    /// A word that begins with one of these.
    Beginnings(&'static [(&'static str, Operation)]),
    /// A hexadecimal number whose lowest bit is set for a read.
    ReadBit,
    /// The letters of the block layer.
    Letters,
    /// `Name ( number)`, a process.
    Process,
    /// A date, with or without a time of day: `2026-03-02 00:00:00.5+01:00`. Its order is assumed where only one is possible.
    Date(DateOrder),
    /// A time of day: `12:00:00.5`.
    Clock,
    /// A word that marks a line as a request.
    OneOf(&'static [&'static str]),
    Text,
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    pub(crate) value: Value,
    /// The text put before a volume's column, or between it and the previous column.
    pub(crate) prefix: &'static str,
    /// The meaning of an empty column. For an operation it is an error, which this text explains; otherwise the value is unknown.
    pub(crate) empty: Option<&'static str>,
    /// Remarks beyond the column's role.
    pub(crate) note: &'static str,
}

pub(crate) const MICROSECONDS: u64 = 1_000;
pub(crate) const SECONDS: u64 = 1_000_000_000;
pub(crate) const BYTES: u64 = 1;
pub(crate) const SECTORS: u64 = SECTOR_BYTES;

impl Table {
    /// The usual table: commas, no heading, sorted within a window.
    pub(crate) const COMMAS: Self = Self {
        name: "",
        title: "",
        about: "",
        notes: "",
        separator: Separator::Byte(b','),
        heading: Heading::None,
        columns: &[],
        more_columns: false,
        operation: None,
        empty_write_flushes: false,
        localised: false,
        clock: Zero::Arbitrary,
        window_records: WINDOW_RECORDS,
        ambiguous: false,
        write: None,
    };

    /// A table whose columns are separated by blanks.
    pub(crate) const BLANKS: Self = Self { separator: Separator::Blanks, ..Self::COMMAS };
}

/// Makes a column from its name, role and value.
pub(crate) const fn column(name: &'static str, role: Role, value: Value) -> Column {
    Column { name, role, value, prefix: "", empty: None, note: "" }
}

impl Column {
    pub(crate) const fn note(self, note: &'static str) -> Self {
        Self { note, ..self }
    }

    pub(crate) const fn prefix(self, prefix: &'static str) -> Self {
        Self { prefix, ..self }
    }

    pub(crate) const fn empty(self, meaning: &'static str) -> Self {
        Self { empty: Some(meaning), ..self }
    }
}
