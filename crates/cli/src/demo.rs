//! `ioweir demo`: the comparison of the README, on a trace that is part of the program.

use std::{env, fs, io};

use ioweir_core::Nanos;
use ioweir_lab::compare::{Comparison, Report, document};
use ioweir_lab::sim::Load;

use crate::arguments::DemoArguments;
use crate::engine;
use crate::failure::Failure;
use crate::output::{self, Outputs};

/// A TeraSort job on Hadoop: this file of the repository's traces/hadoop/hdd-emul.
const NAME: &str = "terasort.insert.csv.zst";
const TRACE: &[u8] = include_bytes!("../assets/terasort.insert.csv.zst");

/// Compares the default schedulers on the trace, and says what to type to do the same with another.
pub(crate) fn act(arguments: &DemoArguments) -> Result<(), Failure> {
    let outputs = Outputs::new(&arguments.output, &[], &[])?;
    outputs.write(&document(&compared()?, None)?)?;
    output::notice("with a trace of your own: ioweir compare TRACE --load closed:32 --export report.html");
    Ok(())
}

/// The comparison, run where the trace has no other name than its own: a report is the same wherever it is made.
fn compared() -> Result<Report, Failure> {
    let failed = |error: io::Error| Failure::Running(format!("a temporary folder: {error}"));
    let folder = tempfile::tempdir().map_err(failed)?;
    fs::write(folder.path().join(NAME), TRACE).map_err(failed)?;
    let before = env::current_dir().map_err(failed)?;
    env::set_current_dir(folder.path()).map_err(failed)?;
    let comparison = Comparison {
        traces: vec![NAME.into()],
        loads: vec![Load::Closed { outstanding: 32, pause: Nanos::ZERO }],
        ..Comparison::default()
    };
    let plan = comparison.plan()?;
    let report = engine::watched(false, |progress| plan.run(&engine::origin("ioweir demo"), progress, None));
    env::set_current_dir(before).map_err(failed)?;
    report
}
