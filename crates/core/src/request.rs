//! Requests as a scheduler accepts them (operation, extent, flags and stream), and the tag that it returns.

use crate::Priority;
use crate::priority::Rank;

/// Bytes in a sector, the unit of every address in the core.
pub const SECTOR_BYTES: u64 = 512;

named! {
    /// The operation of a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum Operation {
        /// Data from the device; the submitter usually waits for it.
        Read = "read",
        /// Data to the device.
        Write = "write",
        /// Declares that the range holds nothing of value any more (trim, unmap).
        Discard = "discard",
        /// Makes acknowledged writes durable; has no extent.
        Flush = "flush",
    }
}

impl Operation {
    /// The queue limit and the sorted queue that this operation belongs to. As in Linux, everything but a read counts as a
    /// write.
    #[must_use]
    pub const fn direction(self) -> Direction {
        match self {
            Self::Read => Direction::Read,
            Self::Write | Self::Discard | Self::Flush => Direction::Write,
        }
    }
}

/// The two directions of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// From the device.
    Read,
    /// Data to the device.
    Write,
}

impl Direction {
    /// Both, in the order of the discriminants.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// The other one.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write => Self::Read,
        }
    }
}

/// The submitter's hints about a request beyond its operation: a set of flags, and a priority.
///
/// ```
/// use ioweir_core::{Flags, Priority};
///
/// let flags = Flags::SYNC.with(Flags::METADATA).at(Priority::USUAL);
/// assert!(flags.has(Flags::METADATA) && !flags.has(Flags::FUA));
/// assert_eq!((flags.bits(), flags.priority()), (5, Priority::USUAL));
/// assert_eq!(Flags::NONE.priority(), Priority::NONE);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
// One number, with the priority in its upper byte: a request is copied often.
pub struct Flags(u16);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The submitter waits for it (blktrace's `S`). Reads count as synchronous without it.
    pub const SYNC: Self = Self(1);
    /// Reads beyond what was asked for (`A`).
    pub const READ_AHEAD: Self = Self(2);
    /// File system metadata (`M`).
    pub const METADATA: Self = Self(4);
    /// Durable when it completes: forced unit access (`F` after the operation).
    pub const FUA: Self = Self(8);
    /// All requests completed before it must be durable first (`F` before the operation).
    pub const PREFLUSH: Self = Self(16);

    /// The union of both sets, with the priority of `self`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.bits() as u16)
    }

    /// Returns these flags with another priority.
    #[must_use]
    pub const fn at(self, priority: Priority) -> Self {
        Self(self.bits() as u16 | (priority.bits() as u16) << u8::BITS)
    }

    /// The priority.
    #[must_use]
    pub const fn priority(self) -> Priority {
        Priority::from_known_bits((self.0 >> u8::BITS) as u8)
    }

    /// The rank of its priority.
    #[inline(always)]
    pub(crate) fn rank(self) -> Rank {
        self.priority().rank()
    }

    /// Whether both have the same rank; checks the usual case, equal priorities, first.
    #[inline(always)]
    pub(crate) fn is_as_urgent_as(self, other: Self) -> bool {
        (self.0 ^ other.0) >> u8::BITS == 0 || self.rank() == other.rank()
    }

    /// Whether any of `other` is set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.bits() & other.bits() != 0
    }

    /// The set as bits, for files, without the priority.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0 as u8
    }

    /// The set with these bits; `None` if one of them is unknown.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits < 32 { Some(Self(bits as u16)) } else { None }
    }
}

/// The process or client that submits a request. The caller chooses the numbers; equal numbers are one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// A request as it is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Read, write, flush or discard.
    pub operation: Operation,
    /// The submitter's flags and priority.
    pub flags: Flags,
    /// The stream that submits it.
    pub stream: StreamId,
    /// First sector.
    pub sector: u64,
    /// Length in sectors; zero only for [`Operation::Flush`] and for a write that only carries a flush.
    pub sectors: u32,
}

impl Request {
    /// The content of a slot that no request has used yet.
    pub(crate) const NOTHING: Self =
        Self { operation: Operation::Read, flags: Flags::NONE, stream: StreamId(0), sector: 0, sectors: 0 };

    /// The sector after the last.
    #[must_use]
    pub const fn sector_end(&self) -> u64 {
        self.sector.saturating_add(self.sectors as u64)
    }

    /// Whether the submitter waits for it: reads, and requests flagged so.
    #[must_use]
    pub const fn is_sync(&self) -> bool {
        matches!(self.operation, Operation::Read) || self.flags.has(Flags::SYNC)
    }

    /// Whether it carries a flush, or is one: such requests bypass the elevators, and nothing merges with them.
    #[must_use]
    pub const fn is_flush(&self) -> bool {
        matches!(self.operation, Operation::Flush) || self.flags.has(Flags::FUA.with(Flags::PREFLUSH))
    }
}

/// The handle of a submitted request: a slot, and the generation of its use, so that a stale handle is never taken for a
/// new request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Tag {
    /// Makes the handle of a scheduler outside this crate, which must not give the same to two of its requests.
    #[must_use]
    pub const fn new(slot: u32, generation: u32) -> Self {
        Self { slot, generation }
    }

    /// The slot number: dense, and below the capacity given at construction. A caller can keep its own data about a request
    /// in an array indexed by it.
    #[must_use]
    pub const fn index(self) -> usize {
        self.slot as usize
    }
}
