//! Do forecasts compare as in the paper? Its own method, its peers, and those of this project, on the series that is played.

use rayon::prelude::*;

use super::{Claim, DAYS, HISTORY_DAYS, Table, choice, wrong};
use crate::forecast::{Backtest, Calendar, Scores, backtest};
use crate::plan::Load;
use crate::run::RunError;
use crate::series;

/// The methods that are compared, and what the paper has for them.
const METHODS: [(&str, Option<f64>); 7] = [
    ("paper", Some(14.8)),
    ("paper-tuned", None),
    ("holt-winters", Some(19.2)),
    ("naive-week", None),
    ("day-profile", None),
    ("mstl", None),
    ("hedge", None),
];

/// Scores of each method, day ahead: on Wednesday to Friday, the paper's cluster of three days, with all of the history and
/// with five days of it; and on the last five days, a weekend and a Monday among them.
pub(super) struct Scored {
    method: &'static str,
    paper: Option<f64>,
    weeks: Scores,
    days: Scores,
    all: Scores,
}

pub(super) fn forecasts(load: &Load) -> Result<Vec<Scored>, RunError> {
    let series = series::Series {
        name: "requests".into(),
        start_unix_seconds: load.start_unix_seconds,
        bin_seconds: load.bin_seconds,
        values: load.requests.clone(),
        losses: series::Losses::default(),
    };
    // Saturday, 00:00, where the series is the generated one.
    let cluster_end = (HISTORY_DAYS * 144 + 65 * 6).min(series.values.len());
    let cluster = series::Series { values: series.values[..cluster_end].to_vec(), ..series.clone() };
    let score = |(method, paper): (&'static str, Option<f64>)| {
        let choice = choice(method)?;
        let scores = |series, test_days, history_days| {
            let test = Backtest { test_days, history_days, horizon_days: 1 };
            let tested = backtest(series, &choice, &Calendar::default(), &test).map_err(|error| wrong(&error))?;
            Ok::<_, RunError>(tested.scores())
        };
        let (weeks, days) = (scores(&cluster, 3, None)?, scores(&cluster, 3, Some(5))?);
        Ok(Scored { method, paper, weeks, days, all: scores(&series, DAYS - 1, None)? })
    };
    METHODS.into_par_iter().map(score).collect()
}

pub(super) fn claims(forecasts: &[Scored]) -> Vec<Claim> {
    let of = |name: &str| forecasts.iter().find(|scored| scored.method == name);
    let smape = |name: &str| of(name).and_then(|scored| scored.weeks.smape_percent);
    let ratio = |left: Option<f64>, right: Option<f64>| Some(left? / right?);
    let mut claims: Vec<Claim> = forecasts
        .iter()
        .filter_map(|scored| Some((scored, scored.paper?)))
        .map(|(scored, paper)| {
            let what = format!("{}: SMAPE of the day-ahead forecast", scored.method);
            let id = format!("forecast-{}", scored.method);
            Claim::within(id, "11, 12", what, scored.weeks.smape_percent, paper / 1.5, paper * 1.5)
                .paper(format!("{paper}"), "%")
                .note("holds within a factor of 1.5: another series has another noise floor, here 14.4 %")
        })
        .collect();
    let order = ratio(smape("holt-winters"), smape("paper"));
    claims.push(
        Claim::within(
            "forecast-order".into(),
            "11, 12",
            "Holt-Winters over the paper's own, SMAPE".into(),
            order,
            1.0,
            f64::INFINITY,
        )
        .paper("1.30", "times")
        .note("holds where the paper's own method is better"),
    );
    let mpe = of("paper").and_then(|scored| scored.weeks.mean_percentage_error).map(f64::abs);
    claims.push(
        Claim::within("forecast-mpe".into(), "12", "the paper's own: mean percentage error".into(), mpe, 0.0, 10.0)
            .paper("well below 10", "%")
            .note("size of the error; holds below 10 %"),
    );
    claims.push(
        Claim::within(
            "forecast-hedge".into(),
            "beyond",
            "hedge over the paper's own, SMAPE".into(),
            ratio(smape("hedge"), smape("paper")),
            0.0,
            0.95,
        )
        .paper("none", "times")
        .note("holds at 0.95 or less"),
    );
    claims
}

fn cell(value: Option<f64>) -> String {
    value.map_or("none".into(), |value| format!("{value:.1}"))
}

pub(super) fn table(forecasts: &[Scored]) -> Table {
    let columns = ["paper", "SMAPE %", "from five days", "weekend too", "MASE", "mean error %", "P95 coverage %"];
    let row = |scored: &Scored| {
        let Scores { smape_percent, mase, mean_percentage_error, coverage_percent, .. } = scored.weeks;
        let values = [scored.paper, smape_percent, scored.days.smape_percent, scored.all.smape_percent];
        let mut cells: Vec<String> = values.map(cell).to_vec();
        cells.extend([
            mase.map_or("none".into(), |mase| format!("{mase:.2}")),
            cell(mean_percentage_error),
            cell(coverage_percent[1]),
        ]);
        (scored.method.to_owned(), cells)
    };
    Table {
        title: "Forecasts, a day ahead".into(),
        text: "Wednesday to Friday, the paper's cluster of three days, each as forecast at its midnight from three weeks of history; the same \
from five days; and the last five days, weekend and Monday among them. No forecast of this series can be better than 14.4 %.".into(),
        columns: columns.map(String::from).to_vec(),
        rows: forecasts.iter().map(row).collect(),
    }
}
