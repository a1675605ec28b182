//! The client's side of the protocol, without any I/O, for a server that stands before another one.
//!
//! [`Handshake`] agrees with the server on an export, in the best form of replies that it offers; [`put_request`] writes
//! requests; [`Answers`] finds in what comes back what it means for each. All that a server sends is untrusted: lengths are
//! checked before anything is taken for them, and nothing is accepted that was not asked for.

mod answers;
mod coverage;
mod handshake;

pub use answers::{Answer, Answers, Asked, BadAnswer, put_request};
pub use coverage::Coverage;
pub use handshake::{BlockSizes, Encryption, Handshake, HandshakeError, Step, Terms};
