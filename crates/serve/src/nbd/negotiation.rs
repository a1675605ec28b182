//! The handshake, in which client and server agree on an export and on the form of replies.
//!
//! The caller sends [`Negotiation::greeting`], then feeds what the client sends, in pieces of any size. The negotiation
//! stops after each option, so that its answer is sent before the next one is read: a client that sends options and never
//! reads makes nothing grow.
//!
//! After `STARTTLS` the caller encrypts the connection and continues with the decrypted bytes; everything agreed before is
//! forgotten.

use std::sync::Arc;

use super::export::{Contexts, Export};
use super::fields::Fields;
use super::option::{ContextQuery, InfoQuery, put_context, put_listed, put_reply};
use super::protocol::{
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, MAGIC_INIT, MAGIC_OPTION, OPTION_ABORT, OPTION_BYTES_MAX, OPTION_EXPORT_NAME,
    OPTION_EXTENDED_HEADERS, OPTION_GO, OPTION_INFO, OPTION_LIST, OPTION_LIST_META_CONTEXT, OPTION_SET_META_CONTEXT,
    OPTION_STARTTLS, OPTION_STRUCTURED_REPLY, OPTIONS_MAX, REPLY_ACK, REPLY_ERROR_EXTENDED_HEADERS_REQUIRED,
    REPLY_ERROR_INVALID, REPLY_ERROR_TLS_REQUIRED, REPLY_ERROR_TOO_BIG, REPLY_ERROR_UNKNOWN, REPLY_ERROR_UNSUPPORTED,
};
use super::reply::Replies;

/// The length of the server's greeting.
pub const GREETING_BYTES: usize = 18;

/// The zeroes after the answer to `EXPORT_NAME`, unless both sides agreed to leave them out.
const ZEROES: [u8; 124] = [0; 124];

/// The outcome of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The index of the export in the list.
    pub export: usize,
    /// The form of replies, and of requests.
    pub replies: Replies,
    /// The metadata contexts of which the client may ask for the block status.
    pub contexts: Contexts,
}

/// Whether a connection can be, or must be, encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// The server has no certificate.
    #[default]
    None,
    /// The client decides.
    Offered,
    /// Every other option is refused before `STARTTLS`.
    Required,
    /// The connection is encrypted.
    Agreed,
}

/// The next action of the negotiation's caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All input was used; more is needed.
    More,
    /// An option was answered: send the answer, then continue with the rest of the input.
    Answered,
    /// Send the answer, then encrypt the connection. A client that has already sent more is disconnected: a man in the
    /// middle could have inserted it.
    StartTls,
    /// Send the answer; requests follow.
    Agreed(Agreed),
    /// Send the answer, if there is one, and close.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ClientFlags,
    OptionHeader,
    OptionData {
        option: u32,
        length: u32,
    },
    /// Option data that is too long to be kept.
    Skipping {
        option: u32,
        left: u32,
    },
    Ended,
}

/// A negotiation, from the server's side.
#[derive(Clone, Debug)]
pub struct Negotiation {
    exports: Arc<[Export]>,
    /// Exports that do not exist for this client.
    hidden: Vec<usize>,
    /// The last hidden export that the client has asked for.
    refused: Option<usize>,
    state: State,
    /// The beginning of the current item; never more than the state needs.
    held: Vec<u8>,
    options_left: u32,
    fixed: bool,
    zeroes: bool,
    tls: Tls,
    replies: Replies,
    /// The export for which the client has selected metadata contexts, and these contexts.
    selected: Option<(usize, Contexts)>,
}

impl Negotiation {
    /// A negotiation for these exports.
    #[must_use]
    pub fn new(exports: Arc<[Export]>, tls: Tls) -> Self {
        Self {
            exports,
            hidden: Vec::new(),
            refused: None,
            state: State::ClientFlags,
            held: Vec::new(),
            options_left: OPTIONS_MAX,
            fixed: false,
            zeroes: true,
            tls,
            replies: Replies::Simple,
            selected: None,
        }
    }

    /// From now on, these exports (by index) do not exist for the client, whose identity is now known.
    pub fn hide(&mut self, exports: Vec<usize>) {
        self.hidden = exports;
        self.selected = None;
    }

    /// The hidden export that the client has asked for since the last call, if there is one.
    pub const fn take_refused(&mut self) -> Option<usize> {
        self.refused.take()
    }

    /// The bytes to send first.
    #[must_use]
    pub fn greeting(&self) -> [u8; GREETING_BYTES] {
        let mut greeting = [0; GREETING_BYTES];
        greeting[..8].copy_from_slice(&MAGIC_INIT.to_be_bytes());
        greeting[8..16].copy_from_slice(&MAGIC_OPTION.to_be_bytes());
        greeting[16..].copy_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
        greeting
    }

    /// Takes the bytes of the negotiation from the front of `input`, and appends answers to `out`.
    pub fn feed(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Progress {
        loop {
            if let State::Skipping { option, left } = self.state {
                let skipped = input.len().min(left as usize);
                *input = &input[skipped..];
                let left = left - u32::try_from(skipped).unwrap_or(left);
                self.state = State::Skipping { option, left };
                if left > 0 {
                    return Progress::More;
                }
                self.state = State::OptionHeader;
                if self.tls == Tls::Required {
                    put_reply(out, option, REPLY_ERROR_TLS_REQUIRED, &[]);
                } else {
                    put_reply(out, option, REPLY_ERROR_TOO_BIG, b"more data than any option needs");
                }
                return Progress::Answered;
            }
            let wanted = self.wanted();
            let taken = input.len().min(wanted - self.held.len());
            self.held.extend_from_slice(&input[..taken]);
            *input = &input[taken..];
            if self.held.len() < wanted {
                return Progress::More;
            }
            let held = std::mem::take(&mut self.held);
            let progress = self.act(&held, out);
            self.held = held;
            self.held.clear();
            match progress {
                Progress::More => {}
                Progress::Agreed(_) | Progress::Closed => {
                    self.state = State::Ended;
                    return progress;
                }
                Progress::Answered | Progress::StartTls => return progress,
            }
        }
    }

    /// Whether no more input is expected.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// The bytes that the current state needs.
    const fn wanted(&self) -> usize {
        match self.state {
            State::ClientFlags => 4,
            State::OptionHeader => 16,
            State::OptionData { length, .. } => length as usize,
            State::Skipping { .. } | State::Ended => 0,
        }
    }

    /// Handles the current item, which is complete.
    fn act(&mut self, held: &[u8], out: &mut Vec<u8>) -> Progress {
        match self.state {
            State::ClientFlags => self.take_flags(held),
            State::OptionHeader => self.begin_option(held),
            State::OptionData { option, .. } => {
                self.state = State::OptionHeader;
                self.answer(option, held, out)
            }
            State::Skipping { .. } | State::Ended => Progress::Closed,
        }
    }

    fn take_flags(&mut self, held: &[u8]) -> Progress {
        let known = u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
        match Fields(held).u32() {
            Some(flags) if flags & !known == 0 => {
                self.fixed = flags & u32::from(FLAG_FIXED_NEWSTYLE) != 0;
                self.zeroes = flags & u32::from(FLAG_NO_ZEROES) == 0;
                self.state = State::OptionHeader;
                Progress::More
            }
            _ => Progress::Closed,
        }
    }

    fn begin_option(&mut self, held: &[u8]) -> Progress {
        let mut fields = Fields(held);
        let header = (fields.u64(), fields.u32(), fields.u32());
        let (Some(MAGIC_OPTION), Some(option), Some(length)) = header else { return Progress::Closed };
        // A client of the first newstyle understands no answers to options, and so no errors.
        let is_tellable = self.fixed && option != OPTION_EXPORT_NAME;
        if self.options_left == 0 || (!self.fixed && option != OPTION_EXPORT_NAME) {
            return Progress::Closed;
        }
        self.options_left -= 1;
        if length <= OPTION_BYTES_MAX {
            self.state = State::OptionData { option, length };
        } else if is_tellable {
            self.state = State::Skipping { option, left: length };
        } else {
            return Progress::Closed;
        }
        Progress::More
    }

    fn answer(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Progress {
        if self.tls == Tls::Required && !matches!(option, OPTION_STARTTLS | OPTION_ABORT) {
            if option == OPTION_EXPORT_NAME {
                return Progress::Closed;
            }
            put_reply(out, option, REPLY_ERROR_TLS_REQUIRED, b"STARTTLS must come first");
            return Progress::Answered;
        }
        let is_plain =
            matches!(option, OPTION_LIST | OPTION_STRUCTURED_REPLY | OPTION_EXTENDED_HEADERS | OPTION_STARTTLS);
        if is_plain && !data.is_empty() {
            put_reply(out, option, REPLY_ERROR_INVALID, b"this option takes no data");
            return Progress::Answered;
        }
        match option {
            OPTION_EXPORT_NAME => return self.use_export(data, out),
            OPTION_ABORT => {
                put_reply(out, option, REPLY_ACK, &[]);
                return Progress::Closed;
            }
            OPTION_LIST => {
                for (_, export) in self.visible() {
                    put_listed(out, option, export);
                }
                put_reply(out, option, REPLY_ACK, &[]);
            }
            OPTION_INFO | OPTION_GO => return self.describe(option, data, out),
            OPTION_STARTTLS => return self.start_tls(out),
            OPTION_STRUCTURED_REPLY if self.replies == Replies::Extended => {
                put_reply(out, option, REPLY_ERROR_EXTENDED_HEADERS_REQUIRED, b"extended headers have been negotiated");
            }
            OPTION_STRUCTURED_REPLY => {
                self.replies = Replies::Structured;
                put_reply(out, option, REPLY_ACK, &[]);
            }
            OPTION_EXTENDED_HEADERS if self.replies == Replies::Extended => {
                put_reply(out, option, REPLY_ERROR_INVALID, b"this has been negotiated already");
            }
            OPTION_EXTENDED_HEADERS => {
                self.replies = Replies::Extended;
                put_reply(out, option, REPLY_ACK, &[]);
            }
            OPTION_LIST_META_CONTEXT | OPTION_SET_META_CONTEXT => self.answer_contexts(option, data, out),
            _ => put_reply(out, option, REPLY_ERROR_UNSUPPORTED, &[]),
        }
        Progress::Answered
    }

    fn start_tls(&mut self, out: &mut Vec<u8>) -> Progress {
        match self.tls {
            Tls::None => put_reply(out, OPTION_STARTTLS, REPLY_ERROR_UNSUPPORTED, &[]),
            Tls::Agreed => put_reply(out, OPTION_STARTTLS, REPLY_ERROR_INVALID, b"the connection is encrypted already"),
            Tls::Offered | Tls::Required => {
                put_reply(out, OPTION_STARTTLS, REPLY_ACK, &[]);
                self.tls = Tls::Agreed;
                // A man in the middle may have sent the earlier options.
                self.replies = Replies::Simple;
                self.selected = None;
                return Progress::StartTls;
            }
        }
        Progress::Answered
    }

    fn visible(&self) -> impl Iterator<Item = (usize, &Export)> {
        self.exports.iter().enumerate().filter(|(number, _)| !self.hidden.contains(number))
    }

    /// Finds an export by name. The empty name means the client's first export, unless an export has that name.
    fn find(&mut self, name: &[u8]) -> Option<usize> {
        let found = self.visible().find(|(_, export)| export.name.as_bytes() == name);
        let found = found.or_else(|| self.visible().next().filter(|_| name.is_empty()));
        let found = found.map(|(number, _)| number);
        if found.is_none() {
            let asked = |number: &&usize| self.exports[**number].name.as_bytes() == name;
            self.refused = self.hidden.iter().find(asked).copied().or(self.refused);
        }
        found
    }

    fn agree(&self, export: usize) -> Agreed {
        let contexts = self.selected.filter(|(selected, _)| *selected == export).map(|(_, contexts)| contexts);
        Agreed { export, replies: self.replies, contexts: contexts.unwrap_or_default() }
    }

    /// Handles `EXPORT_NAME`, which can only be refused by closing. It must not follow extended headers.
    fn use_export(&mut self, name: &[u8], out: &mut Vec<u8>) -> Progress {
        let found = self.find(name);
        let Some(place) = found.filter(|_| self.replies != Replies::Extended) else { return Progress::Closed };
        let export = &self.exports[place];
        out.extend(export.size_bytes.to_be_bytes());
        out.extend(export.flags(self.replies.has_chunks()).to_be_bytes());
        if self.zeroes {
            out.extend(ZEROES);
        }
        Progress::Agreed(self.agree(place))
    }

    fn describe(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Progress {
        let Some(query) = InfoQuery::parse(data) else {
            put_reply(out, option, REPLY_ERROR_INVALID, b"the data is malformed");
            return Progress::Answered;
        };
        let Some(place) = self.find(query.name) else {
            put_reply(out, option, REPLY_ERROR_UNKNOWN, b"no export of this name");
            return Progress::Answered;
        };
        query.answer(out, option, &self.exports[place], self.replies.has_chunks());
        put_reply(out, option, REPLY_ACK, &[]);
        if option == OPTION_GO { Progress::Agreed(self.agree(place)) } else { Progress::Answered }
    }

    fn answer_contexts(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) {
        let selects = option == OPTION_SET_META_CONTEXT;
        if selects {
            self.selected = None;
        }
        let Some(query) = ContextQuery::parse(data).filter(|_| self.replies.has_chunks()) else {
            put_reply(out, option, REPLY_ERROR_INVALID, b"needs structured replies and well-formed data");
            return;
        };
        let Some(place) = self.find(query.name) else {
            put_reply(out, option, REPLY_ERROR_UNKNOWN, b"no export of this name");
            return;
        };
        let mut contexts = Contexts::NONE;
        for (number, name) in self.exports[place].contexts() {
            if selects && query.selects(&name) && contexts.add(number) {
                put_context(out, option, number, &name);
            } else if !selects && query.lists(&name) {
                put_context(out, option, 0, &name);
            }
        }
        if selects {
            self.selected = Some((place, contexts));
        }
        put_reply(out, option, REPLY_ACK, &[]);
    }
}
