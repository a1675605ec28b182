//! Measures devices of this machine: [`record`] records the requests that they get, [`replay`] puts the requests of a trace on one,
//! and [`probe`] finds out what one is by reading it, or writing where that was allowed.
//!
//! Nothing is written to a device unasked.

pub mod probe;
pub mod record;
pub mod replay;
