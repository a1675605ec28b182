//! The NBD protocol without any I/O: bytes in, events and bytes out.
//!
//! [`Negotiation`] conducts the handshake until client and server agree on an export; [`Decoder`] then finds the requests in the stream;
//! [`reply`] writes the replies. None of them reads a clock or a socket, and none allocates memory for lengths that a client only
//! announces: lengths are checked first.
//!
//! [`client`] is the client's side of the protocol, for a server with an upstream.
//!
//! The module implements the fixed newstyle handshake with structured replies or extended headers, block status (`base:allocation`), the
//! change to TLS, and every command but `RESIZE`. Block status with a payload is missing: it selects among several metadata contexts, and
//! there is only one here.

pub mod client;
mod export;
mod fields;
mod negotiation;
mod option;
pub mod protocol;
pub mod reply;
mod request;

pub use export::{Contexts, Export};
pub use ioweir_block::NbdError;
pub use negotiation::{Agreed, GREETING_BYTES, Negotiation, Progress, Tls};
pub use reply::Replies;
pub use request::{BadRequest, Command, Decoder, Event, Request};
