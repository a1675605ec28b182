//! Reads blkreplay's `.load` files: free text, then one request on each line.

use std::collections::BTreeSet;

use ioweir_core::Operation;

use super::one_file;
use crate::reader::RawSource;
use crate::reader::fields::Unit;
use crate::reader::number::{Fault, Faulty};
use crate::reader::order::WINDOW_RECORDS;
use crate::reader::units::Decoder;
use crate::table::reader::{Numbers, TableReader};
use crate::table::{Role, SECTORS, Separator, Table, Value, column};
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "blkreplay",
    title: "blkreplay .load",
    doc: include_str!("docs/blkreplay.md"),
    window_records: WINDOW_RECORDS,
    detect,
    open,
    ..Format::UNSAID
};

/// The most bytes of the text before the requests.
const TEXT_BYTES_MAX: usize = 1 << 16;

const REQUESTS: Table = Table {
    separator: Separator::Byte(b';'),
    columns: &[
        column("time", Role::Time, Value::Time(Unit::Seconds)),
        column("sector", Role::Offset, Value::Size(SECTORS)),
        column("sectors", Role::Length, Value::Size(SECTORS)),
        column("op", Role::Operation, Value::Beginnings(&[("R", Operation::Read), ("W", Operation::Write)])),
        column("delay", Role::Ignored, Value::Time(Unit::Seconds)),
        column("duration", Role::Latency, Value::Time(Unit::Seconds)),
    ],
    ..Table::COMMAS
};

fn heading(line: &[u8]) -> bool {
    line.strip_prefix(b"start ;").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"sector"))
}

fn detect(head: &[u8]) -> bool {
    TableReader::new(&REQUESTS).detects(head) || head.split(|&byte| byte == b'\n').any(heading)
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let order = options.order(FORMAT.window_records);
    one_file(inputs, &FORMAT, options, order, |input| {
        let (requests, numbers) = (TableReader::new(&REQUESTS), Numbers::new());
        let lines = Lines { requests, numbers, text: BTreeSet::new(), text_bytes: 0, started: false };
        (lines, Names::of_file(input))
    })
}

struct Lines {
    requests: TableReader,
    numbers: Numbers,
    /// The lines before the first request.
    text: BTreeSet<Vec<u8>>,
    text_bytes: usize,
    started: bool,
}

impl Decoder for Lines {
    fn unit(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        match self.requests.request(line, &mut self.numbers, names) {
            Ok(mut record) => {
                self.started = true;
                // A load that has not been replayed has no latencies.
                record.latency = record.latency.filter(|latency| latency.0 > 0);
                Ok(Some(record))
            }
            Err(_) if heading(line) => {
                self.started = true;
                Ok(None)
            }
            Err(_) if !self.started => {
                self.text_bytes += line.len() + 1;
                if self.text_bytes > TEXT_BYTES_MAX {
                    return Err(Fault::new(0, "no request and no heading in the first 64 KiB")
                        .expected(self.requests.expected()));
                }
                self.text.insert(line.to_vec());
                Ok(None)
            }
            Err(_) if self.text.contains(line) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}
