//! Arguments of `compare`, and of all verbs that read traces.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap_complete::engine::ArgValueCandidates;
use ioweir_lab::compare::{Depth, Goal};

use super::{OutputArguments, candidates};

const COMPARE_EXAMPLES: &str = "\
Examples:
  ioweir compare grep.blktrace --scheduler noop,cfq,bid-hdd
  ioweir compare capture.fio --device hdd --load recorded,x10,closed:32 --export report.html
  ioweir compare web.csv.gz --volume hm_0 --scheduler bid-hdd,bid-hdd:wait=2ms --json -
  ioweir compare --spec night.toml --seed 7";

/// Reads a seed.
pub(crate) fn seed(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "a seed is a whole number, such as 7; several are separated by commas: 1,2,3")
}

/// Reads a goal; help lists them all.
pub(crate) fn goals() -> impl TypedValueParser<Value = Goal> {
    PossibleValuesParser::new(Goal::ALL.map(Goal::name)).try_map(|name| name.parse::<Goal>())
}

/// Every flag but the outputs overrides the same key of `--spec`.
#[derive(Args, Debug)]
#[command(after_help = COMPARE_EXAMPLES)]
pub(crate) struct CompareArguments {
    /// Trace files, or folders of them; the per-processor files of one blktrace capture count as one trace; mix:NAME
    /// generates traffic
    #[arg(value_name = "TRACE", required_unless_present = "spec")]
    pub(crate) traces: Vec<String>,

    /// Comparison file (TOML) to start from; `ioweir show FILE` prints it with every default
    #[arg(long, value_name = "FILE", help_heading = "What is compared")]
    pub(crate) spec: Option<PathBuf>,

    /// Devices, separated by commas: presets (`ioweir doc device` lists them) or TOML files [default: hdd]
    #[arg(long, value_name = "NAME|FILE,...", value_delimiter = ',', add = ArgValueCandidates::new(candidates::devices), help_heading = "What is compared")]
    pub(crate) device: Vec<String>,

    /// Faster device for schedulers that place data on one, such as bid-hybrid [default: ssd-slc]
    #[arg(long, value_name = "NAME|FILE", add = ArgValueCandidates::new(candidates::devices), help_heading = "What is compared")]
    pub(crate) fast_device: Option<String>,

    /// Schedulers, separated by commas, parameters after colons: bid-hdd:wait=2ms [default: none,mq-deadline,kyber,bfq,clook]
    #[arg(
        long,
        value_name = "NAME[:PARAMETER=VALUE...],...",
        value_delimiter = ',',
        add = ArgValueCandidates::new(candidates::schedulers),
        help_heading = "What is compared"
    )]
    pub(crate) scheduler: Vec<String>,

    /// Loads, separated by commas: recorded (times as traced), x10 (ten times as fast), closed:32 (each
    /// stream keeps 32 requests outstanding: 57 streams keep 1,824), closed:32+100us (the next one 100 us
    /// after a completion) [default: recorded]
    #[arg(long, value_name = "LOAD,...", value_delimiter = ',', add = ArgValueCandidates::new(candidates::loads), help_heading = "What is compared")]
    pub(crate) load: Vec<String>,

    #[command(flatten)]
    pub(crate) reading: ReadingArguments,

    #[command(flatten)]
    pub(crate) folding: FoldArguments,

    /// Spread the trace's data over the whole device: pieces of 128 MiB keep their order and move apart [default: addresses
    /// as traced]
    #[arg(long, help_heading = "What is compared", conflicts_with = "fold")]
    pub(crate) spread: bool,

    /// Requests that the queue holds in each direction (Linux: nr_requests) [default: 128]
    #[arg(long, value_name = "N", help_heading = "The queue")]
    pub(crate) queue_requests: Option<u32>,

    /// Largest request after merging, with unit: 512k, 1MiB (Linux: max_sectors_kb) [default: 512KiB]
    #[arg(long, value_name = "SIZE", help_heading = "The queue")]
    pub(crate) request_bytes_max: Option<String>,

    /// Do not merge adjacent requests
    #[arg(long, help_heading = "The queue")]
    pub(crate) no_merge: bool,

    /// Requests that the device holds at once; several, separated by commas, are compared; `device` is 1 for a disk without
    /// command queueing, 32 for one with it, flash and arrays [default: device]
    #[arg(long, value_name = "N,...", value_delimiter = ',', help_heading = "The queue")]
    pub(crate) depth: Vec<Depth>,

    /// Random seed, which sets the phase of the platters at the start. With several, separated by commas, each replays a
    /// block bootstrap of the trace, and reports give 95 % intervals [default: 0]
    #[arg(long, value_name = "N,...", value_delimiter = ',', allow_negative_numbers = true, value_parser = seed, help_heading = "The queue")]
    pub(crate) seed: Vec<u64>,

    /// Also report figures by stream (process, client) of the trace, the slowest first
    #[arg(long, value_name = "WHAT", value_parser = ["stream"], help_heading = "Output")]
    pub(crate) by: Option<String>,

    /// Figure that decides which scheduler is best: completion, mean (latency), read-p99 (99 % quantile of the latency of
    /// reads), or busy (working time of the device) [default: completion]
    #[arg(long, value_name = "GOAL", value_parser = goals(), help_heading = "Output")]
    pub(crate) goal: Option<Goal>,

    /// Requests that count for the goal: a class of I/O priorities (rt, be, idle), a stream (its name, command or process), or
    /// all [default: all but those of the idle class]
    #[arg(long, value_name = "CLASS|STREAM", help_heading = "Output")]
    pub(crate) of: Option<String>,

    /// Scheduler that completion times are relative to [default: the first]
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub(crate) reference: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Write one row per request (times of submission, dispatch and completion, and wait by reason) to a Parquet file;
    /// `ioweir doc requests` lists the columns
    #[arg(long, value_name = "FILE.parquet", help_heading = "Output")]
    pub(crate) requests: Option<String>,

    /// No progress bar
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,
}

/// Flags for reading traces.
#[derive(Args, Debug)]
pub(crate) struct ReadingArguments {
    /// Trace format (`ioweir doc format` lists them), or a TOML file that describes your own text format [default:
    /// recognised by content]
    #[arg(long, value_name = "NAME|FILE", add = ArgValueCandidates::new(candidates::formats), help_heading = "Reading traces")]
    pub(crate) format: Option<String>,

    /// Columns of your own text format, in order: time:s,op,offset:bytes,size:bytes (`ioweir doc format columns`)
    #[arg(long, value_name = "LIST", conflicts_with = "format", help_heading = "Reading traces")]
    pub(crate) columns: Option<String>,

    /// Only this address space (disk, volume, file) of a trace that holds several; `compare` takes `all` for each in turn
    #[arg(long, value_name = "NAME", help_heading = "Reading traces")]
    pub(crate) volume: Option<String>,

    /// Event that counts as a request, where a trace holds several: queue (as submitted), insert (as the traced scheduler
    /// received it), issue (as the device received it), complete (of captures that hold nothing else) [default: queue]
    #[arg(long, value_name = "KIND", value_parser = ["queue", "insert", "issue", "complete"], help_heading = "Reading traces")]
    pub(crate) event: Option<String>,

    /// Skip and count damaged records instead of stopping
    #[arg(long, help_heading = "Reading traces")]
    pub(crate) lenient: bool,

    /// Read the named files of a set without the others that lie beside them
    #[arg(long, help_heading = "Reading traces")]
    pub(crate) alone: bool,
}

/// Flags for putting a trace on a device.
#[derive(Args, Debug)]
pub(crate) struct FoldArguments {
    /// Fold requests past the end of the device onto it: addresses begin anew at its end [default: an error]
    #[arg(long, help_heading = "Reading traces")]
    pub(crate) fold: bool,
}
