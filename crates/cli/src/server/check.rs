//! The verb `check`: what the server promises, checked in simulated worlds.

use std::collections::BTreeMap;

use indicatif::{ProgressBar, ProgressStyle};
use ioweir_config::{format_count, unknown};
use ioweir_core::Nanos;
use ioweir_lab::document::{Block, Column, Document, Table};
use ioweir_serve::world::{Broken, Canary, End, Length, OUTSIDE, Plan, Promise, Sum, campaign, run, shrink};
use serde_json::json;

use crate::arguments::CheckArguments;
use crate::failure::Failure;
use crate::output::{self, Outputs};

/// Runs that shrinking may take.
const SHRINKING_RUNS_MAX: u32 = 400;

/// Runs worlds, and says what they have come to.
pub(crate) fn act(arguments: &CheckArguments) -> Result<(), Failure> {
    let outputs = Outputs::new(&arguments.output, &[], &[])?;
    let canary = arguments.canary.as_deref().map(canary).transpose()?;
    let plan = |seed| Plan { canary, ..Plan::new(seed) };
    if arguments.log {
        let outcome = run(&plan(arguments.seed), true);
        output::print(outcome.log.as_bytes())?;
        return outcome.verdict.broken.map_or(Ok(()), |broken| Err(Failure::Running(broken.to_string())));
    }
    let sum = if canary.is_some() {
        let mut sum = Sum::default();
        sum.add(arguments.seed, run(&plan(arguments.seed), false));
        sum
    } else {
        let threads = arguments.threads.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1))
        });
        let bar = ProgressBar::new_spinner().with_style(style());
        let sum = campaign(arguments.seed, length(arguments)?, threads, |sum| bar.set_message(progress(sum)));
        bar.finish_and_clear();
        sum
    };
    let found = sum.broken.as_ref().map(|(seed, broken)| {
        let (plan, runs) = shrink::shrink(&plan(*seed), broken.promise, SHRINKING_RUNS_MAX);
        let again = run(&plan, false).verdict.broken.map_or_else(String::new, |broken| broken.what);
        Found { seed: *seed, broken: broken.clone(), plan, runs, again }
    });
    outputs.write(&document(&sum, found.as_ref())?)?;
    match found {
        None => Ok(()),
        Some(found) => Err(Failure::Running(format!("seed {}: {}", found.seed, found.broken))),
    }
}

fn canary(name: &str) -> Result<Canary, Failure> {
    let names: Vec<&str> = Canary::ALL.iter().map(|canary| canary.name()).collect();
    let found = Canary::ALL.iter().find(|canary| canary.name() == name).copied();
    found.ok_or_else(|| Failure::Input(unknown("canary", name, &names, "").to_string()))
}

fn length(arguments: &CheckArguments) -> Result<Length, Failure> {
    let span = |flag: &str, number: f64, unit: f64| {
        if number > 0.0 && number <= 1e6 {
            return Ok(Nanos((number * unit) as u64));
        }
        Err(Failure::input(format!("{flag} {number}: makes no sense"), "above 0, at most a million", ""))
    };
    match (arguments.minutes, arguments.hours) {
        (Some(minutes), _) => span("--minutes", minutes, 6e10).map(Length::Time),
        (None, Some(hours)) => span("--hours", hours, 3.6e12).map(Length::Served),
        (None, None) => Ok(Length::Worlds(arguments.worlds)),
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn progress(sum: &Sum) -> String {
    format!("{} worlds, {:.1} server-hours, {:.0} in an hour of a processor", sum.worlds, sum.hours(), sum.speed())
}

/// A broken promise: its seed, what is left of the plan, the runs that took, and how the promise is broken then.
struct Found {
    seed: u64,
    broken: Broken,
    plan: Plan,
    runs: u32,
    again: String,
}

fn document(sum: &Sum, found: Option<&Found>) -> Result<Document, Failure> {
    let is_broken = |promise: Promise| sum.broken.as_ref().is_some_and(|(_, broken)| broken.promise == promise);
    let promises: Vec<_> = Promise::ALL
        .iter()
        .zip(&sum.checks)
        .map(|(&promise, &checks)| {
            json!({ "promise": promise.name(), "meaning": promise.meaning(), "checks": checks, "holds": !is_broken(promise) })
        })
        .collect();
    let failure = found.map(|found| {
        let steps: Vec<_> = found.plan.steps.iter().map(ToString::to_string).collect();
        json!({
            "seed": found.seed,
            "promise": found.broken.promise.name(),
            "what": found.broken.what,
            "device": found.plan.backing.name(),
            "spec": found.plan.spec,
            "steps": steps,
            "what_shortened": found.again,
        })
    });
    let data = json!({
        "worlds": sum.worlds,
        "server_hours": sum.hours(),
        "processor_seconds": sum.worked.0 as f64 / 1e9,
        "requests": sum.requests,
        "disk_operations": sum.operations,
        "disk_faults": sum.faults,
        "ends": End::ALL.iter().map(|end| end.name()).zip(sum.ends).collect::<BTreeMap<_, _>>(),
        "promises": promises,
        "failure": failure,
        "outside": OUTSIDE,
    });
    let mut document = Document::new("ioweir check", "Promises of the server in simulated worlds", &data)?;
    document.headline = match found {
        None => {
            format!("No promise was broken in {} worlds, {:.1} server-hours.", format_count(sum.worlds), sum.hours())
        }
        Some(found) => format!("Seed {} breaks a promise: {}.", found.seed, found.broken),
    };
    document.push(Block::Facts(facts(sum)));
    let columns = [Column::text("promise"), Column::count("checks"), Column::text("holds"), Column::text("meaning")];
    let mut table = Table::new("Promises", columns);
    for (&promise, &checks) in Promise::ALL.iter().zip(&sum.checks) {
        let holds = if is_broken(promise) { "no" } else { "yes" };
        table.row([promise.name().into(), checks.into(), holds.into(), promise.meaning().into()]);
    }
    document.records = table.clone();
    document.push(table);
    if let Some(Found { seed, plan, runs, again, .. }) = found {
        document.heading(format!("Seed {seed}, shortened"));
        document.text(format!("After {runs} runs {} steps are left: {again}.", plan.steps.len()));
        document.text(format!("The device: {}. The spec:", plan.backing.name()));
        plan.spec.lines().for_each(|line| document.text(line));
        plan.steps.iter().for_each(|step| document.text(step.to_string()));
    }
    document.text(format!("{OUTSIDE}."));
    Ok(document)
}

fn facts(sum: &Sum) -> Vec<(String, String)> {
    let ends = End::ALL.iter().zip(sum.ends).map(|(end, count)| format!("{} {}", format_count(count), end.words()));
    let faults = format!("{}, {} with a fault", format_count(sum.operations), format_count(sum.faults));
    [
        ("worlds", format_count(sum.worlds)),
        ("server-hours", format!("{:.1}, {:.0} in an hour of a processor", sum.hours(), sum.speed())),
        ("requests", format_count(sum.requests)),
        ("operations of disks", faults),
        ("ends of servers", ends.collect::<Vec<_>>().join(", ")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
