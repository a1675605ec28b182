//! A worker that is a service of a block server, which is told over its control socket.
//!
//! The server follows the last word for as long as its lease lasts; then the service does what the server's spec says.

use std::path::PathBuf;

use ioweir_config::{Duration, format_bytes};
use ioweir_core::Nanos;
use ioweir_core::background::Service as Kind;

use super::{Position, Progress, Task, Worker, WorkerError};
use crate::spec::WorkerKeys;
use ioweir_serve::control::{AskError, Command, PauseLease, Release, RunLease, ServiceCommand, ask};
use ioweir_serve::engine::ServiceReport;
use ioweir_serve::spec::Listen;
use ioweir_serve::watch::State;

/// The longest request of an idle class that reads or moves data: what a client may have to wait for.
const REQUEST_BYTES: u64 = 64 << 10;
/// The longest request of an idle class whose work would be late.
const REQUEST_BYTES_BEHIND: u64 = 1 << 20;

/// A service of a block server.
#[derive(Debug)]
pub struct Service {
    socket: PathBuf,
    name: String,
    lease: Duration,
    /// How it works as an idle class: the most requests of clients beside it, and the longest of its own.
    idle_depth: u32,
    request_bytes_max: Option<u64>,
    /// The longest of its requests while it is behind.
    request_bytes_behind: Option<u64>,
    /// Why the server did not give it its last reservation.
    unreserved: Option<String>,
}

impl Service {
    /// The service of checked keys; `name` is the worker's.
    ///
    /// # Errors
    /// If the keys name no control socket.
    pub fn new(name: &str, keys: &WorkerKeys) -> Result<Self, WorkerError> {
        let Some(Listen::Unix(socket)) = keys.control.clone() else {
            return Err(WorkerError("there is no control socket".into()));
        };
        // Requests of services that read no data have a length of their own.
        let has_data = [Kind::Scrub, Kind::Relocation].iter().any(|kind| kind.name() == name);
        let told = keys.request_bytes_max.map(|most| most.0);
        Ok(Self {
            socket,
            name: keys.service.clone().unwrap_or_else(|| name.to_owned()),
            lease: keys.lease,
            idle_depth: keys.idle_depth.unwrap_or(0),
            request_bytes_max: told.or(has_data.then_some(REQUEST_BYTES)),
            request_bytes_behind: told.or(has_data.then_some(REQUEST_BYTES_BEHIND)),
            unreserved: None,
        })
    }

    fn lease_of(&self, task: &Task) -> RunLease {
        let is_idle_class = task.bytes_per_second_max.is_none();
        let request_bytes = if task.is_behind { self.request_bytes_behind } else { self.request_bytes_max };
        RunLease {
            lease: self.lease,
            bytes_per_second_max: task.bytes_per_second_max.map(|most| most.max(1)),
            reservation_bytes_per_second: task.reservation_bytes_per_second,
            idle_depth: is_idle_class.then_some(self.idle_depth),
            request_bytes_max: request_bytes.filter(|_| is_idle_class),
        }
    }

    fn tell(&self, order: ServiceCommand) -> Result<(), WorkerError> {
        self.ask(order).map_err(of_ask)
    }

    fn ask(&self, order: ServiceCommand) -> Result<(), AskError> {
        let order = ServiceCommand { name: self.name.clone(), ..order };
        ask(&self.socket, &Command::Service(order)).map(drop)
    }
}

fn of_ask(error: AskError) -> WorkerError {
    WorkerError(error.to_string())
}

impl Worker for Service {
    fn run(&mut self, task: &Task) -> Result<(), WorkerError> {
        let run = self.lease_of(task);
        let order = |run| ServiceCommand { run: Some(run), ..ServiceCommand::default() };
        self.unreserved = None;
        match self.ask(order(run.clone())) {
            // Without the reservation the service still gets the part of its weight.
            Err(AskError::Refused(why)) if run.reservation_bytes_per_second.is_some() => {
                self.tell(order(RunLease { reservation_bytes_per_second: None, ..run }))?;
                self.unreserved = Some(why);
                Ok(())
            }
            answer => answer.map_err(of_ask),
        }
    }

    fn pause(&mut self) -> Result<(), WorkerError> {
        let pause = PauseLease { lease: self.lease };
        self.tell(ServiceCommand { pause: Some(pause), ..ServiceCommand::default() })
    }

    fn end(&mut self) -> Result<(), WorkerError> {
        self.pause()
    }

    fn progress(&mut self) -> Result<Progress, WorkerError> {
        let state = ask(&self.socket, &Command::State {}).map_err(of_ask)?;
        let state: State = serde_json::from_value(state)
            .map_err(|error| WorkerError(format!("the server's state cannot be read: {error}")))?;
        let its = state.services.iter().find(|service| service.name == self.name);
        let its = its.map(|its| Progress { unreserved: self.unreserved.clone(), ..read(&its.report) });
        its.ok_or_else(|| WorkerError(format!("the server has no service `{}`", self.name)))
    }

    fn position(&self) -> Position {
        // The server itself keeps how far the service is.
        Position::default()
    }

    fn release(self: Box<Self>) -> Result<(), WorkerError> {
        self.tell(ServiceCommand { release: Some(Release {}), ..ServiceCommand::default() })
    }
}

/// The progress of a service, from the state of its server.
fn read(service: &ServiceReport) -> Progress {
    let found = &service.found;
    let found = [("damaged", found.damaged_bytes), ("not readable", found.failed_bytes)];
    let words = found.into_iter().filter(|(_, bytes)| *bytes > 0);
    let words: Vec<String> = words.map(|(what, bytes)| format!("{} {what}", format_bytes(bytes))).collect();
    let nanos = (service.device_seconds.max(0.0) * 1e9) as u64;
    Progress {
        done_bytes: Some(service.done_bytes),
        owed_bytes: Some(service.owed_bytes),
        device: Some(Nanos(nanos)),
        is_finished: service.owed_bytes == 0,
        note: words.join(", "),
        unreserved: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_late_idle_work_has_long_requests() {
        let table = "kind = \"server\"\ncontrol = \"unix:/run/none\"\n";
        let length = |keys: &str, rate, is_behind| {
            let keys: WorkerKeys = toml::from_str(&format!("{table}{keys}")).unwrap();
            let task = Task { bytes_per_second_max: rate, is_behind, ..Task::default() };
            Service::new("scrub", &keys).unwrap().lease_of(&task).request_bytes_max
        };
        assert_eq!([length("", None, false), length("", None, true)], [Some(64 << 10), Some(1 << 20)]);
        assert_eq!(length("request_bytes_max = \"128KiB\"", None, true), Some(128 << 10), "the operator's word counts");
        assert_eq!(length("", Some(1), true), None);
    }
}
