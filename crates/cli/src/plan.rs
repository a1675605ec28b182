//! The verb `plan`: reads a series and a policy, makes the plan, and writes it where the user asked.

use std::path::{Path, PathBuf};

use ioweir_config::format_decimals;
use ioweir_lab::document::{Provenance, TraceMeta};
use ioweir_lab::forecast::Calendar;
use ioweir_lab::plan::{
    Actual, Decider, Demand, Ledger, Load, LoadForecaster, Outlook, Plan, Policy, Replayed, Setting, System, document,
    outlooks, plan, replay,
};
use ioweir_lab::run::sha256;
use ioweir_lab::series::{SeriesOptions, read_inputs, series_of_trace};
use ioweir_trace::{self as trace, Input};

use crate::arguments::PlanArguments;
use crate::failure::Failure;
use crate::output::Outputs;
use crate::{engine, show};

/// Makes the plan and writes it.
pub(crate) fn act(arguments: &PlanArguments) -> Result<(), Failure> {
    let policy = Policy::parse(&arguments.policy, &show::read_spec(&arguments.policy)?)
        .map_err(|error| Failure::Input(error.to_string()))?;
    let inputs: Vec<&Path> =
        arguments.series.iter().chain(&arguments.replay).chain([&arguments.policy]).map(Path::new).collect();
    let outputs = Outputs::new(&arguments.output, &[], &inputs)?;
    let history = read(arguments, &arguments.series, &policy)?;
    let mut notes = history.notes.clone();
    let case = Case::new(&policy, &history, &mut notes)?;
    let made = plan(&case.system, &case.ledger, &case.outlook, case.setting);
    let followed = if arguments.replay.is_empty() {
        None
    } else {
        let actual = read(arguments, &arguments.replay, &policy)?;
        notes.extend(actual.notes.iter().map(|note| format!("replay: {note}")));
        Some(follow(&case, &made, actual, &mut notes)?)
    };
    let meta = provenance(arguments, &policy)?;
    let actual = followed.as_ref().map(|(demand, replayed)| Actual { demand, replayed });
    outputs.write(&document(&made, actual, &notes, meta)?)
}

/// What a plan is made from.
struct Case<'a> {
    history: &'a Load,
    forecaster: LoadForecaster,
    outlook: Outlook,
    system: System,
    ledger: Ledger,
    setting: Setting,
}

impl<'a> Case<'a> {
    fn new(policy: &Policy, history: &'a Load, notes: &mut Vec<String>) -> Result<Self, Failure> {
        let (known, all) = history.known_bins();
        if known == 0 {
            let hint = "a gap is no load of zero: a plan needs at least some bins that are known";
            return Err(Failure::input("no bin of the series holds a value", "a series with values", hint));
        }
        if known < all {
            let share = 100.0 * (all - known) as f64 / all as f64;
            notes.push(format!("{} of {all} bins are gaps ({} %)", all - known, format_decimals(share, 1)));
        }
        let utc_offset_seconds = (policy.forecast.utc_offset_hours * 3600.0) as i32;
        let calendar = Calendar { utc_offset_seconds, ..Calendar::default() };
        let quantile = policy.forecast.quantile;
        let mut forecaster = LoadForecaster::new(history, &policy.forecaster()?, quantile, &calendar)
            .map_err(|error| Failure::Input(format!("forecast: {error}")))?;
        forecaster.update(history, 0..all);
        forecaster.refit();
        let outlook = forecaster.outlook(policy.bins());
        notes.extend(outlook.degraded.iter().map(|reason| format!("forecast: {reason}")));
        let system = policy.system(history.unique_percent);
        let ledger = Ledger::new(&system, policy.pool());
        let setting = Setting {
            start_unix_seconds: history.end_unix_seconds(),
            block_bytes: policy.pool.block.0,
            quantile,
            utc_offset_seconds: i64::from(utc_offset_seconds),
        };
        Ok(Self { history, forecaster, outlook, system, ledger, setting })
    }
}

/// Plays the plan on what came; where that is not known, what was expected comes.
fn follow(
    case: &Case<'_>,
    made: &Plan,
    actual: Load,
    notes: &mut Vec<String>,
) -> Result<(Vec<Demand>, Replayed), Failure> {
    let bin = i64::from(case.history.bin_seconds);
    let skipped = (made.start_unix_seconds - actual.start_unix_seconds) / bin;
    let from = usize::try_from(skipped).unwrap_or(0);
    let late = usize::try_from(-skipped).unwrap_or(0);
    let bins = made.bins.len();
    if late >= bins || from >= actual.requests.len() {
        let problem = "what came does not overlap with what was planned";
        return Err(Failure::input(problem, "a series that continues where the first one ends", ""));
    }
    let reached = bins.min(late + actual.requests.len() - from);
    let known: Vec<_> = (0..reached).map(|at| (at + from).checked_sub(late).and_then(|at| actual.demand(at))).collect();
    let gaps = known.iter().filter(|demand| demand.is_none()).count();
    if gaps > 0 || reached < bins {
        notes.push(format!("replay: {reached} of {bins} planned bins came, {gaps} of them gaps, taken as expected"));
    }
    let demand: Vec<Demand> =
        known.into_iter().zip(&case.outlook.expected).map(|(known, expected)| known.unwrap_or(*expected)).collect();
    // The forecaster is told what came from the first planned bin on.
    let told = Load { start_unix_seconds: made.start_unix_seconds, ..actual.part(from, late, reached) };
    let ahead = outlooks(&told, 0, case.forecaster.clone(), bins, case.setting.utc_offset_seconds);
    let mut expect = |bin: usize| ahead.get(bin).cloned().unwrap_or_default();
    let system = System { resident_cores: made.resident_cores, ..case.system.clone() };
    let replayed = replay(&system, case.ledger.clone(), &demand, &mut Decider::Planner(&mut expect));
    Ok((demand, replayed))
}

/// Reads a series: a block trace where it is of a known format, and else a table.
fn read(arguments: &PlanArguments, names: &[String], policy: &Policy) -> Result<Load, Failure> {
    let options = engine::read_options(&arguments.reading)?;
    let paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    let first = names.first().map_or("", String::as_str);
    if options.format.is_some() || trace::recognise(&paths, &options).is_ok() {
        let mut source = trace::open(&paths, &options)?;
        let counted = series_of_trace(source.as_mut(), policy.bin_seconds(), first)?;
        return Ok(Load::of_trace(&counted, policy));
    }
    let inputs: Vec<Input> = paths.iter().map(|path| Input::from_path(path)).collect();
    let terms = &policy.load;
    let columns = [&terms.total, &terms.read, &terms.write, &terms.unmap].into_iter().flatten().cloned().collect();
    let options = SeriesOptions { bin_seconds: Some(policy.bin_seconds()), columns, kind: terms.samples, total: true };
    let series = read_inputs(&inputs, &options)?;
    Load::of_series(&series, policy).map_err(|error| Failure::Input(error.to_string()).within(first))
}

fn provenance(arguments: &PlanArguments, policy: &Policy) -> Result<Provenance, Failure> {
    let mut command = format!("ioweir plan {} --policy {}", arguments.series.join(" "), arguments.policy);
    for name in &arguments.replay {
        command += &format!(" --replay {name}");
    }
    let mut inputs = Vec::new();
    for name in arguments.series.iter().chain(&arguments.replay) {
        let hash = sha256(Path::new(name)).map_err(|error| Failure::unreadable(name, &error))?;
        inputs.push(TraceMeta { name: name.clone(), format: "series".into(), files: vec![(name.clone(), hash)] });
    }
    let spec = toml::to_string(policy).map_err(|error| Failure::Running(error.to_string()))?;
    Ok(Provenance::new(&engine::origin(&command), inputs, vec![("The policy".into(), spec)]))
}
