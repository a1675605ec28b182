//! `ioweir demo`: the comparison of the README, on a trace that is part of the program.

use std::fs;

use ioweir_lab::compare::{Comparison, document};
use ioweir_lab::sim::Load;

use crate::arguments::DemoArguments;
use crate::engine;
use crate::failure::Failure;
use crate::output::{self, Outputs};

/// A TeraSort job on Hadoop: the file traces/hadoop/hdd-emul/terasort.insert.csv.zst of the repository.
const TRACE: &[u8] = include_bytes!("../assets/terasort.insert.csv.zst");

/// Compares the default schedulers on the trace, and says what to type to do the same with another.
pub(crate) fn act(arguments: &DemoArguments) -> Result<(), Failure> {
    let outputs = Outputs::new(&arguments.output, &[], &[])?;
    let unwritable = |error| Failure::Running(format!("a temporary file: {error}"));
    let folder = tempfile::tempdir().map_err(unwritable)?;
    let file = folder.path().join("terasort.insert.csv.zst");
    fs::write(&file, TRACE).map_err(unwritable)?;
    let comparison = Comparison {
        traces: vec![file.display().to_string()],
        loads: vec![Load::Closed { outstanding: 32 }],
        ..Comparison::default()
    };
    let plan = comparison.plan()?;
    let report = engine::watched(false, |progress| plan.run(&engine::origin("ioweir demo"), progress, None))?;
    outputs.write(&document(&report, None)?)?;
    output::notice("with a trace of your own: ioweir compare TRACE --load closed:32 --export report.html");
    Ok(())
}
