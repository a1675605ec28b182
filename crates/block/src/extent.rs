//! Extents of a device: whether ranges of it are allocated, and read as zeroes.

/// Flag of an extent that is not allocated; the number is that of NBD.
pub const STATE_HOLE: u32 = 1;
/// Flag of an extent that reads as zeroes; the number is that of NBD.
pub const STATE_ZERO: u32 = 2;

/// A range whose blocks all have the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The length in bytes.
    pub length: u64,
    /// The flags `STATE_HOLE` and `STATE_ZERO`.
    pub state: u32,
}
