//! The quick way through a line of a table: one pass from the front, without cutting it first.
//!
//! It gives up at anything unusual, and the careful way then reads the line or says what is wrong with it. What it reads
//! is what the careful way reads.

use ioweir_core::Operation;

use super::reader::TableReader;
use super::{Column, Heading, Role, Separator, Value};
use crate::reader::fields::{Span, Unit};
use crate::reader::names::Volumes;
use crate::reader::number::{digits, scan, scan_fixed, word as word_at};

/// What is read of a line from one separator to the next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
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

/// A word of at most eight bytes, compared in one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    bytes: u64,
    mask: u64,
    length: usize,
    operation: Operation,
}

/// The words of the operation; none where one is too long.
pub(super) fn quick_words(columns: &[Column]) -> Vec<Word> {
    let operation = columns.iter().find(|column| column.role == Role::Operation);
    let Some(Value::Words(words)) = operation.map(|column| column.value) else { return Vec::new() };
    if words.iter().any(|(word, _)| !(1..=8).contains(&word.len())) {
        return Vec::new();
    }
    let packed = words.iter().map(|(word, operation)| {
        let mask = u64::MAX >> (64 - 8 * word.len());
        Word { bytes: word_at(word.as_bytes(), 0), mask, length: word.len(), operation: *operation }
    });
    packed.collect()
}

impl TableReader {
    /// The steps of this table; none where it has no quick way.
    pub(super) fn quick_steps(&self) -> Vec<Step> {
        let plain = matches!(self.separator, Separator::Byte(_)) && !matches!(self.table.heading, Heading::Names(_));
        let wordless = self.columns.iter().any(|column| {
            column.role == Role::Operation && matches!(column.value, Value::Words(_)) && self.words.is_empty()
        });
        let roles = [Role::Latency, Role::Operation];
        let twice = roles.into_iter().any(|role| self.columns.iter().filter(|column| column.role == role).count() > 1);
        if !plain || wordless || twice || self.has(Role::Completion) || self.has(Role::Stream) {
            return Vec::new();
        }
        let mut steps: Vec<Step> = Vec::new();
        for column in &self.columns {
            match (step(column), steps.last_mut()) {
                (Some(Step::Volume(_, number)), Some(Step::Volume(count, numbers))) => {
                    *count += 1;
                    *numbers |= number;
                }
                (Some(step), _) => steps.push(step),
                (None, _) => return Vec::new(),
            }
        }
        let volumes = steps.iter().filter(|step| matches!(step, Step::Volume(..))).count();
        if volumes > 1 { Vec::new() } else { steps }
    }

    /// Reads the values of a line without surprises.
    #[inline]
    pub(super) fn fast(&mut self, line: &[u8], volumes: &Volumes) -> Option<()> {
        let Separator::Byte(separator) = self.separator else { return None };
        let last = self.steps.len().checked_sub(1)?;
        let values = &mut self.values;
        (values.operation, values.has_latency) = (self.table.operation, self.shape.latency);
        let mut at = 0;
        for (number, step) in self.steps.iter().enumerate() {
            match *step {
                Step::Whole(role, unit) => {
                    let scanned = scan(line, &mut at)?;
                    values.numbers[role as usize] = if unit == 1 { scanned } else { scanned.checked_mul(unit)? };
                }
                Step::Decimals(role, decimals, exact) => {
                    values.numbers[role as usize] = scan_fixed(line, &mut at, decimals, exact)?;
                }
                Step::Words => {
                    let head = word_at(line, at);
                    let ends = |length: usize| line.get(at + length).is_none_or(|byte| *byte == separator);
                    let found = self.words.iter().find(|word| head & word.mask == word.bytes && ends(word.length))?;
                    values.operation = Some(found.operation);
                    at += found.length;
                }
                Step::Letters => {
                    values.letters = span(line, at, separator);
                    at = values.letters.1;
                }
                Step::Volume(columns, digits) => {
                    let again = volumes.again(&line[at..], separator);
                    values.known_volume = again.map(|(number, _)| number);
                    at = match again {
                        Some((_, length)) => at + length - 1,
                        None => {
                            values.volume = volume(line, at, separator, columns, digits)?;
                            values.volume[1].1.max(values.volume[0].1)
                        }
                    };
                }
                Step::Command => {
                    values.command = span(line, at, separator);
                    at = values.command.1;
                }
                Step::Text => at = span(line, at, separator).1,
            }
            match line.get(at) {
                Some(&byte) if byte == separator => at += 1,
                None if number == last => return self.finish(line).ok(),
                _ => return None,
            }
        }
        if self.table.more_columns { self.finish(line).ok() } else { None }
    }
}

/// The columns of a volume. That of the line before is known to be right.
#[inline]
fn volume(line: &[u8], at: usize, separator: u8, columns: usize, numbers: bool) -> Option<[Span; 2]> {
    let first = span(line, at, separator);
    let spans =
        if columns == 2 { [first, span(line, (first.1 + 1).min(line.len()), separator)] } else { [first, (0, 0)] };
    let last = if columns == 2 { spans[1] } else { first };
    let blank = |byte: &u8| byte.is_ascii_whitespace();
    let text = &line[last.0..last.1];
    let checked = if numbers { digits(text).is_some() } else { !text.iter().any(blank) };
    let edges = !line[first.0..first.1].iter().any(blank);
    (columns <= 2 && checked && edges).then_some(spans)
}

/// From `at` to the separator.
#[inline]
fn span(line: &[u8], at: usize, separator: u8) -> Span {
    let rest = &line[at..];
    (at, at + rest.iter().position(|&byte| byte == separator).unwrap_or(rest.len()))
}

fn step(column: &Column) -> Option<Step> {
    let role = column.role;
    match (role, column.value) {
        (Role::Operation, Value::Words(_)) => Some(Step::Words),
        (Role::Operation, Value::Letters) => Some(Step::Letters),
        (Role::Volume, Value::Number | Value::Text) => Some(Step::Volume(1, column.value == Value::Number)),
        (Role::Command, _) => Some(Step::Command),
        (Role::Ignored, Value::Text) => Some(Step::Text),
        (Role::Operation | Role::Volume | Role::Stream, _) => None,
        (_, Value::Time(unit)) => Some(Step::Decimals(role, unit.decimals(), false)),
        (_, Value::Seconds) => Some(Step::Decimals(role, Unit::Seconds.decimals(), true)),
        (_, Value::Ticks(unit)) => Some(Step::Whole(role, unit)),
        (_, Value::Size(_) | Value::Number) => Some(Step::Whole(role, 1)),
        _ => None,
    }
}
