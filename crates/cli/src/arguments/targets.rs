//! Arguments of `advise targets`.

use clap::Args;
use ioweir_measure::targets::TargetsSpec;

use super::OutputArguments;
use crate::flags::KeyFlags;

#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  ioweir advise targets examples/targets.toml --fast 100GiB\n\nClasses with `latency` have a promise, and are admitted \
in the order of the file. Everything is simulated; nothing is set."
)]
pub(crate) struct TargetsArguments {
    /// Experiment (TOML): a tiered array, and the tenants as classes
    #[arg(value_name = "SPEC")]
    pub(crate) experiment: String,

    #[command(flatten)]
    pub(crate) keys: KeyFlags<TargetsSpec>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// No progress bar
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,
}
