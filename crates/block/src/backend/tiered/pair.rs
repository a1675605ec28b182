//! Two devices as tiers: starts and collects the operations of both, and moves data between buffers.

use std::io;
use std::os::fd::BorrowedFd;

use ioweir_core::{Nanos, Tier};

use super::super::parts::BLOCK_BYTES;
use super::super::{Action, Backend, Done, Io, Remark, UpstreamStatus};
use super::TierStatus;
use crate::slots::Slots;

/// Two devices with their operations in flight.
pub(super) struct Pair {
    pub(super) slow: Box<dyn Backend>,
    pub(super) fast: Box<dyn Backend>,
    /// The owner of each operation, by its number on the devices.
    flights: Slots<Flight>,
    done: Vec<Done>,
    /// The traffic so far.
    traffic: TierStatus,
}

/// The owner of an operation of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    /// The owner and the part, both numbers that the owner chooses.
    pub(super) owner: u32,
    pub(super) part: u32,
    pub(super) tier: Tier,
}

impl Pair {
    pub(super) fn new(slow: Box<dyn Backend>, fast: Box<dyn Backend>) -> Self {
        Self { slow, fast, flights: Slots::default(), done: Vec::new(), traffic: <_>::default() }
    }

    /// Starts an operation of a device, under a number of the pair.
    pub(super) fn start(&mut self, now: Nanos, flight: Flight, io: Io) {
        let id = self.flights.insert(flight);
        let io = Io { id, ..io };
        let traffic = &mut self.traffic;
        match (flight.tier, io.action) {
            (Tier::Base, Action::Read) => traffic.slow_read_bytes += io.length,
            (Tier::Base, Action::Write) => traffic.slow_written_bytes += io.length,
            (Tier::Fast, Action::Read) => traffic.fast_read_bytes += io.length,
            (Tier::Fast, Action::Write) => traffic.fast_written_bytes += io.length,
            _ => {}
        }
        match flight.tier {
            Tier::Base => self.slow.start(now, io),
            Tier::Fast => self.fast.start(now, io),
        }
    }

    /// The bytes held and served by the tiers, where the fast one has `slots` for blocks, of which `used` are used.
    pub(super) const fn status(&self, slots: u64, used: u64) -> TierStatus {
        TierStatus { held_bytes: used * BLOCK_BYTES, room_bytes: slots * BLOCK_BYTES, ..self.traffic }
    }

    pub(super) fn submit(&mut self) -> io::Result<()> {
        self.slow.submit()?;
        self.fast.submit()
    }

    /// The completed operations, by device, the slow one first.
    pub(super) fn collect(&mut self, now: Nanos) -> io::Result<Vec<(Flight, Done)>> {
        self.slow.collect(now, &mut self.done)?;
        self.fast.collect(now, &mut self.done)?;
        let flights = &mut self.flights;
        Ok(self.done.drain(..).filter_map(|done| Some((flights.remove(done.id)?, done))).collect())
    }

    /// Checks that the slow tier can become longer, which a short last block prevents, because it would become another block.
    pub(super) fn check_growth(&self) -> Result<(), String> {
        let bytes = self.slow.size_bytes();
        if bytes.is_multiple_of(BLOCK_BYTES) {
            return Ok(());
        }
        Err(format!(
            "its slow tier has {bytes} bytes: its last block is shorter than {BLOCK_BYTES} and may lie on the fast one"
        ))
    }

    pub(super) fn due(&self) -> Nanos {
        self.slow.due().min(self.fast.due())
    }

    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut descriptors = self.slow.descriptors();
        descriptors.extend(self.fast.descriptors());
        descriptors
    }

    pub(super) fn upstream(&self) -> Option<UpstreamStatus> {
        UpstreamStatus::of_all([self.slow.upstream(), self.fast.upstream()])
    }

    pub(super) fn finish(&mut self) {
        self.slow.finish();
        self.fast.finish();
    }

    /// The messages of both tiers.
    pub(super) fn remarks(&mut self) -> Vec<Remark> {
        let tiers = [("slow", &mut self.slow), ("fast", &mut self.fast)];
        let of_tier = |(name, tier): (&str, &mut Box<dyn Backend>)| {
            let remarks = tier.remarks().into_iter();
            remarks.map(|(kind, what)| (kind, format!("{name} tier: {what}"))).collect::<Vec<_>>()
        };
        tiers.into_iter().flat_map(of_tier).collect()
    }

    pub(super) fn describe(&self) -> String {
        format!("slow: {}; fast: {}", self.slow.describe(), self.fast.describe())
    }
}
