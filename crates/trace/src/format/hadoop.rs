//! The CSV of this project's own captures: `time_s,pid,comm,op,lba,sectors`.

use std::io::Write;

use ioweir_core::{Nanos, Operation, SECTOR_BYTES};
use memchr::{memchr, memrchr};

use crate::reader::RawSource;
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::names;
use crate::reader::number::{
    Fault, Faulty, field, field32, pass, quote, scan, scan_seconds, scan_to, seconds, sector_extent,
};
use crate::reader::rwbs;
use crate::writer::losses::{Clock, Holds};
use crate::writer::{Target, TraceSink, Writer};
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

const COLUMNS: [&str; 6] = ["time_s", "pid", "comm", "op", "lba", "sectors"];

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "hadoop-csv",
    title: "CSV of block-layer events with process names, as in traces/hadoop",
    doc: "\
Header line `time_s,pid,comm,op,lba,sectors`, then one request a line.

| column | unit | meaning |
|---|---|---|
| time_s | seconds, up to nine decimals | time of the event since an origin of the capture |
| pid | | kernel task id, as blktrace reports it |
| comm | | command of that task; may hold commas; `(null)` where unknown |
| op | | letters of the block layer, by position: `[F]` flush before, `R` `W` `D`, then `F` durable, `A` read-ahead, `S` synchronous, `M` metadata |
| lba | sectors of 512 bytes | first sector |
| sectors | sectors of 512 bytes | length; zero for a flush without data |

A stream is a pid with its command; the volume is the file. There is no wall clock and no latency.
Written with six decimals where the time is whole microseconds and nine where it is not. One volume, whole sectors only; a
stream that is not a pid and a command becomes its number and name.",
    window_records: 0,
    ambiguous: false,
    detect: |head| head.starts_with(b"time_s,"),
    open,
    write: Some(Writer {
        open: |target| Ok(Box::new(Rows { target, header_written: false, volume: None, line: Vec::new() })),
        // The volume is called like the file.
        holds: Holds {
            volume_name: |_, _| false,
            latency_unit_nanos: None,
            clock: Clock::Dropped,
            ..Holds::ALL
        },
    }),
};

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, &FORMAT)?;
    let format = Lines { header_read: false, volume_name: input.volume_name(), processes: names::Processes::new() };
    Ok(Box::new(LineSource::open(&input, format, options.order(FORMAT.window_records), options.lenient)?))
}

struct Lines {
    header_read: bool,
    volume_name: String,
    processes: names::Processes,
}

impl LineFormat for Lines {
    #[inline]
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        if !self.header_read {
            self.header_read = true;
            names.volumes.push(std::mem::take(&mut self.volume_name));
            return header(line).map(|()| None);
        }
        let fields = match fast(line) {
            Some(fields) => fields,
            None => careful(line)?,
        };
        let (op_start, op_end) = fields.op;
        let (offset_bytes, length_bytes) = sector_extent(fields.sector, fields.sectors, op_end + 1)?;
        let meaning = rwbs::parse(&line[op_start..op_end], length_bytes).map_err(|fault| fault.shifted(op_start))?;
        let Some(operation) = meaning.operation else {
            return Err(Fault::new(op_start, "operation `N` moves no data and is no flush"));
        };
        let stream = self.processes.stream(fields.pid, &line[fields.comm.0..fields.comm.1], names)?;
        let flush = operation == Operation::Flush;
        Ok(Some(Record {
            time: Nanos(fields.nanos),
            offset_bytes: if flush { 0 } else { offset_bytes },
            length_bytes: if flush { 0 } else { length_bytes },
            operation,
            flags: meaning.flags,
            stream,
            volume: 0,
            latency: None,
        }))
    }
}

/// The columns of a line; those that are text as places in it.
#[derive(Debug, PartialEq, Eq)]
struct Fields {
    nanos: u64,
    pid: u32,
    comm: (usize, usize),
    op: (usize, usize),
    sector: u64,
    sectors: u64,
}

/// A line without surprises, in one pass from the front: a command that holds a comma, or anything that is wrong, is left
/// to [`careful`].
#[inline]
fn fast(line: &[u8]) -> Option<Fields> {
    let mut at = 0;
    let nanos = scan_seconds(line, &mut at)?;
    pass(line, &mut at, b',')?;
    let pid = u32::try_from(scan_to(line, &mut at, b',')?).ok()?;
    let comm = (at, at + line[at..].iter().position(|&byte| byte == b',')?);
    let op_start = comm.1 + 1;
    let op = (op_start, op_start + line[op_start..].iter().position(|&byte| byte == b',')?);
    at = op.1 + 1;
    let sector = scan_to(line, &mut at, b',')?;
    let sectors = scan(line, &mut at)?;
    (at == line.len()).then_some(Fields { nanos, pid, comm, op, sector, sectors })
}

/// Any line. The command may hold commas: two columns are cut off in front of it and three behind.
fn careful(line: &[u8]) -> Faulty<Fields> {
    let cut = (|| {
        let time_end = memchr(b',', line)?;
        let pid_end = time_end + 1 + memchr(b',', &line[time_end + 1..])?;
        let lba_end = memrchr(b',', line)?;
        let op_end = memrchr(b',', &line[..lba_end])?;
        let comm_end = memrchr(b',', &line[..op_end])?;
        (comm_end > pid_end).then_some([time_end, pid_end, comm_end, op_end, lba_end])
    })();
    let Some([time_end, pid_end, comm_end, op_end, lba_end]) = cut else { return Err(columns_missing(line)) };
    Ok(Fields {
        nanos: seconds(line, 0, time_end, "time_s")?,
        pid: field32(line, time_end + 1, pid_end, "pid")?,
        comm: (pid_end + 1, comm_end),
        op: (comm_end + 1, op_end),
        sector: field(line, op_end + 1, lba_end, "lba")?,
        sectors: field(line, lba_end + 1, line.len(), "sectors")?,
    })
}

#[cold]
fn header(line: &[u8]) -> Faulty<()> {
    let expected = COLUMNS.join(",");
    let mut at = 0;
    let mut count = 0;
    for (place, name) in line.split(|&byte| byte == b',').enumerate() {
        let known = COLUMNS.iter().position(|column| column.as_bytes() == name);
        match known {
            Some(known) if known == place => {}
            Some(_) => return Err(Fault::new(at, format!("column {} is out of place", quote(name))).expected(expected)),
            None => return Err(Fault::new(at, format!("unknown column {}", quote(name))).expected(expected)),
        }
        at += name.len() + 1;
        count += 1;
    }
    match COLUMNS.get(count) {
        Some(missing) => Err(Fault::new(line.len(), format!("column `{missing}` is missing")).expected(expected)),
        None => Ok(()),
    }
}

#[cold]
fn columns_missing(line: &[u8]) -> Box<Fault> {
    let count = line.split(|&byte| byte == b',').count();
    Fault::new(line.len(), format!("the line has {count} columns")).expected("six: time_s,pid,comm,op,lba,sectors")
}

struct Rows {
    target: Target,
    header_written: bool,
    volume: Option<u32>,
    line: Vec<u8>,
}

impl Rows {
    fn record(&mut self, record: &Record, names: &Names) -> Result<(), TraceError> {
        let refuse = |what: String, hint: &str| self.target.error(format!("hadoop-csv cannot hold {what}")).hint(hint);
        if *self.volume.get_or_insert(record.volume) != record.volume {
            return Err(refuse("more than one volume".to_owned(), "choose one volume, or write parquet"));
        }
        if !record.offset_bytes.is_multiple_of(SECTOR_BYTES) || !record.length_bytes.is_multiple_of(SECTOR_BYTES) {
            let extent = format!("offset {} + length {} bytes", record.offset_bytes, record.length_bytes);
            return Err(refuse(format!("{extent}: not whole sectors"), "write parquet"));
        }
        let (whole, nanos) = (record.time.0 / 1_000_000_000, record.time.0 % 1_000_000_000);
        self.line.clear();
        if nanos % 1000 == 0 {
            write!(self.line, "{whole}.{:06},", nanos / 1000).map_err(|error| self.target.broken(&error))?;
        } else {
            write!(self.line, "{whole}.{nanos:09},").map_err(|error| self.target.broken(&error))?;
        }
        let (pid, command) = process(record.stream.0, names);
        write!(self.line, "{pid},{command},").map_err(|error| self.target.broken(&error))?;
        rwbs::write(record.operation, record.flags, &mut self.line);
        let sector = record.offset_bytes / SECTOR_BYTES;
        let sectors = record.length_bytes / SECTOR_BYTES;
        writeln!(self.line, ",{sector},{sectors}").map_err(|error| self.target.broken(&error))?;
        self.target.write_all(&self.line)
    }
}

/// Pid and command of a stream: as its name has them, else its number and name.
pub(crate) fn process(stream: u32, names: &Names) -> (u32, String) {
    let name = names.streams.get(stream as usize).map_or("", String::as_str);
    let (pid, command) = name.split_once(' ').unwrap_or((name, "(null)"));
    let (pid, command) = match pid.parse::<u32>() {
        Ok(pid) => (pid, command),
        Err(_) => (stream, if name.is_empty() { "(null)" } else { name }),
    };
    (pid, command.replace(['\n', '\r'], " "))
}

impl TraceSink for Rows {
    fn write_batch(&mut self, batch: &[Record], names: &Names) -> Result<(), TraceError> {
        if !self.header_written {
            self.header_written = true;
            self.target.write_all(format!("{}\n", COLUMNS.join(",")).as_bytes())?;
        }
        batch.iter().try_for_each(|record| self.record(record, names))
    }

    fn finish(mut self: Box<Self>, _: &Names, _: Option<i128>) -> Result<(), TraceError> {
        self.target.flush()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_fast_way_and_the_careful_way_agree(
            line in "([0-9]{1,3}[.][0-9]{1,9}|[0-9.x-]{0,6}),[0-9]{1,11},[a-z, ]{0,6},[A-Z]{0,3},[0-9]{1,20},[0-9x]{1,5}"
        ) {
            if let Some(fields) = fast(line.as_bytes()) {
                prop_assert_eq!(careful(line.as_bytes()).ok(), Some(fields));
            }
        }
    }
}
