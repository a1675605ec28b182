//! How long does a device take for a request, and what is it doing meanwhile?
//!
//! Service times are closed forms: no event for a sector, a track or a flash command, so a device serves some ten million
//! requests a second. A device is one of the [`PRESETS`] or a TOML file of the same form ([`DeviceSpec`]); both go through
//! [`DeviceSpec::load`].

mod cache;
mod cached;
mod divider;
pub mod drives;
pub mod error;
mod geometry;
mod hdd;
mod mechanics;
mod null;
mod presets;
mod quantity;
mod queue;
pub mod random;
mod seek;
mod segments;
mod spec;
mod ssd;
#[cfg(test)]
mod tests;
mod tiered;
pub mod validate;

use std::io::Read;

use ioweir_core::{Dispatch, Nanos, StreamId, Tier};

use ioweir_config::Ratio;
use ioweir_config::{Complaint, SpecError};

pub use cache::{CacheSpec, ReadAhead, WriteCache};
pub use cached::CachedHdd;
pub use hdd::Hdd;
pub use null::NullDevice;
pub use presets::{PRESETS, Preset, Status};

pub use quantity::{ServiceTime, Skew};
pub use queue::{CommandOrder, CommandQueue};
pub use spec::{DeviceSpec, HddSpec, Layout, NullSpec, Overhead, SeekSpec, ZoneSpec};
pub use ssd::{FlashCounts, Ssd, SsdOverhead, SsdSpec, SsdState};
pub use tiered::{CacheSize, Extent, Placement, TierSpec, TieredArray, TieredSpec};

/// The largest device file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// How a device served one dispatch. The parts add up to the time from its start to its finish.
///
/// For a drive without a head, seek and rotation are zero, and the transfer is all that flash, channel and interface
/// would take for the part of the dispatch that finished last, if there were nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// When it was done.
    pub finish: Nanos,
    /// Command processing.
    pub overhead_nanos: u64,
    /// Moving the arm or changing heads, settling included.
    pub seek_nanos: u64,
    /// Waiting for the sector to come round.
    pub rotation_nanos: u64,
    /// Moving data, track crossings included.
    pub transfer_nanos: u64,
    /// Waiting inside the device for what it does for others: for a die, a channel, the interface, room in the write
    /// buffer, or a head that is busy with data taken into the buffer before. Zero for a device that does one thing at a time.
    pub queue_nanos: u64,
    /// Which tier of a tiered array served it; [`Tier::Base`] for every other device.
    pub tier: Tier,
    /// Cylinder on which the transfer began.
    pub track: u32,
    /// Changes of cylinder: on the way from the transfer before, and within this one.
    pub movements: u32,
    /// Cylinders crossed by them.
    pub movement_tracks: u64,
    /// Sum of the squares of their distances.
    pub movement_squares: u64,
}

/// A device. A disk serves one dispatch after the other; a solid-state drive begins each at once.
pub trait Device: Send {
    /// Serves `dispatch`: it starts at `now`, or, on a disk, when the dispatch before is finished where that is later. The
    /// parts of the answer count from there, and it never finishes before `now`, which never goes back.
    ///
    /// The extent lies on the device: the simulator has looked. What lies beyond the end takes no time.
    fn serve(&mut self, now: Nanos, dispatch: &Dispatch) -> Service;

    /// How long from `now` until data would move, were `dispatch` served next: what a device goes by that chooses among
    /// commands. Nothing changes by asking.
    fn positioning_nanos(&self, _now: Nanos, _dispatch: &Dispatch) -> u64 {
        0
    }

    /// Which of the commands that it holds it starts next. Unless in order of arrival, the simulator keeps them in a
    /// [`CommandQueue`] and serves one at a time.
    fn command_order(&self) -> CommandOrder {
        CommandOrder::Fifo
    }

    /// Sectors of 512 bytes.
    fn sectors(&self) -> u64;

    /// Tracks from one edge to the other, that is cylinders; zero for a device without a head.
    fn tracks(&self) -> u64;

    /// From now on, this share of the stream's requests hits the fast tier, on a device whose placement is drawn at random;
    /// every other device takes no notice.
    fn set_hit_ratio(&mut self, _stream: StreamId, _ratio: Ratio) {}

    /// What it has done to its flash so far; none for a device that has none.
    fn flash(&self) -> Option<FlashCounts> {
        None
    }
}

impl DeviceSpec {
    /// The preset of this name, or the device file at this path.
    ///
    /// # Errors
    /// There is neither, or the file does not describe a device: with the place in it and what to do.
    pub fn load(name_or_path: &str) -> Result<Self, SpecError> {
        if let Some(preset) = PRESETS.iter().find(|preset| preset.name == name_or_path) {
            return Self::parse(preset.name, preset.parameters);
        }
        let hint = || format!("give a preset ({}) or a TOML file", PRESETS.map_names());
        let failed = |problem: String| SpecError::of_file(name_or_path, problem, hint());
        let file =
            std::fs::File::open(name_or_path).map_err(|error| failed(format!("no preset, and as a file: {error}")))?;
        let mut text = String::new();
        let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
        let bytes = read.map_err(|error| failed(format!("cannot be read: {error}")))?;
        if bytes as u64 > FILE_BYTES_MAX {
            return Err(failed(format!("longer than {FILE_BYTES_MAX} bytes: not a device file")));
        }
        Self::parse(name_or_path, &text)
    }

    /// Reads a device from TOML; `file` is only for the errors.
    ///
    /// # Errors
    /// As [`DeviceSpec::load`].
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        let spec: Self = toml::from_str(text).map_err(|error| error::from_toml(&error).in_file(file, Some(text)))?;
        spec.complaint().map_err(|complaint| complaint.in_file(file, Some(text)))?;
        Ok(spec)
    }

    /// Whether it is a device at all; a device that was read from a file is.
    ///
    /// # Errors
    /// A parameter that makes no sense, by its key.
    pub fn check(&self) -> Result<(), SpecError> {
        self.complaint().map_err(|complaint| complaint.in_file("device", None))
    }

    fn complaint(&self) -> Result<(), Complaint> {
        match self {
            Self::Hdd(hdd) => hdd.lay_out().map(drop),
            Self::Null(null) => null.check(),
            Self::Ssd(ssd) => ssd.lay_out().map(drop),
            Self::Tiered(tiered) => tiered.check(),
        }
    }

    /// Every parameter as TOML, the defaults and what follows from others too; [`DeviceSpec::parse`] reads it back.
    #[must_use]
    pub fn to_toml(&self) -> String {
        // The types above hold nothing that TOML cannot write.
        toml::to_string(&self.resolved()).unwrap_or_else(|error| format!("# cannot be written: {error}\n"))
    }

    /// The device itself; `seed` decides where its platters stand, or what lies where, at time zero.
    ///
    /// # Errors
    /// A parameter that makes no sense, by its key.
    pub fn build(&self, seed: u64) -> Result<Box<dyn Device>, SpecError> {
        let built = match self {
            Self::Hdd(spec) if spec.cache.is_some() => {
                CachedHdd::new(spec, seed).map(|device| Box::new(device) as Box<dyn Device>)
            }
            Self::Hdd(spec) => Hdd::new(spec, seed).map(|device| Box::new(device) as Box<dyn Device>),
            Self::Null(spec) => NullDevice::new(spec).map(|device| Box::new(device) as Box<dyn Device>),
            Self::Ssd(spec) => Ssd::new(spec, seed).map(|device| Box::new(device) as Box<dyn Device>),
            Self::Tiered(spec) => TieredArray::new(spec, seed).map(|device| Box::new(device) as Box<dyn Device>),
        };
        built.map_err(|complaint| complaint.in_file("device", None))
    }
}

/// The names in the table, for hints.
trait Names {
    fn map_names(&self) -> String;
}

impl Names for [Preset] {
    fn map_names(&self) -> String {
        self.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ")
    }
}
