//! A leg: one of the devices of a mirror, its state, and what is read from it and written to it while nothing else is.

use super::super::parts::{BLOCK_BYTES, perform_alone};
use super::super::{Action, Backend, Io, Outcome};
use super::head::{Head, Layout};
use super::marks::Marks;
use crate::buffer::{Buffer, Buffers};
use crate::nbd::protocol::STATE_ZERO;

/// The state of a leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegState {
    /// It has everything.
    InSync,
    /// It gets what is written, and what it lacks is being copied to it.
    Behind,
    /// It could not be opened, or has failed; and why.
    Out(String),
}

impl LegState {
    /// The word for it, in the state and in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::InSync => "in_sync",
            Self::Behind => "behind",
            Self::Out(_) => "out",
        }
    }
}

/// A leg.
pub(super) struct Leg {
    /// `None` if it could not be opened.
    pub(super) backend: Option<Box<dyn Backend>>,
    pub(super) state: LegState,
    pub(super) in_flight: u32,
}

impl Leg {
    pub(super) fn is_out(&self) -> bool {
        matches!(self.state, LegState::Out(_))
    }
}

fn perform(backend: &mut dyn Backend, io: Io) -> Result<(Outcome, Buffers), String> {
    let done = perform_alone(backend, io).map_err(|error| format!("cannot be used: {error}"))?;
    done.result.map(|outcome| (outcome, done.buffers)).map_err(|error| format!("cannot be used: {error:?}"))
}

fn read(backend: &mut dyn Backend, offset: u64) -> Result<Buffer, String> {
    let empty = || Buffer::with_capacity(BLOCK_BYTES as usize);
    let buffers = Buffers::One(empty());
    let io = Io { action: Action::Read, offset, length: BLOCK_BYTES, buffers, ..Io::without_data(0) };
    match perform(backend, io)? {
        (Outcome::Plain, Buffers::One(buffer)) => Ok(buffer),
        _ => Ok(empty()),
    }
}

/// Writes a block durably.
pub(super) fn write(backend: &mut dyn Backend, offset: u64, fill: impl FnOnce(&mut [u8])) -> Result<(), String> {
    let mut buffer = Buffer::with_capacity(BLOCK_BYTES as usize);
    fill(buffer.bytes_mut());
    let (length, buffers) = (BLOCK_BYTES, Buffers::One(buffer));
    let io = Io { action: Action::Write, offset, length, durable: true, buffers, ..Io::without_data(0) };
    perform(backend, io).map(drop)
}

/// The first block of a leg.
pub(super) fn first_block(backend: &mut dyn Backend) -> Result<Buffer, String> {
    if backend.size_bytes() < BLOCK_BYTES { Err("too small".into()) } else { read(backend, 0) }
}

/// Adds the marks that a leg has.
pub(super) fn add_marks(backend: &mut dyn Backend, marks: &mut Marks, layout: Layout) -> Result<(), String> {
    for page in 0..layout.pages() {
        marks.add_page(page, read(backend, Layout::page_at(page))?.bytes());
    }
    Ok(())
}

/// Makes an empty leg one that has nothing: every region is marked before it has a head.
pub(super) fn format(backend: &mut dyn Backend, head: &Head) -> Result<(), String> {
    for page in 0..head.layout.pages() {
        write(backend, Layout::page_at(page), |bytes| bytes.fill(0xff))?;
    }
    write(backend, 0, |bytes| head.encode(bytes))
}

/// Whether all of a leg's data reads as zeroes, as far as it says so without being read.
pub(super) fn is_zero(backend: &mut dyn Backend, layout: Layout) -> Result<bool, String> {
    let (mut at, end) = (layout.data_at(), layout.leg_bytes());
    while at < end {
        let io = Io { action: Action::Extents, offset: at, length: end - at, ..Io::without_data(0) };
        let (Outcome::Extents(extents), _) = perform(backend, io)? else { return Ok(false) };
        for extent in extents {
            if extent.state & STATE_ZERO == 0 {
                return Ok(false);
            }
            at += extent.length;
        }
    }
    Ok(true)
}
