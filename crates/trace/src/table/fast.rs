//! The fast path through a line of a table: one pass from the front, before the end of the line is known.
//!
//! It gives up at anything unusual; the careful reader then reads the line, or reports what is wrong with it. Both read the
//! same values.

use ioweir_core::{Flags, Operation};

use super::reader::TableReader;
use super::{Column, Heading, Role, Separator, Value};
use crate::reader::fields::{Span, Unit};
use crate::reader::names::Volumes;
use crate::reader::number::{digits, scan, scan_fixed, word as word_at};
use crate::reader::units::LINE_BYTES_MAX;

/// The parsing of one column: the kind of its value, and the byte that ends it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    kind: Kind,
    end: u8,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A whole number for this role, in a unit of this number of nanoseconds.
    Whole(Role, u64),
    /// A number with this number of decimals; further decimals are an error, or dropped.
    Decimals(Role, usize, bool),
    /// A word of the reader's list.
    Words,
    Letters,
    /// The text of this number of columns; the flag says whether the last of them must be a number.
    Volume(usize, bool),
    Command,
    Text,
}

/// The most combinations of block-layer letters whose meaning is remembered.
const LETTERS_MAX: usize = 16;
/// The longest word that is compared in one step, together with the byte after it.
const WORD_BYTES_MAX: usize = 7;

/// A word for an operation, with the byte that ends its column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    bytes: u64,
    mask: u64,
    length: usize,
    operation: Operation,
    flags: Flags,
}

impl Word {
    /// `None` if the word is empty or too long.
    fn new(word: &[u8], end: u8, operation: Operation, flags: Flags) -> Option<Self> {
        let length = Some(word.len()).filter(|length| (1..=WORD_BYTES_MAX).contains(length))?;
        let bytes = word_at(&[word, &[end]].concat(), 0);
        Some(Self { bytes, mask: u64::MAX >> (56 - 8 * length), length, operation, flags })
    }
}

/// The words for operations; empty if one is too long.
pub(super) fn quick_words(columns: &[Column], separator: Separator) -> Vec<Word> {
    let place = columns.iter().position(|column| column.role == Role::Operation);
    let (Some(place), Separator::Byte(separator)) = (place, separator) else { return Vec::new() };
    let Value::Words(words) = columns[place].value else { return Vec::new() };
    let end = if place + 1 == columns.len() { b'\n' } else { separator };
    let packed = words.iter().map(|(word, operation)| Word::new(word.as_bytes(), end, *operation, Flags::NONE));
    packed.collect::<Option<_>>().unwrap_or_default()
}

impl TableReader {
    /// The steps for this table; empty if it has no fast path.
    pub(super) fn quick_steps(&self) -> Vec<Step> {
        let Separator::Byte(separator) = self.separator else { return Vec::new() };
        let plain = !matches!(self.table.heading, Heading::Names(_));
        let wordless = self.columns.iter().any(|column| {
            column.role == Role::Operation && matches!(column.value, Value::Words(_)) && self.words.is_empty()
        });
        let roles = [Role::Latency, Role::Operation, Role::Time];
        let twice = roles.into_iter().any(|role| self.columns.iter().filter(|column| column.role == role).count() > 1);
        if !plain || wordless || twice || self.has(Role::Completion) || self.has(Role::Stream) || self.has(Role::Event)
        {
            return Vec::new();
        }
        let mut kinds: Vec<Kind> = Vec::new();
        for column in &self.columns {
            match (kind(column), kinds.last_mut()) {
                (Some(Kind::Volume(_, number)), Some(Kind::Volume(count, numbers))) => {
                    *count += 1;
                    *numbers |= number;
                }
                (Some(kind), _) => kinds.push(kind),
                (None, _) => return Vec::new(),
            }
        }
        if kinds.iter().filter(|kind| matches!(kind, Kind::Volume(..))).count() > 1 {
            return Vec::new();
        }
        let ends = std::iter::repeat_n(separator, kinds.len().saturating_sub(1)).chain([b'\n']);
        kinds.into_iter().zip(ends).map(|(kind, end)| Step { kind, end }).collect()
    }

    /// Reads the values of the line at the start of `rest`, if the line is complete and has nothing unusual; returns its length without its
    /// end.
    #[inline]
    pub(super) fn fast(&mut self, rest: &[u8], volumes: &Volumes) -> Option<usize> {
        let Separator::Byte(separator) = self.separator else { return None };
        let values = &mut self.values;
        (values.operation, values.has_latency) = (self.table.operation, self.shape.latency);
        let (mut at, mut found, mut end) = (0, 0, 1);
        for step in &self.steps {
            end = step.end;
            found = match step.kind {
                Kind::Whole(role, unit) => {
                    let (number, found) = scan(rest, &mut at)?;
                    values.numbers[role as usize] = if unit == 1 { number } else { number.checked_mul(unit)? };
                    found
                }
                Kind::Decimals(role, decimals, exact) => {
                    let (number, found) = scan_fixed(rest, &mut at, decimals, exact)?;
                    values.numbers[role as usize] = number;
                    found
                }
                Kind::Words | Kind::Letters => {
                    let head = word_at(rest, at);
                    if let Some(word) = self.words.iter().find(|word| head & word.mask == word.bytes) {
                        (values.operation, values.flags, values.letters) = (Some(word.operation), word.flags, None);
                        at += word.length;
                        end
                    } else if matches!(step.kind, Kind::Letters) {
                        let (span, found) = text(rest, &mut at, separator)?;
                        values.letters = Some(span);
                        found
                    } else {
                        return None;
                    }
                }
                Kind::Command => {
                    let (span, found) = text(rest, &mut at, separator)?;
                    values.command = span;
                    found
                }
                Kind::Text => text(rest, &mut at, separator)?.1,
                Kind::Volume(columns, digits) => {
                    let again = volumes.again(&rest[at..], end);
                    values.known_volume = again.map(|(number, _)| number);
                    if let Some((_, length)) = again {
                        at += length - 1;
                        end
                    } else {
                        let (spans, found) = volume(rest, &mut at, separator, columns, digits)?;
                        values.volume = spans;
                        found
                    }
                }
            };
            if found != end {
                break;
            }
            at += 1;
        }
        let length = if found == end {
            at - 1
        } else if self.table.more_columns && end == b'\n' && found == separator {
            at + memchr::memchr(b'\n', &rest[at..])?
        } else {
            return None;
        };
        if length > LINE_BYTES_MAX {
            return None;
        }
        self.finish(&rest[..length]).ok().map(|()| length)
    }
}

impl TableReader {
    /// Remembers the meaning of letters, so that they are compared as a word from now on. After an `F` in front, the meaning
    /// also depends on the length.
    #[cold]
    pub(super) fn remember(&mut self, letters: &[u8]) {
        let Some(end) = self.steps.iter().find(|step| matches!(step.kind, Kind::Letters)).map(|step| step.end) else {
            return;
        };
        let word = self.values.operation.and_then(|operation| Word::new(letters, end, operation, self.values.flags));
        let Some(word) = word.filter(|_| letters.first() != Some(&b'F') && self.words.len() < LETTERS_MAX) else {
            return;
        };
        if self.words.iter().all(|known| known.bytes != word.bytes) {
            self.words.push(word);
        }
    }
}

/// The text at `at`, which moves to its end, and the separator or line end that follows; `None` if neither does.
#[inline]
fn text(rest: &[u8], at: &mut usize, separator: u8) -> Option<(Span, u8)> {
    let start = *at;
    let (separators, line_ends) = (repeated(separator), repeated(b'\n'));
    while *at < rest.len() {
        let word = word_at(rest, *at);
        let ends = zero_bytes(word ^ separators) | zero_bytes(word ^ line_ends);
        *at += (ends.trailing_zeros() / 8) as usize;
        if ends != 0 {
            let found = *rest.get(*at)?;
            // The first byte of a line end of two bytes is not part of the text.
            return (found != b'\n' || rest[start..*at].last() != Some(&b'\r')).then_some(((start, *at), found));
        }
    }
    None
}

/// A word of eight bytes of this value.
const fn repeated(byte: u8) -> u64 {
    byte as u64 * 0x0101_0101_0101_0101
}

/// Marks the zero bytes of a word; marks above the lowest may be wrong.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080
}

/// The columns of a volume, and what follows. The volume of the previous line is known to be right.
#[inline]
fn volume(rest: &[u8], at: &mut usize, separator: u8, columns: usize, numbers: bool) -> Option<([Span; 2], u8)> {
    let (first, mut found) = text(rest, at, separator)?;
    let (mut last, mut spans) = (first, [first, (0, 0)]);
    if columns == 2 {
        *at += 1;
        (found == separator).then_some(())?;
        (last, found) = text(rest, at, separator)?;
        spans[1] = last;
    }
    let blank = |span: Span| rest[span.0..span.1].iter().any(u8::is_ascii_whitespace);
    let right = if numbers { digits(&rest[last.0..last.1]).is_some() } else { !blank(last) };
    (columns <= 2 && right && !blank(first)).then_some((spans, found))
}

fn kind(column: &Column) -> Option<Kind> {
    let role = column.role;
    match (role, column.value) {
        (Role::Operation, Value::Words(_)) => Some(Kind::Words),
        (Role::Operation, Value::Letters) => Some(Kind::Letters),
        (Role::Volume, Value::Number | Value::Text) => Some(Kind::Volume(1, column.value == Value::Number)),
        (Role::Command, _) => Some(Kind::Command),
        (Role::Ignored, Value::Text) => Some(Kind::Text),
        (Role::Operation | Role::Volume | Role::Stream, _) => None,
        (_, Value::Time(unit)) => Some(Kind::Decimals(role, unit.decimals(), false)),
        (_, Value::Seconds) => Some(Kind::Decimals(role, Unit::Seconds.decimals(), true)),
        (_, Value::Ticks(unit)) => Some(Kind::Whole(role, unit)),
        (_, Value::Size(_) | Value::Number) => Some(Kind::Whole(role, 1)),
        _ => None,
    }
}
