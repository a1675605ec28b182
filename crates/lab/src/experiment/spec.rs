//! The keys of an experiment file, with their help and defaults.

use ioweir_config::{
    Duration, IoPriority, Key, KeySet as _, Rate, Ratio, ScheduleChoice, SchedulerChoice, ShareKeys, Size, keys,
};
use ioweir_core::Nanos;
use ioweir_core::cores::SCHEDULES;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::expect::Expectation;
use crate::sim::{Distribution, Goal, SerialSpec};
use crate::spec::OneOrMore;
use ioweir_device::standing::Calibrated;
use ioweir_device::{Extent, ModelChoice};

keys! {
    /// An experiment: a device, classes of clients that send it requests, schedulers that share it out among them. The same
    /// value gives the same bytes. `ioweir simulate FILE` reads it, and `ioweir show FILE` prints it with every default.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Experiment {
        /// what the experiment is about
        title: String = (String::new()),
        /// how long it lasts, in simulated time: "60s"
        duration: Duration = required,
        /// left out of all figures but those over time; whole intervals
        warm_up: Duration = (Duration::default()),
        /// the width of the steps of figures over time; a part of the duration
        interval: Duration = (Duration::from_seconds(1)),
        /// schedulers as --scheduler takes them; the experiment is run under each
        schedulers: Vec<SchedulerChoice> = required,
        /// seeds; the experiment is run with each, and figures are means with 95 % intervals
        seeds: Vec<u64> = (vec![0]),
        /// requests that the device holds at once
        depth: u32 = (32),
        /// requests that the queue holds; what the backlogs add up to, and some thousands, if absent; 128 beside the
        /// backlogs if an elevator serves a trace
        queue_requests: Option<u32> = absent,
        /// whether elevators merge adjacent requests, alone and in pairs; if absent, they do if a class replays a trace
        merge: Option<bool> = absent,
        /// the throughput that the device is said to have, "4k/s": reservations beyond it are refused; all are accepted where
        /// absent
        capacity: Option<Rate> = absent,
        /// the name of a preset or of a device file, or a device as in such a file: [device.tiered]; or several, a [[device]]
        /// each
        device: DeviceChoice = required,
        /// how the device was calibrated, with the range of requests in which it was seen: taken from a device file with a
        /// calibration, and what lies outside of the range is said
        seen: Option<Calibrated> = absent,
        /// figure of each class by which the best scheduler is named: mean (latency) or read-p99
        goal: Option<Goal> = absent,
        /// the class that counts for the goal, or all; all but background work and those of the idle class if absent
        of: Option<String> = absent,
        /// the cores that execute requests before and after their device; without this table that takes no time
        cores: Option<CoresSpec> = absent,
        /// the write log of the server, beside [cores]: a write of the foreground is answered once it is in the log, and
        /// consistency points write the log to its devices
        log: Option<LogSpec> = absent,
        /// reads ahead of classes that read on, beside [cores]
        read_ahead: Option<ReadAheadSpec> = absent,
        /// locks of objects, beside [cores]
        locks: Option<LocksSpec> = absent,
        /// work of the server itself for which writes wait, beside [cores]
        own_work: Option<OwnWorkSpec> = absent,
        /// whether figures by stream are kept: a client each, or a process of a trace whose streams the scheduler sees
        by_stream: Option<bool> = absent,
        /// whether requests of traces past the end of their device are folded onto it: addresses begin anew at its end
        fold: Option<bool> = absent,
        /// groups of clients that have a share together, a [[group]] each
        groups as "group": Vec<GroupSpec> = absent,
        /// classes of clients that are alike, a [[class]] each
        classes as "class": Vec<ClassSpec> = required,
        /// expected results, an [[expect]] each
        expectations as "expect": Vec<Expectation> = absent,
        /// values in place of a key's, each in a run of its own: "class.b.hit_ratio" = [0.2, 0.5]; every combination of several
        sweep: toml::Table = absent,
    }
}

keys! {
    /// A device of several, or a row of equal ones that divide the addresses of their classes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct DeviceGroupSpec {
        /// what classes call it
        name: String = required,
        /// the name of a preset or of a device file, or a device as in such a file: [device.model.tiered]
        model: ModelChoice = required,
        /// devices of this kind; each has a scheduler of its own, under which every share holds anew
        count: u32 = (1),
        /// bytes in a row on one of several, before the next one follows; a whole number of requests of each class
        stripe: Size = (Size(1 << 20)),
        /// requests that each holds at once; as for the whole experiment if absent
        depth: Option<u32> = absent,
        /// the scheduler of each, whatever the experiment compares: "mq-deadline"
        scheduler: Option<SchedulerChoice> = absent,
        /// how it was calibrated, as for the whole experiment
        seen: Option<Calibrated> = absent,
    }
}

keys! {
    /// The cores of a server.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CoresSpec {
        /// workers, each on a core of its own
        workers: u32 = required,
        /// how workers choose among requests, with its parameters; `ioweir doc cores` lists the schedules
        schedule: ScheduleChoice = (ScheduleChoice::of(&SCHEDULES[0])),
        /// processor time of a read before it goes to its device
        read: Duration = (Duration::default()),
        /// processor time of a write before it goes to its device
        write: Duration = (Duration::default()),
        /// processor time of a flush or discard before it goes to its device
        other: Duration = (Duration::default()),
        /// processor time of each KiB: of a write before its device, of a read after it (checksums, copies)
        per_kib: Duration = (Duration::default()),
        /// processor time of a request after its device has completed it
        completion: Duration = (Duration::default()),
        /// further processor time of a request that is parked to wait and has to be found again. It is that of a read that goes to its
        /// device, and of any request each time that it has waited for a lock, work of the server itself, memory or room in the log
        slow_path: Duration = (Duration::default()),
        /// memory for reads that wait for their devices, of each as much as it reads until it is answered; without limit if absent
        read_buffers: Option<Size> = absent,
        /// time in which a worker changes queues
        turn: Duration = (Duration::default()),
        /// time that every turn of a worker takes before its first request, whether it changes queues or not
        turn_each: Duration = (Duration::default()),
        /// time that a worker loses where a turn ends because its slice is used up, or a request is preempted for another
        expiry: Duration = (Duration::default()),
        /// windows that end with a part in which workers begin nothing: { window = "2ms", length = "100us" }
        serial: Option<SerialSpec> = absent,
        /// share of each processor time that varies
        spread: Ratio = (Ratio::ZERO),
        /// how it varies, with the same mean: "exponential", { lognormal = 1.8 } (the deviation of the logarithm) or { pareto = 1.5 } (the
        /// exponent of the tail)
        distribution: Distribution = (Distribution::Exponential),
        /// requests of classes that take longer before their device: { share = 0.001, from = "1ms", to = "5ms" }, each time between as likely;
        /// consistency points and reads ahead have none
        tail: Option<TailSpec> = absent,
    }
}

keys! {
    /// Requests that take longer than others.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TailSpec {
        /// the share of such requests
        share: Ratio = required,
        /// the shortest further time
        from: Duration = required,
        /// the longest further time
        to: Duration = required,
    }
}

keys! {
    /// Processor time of the requests of a class. What is absent is as in [cores].
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct CostSpec {
        /// of a read before it goes to its device
        read: Option<Duration> = absent,
        /// of a write before it goes to its device
        write: Option<Duration> = absent,
        /// of a flush or discard before it goes to its device
        other: Option<Duration> = absent,
        /// of each KiB: of a write before its device, of a read after it
        per_kib: Option<Duration> = absent,
        /// of a request after its device has completed it
        completion: Option<Duration> = absent,
        /// of a read that goes to its device, beside
        slow_path: Option<Duration> = absent,
        /// share of each of these times that varies
        spread: Option<Ratio> = absent,
        /// how it varies, as in [cores]
        distribution: Option<Distribution> = absent,
        /// requests that take longer, as in [cores]
        tail: Option<TailSpec> = absent,
    }
}

keys! {
    /// Locks of objects. A request of a class with `locks` waits for the lock of its object before it begins, first come, first served, and
    /// holds it until it is answered.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LocksSpec {
        /// the size of an object: so many bytes in a row of the addresses of a class's devices; the first byte of a request says which it
        /// locks
        object: Option<Size> = absent,
        /// in place of a size, the number of objects, of which each request draws one, whatever its address
        objects: Option<u32> = absent,
    }
}

keys! {
    /// Work of the server itself that gates clients: once a request of it is late, writes to the same region wait before they begin,
    /// until no request of it is left there.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OwnWorkSpec {
        /// the class whose requests are such work, with its rate, device and cost
        class: String = required,
        /// the size of a region: so many bytes in a row of the addresses of the class's devices
        region: Option<Size> = absent,
        /// in place of a size, the number of regions, of which each request draws one; where objects are drawn for locks, they are spread
        /// over the regions
        regions: Option<u32> = absent,
        /// how long after its arrival a request of it is late
        within: Duration = required,
    }
}

keys! {
    /// A triangular swing of a rate: from its mean up by `amplitude`, down to as much below, and up to the mean again.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SwingSpec {
        /// the highest distance from the mean, as a share of it
        amplitude: Ratio = required,
        /// the time from one rise to the next
        period: Duration = required,
    }
}

keys! {
    /// The write log of a server in memory that survives a crash. One half takes writes; when it is full, or in time, a
    /// consistency point writes it out, and the other half takes writes. If that is full before the point ends, writes wait.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LogSpec {
        /// both halves together; a write that does not fit into one goes to its device
        size: Size = required,
        /// what the log needs for each write beside its data
        record: Size = (Size(0)),
        /// the time after a point at which the next one begins, where the log is not full before
        interval: Duration = (Duration::from_seconds(10)),
        /// the class as which points write, with its device, region, share, priority and the size of a write; it has no
        /// requests of its own
        class: String = required,
        /// the number of writes of a point, among which the contents of the log are divided; if absent, they have the size of the class's
        /// requests
        writes: Option<u32> = absent,
        /// processor time of a write of a point before it goes to its device
        base: Duration = (Duration::default()),
        /// processor time of each KiB of it
        per_kib: Duration = (Duration::default()),
    }
}

keys! {
    /// Reads ahead of clients that read on. When a read that continues its client's last one comes to a multiple of the size of the
    /// class's requests, as much from there on is read from the same device, and answered to nobody. Which reads find
    /// their data in memory is given by their class's `misses` all the same.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReadAheadSpec {
        /// the class as which the server reads ahead of all classes on the same device, with its share, its priority and the size of a
        /// read; it has no requests of its own
        class: String = required,
        /// processor time of a read ahead before it goes to its device
        base: Duration = (Duration::default()),
        /// processor time of each KiB of it
        per_kib: Duration = (Duration::default()),
    }
}

keys! {
    /// Background work: requests that may wait, as long as their debt is paid in time.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BackgroundSpec {
        /// what there is to do when the clients come, divided equally among the devices
        debt: Size = required,
        /// how long that may take; without a deadline it may take for ever
        deadline: Option<Duration> = absent,
        /// when a request is sent: idle (the device has none of the foreground, or the deadline needs it), watermark (by the
        /// amount of debt), always
        pace: Pace = (Pace::Idle),
        /// idle: for how long a device must have had nothing from the foreground
        calm: Duration = (Self::CALM),
        /// idle: what one request is expected to take, until that is learnt; from it follows when the deadline needs it
        request_time: Duration = (Self::REQUEST_TIME),
        /// watermark: the share of `room` at which paying begins
        low: Ratio = (Self::LOW),
        /// watermark: the share of `room` at which all slots pay
        high: Ratio = (Self::HIGH),
        /// watermark: the room that debt may take; as much as the debt itself if absent
        room: Option<Size> = absent,
    }
}

keys! {
    /// A group of clients.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct GroupSpec {
        /// what classes call the group
        name: String = required,
        ..share: ShareKeys,
    }
}

keys! {
    /// Clients that are alike.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ClassSpec {
        /// what the class is called
        name: String = required,
        /// clients in it, each with the share and the backlog that are given; rate and trace are of all together
        clients: u32 = (1),
        /// whether requests above the limit are refused; otherwise they wait
        refuse_at_limit: bool = (false),
        /// closed loop: each client keeps this many requests outstanding
        backlog: Option<u32> = absent,
        /// closed loop: how long a client pauses between an answer and the request that takes its place; not at all if absent
        pause: Option<Duration> = absent,
        /// open loop: requests arrive at this rate, done or not: "2k/s"
        rate: Option<Rate> = absent,
        /// how an open loop's arrivals are spaced: poisson or constant
        arrivals: Spacing = (Spacing::Poisson),
        /// the requests of this trace, at its times. An elevator sees its streams and merges, as `ioweir compare` does; a
        /// scheduler that knows shares sees the clients of the class, over which the streams are spread
        trace: Option<String> = absent,
        /// a swing of the rate: { amplitude = 0.2, period = "1400ms" }
        swing: Option<SwingSpec> = absent,
        /// share of reads; the others are writes
        read_ratio: Ratio = (Ratio::ONE),
        /// length of a request
        size: Size = (Size(4096)),
        /// share of requests that continue where the client's last one ended
        sequential: Ratio = (Ratio::ZERO),
        /// I/O priority of the requests, of a trace of those that carry none: "realtime:0", "best-effort:7" or "idle", for
        /// schedulers that know it (mq-deadline, bfq, cfq); best-effort:4 if absent
        priority: Option<IoPriority> = absent,
        /// where the requests lie: { from = "0B", to = "10GiB" }; the whole device if absent
        region: Option<Extent> = absent,
        /// share of requests that hit the fast tier, on a tiered array that draws it
        hit_ratio: Option<Ratio> = absent,
        /// share of reads whose data are not in memory: the others are answered by [cores] without their device; 1 if absent. Several,
        /// [0.7, 0.05]: of the reads that have missed so often, the share that misses again, for as much data after the last, once a worker
        /// has spent `completion` and `per_kib` on what it has
        misses: Option<OneOrMore<Ratio>> = absent,
        /// share of the reads that miss which their device answers, without a worker after it
        direct: Ratio = (Ratio::ZERO),
        /// whether its requests lock their object, of which [locks] has the size
        locks: bool = (false),
        /// its processor time where it differs from that in [cores]: { read = "200us", spread = 0.5 }
        cost: Option<CostSpec> = absent,
        /// the time after its arrival by which a request should be answered: the cores' schedule puts it before those without, and
        /// those with later ones, if it knows deadlines
        deadline: Option<Duration> = absent,
        /// the device that serves it, if there are several
        device: Option<String> = absent,
        /// makes it background work, [class.background]: a client for each device, each with `backlog` requests at most
        background: Option<BackgroundSpec> = absent,
        /// when the clients come
        from: Duration = (Duration::default()),
        /// when they leave; they stay if absent
        to: Option<Duration> = absent,
        /// changes in time, a [[class.phase]] each
        phases as "phase": Vec<PhaseSpec> = absent,
        ..share: ShareKeys,
    }
}

keys! {
    /// Keys that take the place of the class's from some time on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PhaseSpec {
        /// from when on this phase's keys take the place of the class's
        at: Duration = required,
        /// whether the clients send anything
        active: Option<bool> = absent,
        /// as in the class, which must have one
        backlog: Option<u32> = absent,
        /// as in the class, which must have one
        rate: Option<Rate> = absent,
        /// as in the class
        read_ratio: Option<Ratio> = absent,
        /// as in the class
        hit_ratio: Option<Ratio> = absent,
        /// as in the class
        priority: Option<IoPriority> = absent,
        ..share: ShareKeys,
    }
}

/// Every key of an experiment file, by table; the empty name is the file itself.
#[must_use]
pub fn key_tables() -> Vec<(&'static str, Vec<Key>)> {
    vec![
        ("", Experiment::keys()),
        ("[[class]]", ClassSpec::keys()),
        ("[[class.phase]]", PhaseSpec::keys()),
        ("[class.background]", BackgroundSpec::keys()),
        ("[class.cost]", CostSpec::keys()),
        ("[class.swing]", SwingSpec::keys()),
        ("[[device]]", DeviceGroupSpec::keys()),
        ("[cores]", CoresSpec::keys()),
        ("[cores.tail]", TailSpec::keys()),
        ("[log]", LogSpec::keys()),
        ("[read_ahead]", ReadAheadSpec::keys()),
        ("[locks]", LocksSpec::keys()),
        ("[own_work]", OwnWorkSpec::keys()),
        ("[[group]]", GroupSpec::keys()),
        ("[[expect]]", Expectation::keys()),
    ]
}

/// The device of an experiment, or its devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant)] // One in an experiment.
pub enum DeviceChoice {
    /// One device, which serves all classes.
    One(ModelChoice),
    /// Several, to which classes go by name.
    Several(Vec<DeviceGroupSpec>),
}

impl<'de> Deserialize<'de> for DeviceChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = DeviceChoice;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("the name of a device, a table such as [device.tiered], or tables [[device]]")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<DeviceChoice, E> {
                Ok(DeviceChoice::One(ModelChoice::Named(name.into())))
            }

            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<DeviceChoice, M::Error> {
                ModelChoice::deserialize(de::value::MapAccessDeserializer::new(map)).map(DeviceChoice::One)
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<DeviceChoice, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(seq)).map(DeviceChoice::Several)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// How the arrivals of an open loop are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Independent of one another: distances are exponentially distributed.
    #[default]
    Poisson,
    /// Always the same.
    Constant,
}

impl BackgroundSpec {
    pub(super) const CALM: Duration = Duration::new(Nanos(5_000_000));
    pub(super) const REQUEST_TIME: Duration = Duration::new(Nanos(10_000_000));
    /// The paper's fixed bucket begins here.
    pub(super) const LOW: Ratio = Ratio::of_millionths(400_000);
    /// The debt at which the paper's fixed bucket takes all cores.
    pub(super) const HIGH: Ratio = Ratio::of_millionths(500_000);
}

/// When background work sends a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// While the device has no foreground request, and when the deadline requires it.
    #[default]
    Idle,
    /// When the debt reaches a watermark.
    Watermark,
    Always,
}
