//! The text formats that are tables of columns, one row for each.
//!
//! Formats with headings come first, then those recognised by the shape of a line, then those that must be named. A new
//! format is a row here and a sample in the tests.

use ioweir_core::Operation;

use crate::reader::fields::Unit;
use crate::table::Role::{
    Command, Completion, Ignored, Latency, Length, Moved, Offset, Operation as Kind, Pid, Stream, Think, Time, Volume,
};
use crate::table::Value::{self, Hexadecimal, Letters, Number, ReadBit, Seconds, Size, Text, Ticks, Words};
use crate::table::{BYTES, Column, Heading, MICROSECONDS, SECONDS, SECTORS, Separator, Table, Zero, column};
use crate::writer::{hadoop, msr, spc};

const READ_WRITE: Value = Words(&[("R", Operation::Read), ("W", Operation::Write)]);
const ONE_ZERO: Value = Words(&[("1", Operation::Read), ("0", Operation::Write)]);
const ZERO_ONE: Value = Words(&[("0", Operation::Read), ("1", Operation::Write)]);

/// The columns that simulators read, in different units.
const SIMULATED: &str = "`disksim` (milliseconds, sectors), `mqsim` (nanoseconds, sectors) and `ucare` (milliseconds, bytes) have \
    the same five columns. The file does not say which it is, so you must name the format.";

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "hadoop-csv",
        title: "CSV of block-layer events with process names, as in traces/hadoop",
        heading: Heading::Required,
        columns: &[
            column("time_s", Time, Seconds).note("since an origin of the capture, with up to nine decimals"),
            column("pid", Pid, Number).note("the kernel's id of the task, as blktrace reports it"),
            column("comm", Command, Text).note("of that task; may hold commas; `(null)` where unknown"),
            column("op", Kind, Letters),
            column("lba", Offset, Size(SECTORS)),
            column("sectors", Length, Size(SECTORS)).note("zero for a flush without data"),
        ],
        window_records: 0,
        notes: "The letters are read by position: `[F]` flush before, `R` `W` `D`, then `F` durable, `A` read-ahead, `S` \
            synchronous, `M` metadata. Written with six decimals where the time is whole microseconds and nine where it is not. \
            One volume, whole sectors only; a stream that is not a pid and a command becomes its number and name.",
        write: Some(hadoop::WRITER),
        ..Table::COMMAS
    },
    Table {
        name: "systor-csv",
        title: "SYSTOR'17 CSV of a virtual desktop service",
        heading: Heading::Required,
        columns: &[
            column("Timestamp", Time, Value::Time(Unit::Seconds)).note("nine decimals, of which six are true"),
            column("Response", Latency, Value::Time(Unit::Seconds)).empty(""),
            column("IOType", Kind, READ_WRITE).empty("no response was seen, so the direction is not known"),
            column("LUN", Volume, Number).prefix("LUN"),
            column("Offset", Offset, Size(BYTES)),
            column("Size", Length, Size(BYTES)),
        ],
        clock: Zero::Unix,
        notes: "Times are UTC, file names are Japanese time (nine hours ahead). Where no response was seen the IOType is empty as \
            well: such a line is an error; read leniently to leave them out and have them counted.",
        ..Table::COMMAS
    },
    Table {
        name: "thesios-csv",
        title: "Google thesios CSV",
        separator: Separator::Quoted(b','),
        heading: Heading::Names(|found, name| found == name.as_bytes()),
        columns: &[
            column("filename", Volume, Text).note("a hash; offsets are within a file"),
            column("file_offset", Offset, Size(BYTES)),
            column("application", Stream, Text),
            column("op_type", Kind, Words(&[("READ", Operation::Read), ("WRITE", Operation::Write)])),
            column("service_class", Stream, Text).note("the quality of service that was asked for"),
            column("request_io_size_bytes", Length, Size(BYTES))
                .note("as asked for: the disk may have moved more or less"),
            column("start_time", Time, Value::Time(Unit::Seconds)).note("nine decimals"),
            column("simulated_latency", Latency, Value::Time(Unit::Seconds)),
        ],
        clock: Zero::Unix,
        notes: "Offsets are not those of a disk: files must be laid out before such a trace says anything about seeks.",
        ..Table::COMMAS
    },
    Table {
        name: "wpa-csv",
        title: "Windows Performance Analyzer, table of disk requests",
        separator: Separator::SemicolonOrComma,
        // The name may be followed by a unit in parentheses.
        heading: Heading::Names(|found, name| {
            let rest = found.strip_prefix(name.as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b" ("))
        }),
        columns: &[
            column(
                "IO Type",
                Kind,
                Words(&[("Read", Operation::Read), ("Write", Operation::Write), ("Flush", Operation::Flush)]),
            ),
            column("Process", Stream, Text),
            column("Init Time", Time, Value::Time(Unit::Seconds)).note("since the trace began"),
            column("IO Time", Latency, Value::Time(Unit::Microseconds)),
            column("Size", Length, Size(BYTES)),
            column("Min Offset", Offset, Hexadecimal).note("a flush has none"),
            column("Disk", Volume, Number).prefix("disk"),
        ],
        localised: true,
        notes: "Numbers are read as the exporting machine wrote them: where times have a comma before their decimals, points are \
            between thousands, and the other way round. Priorities and queue depths are not kept.",
        ..Table::COMMAS
    },
    Table {
        name: "msr-csv",
        title: "MSR Cambridge CSV",
        heading: Heading::Optional,
        columns: &[
            column("Timestamp", Time, Ticks(100)),
            column("Hostname", Volume, Text).note("with the number, since those repeat across hosts"),
            column("DiskNumber", Volume, Number).prefix("_"),
            column("Type", Kind, Words(&[("Read", Operation::Read), ("Write", Operation::Write)])),
            column("Offset", Offset, Size(BYTES)).note("multiples of 512, not of 4096"),
            column("Size", Length, Size(BYTES)),
            column("ResponseTime", Latency, Ticks(100)),
        ],
        clock: Zero::FileTime,
        window_records: 0,
        notes: "Several requests may share a tick. Written with whole ticks, rounded down. Only reads and writes are held; a volume \
            that is not called `host_number` becomes a disk of the host `volume`; a latency that is not known becomes 0; a trace \
            without a wall clock begins at 1970-01-01.",
        write: Some(msr::WRITER),
        ..Table::COMMAS
    },
    Table {
        name: "alibaba-csv",
        title: "Alibaba block traces of 2020",
        heading: Heading::Optional,
        columns: &[
            column("device_id", Volume, Number).note("a thousand devices are interleaved in one file"),
            column("opcode", Kind, READ_WRITE),
            column("offset", Offset, Size(BYTES)),
            column("length", Length, Size(BYTES)),
            column("timestamp", Time, Ticks(MICROSECONDS)).note("when the server received the request"),
        ],
        clock: Zero::Unix,
        ..Table::COMMAS
    },
    Table {
        name: "spc",
        title: "SPC trace file (UMass Financial, WebSearch)",
        columns: &[
            column("ASU", Volume, Number).note("each has addresses of its own"),
            column("LBA", Offset, Size(SECTORS)),
            column("Size", Length, Size(BYTES)).note("zero is legal, and so is what is not whole sectors"),
            column(
                "Opcode",
                Kind,
                Words(&[
                    ("R", Operation::Read),
                    ("W", Operation::Write),
                    ("r", Operation::Read),
                    ("w", Operation::Write),
                ]),
            ),
            column("Timestamp", Time, Value::Time(Unit::Seconds)).note("since the trace began"),
        ],
        more_columns: true,
        window_records: 0,
        notes: "Blanks may follow a comma. Written with nine decimals; volumes become ASU numbers in the order of their \
            appearance, an offset must be whole sectors, and discards and flushes, which the format does not know, are left out.",
        write: Some(spc::WRITER),
        ..Table::COMMAS
    },
    Table {
        name: "flashnet-csv",
        title: "FlashNet and Heimdall replay CSV, with measured latencies",
        columns: &[
            column("trace_ms", Ignored, Value::Time(Unit::Milliseconds)).note("when the replayed trace asked for it"),
            column("latency_us", Latency, Value::Time(Unit::Microseconds)),
            column("op", Kind, ONE_ZERO),
            column("size", Length, Size(BYTES)),
            column("offset", Offset, Size(BYTES)),
            column("submit_ms", Time, Value::Time(Unit::Milliseconds)).note("when the replayer submitted it"),
            column("returned", Moved, Size(BYTES)),
        ],
        notes: "Lines are in the order of completion. They are put in the order of submission within a window of 4096 records, \
            which is more than a replayer keeps outstanding; a line that is later than that is an error: sort such a file by its \
            sixth column before.",
        ..Table::COMMAS
    },
    Table {
        name: "fio-latency",
        title: "fio's log of latencies with offsets (lat or clat, log_offset=1)",
        columns: &[
            column("time", Completion, Ticks(1_000_000))
                .note("milliseconds since the job began, at the end of the request"),
            column("latency", Latency, Ticks(1)).note("in nanoseconds, as fio 3 writes it"),
            column(
                "direction",
                Kind,
                Words(&[("0", Operation::Read), ("1", Operation::Write), ("2", Operation::Discard)]),
            ),
            column("size", Length, Size(BYTES)).note("zero where fio averages, with log_avg_msec: then it is no trace"),
            column("offset", Offset, Size(BYTES)).note("only with log_offset=1"),
        ],
        more_columns: true,
        ambiguous: true,
        notes: "fio's logs of bandwidth and IOPS look the same, so the format must be named; they hold no requests, nor does a log \
            without offsets or with averages: `write_iolog=FILE` records requests, and `ioweir forecast` reads such logs as series. \
            Arrivals are known to the millisecond.",
        ..Table::COMMAS
    },
    Table {
        name: "disksim-measured",
        title: "DiskSim validation text: requests measured on a disk",
        columns: &[
            column("operation", Kind, READ_WRITE),
            column(
                "cache",
                Ignored,
                Words(&[
                    ("Hit", Operation::Read),
                    ("Miss", Operation::Read),
                    ("Doub", Operation::Read),
                    ("Trip", Operation::Read),
                ]),
            )
            .note("whether the disk's cache was expected to serve it, wholly or in two or three parts"),
            column("sector", Offset, Size(SECTORS)),
            column("sectors", Length, Size(SECTORS)),
            column("service", Latency, Value::Time(Unit::Microseconds)),
            column("think", Think, Value::Time(Unit::Microseconds)).note("that of the last is to nothing"),
        ],
        window_records: 0,
        notes: "The first request is at time zero. Each request was sent a think time after the one before was done: arrivals \
            follow the disk, so replay them in a closed loop, or as `ioweir calibrate --validate` does.",
        ..Table::BLANKS
    },
    Table {
        name: "fiu",
        title: "FIU traces (IODedup, SRCMap)",
        columns: &[
            column("time", Time, Ticks(1)).note("since an arbitrary start"),
            column("pid", Pid, Number),
            column("process", Command, Text).note("may hold blanks"),
            column("lba", Offset, Size(SECTORS)),
            column("size", Length, Size(SECTORS)),
            column("operation", Kind, READ_WRITE),
            column("major", Volume, Number).note("with the minor number, as `6,0`; several devices are interleaved"),
            column("minor", Volume, Number).prefix(","),
        ],
        more_columns: true,
        notes: "Any number of digests of the content follow, which are not kept.",
        ..Table::BLANKS
    },
    Table {
        name: "disksim",
        title: "DiskSim ASCII, times in milliseconds",
        columns: &[
            column("time", Time, Value::Time(Unit::Milliseconds)),
            column("device", Volume, Number),
            column("sector", Offset, Size(SECTORS)),
            column("sectors", Length, Size(SECTORS)),
            column("flags", Kind, ReadBit),
        ],
        window_records: 0,
        ambiguous: true,
        notes: SIMULATED,
        ..Table::BLANKS
    },
    Table {
        name: "mqsim",
        title: "MQSim and SSDSim ASCII, times in nanoseconds",
        columns: &[
            column("time", Time, Ticks(1))
                .note("MQSim's setting Time_Unit may say otherwise: convert such a file first"),
            column("device", Volume, Number),
            column("sector", Offset, Size(SECTORS)),
            column("sectors", Length, Size(SECTORS)),
            column("type", Kind, ONE_ZERO),
        ],
        window_records: 0,
        ambiguous: true,
        notes: SIMULATED,
        ..Table::BLANKS
    },
    Table {
        name: "ucare",
        title: "UCARE replay text, times in milliseconds and offsets in bytes",
        columns: &[
            column("time", Time, Value::Time(Unit::Milliseconds)),
            column("device", Ignored, Number).note("not meaningful in these files"),
            column("offset", Offset, Size(BYTES)),
            column("size", Length, Size(BYTES)),
            column("type", Kind, ONE_ZERO),
        ],
        window_records: 0,
        ambiguous: true,
        notes: SIMULATED,
        ..Table::BLANKS
    },
    Table {
        name: "tencent-csv",
        title: "Tencent CBS, offsets in sectors, as released",
        columns: &tencent(SECTORS),
        notes: "There is a copy with offsets in bytes, `tencent-csv-bytes`; the content does not say which, so the format must be \
            named.",
        ..TENCENT
    },
    Table {
        name: "tencent-csv-bytes",
        title: "Tencent CBS, offsets in bytes, as in cacheMon's collection",
        columns: &tencent(BYTES),
        notes: "As released, offsets are sectors, `tencent-csv`; the content does not say which, so the format must be named.",
        ..TENCENT
    },
    Table {
        name: "biotracer-s",
        title: "BIOtracer of smartphones, times in seconds",
        columns: &biotracer(Unit::Seconds),
        ..BIOTRACER
    },
    Table {
        name: "biotracer-us",
        title: "BIOtracer of smartphones, times in microseconds",
        columns: &biotracer(Unit::Microseconds),
        ..BIOTRACER
    },
    Table {
        name: "biotracer-ns",
        title: "BIOtracer of smartphones, times in nanoseconds",
        columns: &biotracer(Unit::Nanoseconds),
        ..BIOTRACER
    },
];

const TENCENT: Table = Table {
    about: "Times are whole seconds: the requests of one second have the same time, and nothing says how they lay within it. Do \
        not read latencies or queues from such a trace.",
    clock: Zero::Unix,
    // A second of the busiest files is more requests than the usual window, and the files of several servers were merged.
    window_records: 1 << 16,
    ambiguous: true,
    ..Table::COMMAS
};

const fn tencent(offset_unit_bytes: u64) -> [Column; 5] {
    [
        column("Timestamp", Time, Ticks(SECONDS)),
        column("Offset", Offset, Size(offset_unit_bytes)),
        column("Size", Length, Size(SECTORS)),
        column("IOType", Kind, ZERO_ONE),
        column("VolumeID", Volume, Number).note("thousands are interleaved"),
    ]
}

const BIOTRACER: Table = Table {
    ambiguous: true,
    notes: "The log does not state the unit of its times: name the format that has it, and look at the latencies: `biotracer-s`, \
        `biotracer-us` or `biotracer-ns`.",
    ..Table::BLANKS
};

const fn biotracer(unit: Unit) -> [Column; 8] {
    const FLAGS: Value =
        Words(&[("0", Operation::Read), ("1", Operation::Write), ("4", Operation::Read), ("5", Operation::Write)]);
    [
        column("sector", Offset, Size(SECTORS)),
        column("sectors", Ignored, Number).note("the driver adds some, bytes are right"),
        column("bytes", Length, Size(BYTES)),
        column("flags", Kind, FLAGS).note("the bit of 4 says that it did not wait"),
        column("created", Time, Value::Time(unit)),
        column("taken", Ignored, Value::Time(unit)).note("when the driver took it from its queue"),
        column("sent", Ignored, Value::Time(unit)).note("when the driver sent it to the device"),
        column("done", Completion, Value::Time(unit)),
    ]
}
