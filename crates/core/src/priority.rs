//! I/O priorities as in Linux: a class, and a level within it.

named! {
    /// The class of a priority, from the most urgent to the least; `None` leaves the choice to the scheduler.
    /// Discriminants are the kernel's, and names those that its trace events print.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum PriorityClass {
        /// The submitter said nothing.
        #[default]
        None = "none",
        /// Served before all others.
        Realtime = "rt",
        /// The usual class.
        BestEffort = "be",
        /// Served only while nothing else wants the device.
        Idle = "idle",
    }
}

/// How urgent a request is, as its submitter says. Requests of different urgency are not merged. A request without a
/// priority counts as [`Priority::USUAL`].
///
/// ```
/// use ioweir_core::{Priority, PriorityClass};
///
/// let usual = Priority::new(PriorityClass::BestEffort, 4).unwrap();
/// assert_eq!((usual.class(), usual.level()), (PriorityClass::BestEffort, 4));
/// assert_eq!(Priority::from_bits(usual.bits()), Some(usual));
/// assert_eq!(Priority::new(PriorityClass::BestEffort, 8), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Priority(u8);

impl Priority {
    /// The submitter said nothing.
    pub const NONE: Self = Self(0);
    /// The priority that the kernel gives to a process which sets none: best effort, level 4.
    pub const USUAL: Self = Self(PriorityClass::BestEffort as u8 * Self::LEVELS + 4);
    /// The number of levels of a class.
    pub const LEVELS: u8 = 8;

    /// A level of a class, 0 being the most urgent; `None` if there is no such level.
    #[must_use]
    pub const fn new(class: PriorityClass, level: u8) -> Option<Self> {
        if level < Self::LEVELS { Some(Self(class as u8 * Self::LEVELS + level)) } else { None }
    }

    /// The class.
    #[must_use]
    pub const fn class(self) -> PriorityClass {
        PriorityClass::ALL[(self.0 / Self::LEVELS) as usize]
    }

    /// The level within the class.
    #[must_use]
    pub const fn level(self) -> u8 {
        self.0 % Self::LEVELS
    }

    /// Class and level as a number, for files: eight times the class, plus the level.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The priority with this number; `None` if there is no such class.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits <= Self::LEVELS * PriorityClass::Idle as u8 + (Self::LEVELS - 1) { Some(Self(bits)) } else { None }
    }

    /// The inverse of [`Self::bits`].
    pub(crate) const fn from_known_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The priority's rank among all priorities.
    pub(crate) fn rank(self) -> Rank {
        RANKS[(self.0 % RANKS.len() as u8) as usize]
    }
}

/// The rank of each priority, by its bits.
static RANKS: [Rank; PriorityClass::ALL.len() * Priority::LEVELS as usize] = {
    let mut ranks = [Rank::USUAL; PriorityClass::ALL.len() * Priority::LEVELS as usize];
    let mut bits = Priority::LEVELS as usize;
    while bits < ranks.len() {
        let rank = bits - Priority::LEVELS as usize;
        ranks[bits] = if rank < Rank::IDLE.0 as usize { Rank(rank as u8) } else { Rank::IDLE };
        bits += 1;
    }
    ranks
};

/// A priority as schedulers use it, counted from the most urgent: eight levels of realtime, eight of best effort, and idle,
/// which has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank(u8);

impl Rank {
    pub(crate) const USUAL: Self = Self(Priority::USUAL.0 - Priority::LEVELS);
    pub(crate) const IDLE: Self = Self(2 * Priority::LEVELS);
    /// The number of ranks, and the number of their classes.
    pub(crate) const COUNT: u32 = Self::IDLE.0 as u32 + 1;
    pub(crate) const CLASSES: usize = 3;

    /// Every rank, by its index.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..=Self::IDLE.0).map(Self)
    }

    pub(crate) const fn index(self) -> u32 {
        self.0 as u32
    }

    /// The class: realtime (0), best effort (1) or idle (2).
    pub(crate) const fn class(self) -> usize {
        (self.0 / Priority::LEVELS) as usize
    }

    /// The level within the class; the idle class has the last.
    pub(crate) const fn level(self) -> u64 {
        if self.is_idle() { Priority::LEVELS as u64 - 1 } else { (self.0 % Priority::LEVELS) as u64 }
    }

    pub(crate) const fn is_realtime(self) -> bool {
        self.class() == 0
    }

    pub(crate) const fn is_idle(self) -> bool {
        self.0 == Self::IDLE.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_priority_ranks_mid_best_effort() {
        let rank = |class, level| Priority::new(class, level).unwrap().rank();
        assert_eq!(Priority::NONE.rank(), rank(PriorityClass::BestEffort, 4));
        assert_eq!(rank(PriorityClass::None, 7), Rank::USUAL);
        assert_eq!((rank(PriorityClass::Idle, 0), rank(PriorityClass::Idle, 7)), (Rank::IDLE, Rank::IDLE));
        let seen = |rank: Rank| (rank.index(), rank.class(), rank.level());
        assert_eq!(seen(rank(PriorityClass::Realtime, 0)), (0, 0, 0));
        assert_eq!(seen(rank(PriorityClass::Realtime, 7)), (7, 0, 7));
        assert_eq!(seen(rank(PriorityClass::BestEffort, 0)), (8, 1, 0));
        assert_eq!(seen(Rank::USUAL), (12, 1, 4));
        assert_eq!(seen(Rank::IDLE), (16, 2, 7));
        assert_eq!(Rank::all().count(), Rank::COUNT as usize);
    }
}
