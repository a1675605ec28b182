//! The table of schedules and their parameters.

use super::{CoresError, Dispatch, Log, Maintenance, Queue, SliceRule};
use crate::Nanos;
use crate::settings::{Parameter, SECOND, SettingError, Settings, settable};

/// The schedule of a pool of workers: its rules together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The rule for the queue of a request.
    pub dispatch: Dispatch,
    /// The weights of the queues, in the order of [`Queue::ALL`].
    pub weights: [u32; Queue::COUNT],
    /// The rule for the length of a turn.
    pub slices: SliceRule,
    /// Rules for MQ alone.
    pub maintenance: Maintenance,
}

impl Schedule {
    pub(super) fn check(&self) -> Result<(), CoresError> {
        if let Some(at) = self.weights.iter().position(|&weight| weight == 0) {
            return Err(CoresError::WeightZero(Queue::ALL[at]));
        }
        let base = match self.slices {
            SliceRule::Weighted { window, .. } => window,
            SliceRule::DepthAware { base, .. } => base,
        };
        if base == Nanos::ZERO || self.maintenance.slice == Some(Nanos::ZERO) {
            return Err(CoresError::SliceZero);
        }
        if self.maintenance.boost == 0 { Err(CoresError::BoostZero) } else { Ok(()) }
    }

    /// The weights of the queues in this state of the log. Only their ratios count; they are scaled so that MQ's is an
    /// integer.
    pub(super) fn weights(&self, log: Log) -> [u64; Queue::COUNT] {
        let [high, low, maintenance] = self.weights.map(u64::from);
        [high * 1000, low * 1000, maintenance * self.boost_per_mille(log)]
    }

    pub(super) fn slice(&self, queue: Queue, depths: [u32; Queue::COUNT], log: Log) -> Nanos {
        let slice = match self.maintenance.slice {
            Some(slice) if queue == Queue::Maintenance => slice,
            _ => self.slices.slice(queue, self.weights.map(u64::from), depths),
        };
        match queue {
            Queue::Maintenance => {
                let boosted = Nanos(slice.0.saturating_mul(self.boost_per_mille(log)) / 1000);
                boosted.min(self.slices.longest().max(slice))
            }
            // When weights differ greatly, a queue's share of the window may round to zero, and an empty turn would serve no
            // request.
            _ => slice.max(Nanos(1)),
        }
    }

    /// The factor of MQ's weight and slice, in thousandths.
    fn boost_per_mille(&self, log: Log) -> u64 {
        1000 + u64::from(self.maintenance.boost - 1) * u64::from(log.urgency_per_mille())
    }
}

/// A row of the table of schedules.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleRow {
    /// The name on the command line.
    pub name: &'static str,
    /// One line: what it does.
    pub summary: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// The section of that source.
    pub section: &'static str,
    /// How it works here, and where it differs from the source.
    pub doc: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    dispatch: Dispatch,
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
            boost,
        ] = settings.values();
        let slices = if qats == 0 {
            SliceRule::Weighted { window: Nanos(window), all_weights: all != 0 }
        } else {
            let priorities = [high_priority, low_priority, maintenance_priority].map(small);
            SliceRule::DepthAware { base: Nanos(base), cap: Nanos(cap), priorities }
        };
        Schedule {
            dispatch: self.dispatch,
            weights: [high, low, maintenance].map(small),
            slices,
            maintenance: Maintenance { slice: (slice > 0).then_some(Nanos(slice)), boost: small(boost) },
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
    maintenance_slice: u64,
    maintenance_boost: u64,
}

const BASELINE: Defaults =
    Defaults { high_weight: 60, qats: false, maintenance_slice: 200 * MICRO, maintenance_boost: 1 };
static WEIGHTED: [Parameter; 13] = parameters(&BASELINE);
static DEPTH_AWARE: [Parameter; 13] = parameters(&Defaults { qats: true, ..BASELINE });
static COMBINED: [Parameter; 13] = parameters(&Defaults { high_weight: 90, qats: true, ..BASELINE });
static ADAPTIVE: [Parameter; 13] =
    parameters(&Defaults { high_weight: 400, qats: true, maintenance_boost: 80, ..BASELINE });

/// The largest weight.
const WEIGHT_MAX: u64 = 1_000_000;

const fn parameters(defaults: &Defaults) -> [Parameter; 13] {
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
        Parameter::duration("mq-slice", defaults.maintenance_slice, 0, SECOND, "MQ's slice; 0s: by the equation"),
        Parameter::count(
            "mq-boost",
            defaults.maintenance_boost,
            1,
            1_000,
            "factor of MQ's weight and slice when the log is about to be full; 1: constant",
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
    },
    ScheduleRow {
        name: "rs-to-hq",
        summary: "restarted requests to HQ, new ones to LQ",
        source: WAFL,
        section: "section 3.2, Table 4, Figure 4(a)",
        doc: "The reverse of the baseline; preempted requests count as restarted. All else as in baseline.",
        parameters: &WEIGHTED,
        dispatch: Dispatch::RestartedHigh,
    },
    ScheduleRow {
        name: "all-to-hq",
        summary: "all requests to HQ",
        source: WAFL,
        section: "section 3.2, Table 4, Figures 4(a) and 5(d)",
        doc: "Restarted and preempted ones, too; only critical work goes elsewhere, to MQ. All else as in baseline.",
        parameters: &WEIGHTED,
        dispatch: Dispatch::AllHigh,
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
    },
    ScheduleRow {
        name: "w-rs-to-hq",
        summary: "writes and restarted requests to HQ, all else to LQ",
        source: WAFL,
        section: "sections 3.2 and 3.3, Table 4, Figures 4(c), 5(b) and 5(c)",
        doc: "Preempted requests count as restarted. All else as in baseline.",
        parameters: &WEIGHTED,
        dispatch: Dispatch::WritesRestartedHigh,
    },
    ScheduleRow {
        name: "np-to-hq",
        summary: "as baseline, but restarted requests to HQ if never preempted",
        source: WAFL,
        section: "section 3.2, Table 4, Figure 4(b)",
        doc: "A request that was preempted once counts as preempted until it is done: it is known to be long. All else as in baseline.",
        parameters: &WEIGHTED,
        dispatch: Dispatch::NotPreemptedHigh,
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
    },
    ScheduleRow {
        name: "combo",
        summary: "sord with slices by queue depth and an HQ weight of 90",
        source: WAFL,
        section: "section 5.2",
        doc: "sord's queues and qats's slices, with HQ drawn three times as often as LQ.",
        parameters: &COMBINED,
        dispatch: Dispatch::SizeOriented,
    },
    ScheduleRow {
        name: "adaptive",
        summary: "requests by the learnt CPU time of their kind, shortest first; MQ grows with its load",
        source: "Ours; the paper names it as future work",
        section: "section 7",
        doc: "The kind of a request is its operation, its size by powers of four, whether it is sequential, its source, and how often it \
has come back; for each kind a moving average of the CPU time still needed is kept. A request is due 64 times its remaining \
need after its arrival, and at its deadline at the latest. A request that needs more than four times the mean of all, and has \
no deadline, goes to LQ; all others to HQ, which is served by due time: short ones first, but a request is overtaken only by \
those that come less than 64 times its need after it. A kind counts as short before its first sample. Slices by depth, as \
qats, and few turns for LQ. MQ keeps its weight and 200 us while the log has room: long turns there would put a burst of \
maintenance before all clients. Once half of the log's part that takes writes is full, and the more the flush lags, MQ's \
weight and slice grow, the weight up to eighty times, the slice up to 5.3 ms. No setting depends on the workload.",
        parameters: &ADAPTIVE,
        dispatch: Dispatch::Learned,
    },
];
