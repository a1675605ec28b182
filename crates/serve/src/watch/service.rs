//! The state of a service as JSON.

use ioweir_core::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine::ServiceReport;
use crate::spec::{Class, Spec};

/// A service, by the numbers since the server began. Its requests are those of its class, which has the same name.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct ServiceState {
    /// The name in the spec.
    pub name: String,
    /// The kind of the service: `scrub`, `relocate` and others.
    pub kind: String,
    /// The device.
    pub device: String,
    /// Whether the service has work and may do it.
    pub running: bool,
    /// Why the service does not ask for more, in words.
    pub waits_because: String,
    /// How long the service's lease still holds, if it has one.
    pub lease_left_seconds: Option<f64>,
    /// The bytes that are still to be done.
    pub owed_bytes: u64,
    /// The bytes that were done.
    pub done_bytes: u64,
    /// The time in which the device had at least one request of the service.
    pub device_seconds: f64,
    /// The damage that the service has found.
    pub found: FoundState,
    /// When the service last had nothing left to do, in seconds since 1970.
    pub last_finished: Option<f64>,
    /// When the work that is left became due, in seconds since 1970.
    pub due_since: Option<f64>,
    /// The time since the service's deadline; zero before it.
    pub late_seconds: f64,
}

/// Damage that a service has found since the server began.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct FoundState {
    /// Bytes whose checksums were wrong.
    pub damaged_bytes: u64,
    /// Bytes of requests that failed.
    pub failed_bytes: u64,
}

impl ServiceState {
    pub(super) fn new(spec: &Spec, classes: &[Class], report: &ServiceReport) -> Option<Self> {
        let class = classes.get(report.class as usize)?;
        Some(Self {
            name: class.name.clone(),
            kind: spec.service.get(&class.name)?.kind.row().name.into(),
            device: spec.device[class.device].name.clone(),
            running: report.is_running,
            waits_because: report.wait.words().into(),
            lease_left_seconds: report.lease_left.map(Nanos::as_seconds),
            owed_bytes: report.owed_bytes,
            done_bytes: report.done_bytes,
            device_seconds: report.device.as_seconds(),
            found: FoundState { damaged_bytes: report.damaged_bytes, failed_bytes: report.failed_bytes },
            last_finished: report.last_finished.map(Nanos::as_seconds),
            due_since: report.due_since.map(Nanos::as_seconds),
            late_seconds: report.late.as_seconds(),
        })
    }
}
