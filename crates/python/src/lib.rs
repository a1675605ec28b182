//! The native half of the Python package `ioweir`.
//!
//! The rule of this crate: no logic. A spec comes in as text, path or dict and goes through the parser that the command line
//! uses; a run happens without the interpreter's lock; a document comes out, with its tables as Arrow. The Python half
//! (`python/ioweir`) has what is easier to write there: plots, conversions, executors of sweeps.

mod arrow;
mod elevator;
mod order;
mod result;
mod spec;
mod sweep;
mod trace;
mod verbs;
mod watch;

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    ioweir,
    InputError,
    PyValueError,
    "A spec, a trace or a policy is wrong: what, where, and what was expected."
);
create_exception!(ioweir, RunError, PyRuntimeError, "Something failed while running.");

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::elevator::{Queue, Request, Wait, register_elevator};
    #[pymodule_export]
    use crate::order::register_order;
    #[pymodule_export]
    use crate::result::{Requests, Result, Table};
    #[pymodule_export]
    use crate::sweep::{SweepCells, SweepFolder, SweepPlan, merge_sweep, sweep_status};
    #[pymodule_export]
    use crate::trace::{Trace, TraceWriter, read, write_csv};
    #[pymodule_export]
    use crate::verbs::{advise, calibrate, compare, explain, forecast, main, plan, qos, scorecard, simulate, validate};
    #[pymodule_export]
    use crate::{InputError, RunError};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let origin = ioweir::origin("");
        module.add("__version__", origin.version)?;
        module.add("__commit__", origin.commit)
    }
}
