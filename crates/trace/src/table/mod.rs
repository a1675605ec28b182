//! Text formats that are tables: a request a line, in columns that have a role and a unit.
//!
//! A [`Table`] says where the columns are, [`reader`] reads any of them, and its documentation is made from it. A user's
//! own format is the same table, from a TOML file or the command line ([`own`]).

mod columns;
mod doc;
mod fast;
pub(crate) mod own;
pub(crate) mod reader;
#[cfg(test)]
mod tests;

use ioweir_core::{Operation, SECTOR_BYTES};

use crate::reader::fields::Unit;
use crate::reader::order::WINDOW_RECORDS;
use crate::writer::Writer;

/// A text format as a table of columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What is to be known before the columns, where their names do not say it.
    pub(crate) about: &'static str,
    /// What is to be known after them.
    pub(crate) notes: &'static str,
    pub(crate) separator: Separator,
    pub(crate) heading: Heading,
    pub(crate) columns: &'static [Column],
    /// Whether further columns may follow, which are not looked at.
    pub(crate) more_columns: bool,
    /// The operation of every line, where no column says it.
    pub(crate) operation: Option<Operation>,
    /// Whether a write of no bytes is a flush.
    pub(crate) empty_write_flushes: bool,
    /// Whether numbers are written as in the country of the machine: the times, which have decimals, say how.
    pub(crate) localised: bool,
    pub(crate) clock: Zero,
    /// By how many records it may be out of order.
    pub(crate) window_records: usize,
    pub(crate) ambiguous: bool,
    pub(crate) write: Option<Writer>,
}

/// What separates columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    /// One byte; blanks around a column do not count to it.
    Byte(u8),
    /// One byte, which may also be inside double quotes.
    Quoted(u8),
    /// A semicolon where the heading has one, else a comma; or inside double quotes.
    SemicolonOrComma,
    /// One or more blanks.
    Blanks,
    /// Whichever of the usual ones the first line has.
    Guessed,
}

/// The first line of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heading {
    /// It is a request.
    None,
    /// It may be the names of the columns.
    Optional,
    /// It is the names of the columns, in their order.
    Required,
    /// It names the columns, in any order and among others; the function compares a name in it with that of a column.
    Names(fn(&[u8], &str) -> bool),
    /// It is a heading where it cannot be read as a request.
    Guessed,
}

/// The time zero of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zero {
    /// Nothing in particular.
    Arbitrary,
    /// 1970-01-01 UTC.
    Unix,
    /// 1601-01-01 UTC, as Windows counts.
    FileTime,
}

/// Unix time of the zero of Windows file times, 1601-01-01.
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

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// When the request arrived.
    Time,
    /// When it was complete: with a time of arrival it gives the latency, with a latency the time of arrival.
    Completion,
    /// From this arrival to the next.
    Gap,
    /// From arrival to completion; several columns are added up.
    Latency,
    Offset,
    Length,
    /// The bytes that were moved: an error where they are not the length.
    Moved,
    Operation,
    /// The device; two columns together are one name.
    Volume,
    /// The client, by name; two columns together are one name.
    Stream,
    /// The client, as the number of a process ...
    Pid,
    /// ... and its command.
    Command,
    /// Checked for its form only.
    Ignored,
}

impl Role {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::Ignored as usize + 1;
}

/// How a column is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A time with or without decimals; what is below a nanosecond is dropped.
    Time(Unit),
    /// Seconds with at most nine decimals.
    Seconds,
    /// A whole number in units of this many nanoseconds.
    Ticks(u64),
    /// A whole number in units of this many bytes.
    Size(u64),
    /// Bytes in hexadecimal digits.
    Hexadecimal,
    /// A whole number.
    Number,
    /// One of these words.
    Words(&'static [(&'static str, Operation)]),
    /// A word that begins with one of these.
    Beginnings(&'static [(&'static str, Operation)]),
    /// A hexadecimal number whose lowest bit is set for a read.
    ReadBit,
    /// The letters of the block layer.
    Letters,
    /// `Name ( number)`, a process.
    Process,
    Text,
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    pub(crate) value: Value,
    /// Put before the text of a volume, or between it and the column before.
    pub(crate) prefix: &'static str,
    /// What an empty column means: for an operation an error, which is explained so; else that the value is not known.
    pub(crate) empty: Option<&'static str>,
    /// Whether the heading may lack it.
    pub(crate) optional: bool,
    /// What is said of it beyond its role.
    pub(crate) note: &'static str,
}

pub(crate) const MICROSECONDS: u64 = 1_000;
pub(crate) const SECONDS: u64 = 1_000_000_000;
pub(crate) const BYTES: u64 = 1;
pub(crate) const SECTORS: u64 = SECTOR_BYTES;

impl Table {
    /// The usual: commas, no heading, in order within a window.
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

    /// The same between blanks.
    pub(crate) const BLANKS: Self = Self { separator: Separator::Blanks, ..Self::COMMAS };
}

/// A column by its name, role and value.
pub(crate) const fn column(name: &'static str, role: Role, value: Value) -> Column {
    Column { name, role, value, prefix: "", empty: None, optional: false, note: "" }
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

    pub(crate) const fn optional(self) -> Self {
        Self { optional: true, ..self }
    }
}
