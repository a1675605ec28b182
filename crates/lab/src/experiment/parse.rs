//! Checks of an experiment file; errors have their place.

use ioweir_core::policy::{Limits, POLICIES, PolicyRow};
use ioweir_core::tenant::{GroupId, Share, ShareError};
use ioweir_core::{Nanos, QueueLimits, SECTOR_BYTES};
use std::collections::BTreeSet;

use super::metric::METRICS;
use super::spec::{ClassSpec, Experiment, PhaseSpec};
use super::sweep;
use ioweir_config::{ByteRate, Complaint, Duration, KeySet as _, Rate, ShareKeys, SpecError, shown, unknown};
use ioweir_device::{DeviceSpec, Placement};

const CLIENTS_MAX: u32 = 1 << 20;
/// Requests outstanding in all closed loops, and the largest queue.
const OUTSTANDING_MAX: u64 = 1 << 22;
/// Requests that the queues of all devices hold together.
const ROOM_MAX: u64 = 1 << 23;
pub(super) const DEPTH_MAX: u32 = 4096;
/// The weight of a client or group if none is given.
pub(super) const WEIGHT: u32 = 1;
const STEPS_MAX: u64 = 100_000;
const SEEDS_MAX: usize = 1000;
const RATE_MAX: u64 = 1_000_000_000;
const SIZE_MAX: u64 = 1 << 30;
/// Requests that wait for room in the queue beside what closed loops have outstanding.
const OPEN_ROOM: u64 = 4096;

/// The name of what keys ask for, the keys, and which policies keep it.
type Kept<'a> = (&'a str, &'a [&'a str], &'a dyn Fn(&PolicyRow) -> bool);

impl Experiment {
    /// Reads an experiment from TOML; `file` is only for the errors. Names of devices are looked up, sweeps tried out.
    ///
    /// # Errors
    /// [`SpecError`] with the place in the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        let experiment: Self = toml::from_str(text).map_err(|error| {
            let complaint = Complaint::of_toml(&error, HINTS);
            let is_server = text.parse().is_ok_and(|table: toml::Table| table.contains_key("export"));
            let complaint = if is_server { complaint.hint(SERVER_HINT) } else { complaint };
            complaint.in_file(file, Some(text))
        })?;
        let experiment = experiment.checked().map_err(|complaint| complaint.in_file(file, Some(text)))?;
        sweep::points(&experiment).map_err(|complaint| complaint.in_file(file, Some(text)))?;
        Ok(experiment)
    }

    /// Every key as TOML, with its default if none was given; [`Experiment::parse`] reads it back.
    #[must_use]
    pub fn to_toml(&self) -> String {
        crate::spec::to_toml(self)
    }

    /// Checks the experiment, and returns it with every name in its canonical form and the device written out.
    pub(crate) fn checked(mut self) -> Result<Self, Complaint> {
        self.check_machine()?;
        self.check_run()?;
        for (number, scheduler) in self.schedulers.iter().enumerate() {
            if self.schedulers[..number].contains(scheduler) {
                let problem = format!("{scheduler} is named twice");
                return Err(Complaint::expecting(format!("schedulers[{number}]"), problem, "each scheduler once"));
            }
        }
        self.check_groups()?;
        self.check_classes()?;
        self.check_kept()?;
        self.check_expectations()?;
        self.check_goal()?;
        let classes = self.classes.iter_mut().map(|class| &mut class.share);
        classes.chain(self.groups.iter_mut().map(|group| &mut group.share)).for_each(|share| share.fill_in(WEIGHT));
        Ok(self)
    }

    fn check_run(&self) -> Result<(), Complaint> {
        let (duration, interval, warm_up) = (self.duration.nanos(), self.interval.nanos(), self.warm_up.nanos());
        if duration.0 == 0 {
            return Err(Complaint::expecting(
                "duration",
                "nothing can be measured in no time",
                "a time, such as \"60s\"",
            ));
        }
        if interval.0 == 0 || !duration.0.is_multiple_of(interval.0) || duration.0 / interval.0 > STEPS_MAX {
            let problem = format!("{} is not made of steps of {}", self.duration, self.interval);
            return Err(Complaint::expecting(
                "interval",
                problem,
                format!("a part of the duration, at most {STEPS_MAX} of them"),
            ));
        }
        if warm_up >= duration || !warm_up.0.is_multiple_of(interval.0) {
            let problem = format!("{} are not whole steps of {} before the end", self.warm_up, self.interval);
            return Err(Complaint::expecting("warm_up", problem, "a number of whole steps, shorter than the duration"));
        }
        if self.schedulers.is_empty() {
            return Err(Complaint::expecting("schedulers", "none is named", "at least one")
                .hint("`ioweir doc policy` says what there is"));
        }
        let distinct: BTreeSet<u64> = self.seeds.iter().copied().collect();
        if self.seeds.is_empty() || distinct.len() < self.seeds.len() || self.seeds.len() > SEEDS_MAX {
            return Err(Complaint::expecting(
                "seeds",
                "none, too many, or one of them twice",
                format!("1 to {SEEDS_MAX}"),
            ));
        }
        if !(1..=DEPTH_MAX).contains(&self.depth) {
            return Err(Complaint::expecting("depth", format!("is {}", self.depth), format!("1 to {DEPTH_MAX}")));
        }
        let queue = self.queue_requests.map(u64::from);
        if queue.is_some_and(|requests| requests == 0 || requests > OUTSTANDING_MAX) {
            return Err(Complaint::expecting("queue_requests", "is out of range", format!("1 to {OUTSTANDING_MAX}")));
        }
        Ok(())
    }

    fn check_groups(&self) -> Result<(), Complaint> {
        for (number, group) in self.groups.iter().enumerate() {
            if group.name.is_empty() || self.groups[..number].iter().any(|other| other.name == group.name) {
                let key = format!("group[{number}].name");
                return Err(Complaint::expecting(key, "is empty, or that of another group", "a name of its own"));
            }
            if group.share.group.is_some() {
                let key = format!("group[{number}].group");
                return Err(Complaint::expecting(key, "a group cannot be in a group", "this key in a [[class]] only"));
            }
            check_share(&group.share, false, &|part| format!("group[{number}].{part}"))?;
        }
        Ok(())
    }

    /// A key that no scheduler keeps would change nothing.
    fn check_kept(&self) -> Result<(), Complaint> {
        let kept: [Kept<'_>; 3] = [
            ("reservations", &["reservation"], &|row| row.reads.reservation),
            ("limits of this kind", &["limit", "limit_bytes"], &|row| {
                // An elevator has no shares to keep at all, and may be compared with orders that have.
                row.limits == Limits::Both || !row.knows_shares
            }),
            ("limits of this kind", &["rbps", "wbps", "riops", "wiops"], &|row| row.limits == Limits::Directions),
        ];
        let groups = self.groups.iter().map(|group| ("group", vec![&group.share]));
        let classes = self.classes.iter().map(|class| {
            let phases = class.phases.iter().map(|phase| &phase.share);
            ("class", std::iter::once(&class.share).chain(phases).collect())
        });
        let tables: Vec<(String, &ShareKeys)> = (groups.enumerate().chain(classes.enumerate()))
            .flat_map(|(number, (table, shares))| {
                shares.into_iter().enumerate().map(move |(place, share)| {
                    let phase = place.checked_sub(1).map_or(String::new(), |phase| format!("phase[{phase}]."));
                    (format!("{table}[{number}].{phase}"), share)
                })
            })
            .collect();
        for (what, keys, keeps) in kept {
            if self.schedulers.iter().any(|scheduler| keeps(scheduler.row)) {
                continue;
            }
            let gives = |share: &ShareKeys| share.given().into_iter().find(|key| keys.contains(key));
            let found = tables.iter().find_map(|(at, share)| Some((at, gives(share)?)));
            if let Some((at, key)) = found {
                let keeping = POLICIES.iter().filter(|row| row.knows_shares && keeps(row));
                let keeping: Vec<&str> = keeping.map(|row| row.name).collect();
                let expected = format!("one of {} among the schedulers", keeping.join(", "));
                let problem = format!("none of the schedulers keeps {what}");
                return Err(Complaint::expecting(format!("{at}{key}"), problem, expected));
            }
        }
        Ok(())
    }

    fn check_classes(&mut self) -> Result<(), Complaint> {
        if self.classes.is_empty() {
            return Err(Complaint::expecting("class", "there is none", "at least one [[class]]"));
        }
        for number in 0..self.classes.len() {
            self.check_way(number)?;
        }
        let (mut clients, groups) = (0_u32, self.device_groups());
        for (number, class) in self.classes.iter().enumerate() {
            let device = groups[self.group_of(class)].model;
            let draws_hits =
                matches!(device, DeviceSpec::Tiered(tiered) if matches!(tiered.placement, Placement::HitRatio(_)));
            let key = |part: &str| format!("class[{number}].{part}");
            if class.name.is_empty() || self.classes[..number].iter().any(|other| other.name == class.name) {
                return Err(Complaint::expecting(
                    key("name"),
                    "is empty, or that of another class",
                    "a name of its own",
                ));
            }
            clients = clients.saturating_add(class.clients);
            if class.clients == 0 || clients > CLIENTS_MAX {
                let expected = format!("at least one, and not more than {CLIENTS_MAX} in all classes");
                return Err(Complaint::expecting(key("clients"), format!("is {}", class.clients), expected));
            }
            if let Some(group) =
                class.share.group.as_ref().filter(|name| self.groups.iter().all(|group| group.name != **name))
            {
                let names: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
                if names.is_empty() {
                    let problem = format!("there is no group `{}`, nor any other", shown(group));
                    return Err(Complaint::expecting(key("group"), problem, "a [[group]] with this name"));
                }
                let error = unknown("group", group, &names, "a group is a [[group]] with a name");
                return Err(Complaint::expecting(key("group"), error.problem, error.expected).hint(error.hint));
            }
            class.check(&key, draws_hits, self.is_of_server(class))?;
            if class.from >= self.duration {
                let problem =
                    format!("the clients would come at {}, and the run ends at {}", class.from, self.duration);
                return Err(Complaint::expecting(key("from"), problem, "a time before the end"));
            }
            if class.backlog.is_some()
                && class.pause.is_none_or(|pause| pause == Duration::default())
                && takes_no_time(device)
            {
                return Err(Complaint::new(
                    key("backlog"),
                    "a closed loop never ends on a device that takes no time",
                    "give [device.null] a service time, such as service = \"10us\", or the class a rate",
                ));
            }
        }
        if self.outstanding() > OUTSTANDING_MAX {
            let problem = format!("the backlogs add up to {} requests", self.outstanding());
            return Err(Complaint::expecting("class", problem, format!("at most {OUTSTANDING_MAX}")));
        }
        let devices: u64 = groups.iter().map(|group| u64::from(group.count)).sum();
        let room = devices.saturating_mul(u64::from(self.queue_room(false)));
        if devices > 1 && room > ROOM_MAX {
            let problem = format!("the queues of {devices} devices would hold {room} requests");
            let expected = format!("at most {ROOM_MAX}, with smaller backlogs or queue_requests");
            return Err(Complaint::expecting("device", problem, expected));
        }
        Ok(())
    }

    /// The most requests that all closed loops can have outstanding.
    fn outstanding(&self) -> u64 {
        let most = |class: &ClassSpec| {
            let phases = class.phases.iter().filter_map(|phase| phase.backlog);
            let backlog = phases.chain(class.backlog).max().unwrap_or(0);
            u64::from(backlog) * u64::from(class.clients)
        };
        self.classes.iter().map(most).sum()
    }

    /// Requests that the queue holds in each direction; as many as Linux's if an elevator merges them.
    pub(super) fn queue_room(&self, merges: bool) -> u32 {
        let open = self.classes.iter().any(|class| class.backlog.is_none());
        let wanted = match merges {
            true => self.outstanding() + u64::from(QueueLimits::DEFAULT.requests_per_direction),
            false => self.outstanding() + if open { OPEN_ROOM } else { 0 } + u64::from(self.depth),
        };
        self.queue_requests.unwrap_or_else(|| u32::try_from(wanted).unwrap_or(u32::MAX))
    }

    fn check_expectations(&self) -> Result<(), Complaint> {
        let classes: Vec<&str> = self.classes.iter().map(|class| class.name.as_str()).collect();
        for (number, expectation) in self.expectations.iter().enumerate() {
            let key = |part: &str| format!("expect[{number}].{part}");
            let named = [("class", &expectation.class), ("ratio_to", &expectation.ratio_to)];
            for (part, name) in named {
                if let Some(name) = name.as_ref().filter(|name| !classes.contains(&name.as_str())) {
                    let error = unknown("class", name, &classes, "");
                    return Err(Complaint::expecting(key(part), error.problem, error.expected).hint(error.hint));
                }
            }
            let fits = |metric: &&super::Metric| match expectation.class {
                Some(_) => metric.of_class.is_some(),
                None => metric.of_run.is_some(),
            };
            if expectation.metric().filter(|metric| fits(metric)).is_none() {
                let names: Vec<&str> = METRICS.iter().filter(fits).map(|metric| metric.name).collect();
                let error = unknown("metric", &expectation.metric, &names, "`ioweir doc metric` says what they are");
                return Err(Complaint::expecting(key("metric"), error.problem, error.expected).hint(error.hint));
            }
            if expectation.ratio_to.is_some() && expectation.class.is_none() {
                return Err(Complaint::expecting(
                    key("ratio_to"),
                    "there is no class to be divided",
                    "a class beside it",
                ));
            }
            if expectation.at_least.is_none() && expectation.at_most.is_none() {
                return Err(Complaint::expecting(
                    key("metric"),
                    "nothing is expected of it",
                    "at_least, at_most, or both",
                ));
            }
        }
        Ok(())
    }
}

impl ClassSpec {
    fn check(&self, key: &dyn Fn(&str) -> String, draws_hits: bool, is_of_server: bool) -> Result<(), Complaint> {
        let ways = [self.backlog.is_some(), self.rate.is_some(), self.trace.is_some(), is_of_server];
        if ways.iter().filter(|way| **way).count() != 1 {
            let expected = "one of backlog (a closed loop), rate (an open loop) and trace";
            return Err(Complaint::expecting(
                key("name"),
                "how its requests arrive is not said, or said twice",
                expected,
            ));
        }
        if self.rate.is_some_and(|rate| rate.0 > RATE_MAX) {
            return Err(Complaint::expecting(
                key("rate"),
                "is above one a nanosecond",
                format!("at most {RATE_MAX}/s"),
            ));
        }
        let is_loop = self.backlog.is_some() && self.background.is_none();
        if self.pause.is_some() && !is_loop {
            return Err(Complaint::expecting(key("pause"), "the class is no closed loop", "a class with a backlog"));
        }
        check_share(&self.share, self.share.group.is_some(), key)?;
        let size = self.size.0;
        if size == 0 || size > SIZE_MAX || !size.is_multiple_of(SECTOR_BYTES) {
            return Err(Complaint::expecting(
                key("size"),
                format!("is {}", self.size),
                "whole sectors of 512B, up to 1GiB",
            ));
        }
        if let Some(region) = self.region {
            let aligned = region.from.0.is_multiple_of(SECTOR_BYTES);
            if !aligned || region.to.0.saturating_sub(region.from.0) < size {
                let problem = format!("{} to {} does not hold a request of {}", region.from, region.to, self.size);
                return Err(Complaint::expecting(key("region"), problem, "from a sector's start, and long enough"));
            }
        }
        let phase_hits = self.phases.iter().any(|phase| phase.hit_ratio.is_some());
        if !draws_hits && (self.hit_ratio.is_some() || phase_hits) {
            let part = if self.hit_ratio.is_some() { "hit_ratio" } else { "phase" };
            return Err(Complaint::expecting(
                key(part),
                "the device does not draw its tier",
                "a device with [tiered] and a placement by hit_ratio",
            ));
        }
        if self.to.is_some_and(|to| to <= self.from) {
            return Err(Complaint::expecting(key("to"), "the clients would leave before they come", "a later time"));
        }
        let mut last = self.from;
        for (number, phase) in self.phases.iter().enumerate() {
            let key = |part: &str| key(&format!("phase[{number}].{part}"));
            if phase.at < last || self.to.is_some_and(|to| phase.at >= to) {
                let problem = format!("{} is not in order", phase.at);
                return Err(Complaint::expecting(
                    key("at"),
                    problem,
                    "phases in their order, while the clients are there",
                ));
            }
            last = phase.at;
            phase.check(self, &key)?;
        }
        Ok(())
    }
}

impl PhaseSpec {
    fn check(&self, class: &ClassSpec, key: &dyn Fn(&str) -> String) -> Result<(), Complaint> {
        if self.backlog.is_some() && class.backlog.is_none() {
            return Err(Complaint::expecting(key("backlog"), "the class is no closed loop", "a class with a backlog"));
        }
        if self.rate.is_some() && class.rate.is_none() {
            return Err(Complaint::expecting(key("rate"), "the class is no open loop", "a class with a rate"));
        }
        if self.share.group.is_some() {
            return Err(Complaint::expecting(
                key("group"),
                "clients do not change their group",
                "this key in the class",
            ));
        }
        if self.rate.is_some_and(|rate| rate.0 > RATE_MAX) {
            return Err(Complaint::expecting(
                key("rate"),
                "is above one a nanosecond",
                format!("at most {RATE_MAX}/s"),
            ));
        }
        Ok(())
    }
}

/// Whether requests on this device are done as soon as they are sent.
fn takes_no_time(device: &DeviceSpec) -> bool {
    matches!(device, DeviceSpec::Null(null) if null.service.nanos() == Nanos::ZERO)
}

/// Checks a share by itself, whatever others have; a complaint names the key that it is about.
fn check_share(keys: &ShareKeys, is_in_group: bool, key: &dyn Fn(&str) -> String) -> Result<(), Complaint> {
    let zero = [
        ("limit", keys.limit == Some(Rate(0))),
        ("limit_bytes", keys.limit_bytes == Some(ByteRate(0))),
        ("rbps", keys.rbps == Some(ByteRate(0))),
        ("wbps", keys.wbps == Some(ByteRate(0))),
        ("riops", keys.riops == Some(Rate(0))),
        ("wiops", keys.wiops == Some(Rate(0))),
    ];
    if let Some((name, _)) = zero.into_iter().find(|(_, is_zero)| *is_zero) {
        return Err(Complaint::new(
            key(name),
            "a limit of 0/s would let nothing through",
            "without the key there is no limit; in a phase, 0/s lifts one",
        ));
    }
    let group = is_in_group.then_some(GroupId(0));
    let share = Share { group, ..keys.share(WEIGHT) };
    share.check().map_err(|error| {
        let name = match error {
            ShareError::Weight { .. } => "weight",
            ShareError::Burst { .. } => "burst",
            ShareError::ByteRate { .. } => "limit_bytes",
            ShareError::ByteBurst { .. } => "burst_bytes",
            ShareError::Rate { rate_per_second } if keys.limit == Some(Rate(rate_per_second)) => "limit",
            ShareError::LimitBelowReservation { .. } => "limit",
            _ => "reservation",
        };
        Complaint::of_value(key(name), format!("{}: {error}", key(name)))
    })
}

/// Hints for errors of the TOML reader.
const HINTS: &[(&str, &str)] = &[
    ("unknown field", KEYS_HINT),
    ("missing field", KEYS_HINT),
    ("with a unit", "times, sizes and rates are text with a unit: \"10ms\", \"4KiB\", \"500/s\""),
];
const SERVER_HINT: &str = "this looks like the spec of a server, which `ioweir serve` takes";
const KEYS_HINT: &str = "`ioweir doc simulate` lists the keys";
