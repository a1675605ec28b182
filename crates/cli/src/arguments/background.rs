//! Arguments of `forecast` and `plan`.

use std::path::PathBuf;

use clap::Args;
use ioweir_background::forecast::ForecastSpec;
use ioweir_background::plan::PlanSpec;

use super::OutputArguments;
use crate::flags::KeyFlags;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir forecast array.csv.gz --bin 10m --column 'write IOPS'\n  ioweir forecast array.csv --holiday 2026-12-25=sunday --quantile 0.95,0.99\n  ioweir forecast array.csv --backtest 14 --method hedge,paper-tuned,naive-week"
)]
pub(crate) struct ForecastArguments {
    /// Tables of rates with a column of times (CSV, or what iostat, sar, fio or Prometheus write), in order of time; or a block
    /// trace; or vdi:SEED
    #[arg(value_name = "SERIES", required_unless_present = "spec")]
    pub(crate) series: Vec<String>,

    /// Forecast file (TOML) to start from; `ioweir show FILE` prints it with every default
    #[arg(long, value_name = "FILE", help_heading = "Forecasting")]
    pub(crate) spec: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) keys: KeyFlags<ForecastSpec>,

    /// Day that behaves like another weekday: 2026-12-25=sunday; may be repeated
    #[arg(long, value_name = "DATE=WEEKDAY", help_heading = "Reading series")]
    pub(crate) holiday: Vec<String>,

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

    /// Plan file (TOML) to start from: series, replay and the policy, as a file's name or a table; `ioweir show FILE`
    /// prints it with every default
    #[arg(long, value_name = "FILE")]
    pub(crate) spec: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) keys: KeyFlags<PlanSpec>,

    /// Also write the plan's windows into folder DIR as systemd timers that start and stop a target for each service
    #[arg(long, value_name = "DIR")]
    pub(crate) systemd: Option<PathBuf>,

    /// No progress bar
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
