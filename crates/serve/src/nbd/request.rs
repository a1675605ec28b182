//! Finds the requests in a stream of bytes, and checks them.

use super::NbdError;
use super::export::{Contexts, Export};
use super::fields::Fields;
use super::protocol::{
    COMMAND_DF, COMMAND_FAST_ZERO, COMMAND_FUA, COMMAND_NO_HOLE, COMMAND_PAYLOAD_LENGTH, COMMAND_REQUEST_ONE,
    MAGIC_EXTENDED_REQUEST, MAGIC_REQUEST, REQUEST_BYTES_MAX,
};
use super::reply::Replies;

/// Length of a request without its data.
const HEADER_BYTES: usize = 28;
/// Length of a request with extended headers, without its data.
const EXTENDED_HEADER_BYTES: usize = 32;

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Data from the export.
    Read,
    /// Data to the export; it follows the request.
    Write,
    /// Ends the connection; there is no answer.
    Disconnect,
    /// Makes acknowledged writes durable.
    Flush,
    /// Declares that the range is not needed any more.
    Trim,
    /// Hints that the range will be read soon.
    Cache,
    /// Makes the range read as zeroes.
    WriteZeroes,
    /// Reports what is allocated within the range.
    BlockStatus,
    /// A command that this server does not know.
    Unknown(u16),
}

impl Command {
    /// Every command that this server knows, by its number on the wire.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::Disconnect,
        Self::Flush,
        Self::Trim,
        Self::Cache,
        Self::WriteZeroes,
        Self::BlockStatus,
    ];

    fn from_number(number: u16) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Unknown(number))
    }

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Disconnect => 2,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::Cache => 5,
            Self::WriteZeroes => 6,
            Self::BlockStatus => 7,
            Self::Unknown(number) => number,
        }
    }

    /// The flags that are valid for the command. FUA is valid for every command.
    const fn flags(self) -> u16 {
        match self {
            Self::Read => COMMAND_FUA | COMMAND_DF,
            Self::WriteZeroes => COMMAND_FUA | COMMAND_NO_HOLE | COMMAND_FAST_ZERO,
            Self::BlockStatus => COMMAND_FUA | COMMAND_REQUEST_ONE,
            _ => COMMAND_FUA,
        }
    }

    /// Whether the command changes the export.
    #[must_use]
    pub const fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The command.
    pub command: Command,
    /// Command flags.
    pub flags: u16,
    /// The client's handle, which is sent back.
    pub cookie: u64,
    /// The first byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// The number of bytes of data that follow the request.
    pub payload: u32,
}

impl Request {
    fn parse(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let mut fields = Fields(header);
        let (magic, flags, number) = (fields.u32()?, fields.u16()?, fields.u16()?);
        let (cookie, offset, length) = (fields.u64()?, fields.u64()?, fields.u32()?);
        let command = Command::from_number(number);
        let payload = if matches!(command, Command::Write) { length } else { 0 };
        let length = u64::from(length);
        (magic == MAGIC_REQUEST).then_some(Self { command, flags, cookie, offset, length, payload })
    }

    /// Parses an extended header; `None` if it is no header, or more data follows than a client may send.
    fn parse_extended(header: &[u8; EXTENDED_HEADER_BYTES]) -> Option<Self> {
        let mut fields = Fields(header);
        let (magic, mut flags, number) = (fields.u32()?, fields.u16()?, fields.u16()?);
        let (cookie, offset, length) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let command = Command::from_number(number);
        let mut payload = 0;
        // QEMU (10.0) wrongly omits the flag from writes, which always have data.
        if flags & COMMAND_PAYLOAD_LENGTH != 0 || command == Command::Write {
            payload = u32::try_from(length).ok().filter(|&length| length <= REQUEST_BYTES_MAX)?;
        }
        // For other commands, which must have no data, `payload` has the value that the flag gives.
        if command == Command::Write {
            flags &= !COMMAND_PAYLOAD_LENGTH;
        }
        (magic == MAGIC_EXTENDED_REQUEST).then_some(Self { command, flags, cookie, offset, length, payload })
    }

    /// Whether a flag is set.
    #[must_use]
    pub const fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Whether the request is valid for `export`.
    ///
    /// # Errors
    /// The error to answer it with.
    pub fn check(&self, export: &Export, contexts: Contexts) -> Result<(), NbdError> {
        if self.flags & !self.command.flags() != 0 || matches!(self.command, Command::Unknown(_)) {
            return Err(NbdError::Invalid);
        }
        if self.command.changes() && export.read_only {
            return Err(NbdError::NotPermitted);
        }
        if self.command == Command::Flush {
            return if self.offset == 0 && self.length == 0 { Ok(()) } else { Err(NbdError::Invalid) };
        }
        if self.command == Command::BlockStatus && (contexts == Contexts::NONE || self.length == 0) {
            return Err(NbdError::Invalid);
        }
        let end = self.offset.checked_add(self.length);
        if end.is_none_or(|end| end > export.size_bytes) {
            return Err(if self.command.changes() { NbdError::NoSpace } else { NbdError::Invalid });
        }
        let least = u64::from(export.block_bytes_min);
        let is_whole = self.offset.is_multiple_of(least) && self.length.is_multiple_of(least);
        if !is_whole || (self.command == Command::Trim && !export.trims) {
            return Err(NbdError::Invalid);
        }
        let has_data = matches!(self.command, Command::Read | Command::Write);
        if has_data && self.length > u64::from(REQUEST_BYTES_MAX) {
            return Err(NbdError::Invalid);
        }
        Ok(())
    }
}

/// An item of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request, which says how much data follows it.
    Request(Request),
    /// A piece of the data of the last request.
    Payload(&'a [u8]),
}

/// Bytes that are not a request, or a request with more data than allowed: the rest of the stream has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a request, or one with too much data")]
pub struct BadRequest;

/// Finds the requests in a stream that arrives in pieces. It passes data on and does not keep it.
#[derive(Clone, Debug)]
pub struct Decoder {
    extended: bool,
    header: [u8; EXTENDED_HEADER_BYTES],
    held: usize,
    payload_left: u32,
}

impl Decoder {
    /// A decoder for the requests of a client that negotiated these replies.
    #[must_use]
    pub const fn new(replies: Replies) -> Self {
        let extended = matches!(replies, Replies::Extended);
        Self { extended, header: [0; EXTENDED_HEADER_BYTES], held: 0, payload_left: 0 }
    }

    /// The next event of `input`, which is removed from it; `None` if more input is needed.
    ///
    /// # Errors
    /// [`BadRequest`], after which the connection must be closed.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, BadRequest> {
        if self.payload_left > 0 {
            if input.is_empty() {
                return Ok(None);
            }
            let (payload, rest) = input.split_at(input.len().min(self.payload_left as usize));
            *input = rest;
            self.skip_payload(payload.len());
            return Ok(Some(Event::Payload(payload)));
        }
        let found = if self.extended {
            self.take_header(input).map(|header| Request::parse_extended(&header))
        } else {
            self.take_header(input).map(|header| Request::parse(&header))
        };
        let Some(request) = found else { return Ok(None) };
        let request = request.ok_or(BadRequest)?;
        self.payload_left = request.payload;
        Ok(Some(Event::Request(request)))
    }

    /// The next header, once it is complete.
    fn take_header<const N: usize>(&mut self, input: &mut &[u8]) -> Option<[u8; N]> {
        if self.held == 0
            && let Some((header, rest)) = input.split_first_chunk()
        {
            *input = rest;
            return Some(*header);
        }
        let (taken, rest) = input.split_at(input.len().min(N - self.held));
        self.header[self.held..self.held + taken.len()].copy_from_slice(taken);
        self.held += taken.len();
        *input = rest;
        let header = self.header[..self.held].first_chunk().copied()?;
        self.held = 0;
        Some(header)
    }

    /// The number of bytes of data that are missing.
    #[must_use]
    pub const fn payload_left(&self) -> u32 {
        self.payload_left
    }

    /// Notes that this many bytes of the data were read elsewhere.
    pub fn skip_payload(&mut self, bytes: usize) {
        self.payload_left = self.payload_left.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Whether the stream may end here, without cutting an item in two.
    #[must_use]
    pub const fn is_between_requests(&self) -> bool {
        self.held == 0 && self.payload_left == 0
    }
}
