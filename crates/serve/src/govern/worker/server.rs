//! A worker that is a service of a block server, which is told over its control socket.
//!
//! The server follows the last word for as long as its lease lasts; then the service does what the server's spec says.

use std::path::PathBuf;

use ioweir_core::Nanos;
use serde_json::{Value, json};

use super::{Position, Progress, Task, Worker, WorkerError};
use crate::control::{AskError, ask};
use crate::govern::spec::WorkerKeys;
use crate::spec::Listen;

/// A service of a block server.
#[derive(Debug)]
pub struct Service {
    socket: PathBuf,
    name: String,
    lease: String,
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
        let name = keys.service.clone().unwrap_or_else(|| name.to_owned());
        Ok(Self { socket, name, lease: keys.lease.to_string() })
    }

    fn tell(&self, what: &str, mut how: Value) -> Result<(), WorkerError> {
        if what != "release" {
            how["lease"] = self.lease.clone().into();
        }
        let mut order = json!({ "name": self.name });
        order[what] = how;
        ask(&self.socket, &json!({ "service": order })).map(drop).map_err(of_ask)
    }
}

fn of_ask(error: AskError) -> WorkerError {
    WorkerError(error.to_string())
}

impl Worker for Service {
    fn run(&mut self, task: &Task) -> Result<(), WorkerError> {
        let how = task.bytes_per_second_max.map_or_else(|| json!({}), |most| json!({ "bytes_per_second_max": most }));
        self.tell("run", how)
    }

    fn pause(&mut self) -> Result<(), WorkerError> {
        self.tell("pause", json!({}))
    }

    fn end(&mut self) -> Result<(), WorkerError> {
        self.pause()
    }

    fn progress(&mut self) -> Result<Progress, WorkerError> {
        let state = ask(&self.socket, &json!({ "state": {} })).map_err(of_ask)?;
        let services = state["services"].as_array().map(Vec::as_slice).unwrap_or_default();
        let its = services.iter().find(|service| service["name"] == self.name.as_str());
        let its = its.ok_or_else(|| WorkerError(format!("the server has no service `{}`", self.name)))?;
        Ok(read(its))
    }

    fn position(&self) -> Position {
        // The server keeps how far it is.
        Position::default()
    }

    fn release(self: Box<Self>) -> Result<(), WorkerError> {
        self.tell("release", json!({}))
    }
}

/// What the state of a server says about a service.
fn read(service: &Value) -> Progress {
    let owed_bytes = service["owed_bytes"].as_u64();
    let device = service["device_seconds"].as_f64().filter(|seconds| (0.0..1e9).contains(seconds));
    let found = &service["found"];
    let note = match found {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Progress {
        done_bytes: service["done_bytes"].as_u64(),
        owed_bytes,
        device: device.map(|seconds| Nanos((seconds * 1e9) as u64)),
        is_finished: owed_bytes == Some(0),
        note,
    }
}
