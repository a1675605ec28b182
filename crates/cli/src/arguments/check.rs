//! Arguments of `check`.

use clap::Args;

use super::OutputArguments;

const CHECK_EXAMPLES: &str = "\
Examples:
  ioweir check --minutes 2
  ioweir check --seed 4711
  ioweir check --seed 4711 --log

Each seed is a server with its device, clients and operators in virtual time: sockets that break, disks that fail, clocks that
jump, power cuts. The same seed is the same world. A broken promise ends it: the seed and the shortest schedule that still
breaks it are printed. Exits with 1 then.";

#[derive(Args, Debug)]
#[command(after_help = CHECK_EXAMPLES)]
pub(crate) struct CheckArguments {
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

    /// Break a promise on purpose: lost-writes, lying-flushes, hidden-failure, other-limit, other-weights, other-reservations,
    /// stopped-clock, other-period, heard-copies, shown-export, unwiped-volume, lost-volume, swallowed-reads,
    /// forgotten-answer, second-answer
    #[arg(long, value_name = "NAME", conflicts_with_all = ["minutes", "hours", "worlds"])]
    pub(crate) canary: Option<String>,

    /// Print what happens in the world of the seed, line by line, instead of a summary
    #[arg(long, conflicts_with_all = ["minutes", "hours", "worlds"])]
    pub(crate) log: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
