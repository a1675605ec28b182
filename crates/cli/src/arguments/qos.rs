//! Arguments of `advise qos`.

use std::path::PathBuf;

use clap::Args;
use ioweir_measure::isolation::QosSpec;

use super::OutputArguments;
use crate::flags::KeyFlags;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir advise qos own.toml --p99 2ms\n  ioweir advise qos hdd --p99 200ms --weight 1000\n\nThe lines to apply and \
to undo are printed; nothing is set."
)]
pub(crate) struct QosArguments {
    /// Device that tenants share: a preset (`ioweir doc device` lists them) or a TOML file
    #[arg(value_name = "DEVICE", required_unless_present = "spec")]
    pub(crate) device: Option<String>,

    /// Spec file (TOML) to start from; `ioweir show FILE` prints it with every default
    #[arg(long, value_name = "FILE", help_heading = "What is searched")]
    pub(crate) spec: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) keys: KeyFlags<QosSpec>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// No progress bar
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,
}
