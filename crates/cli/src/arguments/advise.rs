//! Arguments of `advise`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use ioweir_lab::compare::Goal;
use ioweir_measure::advise::Bound;

use super::compare::goals;
use super::{FoldArguments, OutputArguments, ReadingArguments, candidates};

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir advise seen.parquet --device my-disk.toml --recorded-under mq-deadline --export advice.html\n  \
ioweir advise web.csv.gz --device ssd-970pro --goal read-p99 --quick\n  ioweir advise hdd --bound read-p99=50ms\n\nA device alone \
is advised for generated traffic. What is advised is printed as commands; nothing is set."
)]
pub(crate) struct AdviseArguments {
    /// Trace files, or folders of them, one after another; mix:NAME generates traffic. Or a device alone: a preset or a device file,
    /// which is then advised for all generated mixes
    #[arg(value_name = "TRACE|DEVICE", required_unless_present = "spec")]
    pub(crate) inputs: Vec<String>,

    /// Spec file (TOML) to start from; `ioweir show FILE` prints it with every default
    #[arg(long, value_name = "FILE", help_heading = "What is advised")]
    pub(crate) spec: Option<PathBuf>,

    /// Device: a preset (`ioweir doc device` lists them) or a TOML file; of a calibrated one, devices are drawn from the
    /// intervals of its parameters
    #[arg(long, value_name = "NAME|FILE", add = ArgValueCandidates::new(candidates::devices), help_heading = "What is advised")]
    pub(crate) device: Option<String>,

    /// Name of the device on the host, for the commands: sda, nvme0n1 [default: what the trace says, or DEVICE]
    #[arg(long, value_name = "NAME", help_heading = "What is advised")]
    pub(crate) host_device: Option<String>,

    /// Scheduler that the trace was recorded under, with its parameters: what everything is compared with [default: what
    /// the trace says, or what Linux chooses: mq-deadline for a disk and none for flash]
    #[arg(long, value_name = "NAME[:PARAMETER=VALUE...]", add = ArgValueCandidates::new(candidates::schedulers), help_heading = "What is advised")]
    pub(crate) recorded_under: Option<String>,

    /// Figure that is to be best: completion, mean (latency), read-p99 (99 % quantile of the latency of reads), or busy (working time
    /// of the device) [default: completion]
    #[arg(long, value_name = "GOAL", value_parser = goals(), help_heading = "What is advised")]
    pub(crate) goal: Option<Goal>,

    /// Bound that must not be exceeded under the recorded load: read-p99=20ms
    #[arg(long, value_name = "GOAL=TIME", help_heading = "What is advised")]
    pub(crate) bound: Option<Bound>,

    /// Schedulers to choose among, separated by commas, parameters after colons [default: none,mq-deadline,kyber,bfq]
    #[arg(long, value_name = "NAME[:PARAMETER=VALUE...],...", value_delimiter = ',', add = ArgValueCandidates::new(candidates::schedulers), help_heading = "What is tried")]
    pub(crate) scheduler: Vec<String>,

    /// Choose among every elevator, and pairs of sfq above those of Linux; most of them only `ioweir serve` has
    #[arg(long, conflicts_with = "scheduler", help_heading = "What is tried")]
    pub(crate) all: bool,

    /// Open load: recorded, or x10 for ten times as fast [default: recorded]
    #[arg(long, value_name = "LOAD", help_heading = "What is tried")]
    pub(crate) load: Option<String>,

    /// Requests that each stream keeps outstanding in the closed loop [default: as many as give 16 together]
    #[arg(long, value_name = "N", help_heading = "What is tried")]
    pub(crate) closed: Option<u32>,

    /// Most runs of the search [default: 400]
    #[arg(long, value_name = "RUNS", help_heading = "What is tried")]
    pub(crate) budget: Option<u32>,

    /// Samples of the half of the trace that the search does not see, and of calibrated devices, that judge [default: 100]
    #[arg(long, value_name = "N", help_heading = "What is tried")]
    pub(crate) rounds: Option<u32>,

    /// A quick look: 100 runs and 20 rounds, unless they are given
    #[arg(long, help_heading = "What is tried")]
    pub(crate) quick: bool,

    /// Random seed [default: 0]
    #[arg(long, value_name = "N", help_heading = "What is tried")]
    pub(crate) seed: Option<u64>,

    #[command(flatten)]
    pub(crate) reading: ReadingArguments,

    #[command(flatten)]
    pub(crate) folding: FoldArguments,

    /// Requests that the queue holds in each direction now (Linux: nr_requests) [default: 128]
    #[arg(long, value_name = "N", help_heading = "The queue")]
    pub(crate) queue_requests: Option<u32>,

    /// Largest request after merging now, with unit (Linux: max_sectors_kb) [default: 512KiB]
    #[arg(long, value_name = "SIZE", help_heading = "The queue")]
    pub(crate) request_bytes_max: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// No progress bar
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,
}
