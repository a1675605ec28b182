//! Probes of the time that a read takes before it waits for its place.
//!
//! From the time of a single read nobody can tell how much of it the command takes, how much the arm and how much the medium. Where
//! the arm does not move and the wait is known, there is a threshold: a sector that passes the head later than the command takes is
//! read at once, one that passes earlier a revolution later. A first probe finds where a track begins, by the step backwards that
//! takes another time than the rest. A second one reads the last sectors of tracks, and then sectors of the same track that pass
//! the head more and more later. A third does the same between the two waits that the second has left open, by rests before
//! the second read: sectors are too long to say what a command takes.

use ioweir_core::{Nanos, SECTOR_BYTES};

use super::facts::{Facts, gaps, median, runs};
use super::plan::{BACKWARDS_LARGE, KIB_4, backwards};
use super::{Io, Probed};

/// The probe for the beginning of a track.
pub(super) const BOUNDARY: &str = "the beginning of a track";
/// The probe for the time that a command takes.
pub(super) const WITHIN: &str = "within a track";
/// The probe for the same, closer.
pub(super) const RESTED: &str = "within a track, after rests";
/// The most reads of the probes.
pub(super) const READS_MAX: u64 = 33 + 2 * WAITS + 2 * RESTS;

/// Waits of different length, each on a track of its own.
const WAITS: u64 = 64;
/// Rests of different length, each on a track of its own.
const RESTS: u64 = 32;
const READ_SECTORS: u64 = KIB_4 / SECTOR_BYTES;
/// The part by which the step over a boundary differs from the others.
const DIFFERS: f64 = 0.02;
/// The sectors by which the beginning of a track may be later than it is known to be.
const LATER_SECTORS: u64 = READ_SECTORS - 1;
/// The part of the pairs that may contradict the threshold.
const WRONG_MAX: f64 = 0.1;

/// The reads of a probe, if the answers so far tell where they have to be.
pub(super) fn reads(name: &str, probed: &Probed) -> Option<Vec<Io>> {
    let facts = Facts::of(probed);
    facts.revolution_nanos?;
    if name == BOUNDARY { crossing(probed) } else { within(probed, facts.places.first()?.sectors_per_track?) }
}

/// Reads in small steps over the first of the large steps that crosses the beginning of a track.
fn crossing(probed: &Probed) -> Option<Vec<Io>> {
    let backward = runs(probed.to(BACKWARDS_LARGE), |one, next| one.offset > next.offset);
    let reads = backward.first()?;
    let step = odd(&gaps(reads)).first()?.0;
    let (from, to) = (reads.get(step)?.offset, reads.get(step + 1)?.offset);
    Some(backwards(from, KIB_4, from.saturating_sub(to) / KIB_4 + 1))
}

/// The times that differ from the median: which they are, and by how much they are shorter.
pub(super) fn odd(times: &[f64]) -> Vec<(usize, f64)> {
    let usual = median(&mut times.to_vec()).unwrap_or(0.0);
    let differ = times.iter().enumerate().filter(|(_, time)| (**time / usual - 1.0).abs() > DIFFERS);
    differ.map(|(number, time)| (number, usual - time)).collect()
}

/// Where the first track begins that the boundary shows, in sectors; it may be [`LATER_SECTORS`] later.
pub(super) fn begin(probed: &Probed) -> Option<u64> {
    let crossed = probed.to(BOUNDARY);
    // A read that lies on both sides, or begins where the track begins.
    Some(crossed.get(odd(&gaps(crossed)).first()?.0)?.offset / SECTOR_BYTES)
}

/// A read at a sector.
pub(super) const fn io(sector: u64) -> Io {
    Io { offset: sector * SECTOR_BYTES, length: KIB_4 }
}

/// Pairs on one track each: its last sectors, and sectors after its beginning.
fn within(probed: &Probed, sectors_per_track: f64) -> Option<Vec<Io>> {
    let (begin, sectors) = (begin(probed)?, sectors_per_track.round() as u64);
    let pair = |wait: u64| {
        let track = begin + (wait + 1) * sectors;
        let last = (track + sectors) / READ_SECTORS * READ_SECTORS - READ_SECTORS;
        let target = (track + LATER_SECTORS).next_multiple_of(READ_SECTORS) + wait * READ_SECTORS;
        (target < last).then_some([last, target])
    };
    Some((0..WAITS).filter_map(pair).flatten().map(io).collect())
}

/// The reads of the third probe, and the rests before them, between a wait that is too short and one that is long enough.
pub(super) fn rested(probed: &Probed) -> Option<(Vec<Io>, Vec<Nanos>)> {
    let facts = Facts::of(probed);
    let (revolution, track) = (facts.revolution_nanos?, facts.places.first()?.sectors_per_track?);
    let (begin, sectors) = (begin(probed)?, track.round() as u64);
    let sector_nanos = revolution / sectors as f64;
    let [short, enough] = open(&waits(probed, revolution, track))?;
    let (mut number, mut reads, mut rests) = (WAITS + 1, Vec::new(), Vec::new());
    for part in 0..RESTS {
        let wait = (short + (enough - short) * (part as f64 + 0.5) / RESTS as f64) / sector_nanos;
        // Tracks begin at different parts of a read, and the head must not have left the track after the rest.
        for _ in 0..READ_SECTORS {
            number += 1;
            let track = begin + number * sectors;
            let target = (track + LATER_SECTORS).next_multiple_of(READ_SECTORS);
            if (target - track) as f64 <= wait {
                let end = (target + sectors - wait.ceil() as u64) / READ_SECTORS * READ_SECTORS;
                let passes = (target + sectors - end) as f64;
                reads.extend([end - READ_SECTORS, target].map(io));
                rests.extend([Nanos::ZERO, Nanos(((passes - wait) * sector_nanos) as u64)]);
                break;
            }
        }
    }
    Some((reads, rests))
}

/// The waits of all pairs from the completion of the first read, less the rest, and whether they were long enough. Sorted.
fn waits(probed: &Probed, revolution_nanos: f64, sectors_per_track: f64) -> Vec<(f64, bool)> {
    let sector_nanos = revolution_nanos / sectors_per_track.round();
    let mut waits: Vec<(f64, bool)> = Vec::new();
    for pair in
        [WITHIN, RESTED].iter().flat_map(|name| probed.to(name).chunk_by(|one, next| one.token / 2 == next.token / 2))
    {
        let [first, second] = pair else { continue };
        let back = first.offset.saturating_sub(second.offset) / SECTOR_BYTES;
        let passes = (sectors_per_track.round() - (back + READ_SECTORS) as f64) * sector_nanos;
        let wait = passes - second.submitted.since(first.completed).0 as f64;
        let late = second.latency().0 as f64 - wait - READ_SECTORS as f64 * sector_nanos;
        // Data that comes before its sectors have passed the head is from a buffer.
        if late > -0.1 * revolution_nanos {
            waits.push((wait, late < revolution_nanos / 2.0));
        }
    }
    waits.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    waits
}

/// The longest wait that is too short and the shortest that is long enough, if few contradict.
fn open(waits: &[(f64, bool)]) -> Option<[f64; 2]> {
    let wrong = |at: usize| {
        let (short, long) = waits.split_at(at);
        short.iter().filter(|wait| wait.1).count() + long.iter().filter(|wait| !wait.1).count()
    };
    let at = (0..waits.len()).min_by_key(|at| wrong(*at))?;
    let is_clear = (wrong(at) as f64) < WRONG_MAX * waits.len() as f64 && waits.len() as u64 >= WAITS / 2;
    let short = at.checked_sub(1).and_then(|before| waits.get(before)).map_or(0.0, |wait| wait.0);
    is_clear.then_some([short, waits.get(at)?.0])
}

/// The time of a command: the middle of the waits that are just too short and just long enough for it.
pub(super) fn command_nanos(probed: &Probed, revolution_nanos: f64, sectors_per_track: f64) -> Option<f64> {
    let [short, enough] = open(&waits(probed, revolution_nanos, sectors_per_track))?;
    Some(f64::midpoint(short, enough))
}
