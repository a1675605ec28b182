//! The parameters of a solid-state drive, and their check.

use serde::{Deserialize, Serialize};

use super::super::check::{fail, numbers, times};
use ioweir_config::{ByteRate, Complaint, Duration, Size, keys};

const SECTOR_BYTES: u64 = ioweir_core::SECTOR_BYTES;
const BLOCK_UNITS_MAX: u64 = 1 << 20;
const BLOCKS_MAX: u64 = 1 << 23;
/// The most units of one block of every die: blocks that are being written are kept track of unit by unit.
const OPEN_UNITS_MAX: u64 = 1 << 25;
const DIES_MAX: u32 = 4096;
/// Locations are numbered in 32 bits, and two of the values mean none.
const PLACES_MAX: u64 = u32::MAX as u64 - 2;

keys! {
    /// A solid-state drive: flash with a page map.
    ///
    /// A *unit* is mapped as a whole, a *page* is sensed as a whole, and a *block* is erased as a whole. Planes work together:
    /// a die programs `planes_per_die` x `pages_per_program` pages at once, and erases `planes_per_die` blocks at once.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SsdSpec {
        /// the size that the host sees
        capacity: Size = required,
        /// the content of the drive at time zero: fresh (none), filled (written once, in order), steady (overwritten at random
        /// until garbage collection has settled)
        state: SsdState = (SsdState::Filled),
        /// flash beyond the capacity, in thousandths of it; rounded up to whole blocks on every die, and to the least that
        /// garbage collection needs: free_blocks_min and four blocks for each die
        over_provisioning_per_mille: u32 = required,
        /// buses between controller and dies, which work in parallel
        channels: u32 = required,
        /// dies on a channel; each does one thing at a time
        dies_per_channel: u32 = required,
        /// planes of a die, which program and erase together
        planes_per_die: u32 = (1),
        /// the size of a page of one plane
        page: Size = required,
        /// pages in a block of one plane
        pages_per_block: u32 = required,
        /// pages of a plane programmed in one shot: 3 for TLC that is programmed a word line at a time
        pages_per_program: u32 = (1),
        /// the unit of the map, and of transfers
        mapping_unit: Size = (Size(4096)),
        /// the time to sense a page (tR)
        read: Duration = required,
        /// the time to sense one unit of a page; that of a page if absent
        read_one_unit: Option<Duration> = absent,
        /// how much faster the even pages of a block are to sense, and how much slower the odd ones
        read_spread: Duration = (Duration::default()),
        /// the time to program in one shot (tPROG)
        program: Duration = required,
        /// the time to erase a block (tBERS)
        erase: Duration = required,
        /// the time in which a read interrupts a program, an erase or garbage collection, which resume after it; if absent,
        /// reads wait until the die is free
        suspend: Option<Duration> = absent,
        /// the speed of a channel; if absent, moving data is part of reading and programming, and takes no time of its own
        channel_rate: Option<ByteRate> = absent,
        /// the speed of the interface to the host, in each direction; if absent, it takes no time
        interface_rate: Option<ByteRate> = absent,
        /// the part of a page after which the interface begins to transfer it; at least a unit
        transfer_chunk: Size = (Size(0)),
        /// the memory in which writes are acknowledged before they are programmed; zero: a write waits for its programs, and
        /// the last one is padded
        write_buffer: Size = (Size(0)),
        /// whether the buffer survives a loss of power, so that flushes and forced writes need not wait for flash
        power_loss_protection: bool = (false),
        /// free blocks of a die at or below which garbage collection runs
        free_blocks_min: u32 = (2),
        /// a stage that serves one command after another, before everything else; if absent, there is none
        serial: Option<SsdSerial> = absent,
        /// the firmware time of commands, which do not delay one another
        overhead: SsdOverhead = (SsdOverhead::default()),
        /// the time to wake up; if absent, the drive never sleeps
        wake: Option<SsdWake> = absent,
    }
}

keys! {
    /// A stage that serves one command after another: the host's side of the interface, or firmware that does not work in
    /// parallel.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SsdSerial {
        /// the time of a read
        read: Duration = (Duration::default()),
        /// the time of any other command
        write: Duration = (Duration::default()),
    }
}

keys! {
    /// A drive that sleeps when it is idle.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SsdWake {
        /// the time without commands after which the drive sleeps
        idle: Duration = required,
        /// the time from the next command until the drive serves it, and all that arrive meanwhile
        takes: Duration = required,
    }
}

keys! {
    /// The time that the firmware takes for a command.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct SsdOverhead {
        /// a read
        read: Duration = (Duration::default()),
        /// a read of one unit; as any read if absent
        read_one_unit: Option<Duration> = absent,
        /// a write, whatever its length
        write: Duration = (Duration::default()),
        /// in addition, for each unit of a write
        write_per_unit: Duration = (Duration::default()),
        /// a flush or a discard
        command: Duration = (Duration::default()),
    }
}

/// The content of a drive before the first request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SsdState {
    /// No data. Reads of units that were never written touch no flash.
    Fresh,
    /// Data everywhere, written once from the first address to the last.
    #[default]
    Filled,
    /// Data everywhere, overwritten in random order for so long that garbage collection has settled.
    Steady,
}

/// How the flash is divided, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Shape {
    /// The size in sectors.
    pub(super) sectors: u64,
    /// The number of units that the host sees.
    pub(super) units: u32,
    pub(super) unit_sectors: u32,
    pub(super) channels: u32,
    /// Die `n` is on channel `n % channels`.
    pub(super) dies: u32,
    /// The number of blocks of a die; the blocks of all its planes count as one.
    pub(super) die_blocks: u32,
    pub(super) block_units: u32,
    pub(super) program_units: u32,
    pub(super) page_units: u32,
    pub(super) free_blocks_min: u32,
}

impl Shape {
    /// The total number of blocks.
    pub(super) fn blocks(&self) -> u32 {
        self.dies * self.die_blocks
    }
}

fn complain<T>(key: &str, problem: String, hint: impl Into<String>) -> Result<T, Complaint> {
    fail(format!("ssd.{key}"), problem, hint)
}

impl SsdSpec {
    /// The drive with all defaults filled in.
    pub(in super::super) fn resolved(&self) -> Self {
        let overhead = &self.overhead;
        Self {
            read_one_unit: Some(self.read_one_unit.unwrap_or(self.read)),
            transfer_chunk: self.transfer_chunk.max(self.mapping_unit),
            overhead: SsdOverhead {
                read_one_unit: Some(overhead.read_one_unit.unwrap_or(overhead.read)),
                ..overhead.clone()
            },
            ..self.clone()
        }
    }

    /// Checks every parameter, and returns how the flash is divided.
    pub(in super::super) fn lay_out(&self) -> Result<Shape, Complaint> {
        self.check_counts()?;
        self.check_times()?;
        let unit_bytes = self.mapping_unit.0;
        let page_units = self.page.0 / unit_bytes;
        let planes = u64::from(self.planes_per_die);
        let program_units = page_units.saturating_mul(planes).saturating_mul(u64::from(self.pages_per_program));
        let block_units = page_units.saturating_mul(planes).saturating_mul(u64::from(self.pages_per_block));
        if block_units > BLOCK_UNITS_MAX || block_units < 2 * program_units {
            let problem = format!("a die erases {block_units} units and programs {program_units} at once");
            return complain("pages_per_block", problem, "a block has two programs at least and 1048576 units at most");
        }
        let dies = u64::from(self.channels) * u64::from(self.dies_per_channel);
        if dies * block_units > OPEN_UNITS_MAX {
            let problem =
                format!("{dies} dies with blocks of {block_units} units are more than this model keeps track of");
            return complain("pages_per_block", problem, "dies times units of a block are 33554432 at most");
        }
        if self.write_buffer.0 > 0 && self.write_buffer.0 / unit_bytes < program_units {
            let problem = format!("{} do not hold what a die programs at once", self.write_buffer);
            return complain(
                "write_buffer",
                problem,
                format!("give 0B or at least {}", Size(program_units * unit_bytes)),
            );
        }
        if self.capacity.0 == 0 || !self.capacity.0.is_multiple_of(SECTOR_BYTES) {
            let problem = format!("{} are not a number of sectors of 512 bytes", self.capacity);
            return complain("capacity", problem, "round it down to a multiple of 512");
        }
        let units = self.capacity.0.div_ceil(unit_bytes);
        let row_units = dies * block_units;
        let spared = u128::from(units) * u128::from(1000 + self.over_provisioning_per_mille);
        let wanted = spared.div_ceil(1000 * u128::from(row_units));
        let least = u128::from(units.div_ceil(row_units)) + u128::from(self.free_blocks_min) + 4;
        let die_blocks = u64::try_from(wanted.max(least)).unwrap_or(u64::MAX);
        let places = die_blocks.saturating_mul(row_units);
        if places > PLACES_MAX || die_blocks.saturating_mul(dies) > BLOCKS_MAX {
            let problem = format!("{} are {places} units in {} blocks", self.capacity, die_blocks.saturating_mul(dies));
            let hint = "take a larger mapping unit or larger blocks: 4294967293 units in 8388608 blocks at most";
            return complain("capacity", problem, hint);
        }
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(Shape {
            sectors: self.capacity.0 / SECTOR_BYTES,
            units: narrow(units),
            unit_sectors: narrow(unit_bytes / SECTOR_BYTES),
            channels: self.channels,
            dies: narrow(dies),
            die_blocks: narrow(die_blocks),
            block_units: narrow(block_units),
            program_units: narrow(program_units),
            page_units: narrow(page_units),
            free_blocks_min: self.free_blocks_min,
        })
    }

    fn check_counts(&self) -> Result<(), Complaint> {
        numbers(
            "ssd",
            &[
                ("over_provisioning_per_mille", self.over_provisioning_per_mille, 0, 10_000),
                ("channels", self.channels, 1, DIES_MAX),
                ("dies_per_channel", self.dies_per_channel, 1, DIES_MAX / self.channels.clamp(1, DIES_MAX)),
                ("planes_per_die", self.planes_per_die, 1, 64),
                ("pages_per_block", self.pages_per_block, 1, 1 << 16),
                ("pages_per_program", self.pages_per_program, 1, 64),
                ("free_blocks_min", self.free_blocks_min, 2, 1024),
            ],
        )?;
        if !self.pages_per_block.is_multiple_of(self.pages_per_program) {
            let problem = format!("{} pages are not a number of programs", self.pages_per_block);
            return complain("pages_per_block", problem, "give a multiple of pages_per_program");
        }
        let unit = self.mapping_unit.0;
        if unit == 0 || !unit.is_multiple_of(SECTOR_BYTES) || unit > 1 << 24 {
            let problem = format!("is {}", self.mapping_unit);
            return complain("mapping_unit", problem, "give a multiple of 512B up to 16MiB");
        }
        if self.page.0 == 0 || !self.page.0.is_multiple_of(unit) || self.page.0 > 1 << 30 {
            let problem = format!("{} are not a number of mapping units of {}", self.page, self.mapping_unit);
            return complain("page", problem, "give a multiple of mapping_unit up to 1GiB");
        }
        for (key, size) in [("transfer_chunk", self.transfer_chunk), ("write_buffer", self.write_buffer)] {
            if size.0 > 1 << 36 {
                return complain(key, format!("is {size}"), "give at most 64GiB");
            }
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), Complaint> {
        let overhead = &self.overhead;
        times(
            "ssd",
            &[
                ("read", self.read),
                ("read_one_unit", self.read_one_unit.unwrap_or_default()),
                ("read_spread", self.read_spread),
                ("program", self.program),
                ("erase", self.erase),
                ("suspend", self.suspend.unwrap_or_default()),
                ("overhead.read", overhead.read),
                ("overhead.read_one_unit", overhead.read_one_unit.unwrap_or_default()),
                ("overhead.write", overhead.write),
                ("overhead.write_per_unit", overhead.write_per_unit),
                ("overhead.command", overhead.command),
                ("serial.read", self.serial.map(|serial| serial.read).unwrap_or_default()),
                ("serial.write", self.serial.map(|serial| serial.write).unwrap_or_default()),
                ("wake.idle", self.wake.map(|wake| wake.idle).unwrap_or_default()),
                ("wake.takes", self.wake.map(|wake| wake.takes).unwrap_or_default()),
            ],
        )?;
        if self.read_spread > self.read.min(self.read_one_unit.unwrap_or(self.read)) {
            let problem = format!("{} is more than sensing takes", self.read_spread);
            return complain("read_spread", problem, "give at most read and read_one_unit");
        }
        for (key, rate) in [("channel_rate", self.channel_rate), ("interface_rate", self.interface_rate)] {
            if let Some(rate) = rate
                && !(1_000_000..=1_000_000_000_000).contains(&rate.0)
            {
                return complain(key, format!("is {rate}"), "give 1MB/s to 1TB/s, or leave it out");
            }
        }
        Ok(())
    }
}
