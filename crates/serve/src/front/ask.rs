//! Answers to the questions of other threads: about the listening sockets, and about clients that negotiate.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use std::sync::mpsc::{Sender, channel};

use rustix::event::epoll::EventFlags;

use super::Front;
use super::caller::Caller;
use super::listen::Listener;
use crate::log::EventKind;
use crate::stopper::{CallerAccount, MachineSocket, Offer, Question, SERVES};

fn account_of(caller: &Caller) -> CallerAccount {
    let Caller { number, peer, ref identity, began, .. } = *caller;
    CallerAccount { number, peer, identity: identity.clone(), since: began }
}

impl Front {
    /// Answers the pending questions.
    pub(super) fn answer_questions(&mut self) {
        let asked = self.stopper.asked.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(std::mem::take);
        for question in asked.into_iter().flatten() {
            match question {
                Question::Sockets(asker) => self.offer_sockets(&asker),
                Question::Callers(asker) => {
                    let callers = self.callers.iter().map(|(_, caller)| account_of(caller));
                    let _ = asker.send(callers.collect());
                }
                Question::Kick(number, asker) => {
                    let _ = asker.send(self.kick(number));
                }
                Question::Bind(socket, asker) => {
                    let _ = asker.send(self.bind(&socket));
                }
                Question::Open(export, asker) => {
                    if let Some(slot) = self.slot_of(export) {
                        self.watch_listener(slot, EventFlags::IN);
                    }
                    let _ = asker.send(());
                }
                Question::Close(export, asker) => {
                    // Dropping it removes its file.
                    drop(self.slot_of(export).and_then(|slot| self.listeners.remove(slot)));
                    let _ = asker.send(());
                }
            }
        }
    }

    /// Makes a socket for the virtual machines of an export, and accepts none of them yet.
    fn bind(&mut self, socket: &MachineSocket) -> Result<(), String> {
        let MachineSocket { export, place, server } = socket;
        let listener = Listener::bind_for_clients(place, server)?.of_export(*export);
        self.listen(listener, EventFlags::empty()).map_err(|error| format!("{place}: cannot listen: {error}"))
    }

    /// The slot of the socket of an export.
    fn slot_of(&self, export: usize) -> Option<u32> {
        self.listeners.iter().find(|(_, listener)| listener.export == Some(export)).map(|(slot, _)| slot)
    }

    fn kick(&mut self, number: u64) -> Option<CallerAccount> {
        let slot = self.callers.iter().find(|(_, caller)| caller.number == number)?.0;
        let account = account_of(&self.callers.remove(slot)?);
        self.report(EventKind::ClientKicked, Some(account.peer), "ended by `ioweir ctl kick` while it negotiated");
        Some(account)
    }

    /// Offers the listening sockets to the thread that asks, and accepts no client until that thread has sent them or given up. The sending
    /// takes no time, because no step of it waits for the other process.
    fn offer_sockets(&mut self, asker: &Sender<Offer>) {
        let sockets: io::Result<Vec<OwnedFd>> =
            self.listeners.iter().map(|(_, listener)| listener.duplicate()).collect();
        let Some(sockets) = sockets.ok().filter(|_| self.successor.is_none() && self.within() == SERVES) else {
            return;
        };
        let names = self.listeners.iter().map(|(_, listener)| listener.name().to_string()).collect();
        let (sent, hear) = channel();
        // A caller that has left takes no sockets, and drops `sent` with the offer.
        let _ = asker.send(Offer { names, sockets, sent });
        if let Ok(process) = hear.recv() {
            self.successor = Some(process);
            self.stopper.stop();
        }
    }
}
