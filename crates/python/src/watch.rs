//! Runs without the interpreter's lock, while the calling thread hears Ctrl-C and reports progress.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use ioweir_lab::run::Progress;
use pyo3::prelude::*;
use rayon::{ThreadBuilder, ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

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

/// The threads that runs share. Each is one of the interpreter's for as long as it lives: a thread that becomes one for each
/// call of a policy spends ten times as much on that as on the call.
fn pool() -> Result<&'static ThreadPool, &'static ThreadPoolBuildError> {
    static POOL: OnceLock<Result<ThreadPool, ThreadPoolBuildError>> = OnceLock::new();
    let build = || {
        let spawn = |thread: ThreadBuilder| {
            let run = move || Python::attach(|py| py.detach(|| thread.run()));
            thread::Builder::new().name("ioweir-run".into()).spawn(run).map(drop)
        };
        ThreadPoolBuilder::new().spawn_handler(spawn).build()
    };
    POOL.get_or_init(build).as_ref()
}

/// Runs `act` on a thread of its own. `progress` is called with the runs that are done, all runs, and the requests so far.
/// An exception of a signal or of `progress` stops the run and is raised; what does not stop soon ends by itself, unheard.
pub(crate) fn watched<T: Send + 'static, E: Into<PyErr> + Send + 'static>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    act: impl FnOnce(&dyn Progress) -> Result<T, E> + Send + 'static,
) -> PyResult<T> {
    let watch = Arc::new(Watch::default());
    let (ended, ending) = channel();
    let watched = Arc::clone(&watch);
    let worker = thread::Builder::new().name("ioweir".into()).spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(|| match pool() {
            Ok(pool) => pool.install(|| act(&*watched).map_err(Into::into)),
            Err(error) => Err(RunError::new_err(format!("threads cannot be started: {error}"))),
        }));
        // The receiver is gone if the caller was interrupted.
        let _ = ended.send(result);
    });
    worker.map_err(|error| RunError::new_err(format!("a thread cannot be started: {error}")))?;
    let seen = Arc::clone(&watch);
    let result = py.detach(move || {
        loop {
            match ending.recv_timeout(TICK) {
                Ok(result) => return result.map_err(raised)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(error) => return Err(RunError::new_err(error.to_string())),
            }
            if let Err(error) = Python::attach(|py| tick(py, &seen, progress)) {
                seen.is_stopped.store(true, Ordering::Relaxed);
                // Either it has stopped, or it runs on.
                let _ = ending.recv_timeout(TICK);
                return Err(error);
            }
        }
    })?;
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
