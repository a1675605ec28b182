//! Arguments of `replay`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use ioweir_lab::spec::PlacingKeys;

use super::{OutputArguments, candidates};
use crate::flags::KeyFlags;

const REPLAY_EXAMPLES: &str = "\
Examples:
  ioweir replay seen.parquet /dev/sdb --reads-only
  ioweir replay seen.parquet /dev/sdb --reads-only --scheduler none,bfq --repeat 5
  ioweir replay seen.parquet --scratch /data/scratch --fold --size 4GiB

Nothing is written to a device unless --write names it a second time. Settings are restored at the end, on Ctrl-C, and after \
kill -9 at the next start. Exits with 1 if the device failed a request or did not answer.";

#[derive(Args, Debug)]
#[command(after_help = REPLAY_EXAMPLES)]
pub(crate) struct ReplayArguments {
    /// Files of one trace, and then the block device or file that it is replayed on (none with --scratch)
    #[arg(value_name = "TRACE... DEVICE", required = true)]
    pub(crate) files: Vec<String>,

    /// Load: recorded (times as traced), x10 (ten times as fast), closed:4 (each stream keeps 4 requests outstanding)
    #[arg(long, value_name = "LOAD", default_value = "recorded", add = ArgValueCandidates::new(candidates::loads), help_heading = "What is replayed")]
    pub(crate) load: String,

    /// Requests that arrive within this time of the trace alone
    #[arg(long = "for", value_name = "SPAN", help_heading = "What is replayed")]
    pub(crate) span: Option<String>,

    /// No more requests than this
    #[arg(long, value_name = "N", help_heading = "What is replayed")]
    pub(crate) limit: Option<u64>,

    /// Leave out what is no read, and say how much that is
    #[arg(long, help_heading = "What is replayed")]
    pub(crate) reads_only: bool,

    #[command(flatten)]
    pub(crate) placing: KeyFlags<PlacingKeys>,

    /// Allow writes to the device, which destroy what it holds; must be the same name as DEVICE
    #[arg(long, value_name = "DEVICE", conflicts_with = "scratch", help_heading = "The device")]
    pub(crate) write: Option<String>,

    /// Replay on a file that is made for it, filled, and removed at the end
    #[arg(long, value_name = "FILE", help_heading = "The device")]
    pub(crate) scratch: Option<String>,

    /// Size of the scratch file [default: as large as the trace needs]
    #[arg(long, value_name = "SIZE", requires = "scratch", help_heading = "The device")]
    pub(crate) size: Option<String>,

    /// Read a device although it is mounted or otherwise in use
    #[arg(long, conflicts_with = "write", help_heading = "The device")]
    pub(crate) in_use: bool,

    /// Kernel schedulers, separated by commas; the device gets each in turn, with the settings that follow it:
    /// mq-deadline:fifo_batch=1:nr_requests=64 [default: the one that it has]
    #[arg(long, value_name = "NAME[:KEY=VALUE...],...", value_delimiter = ',', help_heading = "The device")]
    pub(crate) scheduler: Vec<String>,

    /// Setting of the device's queue (nr_requests=64) or of one scheduler (bfq/low_latency=0), restored at the end; may be
    /// repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "The device")]
    pub(crate) set: Vec<String>,

    /// Replay so many times under each scheduler, all schedulers once and then again
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "The device")]
    pub(crate) repeat: u32,

    /// Time that the device may take for one request before it counts as stalled
    #[arg(long, value_name = "SPAN", default_value = "30s", help_heading = "The device")]
    pub(crate) timeout: String,

    /// Folder for the note from which settings are restored [default: /var/lib/ioweir for root, else ~/.local/state/ioweir]
    #[arg(long, value_name = "FOLDER", help_heading = "The device")]
    pub(crate) state: Option<String>,

    /// Model of the device, a preset or TOML file: what `compare` predicts with it is shown beside the measurement
    #[arg(long, value_name = "NAME|FILE", add = ArgValueCandidates::new(candidates::devices), help_heading = "Prediction")]
    pub(crate) device: Option<String>,

    /// Requests that the modelled device holds at once [default: as many as the real one]
    #[arg(long, value_name = "N", requires = "device", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "Prediction")]
    pub(crate) depth: Option<u32>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Write one row per request to a Parquet file; `ioweir doc requests` lists the columns
    #[arg(long, value_name = "FILE.parquet", help_heading = "Output")]
    pub(crate) requests: Option<String>,

    /// No progress bar
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,
}
