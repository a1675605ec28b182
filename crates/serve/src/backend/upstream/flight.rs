//! Operations of the engine, and the requests to the upstream that they become.

use std::io::IoSlice;
use std::sync::Arc;

use super::kept::Change;
use super::{Action, Io};
use crate::nbd::client::{Asked, Coverage, Terms, put_request};
use crate::nbd::protocol::{COMMAND_FAST_ZERO, COMMAND_FUA, COMMAND_NO_HOLE};
use crate::nbd::reply::Extent;
use crate::nbd::{Command, NbdError, Replies};
use crate::slots::Slots;

/// The longest request without data: it fits into 32 bits, in whole blocks of any size.
const RANGE_BYTES_MAX: u64 = 1 << 30;
/// Zeroes to be sent to an upstream without a command for zeroing.
static ZEROES: [u8; 256 << 10] = [0; 256 << 10];

/// The request of a flush.
pub(super) const FLUSH: Asked = Asked { command: Command::Flush, offset: 0, length: 0 };

/// An operation of the engine.
pub(super) struct Op {
    pub(super) io: Io,
    /// The number of the operation's unanswered requests.
    pub(super) left: u32,
    pub(super) error: Option<NbdError>,
    /// The count of the upstream's deaths at the first answer to one of the requests.
    pub(super) begun: Option<u64>,
    /// Whether the change was answered, and a flush is under way that makes it durable.
    pub(super) is_covering: bool,
    extents: Vec<Extent>,
}

impl Op {
    pub(super) const fn new(io: Io) -> Self {
        Self { io, left: 0, error: None, begun: None, is_covering: false, extents: Vec::new() }
    }

    /// Calls `with` for each piece of a range of its buffers.
    fn each(&mut self, offset: u64, length: u64, with: impl FnMut(usize, &mut [u8])) {
        self.io.buffers.each_part(offset.saturating_sub(self.io.offset), length as usize, with);
    }

    /// Copies data of an answer into the buffers.
    pub(super) fn fill(&mut self, offset: u64, bytes: &[u8]) {
        self.each(offset, bytes.len() as u64, |from, target| target.copy_from_slice(&bytes[from..from + target.len()]));
    }

    /// Zeroes a range of the buffers.
    pub(super) fn zero(&mut self, offset: u64, length: u64) {
        self.each(offset, length, |_, target| target.fill(0));
    }

    /// The change that the operation makes to this piece of its range.
    pub(super) fn change(&mut self, offset: u64, length: u64) -> Change {
        match self.io.action {
            Action::Write => {
                let mut bytes = Vec::with_capacity(length as usize);
                self.each(offset, length, |_, data| bytes.extend_from_slice(data));
                Change::Data(Arc::from(bytes))
            }
            Action::Zero { keep, .. } => Change::Zero(keep),
            _ => Change::Trim,
        }
    }

    /// Takes the extents that the answer has for the beginning of the range.
    pub(super) fn take_extents(&mut self, extents: Vec<Extent>) {
        if self.extents.is_empty() {
            self.extents = extents;
        }
    }

    /// The extents of the operation's range: at least one, and none beyond it.
    pub(super) fn extents(&mut self) -> Vec<Extent> {
        let mut left = self.io.length;
        let mut extents = std::mem::take(&mut self.extents);
        extents.retain_mut(|extent| {
            extent.length = extent.length.min(left);
            left -= extent.length;
            extent.length > 0
        });
        extents
    }
}

/// The reason for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The request belongs to the operation in this slot.
    Io(u32),
    /// The request is a flush that covers the kept changes.
    Flush,
    /// The request repeats the change that is kept at its offset, or is the flush after the first connection, which makes durable what the
    /// upstream held by then. Nothing else is sent until it has ended.
    Repeat,
}

/// The data that follows a request.
#[derive(Clone, Debug)]
pub(super) enum Payload {
    None,
    /// The data of the request's operation.
    Own,
    Zeroes,
    Kept(Arc<[u8]>),
}

/// A request to the upstream.
pub(super) struct Flight {
    pub(super) purpose: Purpose,
    pub(super) asked: Asked,
    flags: u16,
    payload: Payload,
    /// The connection that the request was given to.
    pub(super) link: Option<usize>,
    cookie: u64,
    head: Vec<u8>,
    pub(super) coverage: Coverage,
    pub(super) error: Option<NbdError>,
    pub(super) extents: Vec<Extent>,
    /// The number of changes that had been answered when the request was given to a connection.
    pub(super) upto: u64,
}

impl Flight {
    pub(super) fn new(purpose: Purpose, asked: Asked, flags: u16, payload: Payload) -> Self {
        Self {
            purpose,
            asked,
            flags,
            payload,
            link: None,
            cookie: 0,
            head: Vec::new(),
            coverage: Coverage::default(),
            error: None,
            extents: Vec::new(),
            upto: 0,
        }
    }

    /// Gives the request to a connection, and encodes its header.
    pub(super) fn begin(&mut self, link: usize, slot: u32, serial: u32, replies: Replies, upto: u64) {
        self.link = Some(link);
        self.cookie = u64::from(serial) << 32 | u64::from(slot);
        self.upto = upto;
        self.head.clear();
        put_request(&mut self.head, replies, self.flags, self.cookie, &self.asked);
    }

    /// Prepares the request to be sent again after its connection has ended.
    pub(super) fn start_again(&mut self) {
        (self.link, self.error) = (None, None);
        self.coverage.clear();
        self.extents.clear();
    }

    /// Checks that the answer is complete.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.error.is_some() {
            return Ok(());
        }
        match self.asked.command {
            Command::Read if !self.coverage.is_all(self.asked.offset, self.asked.length) => {
                Err("it breaks the protocol: less data than was asked for".into())
            }
            Command::BlockStatus if self.extents.is_empty() => {
                Err("it breaks the protocol: block status without an extent".into())
            }
            _ => Ok(()),
        }
    }

    /// The number of bytes to be sent: the header and the data of a write.
    pub(super) fn bytes(&self) -> usize {
        let has_data = self.asked.command == Command::Write;
        self.head.len() + if has_data { self.asked.length as usize } else { 0 }
    }

    /// Adds the slices to be sent, without the first `skipped` bytes.
    pub(super) fn put_slices<'a>(&'a self, ops: &'a Slots<Op>, skipped: usize, slices: &mut Vec<IoSlice<'a>>) {
        let mut skipped = skipped;
        let mut put = |bytes: &'a [u8]| {
            let from = skipped.min(bytes.len());
            skipped -= from;
            if from < bytes.len() {
                slices.push(IoSlice::new(&bytes[from..]));
            }
        };
        put(&self.head);
        match (&self.payload, self.purpose) {
            (Payload::None, _) => {}
            (Payload::Zeroes, _) => put(&ZEROES[..self.asked.length as usize]),
            (Payload::Kept(bytes), _) => put(bytes),
            (Payload::Own, Purpose::Io(op)) => {
                let Some(op) = ops.get(op) else { return };
                let mut at = op.io.offset;
                let (offset, end) = (self.asked.offset, self.asked.offset + self.asked.length);
                for buffer in op.io.buffers.as_slice() {
                    let next = at + buffer.len() as u64;
                    let (from, to) = (offset.max(at), end.min(next));
                    if from < to {
                        put(&buffer.bytes()[(from - at) as usize..(to - at) as usize]);
                    }
                    at = next;
                }
            }
            (Payload::Own, _) => {}
        }
    }
}

/// The slot of a request, as its cookie names it.
pub(super) const fn slot_of(cookie: u64) -> u32 {
    cookie as u32
}

/// The request that was sent with this cookie on this connection.
pub(super) fn find(flights: &Slots<Flight>, cookie: u64, link: usize) -> Option<Asked> {
    let flight = flights.get(slot_of(cookie))?;
    (flight.cookie == cookie && flight.link == Some(link)).then_some(flight.asked)
}

/// The command, flags and data for an action.
pub(super) fn request_of(terms: &Terms, action: Action, durable: bool) -> (Command, u16, Payload) {
    let fua = if durable && terms.has_fua() { COMMAND_FUA } else { 0 };
    match action {
        Action::Write => (Command::Write, fua, Payload::Own),
        Action::Zero { keep, fast } if terms.zeroes() => {
            let flags = if keep { COMMAND_NO_HOLE } else { 0 } | if fast { COMMAND_FAST_ZERO } else { 0 };
            (Command::WriteZeroes, fua | flags, Payload::None)
        }
        Action::Zero { .. } => (Command::Write, fua, Payload::Zeroes),
        Action::Trim => (Command::Trim, fua, Payload::None),
        Action::Flush => (Command::Flush, 0, Payload::None),
        Action::Cache => (Command::Cache, 0, Payload::None),
        Action::Extents => (Command::BlockStatus, 0, Payload::None),
        Action::Read | Action::Serve(_) => (Command::Read, 0, Payload::None),
    }
}

/// The request that repeats a change.
pub(super) fn repeat_of(terms: &Terms, change: Change) -> (Command, u16, Payload) {
    match change {
        Change::Data(bytes) => (Command::Write, 0, Payload::Kept(bytes)),
        Change::Zero(keep) => request_of(terms, Action::Zero { keep, fast: false }, false),
        Change::Trim => request_of(terms, Action::Trim, false),
    }
}

/// The pieces of a range that are requests of their own: at least one.
pub(super) fn pieces(terms: &Terms, action: Action, offset: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    let blocks = terms.blocks;
    let of_data = u64::from(blocks.max / blocks.min * blocks.min);
    let most = match action {
        Action::Read | Action::Write | Action::Serve(_) => of_data,
        Action::Zero { .. } if !terms.zeroes() => of_data.min(ZEROES.len() as u64),
        _ => RANGE_BYTES_MAX,
    };
    // A query of extents may be answered for the beginning of its range alone.
    let end = if action == Action::Extents { offset + length.min(most) } else { offset + length };
    let mut next = Some(offset);
    std::iter::from_fn(move || {
        let at = next?;
        let taken = (end - at).min(most);
        next = Some(at + taken).filter(|next| *next < end);
        Some(if action == Action::Flush { (0, 0) } else { (at, taken) })
    })
    .take(if action == Action::Flush { 1 } else { usize::MAX })
}
