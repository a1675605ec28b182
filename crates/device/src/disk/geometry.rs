//! The location of each sector on the platters, and the time when it passes the head.
//!
//! Sectors are numbered along one continuous path: a track, a skew, the next track, and so on through all zones. The *stream
//! position* of a sector is the time that a head needs to reach it from sector zero along this path, without a command in
//! between. Because of two properties, no request needs a loop over its tracks:
//!
//! - the angle of a sector is its stream position modulo one revolution;
//! - a transfer takes the difference of two stream positions, skews and crossings included.
//!
//! A zone is cut into *bands* of equal groups. A group is the repeating part: one cylinder with one track on each surface
//! (conventional), or two bundles of neighbouring cylinders that are written surface by surface, out and back
//! (serpentine). A group consists of *runs*: consecutive tracks on one surface.

use super::seek::SeekTable;
use super::spec::Layout;
use crate::divider::Divider;

/// The number of fraction bits of nanoseconds per sector.
const FRACTION_BITS: u32 = 32;
/// The number of entries of the table that finds the band of a sector.
const INDEX_ENTRIES: u64 = 1024;

/// A checked zone with all defaults filled in.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) cylinder_first: u32,
    pub(crate) cylinders: u32,
    pub(crate) sectors_per_track: u32,
    /// The number of sectors that hold data; the rest, at the end of the zone, are spares.
    pub(crate) sectors: u64,
    /// The skew from the end of a track to the beginning of the next, by how the head moves.
    pub(crate) skew: Skews,
}

/// The angular distance from the end of a track to the beginning of the next, in nanoseconds of rotation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skews {
    /// To another surface of the same cylinder.
    pub(crate) surface_nanos: u64,
    /// To the next cylinder.
    pub(crate) cylinder_nanos: u64,
    /// To a track further away: from the end of a serpentine bundle to the next bundle.
    pub(crate) turn_nanos: u64,
}

/// Head travel, as three sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Travel {
    pub(crate) movements: u64,
    pub(crate) tracks: u64,
    pub(crate) squares: u64,
}

impl Travel {
    pub(crate) fn step(distance: u64) -> Self {
        Self { movements: u64::from(distance > 0), tracks: distance, squares: distance * distance }
    }

    fn times(self, count: u64) -> Self {
        Self { movements: self.movements * count, tracks: self.tracks * count, squares: self.squares * count }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            movements: self.movements + other.movements,
            tracks: self.tracks + other.tracks,
            squares: self.squares.saturating_add(other.squares),
        }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            movements: self.movements - other.movements,
            tracks: self.tracks - other.tracks,
            squares: self.squares - other.squares,
        }
    }
}

/// Consecutive tracks on one surface, relative to its group.
#[derive(Clone, Copy, Debug)]
struct Run {
    stream_nanos: u64,
    cylinder: u32,
    /// Cylinders from one track to the next: one inwards, or one outwards (the number that wraps to minus one).
    step: u32,
    head: u32,
    travel: Travel,
}

impl Run {
    /// The cylinder `along` tracks into the run, in a group at cylinder `base`. It has no branch, because the direction of a
    /// run is not predictable.
    #[inline]
    fn cylinder_at(&self, base: u32, along: u32) -> u32 {
        (base + self.cylinder).wrapping_add(self.step.wrapping_mul(along))
    }
}

/// Consecutive groups of one shape.
#[derive(Clone, Debug)]
struct Band {
    sector_first: u64,
    sector_end: u64,
    sectors_per_track: Divider,
    /// The time in which one sector passes, in nanoseconds with [`FRACTION_BITS`] of fraction.
    sector_nanos_fixed: u64,
    tracks_per_group: Divider,
    tracks_per_run: Divider,
    cylinders_per_group: u32,
    cylinder_first: u32,
    stream_first_nanos: u64,
    group_nanos: u64,
    /// From the beginning of a track to that of the next track of the same run.
    track_nanos: u64,
    run_first: usize,
    travel_first: Travel,
    travel_group: Travel,
}

/// The location of a sector, and of its track.
///
/// The methods that serve a request are always inlined. Otherwise the fields would be written to memory one by one and read
/// back in pairs, for which the processor has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
    /// The sector within its track.
    pub(crate) sector: u32,
    sectors_per_track: u32,
    sector_nanos_fixed: u64,
    /// Stream position of the track's first sector.
    track_stream_nanos: u64,
    band: u32,
    track: u32,
}

/// The number of sectors that pass within `nanos`: the largest number whose end, rounded down as everywhere, is not later.
/// Two seconds count as more than a track.
fn passed(nanos: u64, sector_nanos_fixed: u64) -> u64 {
    (((nanos.min(1 << 31) + 1) << FRACTION_BITS) - 1) / sector_nanos_fixed.max(1)
}

impl Place {
    /// Stream position of the sector's beginning.
    #[inline(always)]
    pub(crate) fn stream_nanos(&self) -> u64 {
        self.track_stream_nanos + ((u64::from(self.sector) * self.sector_nanos_fixed) >> FRACTION_BITS)
    }

    /// Stream position of the sector's end.
    #[inline(always)]
    pub(crate) fn stream_end_nanos(&self) -> u64 {
        self.track_stream_nanos + (((u64::from(self.sector) + 1) * self.sector_nanos_fixed) >> FRACTION_BITS)
    }

    /// The sector `ahead` sectors further, if it lies on the same track.
    #[inline(always)]
    pub(crate) fn along_track(&self, ahead: u64) -> Option<Self> {
        let sector = u64::from(self.sector) + ahead;
        (sector < u64::from(self.sectors_per_track)).then_some(Self { sector: low32(sector), ..*self })
    }

    /// The number of sectors on the track after this one.
    pub(crate) fn sectors_after(&self) -> u64 {
        u64::from(self.sectors_per_track - 1 - self.sector)
    }

    /// The number of sectors on the track before this one that pass within `nanos`.
    pub(crate) fn sectors_before(&self, nanos: u64) -> u64 {
        passed(nanos, self.sector_nanos_fixed).min(u64::from(self.sector))
    }

    /// The number of sectors after this one that have passed at a stream position, which must not be before its end; `None`
    /// if that is at or after the end of the track.
    pub(crate) fn sectors_passed(&self, stream_nanos: u64) -> Option<u64> {
        let passed = passed(stream_nanos.saturating_sub(self.track_stream_nanos), self.sector_nanos_fixed);
        (passed < u64::from(self.sectors_per_track)).then(|| passed.saturating_sub(u64::from(self.sector) + 1))
    }

    /// The number of sectors on the track.
    pub(crate) fn sectors_per_track(&self) -> u64 {
        u64::from(self.sectors_per_track)
    }

    /// The track, by its number and that of its band.
    #[inline(always)]
    pub(crate) fn track(&self) -> (u32, u32) {
        (self.band, self.track)
    }
}

/// The geometry of the whole disk.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    bands: Vec<Band>,
    runs: Vec<Run>,
    /// For each slice of the address space, the band of its first sector.
    index: Vec<u16>,
    index_shift: u32,
    sectors: u64,
    cylinders: u32,
}

/// The low half of values that validation keeps below 2^32.
#[allow(clippy::cast_possible_truncation)] // Sectors a track, tracks and cylinders are bounded by `spec::check`.
pub(crate) fn low32(value: u64) -> u32 {
    value as u32
}

impl Geometry {
    /// Lays out `zones`, which have been checked: they are in order, without gaps, and not empty.
    pub(crate) fn new(zones: &[Zone], surfaces: u32, layout: Layout, motion: &Motion<'_>, sectors: u64) -> Self {
        let mut plan = Plan { bands: Vec::new(), runs: Vec::new(), motion, surfaces, sectors_left: sectors };
        for zone in zones {
            plan.zone(zone, layout);
        }
        let cylinders = zones.last().map_or(0, |zone| zone.cylinder_first + zone.cylinders);
        let (bands, runs) = (plan.bands, plan.runs);
        let total = bands.last().map_or(0, |band: &Band| band.sector_end);
        let mut index_shift = 0;
        while (total >> index_shift) >= INDEX_ENTRIES {
            index_shift += 1;
        }
        let index = (0..=(total >> index_shift))
            .map(|slot| {
                let band = bands.partition_point(|band| band.sector_end <= slot << index_shift);
                u16::try_from(band.min(bands.len().saturating_sub(1))).unwrap_or(0)
            })
            .collect();
        Self { bands, runs, index, index_shift, sectors: total, cylinders }
    }

    /// The number of sectors that hold data.
    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// The number of cylinders, including spares.
    pub(crate) fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// The location of `sector`, which must lie on the disk.
    #[inline(always)]
    pub(crate) fn locate(&self, sector: u64) -> Place {
        debug_assert!(sector < self.sectors);
        let slot = usize::try_from(sector >> self.index_shift).unwrap_or(usize::MAX);
        let mut number = usize::from(self.index[slot]);
        while self.bands[number].sector_end <= sector {
            number += 1;
        }
        let band = &self.bands[number];
        let (track, within) = band.sectors_per_track.divide(sector - band.sector_first);
        let (group, run, along) = band.split(track);
        let run = &self.runs[band.run_first + run];
        let base = band.cylinder_first + low32(group) * band.cylinders_per_group;
        Place {
            cylinder: run.cylinder_at(base, low32(along)),
            head: run.head,
            sector: low32(within),
            sectors_per_track: low32(band.sectors_per_track.divisor()),
            sector_nanos_fixed: band.sector_nanos_fixed,
            track_stream_nanos: band.stream_first_nanos
                + group * band.group_nanos
                + run.stream_nanos
                + along * band.track_nanos,
            band: low32(number as u64),
            track: low32(track),
        }
    }

    /// The number of sectors from sector zero up to a stream position, without the one under the head.
    pub(crate) fn sectors_until(&self, stream_nanos: u64) -> u64 {
        let after = self.bands.partition_point(|band| band.stream_first_nanos <= stream_nanos);
        let Some(band) = after.checked_sub(1).and_then(|number| self.bands.get(number)) else { return 0 };
        let within = stream_nanos - band.stream_first_nanos;
        let (group, within) = (within / band.group_nanos, within % band.group_nanos);
        let runs = low32(band.tracks_per_group.divisor() / band.tracks_per_run.divisor()) as usize;
        let runs = &self.runs[band.run_first..band.run_first + runs];
        let number = runs.partition_point(|run| run.stream_nanos <= within).saturating_sub(1);
        let within = within - runs[number].stream_nanos;
        let along = (within / band.track_nanos).min(band.tracks_per_run.divisor() - 1);
        let within = within - along * band.track_nanos;
        let spt = band.sectors_per_track.divisor();
        let passed = passed(within, band.sector_nanos_fixed).min(spt);
        let track = group * band.tracks_per_group.divisor() + number as u64 * band.tracks_per_run.divisor() + along;
        (band.sector_first + track * spt + passed).min(band.sector_end)
    }

    /// Head travel from sector zero to a track (see [`Place::track`]), along the stream.
    pub(crate) fn travel(&self, (band, track): (u32, u32)) -> Travel {
        self.bands[band as usize].travel(&self.runs, u64::from(track))
    }

    /// The sector at a location, if there is one: the inverse of [`Geometry::locate`].
    #[cfg(test)]
    pub(crate) fn sector_at(&self, cylinder: u32, head: u32, sector: u32) -> Option<u64> {
        for band in &self.bands {
            let tracks = (band.sector_end - band.sector_first).div_ceil(band.sectors_per_track.divisor());
            for track in 0..tracks {
                let first = band.sector_first + track * band.sectors_per_track.divisor();
                let place = self.locate(first);
                let number = first + u64::from(sector);
                if (place.cylinder, place.head) == (cylinder, head)
                    && sector < place.sectors_per_track
                    && number < band.sector_end
                {
                    return Some(number);
                }
            }
        }
        None
    }
}

impl Band {
    /// Splits a track number into group, run within the group, and track within the run.
    #[inline]
    fn split(&self, track: u64) -> (u64, usize, u64) {
        let (group, rest) = self.tracks_per_group.divide(track);
        let (run, along) = self.tracks_per_run.divide(rest);
        (group, low32(run) as usize, along)
    }

    fn travel(&self, runs: &[Run], track: u64) -> Travel {
        let (group, run, along) = self.split(track);
        let run = &runs[self.run_first + run];
        self.travel_first.plus(self.travel_group.times(group)).plus(run.travel).plus(Travel::step(1).times(along))
    }
}

/// The time that the head takes from one track to another.
pub(crate) struct Motion<'a> {
    pub(crate) seek: &'a SeekTable,
    pub(crate) head_switch_nanos: u64,
    pub(crate) revolution_nanos: u64,
}

impl Motion<'_> {
    /// From the end of a track to the beginning of the next: the skew, plus the revolutions that are lost if the head does
    /// not arrive in time.
    pub(crate) fn gap(&self, distance: u32, other_head: bool, skew: &Skews) -> u64 {
        let skew_nanos = match distance {
            0 => skew.surface_nanos,
            1 => skew.cylinder_nanos,
            _ => skew.turn_nanos,
        };
        let switch_nanos = if other_head { self.head_switch_nanos } else { 0 };
        let move_nanos = self.seek.nanos(distance).max(switch_nanos);
        let lost = move_nanos.saturating_sub(skew_nanos).div_ceil(self.revolution_nanos);
        skew_nanos + lost * self.revolution_nanos
    }
}

/// A disk whose layout is being computed.
struct Plan<'a> {
    bands: Vec<Band>,
    runs: Vec<Run>,
    motion: &'a Motion<'a>,
    surfaces: u32,
    sectors_left: u64,
}

/// A range of a zone's cylinders that becomes a band.
#[derive(Clone, Copy)]
struct Stretch {
    first: u32,
    cylinders: u32,
    /// Cylinders in a bundle.
    bundle: u32,
    /// Whether the path returns over a second bundle, so that a group has two.
    back: bool,
}

impl Stretch {
    fn runs(&self, surfaces: u32) -> u32 {
        if self.back { surfaces * 2 } else { surfaces }
    }

    fn group_cylinders(&self) -> u32 {
        if self.back { self.bundle * 2 } else { self.bundle }
    }
}

impl Plan<'_> {
    fn zone(&mut self, zone: &Zone, layout: Layout) {
        let (first, cylinders) = (zone.cylinder_first, zone.cylinders);
        let single = |first, cylinders| Stretch { first, cylinders, bundle: 1, back: false };
        let stretches = match layout {
            Layout::Conventional => [single(first, cylinders), single(first, 0), single(first, 0)],
            // Cylinders that do not fill a pair of bundles form a narrower pair, and a last odd cylinder stays alone.
            Layout::Serpentine { bundle_cylinders } => {
                let whole = cylinders - cylinders % (bundle_cylinders * 2);
                let bundle = (cylinders - whole) / 2;
                let narrow_first = first + whole;
                let odd_first = narrow_first + bundle * 2;
                [
                    Stretch { first, cylinders: whole, bundle: bundle_cylinders, back: true },
                    Stretch { first: narrow_first, cylinders: bundle * 2, bundle, back: true },
                    single(odd_first, (cylinders - whole) % 2),
                ]
            }
        };
        let mut left = zone.sectors;
        for stretch in stretches {
            let tracks = u64::from(stretch.cylinders) * u64::from(self.surfaces);
            let sectors = (tracks * u64::from(zone.sectors_per_track)).min(left).min(self.sectors_left);
            if sectors > 0 {
                self.band(zone, stretch, sectors);
                left -= sectors;
                self.sectors_left -= sectors;
            }
        }
    }

    /// Lays out the first `sectors` of a stretch.
    fn band(&mut self, zone: &Zone, stretch: Stretch, sectors: u64) {
        let revolution = self.motion.revolution_nanos;
        let spt = u64::from(zone.sectors_per_track);
        let track_nanos = revolution + self.motion.gap(1, false, &zone.skew);
        let run_first = self.runs.len();
        let (group_nanos, travel_group) = self.group(zone, stretch, track_nanos);
        let (stream_first_nanos, travel_first, sector_first) = self.after_last(stretch.first, zone);
        self.bands.push(Band {
            sector_first,
            sector_end: sector_first + sectors,
            sectors_per_track: Divider::new(spt),
            sector_nanos_fixed: (revolution << FRACTION_BITS).div_ceil(spt),
            tracks_per_group: Divider::new(u64::from(stretch.runs(self.surfaces)) * u64::from(stretch.bundle)),
            tracks_per_run: Divider::new(u64::from(stretch.bundle)),
            cylinders_per_group: stretch.group_cylinders(),
            cylinder_first: stretch.first,
            stream_first_nanos,
            group_nanos,
            track_nanos,
            run_first,
            travel_first,
            travel_group,
        });
    }

    /// Appends the runs of one group. Returns its length and travel, up to the beginning of the next group.
    fn group(&mut self, zone: &Zone, stretch: Stretch, track_nanos: u64) -> (u64, Travel) {
        let steps = stretch.bundle - 1;
        let count = stretch.runs(self.surfaces);
        let mut stream_nanos = 0;
        let mut travel = Travel::default();
        for number in 0..count {
            let run = shape(number, self.surfaces, stretch.bundle);
            self.runs.push(Run { stream_nanos, travel, ..run });
            let last = run.cylinder_at(0, steps);
            let (next_cylinder, next_head) = if number + 1 < count {
                let next = shape(number + 1, self.surfaces, stretch.bundle);
                (next.cylinder, next.head)
            } else {
                (stretch.group_cylinders(), 0)
            };
            let distance = next_cylinder.abs_diff(last);
            stream_nanos += track_nanos * u64::from(steps) + self.motion.revolution_nanos;
            stream_nanos += self.motion.gap(distance, next_head != run.head, &zone.skew);
            travel = travel.plus(Travel::step(1).times(u64::from(steps))).plus(Travel::step(u64::from(distance)));
        }
        (stream_nanos, travel)
    }

    /// Stream position, travel and sector number at the start of a band at cylinder `first`, after the last band.
    fn after_last(&self, first: u32, zone: &Zone) -> (u64, Travel, u64) {
        let Some(band) = self.bands.last() else {
            return (0, Travel::default(), 0);
        };
        let last_track = band.sectors_per_track.divide(band.sector_end - 1 - band.sector_first).0;
        let (group, run, along) = band.split(last_track);
        let run = &self.runs[band.run_first + run];
        let base = band.cylinder_first + low32(group) * band.cylinders_per_group;
        let last = run.cylinder_at(base, low32(along));
        let distance = first.abs_diff(last);
        let track = band.stream_first_nanos + group * band.group_nanos + run.stream_nanos + along * band.track_nanos;
        // The few spare tracks between zones are crossed within the cylinder skew.
        let gap = self.motion.gap(distance.min(1), run.head != 0, &zone.skew);
        let travel = band.travel(&self.runs, last_track).plus(Travel::step(u64::from(distance)));
        (track + self.motion.revolution_nanos + gap, travel, band.sector_end)
    }
}

/// Surface, first cylinder and direction of a run within its group.
fn shape(number: u32, surfaces: u32, bundle: u32) -> Run {
    let returning = number >= surfaces;
    let pass = if returning { number - surfaces } else { number };
    let outward = pass % 2 == 1 && bundle > 1;
    let base = if returning { bundle } else { 0 };
    Run {
        stream_nanos: 0,
        cylinder: if outward { base + bundle - 1 } else { base },
        step: if outward { u32::MAX } else { 1 },
        head: if returning { surfaces - 1 - pass } else { pass },
        travel: Travel::default(),
    }
}
