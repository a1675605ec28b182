//! Documentation and parameters of bfq.

use crate::policy::{Parameter, Row, Settings};
use crate::queue::QueueLimits;
use crate::settings::{HOUR, MILLI};
use crate::{Nanos, SECTOR_BYTES};

pub(crate) static ROW: Row<()> = Row {
    name: "bfq",
    summary: "budget fair queueing: a share of the sectors for each process, idling, weight raising",
    source: "Linux block/bfq-iosched.c and bfq-wf2q.c (4.12 on; as of 5.13 and later), \
Documentation/block/bfq-iosched.rst; Valente and Andreolini, SYSTOR 2012; Valente and Checconi, IEEE TC 59(9), 2010",
    doc: "In: a queue for each process's synchronous requests, and for asynchronous ones of each I/O priority; classes of priority, \
realtime before best effort before idle, where idle queues have a turn every 200 ms and lose it after a request while others wait; \
levels as weights from 8 to 1; a new priority from the queue's next turn on; B-WF2Q+; budgets with feedback from \
the end of a turn; budget timeout; slow queues and those that run out of time are charged for time; asynchronous sectors \
count threefold; idling where it helps throughput (rotational, no queueing or a sequential queue with short think time, none \
raised) or the share (queues of different weight are busy, or the queue is alone), 2 ms at most for seekers; a queue that \
asks again within three idle times keeps its budget and its position, and may preempt; weight raising, interactive and soft \
real-time, none in large bursts, nor of a process with another level than 4; nearest request, expired ones once a turn. Simplified: `max-budget` is fixed (kernel: from \
the measured peak rate), and so is the time for which interactive queues are raised; queueing is inferred from the device's \
depth; a process is bound by its device if its think time is short; a turn serves one request however small its budget, where \
the kernel enlarges the budget beforehand; queues that are not busy weigh nothing; injection, that is one request of the next \
queue while the device idles for another, only on devices that do not seek, and never more than one (kernel: on disks too, and \
as many as it has learned to be harmless). Left out: cgroup hierarchy, merging of cooperating queues, raising of asynchronous queues, the limit of tags for asynchronous requests.",
    linux: Some("bfq"),
    parameters: &[
        Parameter::duration("slice-idle", 8 * MILLI, 0, HOUR, "idle time for a queue that ran dry; 0: none"),
        Parameter::bytes("max-budget", 8 << 20, 32 * SECTOR_BYTES, 1 << 40, "most that a queue is served in a turn"),
        Parameter::duration("timeout-sync", 125 * MILLI, MILLI, HOUR, "longest turn"),
        Parameter::switch("low-latency", true, "whether interactive and soft real-time queues are raised"),
        Parameter::duration("interactive-time", 7_000 * MILLI, 0, HOUR, "how long an interactive queue is raised"),
        Parameter::duration(
            "fifo-expire-sync",
            125 * MILLI,
            0,
            HOUR,
            "age from which a synchronous request goes first",
        ),
        Parameter::duration("fifo-expire-async", 250 * MILLI, 0, HOUR, "the same for the asynchronous queue"),
        Parameter::choice("rotational", &["device", "yes", "no"], "whether the device has to seek; device: as it is"),
    ],
    form: (),
};

#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) idle: Nanos,
    /// The largest budget, in sectors.
    pub(super) budget_max: u64,
    pub(super) timeout: Nanos,
    pub(super) low_latency: bool,
    pub(super) interactive: Nanos,
    /// Asynchronous, synchronous.
    pub(super) fifo_expire: [Nanos; 2],
    pub(super) is_rotational: bool,
}

impl Config {
    pub(super) fn new(settings: &Settings, limits: &QueueLimits) -> Self {
        let [idle, budget_bytes, timeout, low_latency, interactive, expire_sync, expire_async, rotational] =
            settings.values();
        Self {
            idle: Nanos(idle),
            budget_max: budget_bytes / SECTOR_BYTES,
            timeout: Nanos(timeout),
            low_latency: low_latency != 0,
            interactive: Nanos(interactive),
            fifo_expire: [Nanos(expire_async), Nanos(expire_sync)],
            is_rotational: if rotational == 0 { limits.rotational } else { rotational == 1 },
        }
    }

    pub(super) const fn budget_min(&self) -> u64 {
        self.budget_max / 32
    }
}
