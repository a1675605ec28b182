//! Ways to protect the streams that count from all others: Linux's I/O controllers, and the block server's shares.
//!
//! The streams that count are one cgroup, all others another one. Each way is tried with a weak, a medium and a strong setting on the half of the
//! trace that the search sees, and its best goes on to be judged beside the schedulers. Where a bound is asked for, the best is the one that
//! keeps it for the least throughput; else the one with the lowest goal, and the weaker of two that are alike.

use std::fmt;

use ioweir_config::{Duration, SchedulerChoice};
use ioweir_core::tenant::{GroupId, Share};
use ioweir_core::{Nanos, Operation};

use super::bench::{Bench, CLOSED, Measures, RECORDED, score};
use super::host::Step;
use super::pieces::Pieces;
use super::space::Candidate;
use super::spec::AdviseSpec;
use crate::calibration::settings;
use ioweir_lab::compare::{Goal, Who};
use ioweir_lab::run::RunError;

/// Linux's weight of a cgroup.
const WEIGHT: u32 = 100;
/// Weights of the protected cgroup, weak to strong; those of bfq end at 1,000.
const WEIGHTS: [u32; 3] = [200, 800, 5_000];
const WEIGHTS_BFQ: [u32; 3] = [200, 500, 1_000];
/// The part of what the others do without limits that io.max lets them do, in percent.
const LIMITS_PERCENT: [u64; 3] = [75, 50, 25];
/// Targets of io.latency: what is to be kept, divided by these.
const TARGETS: [u64; 3] = [1, 2, 4];
/// The highest rate of io.cost in percent of the model's: weights hold for requests that wait at the controller only.
const RATE_MAX_PERCENT: u64 = 90;
/// Scores that differ by less are alike.
const ALIKE: f64 = 1.0 + ioweir_lab::document::SAME_SHARE;
/// The groups of streams.
pub(super) const PROTECTED: GroupId = GroupId(0);
const OTHERS: GroupId = GroupId(1);

/// A way to protect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Max,
    Latency,
    Cost,
    Bfq,
    /// The block server, by weight.
    Server,
}

impl Way {
    const ALL: [Self; 5] = [Self::Max, Self::Latency, Self::Cost, Self::Bfq, Self::Server];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Max => "io.max",
            Self::Latency => "io.latency",
            Self::Cost => "io.cost",
            Self::Bfq => "bfq",
            Self::Server => "ioweir serve",
        }
    }

    const fn policy(self) -> &'static str {
        match self {
            Self::Max => "io-max",
            Self::Latency => "io-latency",
            Self::Cost => "io-cost",
            Self::Bfq => "bfq-groups",
            Self::Server => "sfq",
        }
    }
}

/// The shares of both cgroups in a way.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cgroups {
    pub(super) way: Way,
    /// Of the protected one, and of the others.
    pub(super) shares: [Share; 2],
}

impl fmt::Display for Cgroups {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [protected, others] = &self.shares;
        match self.way {
            Way::Max => write!(out, "io.max {} of the others", limits(others)),
            Way::Latency => write!(out, "io.latency target={}", micros(protected.latency)),
            way => write!(out, "{} weight {} beside {WEIGHT}", way.name(), protected.weight),
        }
    }
}

fn micros(time: Nanos) -> u64 {
    time.0.div_ceil(1_000)
}

/// The limits of a share, as `io.max` takes them.
fn limits(share: &Share) -> String {
    let parts = [("riops", share.reads_per_second), ("wiops", share.writes_per_second)];
    let given = parts.iter().filter(|(_, rate)| *rate > 0).map(|(key, rate)| format!("{key}={rate}"));
    given.collect::<Vec<_>>().join(" ")
}

/// The group of each stream of the kept trace.
pub(super) fn tenants(who: &Who, pieces: &Pieces) -> Vec<GroupId> {
    let Some(named) = who.named_streams() else { return Vec::new() };
    let most = pieces.records().map(|record| record.stream).max().map_or(0, |stream| stream.0 + 1);
    let group = |stream| if named.contains(&ioweir_core::StreamId(stream)) { PROTECTED } else { OTHERS };
    (0..most).map(group).collect()
}

/// Requests of the others, and how fast they come without limits.
struct Others {
    reads_per_second: f64,
    writes_per_second: f64,
}

impl Others {
    /// Of the half of the trace that the search sees, as fast as the closed loop does it under the present settings.
    fn of(who: &Who, pieces: &Pieces, leave: &Measures) -> Self {
        let seconds = leave[CLOSED].value(Goal::Completion).unwrap_or(0.0).max(1e-9);
        let count = |is_read: bool| {
            let its = pieces.seen_records().filter(|record| !who.counts(record));
            its.filter(|record| (record.operation == Operation::Read) == is_read).count() as f64
        };
        Self { reads_per_second: count(true) / seconds, writes_per_second: count(false) / seconds }
    }

    fn limited(&self, percent: u64) -> Share {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of requests")]
        let part = |rate: f64| if rate > 0.0 { ((rate * percent as f64 / 100.0) as u64).max(1) } else { 0 };
        Share {
            reads_per_second: part(self.reads_per_second),
            writes_per_second: part(self.writes_per_second),
            ..Share::weighted(WEIGHT)
        }
    }
}

/// The candidates of a way, the weak first.
fn tried(way: Way, scheduler: SchedulerChoice, others: &Others, target: Nanos) -> Vec<Candidate> {
    let usual = Share::weighted(WEIGHT);
    let shares: [[Share; 2]; 3] = match way {
        Way::Max => LIMITS_PERCENT.map(|percent| [usual, others.limited(percent)]),
        Way::Latency => TARGETS.map(|part| [Share { latency: Nanos((target.0 / part).max(1_000)), ..usual }, usual]),
        Way::Bfq => WEIGHTS_BFQ.map(|weight| [Share::weighted(weight), usual]),
        Way::Cost | Way::Server => WEIGHTS.map(|weight| [Share::weighted(weight), usual]),
    };
    shares.map(|shares| Candidate { cgroups: Some(Cgroups { way, shares }), ..Candidate::of(scheduler) }).into()
}

/// The scheduler of a way: the controller above the elevator that is set.
fn scheduler(way: Way, bench: &Bench<'_>, leave: &Candidate) -> Result<SchedulerChoice, RunError> {
    let (row, present) = (way.policy(), &leave.scheduler);
    let has_elevator =
        present.below.is_none() && !present.row.knows_shares && !["none", "noop"].contains(&present.row.name);
    let tags = bench.base.limits.requests_per_direction;
    let mut choice: SchedulerChoice = match way {
        Way::Bfq => row.parse()?,
        // The window of a pair of the server is its own; a controller's is the tags above the elevator.
        Way::Server if has_elevator => format!("{row}+{present}").parse()?,
        _ if has_elevator => format!("{row}+{present}:window={tags}").parse()?,
        _ => row.parse()?,
    };
    if way == Way::Cost {
        choice = settings(&bench.base.device)?.priced(&choice);
        for (name, value) in [("max", RATE_MAX_PERCENT), ("rotational", u64::from(bench.base.device.rotates()))] {
            // Both lie within their ranges.
            let _ = choice.row.set(&mut choice.settings, name, value);
        }
    }
    Ok(choice)
}

/// The best setting of each way, on the half of the trace that the search sees; none where no cgroups are tried.
pub(super) fn ways(
    spec: &AdviseSpec,
    bench: &Bench<'_>,
    pieces: &Pieces,
    leave: &Candidate,
) -> Result<Vec<Candidate>, RunError> {
    if !spec.cgroups {
        return Ok(Vec::new());
    }
    let seen = pieces.seen(Pieces::SEEN);
    let present = bench.measure(&[leave], &seen, spec.seed)?.swap_remove(0);
    let others = Others::of(bench.who, pieces, &present);
    // A latency that is wanted; or half of what there is.
    let wanted = spec.bound.filter(|bound| matches!(bound.goal, Goal::ReadP99 | Goal::Mean)).map(|bound| bound.most);
    let half = || present[RECORDED].value(Goal::Mean).map_or(Nanos::ZERO, |seconds| Nanos((seconds * 5e8) as u64));
    let target = wanted.map_or_else(half, Duration::nanos);
    let mut best = Vec::new();
    for way in Way::ALL {
        let tried = tried(way, scheduler(way, bench, leave)?, &others, target);
        let measured = bench.measure(&tried.iter().collect::<Vec<_>>(), &seen, spec.seed)?;
        let excess = |own: &Measures| spec.bound.map_or(1.0, |bound| bound.excess(&own[RECORDED]).max(1.0));
        let scores: Vec<f64> = measured.iter().map(|own| score(spec.goal, own, &present)).collect();
        let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
        // The weak settings come first, and cost the least.
        let keeps = measured.iter().position(|own| spec.bound.is_some() && excess(own) <= 1.0);
        let at = keeps.or_else(|| scores.iter().position(|score| *score <= least * ALIKE)).unwrap_or(0);
        best.extend(tried.into_iter().nth(at));
    }
    Ok(best)
}

/// The lines for cgroups; what they need and change of the device is in their midst.
pub(super) fn lines(candidate: &Candidate, leave: &Candidate, spec: &AdviseSpec) -> Vec<Step> {
    let Some(Cgroups { way, shares: [protected, others] }) = &candidate.cgroups else { return Vec::new() };
    let device = &spec.host_device;
    let elevator = leave.linux().unwrap_or("none");
    let weigh = |file: &str, weight: u32| format!("echo {weight} > $PROTECTED/{file}");
    let root = |file: &str, line: &str| format!("echo \"$DEV {line}\" > /sys/fs/cgroup/{file}");
    let (apply, undo): (Vec<String>, Vec<String>) = match way {
        Way::Max => {
            let line = |text: &str| format!("echo \"$DEV {text}\" > $OTHERS/io.max");
            (vec![line(&limits(others))], vec![line("riops=max wiops=max")])
        }
        Way::Latency => {
            let line = |target: u64| format!("echo \"$DEV target={target}\" > $PROTECTED/io.latency");
            (vec![line(micros(protected.latency))], vec![line(0)])
        }
        Way::Cost => {
            let choice = &candidate.scheduler;
            let value = |key: &str| choice.row.get(&choice.settings, key).unwrap_or(0);
            let model = ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"]
                .map(|key| format!("{key}={}", value(key)));
            let qos = format!("enable=1 ctrl=user rpct=0.00 wpct=0.00 min=1.00 max={RATE_MAX_PERCENT}.00");
            (
                vec![
                    root("io.cost.model", &format!("ctrl=user model=linear {}", model.join(" "))),
                    root("io.cost.qos", &qos),
                    weigh("io.weight", protected.weight),
                ],
                vec![weigh("io.weight", WEIGHT), root("io.cost.qos", "enable=0"), root("io.cost.model", "ctrl=auto")],
            )
        }
        Way::Bfq => {
            let set = |name: &str| format!("echo {name} > /sys/block/{device}/queue/scheduler");
            (
                vec![set("bfq"), weigh("io.bfq.weight", protected.weight)],
                vec![weigh("io.bfq.weight", WEIGHT), set(elevator)],
            )
        }
        Way::Server => {
            let export = format!(
                "in [[export]] of the protected: weight = {}; of the others: weight = {WEIGHT}",
                protected.weight
            );
            (
                vec![
                    format!("in [[device]] of its spec: scheduler = \"{}\"", candidate.scheduler),
                    export,
                    "ioweir serve SPEC".into(),
                ],
                Vec::new(),
            )
        }
    };
    let step = |step: &'static str| move |line: String| Step { step, line };
    if *way == Way::Server {
        return apply.into_iter().map(step("only with ioweir serve")).collect();
    }
    let names = [
        format!("DEV=$(cat /sys/block/{device}/dev)"),
        "PROTECTED=/sys/fs/cgroup/NAME OTHERS=/sys/fs/cgroup/NAME  # the cgroups of those that count, and of all others".into(),
    ];
    let mut steps: Vec<Step> = names.into_iter().map(step("name")).collect();
    steps.push(step("note what is set")("grep . $PROTECTED/io.* $OTHERS/io.* /sys/fs/cgroup/io.cost.*".into()));
    steps.extend(apply.into_iter().map(step("apply")));
    steps.extend(undo.into_iter().map(step("undo")));
    steps
}
