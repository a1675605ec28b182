//! The CSV of Alibaba's block traces of 2020: `device_id,opcode,offset,length,timestamp`.

use ioweir_core::{Nanos, Operation};

use crate::reader::RawSource;
use crate::reader::fields::{choice, columns, text, whole};
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::names::Volumes;
use crate::reader::number::{Faulty, byte_extent, digits, scaled};
use crate::reader::order::WINDOW_RECORDS;
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

const MICROSECOND_NANOS: u64 = 1_000;

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "alibaba-csv",
    title: "Alibaba block traces of 2020",
    doc: "\
No header. One request a line: `device_id,opcode,offset,length,timestamp`; the time stands last.

| column | unit | meaning |
|---|---|---|
| device_id | | becomes the volume; a thousand devices are interleaved in one file |
| opcode | | `R` or `W` |
| offset, length | bytes | extent |
| timestamp | Unix microseconds | when the server received the request; kept as the epoch |

Each volume is one stream. Requests may be out of order by up to 4096 records. A first line with the names of the columns,
which some copies have, is passed over.",
    window_records: WINDOW_RECORDS,
    ambiguous: false,
    detect,
    open,
    write: None,
};

const COLUMNS: &str = "device_id,opcode,offset,length,timestamp";
const OPCODES: &[(&str, Operation)] = &[("R", Operation::Read), ("W", Operation::Write)];

fn detect(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let mut columns = line.split(|&byte| byte == b',');
    let number = |column: Option<&[u8]>| column.is_some_and(|column| digits(column).is_some());
    line == COLUMNS.as_bytes()
        || (number(columns.next())
            && columns.next().is_some_and(|kind| kind == b"R" || kind == b"W")
            && number(columns.next())
            && number(columns.next())
            && number(columns.next())
            && columns.next().is_none())
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, &FORMAT)?;
    let format = Lines { started: false, volumes: Volumes::default() };
    Ok(Box::new(LineSource::open(&input, format, options.order(FORMAT.window_records), options.lenient)?))
}

struct Lines {
    started: bool,
    volumes: Volumes,
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        if !std::mem::replace(&mut self.started, true) && line == COLUMNS.as_bytes() {
            return Ok(None);
        }
        let [device, opcode, offset, length, time] = columns(line, b',', COLUMNS)?;
        whole(line, device, "device_id")?;
        let operation = choice(line, opcode, "opcode", OPCODES)?;
        let extent = byte_extent(whole(line, offset, "offset")?, whole(line, length, "length")?, offset.0)?;
        let nanos = scaled(whole(line, time, "timestamp")?, MICROSECOND_NANOS, time.0, "timestamp")?;
        let device = text(line, device);
        let volume = self.volumes.with_stream(device, names, || String::from_utf8_lossy(device).into_owned())?;
        Ok(Some(Record::plain(Nanos(nanos), extent, operation, volume)))
    }

    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        Some(0)
    }
}
