//! How do shares change while requests are queued: on several devices at once, or on none?
//!
//! An engine that is told of a change makes it at once, says whether it could, and then holds still until it hears whether
//! everybody else could: only then is it true. The wait is that of the slowest engine's turn. Where somebody could not, the
//! scheduler is put back as it was before, requests and all.

use std::sync::mpsc::{Receiver, Sender};

use ioweir_core::Nanos;
use ioweir_core::tenant::{Share, ShareError};

use super::{Call, Engine};
use crate::spec::Holder;

/// What is to be different on a device.
#[derive(Debug)]
pub struct Change {
    /// Who is entitled to what from now on, to be configured in this order.
    pub shares: Vec<(Holder, Share)>,
    /// As in [`super::Settings`].
    pub stall_timeout: Nanos,
    /// As in [`super::Settings`].
    pub shutdown_timeout: Nanos,
    /// Where to say whether it can be done.
    pub prepared: Sender<Result<(), Refusal>>,
    /// A message: so be it. None, and none can come any more: let it be as before.
    pub verdict: Receiver<()>,
}

/// Why a change cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whose share cannot be had.
    pub holder: Holder,
    /// Why.
    pub error: ShareError,
}

impl Engine {
    pub(super) fn change(&mut self, change: Change) {
        // Until now everybody has waited for what was true until now.
        self.books.look_at_all(self.now, &self.scheduler);
        let before = (!change.shares.is_empty()).then(|| self.scheduler.clone());
        let made = self.entitle(&change.shares);
        let is_made = made.is_ok();
        // Who does not listen gives no verdict either.
        let _ = change.prepared.send(made);
        if is_made && change.verdict.recv().is_ok() {
            self.settings.stall_timeout = change.stall_timeout;
            self.settings.shutdown_timeout = change.shutdown_timeout;
            // Who owes something is looked at by the new rule.
            self.stall_check = self.now;
            for (holder, share) in change.shares {
                self.called(&Call::Configure(holder, share));
            }
        } else if let Some(before) = before {
            self.scheduler = before;
        }
    }

    /// Gives shares, one after the other, as far as they can be had.
    pub(super) fn entitle(&mut self, shares: &[(Holder, Share)]) -> Result<(), Refusal> {
        // Who has no shares is told of none.
        let Some(control) = self.scheduler.tenants_mut() else { return Ok(()) };
        shares.iter().try_for_each(|&(holder, share)| {
            holder.configure(control, self.now, share).map_err(|error| Refusal { holder, error })
        })
    }
}
