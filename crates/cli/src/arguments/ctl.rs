//! Arguments of `ctl`.

use clap::{Args, Subcommand};

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

#[derive(Debug, Subcommand)]
pub(crate) enum CtlVerb {
    /// Show who is served, who waits, and why
    State {
        /// Write JSON to a file; `-` writes to standard output instead of the table
        #[arg(long, value_name = "FILE|-")]
        json: Option<String>,
    },
    /// List the clients: who they are, and what they have asked for
    Clients {
        /// Write JSON to a file; `-` writes to standard output instead of the table
        #[arg(long, value_name = "FILE|-")]
        json: Option<String>,
    },
    /// End a client: what it has queued is withdrawn
    Kick {
        /// Number of the client, as `clients` lists it
        #[arg(value_name = "NUMBER")]
        number: u64,
    },
    /// Take no more clients, answer what those there are have asked for, and end with code 0
    Drain {
        /// Longest time, such as 30s; as long as it takes where absent. SIGTERM ends it, too
        #[arg(long, value_name = "TIME")]
        within: Option<String>,
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
    /// Add an export, or remove one
    Export {
        #[command(subcommand)]
        verb: ExportVerb,
    },
    /// Add, resize, reopen, remove and list devices
    Device {
        #[command(subcommand)]
        verb: DeviceVerb,
    },
    /// Add, resize, remove and list the volumes of a device
    Volume {
        #[command(subcommand)]
        verb: VolumeVerb,
    },
    /// Take, delete and list snapshots of a device
    Snapshot {
        #[command(subcommand)]
        verb: SnapshotVerb,
    },
    /// List the services, and command them
    Service {
        #[command(subcommand)]
        verb: ServiceVerb,
    },
    /// Write the running spec, with its changes, as a spec file
    Save {
        /// File to write, or `-` for standard output; the comments of the spec file are lost
        #[arg(value_name = "FILE|-", default_value = "-", hide_default_value = true)]
        file: String,
    },
    /// Read the spec file again, as SIGHUP does, and apply all of it or nothing
    Reload,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExportVerb {
    /// Add an export; `save` keeps it
    Add {
        /// Name of the export
        #[arg(value_name = "NAME")]
        name: String,
        /// Other keys of the export, as in a spec: device=d volume=v weight=300
        #[arg(value_name = "KEY=VALUE", required = true)]
        keys: Vec<String>,
    },
    /// Remove an export; refused while it has clients
    Remove {
        /// Name of the export
        #[arg(value_name = "NAME")]
        name: String,
        /// Let its clients have the rest of their answers, and end them
        #[arg(long)]
        drain: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeviceVerb {
    /// Show the devices, and the exports that show them
    List {
        /// Write JSON to a file; `-` writes to standard output instead of the table
        #[arg(long, value_name = "FILE|-")]
        json: Option<String>,
    },
    /// Open a device; `save` keeps it. Exports show it once they are added
    Add {
        /// Name of the device
        #[arg(value_name = "NAME")]
        name: String,
        /// Other keys of the device, as in a spec: backend=file path=/srv/d scheduler=sfq
        #[arg(value_name = "KEY=VALUE", required = true)]
        keys: Vec<String>,
    },
    /// Make the file of a device longer, or take note that a block device is; `save` keeps it. Clients see it when they connect
    Resize {
        /// Name of the device
        #[arg(value_name = "NAME")]
        name: String,
        /// New length of the device, such as 2TiB; it does not become shorter
        #[arg(value_name = "SIZE")]
        size: String,
    },
    /// Reopen a device after a failed flush, to serve what is durable
    Reopen {
        /// Name of the device
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Remove a device, and close its file; refused while exports show it
    Remove {
        /// Name of the device
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotVerb {
    /// Show the snapshots of a device
    List {
        /// Name of the device in the spec
        #[arg(value_name = "DEVICE")]
        device: String,
        /// Write JSON to a file; `-` writes to standard output instead of the table
        #[arg(long, value_name = "FILE|-")]
        json: Option<String>,
    },
    /// Take a snapshot of a device; clients wait for a moment
    Take {
        /// Name of the device in the spec
        #[arg(value_name = "DEVICE")]
        device: String,
        /// Name of the snapshot, and of its file; made of the time if left out
        #[arg(value_name = "NAME")]
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

#[derive(Debug, Subcommand)]
pub(crate) enum VolumeVerb {
    /// Show the volumes of a device, and the exports that show them
    List {
        /// Name of the device in the spec
        #[arg(value_name = "DEVICE")]
        device: String,
        /// Write JSON to a file; `-` writes to standard output instead of the table
        #[arg(long, value_name = "FILE|-")]
        json: Option<String>,
    },
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
        size: String,
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
        size: String,
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

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceVerb {
    /// Show what each owes, has done and has found, and why it waits
    List {
        /// Write JSON to a file; `-` writes to standard output instead of the table
        #[arg(long, value_name = "FILE|-")]
        json: Option<String>,
    },
    /// Let a service work while a lease holds
    Run {
        /// Name of the service in the spec
        #[arg(value_name = "NAME")]
        name: String,
        /// For how long, such as 10m; then its default holds again
        #[arg(long, value_name = "TIME")]
        lease: String,
        /// The most that it does in a second, such as 50MiB/s; its share still holds
        #[arg(long, value_name = "RATE")]
        rate: Option<String>,
        /// Rate that the service gets even if clients want all of the device, such as 10MiB/s
        #[arg(long, value_name = "RATE")]
        reservation: Option<String>,
        /// The longest request of a scrub or relocation, such as 64KiB
        #[arg(long, value_name = "SIZE")]
        request: Option<String>,
        /// Start its requests only beside at most so many of clients: 0 for an idle class
        #[arg(long, value_name = "COUNT")]
        idle_depth: Option<u32>,
    },
    /// Let a service rest while a lease holds
    Pause {
        /// Name of the service in the spec
        #[arg(value_name = "NAME")]
        name: String,
        /// For how long, such as 10m; then its default holds again
        #[arg(long, value_name = "TIME")]
        lease: String,
    },
    /// End the lease of a service: its default holds again
    Release {
        /// Name of the service in the spec
        #[arg(value_name = "NAME")]
        name: String,
    },
}
