//! The arguments of `validate`.

use clap::Args;

use super::{FoldArguments, OutputArguments, ReadingArguments};

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir validate --device own.toml seen.csv --export report.html\n  ioweir validate \
--device hdd-15k cheetah15k5.trace.gz --reference 0.297ms\n  ioweir validate disksim-measured\n\nExits with 3 if a model \
misses its gate, 1.1 times the demerit of the reference; with 1 if nothing was compared."
)]
pub(crate) struct ValidateArguments {
    /// Trace with latencies for --device; without it, the folder of DiskSim's measured traces, for the presets
    #[arg(value_name = "TRACE|FOLDER", required = true)]
    pub(crate) inputs: Vec<String>,

    /// Preset or device file that models the device of the trace
    #[arg(long, value_name = "PRESET|FILE")]
    pub(crate) device: Option<String>,

    /// Demerit that another model reaches on this trace, such as 0.297ms; at most 1.1 times as much passes
    #[arg(long, value_name = "TIME", requires = "device")]
    pub(crate) reference: Option<ioweir_config::Duration>,

    /// How requests are sent: `closed` is one at a time, each a think time after the one before, `arrivals` when they were
    /// submitted, `released` each after as many completions as before it, and as long after the last [default: closed if none
    /// of the trace overlap, released if they waited for one of so many places]
    #[arg(long, value_name = "KIND", value_parser = ["closed", "arrivals", "released"], requires = "device")]
    pub(crate) load: Option<String>,

    /// Write every request with its measured and modelled response time to a file; the suffix selects the form, .csv or
    /// .parquet
    #[arg(long, value_name = "FILE", requires = "device", help_heading = "Output")]
    pub(crate) requests: Option<String>,

    #[command(flatten)]
    pub(crate) reading: ReadingArguments,

    #[command(flatten)]
    pub(crate) folding: FoldArguments,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
