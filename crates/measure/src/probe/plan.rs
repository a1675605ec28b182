//! Which probes a device gets.

use ioweir_device::random::Random;

use super::{Io, Probe, Probed, buffer, rests, seeks, strides, surfaces, track};

/// The smallest device that is probed.
pub const BYTES_MIN: u64 = 64 << 20;
/// The probe that nothing is fitted to.
pub const HELD_OUT: &str = "held-out mix";
/// The probe of single small reads.
pub(super) const RANDOM: &str = "random 4 KiB";
/// Reads towards the front of the device, in small and in large steps.
pub(super) const BACKWARDS_SMALL: &str = "backwards by 4 KiB";
pub(super) const BACKWARDS_LARGE: &str = "backwards by 128 KiB";
/// Sequential reads at several places.
pub(super) const SEQUENTIAL: &str = "sequential 128 KiB";
pub(super) const SEQUENTIAL_LARGE: &str = "sequential 1 MiB";

/// Lengths.
pub(super) const KIB_4: u64 = 4 << 10;
const KIB_128: u64 = 128 << 10;
pub(super) const MIB: u64 = 1 << 20;
/// Places of a disk that are read sequentially, and the reads of 128 KiB at each.
pub(super) const PLACES: u64 = 64;
const SEQUENTIAL_READS: u64 = 16;
/// Places of a device whose places are alike that are read sequentially, and the reads of 128 KiB at each.
const PLACES_ALIKE: u64 = 16;
const SEQUENTIAL_READS_ALIKE: u64 = 32;
/// Reads of 1 MiB at each of these places.
const SEQUENTIAL_LARGE_READS: u64 = 4;
/// Random reads one at a time.
const RANDOM_READS: usize = 800;
/// Random reads of each length.
const LENGTH_READS: usize = 40;
/// The numbers of reads in flight, and the reads at each.
pub(super) const DEPTHS: [(&str, usize); 5] =
    [(AT_2, 2), ("4 at once", 4), (AT_8, 8), ("16 at once", 16), ("32 at once", 32)];
pub(super) const DEPTH_READS: usize = 250;
/// Names of the depths at which a disk, too, is read: each further depth changes its order of commands.
const AT_2: &str = "2 at once";
const AT_8: &str = "8 at once";
/// Reads backwards at each of the places, which show the speed of the medium.
const BACKWARDS_READS: u64 = 9;
/// Reads backwards at the front in the smallest steps, which show the revolution.
const REVOLUTION_READS: u64 = 120;
/// Reads of different lengths.
const LENGTHS: &str = "4 KiB to 1 MiB";
/// Reads of the held-out mix at each depth.
const HELD_OUT_READS: usize = 2_000;
/// The depth of the held-out mix: it is at most this, and less while requests are few.
const HELD_OUT_DEPTH: usize = 4;
/// A device whose median random read is faster than this does not rotate.
const ROTATES_NANOS: u64 = 1_500_000;

/// The probes of a device of unknown kind.
#[derive(Clone, Debug)]
pub struct Plan {
    size_bytes: u64,
    seed: u64,
    next: usize,
    probes: Vec<Probe>,
}

impl Plan {
    /// The plan for a device of at least [`BYTES_MIN`].
    #[must_use]
    pub fn new(size_bytes: u64, seed: u64) -> Self {
        let size_bytes = size_bytes / MIB * MIB;
        let mut plan = Self { size_bytes, seed, next: 0, probes: Vec::new() };
        plan.probes.push(Probe::new(RANDOM, 1, plan.random(RANDOM_READS, 1, |_| KIB_4)));
        plan.probes.push(Probe::new(SEQUENTIAL, 1, plan.sequential(PLACES, KIB_128, SEQUENTIAL_READS, 0)));
        let large = plan.sequential(PLACES_ALIKE, MIB, SEQUENTIAL_LARGE_READS, 8 * MIB);
        plan.probes.push(Probe::new(SEQUENTIAL_LARGE, 1, large));
        let lengths = plan.random(9 * LENGTH_READS, 2, |random| KIB_4 << random.below(9));
        plan.probes.push(Probe::new(LENGTHS, 1, lengths));
        for (name, depth) in DEPTHS {
            plan.probes.push(Probe::new(name, depth, plan.random(DEPTH_READS, 10 + depth as u64, |_| KIB_4)));
        }
        let front = 24 * MIB;
        plan.probes.push(Probe::new(BACKWARDS_SMALL, 1, backwards(front, KIB_4, REVOLUTION_READS)));
        let places = (0..PLACES).flat_map(|place| {
            backwards(self::place(plan.size_bytes, PLACES, place) + 3 * MIB, KIB_128, BACKWARDS_READS)
        });
        plan.probes.push(Probe::new(BACKWARDS_LARGE, 1, places.collect()));
        plan.probes.push(Probe::new(track::BOUNDARY, 1, Vec::new()));
        plan.probes.push(Probe::new(track::WITHIN, 1, Vec::new()));
        plan.probes.push(Probe::new(track::RESTED, 1, Vec::new()));
        plan.probes.extend((0..surfaces::ROUNDS).map(|_| Probe::new(surfaces::SURFACES, 1, Vec::new())));
        plan.probes.push(Probe::new(buffer::BEGINS, 1, Vec::new()));
        plan.probes.extend((0..buffer::SEGMENTS_ROUNDS).map(|_| Probe::new(buffer::SEGMENTS, 1, Vec::new())));
        plan.probes.extend((0..buffer::REACH_ROUNDS).map(|_| Probe::new(buffer::REACH, 1, Vec::new())));
        plan.probes.extend((0..seeks::ROUNDS).map(|_| Probe::new(seeks::SEEKS, 1, Vec::new())));
        plan.probes.extend(strides::ROUNDS.map(|name| Probe::new(name, 1, Vec::new())));
        plan.probes.push(Probe::new(rests::OCTAVES, 1, Vec::new()));
        plan.probes.extend((0..rests::ROUNDS).map(|_| Probe::new(rests::BETWEEN, 1, Vec::new())));
        let held_out = plan.random(HELD_OUT_READS, 3, |random| KIB_4 << random.below(7));
        plan.probes.push(Probe::new(HELD_OUT, HELD_OUT_DEPTH, held_out));
        plan
    }

    /// The most requests and bytes that are read.
    #[must_use]
    pub fn most(&self) -> (u64, u64) {
        let reads = || self.probes.iter().flat_map(Probe::reads);
        let (count, bytes) = (reads().count() as u64, reads().map(|io| io.length).sum::<u64>());
        let of_disks = track::READS_MAX + surfaces::READS_MAX + buffer::READS_MAX + seeks::reads_max(self.size_bytes);
        let later = of_disks.max(rests::READS_MAX + strides::READS_MAX);
        (count + later, bytes + later * KIB_4 + strides::MORE_BYTES_MAX)
    }

    /// How many probes were carried out or left out, and how many there are.
    #[must_use]
    pub const fn behind(&self) -> (usize, usize) {
        (self.next, self.probes.len())
    }

    /// Chooses the next probe, from the answers so far.
    pub fn next(&mut self, probed: &Probed) -> Option<Probe> {
        loop {
            let probe = self.probes.get(self.next)?.clone();
            self.next += 1;
            match probe.name {
                BACKWARDS_SMALL | BACKWARDS_LARGE | AT_2 | AT_8 | seeks::SEEKS if !rotates(probed) => {}
                SEQUENTIAL if !rotates(probed) => {
                    let reads = self.sequential(PLACES_ALIKE, KIB_128, SEQUENTIAL_READS_ALIKE, 0);
                    return Some(Probe::new(probe.name, 1, reads));
                }
                seeks::SEEKS => {
                    let (reads, rests) = seeks::round(self.size_bytes, probed);
                    return Some(Probe::new(probe.name, 1, reads).with_rests(rests));
                }
                track::BOUNDARY
                | track::WITHIN
                | track::RESTED
                | surfaces::SURFACES
                | buffer::BEGINS
                | buffer::SEGMENTS
                | buffer::REACH => {
                    let next = match probe.name {
                        track::RESTED => track::rested(probed),
                        surfaces::SURFACES => surfaces::round(probed),
                        name @ (track::BOUNDARY | track::WITHIN) => {
                            track::reads(name, probed).map(|reads| (reads, Vec::new()))
                        }
                        name => buffer::round(name, self.size_bytes, probed),
                    };
                    let is_within = |reads: &[Io]| reads.iter().all(|io| io.offset + io.length <= self.size_bytes);
                    if let Some((reads, rests)) = next.filter(|(reads, _)| is_within(reads)) {
                        return Some(Probe::new(probe.name, 1, reads).with_rests(rests));
                    }
                }
                rests::OCTAVES | rests::BETWEEN => {
                    let rests = (!rotates(probed)).then(|| rests::rests(probe.name, probed)).flatten();
                    if let Some(rests) = rests {
                        // Each round reads other places, which no buffer has.
                        let round = probed.all(rests::BETWEEN).map_or(0, super::Answers::rounds);
                        let stream = if probe.name == rests::OCTAVES { 41 } else { 43 + round };
                        let reads = self.random(rests.len(), stream, |_| KIB_4);
                        return Some(Probe::new(probe.name, 1, reads).with_rests(rests));
                    }
                }
                name if strides::ROUNDS.contains(&name) => {
                    let round = (!rotates(probed)).then(|| strides::round(name, self.size_bytes, self.seed, probed));
                    if let Some(round) = round.flatten() {
                        return Some(round);
                    }
                }
                _ => return Some(probe),
            }
        }
    }

    fn random(&self, count: usize, stream: u64, length: impl Fn(&mut Random) -> u64) -> Vec<Io> {
        let mut random = Random::stream(self.seed, stream);
        let mut read = || {
            let length = length(&mut random);
            Io { offset: random.below((self.size_bytes - length) / KIB_4 + 1) * KIB_4, length }
        };
        (0..count).map(|_| read()).collect()
    }

    fn sequential(&self, places: u64, length: u64, count: u64, skip: u64) -> Vec<Io> {
        let at = |place| {
            let begin = self::place(self.size_bytes, places, place) + skip;
            (0..count).map(move |number| Io { offset: begin + number * length, length })
        };
        (0..places).flat_map(at).collect()
    }
}

/// The beginning of one of several places: the first is the front, the last is near the end.
pub(super) fn place(size_bytes: u64, places: u64, place: u64) -> u64 {
    let last = size_bytes.saturating_sub(16 * MIB);
    last / (places - 1) / MIB * MIB * place
}

/// The number of the property that a read of a probe shows, by the read's number and length: sequential reads show the bandwidth of their
/// place.
pub(super) fn shows(probe: &str, number: u64, length: u64) -> u64 {
    match probe {
        // The first read of each place has to wait for its place.
        SEQUENTIAL if number.is_multiple_of(SEQUENTIAL_READS) => PLACES,
        SEQUENTIAL_LARGE if number.is_multiple_of(SEQUENTIAL_LARGE_READS) => 1,
        SEQUENTIAL => number / SEQUENTIAL_READS,
        LENGTHS => length,
        _ => 0,
    }
}

/// Reads towards the front, each so far before the one before it.
pub(super) fn backwards(from: u64, step: u64, count: u64) -> Vec<Io> {
    (0..count).map(|number| Io { offset: from.saturating_sub(number * step), length: KIB_4 }).collect()
}

/// Whether a device is slow enough to rotate.
pub(super) fn rotates(probed: &Probed) -> bool {
    let mut times: Vec<u64> = probed.to(RANDOM).iter().map(|read| read.latency().0).collect();
    times.sort_unstable();
    times.get(times.len() / 2).is_some_and(|median| *median >= ROTATES_NANOS)
}
