//! How long does a forecast take? `cargo bench -p ioweir-background --bench forecast -- [WHAT] [FORECASTER]`.
//!
//! Eight weeks of 10-minute bins. WHAT is `refit` (at a midnight, a day behind the refit before), `fit` (from nothing, which
//! scores four weeks of midnights), `predict` (144 bins, three quantiles) or `all`. Nothing is asserted: wall time depends on
//! the machine; `scripts/instructions` counts what `measured` executes.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

use std::time::Instant;

use ioweir_background::forecast::{Calendar, FORECASTERS, ForecasterChoice, LEVELS, Learned};
use ioweir_background::series::Vdi;

const DAY: usize = 144;
const DAYS: usize = 56;

/// `scripts/instructions` counts the instructions of this function.
#[inline(never)]
fn measured(what: &str, forecaster: &mut Learned) -> f64 {
    match what {
        "predict" => forecaster.predict(DAY, &LEVELS).median.iter().sum(),
        _ => {
            forecaster.refit();
            0.0
        }
    }
}

fn prepared(what: &str, choice: &ForecasterChoice, values: &[Option<f64>], start: i64) -> Learned {
    let mut forecaster = choice.build(start, 600, &Calendar::default()).expect("a bin that divides a day");
    if what == "fit" {
        forecaster.update(values);
        return forecaster;
    }
    forecaster.update(&values[..(DAYS - 1) * DAY]);
    forecaster.refit();
    forecaster.update(&values[(DAYS - 1) * DAY..]);
    if what == "predict" {
        forecaster.refit();
    }
    forecaster
}

pub(crate) fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let runs = std::env::var("IOWEIR_BENCH_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(9_usize);
    let series = Vdi { bins: DAYS * DAY, ..Vdi::default() }.generate().series;
    let wanted = words.first().map_or("all", String::as_str);
    let mut sum = 0.0;
    for what in ["refit", "fit", "predict"].into_iter().filter(|what| wanted == "all" || wanted == *what) {
        let chosen = |name: &str| words.get(1).is_none_or(|wanted| wanted == name);
        for row in FORECASTERS.iter().filter(|row| chosen(row.name)) {
            let start = prepared(what, &ForecasterChoice::of(row), &series.values, series.start_unix_seconds);
            let mut seconds: Vec<f64> = (0..runs)
                .map(|_| {
                    let mut forecaster = start.clone();
                    let begun = Instant::now();
                    sum += measured(what, &mut forecaster);
                    begun.elapsed().as_secs_f64()
                })
                .collect();
            seconds.sort_by(f64::total_cmp);
            println!("{what:8} {:14} {:9.3} ms", row.name, seconds[runs / 2] * 1e3);
            println!("measured: {runs}");
        }
    }
    assert!(sum.is_finite());
}
