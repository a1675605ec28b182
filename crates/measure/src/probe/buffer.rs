//! Probes of a disk's buffer: after how many sequential reads the head reads ahead, how many segments keep what was read, and how far the
//! head reads.
//!
//! A read that the buffer answers does not wait for its place. The first probe jumps to a place and reads on from there: reads wait
//! for a revolution each until one comes from the buffer. The second lets the head read ahead for one stream, reads so many other places,
//! and then reads on in the stream: each place takes the segment that was unused longest, in the end that of the stream. The third
//! lets the head read ahead for long enough, and looks for the end of what it has read; it does so from two places of a track, which
//! tell a segment that is full from a track that ends. Rounds of the second and the third halve what is open.

use ioweir_config::{Size, format_bytes};
use ioweir_core::{Nanos, SECTOR_BYTES};
use ioweir_device::parameter::Amount;
use serde::Serialize;

use super::facts::{Facts, median};
use super::plan::{KIB_4, MIB};
use super::{Answers, Io, Probed, surfaces, track};
use ioweir_block::real::Completed;

/// The probes; the second and the third have several rounds.
pub(super) const BEGINS: &str = "sequential reads after a jump";
pub(super) const SEGMENTS: &str = "a stream among other reads";
pub(super) const REACH: &str = "the end of what is read ahead";
/// Rounds that leave one number of segments, and one read at which the read-ahead ends.
pub(super) const SEGMENTS_ROUNDS: u64 = 6;
pub(super) const REACH_ROUNDS: u64 = 9;
/// The most segments, and the most reads that the read-ahead is followed for.
const SEGMENTS_MAX: u64 = 1 << SEGMENTS_ROUNDS;
const REACH_MAX: u64 = 1 << REACH_ROUNDS;
/// The places that are jumped to, the reads that follow each other from there, and one of them once more.
const JUMPS: u64 = 8;
const RUN: u64 = 7;
const JUMP_READS: u64 = RUN + 1;
/// How far places are apart: further than the read-ahead is followed.
const APART: u64 = 4 * MIB;
/// The tries of each round, from each place of a track: three in four of the reads have to come from the buffer.
const TRIES: u64 = 4;
/// The places of a track at which reads end before the head reads ahead, in eighths.
const EIGHTHS: [u64; 2] = [1, 5];
/// The most reads of all rounds.
pub(super) const READS_MAX: u64 = JUMPS * JUMP_READS
    + SEGMENTS_ROUNDS * TRIES * (SEGMENTS_MAX + RUN)
    + REACH_ROUNDS * EIGHTHS.len() as u64 * TRIES * RUN;
/// How much longer than others, as a part of a revolution, a read may take that comes from the buffer.
const LONGER: f64 = 0.1;
/// How many times as long as sequential reads the read-ahead may take.
const AHEAD_TAKES: f64 = 1.5;
/// How exactly the end of a track is known.
const EXACT: u64 = 2 * KIB_4;
const READ_SECTORS: u64 = KIB_4 / SECTOR_BYTES;

/// How far the head reads ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ahead {
    /// The event that ends the read-ahead: a word of `hdd.cache.read_ahead`.
    pub until: &'static str,
    /// The least and the most bytes that a segment has.
    pub segment: (u64, u64),
}

/// The behaviour of a disk's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Buffer {
    /// How many reads have to continue the one before until the head reads ahead, the least and the most that was seen; `None` if
    /// it never does.
    pub begins_after: Option<(u64, u64)>,
    /// Whether data that was asked for stays in the buffer.
    pub keeps: bool,
    /// The number of segments; the greatest number that is looked for stands for more.
    pub segments: Option<u64>,
    /// How far the head reads ahead.
    pub ahead: Option<Ahead>,
}

impl Buffer {
    /// Derives the behaviour from the answers.
    pub(super) fn of(facts: &Facts, probed: &Probed) -> Option<Self> {
        let revolution_nanos = facts.revolution_nanos?;
        let begun = Begun::of(revolution_nanos, probed)?;
        let segments = probed.all(SEGMENTS).map(|answers| open_segments(&begun, answers));
        let tracks = Tracks::of(facts, probed).zip(probed.all(REACH));
        Some(Self {
            begins_after: begun.after,
            keeps: begun.keeps,
            segments: segments.and_then(|[held, lost]| (held + 1 == lost).then_some(lost)),
            ahead: tracks.and_then(|(tracks, answers)| tracks.ahead(&begun, answers)),
        })
    }

    /// The parameters that this says.
    pub(super) fn of_disk(&self) -> Vec<(String, Amount)> {
        let word = |word: &str| ("hdd.cache.read_ahead".to_owned(), Amount::Word(word.into()));
        if self.begins_after.is_none() {
            return vec![word("none")];
        }
        let keeps = ("hdd.cache.keep_requested".to_owned(), Amount::Switch(self.keeps));
        self.ahead.map(|ahead| word(ahead.until)).into_iter().chain([keeps]).collect()
    }

    /// The parameters that this encloses, with the least and the greatest value.
    pub(super) fn encloses(&self) -> Vec<(String, (f64, f64))> {
        let both = |(low, high): (u64, u64)| (low as f64, high as f64);
        let enclosed = [
            ("read_ahead_begins_after", self.begins_after),
            ("segments", self.segments.map(|segments| (segments, segments))),
            ("segment_size", self.ahead.map(|ahead| ahead.segment)),
        ];
        enclosed.into_iter().filter_map(|(key, ends)| Some((format!("hdd.cache.{key}"), both(ends?)))).collect()
    }

    /// The behaviour in words.
    pub(super) fn in_words(&self) -> Vec<(String, String)> {
        let mut words = Vec::new();
        let begins = match self.begins_after {
            None => "the head does not read ahead".into(),
            Some((0, 0)) => "after every read".into(),
            Some((low, high)) if low == high => format!("after {low} reads that continue the one before"),
            Some((low, high)) => format!("after {low} to {high} reads that continue the one before"),
        };
        words.push(("read-ahead begins".into(), begins));
        if let Some(segments) = self.segments {
            let more = if segments == SEGMENTS_MAX { " or more" } else { "" };
            words.push(("segments of its buffer".into(), format!("{segments}{more}")));
        }
        if let Some(Ahead { until, segment: (low, high) }) = self.ahead {
            let until = match until {
                "track" => "to the end of the track",
                "next_track" => "to the end of the next track",
                _ => "until the segment is full",
            };
            let size = match high {
                u64::MAX => format!("{} or more", format_bytes(low)),
                high => format!("{} to {}", format_bytes(low), Size(high)),
            };
            words.push(("read-ahead ends".into(), format!("{until}; a segment has {size}")));
        }
        words
    }
}

/// When the head begins to read ahead, and the longest time of a read that comes from the buffer.
struct Begun {
    after: Option<(u64, u64)>,
    keeps: bool,
    buffered_nanos: f64,
}

impl Begun {
    fn of(revolution_nanos: f64, probed: &Probed) -> Option<Self> {
        let answers = probed.all(BEGINS)?;
        let jumps: Vec<Vec<f64>> = answers
            .reads
            .chunk_by(|one, next| one.token / JUMP_READS == next.token / JUMP_READS)
            .filter(|reads| reads.len() as u64 == JUMP_READS)
            .map(|reads| reads.iter().map(|read| read.latency().0 as f64).collect())
            .collect();
        // A read that waits for its place waits for nearly a revolution, because the place has just passed.
        let slow = |times: &Vec<f64>| {
            times.iter().skip(1).take(RUN as usize - 1).take_while(|nanos| **nanos > revolution_nanos / 2.0).count()
        };
        let mut counts: Vec<usize> = jumps.iter().map(slow).collect();
        counts.sort_unstable();
        // The extremes are left out: one of the jumps may have met something else.
        let (low, high) = (*counts.get(1)?, *counts.get(counts.len().checked_sub(2)?)?);
        let mut fast: Vec<f64> =
            jumps.iter().flat_map(|times| times.get(high + 1..RUN as usize)).flatten().copied().collect();
        let Some(usual) = median(&mut fast) else {
            return Some(Self { after: None, keeps: false, buffered_nanos: 0.0 });
        };
        let buffered_nanos = usual + LONGER * revolution_nanos;
        let again = jumps.iter().filter_map(|times| times.last()).filter(|nanos| **nanos <= buffered_nanos).count();
        Some(Self { after: Some((low as u64, high as u64)), keeps: again * 2 > jumps.len(), buffered_nanos })
    }

    /// The reads of a stream after which the head reads ahead.
    const fn run(&self) -> Option<u64> {
        match self.after {
            Some((_, high)) => Some(high + 1),
            None => None,
        }
    }

    /// Halves the open range, by whether the buffer answers the reads of a round, if enough reads were carried out.
    fn halve<'a>(&self, open: &mut [u64; 2], tries: impl Iterator<Item = &'a Completed>) {
        let is_buffered = |read: &Completed| read.latency().0 as f64 <= self.buffered_nanos;
        let (held, all) = tries.fold((0, 0), |(held, all), read| (held + u64::from(is_buffered(read)), all + 1));
        if all * 2 > TRIES {
            let is_held = held * 4 >= all * 3;
            open[usize::from(!is_held)] = u64::midpoint(open[0], open[1]);
        }
    }
}

/// The next round of a probe, if something is open.
pub(super) fn round(name: &str, size_bytes: u64, probed: &Probed) -> Option<(Vec<Io>, Vec<Nanos>)> {
    let facts = Facts::of(probed);
    let revolution_nanos = facts.revolution_nanos?;
    if name == BEGINS {
        // Places must not meet data that other places have left in the buffer.
        let is_enough = areas(size_bytes) > 2 * SEGMENTS_MAX;
        return is_enough.then(|| ((0..JUMPS).flat_map(|number| jump(size_bytes, number)).collect(), Vec::new()));
    }
    let begun = Begun::of(revolution_nanos, probed)?;
    if name == SEGMENTS {
        let (run, answers) = (begun.run()?, probed.all(SEGMENTS));
        let [held, lost] = answers.map_or([0, SEGMENTS_MAX], |answers| open_segments(&begun, answers));
        let before = answers.map_or(0, |answers| answers.reads_in_all() as u64 - answers.rounds() * TRIES * run);
        let others = u64::midpoint(held, lost);
        return (held + 1 < lost).then(|| segments(size_bytes, run, JUMPS + before, others, revolution_nanos));
    }
    Tracks::of(&facts, probed)?.round(&begun, probed.all(REACH))
}

/// The areas for places: between an eighth of the device and its last eighth.
const fn areas(size_bytes: u64) -> u64 {
    size_bytes / 8 * 6 / APART
}

/// A read in an area. None is read again for as long as a buffer may keep what it held.
const fn at(size_bytes: u64, area: u64, number: u64) -> Io {
    let begin = size_bytes / 8 / KIB_4 * KIB_4 + area % areas(size_bytes) * APART;
    Io { offset: begin + number * KIB_4, length: KIB_4 }
}

/// A jump to a place, reads that follow, and the one before the last of them again.
fn jump(size_bytes: u64, area: u64) -> impl Iterator<Item = Io> {
    (0..RUN).chain([RUN - 2]).map(move |number| at(size_bytes, area, number))
}

/// Lets the head read ahead for a stream, reads so many others, and reads on in the stream, several times.
fn segments(size_bytes: u64, run: u64, before: u64, others: u64, revolution_nanos: f64) -> (Vec<Io>, Vec<Nanos>) {
    let (mut reads, mut rests) = (Vec::new(), Vec::new());
    for number in 0..TRIES {
        let area = before + number * (others + 1);
        let stream = (0..run).map(|number| at(size_bytes, area, number));
        let other = (1..=others).map(|other| at(size_bytes, area + other, 0));
        reads.extend(stream.chain(other).chain([at(size_bytes, area, run)]));
        // The head gets the time to read ahead before it is called away.
        let rest = |read: u64| if read == run { revolution_nanos / 4.0 } else { 0.0 };
        rests.extend((0..=run + others).map(|read| Nanos(rest(read) as u64)));
    }
    (reads, rests)
}

/// The most other reads that a stream is known to keep its segment after, and the fewest that it is known not to.
fn open_segments(begun: &Begun, answers: &Answers) -> [u64; 2] {
    let mut open = [0, SEGMENTS_MAX];
    let Some(run) = begun.run() else { return open };
    for round in 0..answers.rounds() {
        let others = u64::midpoint(open[0], open[1]);
        let all = run + others + 1;
        let last = answers.round(round).filter(|(number, _)| number % all == run + others).map(|(_, read)| read);
        begun.halve(&mut open, last);
    }
    open
}

/// The tracks from which the head reads ahead.
struct Tracks {
    /// The sector where the first begins, and the sectors of each.
    begin: u64,
    sectors: u64,
    revolution_nanos: f64,
    /// The rate of sequential reads on these tracks.
    bytes_per_second: f64,
}

impl Tracks {
    fn of(facts: &Facts, probed: &Probed) -> Option<Self> {
        let front = facts.places.first()?;
        let (sectors, bytes_per_second) = (front.sectors_per_track?.round() as u64, front.bytes_per_second);
        let (begin, revolution_nanos) = (track::begin(probed)?, facts.revolution_nanos?);
        (sectors >= 8 * READ_SECTORS).then_some(Self { begin, sectors, revolution_nanos, bytes_per_second })
    }

    /// Where a track of a try begins. Each lies before those of earlier tries, so that none of them has read what this one looks for.
    const fn track(&self, round: u64, number: u64) -> u64 {
        let tries = EIGHTHS.len() as u64 * TRIES;
        let apart = REACH_MAX * READ_SECTORS / self.sectors + 2;
        self.begin + (surfaces::TRACKS_READ + (REACH_ROUNDS * tries - round * tries - number) * apart) * self.sectors
    }

    /// Where the reads of a try end, in sectors from the beginning of its track.
    const fn ends(&self, eighth: u64) -> u64 {
        self.sectors * eighth / 8
    }

    /// The next round: from each place of a track, the read that halves the open range.
    fn round(&self, begun: &Begun, answers: Option<&Answers>) -> Option<(Vec<Io>, Vec<Nanos>)> {
        let run = begun.run()?;
        let round = answers.map_or(0, Answers::rounds);
        let open = answers.map_or([[0, REACH_MAX]; EIGHTHS.len()], |answers| self.open(begun, answers));
        let (mut reads, mut rests) = (Vec::new(), Vec::new());
        for number in 0..EIGHTHS.len() as u64 * TRIES {
            let (place, part) = ((number / TRIES) as usize, number % TRIES);
            let end = (self.track(round, number) + self.ends(EIGHTHS[place])) / READ_SECTORS * READ_SECTORS;
            let reach = u64::midpoint(open[place][0], open[place][1]).max(1);
            reads.extend((1..=run).rev().map(|before| end - before * READ_SECTORS).map(track::io));
            reads.push(track::io(end + (reach - 1) * READ_SECTORS));
            // The rest is long enough for the head to have come there, plus another part of a revolution each time: a read that has to wait
            // for its place then waits longer in most tries.
            let read_nanos = (reach * KIB_4) as f64 / self.bytes_per_second * 1e9;
            let rest = read_nanos * AHEAD_TAKES + (1.0 + part as f64 / TRIES as f64) * self.revolution_nanos;
            rests.extend((0..run).map(|_| Nanos::ZERO).chain([Nanos(rest as u64)]));
        }
        Some((reads, rests))
    }

    /// From each place of a track, the reads that are known to be read ahead, and the fewest of which the last is known not to be.
    fn open(&self, begun: &Begun, answers: &Answers) -> [[u64; 2]; EIGHTHS.len()] {
        let mut open = [[0, REACH_MAX]; EIGHTHS.len()];
        let Some(run) = begun.run() else { return open };
        for round in 0..answers.rounds() {
            for (place, open) in (0..).zip(&mut open) {
                let is_of = |number: u64| number / ((run + 1) * TRIES) == place && number % (run + 1) == run;
                let tries = answers.round(round).filter(|(number, _)| is_of(*number)).map(|(_, read)| read);
                begun.halve(open, tries);
            }
        }
        open
    }

    /// How far the head reads ahead.
    fn ahead(&self, begun: &Begun, answers: &Answers) -> Option<Ahead> {
        let open = self.open(begun, answers);
        if answers.rounds() < REACH_ROUNDS || open.iter().any(|[held, lost]| held + 1 < *lost || *held == 0) {
            return None;
        }
        let [first, second] = open.map(|[held, _]| held * KIB_4);
        // A segment that keeps requested data has less room for data that is read ahead.
        let more = if begun.keeps { KIB_4 } else { 0 };
        let full = |held: u64| match held / KIB_4 + 1 {
            REACH_MAX => (held + more, u64::MAX),
            _ => (held + more, held + more + KIB_4 - SECTOR_BYTES),
        };
        if first.abs_diff(second) < EXACT {
            return Some(Ahead { until: "segment", segment: full(first.max(second)) });
        }
        let ends_at = |held: u64, eighth: u64, tracks: u64| {
            ((tracks * self.sectors - self.ends(eighth)) * SECTOR_BYTES).abs_diff(held) <= EXACT
        };
        let (tracks, until) =
            [(1, "track"), (2, "next_track")].into_iter().find(|(tracks, _)| ends_at(second, EIGHTHS[1], *tracks))?;
        let segment = if ends_at(first, EIGHTHS[0], tracks) { (first + more, u64::MAX) } else { full(first) };
        Some(Ahead { until, segment })
    }
}
