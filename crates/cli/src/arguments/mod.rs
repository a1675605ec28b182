//! The one definition of verbs and flags; help, errors and completions come from it.

mod background;
mod compare;
mod ctl;
mod experiment;
mod trace;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use background::{ForecastArguments, PlanArguments, SeriesArguments};
pub(crate) use compare::{CompareArguments, ReadingArguments};
pub(crate) use ctl::CtlArguments;
#[cfg(feature = "serve")]
pub(crate) use ctl::CtlVerb;
pub(crate) use experiment::{ExplainArguments, SimulateArguments};
pub(crate) use trace::{ConvertArguments, CutArguments, GenerateArguments, InfoArguments, TraceArguments, TraceVerb};

/// Version and commit.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("IOWEIR_COMMIT"), ")");

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 something failed while running, 2 usage or bad input, 3 an expectation \
was not met.\nData goes to standard output, everything else to standard error.";

/// Storage I/O scheduling: compares policies on traces, simulates tenants and cores, plans background work, serves.
#[derive(Debug, Parser)]
#[command(name = "ioweir", version = VERSION, after_help = EXIT_CODES, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Replay traces under several schedulers and compare what comes out
    Compare(Box<CompareArguments>),
    /// Run an experiment: classes of clients that share a device, schedulers, expectations, sweeps
    Simulate(SimulateArguments),
    /// Say in words why a request of an experiment waited
    Explain(ExplainArguments),
    /// Look at traces, and turn them from one format into another
    Trace(TraceArguments),
    /// Forecast rates: how busy the coming days will be, or how good forecasts would have been
    Forecast(Box<ForecastArguments>),
    /// Run a paper's experiments and set its claims beside what comes out
    Reproduce(ReproduceArguments),
    /// Say when deferred work (snapshot deletes, scrubs, rebuilds) is to be done, and with how many cores
    Plan(PlanArguments),
    /// Replay what was measured on real disks and say how far the models are from them
    Validate(ValidateArguments),
    /// Serve files and devices over NBD, every request through a scheduler
    Serve(ServeArguments),
    /// Ask a running server how things stand, and change what its clients are entitled to
    Ctl(CtlArguments),
    /// Watch a running server: who is served, who waits, and why
    Top(TopArguments),
    /// Explain policies, devices, formats, loads, reasons, exit codes
    Doc(DocArguments),
    /// Print a comparison, an experiment, a server's spec or a device with every default filled in, as TOML
    Show(ShowArguments),
    /// Print the completion script of a shell
    Completions(CompletionsArguments),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir reproduce bid --quick\n  ioweir reproduce bid --json claims.json --export out"
)]
pub(crate) struct ReproduceArguments {
    /// The paper
    #[arg(value_enum)]
    pub(crate) paper: Paper,

    /// Only what the claims need: one load, no tables of sensitivity
    #[arg(long)]
    pub(crate) quick: bool,

    /// Folder with the traces of the six Hadoop jobs; without it traces/hadoop/hdd-emul, or generated traffic where that is not
    /// there
    #[arg(long, value_name = "FOLDER")]
    pub(crate) traces: Option<String>,

    /// Files of the SYSTOR '17 traces for `background`, in place of the generated series; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Vec<PathBuf>,

    /// Write the claims as JSON to a file; `-` is standard output, in place of the table
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<String>,

    /// Write the page, with all tables and figures, into a folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) export: Option<String>,

    /// No progress bar
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Where a document is written to, for every verb that makes one.
#[derive(Args, Debug)]
pub(crate) struct OutputArguments {
    /// Write JSON to a file; `-` is standard output, in place of the tables
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    pub(crate) json: Option<String>,

    /// Write the document to a file, as its suffix says: .html, .md, .csv, .parquet, .json or .txt; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) export: Vec<String>,
}

/// A paper that can be reproduced.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Paper {
    /// Bulk I/O dispatch: figures 12 to 19 of Mishra and Somani
    Bid,
    /// Request scheduling in WAFL: table 2 and figures 4 to 8 of Zhou and others
    Wafl,
    /// Reward scheduling: tables 1 and 2 and figures 2 and 3 of Elnably and others
    Reward,
    /// Background work planned from forecasts: figures 2 and 10 to 14 of Kachmar and Kaeli
    Background,
    /// All of them, one behind the other
    All,
}

impl Paper {
    /// Every paper by itself, in the order in which they are run.
    pub(crate) const EACH: [Self; 4] = [Self::Bid, Self::Wafl, Self::Reward, Self::Background];

    /// The name on the command line.
    pub(crate) fn name(self) -> String {
        clap::ValueEnum::to_possible_value(&self).map_or_else(String::new, |value| value.get_name().to_string())
    }
}

#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  ioweir validate disksim-measured\n\nExit code 3 where a model misses its gate, 2 where \
nothing was validated."
)]
pub(crate) struct ValidateArguments {
    /// Folder with traces measured on disks, in DiskSim's validation form
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: String,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  ioweir doc\n  ioweir doc policy\n  ioweir doc policy bid-hdd")]
pub(crate) struct DocArguments {
    /// What to explain; without it, the topics are listed
    pub(crate) topic: Option<String>,

    /// One entry of the topic; without it, its entries are listed
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
    /// What to serve (TOML); `ioweir show FILE` prints it with every default
    #[arg(value_name = "SPEC")]
    pub(crate) spec: String,

    /// Where to listen, instead of where the spec says: unix:PATH or tcp:ADDRESS:PORT; may be repeated
    #[arg(long, value_name = "PLACE")]
    pub(crate) listen: Vec<String>,

    /// Serve one client on the standard streams, and end with it
    #[arg(long, conflicts_with = "listen")]
    pub(crate) stdin: bool,

    /// Check all that can be checked without serving, and end: devices that cannot be opened, exports that do not fit
    #[arg(long, conflicts_with_all = ["listen", "stdin", "capture"])]
    pub(crate) check: bool,

    /// Write what the device's scheduler sees as a trace, in the format that the suffix stands for (.parquet, .csv, ...)
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<String>,

    /// Do not say what is served
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir top disks.toml\n  ioweir top unix:/run/ioweir.control --once\n\nOn a terminal it draws \
in place until it is interrupted; elsewhere it writes one table behind the other."
)]
pub(crate) struct TopArguments {
    /// The server: its spec file, or its control socket as unix:PATH
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    /// Print how things stand now, and end
    #[arg(long)]
    pub(crate) once: bool,

    /// Time between two looks; rates are of the last whole second in any case
    #[arg(long, value_name = "SPAN", default_value = "1s", conflicts_with = "once")]
    pub(crate) interval: String,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  ioweir show night.toml\n  ioweir show hdd > my-disk.toml")]
pub(crate) struct ShowArguments {
    /// A comparison, experiment, server or device file, or the name of a device preset
    #[arg(value_name = "SPEC")]
    pub(crate) spec: String,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ioweir completions bash > ~/.local/share/bash-completion/completions/ioweir")]
pub(crate) struct CompletionsArguments {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}
