//! The log of BIOtracer, a block tracer of smartphones: eight numbers a request.

use ioweir_core::{Nanos, Operation};

use crate::reader::RawSource;
use crate::reader::fields::{Unit, duration, text, whole, words};
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::number::{Fault, Faulty, sector_extent};
use crate::reader::order::WINDOW_RECORDS;
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

macro_rules! doc {
    ($unit:literal) => {
        concat!(
            "\
No header. One request a line, eight numbers between blanks: `sector sectors bytes flags created taken sent done`.

| column | unit | meaning |
|---|---|---|
| sector | 512 bytes | first sector |
| sectors | | not kept: the driver adds some, bytes are right |
| bytes | bytes | length |
| flags | | lowest bit: 0 read, 1 write; the bit of 4 says that it did not wait; others are errors |
| created | ",
            $unit,
            " | arrival: the time |
| taken, sent | | when the driver took it from its queue and sent it to the device; not kept |
| done | ",
            $unit,
            " | with created the latency |

The log does not state the unit of its times: name the format that has it, and look at the latencies: `biotracer-s`,
`biotracer-us` or `biotracer-ns`. The file is one volume and one stream. Requests may be out of order by up to 4096 records."
        )
    };
}

macro_rules! row {
    ($constant:ident, $name:literal, $word:literal, $unit:expr) => {
        /// A row of the table.
        pub(crate) const $constant: Format = Format {
            name: $name,
            title: concat!("BIOtracer of smartphones, times in ", $word),
            doc: doc!($word),
            window_records: WINDOW_RECORDS,
            ambiguous: true,
            detect,
            open: |inputs, options| open(inputs, options, &$constant, $unit),
            write: None,
        };
    };
}

row!(SECONDS, "biotracer-s", "seconds", Unit::Seconds);
row!(MICROSECONDS, "biotracer-us", "microseconds", Unit::Microseconds);
row!(NANOSECONDS, "biotracer-ns", "nanoseconds", Unit::Nanoseconds);

const EXPECTED: &str = "sector sectors bytes flags created taken sent done";

fn detect(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    words::<8>(line, EXPECTED).is_ok_and(|spans| {
        spans[..4].iter().all(|span| whole(line, *span, "").is_ok())
            && spans[4..].iter().all(|span| duration(line, *span, Unit::Seconds, "").is_ok())
    })
}

fn open(
    inputs: Vec<Input>,
    options: &ReadOptions,
    format: &Format,
    unit: Unit,
) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, format)?;
    let lines = Lines { file: Some(input.volume_name()), unit };
    Ok(Box::new(LineSource::open(&input, lines, options.order(format.window_records), options.lenient)?))
}

struct Lines {
    /// The name of the volume, until it is told.
    file: Option<String>,
    unit: Unit,
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let [sector, sectors, bytes, flags, created, taken, sent, done] = words(line, EXPECTED)?;
        let (start, _) = sector_extent(whole(line, sector, "sector")?, 0, sector.0)?;
        whole(line, sectors, "number of sectors")?;
        let extent = crate::reader::number::byte_extent(start, whole(line, bytes, "bytes")?, sector.0)?;
        let operation = match text(line, flags) {
            b"0" | b"4" => Operation::Read,
            b"1" | b"5" => Operation::Write,
            _ => {
                let value = whole(line, flags, "flags")?;
                return Err(Fault::new(flags.0, format!("flags {value} are not known")).expected("0, 1, 4 or 5"));
            }
        };
        let nanos = duration(line, created, self.unit, "time created")?;
        duration(line, taken, self.unit, "time taken")?;
        duration(line, sent, self.unit, "time sent")?;
        let end = duration(line, done, self.unit, "time done")?;
        let Some(latency) = end.checked_sub(nanos) else {
            return Err(Fault::new(done.0, "the request was done before it was created"));
        };
        if let Some(name) = self.file.take() {
            names.streams.push(name.clone());
            names.volumes.push(name);
        }
        let latency = Some(Nanos(latency));
        Ok(Some(Record { latency, ..Record::plain(Nanos(nanos), extent, operation, 0) }))
    }
}
