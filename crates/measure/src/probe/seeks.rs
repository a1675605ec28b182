//! Probes of an access over some distance, without the wait for its place.
//!
//! The wait is anything up to a revolution. Over a distance at a place, pairs of reads differ by the angle of the second one only: the
//! shortest time among them is above what the access takes, and the longest, less a revolution, below. So each round of pairs is aimed at
//! the middle of what the rounds before it have left open, by the speed at which the medium passes, and halves it. Each pair lies two
//! tracks before the one of the round before it, where no buffer has it; tracks of one zone begin at angles that differ alike, so that the
//! angle between the two reads stays. Where it does not, a round tells less, and nothing wrong.

use ioweir_core::{Nanos, SECTOR_BYTES};

use super::facts::{Facts, median};
use super::plan::{KIB_4, MIB, PLACES, place};
use super::{Answers, Io, Probed};
use ioweir_block::real::Completed;

/// The name of the probe, which has several rounds.
pub(super) const SEEKS: &str = "seeks";
/// Rounds: ten of them leave a thousandth of a revolution, and some lead nowhere.
pub(super) const ROUNDS: u64 = 14;
/// The places of a distance.
const FROM: u64 = 8;
/// How far the first reads of two places are apart at least: further than the rounds go back.
const APART: u64 = 128 * MIB;
/// The distance by which the places of a seek distance lie before those of the distance that is read before it. No buffer has the data
/// there, since drives read ahead, not back. Rounds go back by other steps, so that none meets another.
const OWN: u64 = 4 * MIB + 64 * 1024;
/// The tracks from one round to the next, if it is not known how many a cylinder has: no pair lies where one of another round does.
const STEP: u64 = 2;
/// The track where none is known.
const TRACK: u64 = MIB;
/// How far apart, as a part of a revolution, times lie of which only the wait for a place differs.
const WAITS: f64 = 1.01;
/// How far apart, as a part of a revolution, angles are the same.
const SAME: f64 = 0.01;
/// The part of a revolution that may be open of what an access takes.
const OPEN_MAX: f64 = 0.01;
/// The fewest times that show what their access takes, and the part of all that has to agree.
const TIMES_MIN: usize = 6;
const AGREES: f64 = 0.8;

/// A distance at a place.
#[derive(Clone, Copy, Debug)]
struct Kind {
    distance: u64,
    from: u64,
}

/// Every distance at every of its places: distances by octaves from a megabyte to half of the whole, and two that are longer.
fn kinds(size_bytes: u64) -> impl Iterator<Item = Kind> {
    let octaves =
        (0..u64::BITS - 20).map(|octave| MIB << octave).take_while(move |distance| *distance <= size_bytes / 2);
    let distances = octaves.chain([size_bytes / 4 * 3, size_bytes / 16 * 15].map(|distance| distance / KIB_4 * KIB_4));
    distances.enumerate().flat_map(move |(number, distance)| {
        let own = OWN * number as u64;
        let span = size_bytes.saturating_sub(distance + 2 * MIB);
        let step = place(size_bytes, PLACES, 1).max(MIB);
        (0..FROM).map(move |number| {
            let nearest = (span / FROM * number / step).min(PLACES - 1);
            let from = place(size_bytes, PLACES, nearest) + APART * (number + 1);
            let from = if from > span { span / FROM * (number + 1) } else { from };
            Kind { distance, from: from.saturating_sub(own) }
        })
    })
}

/// The reads of all rounds.
pub(super) fn reads_max(size_bytes: u64) -> u64 {
    kinds(size_bytes).count() as u64 * ROUNDS * 2
}

/// The next round: a pair for each distance at each place, and a rest before each read. Reads begin at every eighth sector; what
/// lacks to the angle between, a rest makes up for.
pub(super) fn round(size_bytes: u64, probed: &Probed) -> (Vec<Io>, Vec<Nanos>) {
    let facts = Facts::of(probed);
    let before = probed.all(SEEKS);
    let round = before.map_or(0, Answers::rounds);
    // Whole cylinders: what an access takes over a short distance depends on where in its cylinder it begins.
    let step = facts.surfaces.unwrap_or(STEP);
    let pair = |(number, kind): (usize, Kind)| {
        let (near, far) = (track(&facts, kind.from), track(&facts, kind.from + kind.distance));
        let place = |number: u64| (kind.from + kind.distance).saturating_sub(number * step * far);
        let sector_nanos = facts.revolution_nanos.unwrap_or(0.0) / (far / SECTOR_BYTES) as f64;
        let seen: Vec<Seen> = before.map_or_else(Vec::new, |answers| {
            let seen = |(at, [first, second]): (u64, [&Completed; 2])| {
                let passes = (second.offset as f64 - place(at) as f64) / SECTOR_BYTES as f64 * sector_nanos;
                let rested = second.submitted.since(first.completed).0 as f64;
                Seen { round: at, angle_nanos: passes - rested, nanos: second.latency().0 as f64 }
            };
            answers.pairs(number).map(seen).collect()
        });
        let angle = facts.revolution_nanos.map_or(0.0, |revolution| aim(seen, round, revolution));
        let ahead = if sector_nanos > 0.0 { angle / sector_nanos * SECTOR_BYTES as f64 } else { 0.0 };
        let exact = place(round) as f64 + ahead;
        let bound = |offset: f64| (offset.clamp(0.0, (size_bytes - KIB_4) as f64) as u64).next_multiple_of(KIB_4);
        let (from, to) = (bound(kind.from.saturating_sub(round * step * near) as f64), bound(exact));
        let rest = (to as f64 - exact) / SECTOR_BYTES as f64 * sector_nanos;
        [(from, Nanos::ZERO), (to, Nanos(if to as f64 - exact < KIB_4 as f64 { rest.max(0.0) as u64 } else { 0 }))]
    };
    let pairs = kinds(size_bytes).enumerate().flat_map(pair);
    pairs.map(|(offset, rest)| (Io { offset, length: KIB_4 }, rest)).unzip()
}

/// The bytes of a track at a place.
fn track(facts: &Facts, offset: u64) -> u64 {
    let nearest = facts.places.iter().min_by_key(|place| place.offset.abs_diff(offset));
    let sectors = nearest.and_then(|place| place.sectors_per_track).filter(|sectors| *sectors >= 8.0);
    sectors.map_or(TRACK, |sectors| sectors.round() as u64 * SECTOR_BYTES)
}

/// A pair of a distance at a place.
#[derive(Clone, Debug)]
struct Seen {
    round: u64,
    /// By how much later than in the first round the second place passes the head.
    angle_nanos: f64,
    /// The time of the second read.
    nanos: f64,
}

/// By how much later, as a time within a revolution, the second place passes the head each round, at the same angle: tracks whose length
/// differs from that of the nearest known place begin elsewhere.
fn drift(seen: &[Seen], revolution_nanos: f64) -> f64 {
    let differ = |pair: &[Seen]| {
        let [one, next] = pair else { return None };
        let later = next.nanos - next.angle_nanos - (one.nanos - one.angle_nanos);
        (next.round == one.round + 1).then(|| within(later, revolution_nanos))
    };
    median(&mut seen.windows(2).filter_map(differ).collect::<Vec<_>>()).unwrap_or(0.0)
}

/// The angle as a time of less than half a revolution in either direction.
fn within(nanos: f64, revolution_nanos: f64) -> f64 {
    nanos - (nanos / revolution_nanos).round() * revolution_nanos
}

/// The angle that halves the open range.
fn aim(mut seen: Vec<Seen>, round: u64, revolution_nanos: f64) -> f64 {
    let drift = drift(&seen, revolution_nanos);
    seen.iter_mut().for_each(|seen| seen.angle_nanos -= drift * (round - seen.round) as f64);
    let Some(last) = seen.last() else { return 0.0 };
    let times = seen.iter().map(|seen| seen.nanos).collect();
    let target = match window(revolution_nanos, times) {
        Some((_, least, greatest)) => f64::midpoint(least, greatest - revolution_nanos),
        None => last.nanos + revolution_nanos / 2.0,
    };
    let lacks = |seen: &Seen| within(target - seen.nanos, revolution_nanos);
    let near = seen.iter().rev().min_by(|one, other| lacks(one).abs().total_cmp(&lacks(other).abs())).unwrap_or(last);
    let (ahead, angle) = (lacks(near), near.angle_nanos + lacks(near));
    // Past the end of a track angles are others: what led nowhere lies at the other end of the same track.
    let leads_nowhere = |seen: &Seen| {
        let is_same = (seen.angle_nanos - angle).abs() < SAME * revolution_nanos;
        is_same && lacks(seen).abs() > 2.0 * SAME * revolution_nanos
    };
    if seen.iter().any(leads_nowhere) { angle - ahead.signum() * revolution_nanos } else { angle }
}

/// The most times that lie within a revolution: their number, the shortest and the longest. Others had something else to wait for, such as
/// the next track, or came from a buffer.
fn window(revolution_nanos: f64, mut times: Vec<f64>) -> Option<(usize, f64, f64)> {
    times.sort_unstable_by(f64::total_cmp);
    let within = |(at, least): (usize, &f64)| {
        let count = times.iter().skip(at).take_while(|time| **time - least <= revolution_nanos * WAITS).count();
        Some((count, *least, *times.get(at + count.checked_sub(1)?)?))
    };
    times.iter().enumerate().filter_map(within).max_by_key(|(count, ..)| *count)
}

/// The time of an access, from pairs that differ in their angle.
pub(super) fn access_nanos(revolution_nanos: f64, times: Vec<f64>) -> Option<f64> {
    let all = times.len();
    let (count, least, greatest) = window(revolution_nanos, times)?;
    let access = f64::midpoint(least, greatest - revolution_nanos);
    let is_known = least - (greatest - revolution_nanos) <= OPEN_MAX * revolution_nanos;
    (is_known && count >= TIMES_MIN && count as f64 >= AGREES * all as f64 && access > 0.0).then_some(access)
}

/// The times of accesses, of each distance at each place.
pub(super) struct Accesses(Vec<Option<f64>>);

impl Accesses {
    /// Computes the times from the answers.
    pub(super) fn of(probed: &Probed, facts: &Facts) -> Self {
        let (Some(answers), Some(revolution)) = (probed.all(SEEKS), facts.revolution_nanos) else {
            return Self(Vec::new());
        };
        let times = |kind| answers.pairs(kind).map(|(_, [_, second])| second.latency().0 as f64).collect();
        Self((0..answers.round_reads() / 2).map(|kind| access_nanos(revolution, times(kind))).collect())
    }

    /// Which distance a read shows, from one; zero if none.
    pub(super) fn shows(&self, number: u64, round_reads: usize) -> u64 {
        let kind = number as usize % round_reads.max(1) / 2;
        let is_known = number % 2 == 1 && self.0.get(kind).is_some_and(Option::is_some);
        if is_known { 1 + kind as u64 / FROM } else { 0 }
    }

    /// The mean time of an access over a distance, over its places, where it is known.
    pub(super) fn mean(&self, shown: u64) -> Option<f64> {
        let distance = usize::try_from(shown.checked_sub(1)?).ok()?;
        let known: Vec<f64> = self.0.chunks(FROM as usize).nth(distance)?.iter().flatten().copied().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_halve_the_open_range() {
        let (revolution, access, begin) = (8e6, 3.21e6, 1e6);
        let mut seen: Vec<Seen> = Vec::new();
        for round in 0..ROUNDS {
            let angle_nanos = aim(seen.clone(), round, revolution);
            let wait = (begin + 3e5 * round as f64 + angle_nanos - access).rem_euclid(revolution);
            seen.push(Seen { round, angle_nanos, nanos: access + wait });
        }
        let found = access_nanos(revolution, seen.iter().map(|seen| seen.nanos).collect()).expect("an access");
        assert!((found - access).abs() < revolution / 1_000.0, "{found} instead of {access}");
    }

    #[test]
    fn access_is_found_among_other_waits() {
        let revolution = 8e6;
        let mut times: Vec<f64> = (0..100).map(|step| 2e6 + f64::from(step) / 99.0 * revolution).collect();
        times.extend([2e5, 11.5e6, 19e6]);
        let access = access_nanos(revolution, times).expect("an access");
        assert!((access - 2e6).abs() < 1e5, "{access}");
        assert_eq!(access_nanos(revolution, vec![2e6; 5]), None, "too few");
        assert_eq!(access_nanos(revolution, [2e6, 13e6].repeat(10)), None, "of two kinds");
    }

    #[test]
    fn no_pair_begins_where_another_did() {
        let size = 120_000_000_000 / MIB * MIB;
        let mut begins: Vec<u64> = Vec::new();
        for round in 0..ROUNDS {
            let answers = Answers { name: SEEKS, reads: Vec::new(), rounds: vec![0; round as usize] };
            let probed = Probed { answers: vec![answers], ..Probed::default() };
            begins.extend(super::round(size, &probed).0.iter().step_by(2).map(|io| io.offset));
        }
        let all = begins.len();
        begins.sort_unstable();
        assert!(begins.windows(2).all(|pair| pair[1] - pair[0] >= 16 * KIB_4), "of {all}");
    }

    #[test]
    fn every_round_lies_on_small_devices() {
        for size in [64 * MIB, 100 * MIB, 1 << 30, 120_000_000_000 / MIB * MIB, 1 << 44] {
            let (reads, _) = round(size, &Probed::default());
            assert!(!reads.is_empty() && reads.len() as u64 * ROUNDS == reads_max(size));
            assert!(reads.iter().all(|io| io.offset + io.length <= size && io.offset % KIB_4 == 0), "{size}");
        }
    }
}
