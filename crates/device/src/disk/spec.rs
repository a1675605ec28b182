//! The parameters of disks, and their check.

use serde::{Deserialize, Serialize};

use super::super::check::{fail, numbers, spindle, times};
use super::super::quantity::{Difference, Skew, SpindleSpeed};
use super::super::queue::CommandOrder;
use super::cache::CacheSpec;
use super::geometry::{Geometry, Motion, Skews, Zone};
use super::seek::{CYLINDERS_MAX, SeekTable};
use ioweir_core::Nanos;

use ioweir_config::Complaint;
use ioweir_config::{ByteRate, Duration, Ratio, Size, keys};

/// The most zones of a disk: real disks have up to a few dozen.
const ZONES_MAX: usize = 512;
const SURFACES_MAX: u32 = 64;
const SECTORS_PER_TRACK_MAX: u32 = 1 << 16;
const SECTOR_BYTES: u64 = ioweir_core::SECTOR_BYTES;

keys! {
    /// A disk drive.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HddSpec {
        /// the size of the disk; zones beyond it are never used; if absent, all zones are used
        capacity: Option<Size> = absent,
        /// the speed of the spindle
        revolutions_per_minute: SpindleSpeed = required,
        /// the number of recording surfaces, each with its head
        surfaces: u32 = required,
        /// the number of cylinders, that is, positions of the arm. With `zoning` they follow from the capacity
        cylinders: u32 = (0),
        /// the order of the tracks of a zone
        layout: Layout = (Layout::default()),
        /// the skew to the next track on another surface of the same cylinder
        surface_skew: Skew = (Skew::default()),
        /// the skew to the next track on the next cylinder
        cylinder_skew: Skew = (Skew::default()),
        /// the skew to the next track if that is more than a cylinder away: between the bundles of a serpentine layout. If
        /// absent, the cylinder skew
        turn_skew: Option<Skew> = absent,
        /// the time to change heads without moving the arm
        head_switch: Duration = (Duration::default()),
        /// how much longer a write settles than a read after a seek or a head switch; on some drives less long. Within a
        /// transfer the skews cover it
        write_settle: Difference = (Difference::default()),
        /// the shortest time of a new access before the rotation, even if the arm does not move: the head must find its
        /// track again. A transfer that continues without a pause does not need it
        reposition: Duration = (Duration::default()),
        /// the speed of the interface; it matters only for transfers from and to the drive's buffer
        interface_rate: ByteRate = required,
        /// the same for written data; if absent, that of reads
        interface_write_rate: Option<ByteRate> = absent,
        /// how far the drive reads ahead of a sequential reader into its buffer; a following read is served from there. Zero
        /// means no read-ahead: a sequential reader that pauses loses a revolution
        read_ahead: Size = (Size::default()),
        /// whether a write that continues the previous write streams on without a wait, because it was in the drive's buffer
        /// in time; if not, it waits for the next revolution
        write_cache: bool = (false),
        /// the order in which the drive starts the commands in its queue
        command_order: CommandOrder = (CommandOrder::default()),
        /// the overhead of a command before the arm moves
        overhead: Overhead = (Overhead::default()),
        /// the drive's buffer in detail. It replaces `read_ahead` and `write_cache`, which are the simple form
        cache: Option<CacheSpec> = absent,
        /// the seek time
        seek: SeekSpec = required,
        /// the zones, outermost first
        zones as "zone": Vec<ZoneSpec> = absent,
        /// the zones by two numbers, for a disk whose zones are not known. It replaces them and the cylinders
        zoning: Option<Zoning> = absent,
    }
}

keys! {
    /// Zones of equally many cylinders, whose tracks become shorter by equal steps.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Zoning {
        /// sectors of the outermost tracks
        outer_sectors_per_track: u32 = required,
        /// the sectors of the innermost tracks, as a share of those of the outermost
        inner: Ratio = required,
        /// the number of zones
        zones: u32 = (16),
    }
}

keys! {
    /// Command overhead by this operation and the one before. Flushes and discards count as writes, and cost nothing else.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Overhead {
        /// a read after a read
        read_after_read: Duration = (Duration::default()),
        /// a read after a write
        read_after_write: Duration = (Duration::default()),
        /// a write after a read
        write_after_read: Duration = (Duration::default()),
        /// a write after a write
        write_after_write: Duration = (Duration::default()),
    }
}

impl Overhead {
    /// The times with their keys.
    pub(super) fn times(&self) -> [(&'static str, Duration); 4] {
        [
            ("read_after_read", self.read_after_read),
            ("read_after_write", self.read_after_write),
            ("write_after_read", self.write_after_read),
            ("write_after_write", self.write_after_write),
        ]
    }
}

/// Order of the tracks in a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Layout {
    /// All surfaces of a cylinder, then the next cylinder, starting from surface zero again.
    #[default]
    Conventional,
    /// A bundle of neighbouring cylinders, surface by surface, alternately inwards and outwards; then the next bundle, with
    /// the surfaces in reverse order.
    Serpentine {
        /// Cylinders in a bundle. 1 means whole cylinders, with the surfaces alternately up and down.
        bundle_cylinders: u32,
    },
}

/// Seek time by distance in cylinders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SeekSpec {
    /// Measured points, linear between them.
    Table {
        /// Distance in cylinders, and time; sorted, from a distance of one cylinder to that of all.
        points: Vec<(u32, Duration)>,
    },
    /// Ruemmler and Wilkes: `short + short_root * sqrt(distance)` below the threshold, and `long + long_slope * distance`
    /// from there on.
    Hpl {
        /// First distance of the linear part.
        threshold_cylinders: u32,
        /// The constant of short seeks.
        short: Duration,
        /// The time per root of a cylinder.
        short_root: Duration,
        /// The constant of long seeks.
        long: Duration,
        /// The time per cylinder.
        long_slope: Duration,
        /// The seek of one cylinder, if it was measured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        single: Option<Duration>,
    },
    /// Lee: a curve through the three numbers of a datasheet.
    Datasheet {
        /// From track to track.
        single: Duration,
        /// The mean over uniformly random pairs of cylinders.
        average: Duration,
        /// From edge to edge.
        full: Duration,
    },
}

keys! {
    /// Cylinders whose tracks have the same number of sectors.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ZoneSpec {
        /// the first cylinder; the zone ends where the next begins
        first_cylinder: u32 = required,
        /// sectors of 512 bytes on each of its tracks
        sectors_per_track: u32 = required,
        /// the number of sectors that hold data; the rest, at the end of the zone, are spares; if absent, all hold data
        sectors: Option<u64> = absent,
        /// as on the disk, but for this zone
        surface_skew: Option<Skew> = absent,
        /// as on the disk, but for this zone
        cylinder_skew: Option<Skew> = absent,
    }
}

impl HddSpec {
    /// The disk with all defaults filled in.
    pub(crate) fn resolved(&self) -> Self {
        let mut resolved = self.clone();
        resolved.cache = self.cache.as_ref().map(CacheSpec::resolved);
        resolved.turn_skew = Some(self.turn_skew.unwrap_or(self.cylinder_skew));
        if self.zoning.is_some() {
            return resolved;
        }
        for (number, zone) in resolved.zones.iter_mut().enumerate() {
            let held = self.zone_sectors(number);
            zone.sectors.get_or_insert(held);
        }
        let total = resolved.zones.iter().fold(0, |sum: u64, zone| sum.saturating_add(zone.sectors.unwrap_or(0)));
        resolved.capacity.get_or_insert(Size(total.saturating_mul(SECTOR_BYTES)));
        resolved
    }

    /// Sectors on the tracks of a zone, spares included.
    fn zone_sectors(&self, number: usize) -> u64 {
        let Some(zone) = self.zones.get(number) else { return 0 };
        let end = self.zones.get(number + 1).map_or(self.cylinders, |next| next.first_cylinder);
        let tracks = u64::from(end.saturating_sub(zone.first_cylinder)).saturating_mul(u64::from(self.surfaces));
        tracks.saturating_mul(u64::from(zone.sectors_per_track))
    }

    /// The time of one revolution, to the nanosecond.
    pub(crate) fn revolution_nanos(&self) -> u64 {
        self.revolutions_per_minute.revolution_nanos()
    }

    /// The disk with its zoning expanded into zones.
    pub(crate) fn with_zones(&self) -> Result<Self, Complaint> {
        let Some(zoning) = &self.zoning else { return Ok(self.clone()) };
        if !self.zones.is_empty() || self.cylinders > 0 {
            return fail("hdd.zoning", "is given beside cylinders or zones", "give one of the two");
        }
        let Some(capacity) = self.capacity else {
            return fail("hdd.zoning", "has no capacity to fill", "give hdd.capacity, too");
        };
        let &Zoning { outer_sectors_per_track: outer, inner, zones } = zoning;
        numbers(
            "hdd.zoning",
            &[("outer_sectors_per_track", outer, 1, SECTORS_PER_TRACK_MAX), ("zones", zones, 1, ZONES_MAX as u32)],
        )?;
        numbers("hdd", &[("surfaces", self.surfaces, 1, SURFACES_MAX)])?;
        let steps = u64::from(zones.max(2) - 1);
        let lost_millionths = u64::from(Ratio::ONE_MILLIONTHS - inner.millionths());
        let track = |zone: u32| {
            let lost =
                u64::from(outer) * lost_millionths * u64::from(zone) / (steps * u64::from(Ratio::ONE_MILLIONTHS));
            outer.saturating_sub(u32::try_from(lost).unwrap_or(u32::MAX)).max(1)
        };
        let column: u64 = (0..zones).map(|zone| u64::from(track(zone)) * u64::from(self.surfaces)).sum();
        let each = (capacity.0 / SECTOR_BYTES).div_ceil(column.max(1)).max(1);
        let cylinders = u32::try_from(each.saturating_mul(u64::from(zones))).unwrap_or(u32::MAX);
        numbers("hdd", &[("cylinders", cylinders, 1, CYLINDERS_MAX)])?;
        let zone = |zone: u32| ZoneSpec {
            first_cylinder: cylinders / zones * zone,
            sectors_per_track: track(zone),
            sectors: None,
            surface_skew: None,
            cylinder_skew: None,
        };
        Ok(Self { cylinders, zones: (0..zones).map(zone).collect(), zoning: None, ..self.clone() })
    }

    /// Checks every parameter, and returns the geometry and the seek curve.
    pub(crate) fn lay_out(&self) -> Result<(Geometry, SeekTable), Complaint> {
        self.check_numbers()?;
        let seek = SeekTable::new(&self.seek, self.cylinders).map_err(|error| {
            let key = if error.key.is_empty() { "hdd.seek".into() } else { format!("hdd.seek.{}", error.key) };
            Complaint::new(key, error.problem, error.hint)
        })?;
        let zones = self.zones(&seek)?;
        let held: u64 = zones.iter().map(|zone| zone.sectors).sum();
        let sectors = match self.capacity {
            None => held,
            Some(Size(bytes)) if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) => {
                return fail(
                    "hdd.capacity",
                    format!("{bytes} bytes are not a number of sectors of 512 bytes"),
                    "round it down to a multiple of 512",
                );
            }
            Some(Size(bytes)) if bytes / SECTOR_BYTES > held => {
                return fail(
                    "hdd.capacity",
                    format!("{} sectors, but the zones hold only {held}", bytes / SECTOR_BYTES),
                    "add cylinders or sectors per track, or leave the capacity out",
                );
            }
            Some(Size(bytes)) => bytes / SECTOR_BYTES,
        };
        let motion = Motion {
            seek: &seek,
            head_switch_nanos: self.head_switch.nanos().0,
            revolution_nanos: self.revolution_nanos(),
        };
        let geometry = Geometry::new(&zones, self.surfaces, self.layout, &motion, sectors);
        Ok((geometry, seek))
    }

    fn check_numbers(&self) -> Result<(), Complaint> {
        spindle("hdd", self.revolutions_per_minute)?;
        numbers(
            "hdd",
            &[("surfaces", self.surfaces, 1, SURFACES_MAX), ("cylinders", self.cylinders, 1, CYLINDERS_MAX)],
        )?;
        if let Layout::Serpentine { bundle_cylinders } = self.layout {
            numbers("hdd.layout.serpentine", &[("bundle_cylinders", bundle_cylinders, 1, CYLINDERS_MAX / 2)])?;
        }
        let Self { head_switch, write_settle, reposition, .. } = *self;
        let settle = Duration::new(Nanos(write_settle.nanos.unsigned_abs()));
        times("hdd", &[("head_switch", head_switch), ("write_settle", settle), ("reposition", reposition)])?;
        times("hdd.overhead", &self.overhead.times())?;
        let write_rate = self.interface_write_rate.unwrap_or(self.interface_rate);
        for (key, rate) in [("interface_rate", self.interface_rate), ("interface_write_rate", write_rate)] {
            if !(1_000_000..=1_000_000_000_000).contains(&rate.0) {
                return fail(format!("hdd.{key}"), format!("is {rate}"), "give 1MB/s to 1TB/s");
            }
        }
        if let Some(cache) = &self.cache {
            cache.check()?;
            for (key, is_set) in [("read_ahead", self.read_ahead.0 > 0), ("write_cache", self.write_cache)] {
                if is_set {
                    let problem = "is set, but the disk has a [hdd.cache] too";
                    return fail(format!("hdd.{key}"), problem, "leave it out: the cache says more");
                }
            }
        }
        if self.read_ahead.0 > 1 << 40 {
            return fail("hdd.read_ahead", format!("is {}", self.read_ahead), "a drive's buffer holds at most 1TiB");
        }
        Ok(())
    }

    fn zones(&self, seek: &SeekTable) -> Result<Vec<Zone>, Complaint> {
        if self.zones.is_empty() || self.zones.len() > ZONES_MAX {
            return fail(
                "hdd.zone",
                format!("there are {} zones", self.zones.len()),
                format!("give 1 to {ZONES_MAX} [[hdd.zone]] tables"),
            );
        }
        let mut zones = Vec::with_capacity(self.zones.len());
        for (number, spec) in self.zones.iter().enumerate() {
            let key = |name: &str| format!("hdd.zone[{number}].{name}");
            let end = self.zones.get(number + 1).map_or(self.cylinders, |next| next.first_cylinder);
            if number == 0 && spec.first_cylinder != 0 {
                return fail(
                    key("first_cylinder"),
                    format!("the first zone begins at cylinder {}", spec.first_cylinder),
                    "the first zone begins at cylinder 0",
                );
            }
            if end <= spec.first_cylinder {
                let last = number + 1 == self.zones.len();
                let (problem, hint) = if last {
                    (
                        format!("begins at cylinder {}, the disk has {}", spec.first_cylinder, self.cylinders),
                        "raise hdd.cylinders or remove the zone",
                    )
                } else {
                    (
                        format!("begins at cylinder {}, the next zone at {end}", spec.first_cylinder),
                        "sort the zones by first_cylinder, outermost first",
                    )
                };
                return fail(key("first_cylinder"), problem, hint);
            }
            if !(1..=SECTORS_PER_TRACK_MAX).contains(&spec.sectors_per_track) {
                return fail(
                    key("sectors_per_track"),
                    format!("is {}", spec.sectors_per_track),
                    format!("give a number from 1 to {SECTORS_PER_TRACK_MAX}"),
                );
            }
            let cylinders = end - spec.first_cylinder;
            let held = self.zone_sectors(number);
            let sectors = spec.sectors.unwrap_or(held);
            if sectors == 0 || sectors > held {
                return fail(
                    key("sectors"),
                    format!("is {sectors}, the zone has {held}"),
                    "give at least 1 and at most what the zone has",
                );
            }
            zones.push(Zone {
                cylinder_first: spec.first_cylinder,
                cylinders,
                sectors_per_track: spec.sectors_per_track,
                sectors,
                skew: self.skews(spec, number, seek)?,
            });
        }
        Ok(zones)
    }

    fn skews(&self, zone: &ZoneSpec, number: usize, seek: &SeekTable) -> Result<Skews, Complaint> {
        let revolution = self.revolution_nanos();
        let switch = self.head_switch.nanos().0;
        let turn_cylinders = match self.layout {
            Layout::Conventional => 1,
            Layout::Serpentine { bundle_cylinders } => bundle_cylinders,
        };
        let resolve = |name: &str, own: Option<Skew>, disk: Skew, cylinders: u32| {
            let move_nanos = seek.nanos(cylinders).max(switch);
            let nanos = own.unwrap_or(disk).nanos(revolution, zone.sectors_per_track, move_nanos);
            if nanos < revolution {
                return Ok(nanos);
            }
            let key = if own.is_some() { format!("hdd.zone[{number}].{name}") } else { format!("hdd.{name}") };
            let skew = own.unwrap_or(disk);
            fail(
                key,
                format!("{skew} is a whole revolution or more in zone {number}"),
                "a skew is less than one revolution",
            )
        };
        let turn = self.turn_skew.unwrap_or(self.cylinder_skew);
        Ok(Skews {
            surface_nanos: resolve("surface_skew", zone.surface_skew, self.surface_skew, 0)?,
            cylinder_nanos: resolve("cylinder_skew", zone.cylinder_skew, self.cylinder_skew, 1)?,
            turn_nanos: resolve("turn_skew", None, turn, turn_cylinders)?,
        })
    }
}
