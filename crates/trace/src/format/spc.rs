//! The SPC trace file of the UMass repository: `ASU,LBA,Size,Opcode,Timestamp`. The reading half; `spc_write.rs` is the other.

use ioweir_core::{Nanos, Operation, SECTOR_BYTES};

use crate::reader::RawSource;
use crate::reader::fields::{Unit, choice, duration, first_columns, text, whole};
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::names::Volumes;
use crate::reader::number::{Fault, Faulty, byte_extent};
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "spc",
    title: "SPC trace file (UMass Financial, WebSearch)",
    doc: "\
No header. One request a line: `ASU,LBA,Size,Opcode,Timestamp`, and further columns that are not looked at.

| column | unit | meaning |
|---|---|---|
| ASU | | becomes the volume: each has addresses of its own |
| LBA | blocks of 512 bytes | offset |
| Size | bytes | length; zero is legal, and so is what is not whole blocks |
| Opcode | | `R` or `r`, `W` or `w` |
| Timestamp | seconds, with decimals | time since the trace began; what is below a nanosecond is dropped |

Blanks may follow a comma. Each volume is one stream; there is no wall clock and no latency.

Written with nine decimals; volumes become ASU numbers in the order of their appearance, an offset must be whole blocks, and
discards and flushes, which the format does not know, are left out.",
    window_records: 0,
    ambiguous: false,
    detect,
    open,
    write: Some(crate::writer::spc::WRITER),
};

const EXPECTED: &str = "ASU,LBA,Size,Opcode,Timestamp";
const OPCODES: &[(&str, Operation)] =
    &[("R", Operation::Read), ("W", Operation::Write), ("r", Operation::Read), ("w", Operation::Write)];

fn detect(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    first_columns::<5>(line, b',', EXPECTED).is_ok_and(|[unit, block, size, opcode, time]| {
        [unit, block, size].into_iter().all(|span| whole(line, span, "").is_ok())
            && choice(line, opcode, "", OPCODES).is_ok()
            && duration(line, time, Unit::Seconds, "").is_ok()
    })
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, &FORMAT)?;
    let format = Lines { volumes: Volumes::default() };
    Ok(Box::new(LineSource::open(&input, format, options.order(FORMAT.window_records), options.lenient)?))
}

struct Lines {
    volumes: Volumes,
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let [unit, block, size, opcode, time] = first_columns(line, b',', EXPECTED)?;
        whole(line, unit, "ASU")?;
        let first = whole(line, block, "LBA")?;
        let start = first.checked_mul(SECTOR_BYTES);
        let start = start.ok_or_else(|| Fault::new(block.0, format!("LBA {first} lies beyond 2^64 bytes")))?;
        let extent = byte_extent(start, whole(line, size, "Size")?, block.0)?;
        let operation = choice(line, opcode, "Opcode", OPCODES)?;
        let nanos = duration(line, time, Unit::Seconds, "Timestamp")?;
        let unit = text(line, unit);
        let volume = self.volumes.with_stream(unit, names, || String::from_utf8_lossy(unit).into_owned())?;
        Ok(Some(Record::plain(Nanos(nanos), extent, operation, volume)))
    }
}
