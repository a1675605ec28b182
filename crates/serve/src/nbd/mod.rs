//! What do client and server say to one another? The NBD protocol without any I/O: bytes in, events and bytes out.
//!
//! [`Negotiation`] leads the talk until an export is agreed upon; [`Decoder`] then finds the requests in the stream;
//! [`reply`] writes the answers. None of them reads a clock or a socket, and none allocates what a client only claims to
//! send: lengths are checked before anything is kept.
//!
//! Spoken is the fixed newstyle handshake with structured replies, block status (`base:allocation`), and every command
//! but `RESIZE`. Not spoken yet: extended headers, TLS.

mod error;
mod export;
mod fields;
mod negotiation;
mod option;
pub mod protocol;
pub mod reply;
mod request;

pub use error::NbdError;
pub use export::Export;
pub use negotiation::{Agreed, GREETING_BYTES, Negotiation, Progress};
pub use request::{BadRequest, Command, Decoder, Event, REQUEST_HEADER_BYTES, Request};
