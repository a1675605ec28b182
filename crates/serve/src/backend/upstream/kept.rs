//! Changes that an upstream has answered and may still lose. They are kept until a flush covers them, and repeated if the upstream dies
//! before. Where changes overlap, only the last is kept, so that they can be repeated in any order.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The memory that a part takes besides its data.
const PART_BYTES: u64 = 128;

/// A change to a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A write of these bytes.
    Data(Arc<[u8]>),
    /// Zeroes, and whether the space stays allocated.
    Zero(bool),
    /// A discard.
    Trim,
}

#[derive(Clone, Debug)]
struct Part {
    end: u64,
    /// The number of the change, in the order of answers.
    sequence: u64,
    change: Change,
}

impl Part {
    /// A piece of the part, which itself begins at `own`.
    fn piece(&self, own: u64, start: u64, end: u64) -> Self {
        let change = match &self.change {
            Change::Data(bytes) => Change::Data(bytes[(start - own) as usize..(end - own) as usize].into()),
            other => other.clone(),
        };
        Self { end, change, ..*self }
    }

    fn bytes(&self) -> u64 {
        PART_BYTES + if let Change::Data(bytes) = &self.change { bytes.len() as u64 } else { 0 }
    }
}

/// The changes that are not durable, none of which overlap.
#[derive(Debug, Default)]
pub(super) struct Kept {
    parts: BTreeMap<u64, Part>,
    bytes: u64,
}

impl Kept {
    /// The memory that the kept changes take.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    fn insert(&mut self, start: u64, part: Part) {
        self.bytes += part.bytes();
        self.parts.insert(start, part);
    }

    /// Forgets the changes of a range.
    pub(super) fn cut(&mut self, offset: u64, length: u64) {
        let end = offset + length;
        let from = self.parts.range(..offset).next_back().filter(|(_, part)| part.end > offset);
        let from = from.map_or(offset, |(start, _)| *start);
        let hit: Vec<u64> = self.parts.range(from..end).map(|(start, _)| *start).collect();
        for start in hit {
            let Some(part) = self.parts.remove(&start) else { continue };
            self.bytes -= part.bytes();
            if start < offset {
                self.insert(start, part.piece(start, start, offset));
            }
            if part.end > end {
                self.insert(end, part.piece(start, end, part.end));
            }
        }
    }

    /// Keeps a change that was answered.
    pub(super) fn put(&mut self, sequence: u64, offset: u64, length: u64, change: Change) {
        if length > 0 {
            self.cut(offset, length);
            self.insert(offset, Part { end: offset + length, sequence, change });
        }
    }

    /// Forgets the changes up to this number, which are durable.
    pub(super) fn covered(&mut self, upto: u64) {
        self.parts.retain(|_, part| part.sequence > upto);
        self.bytes = self.parts.values().map(Part::bytes).sum();
    }

    /// Gives a part that was repeated the number of its new answer.
    pub(super) fn renew(&mut self, start: u64, sequence: u64) {
        if let Some(part) = self.parts.get_mut(&start) {
            part.sequence = sequence;
        }
    }

    /// All kept changes, with offset and length.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u64, Change)> {
        self.parts.iter().map(|(start, part)| (*start, part.end - start, part.change.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A range of 64 bytes after all kept changes have been made to it.
    fn replayed(kept: &Kept) -> Vec<u8> {
        let mut bytes = vec![9; 64];
        for (offset, length, change) in kept.all() {
            let range = offset as usize..(offset + length) as usize;
            match change {
                Change::Data(data) => bytes[range].copy_from_slice(&data),
                Change::Zero(_) | Change::Trim => bytes[range].fill(0),
            }
        }
        bytes
    }

    #[test]
    fn repetition_restores_the_last_writes_not_yet_durable() {
        let (mut kept, mut bytes) = (Kept::default(), vec![9; 64]);
        let mut random = 7_u64;
        for sequence in 1..200 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let offset = (random >> 33) % 60;
            let length = 1 + (random >> 43) % (64 - offset);
            let range = offset as usize..(offset + length) as usize;
            match (random >> 60) % 3 {
                0 => {
                    kept.put(sequence, offset, length, Change::Zero(false));
                    bytes[range].fill(0);
                }
                1 if sequence % 7 == 0 => {
                    // A durable write here: repeating the earlier change would destroy it.
                    kept.cut(offset, length);
                    bytes[range].fill(9);
                }
                _ => {
                    let data = vec![sequence as u8; length as usize];
                    bytes[range].copy_from_slice(&data);
                    kept.put(sequence, offset, length, Change::Data(data.into()));
                }
            }
            assert_eq!(replayed(&kept), bytes, "after change {sequence}");
            assert_eq!(kept.bytes(), kept.parts.values().map(Part::bytes).sum::<u64>());
        }
        kept.covered(198);
        assert!(kept.all().count() <= 1, "one change is not durable");
        kept.covered(199);
        assert!(kept.is_empty() && kept.bytes() == 0);
    }
}
