//! The spec of a calibration: a trace with latencies, the kind of device, where the fit begins, how long is searched.

use std::path::PathBuf;

use ioweir_config::Size;
use ioweir_device::fit::{Effort, start};
use ioweir_device::{DeviceSpec, SpindleSpeed};
use ioweir_trace::{Event, ReadOptions};
use serde::{Deserialize, Serialize};

use ioweir_lab::document::quoted;
use ioweir_lab::run::{RunError, without_folders};
use ioweir_lab::spec;

/// The most generations.
const GENERATIONS_MAX: u32 = 100_000;
/// The most searches.
const SEARCHES_MAX: u32 = 10;
/// Candidates of a generation.
const POPULATION: usize = 64;

/// Everything that determines a calibration from a trace: the same value gives the same bytes. `ioweir calibrate` builds it from
/// its flags and from `--spec FILE`, and `ioweir show` prints it with every default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CalibrationSpec {
    /// The files of one trace with latencies, of the device alone.
    pub trace: Vec<String>,
    /// The trace format: a name, a TOML file of columns, or `columns:` and a list of them. If absent, it is recognised from
    /// the content.
    pub format: Option<String>,
    /// The address space, if the trace has several.
    pub volume: Option<String>,
    /// The event that counts as a request, if a trace has several: `queue`, `insert` or `issue`.
    pub event: Event,
    /// Skip and count what cannot be read, instead of stopping.
    pub lenient: bool,
    /// Read the named files of a set without the others that lie beside them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// Fold requests past the end of the device onto it, instead of refusing them.
    pub fold: bool,
    /// The kind of the device: `disk` or `flash`.
    pub kind: Option<Kind>,
    /// The preset or device file where the fit begins; parameters that are not fitted keep its values. If absent, an unknown disk, or
    /// `ssd-970pro`.
    pub preset: Option<String>,
    /// The size of the device. If absent, that of the preset; a disk without one ends with the trace.
    pub capacity: Option<Size>,
    /// The speed of a disk's spindle. If absent, that of the preset, or 7200.
    pub rpm: Option<SpindleSpeed>,
    /// Generations of each search, each of 64 candidates.
    pub generations: u32,
    /// Independent searches, from whose differences the intervals of the parameters and the draws follow.
    pub searches: u32,
    /// The seed of the searches.
    pub seed: u64,
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

impl Default for CalibrationSpec {
    fn default() -> Self {
        Self {
            trace: Vec::new(),
            format: None,
            volume: None,
            event: Event::Queue,
            lenient: false,
            alone: false,
            fold: false,
            kind: None,
            preset: None,
            capacity: None,
            rpm: None,
            generations: 200,
            searches: 4,
            seed: 1,
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
        spec::read_options(self.format.as_deref(), self.volume.as_deref(), self.event, (self.lenient, self.alone))
    }

    /// How long is searched.
    pub(super) fn effort(&self) -> Effort {
        Effort { population: POPULATION, generations: self.generations as usize, seed: self.seed }
    }

    /// The command that calibrates again.
    #[must_use]
    pub fn command(&self) -> String {
        let mut command = "ioweir calibrate".to_owned();
        let event = (self.event != Event::Queue).then(|| self.event.name().to_owned());
        let flags = [
            ("kind", self.kind.map(|kind| kind.name().to_owned())),
            ("preset", self.preset.clone()),
            ("capacity", self.capacity.map(|size| size.to_string())),
            ("rpm", self.rpm.map(|speed| speed.to_string())),
            ("generations", Some(self.generations.to_string())),
            ("searches", Some(self.searches.to_string())),
            ("seed", Some(self.seed.to_string())),
            ("format", self.format.clone()),
            ("volume", self.volume.clone()),
            ("event", event),
        ];
        for (flag, value) in flags {
            if let Some(value) = value {
                command += &format!(" --{flag} {}", quoted(&value));
            }
        }
        let switches = [(" --lenient", self.lenient), (" --alone", self.alone), (" --fold", self.fold)];
        switches.iter().filter(|(_, is_set)| *is_set).for_each(|(flag, _)| command += flag);
        for name in &self.trace {
            command += &format!(" {}", quoted(name));
        }
        command
    }
}
