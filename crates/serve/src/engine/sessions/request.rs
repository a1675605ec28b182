//! A client's request, from when it is decoded until it is answered.

use ioweir_core::{Nanos, Operation};

use super::super::accounts::Answered;
use super::super::admission::SubRequest;
use crate::backend::Action;
use crate::buffer::Buffer;
use crate::nbd::protocol::{COMMAND_DF, COMMAND_FAST_ZERO, COMMAND_FUA, COMMAND_NO_HOLE, REQUEST_BYTES_MAX};
use crate::nbd::reply::Reply;
use crate::nbd::{Command, NbdError, Replies, Request};

/// The longest sub-request of a range that is discarded, and the longest range that is read ahead for one hint: as long as the
/// longest request with data.
const RANGE_BYTES_MAX: u64 = REQUEST_BYTES_MAX as u64;

/// The longest range that one query asks about. A client that asks about more gets an answer about the beginning.
const QUERY_BYTES_MAX: u64 = 1 << 31;

/// The limits and rules by which a range is split and charged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// The longest sub-request that moves data.
    pub(super) request_bytes_max: u64,
    /// Whether the device writes zeroes like data: where it need not keep the space, and where it has to.
    pub(super) zeroes_are_written: [bool; 2],
}

/// A client's request that has not been answered.
#[derive(Debug)]
pub(super) struct ClientRequest {
    pub(super) connection: u32,
    class: u32,
    pub(super) action: Action,
    pub(super) reply: Reply,
    /// The export's offset on the device: sub-requests have offsets on the device, replies have offsets on the export.
    pub(super) base: u64,
    pub(super) flags: u16,
    pub(super) length: u64,
    /// When the request had been received, with the data of its first sub-request.
    arrived: Option<Nanos>,
    /// The rest of a range that is discarded, zeroed or read ahead.
    pub(super) range_left: u64,
    /// The beginning of that rest within the range.
    range_begun: u64,
    /// Sub-requests in flight, plus one while more may follow. At zero the request is answered.
    pub(super) pending: u32,
    pub(super) is_split: bool,
    pub(super) error: Option<NbdError>,
    /// The metadata context that it asks the device about, if it is for block status.
    pub(super) context: Option<u32>,
    /// Data of a reply that is sent as a whole, by offset.
    pub(super) gathered: Vec<(u64, Buffer)>,
}

impl ClientRequest {
    pub(super) fn new(connection: u32, class: u32, replies: Replies, base: u64, request: &Request) -> Self {
        let Request { command, flags, cookie, offset, length, .. } = *request;
        let action = match command {
            Command::Read => Action::Read,
            Command::Write => Action::Write,
            Command::Trim => Action::Trim,
            Command::WriteZeroes => {
                Action::Zero { keep: flags & COMMAND_NO_HOLE != 0, fast: flags & COMMAND_FAST_ZERO != 0 }
            }
            Command::Cache => Action::Cache,
            Command::BlockStatus => Action::Extents,
            // A disconnect is no request, and an unknown command was refused.
            Command::Flush | Command::Disconnect | Command::Unknown(_) => Action::Flush,
        };
        Self {
            connection,
            class,
            action,
            reply: Reply { replies, command, cookie, offset },
            base,
            flags,
            length,
            arrived: None,
            range_left: match command {
                Command::Trim | Command::WriteZeroes => length,
                Command::Cache => length.min(RANGE_BYTES_MAX),
                _ => 0,
            },
            range_begun: 0,
            pending: 1,
            is_split: false,
            error: None,
            context: None,
            gathered: Vec::new(),
        }
    }

    /// Makes one more sub-request; `number` is the request's own slot.
    pub(super) fn sub_request(
        &mut self,
        number: u32,
        now: Nanos,
        (offset, length): (u64, u32),
        buffer: Option<Buffer>,
    ) -> SubRequest {
        self.pending += 1;
        self.is_split |= u64::from(length) < self.length;
        self.arrived.get_or_insert(now);
        SubRequest {
            number: 0,
            request: number,
            connection: self.connection,
            class: self.class,
            action: self.action,
            scheduled: self.action.operation(),
            fua: self.flags & COMMAND_FUA != 0,
            offset,
            length,
            arrived: now,
            tag: None,
            dispatched: None,
            buffer,
        }
    }

    /// Makes the next sub-request of a range. Only one is in flight at a time, however long the range: other clients get
    /// their turns in between, and only the position of the rest is kept. A part that moves data is no longer than a
    /// sub-request of a read or a write.
    pub(super) fn next_of_range(&mut self, number: u32, now: Nanos, costs: Costs) -> SubRequest {
        let scheduled = match self.action {
            Action::Zero { keep, .. } if costs.zeroes_are_written[usize::from(keep)] => Operation::Write,
            action => action.operation(),
        };
        let bytes_max = if scheduled == Operation::Discard { RANGE_BYTES_MAX } else { costs.request_bytes_max };
        let offset = self.base + self.reply.offset + self.range_begun;
        let length = (bytes_max - offset % bytes_max).min(self.range_left);
        self.range_begun += length;
        self.range_left -= length;
        SubRequest { scheduled, ..self.sub_request(number, now, (offset, length as u32), None) }
    }

    /// Makes the sub-request that asks about the range in a metadata context.
    pub(super) fn query(&mut self, number: u32, now: Nanos) -> SubRequest {
        let (offset, length) = (self.base + self.reply.offset, self.length.min(QUERY_BYTES_MAX));
        self.sub_request(number, now, (offset, length as u32), None)
    }

    /// Whether data is sent as it is read, instead of gathered until all of it was read.
    pub(super) const fn sends_chunks(&self) -> bool {
        self.reply.replies.has_chunks() && !(self.is_split && self.flags & COMMAND_DF != 0)
    }

    /// The entry that the accounts get once the request is answered. A query moves no bytes.
    pub(super) fn answered(&self) -> Answered {
        let bytes = if self.action.queries() { 0 } else { self.length };
        Answered {
            class: self.class,
            operation: self.action.operation(),
            arrived: self.arrived,
            result: self.error.map_or(Ok(bytes), Err),
        }
    }
}

/// The sub-requests of a read or write, cut at multiples of the largest request, so that the sub-requests of an aligned
/// request are aligned.
pub(super) fn pieces(offset: u64, length: u64, bytes_max: u64) -> impl Iterator<Item = (u64, u32)> {
    let end = offset + length;
    let mut position = offset;
    std::iter::from_fn(move || {
        let taken = (bytes_max - position % bytes_max).min(end - position);
        let piece = (position, taken as u32);
        position += taken;
        (taken > 0).then_some(piece)
    })
}
