//! Finds the request in a chain of descriptors: its head, the segments of its data, and the place of its status.
//!
//! A guest may write anything there at any time. Descriptors are read once, and everything is checked before it is used: every segment lies
//! in guest memory, and no chain is longer than its queue.

use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes as _, GuestAddress, GuestMemory as _, GuestMemoryMmap, Permissions};

use super::config::SECTOR_BYTES;
use crate::nbd::protocol::COMMAND_NO_HOLE;
use crate::nbd::{Command, Request};

/// The number of bytes of a descriptor.
const DESCRIPTOR_BYTES: u32 = 16;
/// The number of bytes before the data: type, priority and sector.
const HEAD_BYTES: usize = 16;
/// The number of bytes of the range of a discard, or of a write of zeroes.
const RANGE_BYTES: usize = 16;
/// The flag of a range that may be unmapped.
const RANGE_UNMAP: u32 = 1;

/// The types of requests of a virtio block device.
mod kind {
    pub(super) const IN: u32 = 0;
    pub(super) const OUT: u32 = 1;
    pub(super) const FLUSH: u32 = 4;
    pub(super) const GET_ID: u32 = 8;
    pub(super) const DISCARD: u32 = 11;
    pub(super) const WRITE_ZEROES: u32 = 13;
}

/// The reason why a chain is invalid. Such a chain has no place for an answer, so its client is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadChain {
    /// The head, or the next descriptor, is not in the table.
    #[error("a descriptor is not in its table")]
    Index,
    /// The chain loops, or is longer than its queue.
    #[error("a chain of descriptors loops, or is longer than its queue")]
    Length,
    /// A descriptor points outside of the memory.
    #[error("a descriptor points outside of the guest's memory")]
    Address,
    /// A descriptor has no bytes.
    #[error("a descriptor has no bytes")]
    Empty,
    /// A descriptor that the device reads comes after one that it writes.
    #[error("what is read comes after what is written")]
    Direction,
    /// An indirect table within another, before others, or with a part of a descriptor.
    #[error("an indirect table of descriptors is not one")]
    Indirect,
    /// The request has no place for the status, or not all of the head.
    #[error("a request has no head, or no place for its status")]
    Frame,
    /// The guest offers a request that it has offered already, or more than the queue holds.
    #[error("more requests are offered than the queue holds")]
    Offer,
    /// The monitor has taken memory away.
    #[error("memory that was shared was taken away")]
    Lost,
}

/// A piece of guest memory: its address and length.
pub type Segment = (GuestAddress, u32);

/// The command in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A request to the export, whose cookie the caller has to set.
    Of(Request),
    /// The name of the device.
    Name,
    /// A request whose range or length is invalid, so that nothing is done.
    Nothing,
}

/// A request in guest memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The command of the request.
    pub asked: Asked,
    /// The segments of the data, which the device reads for a write and writes for all other commands.
    pub data: Vec<Segment>,
    /// The address of the status byte.
    pub status: GuestAddress,
}

/// The table of a queue's descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// The address of the first descriptor.
    pub address: GuestAddress,
    /// The number of descriptors.
    pub size: u16,
}

/// Reads the chain that begins at `head`.
///
/// # Errors
/// The reason why the chain is invalid.
pub fn read_chain(memory: &GuestMemoryMmap, table: Table, head: u16) -> Result<Chain, BadChain> {
    let (mut readable, mut writable) = walk(memory, table, head)?;
    let first: [u8; HEAD_BYTES] = take_first(memory, &mut readable)?.ok_or(BadChain::Frame)?;
    let status = take_status(&mut writable).ok_or(BadChain::Frame)?;
    let [kind, _, low, high] = words(&first);
    let sector = u64::from(low) | u64::from(high) << 32;
    let with = |command, flags, sector: u64, length: u64, payload| {
        // An offset that saturates lies outside of every export.
        let offset = sector.saturating_mul(SECTOR_BYTES);
        Asked::Of(Request { command, flags, cookie: 0, offset, length, payload })
    };
    let of = |segments: &[Segment]| segments.iter().map(|&(_, length)| u64::from(length)).sum::<u64>();
    let (asked, data) = match kind {
        kind::IN | kind::OUT => {
            let (command, data) = if kind == kind::IN { (Command::Read, writable) } else { (Command::Write, readable) };
            let length = of(&data);
            if length.is_multiple_of(SECTOR_BYTES) {
                // The walk refuses chains longer than 4 GiB.
                (with(command, 0, sector, length, length as u32), data)
            } else {
                (Asked::Nothing, Vec::new())
            }
        }
        kind::FLUSH => (with(Command::Flush, 0, 0, 0, 0), Vec::new()),
        kind::GET_ID => (Asked::Name, writable),
        kind::DISCARD | kind::WRITE_ZEROES => {
            let range: Option<[u8; RANGE_BYTES]> = take_first(memory, &mut readable)?;
            // The configuration says that there is one range.
            (range.filter(|_| readable.is_empty()).map_or(Asked::Nothing, |range| of_range(kind, &range)), Vec::new())
        }
        _ => (with(Command::Unknown(u16::MAX), 0, 0, 0, 0), Vec::new()),
    };
    Ok(Chain { asked, data, status })
}

/// The command of a discard or a write of zeroes.
fn of_range(kind: u32, range: &[u8; RANGE_BYTES]) -> Asked {
    let [low, high, sectors, flags] = words(range);
    let offset = (u64::from(low) | u64::from(high) << 32).saturating_mul(SECTOR_BYTES);
    let unmaps = flags & RANGE_UNMAP != 0;
    let (command, is_known) = if kind == kind::DISCARD {
        (Command::Trim, flags == 0)
    } else {
        (Command::WriteZeroes, flags & !RANGE_UNMAP == 0)
    };
    let command = if is_known { command } else { Command::Unknown(u16::MAX) };
    let keeps = command == Command::WriteZeroes && !unmaps;
    let flags = if keeps { COMMAND_NO_HOLE } else { 0 };
    Asked::Of(Request { command, flags, cookie: 0, offset, length: u64::from(sectors) * SECTOR_BYTES, payload: 0 })
}

fn words(bytes: &[u8; 16]) -> [u32; 4] {
    let (words, _) = bytes.as_chunks::<4>();
    std::array::from_fn(|at| u32::from_le_bytes(words[at]))
}

/// The segments that the device reads, and the ones that it writes.
fn walk(memory: &GuestMemoryMmap, table: Table, head: u16) -> Result<(Vec<Segment>, Vec<Segment>), BadChain> {
    let (mut readable, mut writable) = (Vec::new(), Vec::new());
    let (mut address, mut size, mut index) = (table.address, u32::from(table.size), u32::from(head));
    let (mut is_indirect, mut total) = (false, 0_u32);
    for _ in 0..=table.size {
        if index >= size {
            return Err(BadChain::Index);
        }
        let place = address.0.checked_add(u64::from(index * DESCRIPTOR_BYTES)).ok_or(BadChain::Address)?;
        let descriptor: Descriptor = memory.read_obj(GuestAddress(place)).map_err(|_| BadChain::Address)?;
        let length = descriptor.len();
        if descriptor.refers_to_indirect_table() {
            let is_whole = length > 0 && length.is_multiple_of(DESCRIPTOR_BYTES);
            if is_indirect || descriptor.has_next() || !is_whole {
                return Err(BadChain::Indirect);
            }
            // Entries beyond the largest queue are ignored, because no chain is longer than its queue.
            (address, size, index) = (descriptor.addr(), (length / DESCRIPTOR_BYTES).min(1 << 16), 0);
            is_indirect = true;
            continue;
        }
        if readable.len() + writable.len() == usize::from(table.size) {
            return Err(BadChain::Length);
        }
        if length == 0 {
            return Err(BadChain::Empty);
        }
        total = total.checked_add(length).ok_or(BadChain::Length)?;
        let access = if descriptor.is_write_only() { Permissions::Write } else { Permissions::Read };
        if !memory.check_range(descriptor.addr(), length as usize, access) {
            return Err(BadChain::Address);
        }
        match descriptor.is_write_only() {
            true => writable.push((descriptor.addr(), length)),
            false if !writable.is_empty() => return Err(BadChain::Direction),
            false => readable.push((descriptor.addr(), length)),
        }
        if !descriptor.has_next() {
            return Ok((readable, writable));
        }
        index = u32::from(descriptor.next());
    }
    Err(BadChain::Length)
}

/// Takes the first bytes of the segments that the device reads; `None` if there are fewer.
fn take_first<const BYTES: usize>(
    memory: &GuestMemoryMmap,
    segments: &mut Vec<Segment>,
) -> Result<Option<[u8; BYTES]>, BadChain> {
    let mut bytes = [0; BYTES];
    let (mut filled, mut used) = (0, 0);
    for (address, length) in segments.iter_mut() {
        let taken = (*length as usize).min(BYTES - filled);
        memory.read_slice(&mut bytes[filled..filled + taken], *address).map_err(|_| BadChain::Address)?;
        filled += taken;
        if taken < *length as usize {
            // The sum lies within the memory, because the segment does.
            (*address, *length) = (GuestAddress(address.0 + taken as u64), *length - taken as u32);
            break;
        }
        used += 1;
    }
    segments.drain(..used);
    Ok((filled == BYTES).then_some(bytes))
}

/// Takes the last byte of the segments that the device writes, which is the place of the status.
fn take_status(segments: &mut Vec<Segment>) -> Option<GuestAddress> {
    let (address, length) = segments.last_mut()?;
    *length -= 1;
    let status = GuestAddress(address.0 + u64::from(*length));
    segments.pop_if(|(_, length)| *length == 0);
    Some(status)
}
