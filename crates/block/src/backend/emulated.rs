//! An emulated disk: memory that answers when a modelled device would.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use ioweir_config::format_bytes;
use ioweir_core::{Dispatch, Nanos, SECTOR_BYTES};
use ioweir_device::{CommandOrder, CommandQueue, Device, DeviceSpec};

use super::memory::perform;
use super::store::Store;
use super::{Action, Backend, Done, Io};
use crate::slots::Slots;

/// An operation that the model has begun, ordered by the time when it will be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    finish: Nanos,
    sequence: u64,
    slot: u32,
}

/// Bytes in memory, served in the time of a model. The data moves when the model completes the operation.
pub struct Emulated {
    store: Store,
    model: Box<dyn Device>,
    name: String,
    flights: BinaryHeap<Reverse<Flight>>,
    /// Commands that the drive holds and has not begun, if it orders them itself.
    commands: Option<CommandQueue<u32>>,
    is_busy: bool,
    /// Operations that are not completed.
    operations: Slots<Io>,
    sequence: u64,
}

impl Emulated {
    /// Opens a model by the name of its preset or the path of its file.
    ///
    /// # Errors
    /// If there is no such model, or it is shorter than `size_bytes`.
    pub fn open(model: &str, size_bytes: Option<u64>, seed: u64) -> Result<Self, String> {
        let spec = DeviceSpec::load(model).map_err(|error| error.to_string())?;
        let device = spec.build(seed).map_err(|error| error.to_string())?;
        let capacity = device.sectors().saturating_mul(SECTOR_BYTES);
        let size = size_bytes.unwrap_or(capacity);
        if size > capacity {
            let (size, capacity) = (format_bytes(size), format_bytes(capacity));
            return Err(format!("size {size} is more than the {capacity} of model {model}"));
        }
        let order = device.command_order();
        Ok(Self {
            store: Store::new(size),
            model: device,
            name: model.into(),
            flights: BinaryHeap::new(),
            commands: (order != CommandOrder::Fifo).then(|| CommandQueue::new(order)),
            is_busy: false,
            operations: Slots::default(),
            sequence: 0,
        })
    }

    fn begin(&mut self, now: Nanos, dispatch: &Dispatch, slot: u32) {
        let finish = self.model.serve(now, dispatch).finish;
        self.fly(finish, slot);
    }

    fn fly(&mut self, finish: Nanos, slot: u32) {
        self.sequence += 1;
        self.flights.push(Reverse(Flight { finish, sequence: self.sequence, slot }));
    }

    /// Begins the next command of a drive that chooses the order; it serves one at a time.
    fn begin_chosen(&mut self, now: Nanos) {
        if self.is_busy {
            return;
        }
        let chosen = self.commands.as_mut().and_then(|commands| commands.pop(now, self.model.as_ref()));
        if let Some((dispatch, slot)) = chosen {
            self.is_busy = true;
            self.begin(now, &dispatch, slot);
        }
    }
}

impl Backend for Emulated {
    fn start(&mut self, now: Nanos, io: Io) {
        // Hints and queries take no time of the drive.
        let dispatch = io.dispatch.filter(|_| !matches!(io.action, Action::Cache | Action::Extents));
        let slot = self.operations.insert(Io { dispatch, ..io });
        match (dispatch, &mut self.commands) {
            (None, _) => self.fly(now, slot),
            (Some(dispatch), Some(commands)) => {
                commands.push(dispatch, slot);
                self.begin_chosen(now);
            }
            (Some(dispatch), None) => self.begin(now, &dispatch, slot),
        }
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        while let Some(&Reverse(flight)) = self.flights.peek()
            && flight.finish <= now
        {
            self.flights.pop();
            let Some(mut io) = self.operations.remove(flight.slot) else { continue };
            let result = perform(&mut self.store, &mut io);
            self.is_busy &= io.dispatch.is_none();
            done.push(Done::new(io.id, io.buffers, result));
            self.begin_chosen(now);
        }
        Ok(())
    }

    fn due(&self) -> Nanos {
        self.flights.peek().map_or(Nanos::NEVER, |flight| flight.0.finish)
    }

    fn size_bytes(&self) -> u64 {
        self.store.size_bytes()
    }

    fn writes_zeroes(&self, keep: bool) -> bool {
        keep
    }

    fn describe(&self) -> String {
        format!("emulated {}, {} in memory", self.name, format_bytes(self.store.size_bytes()))
    }
}
