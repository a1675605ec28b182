//! Arguments of `ctl`.

use clap::{Args, Subcommand};

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ioweir ctl disks.toml state\n  ioweir ctl disks.toml set export.gold.weight=300\n  \
ioweir ctl unix:/run/ioweir.control reload\n\nThe server needs `control = \"unix:PATH\"` under [server] in its spec."
)]
pub(crate) struct CtlArguments {
    /// The server: its spec, whose `control` is used, or unix:PATH
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    #[command(subcommand)]
    pub(crate) verb: CtlVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CtlVerb {
    /// Say how things stand: who is served, who waits, and why
    State {
        /// Write JSON to a file; `-` is standard output, in place of the table
        #[arg(long, value_name = "FILE|-")]
        json: Option<String>,
    },
    /// Change keys of the running server's spec; all of them take effect together, or none
    #[command(after_help = "Keys: export.NAME.KEY, tenant.NAME.KEY and group.NAME.KEY, where KEY is\n\
one of a share (`ioweir doc serve` lists them); server.connections_max,\n\
connections_per_peer_max, handshake_timeout, stall_timeout,\n\
reading_rate_min, idle_timeout and shutdown_timeout of server.\n\
Values are written as in a spec, without quotes; `none` takes a key away.")]
    Set {
        /// A key of the spec, and its new value
        #[arg(value_name = "KEY=VALUE", required = true)]
        assignments: Vec<String>,
    },
    /// Open a device again, of which a flush has failed: it serves what is durable
    Reopen {
        /// The device's name in the spec
        #[arg(value_name = "DEVICE")]
        device: String,
    },
    /// Read the spec's file again, as SIGHUP does; all of it takes effect, or nothing
    Reload,
}
