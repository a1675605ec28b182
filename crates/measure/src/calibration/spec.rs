//! The spec of a calibration: a trace with latencies, the kind of device, where the fit begins, how long is searched.

use std::path::PathBuf;

use ioweir_config::{Flag, FlagForm, Size, keys};
use ioweir_device::fit::{Effort, start};
use ioweir_device::{DeviceSpec, SpindleSpeed};
use ioweir_trace::ReadOptions;
use serde::{Deserialize, Serialize};

use ioweir_lab::run::{RunError, without_folders};
use ioweir_lab::spec::{self, PlacingKeys};

const FITTED: &str = "The fit";

/// The most generations.
const GENERATIONS_MAX: u32 = 100_000;
/// The most searches.
const SEARCHES_MAX: u32 = 10;
/// Candidates of a generation.
const POPULATION: usize = 64;

keys! {
    /// Everything that determines a calibration from a trace: the same value gives the same bytes. `ioweir calibrate` builds it from
    /// its flags and from `--spec FILE`, and `ioweir show` prints it with every default.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CalibrationSpec {
        /// the files of one trace with latencies, of the device alone
        trace: Vec<String> = (Vec::new()),
        /// kind of the device: disk or flash; for a probed device as the probes show
        kind: Option<Kind> = absent => Flag::new("kind", "disk|flash", FlagForm::Text).under(FITTED),
        /// preset or device file where the fit begins; what response times do not tell stays as it is there; a disk that is not
        /// known, or ssd-970pro, if absent
        preset: Option<String> = absent => Flag::new("preset", "PRESET|FILE", FlagForm::Text).under(FITTED),
        /// size of the device; if absent that of the preset, and a disk without one ends with the trace
        capacity: Option<Size> = absent => Flag::new("capacity", "SIZE", FlagForm::Text).under(FITTED),
        /// speed of a disk's spindle; if absent that of the preset, or 7200
        rpm: Option<SpindleSpeed> = absent => Flag::new("rpm", "RPM", FlagForm::Number).under(FITTED),
        /// generations of each search, each of 64 candidates
        generations: u32 = (200) => Flag::new("generations", "N", FlagForm::Number).under(FITTED).always_shown(),
        /// independent searches, whose differences say how far each parameter is known
        searches: u32 = (4) => Flag::new("searches", "N", FlagForm::Number).under(FITTED).always_shown(),
        /// seed of the searches
        seed: u64 = (1) => Flag::new("seed", "N", FlagForm::Number).under(FITTED).always_shown(),
        ..placing: PlacingKeys,
    }
}

impl Default for CalibrationSpec {
    fn default() -> Self {
        ioweir_config::defaults()
    }
}

/// The kind of device that is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A disk drive.
    Disk,
    /// A solid-state drive.
    Flash,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Disk, Self::Flash];

    /// The name in a spec and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Flash => "flash",
        }
    }
}

ioweir_lab::spec_file!(
    CalibrationSpec,
    &[("unknown field", "`ioweir show FILE` prints a calibration with every key there is")]
);

impl CalibrationSpec {
    /// The kind of the device.
    pub(super) fn known_kind(&self) -> Result<Kind, RunError> {
        if !(1..=GENERATIONS_MAX).contains(&self.generations) {
            let problem = format!("generations is {}\n  expected: 1 to {GENERATIONS_MAX}", self.generations);
            return Err(RunError::Value(problem));
        }
        if !(1..=SEARCHES_MAX).contains(&self.searches) {
            let problem = format!("searches is {}\n  expected: 1 to {SEARCHES_MAX}", self.searches);
            return Err(RunError::Value(problem));
        }
        let of_preset = self.preset.as_deref().map(DeviceSpec::load).transpose()?;
        let begins = of_preset.and_then(|spec| start(&spec, None).ok().flatten());
        let kind = self.kind.or(match begins {
            Some(DeviceSpec::Hdd(_)) => Some(Kind::Disk),
            Some(_) => Some(Kind::Flash),
            None => None,
        });
        let unknown = "no kind of device is named\n  expected: disk or flash\n\nhint: --kind disk or --kind flash; --preset has a kind, too";
        kind.ok_or_else(|| RunError::Value(unknown.into()))
    }

    /// The files of the trace.
    pub(super) fn files(&self) -> Result<Vec<PathBuf>, RunError> {
        let (names, _) = without_folders(&self.trace, &self.options()?)?;
        let names: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
        match &ioweir_trace::group(&names)?[..] {
            [one] => Ok(one.files.clone()),
            [] => Err(RunError::Value("no trace is named\n  expected: the files of one trace".into())),
            several => {
                let problem = format!("the files form {} traces\n  expected: the files of one trace", several.len());
                Err(RunError::Value(problem))
            }
        }
    }

    /// The options for reading the trace.
    pub(super) fn options(&self) -> Result<ReadOptions, RunError> {
        self.placing.reading.options()
    }

    /// How long is searched.
    pub(super) fn effort(&self) -> Effort {
        Effort { population: POPULATION, generations: self.generations as usize, seed: self.seed }
    }

    /// The command that calibrates again.
    #[must_use]
    pub fn command(&self) -> String {
        spec::command("calibrate", &self.trace, self)
    }
}
