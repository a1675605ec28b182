//! What was the scheduler told and asked, and what did it answer? For whoever captures or checks it.

use ioweir_core::{CancelError, Nanos, Refused, Request, Step, Tag};

/// A call of the scheduler, with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A request, and its tag where it was taken.
    Submit(Request, Result<Tag, Refused>),
    /// A question what to do.
    Poll(Step),
    /// A unit that has finished.
    Complete(Tag),
    /// A request that was taken back, or why it was not.
    Cancel(Tag, Result<Request, CancelError>),
}

/// Sees every call, in order. The same calls of a scheduler that was built the same way give the same answers.
pub trait Observer: Send {
    /// This was called at this time.
    fn called(&mut self, now: Nanos, call: &Call);
}
