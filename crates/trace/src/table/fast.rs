//! The quick way through a line of a table: one pass from the front, before its end is known.
//!
//! It gives up at anything unusual, and the careful way then reads the line or says what is wrong with it. What it reads
//! is what the careful way reads.

use ioweir_core::Operation;

use super::reader::TableReader;
use super::{Column, Heading, Role, Separator, Value};
use crate::reader::fields::{Span, Unit};
use crate::reader::names::Volumes;
use crate::reader::number::{digits, scan, scan_fixed, word as word_at};
use crate::reader::units::LINE_BYTES_MAX;

/// What is read of a line from one separator to the next, and the byte that ends it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    kind: Kind,
    end: u8,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A whole number for this role, in a unit of this many nanoseconds.
    Whole(Role, u64),
    /// A number with decimals, of which this many count; more are an error, or dropped.
    Decimals(Role, usize, bool),
    /// One of the words of the reader.
    Words,
    Letters,
    /// The text of this many columns, the last of which must be a number where it says so.
    Volume(usize, bool),
    Command,
    Text,
}

/// The longest word that is compared in one step, with the byte after it.
const WORD_BYTES_MAX: usize = 7;

/// A word of the operation with the byte that ends its column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    bytes: u64,
    mask: u64,
    length: usize,
    operation: Operation,
}

/// The words of the operation; none where one is too long.
pub(super) fn quick_words(columns: &[Column], separator: Separator) -> Vec<Word> {
    let place = columns.iter().position(|column| column.role == Role::Operation);
    let (Some(place), Separator::Byte(separator)) = (place, separator) else { return Vec::new() };
    let Value::Words(words) = columns[place].value else { return Vec::new() };
    if words.iter().any(|(word, _)| word.is_empty() || word.len() > WORD_BYTES_MAX) {
        return Vec::new();
    }
    let end = if place + 1 == columns.len() { b'\n' } else { separator };
    let packed = words.iter().map(|(word, operation)| {
        let bytes = word_at(&[word.as_bytes(), &[end]].concat(), 0);
        Word { bytes, mask: u64::MAX >> (56 - 8 * word.len()), length: word.len(), operation: *operation }
    });
    packed.collect()
}

impl TableReader {
    /// The steps of this table; none where it has no quick way.
    pub(super) fn quick_steps(&self) -> Vec<Step> {
        let Separator::Byte(separator) = self.separator else { return Vec::new() };
        let plain = !matches!(self.table.heading, Heading::Names(_));
        let wordless = self.columns.iter().any(|column| {
            column.role == Role::Operation && matches!(column.value, Value::Words(_)) && self.words.is_empty()
        });
        let roles = [Role::Latency, Role::Operation];
        let twice = roles.into_iter().any(|role| self.columns.iter().filter(|column| column.role == role).count() > 1);
        if !plain || wordless || twice || self.has(Role::Completion) || self.has(Role::Stream) {
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

    /// Reads the values of the line at the start of `rest`, where it is whole and without surprises; returns its length
    /// without its end.
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
                Kind::Words => {
                    let head = word_at(rest, at);
                    let word = self.words.iter().find(|word| head & word.mask == word.bytes)?;
                    values.operation = Some(word.operation);
                    at += word.length;
                    end
                }
                Kind::Letters | Kind::Command | Kind::Text => {
                    let (span, found) = text(rest, &mut at, separator)?;
                    match step.kind {
                        Kind::Letters => values.letters = span,
                        Kind::Command => values.command = span,
                        _ => {}
                    }
                    found
                }
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

/// The text at `at`, which moves to its end, and the separator or end of line that follows; `None` where none does.
#[inline]
fn text(rest: &[u8], at: &mut usize, separator: u8) -> Option<(Span, u8)> {
    let start = *at;
    let length = rest.get(start..)?.iter().position(|&byte| byte == separator || byte == b'\n')?;
    *at += length;
    let found = rest[*at];
    // What is before an end of line of two bytes is not part of the text.
    (found != b'\n' || rest[start..*at].last() != Some(&b'\r')).then_some(((start, *at), found))
}

/// The columns of a volume, and what follows. That of the line before is known to be right.
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
