//! The binding of tiers to their map, by an identity and a count of how often the map was opened. A map or tier from an older backup is not
//! taken for the newest one, and a slow tier is not taken for a whole device.
//!
//! A fast tier has its mark in its first slot, a file that is a slow tier in an attribute. When a map is opened, the marks first name the
//! next generation beside the one of the map, then the map is given it, then the marks name it alone: so after a crash at any moment each
//! mark names that of the map.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::super::parts::{BLOCK_BYTES, perform_alone};
use super::super::{Action, Backend, Io, Outcome};
use super::ledger::{Facts, Ledger};
use crate::buffer::{Buffer, Buffers};

/// The first bytes of a fast tier; its mark follows.
const MAGIC: &[u8; 16] = b"ioweir fast tier";
/// The attribute of a file that is a slow tier.
const ATTRIBUTE: &str = "user.ioweir.tiers";
/// The largest size of a mark as text.
const WORDS_BYTES: usize = 100;
const NUMBER_BYTES: usize = size_of::<u64>();

/// The mark on a tier, which names its map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    identity: u64,
    /// The generation of the map, or the one before that.
    generation: u64,
    next: u64,
}

impl Mark {
    /// Checks that a tier and its map were last open together.
    fn check(self, of: &Facts) -> Result<(), String> {
        if self.identity != of.identity {
            let problem =
                "belongs to another map, or its map was lost; to begin anew, losing what lies there, empty it";
            return Err(problem.into());
        }
        if [self.generation, self.next].contains(&of.generation) {
            return Ok(());
        }
        let (newer, older) = if self.next > of.generation { ("tier", "map") } else { ("map", "tier") };
        let (map, tier) = (of.generation, self.next);
        Err(format!(
            "is not of the same generation as its map: the {older} is an older one, and does not have what the {newer} has (the map is of \
             start {map}, the tier of start {tier})\n  expected: the newest of both, or both from one backup"
        ))
    }

    fn of_numbers(numbers: impl Iterator<Item = u64>) -> Option<Self> {
        let mut numbers = numbers.fuse();
        Some(Self { identity: numbers.next()?, generation: numbers.next()?, next: numbers.next()? })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {}", self.identity, self.generation, self.next)
    }
}

/// Checks that tiers and ledger belong together and are of the same generation; new ones are bound to each other. Afterwards all have the
/// next generation.
pub(super) fn bind(fast: &mut dyn Backend, ledger: &mut Ledger, of: &Facts, is_unused: bool) -> Result<(), String> {
    let home = ledger.home().map(Path::to_path_buf);
    let of_fast = |problem: String| format!("fast tier: {problem}");
    let of_slow = |problem: String| format!("slow tier: {problem}");
    check_fast(fast, of, is_unused).map_err(of_fast)?;
    if let Some(path) = &home {
        check_slow(path, of).map_err(of_slow)?;
    }
    let (identity, generation, next) = (of.identity, of.generation, of.generation + 1);
    let mut mark = |mark: Mark| {
        perform(fast, Action::Write, head_of(mark)).map_err(of_fast)?;
        let marked = home.as_deref().map_or(Ok(false), |path| mark_file(path, mark));
        marked.map_err(|error| of_slow(format!("cannot be marked: {error}")))
    };
    let is_marked = mark(Mark { identity, generation, next })?;
    ledger.begin(next, is_marked)?;
    mark(Mark { identity, generation: next, next }).map(drop)
}

fn check_fast(fast: &mut dyn Backend, of: &Facts, is_unused: bool) -> Result<(), String> {
    let head = perform(fast, Action::Read, Buffer::with_capacity(BLOCK_BYTES as usize))?;
    let (magic, rest) = head.bytes().split_at(MAGIC.len().min(head.len()));
    if magic == MAGIC {
        let numbers =
            rest.chunks_exact(NUMBER_BYTES).map_while(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
        return Mark::of_numbers(numbers).map_or(Ok(()), |mark| mark.check(of));
    }
    if magic.iter().any(|&byte| byte != 0) {
        return Err("holds something else; expected an empty one, or the one that belongs to the map".into());
    }
    if !is_unused {
        return Err("is empty, and its map says that blocks lie there; expected the one that belongs to the map".into());
    }
    Ok(())
}

fn head_of(Mark { identity, generation, next }: Mark) -> Buffer {
    let mut head = Buffer::with_capacity(BLOCK_BYTES as usize);
    let numbers = [identity, generation, next].into_iter().flat_map(u64::to_le_bytes);
    let bytes = MAGIC.iter().copied().chain(numbers);
    head.bytes_mut().fill(0);
    head.bytes_mut().iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    head
}

/// Reads or writes the first block.
fn perform(fast: &mut dyn Backend, action: Action, buffer: Buffer) -> Result<Buffer, String> {
    let (durable, buffers) = (action == Action::Write, Buffers::One(buffer));
    let io = Io { action, length: BLOCK_BYTES, durable, buffers, ..Io::without_data(0) };
    let done = perform_alone(fast, io).map_err(|error| format!("cannot be used: {error}"))?;
    match done.result.map_err(|error| format!("cannot be used: {error:?}"))? {
        Outcome::Plain => {
            if let Buffers::One(buffer) = done.buffers {
                return Ok(buffer);
            }
            Ok(Buffer::default())
        }
        _ => {
            let mut zeroes = Buffer::with_capacity(BLOCK_BYTES as usize);
            zeroes.bytes_mut().fill(0);
            Ok(zeroes)
        }
    }
}

fn check_slow(path: &Path, of: &Facts) -> Result<(), String> {
    match mark_of(path)? {
        Some(mark) => mark.check(of),
        None if of.is_home_marked => {
            let Facts { identity, generation, .. } = *of;
            let mark = Mark { identity, generation, next: generation };
            Err(format!(
                "{} has no mark of its map: it is another file, or a copy\n  expected: the file that belongs to the map\n\nhint: if it is \
                 that, as it was last served: setfattr -n {ATTRIBUTE} -v \"{mark}\" FILE",
                path.display()
            ))
        }
        None => Ok(()),
    }
}

/// Refuses to use a slow tier's file without its fast tier.
///
/// # Errors
/// If the file is a slow tier; the error says what to do.
pub fn refuse_slow_tier(path: &Path) -> Result<(), String> {
    match mark_of(path)? {
        None => Ok(()),
        Some(_) => Err(format!(
            "{}: is the slow tier of a tiered device, and its newest blocks may lie on the fast one\n  expected: backend tiered, with \
             its map\n\nhint: if the fast tier is given up for good: setfattr -x {ATTRIBUTE} FILE",
            path.display()
        )),
    }
}

/// The mark of a file, if it has one. A missing file, or one without attributes, has none.
fn mark_of(path: &Path) -> Result<Option<Mark>, String> {
    let mut words = [0_u8; WORDS_BYTES];
    let length = match rustix::fs::getxattr(path, ATTRIBUTE, &mut words) {
        Ok(length) => length,
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOENT | Errno::PERM) => return Ok(None),
        Err(error) => return Err(format!("{}: its mark cannot be read: {error}", path.display())),
    };
    let words = String::from_utf8_lossy(&words[..length]);
    let mark = Mark::of_numbers(words.split_whitespace().map_while(|word| word.parse().ok()));
    mark.map(Some).ok_or_else(|| format!("{}: its attribute {ATTRIBUTE} is no mark", path.display()))
}

/// Marks a file, durably; returns whether that can be done: file systems and devices without attributes stay unmarked.
fn mark_file(path: &Path, mark: Mark) -> io::Result<bool> {
    match rustix::fs::setxattr(path, ATTRIBUTE, mark.to_string().as_bytes(), XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP | Errno::PERM) => return Ok(false),
        marked => marked?,
    }
    File::open(path)?.sync_all()?;
    Ok(true)
}
