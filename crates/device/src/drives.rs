//! Validation of the presets against the drives that they are named after.
//!
//! There are five drives with measured requests, in files that came with DiskSim or for it. Each preset replays the file of its
//! drive, and its demerit is compared with the one that DiskSim reaches on the same file. Absent files are listed: they belong
//! to their authors and are not part of this repository.

use std::io::ErrorKind;
use std::path::Path;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::DeviceSpec;
use super::validate::{Distribution, Measured, read_measured, validate};
use ioweir_config::SpecError;

/// A preset passes with at most this many times DiskSim's demerit.
pub const DEMERIT_GATE_RATIO: f64 = 1.1;
/// Replays with other think times.
const RESAMPLES: u64 = 16;
/// Think times are longer in them by up to this much, which is a revolution of the slowest drive.
const RESAMPLE_NANOS: u64 = 11_111_111;

/// A drive of which there are measured requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drive {
    /// Preset that models it.
    pub preset: &'static str,
    /// Its measured requests, without `.gz`.
    pub file: &'static str,
    /// What DiskSim reaches on them.
    pub disksim_demerit_nanos: f64,
}

/// Every such drive. DiskSim's demerits were computed by its own validation run, and are those that its authors publish.
pub const DRIVES: [Drive; 5] = [
    Drive { preset: "cheetah-9lp", file: "cheetah9LP.trace", disksim_demerit_nanos: 107_000.0 },
    Drive { preset: "atlas-10k", file: "atlas10k.trace", disksim_demerit_nanos: 268_000.0 },
    Drive { preset: "barracuda", file: "barracuda.trace", disksim_demerit_nanos: 348_000.0 },
    Drive { preset: "hp-c3323a", file: "hp_c3323a.trace", disksim_demerit_nanos: 306_000.0 },
    Drive { preset: "hdd-15k", file: "cheetah15k5.trace", disksim_demerit_nanos: 297_000.0 },
];

/// A preset against its drive.
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
    /// The same, as a part of the measured mean.
    pub demerit_share: f64,
    /// Mean of the demerits of sixteen replays whose think times are longer by up to a revolution at random: one replay is
    /// one sample, since every wait for a sector depends on every nanosecond before it.
    pub demerit_resampled_nanos: f64,
    /// What DiskSim reaches.
    pub disksim_demerit_nanos: f64,
    /// The larger of the two demerits above, in DiskSim's.
    pub disksim_ratio: f64,
    /// Whether that is at most [`DEMERIT_GATE_RATIO`].
    pub passes: bool,
}

/// How the presets did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DriveReport {
    /// Those whose measured requests are at hand.
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
/// A file that is there and cannot be read, or does not fit the preset.
pub fn validate_drives(folder: &Path) -> Result<DriveReport, SpecError> {
    let mut report = DriveReport::default();
    for drive in &DRIVES {
        match read_drive(folder, drive)? {
            Some(requests) => report.rows.push(compare(drive, &requests)?),
            None => report.absent.push(drive.file),
        }
    }
    Ok(report)
}

/// The measured requests of `drive`; `None` if its file is absent.
fn read_drive(folder: &Path, drive: &Drive) -> Result<Option<Vec<Measured>>, SpecError> {
    for name in [format!("{}.gz", drive.file), drive.file.to_owned()] {
        let path = folder.join(&name);
        let shown = path.display().to_string();
        match std::fs::File::open(&path) {
            Ok(file) => return read_measured(&shown, file).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failure(&shown, format!("cannot be read: {error}"), "")),
        }
    }
    Ok(None)
}

fn failure(file: &str, problem: String, hint: &str) -> SpecError {
    SpecError::of_file(file, problem, hint)
}

/// One preset against the requests of its drive.
///
/// # Errors
/// A request that lies past the end of the preset's disk, or none at all.
pub fn compare(drive: &Drive, requests: &[Measured]) -> Result<DriveRow, SpecError> {
    if requests.is_empty() {
        return Err(failure(drive.file, "holds no requests".into(), ""));
    }
    let spec = DeviceSpec::load(drive.preset)?;
    let replay = |requests: &[Measured]| {
        let mut device = spec.build(0)?;
        validate(&mut *device, requests).map_err(|number| {
            let problem = format!("request {number} lies past the end of {}", drive.preset);
            failure(drive.file, problem, "is it a trace of this drive?")
        })
    };
    let plain = replay(requests)?;
    let mut sum_nanos = 0.0;
    let mut random = Pcg64Mcg::seed_from_u64(0);
    for _ in 0..RESAMPLES {
        let mut others = requests.to_vec();
        for request in &mut others {
            request.think_nanos += random.next_u64() % RESAMPLE_NANOS;
        }
        sum_nanos += replay(&others)?.demerit_nanos;
    }
    let demerit_resampled_nanos = sum_nanos / RESAMPLES as f64;
    let disksim_ratio = plain.demerit_nanos.max(demerit_resampled_nanos) / drive.disksim_demerit_nanos;
    Ok(DriveRow {
        preset: drive.preset,
        requests: plain.requests,
        measured: plain.measured,
        modelled: plain.modelled,
        demerit_nanos: plain.demerit_nanos,
        demerit_share: plain.demerit_ratio(),
        demerit_resampled_nanos,
        disksim_demerit_nanos: drive.disksim_demerit_nanos,
        disksim_ratio,
        passes: disksim_ratio <= DEMERIT_GATE_RATIO,
    })
}
