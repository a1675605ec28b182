//! The client's side of the protocol, without any I/O, for a server with an upstream.
//!
//! [`Handshake`] agrees with the server on an export, in the best form of replies that it offers; [`put_request`] writes requests;
//! [`Answers`] assigns the answers to them. Everything from the server is untrusted: lengths are checked before memory is allocated for
//! them, and answers without a request are refused.

mod answers;
mod coverage;
mod handshake;

pub use answers::{Answer, Answers, Asked, BadAnswer, put_request};
pub use coverage::Coverage;
pub use handshake::{BlockSizes, Encryption, Handshake, HandshakeError, Step, Terms};
