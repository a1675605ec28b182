//! The outcomes of worlds, as a document.

use std::collections::BTreeMap;

use ioweir_config::format_count;
use ioweir_lab::document::{Block, Column, Document, DocumentError, Table};
use ioweir_world::{Broken, End, OUTSIDE, Plan, Promise, Sum};
use serde_json::json;

/// A broken promise: its seed, the shrunk plan, the number of runs for that, and how the plan breaks the promise.
pub(crate) struct Found {
    pub(crate) seed: u64,
    pub(crate) broken: Broken,
    pub(crate) plan: Plan,
    pub(crate) runs: u32,
    pub(crate) again: String,
}

/// The document of a sum of worlds, whose data `--json` writes.
pub(crate) fn document(sum: &Sum, found: Option<&Found>) -> Result<Document, DocumentError> {
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
    let mut document = Document::new("ioweir-world", "Promises of the server in simulated worlds", &data)?;
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
