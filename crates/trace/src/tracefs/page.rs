//! One page of a processor's buffer: a head, and events with the time since the one before.
//!
//! Every offset is checked against the page. What an event claims costs no memory beyond its own size.

use ioweir_core::{Priority, PriorityClass};

use super::layout::{Field, Kind, Layout};
use crate::reader::events::Action;

/// The bytes of letters and of a command that are kept; both end at the first zero.
const LETTERS_BYTES: usize = 12;
const COMMAND_BYTES: usize = 16;

/// In the head's length: events before this page were dropped, and their number follows the last event.
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const LENGTH_MASK: u64 = (1 << 20) - 1;

/// The kinds of entries that are not data of `4 * kind` bytes.
const LONG: u32 = 0;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// The bits of a time that an entry with an absolute time does not hold.
const TIME_HIGH: u64 = 31 << 59;

/// An event of a wanted kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) time_nanos: u64,
    pub(super) action: Action,
    pub(super) pid: u32,
    pub(super) device: u32,
    pub(super) sector: u64,
    pub(super) sectors: u64,
    pub(super) priority: Priority,
    /// A command of the device's own, which moves no sectors.
    pub(super) is_passed_through: bool,
    letters: [u8; LETTERS_BYTES],
    command: [u8; COMMAND_BYTES],
}

impl Seen {
    pub(super) fn letters(&self) -> &[u8] {
        until_zero(&self.letters)
    }

    pub(super) fn command(&self) -> &[u8] {
        until_zero(&self.command)
    }
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Events that the kernel dropped before a page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Missed {
    pub(super) events: u64,
    pub(super) is_uncounted: bool,
}

/// A page that does not follow the kernel's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset} of a page: {problem}")]
pub struct PageError {
    /// Where.
    pub offset: usize,
    /// The problem in words.
    pub problem: &'static str,
}

/// A little-endian number of up to eight bytes; `None` past the end.
fn number(bytes: &[u8], field: Field) -> Option<u64> {
    let bytes = bytes.get(field.offset..field.offset.checked_add(field.size)?)?;
    Some(bytes.iter().take(8).rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

fn short(bytes: &[u8], field: Field) -> Option<u32> {
    number(bytes, field).and_then(|value| u32::try_from(value).ok())
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    short(bytes, Field { offset, size: 4 })
}

/// Copies the bytes of a field up to the first zero, as many as fit.
fn copied<const N: usize>(bytes: &[u8], field: Field) -> Option<[u8; N]> {
    let from = until_zero(bytes.get(field.offset..field.offset.checked_add(field.size)?)?);
    let mut copy = [0; N];
    for (to, byte) in copy.iter_mut().zip(from) {
        *to = *byte;
    }
    Some(copy)
}

/// The kernel's I/O priority: a class in the upper three bits, a hint, and a level in the lower three. What is no class says
/// nothing.
fn priority(bits: u64) -> Priority {
    let class = PriorityClass::ALL.get((bits >> 13 & 7) as usize);
    class.and_then(|&class| Priority::new(class, (bits & 7) as u8)).unwrap_or(Priority::NONE)
}

impl Kind {
    fn read(&self, event: &[u8], time_nanos: u64) -> Option<Seen> {
        let is_passed_through = self.passed_through.is_some_and(|field| {
            // Offset and length of a text, which is empty for a request of the block layer.
            let place = number(event, field).unwrap_or_default();
            event.get((place & 0xffff) as usize).is_some_and(|&first| first != 0)
        });
        Some(Seen {
            time_nanos,
            action: self.action,
            pid: short(event, self.pid)?,
            device: short(event, self.device)?,
            sector: number(event, self.sector)?,
            sectors: number(event, self.sectors)?,
            priority: self.priority.and_then(|field| number(event, field)).map_or(Priority::NONE, priority),
            is_passed_through,
            letters: copied(event, self.letters)?,
            command: self.command.and_then(|field| copied(event, field)).unwrap_or_default(),
        })
    }
}

impl Layout {
    /// Appends the events of a page.
    pub(super) fn read_page(&self, page: &[u8], out: &mut Vec<Seen>) -> Result<Missed, PageError> {
        let broken = |offset, problem| PageError { offset, problem };
        let head = number(page, self.timestamp).zip(number(page, self.commit));
        let (mut time, commit) = head.ok_or_else(|| broken(0, "it is shorter than its head"))?;
        let end = self.data + (commit & LENGTH_MASK) as usize;
        let rest =
            page.get(self.data..end).ok_or_else(|| broken(self.commit.offset, "it claims more than there is"))?;
        let mut at = 0;
        while let Some(head) = word(rest, at) {
            let (kind, delta) = (head & 31, u64::from(head >> 5));
            let offset = self.data + at;
            let extended = || word(rest, at + 4).ok_or_else(|| broken(offset, "an entry is cut short"));
            let (start, length) = match kind {
                PADDING if delta == 0 => break,
                PADDING => {
                    at += 4 + extended()?.max(4) as usize;
                    continue;
                }
                TIME_EXTEND => {
                    time = time.wrapping_add(u64::from(extended()?) << 27 | delta);
                    at += 8;
                    continue;
                }
                TIME_STAMP => {
                    let stamp = u64::from(extended()?) << 27 | delta;
                    time = time & TIME_HIGH | stamp & !TIME_HIGH;
                    at += 8;
                    continue;
                }
                // The length counts itself.
                LONG => (at + 8, (extended()? as usize).saturating_sub(4)),
                words => (at + 4, words as usize * 4),
            };
            time = time.wrapping_add(delta);
            let event = rest.get(start..start.saturating_add(length));
            let event = event.ok_or_else(|| broken(offset, "an event goes past the end"))?;
            let id = number(event, self.id).ok_or_else(|| broken(offset, "an event has no kind"))?;
            if let Some(kind) = self.kinds.iter().find(|kind| u64::from(kind.id) == id) {
                out.push(kind.read(event, time).ok_or_else(|| broken(offset, "an event is too short"))?);
            }
            at = start + length.next_multiple_of(4);
        }
        let count = (commit & MISSED_STORED != 0).then(|| number(page, Field { offset: end, size: self.commit.size }));
        let counted = count.flatten();
        let is_uncounted = commit & MISSED != 0 && counted.is_none();
        Ok(Missed { events: counted.filter(|_| commit & MISSED != 0).unwrap_or(0), is_uncounted })
    }
}
