//! Facts that the answers to probes show directly.
//!
//! A read that begins just before the one before it has to wait for nearly a revolution: all of it but the time in which the
//! medium passes from the one beginning to the other. Two steps of different length give both the revolution and the speed
//! of the medium.

use ioweir_config::{Duration, Ratio};
use ioweir_core::{Nanos, SECTOR_BYTES};
use ioweir_device::calibration::Pairs;
use ioweir_device::parameter::Amount;
use serde::Serialize;

use super::Probed;
use super::buffer::Buffer;
use super::plan::{BACKWARDS_LARGE, BACKWARDS_SMALL, DEPTH_READS, DEPTHS, RANDOM, SEQUENTIAL, rotates};
use super::rests::{self, Wake};
use super::strides::{self, Layout, Strides};
use super::{surfaces, track};
use ioweir_block::real::Completed;

/// Revolutions of disks, from 20,000 to 3,000 a minute.
const REVOLUTION_NANOS: std::ops::RangeInclusive<f64> = 3e6..=20e6;
/// The part of a revolution within which half of the reads backwards have to agree for it to be known.
const SPREAD_MAX: f64 = 0.05;

/// How far, as a part, what tracks of a run lose may be from what single ones lose.
const SKEW_DIFFERS: f64 = 0.3;
/// The least rise of the rate of random reads, as a part, where a disk chooses the next among several.
const CHOOSES: f64 = 0.2;

/// The properties of a place.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Place {
    /// First byte.
    pub offset: u64,
    /// Bytes a second of sequential reads.
    pub bytes_per_second: f64,
    /// Sectors on a track, if the device rotates.
    pub sectors_per_track: Option<f64>,
}

/// Facts that probes show directly.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Whether single reads are as slow as those of a disk.
    pub rotates: bool,
    /// The time of a revolution.
    pub revolution_nanos: Option<f64>,
    /// The places, from the front.
    pub places: Vec<Place>,
    /// The time lost from the end of a track to the beginning of the next.
    pub skew_nanos: Option<f64>,
    /// The time of a read before it waits for a place on the track where the head is.
    pub command_nanos: Option<f64>,
    /// Surfaces, if the arm takes another time from one cylinder to the next than a head from one surface to another.
    pub surfaces: Option<u64>,
    /// The zones of equally many cylinders that explain the tracks of the places best.
    pub zones: Option<Zones>,
    /// Random reads a second at so many at once, the fewest first.
    pub rates: Vec<(usize, f64)>,
    /// The behaviour of the buffer, if the device rotates.
    pub buffer: Option<Buffer>,
    /// The wake-up from sleep, if the device does not rotate.
    pub wake: Option<Wake>,
    /// The addresses that share a die, if the device does not rotate, and how fast those are read.
    pub layout: Option<(Layout, Strides)>,
}

impl Facts {
    /// Derives the facts from the answers.
    #[must_use]
    pub fn of(probed: &Probed) -> Self {
        let rotates = rotates(probed);
        let small = agreed(&mut gaps(probed.to(BACKWARDS_SMALL))).filter(|small| REVOLUTION_NANOS.contains(small));
        let sequential = runs(probed.to(SEQUENTIAL), |one, next| one.offset + one.length == next.offset);
        let backwards = runs(probed.to(BACKWARDS_LARGE), |one, next| {
            one.offset > next.offset && one.offset - next.offset < 1 << 20
        });
        let first = backwards.first().and_then(|reads| revolution(small?, reads));
        let place = |(number, reads): (usize, &&[Completed])| {
            let (begin, end) = (reads.first()?, reads.last()?);
            let seconds = end.completed.since(begin.completed).0 as f64 / 1e9;
            let bytes: u64 = reads.iter().skip(1).map(|read| read.length).sum();
            let track = first.zip(backwards.get(number)).and_then(|(revolution, reads)| track(revolution, reads));
            (seconds > 0.0).then_some(Place {
                offset: begin.offset,
                bytes_per_second: bytes as f64 / seconds,
                sectors_per_track: track,
            })
        };
        let places: Vec<Place> = sequential.iter().enumerate().filter_map(place).collect();
        let skew = first.and_then(|revolution| skew(revolution, &places, &sequential, &backwards));
        let track = places.first().and_then(|place| place.sectors_per_track);
        let command = first.zip(track).and_then(|(revolution, track)| track::command_nanos(probed, revolution, track));
        let wake = rests::wake(probed);
        let facts = Self {
            rotates,
            revolution_nanos: first,
            places,
            skew_nanos: skew,
            command_nanos: command,
            surfaces: None,
            zones: None,
            rates: rates(probed),
            buffer: None,
            wake,
            layout: strides::layout(probed).map(|layout| (layout, Strides::of(probed))),
        };
        let (surfaces, zones) = (surfaces::surfaces(&facts, probed), Zones::of(&facts.places));
        let buffer = Buffer::of(&facts, probed);
        Self { surfaces, zones, buffer, ..facts }
    }

    /// The time of a revolution.
    #[must_use]
    pub fn revolutions_per_minute(&self) -> Option<f64> {
        self.revolution_nanos.map(|nanos| 60e9 / nanos)
    }
}

impl Facts {
    /// The parameters of a disk that follow from these facts: its speed; for a disk without known zones, its outermost and innermost
    /// tracks; the time lost between two tracks, and the time of a command. No probe tells the part of a command before the arm moves from
    /// the part afterwards, so that all of it counts as before.
    #[must_use]
    pub fn of_disk(&self, has_zones: bool) -> Vec<(String, Amount)> {
        let Some(speed) = self.revolutions_per_minute() else { return Vec::new() };
        let mut known = vec![("hdd.revolutions_per_minute".to_owned(), Amount::Count(0).with_number(speed.round()))];
        let (Some(first), Some(last)) = (self.places.first(), self.places.last()) else { return known };
        let (Some(outer), Some(inner)) = (first.sectors_per_track, last.sectors_per_track) else { return known };
        if has_zones {
            return known;
        }
        let inner = Ratio::new((inner / outer).clamp(0.1, 1.0)).unwrap_or(Ratio::ONE);
        known.push(("hdd.zoning.outer_sectors_per_track".into(), Amount::Count(0).with_number(outer.round())));
        known.push(("hdd.zoning.inner".into(), Amount::Share(inner)));
        known.extend(self.zones.map(|zones| ("hdd.zoning.zones".to_owned(), Amount::Count(zones.count))));
        known.extend(self.buffer.iter().flat_map(Buffer::of_disk));
        if let Some(skew) = self.skew_nanos {
            let skew = Amount::Time(Duration::default()).with_number(skew);
            known.extend(["hdd.surface_skew", "hdd.cylinder_skew"].map(|key| (key.to_owned(), skew.clone())));
        }
        if let Some(chooses) = self.chooses() {
            known.push(("hdd.command_order".into(), Amount::Word(if chooses { "sptf" } else { "fifo" }.into())));
        }
        if let Some(surfaces) = self.surfaces {
            known.push(("hdd.surfaces".into(), Amount::Count(surfaces)));
        }
        if let Some(command) = self.command_nanos {
            for (key, nanos) in
                [("hdd.overhead.read_after_read", command), ("hdd.reposition", 0.0), ("hdd.cache.read_completion", 0.0)]
            {
                known.push((key.to_owned(), Amount::Time(Duration::default()).with_number(nanos)));
            }
        }
        known
    }

    /// Whether it answers more random reads a second where it can choose the next one among several.
    fn chooses(&self) -> Option<bool> {
        let ((_, alone), (_, most)) = (self.rates.first()?, self.rates.last()?);
        (self.rates.len() > 1).then_some(*most > alone * (1.0 + CHOOSES))
    }

    /// The time between completions of random reads two at once, beside that of a read by itself. The second waits while one arm serves the
    /// first, so that there is nothing to choose among, and both times are alike.
    #[must_use]
    pub fn pairs(&self) -> Option<Pairs> {
        let nanos = |at: usize| Some(1e9 / self.rates.iter().find(|(depth, _)| *depth == at)?.1);
        let [alone, apart] = [nanos(1)?, nanos(2)?].map(|nanos| Duration::new(Nanos(nanos as u64)));
        Some(Pairs { count: DEPTH_READS as u64, apart, alone })
    }

    /// The parameters of a disk that are enclosed by this: those of its buffer.
    #[must_use]
    pub fn encloses(&self) -> Vec<(String, (f64, f64))> {
        self.buffer.iter().flat_map(Buffer::encloses).collect()
    }

    /// The parameters of a flash drive that are known by this: how it wakes up, and how addresses lie on the dies of one for which no
    /// preset says so.
    #[must_use]
    pub fn of_flash(&self, has_layout: bool) -> Vec<(String, Amount)> {
        let mut known = self.wake.map(Wake::of_flash).unwrap_or_default();
        known.extend(self.layout.filter(|_| !has_layout).map(|(layout, _)| layout.of_flash()).unwrap_or_default());
        known
    }

    /// The contradiction between the answers and the device's own statement, in words.
    #[must_use]
    pub const fn contradiction(&self, says_rotational: Option<bool>) -> Option<&'static str> {
        match (says_rotational, self.revolution_nanos) {
            (Some(false), Some(_)) => {
                Some("it says that it does not rotate, but its reads wait for their place as a disk's do")
            }
            (Some(true), None) => Some("it says that it rotates, but none of its reads waits for its place"),
            _ => None,
        }
    }

    #[must_use]
    pub fn in_words(&self) -> Vec<(String, String)> {
        let mut words = Vec::new();
        let mut say = |what: &str, value: String| words.push((what.to_owned(), value));
        match self.revolutions_per_minute() {
            Some(speed) => say("revolutions", format!("{speed:.0} a minute")),
            None if self.rotates => {
                say("revolutions", "none found: it is as slow as a disk, but does not wait for a place".into())
            }
            None => say("revolutions", "none: single reads are faster than those of a disk".into()),
        }
        if let Some(command) = self.command_nanos {
            say("a command", format!("{:.0} us before the head waits for its place", command / 1e3));
        }
        if let Some(surfaces) = self.surfaces {
            say("surfaces", surfaces.to_string());
        }
        if !self.rates.is_empty() {
            let rates =
                self.rates.iter().map(|(depth, rate)| format!("{rate:.0} at {depth}")).collect::<Vec<_>>().join(", ");
            say("random reads a second", format!("{rates} at once"));
        }
        if let Some(wake) = self.wake {
            say("at rest", wake.in_words());
        }
        match &self.layout {
            Some((layout, strides)) => say("strides", layout.in_words(*strides)),
            None if !self.rotates => say("strides", "none was found at which reads wait for each other".into()),
            None => {}
        }
        if let Some(zones) = self.zones {
            say("zones", zones.in_words());
        }
        self.buffer.iter().flat_map(Buffer::in_words).for_each(|(what, value)| say(&what, value));
        for (what, place) in [("at the front", self.places.first()), ("at the end", self.places.last())] {
            let Some(place) = place else { continue };
            let track =
                place.sectors_per_track.map_or_else(String::new, |track| format!(", {track:.0} sectors a track"));
            say(what, format!("{:.1} MB/s sequentially{track}", place.bytes_per_second / 1e6));
        }
        words
    }
}

/// Random reads a second at each depth that all reads were carried out at.
fn rates(probed: &Probed) -> Vec<(usize, f64)> {
    let rate = |(name, depth): (&str, usize)| {
        let reads = probed.to(name);
        let begin = reads.first()?.submitted;
        let end = reads.iter().map(|read| read.completed).max()?;
        let seconds = end.since(begin).0 as f64 / 1e9;
        (seconds > 0.0 && !probed.cut.contains(&name)).then_some((depth, reads.len() as f64 / seconds))
    };
    [(RANDOM, 1)].into_iter().chain(DEPTHS).filter_map(rate).collect()
}

/// Zones of equally many cylinders, whose tracks become shorter by equal steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Zones {
    /// How many.
    pub count: u64,
    /// How far, as a part, their tracks are from those of the places in the mean.
    pub differ: f64,
}

impl Zones {
    /// The zones, from the first place to the last, whose tracks come nearest to those of the places.
    fn of(places: &[Place]) -> Option<Self> {
        let tracks: Vec<(f64, f64)> =
            places.iter().filter_map(|place| Some((place.offset as f64, place.sectors_per_track?))).collect();
        let ((_, outer), (end, inner)) = (*tracks.first()?, *tracks.last()?);
        let differ = |count: u64| {
            let track = |zone: u64| outer - (outer - inner) * zone as f64 / (count - 1) as f64;
            let all: f64 = (0..count).map(track).sum();
            let off = |(offset, measured): &(f64, f64)| {
                // Equally many cylinders hold more data on outer tracks.
                let mut before = 0.0;
                let zone = (0..count - 1).find(|zone| {
                    before += track(*zone);
                    *offset < end * before / all
                });
                (track(zone.unwrap_or(count - 1)) / measured - 1.0).abs()
            };
            tracks.iter().map(off).sum::<f64>() / tracks.len() as f64
        };
        let zones = (2..=tracks.len() as u64).map(|count| Self { count, differ: differ(count) });
        zones.min_by(|one, other| one.differ.total_cmp(&other.differ))
    }

    fn in_words(self) -> String {
        let Self { count, differ } = self;
        format!("{count} of equally many cylinders: their tracks are {:.1} % from those of the places", differ * 100.0)
    }
}

/// The revolution, from the median period of small steps and the reads of large steps at the same place.
fn revolution(small: f64, reads: &[Completed]) -> Option<f64> {
    let (step, first) = (sectors(reads)?, 8.0);
    let large = median(&mut gaps(reads))?;
    // Both lie on a line over the length of the step, which begins at the revolution.
    Some(small + first * (small - large) / (step - first)).filter(|nanos| REVOLUTION_NANOS.contains(nanos))
}

/// The sectors on a track, from reads by large steps.
fn track(revolution: f64, reads: &[Completed]) -> Option<f64> {
    let large = median(&mut gaps(reads))?;
    Some(sectors(reads)? * revolution / (revolution - large)).filter(|sectors| sectors.is_finite() && *sectors >= 1.0)
}

/// The time lost between two tracks. A step backwards over the beginning of a track takes so much less than the others, which shows how
/// many tracks a run of sequential reads passed. The mean is all that these took beyond their sectors, over all of those.
fn skew(revolution: f64, places: &[Place], sequential: &[&[Completed]], backwards: &[&[Completed]]) -> Option<f64> {
    let less = |reads: &&[Completed]| track::odd(&gaps(reads)).into_iter().map(|(_, less)| less.rem_euclid(revolution));
    let crossings: Vec<f64> = backwards.iter().flat_map(less).filter(|less| *less < revolution / 2.0).collect();
    // The time that each run took beyond its sectors, and its length in tracks.
    let runs: Vec<(f64, f64)> = places
        .iter()
        .zip(sequential)
        .filter_map(|(place, reads)| {
            let (track, begin, end) = (place.sectors_per_track?, reads.first()?, reads.last()?);
            let sectors = reads.iter().skip(1).map(|read| read.length / SECTOR_BYTES).sum::<u64>() as f64;
            let took = end.completed.since(begin.completed).0 as f64;
            Some((took - sectors * revolution / track.round(), sectors / track))
        })
        .collect();
    let about = match crossings.len() {
        0 => median(&mut runs.iter().map(|(beyond, tracks)| beyond / tracks).collect::<Vec<_>>())?,
        count => crossings.iter().sum::<f64>() / count as f64,
    };
    let off = |beyond: f64, passed: f64| (beyond / passed / about - 1.0).abs();
    let (mut lost, mut tracks) = (0.0, 0.0);
    for (beyond, length) in runs {
        let passed = [length.floor(), length.floor() + 1.0].into_iter().filter(|passed| *passed > 0.0);
        let Some(passed) = passed.min_by(|one, other| off(beyond, *one).total_cmp(&off(beyond, *other))) else {
            continue;
        };
        // Runs that waited for something else say nothing.
        if off(beyond, passed) < SKEW_DIFFERS {
            (lost, tracks) = (lost + beyond, tracks + passed);
        }
    }
    let skew = if tracks > 0.0 { lost / tracks } else { about };
    Some(skew).filter(|skew| *skew > 0.0)
}

/// The sectors of a step backwards.
fn sectors(reads: &[Completed]) -> Option<f64> {
    let (one, next) = (reads.first()?, reads.get(1)?);
    Some(one.offset.saturating_sub(next.offset) as f64 / SECTOR_BYTES as f64)
}

/// The times between completions.
pub(super) fn gaps(reads: &[Completed]) -> Vec<f64> {
    let gap = |(one, next): (&Completed, &Completed)| -> Nanos { next.completed.since(one.completed) };
    reads.iter().zip(reads.iter().skip(1)).map(gap).map(|gap| gap.0 as f64).collect()
}

/// The middle of the half of the values that lie closest together, if they agree. What comes late on a busy machine makes one gap longer
/// and the next shorter, which leaves those between as they are.
fn agreed(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let width = |half: &&[f64]| half.last().copied().unwrap_or(0.0) - half.first().copied().unwrap_or(0.0);
    let halves = values.windows((values.len() / 2).max(1));
    let half = halves.min_by(|one, other| width(one).total_cmp(&width(other)))?;
    let middle = half.get(half.len() / 2).copied()?;
    (width(&half) < SPREAD_MAX * middle).then_some(middle)
}

/// Sorts, and takes the middle.
pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The runs of reads of which each follows the one before.
pub(super) fn runs(reads: &[Completed], follows: impl Fn(&Completed, &Completed) -> bool) -> Vec<&[Completed]> {
    reads.chunk_by(follows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioweir_device::random::Random;

    #[test]
    fn late_answers_do_not_hide_a_revolution() {
        let mut random = Random::new(1);
        // Every fourth read is late by up to 3 ms of a revolution of 8 ms, so that half of the gaps are off.
        let mut late_nanos = 0.0;
        let mut gap = |number: u32| {
            let before = late_nanos;
            late_nanos = if number.is_multiple_of(4) { 3e6 * random.uniform() } else { 0.0 };
            8e6 + late_nanos - before
        };
        let mut gaps: Vec<f64> = (0..120).map(&mut gap).collect();
        let found = agreed(&mut gaps).expect("the other half agrees");
        assert!((found / 8e6 - 1.0).abs() < 0.01, "{found}");
        let mut scattered: Vec<f64> = (0..120).map(|_| -8e6 * (1.0 - random.uniform()).ln()).collect();
        assert_eq!(agreed(&mut scattered), None, "waits of a device that does not rotate");
        assert_eq!(agreed(&mut []), None);
    }
}
