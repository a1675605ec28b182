//! Fixed-capacity structures over slot numbers. All memory is taken at construction; nothing here grows.

mod extents;
mod heap;
mod index;
mod list;
mod tournament;
mod tree;

pub(crate) use extents::Extents;
pub(crate) use heap::Heap;
pub(crate) use index::Index;
pub(crate) use list::{Links, List};
pub(crate) use tournament::Tournament;
pub(crate) use tree::{Root, Tree};

/// The slot number that stands for "none".
pub(crate) const NONE: u32 = u32::MAX;
