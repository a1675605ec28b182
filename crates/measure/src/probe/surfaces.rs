//! How many surfaces a disk has.
//!
//! From the last track of a cylinder to the next track the arm moves; from any other only the head changes. So of pairs of reads on
//! neighbouring tracks, those at the end of a cylinder take another time, and their distance is the number of surfaces. The two
//! differ by parts of a millisecond, which the wait for a place hides: each round of pairs has one wait, aimed, as in `seeks`, at the
//! middle of what is open between a wait that was too short for all pairs and one that was long enough for all. At
//! one that is long enough for some alone, these show the cylinders.

use ioweir_core::{Nanos, SECTOR_BYTES};

use super::facts::Facts;
use super::plan::KIB_4;
use super::{Answers, Io, Probed, track};
use ioweir_block::real::Completed;

/// The name of the probe, which has several rounds.
pub(super) const SURFACES: &str = "from track to track";
/// Rounds: nine of them tell times apart that differ by a thousandth of a revolution.
pub(super) const ROUNDS: u64 = 9;
/// The pairs of a round.
const PAIRS: u64 = 64;
/// The most reads.
pub(super) const READS_MAX: u64 = ROUNDS * PAIRS * 2;
/// The most surfaces that are looked for, and the fewest pairs that show them: a round has four of the last tracks of sixteen.
const SURFACES_MAX: u64 = 16;
const SHOW_MIN: usize = 3;
/// Tracks that other probes have read.
const READ_BEFORE: u64 = 400;
/// Tracks that this probe and the others have read.
pub(super) const TRACKS_READ: u64 = READ_BEFORE + ROUNDS * (2 * PAIRS + 2) + 2 * PAIRS;
/// The longest wait, as a part of a revolution.
const WAIT_MAX: f64 = 0.8;
/// How many pairs show surfaces for one that contradicts.
const SHOW_FOR_WRONG: usize = 4;
/// The shortest track on which a place is clear of its ends.
const SECTORS_MIN: u64 = 8 * READ_SECTORS;
const READ_SECTORS: u64 = KIB_4 / SECTOR_BYTES;

/// The geometry by which the waits of pairs are computed.
struct Tracks {
    /// The sector where the first track begins, and the sectors of each.
    begin: u64,
    sectors: u64,
    revolution_nanos: f64,
    /// The time lost between two tracks.
    skew_nanos: f64,
    command_nanos: f64,
}

impl Tracks {
    fn of(facts: &Facts, probed: &Probed) -> Option<Self> {
        let sectors = facts.places.first()?.sectors_per_track?.round() as u64;
        Some(Self {
            begin: track::begin(probed)?,
            sectors: Some(sectors).filter(|sectors| *sectors >= SECTORS_MIN)?,
            revolution_nanos: facts.revolution_nanos?,
            skew_nanos: facts.skew_nanos?,
            command_nanos: facts.command_nanos?,
        })
    }

    /// The track of the first read of a pair, counted from the boundary. The first half of a round has every second track of a stretch,
    /// the other half the tracks between those of the next: no buffer has any of them.
    const fn number(round: u64, pair: u64) -> u64 {
        READ_BEFORE + round * (2 * PAIRS + 2) + pair * 2 + pair / (PAIRS / 2)
    }

    fn sector_nanos(&self) -> f64 {
        self.revolution_nanos / self.sectors as f64
    }

    /// The reads of a round whose second ones pass `wait_nanos` after the first, and the rests before them.
    fn round(&self, round: u64, wait_nanos: f64) -> (Vec<Io>, Vec<Nanos>) {
        let (mut reads, mut rests) = (Vec::new(), Vec::new());
        for pair in 0..PAIRS {
            let track = self.begin + Self::number(round, pair) * self.sectors;
            let mut first = (track + self.sectors / 2) / READ_SECTORS * READ_SECTORS;
            let passes = |first: u64, second: u64| {
                ((second - first - READ_SECTORS) as f64 * self.sector_nanos() + self.skew_nanos)
                    .rem_euclid(self.revolution_nanos)
            };
            let next = track + self.sectors;
            let at = |first: u64| {
                let sectors =
                    (wait_nanos - passes(first, next)).rem_euclid(self.revolution_nanos) / self.sector_nanos();
                (next + sectors.ceil() as u64).next_multiple_of(READ_SECTORS)
            };
            // Both reads stay clear of the ends of their tracks.
            let is_clear = |second: u64| (READ_SECTORS..self.sectors - 4 * READ_SECTORS).contains(&(second - next));
            if !is_clear(at(first)) {
                first -= self.sectors / 4 / READ_SECTORS * READ_SECTORS;
            }
            let second = at(first);
            let rest = (passes(first, second) - wait_nanos).rem_euclid(self.revolution_nanos);
            reads.extend([first, second].map(track::io));
            rests.extend([Nanos::ZERO, Nanos(rest as u64)]);
        }
        (reads, rests)
    }

    /// Which pairs of a round had to wait for another revolution, with the track of the first read.
    fn late(&self, answers: &Answers, round: u64, wait_nanos: f64) -> Vec<(u64, bool)> {
        let pair = |pair: u64| {
            let (_, [_, second]): (u64, [&Completed; 2]) = answers.pairs(pair as usize).find(|(of, _)| *of == round)?;
            let late = second.latency().0 as f64 - wait_nanos - READ_SECTORS as f64 * self.sector_nanos();
            // Data that comes before its sectors have passed the head is from a buffer.
            (late > -0.1 * self.revolution_nanos)
                .then_some((Self::number(round, pair), late > self.revolution_nanos / 2.0))
        };
        (0..PAIRS).filter_map(pair).collect()
    }
}

/// The surfaces, or the wait of the next round that looks for them.
enum Seen {
    Surfaces(u64),
    Open(f64),
}

fn seen(tracks: &Tracks, answers: Option<&Answers>) -> Option<Seen> {
    let mut open = [tracks.command_nanos, tracks.revolution_nanos * WAIT_MAX];
    let rounds = answers.map_or(0, Answers::rounds);
    for round in 0..rounds {
        let wait = f64::midpoint(open[0], open[1]);
        let late = tracks.late(answers?, round, wait);
        if let Some(surfaces) = period(&late) {
            return Some(Seen::Surfaces(surfaces));
        }
        let most = late.iter().filter(|(_, late)| *late).count() * 2 > late.len();
        open[usize::from(!most)] = wait;
    }
    (rounds < ROUNDS).then(|| Seen::Open(f64::midpoint(open[0], open[1])))
}

/// After how many tracks one follows that is late where others are not, or the other way round, if that is so: more may be lost from
/// cylinder to cylinder than the arm takes longer.
fn period(late: &[(u64, bool)]) -> Option<u64> {
    let count = late.iter().filter(|(_, late)| *late).count();
    let shows = count.min(late.len() - count);
    let wrong = |(surfaces, last, is_late): &(u64, u64, bool)| {
        late.iter().filter(|(track, late)| (track % surfaces == *last) != (late == is_late)).count()
    };
    let lasts = |surfaces| (0..surfaces).flat_map(move |last| [true, false].map(|is_late| (surfaces, last, is_late)));
    let best = (2..=SURFACES_MAX).flat_map(lasts).min_by_key(wrong)?;
    (shows >= SHOW_MIN && wrong(&best) * SHOW_FOR_WRONG <= shows).then_some(best.0)
}

/// The next round, if it is open how many surfaces there are.
pub(super) fn round(probed: &Probed) -> Option<(Vec<Io>, Vec<Nanos>)> {
    let tracks = Tracks::of(&Facts::of(probed), probed)?;
    let answers = probed.all(SURFACES);
    match seen(&tracks, answers)? {
        Seen::Surfaces(_) => None,
        Seen::Open(wait) => Some(tracks.round(answers.map_or(0, Answers::rounds), wait)),
    }
}

/// The number of surfaces.
pub(super) fn surfaces(facts: &Facts, probed: &Probed) -> Option<u64> {
    match seen(&Tracks::of(facts, probed)?, Some(probed.all(SURFACES)?))? {
        Seen::Surfaces(surfaces) => Some(surfaces),
        Seen::Open(_) => None,
    }
}
