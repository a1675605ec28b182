//! Rules of the block server, with its real sockets and files.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod backend;
mod bench;
mod cached;
mod captures;
mod certificates;
mod checksums;
mod client;
mod commands;
mod confine;
mod counters;
mod degraded;
mod depth;
mod descriptors;
mod devices;
mod engine;
mod executor;
mod extended;
mod failures;
mod fleet;
mod generations;
mod govern;
mod growth;
mod history;
mod joined;
mod kept;
mod kill;
mod late;
mod limits;
mod log;
mod many;
mod model;
mod nbd;
mod operators;
mod page;
mod powered;
mod process;
mod relocate;
mod reserved;
mod robustness;
mod server;
mod services;
mod sidefiles;
mod snapshots;
mod spec;
mod takeover;
mod tiers;
mod tls;
mod upstream;
#[cfg(feature = "vhost")]
mod vhost;
mod volumes;
mod watch;
