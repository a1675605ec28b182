//! The block server: real clients, real devices, and between them the schedulers that the simulator runs.
//!
//! The rule of this crate: it is the only one with a clock, sockets, threads that live long, and `unsafe`. Nothing about
//! the order of requests is decided here: that is the scheduler's.

pub mod backend;
pub mod buffer;
pub mod nbd;
pub mod spec;
