//! How does a connection become secret, and who is at its other end?
//!
//! [`Server`] is what the files of a spec say; [`Session`] is one connection under it, between a socket and whoever reads
//! and writes plain bytes; [`names_of`] says what a client's certificate calls it.

mod files;
mod names;
mod session;

pub use files::{FileError, Role, Server};
pub use names::names_of;
pub(crate) use session::RECEIVED_BYTES_MAX;
pub use session::Session;
