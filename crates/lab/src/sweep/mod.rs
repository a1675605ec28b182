//! Sweeps: many runs of one comparison or experiment, kept in a folder, so that they can be divided, stopped and resumed.
//!
//! ```text
//! SWEEP.toml --parse--> Sweep      a base (comparison or experiment), axes (a key and its values), lists folded into the base
//!            --plan---> Plan       cells in order: point by point (the last axis runs fastest), run by run within a point
//!            --run----> folder/    sweep.json (what the sweep is, its cells' names), parts/NAME.parquet, parts/NAME.failed
//!            --merge--> Document   one table: a row for each cell and class; the best of each group; charts
//! ```
//!
//! A cell is one run. Its name is the hash of all that it depends on: the version, the resolved spec with its devices and
//! seed, and the content of its traces. A part is the table of one cell as a Parquet file. It gets its name when it is whole
//! and on the disk, so what has a name is finished, and a sweep is resumed by running the cells without a part. The merged
//! table is made of the parts alone: it does not depend on who made them, in which order, or on how many threads.

mod cells;
mod document;
mod figures;
mod folder;
mod gates;
mod groups;
mod making;
mod merge;
mod range;
mod rows;
mod spec;
#[cfg(test)]
mod tests;

pub use cells::{Cells, Name, Place, Plan};
pub use document::{By, document};
pub use folder::{Failed, Folder, Missing, Ran, Running, Shard, Status};
pub use making::{Made, on_threads};
pub use merge::Merged;
pub use spec::{Sweep, SweepSpec, key_tables};
