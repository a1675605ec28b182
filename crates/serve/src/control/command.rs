//! Commands of the control socket: one JSON object on each line.

use ioweir_config::{Duration, Size, format_bytes, shown};
use ioweir_core::Nanos;
use serde::{Deserialize, Serialize};

use crate::backend::BLOCK_BYTES;
use crate::engine::{Rates, ServiceOrder};

/// The longest line that is read.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// A parsed command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Report the state.
    State {},
    /// List the clients.
    Clients {},
    /// End the client of this number.
    Kick(u64),
    /// Take no more clients, answer the connected ones, and end: within this time, if it is given.
    Drain {
        /// The time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<Duration>,
    },
    /// Give the listening sockets to the process that asks, over this connection, and drain.
    HandOver {},
    /// Make these assignments, all of them or none.
    Set(Vec<String>),
    /// Read the spec's file again.
    Reload {},
    /// Write the spec as it is now.
    Save {},
    /// Give an order to a service.
    Service(ServiceCommand),
    /// Add or remove an export.
    Export(ExportCommand),
    /// Change a device, or open it again.
    Device(DeviceCommand),
    /// List or change the volumes of a device.
    Volume(VolumeCommand),
    /// List, take or delete snapshots of a device.
    Snapshot(SnapshotCommand),
}

/// A command about an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ExportCommand {
    /// Add one.
    Add {
        /// The name of the export.
        name: String,
        /// The other keys of the export: `device=d`.
        #[serde(default)]
        keys: Vec<String>,
    },
    /// Remove one.
    Remove {
        /// The name of the export.
        name: String,
        /// Whether connected clients get the rest of their answers; without it, connected clients prevent the removal.
        #[serde(default)]
        drain: bool,
    },
}

/// A command about a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DeviceCommand {
    /// Add one.
    Add {
        /// The name of the device.
        name: String,
        /// The other keys of the device: `backend=memory`.
        #[serde(default)]
        keys: Vec<String>,
    },
    /// Remove the device of this name.
    Remove(String),
    /// Make a device longer.
    Resize {
        /// The name of the device.
        name: String,
        /// The new length of the device.
        size: Size,
    },
    /// Open the device of this name again after a failure.
    Reopen(String),
}

/// A command about the volumes of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum VolumeCommand {
    /// List the volumes of the device of this name.
    List(String),
    /// Add a volume, which reads as zeroes.
    Add {
        /// The device.
        device: String,
        /// The name of the volume.
        name: String,
        /// The length of the volume.
        size: Size,
    },
    /// Give a volume another length.
    Resize {
        /// The device.
        device: String,
        /// The name of the volume.
        name: String,
        /// The new length of the volume.
        size: Size,
    },
    /// Remove a volume.
    Remove {
        /// The device.
        device: String,
        /// The name of the volume.
        name: String,
    },
}

/// A command about the snapshots of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SnapshotCommand {
    /// List the snapshots of the device of this name.
    List(String),
    /// Take one.
    Take {
        /// The device.
        device: String,
        /// The name of the snapshot; if absent, it is made of the time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Delete one.
    Delete {
        /// The device.
        device: String,
        /// The name of the snapshot.
        name: String,
    },
}

/// An order to a service: exactly one of `run`, `pause` and `release`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceCommand {
    /// The name of the service.
    pub name: String,
    /// To work while the lease holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunLease>,
    /// To rest while the lease holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseLease>,
    /// To do its default again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<Release>,
}

/// A lease to work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLease {
    /// For how long.
    pub lease: Duration,
    /// The most bytes in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second_max: Option<u64>,
    /// The bytes in a second that the service gets even if clients want all of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation_bytes_per_second: Option<u64>,
    /// The longest request of a service that reads or moves data, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_bytes_max: Option<u64>,
    /// The most requests of clients beside which the service starts one of its own; its spec says where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_depth: Option<u32>,
}

/// An order to rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseLease {
    /// For how long.
    pub lease: Duration,
}

/// The end of a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {}

impl ServiceCommand {
    /// The order, with a description of it.
    ///
    /// # Errors
    /// What is wrong with the command, in words.
    pub fn order(&self) -> Result<(ServiceOrder, String), String> {
        let name = shown(&self.name);
        let wrong = |what: &str| Err(format!("service {name}: {what}"));
        let lasting = |lease: &Duration| lease.nanos() > Nanos::ZERO;
        match (&self.run, &self.pause, &self.release) {
            (Some(run), None, None) if lasting(&run.lease) => {
                let RunLease { lease, bytes_per_second_max: most, .. } = *run;
                let RunLease { reservation_bytes_per_second: reserved, request_bytes_max: request, .. } = *run;
                let idle_depth = run.idle_depth;
                let at_most = match most {
                    Some(0) => return wrong("bytes_per_second_max: 0 would never let it work; pause it"),
                    Some(rate) => format!(", at most {}/s", format_bytes(rate)),
                    None => String::new(),
                };
                let at_least = match reserved {
                    Some(0) => return wrong("reservation_bytes_per_second: 0 reserves nothing; leave it out"),
                    Some(rate) if most.is_some_and(|most| most < rate) => {
                        return wrong("reservation_bytes_per_second: more than bytes_per_second_max");
                    }
                    Some(rate) => format!(", {}/s reserved", format_bytes(rate)),
                    None => String::new(),
                };
                let in_requests = match request {
                    Some(bytes) if bytes == 0 || bytes % BLOCK_BYTES > 0 => {
                        return wrong("request_bytes_max: not a whole number of blocks of 4 KiB");
                    }
                    Some(bytes) => format!(", in requests of at most {}", format_bytes(bytes)),
                    None => String::new(),
                };
                let beside = match idle_depth {
                    Some(0) => ", while clients have no requests".to_owned(),
                    Some(depth) => format!(", beside at most {depth} requests of clients"),
                    None => String::new(),
                };
                let order = ServiceOrder::Run(lease.nanos(), Rates { most, reserved, request, idle_depth });
                Ok((order, format!("service {name}: runs for {lease}{at_most}{at_least}{in_requests}{beside}")))
            }
            (None, Some(PauseLease { lease }), None) if lasting(lease) => {
                Ok((ServiceOrder::Pause(lease.nanos()), format!("service {name}: rests for {lease}")))
            }
            (None, None, Some(Release {})) => {
                Ok((ServiceOrder::Release, format!("service {name}: does its default again")))
            }
            (Some(_), None, None) | (None, Some(_), None) => wrong("lease: must be longer than nothing"),
            _ => wrong("takes one of run, pause and release"),
        }
    }
}

impl Command {
    /// Parses a line, with or without its end.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        if line.len() > LINE_BYTES_MAX {
            return Err(format!("a line longer than {LINE_BYTES_MAX} bytes is not read"));
        }
        serde_json::from_slice(line).map_err(|error| {
            let expected = r#"{"state":{}}, {"clients":{}}, {"kick":NUMBER}, {"drain":{}}, {"hand_over":{}}, {"set":["KEY=VALUE"]}, {"reload":{}}, {"save":{}}, {"export":{"add":{"name":"NAME","keys":["KEY=VALUE"]}}}, {"export":{"remove":{"name":"NAME"}}}, {"device":{"add":{"name":"NAME","keys":["KEY=VALUE"]}}}, {"device":{"remove":"NAME"}}, {"device":{"resize":{"name":"NAME","size":"2GiB"}}}, {"device":{"reopen":"NAME"}}, {"volume":{"list":"DEVICE"}}, {"volume":{"add":{"device":"DEVICE","name":"NAME","size":"1GiB"}}}, {"volume":{"resize":...}}, {"volume":{"remove":{"device":"DEVICE","name":"NAME"}}}, {"snapshot":{"list":"DEVICE"}}, {"snapshot":{"take":{"device":"DEVICE"}}}, {"snapshot":{"delete":{"device":"DEVICE","name":"NAME"}}} or {"service":{"name":"NAME","run":{"lease":"10s"}}}"#;
            format!("not a command: {error}\n  expected: one of {expected}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_have_an_error() {
        assert_eq!(Command::parse(b"{\"state\":{}}\n"), Ok(Command::State {}));
        assert_eq!(Command::parse(b"{\"reload\":{}}"), Ok(Command::Reload {}));
        assert_eq!(Command::parse(b"{\"kick\":7}"), Ok(Command::Kick(7)));
        assert_eq!(Command::parse(b"{\"set\":[\"a=1\"]}"), Ok(Command::Set(vec!["a=1".into()])));
        let reopen = Command::Device(DeviceCommand::Reopen("d".into()));
        assert_eq!(Command::parse(b"{\"device\":{\"reopen\":\"d\"}}"), Ok(reopen));
        for wrong in [&b""[..], b"{}", b"state", b"{\"stop\":{}}", b"{\"state\":{\"a\":1}}", b"{\"set\":[1]}", b"\xff"]
        {
            assert!(Command::parse(wrong).unwrap_err().starts_with("not a command: "));
        }
        assert!(Command::parse(&[b' '; LINE_BYTES_MAX + 1]).unwrap_err().contains("longer than 65536 bytes"));
    }
}
