//! The machine of an experiment: its groups of devices, its cores, and the devices of each class; with the checks of their keys.

use ioweir_core::SECTOR_BYTES;

use super::parse::DEPTH_MAX;
use super::spec::{
    BackgroundSpec, ClassSpec, DeviceChoice, DeviceGroupSpec, Experiment, LogSpec, Pace, ReadAheadSpec, Spacing,
};
use ioweir_config::{Complaint, Duration, Ratio, SchedulerChoice, unknown};
use ioweir_device::{DeviceSpec, ModelChoice};

/// Devices of a machine, and workers.
const DEVICES_MAX: u64 = 256;
const WORKERS_MAX: u32 = 1024;
/// Writes of a consistency point.
const POINT_WRITES_MAX: u64 = 1 << 16;

/// A device of an experiment, or several equal ones, with defaults in place of absent keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceGroup<'a> {
    /// Empty for a device that is alone.
    pub(crate) name: &'a str,
    pub(crate) model: &'a DeviceSpec,
    pub(crate) count: u32,
    pub(crate) stripe_bytes: u64,
    pub(crate) depth: u32,
    /// If it is not the one that the experiment compares.
    pub(crate) scheduler: Option<SchedulerChoice>,
}

impl<'a> DeviceGroup<'a> {
    fn alone(model: &'a ModelChoice, depth: u32) -> Option<Self> {
        Some(Self { name: "", model: model.inline()?, count: 1, stripe_bytes: u64::MAX, depth, scheduler: None })
    }

    fn new(group: &'a DeviceGroupSpec, depth: u32) -> Option<Self> {
        Some(Self {
            name: &group.name,
            model: group.model.inline()?,
            count: group.count,
            stripe_bytes: group.stripe.0,
            depth: group.depth.unwrap_or(depth),
            scheduler: group.scheduler,
        })
    }
}

impl Experiment {
    /// Whether it has more than one device with its scheduler.
    pub(crate) fn is_machine(&self) -> bool {
        let has_background = self.classes.iter().any(|class| class.background.is_some());
        self.cores.is_some() || has_background || matches!(self.device, DeviceChoice::Several(_))
    }

    /// The devices of an experiment that was checked.
    pub(crate) fn device_groups(&self) -> Vec<DeviceGroup<'_>> {
        match &self.device {
            DeviceChoice::One(model) => DeviceGroup::alone(model, self.depth).into_iter().collect(),
            DeviceChoice::Several(groups) => {
                groups.iter().filter_map(|group| DeviceGroup::new(group, self.depth)).collect()
            }
        }
    }

    /// The group of devices that serves a class, by its place in [`Self::device_groups`].
    pub(crate) fn group_of(&self, class: &ClassSpec) -> usize {
        match (&self.device, &class.device) {
            (DeviceChoice::Several(groups), Some(name)) => {
                groups.iter().position(|group| group.name == *name).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Checks the devices and the cores, and writes the devices out.
    pub(super) fn check_machine(&mut self) -> Result<(), Complaint> {
        match &mut self.device {
            DeviceChoice::One(model) => self.seen = model.resolve("device")?.or(self.seen.take()),
            DeviceChoice::Several(groups) => {
                for number in 0..groups.len() {
                    let (before, rest) = groups.split_at_mut(number);
                    rest[0].check(before, &|part| format!("device[{number}].{part}"))?;
                }
                let count: u64 = groups.iter().map(|group| u64::from(group.count)).sum();
                if count == 0 || count > DEVICES_MAX {
                    let problem = format!("there are {count} devices");
                    return Err(Complaint::expecting("device", problem, format!("1 to {DEVICES_MAX}")));
                }
            }
        }
        if let Some(cores) = self.cores.as_ref().filter(|cores| !(1..=WORKERS_MAX).contains(&cores.workers)) {
            let problem = format!("is {}", cores.workers);
            return Err(Complaint::expecting("cores.workers", problem, format!("1 to {WORKERS_MAX}")));
        }
        if let Some(serial) = self.cores.as_ref().and_then(|cores| cores.serial) {
            serial.check("cores.serial")?;
        }
        self.log.as_ref().map_or(Ok(()), |log| self.check_log(log))?;
        self.read_ahead.as_ref().map_or(Ok(()), |ahead| self.check_read_ahead(ahead))?;
        self.check_waits()
    }

    fn check_log(&self, log: &LogSpec) -> Result<(), Complaint> {
        if self.cores.is_none() {
            let expected = "a table [cores], whose workers fill the log";
            return Err(Complaint::expecting("log", "there are no cores", expected));
        }
        if log.interval.nanos().0 == 0 {
            return Err(Complaint::expecting("log.interval", "is nothing", "a time above 0"));
        }
        let what = "points write as a [[class]] of this file";
        let class = &self.classes[self.find_class("log.class", &log.class, what)?];
        if let Some(writes) = log.writes {
            if !(1..=POINT_WRITES_MAX).contains(&u64::from(writes)) {
                let problem = format!("is {writes}");
                return Err(Complaint::expecting("log.writes", problem, format!("1 to {POINT_WRITES_MAX}")));
            }
            if (log.size.0 / 2).div_ceil(u64::from(writes)) > class.size.0 {
                let problem = format!("half of {} is more than {writes} writes of {}", log.size, class.size);
                return Err(Complaint::expecting(
                    "log.writes",
                    problem,
                    "more writes, or larger requests of the class",
                ));
            }
            return Ok(());
        }
        if log.size.0 / 2 < class.size.0 || log.size.0 / 2 / class.size.0.max(1) > POINT_WRITES_MAX {
            let problem = format!("half of {} is not a number of writes of {}", log.size, class.size);
            return Err(Complaint::expecting(
                "log.size",
                problem,
                format!("two times 1 to {POINT_WRITES_MAX} such writes"),
            ));
        }
        Ok(())
    }

    fn check_read_ahead(&self, ahead: &ReadAheadSpec) -> Result<(), Complaint> {
        if self.cores.is_none() {
            let expected = "a table [cores], whose workers send it to its device";
            return Err(Complaint::expecting("read_ahead", "there are no cores", expected));
        }
        let what = "the server reads ahead as a [[class]] of this file";
        let class = &self.classes[self.find_class("read_ahead.class", &ahead.class, what)?];
        let is_of_log = self.log.as_ref().is_some_and(|log| log.class == ahead.class);
        if is_of_log {
            let problem = "consistency points write as this class";
            return Err(Complaint::expecting("read_ahead.class", problem, "a class of its own"));
        }
        let reads_on = |other: &ClassSpec| other.sequential > Ratio::ZERO || other.trace.is_some();
        if !self.classes.iter().any(|other| reads_on(other) && self.is_read_ahead(other, class)) {
            let problem = format!("no class reads sequentially on the device of `{}`", class.name);
            let expected = "a class with sequential above 0, or with a trace, on the same device";
            return Err(Complaint::expecting("read_ahead.class", problem, expected));
        }
        Ok(())
    }

    /// The number of the class of this name.
    pub(super) fn find_class(&self, key: &str, name: &str, what: &'static str) -> Result<usize, Complaint> {
        self.classes.iter().position(|class| class.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.classes.iter().map(|class| class.name.as_str()).collect();
            let error = unknown("class", name, &names, what);
            Complaint::expecting(key, error.problem, error.expected).hint(error.hint)
        })
    }

    /// The write log, and the class as which its points write, with its number.
    pub(crate) fn log_parts(&self) -> Option<(&LogSpec, usize, &ClassSpec)> {
        let log = self.log.as_ref()?;
        let number = self.classes.iter().position(|class| class.name == log.class)?;
        Some((log, number, &self.classes[number]))
    }

    /// The read-ahead, and the class as which the server reads ahead, with its number.
    pub(crate) fn read_ahead_parts(&self) -> Option<(&ReadAheadSpec, usize, &ClassSpec)> {
        let ahead = self.read_ahead.as_ref()?;
        let number = self.classes.iter().position(|class| class.name == ahead.class)?;
        Some((ahead, number, &self.classes[number]))
    }

    /// Whether the server reads ahead of the reads of a class, as another class.
    pub(crate) fn is_read_ahead(&self, class: &ClassSpec, ahead: &ClassSpec) -> bool {
        !self.is_own_work(class) && self.group_of(class) == self.group_of(ahead)
    }

    /// Whether the server itself sends the requests of this class: consistency points, or reads ahead.
    pub(super) fn is_of_server(&self, class: &ClassSpec) -> bool {
        let names = [self.log.as_ref().map(|log| &log.class), self.read_ahead.as_ref().map(|ahead| &ahead.class)];
        names.contains(&Some(&class.name))
    }

    /// Checks where a class goes; a background class gets a client for each device.
    pub(super) fn check_way(&mut self, number: usize) -> Result<(), Complaint> {
        let key = |part: &str| format!("class[{number}].{part}");
        let class = &self.classes[number];
        let names: Vec<&str> = self.device_groups().iter().map(|group| group.name).collect();
        match (&self.device, &class.device) {
            (DeviceChoice::One(_), Some(_)) => {
                let expected = "this key beside several devices, a [[device]] each";
                return Err(Complaint::expecting(key("device"), "there is one device, without a name", expected));
            }
            (DeviceChoice::Several(_), Some(name)) if !names.contains(&name.as_str()) => {
                let error = unknown("device", name, &names, "a [[device]] of this file");
                return Err(Complaint::expecting(key("device"), error.problem, error.expected).hint(error.hint));
            }
            (DeviceChoice::Several(groups), None) if groups.len() > 1 => {
                let expected = format!("device, with one of {}", names.join(", "));
                return Err(Complaint::expecting(key("name"), "which device serves it is not said", expected));
            }
            _ => {}
        }
        if class.deadline.is_some() && self.cores.is_none() {
            let problem = "only the schedule of cores knows deadlines, and there is no [cores]";
            return Err(Complaint::expecting(key("deadline"), problem, "the key left out, or a table [cores]"));
        }
        self.check_work(class, &key)?;
        if self.is_of_server(class) {
            class.check_of_server(self.read_ahead.as_ref(), &key)?;
        }
        let group = self.device_groups()[self.group_of(class)];
        let count = group.count;
        if count > 1 {
            class.check_stripes(group, &key)?;
        }
        if let Some(background) = &class.background {
            background.check(class, count, &key)?;
            self.classes[number].clients = count;
        }
        Ok(())
    }
}

impl DeviceGroupSpec {
    fn check(&mut self, before: &[Self], key: &dyn Fn(&str) -> String) -> Result<(), Complaint> {
        if self.name.is_empty() || before.iter().any(|other| other.name == self.name) {
            let problem = "is empty, or that of another device";
            return Err(Complaint::expecting(key("name"), problem, "a name of its own"));
        }
        self.seen = self.model.resolve(&key("model"))?.or(self.seen.take());
        if self.count == 0 || u64::from(self.count) > DEVICES_MAX {
            let problem = format!("is {}", self.count);
            return Err(Complaint::expecting(key("count"), problem, format!("1 to {DEVICES_MAX}")));
        }
        if self.stripe.0 == 0 || !self.stripe.0.is_multiple_of(SECTOR_BYTES) {
            let problem = format!("is {}", self.stripe);
            return Err(Complaint::expecting(key("stripe"), problem, "whole sectors of 512B"));
        }
        if let Some(depth) = self.depth.filter(|depth| !(1..=DEPTH_MAX).contains(depth)) {
            return Err(Complaint::expecting(key("depth"), format!("is {depth}"), format!("1 to {DEPTH_MAX}")));
        }
        Ok(())
    }
}

impl ClassSpec {
    /// Refuses keys that mean nothing for requests of the server itself.
    fn check_of_server(&self, ahead: Option<&ReadAheadSpec>, key: &dyn Fn(&str) -> String) -> Result<(), Complaint> {
        let is_ahead = ahead.is_some_and(|ahead| ahead.class == self.name);
        let given = [
            ("clients", self.clients != 1),
            ("refuse_at_limit", self.refuse_at_limit),
            ("backlog", self.backlog.is_some()),
            ("pause", self.pause.is_some()),
            ("rate", self.rate.is_some()),
            ("trace", self.trace.is_some()),
            ("arrivals", self.arrivals != Spacing::Poisson),
            ("read_ratio", self.read_ratio != Ratio::ONE),
            ("sequential", self.sequential != Ratio::ZERO),
            ("misses", self.misses.is_some()),
            ("direct", self.direct != Ratio::ZERO),
            ("locks", self.locks),
            ("cost", self.cost.is_some()),
            ("region", is_ahead && self.region.is_some()),
            ("deadline", self.deadline.is_some()),
            ("background", self.background.is_some()),
            ("from", self.from != Duration::default()),
            ("to", self.to.is_some()),
            ("phase", !self.phases.is_empty()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => {
                let problem = match is_ahead {
                    true => "the server reads ahead as this class, and others' reads say when and where",
                    false => "consistency points write as this class, and the log says when and what",
                };
                Err(Complaint::expecting(key(name), problem, "the key left out"))
            }
            None => Ok(()),
        }
    }

    /// A request lies on one device.
    fn check_stripes(&self, group: DeviceGroup<'_>, key: &dyn Fn(&str) -> String) -> Result<(), Complaint> {
        let DeviceGroup { name, count, stripe_bytes, .. } = group;
        if self.trace.is_some() {
            let problem = format!("requests of a trace may lie across the stripes of the {count} devices `{name}`");
            return Err(Complaint::expecting(key("trace"), problem, "a device with count = 1"));
        }
        let size = self.size.0;
        if size == 0 || !stripe_bytes.is_multiple_of(size) {
            let problem = format!("{} does not divide the stripe of `{name}`", self.size);
            return Err(Complaint::expecting(key("size"), problem, "a whole number of requests in a stripe"));
        }
        if self.region.is_some_and(|region| !region.from.0.is_multiple_of(size)) {
            let problem = format!("requests of {} from there on would lie across stripes", self.size);
            return Err(Complaint::expecting(key("region"), problem, "from a multiple of the request's size"));
        }
        Ok(())
    }
}

impl BackgroundSpec {
    fn check(&self, class: &ClassSpec, devices: u32, key: &dyn Fn(&str) -> String) -> Result<(), Complaint> {
        let part = |part: &str| key(&format!("background.{part}"));
        if class.backlog.is_none() || !class.phases.is_empty() {
            let expected = "a class with a backlog, and without phases";
            return Err(Complaint::expecting(
                key("background"),
                "its debt alone says when it sends requests",
                expected,
            ));
        }
        if class.refuse_at_limit {
            let problem = "background work is not refused, it waits";
            return Err(Complaint::expecting(key("refuse_at_limit"), problem, "false"));
        }
        if class.clients != 1 && class.clients != devices {
            let problem = format!("is {}: each device has one client of background work", class.clients);
            return Err(Complaint::expecting(key("clients"), problem, "the key left out"));
        }
        let least = class.size.0.saturating_mul(u64::from(devices));
        if self.debt.0 < least {
            let problem = format!("{} is less than a request for each of {devices} devices", self.debt);
            return Err(Complaint::expecting(part("debt"), problem, "more, or smaller requests"));
        }
        if self.pace == Pace::Watermark && self.low >= self.high {
            let problem = format!("is {}, and high is {}", self.low.value(), self.high.value());
            return Err(Complaint::expecting(part("low"), problem, "less than high"));
        }
        if self.request_time.nanos().0 == 0 {
            return Err(Complaint::expecting(part("request_time"), "is nothing", "a time above 0"));
        }
        let of_idle = [("calm", self.calm != Self::CALM), ("request_time", self.request_time != Self::REQUEST_TIME)];
        let of_watermark =
            [("low", self.low != Self::LOW), ("high", self.high != Self::HIGH), ("room", self.room.is_some())];
        let unused = |keys: &[(&'static str, bool)]| keys.iter().find(|key| key.1).map(|key| key.0);
        let unused = match self.pace {
            Pace::Idle => unused(&of_watermark),
            Pace::Watermark => unused(&of_idle),
            Pace::Always => unused(&of_idle).or_else(|| unused(&of_watermark)),
        };
        match unused {
            Some(name) => {
                Err(Complaint::expecting(part(name), "has no effect at this pace", "the pace that its help names"))
            }
            None => Ok(()),
        }
    }
}
