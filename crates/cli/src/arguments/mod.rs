//! The one definition of verbs and flags; help, errors and completions come from it.

#[cfg(feature = "advise")]
mod advise;
#[cfg(feature = "plan")]
mod background;
#[cfg(feature = "advise")]
mod calibrate;
mod candidates;
mod compare;
#[cfg(feature = "serve")]
mod ctl;
mod experiment;
#[cfg(feature = "govern")]
mod govern;
#[cfg(feature = "advise")]
mod qos;
mod record;
mod replay;
#[cfg(feature = "reproduce")]
mod reproduce;
#[cfg(feature = "advise")]
mod scorecard;
mod sweep;
#[cfg(feature = "advise")]
mod targets;
mod trace;

pub(crate) use candidates::{listed, of_flag as candidates_of};
use clap::{Args, Parser, Subcommand};

#[cfg(not(feature = "govern"))]
pub(crate) use crate::left_out::LeftOut as GovernArguments;
#[cfg(not(feature = "serve"))]
pub(crate) use crate::left_out::LeftOut as CtlArguments;
#[cfg(not(feature = "reproduce"))]
pub(crate) use crate::left_out::LeftOut as ReproduceArguments;
#[cfg(not(feature = "plan"))]
pub(crate) use crate::left_out::{LeftOut as ForecastArguments, LeftOut as PlanArguments};
#[cfg(not(feature = "advise"))]
pub(crate) use crate::left_out::{LeftOut as AdviseArguments, LeftOut as CalibrateArguments};
#[cfg(feature = "advise")]
pub(crate) use advise::{AdviseArguments, AdviseVerb};
#[cfg(feature = "plan")]
pub(crate) use background::{ForecastArguments, PlanArguments};
#[cfg(feature = "advise")]
pub(crate) use calibrate::CalibrateArguments;
pub(crate) use compare::{CompareArguments, seed};
#[cfg(feature = "serve")]
pub(crate) use ctl::{
    CtlArguments, CtlVerb, DeviceVerb, JsonArguments, ListArguments, ServiceVerb, SnapshotVerb, VolumeVerb,
};
pub(crate) use experiment::SimulateArguments;
#[cfg(feature = "govern")]
pub(crate) use govern::GovernArguments;
#[cfg(feature = "advise")]
pub(crate) use qos::QosArguments;
pub(crate) use record::RecordArguments;
pub(crate) use replay::ReplayArguments;
#[cfg(feature = "reproduce")]
pub(crate) use reproduce::{Paper, ReproduceArguments};
#[cfg(feature = "advise")]
pub(crate) use scorecard::ScorecardArguments;
pub(crate) use sweep::SweepArguments;
#[cfg(feature = "parquet")]
pub(crate) use sweep::SweepMergeArguments;
#[cfg(feature = "parquet")]
pub(crate) use sweep::SweepVerb;
#[cfg(feature = "advise")]
pub(crate) use targets::TargetsArguments;
pub(crate) use trace::{
    ConvertArguments, CutArguments, GenerateArguments, InfoArguments, TogetherArguments, TraceArguments, TraceVerb,
};

/// Version and commit.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("IOWEIR_COMMIT"), ")");

const ENDING: &str = "Not listed: reproduce (papers), completions (of shells), man (manual pages).\n\nExit codes: 0 success, 1 failure while running, 2 usage or bad input, 3 an expectation was \
not met.\nData goes to standard output, everything else to standard error.";

/// Storage I/O scheduling: compare policies on traces, simulate tenants and cores, plan background work, serve block devices.
#[derive(Debug, Parser)]
#[command(name = "ioweir", version = VERSION, after_help = ENDING, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Replay traces under several schedulers and compare the results
    Compare(Box<CompareArguments>),
    /// Run an experiment: classes of clients on a shared device, schedulers, expectations; or explain why a request of it waited
    Simulate(SimulateArguments),
    /// Run many cells of a comparison or experiment into a folder: all values of its keys, on all cores, resumable
    Sweep(SweepArguments),
    /// Record the block requests of a device of this machine, by the kernel's events
    Record(RecordArguments),
    /// Fit a device model to a device or a trace with latencies, and say how far it is off; or judge a model on another trace
    Calibrate(Box<CalibrateArguments>),
    /// Replay a trace on a real device, under its schedulers in turn, with the prediction beside the measurement
    Replay(Box<ReplayArguments>),
    /// Search what to set for a device and a load, and say how sure that is; score schedulers for tenants; search io.cost.qos
    Advise(Box<AdviseArguments>),
    /// Summarise, convert, generate and cut traces
    Trace(Box<TraceArguments>),
    /// Forecast load for the coming days, or score forecasts against the past
    Forecast(Box<ForecastArguments>),
    /// Plan deferred work (snapshot deletes, scrubs, rebuilds): when it runs, and on how many cores
    Plan(PlanArguments),
    /// Govern background work of this machine: scrubs, trims, rebuilds run when nobody feels them, and in time
    Govern(GovernArguments),
    /// Serve files and block devices over NBD, with every request scheduled
    Serve(ServeArguments),
    /// Show the state and the clients of a running server, change it, or end it
    Ctl(CtlArguments),
    /// Watch a running server: who is served, who waits, and why
    Top(TopArguments),
    /// Print a spec or a device as TOML, with every default filled in
    Show(ShowArguments),
    /// Explain policies, devices, formats, keys, loads, wait reasons, exit codes
    Doc(DocArguments),
    /// Compare five schedulers on a trace that is built in, to see what a comparison says
    Demo(DemoArguments),
    /// Run a paper's experiments and compare its claims with the results
    #[command(hide = true)]
    Reproduce(ReproduceArguments),
    /// Write the manual pages
    #[command(hide = true)]
    Man(ManArguments),
    /// Print a shell's completion script
    #[command(hide = true)]
    Completions(CompletionsArguments),
}

/// Flags for output, for every verb that makes a document.
#[derive(Args, Debug)]
pub(crate) struct OutputArguments {
    /// Write JSON to a file; `-` writes to standard output instead of the tables
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    pub(crate) json: Option<String>,

    /// Write the document to a file; the suffix selects the form: .html, .md, .csv, .parquet, .json or .txt; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) export: Vec<String>,

    #[command(flatten)]
    pub(crate) width: WidthArguments,
}

/// Flag for the width of output, for every verb that prints tables.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WidthArguments {
    /// Show every column, in lines that may be longer than the terminal is wide
    #[arg(long, help_heading = "Output")]
    pub(crate) wide: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  ioweir doc\n  ioweir doc policy\n  ioweir doc policy bid-hdd")]
pub(crate) struct DocArguments {
    /// Topic to explain; without it, lists the topics
    pub(crate) topic: Option<String>,

    /// Entry of the topic; without it, lists the entries
    pub(crate) name: Option<String>,

    /// Write the reference pages into this folder, as they are in docs/reference
    #[arg(long, value_name = "FOLDER", hide = true, conflicts_with = "topic")]
    pub(crate) write: Option<String>,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir serve disks.toml\n  ioweir serve disks.toml --listen tcp:127.0.0.1:10809\n  \
nbdinfo --size -- [ ioweir serve disks.toml ]"
)]
pub(crate) struct ServeArguments {
    /// Server spec (TOML); `ioweir doc serve` lists its keys, `ioweir show FILE` prints it with every default
    #[arg(value_name = "SPEC")]
    pub(crate) spec: String,

    /// Listen here instead of where the spec says: unix:PATH or tcp:ADDRESS:PORT; may be repeated
    #[arg(long, value_name = "PLACE")]
    pub(crate) listen: Vec<String>,

    /// Serve one client on standard input and output, then exit
    #[arg(long, conflicts_with = "listen")]
    pub(crate) stdin: bool,

    /// Take the place of the server that runs with this spec's control socket: get its listening sockets, so that clients that come
    /// wait, let it drain and end, and serve its devices then
    #[arg(long, conflicts_with_all = ["listen", "stdin"])]
    pub(crate) take_over: bool,

    /// Check everything that can be checked without serving, then exit: devices that cannot be opened or are in use, exports that do
    /// not fit, addresses that cannot be listened at. With --take-over: whether it could take the place of the server that runs
    #[arg(long, conflicts_with_all = ["stdin", "capture"])]
    pub(crate) check: bool,

    /// Refuse to start when any device cannot be opened, instead of serving the others
    #[arg(long)]
    pub(crate) strict: bool,

    /// Record every request that the device's scheduler sees as a trace; the suffix selects the format (.parquet, .csv, ...)
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<String>,

    /// Do not print what is served
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir top disks.toml\n  ioweir top unix:/run/ioweir.control --once\n\nOn a terminal it redraws \
in place until it is interrupted; elsewhere it prints one table after another."
)]
pub(crate) struct TopArguments {
    /// Server: its spec file, or its control socket as unix:PATH
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    /// Print the current state once, then exit
    #[arg(long)]
    pub(crate) once: bool,

    /// Time between two updates; rates always cover the last full second
    #[arg(long, value_name = "SPAN", default_value = "1s", conflicts_with = "once")]
    pub(crate) interval: String,

    #[command(flatten)]
    pub(crate) width: WidthArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  ioweir show night.toml\n  ioweir show hdd > my-disk.toml")]
pub(crate) struct ShowArguments {
    /// Comparison, experiment, sweep, forecast, plan, govern, server or device file, or a device preset
    #[arg(value_name = "SPEC")]
    pub(crate) spec: String,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ioweir demo --export report.html")]
pub(crate) struct DemoArguments {
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ioweir man ~/.local/share/man/man1")]
pub(crate) struct ManArguments {
    /// Folder to write them into: one page for ioweir, and one for each verb
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: std::path::PathBuf,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ioweir completions bash > ~/.local/share/bash-completion/completions/ioweir")]
pub(crate) struct CompletionsArguments {
    /// Shell; the script for Nushell knows verbs and flags, those for the others schedulers, devices and topics too
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// A shell that can complete what is typed.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Nushell,
    Powershell,
    Zsh,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Arguments;

    #[test]
    fn verbs_on_devices_share_trace_flags() {
        let flags = |verb: &str| -> Vec<String> {
            let command = Arguments::command();
            let verb = command.find_subcommand(verb).expect(verb);
            let reading = verb.get_arguments().filter(|flag| flag.get_help_heading() == Some("Reading traces"));
            reading.map(|flag| format!("{} {:?}", flag.get_id(), flag.get_help().map(ToString::to_string))).collect()
        };
        let expected = flags("compare");
        assert_eq!(expected.len(), 7, "{expected:?}");
        for verb in ["advise", "calibrate", "replay"] {
            assert_eq!(flags(verb), expected, "{verb}");
        }
    }
}
