//! The flags of the program.

use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ioweir_world::Canary;

const EXAMPLES: &str = "\
Examples:
  cargo run -p ioweir-world -- --minutes 2
  cargo run -p ioweir-world -- --seed 4711
  cargo run -p ioweir-world -- --seed 4711 --log

Each seed is a server with its device, clients and operators in virtual time: sockets that break, disks that fail, clocks that
jump, power cuts. The same seed is the same world. A broken promise ends it: the seed and the shortest schedule that still
breaks it are printed. Exits with 1 then.";

/// Check what the server promises, in simulated worlds where everything fails
#[derive(Debug, Parser)]
#[command(name = "ioweir-world", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Seed of the first world; the next ones follow
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Number of worlds
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["minutes", "hours"])]
    pub(crate) worlds: u64,

    /// As many worlds as fit this time
    #[arg(long, value_name = "M")]
    pub(crate) minutes: Option<f64>,

    /// As many worlds as servers are up for so many hours together, in the time of the worlds
    #[arg(long, value_name = "H", conflicts_with = "minutes")]
    pub(crate) hours: Option<f64>,

    /// Threads, each with a world of its own [default: as many as processors]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<u32>,

    /// Break a promise on purpose
    #[arg(long, value_name = "NAME", value_parser = canary(), conflicts_with_all = ["minutes", "hours", "worlds"])]
    pub(crate) canary: Option<Canary>,

    /// Print what happens in the world of the seed, line by line, instead of a summary
    #[arg(long, conflicts_with_all = ["minutes", "hours", "worlds"])]
    pub(crate) log: bool,

    /// Write JSON to a file; `-` writes to standard output instead of the tables
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    pub(crate) json: Option<String>,

    /// Write the document to a file; the suffix selects the form: .html, .md, .csv, .json or .txt; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) export: Vec<String>,
}

/// Reads the name of a canary.
fn canary() -> impl TypedValueParser<Value = Canary> {
    let names = PossibleValuesParser::new(Canary::ALL.iter().map(|canary| canary.name()));
    names.map(|name| {
        let found = Canary::ALL.iter().find(|canary| canary.name() == name);
        *found.expect("only the names of canaries are possible")
    })
}
