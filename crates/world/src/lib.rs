//! Simulated worlds: they run the server's engine, and check the promises that it makes.
//!
//! A world has a seed. From it follow the spec of a server, its device, its clients, and the steps of everything around it ([`plan`]). One
//! thread runs all of it (`run`): the engine with its real sessions, protocol, scheduler, services and layers of the device, over simulated
//! sockets ([`wire`]) and disks ([`disk`]), in virtual time. The same seed gives the same bytes of the log. The engine itself is the real
//! one: time is an argument of its turns, and sockets and disks have the same types as real ones.
//!
//! One checker watches each [`promise`]. [`canary`] breaks each on purpose: a checker that does not notice is a defect. A seed that breaks
//! a promise is [shrunk](shrink) to few steps.
//!
//! # What is not in the world
//!
//! Threads and everything that waits for the system: the thread that accepts clients and its time limits, TLS, the HTTP page and the
//! control socket, files with `io_uring` or threads, worker threads of checksums (sums are computed by the engine's thread), the threads of
//! journals and maps (commits are made by the engine's thread), snapshots of files, captures. Tests with real ones are in the tests of
//! `ioweir-serve`. [`OUTSIDE`] says the same to people.

mod campaign;
pub mod canary;
pub mod client;
mod deadlines;
mod devices;
pub mod disk;
pub(crate) mod file;
pub mod history;
mod idle;
mod kept;
mod operator;
mod passes;
pub mod plan;
pub mod promise;
pub mod random;
mod reservations;
mod run;
mod server;
mod shares;
pub mod shrink;
mod tally;
pub mod upstream;
pub mod wire;

pub use campaign::{Length, Sum, campaign};
pub use canary::Canary;
pub use plan::{Act, Backing, Clock, End, Extra, Order, Plan, Step};
pub use promise::{Broken, Promise, Verdict};
pub use run::{Outcome, run};

/// The parts of a server that are not simulated, in words for people.
pub const OUTSIDE: &str = "not simulated: accepting clients, TLS, the HTTP page and control socket, files and io_uring, worker \
                           threads, snapshots, captures";
