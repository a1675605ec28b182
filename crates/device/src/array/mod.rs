//! Arrays of equal drives: concatenated, mirrored, striped, or striped with parity.
//!
//! A request becomes one extent on each drive that holds a part of it, and ends with the last of them. A drive serves what it
//! is given one after another, as any device here. A write of less than a row of a parity array reads what the new parity
//! depends on, then writes: the old data and parity of what changes, or the rest of the row if that is on fewer drives. Its
//! drives are taken from the start of these reads to the end of the writes.
//!
//! Not modelled: a cache of the array's controller, a failed drive, merging of the writes of several requests to one row.
//! Discards cost no update of parity.

mod layout;
mod spec;
#[cfg(test)]
mod tests;

use std::ops::Range;

use ioweir_core::{Dispatch, Nanos, Operation};

use super::{Device, FlashCounts, Model, Service};
use crate::CommandOrder;
use ioweir_config::Complaint;
use layout::{Parts, Striping};
pub use spec::{ArrayLayout, ArraySpec};

/// An array.
struct Array {
    layout: ArrayLayout,
    striping: Striping,
    members: Vec<Member>,
    member_sectors: u64,
    sectors: u64,
}

/// A drive of the array, and the state of its queue.
struct Member {
    device: Box<dyn Device>,
    /// When the drive has done all requests so far.
    free_nanos: u64,
    /// The latest time of a request to the drive.
    asked_nanos: u64,
}

impl Member {
    /// Serves a range of its sectors; the parts of the service count from `now_nanos`.
    fn serve(&mut self, now_nanos: u64, part: &Range<u64>, dispatch: &Dispatch) -> Service {
        self.asked_nanos = self.asked_nanos.max(now_nanos);
        let sectors = u32::try_from(part.end - part.start).unwrap_or(u32::MAX);
        let part = Dispatch { sector: part.start, sectors, ..*dispatch };
        let service = self.device.serve(Nanos(self.asked_nanos), &part);
        self.free_nanos = self.free_nanos.max(service.finish.0);
        service.counted_from(Nanos(now_nanos))
    }
}

impl Model for ArraySpec {
    fn check(&self) -> Result<(), Complaint> {
        self.checked_member().map(drop)
    }

    fn rotates(&self) -> bool {
        self.member.spec("").is_ok_and(|member| member.rotates())
    }

    fn queue_depth(&self) -> u32 {
        let own = self.member.spec("").map_or(1, |member| member.queue_depth());
        own.saturating_mul(self.members)
    }

    fn serves_at_once(&self) -> u32 {
        let own = self.member.spec("").map_or(1, |member| member.serves_at_once());
        own.saturating_mul(self.members)
    }

    fn switched_on(&self) -> Vec<String> {
        self.member
            .spec("")
            .map(|member| member.with_command_order(CommandOrder::Fifo).switched_on())
            .unwrap_or_default()
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Device>, Complaint> {
        let spec = self.checked_member()?.with_command_order(CommandOrder::Fifo);
        let build = |number: u64| {
            let device =
                spec.build_model(seed.wrapping_add(number)).map_err(|complaint| complaint.within("array.member"))?;
            Ok(Member { device, free_nanos: 0, asked_nanos: 0 })
        };
        let members: Vec<_> = (0..u64::from(self.members)).map(build).collect::<Result<_, _>>()?;
        let striping = Striping::new(self.chunk_sectors(), u64::from(self.members), self.layout == ArrayLayout::Parity);
        let whole = members.first().map_or(0, |member| member.device.sectors());
        let (member_sectors, copies) = match self.layout {
            ArrayLayout::Concat => (whole, u64::from(self.members)),
            ArrayLayout::Mirror => (whole, 1),
            ArrayLayout::Stripe | ArrayLayout::Parity => (striping.whole_chunks(whole), striping.data_members()),
        };
        if member_sectors == 0 {
            return super::check::fail("array.chunk", "is larger than a member", "give a smaller one");
        }
        let sectors = member_sectors.saturating_mul(copies);
        Ok(Box::new(Array { layout: self.layout, striping, members, member_sectors, sectors }))
    }
}

impl Array {
    /// The member that reads first: the one that is free first, then the one whose head is nearest.
    fn nearest(&self, now: Nanos, dispatch: &Dispatch) -> usize {
        let cost = |member: &Member| {
            (member.free_nanos.max(now.0), member.device.positioning_nanos(now, dispatch), member.asked_nanos)
        };
        let costs = self.members.iter().map(cost).enumerate();
        costs.min_by_key(|&(_, cost)| cost).map_or(0, |(number, _)| number)
    }

    /// Serves parts of members; the service is that of the last to finish.
    fn serve_parts(&mut self, now_nanos: u64, parts: &Parts, dispatch: &Dispatch) -> Service {
        let mut last = Service { finish: Nanos(now_nanos), ..Service::default() };
        for (number, part) in parts {
            let service = self.members[*number].serve(now_nanos, part, dispatch);
            if service.finish >= last.finish {
                last = service;
            }
        }
        last
    }

    /// Writes to a parity array: the reads that the new parity needs, then the writes of data and parity.
    fn update(&mut self, now_nanos: u64, first: u64, end: u64, dispatch: &Dispatch) -> Service {
        let update = self.striping.update(first, end);
        let reads = self.serve_parts(now_nanos, &update.reads, &Dispatch { operation: Operation::Read, ..*dispatch });
        let writes = self.serve_parts(reads.finish.0, &update.writes, dispatch);
        Service {
            overhead_nanos: reads.overhead_nanos + writes.overhead_nanos,
            seek_nanos: reads.seek_nanos + writes.seek_nanos,
            rotation_nanos: reads.rotation_nanos + writes.rotation_nanos,
            transfer_nanos: reads.transfer_nanos + writes.transfer_nanos,
            queue_nanos: reads.queue_nanos + writes.queue_nanos,
            ..writes
        }
    }

    /// The sectors that each member reads or writes for a dispatch, except for updates of parity.
    fn parts(&self, now: Nanos, first: u64, end: u64, dispatch: &Dispatch) -> Parts {
        let all = |range: Range<u64>| (0..self.members.len()).map(|number| (number, range.clone())).collect();
        match self.layout {
            _ if first == end => all(0..0),
            ArrayLayout::Mirror if dispatch.operation == Operation::Read => {
                vec![(self.nearest(now, dispatch), first..end)]
            }
            ArrayLayout::Mirror => all(first..end),
            ArrayLayout::Concat => {
                let numbers = first / self.member_sectors..=(end - 1) / self.member_sectors;
                let part = |number: u64| {
                    let begin = number * self.member_sectors;
                    let range = first.max(begin) - begin..end.min(begin + self.member_sectors) - begin;
                    (usize::try_from(number).unwrap_or(usize::MAX), range)
                };
                numbers.map(part).collect()
            }
            ArrayLayout::Stripe | ArrayLayout::Parity => self.striping.parts(first, end),
        }
    }
}

impl Device for Array {
    fn serve(&mut self, now: Nanos, dispatch: &Dispatch) -> Service {
        let end = dispatch.sector.saturating_add(u64::from(dispatch.sectors)).min(self.sectors);
        let first = dispatch.sector.min(end);
        let service = if self.layout == ArrayLayout::Parity && dispatch.operation == Operation::Write && first < end {
            self.update(now.0, first, end, dispatch)
        } else {
            let parts = self.parts(now, first, end, dispatch);
            self.serve_parts(now.0, &parts, dispatch)
        };
        // An array has no head whose way could be counted.
        Service { track: 0, movements: 0, movement_tracks: 0, movement_squares: 0, ..service }
    }

    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn flash(&self) -> Option<FlashCounts> {
        self.members
            .iter()
            .map(|member| member.device.flash())
            .try_fold(FlashCounts::default(), |sum, counts| Some(sum.plus(counts?)))
    }
}
