//! Arguments of `trace`.

use clap::{Args, Subcommand};
use ioweir_lab::spec::ReadingKeys;

use super::OutputArguments;
use crate::flags::KeyFlags;

#[derive(Args, Debug)]
pub(crate) struct TraceArguments {
    #[command(subcommand)]
    pub(crate) verb: TraceVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceVerb {
    /// Summarise a trace: requests, bytes, time, streams
    Info(InfoArguments),
    /// Write a trace in another format
    Convert(ConvertArguments),
    /// Write part of a trace: an interval, some streams, a range of addresses
    Cut(CutArguments),
    /// Generate the traffic of a job from a seeded mix
    Generate(GenerateArguments),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  ioweir trace info grep.blktrace\n  ioweir trace info web.csv.gz --json -")]
pub(crate) struct InfoArguments {
    /// Trace files; the per-processor files of one blktrace capture count as one trace
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,

    #[command(flatten)]
    pub(crate) reading: KeyFlags<ReadingKeys>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Args, Debug)]
#[command(
    override_usage = "ioweir trace convert [OPTIONS] <IN>... <OUT>",
    after_help = "Examples:\n  ioweir trace convert grep.blktrace grep.parquet\n  ioweir trace convert web.csv.gz web.fio --as fio-iolog --volume hm_0\n  ioweir trace convert a.blktrace b.blktrace both.parquet --merge clocks\n  ioweir trace convert grep.blktrace long.parquet --repeat 1h"
)]
pub(crate) struct ConvertArguments {
    /// Files of one trace, then the file to write
    #[arg(value_names = ["IN", "OUT"], num_args = 2.., required = true)]
    pub(crate) files: Vec<String>,

    /// Format to write [default: by the suffix of OUT]
    #[arg(long = "as", value_name = "FORMAT")]
    pub(crate) format_to: Option<String>,

    #[command(flatten)]
    pub(crate) together: TogetherArguments,

    #[command(flatten)]
    pub(crate) reading: KeyFlags<ReadingKeys>,
}

#[derive(Args, Debug)]
#[command(
    override_usage = "ioweir trace cut [OPTIONS] <IN>... <OUT>",
    after_help = "Examples:\n  ioweir trace cut grep.blktrace start.parquet --to 10s\n  ioweir trace cut web.csv.gz busy.parquet --from 1h --to 1h10m --volume hm_0\n  ioweir trace cut sort.csv.zst readers.csv --streams 'DataXceiver for'\n  ioweir trace cut grep.blktrace part.parquet --by volume"
)]
pub(crate) struct CutArguments {
    /// Files of one trace, then the file to write
    #[arg(value_names = ["IN", "OUT"], num_args = 2.., required = true)]
    pub(crate) files: Vec<String>,

    /// Only requests at or after this time since the first, or this date: 2026-03-02T10:00+01:00 (without an offset UTC)
    #[arg(long, value_name = "TIME", help_heading = "Which part")]
    pub(crate) from: Option<String>,

    /// Only requests before this time since the first, or this date
    #[arg(long, value_name = "TIME", help_heading = "Which part")]
    pub(crate) to: Option<String>,

    /// Only requests of these streams, separated by commas: full names, or the commands in them
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', help_heading = "Which part")]
    pub(crate) streams: Vec<String>,

    /// Only requests that start at or after this byte; flushes are kept
    #[arg(long, value_name = "SIZE", help_heading = "Which part")]
    pub(crate) offset_from: Option<String>,

    /// Only requests that start before this byte; flushes are kept
    #[arg(long, value_name = "SIZE", help_heading = "Which part")]
    pub(crate) offset_to: Option<String>,

    /// Scale arrival times after the cut: x2 is twice as fast, x0.5 half as fast
    #[arg(long, value_name = "FACTOR", help_heading = "Which part")]
    pub(crate) scale: Option<String>,

    /// Format to write [default: by the suffix of OUT]
    #[arg(long = "as", value_name = "FORMAT")]
    pub(crate) format_to: Option<String>,

    /// Write a file for each stream or each volume, with its name before the suffix of OUT
    #[arg(long, value_name = "WHAT", value_parser = ["stream", "volume"])]
    pub(crate) by: Option<String>,

    #[command(flatten)]
    pub(crate) together: TogetherArguments,

    #[command(flatten)]
    pub(crate) reading: KeyFlags<ReadingKeys>,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir trace generate terasort terasort.parquet\n  ioweir trace generate grep wide.csv --requests 100000 --streams 40 --seed 7"
)]
pub(crate) struct GenerateArguments {
    /// Mix to generate; `ioweir doc mix` lists them
    pub(crate) mix: String,

    /// File to write
    pub(crate) out: String,

    /// Number of requests [default: that of the capture behind the mix]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,

    /// Streams that read at once [default: the mix's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=65536))]
    pub(crate) streams: Option<u32>,

    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Format to write [default: by the suffix of OUT]
    #[arg(long = "as", value_name = "FORMAT")]
    pub(crate) format_to: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct TogetherArguments {
    /// Take several traces as one, in the order of time: all begin together, or their wall clocks agree
    #[arg(long, value_name = "HOW", value_parser = ["starts", "clocks"], help_heading = "Several traces, or one several times")]
    pub(crate) merge: Option<String>,

    /// Add these times to those of the merged traces, in their order
    #[arg(
        long,
        value_name = "TIME,...",
        value_delimiter = ',',
        requires = "merge",
        help_heading = "Several traces, or one several times"
    )]
    pub(crate) offset: Vec<String>,

    /// Tell streams and volumes of different traces apart that have the same name
    #[arg(long, requires = "merge", help_heading = "Several traces, or one several times")]
    pub(crate) keep_apart: bool,

    /// Repeat the trace so many times, or until it lasts that long
    #[arg(long, value_name = "N|TIME", help_heading = "Several traces, or one several times")]
    pub(crate) repeat: Option<String>,
}
