//! The kinds of block-layer events, one of which becomes a record.

/// The event of a block-layer trace that becomes a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// `Q`: what was asked, before merging and splitting.
    #[default]
    Queue,
    /// `I`: what was put into the scheduler, after merging and splitting. Not every request passes through it.
    Insert,
    /// `D`: what was sent to the device, in the order the traced scheduler chose.
    Issue,
}

impl Event {
    /// Every kind, in the order of a request's life.
    pub const ALL: [Self; 3] = [Self::Queue, Self::Insert, Self::Issue];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Insert => "insert",
            Self::Issue => "issue",
        }
    }
}
