//! Presets of platforms and workloads, with the sources of their numbers.

use std::io::Read as _;

use serde::de::DeserializeOwned;

use super::{CostSpec, PlatformSpec, WorkloadSpec};
use crate::run::RunError;
use ioweir_config::{ChoiceError, unknown};
use ioweir_config::{Complaint, SpecError};

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A named platform or workload.
#[derive(Clone, Copy, Debug)]
pub struct ServerPreset {
    /// The name in specs.
    pub name: &'static str,
    /// The title in lists.
    pub title: &'static str,
    /// The sources of the numbers.
    pub sources: &'static [&'static str],
    /// The parameters, as a file.
    pub parameters: &'static str,
}

const TABLE_1: &str = "cores, NVRAM, disks, flash cache: Table 1 of the paper on request scheduling in WAFL";
const DISKS_15K: &str = "disks: 450 GB at 15,000 rpm, 2.5 ms until the sector comes round and 3.5 ms of seek in the mean; as a fixed \
part and an exponential one (assumed)";
const FLASH_CACHE: &str = "flash cache: 150 us a read; hits grow with its size, and are \
so many that SPC-1 is answered in less than 1 ms under light load, as section 3.1 says (the rest is assumed)";
const MISSES: &str =
    "shares of misses: chosen so that the restart counts of Table 2 come out of a run, preemptions, locks and all";
const TABLE_5: &str = "operations and sizes: Table 5; what the table leaves open is filled up with attribute requests and, for sizes, with the nearest \
that it names";

pub const PLATFORMS: &[ServerPreset] = &[
    ServerPreset {
        name: "low-end",
        title: "4 cores, 2 GiB of NVRAM, 113 disks, 512 GB of flash cache",
        sources: &[TABLE_1, DISKS_15K, FLASH_CACHE],
        parameters: include_str!("platforms/low-end.toml"),
    },
    ServerPreset {
        name: "mid-range",
        title: "12 cores, 4 GiB of NVRAM, 281 disks, 1 TB of flash cache",
        sources: &[TABLE_1, DISKS_15K, FLASH_CACHE],
        parameters: include_str!("platforms/mid-range.toml"),
    },
    ServerPreset {
        name: "high-end",
        title: "20 cores, 16 GiB of NVRAM, 281 disks, 2 TB of flash cache",
        sources: &[TABLE_1, DISKS_15K, FLASH_CACHE],
        parameters: include_str!("platforms/high-end.toml"),
    },
    ServerPreset {
        name: "all-flash",
        title: "20 cores, 16 GiB of NVRAM, 113 solid-state drives",
        sources: &[
            TABLE_1,
            "drives: 100 us a read and 30 us more at random, 500 MB/s (assumed: SAS drives of the time)",
        ],
        parameters: include_str!("platforms/all-flash.toml"),
    },
];

/// Every workload.
pub const WORKLOADS: &[ServerPreset] = &[
    ServerPreset {
        name: "spc-1",
        title: "like SPC-1: 40 % reads, 60 % writes, mostly of 4 KiB, over three storage units",
        sources: &[
            "shares of the storage units, of reads, of writes and of what is sequential: section 3.1 of the paper and SPC-1",
            MISSES,
        ],
        parameters: include_str!("workloads/spc-1.toml"),
    },
    ServerPreset {
        name: "database",
        title: "like SFS2014 DATABASE: random 8 KiB reads, and a log written in sequence",
        sources: &[TABLE_5, MISSES],
        parameters: include_str!("workloads/database.toml"),
    },
    ServerPreset {
        name: "swbuild",
        title: "like SFS2014 SWBUILD: seven attribute requests of ten, small reads and writes",
        sources: &[TABLE_5, MISSES],
        parameters: include_str!("workloads/swbuild.toml"),
    },
    ServerPreset {
        name: "vda",
        title: "like SFS2014 VDA: streams written in large pieces, and large random reads",
        sources: &[TABLE_5, MISSES],
        parameters: include_str!("workloads/vda.toml"),
    },
    ServerPreset {
        name: "vdi",
        title: "like SFS2014 VDI: small random writes, and reads of 16 to 32 KiB",
        sources: &[TABLE_5, MISSES],
        parameters: include_str!("workloads/vdi.toml"),
    },
];

/// The costs of all platforms and workloads, with the reason for each number.
pub const COSTS: &str = include_str!("costs.toml");

pub const COST_SETS: &[ServerPreset] = &[ServerPreset {
    name: "usual",
    title: "the costs of all platforms and workloads",
    sources: &["chosen as a set; the reasons are beside the numbers"],
    parameters: COSTS,
}];

/// A part of a server that a file describes.
pub trait Part: DeserializeOwned {
    /// The word for such a part in errors.
    const WHAT: &'static str;
    const PRESETS: &'static [ServerPreset];

    /// The first invalid value, if any.
    #[doc(hidden)]
    fn complaint(&self) -> Option<Complaint>;

    /// Loads the preset of this name, or the file at this path.
    ///
    /// # Errors
    /// [`RunError`] if neither exists, or a value is invalid.
    fn load(name_or_path: &str) -> Result<Self, RunError> {
        if let Some(preset) = Self::PRESETS.iter().find(|preset| preset.name == name_or_path) {
            return Ok(Self::parse(preset.name, preset.parameters)?);
        }
        let Ok(file) = std::fs::File::open(name_or_path) else {
            let names: Vec<_> = Self::PRESETS.iter().map(|preset| preset.name).collect();
            let error =
                unknown(Self::WHAT, name_or_path, &names, &format!("`ioweir doc {}` lists the presets", Self::WHAT));
            return Err(ChoiceError { expected: format!("{}, or a TOML file", error.expected), ..error }.into());
        };
        let failed = |problem: String| SpecError::of_file(name_or_path, problem, "");
        let mut text = String::new();
        let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
        let bytes = read.map_err(|error| failed(format!("cannot be read: {error}")))?;
        if bytes as u64 > FILE_BYTES_MAX {
            return Err(failed(format!("longer than {FILE_BYTES_MAX} bytes: no {} file", Self::WHAT)).into());
        }
        Ok(Self::parse(name_or_path, &text)?)
    }

    /// Reads a part from TOML; `file` is the name shown in errors.
    ///
    /// # Errors
    /// As [`Part::load`].
    fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        let part: Self = toml::from_str(text).map_err(|error| {
            let preset = Self::PRESETS.first().map_or(Self::WHAT, |preset| preset.name);
            let hint = format!("`ioweir doc {} {preset}` shows one with every key", Self::WHAT);
            Complaint::of_toml(&error, &[]).hint(hint).in_file(file, Some(text))
        })?;
        match part.complaint() {
            None => Ok(part),
            Some(complaint) => Err(complaint.in_file(file, Some(text))),
        }
    }
}

impl Part for PlatformSpec {
    const WHAT: &'static str = "platform";
    const PRESETS: &'static [ServerPreset] = PLATFORMS;

    fn complaint(&self) -> Option<Complaint> {
        self.check().err()
    }
}

impl Part for WorkloadSpec {
    const WHAT: &'static str = "workload";
    const PRESETS: &'static [ServerPreset] = WORKLOADS;

    fn complaint(&self) -> Option<Complaint> {
        self.check().err()
    }
}

impl CostSpec {
    /// The one set of costs for every platform and workload.
    ///
    /// # Errors
    /// Never happens: a test reads the built-in file.
    pub fn usual() -> Result<Self, SpecError> {
        Self::parse("usual", COSTS)
    }
}

impl Part for CostSpec {
    const WHAT: &'static str = "costs";
    const PRESETS: &'static [ServerPreset] = COST_SETS;

    fn complaint(&self) -> Option<Complaint> {
        self.check().err()
    }
}
