//! What can be typed? The one definition of verbs and flags: help, errors and completions come from it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Version and commit.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("IOWEIR_COMMIT"), ")");

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 something failed while running, 2 usage or bad input, 3 an expectation \
was not met.\nData goes to standard output, everything else to standard error.";

/// Compares storage I/O schedulers on real traces and modelled devices.
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
    /// Explain policies, devices, formats, loads, reasons, exit codes
    Doc(DocArguments),
    /// Print a comparison, an experiment, a server's spec or a device with every default filled in, as TOML
    Show(ShowArguments),
    /// Print the completion script of a shell
    Completions(CompletionsArguments),
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  ioweir compare grep.blktrace.0 --scheduler noop,cfq,bid-hdd
  ioweir compare capture.fio --device hdd --load recorded,x10,closed:32 --export report.html
  ioweir compare web.csv.gz --volume hm_0 --scheduler bid-hdd,bid-hdd:wait=2ms --json -
  ioweir compare --spec night.toml --seed 7";

/// Every flag but the outputs overrides the same key of `--spec`.
#[derive(Args, Debug)]
#[command(after_help = COMPARE_EXAMPLES)]
pub(crate) struct CompareArguments {
    /// Trace files; the per-processor files of one blktrace capture count as one trace. mix:NAME is generated traffic
    #[arg(value_name = "TRACE", required_unless_present = "spec")]
    pub(crate) traces: Vec<String>,

    /// Comparison file (TOML) to start from; `ioweir show FILE` prints it with every default
    #[arg(long, value_name = "FILE", help_heading = "What is compared")]
    pub(crate) spec: Option<PathBuf>,

    /// Device: a preset (`ioweir doc device` lists them) or a TOML file [default: hdd]
    #[arg(long, value_name = "NAME|FILE", help_heading = "What is compared")]
    pub(crate) device: Option<String>,

    /// Faster device for schedulers that place data on one, as bid-hybrid does [default: ssd-slc]
    #[arg(long, value_name = "NAME|FILE", help_heading = "What is compared")]
    pub(crate) fast_device: Option<String>,

    /// Schedulers, separated by commas, parameters behind colons: bid-hdd:wait=2ms [default: noop,deadline,cfq,bid-hdd]
    #[arg(
        long,
        value_name = "NAME[:PARAMETER=VALUE...],...",
        value_delimiter = ',',
        help_heading = "What is compared"
    )]
    pub(crate) scheduler: Vec<String>,

    /// Loads, separated by commas: recorded (times as traced), x10 (ten times as fast), closed:32 (32 requests outstanding
    /// a stream) [default: recorded]
    #[arg(long, value_name = "LOAD,...", value_delimiter = ',', help_heading = "What is compared")]
    pub(crate) load: Vec<String>,

    #[command(flatten)]
    pub(crate) reading: ReadingArguments,

    /// Requests that the queue holds in each direction, as Linux's nr_requests [default: 128]
    #[arg(long, value_name = "N", help_heading = "The queue")]
    pub(crate) queue_requests: Option<u32>,

    /// Largest request after merging, with unit, as Linux's max_sectors_kb: 512k, 1MiB [default: 512KiB]
    #[arg(long, value_name = "SIZE", help_heading = "The queue")]
    pub(crate) request_bytes_max: Option<String>,

    /// Do not merge adjacent requests
    #[arg(long, help_heading = "The queue")]
    pub(crate) no_merge: bool,

    /// Requests that the device holds at once [default: 1]
    #[arg(long, value_name = "N", help_heading = "The queue")]
    pub(crate) depth: Option<u32>,

    /// Seed of everything random: where the platters stand at the start [default: 0]
    #[arg(long, value_name = "N", help_heading = "The queue")]
    pub(crate) seed: Option<u64>,

    /// Scheduler that completion times are relative to [default: the first]
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub(crate) reference: Option<String>,

    /// Write JSON to a file; `-` is standard output, in place of the table
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    pub(crate) json: Option<String>,

    /// Write the report to a file, as its suffix says: .json, .csv, .md or .html; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) export: Vec<String>,

    /// No progress bar
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir simulate examples/noisy-neighbour.toml\n  ioweir simulate sweep.toml --out runs --export report.html\n\nExit code 3 where an expectation of the file is not met."
)]
pub(crate) struct SimulateArguments {
    /// Experiment file (TOML); `ioweir doc simulate` lists its keys, `ioweir show FILE` prints it with every default
    #[arg(value_name = "SPEC")]
    pub(crate) spec: String,

    /// Schedulers in place of the file's, separated by commas, parameters behind colons
    #[arg(long, value_name = "NAME[:PARAMETER=VALUE...],...", value_delimiter = ',', help_heading = "What is run")]
    pub(crate) scheduler: Vec<String>,

    /// Seeds in place of the file's, separated by commas
    #[arg(long, value_name = "N,...", value_delimiter = ',', help_heading = "What is run")]
    pub(crate) seed: Vec<u64>,

    /// Keep each finished run in this folder, and take from it what is there: an interrupted sweep goes on
    #[arg(long, alias = "resume", value_name = "FOLDER", help_heading = "What is run")]
    pub(crate) out: Option<String>,

    /// Write JSON to a file; `-` is standard output, in place of the tables
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    pub(crate) json: Option<String>,

    /// Write the report to a file, as its suffix says: .json, .csv, .md or .html; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) export: Vec<String>,

    /// No progress bar
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir explain examples/noisy-neighbour.toml --slowest database\n  ioweir explain examples/figure-2.toml --request 1200 --scheduler wfq"
)]
pub(crate) struct ExplainArguments {
    /// Experiment file (TOML)
    #[arg(value_name = "SPEC")]
    pub(crate) spec: String,

    /// The request with this number, from 0 in the order of arrival
    #[arg(long, value_name = "N", conflicts_with = "slowest")]
    pub(crate) request: Option<u64>,

    /// The slowest request of this class, after the warm-up [default: of all]
    #[arg(long, value_name = "CLASS")]
    pub(crate) slowest: Option<String>,

    /// Scheduler, in place of the file's first
    #[arg(long, value_name = "NAME[:PARAMETER=VALUE...]")]
    pub(crate) scheduler: Option<String>,

    /// Seed, in place of the file's first
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

/// How rates are read, for every verb that takes series.
#[derive(Args, Debug)]
pub(crate) struct SeriesArguments {
    /// Tables of rates (CSV with a column of times, packed or not) that follow one another, a block trace, or vdi:SEED
    #[arg(value_name = "SERIES", required = true)]
    pub(crate) series: Vec<String>,

    /// Columns to read, by name; may be repeated [default: all that hold numbers]
    #[arg(long, value_name = "NAME", help_heading = "Reading series")]
    pub(crate) column: Vec<String>,

    /// Length of a bin, with unit; it must divide a day [default: the table's own step; 10m for traces]
    #[arg(long, value_name = "TIME", help_heading = "Reading series")]
    pub(crate) bin: Option<String>,

    /// What a value says: mean (a level or a rate), sum (how many since the value before), counter (how many since the
    /// beginning)
    #[arg(long, value_name = "KIND", value_parser = ["mean", "sum", "counter"], default_value = "mean", help_heading = "Reading series")]
    pub(crate) kind: String,

    /// Add up rows of different labels (drives, hosts) to one series
    #[arg(long, help_heading = "Reading series")]
    pub(crate) total: bool,

    /// Local time less UTC, such as +01:00 or -5: days begin at local midnight [default: the table's clock]
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true, help_heading = "Reading series")]
    pub(crate) utc_offset: Option<String>,

    /// A day that behaves like another day of the week: 2026-12-25=sunday; may be repeated
    #[arg(long, value_name = "DATE=WEEKDAY", help_heading = "Reading series")]
    pub(crate) holiday: Vec<String>,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir forecast array.csv.gz --bin 10m --column 'write IOPS'\n  ioweir forecast array.csv --holiday 2026-12-25=sunday --quantile 0.5,0.95,0.99 --json -\n  ioweir forecast array.csv --backtest 14 --method hedge,paper-tuned,naive-week"
)]
pub(crate) struct ForecastArguments {
    #[command(flatten)]
    pub(crate) reading: SeriesArguments,

    /// Forecasters, separated by commas, settings behind colons: paper:trend=0.8 [default: hedge]
    #[arg(long, value_name = "NAME[:SETTING=VALUE...],...", value_delimiter = ',', help_heading = "Forecasting")]
    pub(crate) method: Vec<String>,

    /// How far ahead, with unit
    #[arg(long, value_name = "TIME", default_value = "1d", help_heading = "Forecasting")]
    pub(crate) horizon: String,

    /// Quantiles, separated by commas
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', default_values_t = [0.5, 0.95, 0.99], help_heading = "Forecasting")]
    pub(crate) quantile: Vec<f64>,

    /// Forecast each of the last DAYS days at its midnight, and score it with what came
    #[arg(long, value_name = "DAYS", help_heading = "Forecasting")]
    pub(crate) backtest: Option<usize>,

    /// Write the series as they were binned, as CSV
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    pub(crate) binned: Option<String>,

    /// Write JSON to a file; `-` is standard output, in place of the table
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    pub(crate) json: Option<String>,
}

/// How traces are read.
#[derive(Args, Debug)]
pub(crate) struct ReadingArguments {
    /// Trace format; recognised from the content where absent (`ioweir doc format` lists them)
    #[arg(long, value_name = "NAME", help_heading = "Reading traces")]
    pub(crate) format: Option<String>,

    /// Replay only this address space (disk, volume, file) of a trace that holds several
    #[arg(long, value_name = "NAME", help_heading = "Reading traces")]
    pub(crate) volume: Option<String>,

    /// Which event counts as a request, where a trace holds several: queue (as asked), insert (as the traced scheduler
    /// got it), issue (as the device got it) [default: queue]
    #[arg(long, value_name = "KIND", value_parser = ["queue", "insert", "issue"], help_heading = "Reading traces")]
    pub(crate) event: Option<String>,

    /// Skip and count what cannot be read, instead of stopping at it
    #[arg(long, help_heading = "Reading traces")]
    pub(crate) lenient: bool,
}

#[derive(Args, Debug)]
pub(crate) struct TraceArguments {
    #[command(subcommand)]
    pub(crate) verb: TraceVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceVerb {
    /// Count what a trace holds: requests, bytes, time, streams
    Info(InfoArguments),
    /// Write a trace in another format
    Convert(ConvertArguments),
    /// Write a part of a trace: a time, some streams, a place
    Cut(CutArguments),
    /// Write the traffic of a job that nobody traced, from a seeded mix
    Generate(GenerateArguments),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir trace info grep.blktrace.0 grep.blktrace.1\n  ioweir trace info web.csv.gz --json -"
)]
pub(crate) struct InfoArguments {
    /// Trace files; the per-processor files of one blktrace capture count as one trace
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,

    #[command(flatten)]
    pub(crate) reading: ReadingArguments,

    /// Write JSON to a file; `-` is standard output, in place of the table. One object for one trace, else a list
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<String>,
}

#[derive(Args, Debug)]
#[command(
    override_usage = "ioweir trace convert [OPTIONS] <IN>... <OUT>",
    after_help = "Examples:\n  ioweir trace convert grep.blktrace.0 grep.blktrace.1 grep.parquet\n  ioweir trace convert web.csv.gz web.fio --to fio --volume hm_0"
)]
pub(crate) struct ConvertArguments {
    /// Files of one trace, and behind them the file to write
    #[arg(value_names = ["IN", "OUT"], num_args = 2.., required = true)]
    pub(crate) files: Vec<String>,

    /// Format to write [default: the one that the suffix of OUT stands for]
    #[arg(long, alias = "as", value_name = "FORMAT")]
    pub(crate) to: Option<String>,

    #[command(flatten)]
    pub(crate) reading: ReadingArguments,
}

#[derive(Args, Debug)]
#[command(
    override_usage = "ioweir trace cut [OPTIONS] <IN>... <OUT>",
    after_help = "Examples:\n  ioweir trace cut grep.blktrace.0 start.parquet --to 10s\n  ioweir trace cut web.csv.gz busy.parquet --from 1h --to 1h10m --volume hm_0\n  ioweir trace cut sort.csv.zst readers.csv --streams 'DataXceiver for' --scale x2"
)]
pub(crate) struct CutArguments {
    /// Files of one trace, and behind them the file to write
    #[arg(value_names = ["IN", "OUT"], num_args = 2.., required = true)]
    pub(crate) files: Vec<String>,

    /// Only requests from this time on, since the first
    #[arg(long, value_name = "TIME", help_heading = "Which part")]
    pub(crate) from: Option<String>,

    /// Only requests before this time, since the first
    #[arg(long, value_name = "TIME", help_heading = "Which part")]
    pub(crate) to: Option<String>,

    /// Only requests of these streams, separated by commas: whole names, or the commands in them
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', help_heading = "Which part")]
    pub(crate) streams: Vec<String>,

    /// Only requests that start at this byte or behind it; flushes stay
    #[arg(long, value_name = "SIZE", help_heading = "Which part")]
    pub(crate) offset_from: Option<String>,

    /// Only requests that start before this byte; flushes stay
    #[arg(long, value_name = "SIZE", help_heading = "Which part")]
    pub(crate) offset_to: Option<String>,

    /// Let time run faster, x2, or slower, x0.5, after the cut
    #[arg(long, value_name = "FACTOR", help_heading = "Which part")]
    pub(crate) scale: Option<String>,

    /// Format to write [default: the one that the suffix of OUT stands for]
    #[arg(long = "as", value_name = "FORMAT")]
    pub(crate) format_to: Option<String>,

    #[command(flatten)]
    pub(crate) reading: ReadingArguments,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir trace generate terasort terasort.parquet\n  ioweir trace generate grep wide.csv --requests 100000 --streams 40 --seed 7"
)]
pub(crate) struct GenerateArguments {
    /// Whose traffic: `ioweir doc mix` lists the mixes
    pub(crate) mix: String,

    /// File to write
    pub(crate) out: String,

    /// How many requests [default: as many as the capture that the mix was measured on]
    #[arg(long, value_name = "N")]
    pub(crate) requests: Option<u64>,

    /// Streams that read at once [default: as the mix has it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=65536))]
    pub(crate) streams: Option<u32>,

    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Format to write [default: the one that the suffix of OUT stands for]
    #[arg(long = "as", value_name = "FORMAT")]
    pub(crate) format_to: Option<String>,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir plan examples/vdi/load.csv --policy examples/vdi/policy.toml\n  ioweir plan week.csv --policy array.toml --replay next-week.csv --export plan.html\n  ioweir plan capture.parquet --policy array.toml --json -"
)]
pub(crate) struct PlanArguments {
    /// What the array had to do so far: a CSV of rates, a time and values a row, or a block trace, which is counted in bins.
    /// Several files follow one another in time
    #[arg(value_name = "SERIES", required = true)]
    pub(crate) series: Vec<String>,

    /// Policy file (TOML): pool, cores, services and their terms; examples/vdi/policy.toml is one
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: String,

    /// What came afterwards, in the same form: play the plan on it, made anew in each bin
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Vec<String>,

    /// Write JSON to a file; `-` is standard output, in place of the tables
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<String>,

    /// Write the page, with bands, work, free space and violations drawn, to a file
    #[arg(long, value_name = "FILE.html")]
    pub(crate) export: Option<String>,

    #[command(flatten)]
    pub(crate) reading: ReadingArguments,
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

    /// Folder with the traces of the six Hadoop jobs
    #[arg(long, value_name = "FOLDER", default_value = "traces/hadoop/hdd-emul")]
    pub(crate) traces: String,

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

/// A paper that can be reproduced.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Paper {
    /// Bulk I/O dispatch: figures 12 to 19 of Mishra and Somani
    Bid,
    /// Request scheduling in WAFL: table 2 and figures 4 to 8 of Zhou and others
    Wafl,
    /// Reward scheduling: table 2 and figures 2 and 3 of Elnably and others
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
#[command(after_help = "Example:\n  ioweir validate disksim-measured\n\nExit code 3 where a model misses its gate.")]
pub(crate) struct ValidateArguments {
    /// Folder with traces measured on disks, in DiskSim's validation form
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: String,

    /// Write JSON to a file; `-` is standard output, in place of the table
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<String>,
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
nbdcopy disk.img [ ioweir serve disks.toml --stdin ]"
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

    /// Do not say what is served
    #[arg(long)]
    pub(crate) quiet: bool,
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
