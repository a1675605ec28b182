//! What the answers to probes say directly.
//!
//! A read that begins just before the one before it has to wait for nearly a revolution: all of it but the time in which the
//! medium passes from the one beginning to the other. Two steps of different length give both the revolution and the speed
//! of the medium.

use ioweir_config::{Duration, Ratio};
use ioweir_core::{Nanos, SECTOR_BYTES};
use ioweir_device::parameter::Amount;
use serde::Serialize;

use super::Probed;
use super::plan::{BACKWARDS_LARGE, BACKWARDS_SMALL, SEQUENTIAL, rotates};
use super::rests::{self, Wake};
use super::track;
use crate::real::Completed;

/// Revolutions of disks, from 20,000 to 3,000 a minute.
const REVOLUTION_NANOS: std::ops::RangeInclusive<f64> = 3e6..=20e6;
/// The part of a revolution within which half of the reads backwards have to agree for it to be known.
const SPREAD_MAX: f64 = 0.05;
/// How far apart, as a part of a revolution, times lie of which only the wait for a place differs.
const WAITS: f64 = 1.01;
/// The fewest times that show what their access takes.
const ACCESSES_MIN: usize = 25;

/// What is known of a place.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Place {
    /// First byte.
    pub offset: u64,
    /// Bytes a second of sequential reads.
    pub bytes_per_second: f64,
    /// Sectors on a track, if the device rotates.
    pub sectors_per_track: Option<f64>,
}

/// What probes say directly.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Whether single reads are as slow as those of a disk.
    pub rotates: bool,
    /// The time of a revolution.
    pub revolution_nanos: Option<f64>,
    /// The places, from the front.
    pub places: Vec<Place>,
    /// What a read costs before it waits for a place on the track where the head is.
    pub command_nanos: Option<f64>,
    /// How it wakes up, if it does not rotate.
    pub wake: Option<Wake>,
}

impl Facts {
    /// What the answers say.
    #[must_use]
    pub fn of(probed: &Probed) -> Self {
        let rotates = rotates(probed);
        let mut periods = gaps(probed.to(BACKWARDS_SMALL));
        let small = median(&mut periods).filter(|small| {
            let at = |part: usize| periods.get(periods.len() * part / 4).copied().unwrap_or(0.0);
            REVOLUTION_NANOS.contains(small) && at(3) - at(1) < SPREAD_MAX * small
        });
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
        let track = places.first().and_then(|place| place.sectors_per_track);
        let command = first.zip(track).and_then(|(revolution, track)| track::command_nanos(probed, revolution, track));
        Self { rotates, revolution_nanos: first, places, command_nanos: command, wake: rests::wake(probed) }
    }

    /// The time of a revolution.
    #[must_use]
    pub fn revolutions_per_minute(&self) -> Option<f64> {
        self.revolution_nanos.map(|nanos| 60e9 / nanos)
    }
}

impl Facts {
    /// The parameters of a disk that are known by this: its speed, and of a disk whose zones are not known its outermost and
    /// innermost tracks, what is lost between two tracks, and what a command costs. No time tells what it costs before the arm
    /// moves from what it costs afterwards, so that all of it counts as before.
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
        let mut skews: Vec<f64> = self.places.iter().filter_map(|place| self.skew(place)).collect();
        known.push(("hdd.zoning.outer_sectors_per_track".into(), Amount::Count(0).with_number(outer.round())));
        known.push(("hdd.zoning.inner".into(), Amount::Share(inner)));
        if let Some(skew) = median(&mut skews).filter(|skew| *skew > 0.0) {
            let skew = Amount::Time(Duration::default()).with_number(skew);
            known.extend(["hdd.surface_skew", "hdd.cylinder_skew"].map(|key| (key.to_owned(), skew.clone())));
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

    /// The parameters of a flash drive that are known by this: how it wakes up.
    #[must_use]
    pub fn of_flash(&self) -> Vec<(String, Amount)> {
        self.wake.map(Wake::of_flash).unwrap_or_default()
    }

    /// What sequential reads take for a track beyond the revolution.
    fn skew(&self, place: &Place) -> Option<f64> {
        let bytes = place.sectors_per_track? * SECTOR_BYTES as f64;
        Some(bytes / place.bytes_per_second * 1e9 - self.revolution_nanos?)
    }

    /// Where the answers contradict what the device says of itself, in words.
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

    /// What is known, in words.
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
        if let Some(wake) = self.wake {
            say("at rest", wake.in_words());
        }
        for (what, place) in [("at the front", self.places.first()), ("at the end", self.places.last())] {
            let Some(place) = place else { continue };
            let track =
                place.sectors_per_track.map_or_else(String::new, |track| format!(", {track:.0} sectors a track"));
            say(what, format!("{:.1} MB/s sequentially{track}", place.bytes_per_second / 1e6));
        }
        words
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

/// Sorts, and takes the middle.
pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The runs of reads of which each follows the one before.
pub(super) fn runs(reads: &[Completed], follows: impl Fn(&Completed, &Completed) -> bool) -> Vec<&[Completed]> {
    reads.chunk_by(follows).collect()
}

/// What an access takes without the wait for a place, which is anything up to a revolution: half-way between the shortest and the
/// longest time, less half of a revolution, of the most times that lie within a revolution. Others had something else to
/// wait for, such as the next track, or came from a buffer.
pub(super) fn access_nanos(revolution_nanos: f64, mut times: Vec<f64>) -> Option<f64> {
    times.sort_unstable_by(f64::total_cmp);
    let within = |(at, least): (usize, &f64)| {
        let count = times.iter().skip(at).take_while(|time| **time - least <= revolution_nanos * WAITS).count();
        Some((count, *least, *times.get(at + count.checked_sub(1)?)?))
    };
    let (count, least, greatest) = times.iter().enumerate().filter_map(within).max_by_key(|(count, ..)| *count)?;
    let access = f64::midpoint(least, greatest) - revolution_nanos / 2.0;
    (count >= ACCESSES_MIN && access > 0.0).then_some(access)
}
