//! `estimator=service`: a request is charged at dispatch, by its client's mean service time at the price of the queue.
//!
//! The order is that of [`sfq`](super::super::wfq): the clock is the start of the last request by weight. Charging at dispatch keeps one
//! client from filling a deep device before its first charge.

use alloc::boxed::Box;
use alloc::vec;

use super::Client;
use super::charge::Charges;
use super::prices::Prices;
use crate::Nanos;
use crate::tenant::{Fair, Moment, Service};

/// A client's requests in flight that were charged before any cost of it was known, and their charge.
#[derive(Clone, Copy, Debug)]
struct Guesses {
    count: u32,
    nanos: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Priced {
    service: Service,
    moment: Moment,
    prices: Prices,
    guesses: Box<[Guesses]>,
}

impl Priced {
    pub(super) fn new(nodes: u32, slots: u32) -> Self {
        Self {
            service: Service::new(slots),
            moment: Moment::NEW,
            prices: Prices::NEW,
            guesses: vec![Guesses { count: 0, nanos: 0 }; nodes as usize].into_boxed_slice(),
        }
    }

    pub(super) fn forget(&mut self, node: u32) {
        self.guesses[node as usize] = Guesses { count: 0, nanos: 0 };
    }

    #[inline(always)]
    pub(super) fn begun(&mut self, now: Nanos, slot: u32) {
        self.service.dispatched(now, slot);
    }

    /// The cost of a request: its service time at the price of its queue.
    #[inline(always)]
    pub(super) fn cost(&mut self, now: Nanos, slot: u32, begun: Nanos) -> Nanos {
        let service = self.moment.divide(now, self.service.completed(now, slot));
        Nanos(self.prices.charge(now.since(begun).0, service.0))
    }

    /// The charge at dispatch: by the client's mean cost so far.
    #[inline(always)]
    pub(super) fn charge(&mut self, charges: &mut Charges, node: u32, mean: Option<u64>) -> u64 {
        match mean {
            Some(mean) => charges.charge(mean),
            None => self.guess(node, charges.mean()),
        }
    }

    /// Charges a guess for one of a client's first requests, until one has completed.
    #[cold]
    fn guess(&mut self, node: u32, guess: u64) -> u64 {
        let of = &mut self.guesses[node as usize];
        of.count += 1;
        of.nanos += guess;
        guess
    }

    /// A request in flight that was charged by a guess is no longer; returns the guess.
    #[cold]
    fn take_guess(&mut self, node: u32) -> u64 {
        let of = &mut self.guesses[node as usize];
        let guess = of.nanos / u64::from(of.count.max(1));
        of.count -= 1;
        of.nanos -= guess;
        guess
    }

    /// A request has completed, which changed the client's mean cost.
    #[inline(always)]
    pub(super) fn completed(&mut self, tags: &mut Fair, charges: &mut Charges, node: u32, mean: u64) {
        if self.guesses[node as usize].count > 0 {
            self.settle(tags, charges, node, mean);
        }
    }

    /// Charges a client the mean cost of its requests instead of a guess. Otherwise the first request of each client would be
    /// all but free, since at the start nothing is known to guess from.
    #[cold]
    fn settle(&mut self, tags: &mut Fair, charges: &mut Charges, node: u32, mean: u64) {
        let (guess, charge) = (self.take_guess(node), charges.charge(mean));
        let too_much = tags.span_of_nanos(node, guess).wrapping_sub(tags.span_of_nanos(node, charge));
        tags.refund(node, too_much);
    }

    /// A request was taken back from the device.
    pub(super) fn refund(&mut self, node: u32, client: Client) {
        if self.guesses[node as usize].count > client.in_flight {
            self.take_guess(node);
        }
    }
}
