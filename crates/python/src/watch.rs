//! Runs without the interpreter's lock, while the calling thread hears Ctrl-C and reports progress.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use ioweir_lab::run::Progress;
use pyo3::prelude::*;

use crate::RunError;

/// How often signals are heard and progress is told.
const TICK: Duration = Duration::from_millis(50);

/// How far a run has come, and whether it is to end.
#[derive(Debug, Default)]
struct Watch {
    runs: AtomicUsize,
    finished: AtomicUsize,
    records: AtomicU64,
    is_stopped: AtomicBool,
}

impl Progress for Watch {
    fn started(&self, runs: usize) {
        self.runs.store(runs, Ordering::Relaxed);
    }

    fn read(&self, records: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
    }

    fn finished(&self, _scheduler: &str) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}

/// Runs `act` on a thread of its own. `progress` is called with the runs that are done, all runs, and the requests so far.
/// An exception of a signal or of `progress` stops the run and is raised.
pub(crate) fn watched<T: Send, E: Into<PyErr> + Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    act: impl FnOnce(&dyn Progress) -> Result<T, E> + Send,
) -> PyResult<T> {
    let watch = Watch::default();
    let (result, interrupted) = py.detach(|| {
        let watch = &watch;
        let (ended, ending) = channel();
        thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let result = catch_unwind(AssertUnwindSafe(|| act(watch)));
                // Nobody may listen any more.
                let _ = ended.send(());
                result
            });
            let mut interrupted = None;
            while let Err(RecvTimeoutError::Timeout) = ending.recv_timeout(TICK) {
                if interrupted.is_none() {
                    interrupted = Python::attach(|py| tick(py, watch, progress)).err();
                    watch.is_stopped.store(interrupted.is_some(), Ordering::Relaxed);
                }
            }
            (worker.join().and_then(|result| result), interrupted)
        })
    });
    if let Some(error) = interrupted {
        return Err(error);
    }
    let result = result.map_err(raised)?.map_err(Into::into)?;
    tick(py, &watch, progress)?;
    Ok(result)
}

fn tick(py: Python<'_>, watch: &Watch, progress: Option<&Py<PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    let Some(progress) = progress else { return Ok(()) };
    let finished = watch.finished.load(Ordering::Relaxed);
    let (runs, records) = (watch.runs.load(Ordering::Relaxed), watch.records.load(Ordering::Relaxed));
    progress.call1(py, (finished, runs, records)).map(drop)
}

/// Ends a run from inside a policy, with the exception that it raised.
pub(crate) fn raise(error: PyErr) -> ! {
    std::panic::resume_unwind(Box::new(error))
}

/// The exception that ended a run; a panic is one too.
fn raised(payload: Box<dyn std::any::Any + Send>) -> PyErr {
    match payload.downcast::<PyErr>() {
        Ok(error) => *error,
        Err(payload) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("unknown");
            RunError::new_err(format!("a defect of the program: {text}"))
        }
    }
}
