//! Time by layer: what requests spend their time on, from their arrival at the server to the answer.

use ioweir_core::Reason;

use super::Stay;

/// The layers that a request passes. Their parts add up to the latency exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Workers that decode, check, log and answer.
    Cores,
    /// The scheduler of the device: the order of tenants, the elevator.
    Scheduler,
    /// The device itself.
    Device,
}

impl Layer {
    /// The name used in reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cores => "cores",
            Self::Scheduler => "scheduler",
            Self::Device => "device",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimePart {
    pub layer: Layer,
    /// The name used in reports and JSON.
    pub name: &'static str,
    /// The meaning in words.
    pub words: &'static str,
}

const CORE_WAIT: usize = 0;
const CORE_RUN: usize = 1;
pub(super) const LOG_ROOM: usize = 2;
pub(super) const LOCK: usize = 3;
pub(super) const GATE: usize = 4;
pub(super) const MEMORY: usize = 5;
const FIRST_REASON: usize = 6;
const DEVICE_QUEUE: usize = FIRST_REASON + Reason::COUNT;
const DEVICE_SERVICE: usize = DEVICE_QUEUE + 1;

impl TimePart {
    /// The name as people write it, without that of the layer.
    #[must_use]
    pub fn words_short(&self) -> String {
        let own = self.name.trim_start_matches("core_").trim_start_matches("device_");
        if self.layer == Layer::Scheduler { self.name.replace('_', " ") } else { own.replace('_', " ") }
    }
}

/// The parts of a request's time, in the order in which it passes them.
pub static TIME_PARTS: [TimePart; DEVICE_SERVICE + 1] = {
    let mut parts = [TimePart { layer: Layer::Scheduler, name: "", words: "" }; DEVICE_SERVICE + 1];
    let words = "ready to run, and every worker is busy with others";
    parts[CORE_WAIT] = TimePart { layer: Layer::Cores, name: "core_wait", words };
    parts[CORE_RUN] = TimePart { layer: Layer::Cores, name: "core_run", words: "a worker executes it" };
    let words = "the write log has no room until a consistency point ends";
    parts[LOG_ROOM] = TimePart { layer: Layer::Cores, name: "log_room", words };
    let words = "another request holds the lock of its object";
    parts[LOCK] = TimePart { layer: Layer::Cores, name: "lock", words };
    let words = "work of the server itself in its region is late";
    parts[GATE] = TimePart { layer: Layer::Cores, name: "own_work", words };
    let words = "others hold the memory for what it reads";
    parts[MEMORY] = TimePart { layer: Layer::Cores, name: "memory", words };
    let mut at = 0;
    while at < Reason::COUNT {
        let reason = Reason::ALL[at];
        parts[FIRST_REASON + at] = TimePart { layer: Layer::Scheduler, name: reason.name(), words: reason.words() };
        at += 1;
    }
    let words = "in the device, which works for other requests";
    parts[DEVICE_QUEUE] = TimePart { layer: Layer::Device, name: "device_queue", words };
    let words = "the device works for it";
    parts[DEVICE_SERVICE] = TimePart { layer: Layer::Device, name: "device_service", words };
    parts
};

/// The time of one request, or of many together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerTimes {
    /// Nanoseconds by part, in the order of [`TIME_PARTS`].
    pub part_nanos: [u64; TIME_PARTS.len()],
    /// Of the time between the scheduler and the completion by the device: that in which the device served background work.
    pub background_nanos: u64,
}

impl LayerTimes {
    /// Time that a worker was awaited.
    pub(super) fn core_waited(&mut self, nanos: u64) {
        self.part_nanos[CORE_WAIT] += nanos;
    }

    /// Time that a worker ran it.
    pub(super) fn core_ran(&mut self, nanos: u64) {
        self.part_nanos[CORE_RUN] += nanos;
    }

    /// Time that something in the server was awaited, by its part.
    pub(super) fn waited(&mut self, part: usize, nanos: u64) {
        self.part_nanos[part] += nanos;
    }

    /// Adds the request's way through the scheduler and the device.
    pub(super) fn served(&mut self, stay: &Stay) {
        for (part, wait) in self.part_nanos[FIRST_REASON..].iter_mut().zip(stay.wait_nanos) {
            *part += wait;
        }
        let in_device = stay.completed.since(stay.dispatched).0;
        self.part_nanos[DEVICE_QUEUE] += stay.device_queue_nanos;
        self.part_nanos[DEVICE_SERVICE] += in_device - stay.device_queue_nanos;
        self.background_nanos += stay.background_nanos;
    }

    /// Adds the time of others.
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, nanos) in self.part_nanos.iter_mut().zip(other.part_nanos) {
            *sum = sum.saturating_add(nanos);
        }
        self.background_nanos = self.background_nanos.saturating_add(other.background_nanos);
    }

    /// Time that a worker was awaited, in nanoseconds.
    #[must_use]
    pub const fn core_wait_nanos(&self) -> u64 {
        self.part_nanos[CORE_WAIT]
    }

    /// Time that a worker executed it, in nanoseconds.
    #[must_use]
    pub const fn core_run_nanos(&self) -> u64 {
        self.part_nanos[CORE_RUN]
    }

    /// Time that room in the write log was awaited, in nanoseconds.
    #[must_use]
    pub const fn log_room_nanos(&self) -> u64 {
        self.part_nanos[LOG_ROOM]
    }

    /// Time that the lock of its object was awaited, in nanoseconds.
    #[must_use]
    pub const fn lock_nanos(&self) -> u64 {
        self.part_nanos[LOCK]
    }

    /// Time that work of the server itself was awaited, in nanoseconds.
    #[must_use]
    pub const fn own_work_nanos(&self) -> u64 {
        self.part_nanos[GATE]
    }

    /// Time that memory for what it reads was awaited, in nanoseconds.
    #[must_use]
    pub const fn memory_nanos(&self) -> u64 {
        self.part_nanos[MEMORY]
    }

    /// The time in a layer, in nanoseconds.
    #[must_use]
    pub fn of_layer(&self, layer: Layer) -> u64 {
        let parts = TIME_PARTS.iter().zip(self.part_nanos).filter(|(part, _)| part.layer == layer);
        parts.fold(0, |sum, (_, nanos)| sum.saturating_add(nanos))
    }

    /// All parts together: the latency.
    #[must_use]
    pub fn sum_nanos(&self) -> u64 {
        self.part_nanos.iter().fold(0, |sum, nanos| sum.saturating_add(*nanos))
    }
}
