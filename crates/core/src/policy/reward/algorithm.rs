//! Algorithm 1 of the paper: a tag for each client, which each completion moves by the client's mean response time over its
//! weight.
//!
//! The tags are the starts of a [`Fair`]. Its clock is the paper's time t, at which `AdjustTags` puts the smallest tag.
//! Instead of moving all tags at each completion, the clock moves to the smallest tag, which is the same for their
//! differences. Tags are virtual times at weight 1, which nanoseconds are converted to.

use super::means::NANOS_MAX;
use super::{Client, pay};
use crate::Nanos;
use crate::structure::earlier;
use crate::tenant::Fair;

/// The most that a pause between two completions moves the clock; no tag can be this far ahead.
const PAUSE_MAX: Nanos = Nanos(NANOS_MAX);

#[derive(Clone, Debug)]
pub(super) struct Algorithm {
    /// Clients with requests in flight and none queued: they are not ranked, but their tags count in `AdjustTags`.
    served_only: Fair,
    /// The time of the last `AdjustTags`, and the smallest tag, which it put there.
    at: Nanos,
    tag: u64,
}

impl Algorithm {
    pub(super) fn new(nodes: u32) -> Self {
        Self { served_only: Fair::new(nodes), at: Nanos::ZERO, tag: 0 }
    }

    /// `RequestArrival` of a client without queued requests. One without requests in flight gets the tag max(sTag, t).
    pub(super) fn request_arrival(&mut self, tags: &mut Fair, now: Nanos, node: u32, client: Client) {
        if client.in_flight > 0 {
            self.served_only.deactivate(node);
            return;
        }
        if tags.first().is_none() && self.served_only.first().is_none() {
            self.pass_idle_time(now);
            self.move_clocks(tags);
        }
        tags.resume_at(node, self.tag);
    }

    /// Moves t by the time in which nobody had requests. While somebody has, only completions move it: the time since the
    /// last one also grows with the delay until completions are seen, which a client that comes then is not to pay for.
    fn pass_idle_time(&mut self, now: Nanos) {
        self.tag = self.tag.wrapping_add(Fair::nanos(now.since(self.at).min(PAUSE_MAX).0));
        self.at = now;
    }

    /// `RequestCompletion`, after the client's mean response time is updated: `charge` is that mean.
    #[inline(always)]
    pub(super) fn request_completion(&mut self, tags: &mut Fair, now: Nanos, node: u32, client: Client, charge: u64) {
        let tag = pay(tags, node, charge, client.is_reserved);
        if client.is_active {
            tags.rank_at(node, tag);
        } else if client.in_flight > 0 {
            self.served_only.rank_late(node, tag);
        } else {
            self.served_only.deactivate(node);
        }
        self.adjust_tags(tags, now, tag);
    }

    /// `AdjustTags`: the smallest tag becomes that of this time. It runs before clients without requests are removed, so that
    /// the tag of the client that is served last counts, whether it has more requests or not.
    #[inline(always)]
    fn adjust_tags(&mut self, tags: &mut Fair, now: Nanos, served_last: u64) {
        let others = [tags.first(), self.served_only.first()].into_iter().flatten();
        self.tag = others.map(|node| tags.start(node)).fold(served_last, earlier);
        self.at = now;
        self.move_clocks(tags);
    }

    #[inline(always)]
    fn move_clocks(&mut self, tags: &mut Fair) {
        self.served_only.advance(self.tag);
        tags.advance(self.tag);
        self.served_only.rebase();
        tags.rebase();
    }

    /// A client has no queued requests any more, or its tag has moved while it had none.
    pub(super) fn is_served_only(&mut self, tags: &Fair, node: u32, client: Client) {
        if client.in_flight > 0 && !client.is_active {
            self.served_only.rank_late(node, tags.start(node));
        }
    }

    /// A request was taken back from the device.
    pub(super) fn refund(&mut self, node: u32, client: Client) {
        if client.in_flight == 0 && !client.is_active {
            self.served_only.deactivate(node);
        }
    }
}
