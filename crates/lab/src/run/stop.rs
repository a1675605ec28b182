//! Arrivals that end with an error once whoever watches a run wants it stopped.

use ioweir_core::Nanos;
use ioweir_trace::Record;

use super::Progress;
use crate::sim::{Arrivals, Failure, Sites};

/// Turns of the event loop between two questions: some milliseconds at most.
const TURNS: u32 = 1 << 12;

/// The arrivals of a run that can be stopped.
pub(super) struct Stoppable<'a, A> {
    arrivals: &'a mut A,
    progress: &'a dyn Progress,
    turns: u32,
}

impl<'a, A> Stoppable<'a, A> {
    pub(super) fn new(arrivals: &'a mut A, progress: &'a dyn Progress) -> Self {
        Self { arrivals, progress, turns: 0 }
    }
}

impl<S, A: Arrivals<S>> Arrivals<S> for Stoppable<'_, A> {
    #[inline(always)]
    fn next_time(&mut self, now: Nanos, held: usize) -> Result<Option<Nanos>, Failure> {
        self.turns += 1;
        if self.turns == TURNS {
            self.turns = 0;
            if self.progress.is_stopped() {
                return Err(Failure::Stopped);
            }
        }
        self.arrivals.next_time(now, held)
    }

    #[inline(always)]
    fn act(&mut self, now: Nanos, sites: &mut dyn Sites<S>) -> Result<(), Failure> {
        self.arrivals.act(now, sites)
    }

    #[inline(always)]
    fn next(&mut self, now: Nanos, held: usize) -> Result<Option<(Nanos, Record)>, Failure> {
        self.arrivals.next(now, held)
    }

    #[inline(always)]
    fn completed(&mut self, stream: u32, now: Nanos) {
        self.arrivals.completed(stream, now);
    }

    #[inline(always)]
    fn refused(&mut self, stream: u32, retry: Nanos, now: Nanos) {
        self.arrivals.refused(stream, retry, now);
    }

    #[inline(always)]
    fn foreground(&mut self, device: usize, has_any: bool, now: Nanos) {
        self.arrivals.foreground(device, has_any, now);
    }
}
