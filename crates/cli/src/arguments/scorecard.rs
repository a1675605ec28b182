//! Arguments of `advise scorecard`.

use std::path::PathBuf;

use clap::Args;
use ioweir_measure::isolation::ScorecardSpec;

use super::OutputArguments;
use crate::flags::KeyFlags;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir advise scorecard own.toml\n  ioweir advise scorecard hdd --scheduler mq-deadline,bfq,sfq+mq-deadline \
--export card.html\n\nEach scheduler is tried with weak, medium and strong settings; what they are is said below the tables."
)]
pub(crate) struct ScorecardArguments {
    /// Device that tenants share: a preset (`ioweir doc device` lists them) or a TOML file
    #[arg(value_name = "DEVICE", required_unless_present = "spec")]
    pub(crate) device: Option<String>,

    /// Spec file (TOML) to start from; `ioweir show FILE` prints it with every default
    #[arg(long, value_name = "FILE", help_heading = "What is scored")]
    pub(crate) spec: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) keys: KeyFlags<ScorecardSpec>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// No progress bar
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,
}
