//! Arguments of `compare`, and of all verbs that read traces.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use ioweir_lab::compare::Comparison;

use super::{OutputArguments, candidates};
use crate::flags::KeyFlags;

const COMPARE_EXAMPLES: &str = "\
Examples:
  ioweir compare grep.blktrace --scheduler noop,cfq,bid-hdd
  ioweir compare capture.fio --load recorded,x10,closed:32 --export r.html
  ioweir compare web.csv.gz --scheduler bid-hdd,bid-hdd:wait=2ms --json -
  ioweir compare --spec night.toml --seeds 7";

/// Reads a seed.
pub(crate) fn seed(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "a seed is a whole number, such as 7; several are separated by commas: 1,2,3")
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

    #[command(flatten)]
    pub(crate) keys: KeyFlags<Comparison>,

    #[command(flatten)]
    pub(crate) reading: ReadingArguments,

    #[command(flatten)]
    pub(crate) folding: FoldArguments,

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
