//! Arguments of `advise`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ioweir_measure::advise::AdviseSpec;

use super::{OutputArguments, QosArguments, ScorecardArguments, TargetsArguments};
use crate::flags::KeyFlags;

#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  ioweir advise seen.parquet --device own.toml --recorded-under mq-deadline\n  \
ioweir advise web.csv.gz --device ssd-970pro --goal read-p99 --quick\n  ioweir advise hdd --bound read-p99=50ms\n  ioweir advise qos own.toml --p99 2ms\n\nA device alone \
is advised for generated traffic. What is advised is printed as commands; nothing is set."
)]
pub(crate) struct AdviseArguments {
    #[command(subcommand)]
    pub(crate) verb: Option<AdviseVerb>,

    /// Trace files, or folders of them, one after another; mix:NAME generates traffic. Or a device alone: a preset or a device file,
    /// which is then advised for all generated mixes
    #[arg(value_name = "TRACE|DEVICE", required_unless_present = "spec")]
    pub(crate) inputs: Vec<String>,

    /// Spec file (TOML) to start from; `ioweir show FILE` prints it with every default
    #[arg(long, value_name = "FILE", help_heading = "What is advised")]
    pub(crate) spec: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) keys: KeyFlags<AdviseSpec>,

    /// A quick look: 100 runs and 20 rounds, unless they are given
    #[arg(long, help_heading = "What is tried")]
    pub(crate) quick: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// No progress bar
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AdviseVerb {
    /// Score schedulers by how they isolate tenants that share a device: overhead, fairness, protection, bursts, waits
    Scorecard(ScorecardArguments),
    /// Search Linux's io.cost.qos: the settings with which a tenant keeps a stated p99 beside busy ones
    Qos(QosArguments),
    /// Say which latency targets of tenants a tiered array can keep, with which setting, or what prevents it
    Targets(TargetsArguments),
}
