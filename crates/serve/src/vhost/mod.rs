//! vhost-user-blk: a virtual machine's disk, whose requests come from rings in the guest's memory.
//!
//! A monitor (QEMU, Cloud Hypervisor, libblkio) connects to the socket of an export, and shares the memory of its guest. A thread talks to
//! it (`control`), maps the memory, and orders the engine to serve the rings in it. From then on requests go from the ring to the engine
//! and back without that thread: [`Rings`] take the place of a socket and the NBD protocol.
//!
//! The guest, and its monitor, may write anything anywhere in that memory at any time. Every chain of descriptors is checked as a whole
//! before it has an effect ([`chain`]); data is copied to the engine's own buffers; memory that a monitor takes away does not end the
//! server (`guard`).

pub mod chain;
mod config;
mod control;
mod guard;
mod inflight;
mod memory;
mod ring;
mod rings;

pub(crate) use control::begin;
pub(crate) use rings::Effect;
pub use rings::{Order, Rings};
