//! Runs background work of this machine as a governor decides: measures the load of the foreground, tells workers to run and to rest, and
//! keeps its state in a file.
//!
//! [`source`]s measure the foreground's demand on a device, and [`worker`]s do the work of services; each is called by a thread of its own
//! ([`hand`]), because its calls may hang. The [`overseer`] carries out the decisions of an [`overseer::Governor`], [`run`] gives it the
//! time, [`store`] keeps its state, and [`view`] shows it. Without the governor every service does what its lease says.

pub mod clock;
mod guard;
pub mod hand;
pub mod overseer;
pub mod process;
pub mod processors;
pub mod run;
pub mod source;
pub mod spec;
pub mod status;
pub mod store;
pub mod view;
pub mod worker;
