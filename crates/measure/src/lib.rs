//! Measurements of devices, and their uses: [`calibration`] fits a model, [`validation`] says how far a model is from a device,
//! [`advise`] what to set, and [`isolation`] what schedulers do for tenants that share a device.
//!
//! With the feature `devices`, devices of this machine are measured: [`record`] records the requests that they get, [`replay`] puts
//! the requests of a trace on one, and [`probe`] finds out what one is by reading it, or writing where that was allowed. Nothing is
//! written to a device unasked.

pub mod advise;
pub mod calibration;
pub mod isolation;
#[cfg(feature = "devices")]
pub mod probe;
#[cfg(feature = "devices")]
pub mod record;
pub mod replay;
pub mod targets;
pub mod validation;
