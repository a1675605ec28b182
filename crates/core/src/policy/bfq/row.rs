//! Documentation and parameters of bfq.

use crate::policy::{Bound, Parameter, Reads, Row, Settings, Wait};
use crate::queue::QueueLimits;
use crate::settings::{HOUR, MILLI};
use crate::tenant::{CLIENTS, GROUPS};
use crate::{Nanos, SECTOR_BYTES};

/// Whether clients with shares are cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Processes,
    Grouped,
}

pub(crate) static ROW: Row<Form> = Row {
    name: "bfq",
    summary: "budget fair queueing: a share of the sectors for each process, idling, weight raising",
    source: "Linux block/bfq-iosched.c and bfq-wf2q.c (4.12 on; as of 5.13 and later), \
Documentation/block/bfq-iosched.rst; Valente and Andreolini, SYSTOR 2012; Valente and Checconi, IEEE TC 59(9), 2010",
    doc: "Each process has a queue for its synchronous requests; the asynchronous requests of all processes share one queue \
for each I/O priority. Realtime queues go before best-effort ones, and those before idle ones. Idle queues get a turn every \
200 ms, which ends after one request while others wait. Priority levels become weights from 8 to 1; a new priority takes \
effect at the queue's next turn. B-WF2Q+ chooses the queue whose turn is next. A turn is limited by a budget of sectors and \
by a timeout, and its end decides the next budget. A slow queue, and one that runs out of time, is charged for its time \
instead of its sectors. Asynchronous sectors count threefold. At the end of a queue's requests the device idles for its next \
one where that raises the throughput (on a device that seeks and queues no commands; for a sequential process with a short \
think time also on others, unless they queue commands and do not seek; never while a queue is raised) or protects a share \
(queues of different priorities are busy, no other queue is, or the queue is raised and others are not). For a seeky queue it idles 2 ms at most. A queue that asks \
again within three idle times keeps its budget and its position, and may preempt. Interactive and soft real-time queues are \
raised in weight, but none in large bursts, and none of a process with another level than 4. Within a queue the nearest \
request goes; an expired one goes first, once a turn. With `rules=kernel` more of the kernel's rules hold: the largest budget is what the device transfers in `timeout-sync` at its \
measured peak rate, and how long interactive queues are raised follows from that rate, too; a queue begins with a low budget when its raise is over; \
any queue that becomes busy ends a turn for which the device does not idle, and the choice is made anew; queues made within 180 ms are merged \
600 ms later, unless idling for them raises the throughput. Beside the kernel's on an emulated disk (experiments/serve), these rules bring the \
prediction closer by some percent where it takes one request at a time. Turns of the kernel are shorter than these all the same, and its rate is not the reason: \
`max-budget=1MiB` comes closer there. Simplified: by the usual rules, `max-budget` is fixed at what the kernel begins with, and so is the \
time for which interactive queues are raised. Whether the device queues commands is inferred from its depth. A process counts as bound by its device if its think time is short. A turn serves at least one \
request however small its budget is, where the kernel enlarges the budget beforehand. Queues that are not busy weigh \
nothing. While the device idles for a queue, one request of the next queue may be injected, where the queue thinks long, or after an \
idle time if it never came back; on a device that does not seek also where it comes back at once. The kernel injects as many \
requests as it has measured to be harmless. Left out: the cgroup \
hierarchy; merging of cooperating queues; being bound by I/O as a share of idle time; raising of asynchronous queues; the limit of tags for asynchronous requests.",
    bound: BOUND,
    reads: Reads::PRIORITY,
    linux: Some("bfq"),
    parameters: &PARAMETERS,
    form: Form::Processes,
};

/// The row with cgroups.
pub(crate) static GROUPED: Row<Form> = Row {
    name: "bfq-groups",
    summary: "bfq with a cgroup for each client: io.bfq.weight, also of nested cgroups",
    source: "Linux block/bfq-cgroup.c and bfq-wf2q.c as of 6.12; Documentation/block/bfq-iosched.rst, group scheduling",
    doc: "As bfq, but each client with a share is a cgroup with one process: its `weight` is its `io.bfq.weight` (Linux: 1 to 1000, 100 \
by default), and its group is the cgroup above it. The weight of a cgroup is divided among those in it that are busy, by their weights. \
While two cgroups are busy, the device idles for a queue that ran dry, so that shares hold at the cost of throughput; a device that is \
fast does more with `slice-idle=0s`, which gives shares up. A process outside of any cgroup weighs 40, or ten for each level \
of its priority from 80 to 10. Simplified: a cgroup's process is one queue, in which its asynchronous requests are, too; a weight \
that changes, or is divided otherwise, holds from a queue's next turn; raising does not reach beyond a cgroup, and priorities count \
outside of cgroups only, since a cgroup is best-effort. Left out: since 5.17 the kernel divides the queue's `nr_requests` by weight, too, so \
that where it is small (twice the device's depth by default), a cgroup has fewer requests queued than it has outstanding.",
    bound: BOUND,
    reads: Reads::WEIGHT,
    linux: None,
    parameters: &{
        let mut all = [CLIENTS; GROUPED_PARAMETERS];
        let mut at = 0;
        while at < PARAMETERS.len() {
            all[at] = PARAMETERS[at];
            at += 1;
        }
        all[GROUPED_PARAMETERS - 1] = GROUPS;
        all
    },
    form: Form::Grouped,
};

/// The number of parameters with cgroups: those of bfq, and the places for clients and groups.
pub(super) const GROUPED_PARAMETERS: usize = PARAMETERS.len() + 2;

const PARAMETERS: [Parameter; 9] = [
    Parameter::duration("slice-idle", 8 * MILLI, 0, HOUR, "idle time for a queue that ran dry; 0: none")
        .tried(0, 16 * MILLI)
        .on_linux("slice_idle", MILLI),
    Parameter::bytes(
        "max-budget",
        BUDGET_MAX_USUAL * SECTOR_BYTES,
        32 * SECTOR_BYTES,
        1 << 40,
        "most that a queue is served in a turn",
    )
    .fixed()
    .on_linux("max_budget", SECTOR_BYTES),
    Parameter::duration("timeout-sync", 125 * MILLI, MILLI, HOUR, "longest turn").on_linux("timeout_sync", MILLI),
    Parameter::switch("low-latency", true, "whether interactive and soft real-time queues are raised")
        .on_linux("low_latency", 1),
    Parameter::duration("interactive-time", INTERACTIVE_USUAL, 0, HOUR, "how long an interactive queue is raised")
        .fixed(),
    Parameter::duration("fifo-expire-sync", 125 * MILLI, 0, HOUR, "age from which a synchronous request goes first")
        .on_linux("fifo_expire_sync", MILLI),
    Parameter::duration("fifo-expire-async", 250 * MILLI, 0, HOUR, "the same for the asynchronous queue")
        .on_linux("fifo_expire_async", MILLI),
    Parameter::choice("rotational", &["device", "yes", "no"], "whether the device has to seek; device: as it is")
        .fixed(),
    Parameter::choice(
        "rules",
        &["usual", "kernel"],
        "kernel: `max-budget` and `interactive-time` follow the measured rate where they are the defaults, and queues \
made together are merged",
    )
    .fixed(),
];

const BOUND: Bound = Bound {
    doc: "within a class of priority, while a queue of weight w is busy, each other queue of weight v gets at most v / w of this \
queue's budget plus one budget of its own; a raised queue weighs at most 3,000 times as much, no budget is above `max-budget`, and within a queue \
a request with k older ones waits for k + 1 turns. A class waits without a bound while a class above it is busy, as in the kernel",
    wait: Wait::Dispatches(|backlog, settings| {
        let [_, budget_bytes] = settings.values();
        let budget = budget_bytes / SECTOR_BYTES;
        let turns = backlog.streams * (1 + super::raising::Raise::RealTime.weight()) * (backlog.older + 1);
        turns.saturating_mul(budget + 1024) / backlog.request_sectors.max(1)
    }),
};

/// The largest budget in sectors, and how long an interactive queue is raised, where neither settings nor a rate say it.
pub(super) const BUDGET_MAX_USUAL: u64 = 16 * 1024;
const INTERACTIVE_USUAL: u64 = 7_000 * MILLI;

#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) idle: Nanos,
    /// The largest budget, in sectors, and how long an interactive queue is raised; `None` where the measured rate says it.
    pub(super) budget_max: Option<u64>,
    pub(super) interactive: Option<Nanos>,
    pub(super) timeout: Nanos,
    pub(super) low_latency: bool,
    /// Asynchronous, synchronous.
    pub(super) fifo_expire: [Nanos; 2],
    pub(super) is_rotational: bool,
    /// Whether the kernel's further rules hold.
    pub(super) is_kernel: bool,
}

impl Config {
    pub(super) fn new(settings: &Settings, limits: &QueueLimits) -> Self {
        let [idle, budget_bytes, timeout, low_latency, interactive, expire_sync, expire_async, rotational, rules] =
            settings.values();
        let is_kernel = rules == 1;
        // Under the kernel's rules, a setting that is left at its default follows the measured rate.
        let set = |value, usual| Some(value).filter(|_| !is_kernel || value != usual);
        Self {
            idle: Nanos(idle),
            budget_max: set(budget_bytes / SECTOR_BYTES, BUDGET_MAX_USUAL),
            interactive: set(interactive, INTERACTIVE_USUAL).map(Nanos),
            timeout: Nanos(timeout),
            low_latency: low_latency != 0,
            fifo_expire: [Nanos(expire_async), Nanos(expire_sync)],
            is_rotational: if rotational == 0 { limits.rotational } else { rotational == 1 },
            is_kernel,
        }
    }
}
