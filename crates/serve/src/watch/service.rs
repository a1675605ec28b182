//! The state of a service as JSON.

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
    /// The work that the service has done, and its state.
    #[serde(flatten)]
    pub report: ServiceReport,
}

impl ServiceState {
    pub(super) fn new(spec: &Spec, classes: &[Class], report: &ServiceReport) -> Option<Self> {
        let class = classes.get(report.class as usize)?;
        Some(Self {
            name: class.name.clone(),
            kind: spec.service.get(&class.name)?.kind.row().name.into(),
            device: spec.device[class.device].name.clone(),
            report: report.clone(),
        })
    }
}
