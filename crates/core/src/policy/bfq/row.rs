//! What bfq says of itself, and what can be set.

use crate::policy::{Parameter, Row, Settings, Unit};
use crate::{Nanos, SECTOR_BYTES};

const MILLI: u64 = 1_000_000;

const fn duration(name: &'static str, default_millis: u64, min_millis: u64, help: &'static str) -> Parameter {
    let (default, min) = (default_millis * MILLI, min_millis * MILLI);
    Parameter { name, unit: Unit::Duration, default, min, max: 3_600_000 * MILLI, help }
}

pub(crate) static ROW: Row<()> = Row {
    name: "bfq",
    summary: "budget fair queueing: a share of the sectors for each process, idling, weight raising",
    source: "Linux block/bfq-iosched.c and bfq-wf2q.c (4.12 on; as of 5.13 and later), \
Documentation/block/bfq-iosched.rst; Valente and Andreolini, SYSTOR 2012; Valente and Checconi, IEEE TC 59(9), 2010",
    doc: "In: a queue for each process's synchronous requests and one for all asynchronous ones; B-WF2Q+; budgets with \
feedback from how a turn ended; budget timeout; slow queues and those that run out of time are charged for time; \
asynchronous sectors count threefold; idling where it helps throughput (rotational, no queueing or a sequential queue \
with short think time, nobody raised) or the share (queues of different weight are busy, or the queue is alone), 2 ms \
at most for seekers; a queue that asks again within three idle times keeps its budget and its place, and may preempt; \
weight raising, interactive and soft real-time, none in large bursts; nearest request, expired ones once a turn. \
Simplified: `max-budget` is fixed (kernel: from the measured peak rate), and so is how long interactive queues are \
raised; queueing is told from the device's depth; a process is bound by its device if its think time is short; a turn \
serves one request however small its budget, where the kernel enlarges the budget beforehand; queues that are not busy \
weigh nothing. Left out: I/O priorities and classes (all queues are best effort, one weight), cgroup hierarchy, \
merging of cooperating queues, injection, raising of asynchronous queues, the limit of tags for asynchronous requests.",
    linux: Some("bfq"),
    parameters: &[
        duration("slice-idle", 8, 0, "how long the disk idles for a queue that ran dry; zero to never idle"),
        Parameter {
            name: "max-budget",
            unit: Unit::Bytes,
            default: 8 << 20,
            min: 32 * SECTOR_BYTES,
            max: 1 << 40,
            help: "most that a queue is served in a turn",
        },
        duration("timeout-sync", 125, 1, "longest turn"),
        Parameter {
            name: "low-latency",
            unit: Unit::Switch,
            default: 1,
            min: 0,
            max: 1,
            help: "whether interactive and soft real-time queues are raised",
        },
        duration("interactive-time", 7_000, 0, "how long an interactive queue is raised"),
        duration("fifo-expire-sync", 125, 0, "age from which a synchronous request goes first in its queue's turn"),
        duration("fifo-expire-async", 250, 0, "the same for the asynchronous queue"),
        Parameter {
            name: "rotational",
            unit: Unit::Switch,
            default: 1,
            min: 0,
            max: 1,
            help: "whether the device has to seek",
        },
    ],
    form: (),
};

#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) idle: Nanos,
    /// In sectors.
    pub(super) budget_max: u64,
    pub(super) timeout: Nanos,
    pub(super) low_latency: bool,
    pub(super) interactive: Nanos,
    /// Asynchronous, synchronous.
    pub(super) fifo_expire: [Nanos; 2],
    pub(super) is_rotational: bool,
}

impl From<&Settings> for Config {
    fn from(settings: &Settings) -> Self {
        let [idle, budget_bytes, timeout, low_latency, interactive, expire_sync, expire_async, rotational] =
            settings.values();
        Self {
            idle: Nanos(idle),
            budget_max: budget_bytes / SECTOR_BYTES,
            timeout: Nanos(timeout),
            low_latency: low_latency != 0,
            interactive: Nanos(interactive),
            fifo_expire: [Nanos(expire_async), Nanos(expire_sync)],
            is_rotational: rotational != 0,
        }
    }
}

impl Config {
    pub(super) const fn budget_min(&self) -> u64 {
        self.budget_max / 32
    }
}
