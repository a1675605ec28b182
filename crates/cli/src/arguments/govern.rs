//! Arguments of `govern`.

use clap::Args;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir govern /etc/ioweir/govern.toml --dry-run\n  ioweir govern govern.toml --for 8h\n  ioweir govern govern.toml --dry-run --json - --export plan.html\n\n\
Files to start from are in examples/govern; docs/govern.md says what is done, and what is not. Ctrl-C ends it at once: every \
service is then what its `default` says."
)]
pub(crate) struct GovernArguments {
    /// Govern file (TOML): sources of load, services, workers; `ioweir doc govern` lists its keys
    #[arg(value_name = "SPEC")]
    pub(crate) spec: String,

    /// Say what it would do and why, with the plan of the coming day; nothing is run, and nothing is written
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Run for this long, then end; without it, until it is interrupted
    #[arg(long = "for", value_name = "SPAN", conflicts_with = "dry_run")]
    pub(crate) span: Option<String>,

    /// Rehearse: each second counts as so many, of time, of load and of work alike, so that --speed 60 passes a day in 24 minutes.
    /// No state is read or kept. Times in the file are the governor's: what is shorter than N seconds cannot be kept
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600), conflicts_with = "dry_run", hide_default_value = true)]
    pub(crate) speed: u64,

    /// Do not print what happens
    #[arg(long)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) output: super::OutputArguments,
}
