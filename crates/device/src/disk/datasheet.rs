//! A disk as a datasheet describes it, from which the parameters of the model follow.

use ioweir_config::{ByteRate, Complaint, Duration, Ratio, Size, keys};
use ioweir_core::Nanos;

use super::super::check::{fail, numbers, spindle};
use super::super::quantity::{Difference, Skew, SpindleSpeed, whole};
use super::super::queue::CommandOrder;
use super::super::{Device, Model};
use super::spec::{HddSpec, Layout, Overhead, SeekSpec, Zoning};

const SECTOR_BYTES: f64 = ioweir_core::SECTOR_BYTES as f64;
/// The most data that a disk reads ahead; larger buffers are divided among several readers.
const READ_AHEAD_MAX: Size = Size(2 << 20);

keys! {
    /// A disk by the numbers of its datasheet: `ioweir show` prints them, and the model derives the rest. Tracks hold what the
    /// sustained rates at both edges imply, equally many cylinders a zone; seeks follow Lee's curve through the three times.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DiskDatasheet {
        /// the size
        capacity: Size = required,
        /// the speed of the spindle
        revolutions_per_minute: SpindleSpeed = required,
        /// the mean seek of reads, over uniformly random pairs of places
        seek_average: Duration = required,
        /// the mean seek of writes; as for reads if absent
        seek_average_write: Option<Duration> = absent,
        /// the seek from one track to the next
        seek_single: Duration = (Duration::new(Nanos(500_000))),
        /// the seek from edge to edge; twice the average if absent
        seek_full: Option<Duration> = absent,
        /// the sustained rate at the outer edge
        rate_outside: ByteRate = required,
        /// the sustained rate at the inner edge
        rate_inside: ByteRate = required,
        /// the rate of the interface
        interface_rate: ByteRate = (ByteRate(600_000_000)),
        /// the drive's buffer: without one it neither reads ahead nor completes writes early
        cache: Size = (Size(0)),
        /// whether writes complete in the buffer
        write_cache: bool = (true),
        /// whether the drive chooses among its commands (NCQ, TCQ)
        command_queue: bool = (true),
        /// recording surfaces
        surfaces: u32 = (8),
        /// zones between the edges
        zones: u32 = (16),
        /// the time that a command costs before the arm moves
        overhead: Duration = (Duration::new(Nanos(100_000))),
    }
}

impl DiskDatasheet {
    /// The parameters of the model.
    pub(crate) fn expand(&self) -> Result<HddSpec, Complaint> {
        self.check_own()?;
        let revolution_nanos = 60e9 / self.revolutions_per_minute.per_minute();
        // A head switch needs a seek of a fraction of a track; the skews cover the seek that ends a cylinder.
        let (single_nanos, surfaces) = (self.seek_single.nanos().0, f64::from(self.surfaces));
        let switch_nanos = single_nanos.min(nanos(revolution_nanos * 0.9));
        let cylinder_nanos = surfaces * (revolution_nanos + switch_nanos as f64);
        let on_track = |rate: ByteRate| rate.0 as f64 * cylinder_nanos / 1e9 / surfaces / SECTOR_BYTES;
        let (outside, inside) = (on_track(self.rate_outside), on_track(self.rate_inside));
        let skew = Skew::Time(Duration::new(Nanos(switch_nanos)));
        let read_nanos = self.seek_average.nanos().0;
        let write_nanos = self.seek_average_write.map_or(read_nanos, |write| write.nanos().0);
        let write_settle = Difference { nanos: write_nanos.cast_signed() - read_nanos.cast_signed() };
        let seek = SeekSpec::Datasheet {
            single: self.seek_single,
            average: self.seek_average,
            full: self.seek_full.unwrap_or(Duration::new(Nanos(read_nanos * 2))),
        };
        Ok(HddSpec {
            capacity: Some(Size(self.capacity.0 / ioweir_core::SECTOR_BYTES * ioweir_core::SECTOR_BYTES)),
            revolutions_per_minute: self.revolutions_per_minute,
            surfaces: self.surfaces,
            cylinders: 0,
            layout: Layout::Conventional,
            surface_skew: skew,
            cylinder_skew: skew,
            turn_skew: None,
            head_switch: Duration::new(Nanos(switch_nanos)),
            write_settle,
            reposition: Duration::default(),
            interface_rate: self.interface_rate,
            interface_write_rate: None,
            read_ahead: self.cache.min(READ_AHEAD_MAX),
            write_cache: self.write_cache && self.cache.0 > 0,
            command_order: if self.command_queue { CommandOrder::Sptf } else { CommandOrder::Fifo },
            overhead: Overhead {
                read_after_read: self.overhead,
                read_after_write: self.overhead,
                write_after_read: self.overhead,
                write_after_write: self.overhead,
            },
            cache: None,
            seek,
            zones: Vec::new(),
            zoning: Some(Zoning {
                outer_sectors_per_track: whole(outside),
                inner: Ratio::new(inside / outside).unwrap_or(Ratio::ONE),
                zones: self.zones,
            }),
        })
    }

    fn check_own(&self) -> Result<(), Complaint> {
        spindle("disk_datasheet", self.revolutions_per_minute)?;
        numbers("disk_datasheet", &[("surfaces", self.surfaces, 1, 64), ("zones", self.zones, 2, 512)])?;
        if self.rate_inside > self.rate_outside || self.rate_inside.0 == 0 {
            let problem = format!("is {}, outside it is {}", self.rate_inside, self.rate_outside);
            return fail("disk_datasheet.rate_inside", problem, "the inner tracks are the shorter ones");
        }
        Ok(())
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Conversions of floats saturate.
fn nanos(value: f64) -> u64 {
    value.round() as u64
}

impl Model for DiskDatasheet {
    fn check(&self) -> Result<(), Complaint> {
        // Complaints of the model about a derived parameter concern the data sheet's numbers from which it follows.
        Model::check(&self.expand()?).map_err(|complaint| {
            complaint.about("disk_datasheet", |problem| format!("gives a disk that cannot be: {problem}"))
        })
    }

    fn with_command_order(&self, order: CommandOrder) -> Self {
        Self { command_queue: order == CommandOrder::Sptf, ..self.clone() }
    }

    fn rotates(&self) -> bool {
        true
    }

    fn switched_on(&self) -> Vec<String> {
        self.expand().map(|disk| disk.switched_on()).unwrap_or_default()
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Device>, Complaint> {
        Model::build(&self.expand()?, seed)
    }
}
