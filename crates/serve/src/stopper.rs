//! Ending a server from another thread.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use ioweir_core::Nanos;

use crate::log::Peer;
use crate::spec::{Identity, Listen, Server};

/// Ends a server from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    /// The time within which the server has to end, in nanoseconds, or one of the values below.
    pub(crate) within: Arc<AtomicU64>,
    pub(crate) wake: Arc<OwnedFd>,
    pub(crate) asked: Questions,
}

/// The server is not to end.
pub(crate) const SERVES: u64 = u64::MAX;
/// The server is to end once all requests are answered.
pub(crate) const ONCE_ANSWERED: u64 = u64::MAX - 1;
/// The server is to end within the `shutdown_timeout` of its spec.
pub(crate) const AS_IN_SPEC: u64 = 0;

impl Stopper {
    /// Lets the server answer the requests in flight, within the `shutdown_timeout` of its spec, and then end.
    pub fn stop(&self) {
        self.shorten(AS_IN_SPEC);
    }

    /// Ends the server as [`Stopper::stop`] does, within another time or without a limit; `stop` and shorter limits still have an effect.
    pub fn drain(&self, limit: Option<Nanos>) {
        self.shorten(limit.map_or(ONCE_ANSWERED, |limit| limit.0.clamp(AS_IN_SPEC + 1, ONCE_ANSWERED)));
    }

    fn shorten(&self, within: u64) {
        self.within.fetch_min(within, Ordering::Relaxed);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        // A full counter wakes the front, too.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}

/// Questions that are not answered yet; `None` once the thread has ended.
pub(crate) type Questions = Arc<Mutex<Option<Vec<Question>>>>;

/// A question, with the sender for its answer. A caller that has left gets none.
#[derive(Debug)]
pub(crate) enum Question {
    /// For the listening sockets, to hand them over.
    Sockets(Sender<Offer>),
    /// Which clients still negotiate.
    Callers(Sender<Vec<CallerAccount>>),
    /// For the end of a client, if it still negotiates.
    Kick(u64, Sender<Option<CallerAccount>>),
    /// To make a socket for the virtual machines of an export, which wait there until it is open.
    Bind(Box<MachineSocket>, Sender<Result<(), String>>),
    /// To accept the virtual machines of an export.
    Open(usize, Sender<()>),
    /// To remove the socket of an export.
    Close(usize, Sender<()>),
}

/// A socket for the virtual machines of an export.
#[derive(Clone, Debug)]
pub(crate) struct MachineSocket {
    pub(crate) export: usize,
    pub(crate) place: Listen,
    /// The spec's keys about sockets.
    pub(crate) server: Server,
}

/// Listening sockets for another process, by name. While the offer exists, no client is accepted.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) names: Vec<String>,
    pub(crate) sockets: Vec<OwnedFd>,
    /// A message means that the sockets were sent to the process of this number; the end of the channel without one, that they were not.
    pub(crate) sent: Sender<u32>,
}

/// A client that still negotiates.
#[derive(Clone, Debug)]
pub(crate) struct CallerAccount {
    pub(crate) number: u64,
    pub(crate) peer: Peer,
    pub(crate) identity: Identity,
    /// When the client connected.
    pub(crate) since: Nanos,
}

impl Stopper {
    /// Asks the thread that accepts clients a question.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(Sender<T>) -> Question) -> Receiver<T> {
        let (sender, answer) = channel();
        if let Some(asked) = self.asked.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            asked.push(question(sender));
        }
        self.wake();
        answer
    }
}
