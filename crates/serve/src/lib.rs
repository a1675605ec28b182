//! The block server: real clients, real devices, and between them the schedulers that the simulator runs.
//!
//! The rule of this crate: it is the only one with a clock, sockets, threads that live long, and `unsafe`. Nothing about
//! the order of requests is decided here: that is the scheduler's.
//!
//! [`spec`] says what is served; [`front`] takes clients in and talks [`nbd`] with them until they have agreed on an
//! export; the [`engine`] of its device then holds every request in the scheduler, and sends it to the [`backend`] when it
//! is dispatched. [`server`] puts them together, [`capture`] writes what it saw,
//! [`watch`] says how it is doing, [`control`] changes it while it runs. [`executor`] is a pool of worker threads that a schedule of cores drives.

pub mod backend;
pub mod buffer;
pub mod capture;
pub mod control;
pub mod engine;
pub mod executor;
pub mod front;
pub mod nbd;
pub mod server;
mod slots;
pub mod spec;
pub mod tls;
pub mod watch;
