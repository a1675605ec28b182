//! Workers: programs and services that do the work of a service, and can be told to run and to rest.
//!
//! A worker is called from a thread of its own ([`super::hand`]), because its calls may hang. [`Commands`] runs programs of this machine,
//! [`Service`] talks to a block server.

mod commands;
mod progress;
mod server;

use std::fmt;

use ioweir_core::Nanos;
use serde::{Deserialize, Serialize};

pub use commands::Commands;
pub use progress::Patterns;
pub use server::Service;

use super::spec::{WorkerKeys, WorkerKind};

/// The work that a worker may do now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// The most bytes that the worker pays before it asks again, where it can count.
    pub bytes: u64,
    /// The most that it does in a second; `None` for a worker that yields to the foreground by itself.
    pub bytes_per_second_max: Option<u64>,
    /// The rate that it should get even if the foreground wants all of the device, where the worker can see to that.
    pub reservation_bytes_per_second: Option<u64>,
    /// Whether its requests may be longer than usual, because the work is nearly due and would be late.
    pub is_behind: bool,
}

impl Task {
    /// Whether both say the same rates and lengths of requests.
    #[must_use]
    pub fn has_rates_of(&self, other: &Self) -> bool {
        let rates = |task: &Self| (task.bytes_per_second_max, task.reservation_bytes_per_second, task.is_behind);
        rates(self) == rates(other)
    }
}

/// How far a worker is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The bytes done since the work was begun, if it can say; they grow until the work is finished.
    pub done_bytes: Option<u64>,
    /// The bytes left to do, if it can say.
    pub owed_bytes: Option<u64>,
    /// The device's time that the work has taken so far, if the worker can say.
    pub device: Option<Nanos>,
    /// Whether nothing is left to do.
    pub is_finished: bool,
    /// The findings, in words; empty for none.
    pub note: String,
    /// Why it was not given the reservation of its last task, if so.
    pub unreserved: Option<String>,
}

/// The part of a worker's state that is kept from one start of the governor to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Whether work has begun that is not finished.
    pub is_begun: bool,
    /// How far it is, for work that is done in parts.
    pub offset_bytes: u64,
}

/// Why a worker did not follow an order, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerError(pub String);

impl fmt::Display for WorkerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for WorkerError {}

/// A worker does the work of a service.
pub trait Worker: Send {
    /// Begins or continues the work, as the task says; a repeated call renews the lease.
    ///
    /// # Errors
    /// If the worker cannot begin.
    fn run(&mut self, task: &Task) -> Result<(), WorkerError>;

    /// Rests; a repeated call renews the lease.
    ///
    /// # Errors
    /// If the worker cannot rest.
    fn pause(&mut self) -> Result<(), WorkerError>;

    /// Ends work that does not rest.
    ///
    /// # Errors
    /// If the work cannot be ended.
    fn end(&mut self) -> Result<(), WorkerError>;

    /// How far it is.
    ///
    /// # Errors
    /// If it cannot say.
    fn progress(&mut self) -> Result<Progress, WorkerError>;

    /// The position to keep.
    fn position(&self) -> Position;

    /// Puts the service back to its default without a governor.
    ///
    /// # Errors
    /// The problem, if that failed.
    fn release(self: Box<Self>) -> Result<(), WorkerError>;
}

/// The worker of these keys, with its lease begun.
///
/// # Errors
/// If its lease cannot be begun.
pub fn open(name: &str, keys: &WorkerKeys, position: Position) -> Result<Box<dyn Worker>, WorkerError> {
    Ok(match keys.kind {
        WorkerKind::Command => Box::new(Commands::new(keys.clone(), position)?),
        WorkerKind::Unit => Box::new(Commands::new(of_unit(keys), position)?),
        WorkerKind::Server => Box::new(Service::new(name, keys)?),
    })
}

/// The longest that a worker of these keys takes to answer an order: its commands, one after another.
#[must_use]
pub fn patience(keys: &WorkerKeys) -> Nanos {
    Nanos(keys.limit.nanos().0.saturating_mul(4)).after(keys.grace.nanos())
}

/// The commands by which systemd runs a unit.
fn of_unit(keys: &WorkerKeys) -> WorkerKeys {
    let unit = keys.unit.clone().unwrap_or_default();
    let command = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).chain([unit.clone()]).collect();
    WorkerKeys {
        kind: WorkerKind::Command,
        unit: None,
        start: command(&["systemctl", "start", "--no-block"]),
        pause: command(&["systemctl", "freeze"]),
        resume: command(&["systemctl", "thaw"]),
        end: command(&["systemctl", "stop"]),
        progress: command(&["systemctl", "show", "--property=ActiveState"]),
        finished: Some("ActiveState=inactive".into()),
        failed: Some("ActiveState=failed".into()),
        ..keys.clone()
    }
}
