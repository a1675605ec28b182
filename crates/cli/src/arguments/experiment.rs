//! Arguments of `simulate`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use super::compare::seed;
use super::{OutputArguments, candidates};

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir simulate examples/noisy-neighbour.toml\n  ioweir simulate examples/table-2.toml --export report.html\n  ioweir simulate examples/noisy-neighbour.toml --explain database\n\nExits with 3 if an expectation of the file is not met."
)]
pub(crate) struct SimulateArguments {
    /// Experiment file (TOML); `ioweir doc simulate` lists its keys, `ioweir show FILE` prints it with every default
    #[arg(value_name = "SPEC")]
    pub(crate) spec: String,

    /// Schedulers instead of the file's, separated by commas, parameters after colons
    #[arg(long, value_name = "NAME[:PARAMETER=VALUE...],...", value_delimiter = ',', add = ArgValueCandidates::new(candidates::schedulers), help_heading = "What is run")]
    pub(crate) scheduler: Vec<String>,

    /// Seeds instead of the file's, separated by commas
    #[arg(long, value_name = "N,...", value_delimiter = ',', allow_negative_numbers = true, value_parser = seed, help_heading = "What is run")]
    pub(crate) seeds: Vec<u64>,

    /// Fold requests of traces past the end of their device onto it: addresses begin anew at its end [default: an error]
    #[arg(long, help_heading = "What is run")]
    pub(crate) fold: bool,

    /// Run nothing but the first scheduler and seed, and say in words why a request waited: its number, from 0 in order of arrival, or the
    /// slowest one of a class after the warm-up, or of all classes
    #[arg(long, value_name = "N|CLASS|all", conflicts_with_all = ["goal", "of", "by", "json", "export", "requests"], help_heading = "What is run")]
    pub(crate) explain: Option<String>,

    /// Figure of each class by which the best scheduler is named: mean or read-p99 [default: the file's]
    #[arg(long, value_name = "GOAL", help_heading = "Output")]
    pub(crate) goal: Option<String>,

    /// Class that counts for the goal, or all [default: the file's, or all but background work and the idle class]
    #[arg(long, value_name = "CLASS", help_heading = "Output")]
    pub(crate) of: Option<String>,

    /// Also report figures by stream (client, or process of a trace), the slowest first
    #[arg(long, value_name = "WHAT", value_parser = ["stream"], help_heading = "Output")]
    pub(crate) by: Option<String>,

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
