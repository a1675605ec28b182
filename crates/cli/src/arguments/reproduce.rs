//! The arguments of `reproduce`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ioweir_lab::compare::Goal;

use super::WidthArguments;

/// Reads a goal; help lists them all.
fn goals() -> impl TypedValueParser<Value = Goal> {
    PossibleValuesParser::new(Goal::ALL.map(Goal::name)).try_map(|name| name.parse::<Goal>())
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir reproduce bid --quick\n  ioweir reproduce bid --json claims.json --export out"
)]
pub(crate) struct ReproduceArguments {
    /// Paper
    #[arg(value_enum)]
    pub(crate) paper: Paper,

    /// Run only what the claims need: one load, no sensitivity tables
    #[arg(long)]
    pub(crate) quick: bool,

    /// Folder with the traces of the six Hadoop jobs [default: those of traces/hadoop, or generated traffic where that is
    /// absent]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) traces: Option<String>,

    /// Time that claims of `bid` compare: busy (the device's working time), completion, mean, read-p99 [default: busy]
    #[arg(long, value_name = "GOAL", value_parser = goals())]
    pub(crate) goal: Option<Goal>,

    /// SYSTOR '17 trace for `background`, instead of the generated series; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Vec<PathBuf>,

    /// Write the claims as JSON to a file; `-` writes to standard output instead of the table
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<String>,

    /// Write the page with all tables and figures into a folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) export: Option<String>,

    /// No progress bar
    #[arg(long)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) width: WidthArguments,
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
    /// All of them, one after another
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
