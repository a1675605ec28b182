//! Orders of other threads to services, and reports of services.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use ioweir_core::{Nanos, StreamId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spec;

/// A service to be set up.
#[derive(Clone, Debug)]
pub struct ServicePlan {
    /// The class as which the service works.
    pub class: StreamId,
    /// The service's keys in the spec.
    pub spec: spec::Service,
    /// The place of the state that a restart continues from.
    pub state: Option<Arc<dyn Shelf>>,
}

/// The place of a service's state across restarts: a file, whose path implements this, or memory.
pub trait Shelf: Debug + Send + Sync {
    /// The name for people.
    fn name(&self) -> String;

    /// The state that was saved last, if there is any.
    ///
    /// # Errors
    /// If they cannot be read, in words.
    fn read(&self) -> Result<Option<Vec<u8>>, String>;

    /// Replaces the saved state as a whole.
    ///
    /// # Errors
    /// If they cannot be written.
    fn keep(&self, bytes: Vec<u8>) -> io::Result<()>;

    /// Whether [`Shelf::keep`] waits for a disk, so that a thread of its own calls it.
    fn waits_for_disk(&self) -> bool;
}

/// An order of a governor or a person to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceOrder {
    /// To work for this time, at these rates.
    Run(Nanos, Rates),
    /// To rest for this time.
    Pause(Nanos),
    /// To do its default again.
    Release,
}

/// The terms of a lease: rates in bytes a second, the length of requests in bytes, and when they start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// The rate that the service may not exceed.
    pub most: Option<u64>,
    /// The rate that the service gets even if clients want all of the device.
    pub reserved: Option<u64>,
    /// The longest request.
    pub request: Option<u64>,
    /// The most requests of clients beside which the service starts one of its own, in place of the `idle_depth` of its spec.
    pub idle_depth: Option<u32>,
}

/// Why a service does not ask for more work at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceWait {
    /// The service has as many requests under way as it may.
    #[default]
    Nothing,
    /// There is no work to do.
    NothingOwed,
    /// The service has no lease, and its default is to rest.
    Rests,
    /// A lease pauses the service.
    Paused,
    /// The rate of the lease is used up.
    Rate,
    /// Clients have more requests than its `idle_depth`.
    Clients,
    /// The service is counting the bytes to be done.
    Measures,
    /// The service's progress must become durable first.
    Saves,
    /// A request has failed, and is tried again soon.
    Fails,
    /// The device has failed.
    Failed,
    /// The server is shutting down.
    Ends,
}

impl ServiceWait {
    /// The words for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "it works",
            Self::NothingOwed => "nothing is owed",
            Self::Rests => "it has no lease, and its default is to rest",
            Self::Paused => "a lease pauses it",
            Self::Rate => "the rate of its lease is used up",
            Self::Clients => "clients have requests",
            Self::Measures => "it counts the bytes to be done",
            Self::Saves => "its progress is being made durable",
            Self::Fails => "some of it has failed, and is tried again soon",
            Self::Failed => "its device has failed",
            Self::Ends => "the server ends",
        }
    }
}

/// The work that a service has done since the server began, and its state.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ServiceReport {
    /// The class as which the service works.
    #[serde(skip)]
    pub class: u32,
    /// Why the service does not ask for more.
    #[serde(skip)]
    pub wait: ServiceWait,
    /// Whether the service has work and may do it.
    pub running: bool,
    /// Why the service does not ask for more, in words.
    pub waits_because: String,
    /// How long the service's lease still holds, if it has one.
    pub lease_left_seconds: Option<f64>,
    /// The reservation that its lease has given its class, in units of cost a second, if that is in effect.
    #[serde(skip)]
    pub reservation_per_second: Option<u64>,
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
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FoundState {
    /// Bytes whose checksums were wrong.
    pub damaged_bytes: u64,
    /// Bytes of requests that failed.
    pub failed_bytes: u64,
}
