//! The tests of a scorecard: tenants, their loads, and what each is given by the scheduler under test.

use std::fmt::Write as _;
use std::sync::Arc;

use ioweir_config::{Duration, SchedulerChoice};
use ioweir_core::Nanos;
use ioweir_core::policy::Limits;
use ioweir_lab::experiment::{Experiment, ExperimentReport, METRICS, Summary, run};
use ioweir_lab::run::{Origin, Progress, RunError, Silent};
use ioweir_lab::sim::{ClassOutcome, Outcome};

use super::measured::Measured;
use super::spec::BASELINE;

/// Requests that a busy tenant keeps outstanding, of small and of large ones.
const BACKLOG: u32 = 32;
const BACKLOG_LARGE: u32 = 8;
/// The share of the device that a latency-sensitive tenant asks for.
const SENSITIVE_SHARE: f64 = 0.05;
/// Requests from which the rate of a device is measured, and of a run if no span is given.
const RATE_REQUESTS: f64 = 2_000.0;
const RUN_REQUESTS: f64 = 200_000.0;
/// The shortest and the longest run, in milliseconds: the longest loop of a kernel's controller takes half a second.
const SPAN_MILLIS: (f64, f64) = (2_000.0, 120_000.0);
/// The most that a run may last, in milliseconds.
const SPAN_MAX_MILLIS: u64 = 3_600_000;
/// Steps of a run, and those among them that warm up.
pub(super) const STEPS: u64 = 400;
pub(super) const WARM_STEPS: u64 = 100;
/// The step in which a tenant wakes up: in the middle of what is measured.
pub(super) const WAKES_STEP: u64 = 250;

/// A kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Random reads of 4 KiB.
    Small,
    /// Random reads of 256 KiB.
    Large,
    /// Random writes of 4 KiB.
    Writes,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Small, Self::Large, Self::Writes];

    fn keys(self) -> &'static str {
        match self {
            Self::Small => "size = \"4KiB\"",
            Self::Large => "size = \"256KiB\"",
            Self::Writes => "size = \"4KiB\"\nread_ratio = 0.0",
        }
    }

    const fn backlog(self) -> u32 {
        if matches!(self, Self::Large) { BACKLOG_LARGE } else { BACKLOG }
    }
}

/// How strongly a tenant is preferred to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Strength {
    Weak,
    Medium,
    Strong,
}

impl Strength {
    pub(super) const ALL: [Self; 3] = [Self::Weak, Self::Medium, Self::Strong];

    /// The weight of the preferred tenant, beside others of 1.
    pub(super) const fn weight(self) -> u32 {
        match self {
            Self::Weak => 4,
            Self::Medium => 20,
            Self::Strong => 100,
        }
    }

    /// The target of the preferred tenant, in multiples of its p99 alone.
    pub(super) const fn target(self) -> f64 {
        match self {
            Self::Weak => 4.0,
            Self::Medium => 2.0,
            Self::Strong => 1.0,
        }
    }

    /// The part of the device that the others together may take under limits.
    pub(super) const fn limit(self) -> f64 {
        match self {
            Self::Weak => 0.9,
            Self::Medium => 0.6,
            Self::Strong => 0.3,
        }
    }

    /// The priorities of the preferred tenant, and of the others.
    pub(super) const fn priorities(self) -> [&'static str; 2] {
        match self {
            Self::Weak => ["best-effort:0", "best-effort:7"],
            Self::Medium => ["realtime:0", "best-effort:4"],
            Self::Strong => ["realtime:0", "idle"],
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Weak => "weak",
            Self::Medium => "medium",
            Self::Strong => "strong",
        }
    }
}

/// How a tenant's requests arrive.
#[derive(Clone, Copy, Debug)]
enum Arrival {
    Backlog(u32),
    /// So many a second.
    Rate(f64),
    /// Never: the tenant is there, and silent.
    Silent,
    /// A backlog from the middle of the run on.
    Wakes(u32),
}

/// A class of tenants that are alike.
struct Tenants {
    name: &'static str,
    count: u32,
    kind: Kind,
    arrival: Arrival,
    weight: u32,
    target: Option<Nanos>,
    /// The limit of all tenants of the class together, as a share of the rate that one has alone.
    limit_share: Option<f64>,
    reservation_per_second: Option<u64>,
    priority: Option<&'static str>,
}

impl Tenants {
    fn new(name: &'static str, count: u32, kind: Kind, arrival: Arrival) -> Self {
        Self {
            name,
            count,
            kind,
            arrival,
            weight: 1,
            target: None,
            limit_share: None,
            reservation_per_second: None,
            priority: None,
        }
    }

    fn busy(name: &'static str, count: u32, kind: Kind) -> Self {
        Self::new(name, count, kind, Arrival::Backlog(kind.backlog()))
    }
}

/// Busy tenants beside a protected one: the name of their class, their number, and what they ask for.
pub(super) type Beside = (&'static str, u32, Kind);

/// The common part of all tests: the device, the schedulers, and the length of runs.
#[derive(Clone, Debug)]
pub(super) struct Loads {
    device: String,
    pub(super) depth: u32,
    pub(super) schedulers: Vec<SchedulerChoice>,
    seeds: Vec<u64>,
    pub(super) step_millis: u64,
    /// Requests a second of a tenant alone under no scheduler, by kind.
    alone: [f64; Kind::ALL.len()],
    /// The p99 of the latency-sensitive tenant alone under no scheduler.
    pub(super) p99_alone: Nanos,
    /// Results of the tests on a server, in place of simulations.
    measured: Option<Arc<Measured>>,
}

/// A finished test.
pub(super) struct Ran {
    /// A summary for each scheduler, in their order.
    pub(super) summaries: Vec<Summary>,
    /// The experiment, as a file for `ioweir simulate`.
    pub(super) toml: String,
}

impl Loads {
    /// Measures the device under no scheduler, from which the lengths of runs, limits and targets follow.
    pub(super) fn new(
        device: &str,
        depth: u32,
        schedulers: Vec<SchedulerChoice>,
        seeds: &[u64],
        span: Option<Duration>,
    ) -> Result<Self, RunError> {
        let baseline = schedulers.iter().filter(|choice| choice.row.name == BASELINE).take(1).copied().collect();
        let first = seeds.first().copied().unwrap_or(0);
        let mut alone = Self {
            device: device.to_owned(),
            depth,
            schedulers: baseline,
            seeds: vec![first],
            step_millis: 1,
            alone: [0.0; Kind::ALL.len()],
            p99_alone: Nanos::ZERO,
            measured: None,
        };
        for kind in Kind::ALL {
            alone.alone[kind as usize] = alone.rate_of(kind)?;
        }
        let measured = STEPS - WARM_STEPS;
        let wanted = RUN_REQUESTS / alone.capacity() * 1e3;
        let wanted = wanted.clamp(SPAN_MILLIS.0, SPAN_MILLIS.1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two bounds")]
        let wanted = span.map_or(wanted as u64, |span| span.nanos().0 / 1_000_000);
        if !(measured..=SPAN_MAX_MILLIS).contains(&wanted) {
            let problem = format!("each run would last {wanted} ms\n  expected: {measured}ms to 1h");
            return Err(RunError::Value(problem));
        }
        alone.step_millis = wanted.div_ceil(measured);
        let p99 = alone.one("alone", &[alone.sensitive(None)], &Silent)?;
        alone.p99_alone = nanos(figure(&p99, "latency_p99", "sensitive").unwrap_or(0.0));
        Ok(Self { schedulers, seeds: seeds.to_vec(), ..alone })
    }

    /// Small reads a second that the device serves under no scheduler.
    pub(super) fn capacity(&self) -> f64 {
        self.alone[Kind::Small as usize]
    }

    pub(super) fn alone(&self, kind: Kind) -> f64 {
        self.alone[kind as usize]
    }

    /// Runs of one test.
    pub(super) fn runs(&self) -> usize {
        self.schedulers.len() * self.seeds.len()
    }

    /// The span of a run that is measured.
    pub(super) fn span_seconds(&self) -> f64 {
        (self.step_millis * (STEPS - WARM_STEPS)) as f64 / 1e3
    }

    /// The rate of a kind of requests: runs become longer until there are enough.
    fn rate_of(&mut self, kind: Kind) -> Result<f64, RunError> {
        self.step_millis = 1;
        loop {
            let ran = self.one("rate", &[Tenants::busy("busy", 1, kind)], &Silent)?;
            let rate = figure(&ran, "iops", "busy").unwrap_or(0.0);
            if rate * self.span_seconds() >= RATE_REQUESTS || self.span_seconds() * 1e3 >= SPAN_MILLIS.1 {
                return match rate > 0.0 {
                    true => Ok(rate),
                    false => Err(RunError::Value(format!(
                        "{} serves no request in {} s\n  expected: a device that does",
                        self.device,
                        self.span_seconds()
                    ))),
                };
            }
            self.step_millis *= 4;
        }
    }

    /// One tenant alone that keeps so many requests outstanding.
    pub(super) fn overhead(&self, backlog: u32, progress: &dyn Progress) -> Result<Ran, RunError> {
        let tenants = [Tenants::new("alone", 1, Kind::Small, Arrival::Backlog(backlog))];
        self.ran(&format!("one tenant alone, with {backlog} requests outstanding"), &tenants, progress)
    }

    /// Busy tenants in classes: their number, the weight of each, and what they ask for.
    pub(super) fn shared(
        &self,
        title: &str,
        classes: &[(&'static str, u32, u32, Kind)],
        progress: &dyn Progress,
    ) -> Result<Ran, RunError> {
        let all: f64 = classes.iter().map(|(_, count, weight, _)| f64::from(count * weight)).sum();
        let tenants: Vec<Tenants> = classes
            .iter()
            .map(|&(name, count, weight, kind)| Tenants {
                weight,
                limit_share: Some(f64::from(count * weight) / all),
                ..Tenants::busy(name, count, kind)
            })
            .collect();
        self.ran(title, &tenants, progress)
    }

    /// A latency-sensitive tenant beside busy ones.
    pub(super) fn protection(
        &self,
        neighbours: u32,
        strength: Strength,
        progress: &dyn Progress,
    ) -> Result<Ran, RunError> {
        let all = [self.sensitive(Some(strength)), self.others(neighbours.max(1), strength)];
        let tenants = if neighbours == 0 { &all[..1] } else { &all[..] };
        let title = format!("a latency-sensitive tenant beside {neighbours} busy, {} settings", strength.name());
        self.ran(&title, tenants, progress)
    }

    /// A tenant with three quarters of the device that wakes up beside a busy one.
    pub(super) fn wake(&self, progress: &dyn Progress) -> Result<Ran, RunError> {
        let (weight, limit_share) = (3, Some(0.75));
        let arrival = Arrival::Wakes(BACKLOG);
        let tenants = [
            Tenants { limit_share: Some(0.25), ..Tenants::busy("busy", 1, Kind::Small) },
            Tenants { weight, limit_share, ..Tenants::new("wakes", 1, Kind::Small, arrival) },
        ];
        self.ran("a tenant that wakes up beside a busy one of a third of its weight", &tenants, progress)
    }

    /// A busy tenant beside a preferred one that is silent.
    pub(super) fn conservation(&self, progress: &dyn Progress) -> Result<Ran, RunError> {
        let silent = Tenants { arrival: Arrival::Silent, ..self.sensitive(Some(Strength::Medium)) };
        let tenants = [silent, self.others(1, Strength::Medium)];
        self.ran("a busy tenant beside a preferred one that is silent", &tenants, progress)
    }

    /// A tenant with one request outstanding beside preferred ones that are busy.
    pub(super) fn starvation(&self, progress: &dyn Progress) -> Result<Ran, RunError> {
        let strength = Strength::Strong;
        let [first, last] = strength.priorities();
        let tenants = [
            Tenants {
                limit_share: Some(1.0 / f64::from(4 * strength.weight() + 1)),
                priority: Some(last),
                ..Tenants::new("humble", 1, Kind::Small, Arrival::Backlog(1))
            },
            Tenants {
                weight: strength.weight(),
                target: Some(self.target(strength)),
                priority: Some(first),
                ..Tenants::busy("preferred", 4, Kind::Small)
            },
        ];
        self.ran("a tenant with one request beside four preferred ones that are busy", &tenants, progress)
    }

    /// A protected tenant with a weight and a share of the device, beside busy ones of another weight.
    pub(super) fn beside(
        &self,
        (weight, share): (u32, f64),
        (others, load): (u32, &[Beside]),
        progress: &dyn Progress,
    ) -> Result<Ran, RunError> {
        let rate = self.capacity() * share;
        let mut tenants = vec![Tenants { weight, ..Tenants::new("protected", 1, Kind::Small, Arrival::Rate(rate)) }];
        tenants.extend(
            load.iter().map(|&(name, count, kind)| Tenants { weight: others, ..Tenants::busy(name, count, kind) }),
        );
        let names: Vec<String> = load.iter().map(|(name, count, _)| format!("{count} {name}")).collect();
        self.ran(&format!("a protected tenant beside {}", names.join(", ")), &tenants, progress)
    }

    /// Replaces the schedulers and seeds; the tests stay as they are.
    pub(super) fn with(&self, schedulers: Vec<SchedulerChoice>, seeds: &[u64]) -> Self {
        Self { schedulers, seeds: seeds.to_vec(), ..self.clone() }
    }

    /// The tests of these loads, with measurements as results in place of simulations.
    pub(super) fn measured(&self, measured: Arc<Measured>) -> Self {
        Self { measured: Some(measured), ..self.clone() }
    }

    /// The part of the device's time that a run used: each class's rate by the rate that its requests have alone.
    pub(super) fn busy_share(&self, cell: &Outcome) -> f64 {
        let kind = |name: &str| match name {
            "large" => Kind::Large,
            "writes" => Kind::Writes,
            _ => Kind::Small,
        };
        let share = |class: &ClassOutcome| class.requests as f64 / self.alone(kind(&class.name));
        cell.classes.iter().map(share).sum::<f64>() / cell.span.as_seconds().max(1e-9)
    }

    fn target(&self, strength: Strength) -> Nanos {
        nanos(self.p99_alone.as_seconds() * strength.target())
    }

    fn sensitive(&self, strength: Option<Strength>) -> Tenants {
        let rate = self.capacity() * SENSITIVE_SHARE;
        let plain = Tenants::new("sensitive", 1, Kind::Small, Arrival::Rate(rate));
        let Some(strength) = strength else { return plain };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of requests")]
        let reserved = (rate * 1.5).ceil() as u64;
        Tenants {
            weight: strength.weight(),
            target: Some(self.target(strength)),
            reservation_per_second: Some(reserved),
            priority: Some(strength.priorities()[0]),
            ..plain
        }
    }

    fn others(&self, count: u32, strength: Strength) -> Tenants {
        Tenants {
            limit_share: Some(strength.limit()),
            priority: Some(strength.priorities()[1]),
            ..Tenants::busy("busy", count, Kind::Small)
        }
    }

    fn one(&self, title: &str, tenants: &[Tenants], progress: &dyn Progress) -> Result<Summary, RunError> {
        let summaries = self.ran(title, tenants, progress)?.summaries;
        summaries.into_iter().next().ok_or_else(|| RunError::Value(format!("{title}: nothing was run")))
    }

    fn ran(&self, title: &str, tenants: &[Tenants], progress: &dyn Progress) -> Result<Ran, RunError> {
        let toml = self.toml(title, tenants);
        if let Some(measured) = &self.measured {
            let summaries = measured.summaries(title, &toml, &self.schedulers)?;
            return Ok(Ran { summaries, toml });
        }
        let experiment = Experiment::parse(title, &toml)?;
        let origin = Origin { version: String::new(), commit: String::new(), command: String::new() };
        let ExperimentReport { summaries, .. } = run(&experiment, &origin, progress)?;
        Ok(Ran { summaries, toml })
    }

    /// A test as the file of an experiment. Keys that none of the schedulers reads are left out.
    fn toml(&self, title: &str, tenants: &[Tenants]) -> String {
        let millis = |steps: u64| format!("\"{}ms\"", steps * self.step_millis);
        let schedulers: Vec<String> = self.schedulers.iter().map(ToString::to_string).collect();
        let mut text = format!(
            "title = {title:?}\nduration = {}\nwarm_up = {}\ninterval = {}\ndepth = {}\nseeds = {:?}\nschedulers = {schedulers:?}\n\
             device = {:?}\n",
            millis(STEPS),
            millis(WARM_STEPS),
            millis(1),
            self.depth,
            self.seeds,
            self.device
        );
        tenants.iter().for_each(|tenants| self.push(&mut text, tenants));
        text
    }

    fn push(&self, text: &mut String, tenants: &Tenants) {
        let reads = |reads: fn(&SchedulerChoice) -> bool| self.schedulers.iter().any(reads);
        let mut line = |key: &str, value: &dyn std::fmt::Display| {
            let _ = writeln!(text, "{key} = {value}");
        };
        line("\n[[class]]\nname", &format!("{:?}", tenants.name));
        line("clients", &tenants.count);
        line("weight", &tenants.weight);
        match tenants.arrival {
            Arrival::Backlog(backlog) | Arrival::Wakes(backlog) => line("backlog", &backlog),
            Arrival::Rate(rate) => line("rate", &format!("\"{:.0}/s\"", rate.max(1.0))),
            Arrival::Silent => line("backlog", &1),
        }
        if let Some(target) = tenants.target.filter(|_| reads(|choice| choice.reads().latency)) {
            line("latency", &format!("\"{}us\"", target.0.div_ceil(1_000).max(1)));
        }
        if let Some(share) = tenants.limit_share.filter(|_| reads(|choice| choice.row.limits == Limits::Directions)) {
            let each = (self.alone(tenants.kind) * share / f64::from(tenants.count)).max(1.0);
            let key = if tenants.kind == Kind::Writes { "wiops" } else { "riops" };
            line(key, &format!("\"{each:.0}/s\""));
        }
        if let Some(rate) = tenants.reservation_per_second.filter(|_| reads(|choice| choice.reads().reservation)) {
            line("reservation", &format!("\"{rate}/s\""));
        }
        if let Some(priority) = tenants.priority.filter(|_| reads(|choice| choice.reads().priority)) {
            line("priority", &format!("{priority:?}"));
        }
        text.push_str(tenants.kind.keys());
        text.push('\n');
        let phase = |at: u64, active: bool| format!("[[class.phase]]\nat = \"{at}ms\"\nactive = {active}\n");
        match tenants.arrival {
            Arrival::Silent => text.push_str(&phase(0, false)),
            Arrival::Wakes(_) => {
                text.push_str(&phase(0, false));
                text.push_str(&phase(WAKES_STEP * self.step_millis, true));
            }
            Arrival::Backlog(_) | Arrival::Rate(_) => {}
        }
    }
}

/// A mean over the seeds, if there is anything to measure.
fn figure(summary: &Summary, metric: &str, class: &str) -> Option<f64> {
    let metric = METRICS.iter().find(|known| known.name == metric)?;
    summary.figure(metric, Some(class)).map(|figure| figure.mean)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}
