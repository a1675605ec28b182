//! The number of completions that a ring waits for at once, learnt from the throughput.
//!
//! Waiting for several completions saves wake-ups. Where clients run on the same processor that is worth much; where they have one of their
//! own, it delays them. The server cannot know which is the case, so it tries: once in a while it waits in another way for a short span,
//! and keeps that way if more operations have completed in it several times.

use ioweir_core::Nanos;

/// A way to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    /// A divisor: the part of the operations in flight to wait for.
    part: usize,
    /// The most operations to wait for; none for no rest.
    awaited_max: usize,
    /// The longest rest.
    nanos: u64,
}

const WAYS: [Way; 4] = [
    Way { part: 1, awaited_max: 0, nanos: 0 },
    // With several processors, clients send the next requests meanwhile, and the device must not run dry.
    Way { part: 4, awaited_max: 16, nanos: 100_000 },
    // With one processor, clients run only while the server waits, so it alternates between all completions and all clients.
    Way { part: 1, awaited_max: 16, nanos: 200_000 },
    Way { part: 1, awaited_max: 64, nanos: 400_000 },
];
/// The ways to begin with, where there are several processors and where there is one.
const FIRST: [usize; 2] = [1, 2];
/// The span for which a way is tried.
const SPAN: Nanos = Nanos::from_millis(20);
/// The completions in a span from which on it is compared with others.
const COMPLETED_MIN: u64 = 64;
/// How much more a better way has to complete, as a divisor: a twentieth more than usual.
const BETTER: u64 = 20;
/// Trials in a row that another way has to win.
const WINS: u32 = 3;
/// Usual spans between two trials: at first, and after many that were lost.
const GAP_MIN: u32 = 8;
const GAP_MAX: u32 = 128;

/// The present way to rest, and the trials of other ways.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    usual: usize,
    /// The way of this span, if it is another one.
    trial: Option<usize>,
    /// The way that is tried next, and how often in a row it has won.
    next: usize,
    wins: u32,
    /// The most operations that were in flight at a rest, halved with each span.
    most: usize,
    /// When this span began, and the operations completed in it.
    began: Nanos,
    completed: u64,
    /// The operations completed in a second, over the last usual span.
    usual_per_second: u64,
    /// Usual spans until the next trial, and from one to the next.
    left: u32,
    gap: u32,
}

impl Patience {
    /// The patience of a process that may use one processor, or several.
    pub(super) const fn new(is_alone: bool) -> Self {
        let usual = FIRST[is_alone as usize];
        let (trial, next, wins, began, completed) = (None, 0, 0, Nanos::ZERO, 0);
        Self { usual, trial, next, wins, most: 0, began, completed, usual_per_second: 0, left: GAP_MIN, gap: GAP_MIN }
    }

    /// How many of the operations in flight to wait for, and how long at most; `None` for no rest.
    ///
    /// A rest for one operation costs a timer, which a client with one request at a time would pay for each. Where clients keep more
    /// outstanding and run on the same processor, such a rest is worth its timer: without it, a client with many answers to read would be interrupted
    /// for each request that it sends, and each request would go to the device alone, for as long as the load lasts.
    pub(super) fn wanted(&mut self, in_flight: usize) -> Option<(usize, u64)> {
        self.most = self.most.max(in_flight);
        let Way { part, awaited_max, nanos } = WAYS[self.trial.unwrap_or(self.usual)];
        let wanted = (in_flight / part).min(awaited_max);
        let least = if part == 1 && self.most > 1 { 1 } else { 2 };
        (wanted >= least).then_some((wanted, nanos))
    }

    /// Counts completed operations, and judges the present way at the end of a span.
    pub(super) fn completed(&mut self, now: Nanos, operations: u64) {
        self.completed += operations;
        let span = now.since(self.began);
        if span < SPAN {
            return;
        }
        // A span with little work is not compared.
        if self.completed >= COMPLETED_MIN && span.0 < 2 * SPAN.0 {
            self.judge(self.completed * 1_000_000_000 / span.0);
        } else {
            self.trial = None;
        }
        (self.began, self.completed) = (now, 0);
        self.most /= 2;
    }

    fn judge(&mut self, per_second: u64) {
        let Some(trial) = self.trial.take() else {
            self.usual_per_second = per_second;
            self.left -= 1;
            if self.left == 0 {
                (self.trial, self.left) = (Some(self.next), 1);
            }
            return;
        };
        if per_second > self.usual_per_second + self.usual_per_second / BETTER {
            self.wins += 1;
            if self.wins < WINS {
                return;
            }
            (self.usual, self.gap) = (trial, GAP_MIN);
        }
        self.wins = 0;
        self.next = (trial + 1) % WAYS.len();
        if self.next == self.usual {
            self.next = (self.next + 1) % WAYS.len();
        }
        // The more trials were lost, the rarer they become.
        self.left = self.gap;
        self.gap = (self.gap + self.gap / 4).min(GAP_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays spans in which each way completes this many operations a second, give or take a tenth. Returns the way after them, and
    /// the share of spans that were trials.
    fn play(mut patience: Patience, per_second: [u64; 4], spans: u64) -> (usize, f64) {
        let (mut now, mut draw, mut trials) = (Nanos::from_seconds(1), 7_u64, 0);
        patience.began = now;
        for _ in 0..spans {
            let way = patience.trial.unwrap_or(patience.usual);
            trials += u64::from(patience.trial.is_some());
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let noise = 900 + (draw >> 33) % 201;
            now = now.after(SPAN);
            patience.completed(now, per_second[way] * noise / 1000 / 50);
        }
        (patience.usual, trials as f64 / spans as f64)
    }

    #[test]
    fn the_fastest_way_becomes_usual_and_trials_rare() {
        for best in 0..WAYS.len() {
            let mut per_second = [20_000; 4];
            per_second[best] = 30_000;
            for is_alone in [false, true] {
                let (usual, _) = play(Patience::new(is_alone), per_second, 500);
                assert_eq!(usual, best, "within ten seconds");
                let (usual, trials) = play(Patience { usual: best, ..Patience::new(is_alone) }, per_second, 5_000);
                assert!(usual == best && trials < 0.02, "{trials}");
            }
        }
    }

    #[test]
    fn clients_that_change_their_processor_are_noticed() {
        let mut patience = Patience { gap: GAP_MAX, left: GAP_MAX, ..Patience::new(true) };
        patience.wins = 0;
        assert_eq!(play(patience, [50_000, 45_000, 40_000, 30_000], 2_000).0, 0);
    }

    #[test]
    fn one_processor_waits_for_single_operations_under_load() {
        let mut patience = Patience::new(true);
        assert_eq!((patience.wanted(0), patience.wanted(1)), (None, None), "one request at a time");
        assert_eq!((patience.wanted(40), patience.wanted(1)), (Some((16, 200_000)), Some((1, 200_000))));
        let mut now = Nanos::from_seconds(1);
        for _ in 0..6 {
            now = now.after(SPAN);
            patience.completed(now, 1);
        }
        assert_eq!(patience.wanted(1), None, "they did so long ago");
        let mut apart = Patience::new(false);
        assert_eq!((apart.wanted(40), apart.wanted(4)), (Some((10, 100_000)), None));
    }

    #[test]
    fn idle_devices_make_no_trials() {
        let mut patience = Patience::new(false);
        for milli in 0..100_000 {
            patience.completed(Nanos::from_millis(milli), milli % 2);
            assert!(patience.trial.is_none());
        }
        assert_eq!((patience.wanted(3), patience.wanted(8)), (None, Some((2, 100_000))));
    }
}
