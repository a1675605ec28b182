//! Decodes numbers of a known width in a binary record.

/// The little-endian number of `N` bytes, at most eight, at `at`; zero if the bytes end before it does.
#[inline]
pub(crate) fn little<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(field) = bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
        word[..N].copy_from_slice(field);
    }
    u64::from_le_bytes(word)
}

/// Reads a big-endian number of `N` bytes; zero past the end.
#[inline]
pub(crate) fn big<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(field) = bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
        word[8 - N..].copy_from_slice(field);
    }
    u64::from_be_bytes(word)
}
