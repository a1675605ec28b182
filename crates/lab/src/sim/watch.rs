//! The observer of one device of a machine.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ioweir_core::policy::Policy;
use ioweir_core::{Dispatch, Nanos, Tag};
use ioweir_device::Service;
use ioweir_trace::Record;

use super::{Observer, Waits};

/// The observer of one device: follows its requests, and hands on what happens with the numbers of the machine.
pub(super) struct Watch<'o, O> {
    pub(super) waits: Waits,
    device: usize,
    observer: &'o RefCell<&'o mut O>,
    /// The machine's number of each of the device's requests that has not completed, from `first` on.
    numbers: BTreeMap<u64, u64>,
    /// The machine's number of the request that arrives next.
    pub(super) arriving: u64,
}

impl<'o, O: Observer<Policy>> Watch<'o, O> {
    pub(super) fn new(waits: Waits, device: usize, observer: &'o RefCell<&'o mut O>) -> Self {
        Self { waits, device, observer, numbers: BTreeMap::new(), arriving: 0 }
    }

    fn tell(&self, event: impl FnOnce(&mut O)) {
        if O::WATCHES {
            let mut observer = self.observer.borrow_mut();
            observer.device(self.device);
            event(&mut observer);
        }
    }

    fn number(&self, of_device: u64) -> u64 {
        self.numbers.get(&of_device).copied().unwrap_or(of_device)
    }
}

impl<O: Observer<Policy>> Observer<Policy> for Watch<'_, O> {
    fn arrived(&mut self, number: u64, record: &Record, arrival: Nanos) {
        self.waits.arrived(number, record, arrival);
        if O::WATCHES {
            self.numbers.insert(number, self.arriving);
        }
    }

    fn submitted(&mut self, number: u64, tag: Tag, sector: u64, sectors: u32) {
        self.waits.submitted(number, tag, sector, sectors);
        self.tell(|observer| observer.submitted(self.number(number), tag, sector, sectors));
    }

    fn dispatched(&mut self, now: Nanos, dispatch: &Dispatch, members: &[Tag]) {
        self.waits.dispatched(now, dispatch, members);
        self.tell(|observer| observer.dispatched(now, dispatch, members));
    }

    fn started(&mut self, now: Nanos, dispatch: &Dispatch, service: &Service) {
        self.waits.started(now, dispatch, service);
        self.tell(|observer| observer.started(now, dispatch, service));
    }

    fn completed(&mut self, now: Nanos, dispatch: &Dispatch) {
        self.waits.completed(now, dispatch);
        self.tell(|observer| observer.completed(now, dispatch));
    }

    fn refused(&mut self, number: u64, sectors: u32, last: bool, now: Nanos) {
        self.waits.refused(number, sectors, last, now);
        self.tell(|observer| observer.refused(self.number(number), sectors, last, now));
    }

    fn finished(&mut self, number: u64, now: Nanos) {
        self.waits.finished(number, now);
        self.numbers.remove(&number);
    }

    fn settled(&mut self, now: Nanos, scheduler: &Policy) {
        self.waits.settled(now, scheduler);
        self.tell(|observer| observer.settled(now, scheduler));
    }
}
