//! The survey of forecasters: forecasts every available series with every row of the table, and checks the goals.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;

use ioweir_background::forecast::{
    Backtest, Calendar, ForecasterChoice, Interval, Scores, backtest, geometric_mean, whole_days,
};
use ioweir_background::series::{Kind, Series, SeriesError, SeriesOptions, Vdi, read_inputs};
use ioweir_lab::run::{RunError, Silent};
use ioweir_trace::Input;

/// Bins of the survey, unless a series has longer ones.
const BIN_SECONDS: u32 = 600;

/// With as much history a weekly cycle has been seen three times.
const LONG_DAYS: i64 = 21;

/// A series of the survey.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// A short name.
    pub(crate) name: String,
    /// The data set that the series is from.
    pub(crate) origin: &'static str,
    pub(crate) series: Series,
    /// SMAPE of the rate behind the values on the tested days, where that is known: no forecaster can be below.
    pub(crate) rates: Option<Vec<f64>>,
}

/// One series under one forecaster.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) series: String,
    /// The data set that the series is from.
    pub(crate) origin: &'static str,
    /// The forecaster and its settings.
    pub(crate) forecaster: String,
    /// `day` or `week` ahead with all history; `six-days`: a day ahead with at most six days of history.
    pub(crate) protocol: &'static str,
    /// Whole days before the first that is tested.
    pub(crate) history_days: i64,
    pub(crate) test_days: usize,
    pub(crate) scores: Scores,
    /// Coverage of the 0.95 quantile on the worst day.
    pub(crate) worst_day_coverage_percent: Option<f64>,
    /// SMAPE of the rate behind the series: the least there is.
    pub(crate) floor_smape_percent: Option<f64>,
}

/// A file or files of one series in the folder of real series.
struct Real {
    name: String,
    origin: &'static str,
    files: Vec<PathBuf>,
    column: &'static str,
    kind: Kind,
    bin_seconds: u32,
    total: bool,
    /// Days to keep from the first, and days to leave out before them.
    window: Option<(i64, i64)>,
}

const NAB: &str = "Numenta Anomaly Benchmark";
const BITBRAINS: &str = "Bitbrains Rnd";
const PERSEUS: &str = "Perseus, Alibaba";

/// The real series under `folder`, in the order of their names, and the names of missing ones.
///
/// # Errors
/// [`SeriesError`] if a file exists and cannot be read.
pub(crate) fn real_series(folder: &Path) -> Result<(Vec<Subject>, Vec<String>), SeriesError> {
    let (mut subjects, mut missing) = (Vec::new(), Vec::new());
    for real in real(folder) {
        if real.files.is_empty() || real.files.iter().any(|file| !file.is_file()) {
            missing.push(real.name);
            continue;
        }
        let inputs: Vec<Input> = real.files.iter().map(|file| Input::from_path(file)).collect();
        let options = SeriesOptions {
            bin_seconds: Some(real.bin_seconds),
            columns: vec![real.column.into()],
            kind: real.kind,
            total: real.total,
        };
        let Some(mut series) = read_inputs(&inputs, &options)?.into_iter().next() else { continue };
        if let Some((skip, keep)) = real.window {
            let slots = 86_400 / i64::from(real.bin_seconds);
            let to_midnight = (-series.start_unix_seconds).rem_euclid(86_400) / i64::from(real.bin_seconds);
            let from = (to_midnight + skip * slots) as usize;
            series.values = series.values.into_iter().skip(from).take((keep * slots) as usize).collect();
            series.start_unix_seconds += from as i64 * i64::from(real.bin_seconds);
        }
        subjects.push(Subject { name: real.name, origin: real.origin, series, rates: None });
    }
    Ok((subjects, missing))
}

fn real(folder: &Path) -> Vec<Real> {
    let mut out = Vec::new();
    let nab = |name: &str, file: &str, kind: Kind, bin_seconds: u32, window: Option<(i64, i64)>| Real {
        name: name.into(),
        origin: NAB,
        files: vec![folder.join(format!("nab/{file}.csv.gz"))],
        column: "value",
        kind,
        bin_seconds,
        total: false,
        window,
    };
    out.push(nab("taxi-summer", "nyc_taxi", Kind::Sum, 1800, Some((0, 56))));
    // Thanksgiving lies in this part.
    out.push(nab("taxi-autumn", "nyc_taxi", Kind::Sum, 1800, Some((105, 56))));
    out.push(nab("tweets-amzn", "Twitter_volume_AMZN", Kind::Sum, BIN_SECONDS, None));
    out.push(nab("elb-requests", "elb_request_count_8c0756", Kind::Sum, BIN_SECONDS, None));
    out.push(nab("rds-cpu", "rds_cpu_utilization_cc0c53", Kind::Mean, BIN_SECONDS, None));
    out.push(nab("ec2-network-in", "ec2_network_in_257a54", Kind::Sum, BIN_SECONDS, None));
    out.push(nab("ec2-disk-write", "ec2_disk_write_bytes_1ef3de", Kind::Sum, BIN_SECONDS, None));
    for machine in [415, 408, 220, 231, 394, 275, 89, 325, 332, 297, 386, 93, 96, 237] {
        let columns = [("read", "Disk read throughput [KB/s]"), ("write", "Disk write throughput [KB/s]")];
        for (direction, column) in columns {
            let files = [7, 8, 9].map(|month| folder.join(format!("bitbrains-rnd/2013-{month}/{machine}.csv.gz")));
            out.push(Real {
                name: format!("vm-{machine}-{direction}"),
                origin: BITBRAINS,
                files: files.to_vec(),
                column,
                kind: Kind::Mean,
                bin_seconds: BIN_SECONDS,
                total: false,
                window: None,
            });
        }
    }
    for host in ["cluster_A/host_22", "cluster_A/host_1", "cluster_C/host_2", "cluster_J/host_15", "cluster_J/host_3"] {
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder.join("perseus").join(host))
            .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
            .unwrap_or_default();
        files.sort();
        out.push(Real {
            name: host.replace("/host_", "-").replace("cluster_", "drives-").to_lowercase(),
            origin: PERSEUS,
            files,
            column: "throughput",
            kind: Kind::Mean,
            bin_seconds: BIN_SECONDS,
            total: true,
            window: None,
        });
    }
    out
}

/// Generated weeks whose noise is known: two of the quiet kind, two of the noisy.
#[must_use]
pub(crate) fn generated_series() -> Vec<Subject> {
    let kinds = [
        ("vdi-18-a", 0.18, 0.0, 1),
        ("vdi-18-b", 0.18, 0.0, 2),
        ("vdi-35-a", 0.35, 0.02, 3),
        ("vdi-35-b", 0.35, 0.02, 4),
    ];
    let make = |(name, noise, spikes, seed): (&str, f64, f64, u64)| {
        let made = Vdi { noise, spikes, seed, bins: 42 * 144, ..Vdi::default() }.generate();
        Subject { name: name.into(), origin: "generated", series: made.series, rates: Some(made.rates) }
    };
    kinds.map(make).to_vec()
}

/// The results of the survey.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Survey {
    /// One for each series, forecaster and protocol.
    pub(crate) rows: Vec<Row>,
}

/// Forecasts every subject with every choice.
///
/// # Errors
/// [`RunError`] where days of a series are no whole number of bins.
pub(crate) fn survey(subjects: &[Subject], choices: &[ForecasterChoice]) -> Result<Survey, RunError> {
    const DAYS_AHEAD: usize = 14;
    const PROTOCOLS: [(&str, Option<usize>, usize); 3] =
        [("day", None, 1), ("week", None, 7), ("six-days", Some(6), 1)];
    let mut cells = Vec::new();
    for subject in subjects {
        for choice in choices {
            for protocol in PROTOCOLS {
                cells.push((subject, choice, protocol));
            }
        }
    }
    let calendar = Calendar::default();
    let rows: Result<Vec<Option<Row>>, RunError> = cells
        .par_iter()
        .map(|(subject, choice, (protocol, history_days, horizon_days))| {
            let (first, end) = whole_days(&subject.series, &calendar);
            let days = (end - first).max(0);
            // Two weeks where three weeks of history are left, else the last six days.
            let test_days = if days >= 21 + DAYS_AHEAD as i64 { DAYS_AHEAD } else { 6 };
            let history = days - test_days as i64 - (*horizon_days as i64 - 1);
            if history < 5 {
                return Ok::<_, RunError>(None);
            }
            let test = Backtest {
                test_days,
                history_days: *history_days,
                horizon_days: *horizon_days,
                lead_hours: Vec::new(),
            };
            let tested = backtest(&subject.series, choice, &calendar, &test, &Silent)?;
            Ok(Some(Row {
                series: subject.name.clone(),
                origin: subject.origin,
                forecaster: choice.to_string(),
                protocol,
                history_days: history_days.map_or(history, |most| history.min(most as i64)),
                test_days,
                scores: tested.scores(),
                worst_day_coverage_percent: tested.worst_day_coverage(1),
                floor_smape_percent: floor(subject, test_days, &calendar).filter(|_| *horizon_days == 1),
            }))
        })
        .collect();
    Ok(Survey { rows: rows?.into_iter().flatten().collect() })
}

/// A goal of forecasting, with the measured result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Goal {
    /// The goal's number in the survey of forecasting that this project began with.
    pub(crate) name: &'static str,
    /// The condition in words.
    pub(crate) wanted: &'static str,
    /// The measured value in words.
    pub(crate) measured: String,
    /// Whether it holds.
    pub(crate) met: bool,
    /// The series that miss the goal.
    pub(crate) missed_by: Vec<String>,
}

/// SMAPE of the rates behind the last days.
fn floor(subject: &Subject, test_days: usize, calendar: &Calendar) -> Option<f64> {
    let rates = subject.rates.as_ref()?;
    let (_, end) = whole_days(&subject.series, calendar);
    let bin = i64::from(subject.series.bin_seconds);
    let to = ((end * 86_400 - subject.series.start_unix_seconds) / bin) as usize;
    let from = to.saturating_sub(test_days * (86_400 / bin) as usize);
    let pairs = rates.get(from..to)?.iter().zip(subject.series.values.get(from..to)?);
    let errors: Vec<f64> = pairs
        .filter_map(|(rate, value)| value.map(|value| 200.0 * (rate - value).abs() / (rate + value).max(1e-300)))
        .collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

impl Survey {
    /// SMAPE of one forecaster over that of another, for each series of a protocol that `keep` keeps.
    #[must_use]
    pub(crate) fn ratios(
        &self,
        of: &str,
        over: &str,
        protocol: &str,
        keep: &dyn Fn(&Row) -> bool,
    ) -> Vec<(String, f64)> {
        let rows = |name: &str| {
            let name = name.to_owned();
            self.rows.iter().filter(move |row| row.protocol == protocol && row.forecaster == name)
        };
        rows(of)
            .filter(|row| keep(row))
            .filter_map(|row| {
                let other = rows(over).find(|other| other.series == row.series)?;
                let ratio = row.scores.smape_percent? / other.scores.smape_percent.filter(|smape| *smape > 0.0)?;
                Some((row.series.clone(), ratio))
            })
            .collect()
    }

    /// The geometric mean of [`Self::ratios`].
    #[must_use]
    pub(crate) fn ratio(&self, of: &str, over: &str, protocol: &str, keep: &dyn Fn(&Row) -> bool) -> Option<Interval> {
        let ratios: Vec<f64> = self.ratios(of, over, protocol, keep).into_iter().map(|(_, ratio)| ratio).collect();
        geometric_mean(&ratios, 1)
    }

    fn rows_of(&self, forecaster: &str, protocol: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.protocol == protocol && row.forecaster == forecaster)
    }

    /// The goals of the default forecaster.
    #[must_use]
    pub(crate) fn goals(&self) -> Vec<Goal> {
        let mut goals = self.error_goals();
        goals.push(self.floor_goal());
        goals.extend(self.coverage_goals());
        goals.push(self.naive_goal());
        goals
    }

    /// G1 and G2: errors against the method of the paper.
    fn error_goals(&self) -> Vec<Goal> {
        let long = |row: &Row| row.history_days >= LONG_DAYS;
        let words = |interval: Option<Interval>| {
            interval
                .map_or("nothing".into(), |ratio| format!("{:.3} ({:.3} to {:.3})", ratio.value, ratio.low, ratio.high))
        };
        let short = [
            self.ratio("hedge", "paper", "six-days", &|_| true),
            self.ratio("hedge", "paper-tuned", "six-days", &|_| true),
        ];
        let tuned = self.ratio("hedge", "paper-tuned", "day", &long);
        let logs = self.ratio("hedge", "paper-tuned:log=1", "day", &long);
        let below = |ratio: Option<Interval>, most: f64| ratio.is_some_and(|ratio| ratio.value <= most);
        vec![
            Goal {
                name: "G1",
                wanted: "six days of history: at most 0.95 times the error of the paper's method",
                measured: format!("{} of it as written, {} of it tuned", words(short[0]), words(short[1])),
                met: short.into_iter().all(|ratio| below(ratio, 0.95)),
                missed_by: Vec::new(),
            },
            Goal {
                name: "G2",
                wanted: "three weeks of history or more: at most 0.80 times that of it tuned, upper bound below 0.9",
                measured: format!("{}; {} of it tuned and in logarithms", words(tuned), words(logs)),
                met: below(tuned, 0.80) && tuned.is_some_and(|ratio| ratio.high < 0.9),
                missed_by: Vec::new(),
            },
        ]
    }

    /// G3: errors on generated series, whose floor is known.
    fn floor_goal(&self) -> Goal {
        let floors: Vec<f64> = self
            .rows_of("hedge", "day")
            .filter_map(|row| Some(row.scores.smape_percent? / row.floor_smape_percent?))
            .collect();
        let floor = floors.iter().sum::<f64>() / floors.len().max(1) as f64;
        Goal {
            name: "G3",
            wanted: "generated series: at most 1.25 times the error of the rate behind them",
            measured: format!("{floor:.3}"),
            met: !floors.is_empty() && floor <= 1.25,
            missed_by: Vec::new(),
        }
    }

    /// G4: coverage of the 0.95 quantile, over all days and day by day.
    fn coverage_goals(&self) -> Vec<Goal> {
        let outside: Vec<String> = self
            .rows_of("hedge", "day")
            .filter_map(|row| {
                let tolerance =
                    row.scores.coverage_error_percent[1].map_or(f64::INFINITY, |error| (2.0 * error).max(1.0));
                let covered = row.scores.coverage_percent[1].filter(|share| (share - 95.0).abs() > tolerance)?;
                Some(format!("{} {covered:.1} %", row.series))
            })
            .collect();
        let bad_days: Vec<String> = self
            .rows_of("hedge", "day")
            .filter_map(|row| {
                Some(format!("{} {:.0} %", row.series, row.worst_day_coverage_percent.filter(|share| *share < 80.0)?))
            })
            .collect();
        let count = self.rows_of("hedge", "day").count();
        vec![
            Goal {
                name: "G4",
                wanted: "95 % of the bins of each series at or below the 0.95 quantile, within two standard errors of as many days, \
                         at least a point",
                measured: format!("{} of {count} series", count - outside.len()),
                met: outside.is_empty(),
                missed_by: outside,
            },
            Goal {
                name: "G4, days",
                wanted: "80 % of the bins of each day at or below the 0.95 quantile",
                measured: format!("on every day of {} of {count} series", count - bad_days.len()),
                met: bad_days.is_empty(),
                missed_by: bad_days,
            },
        ]
    }

    /// G5: errors against the naive forecast of the week before.
    fn naive_goal(&self) -> Goal {
        let naive = self.ratios("hedge", "naive-week", "day", &|_| true);
        let worse: Vec<String> =
            naive.iter().filter(|(_, ratio)| *ratio > 1.05).map(|(name, ratio)| format!("{name} {ratio:.3}")).collect();
        let worst = naive.iter().map(|(_, ratio)| *ratio).fold(0.0, f64::max);
        Goal {
            name: "G5",
            wanted: "on no series more than 1.05 times the error of the week before",
            measured: format!("{worst:.3} at the worst"),
            met: worse.is_empty() && !naive.is_empty(),
            missed_by: worse,
        }
    }

    /// Every row as CSV.
    #[must_use]
    pub(crate) fn to_csv(&self) -> String {
        let mut out = String::from(
            "series,origin,forecaster,protocol,history_days,test_days,bins,smape_percent,mase,mean_percentage_error,\
             cumulative_error_percent,pinball_90,pinball_95,pinball_99,coverage_90_percent,coverage_95_percent,\
             coverage_99_percent,worst_day_coverage_95_percent,floor_smape_percent\n",
        );
        for row in &self.rows {
            let Scores {
                smape_percent,
                mase,
                mean_percentage_error,
                cumulative_error_percent,
                pinball,
                coverage_percent,
                ..
            } = row.scores;
            let mut numbers = vec![smape_percent, mase, mean_percentage_error, cumulative_error_percent];
            numbers.extend(pinball);
            numbers.extend(coverage_percent);
            numbers.extend([row.worst_day_coverage_percent, row.floor_smape_percent]);
            let numbers: Vec<String> = numbers
                .into_iter()
                .map(|number| number.map_or(String::new(), |number| format!("{number:.4}")))
                .collect();
            // Writing to a string does not fail.
            let _ = writeln!(
                out,
                "{},\"{}\",{},{},{},{},{},{}",
                row.series,
                row.origin,
                row.forecaster,
                row.protocol,
                row.history_days,
                row.test_days,
                row.scores.bins,
                numbers.join(",")
            );
        }
        out
    }

    /// Goals, methods and series as tables.
    #[must_use]
    pub(crate) fn to_markdown(&self) -> String {
        let mut out = String::from("## Goals\n\n| goal | wanted | measured | |\n|---|---|---|---|\n");
        for goal in self.goals() {
            let met = if goal.met { "holds".into() } else { format!("missed: {}", goal.missed_by.join(", ")) };
            let _ = writeln!(out, "| {} | {} | {} | {met} |", goal.name, goal.wanted, goal.measured);
        }
        out += "\n## Methods\n\nSMAPE over that of `paper-tuned`, geometric mean with the bounds of 95 of 100 resamples of the \
                series; a day and a week ahead on series with three weeks of history or more, six days on all.\n\n\
                | forecaster | a day ahead | a week ahead | six days of history |\n|---|---|---|---|\n";
        let mut names: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.forecaster.as_str()) {
                names.push(&row.forecaster);
            }
        }
        for name in &names {
            let cell = |protocol: &str| {
                let keep = |row: &Row| protocol == "six-days" || row.history_days >= LONG_DAYS;
                let ratio = self.ratio(name, "paper-tuned", protocol, &keep);
                ratio.map_or(String::new(), |ratio| {
                    format!("{:.3} ({:.3} to {:.3})", ratio.value, ratio.low, ratio.high)
                })
            };
            let _ = writeln!(out, "| `{name}` | {} | {} | {} |", cell("day"), cell("week"), cell("six-days"));
        }
        out
    }
}
