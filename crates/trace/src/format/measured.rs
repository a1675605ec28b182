//! Requests measured on a disk, as DiskSim's validation reads them.

use ioweir_core::{Nanos, Operation};

use crate::reader::RawSource;
use crate::reader::fields::{Unit, choice, duration, whole, words};
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::number::{Fault, Faulty, sector_extent};
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "disksim-measured",
    title: "DiskSim validation text: requests measured on a disk",
    doc: "\
No header. One request a line, between blanks: `R|W Hit|Miss sector sectors service gap`.

| column | unit | meaning |
|---|---|---|
| R or W | | operation |
| Hit or Miss | | whether the disk's cache was expected to serve it; not kept |
| sector, sectors | 512 bytes | extent |
| service | microseconds, with decimals | becomes the latency |
| gap | microseconds, with decimals | from this arrival to the next |

The first request is at time zero; the gap of the last is to nothing. What is below a nanosecond is dropped from each gap. In
some files each request was sent when the one before was done, so that gaps follow the disk. The file is one volume and one
stream.",
    window_records: 0,
    ambiguous: false,
    detect: |head| {
        ["R Hit", "R Miss", "W Hit", "W Miss"].iter().any(|start| {
            head.strip_prefix(start.as_bytes()).is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_whitespace))
        })
    },
    open,
    write: None,
};

const EXPECTED: &str = "R|W Hit|Miss sector sectors service gap";
const OPERATIONS: &[(&str, Operation)] = &[("R", Operation::Read), ("W", Operation::Write)];

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, &FORMAT)?;
    let format = Lines { file: Some(input.volume_name()), now: 0 };
    Ok(Box::new(LineSource::open(&input, format, options.order(FORMAT.window_records), options.lenient)?))
}

struct Lines {
    /// The name of the volume, until it is told.
    file: Option<String>,
    /// When the next request arrives.
    now: u64,
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let [kind, cache, sector, sectors, service, gap] = words(line, EXPECTED)?;
        let operation = choice(line, kind, "operation", OPERATIONS)?;
        choice(line, cache, "cache", &[("Hit", ()), ("Miss", ())])?;
        let count = whole(line, sectors, "number of sectors")?;
        let extent = sector_extent(whole(line, sector, "sector")?, count, sector.0)?;
        let latency = Some(Nanos(duration(line, service, Unit::Microseconds, "service")?));
        let gap_nanos = duration(line, gap, Unit::Microseconds, "gap")?;
        let time = Nanos(self.now);
        let next = self.now.checked_add(gap_nanos);
        self.now = next.ok_or_else(|| Fault::new(gap.0, "the gaps do not fit 64 bits of nanoseconds"))?;
        if let Some(name) = self.file.take() {
            names.streams.push(name.clone());
            names.volumes.push(name);
        }
        Ok(Some(Record { latency, ..Record::plain(time, extent, operation, 0) }))
    }
}
