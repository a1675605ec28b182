//! What was the scheduler told and asked, and what did it answer? For whoever captures or checks it.

use ioweir_core::tenant::Share;
use ioweir_core::{CancelError, Nanos, Refused, Request, Step, Tag};

use crate::spec::Holder;

/// A call of the scheduler, with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A request, and its tag where it was taken.
    Submit(Request, Result<Tag, Refused>),
    /// A question what to do.
    Poll(Step),
    /// Somebody is entitled to something else from now on.
    Configure(Holder, Share),
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
