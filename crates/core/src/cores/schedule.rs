//! The table of schedules and their parameters.

use super::{CoresError, Dispatch, Maintenance, Queue, SliceRule};
use crate::Nanos;
use crate::settings::{Parameter, SECOND, SettingError, Settings, settable};

/// The schedule of a pool of workers: its rules together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The rule for the queue of a request.
    pub dispatch: Dispatch,
    /// The order of HQ.
    pub order: Order,
    /// Which workers serve which requests.
    pub sharing: Sharing,
    /// The weights of the queues, in the order of [`Queue::ALL`].
    pub weights: [u32; Queue::COUNT],
    /// The rule for the length of a turn.
    pub slices: SliceRule,
    /// The CPU time after which a request of HQ or LQ is preempted; `None` means that of its turn.
    pub quantum: Option<Nanos>,
    /// Rules for MQ alone.
    pub maintenance: Maintenance,
}

/// The order in which requests leave HQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Requests with a deadline go first, the earliest deadline before others; the rest follow in the order of arrival.
    Deadline,
    /// The order of arrival.
    Arrival,
    /// The order of arrival, but each request is delayed in proportion to the CPU time that it needs or has had.
    Attained,
}

/// Which workers serve which requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Every worker serves any.
    All,
    /// Each worker has requests of HQ of its own, and takes those of others when it has none.
    Stealing,
    /// HQ gets as many workers as it needs, which never serve LQ.
    Reserved,
}

/// When a request without a deadline is due after its arrival, where that is compared with the deadlines of others: the
/// response time that the paper calls unacceptable.
const PROMISE: Nanos = Nanos::from_millis(30);

impl Schedule {
    pub(super) fn check(&self) -> Result<(), CoresError> {
        if let Some(at) = self.weights.iter().position(|&weight| weight == 0) {
            return Err(CoresError::WeightZero(Queue::ALL[at]));
        }
        let base = match self.slices {
            SliceRule::Weighted { window, .. } => window,
            SliceRule::DepthAware { base, .. } => base,
        };
        let spans = [Some(base), self.maintenance.slice, self.quantum];
        if spans.contains(&Some(Nanos::ZERO)) { Err(CoresError::SliceZero) } else { Ok(()) }
    }

    /// The weights of the queues, of which only the ratios count.
    pub(super) fn weights(&self) -> [u64; Queue::COUNT] {
        // Not `map`, which is not inlined: every turn asks for them.
        let [high, low, maintenance] = self.weights;
        [high.into(), low.into(), maintenance.into()]
    }

    /// The slice of `queue`, which is not empty. While a point is paced, MQ takes no part of what the others share.
    pub(super) fn slice(&self, queue: Queue, mut depths: [u32; Queue::COUNT], is_paced: bool) -> Nanos {
        if is_paced && queue != Queue::Maintenance {
            depths[Queue::Maintenance as usize] = 0;
        }
        let slice = match self.maintenance.slice {
            Some(slice) if queue == Queue::Maintenance => slice,
            _ => self.slices.slice(queue, self.weights(), depths),
        };
        // When weights differ greatly, a queue's share of the window may round to zero, and an empty turn would serve no
        // request.
        slice.max(Nanos(1))
    }

    /// When a request of HQ is due, if its order has it.
    pub(super) fn due(&self, arrival: Nanos, deadline: Option<Nanos>, delay: impl FnOnce() -> Nanos) -> Option<Nanos> {
        match self.order {
            Order::Deadline => deadline,
            Order::Arrival => None,
            Order::Attained => {
                let due = arrival.after(PROMISE);
                Some(deadline.map_or(due, |deadline| deadline.min(due)).after(delay()))
            }
        }
    }
}

/// A row of the table of schedules.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleRow {
    /// The name on the command line.
    pub name: &'static str,
    /// The schedule in one line.
    pub summary: &'static str,
    /// The publication that the schedule is from.
    pub source: &'static str,
    /// The section of that source.
    pub section: &'static str,
    /// How it works here, and where it differs from the source.
    pub doc: &'static str,
    /// The parameters of the schedule.
    pub parameters: &'static [Parameter],
    dispatch: Dispatch,
    sharing: Sharing,
    /// The order of HQ, unless a setting says another.
    order: Order,
}

impl ScheduleRow {
    /// Makes the schedule that these settings describe.
    #[must_use]
    pub fn schedule(&self, settings: &Settings) -> Schedule {
        let [
            high,
            low,
            maintenance,
            qats,
            window,
            all,
            base,
            cap,
            high_priority,
            low_priority,
            maintenance_priority,
            slice,
            pace,
            quantum,
        ] = settings.values();
        let slices = if qats == 0 {
            SliceRule::Weighted { window: Nanos(window), all_weights: all != 0 }
        } else {
            let priorities = [high_priority, low_priority, maintenance_priority].map(small);
            SliceRule::DepthAware { base: Nanos(base), cap: Nanos(cap), priorities }
        };
        let given = |nanos: u64| (nanos > 0).then_some(Nanos(nanos));
        Schedule {
            dispatch: self.dispatch,
            order: self.order,
            sharing: self.sharing,
            weights: [high, low, maintenance].map(small),
            slices,
            quantum: given(quantum),
            maintenance: Maintenance { slice: given(slice), paced: pace != 0 },
        }
    }
}

settable!(ScheduleRow);

/// Narrows a setting, which the parameter table keeps below 2^32.
fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Finds a row by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ScheduleRow> {
    SCHEDULES.iter().find(|row| row.name == name)
}

const MICRO: u64 = 1_000;

/// Defaults in which schedules differ.
struct Defaults {
    high_weight: u64,
    qats: bool,
    pace: bool,
    quantum: u64,
}

/// The number of parameters of each schedule.
const COUNT: usize = 14;

const BASELINE: Defaults = Defaults { high_weight: 60, qats: false, pace: false, quantum: 0 };
static WEIGHTED: [Parameter; COUNT] = parameters(&BASELINE);
static DEPTH_AWARE: [Parameter; COUNT] = parameters(&Defaults { qats: true, ..BASELINE });
static COMBINED: [Parameter; COUNT] = parameters(&Defaults { high_weight: 90, qats: true, ..BASELINE });
static ADAPTIVE: [Parameter; COUNT] =
    parameters(&Defaults { qats: true, pace: true, quantum: 500 * MICRO, ..BASELINE });
/// Defaults of schedules that run each request to its end.
static WHOLE: [Parameter; COUNT] = parameters(&Defaults { quantum: SECOND, ..BASELINE });
static PREEMPTIVE: [Parameter; COUNT] = parameters(&Defaults { quantum: 250 * MICRO, ..BASELINE });
/// Short requests are preferred as under no other schedule: LQ still gets one turn of a thousand.
static RESERVED: [Parameter; COUNT] = parameters(&Defaults { high_weight: 30_000, quantum: SECOND, ..BASELINE });

/// The largest weight.
const WEIGHT_MAX: u64 = 1_000_000;

const fn parameters(defaults: &Defaults) -> [Parameter; COUNT] {
    [
        Parameter::count("hq-weight", defaults.high_weight, 1, WEIGHT_MAX, "weight of HQ in the draw"),
        Parameter::count("lq-weight", 30, 1, WEIGHT_MAX, "the same for LQ"),
        Parameter::count("mq-weight", 10, 1, WEIGHT_MAX, "the same for MQ"),
        Parameter::switch("qats", defaults.qats, "slices by depth (Equation 2) instead of by weight (Equation 1)"),
        Parameter::duration("window", 2_000 * MICRO, MICRO, SECOND, "Equation 1: the window C that the queues share"),
        Parameter::switch("all-weights", false, "Equation 1: empty queues' weights count, too"),
        Parameter::duration("base", 300 * MICRO, MICRO, SECOND, "Equation 2: the time that every queue gets"),
        Parameter::duration("cap", 5_000 * MICRO, 0, SECOND, "Equation 2: the time that the queues share by depth"),
        Parameter::count("hq-priority", 1, 1, WEIGHT_MAX, "Equation 2: the factor of HQ's depth"),
        Parameter::count("lq-priority", 1, 1, WEIGHT_MAX, "the same for LQ"),
        Parameter::count("mq-priority", 1, 1, WEIGHT_MAX, "the same for MQ"),
        Parameter::duration("mq-slice", 200 * MICRO, 0, SECOND, "MQ's slice; 0s: by the equation"),
        Parameter::switch(
            "pace",
            defaults.pace,
            "while the log is flushed, MQ gets the turns without which the log would fill up first, and those that nobody else wants",
        ),
        Parameter::duration(
            "quantum",
            defaults.quantum,
            0,
            SECOND,
            "the CPU time after which a request of HQ or LQ is preempted; 0s: the slice of the turn",
        ),
    ]
}

const WAFL: &str = "Zhou et al., Empirical Evaluation and Enhancement of Enterprise Storage System Request Scheduling, ACM TOS \
14(2), 2018";

/// Every schedule, in the order in which help lists them.
pub static SCHEDULES: &[ScheduleRow] = &[
    ScheduleRow {
        name: "baseline",
        summary: "new requests to HQ, restarted ones to LQ",
        source: WAFL,
        section: "sections 2.2, 2.3, Table 4",
        doc: "A request that comes back, after a wait or preempted, is expected to be long. Critical work goes to MQ, here as in every \
schedule. Slices by Equation 1 share the window among the queues that are not empty: 1200, 600 and 200 us if none is; the \
paper's text says so, while its all-to-lq results fit a share of all weights (all-weights=yes). MQ keeps 200 us. Added: a \
queue that was passed over 16 times as often as its weight makes likely is served without a draw, which bounds waiting and \
happens once in nine million draws; a request may use a whole slice, even if it began late in its worker's turn.",
        parameters: &WEIGHTED,
        dispatch: Dispatch::Baseline,
        sharing: Sharing::All,
        order: Order::Deadline,
    },
    ScheduleRow {
        name: "rs-to-hq",
        summary: "restarted requests to HQ, new ones to LQ",
        source: WAFL,
        section: "section 3.2, Table 4, Figure 4(a)",
        doc: "The reverse of the baseline; preempted requests count as restarted. All else as in baseline.",
        parameters: &WEIGHTED,
        dispatch: Dispatch::RestartedHigh,
        sharing: Sharing::All,
        order: Order::Deadline,
    },
    ScheduleRow {
        name: "all-to-hq",
        summary: "all requests to HQ",
        source: WAFL,
        section: "section 3.2, Table 4, Figures 4(a) and 5(d)",
        doc: "Restarted and preempted ones, too; only critical work goes elsewhere, to MQ. All else as in baseline.",
        parameters: &WEIGHTED,
        dispatch: Dispatch::AllHigh,
        sharing: Sharing::All,
        order: Order::Deadline,
    },
    ScheduleRow {
        name: "all-to-lq",
        summary: "all requests to LQ",
        source: WAFL,
        section: "section 3.4, Table 4, Figure 5(d)",
        doc: "HQ stays empty, so that Equation 1 over non-empty queues gives LQ 1500 us beside MQ and 2000 us alone; over all weights it \
is 600 us, as the paper's result suggests (all-weights=yes). All else as in baseline.",
        parameters: &WEIGHTED,
        dispatch: Dispatch::AllLow,
        sharing: Sharing::All,
        order: Order::Deadline,
    },
    ScheduleRow {
        name: "w-to-hq",
        summary: "writes to HQ, all else to LQ",
        source: WAFL,
        section: "section 3.2, Table 4, Figure 4(c)",
        doc: "Writes are short: they are answered once they are logged. Restarted and preempted writes stay in HQ; lookups that neither \
read nor write go to LQ, as `others` in the paper's table. All else as in baseline.",
        parameters: &WEIGHTED,
        dispatch: Dispatch::WritesHigh,
        sharing: Sharing::All,
        order: Order::Deadline,
    },
    ScheduleRow {
        name: "w-rs-to-hq",
        summary: "writes and restarted requests to HQ, all else to LQ",
        source: WAFL,
        section: "sections 3.2 and 3.3, Table 4, Figures 4(c), 5(b) and 5(c)",
        doc: "Preempted requests count as restarted. All else as in baseline.",
        parameters: &WEIGHTED,
        dispatch: Dispatch::WritesRestartedHigh,
        sharing: Sharing::All,
        order: Order::Deadline,
    },
    ScheduleRow {
        name: "np-to-hq",
        summary: "as baseline, but restarted requests to HQ if never preempted",
        source: WAFL,
        section: "section 3.2, Table 4, Figure 4(b)",
        doc: "A request that was preempted once counts as preempted until it is done: it is known to be long. All else as in baseline.",
        parameters: &WEIGHTED,
        dispatch: Dispatch::NotPreemptedHigh,
        sharing: Sharing::All,
        order: Order::Deadline,
    },
    ScheduleRow {
        name: "sord",
        summary: "writes and restarted requests to HQ if never preempted, all else to LQ",
        source: WAFL,
        section: "section 4.1",
        doc: "Size-oriented request dispatching: requests that are expected to be short go first. A preempted write goes to LQ, because the \
preemption says more than the write. Lookups that neither read nor write go to LQ with the reads; the paper does not say. All \
else as in baseline.",
        parameters: &WEIGHTED,
        dispatch: Dispatch::SizeOriented,
        sharing: Sharing::All,
        order: Order::Deadline,
    },
    ScheduleRow {
        name: "qats",
        summary: "baseline with slices by queue depth",
        source: WAFL,
        section: "section 4.2, Equation 2",
        doc: "Queue-depth aware time slicing: every queue gets 300 us, and a share of 5000 us by its depth. MQ keeps 200 us, as in all \
of the paper's experiments. The depths are those at the begin of the turn. All else as in baseline.",
        parameters: &DEPTH_AWARE,
        dispatch: Dispatch::Baseline,
        sharing: Sharing::All,
        order: Order::Deadline,
    },
    ScheduleRow {
        name: "combo",
        summary: "sord with slices by queue depth and an HQ weight of 90",
        source: WAFL,
        section: "section 5.2",
        doc: "sord's queues and qats's slices, with HQ drawn three times as often as LQ.",
        parameters: &COMBINED,
        dispatch: Dispatch::SizeOriented,
        sharing: Sharing::All,
        order: Order::Deadline,
    },
    ScheduleRow {
        name: "adaptive",
        summary: "requests by arrival plus a delay by the CPU time that they need or have had; flushes paced by the room in the log",
        source: "Ours",
        section: "future work in section 7 of the paper on WAFL",
        doc: include_str!("adaptive.md"),
        parameters: &ADAPTIVE,
        dispatch: Dispatch::AllHigh,
        sharing: Sharing::All,
        order: Order::Attained,
    },
    ScheduleRow {
        name: "fcfs",
        summary: "one queue, first come, first served, to the end",
        source: "The reference of the field, such as in Prekas et al., ZygOS: Achieving Low Tail Latency for Microsecond-scale Networked Tasks, SOSP 2017",
        section: "section 2, centralized FCFS",
        doc: "The reference to which systems for short requests compare themselves. Deadlines count for nothing; a request that comes \
back from a wait queues behind all others; nothing is preempted before a second. Different: critical work is in MQ, as in \
every schedule, since behind hundreds of flush operations all clients would wait.",
        parameters: &WHOLE,
        dispatch: Dispatch::AllHigh,
        sharing: Sharing::All,
        order: Order::Arrival,
    },
    ScheduleRow {
        name: "stealing",
        summary: "a queue for each worker, first come, first served, and idle workers steal",
        source: "Prekas et al., ZygOS: Achieving Low Tail Latency for Microsecond-scale Networked Tasks, SOSP 2017",
        section: "section 4",
        doc: "A request belongs to a worker, by chance; in ZygOS its connection does, by the hash of the network card. A worker whose queue \
is empty takes the oldest request of the next worker that has one; ZygOS asks them in random order. Stealing costs nothing here: \
what it costs there is the interrupt to the other core. All else as in fcfs.",
        parameters: &WHOLE,
        dispatch: Dispatch::AllHigh,
        sharing: Sharing::Stealing,
        order: Order::Arrival,
    },
    ScheduleRow {
        name: "shinjuku",
        summary: "one queue, and what runs for longer than a quantum goes behind all others",
        source: "Kaffes et al., Shinjuku: Preemptive Scheduling for usecond-scale Tail Latency, NSDI 2019",
        section: "section 3, the policy with a single queue",
        doc: "Processor sharing, as near as preemption costs allow: no request waits for a long one for more than a quantum. The paper \
preempts every 5 us, for requests of 1 us; ours take some 50 us, and the quantum is 250 us in proportion. The model of a server \
takes preemption as free within a turn. The policy with a queue for each kind, which knows the kinds' promises, is left out. All \
else as in fcfs.",
        parameters: &PREEMPTIVE,
        dispatch: Dispatch::AllHigh,
        sharing: Sharing::All,
        order: Order::Arrival,
    },
    ScheduleRow {
        name: "darc",
        summary: "workers reserved for short requests, which idle when there are none",
        source: "Demoulin et al., When Idling is Ideal: Optimizing Tail-Latency for Heavy-Tailed Datacenter Workloads with Persephone, SOSP 2021",
        section: "section 3, DARC",
        doc: "A kind of request whose need is more than twice the mean is long, and goes to LQ, all others to HQ; the paper makes as many \
groups as there are service times that differ. HQ has reserved as many workers as its share of CPU time asks for, rounded, at \
least one, and not all: they never serve LQ, even if that leaves them idle. The others serve HQ first, too. Kinds and shares are \
learnt, every 0.1 s of CPU time; the paper's are profiled in windows. Different: one turn of a thousand goes to LQ first, which \
bounds its waiting, and reserved workers serve MQ. All else as in fcfs.",
        parameters: &RESERVED,
        dispatch: Dispatch::ShortHigh,
        sharing: Sharing::Reserved,
        order: Order::Arrival,
    },
];
