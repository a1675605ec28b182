//! Structures of fixed capacity: slots with generations, and lists, trees, heaps and indices over slot numbers. All memory is
//! taken at construction; nothing here grows by itself.

mod extents;
mod heap;
mod index;
mod list;
mod slab;
mod tournament;
mod tree;

pub(crate) use extents::Extents;
pub(crate) use heap::Heap;
pub(crate) use index::Index;
pub(crate) use list::{Links, List};
pub use slab::Slab;
pub(crate) use tournament::{Tournament, earlier, later};
pub(crate) use tree::{Root, Tree};

/// The slot number that stands for "none".
pub(crate) const NONE: u32 = u32::MAX;
