//! Arguments of `ctl`.

use clap::{Args, Subcommand};
use ioweir_serve::control::{Command, DeviceCommand, PauseLease, RunLease, SnapshotCommand, VolumeCommand};

use super::WidthArguments;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir ctl disks.toml state\n  ioweir ctl disks.toml clients\n  ioweir ctl disks.toml set export.gold.weight=300\n  \
ioweir ctl unix:/run/ioweir.control reload\n\nThe server needs `control = \"unix:PATH\"` under [server] in its spec."
)]
pub(crate) struct CtlArguments {
    /// Server: its spec file, or its control socket as unix:PATH
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    #[command(flatten)]
    pub(crate) width: WidthArguments,

    #[command(subcommand)]
    pub(crate) verb: CtlVerb,
}

// The verbs that print a list or take a single value; the others are the commands of the control socket.
#[derive(Debug, Subcommand)]
pub(crate) enum CtlVerb {
    /// Show who is served, who waits, and why
    State(JsonArguments),
    /// List the clients: who they are, and what they have asked for
    Clients(JsonArguments),
    /// End a client: what it has queued is withdrawn
    Kick {
        /// Number of the client, as `clients` lists it
        #[arg(value_name = "NUMBER")]
        number: u64,
    },
    /// Change keys of the running server's spec, all together or none
    #[command(after_help = "Keys: export.NAME.KEY, tenant.NAME.KEY and group.NAME.KEY, where KEY is\n\
one of a share (`ioweir doc serve` lists them); service.NAME.KEY, also with\n\
default, every, deadline, depth, idle_depth and request_bytes_max; server.connections_max,\n\
connections_per_peer_max, handshake_timeout, stall_timeout,\n\
reading_rate_min, idle_timeout and shutdown_timeout of server.\n\
Values are written as in a spec, without quotes; `none` removes a key.")]
    Set {
        /// Key of the spec, and its new value
        #[arg(value_name = "KEY=VALUE", required = true)]
        assignments: Vec<String>,
    },
    /// Add, resize, reopen, remove and list devices
    #[command(subcommand)]
    Device(DeviceVerb),
    /// Add, resize, remove and list the volumes of a device
    #[command(subcommand)]
    Volume(VolumeVerb),
    /// Take, delete and list snapshots of a device
    #[command(subcommand)]
    Snapshot(SnapshotVerb),
    /// List the services, and command them
    #[command(subcommand)]
    Service(ServiceVerb),
    /// Write the running spec, with its changes, as a spec file
    Save {
        /// File to write, or `-` for standard output; the comments of the spec file are lost
        #[arg(value_name = "FILE|-", default_value = "-", hide_default_value = true)]
        file: String,
    },
    #[command(flatten)]
    Command(Command),
}

#[derive(Args, Debug)]
pub(crate) struct JsonArguments {
    /// Write JSON to a file; `-` writes to standard output instead of the table
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct ListArguments {
    /// Name of the device in the spec
    #[arg(value_name = "DEVICE")]
    pub(crate) device: String,
    #[command(flatten)]
    pub(crate) json: JsonArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeviceVerb {
    /// Show the devices, and the exports that show them
    List(JsonArguments),
    #[command(flatten)]
    Command(DeviceCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotVerb {
    /// Show the snapshots of a device
    List(ListArguments),
    #[command(flatten)]
    Command(SnapshotCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum VolumeVerb {
    /// Show the volumes of a device, and the exports that show them
    List(ListArguments),
    #[command(flatten)]
    Command(VolumeCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceVerb {
    /// Show what each owes, has done and has found, and why it waits
    List(JsonArguments),
    /// Let a service work while a lease holds
    Run {
        /// Name of the service in the spec
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        run: RunLease,
    },
    /// Let a service rest while a lease holds
    Pause {
        /// Name of the service in the spec
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        pause: PauseLease,
    },
    /// End the lease of a service: its default holds again
    Release {
        /// Name of the service in the spec
        #[arg(value_name = "NAME")]
        name: String,
    },
}
