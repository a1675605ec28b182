//! Arguments of `compare`.

use std::path::PathBuf;

use clap::Args;
use ioweir_lab::compare::Comparison;

use super::OutputArguments;
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
