//! The window of a pair: fixed, or as large as the tenants' latency targets allow.
//!
//! A larger window lets the elevator sort more, and makes requests wait longer. The adaptive window grows by one request
//! after [`INTERVAL`] requests of tenants with a latency in their shares, if 99 % of them met it; it is halved as soon as
//! that many can no longer meet it. Only requests that were submitted after the last change count, since others waited under
//! another window. Requests that came when their client had others queued in the order do not count if that client's mean
//! latency is above its target: it asks for more than its share serves, and a smaller window would only move its wait from the
//! elevator to the order. If no share has a latency, nothing limits the window, and the requests of all clients count.
//!
//! It begins large, because the order keeps the shares at any size ([`crate::pair`]).
//!
//! **Bound.** After n counted requests, the window is at most n / [`INTERVAL`] larger than at the start; from a size s, if
//! all are late, it is one after 3 log2(s) of them.

use crate::Nanos;

/// The number of requests for which a window is tried before it grows.
const INTERVAL: u32 = 200;

/// The number of late requests among them that is tolerated.
const LATE_MAX: u32 = INTERVAL / 100;

/// The size at the start, and the largest size of an adaptive window.
const START: u32 = 64;
const MAX: u32 = 1024;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    size: u32,
    most: u32,
    is_adaptive: bool,
    /// Whether any share has had a latency.
    has_targets: bool,
    done: u32,
    late: u32,
    changed_at: Nanos,
}

impl Window {
    /// A window of this size; zero means adaptive.
    pub(crate) fn new(size: u32) -> Self {
        let is_adaptive = size == 0;
        let (size, most) = if is_adaptive { (START, MAX) } else { (size, size) };
        Self { size, most, is_adaptive, has_targets: false, done: 0, late: 0, changed_at: Nanos::ZERO }
    }

    pub(crate) const fn size(&self) -> u32 {
        self.size
    }

    /// The largest size that it can have.
    pub(crate) const fn most(&self) -> u32 {
        self.most
    }

    pub(crate) const fn is_adaptive(&self) -> bool {
        self.is_adaptive
    }

    /// Notes that a share has this latency.
    pub(crate) fn aim(&mut self, latency: Nanos) {
        self.has_targets |= latency != Nanos::NEVER;
    }

    /// Records the completion of a request whose tenant has this latency in its share. `waits_for_own` says whether it waited
    /// for others of a tenant that asks for more than its share serves.
    pub(crate) fn completed(&mut self, now: Nanos, submitted: Nanos, waits_for_own: bool, latency: Nanos) {
        if submitted < self.changed_at || waits_for_own || self.has_targets && latency == Nanos::NEVER {
            return;
        }
        self.done += 1;
        self.late += u32::from(now.since(submitted) > latency);
        if self.late > LATE_MAX {
            self.change(now, (self.size / 2).max(1));
        } else if self.done >= INTERVAL {
            self.change(now, (self.size + 1).min(self.most));
        }
    }

    fn change(&mut self, now: Nanos, size: u32) {
        (self.size, self.done, self.late) = (size, 0, 0);
        self.changed_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Nanos = Nanos::from_millis(10);

    /// Completes requests whose latency depends on the size of the window.
    fn run(window: &mut Window, requests: u32, latency: impl Fn(u32) -> Nanos) {
        let mut now = window.changed_at;
        for _ in 0..requests {
            now = now.after(Nanos::from_millis(1));
            window.completed(now.after(latency(window.size)), now, false, TARGET);
            now = now.max(window.changed_at);
        }
    }

    #[test]
    fn window_stays_near_largest_that_meets_latency() {
        let mut window = Window::new(0);
        window.aim(TARGET);
        // A millisecond for each request of the window: ten meet the target, eleven do not.
        let latency = |size| Nanos::from_millis(u64::from(size));
        run(&mut window, 10_000, latency);
        for _ in 0..1_000 {
            run(&mut window, 7, latency);
            assert!((5..=11).contains(&window.size()), "{}", window.size());
        }
    }

    #[test]
    fn its_growth_and_its_fall_are_bounded() {
        let mut window = Window::new(0);
        run(&mut window, 400 * INTERVAL, |_| Nanos::ZERO);
        assert_eq!(window.size(), START + 400);
        run(&mut window, 3 * 9, |_| Nanos::from_seconds(1));
        assert_eq!(window.size(), 1);
        run(&mut window, 2_000 * INTERVAL, |_| TARGET);
        assert_eq!(window.size(), MAX);
    }

    #[test]
    fn waiting_for_own_requests_does_not_count() {
        let mut window = Window::new(0);
        window.aim(TARGET);
        for number in 0..u64::from(2 * INTERVAL) {
            window.completed(Nanos::from_seconds(number + 1), Nanos::from_seconds(number), true, TARGET);
        }
        assert_eq!(window.size(), START);
        let latency = |_| Nanos::from_seconds(1);
        run(&mut window, LATE_MAX + 1, latency);
        assert_eq!(window.size(), START / 2);
    }

    #[test]
    fn client_without_latency_counts_only_without_others() {
        let mut window = Window::new(0);
        for number in 0..u64::from(INTERVAL) {
            window.completed(Nanos(number), Nanos(number), false, Nanos::NEVER);
        }
        assert_eq!(window.size(), START + 1);
        window.aim(TARGET);
        for number in 1_000..9_000 {
            window.completed(Nanos(number), Nanos(number), false, Nanos::NEVER);
        }
        assert_eq!(window.size(), START + 1);
        // A fixed window does not adapt.
        assert_eq!((Window::new(8).size(), Window::new(8).is_adaptive()), (8, false));
    }
}
