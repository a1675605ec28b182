//! I/O priorities as Linux has them: a class, and a level within it.

/// The class of a priority, from the most urgent to the least; `None` leaves it to the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PriorityClass {
    /// The submitter said nothing.
    #[default]
    None,
    /// Before all others.
    Realtime,
    /// The usual.
    BestEffort,
    /// Only while nothing else wants the device.
    Idle,
}

impl PriorityClass {
    /// Every class, in the order of the discriminants, which are the kernel's.
    pub const ALL: [Self; 4] = [Self::None, Self::Realtime, Self::BestEffort, Self::Idle];

    /// The name that the kernel's trace events print.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Realtime => "rt",
            Self::BestEffort => "be",
            Self::Idle => "idle",
        }
    }
}

/// How urgent a request is, as its submitter says.
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
    /// How many levels a class has.
    pub const LEVELS: u8 = 8;

    /// A level of a class, 0 being the most urgent; `None` where there is no such level.
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

    /// Class and level as a number, for files: eight times the class, and the level.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The priority of such a number; `None` where there is no such class.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits <= Self::LEVELS * PriorityClass::Idle as u8 + (Self::LEVELS - 1) { Some(Self(bits)) } else { None }
    }
}
