//! The received bytes of an answer, so that bytes which were not sent do not count as read.

use super::BadAnswer;

/// The most pieces with gaps between them. A server may send pieces in any order, and a sane one has few gaps at once.
const GAPS_MAX: usize = 256;

/// The parts of a range that were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The parts are sorted and neither overlap nor touch, so that nearly all answers have one.
    parts: Vec<(u64, u64)>,
}

impl Coverage {
    /// Adds a part.
    ///
    /// # Errors
    /// If some of it was sent already, or there are too many gaps.
    pub fn add(&mut self, offset: u64, length: u64) -> Result<(), BadAnswer> {
        let end = offset.saturating_add(length);
        let at = self.parts.partition_point(|(_, its_end)| *its_end < offset);
        let touches = self.parts.get(at).is_some_and(|(start, _)| *start <= end);
        if !touches {
            self.parts.insert(at, (offset, end));
            return if self.parts.len() > GAPS_MAX { Err(BadAnswer("data in too many pieces")) } else { Ok(()) };
        }
        let (start, its_end) = self.parts[at];
        let next = self.parts.get(at + 1).copied();
        if (start < end && offset < its_end) || next.is_some_and(|(start, _)| start < end) {
            return Err(BadAnswer("the same data twice"));
        }
        self.parts[at] = (start.min(offset), its_end.max(end));
        if let Some((next, next_end)) = next.filter(|(next, _)| *next == self.parts[at].1) {
            debug_assert!(next <= next_end, "parts are sorted");
            self.parts[at].1 = next_end;
            self.parts.remove(at + 1);
        }
        Ok(())
    }

    /// Whether all of a range was sent.
    #[must_use]
    pub fn is_all(&self, offset: u64, length: u64) -> bool {
        length == 0 || self.parts == [(offset, offset.saturating_add(length))]
    }

    /// Forgets everything, for another answer.
    pub fn clear(&mut self) {
        self.parts.clear();
    }
}
