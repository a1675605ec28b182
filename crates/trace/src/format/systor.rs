//! The SYSTOR'17 CSV of a virtual desktop service: `Timestamp,Response,IOType,LUN,Offset,Size`.

use ioweir_core::{Nanos, Operation};

use crate::reader::RawSource;
use crate::reader::fields::{Unit, choice, columns, duration, text, whole};
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::names::Volumes;
use crate::reader::number::{Fault, Faulty, byte_extent};
use crate::reader::order::WINDOW_RECORDS;
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "systor-csv",
    title: "SYSTOR'17 CSV of a virtual desktop service",
    doc: "\
Header line `Timestamp,Response,IOType,LUN,Offset,Size`, then one request a line.

| column | unit | meaning |
|---|---|---|
| Timestamp | Unix seconds, nine decimals of which six are true | when the request was issued; kept as the epoch |
| Response | seconds, may be empty | becomes the latency |
| IOType | | `R` or `W` |
| LUN | | becomes the volume, as `LUN0` |
| Offset, Size | bytes | extent |

Times are UTC, file names are Japanese time (nine hours ahead). Where no response was seen the IOType is empty as well: such a
line tells no direction and is an error; read leniently to leave them out and have them counted. Each volume is one stream.
Requests may be out of order by up to 4096 records.",
    window_records: WINDOW_RECORDS,
    ambiguous: false,
    detect: |head| head.starts_with(b"Timestamp,Response,"),
    open,
    write: None,
};

const HEADER: &str = "Timestamp,Response,IOType,LUN,Offset,Size";
const TYPES: &[(&str, Operation)] = &[("R", Operation::Read), ("W", Operation::Write)];

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
        if !self.started {
            self.started = true;
            let known = line == HEADER.as_bytes();
            return if known { Ok(None) } else { Err(Fault::new(0, "the heading is not known").expected(HEADER)) };
        }
        let [time, response, kind, lun, offset, size] = columns(line, b',', HEADER)?;
        if text(line, kind).is_empty() {
            return Err(Fault::new(kind.0, "IOType is empty: no response was seen, so the direction is not known")
                .expected("R or W")
                .hint("read leniently to leave such lines out"));
        }
        let nanos = duration(line, time, Unit::Seconds, "Timestamp")?;
        let operation = choice(line, kind, "IOType", TYPES)?;
        whole(line, lun, "LUN")?;
        let extent = byte_extent(whole(line, offset, "Offset")?, whole(line, size, "Size")?, offset.0)?;
        let latency = match text(line, response) {
            [] => None,
            _ => Some(Nanos(duration(line, response, Unit::Seconds, "Response")?)),
        };
        let lun = text(line, lun);
        let volume = self.volumes.with_stream(lun, names, || format!("LUN{}", String::from_utf8_lossy(lun)))?;
        Ok(Some(Record { latency, ..Record::plain(Nanos(nanos), extent, operation, volume) }))
    }

    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        Some(0)
    }
}
