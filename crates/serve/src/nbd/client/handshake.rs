//! The handshake from the client's side: it asks for every feature, and takes the ones that the server has.
//!
//! The caller feeds the bytes of the server, in pieces of any size, and sends the appended ones. After [`Step::StartTls`] it encrypts the
//! connection and continues with the decrypted bytes.

use super::super::fields::Fields;
use super::super::protocol::{
    CONTEXT_ALLOCATION, EXPORT_CAN_MULTI_CONN, EXPORT_HAS_FLAGS, EXPORT_READ_ONLY, EXPORT_SEND_CACHE,
    EXPORT_SEND_FAST_ZERO, EXPORT_SEND_FLUSH, EXPORT_SEND_FUA, EXPORT_SEND_TRIM, EXPORT_SEND_WRITE_ZEROES,
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, INFO_BLOCK_SIZE, INFO_EXPORT, MAGIC_INIT, MAGIC_OPTION, MAGIC_OPTION_REPLY,
    OPTION_BYTES_MAX, OPTION_EXPORT_NAME, OPTION_EXTENDED_HEADERS, OPTION_GO, OPTION_SET_META_CONTEXT, OPTION_STARTTLS,
    OPTION_STRUCTURED_REPLY, REPLY_ACK, REPLY_ERROR_BIT, REPLY_ERROR_TLS_REQUIRED, REPLY_ERROR_UNKNOWN,
    REPLY_ERROR_UNSUPPORTED, REPLY_INFO, REPLY_META_CONTEXT,
};
use super::super::reply::Replies;

/// The most replies to options that are read.
const REPLIES_MAX: u32 = 256;
/// The most characters of a server's own error message that are shown.
const MESSAGE_CHARACTERS_MAX: usize = 200;
/// The block sizes that the protocol prescribes for a server that sends none.
const BLOCKS: BlockSizes = BlockSizes { min: 1, preferred: 4096, max: 32 << 20 };
/// The largest smallest block that is accepted.
const BLOCK_MIN_MAX: u32 = 64 << 10;

/// Whether the connection is to be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// No encryption.
    None,
    /// Encryption before anything else.
    First,
}

/// The blocks of an export, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of this.
    pub min: u32,
    /// The size that suits the export best.
    pub preferred: u32,
    /// The longest data of a request.
    pub max: u32,
}

/// The result of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The size of the export.
    pub size_bytes: u64,
    /// The export's transmission flags.
    pub flags: u16,
    /// The form of replies, and of requests.
    pub replies: Replies,
    /// The number of `base:allocation`, if block status may be asked for.
    pub allocation: Option<u32>,
    /// The export's block sizes.
    pub blocks: BlockSizes,
}

impl Terms {
    const fn has(&self, flag: u16) -> bool {
        self.flags & EXPORT_HAS_FLAGS != 0 && self.flags & flag != 0
    }

    /// Whether nothing may be written.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.has(EXPORT_READ_ONLY)
    }

    /// Whether the server supports flushes.
    #[must_use]
    pub const fn flushes(&self) -> bool {
        self.has(EXPORT_SEND_FLUSH)
    }

    /// Whether the server supports FUA: a write that is durable when it is answered.
    #[must_use]
    pub const fn has_fua(&self) -> bool {
        self.has(EXPORT_SEND_FUA)
    }

    /// Whether the server supports discards.
    #[must_use]
    pub const fn trims(&self) -> bool {
        self.has(EXPORT_SEND_TRIM)
    }

    /// Whether the server has a command for writing zeroes.
    #[must_use]
    pub const fn zeroes(&self) -> bool {
        self.has(EXPORT_SEND_WRITE_ZEROES)
    }

    /// Whether the server can refuse to write zeroes if that is not fast.
    #[must_use]
    pub const fn zeroes_fast(&self) -> bool {
        self.has(EXPORT_SEND_FAST_ZERO)
    }

    /// Whether the server takes hints of ranges that will be read.
    #[must_use]
    pub const fn caches(&self) -> bool {
        self.has(EXPORT_SEND_CACHE)
    }

    /// Whether a flush on one connection covers the changes that were answered on any.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.has(EXPORT_CAN_MULTI_CONN)
    }
}

/// Why no export was agreed on, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HandshakeError(pub String);

fn refuse<T>(what: impl Into<String>) -> Result<T, HandshakeError> {
    Err(HandshakeError(what.into()))
}

/// The next action of the handshake's caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send what was appended, if anything; all input was used, and more is needed.
    More,
    /// Encrypt the connection, then continue. Nothing was appended.
    StartTls,
    /// Requests may follow.
    Agreed(Terms),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    /// The head of a reply to this option.
    ReplyHead(u32),
    /// The data of a reply of this kind.
    ReplyData(u32, u32, usize),
    /// The answer to `EXPORT_NAME`, which has no head.
    OldAnswer,
    Ended,
}

/// A handshake, from the client's side.
#[derive(Clone, Debug)]
pub struct Handshake {
    export: String,
    encryption: Encryption,
    state: State,
    /// The beginning of the current item; never more than the state needs.
    held: Vec<u8>,
    replies_left: u32,
    has_zeroes: bool,
    replies: Replies,
    allocation: Option<u32>,
    blocks: BlockSizes,
    /// Size and flags of the export, once the server has sent them.
    described: Option<(u64, u16)>,
}

impl Handshake {
    /// A handshake for this export.
    #[must_use]
    pub fn new(export: &str, encryption: Encryption) -> Self {
        Self {
            export: export.into(),
            encryption,
            state: State::Greeting,
            held: Vec::new(),
            replies_left: REPLIES_MAX,
            has_zeroes: true,
            replies: Replies::Simple,
            allocation: None,
            blocks: BLOCKS,
            described: None,
        }
    }

    /// Takes the bytes of the handshake from the front of `input`, and appends what is to be sent to `out`.
    ///
    /// # Errors
    /// Why there will be no agreement; the connection must be closed.
    pub fn feed(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Step, HandshakeError> {
        loop {
            let wanted = self.wanted();
            let taken = input.len().min(wanted.saturating_sub(self.held.len()));
            self.held.extend_from_slice(&input[..taken]);
            *input = &input[taken..];
            if self.held.len() < wanted || self.state == State::Ended {
                return Ok(Step::More);
            }
            let held = std::mem::take(&mut self.held);
            let step = self.act(&held, out)?;
            match step {
                Step::More => {}
                Step::StartTls if !input.is_empty() => {
                    // A man in the middle could have inserted the bytes.
                    return refuse("it sends more before the connection is encrypted");
                }
                Step::StartTls | Step::Agreed(_) => return Ok(step),
            }
        }
    }

    const fn wanted(&self) -> usize {
        match self.state {
            State::Greeting => 18,
            State::ReplyHead(_) => 20,
            State::ReplyData(_, _, length) => length,
            State::OldAnswer if self.has_zeroes => 10 + 124,
            State::OldAnswer => 10,
            State::Ended => 0,
        }
    }

    fn act(&mut self, held: &[u8], out: &mut Vec<u8>) -> Result<Step, HandshakeError> {
        let mut fields = Fields(held);
        match self.state {
            State::Greeting => return self.greeted(held, out),
            State::ReplyHead(option) => {
                let head = (fields.u64(), fields.u32(), fields.u32(), fields.u32());
                let (Some(MAGIC_OPTION_REPLY), Some(its), Some(kind), Some(length)) = head else {
                    return refuse("it breaks the protocol: not a reply to an option");
                };
                if its != option {
                    return refuse("it breaks the protocol: a reply to an option that was not sent");
                }
                if length > OPTION_BYTES_MAX || self.replies_left == 0 {
                    return refuse("it breaks the protocol: more replies, or longer ones, than any option needs");
                }
                self.replies_left -= 1;
                self.state = State::ReplyData(option, kind, length as usize);
            }
            State::ReplyData(option, kind, _) => {
                self.state = State::ReplyHead(option);
                return self.replied(option, kind, held, out);
            }
            State::OldAnswer => {
                let (Some(size), Some(flags)) = (fields.u64(), fields.u16()) else {
                    return refuse("it breaks the protocol: no answer to the name of the export");
                };
                self.described = Some((size, flags));
                return self.agree();
            }
            State::Ended => {}
        }
        Ok(Step::More)
    }

    fn greeted(&mut self, held: &[u8], out: &mut Vec<u8>) -> Result<Step, HandshakeError> {
        let mut fields = Fields(held);
        if fields.u64() != Some(MAGIC_INIT) {
            return refuse("it is no NBD server");
        }
        let (magic, flags) = (fields.u64(), fields.u16().unwrap_or(0));
        if magic != Some(MAGIC_OPTION) || flags & FLAG_FIXED_NEWSTYLE == 0 {
            return refuse("it speaks the old handshake of NBD, without options: it needs the fixed newstyle one");
        }
        self.has_zeroes = flags & FLAG_NO_ZEROES == 0;
        out.extend(u32::from(flags & (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES)).to_be_bytes());
        match self.encryption {
            Encryption::First => self.send(OPTION_STARTTLS, &[], out),
            Encryption::None => self.send(OPTION_EXTENDED_HEADERS, &[], out),
        }
        Ok(Step::More)
    }

    /// Continues after the connection was encrypted.
    pub fn encrypted(&mut self, out: &mut Vec<u8>) {
        self.send(OPTION_EXTENDED_HEADERS, &[], out);
    }

    fn send(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) {
        out.extend(MAGIC_OPTION.to_be_bytes());
        out.extend(option.to_be_bytes());
        // An export's name is the longest, and bounded by the spec.
        out.extend((data.len() as u32).to_be_bytes());
        out.extend(data);
        self.state = State::ReplyHead(option);
    }

    fn name(&self) -> Vec<u8> {
        [&(self.export.len() as u32).to_be_bytes(), self.export.as_bytes()].concat()
    }

    /// Asks for block status where replies have chunks, else for the export.
    fn ask_contexts(&mut self, out: &mut Vec<u8>) {
        if !self.replies.has_chunks() {
            return self.ask_export(out);
        }
        let context = CONTEXT_ALLOCATION.as_bytes();
        let query = [&self.name()[..], &1_u32.to_be_bytes(), &(context.len() as u32).to_be_bytes(), context];
        self.send(OPTION_SET_META_CONTEXT, &query.concat(), out);
    }

    fn ask_export(&mut self, out: &mut Vec<u8>) {
        let query = [&self.name()[..], &1_u16.to_be_bytes(), &INFO_BLOCK_SIZE.to_be_bytes()].concat();
        self.send(OPTION_GO, &query, out);
    }

    fn replied(&mut self, option: u32, kind: u32, data: &[u8], out: &mut Vec<u8>) -> Result<Step, HandshakeError> {
        if kind == REPLY_ERROR_TLS_REQUIRED && option != OPTION_STARTTLS {
            return refuse("it wants the connection to be encrypted: give the device a table `tls`");
        }
        let is_error = kind & REPLY_ERROR_BIT != 0;
        let mut fields = Fields(data);
        match (option, kind) {
            (OPTION_STARTTLS, REPLY_ACK) => return Ok(Step::StartTls),
            (OPTION_STARTTLS, _) => return refuse(format!("it does not encrypt{}", words(data))),
            (OPTION_EXTENDED_HEADERS, REPLY_ACK) => {
                self.replies = Replies::Extended;
                self.ask_contexts(out);
            }
            (OPTION_EXTENDED_HEADERS, _) if is_error => self.send(OPTION_STRUCTURED_REPLY, &[], out),
            (OPTION_STRUCTURED_REPLY, REPLY_ACK) => {
                self.replies = Replies::Structured;
                self.ask_contexts(out);
            }
            (OPTION_STRUCTURED_REPLY, _) if is_error => self.ask_contexts(out),
            (OPTION_SET_META_CONTEXT, REPLY_META_CONTEXT) => {
                let number = fields.u32();
                if fields.0 == CONTEXT_ALLOCATION.as_bytes() {
                    self.allocation = number;
                }
            }
            // Without the context, every block counts as data.
            (OPTION_SET_META_CONTEXT, kind) if is_error || kind == REPLY_ACK => self.ask_export(out),
            (OPTION_GO, REPLY_INFO) => self.described(data)?,
            (OPTION_GO, REPLY_ACK) => return self.agree(),
            (OPTION_GO, REPLY_ERROR_UNSUPPORTED) if self.replies != Replies::Extended => {
                let name = self.export.clone();
                self.send(OPTION_EXPORT_NAME, name.as_bytes(), out);
                self.state = State::OldAnswer;
            }
            (OPTION_GO, REPLY_ERROR_UNKNOWN) => {
                let name = ioweir_config::shown(&self.export);
                return refuse(format!("it has no export `{name}`{}", words(data)));
            }
            (OPTION_GO, kind) if is_error => {
                return refuse(format!("it refuses the export (error {:#x}){}", kind, words(data)));
            }
            _ => return refuse("it breaks the protocol: a reply that does not belong to the option"),
        }
        Ok(Step::More)
    }

    /// Takes a piece of information about the export: size and flags, or block sizes. Others are ignored.
    fn described(&mut self, data: &[u8]) -> Result<(), HandshakeError> {
        let mut fields = Fields(data);
        let malformed = || refuse("it breaks the protocol: malformed information about the export");
        match fields.u16() {
            Some(INFO_EXPORT) => {
                let (Some(size), Some(flags)) = (fields.u64(), fields.u16()) else { return malformed() };
                self.described = Some((size, flags));
            }
            Some(INFO_BLOCK_SIZE) => {
                let sizes = (fields.u32(), fields.u32(), fields.u32());
                let (Some(min), Some(preferred), Some(max)) = sizes else { return malformed() };
                let is_sound = min.is_power_of_two() && min <= BLOCK_MIN_MAX && preferred.is_power_of_two();
                if !is_sound || preferred < min || max < preferred {
                    return refuse(format!("it says that its blocks are of {min}, {preferred} and {max} bytes"));
                }
                self.blocks = BlockSizes { min, preferred, max };
            }
            Some(_) => {}
            None => return malformed(),
        }
        Ok(())
    }

    fn agree(&mut self) -> Result<Step, HandshakeError> {
        self.state = State::Ended;
        let Some((size_bytes, flags)) = self.described else {
            return refuse("it breaks the protocol: it does not say how long the export is");
        };
        if size_bytes >> 62 != 0 || size_bytes % u64::from(self.blocks.min) != 0 {
            return refuse(format!("it says that it has {size_bytes} bytes, in blocks of {}", self.blocks.min));
        }
        let (replies, allocation, blocks) = (self.replies, self.allocation, self.blocks);
        Ok(Step::Agreed(Terms { size_bytes, flags, replies, allocation, blocks }))
    }
}

/// A server's message for an error, without control characters and shortened.
fn words(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data);
    let text: String = text.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARACTERS_MAX).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}
