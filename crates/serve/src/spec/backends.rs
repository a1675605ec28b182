//! The table of backends, with the keys that each accepts.

use std::path::PathBuf;

use serde::Serialize;

use super::joined::Part;
use super::tiers::{Cache, Tier};
use super::upstream::Upstream;
pub use ioweir_block::backend::{Faults, FileIo};
use ioweir_config::Size;

/// The backend of a device, which the key `backend` selects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "backend", rename_all = "snake_case")]
pub enum Backend {
    /// No storage: reads return zeroes, writes are dropped.
    Null {
        /// The size of the device.
        size: Size,
    },
    /// Memory, which is lost when the server ends.
    Memory {
        /// The size of the device.
        size: Size,
    },
    /// A file or a block device.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The size of the device; a missing file is created with this size, but never in /dev.
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<Size>,
        /// Whether to bypass the page cache, if the file system can.
        direct: bool,
        /// The system calls by which the file is read and written.
        io: FileIo,
        /// Threads for operations that `io_uring` does not do, or for all operations.
        threads: u32,
    },
    /// Memory that takes as long as a modelled device.
    Emulated {
        /// A preset's name or a TOML file, as `ioweir compare --device` takes it.
        model: String,
        /// The size of the device; if absent, that of the model.
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<Size>,
        /// The seed of everything random in the model.
        seed: u64,
    },
    /// Memory that fails as planned.
    Faulty {
        /// The size of the device.
        size: Size,
        /// The plan.
        faults: Faults,
    },
    /// A device and a faster one. With a scheduler that places data, both hold some of it; else the fast one is a cache.
    Tiered {
        /// The use of the fast tier if the scheduler does not place data.
        #[serde(skip_serializing_if = "Option::is_none")]
        cache: Option<Cache>,
        /// The file that records which blocks are on the fast tier, if the tiers outlive the server. It is created if
        /// missing, and belongs to these two tiers from then on.
        #[serde(skip_serializing_if = "Option::is_none")]
        map: Option<PathBuf>,
        /// The tier that is as long as the device.
        slow: Box<Tier>,
        /// The tier that holds what was placed, or copies.
        fast: Box<Tier>,
    },
    /// An export of another NBD server.
    Nbd(Box<Upstream>),
    /// Devices that share a scheduler.
    Joined {
        /// The devices, each with a range of its own.
        part: Vec<Part>,
    },
}

impl Backend {
    /// The backends that hold the data: the tiers or parts of a composed one, or else itself.
    pub(crate) fn leaves(&self) -> Vec<&Self> {
        match self {
            Self::Tiered { slow, fast, .. } => vec![&slow.backend, &fast.backend],
            Self::Joined { part } => part.iter().map(|part| &part.backend).collect(),
            other => vec![other],
        }
    }

    /// The value of the key `backend`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Null { .. } => "null",
            Self::Memory { .. } => "memory",
            Self::File { .. } => "file",
            Self::Emulated { .. } => "emulated",
            Self::Faulty { .. } => "faulty",
            Self::Tiered { .. } => "tiered",
            Self::Nbd(_) => "nbd",
            Self::Joined { .. } => "joined",
        }
    }
}

/// A row of the table of backends.
#[derive(Clone, Copy, Debug)]
pub struct BackendRow {
    /// The value of the key `backend`.
    pub name: &'static str,
    /// One line that describes it.
    pub summary: &'static str,
    /// The keys that it accepts besides those of every device.
    pub keys: &'static [&'static str],
    /// The keys among these that it requires.
    pub required: &'static [&'static str],
    /// The number of operations that it holds at once by default.
    pub depth: u32,
}

/// Every backend.
pub const BACKENDS: &[BackendRow] = &[
    BackendRow {
        name: "null",
        summary: "nothing: reads as zeroes, forgets writes",
        keys: &["size"],
        required: &["size"],
        depth: 32,
    },
    BackendRow {
        name: "memory",
        summary: "memory that is gone when the server ends",
        keys: &["size"],
        required: &["size"],
        depth: 32,
    },
    BackendRow {
        name: "file",
        summary: "a file or a block device, by io_uring or threads, past the page cache",
        keys: &["path", "size", "direct", "io", "threads"],
        required: &["path"],
        depth: 32,
    },
    BackendRow {
        name: "nbd",
        summary: "an upstream: an export of any other NBD server, such as qemu-nbd, nbdkit with its plugins, or another ioweir",
        keys: &[
            "address",
            "export",
            "connections",
            "timeout",
            "reconnect_limit",
            "write_through",
            "unflushed_max",
            "tls",
        ],
        required: &["address"],
        depth: 64,
    },
    BackendRow {
        name: "emulated",
        summary: "memory that takes as long as a modelled disk or solid-state drive",
        keys: &["model", "size", "seed"],
        required: &["model"],
        depth: 1,
    },
    BackendRow {
        name: "faulty",
        summary: "memory that fails, stalls and loses its power as planned",
        keys: &["size", "faults"],
        required: &["size"],
        depth: 8,
    },
    BackendRow {
        name: "tiered",
        summary: "a device and a faster one: placement by the scheduler, or a read cache",
        keys: &["slow", "fast", "map", "cache"],
        required: &["slow", "fast"],
        // The tiers determine the depth.
        depth: 0,
    },
    BackendRow {
        name: "joined",
        summary: "several devices that share a spindle or a budget, under one scheduler; an export shows one of them",
        keys: &["part"],
        required: &["part"],
        // The parts determine the depth.
        depth: 0,
    },
];

impl BackendRow {
    /// The row of a name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        BACKENDS.iter().find(|row| row.name == name)
    }

    /// Whether such a device has others below it, which determine its depth.
    pub(super) const fn is_made_of_others(&self) -> bool {
        self.depth == 0
    }
}
