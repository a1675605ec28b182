//! A server's parts from round to round, and whether it is in touch with the other servers of its fleet.

use crate::Nanos;

/// A member's part of a whole in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    round: u64,
    /// The part that the newest round gives to the member.
    given: u64,
    /// The part that the member uses, at most the part that the round before gave.
    used: u64,
}

impl Part {
    /// The part of a member in its first round.
    #[must_use]
    pub const fn first(round: u64, given: u64) -> Self {
        Self { round, given, used: given }
    }

    /// The part, of which no more than this is used until the next round.
    #[must_use]
    pub const fn at_most(self, most: u64) -> Self {
        Self { used: if self.used < most { self.used } else { most }, ..self }
    }

    /// The part that the member uses now.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// The part in a later round; an earlier one, or the same, changes nothing.
    #[must_use]
    pub const fn next(self, round: u64, given: u64) -> Self {
        if round <= self.round {
            return self;
        }
        let used = if given < self.given { given } else { self.given };
        Self { round, given, used }
    }
}

named! {
    /// Whether a server is in touch with the others.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Sight {
        /// The server has heard of the others a moment ago.
        Seeing = "seeing",
        /// The server does not hear of the others, and keeps its parts until its lease ends.
        Keeping = "keeping",
        /// The server has heard nothing for a lease, or never has: its configuration applies.
        Alone = "alone",
    }
}

/// The times at which a server last heard of the others, by its own clock: the clocks of others do not count.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// How long silence counts as a late answer.
    late: Nanos,
    lease: Nanos,
    heard: Option<Nanos>,
    renewed: Option<Nanos>,
}

impl Standing {
    /// A server that has heard nothing yet. Others count on it for a lease after each renewal; it is late after `late`.
    #[must_use]
    pub const fn new(late: Nanos, lease: Nanos) -> Self {
        Self { late, lease, heard: None, renewed: None }
    }

    /// Records that a message sent at this time has been answered.
    pub fn heard(&mut self, sent: Nanos) {
        self.heard = self.heard.max(Some(sent));
    }

    /// The renewal of the lease that was sent at this time has been answered: others count on it for a lease from no earlier
    /// than that.
    pub fn renewed(&mut self, sent: Nanos) {
        self.renewed = self.renewed.max(Some(sent));
    }

    /// Records that the lease was lost before its time.
    pub fn lost(&mut self) {
        self.renewed = None;
    }

    /// Whether the server is in touch with the others now.
    #[must_use]
    pub fn sight(&self, now: Nanos) -> Sight {
        let since = |then: Option<Nanos>| then.map_or(Nanos::NEVER, |then| Nanos(now.0.saturating_sub(then.0)));
        match (since(self.renewed) < self.lease, since(self.heard) <= self.late) {
            (false, _) => Sight::Alone,
            (true, true) => Sight::Seeing,
            (true, false) => Sight::Keeping,
        }
    }
}
