//! The quick way through a line of a table: one pass from the front, without cutting it first.
//!
//! It gives up at anything unusual, and the careful way then reads the line or says what is wrong with it. What it reads
//! is what the careful way reads.

use ioweir_core::Operation;

use super::reader::{TableReader, Values};
use super::{Column, Heading, Role, Separator, Value};
use crate::reader::fields::{Span, Unit};
use crate::reader::names::Volumes;
use crate::reader::number::{digits, scan, scan_fixed};
use crate::reader::rwbs;

/// What is read of a line from one separator to the next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// A whole number in a unit of this many nanoseconds or bytes.
    Whole(Target, u64),
    /// A number with decimals, of which this many count; more are an error, or dropped.
    Decimals(Target, usize, bool),
    /// One of the words of the reader.
    Words,
    Letters,
    /// The text of this many columns, which must be numbers where they say so.
    Volume(usize, bool),
    Command,
    Text(usize),
}

/// Where a number goes: a place in the numbers of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Time,
    Gap,
    Latency,
    Offset,
    Length,
    Moved,
    Pid,
    Nowhere,
}

/// Numbers of one line, by their targets.
type Numbers = [u64; Target::Nowhere as usize + 1];

/// A word of at most eight bytes, compared in one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    bytes: u64,
    mask: u64,
    length: usize,
    operation: Operation,
}

/// The first eight bytes, or as many as there are.
#[inline]
fn first_bytes(text: &[u8]) -> u64 {
    match text.first_chunk() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => text.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
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
        Word { bytes: first_bytes(word.as_bytes()), mask, length: word.len(), operation: *operation }
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

    /// The values of a line without surprises.
    #[inline]
    pub(super) fn fast(&self, line: &[u8], volumes: &Volumes) -> Option<Values> {
        let Separator::Byte(separator) = self.separator else { return None };
        let last = self.steps.len().checked_sub(1)?;
        let mut values = Values { operation: self.table.operation, ..Values::default() };
        let mut numbers: Numbers = [0; _];
        let mut letters = (0, 0);
        let mut at = 0;
        for (number, step) in self.steps.iter().enumerate() {
            match *step {
                Step::Whole(target, unit) => {
                    numbers[target as usize] = scan(line, &mut at)?.checked_mul(unit)?;
                }
                Step::Decimals(target, decimals, exact) => {
                    numbers[target as usize] = scan_fixed(line, &mut at, decimals, exact)?;
                }
                Step::Words => {
                    let rest = &line[at..];
                    let head = first_bytes(rest);
                    let ends = |length: usize| rest.get(length).is_none_or(|byte| *byte == separator);
                    let found = self.words.iter().find(|word| head & word.mask == word.bytes && ends(word.length))?;
                    values.operation = Some(found.operation);
                    at += found.length;
                }
                Step::Letters => {
                    letters = span(line, at, separator);
                    at = letters.1;
                }
                Step::Volume(columns, digits) => {
                    if let Some((number, length)) = volumes.again(&line[at..], separator) {
                        values.known_volume = Some(number);
                        at += length - 1;
                    } else {
                        values.volume = self.volume(line, at, separator, columns, digits)?;
                        at = values.volume[1].1.max(values.volume[0].1);
                    }
                }
                Step::Command => {
                    values.command = span(line, at, separator);
                    at = values.command.1;
                }
                Step::Text(columns) => {
                    for _ in 0..columns {
                        at = span(line, at, separator).1;
                    }
                }
            }
            if at == line.len() {
                return if number == last { self.quick_finish(line, letters, &numbers, values) } else { None };
            }
            if line[at] != separator {
                return None;
            }
            at += 1;
        }
        if self.table.more_columns { self.quick_finish(line, letters, &numbers, values) } else { None }
    }

    #[inline]
    fn quick_finish(&self, line: &[u8], letters: Span, numbers: &Numbers, mut values: Values) -> Option<Values> {
        let number = |target: Target| numbers[target as usize];
        (values.time, values.gap) = (number(Target::Time), number(Target::Gap));
        (values.offset, values.length) = (number(Target::Offset), number(Target::Length));
        values.pid = u32::try_from(number(Target::Pid)).ok()?;
        values.moved = number(Target::Moved);
        values.latency = self.shape.latency.then_some(number(Target::Latency));
        if letters.1 > 0 {
            let meaning = rwbs::parse(&line[letters.0..letters.1], values.length).ok()?;
            values.operation = Some(meaning.operation?);
            values.flags = meaning.flags;
        }
        if self.shape.moved && values.moved != values.length {
            return None;
        }
        values.offset.checked_add(values.length)?;
        if values.operation == Some(Operation::Flush) {
            (values.offset, values.length) = (0, 0);
        }
        Some(values)
    }

    /// The columns of a volume. That of the line before is known to be right.
    #[inline]
    fn volume(&self, line: &[u8], at: usize, separator: u8, columns: usize, numbers: bool) -> Option<[Span; 2]> {
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
}

/// From `at` to the separator.
#[inline]
fn span(line: &[u8], at: usize, separator: u8) -> Span {
    let rest = &line[at..];
    (at, at + rest.iter().position(|&byte| byte == separator).unwrap_or(rest.len()))
}

fn step(column: &Column) -> Option<Step> {
    let target = match column.role {
        Role::Time => Target::Time,
        Role::Gap => Target::Gap,
        Role::Latency => Target::Latency,
        Role::Offset => Target::Offset,
        Role::Length => Target::Length,
        Role::Moved => Target::Moved,
        Role::Pid => Target::Pid,
        Role::Ignored => Target::Nowhere,
        Role::Operation => {
            return match column.value {
                Value::Words(_) => Some(Step::Words),
                Value::Letters => Some(Step::Letters),
                _ => None,
            };
        }
        Role::Volume => {
            let number = matches!(column.value, Value::Number);
            return matches!(column.value, Value::Number | Value::Text).then_some(Step::Volume(1, number));
        }
        Role::Command => return Some(Step::Command),
        Role::Completion | Role::Stream => return None,
    };
    match column.value {
        Value::Time(unit) => Some(Step::Decimals(target, unit.decimals(), false)),
        Value::Seconds => Some(Step::Decimals(target, Unit::Seconds.decimals(), true)),
        Value::Ticks(unit) | Value::Size(unit) => Some(Step::Whole(target, unit)),
        Value::Number => Some(Step::Whole(target, 1)),
        Value::Text if target == Target::Nowhere => Some(Step::Text(1)),
        _ => None,
    }
}
