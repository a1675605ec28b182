//! The block server: real clients, real devices, and between them the schedulers that the simulator runs.
//!
//! The rule of this crate: it is the only one with a clock, sockets, threads that live long, and `unsafe`. It does not decide
//! the order of requests: the scheduler does.
//!
//! A [`spec`] describes a [`server`]. The [`front`] accepts clients and negotiates [`nbd`] with them until they have agreed on
//! an export. The [`engine`] of its device then keeps every request in the scheduler, and sends it to the [`backend`] when it
//! is dispatched. [`capture`] writes what the scheduler takes as a trace, [`watch`] shows what is served and what waits, and
//! [`control`] changes a running server, and [`log`] says what goes wrong. [`executor`] is a pool of worker threads that a schedule of cores drives.

pub mod backend;
pub mod buffer;
pub mod capture;
pub mod control;
pub mod engine;
pub mod executor;
pub mod front;
pub mod log;
pub mod nbd;
pub mod server;
mod slots;
pub mod spec;
pub mod tls;
pub mod watch;
