//! Commands of the control socket: one JSON object on each line. Most of them are the verbs of `ioweir ctl`, too, with the comments here
//! as their help; the verbs that print a list or take a single value are in the command line.

use clap::{Args, Subcommand};
use ioweir_config::{ByteRate, Duration, Size, UnitError, format_bytes, shown};
use ioweir_core::Nanos;
use serde::{Deserialize, Serialize};

use crate::backend::BLOCK_BYTES;
use crate::engine::{Rates, ServiceOrder};

/// The longest line that is read.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// A parsed command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Report the state.
    #[command(skip)]
    State {},
    /// List the clients.
    #[command(skip)]
    Clients {},
    /// End the client of this number.
    #[command(skip)]
    Kick(u64),
    /// Take no more clients, answer what those there are have asked for, and end with code 0
    Drain {
        /// Longest time, such as 30s; as long as it takes where absent. SIGTERM ends it, too
        #[arg(long, value_name = "TIME")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<Duration>,
    },
    /// Give the listening sockets to the process that asks, over this connection, and drain.
    #[command(skip)]
    HandOver {},
    /// Make these assignments, all of them or none.
    #[command(skip)]
    Set(Vec<String>),
    /// Read the spec file again, as SIGHUP does, and apply all of it or nothing
    Reload {},
    /// Write the spec as it is now.
    #[command(skip)]
    Save {},
    /// Give an order to a service.
    #[command(skip)]
    Service(ServiceCommand),
    /// Add an export, or remove one
    #[command(subcommand)]
    Export(ExportCommand),
    /// Change a device, or open it again.
    #[command(skip)]
    Device(DeviceCommand),
    /// List or change the volumes of a device.
    #[command(skip)]
    Volume(VolumeCommand),
    /// List, take or delete snapshots of a device.
    #[command(skip)]
    Snapshot(SnapshotCommand),
}

/// A command about an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ExportCommand {
    /// Add an export; `save` keeps it
    Add {
        /// Name of the export
        #[arg(value_name = "NAME")]
        name: String,
        /// Other keys of the export, as in a spec: device=d volume=v weight=300
        #[arg(value_name = "KEY=VALUE", required = true)]
        #[serde(default)]
        keys: Vec<String>,
    },
    /// Remove an export; refused while it has clients
    Remove {
        /// Name of the export
        #[arg(value_name = "NAME")]
        name: String,
        /// Let its clients have the rest of their answers, and end them
        #[arg(long)]
        #[serde(default)]
        drain: bool,
    },
}

/// A command about a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DeviceCommand {
    /// Open a device; `save` keeps it. Exports show it once they are added
    Add {
        /// Name of the device
        #[arg(value_name = "NAME")]
        name: String,
        /// Other keys of the device, as in a spec: backend=file path=/srv/d scheduler=sfq
        #[arg(value_name = "KEY=VALUE", required = true)]
        #[serde(default)]
        keys: Vec<String>,
    },
    /// Make the file of a device longer, or take note that a block device is; `save` keeps it. Clients see it when they connect
    Resize {
        /// Name of the device
        #[arg(value_name = "NAME")]
        name: String,
        /// New length of the device, such as 2TiB; it does not become shorter
        #[arg(value_name = "SIZE")]
        size: Size,
    },
    /// Reopen a device after a failed flush, to serve what is durable
    Reopen(DeviceName),
    /// Remove a device, and close its file; refused while exports show it
    Remove(DeviceName),
}

/// The name of a device: in JSON, the text alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(transparent)]
pub struct DeviceName {
    /// Name of the device
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// A command about the volumes of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum VolumeCommand {
    /// List the volumes of the device of this name.
    #[command(skip)]
    List(String),
    /// Add a volume, which reads as zeroes
    Add {
        /// Name of the device in the spec
        #[arg(value_name = "DEVICE")]
        device: String,
        /// Name of the volume
        #[arg(value_name = "NAME")]
        name: String,
        /// Length of the volume, such as 10GiB
        #[arg(value_name = "SIZE")]
        size: Size,
    },
    /// Give a volume another length, in place; less is refused while it has clients
    Resize {
        /// Name of the device in the spec
        #[arg(value_name = "DEVICE")]
        device: String,
        /// Name of the volume
        #[arg(value_name = "NAME")]
        name: String,
        /// New length of the volume, such as 20GiB
        #[arg(value_name = "SIZE")]
        size: Size,
    },
    /// Remove a volume and what is in it; refused while it has clients
    Remove {
        /// Name of the device in the spec
        #[arg(value_name = "DEVICE")]
        device: String,
        /// Name of the volume
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// A command about the snapshots of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SnapshotCommand {
    /// List the snapshots of the device of this name.
    #[command(skip)]
    List(String),
    /// Take a snapshot of a device; clients wait for a moment
    Take {
        /// Name of the device in the spec
        #[arg(value_name = "DEVICE")]
        device: String,
        /// Name of the snapshot, and of its file; made of the time if left out
        #[arg(value_name = "NAME")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Delete a snapshot; its space is given back by the service of kind snapshot-delete
    Delete {
        /// Name of the device in the spec
        #[arg(value_name = "DEVICE")]
        device: String,
        /// Name of the snapshot
        #[arg(value_name = "NAME")]
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

// The lease of a service that works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RunLease {
    /// For how long, such as 10m; then its default holds again
    #[arg(long, value_name = "TIME")]
    pub lease: Duration,
    /// The most that it does in a second, such as 50MiB/s; its share still holds
    #[arg(long = "rate", value_name = "RATE", value_parser = bytes_per_second)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second_max: Option<u64>,
    /// Rate that the service gets even if clients want all of the device, such as 10MiB/s
    #[arg(long = "reservation", value_name = "RATE", value_parser = bytes_per_second)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation_bytes_per_second: Option<u64>,
    /// The longest request of a scrub or relocation, such as 64KiB
    #[arg(long = "request", value_name = "SIZE", value_parser = bytes)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_bytes_max: Option<u64>,
    /// Start its requests only beside at most so many of clients: 0 for an idle class
    #[arg(long, value_name = "COUNT")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_depth: Option<u32>,
}

// The lease of a service that rests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct PauseLease {
    /// For how long, such as 10m; then its default holds again
    #[arg(long, value_name = "TIME")]
    pub lease: Duration,
}

/// The end of a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {}

fn bytes_per_second(text: &str) -> Result<u64, UnitError> {
    text.parse::<ByteRate>().map(|rate| rate.0)
}

fn bytes(text: &str) -> Result<u64, UnitError> {
    text.parse::<Size>().map(|size| size.0)
}

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
        let reopen = Command::Device(DeviceCommand::Reopen(DeviceName { name: "d".into() }));
        assert_eq!(Command::parse(b"{\"device\":{\"reopen\":\"d\"}}"), Ok(reopen));
        for wrong in [&b""[..], b"{}", b"state", b"{\"stop\":{}}", b"{\"state\":{\"a\":1}}", b"{\"set\":[1]}", b"\xff"]
        {
            assert!(Command::parse(wrong).unwrap_err().starts_with("not a command: "));
        }
        assert!(Command::parse(&[b' '; LINE_BYTES_MAX + 1]).unwrap_err().contains("longer than 65536 bytes"));
    }
}
