//! The yardstick: weighted fair queueing as one would write it with the standard library.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ioweir_core::{Nanos, Request, Tag};

use super::{Queue, request};

struct Client {
    weight: u64,
    finish: u64,
    queue: VecDeque<Request>,
}

/// The smallest virtual finish goes first. No limits, no tags, no cancelling, nothing that knows what the device holds.
pub(crate) struct HeapWfq {
    clients: Vec<Client>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    clock: u64,
}

impl HeapWfq {
    pub(crate) fn new(clients: u32, weight: fn(u32) -> u32) -> Self {
        let client = |client| Client { weight: u64::from(weight(client)), finish: 0, queue: VecDeque::new() };
        Self { clients: (0..clients).map(client).collect(), heap: BinaryHeap::new(), clock: 0 }
    }

    fn push(&mut self, client: u32) {
        let of = &mut self.clients[client as usize];
        of.finish = of.finish.max(self.clock) + (1 << 30) / of.weight;
        self.heap.push(Reverse((of.finish, client)));
    }
}

impl Queue for HeapWfq {
    fn add(&mut self, _now: Nanos, client: u32) {
        let queue = &mut self.clients[client as usize].queue;
        queue.push_back(request(client));
        if queue.len() == 1 {
            self.push(client);
        }
    }

    fn pull(&mut self, _now: Nanos) -> (u32, Option<Tag>) {
        let Reverse((finish, client)) = self.heap.pop().expect("all ask");
        self.clock = finish;
        let queue = &mut self.clients[client as usize].queue;
        std::hint::black_box(queue.pop_front());
        if !queue.is_empty() {
            self.push(client);
        }
        (client, None)
    }

    fn finish(&mut self, _now: Nanos, _tag: Option<Tag>) {}
}
