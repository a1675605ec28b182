//! Reads the files of a tar archive from beginning to end, one header at a time.

use std::io;

use crate::input::Chunks;

const BLOCK_BYTES: usize = 512;
const NAME_BYTES: usize = 100;
const SIZE_AT: usize = 124;
const CHECKSUM_AT: usize = 148;
const TYPE_AT: usize = 156;
const MAGIC_AT: usize = 257;

/// One file of an archive, which has been read up to the file's first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) length_bytes: u64,
}

/// Whether the bytes begin like an archive.
pub(crate) fn is_archive(head: &[u8]) -> bool {
    head.get(MAGIC_AT..).is_some_and(|rest| rest.starts_with(b"ustar")) && head.get(..BLOCK_BYTES).is_some_and(is_whole)
}

/// Whether the checksum of a header is right; it is computed with the checksum itself taken as blanks.
fn is_whole(header: &[u8]) -> bool {
    let field = CHECKSUM_AT..CHECKSUM_AT + 8;
    let sum: u64 = header
        .iter()
        .enumerate()
        .map(|(place, byte)| u64::from(if field.contains(&place) { b' ' } else { *byte }))
        .sum();
    octal(&header[field.clone()]) == Some(sum)
}

fn octal(bytes: &[u8]) -> Option<u64> {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default().trim_ascii();
    if text.is_empty() || text.len() > 21 {
        return None;
    }
    text.iter().try_fold(0_u64, |value, byte| match byte {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// The bytes that fill up the last block of a file of that length.
pub(crate) const fn padding_bytes(length_bytes: u64) -> u64 {
    let rest = length_bytes % BLOCK_BYTES as u64;
    if rest == 0 { 0 } else { BLOCK_BYTES as u64 - rest }
}

/// The next regular file, positioned at its first byte; `Ok(None)` at the end. The error for damage has the kind
/// [`io::ErrorKind::InvalidData`].
pub(crate) fn next_file(archive: &mut Chunks) -> io::Result<Option<Entry>> {
    let damaged = |problem: &str| io::Error::new(io::ErrorKind::InvalidData, problem.to_owned());
    loop {
        if !archive.need(BLOCK_BYTES)? {
            let left = archive.available().len();
            return if left == 0 { Ok(None) } else { Err(damaged("the archive is cut short in a header")) };
        }
        let header = &archive.available()[..BLOCK_BYTES];
        // Two empty blocks mark the end of an archive; padding follows them.
        if header.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        if !is_whole(header) {
            return Err(damaged("a header of the archive is damaged"));
        }
        let name = header[..NAME_BYTES].split(|&byte| byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        let length = octal(&header[SIZE_AT..SIZE_AT + 12]);
        let length_bytes = length.ok_or_else(|| damaged("the length of a file in the archive is not octal"))?;
        let regular = matches!(header[TYPE_AT], b'0' | 0);
        archive.consume(BLOCK_BYTES);
        if regular {
            return Ok(Some(Entry { name, length_bytes }));
        }
        skip(archive, length_bytes.saturating_add(padding_bytes(length_bytes)))?;
    }
}

/// Skips bytes of the archive.
pub(crate) fn skip(archive: &mut Chunks, mut count: u64) -> io::Result<()> {
    while count > 0 {
        if archive.available().is_empty() && !archive.need(1)? {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the archive is cut short in a file"));
        }
        let step = usize::try_from(count).unwrap_or(usize::MAX).min(archive.available().len());
        archive.consume(step);
        count -= step as u64;
    }
    Ok(())
}
