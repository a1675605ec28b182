//! Validation of presets against measurements of the drives that they are named after.
//!
//! There are five drives with measured requests, in files that came with DiskSim or were made for it. Each preset replays
//! the file of its drive, and its demerit is compared with the demerit that DiskSim reaches on the same file. Missing files
//! are listed: they belong to their authors and are not part of this repository.

use std::path::{Path, PathBuf};

use ioweir_device::DeviceSpec;
use ioweir_device::random::Random;
use ioweir_device::validate::{Distribution, Load, Measured, Validation};
use ioweir_trace::ReadOptions;
use serde::Serialize;

use super::MeasuredTrace;
use ioweir_config::{ByteRate, SpecError};
use ioweir_lab::run::RunError;

/// A preset passes if its demerit is at most this many times DiskSim's.
pub const DEMERIT_GATE_RATIO: f64 = 1.1;
/// The number of replays with other think times.
const RESAMPLES: u64 = 16;
/// How much longer a think time may be in these replays: a revolution of the slowest drive.
const RESAMPLE_NANOS: u64 = 11_111_111;

/// A drive that has measured requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drive {
    /// The preset that models the drive.
    pub preset: &'static str,
    /// The file of the drive's measured requests, without `.gz`.
    pub file: &'static str,
    /// The demerit that DiskSim reaches on these requests.
    pub disksim_demerit_nanos: f64,
    /// The rate of the bus that they were measured over, if that was slower than the drive's own interface.
    pub bench_rate: Option<ByteRate>,
}

impl Drive {
    const fn new(preset: &'static str, file: &'static str, disksim_demerit_nanos: f64) -> Self {
        Self { preset, file, disksim_demerit_nanos, bench_rate: None }
    }

    /// Puts the drive behind the bus of a test bench.
    const fn over(self, bench_rate: ByteRate) -> Self {
        Self { bench_rate: Some(bench_rate), ..self }
    }

    /// The preset, behind the bus that its drive was measured over.
    fn spec(&self) -> Result<DeviceSpec, SpecError> {
        let mut spec = DeviceSpec::load(self.preset)?;
        if let (DeviceSpec::Hdd(disk), Some(rate)) = (&mut spec, self.bench_rate) {
            disk.interface_rate = rate;
        }
        Ok(spec)
    }
}

/// Every such drive. DiskSim's demerits were computed by its own validation run, and are those that its authors publish.
pub const DRIVES: [Drive; 5] = [
    Drive::new("cheetah-9lp", "cheetah9LP.trace", 107_000.0).over(ByteRate(4_876_000)),
    Drive::new("atlas-10k", "atlas10k.trace", 268_000.0).over(ByteRate(5_172_000)),
    Drive::new("barracuda", "barracuda.trace", 348_000.0).over(ByteRate(3_821_000)),
    Drive::new("hp-c3323a", "hp_c3323a.trace", 306_000.0).over(ByteRate(3_519_000)),
    Drive::new("hdd-15k", "cheetah15k5.trace", 297_000.0),
];

/// A remark if these are the measured requests of a preset's drive, and were measured over a slower bus than the drive's own.
pub(super) fn bench_remark(preset: &str, files: &[PathBuf]) -> Option<String> {
    let is_of = |drive: &&Drive| {
        let names = files.iter().filter_map(|file| file.file_name()?.to_str());
        drive.preset == preset && names.into_iter().any(|name| name.trim_end_matches(".gz") == drive.file)
    };
    let rate = DRIVES.iter().find(is_of)?.bench_rate?;
    Some(format!(
        "These requests were measured over a test bench's bus of {rate}. {preset} has the interface of its drive here; `ioweir \
         calibrate --validate FOLDER` puts the bus in its place."
    ))
}

/// The result of comparing a preset with its drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveRow {
    /// Name of the preset.
    pub preset: &'static str,
    /// Requests compared.
    pub requests: usize,
    /// Response times of the drive.
    pub measured: Distribution,
    /// Response times of the model.
    pub modelled: Distribution,
    /// Root mean square of the horizontal distance between the two distributions.
    pub demerit_nanos: f64,
    /// The demerit as a part of the measured mean.
    pub demerit_share: f64,
    /// The mean demerit of sixteen replays whose think times are longer by a random part of a revolution. A single replay is
    /// one sample, since every wait for a sector depends on every nanosecond before it.
    pub demerit_resampled_nanos: f64,
    /// The demerit that DiskSim reaches.
    pub disksim_demerit_nanos: f64,
    /// The larger of the two demerits above, divided by DiskSim's.
    pub disksim_ratio: f64,
    /// Whether that ratio is at most [`DEMERIT_GATE_RATIO`].
    pub passes: bool,
}

/// The results of all presets.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DriveReport {
    /// The presets whose measured requests were found.
    pub rows: Vec<DriveRow>,
    /// Files that are not in the folder.
    pub absent: Vec<&'static str>,
}

impl DriveReport {
    /// Whether every preset that was compared passes.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.rows.iter().all(|row| row.passes)
    }
}

/// Compares every preset with its drive, by the files `NAME.trace` or `NAME.trace.gz` in `folder`.
///
/// # Errors
/// If a file exists and cannot be read, or does not fit the preset.
pub fn validate_drives(folder: &Path) -> Result<DriveReport, RunError> {
    let options = ReadOptions { format: ioweir_trace::format("disksim-measured"), ..ReadOptions::default() };
    let mut report = DriveReport::default();
    for drive in &DRIVES {
        let names = [format!("{}.gz", drive.file), drive.file.to_owned()];
        match names.iter().map(|name| folder.join(name)).find(|path| path.exists()) {
            Some(path) => report.rows.push(compare(drive, &MeasuredTrace::read(&[path], &options)?.requests)?),
            None => report.absent.push(drive.file),
        }
    }
    Ok(report)
}

fn failure(file: &str, problem: String, hint: &str) -> SpecError {
    SpecError::of_file(file, problem, hint)
}

/// Compares one preset with the requests of its drive.
///
/// # Errors
/// If a request lies past the end of the preset's disk.
pub fn compare(drive: &Drive, requests: &[Measured]) -> Result<DriveRow, SpecError> {
    let spec = drive.spec()?;
    let replay = |requests: &[Measured]| {
        let mut device = spec.build(0)?;
        Validation::new(&mut *device, requests, Load::Closed)
            .map_err(|error| failure(drive.file, format!("{}: {error}", drive.preset), "is it a trace of this drive?"))
    };
    let plain = replay(requests)?;
    let mut sum_nanos = 0.0;
    let mut random = Random::new(0);
    for _ in 0..RESAMPLES {
        let mut others = requests.to_vec();
        let mut later_nanos = 0;
        for request in &mut others {
            request.arrival_nanos += later_nanos;
            later_nanos += random.below(RESAMPLE_NANOS);
        }
        sum_nanos += replay(&others)?.demerit_nanos();
    }
    let demerit_resampled_nanos = sum_nanos / RESAMPLES as f64;
    let demerit_nanos = plain.demerit_nanos();
    let disksim_ratio = demerit_nanos.max(demerit_resampled_nanos) / drive.disksim_demerit_nanos;
    let distribution = |times: &[u64]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        Distribution::of(&times)
    };
    let measured = distribution(&plain.measured_nanos);
    Ok(DriveRow {
        preset: drive.preset,
        requests: requests.len(),
        measured,
        modelled: distribution(&plain.modelled_nanos),
        demerit_nanos,
        demerit_share: demerit_nanos / measured.mean_nanos,
        demerit_resampled_nanos,
        disksim_demerit_nanos: drive.disksim_demerit_nanos,
        disksim_ratio,
        passes: disksim_ratio <= DEMERIT_GATE_RATIO,
    })
}
