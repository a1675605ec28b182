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
    doc: include_str!("bfq.md"),
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
    doc: include_str!("bfq-groups.md"),
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
