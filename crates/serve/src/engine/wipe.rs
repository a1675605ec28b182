//! Wiping: the server makes a range that no export shows read as zeroes, durably, before it places a new volume there.
//!
//! The pieces of a wipe go to the backend past the scheduler. Requests of services that overlap a piece wait until it has ended.

use std::ops::Range;
use std::sync::mpsc::Sender;

use super::{Engine, Stopping};
use crate::nbd::NbdError;

/// The longest piece: as much as a request of a client may have.
const PIECE_BYTES: u64 = 1 << 30;

/// A range that is being wiped.
#[derive(Debug)]
pub(super) struct Wipe {
    left: Range<u64>,
    is_under_way: bool,
    /// Gets the result of the wipe.
    answer: Sender<Result<(), String>>,
}

impl Engine {
    /// Wipes a range after those before it.
    pub(super) fn wipe(&mut self, range: Range<u64>, answer: Sender<Result<(), String>>) {
        self.wipes.push_back(Wipe { left: range, is_under_way: false, answer });
    }

    /// Begins the next piece, unless one is under way or the device pauses.
    pub(super) fn tend_wipes(&mut self) {
        while let Some(wipe) = self.wipes.front_mut() {
            if wipe.is_under_way || self.pause.is_some() {
                return;
            }
            let refusal = if self.stopping == Stopping::No { None } else { Some("the server ends".to_string()) };
            if wipe.left.is_empty() || refusal.is_some() {
                // A caller that has left needs no answer.
                let _ = wipe.answer.send(refusal.map_or(Ok(()), Err));
                self.wipes.pop_front();
                continue;
            }
            wipe.is_under_way = true;
            let piece = wipe.left.start..wipe.left.end.min(wipe.left.start + PIECE_BYTES);
            wipe.left.start = piece.end;
            self.dispatcher.wipe(self.now, piece, self.sessions.pool());
        }
    }

    /// Takes the result of a piece.
    pub(super) fn wiped(&mut self, result: Result<(), NbdError>) {
        let Some(wipe) = self.wipes.front_mut() else { return };
        wipe.is_under_way = false;
        if let Err(error) = result {
            let what = format!("its range cannot be made to read as zeroes: {}", error.name());
            // A caller that has left needs no answer.
            let _ = wipe.answer.send(Err(what));
            self.wipes.pop_front();
        }
    }
}
