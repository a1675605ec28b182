//! Arguments of `record`.

use clap::Args;

use super::OutputArguments;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir record /dev/sda --for 60s -o seen.parquet\n  ioweir record /var/lib/postgresql --for 10m -o db.parquet\n\n\
Needs root and tracefs. Ctrl-C ends it early and keeps what was recorded. docs/record.md says what is recorded, and what is not."
)]
pub(crate) struct RecordArguments {
    /// Block device, or a path on a file system: the disk under it is recorded
    #[arg(value_name = "DEVICE|PATH")]
    pub(crate) device: String,

    /// For how long
    #[arg(long = "for", value_name = "SPAN", default_value = "60s")]
    pub(crate) span: String,

    /// File to write; the suffix selects the format (.parquet, .csv, .fio, ...). Parquet keeps everything
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) target: String,

    /// Event that counts as a request: queue (as submitted), insert (as the scheduler received it), issue (as the device
    /// received it)
    #[arg(long, value_name = "KIND", value_parser = ["queue", "insert", "issue"], default_value = "queue")]
    pub(crate) event: String,

    /// The kernel's buffer for each processor: more, if events are lost
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    pub(crate) buffer: String,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
