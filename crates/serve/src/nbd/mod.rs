//! What do client and server say to one another? The NBD protocol without any I/O: bytes in, events and bytes out.
//!
//! [`Negotiation`] leads the talk until an export is agreed upon; [`Decoder`] then finds the requests in the stream;
//! [`reply`] writes the answers. None of them reads a clock or a socket, and none allocates what a client only claims to
//! send: lengths are checked before anything is kept.
//!
//! Spoken is the fixed newstyle handshake with structured replies or extended headers, block status (`base:allocation`),
//! the change to TLS, and every command but `RESIZE`. Not spoken: block status with a payload, which only says which of
//! several metadata contexts are meant, and here there is one.

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
pub use negotiation::{Agreed, GREETING_BYTES, Negotiation, Progress, Tls};
pub use reply::Replies;
pub use request::{BadRequest, Command, Decoder, Event, Request};
