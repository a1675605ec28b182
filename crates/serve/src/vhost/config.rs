//! The features of a disk and its configuration space, which its guest reads.

use crate::nbd::Export;
use crate::nbd::protocol::REQUEST_BYTES_MAX;

/// The sectors of the protocol.
pub(super) const SECTOR_BYTES: u64 = 512;
/// The most queues of a disk; a monitor that asks for fewer gets fewer.
pub(super) const QUEUES_MAX: u16 = 64;
/// The most requests in a queue.
pub(super) const QUEUE_SIZE_MAX: u16 = 1024;
/// The longest name that a guest reads.
pub(super) const NAME_BYTES: usize = 20;
/// The most bytes of the configuration space that a guest reads; bytes after the fields read as zeroes.
const SPACE_BYTES: usize = 256;
/// The most segments of data in one request, so that a queue of 128 has room for head and status, too.
const SEGMENTS_MAX: u32 = 126;
/// The longest range that is discarded, or written with zeroes, by one request: 2 GiB.
const RANGE_SECTORS_MAX: u32 = 1 << 22;
/// A physical block is 2^3 sectors.
const PHYSICAL_BLOCK_EXPONENT: u8 = 3;

/// Features of a virtio block device, by their bits.
mod feature {
    pub(super) const SEG_MAX: u64 = 1 << 2;
    pub(super) const READ_ONLY: u64 = 1 << 5;
    pub(super) const BLOCK_SIZE: u64 = 1 << 6;
    pub(super) const FLUSH: u64 = 1 << 9;
    pub(super) const TOPOLOGY: u64 = 1 << 10;
    pub(super) const QUEUES: u64 = 1 << 12;
    pub(super) const DISCARD: u64 = 1 << 13;
    pub(super) const WRITE_ZEROES: u64 = 1 << 14;
    pub(super) const INDIRECT: u64 = 1 << 28;
    pub(super) const PROTOCOL: u64 = 1 << 30;
    pub(super) const VERSION_1: u64 = 1 << 32;
}

/// The device logs which pages of guest memory it has written, for a migration.
pub(super) const FEATURE_LOG: u64 = 1 << 26;
/// Notifications at an index, not at each request.
pub(super) const FEATURE_EVENT_INDEX: u64 = 1 << 29;
/// Rings are enabled one by one.
pub(super) const FEATURE_PROTOCOL: u64 = feature::PROTOCOL;

/// The features of a disk.
pub(super) const fn features(export: &Export) -> u64 {
    let of_device = if export.read_only { feature::READ_ONLY } else { feature::DISCARD | feature::WRITE_ZEROES };
    let of_disk = feature::SEG_MAX | feature::BLOCK_SIZE | feature::FLUSH | feature::TOPOLOGY | feature::QUEUES;
    let of_rings = feature::INDIRECT | FEATURE_EVENT_INDEX | feature::VERSION_1;
    of_device | of_disk | of_rings | FEATURE_LOG | FEATURE_PROTOCOL
}

/// A part of the configuration space; `None` if there is no such part.
pub(super) fn space(export: &Export, offset: usize, length: usize) -> Option<Vec<u8>> {
    let mut space = [0; SPACE_BYTES];
    let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(export.size_bytes / SECTOR_BYTES).to_le_bytes());
    put(12, &SEGMENTS_MAX.to_le_bytes());
    put(20, &(SECTOR_BYTES as u32).to_le_bytes());
    put(24, &[PHYSICAL_BLOCK_EXPONENT]);
    let preferred = export.block_bytes_preferred / SECTOR_BYTES as u32;
    put(26, &(preferred as u16).to_le_bytes()); // 4 KiB
    put(28, &(REQUEST_BYTES_MAX / SECTOR_BYTES as u32).to_le_bytes());
    put(34, &QUEUES_MAX.to_le_bytes());
    if !export.read_only {
        put(36, &RANGE_SECTORS_MAX.to_le_bytes());
        put(40, &1_u32.to_le_bytes());
        put(44, &preferred.to_le_bytes());
        put(48, &RANGE_SECTORS_MAX.to_le_bytes());
        put(52, &1_u32.to_le_bytes());
        put(56, &[1]);
    }
    space.get(offset..offset.checked_add(length)?).map(<[u8]>::to_vec)
}

/// The name of a disk, as its guest reads it.
pub(super) fn name(export: &Export) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    let mut length = export.name.len().min(NAME_BYTES);
    while !export.name.is_char_boundary(length) {
        length -= 1;
    }
    name[..length].copy_from_slice(&export.name.as_bytes()[..length]);
    name
}
