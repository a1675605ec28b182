//! The space of a search: a table of knobs beside the parameters of schedulers, and candidates with a value for each.

use std::fmt;

use ioweir_config::{SchedulerChoice, Size, format_value};
use ioweir_core::QueueLimits;
use ioweir_core::policy::{LinuxFile, PAIR, Parameter, Search, Unit};
use ioweir_device::{DeviceSpec, Placement, ReadAhead};

use super::cgroups::{Cgroups, Way};
use super::levels::{levels, powers_of_two};

/// Where the host sets something, from `/sys/block/DEVICE`, or by a command of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Setting {
    /// A file below `/sys/block/DEVICE`, in which one stands for so many of the knob's units.
    File(&'static str, u64),
    /// A command that takes the value before the device.
    Command(&'static str),
    /// The array's own configuration.
    Array(&'static str),
}

/// A setting beside the scheduler and its parameters.
pub struct Knob {
    /// The name in results.
    pub name: &'static str,
    /// The effect of the knob, in a sentence.
    pub help: &'static str,
    unit: Unit,
    pub(super) setting: Setting,
    /// The values to try, for a device, a queue and whether a scheduler is set; one or none where there is no choice.
    values: fn(&Setup, bool) -> Vec<u64>,
    default: fn(&Setup) -> u64,
    set: fn(&mut Setup, u64),
}

impl Knob {
    /// The unit of the knob's value.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// The value where the knob is not set.
    pub(super) fn default(&self, base: &Setup) -> u64 {
        (self.default)(base)
    }
}

/// A queue and a device, as a candidate has set them.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) limits: QueueLimits,
    pub(super) device: DeviceSpec,
}

/// The knobs, in the order in which they are set on a host.
pub static KNOBS: &[Knob] = &[
    Knob {
        name: "drive_queue_depth",
        help: "requests that the drive holds at once (1: no command queueing)",
        unit: Unit::Count,
        setting: Setting::File("device/queue_depth", 1),
        // Other kinds of drives have no such file.
        values: |setup, _| {
            if setup.device.rotates() { powers_of_two(1, u64::from(setup.limits.depth)) } else { Vec::new() }
        },
        default: |setup| u64::from(setup.limits.depth),
        set: |setup, value| setup.limits.depth = u32::try_from(value).unwrap_or(u32::MAX),
    },
    Knob {
        name: "drive_read_ahead",
        help: "whether the drive reads ahead into its buffer; what the host reads ahead is in the trace already",
        unit: Unit::Switch,
        setting: Setting::Command("hdparm -A"),
        values: |setup, _| if read_ahead(&setup.device) { vec![0, 1] } else { Vec::new() },
        default: |setup| u64::from(read_ahead(&setup.device)),
        set: |setup, value| {
            if let (DeviceSpec::Hdd(drive), 0) = (&mut setup.device, value)
                && let Some(cache) = &mut drive.cache
            {
                cache.read_ahead = ReadAhead::None;
            }
        },
    },
    Knob {
        name: "tier_cache",
        help: "which blocks the fast tier gives up first",
        unit: Unit::Choice(&["lru", "arc"]),
        setting: Setting::Array("tiered.placement"),
        values: |setup, _| if cache_size(&setup.device).is_some() { vec![0, 1] } else { Vec::new() },
        default: |setup| match &setup.device {
            DeviceSpec::Tiered(array) => u64::from(matches!(array.placement, Placement::Arc(_))),
            _ => 0,
        },
        set: |setup, value| {
            if let DeviceSpec::Tiered(array) = &mut setup.device
                && let Placement::Lru(size) | Placement::Arc(size) = array.placement
            {
                array.placement = if value == 0 { Placement::Lru(size) } else { Placement::Arc(size) };
            }
        },
    },
    Knob {
        name: "tier_block",
        help: "bytes that the fast tier takes in and gives up together",
        unit: Unit::Bytes,
        setting: Setting::Array("tiered.placement.block"),
        values: |setup, _| {
            let around = |block: u64| powers_of_two((block / 4).max(4096), block.saturating_mul(4));
            cache_size(&setup.device).map_or_else(Vec::new, around)
        },
        default: |setup| cache_size(&setup.device).unwrap_or(0),
        set: |setup, value| {
            if let DeviceSpec::Tiered(array) = &mut setup.device
                && let Placement::Lru(size) | Placement::Arc(size) = &mut array.placement
            {
                size.block = Size(value);
            }
        },
    },
    Knob {
        name: "request_bytes_max",
        help: "the largest request after merging",
        unit: Unit::Bytes,
        setting: Setting::File("queue/max_sectors_kb", 1024),
        values: |setup, _| powers_of_two(64 << 10, u64::from(setup.limits.request_sectors_max) * 512),
        default: |setup| u64::from(setup.limits.request_sectors_max) * 512,
        set: |setup, value| setup.limits.request_sectors_max = u32::try_from(value / 512).unwrap_or(u32::MAX),
    },
    Knob {
        name: "queue_requests",
        help: "requests that the queue holds in each direction",
        unit: Unit::Count,
        setting: Setting::File("queue/nr_requests", 1),
        // Without a scheduler the queue is the drive's.
        values: |_, is_scheduled| if is_scheduled { powers_of_two(32, 1024) } else { Vec::new() },
        default: |setup| u64::from(setup.limits.requests_per_direction),
        set: |setup, value| {
            let QueueLimits { requests_per_direction, members, .. } =
                QueueLimits::with_requests(u32::try_from(value).unwrap_or(u32::MAX));
            setup.limits = QueueLimits { requests_per_direction, members, ..setup.limits };
        },
    },
];

fn read_ahead(device: &DeviceSpec) -> bool {
    matches!(device, DeviceSpec::Hdd(drive) if drive.cache.as_ref().is_some_and(|cache| cache.read_ahead != ReadAhead::None))
}

/// The block of a tiered array that caches.
fn cache_size(device: &DeviceSpec) -> Option<u64> {
    match device {
        DeviceSpec::Tiered(array) => match &array.placement {
            Placement::Lru(size) | Placement::Arc(size) => Some(size.block.0),
            Placement::HitRatio(_) | Placement::Map(_) => None,
        },
        _ => None,
    }
}

/// A scheduler with values for its parameters and for the knobs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) scheduler: SchedulerChoice,
    /// The value of each of [`KNOBS`], or `None` to leave it as it is.
    pub(super) knobs: Vec<Option<u64>>,
    /// Shares of cgroups, if some streams are to be protected from the others.
    pub(super) cgroups: Option<Cgroups>,
}

impl fmt::Display for Candidate {
    /// The scheduler as the command line takes it, and the knobs that are set.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cgroups) = &self.cgroups {
            return write!(out, "{cgroups}");
        }
        write!(out, "{}", self.scheduler)?;
        self.set().try_for_each(|(knob, value)| write!(out, ", {} {}", knob.name, format_value(knob.unit, value)))
    }
}

impl Candidate {
    /// A scheduler as it is written, with every knob left as it is.
    pub(super) fn of(scheduler: SchedulerChoice) -> Self {
        Self { scheduler, knobs: vec![None; KNOBS.len()], cgroups: None }
    }

    /// The knobs that are set, with their values.
    pub(super) fn set(&self) -> impl Iterator<Item = (&'static Knob, u64)> {
        KNOBS.iter().zip(&self.knobs).filter_map(|(knob, value)| Some((knob, (*value)?)))
    }

    /// The queue and the device with the knobs that are set.
    pub(super) fn setup(&self, base: &Setup) -> Setup {
        let mut setup = base.clone();
        self.set().for_each(|(knob, value)| (knob.set)(&mut setup, value));
        setup
    }

    /// The name of what current Linux calls the scheduler, if it has it.
    pub(super) fn linux(&self) -> Option<&'static str> {
        self.scheduler.row.linux.filter(|_| self.scheduler.below.is_none())
    }

    /// Whether the host's Linux lacks it, so that the block server is needed.
    pub(super) fn only_served(&self) -> bool {
        match &self.cgroups {
            Some(cgroups) => cgroups.way == Way::Server,
            None => self.linux().is_none(),
        }
    }

    /// The scheduler's parameters with files in Linux, and their values.
    pub(super) fn linux_files(&self) -> impl Iterator<Item = (LinuxFile, &'static Parameter, u64)> {
        let choice = self.scheduler;
        let own = move |parameter: &'static Parameter| {
            Some((parameter.linux?, parameter, choice.row.get(&choice.settings, parameter.name)?))
        };
        choice.row.parameters.iter().filter_map(own)
    }

    /// How many things it sets that are not as they are by default.
    pub(super) fn changes(&self) -> usize {
        let text = self.scheduler.to_string();
        text.matches('=').count() + self.set().count()
    }

    /// The scheduler's name without parameters.
    pub(super) fn family(&self) -> String {
        if let Some(cgroups) = &self.cgroups {
            return cgroups.way.name().into();
        }
        family(&self.scheduler)
    }
}

/// The scheduler's name without parameters.
pub(super) fn family(scheduler: &SchedulerChoice) -> String {
    match &scheduler.below {
        None => scheduler.row.name.to_owned(),
        Some(below) => format!("{}+{}", scheduler.row.name, below.row.name),
    }
}

/// The setting that a dimension of the search varies.
#[derive(Clone, Copy)]
enum Target {
    /// A parameter of the scheduler, or of the order of a pair.
    Upper(&'static Parameter),
    /// A parameter of the elevator of a pair.
    Lower(&'static Parameter),
    Pair(&'static Parameter),
    /// A knob, by its place in the table.
    Knob(usize),
}

/// One thing that is searched for a scheduler, and the values that it may have.
#[derive(Clone)]
pub(super) struct Dimension {
    target: Target,
    pub(super) levels: Vec<u64>,
    /// The value that counts as not set.
    default: u64,
}

impl Dimension {
    /// The name in results.
    pub(super) fn name(&self) -> &'static str {
        match self.target {
            Target::Upper(parameter) | Target::Lower(parameter) | Target::Pair(parameter) => parameter.name,
            Target::Knob(at) => KNOBS[at].name,
        }
    }

    /// The values, for people.
    pub(super) fn range(&self) -> String {
        let unit = match self.target {
            Target::Upper(parameter) | Target::Lower(parameter) | Target::Pair(parameter) => parameter.unit,
            Target::Knob(at) => KNOBS[at].unit,
        };
        let text = |value: Option<&u64>| value.map_or_else(String::new, |value| format_value(unit, *value));
        match self.levels.len() {
            2 => format!("{} or {}", text(self.levels.first()), text(self.levels.last())),
            count => format!("{} to {}, {count} values", text(self.levels.first()), text(self.levels.last())),
        }
    }

    fn value(&self, candidate: &Candidate) -> u64 {
        let choice = &candidate.scheduler;
        let below = choice.below.as_ref();
        let value = match self.target {
            Target::Upper(parameter) => choice.row.get(&choice.settings, parameter.name),
            Target::Lower(parameter) => below.and_then(|below| below.row.get(&below.settings, parameter.name)),
            Target::Pair(parameter) => below.and_then(|below| PAIR.get(&below.pair, parameter.name)),
            Target::Knob(at) => candidate.knobs.get(at).copied().flatten(),
        };
        value.unwrap_or(self.default)
    }

    /// The number of the level that a candidate has.
    pub(super) fn level(&self, candidate: &Candidate) -> usize {
        let value = self.value(candidate);
        self.levels.partition_point(|level| *level < value).min(self.levels.len().saturating_sub(1))
    }

    /// The candidate with another value; every level lies in the range of its parameter.
    pub(super) fn with(&self, candidate: &Candidate, value: u64) -> Candidate {
        let mut candidate = candidate.clone();
        let choice = &mut candidate.scheduler;
        let _ = match (self.target, &mut choice.below) {
            (Target::Upper(parameter), _) => choice.row.set(&mut choice.settings, parameter.name, value),
            (Target::Lower(parameter), Some(below)) => below.row.set(&mut below.settings, parameter.name, value),
            (Target::Pair(parameter), Some(below)) => PAIR.set(&mut below.pair, parameter.name, value),
            (Target::Knob(at), _) => {
                candidate.knobs[at] = Some(value).filter(|value| *value != self.default);
                Ok(())
            }
            (Target::Lower(_) | Target::Pair(_), None) => Ok(()),
        };
        candidate
    }

    /// The candidate with the value that counts as not set.
    pub(super) fn without(&self, candidate: &Candidate) -> Candidate {
        self.with(candidate, self.default)
    }

    /// Whether the candidate sets the dimension to another value than the default.
    pub(super) fn is_set(&self, candidate: &Candidate) -> bool {
        self.value(candidate) != self.default
    }
}

/// The dimensions of the search for a scheduler on this device; settings without a choice of values are left out.
pub(super) fn dimensions(candidate: &Candidate, base: &Setup) -> Vec<Dimension> {
    let choice = candidate.scheduler;
    let on_linux = candidate.linux().is_some();
    let of = |parameters: &'static [Parameter], target: fn(&'static Parameter) -> Target| {
        // A parameter that the host cannot set makes no advice.
        let settable = move |parameter: &&Parameter| !on_linux || parameter.linux.is_some();
        parameters.iter().filter(settable).filter(|parameter| parameter.search != Search::Nothing).map(
            move |parameter| Dimension {
                target: target(parameter),
                levels: levels(parameter),
                default: parameter.default,
            },
        )
    };
    let mut all: Vec<Dimension> = of(choice.row.parameters, Target::Upper).collect();
    if let Some(below) = choice.below {
        all.extend(of(below.row.parameters, Target::Lower));
        all.extend(of(PAIR.parameters, Target::Pair));
    }
    let is_scheduled = choice.row.name != "none";
    let knobs = KNOBS.iter().enumerate().map(|(at, knob)| {
        let default = (knob.default)(base);
        let mut levels = (knob.values)(base, is_scheduled);
        if levels.len() > 1 && !levels.contains(&default) {
            levels.push(default);
            levels.sort_unstable();
        }
        Dimension { target: Target::Knob(at), levels, default }
    });
    all.extend(knobs);
    all.retain(|dimension| dimension.levels.len() > 1);
    all
}
