//! Arguments of `forecast` and `plan`.

use std::path::PathBuf;

use clap::Args;

use super::{OutputArguments, ReadingArguments};

/// Flags for reading rates, for every verb that takes series.
#[derive(Args, Debug)]
pub(crate) struct SeriesArguments {
    /// Tables of rates with a column of times (CSV, or what iostat, sar, fio or Prometheus write), in order of time; or a block
    /// trace; or vdi:SEED
    #[arg(value_name = "SERIES", required_unless_present = "spec")]
    pub(crate) series: Vec<String>,

    /// Column to read, by name; may be repeated [default: all numeric columns]
    #[arg(long, value_name = "NAME", help_heading = "Reading series")]
    pub(crate) column: Vec<String>,

    /// Length of a bin, with unit; must divide a day [default: the table's own step; 10m for traces]
    #[arg(long, value_name = "TIME", help_heading = "Reading series")]
    pub(crate) bin: Option<String>,

    /// Meaning of a value: mean (a level or a rate), sum (count since the previous value), counter (count since the
    /// start) [default: mean]
    #[arg(long, value_name = "KIND", value_parser = ["mean", "sum", "counter"], help_heading = "Reading series")]
    pub(crate) kind: Option<String>,

    /// Add up rows with different labels (drives, hosts) into one series
    #[arg(long, help_heading = "Reading series")]
    pub(crate) total: bool,

    /// Local time minus UTC, such as +01:00 or -5: days begin at local midnight [default: the table's clock]
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true, help_heading = "Reading series")]
    pub(crate) utc_offset: Option<String>,

    /// Time zone by its IANA name, such as Europe/Berlin, instead of an offset; the table's times are UTC then
    #[arg(long, value_name = "NAME", conflicts_with = "utc_offset", help_heading = "Reading series")]
    pub(crate) time_zone: Option<String>,

    /// Day that behaves like another weekday: 2026-12-25=sunday; may be repeated
    #[arg(long, value_name = "DATE=WEEKDAY", help_heading = "Reading series")]
    pub(crate) holiday: Vec<String>,

    #[command(flatten)]
    pub(crate) trace: ReadingArguments,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir forecast array.csv.gz --bin 10m --column 'write IOPS'\n  ioweir forecast array.csv --holiday 2026-12-25=sunday --quantile 0.95,0.99\n  ioweir forecast array.csv --backtest 14 --method hedge,paper-tuned,naive-week"
)]
pub(crate) struct ForecastArguments {
    #[command(flatten)]
    pub(crate) reading: SeriesArguments,

    /// Forecast file (TOML) to start from; `ioweir show FILE` prints it with every default
    #[arg(long, value_name = "FILE", help_heading = "Forecasting")]
    pub(crate) spec: Option<PathBuf>,

    /// Forecasters, separated by commas, settings after colons: paper:trend=0.8 [default: hedge]
    #[arg(long, value_name = "NAME[:SETTING=VALUE...],...", value_delimiter = ',', help_heading = "Forecasting")]
    pub(crate) method: Vec<String>,

    /// Time to look ahead, with unit [default: 1d]
    #[arg(long, value_name = "TIME", help_heading = "Forecasting")]
    pub(crate) horizon: Option<String>,

    /// Quantiles, separated by commas [default: 0.5,0.95,0.99]
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', help_heading = "Forecasting")]
    pub(crate) quantile: Vec<f64>,

    /// Forecast each of the last DAYS days at its midnight, and score the forecast against the actual values
    #[arg(long, value_name = "DAYS", help_heading = "Forecasting")]
    pub(crate) backtest: Option<usize>,

    /// Show what the series are like instead: autocorrelation, lag plots, trend, seasons and rest; best with --export page.html
    #[arg(long, conflicts_with_all = ["method", "horizon", "quantile", "backtest"], help_heading = "Forecasting")]
    pub(crate) diagnose: bool,

    /// Times ahead at which a backtest scores too, up to a week, separated by commas: 1h,6h,7d
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', help_heading = "Forecasting")]
    pub(crate) lead: Vec<String>,

    /// Write the binned series as CSV
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    pub(crate) binned: Option<String>,

    /// No progress bar
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir plan examples/vdi/load.csv --policy examples/vdi/policy.toml\n  ioweir plan week.csv --policy array.toml --replay next.csv --export plan.html\n  ioweir plan capture.parquet --policy array.toml --json -"
)]
pub(crate) struct PlanArguments {
    /// Past load of the array: a CSV of rates, one time and its values per row, or a block trace, which is counted in bins;
    /// several files in order of time
    #[arg(value_name = "SERIES", required_unless_present = "spec")]
    pub(crate) series: Vec<String>,

    /// Policy file (TOML): pool, cores, services and their terms; `ioweir doc plan` lists the keys
    #[arg(long, value_name = "FILE", required_unless_present = "spec")]
    pub(crate) policy: Option<String>,

    /// Plan file (TOML) to start from: series, replay and the policy, as a file's name or a table; `ioweir show FILE`
    /// prints it with every default
    #[arg(long, value_name = "FILE")]
    pub(crate) spec: Option<PathBuf>,

    /// Actual load of the planned time, in the same form: play the plan on it, replanning in each bin
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Vec<String>,

    /// Also write the plan's windows into folder DIR as systemd timers that start and stop a target for each service
    #[arg(long, value_name = "DIR")]
    pub(crate) systemd: Option<PathBuf>,

    /// No progress bar
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    #[command(flatten)]
    pub(crate) reading: ReadingArguments,
}
