//! Runs one fuzzing input through the planner, for the target and for the test that replays the corpus on stable.

use ioweir_background::forecast::Calendar;
use ioweir_background::plan::{Ledger, Load, LoadForecaster, Policy, Rates, Setting, document, plan};
use ioweir_lab::document::{Origin, Provenance};

/// A plan of more bins takes too long to be tried often.
const BINS_MAX: usize = 300;

/// Up to a zero byte: the policy file. Behind it: the load, two bytes a bin, as a small floating-point number whose
/// exponent goes from far below one to far above all that is real; 255 is a gap.
pub(crate) fn drive(data: &[u8]) {
    let split = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let Ok(text) = std::str::from_utf8(&data[..split]) else { return };
    let Ok(policy) = Policy::parse("policy.toml", text) else { return };
    if policy.bins() > BINS_MAX {
        return;
    }
    let value = |pair: &[u8]| match pair {
        [255, _] => None,
        [exponent, digits] => Some(f64::from(*digits) * 10f64.powi(i32::from(*exponent) / 8 - 16)),
        _ => None,
    };
    let requests: Vec<Option<f64>> =
        data.get(split + 1..).unwrap_or_default().chunks(2).take(2_000).map(value).collect();
    let load = Load {
        utc_offset_seconds: None,
        start_unix_seconds: 1_454_284_800,
        bin_seconds: policy.bin_seconds(),
        written: Rates::Own(requests.iter().map(|value| value.map(|value| value * 0.3)).collect()),
        unmapped: Rates::Share(0.01),
        requests,
        unique: Rates::Share(policy.load.unique_percent / 100.0),
        notes: Vec::new(),
    };
    let Ok(choice) = policy.forecast.forecaster() else { return };
    let calendar = Calendar::default();
    let Ok(mut forecaster) = LoadForecaster::new(&load, &choice, policy.forecast.quantile, &calendar) else {
        return;
    };
    forecaster.update(&load, 0..load.requests.len());
    forecaster.refit();
    let system = policy.system();
    let ledger = Ledger::new(policy.pool());
    let setting = Setting {
        start_unix_seconds: load.end_unix_seconds(),
        block_bytes: policy.pool.block.0,
        quantile: policy.forecast.quantile,
        calendar: &calendar,
    };
    let made = plan(&system, &ledger, &forecaster.outlook(policy.bins()), setting);
    assert_eq!(made.bins.len(), policy.bins());
    for bin in &made.bins {
        assert!(bin.foreground_cores + bin.background_cores <= made.cores && bin.reserved_cores <= made.cores);
        assert!((0.0..=1.0).contains(&bin.capacity_forecast_factor));
    }
    for sheet in &made.balance {
        assert!(sheet.core_hours.is_finite());
        let owed = u128::from(sheet.opening_blocks) + u128::from(sheet.incurred_blocks);
        assert_eq!(owed, u128::from(sheet.paid_blocks) + u128::from(sheet.closing_blocks), "{}", sheet.service);
    }
    let origin = Origin { version: String::new(), commit: String::new(), command: String::new() };
    let document = document(&made, None, &[], Provenance::new(&origin, Vec::new(), Vec::new()));
    assert!(document.is_ok_and(|document| !document.to_terminal(false).contains("NaN")));
}
