//! The counts of a block server of this program, over its control socket.
//!
//! Its own services are clients of its scheduler, too. They are no load of the foreground, and are left out.

use std::path::PathBuf;

use super::{Reading, Source, SourceError, span};
use crate::clock::Moment;
use crate::spec::SourceKeys;
use ioweir_serve::control::{Command, ask};
use ioweir_serve::spec::Listen;
use ioweir_serve::watch::{ClassState, State};

/// The kind of a class that is a service of the server itself.
const SERVICE: &str = "service";

/// A block server.
#[derive(Debug)]
pub struct Server {
    socket: PathBuf,
    device: Option<String>,
    last: Option<(Moment, Seen)>,
}

/// The counters of a server at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    /// The server's own time.
    seconds: f64,
    requests: u64,
    bytes: u64,
    written_bytes: u64,
    discarded_bytes: u64,
    /// Blocks that were written with a checksum, and those of them that had none before.
    blocks_written: u64,
    blocks_new: u64,
    /// The time of the clients' requests in the device, added up.
    client_seconds: f64,
    /// The time with at least one request of a service in the device.
    service_seconds: f64,
    latency_seconds: Option<f64>,
}

impl Server {
    /// The server of checked keys.
    ///
    /// # Errors
    /// If the keys name no control socket.
    pub fn new(keys: &SourceKeys) -> Result<Self, SourceError> {
        match &keys.control {
            Some(Listen::Unix(socket)) => Ok(Self { socket: socket.clone(), device: keys.device.clone(), last: None }),
            _ => Err(SourceError("there is no control socket".into())),
        }
    }

    fn look(&self) -> Result<Seen, SourceError> {
        let state = ask(&self.socket, &Command::State {}).map_err(|error| SourceError(error.to_string()))?;
        let state: State = serde_json::from_value(state)
            .map_err(|error| SourceError(format!("the server's state cannot be read: {error}")))?;
        let is_ours = |device: &str| self.device.as_deref().is_none_or(|wanted| wanted == device);
        if !state.devices.iter().any(|device| is_ours(&device.name)) {
            let name = self.device.as_deref().unwrap_or_default();
            return Err(SourceError(format!("the server has no device `{name}`")));
        }
        let services = state.services.iter().filter(|service| is_ours(&service.device));
        let service_seconds = services.map(|service| service.report.device_seconds).sum();
        let mut seen = Seen { seconds: state.now_seconds, service_seconds, ..Seen::default() };
        let checksums = state.devices.iter().filter(|device| is_ours(&device.name)).map(|device| &device.checksums);
        for checksums in checksums.flatten() {
            seen.blocks_written += checksums.counts.blocks_written;
            seen.blocks_new += checksums.counts.blocks_new;
        }
        for class in state.classes.iter().filter(|class| is_ours(&class.device)) {
            seen.add(class);
        }
        Ok(seen)
    }
}

impl Seen {
    fn add(&mut self, class: &ClassState) {
        if class.kind == SERVICE {
            return;
        }
        self.client_seconds += class.seconds_by_layer.get("device").copied().unwrap_or(0.0);
        for (operation, total) in &class.totals {
            self.requests += total.requests;
            match operation.as_str() {
                "write" => self.written_bytes += total.bytes,
                "discard" => self.discarded_bytes += total.bytes,
                _ => {}
            }
            if matches!(operation.as_str(), "read" | "write") {
                self.bytes += total.bytes;
            }
        }
        let last = class.seconds.last().filter(|second| second.latency_samples > 0);
        let latency = last.and_then(|second| second.latency_p99_seconds);
        self.latency_seconds = match (self.latency_seconds, latency) {
            (Some(one), Some(other)) => Some(f64::max(one, other)),
            (one, other) => one.or(other),
        };
    }

    /// The reading between two looks at a server that has gone on; `None` if it has started again.
    fn since(&self, before: &Self, seconds: f64) -> Option<Reading> {
        let rate = |now: u64, before: u64| now.checked_sub(before).map(|count| count as f64 / seconds);
        let clients = (self.client_seconds - before.client_seconds) / seconds;
        let services = ((self.service_seconds - before.service_seconds) / seconds).min(1.0);
        if self.seconds < before.seconds || clients < 0.0 || services < 0.0 {
            return None;
        }
        Some(Reading {
            requests: Some(rate(self.requests, before.requests)?),
            bytes: Some(rate(self.bytes, before.bytes)?),
            written_bytes: Some(rate(self.written_bytes, before.written_bytes)?),
            discarded_bytes: Some(rate(self.discarded_bytes, before.discarded_bytes)?),
            // A server without checksums does not know the share of new blocks.
            unique: rate(self.blocks_new, before.blocks_new)
                .zip(rate(self.blocks_written, before.blocks_written).filter(|written| *written > 0.0))
                .map(|(new, written)| (new / written).min(1.0)),
            // Requests in the device on average: where one is there all the time, nothing of it is free. A device that serves
            // several at once may have more room than that.
            busy: Some((clients + services).min(1.0)),
            background_busy: Some(services),
            latency_seconds: self.latency_seconds,
            stalled: None,
        })
    }
}

impl Source for Server {
    fn name(&self) -> String {
        format!("server unix:{}", self.socket.display())
    }

    fn read(&mut self, now: Moment) -> Result<Reading, SourceError> {
        let seen = self.look().inspect_err(|_| self.last = None)?;
        let Some((before, seen_before)) = self.last.replace((now, seen)) else {
            return Err(SourceError("the first look: nothing to compare with yet".into()));
        };
        let seconds = span(before, now)?;
        seen.since(&seen_before, seconds).ok_or_else(|| SourceError("the server has started again".into()))
    }
}
