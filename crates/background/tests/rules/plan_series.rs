//! Plans on P99 never overrun the pool, on any of the shared real series; passes, saying so, where they are absent. And results of plans do not
//! hang on the hour at which they begin.

#![allow(clippy::print_stdout, reason = "a test says what it skips")]

use std::path::{Path, PathBuf};

use ioweir_background::forecast::{Calendar, ForecasterChoice};
use ioweir_background::plan::{
    Ahead, Decider, Demand, Ledger, Load, LoadForecaster, Rates, Replayed, System, Terms, outlooks, replay,
};
use ioweir_background::series::{Kind, SeriesOptions, Vdi, read_inputs};
use ioweir_core::Nanos;
use ioweir_core::background::{Pool, SERVICES_COUNT, Service, Watermark};
use ioweir_trace::Input;

const HOUR_SECONDS: u32 = 3600;
const CORES: u32 = 64;
/// Days that are played; all before is history.
const PLAYED: usize = 7 * 24;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    entries.sort();
    for path in entries {
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// A system whose cores are busy for a third of the time with the mean load, and for another with its debt.
fn system() -> System {
    let mut services = [const { None }; SERVICES_COUNT];
    let hour = Nanos::from_seconds(3600);
    let mut settings = Service::SnapshotDelete.row().defaults();
    settings.retention = hour;
    services[Service::SnapshotDelete as usize] = Some(Terms {
        settings,
        share_per_mille: 1000,
        every: hour,
        owed: Vec::new(),
        bin_blocks_max: u64::MAX,
        open: vec![],
    });
    System {
        bin: hour,
        cores: CORES,
        core_requests: 1000,
        core_work: 300 * 1000,
        services,
        resident_cores: 0,
        day_bin: 0,
    }
}

#[test]
fn p99_plan_never_overruns_where_oracle_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/timeseries");
    let mut found = Vec::new();
    files(&folder, &mut found);
    if found.is_empty() {
        println!("skipped: {} is absent", folder.display());
        return;
    }
    // Every fourth series in the usual run, and all where `scripts/thorough` runs.
    let step = if std::env::var_os("IOWEIR_THOROUGH").is_some() { 1 } else { 4 };
    let (mut played, mut failed) = (0, Vec::new());
    for path in found.into_iter().step_by(step) {
        let name = path.display().to_string();
        let is_write = |name: &str| name.to_lowercase().contains("write") || name == "value" || name == "throughput";
        let options =
            SeriesOptions { bin_seconds: Some(HOUR_SECONDS), columns: Vec::new(), kind: Kind::Mean, total: true };
        let Ok(all) = read_inputs(&[Input::from_path(&path)], &options) else { continue };
        let Some(series) = all.into_iter().find(|series| is_write(&series.name)) else { continue };
        let known: Vec<f64> = series.values.iter().copied().flatten().collect();
        // Two days of history, and most hours known.
        if series.values.len() < PLAYED + 48 || series.coverage() < 0.8 || known.iter().sum::<f64>() <= 0.0 {
            continue;
        }
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        let scale = f64::from(CORES) * 1000.0 / 3.0 / 3600.0 / mean;
        let load = Load {
            utc_offset_seconds: None,
            start_unix_seconds: series.start_unix_seconds,
            bin_seconds: HOUR_SECONDS,
            requests: series.values.iter().map(|value| value.map(|value| value * scale)).collect(),
            written: Rates::Share(0.3),
            unmapped: Rates::Share(0.0),
            unique: Rates::Share(0.02),
            notes: Vec::new(),
        };
        let from = load.requests.len() - PLAYED;
        let actual: Vec<Demand> = (from..load.requests.len()).map(|bin| load.demand(bin).unwrap_or_default()).collect();
        // The pool has room for half a day's writes, and for new blocks.
        let written: Vec<u64> = actual.iter().map(|demand| demand.written_blocks).collect();
        let half_day = written.windows(12).map(|hours| hours.iter().sum::<u64>()).max().unwrap_or(1);
        let blocks = half_day + written.iter().sum::<u64>() / 50 + 1000;
        let pool = Pool { blocks, used_blocks: 0, floor_blocks: blocks / 20, alarm_blocks: blocks / 10 };
        let system = system();
        let ledger = || Ledger::new(pool);
        let mut oracle = |bin: usize| Ahead::known(&actual[bin..]);
        if replay(&system, ledger(), &actual, &mut Decider::Planner(&mut oracle)).overrun_bins > 0 {
            println!("{name}: no plan fits");
            continue;
        }
        let choice: ForecasterChoice = "day-profile".parse().expect("a forecaster");
        let mut forecaster = LoadForecaster::new(&load, &choice, 0.99, &Calendar::default()).expect("hours");
        forecaster.update(&load, 0..from);
        forecaster.refit();
        let calendar = Calendar::default();
        let ahead: Vec<Ahead> = outlooks(&load, from, forecaster, PLAYED, &calendar).collect();
        let mut told = |bin: usize| ahead[bin].clone();
        let done = replay(&system, ledger(), &actual, &mut Decider::Planner(&mut told));
        played += 1;
        println!(
            "{name}: {} bins over, {} below the floor, {:.1} % violated",
            done.overrun_bins,
            done.below_floor_bins,
            done.violated_percent()
        );
        if done.overrun_bins > 0 {
            failed.push(name);
        }
    }
    assert!(played >= 20 / step, "{played} series were played");
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn results_do_not_hang_on_the_phase() {
    let made = Vdi { bin_seconds: HOUR_SECONDS, bins: 35 * 24, seed: 1, ..Vdi::default() }.generate().series;
    let calendar = Calendar::default();
    let violated: Vec<f64> = [0, 6, 12, 18]
        .into_iter()
        .map(|hours| {
            let requests = made.values[..made.values.len() - hours].to_vec();
            let load = Load {
                utc_offset_seconds: None,
                start_unix_seconds: made.start_unix_seconds,
                bin_seconds: HOUR_SECONDS,
                requests,
                written: Rates::Share(0.3),
                unmapped: Rates::Share(0.0),
                unique: Rates::Share(0.02),
                notes: Vec::new(),
            };
            let from = load.requests.len() - PLAYED;
            let actual: Vec<Demand> = (from..load.requests.len()).filter_map(|bin| load.demand(bin)).collect();
            let busiest = actual.iter().map(|demand| demand.requests).max().unwrap_or(0);
            let system = System { core_requests: busiest * 10 / 7 / u64::from(CORES), ..system() };
            let system = System { core_work: system.core_requests * 400, ..system };
            let written: Vec<u64> = actual.iter().map(|demand| demand.written_blocks).collect();
            let blocks = 3 * written.iter().max().unwrap_or(&1) + written.iter().sum::<u64>() / 50;
            let pool = Pool { blocks, used_blocks: 0, floor_blocks: blocks / 20, alarm_blocks: blocks / 10 };
            let choice: ForecasterChoice = "hedge".parse().expect("a forecaster");
            let mut forecaster = LoadForecaster::new(&load, &choice, 0.95, &calendar).expect("hours");
            forecaster.update(&load, 0..from);
            forecaster.refit();
            let ahead: Vec<Ahead> = outlooks(&load, from, forecaster, PLAYED, &calendar).collect();
            let mut told = |bin: usize| ahead[bin].clone();
            let planned = replay(&system, Ledger::new(pool), &actual, &mut Decider::Planner(&mut told));
            let mut fixed = Decider::Watermark { watermark: Watermark::PAPER, harvests: false };
            let fixed = replay(&system, Ledger::new(pool), &actual, &mut fixed);
            let both = |replayed: &Replayed| (replayed.violated_percent(), replayed.delayed_percent());
            println!("{hours} h earlier: planned {:?}, fixed {:?}", both(&planned), both(&fixed));
            assert!(planned.violated_bins <= fixed.violated_bins && planned.delayed_requests <= fixed.delayed_requests);
            assert!(fixed.violated_bins > 0, "the pool binds");
            planned.violated_percent()
        })
        .collect();
    let spread = violated.iter().fold(0.0_f64, |most, one| most.max(*one))
        - violated.iter().fold(100.0, |least, one| one.min(least));
    assert!(spread <= 5.0, "{violated:?}");
}
