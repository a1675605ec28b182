//! Which schedules have a name, and what can be set of them?

use super::{CoresError, Dispatch, Log, Maintenance, Queue, SliceRule};
use crate::Nanos;
use crate::settings::{Parameter, SettingError, Settings, Unit, settable};

/// How a pool of workers is scheduled: the parts, put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Where a request queues.
    pub dispatch: Dispatch,
    /// How often each queue is drawn, in the order of [`Queue::ALL`].
    pub weights: [u32; Queue::COUNT],
    /// For how long it is served then.
    pub slices: SliceRule,
    /// What MQ has of its own.
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

    /// How often each queue is drawn while the log stands so. Only ratios count: all are in units that make MQ's whole.
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
            // A window shared by very different weights may round to nothing, and a turn without time would serve no one.
            _ => slice.max(Nanos(1)),
        }
    }

    /// By how much MQ's weight and slice are raised: 1000 is not at all.
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
    /// Where in there.
    pub section: &'static str,
    /// How it works here, and where that differs from the source.
    pub doc: &'static str,
    /// What can be set.
    pub parameters: &'static [Parameter],
    dispatch: Dispatch,
}

impl ScheduleRow {
    /// The parts, put together as set.
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

/// A setting that its table keeps below 2^32.
fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The row of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ScheduleRow> {
    SCHEDULES.iter().find(|row| row.name == name)
}

const MICRO: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;

/// What schedules differ in by default.
struct Defaults {
    high_weight: u64,
    qats: u64,
    maintenance_slice: u64,
    maintenance_boost: u64,
}

const BASELINE: Defaults = Defaults { high_weight: 60, qats: 0, maintenance_slice: 200 * MICRO, maintenance_boost: 1 };
static WEIGHTED: [Parameter; 13] = parameters(&BASELINE);
static DEPTH_AWARE: [Parameter; 13] = parameters(&Defaults { qats: 1, ..BASELINE });
static COMBINED: [Parameter; 13] = parameters(&Defaults { high_weight: 90, qats: 1, ..BASELINE });
static ADAPTIVE: [Parameter; 13] =
    parameters(&Defaults { high_weight: 400, qats: 1, maintenance_boost: 80, ..BASELINE });

const fn parameters(defaults: &Defaults) -> [Parameter; 13] {
    const fn weight(name: &'static str, default: u64, help: &'static str) -> Parameter {
        Parameter { name, unit: Unit::Count, default, min: 1, max: 1_000_000, help }
    }
    const fn span(name: &'static str, default: u64, min: u64, help: &'static str) -> Parameter {
        Parameter { name, unit: Unit::Duration, default, min, max: SECOND, help }
    }
    const fn switch(name: &'static str, default: u64, help: &'static str) -> Parameter {
        Parameter { name, unit: Unit::Switch, default, min: 0, max: 1, help }
    }
    [
        weight("hq-weight", defaults.high_weight, "how often HQ is drawn, beside the others' weights"),
        weight("lq-weight", 30, "the same for LQ"),
        weight("mq-weight", 10, "the same for MQ"),
        switch("qats", defaults.qats, "slices by depth (Equation 2) instead of by weight (Equation 1)"),
        span("window", 2_000 * MICRO, MICRO, "Equation 1: the window C that the queues share"),
        switch("all-weights", 0, "Equation 1: empty queues' weights count, too"),
        span("base", 300 * MICRO, MICRO, "Equation 2: what every queue gets"),
        span("cap", 5_000 * MICRO, 0, "Equation 2: what the queues share by depth"),
        weight("hq-priority", 1, "Equation 2: what HQ's depth is multiplied by"),
        weight("lq-priority", 1, "the same for LQ"),
        weight("mq-priority", 1, "the same for MQ"),
        span("mq-slice", defaults.maintenance_slice, 0, "MQ's slice; 0s: as the equation says"),
        Parameter {
            name: "mq-boost",
            unit: Unit::Count,
            default: defaults.maintenance_boost,
            min: 1,
            max: 1_000,
            help: "how many times its weight and slice MQ gets when the log is about to be full; 1: never more",
        },
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
        doc: "A request that comes back, after a wait or preempted, is taken for long. What is critical goes to MQ, here as in every \
schedule. Slices by Equation 1 share the window among the queues that are not empty: 1200, 600 and 200 us where none is; the \
paper's text says so, while its all-to-lq results fit a share of all weights (all-weights=yes). MQ keeps 200 us. Added: \
a queue that was passed over 16 times as often as its weight lets one expect is served without a draw, which bounds waiting and \
happens once in nine million draws; a request may use a whole slice, even if it began late in its worker's turn.",
        parameters: &WEIGHTED,
        dispatch: Dispatch::Baseline,
    },
    ScheduleRow {
        name: "rs-to-hq",
        summary: "restarted requests to HQ, new ones to LQ",
        source: WAFL,
        section: "section 3.2, Table 4, Figure 4(a)",
        doc: "The baseline turned round; preempted requests count as restarted. All else as in baseline.",
        parameters: &WEIGHTED,
        dispatch: Dispatch::RestartedHigh,
    },
    ScheduleRow {
        name: "all-to-hq",
        summary: "all requests to HQ",
        source: WAFL,
        section: "section 3.2, Table 4, Figures 4(a) and 5(d)",
        doc: "Restarted and preempted ones, too; only what is critical goes elsewhere, to MQ. All else as in baseline.",
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
read nor write go to LQ, as `others` do in the paper's table. All else as in baseline.",
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
        doc: "Size-oriented request dispatching: what is expected to be short goes first. A preempted write goes to LQ: having been \
preempted says more than being a write. Lookups that neither read nor write go to LQ with the reads; the paper does not say. All \
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
of the paper's experiments. The depths are those at the moment of asking. All else as in baseline.",
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
        summary: "requests by the CPU time that others of their kind were seen to need, shortest first; MQ grows with its load",
        source: "Ours; the paper names it as future work",
        section: "section 7",
        doc: "A kind of request is what it does, its size by powers of four, whether it is sequential, whose it is, and how often it \
has come back; for each kind a moving average of the CPU time still needed is kept. A request is due 64 times what it still needs after \
it came in, and at its deadline at the latest. What needs more than four times the mean of all, and has no deadline, goes \
to LQ; everything else to HQ, which is served by due time: short ones first, but a request is overtaken only by those that come less \
than 64 times its need after it. Until a kind has been seen it counts as short. Slices by depth, as qats, and few turns for LQ. \
MQ keeps its weight and 200 us while the log has room: long turns there would put a burst of maintenance before everybody. Once half of what \
takes writes is full, and the more the flush is behind, MQ's weight and slice grow, the weight up to eighty times, the slice up to \
5.3 ms. Nothing is set for a workload.",
        parameters: &ADAPTIVE,
        dispatch: Dispatch::Learned,
    },
];
