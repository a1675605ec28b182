//! Encodes requests to a server, and decodes its answers.

use super::super::NbdError;
use super::super::fields::Fields;
use super::super::protocol::{
    CHUNK_BLOCK_STATUS, CHUNK_BLOCK_STATUS_EXTENDED, CHUNK_DONE, CHUNK_ERROR_BIT, CHUNK_NONE, CHUNK_OFFSET_DATA,
    CHUNK_OFFSET_HOLE, COMMAND_PAYLOAD_LENGTH, MAGIC_EXTENDED_REPLY, MAGIC_EXTENDED_REQUEST, MAGIC_REQUEST,
    MAGIC_SIMPLE_REPLY, MAGIC_STRUCTURED_REPLY, REQUEST_BYTES_MAX,
};
use super::super::reply::{Extent, Replies};
use super::super::request::Command;

/// The longest fixed part: the head of an extended reply.
const HEAD_BYTES_MAX: usize = 32;

/// Appends a request; the data of a write follows it.
pub fn put_request(out: &mut Vec<u8>, replies: Replies, flags: u16, cookie: u64, asked: &Asked) {
    let Asked { command, offset, length } = *asked;
    let is_extended = replies == Replies::Extended;
    let has_payload = is_extended && command == Command::Write;
    let flags = if has_payload { flags | COMMAND_PAYLOAD_LENGTH } else { flags };
    out.extend((if is_extended { MAGIC_EXTENDED_REQUEST } else { MAGIC_REQUEST }).to_be_bytes());
    out.extend(flags.to_be_bytes());
    out.extend(command.number().to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(offset.to_be_bytes());
    if is_extended {
        out.extend(length.to_be_bytes());
    } else {
        // A header without extensions has 32 bits for the length, and its callers ask for no more.
        out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    }
}

/// The range and the command of a request, by which its answer is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The command.
    pub command: Command,
    /// The first byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

impl Asked {
    fn has(&self, offset: u64, length: u64) -> bool {
        let end = offset.checked_add(length);
        offset >= self.offset && end.is_some_and(|end| end <= self.offset.saturating_add(self.length))
    }
}

/// A part of the answer to the request with this cookie. `Done` comes once, after all other parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Data that was read.
    Data(u64, u64, &'a [u8]),
    /// Zeroes that were read: from this offset, this many.
    Zeroes(u64, u64, u64),
    /// An extent, which begins where the last one ends.
    Extent(u64, Extent),
    /// The request has failed; the first error counts.
    Error(u64, NbdError),
    /// The request is done.
    Done(u64),
}

/// Bytes that do not answer a request. The rest of the stream has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it breaks the protocol: {0}")]
pub struct BadAnswer(pub &'static str);

/// The meaning of the bytes that follow a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The offset of data in a chunk.
    DataOffset,
    /// Data from this offset.
    Data(u64),
    /// A hole: offset and length.
    Hole,
    /// The number of a context, and of extents if they are of 64 bits.
    Context,
    /// Extents, whether they belong to the context that was selected.
    Extents(bool),
    /// An error and the length of its message.
    Error,
    /// The rest of a chunk, which is skipped.
    Rest,
    /// No more bytes: the reply says that the request has failed.
    Failed(NbdError),
}

/// The body of a reply or of a chunk.
#[derive(Clone, Copy, Debug)]
struct Body {
    cookie: u64,
    asked: Asked,
    part: Part,
    left: u64,
    is_last: bool,
}

/// Finds answers in a stream that arrives in pieces. It passes data on and keeps none.
#[derive(Clone, Debug)]
pub struct Answers {
    replies: Replies,
    /// The number of the metadata context that was selected.
    context: Option<u32>,
    head: [u8; HEAD_BYTES_MAX],
    held: usize,
    body: Option<Body>,
}

impl Answers {
    /// A decoder for a connection with this form of replies, and this metadata context.
    #[must_use]
    pub const fn new(replies: Replies, context: Option<u32>) -> Self {
        Self { replies, context, head: [0; HEAD_BYTES_MAX], held: 0, body: None }
    }

    /// The next part of an answer in `input`, which is removed from it; `None` if more input is needed. `find` returns the request with a
    /// cookie.
    ///
    /// # Errors
    /// [`BadAnswer`], after which the connection must be closed.
    pub fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
        find: impl Fn(u64) -> Option<Asked>,
    ) -> Result<Option<Answer<'a>>, BadAnswer> {
        loop {
            if let Some(mut body) = self.body {
                if body.left == 0 {
                    if let Part::Failed(error) = body.part {
                        body.part = Part::Rest;
                        self.body = Some(body);
                        return Ok(Some(Answer::Error(body.cookie, error)));
                    }
                    self.body = None;
                    if matches!(body.part, Part::DataOffset | Part::Hole | Part::Context | Part::Error) {
                        return Err(BadAnswer("a chunk is too short"));
                    }
                    if body.is_last {
                        return Ok(Some(Answer::Done(body.cookie)));
                    }
                    continue;
                }
                match self.take_body(input, body)? {
                    Taken::More => return Ok(None),
                    Taken::Nothing => {}
                    Taken::Answer(answer) => return Ok(Some(answer)),
                }
            } else {
                let Some(length) = self.take_head(input)? else { return Ok(None) };
                let head = self.head;
                self.body = Some(self.begin(&head[..length], &find)?);
            }
        }
    }

    /// Takes bytes until `wanted` bytes are held; returns whether they are.
    fn hold(&mut self, input: &mut &[u8], wanted: usize) -> bool {
        let (taken, rest) = input.split_at(input.len().min(wanted - self.held));
        self.head[self.held..self.held + taken.len()].copy_from_slice(taken);
        self.held += taken.len();
        *input = rest;
        self.held == wanted
    }

    /// Takes a head; returns its length once it is complete.
    fn take_head(&mut self, input: &mut &[u8]) -> Result<Option<usize>, BadAnswer> {
        if self.held < 4 && !self.hold(input, 4) {
            return Ok(None);
        }
        let length = match (Fields(&self.head).u32(), self.replies) {
            (Some(MAGIC_SIMPLE_REPLY), Replies::Simple | Replies::Structured) => 16,
            (Some(MAGIC_STRUCTURED_REPLY), Replies::Structured) => 20,
            (Some(MAGIC_EXTENDED_REPLY), Replies::Extended) => 32,
            _ => return Err(BadAnswer("not a reply of the form agreed on")),
        };
        if !self.hold(input, length) {
            return Ok(None);
        }
        self.held = 0;
        Ok(Some(length))
    }

    fn begin(&self, head: &[u8], find: impl Fn(u64) -> Option<Asked>) -> Result<Body, BadAnswer> {
        const SHORT: BadAnswer = BadAnswer("a head is too short");
        let mut fields = Fields(&head[4..]);
        let found = |cookie| find(cookie).ok_or(BadAnswer("an answer without a request"));
        if head.len() == 16 {
            let (error, cookie) = (fields.u32().ok_or(SHORT)?, fields.u64().ok_or(SHORT)?);
            let asked = found(cookie)?;
            if self.replies.has_chunks() && matches!(asked.command, Command::Read | Command::BlockStatus) {
                return Err(BadAnswer("a simple reply where chunks were agreed on"));
            }
            let (part, left) = match (error, asked.command) {
                (0, Command::Read) => (Part::Data(asked.offset), asked.length),
                (0, _) => (Part::Rest, 0),
                (error, _) => (Part::Failed(NbdError::of_code(error)), 0),
            };
            return Ok(Body { cookie, asked, part, left, is_last: true });
        }
        let (flags, kind) = (fields.u16().ok_or(SHORT)?, fields.u16().ok_or(SHORT)?);
        let cookie = fields.u64().ok_or(SHORT)?;
        let asked = found(cookie)?;
        let left = if head.len() == 32 {
            let (_, length) = (fields.u64().ok_or(SHORT)?, fields.u64().ok_or(SHORT)?);
            length
        } else {
            u64::from(fields.u32().ok_or(SHORT)?)
        };
        if left > u64::from(REQUEST_BYTES_MAX) + 64 {
            return Err(BadAnswer("a chunk is too long"));
        }
        let is_extended = self.replies == Replies::Extended;
        let part = match (kind, asked.command) {
            (CHUNK_NONE, _) if left == 0 && flags & CHUNK_DONE != 0 => Part::Rest,
            (CHUNK_OFFSET_DATA, Command::Read) if left > 8 => Part::DataOffset,
            (CHUNK_OFFSET_HOLE, Command::Read) if left == 12 => Part::Hole,
            (CHUNK_BLOCK_STATUS, Command::BlockStatus) if !is_extended && left >= 12 && left % 8 == 4 => Part::Context,
            (CHUNK_BLOCK_STATUS_EXTENDED, Command::BlockStatus) if is_extended && left >= 24 && left % 16 == 8 => {
                Part::Context
            }
            (kind, _) if kind & CHUNK_ERROR_BIT != 0 && left >= 6 => Part::Error,
            _ => return Err(BadAnswer("a chunk that does not belong to the request")),
        };
        Ok(Body { cookie, asked, part, left, is_last: flags & CHUNK_DONE != 0 })
    }

    /// Takes the next item of a body, which is not empty.
    fn take_body<'a>(&mut self, input: &mut &'a [u8], mut body: Body) -> Result<Taken<'a>, BadAnswer> {
        let Body { cookie, asked, .. } = body;
        let is_extended = self.replies == Replies::Extended;
        let wanted = match body.part {
            Part::Data(offset) => {
                let (bytes, rest) = input.split_at(input.len().min(usize::try_from(body.left).unwrap_or(usize::MAX)));
                *input = rest;
                if bytes.is_empty() {
                    return Ok(Taken::More);
                }
                body.left -= bytes.len() as u64;
                body.part = Part::Data(offset + bytes.len() as u64);
                self.body = Some(body);
                return Ok(Taken::Answer(Answer::Data(cookie, offset, bytes)));
            }
            Part::Rest | Part::Failed(_) => {
                let (skipped, rest) = input.split_at(input.len().min(usize::try_from(body.left).unwrap_or(usize::MAX)));
                *input = rest;
                if skipped.is_empty() {
                    return Ok(Taken::More);
                }
                body.left -= skipped.len() as u64;
                self.body = Some(body);
                return Ok(Taken::Nothing);
            }
            Part::DataOffset => 8,
            Part::Hole => 12,
            Part::Context | Part::Extents(_) => 4 << u32::from(is_extended) << u32::from(body.part != Part::Context),
            Part::Error => 6,
        };
        if !self.hold(input, wanted) {
            return Ok(Taken::More);
        }
        self.held = 0;
        body.left -= wanted as u64;
        let item = self.head;
        let (part, answer) = self.read_item(&item[..wanted], &body, asked)?;
        body.part = part;
        self.body = Some(body);
        Ok(answer.map_or(Taken::Nothing, Taken::Answer))
    }

    /// Reads a fixed item of a chunk; returns what comes next.
    fn read_item(&self, item: &[u8], body: &Body, asked: Asked) -> Result<(Part, Option<Answer<'static>>), BadAnswer> {
        const OUTSIDE: BadAnswer = BadAnswer("data that was not asked for");
        let (mut fields, cookie) = (Fields(item), body.cookie);
        let is_extended = self.replies == Replies::Extended;
        let mut number = |is_long: bool| if is_long { fields.u64() } else { fields.u32().map(u64::from) }.unwrap_or(0);
        Ok(match body.part {
            Part::DataOffset => {
                let offset = number(true);
                if !asked.has(offset, body.left) {
                    return Err(OUTSIDE);
                }
                (Part::Data(offset), None)
            }
            Part::Hole => {
                let (offset, length) = (number(true), number(false));
                if length == 0 || !asked.has(offset, length) {
                    return Err(OUTSIDE);
                }
                (Part::Rest, Some(Answer::Zeroes(cookie, offset, length)))
            }
            Part::Context => {
                let is_ours = self.context.map(u64::from) == Some(number(false));
                if is_extended && number(false) != body.left / 16 {
                    return Err(BadAnswer("another number of extents than it states"));
                }
                (Part::Extents(is_ours), None)
            }
            Part::Extents(is_ours) => {
                let (length, state) = (number(is_extended), number(is_extended));
                if length == 0 {
                    return Err(BadAnswer("an extent without a length"));
                }
                // Flags that the context does not define are ignored.
                let extent = Extent { length, state: (state & 3) as u32 };
                (body.part, is_ours.then_some(Answer::Extent(cookie, extent)))
            }
            Part::Error => {
                let error = NbdError::of_code(number(false) as u32);
                (Part::Rest, Some(Answer::Error(cookie, error)))
            }
            Part::Data(_) | Part::Rest | Part::Failed(_) => (Part::Rest, None),
        })
    }
}

/// The result of consuming bytes of a body.
enum Taken<'a> {
    More,
    Nothing,
    Answer(Answer<'a>),
}
