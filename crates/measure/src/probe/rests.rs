//! Whether a drive sleeps, after what time without requests, and how long it takes to wake up.
//!
//! A first probe reads after rests of a millisecond to two seconds, in octaves. The rounds of a second one read after rests between the
//! longest that was followed by a fast read and the shortest that was followed by a slow one, and each takes a quarter of what was open.

use ioweir_config::Duration;
use ioweir_core::Nanos;
use ioweir_device::parameter::Amount;
use serde::Serialize;

use super::Probed;
use super::facts::median;
use super::plan::RANDOM;

/// The probe with rests in octaves, and the one between two of them.
pub(super) const OCTAVES: &str = "after rests";
pub(super) const BETWEEN: &str = "after rests of about the time to sleep";
/// The shortest rest, how often it doubles, and the reads after each.
const REST_MIN: Nanos = Nanos::from_millis(1);
const LENGTHS: u32 = 12;
const READS: u32 = 4;
/// The rests of a round between two that are known, and the rounds: together they find the time to a hundredth.
const STEPS: u64 = 3;
pub(super) const ROUNDS: u64 = 3;
/// The most reads of both probes.
pub(super) const READS_MAX: u64 = (LENGTHS * READS) as u64 + ROUNDS * (STEPS + 1);
/// A rest shows if the read after it takes at least so many times as long.
const SLOW: f64 = 1.3;
/// The part of the reads that may contradict the time after which a drive sleeps.
const WRONG_MAX: f64 = 0.1;
/// The fewest slow reads that show what waking up takes.
const SLOW_MIN: usize = 3;

/// How a drive wakes up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Wake {
    /// The time without requests after which the drive sleeps; or the longest rest, if it does not sleep.
    pub idle_nanos: f64,
    /// How much longer the next read takes; zero if the drive does not sleep.
    pub takes_nanos: f64,
}

/// The rests before the reads of a probe; `None` if the answers so far leave nothing to look at.
pub(super) fn rests(name: &str, probed: &Probed) -> Option<Vec<Nanos>> {
    if name == OCTAVES {
        let octave = |read: u32| Nanos(REST_MIN.0 << (read / READS));
        return Some((0..LENGTHS * READS).map(octave).collect());
    }
    let seen = Seen::of(probed)?;
    let boundary = seen.boundary()?;
    let (fast, slow) = (seen.reads.get(boundary.checked_sub(1)?)?.0, seen.reads.get(boundary)?.0);
    let between = |step| Nanos(fast + slow.saturating_sub(fast) / (STEPS + 1) * step);
    // How long it was left alone is known of reads that follow another one of the same probe.
    Some([Nanos::ZERO].into_iter().chain((1..=STEPS).map(between)).collect())
}

/// How the drive wakes up, if its answers show it.
pub(super) fn wake(probed: &Probed) -> Option<Wake> {
    let seen = Seen::of(probed)?;
    let boundary = seen.boundary()?;
    let rest = |at: usize| seen.reads.get(at).map(|read| read.0 as f64);
    let mut slow: Vec<f64> = seen.reads.iter().skip(boundary).map(|read| read.1 as f64).collect();
    if slow.len() < SLOW_MIN {
        // If the probe was cut, the drive was not left alone for long enough to say that it does not sleep.
        let is_whole = seen.reads.last()?.0 >= REST_MIN.0 << (LENGTHS - 1);
        return is_whole.then_some(Wake { idle_nanos: rest(seen.reads.len() - 1)?, takes_nanos: 0.0 });
    }
    let idle_nanos = match boundary.checked_sub(1) {
        Some(before) => f64::midpoint(rest(before)?, rest(boundary)?),
        None => rest(0)?,
    };
    Some(Wake { idle_nanos, takes_nanos: median(&mut slow)? - seen.alone_nanos })
}

/// Reads after rests.
struct Seen {
    /// The time of a single read that follows another at once.
    alone_nanos: f64,
    /// Rests and latencies, the shortest rest first.
    reads: Vec<(u64, u64)>,
}

impl Seen {
    fn of(probed: &Probed) -> Option<Self> {
        let alone_nanos =
            median(&mut probed.to(RANDOM).iter().map(|read| read.latency().0 as f64).collect::<Vec<_>>())?;
        let mut reads: Vec<(u64, u64)> = Vec::new();
        for name in [OCTAVES, BETWEEN] {
            let answers = probed.to(name);
            // The rest is the time for which the drive was really left alone; the rest before the first read is unknown.
            let pairs = answers.iter().zip(answers.iter().skip(1)).filter(|(one, next)| one.token + 1 == next.token);
            reads.extend(pairs.map(|(one, next)| (next.submitted.since(one.completed).0, next.latency().0)));
        }
        reads.sort_unstable();
        (!reads.is_empty()).then_some(Self { alone_nanos, reads })
    }

    /// The number of the first read whose drive slept, such that the fewest reads contradict it; `None` if more than a few do.
    fn boundary(&self) -> Option<usize> {
        let is_slow = |read: &&(u64, u64)| read.1 as f64 > self.alone_nanos * SLOW;
        let wrong = |at: usize| {
            let (short, long) = self.reads.split_at(at);
            short.iter().filter(is_slow).count() + long.iter().filter(|read| !is_slow(read)).count()
        };
        // The last of several, so that a drive that never sleeps has none.
        let at = (0..=self.reads.len()).rev().min_by_key(|at| wrong(*at))?;
        (wrong(at) as f64 <= WRONG_MAX * self.reads.len() as f64).then_some(at)
    }
}

impl Wake {
    /// The parameters of a flash drive that this says.
    pub(super) fn of_flash(self) -> Vec<(String, Amount)> {
        let time = |nanos: f64| Amount::Time(Duration::default()).with_number(nanos.round());
        [("ssd.wake.idle", self.idle_nanos), ("ssd.wake.takes", self.takes_nanos)]
            .map(|(key, nanos)| (key.to_owned(), time(nanos)))
            .into()
    }

    /// The result in words.
    pub(super) fn in_words(self) -> String {
        let millis = self.idle_nanos / 1e6;
        if self.takes_nanos > 0.0 {
            format!(
                "it sleeps after {millis:.1} ms without requests, and takes {:.0} us to wake up",
                self.takes_nanos / 1e3
            )
        } else {
            format!("a read after {millis:.0} ms takes no longer than any other")
        }
    }
}
