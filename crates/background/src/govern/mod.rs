//! The governor of background work: forecasts the foreground, plans, and says second by second which service may work.
//!
//! It is pure state: time is an argument, and the caller measures, runs the work and keeps the state. [`Governor::sample`] takes
//! what was measured; it closes bins, learns, and plans anew. [`Governor::poll`] says what to do now, and
//! [`Governor::complete`] what became of it. [`Governor::state`] is all that a restart needs, and [`Governor::status`] what people
//! want to know.
//!
//! **Time** is in nanoseconds since 1970-01-01 UTC. The caller takes it from a steady clock, so that it never goes back while the
//! program runs; an earlier time counts as the latest one.

mod course;
mod document;
mod governor;
mod planning;
mod sample;
mod spec;
mod state;
mod status;

pub use document::{document, headline};
pub use governor::{Governor, Slice, Step};
pub use sample::Sample;
pub use spec::{GovernSpec, ObjectiveSpec, ServiceSpec, WatermarkSpec, key_tables};
pub use state::{State, StateError};
pub use status::{BinRecord, ForecastStatus, PlannedBin, ServiceCount, ServiceStatus, Status};

pub use ioweir_core::background::{Hold, Service, SliceTag};
