//! What the replayers of FlashNet and Heimdall write: requests with the latency that a drive answered with.

use ioweir_core::{Nanos, Operation};

use crate::reader::RawSource;
use crate::reader::fields::{Unit, choice, columns, duration, whole};
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::number::{Fault, Faulty, byte_extent, digits};
use crate::reader::order::WINDOW_RECORDS;
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "flashnet-csv",
    title: "FlashNet and Heimdall replay CSV, with measured latencies",
    doc: "\
No header. One request a line: `trace_ms,latency_us,op,size,offset,submit_ms,returned`.

| column | unit | meaning |
|---|---|---|
| trace_ms | milliseconds | when the replayed trace asked for it; not kept |
| latency_us | microseconds | becomes the latency |
| op | | 1 is a read, 0 a write |
| size, offset | bytes | extent; size stands first |
| submit_ms | milliseconds | when the replayer submitted it: the time |
| returned | bytes | what the drive returned; less than size is an error |

Lines stand in the order of completion. They are put in the order of submission within a window of 4096 records, which is more
than a replayer keeps outstanding; a line that is later than that is an error: sort such a file by its sixth column before. The
file is one volume and one stream.",
    window_records: WINDOW_RECORDS,
    ambiguous: false,
    detect,
    open,
    write: None,
};

const EXPECTED: &str = "trace_ms,latency_us,op,size,offset,submit_ms,returned";
const OPERATIONS: &[(&str, Operation)] = &[("1", Operation::Read), ("0", Operation::Write)];

fn detect(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Ok([trace, latency, kind, size, offset, submit, returned]) = columns(line, b',', EXPECTED) else {
        return false;
    };
    let time = |span| duration(line, span, Unit::Milliseconds, "").is_ok();
    let number = |span: (usize, usize)| digits(&line[span.0..span.1]).is_some();
    time(trace) && time(submit) && [latency, size, offset, returned].into_iter().all(number) && number(kind)
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, &FORMAT)?;
    let format = Lines { file: Some(input.volume_name()) };
    Ok(Box::new(LineSource::open(&input, format, options.order(FORMAT.window_records), options.lenient)?))
}

struct Lines {
    /// The name of the volume, until it is told.
    file: Option<String>,
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let [trace, latency, kind, size, offset, submit, returned] = columns(line, b',', EXPECTED)?;
        duration(line, trace, Unit::Milliseconds, "trace_ms")?;
        let latency_nanos = duration(line, latency, Unit::Microseconds, "latency_us")?;
        let operation = choice(line, kind, "op", OPERATIONS)?;
        let length = whole(line, size, "size")?;
        let extent = byte_extent(whole(line, offset, "offset")?, length, offset.0)?;
        let nanos = duration(line, submit, Unit::Milliseconds, "submit_ms")?;
        let moved = whole(line, returned, "returned")?;
        if moved != length {
            return Err(Fault::new(returned.0, format!("the drive returned {moved} bytes of {length}"))
                .expected("a request that was served in full")
                .hint("read leniently to leave failed requests out"));
        }
        if let Some(name) = self.file.take() {
            names.streams.push(name.clone());
            names.volumes.push(name);
        }
        let latency = Some(Nanos(latency_nanos));
        Ok(Some(Record { latency, ..Record::plain(Nanos(nanos), extent, operation, 0) }))
    }
}
