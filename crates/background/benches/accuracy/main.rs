//! Accuracy of the forecasters against their goals: `cargo bench -p ioweir-background --bench accuracy -- SERIES OUT`.
//!
//! Forecasts the real series in the folder SERIES (by default that beside the project; those that are not there are left
//! out, and named) and generated ones, and writes `forecast.csv`, `forecast.json` (the goals) and `forecast.md` into the
//! folder OUT. The same series give the same bytes.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::path::Path;

use ioweir_background::forecast::{FORECASTERS, ForecasterChoice};

mod survey;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = here.join("../../../shared/traces/timeseries");
    let folder = words.first().map_or(beside, |word| Path::new(word).to_path_buf());
    let (mut subjects, missing) = survey::real_series(&folder).expect("series that can be read");
    for name in &missing {
        println!("not there, left out: {name}");
    }
    subjects.extend(survey::generated_series());
    let mut choices: Vec<_> = FORECASTERS.iter().map(ForecasterChoice::of).collect();
    for more in ["paper-tuned:log=1", "holt-winters:log=1", "holt-winters:period=7:log=1"] {
        choices.push(more.parse().expect("a row and its settings"));
    }
    let survey = survey::survey(&subjects, &choices).expect("bins that divide a day");
    for goal in survey.goals() {
        let met = if goal.met { "holds" } else { "missed" };
        println!("{}: {met}: {}: {}", goal.name, goal.wanted, goal.measured);
        for series in goal.missed_by {
            println!("    {series}");
        }
    }
    let Some(out) = words.get(1).map(Path::new) else { return };
    let title = format!(
        "# Accuracy of the forecasters\n\nMade by `cargo bench -p ioweir-background --bench accuracy -- SERIES OUT`: {} series, {} \
         forecasters, version {}; series left out because they were not there: {}. Every row: [forecast.csv](forecast.csv).\n\n",
        subjects.len(),
        choices.len(),
        env!("CARGO_PKG_VERSION"),
        if missing.is_empty() { "none".into() } else { missing.join(", ") }
    );
    let goals = serde_json::to_string_pretty(&survey.goals()).expect("finite numbers");
    for (name, text) in [
        ("forecast.csv", survey.to_csv()),
        ("forecast.json", goals + "\n"),
        ("forecast.md", title + &survey.to_markdown()),
    ] {
        std::fs::write(out.join(name), text).expect("a folder that can be written to");
    }
}
