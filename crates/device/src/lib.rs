//! Models of storage devices: disks, solid-state drives and tiered arrays.
//!
//! Service times are closed forms, with no event for a sector, a track or a flash command, so a device serves about ten
//! million requests a second. A device is one of the [`PRESETS`] or a TOML file in the same format ([`DeviceSpec`]); both
//! are loaded by [`DeviceSpec::load`].

#![warn(missing_docs)]

mod array;
mod bank;
pub mod calibration;
mod check;
mod disk;
mod divider;
pub mod error;
pub mod fit;
mod model_choice;
mod null;
pub mod parameter;
mod presets;
mod quantity;
mod queue;
pub mod random;
mod ssd;
pub mod standing;
pub mod statistics;
#[cfg(test)]
mod tests;
mod tiered;
pub mod validate;
mod zoned;

use ioweir_core::{Dispatch, Nanos, StreamId, Tier};

use ioweir_config::Ratio;
use ioweir_config::{Complaint, Key, KeySet as _, SpecError};
use serde::{Deserialize, Serialize};

pub use array::{ArrayLayout, ArraySpec};
pub use bank::{Bank, BankSpec};
pub use calibration::{Calibration, DeviceFile};
pub use disk::cache::{CacheSpec, ReadAhead, WriteCache};
pub use disk::datasheet::DiskDatasheet;
pub use disk::spec::{HddSpec, Layout, Overhead, SeekSpec, ZoneSpec, Zoning};
pub use model_choice::ModelChoice;
pub use null::{NullDevice, NullSpec};
pub use presets::{PRESETS, Preset, Status};

pub use quantity::{Difference, ServiceTime, Skew, SpindleSpeed};
pub use queue::{CommandOrder, CommandQueue};
pub use ssd::{FlashCounts, FlashDatasheet, Ssd, SsdOverhead, SsdSerial, SsdSpec, SsdState, SsdWake};
pub use standing::{Standing, Verdict};
pub use tiered::{CacheSize, Extent, Placement, TierSpec, TieredArray, TieredSpec};
pub use zoned::ZonedSpec;

/// How one dispatch was served. The parts add up to the time from its start to its finish.
///
/// For a drive without a head, seek and rotation are zero. The transfer is the time that flash, channel and interface would
/// take, if they were idle, for the part of the dispatch that finished last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// When the service ended.
    pub finish: Nanos,
    /// Command processing.
    pub overhead_nanos: u64,
    /// Movement of the arm or change of heads, settling included.
    pub seek_nanos: u64,
    /// Rotational latency.
    pub rotation_nanos: u64,
    /// Transfer, track crossings included.
    pub transfer_nanos: u64,
    /// The wait inside the device for other requests: for a die, a channel, the interface, room in the write buffer, or a
    /// head that is busy with buffered data. Zero for a device that does one thing at a time.
    pub queue_nanos: u64,
    /// The tier of a tiered array that served it; [`Tier::Base`] for every other device.
    pub tier: Tier,
    /// The cylinder on which the transfer began.
    pub track: u32,
    /// How often the head changed cylinders: since the previous transfer, and within this one.
    pub movements: u32,
    /// The number of cylinders that these movements crossed.
    pub movement_tracks: u64,
    /// The sum of the squares of the movements' distances.
    pub movement_squares: u64,
}

impl Service {
    /// Time that the device worked for this dispatch alone.
    #[must_use]
    pub const fn work_nanos(&self) -> u64 {
        self.overhead_nanos + self.seek_nanos + self.rotation_nanos + self.transfer_nanos
    }

    /// Recounts the parts from `now` instead of from the service's start, for a disk, which counts from when it became free.
    const fn counted_from(self, now: Nanos) -> Self {
        let queue_nanos = self.finish.0.saturating_sub(now.0).saturating_sub(self.work_nanos());
        Self { queue_nanos, ..self }
    }
}

/// A device model. A disk serves one dispatch after another; a solid-state drive begins each at once.
pub trait Device: Send {
    /// Serves `dispatch`. It starts at `now`; on a disk, it starts when the previous dispatch has completed, if that is
    /// later. The parts of the service count from the start. A dispatch never finishes before `now`, and `now` never goes
    /// back.
    ///
    /// The simulator has checked that the extent lies on the device. Sectors beyond the end take no time.
    fn serve(&mut self, now: Nanos, dispatch: &Dispatch) -> Service;

    /// The time from `now` until data would move if `dispatch` were served next. A device chooses among commands by this
    /// time. The call changes nothing.
    fn positioning_nanos(&self, _now: Nanos, _dispatch: &Dispatch) -> u64 {
        0
    }

    /// The order in which the device starts the commands that it holds. If that is not the order of arrival, the simulator
    /// keeps them in a [`CommandQueue`] and serves one at a time.
    fn command_order(&self) -> CommandOrder {
        CommandOrder::Fifo
    }

    /// The size in sectors of 512 bytes.
    fn sectors(&self) -> u64;

    /// The number of tracks from one edge to the other, that is, cylinders; zero for a device without a head.
    fn tracks(&self) -> u64 {
        0
    }

    /// Sets the share of the stream's requests that hit the fast tier from now on, if the device draws placement at random.
    /// Other devices ignore it.
    fn set_hit_ratio(&mut self, _stream: StreamId, _ratio: Ratio) {}

    /// The counts of flash operations so far; `None` for a device without flash.
    fn flash(&self) -> Option<FlashCounts> {
        None
    }
}

/// A kind of device: the functions that each model provides for [`DeviceSpec`].
trait Model: Clone {
    /// Checks whether the parameters fit together.
    fn check(&self) -> Result<(), Complaint>;

    /// The parameters with all defaults filled in.
    fn resolved(&self) -> Self {
        self.clone()
    }

    /// The parameters with another order of commands, if the model has a choice.
    fn with_command_order(&self, _order: CommandOrder) -> Self {
        self.clone()
    }

    /// Whether the device has to seek.
    fn rotates(&self) -> bool {
        false
    }

    /// The number of requests that the device is given at once: as many as a native command queue (ATA) holds, if it can use them.
    fn queue_depth(&self) -> u32 {
        32
    }

    /// The number of requests that the device works on at once, where it has that many: its arms, dies or servers.
    fn serves_at_once(&self) -> u32 {
        1
    }

    /// Features of the drive beyond reading and writing where it is told: buffers, read-ahead, a queue of its own.
    fn switched_on(&self) -> Vec<String> {
        Vec::new()
    }

    /// Makes the device; `seed` sets its random state at time zero.
    fn build(&self, seed: u64) -> Result<Box<dyn Device>, Complaint>;
}

macro_rules! models {
    ($($(#[$documentation:meta])* $name:ident($spec:ty),)*) => {
        /// A device with all its parameters: the content of a device file.
        ///
        /// ```
        /// use ioweir_core::{Dispatch, Flags, Nanos, Operation, Request, StreamId};
        /// use ioweir_device::DeviceSpec;
        ///
        /// let mut disk = DeviceSpec::load("hdd-15k")?.build(1)?;
        /// let read = Request {
        ///     operation: Operation::Read,
        ///     flags: Flags::NONE,
        ///     stream: StreamId(0),
        ///     sector: disk.sectors() / 2,
        ///     sectors: 8,
        /// };
        /// let service = disk.serve(Nanos::ZERO, &Dispatch::alone(&read));
        /// let parts = service.overhead_nanos + service.seek_nanos + service.rotation_nanos + service.transfer_nanos;
        /// assert_eq!(service.finish, Nanos(parts));
        /// # Ok::<(), ioweir_config::SpecError>(())
        /// ```
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(clippy::large_enum_variant, reason = "a process has a handful of them")]
        pub enum DeviceSpec {
            $($(#[$documentation])* $name($spec),)*
        }

        /// The names of the models, as they are written in the code.
        const KINDS: &[&str] = &[$(stringify!($name)),*];

        impl DeviceSpec {
            /// The device with all defaults filled in, as [`DeviceSpec::to_toml`] writes it.
            #[must_use]
            pub fn resolved(&self) -> Self {
                match self {
                    $(Self::$name(spec) => Self::$name(Model::resolved(spec)),)*
                }
            }

            /// The device with another order of commands, if it has a choice.
            #[must_use]
            pub fn with_command_order(&self, order: CommandOrder) -> Self {
                match self {
                    $(Self::$name(spec) => Self::$name(Model::with_command_order(spec, order)),)*
                }
            }

            /// Whether the device has to seek (Linux: `rotational`); for a tiered array, whether its slow tier has to.
            #[must_use]
            pub fn rotates(&self) -> bool {
                match self {
                    $(Self::$name(spec) => Model::rotates(spec),)*
                }
            }

            /// The number of requests that it is given at once by default.
            #[must_use]
            pub fn queue_depth(&self) -> u32 {
                match self {
                    $(Self::$name(spec) => Model::queue_depth(spec),)*
                }
            }

            /// The number of requests that it works on at once; a device that holds fewer while others wait could do more.
            #[must_use]
            pub fn serves_at_once(&self) -> u32 {
                match self {
                    $(Self::$name(spec) => Model::serves_at_once(spec),)*
                }
            }

            /// Features of the drive beyond reading and writing where it is told, in words: read-ahead, a write cache, an order of its own.
            #[must_use]
            pub fn switched_on(&self) -> Vec<String> {
                match self {
                    $(Self::$name(spec) => Model::switched_on(spec),)*
                }
            }

            fn complaint(&self) -> Result<(), Complaint> {
                match self {
                    $(Self::$name(spec) => Model::check(spec),)*
                }
            }

            fn build_model(&self, seed: u64) -> Result<Box<dyn Device>, Complaint> {
                match self {
                    $(Self::$name(spec) => Model::build(spec, seed),)*
                }
            }
        }
    };
}

models! {
    /// Equal drives behind one address space.
    Array(ArraySpec),
    /// Disks with queues of their own, on which data lie at random.
    Bank(BankSpec),
    /// A disk drive by its datasheet.
    DiskDatasheet(DiskDatasheet),
    /// A flash drive by its datasheet.
    FlashDatasheet(FlashDatasheet),
    /// A disk drive.
    Hdd(HddSpec),
    /// A device that takes no time, which measures everything else.
    Null(NullSpec),
    /// A solid-state drive.
    Ssd(SsdSpec),
    /// A fast and a slow tier in one address space.
    Tiered(TieredSpec),
    /// A drive whose zones are written in order.
    Zoned(ZonedSpec),
}

impl DeviceSpec {
    /// Loads the preset of this name, or the device of the file at this path. [`DeviceFile::load`] also returns its
    /// calibration.
    ///
    /// # Errors
    /// As [`DeviceFile::load`].
    pub fn load(name_or_path: &str) -> Result<Self, SpecError> {
        DeviceFile::load(name_or_path).map(|file| file.spec)
    }

    /// Reads a device from TOML; `file` is only for the errors.
    ///
    /// # Errors
    /// As [`DeviceFile::load`].
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        DeviceFile::parse(file, text).map(|file| file.spec)
    }

    /// Checks the parameters. Those of a device that was read from a file are correct.
    ///
    /// # Errors
    /// The key of a parameter that makes no sense.
    pub fn check(&self) -> Result<(), SpecError> {
        self.complaint().map_err(|complaint| complaint.in_file("device", None))
    }

    /// Every parameter as TOML, including defaults and derived ones; [`DeviceSpec::parse`] reads it back.
    #[must_use]
    pub fn to_toml(&self) -> String {
        // The types above hold nothing that TOML cannot write.
        toml::to_string(&self.resolved()).unwrap_or_else(|error| format!("# cannot be written: {error}\n"))
    }

    /// Makes the device; `seed` sets the angle of its platters, or the content of its flash, at time zero.
    ///
    /// # Errors
    /// The key of a parameter that makes no sense.
    pub fn build(&self, seed: u64) -> Result<Box<dyn Device>, SpecError> {
        self.build_model(seed).map_err(|complaint| complaint.in_file("device", None))
    }
}

/// The keys of device files, by table.
#[must_use]
pub fn key_tables() -> Vec<(&'static str, Vec<Key>)> {
    vec![
        ("[disk_datasheet]", DiskDatasheet::keys()),
        ("[flash_datasheet]", FlashDatasheet::keys()),
        ("[array]", ArraySpec::keys()),
        ("[bank]", BankSpec::keys()),
        ("[zoned]", ZonedSpec::keys()),
        ("[tiered]", TieredSpec::keys()),
        ("[tiered.fast]", TierSpec::keys()),
        ("[tiered.slow]", TierSpec::keys()),
        ("[hdd]", HddSpec::keys()),
        ("[[hdd.zone]]", ZoneSpec::keys()),
        ("[hdd.zoning]", Zoning::keys()),
        ("[hdd.overhead]", Overhead::keys()),
        ("[hdd.cache]", CacheSpec::keys()),
        ("[ssd]", SsdSpec::keys()),
        ("[ssd.serial]", SsdSerial::keys()),
        ("[ssd.overhead]", SsdOverhead::keys()),
        ("[ssd.wake]", SsdWake::keys()),
        ("[null]", NullSpec::keys()),
    ]
}

/// The names in the table, for hints.
fn preset_names() -> String {
    PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ")
}
