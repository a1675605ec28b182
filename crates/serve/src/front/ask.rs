//! Questions of other threads to the thread that accepts clients: about its listening sockets, and about clients that negotiate.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use ioweir_core::Nanos;

use super::caller::Caller;
use super::listen::Listener;
use super::{Front, SERVES, Stopper};
use crate::log::{EventKind, Peer};
use crate::spec::Identity;

/// Questions that are not answered yet; `None` once the thread has ended.
pub(super) type Questions = Arc<Mutex<Option<Vec<Question>>>>;

/// A question, with where the answer goes. Who asked and has left gets none.
#[derive(Debug)]
pub(super) enum Question {
    Sockets(Sender<Offer>),
    Callers(Sender<Vec<CallerAccount>>),
    Kick(u64, Sender<Option<CallerAccount>>),
}

/// Listening sockets for another process, by name. While the offer exists, no client is accepted.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) names: Vec<String>,
    pub(crate) sockets: Vec<OwnedFd>,
    /// A message says that they were sent to the process of this number, and its end without one that they were not.
    pub(crate) sent: Sender<u32>,
}

/// A client that still negotiates.
#[derive(Clone, Debug)]
pub(crate) struct CallerAccount {
    pub(crate) number: u64,
    pub(crate) peer: Peer,
    pub(crate) identity: Identity,
    /// When it came.
    pub(crate) since: Nanos,
}

impl CallerAccount {
    fn new(caller: &Caller) -> Self {
        let Caller { number, peer, ref identity, began, .. } = *caller;
        Self { number, peer, identity: identity.clone(), since: began }
    }
}

impl Stopper {
    fn ask<T>(&self, question: impl FnOnce(Sender<T>) -> Question) -> Receiver<T> {
        let (sender, answer) = channel();
        if let Some(asked) = self.asked.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            asked.push(question(sender));
        }
        self.wake();
        answer
    }

    /// Asks for the listening sockets, to hand them over.
    pub(crate) fn ask_for_sockets(&self) -> Receiver<Offer> {
        self.ask(Question::Sockets)
    }

    /// Asks which clients still negotiate.
    pub(crate) fn ask_for_callers(&self) -> Receiver<Vec<CallerAccount>> {
        self.ask(Question::Callers)
    }

    /// Asks for the end of a client, if it still negotiates.
    pub(crate) fn ask_to_kick(&self, number: u64) -> Receiver<Option<CallerAccount>> {
        self.ask(|sender| Question::Kick(number, sender))
    }
}

impl Front {
    /// Answers what was asked.
    pub(super) fn answer_questions(&mut self) {
        let asked = self.stopper.asked.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(std::mem::take);
        for question in asked.into_iter().flatten() {
            match question {
                Question::Sockets(asker) => self.offer_sockets(&asker),
                Question::Callers(asker) => {
                    let callers = self.callers.iter().map(|(_, caller)| CallerAccount::new(caller));
                    let _ = asker.send(callers.collect());
                }
                Question::Kick(number, asker) => {
                    let _ = asker.send(self.kick(number));
                }
            }
        }
    }

    fn kick(&mut self, number: u64) -> Option<CallerAccount> {
        let slot = self.callers.iter().find(|(_, caller)| caller.number == number)?.0;
        let account = CallerAccount::new(&self.callers.remove(slot)?);
        self.report(EventKind::ClientKicked, Some(account.peer), "ended by `ioweir ctl kick` while it negotiated");
        Some(account)
    }

    /// Offers the listening sockets to the thread that asks, and accepts no client until that thread has sent them or given up. The sending
    /// takes no time, because no step of it waits for the other process.
    fn offer_sockets(&mut self, asker: &Sender<Offer>) {
        let sockets: io::Result<Vec<OwnedFd>> = self.listeners.iter().map(Listener::duplicate).collect();
        let Some(sockets) = sockets.ok().filter(|_| self.successor.is_none() && self.within() == SERVES) else {
            return;
        };
        let names = self.listeners.iter().map(|listener| listener.name().to_string()).collect();
        let (sent, hear) = channel();
        // A caller that has left takes no sockets, and drops `sent` with the offer.
        let _ = asker.send(Offer { names, sockets, sent });
        if let Ok(process) = hear.recv() {
            self.successor = Some(process);
            self.stopper.stop();
        }
    }
}
