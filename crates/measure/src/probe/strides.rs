//! Which addresses of a flash drive share a die, and which a channel.
//!
//! A drive lays addresses on its dies in turn, a piece on each. Two reads at once from one die wait for each other; those from two dies of
//! one channel wait for each other's data; others do not wait. Neighbours are read in pairs first: a pair that does not wait
//! lies on both sides of the end of a piece. Then pairs that are one, two, three pieces apart and so on: at multiples of the
//! number of dies they wait. Of longer reads, those wait in addition that are a multiple of the number of channels apart. Reads of 8 KiB
//! at all places of a piece show its pages: those that cross from one to the next take as long as two.

use std::collections::BTreeMap;

use ioweir_config::{Size, format_bytes};
use ioweir_device::parameter::Amount;
use ioweir_device::random::Random;
use serde::Serialize;

use super::facts::median;
use super::plan::{KIB_4, MIB, RANDOM};
use super::{Io, Probe, Probed};
use ioweir_block::real::Completed;

pub(super) const NEIGHBOURS: &str = "neighbours in pairs";
/// Pairs that are pieces apart: short reads, and as long ones as a page.
const DIES: &str = "pieces in pairs";
const CHANNELS: &str = "pages of pieces in pairs";
/// Single reads of 8 KiB within pieces.
const PAGES: &str = "8 KiB within pieces";
/// Reads at the strides that were found, which a model is fitted to.
const ONE_DIE: &str = "8 at once on one die";
const ONE_CHANNEL: &str = "8 at once on one channel";
/// The names of all rounds, in their order.
pub(super) const ROUNDS: [&str; 6] = [NEIGHBOURS, DIES, PAGES, CHANNELS, ONE_DIE, ONE_CHANNEL];

/// Neighbours that are read in pairs, and the most of them on one die in a row.
const NEIGHBOUR_PAIRS: u64 = 128;
const PIECE_MAX: u64 = NEIGHBOUR_PAIRS / 2;
/// The most pieces that two reads are apart, and the most dies: two multiples of them have to be seen.
const APART_MAX: u64 = 256;
const DIES_MAX: u64 = APART_MAX / 2;
/// The pieces that pairs begin at.
const BEGINS: u64 = 1_024;
/// How often each pair is read; the median counts.
const REPEATS: u64 = 5;
/// The longest reads of pairs.
const LONG: u64 = 32 << 10;
/// Reads at a stride, and how many of them at once.
const STRIDE_READS: u64 = 96;
const STRIDE_DEPTH: usize = 8;
/// The most reads of all rounds, and bytes beyond 4 KiB for each.
pub(super) const READS_MAX: u64 =
    2 * REPEATS * (NEIGHBOUR_PAIRS + 2 * APART_MAX) + REPEATS * PIECE_MAX + 2 * STRIDE_READS;
pub(super) const MORE_BYTES_MAX: u64 = (2 * REPEATS * APART_MAX + STRIDE_READS) * (LONG - KIB_4);
/// How much longer, as a part, pairs take that wait.
const WAITS: f64 = 0.03;
/// How far the wait for a channel is from chance, in standard errors.
const ERRORS_MIN: f64 = 4.0;

/// How addresses lie on the dies of a flash drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// Bytes in a row on one die.
    pub piece_bytes: u64,
    /// Bytes of a piece that are read together.
    pub page_bytes: u64,
    /// The dies, which get pieces in turn.
    pub dies: u64,
    /// The channels: die `n` is on channel `n % channels`. As many as dies if no two of them wait for each other's data.
    pub channels: u64,
}

/// Whether a model is fitted to the answers of a probe, beside the facts that they show directly.
pub(super) fn is_fitted(name: &str) -> bool {
    ![NEIGHBOURS, DIES, PAGES, CHANNELS].contains(&name)
}

/// The next round, from the answers to the rounds before; `None` if they give no starting point.
pub(super) fn round(name: &'static str, size_bytes: u64, seed: u64, probed: &Probed) -> Option<Probe> {
    let mut random = Random::stream(seed, 6);
    if name == NEIGHBOURS {
        let begin = size_bytes / 3 / MIB * MIB;
        let at = |pair: u64| begin + pair * KIB_4;
        let pairs =
            (0..NEIGHBOUR_PAIRS * REPEATS).map(|number| number % NEIGHBOUR_PAIRS).map(|pair| [at(pair), at(pair + 1)]);
        return Some(in_pairs(name, KIB_4, pairs.collect(), &mut random));
    }
    let (origin, piece) = piece(probed)?;
    let apart_max = APART_MAX.min((size_bytes - origin) / piece / 2);
    let begins = BEGINS.min((size_bytes - origin) / piece - apart_max);
    let place = |random: &mut Random| origin + random.below(begins) * piece;
    let mut apart = |distances: Vec<u64>, length| {
        let begins = distances.iter().map(|_| place(&mut random)).collect::<Vec<_>>();
        let pairs = begins.into_iter().zip(distances).map(|(one, apart)| [one, one + apart * piece]).collect();
        in_pairs(name, length, pairs, &mut random)
    };
    let all = |most: u64, is_asked: &dyn Fn(u64) -> bool| -> Vec<u64> {
        (0..REPEATS).flat_map(|_| 1..=most).filter(|apart| is_asked(*apart)).collect()
    };
    if name == DIES {
        return Some(apart(all(apart_max, &|_| true), KIB_4));
    }
    let dies = dies(piece, probed)?;
    if name == PAGES {
        let within = (0..REPEATS * (piece / KIB_4 - 1)).map(|number| number % (piece / KIB_4 - 1));
        let reads = within.map(|at| Io { offset: place(&mut random) + at * KIB_4, length: 2 * KIB_4 }).collect();
        return Some(Probe::new(name, 1, reads));
    }
    let page = page(origin, piece, probed)?;
    if name == CHANNELS {
        return Some(apart(all(apart_max.min(2 * dies), &|apart| !apart.is_multiple_of(dies)), page.min(LONG)));
    }
    let channels = channels(piece, dies, probed);
    let (stride, length) = match name {
        ONE_DIE => (dies * piece, KIB_4),
        _ if channels < dies => (channels * piece, page.min(LONG)),
        _ => return None,
    };
    let strides = (size_bytes - origin) / stride;
    let reads = (0..STRIDE_READS).map(|_| Io { offset: origin + random.below(strides) * stride, length }).collect();
    Some(Probe::new(name, STRIDE_DEPTH, reads))
}

/// Pairs of reads in random order.
fn in_pairs(name: &'static str, length: u64, mut pairs: Vec<[u64; 2]>, random: &mut Random) -> Probe {
    for at in (1..pairs.len()).rev() {
        pairs.swap(at, usize::try_from(random.below(at as u64 + 1)).unwrap_or(at));
    }
    let reads = pairs.into_iter().flatten().map(|offset| Io { offset, length }).collect();
    Probe::new(name, 1, reads).together(2)
}

/// The layout that the answers show.
pub(super) fn layout(probed: &Probed) -> Option<Layout> {
    let (origin, piece_bytes) = piece(probed)?;
    let dies = dies(piece_bytes, probed)?;
    let page_bytes = page(origin, piece_bytes, probed)?;
    Some(Layout { piece_bytes, page_bytes, dies, channels: channels(piece_bytes, dies, probed) })
}

/// The median time of a probe's pairs, by a key that `of` makes of their two offsets, such as their distance.
fn pairs(probed: &Probed, name: &str, of: impl Fn(u64, u64) -> u64) -> BTreeMap<u64, f64> {
    let mut times = BTreeMap::<u64, Vec<f64>>::new();
    for pair in probed.to(name).windows(2) {
        let [first, second] = pair else { continue };
        if first.token % 2 == 0 && second.token == first.token + 1 {
            let took = first.completed.max(second.completed).since(first.submitted);
            times.entry(of(first.offset, second.offset)).or_default().push(took.0 as f64);
        }
    }
    medians(times)
}

fn medians(times: BTreeMap<u64, Vec<f64>>) -> BTreeMap<u64, f64> {
    times.into_iter().filter_map(|(key, mut times)| Some((key, median(&mut times)?))).collect()
}

/// The gap between slow and fast times: by how much the shortest slow time exceeds the longest fast one, as a part of the latter.
fn gap(times: &BTreeMap<u64, f64>, is_slow: impl Fn(u64) -> bool) -> Option<f64> {
    let is_slow = &is_slow;
    let of = |slow| times.iter().filter(move |(key, _)| is_slow(**key) == slow).map(|(_, time)| *time);
    let (slow, fast) = (of(true).min_by(f64::total_cmp)?, of(false).max_by(f64::total_cmp)?);
    Some(slow / fast - 1.0).filter(|gap| *gap >= WAITS)
}

/// The best of several, if any is good enough.
fn best<T>(all: impl Iterator<Item = (T, Option<f64>)>) -> Option<T> {
    let good = all.filter_map(|(what, value)| Some((what, value?)));
    good.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(what, _)| what)
}

/// Where a piece begins, and the bytes of one. Where all neighbours are alike, they may be pieces of their own.
fn piece(probed: &Probed) -> Option<(u64, u64)> {
    let begin = probed.to(NEIGHBOURS).iter().map(|read| read.offset).min()?;
    let times = pairs(probed, NEIGHBOURS, |first, _| (first - begin) / KIB_4);
    let sizes = (2..=PIECE_MAX).flat_map(|units| (0..units).map(move |last| (units, last)));
    let found = best(sizes.map(|(units, last)| ((units, last), gap(&times, |pair| pair % units != last))));
    Some(found.map_or((begin, KIB_4), |(units, last)| (begin + (last + 1) * KIB_4, units * KIB_4)))
}

fn dies(piece: u64, probed: &Probed) -> Option<u64> {
    let times = pairs(probed, DIES, |first, second| (second - first) / piece);
    let most = times.keys().max()? / 2;
    best((2..=DIES_MAX.min(most)).map(|dies| (dies, gap(&times, |apart| apart.is_multiple_of(dies)))))
}

fn page(origin: u64, piece: u64, probed: &Probed) -> Option<u64> {
    let units = piece / KIB_4;
    if units == 1 {
        return Some(piece);
    }
    let mut times = BTreeMap::<u64, Vec<f64>>::new();
    for read in probed.to(PAGES) {
        times.entry((read.offset - origin) / KIB_4 % units).or_default().push(read.latency().0 as f64);
    }
    let times = medians(times);
    let crosses = |page: u64| gap(&times, |at| (at + 1).is_multiple_of(page));
    let found = best((2..units).filter(|page| units.is_multiple_of(*page)).map(|page| (page, crosses(page))));
    // If all pairs cross or none of them does, a pair's time exceeds that of a 4 KiB read only by the transfer of its data.
    let single = median(&mut probed.to(RANDOM).iter().map(|read| read.latency().0 as f64).collect::<Vec<_>>())?;
    let usual = pairs(probed, DIES, |_, _| 0).into_values().next()?;
    let slowest = pairs(probed, DIES, |first, second| second - first).into_values().max_by(f64::total_cmp)?;
    let both = median(&mut times.into_values().collect::<Vec<_>>())?;
    let whole = if both - single > (slowest - usual) / 2.0 { 1 } else { units };
    Some(found.unwrap_or(whole) * KIB_4)
}

/// The number of channels that explains the waits for data best; the number of dies if none does.
fn channels(piece: u64, dies: u64, probed: &Probed) -> u64 {
    let times = pairs(probed, CHANNELS, |first, second| (second - first) / piece);
    let explains = |channels: u64| {
        let of = |shares| {
            let its =
                times.iter().filter(move |(apart, _)| apart.is_multiple_of(channels) == shares).map(|(_, time)| *time);
            let its: Vec<f64> = its.collect();
            let (count, mean) = (its.len() as f64, its.iter().sum::<f64>() / its.len().max(1) as f64);
            (count, mean, its.iter().map(|time| (time - mean).powi(2)).sum::<f64>())
        };
        let ((same, slow, rest), (other, fast, others)) = (of(true), of(false));
        let explained = same * other / (same + other) * (slow - fast).powi(2);
        let error = (rest + others) / (same + other - 2.0).max(1.0);
        let is_clear = slow > fast * (1.0 + WAITS / 3.0) && explained > ERRORS_MIN.powi(2) * error;
        (other > 0.0 && same > 0.0 && is_clear).then_some(explained)
    };
    best((2..dies).filter(|channels| dies.is_multiple_of(*channels)).map(|channels| (channels, explains(channels))))
        .unwrap_or(dies)
}

impl Layout {
    /// The parameters of a flash drive that this says. What is written to a die at once counts as pages of as many planes.
    pub(super) fn of_flash(self) -> Vec<(String, Amount)> {
        let counts = [
            ("planes_per_die", self.piece_bytes / self.page_bytes),
            ("pages_per_program", 1),
            ("channels", self.channels),
            ("dies_per_channel", self.dies / self.channels),
        ];
        let counts = counts.map(|(key, count)| (format!("ssd.{key}"), Amount::Count(count)));
        std::iter::once(("ssd.page".to_owned(), Amount::Size(Size(self.page_bytes)))).chain(counts).collect()
    }

    /// The layout in words, with how many reads a second come from one die and one channel.
    pub(super) fn in_words(self, strides: Strides) -> String {
        let Self { piece_bytes, page_bytes, dies, channels } = self;
        let rate =
            |rate: Option<f64>| rate.map_or_else(String::new, |rate| format!(" ({rate:.0} a second, 8 at once)"));
        let mut words = format!(
            "reads {} apart share one of {dies} dies{}, which have {} in a row in pages of {}",
            format_bytes(dies * piece_bytes),
            rate(strides.one_die),
            format_bytes(piece_bytes),
            format_bytes(page_bytes)
        );
        if channels < dies {
            words += &format!(
                "; reads {} apart share one of {channels} channels{}",
                format_bytes(channels * piece_bytes),
                rate(strides.one_channel)
            );
        }
        words
    }
}

/// Reads a second at the strides that were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Strides {
    one_die: Option<f64>,
    /// All over one channel.
    one_channel: Option<f64>,
}

impl Strides {
    pub(super) fn of(probed: &Probed) -> Self {
        let rate = |name| {
            let reads: &[Completed] = probed.to(name);
            let last = reads.iter().map(|read| read.completed).max()?;
            Some(reads.len() as f64 / (last.since(reads.first()?.submitted).0 as f64 / 1e9))
        };
        Self { one_die: rate(ONE_DIE), one_channel: rate(ONE_CHANNEL) }
    }
}
