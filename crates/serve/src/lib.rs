//! The block server: it serves real clients from real devices, through the schedulers that the simulator runs.
//!
//! A [`spec`] describes a [`server`]. The [`front`] accepts clients and negotiates [`nbd`] with them until they have agreed on an export;
//! the monitor of a virtual machine connects to the socket of one ([`vhost`]). The [`engine`] of its device then keeps every request in the
//! scheduler, and sends it to the [`backend`] when it is dispatched. [`capture`] writes the requests that the scheduler accepts to a trace,
//! [`watch`] shows the state of everything that is served, [`control`] changes a running server, [`confine`] gives up privileges at the
//! start, [`log`] reports problems, and [`manager`] reports to systemd that the server is well. `fleet` divides the shares of tenants over
//! several servers. The crate `ioweir-world` runs the engine in simulated worlds, and checks what it promises.

// The code that drives a fuzzing target is part of a test here, too.
#[cfg(all(test, feature = "fleet"))]
extern crate self as ioweir_serve;

pub use ioweir_block::{buffer, executor, snapshots};
use ioweir_block::{committer, durable, slots, thread};

pub mod backend;
pub mod capture;
pub mod confine;
pub mod control;
pub mod depth;
pub mod engine;
mod engines;
mod error;
mod exports;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod front;
#[cfg(feature = "client")]
pub mod http;
pub mod log;
pub mod manager;
pub mod nbd;
pub mod server;
pub mod spec;
mod stopper;
pub mod stream;
pub mod tls;
#[cfg(feature = "vhost")]
pub mod vhost;
#[cfg(not(feature = "vhost"))]
#[path = "vhost/absent.rs"]
pub mod vhost;
pub mod watch;

/// Parts that a server is assembled from, for the crate `ioweir-world`, which assembles servers around simulated devices. They
/// change with the server: no other crate should use them.
#[doc(hidden)]
pub mod parts {
    pub use crate::backend::upstream::{Reach, UpstreamPlan};
    pub use crate::control::{Tunables, change_of};
    pub use crate::engines::{Engines, Facts, Host, Opened, Run, service_plans};
    pub use crate::exports::{Catalog, Exports, Places};
}
