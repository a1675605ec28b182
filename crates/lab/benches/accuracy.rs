//! How accurate are the forecasters? `cargo bench -p ioweir-lab --bench accuracy -- [FOLDER]`.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::path::Path;

use ioweir_lab::forecast::{FORECASTERS, ForecasterChoice, survey};

fn main() {
    let folder =
        std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or("../shared/traces/timeseries".into());
    let (mut subjects, missing) = survey::real_series(Path::new(&folder)).expect("series that can be read");
    for name in missing {
        println!("not there, left out: {name}");
    }
    subjects.extend(survey::generated_series());
    let mut choices: Vec<_> = FORECASTERS.iter().map(ForecasterChoice::of).collect();
    if let Ok(names) = std::env::var("NAMES") {
        choices = names.split(',').map(|name| name.parse().expect("choice")).collect();
    }
    let survey = survey::survey(&subjects, &choices).expect("bins that divide a day");
    for row in &survey.rows {
        if row.protocol != "day" {
            continue;
        }
        let s = &row.scores;
        println!(
            "{:16} {:14} h{:3} t{:3} smape {:7.2} mase {:6.3} mpe {:8.1} cum {:7.1} cov {:5.1} {:5.1} {:5.1} worst {:5.1} pin95 {:.4} floor {:?}",
            row.series,
            row.forecaster,
            row.history_days,
            row.test_days,
            s.smape_percent.unwrap_or(-1.0),
            s.mase.unwrap_or(-1.0),
            s.mean_percentage_error.unwrap_or(-1.0),
            s.cumulative_error_percent.unwrap_or(-1.0),
            s.coverage_percent[0].unwrap_or(-1.0),
            s.coverage_percent[1].unwrap_or(-1.0),
            s.coverage_percent[2].unwrap_or(-1.0),
            row.worst_day_coverage_percent.unwrap_or(-1.0),
            s.pinball[1].unwrap_or(-1.0),
            row.floor_smape_percent
        );
    }
    for protocol in ["day", "week", "six-days"] {
        for choice in &choices {
            let name = choice.to_string();
            let all = |row: &survey::Row| protocol == "six-days" || row.history_days >= 21;
            println!("{protocol:9} {name:14} / paper-tuned {:?}", survey.ratio(&name, "paper-tuned", protocol, &all));
            println!("{protocol:9} {name:14} / naive-week  {:?}", survey.ratio(&name, "naive-week", protocol, &all));
        }
    }
}
