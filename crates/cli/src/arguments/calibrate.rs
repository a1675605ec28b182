//! The arguments of `calibrate`.

use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;

use clap::Args;
use ioweir_config::Size;
use ioweir_measure::calibration::CalibrationSpec;

use super::OutputArguments;
use crate::flags::KeyFlags;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir calibrate seen.parquet --kind flash --capacity 512GB -o own.toml\n  ioweir calibrate barracuda.trace.gz --kind disk --rpm 7200 -o own.toml\n  ioweir calibrate /dev/sdb -o own.toml\n  ioweir calibrate own.toml --validate \
other.parquet\n\nOf a trace, the first half of the requests is fitted to, the second half judges. A block device is probed by reads, and \
judged on a mix of reads that is held out; nothing is written to it. docs/calibrate.md says how to read the result.\nWith \
--validate exits with 3 if a model misses its gate, 1.1 times the demerit of the reference; with 1 if nothing was compared."
)]
pub(crate) struct CalibrateArguments {
    /// Trace with latencies, of the device alone: one request at a time, or as they were submitted; or a block device. With --validate
    /// the model to judge: a preset or a device file
    #[arg(value_name = "TRACE|DEVICE", required_unless_present_any = ["spec", "validate"])]
    pub(crate) trace: Vec<String>,

    /// Spec file (TOML) to start from; `ioweir show FILE` prints it with every default
    #[arg(long, value_name = "FILE")]
    pub(crate) spec: Option<PathBuf>,

    /// Write the device with its calibration record to this file
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) output_device: Option<String>,

    #[command(flatten)]
    pub(crate) keys: KeyFlags<CalibrationSpec>,

    /// Probe a file as if it were a device
    #[arg(long, conflicts_with = "spec", help_heading = "Probes")]
    pub(crate) probe: bool,

    /// Time to probe, at most 5min [default: 5min]
    #[arg(long = "for", value_name = "SPAN", help_heading = "Probes")]
    pub(crate) span: Option<String>,

    /// Write, too, into this file on the device, which is made for it, filled, and removed: bursts, sustained writes, reads beside
    /// them, and trims, for half of the time again
    #[arg(long, value_name = "FILE", help_heading = "Probes")]
    pub(crate) write: Option<String>,

    /// Size of that file [default: 1GiB]
    #[arg(long, value_name = "SIZE", requires = "write", help_heading = "Probes")]
    pub(crate) write_size: Option<Size>,

    /// Probe a device although it is mounted or otherwise in use
    #[arg(long, help_heading = "Probes")]
    pub(crate) in_use: bool,

    /// Fit nothing, and compare a model with the response times of this trace, one that it was not fitted to. Without a model: a folder
    /// with DiskSim's measured traces, which the presets of their drives are compared with
    #[arg(long, value_name = "TRACE|FOLDER", conflicts_with_all = [
        "spec", "kind", "output_device", "preset", "capacity", "rpm", "generations", "searches", "seed", "probe", "span", "write",
        "in_use", "force",
    ], help_heading = "Validation")]
    pub(crate) validate: Vec<String>,

    /// Demerit that another model reaches on this trace, such as 0.297ms; at most 1.1 times as much passes
    #[arg(long, value_name = "TIME", requires = "validate", help_heading = "Validation")]
    pub(crate) reference: Option<ioweir_config::Duration>,

    /// How requests are sent: `closed` is one at a time, each a think time after the one before, `arrivals` when they were
    /// submitted, `released` each after as many completions as before it, and as long after the last [default: closed if none
    /// of the trace overlap, released if they waited for one of so many places]
    #[arg(long, value_name = "KIND", value_parser = ["closed", "arrivals", "released"], requires = "validate", help_heading = "Validation")]
    pub(crate) load: Option<String>,

    /// Write every request with its measured and modelled response time to a file; the suffix selects the form, .csv or
    /// .parquet
    #[arg(long, value_name = "FILE", requires = "validate", help_heading = "Validation")]
    pub(crate) requests: Option<String>,

    /// Write the device file although the device is outside the family that the model describes
    #[arg(long)]
    pub(crate) force: bool,

    /// No progress bar
    #[arg(long)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

impl CalibrateArguments {
    /// Returns whether a device is probed instead of a trace read.
    pub(crate) fn is_probe(&self) -> bool {
        let is_device = |name: &String| std::fs::metadata(name).is_ok_and(|about| about.file_type().is_block_device());
        self.probe || self.trace.iter().any(is_device)
    }
}
