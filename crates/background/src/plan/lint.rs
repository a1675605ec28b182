//! Findings about a plan: problems, their causes, and what the operator can do.

use ioweir_core::Nanos;
use ioweir_core::background::{Service, Source};
use serde::Serialize;

use super::made::{Plan, PlanBin};
use super::system::{Ledger, System};
use ioweir_config::{Duration, format_bytes, format_decimals};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The plan contradicts itself: it was not made by this planner, or the planner has a defect.
    Broken,
    /// A promise cannot be kept.
    Violation,
    /// The operator should check it.
    Warning,
    /// For information.
    Note,
}

/// A finding about a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    pub code: &'static str,
    /// The time when the problem begins, if it has one.
    pub at_unix_seconds: Option<i64>,
    /// The finding in words.
    pub message: String,
    /// The advice to the user; may be empty.
    pub hint: &'static str,
}

/// A range of bins with the same finding.
struct Stretch<'a> {
    bins: Vec<&'a PlanBin>,
    hours: f64,
}

impl<'a> Stretch<'a> {
    fn of(plan: &'a Plan, which: impl Fn(&PlanBin) -> bool) -> Option<Self> {
        let bins: Vec<_> = plan.bins.iter().filter(|bin| which(bin)).collect();
        let hours = bins.len() as f64 * plan.bin_seconds as f64 / 3600.0;
        (!bins.is_empty()).then_some(Self { bins, hours })
    }

    fn finding(&self, severity: Severity, code: &'static str, message: String, hint: &'static str) -> Finding {
        let at_unix_seconds = self.bins.first().map(|bin| bin.start_unix_seconds);
        Finding { severity, code, at_unix_seconds, message, hint }
    }
}

/// Checks a plan, from any source.
#[must_use]
pub fn lint(plan: &Plan, system: &System, ledger: &Ledger) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(cores(plan));
    findings.extend(room(plan, ledger));
    findings.extend(foreground(plan));
    findings.extend(debts(plan, system));
    findings.extend(terms(system));
    findings.sort_by_key(|finding| (finding.severity, finding.at_unix_seconds));
    findings
}

fn cores(plan: &Plan) -> Option<Finding> {
    let over = |bin: &PlanBin| {
        u64::from(bin.foreground_cores) + u64::from(bin.background_cores) > u64::from(plan.cores)
            || bin.reserved_cores > plan.cores
    };
    let stretch = Stretch::of(plan, over)?;
    let message = format!("{} bins give out more than the {} cores there are", stretch.bins.len(), plan.cores);
    Some(stretch.finding(Severity::Broken, "cores-oversubscribed", message, ""))
}

fn room(plan: &Plan, ledger: &Ledger) -> Vec<Finding> {
    let mut findings = Vec::new();
    let bytes = |blocks: u64| format_bytes(blocks.saturating_mul(plan.block_bytes));
    if ledger.pool.free_blocks() == 0 {
        findings.push(Finding {
            severity: Severity::Violation,
            code: "pool-full",
            at_unix_seconds: Some(plan.start_unix_seconds),
            message: "the pool is full at the start".into(),
            hint: "writes fail until debt is paid; add capacity, or delete what is not needed",
        });
    }
    let lowest = |stretch: &Stretch<'_>| stretch.bins.iter().map(|bin| bin.free_blocks.low).min().unwrap_or(0);
    if let Some(stretch) = Stretch::of(plan, |bin| bin.free_blocks.low < plan.floor_blocks) {
        let message = format!(
            "free space is below its floor of {} for {} h, at worst {}; from then on no plan holds it at this quantile, and the \
             foreground is not cut for it",
            bytes(plan.floor_blocks),
            format_decimals(stretch.hours, 1),
            bytes(lowest(&stretch)),
        );
        let hint = "add capacity, keep snapshots for less time, or move load away";
        findings.push(stretch.finding(Severity::Violation, "below-floor", message, hint));
    } else if let Some(stretch) = Stretch::of(plan, |bin| bin.free_blocks.low < plan.alarm_blocks) {
        let message = format!(
            "free space is below the alarm of {} for {} h, at worst {}",
            bytes(plan.alarm_blocks),
            format_decimals(stretch.hours, 1),
            bytes(lowest(&stretch)),
        );
        findings.push(stretch.finding(Severity::Warning, "alarm", message, "the plan holds the floor; watch the pool"));
    }
    findings
}

fn foreground(plan: &Plan) -> Vec<Finding> {
    let mut findings = Vec::new();
    let by_itself =
        |bin: &PlanBin| bin.foreground_iops.expected > 0 && bin.foreground_cores_wanted > u64::from(plan.cores);
    if let Some(stretch) = Stretch::of(plan, by_itself) {
        let hours = format_decimals(stretch.hours, 1);
        let message = format!("the foreground by itself wants more than all {} cores for {hours} h", plan.cores);
        findings.push(stretch.finding(
            Severity::Warning,
            "foreground-overload",
            message,
            "no background plan helps: balance the load",
        ));
    }
    if let Some(stretch) = Stretch::of(plan, |bin| bin.queued_requests.high > 0) {
        let most = stretch.bins.iter().map(|bin| bin.queued_requests.high).max().unwrap_or(0);
        let expected = stretch.bins.iter().filter(|bin| bin.queued_requests.expected > 0).count();
        let message = format!(
            "at the promised quantile requests wait at the end of a bin for {} h, up to {most} of them; {} of these hours \
             even if what is expected comes",
            format_decimals(stretch.hours, 1),
            format_decimals(expected as f64 * plan.bin_seconds as f64 / 3600.0, 1),
        );
        let hint = "where no core is promised to background work then, only more cores or less load help";
        findings.push(stretch.finding(Severity::Violation, "requests-wait", message, hint));
    }
    if let Some(stretch) = Stretch::of(plan, |bin| bin.capacity_forecast_factor < 1.0) {
        let least = stretch.bins.iter().map(|bin| bin.capacity_forecast_factor).fold(1.0, f64::min);
        let message = format!(
            "the foreground is cut for {} h, at worst to {} % of what it wants, so that room and deadlines hold",
            format_decimals(stretch.hours, 1),
            format_decimals(100.0 * least, 0),
        );
        let hint = "the system is oversubscribed: add cores or capacity, or reduce what snapshots hold";
        findings.push(stretch.finding(Severity::Violation, "foreground-cut", message, hint));
    }
    findings
}

/// Whether the rate of a service, and not a lack of cores, holds it back in some bin.
fn is_rate_bound(plan: &Plan, system: &System, service: &str) -> bool {
    let terms = system.run().find(|(run, _)| run.name() == service).map(|(_, terms)| terms.bin_blocks_max);
    let is_at_most =
        |bin: &PlanBin, most: u64| bin.paid_blocks.iter().any(|(name, paid)| *name == service && *paid >= most);
    terms.is_some_and(|most| plan.bins.iter().any(|bin| is_at_most(bin, most)))
}

/// Whether a service must not run at some hours.
fn has_hours(system: &System, service: &str) -> bool {
    system.run().any(|(run, terms)| run.name() == service && terms.open.contains(&false))
}

fn debts(plan: &Plan, system: &System) -> Vec<Finding> {
    let mut findings = Vec::new();
    for sheet in &plan.balance {
        if sheet.deadline_kept == Some(false) {
            let late = Stretch::of(plan, |bin| bin.late_blocks > 0);
            findings.push(Finding {
                severity: Severity::Violation,
                code: "deadline-missed",
                at_unix_seconds: late.and_then(|late| late.bins.first().map(|bin| bin.start_unix_seconds)),
                message: match sheet.deadline_late_seconds {
                    Some(seconds) => format!(
                        "{}: its deadline cannot be kept at this quantile; its debt is paid up to {} late",
                        sheet.service,
                        Duration::from_seconds(seconds),
                    ),
                    None => format!("{}: its deadline cannot be kept at this quantile within the plan", sheet.service),
                },
                hint: if is_rate_bound(plan, system, sheet.service) {
                    "its rate is the limit: raise bytes_per_second_max or iops_max, or allow more time"
                } else if has_hours(system, sheet.service) {
                    "its hours or the cores in them are the limit: extend `hours`, shorten `quiet`, or allow more time"
                } else {
                    "allow more time, or more cores; where room is short, room comes first"
                },
            });
        }
        if sheet.closing_blocks > sheet.opening_blocks && sheet.paid_blocks == 0 && sheet.incurred_blocks > 0 {
            findings.push(Finding {
                severity: Severity::Warning,
                code: "starved",
                at_unix_seconds: None,
                message: format!("{}: nothing of its debt is paid", sheet.service),
                hint: "there is no time left for it, or its retention is longer than the plan",
            });
        }
    }
    let sum = |which: fn(&super::made::Sheet) -> u64| plan.balance.iter().map(which).fold(0, u64::saturating_add);
    let (opening, closing) = (sum(|sheet| sheet.opening_blocks), sum(|sheet| sheet.closing_blocks));
    if closing > opening.saturating_add(sum(|sheet| sheet.incurred_blocks) / 10) {
        findings.push(Finding {
            severity: Severity::Note,
            code: "debt-grows",
            at_unix_seconds: None,
            message: format!(
                "debt grows from {} to {} over the plan",
                format_bytes(opening.saturating_mul(plan.block_bytes)),
                format_bytes(closing.saturating_mul(plan.block_bytes))
            ),
            hint: "if it does so every week, the array is too small for its services",
        });
    }
    findings
}

/// Warns of terms that are valid but rarely intended.
fn terms(system: &System) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut note = |code, message: String, hint| {
        findings.push(Finding { severity: Severity::Note, code, at_unix_seconds: None, message, hint });
    };
    let snapshots = system.services[Service::SnapshotDelete as usize].as_ref();
    if snapshots.is_some_and(|terms| terms.settings.retention == Nanos::ZERO) {
        let message = "snapshot-delete: retention is zero: what is written over is owed at once".into();
        let hint = "if no snapshots are taken, defragmentation is the service that frees overwrites";
        note("zero-retention", message, hint);
    }
    // Each overwritten block leaves one old block, and only one service can free it.
    let beside = |(service, terms): (Service, &super::system::Terms)| {
        let frees = service.row().takes_room && service.row().source != Source::Named;
        if frees { terms.share_per_mille } else { 0 }
    };
    let shares: u32 = system.run().map(beside).sum();
    if shares > 1000 {
        let message = format!("{} % of what is written over is owed: some of it twice", shares / 10);
        note("owed-twice", message, "share_percent says which part of the volumes a service looks after");
    }
    findings
}
