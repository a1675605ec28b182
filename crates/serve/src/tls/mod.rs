//! TLS of connections, and the names of clients in their certificates.
//!
//! [`Server`] is the configuration from the files of a spec, [`Client`] that for an upstream; [`Session`] is one connection with it, between a socket and
//! plain bytes; [`names_of`] reads the names from a client's certificate.

mod client;
mod files;
mod names;
mod session;

pub use client::Client;
pub use files::{FileError, Role, Server};
pub use names::names_of;
pub(crate) use session::RECEIVED_BYTES_MAX;
pub use session::Session;
