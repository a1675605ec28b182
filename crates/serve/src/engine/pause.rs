//! A pause of a device for a snapshot: no operation is in flight, and every answered write is durable.
//!
//! Dispatches stop, operations in flight end, and a flush follows; then another thread has the device to itself until it reports that it is
//! done. Clients wait meanwhile, but never longer than the pause may take: after that the device continues, whatever has become of the
//! snapshot.

use std::sync::mpsc::Sender;

use ioweir_core::Nanos;

use super::{Engine, Stopping};

/// A pause that has begun.
#[derive(Debug)]
pub(super) struct Pause {
    /// Gets a message when the device is at rest, or why it cannot be; `None` after that.
    ready: Option<Sender<Result<(), String>>>,
    began: Nanos,
    until: Nanos,
    is_flushing: bool,
}

impl Engine {
    /// Begins a pause of at most this time.
    pub(super) fn pause(&mut self, span: Nanos, ready: Sender<Result<(), String>>) {
        let refusal = match (&self.pause, self.dispatcher.failure(), self.stopping) {
            (Some(_), ..) => Some("it pauses already"),
            (_, Some(_), _) => Some("it has failed"),
            (.., Stopping::Closing(_) | Stopping::Flushing | Stopping::Done) => Some("the server ends"),
            (None, None, Stopping::No) => None,
        };
        if let Some(problem) = refusal {
            // A caller that has left needs no answer, here and below.
            let _ = ready.send(Err(problem.into()));
            return;
        }
        let (began, until) = (self.now, self.now.after(span));
        self.pause = Some(Pause { ready: Some(ready), began, until, is_flushing: false });
    }

    /// Flushes once no operation is in flight, and ends the pause when its time is over.
    pub(super) fn tend_pause(&mut self) {
        let Some(pause) = &mut self.pause else { return };
        if self.now >= pause.until {
            if let Some(ready) = pause.ready.take() {
                let _ =
                    ready.send(Err("its operations have not ended in time: `pause_max` is too short for it".into()));
            }
            self.pause = None;
        } else if !pause.is_flushing && self.dispatcher.is_idle() {
            pause.is_flushing = true;
            self.dispatcher.flush_for_pause(self.now);
        }
    }

    /// The flush has ended.
    pub(super) fn flushed_for_pause(&mut self, is_done: bool) {
        let Some(pause) = &mut self.pause else { return };
        let Some(ready) = pause.ready.take() else { return };
        let result = if is_done { Ok(()) } else { Err("a flush has failed".into()) };
        if ready.send(result).is_err() || !is_done {
            self.pause = None;
        }
    }

    /// Ends the pause. Returns how long it took; `None` if it was over before.
    pub(super) fn resume(&mut self) -> Option<Nanos> {
        self.pause.take().map(|pause| self.now.since(pause.began))
    }

    /// When a pause ends by itself.
    pub(super) fn pause_due(&self) -> Nanos {
        self.pause.as_ref().map_or(Nanos::NEVER, |pause| pause.until)
    }
}
