//! Arguments of `sweep`.

use clap::{Args, Subcommand};

use super::OutputArguments;

#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  ioweir sweep examples/sweep.toml --output runs\n  ioweir sweep status runs\n  ioweir sweep merge runs \
--export table.parquet --export page.html\n\nThe same command continues a sweep that was stopped: finished cells stay in \
the folder. docs/sweeps.md has recipes for Slurm, GNU parallel and Snakemake.\nExits with 1 if a cell failed."
)]
pub(crate) struct SweepArguments {
    #[command(subcommand)]
    pub(crate) verb: Option<SweepVerb>,

    /// Sweep file (TOML): a comparison or experiment, and values for its keys; `ioweir doc sweep` lists the keys
    #[arg(value_name = "SWEEP", required = true)]
    pub(crate) spec: Option<String>,

    /// Folder for the finished cells [default: the name of the sweep file, without its suffix]
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<String>,

    /// Run only part I of N of the cells, from 1/N to N/N; all parts together run every cell once
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<String>,

    /// Run on this many threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    /// No progress bar
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SweepVerb {
    /// Say how many cells of a sweep are done, missing and failed
    Status(SweepStatusArguments),
    /// Put all cells of a sweep into one table, and say which choice is best in each group
    Merge(SweepMergeArguments),
}

#[derive(Args, Debug)]
pub(crate) struct SweepStatusArguments {
    /// Folder of the sweep
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: String,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ioweir sweep merge runs --export page.html --metric latency_mean_seconds")]
pub(crate) struct SweepMergeArguments {
    /// Folder of the sweep
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: String,

    /// Column by which the best is chosen and that the charts show [default: that of the goal; latency_p99_seconds of an
    /// experiment]
    #[arg(long, value_name = "COLUMN", conflicts_with = "goal")]
    pub(crate) metric: Option<String>,

    /// Figure by which the best is chosen: completion, mean, read-p99 or busy [default: the comparison's]
    #[arg(long, value_name = "GOAL")]
    pub(crate) goal: Option<String>,

    /// Class of an experiment that counts. A comparison says itself which requests count; all stands for all of them
    #[arg(long, value_name = "CLASS")]
    pub(crate) of: Option<String>,

    /// Make a table of the cells that are done, although others are missing
    #[arg(long)]
    pub(crate) partial: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
