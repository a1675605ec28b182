//! A simulated client: the bytes of its requests, and the decoding of answers.

use std::collections::BTreeMap;

use ioweir_core::Nanos;

use super::random::Random;
use super::wire::Line;
use ioweir_serve::nbd::Replies;
use ioweir_serve::nbd::protocol::{
    CHUNK_BLOCK_STATUS, CHUNK_BLOCK_STATUS_EXTENDED, CHUNK_DONE, CHUNK_ERROR, CHUNK_NONE, CHUNK_OFFSET_DATA,
    CHUNK_OFFSET_HOLE, COMMAND_PAYLOAD_LENGTH, MAGIC_EXTENDED_REPLY, MAGIC_EXTENDED_REQUEST, MAGIC_REQUEST,
    MAGIC_SIMPLE_REPLY, MAGIC_STRUCTURED_REPLY,
};

/// The commands of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Flush.
    Flush,
    /// Trim.
    Trim,
    /// Write zeroes.
    Zero,
    /// Ask which blocks are allocated.
    Extents,
    /// Hint that a range will be read.
    Cache,
}

impl Ask {
    /// The number in the protocol.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::Cache => 5,
            Self::Zero => 6,
            Self::Extents => 7,
        }
    }

    /// Whether the command changes data.
    #[must_use]
    pub const fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::Zero)
    }
}

/// A request that is not answered.
#[derive(Clone, Debug)]
pub(super) struct Outstanding {
    pub(super) ask: Ask,
    pub(super) fua: bool,
    /// Sectors of the export.
    pub(super) first: u64,
    pub(super) sectors: u64,
    /// When the request was sent, as a number of events and as a time.
    pub(super) from: u64,
    pub(super) at: Nanos,
    /// Whether the request is valid; an invalid one gets an error.
    pub(super) is_valid: bool,
    /// The excused time when the request was sent, and the longest time until its answer.
    pub(super) excused: Nanos,
    pub(super) patience: Nanos,
    data: Vec<u8>,
    /// The number of received bytes.
    filled: u64,
    error: u32,
}

impl Outstanding {
    pub(super) fn new(
        ask: Ask,
        (fua, is_valid): (bool, bool),
        (first, sectors): (u64, u64),
        (from, at): (u64, Nanos),
        (excused, patience): (Nanos, Nanos),
    ) -> Self {
        let (data, filled, error) = (Vec::new(), 0, 0);
        Self { ask, fua, first, sectors, from, at, is_valid, excused, patience, data, filled, error }
    }
}

impl Outstanding {
    /// The place in the data for a received piece, by its offset on the export.
    fn place(&mut self, offset: u64, length: usize) -> Result<&mut [u8], String> {
        self.data.resize((self.sectors * 512) as usize, 0);
        self.filled += length as u64;
        let from = (offset as usize).checked_sub((self.first * 512) as usize);
        let range = from.map(|from| from..from + length);
        range
            .and_then(|range| self.data.get_mut(range))
            .ok_or_else(|| "a chunk that lies outside of what was asked".into())
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) cookie: u64,
    pub(super) asked: Outstanding,
    pub(super) error: u32,
    /// The data of a read.
    pub(super) data: Vec<u8>,
}

/// Requests that follow one another, a number of them at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flood {
    /// How many are left.
    pub count: u32,
    /// How many are in flight at once.
    pub depth: u32,
    /// The percentage of reads.
    pub reads: u32,
    /// The length of each request in sectors; zero for any length.
    pub sectors: u64,
    /// The think time before the next request.
    pub thinks: Nanos,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) line: Option<Line>,
    /// The number of its export, its class, and its device.
    pub(super) export: usize,
    pub(super) class: usize,
    pub(super) device: usize,
    /// The history of its sectors, the sectors that it knows, and the ones that its flushes make durable.
    pub(super) history: usize,
    pub(super) shown: (u64, u64),
    pub(super) flushes: (u64, u64),
    pub(super) is_read_only: bool,
    pub(super) replies: Replies,
    /// The client does not read before this time.
    pub(super) deaf_until: Nanos,
    /// Whether the client has sent bytes after which the server owes it no answers.
    pub(super) is_spoilt: bool,
    heard: Vec<u8>,
    pub(super) outstanding: BTreeMap<u64, Outstanding>,
    pub(super) flood: Option<Flood>,
    /// When its next request of a flood is due.
    pub(super) next_at: Nanos,
    pub(super) random: Random,
}

impl Client {
    pub(super) const fn new(random: Random) -> Self {
        Self {
            line: None,
            export: 0,
            class: 0,
            device: 0,
            history: 0,
            shown: (0, 0),
            flushes: (0, 0),
            is_read_only: false,
            replies: Replies::Simple,
            deaf_until: Nanos::ZERO,
            is_spoilt: false,
            heard: Vec::new(),
            outstanding: BTreeMap::new(),
            flood: None,
            next_at: Nanos::ZERO,
            random,
        }
    }

    /// Resets the client after its connection has ended; returns its unanswered requests.
    pub(super) fn left(&mut self) -> BTreeMap<u64, Outstanding> {
        self.line = None;
        self.heard.clear();
        self.is_spoilt = false;
        self.flood = None;
        self.deaf_until = Nanos::ZERO;
        std::mem::take(&mut self.outstanding)
    }

    /// Whether the client should send the next request of a flood.
    pub(super) fn wants_to_ask(&self) -> bool {
        let may_ask = |flood: &Flood| flood.count > 0 && self.outstanding.len() < flood.depth as usize;
        self.line.is_some() && !self.is_spoilt && self.flood.as_ref().is_some_and(may_ask)
    }

    /// The head of a request.
    pub(super) fn head(&self, command: u16, flags: u16, cookie: u64, offset: u64, length: u64) -> Vec<u8> {
        let is_extended = self.replies == Replies::Extended;
        let mut head = Vec::with_capacity(32);
        head.extend(if is_extended { MAGIC_EXTENDED_REQUEST } else { MAGIC_REQUEST }.to_be_bytes());
        let flags = if is_extended && command == Ask::Write.number() { flags | COMMAND_PAYLOAD_LENGTH } else { flags };
        head.extend(flags.to_be_bytes());
        head.extend(command.to_be_bytes());
        head.extend(cookie.to_be_bytes());
        head.extend(offset.to_be_bytes());
        if is_extended {
            head.extend(length.to_be_bytes());
        } else {
            head.extend((length as u32).to_be_bytes());
        }
        head
    }

    /// Reads the received bytes, and returns the answers; an error if the server breaks the protocol.
    pub(super) fn hear(&mut self, answers: &mut Vec<Answer>) -> Result<(), String> {
        let Some(line) = &self.line else { return Ok(()) };
        let before = self.heard.len();
        line.hear(&mut self.heard);
        if self.heard.len() == before {
            return Ok(());
        }
        let heard = std::mem::take(&mut self.heard);
        let mut left = heard.as_slice();
        let mut result = Ok(());
        loop {
            match self.next(left, answers) {
                Ok(Some(used)) => left = &left[used..],
                Ok(None) => break,
                Err(problem) => {
                    result = Err(problem);
                    break;
                }
            }
        }
        let kept = left.len();
        self.heard = heard;
        self.heard.drain(..self.heard.len() - kept);
        result
    }

    /// Takes one reply or chunk; returns its length, or `None` if it is incomplete.
    fn next(&mut self, bytes: &[u8], answers: &mut Vec<Answer>) -> Result<Option<usize>, String> {
        let number = |at: usize, length: usize| {
            bytes[at..at + length].iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte))
        };
        if bytes.len() < 16 {
            return Ok(None);
        }
        let (magic, cookie) = (number(0, 4) as u32, number(8, 8));
        let has_chunks = |ask: Ask| matches!(ask, Ask::Read | Ask::Extents);
        let Some(asked) = self.outstanding.get_mut(&cookie) else {
            return Err(format!("an answer with cookie {cookie}, which is not awaited, and magic {magic:x}"));
        };
        if magic == MAGIC_SIMPLE_REPLY {
            if self.replies == Replies::Extended || (self.replies == Replies::Structured && has_chunks(asked.ask)) {
                return Err(format!(
                    "a simple reply to a {:?} of a client that agreed on {:?}",
                    asked.ask, self.replies
                ));
            }
            let error = number(4, 4) as u32;
            let length = if asked.ask == Ask::Read && error == 0 { (asked.sectors * 512) as usize } else { 0 };
            if bytes.len() < 16 + length {
                return Ok(None);
            }
            if let Some(asked) = self.outstanding.remove(&cookie) {
                answers.push(Answer { cookie, asked, error, data: bytes[16..16 + length].to_vec() });
            }
            return Ok(Some(16 + length));
        }
        let head = match (magic, self.replies) {
            (MAGIC_STRUCTURED_REPLY, Replies::Structured) if has_chunks(asked.ask) => 20,
            (MAGIC_EXTENDED_REPLY, Replies::Extended) => 32,
            _ => {
                return Err(format!(
                    "magic {magic:x} for {:?} of a client that agreed on {:?}",
                    asked.ask, self.replies
                ));
            }
        };
        if bytes.len() < head {
            return Ok(None);
        }
        let length = if head == 20 { number(16, 4) } else { number(24, 8) } as usize;
        if bytes.len() < head + length {
            return Ok(None);
        }
        let (flags, kind) = (number(4, 2) as u16, number(6, 2) as u16);
        let body = &bytes[head..head + length];
        match kind {
            CHUNK_NONE if length == 0 => {}
            CHUNK_OFFSET_DATA if length > 8 && asked.ask == Ask::Read => {
                asked.place(number(head, 8), length - 8)?.copy_from_slice(&body[8..]);
            }
            CHUNK_OFFSET_HOLE if length == 12 && asked.ask == Ask::Read => {
                asked.place(number(head, 8), number(head + 8, 4) as usize)?.fill(0);
            }
            CHUNK_BLOCK_STATUS | CHUNK_BLOCK_STATUS_EXTENDED if asked.ask == Ask::Extents && length > 8 => {}
            CHUNK_ERROR if length >= 6 => asked.error = number(head, 4) as u32,
            _ => return Err(format!("a chunk of kind {kind} and length {length} for {:?}", asked.ask)),
        }
        if flags & CHUNK_DONE != 0
            && let Some(mut asked) = self.outstanding.remove(&cookie)
        {
            if asked.ask == Ask::Read && asked.error == 0 && asked.filled != asked.sectors * 512 {
                return Err(format!("a read of {} sectors ends after {} bytes", asked.sectors, asked.filled));
            }
            let data = std::mem::take(&mut asked.data);
            answers.push(Answer { cookie, error: asked.error, asked, data });
        }
        Ok(Some(head + length))
    }
}
