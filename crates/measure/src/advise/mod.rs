//! Advice: what to set for a device and a load, how sure that is, how to apply and to undo it, and what would change it.
//!
//! The search sees one half of the trace, and the other half judges. "Leave it" is always among the candidates, and wins unless
//! another is shown to be better (`confirm`). A trace that was recorded under a scheduler holds what that did: processes waited
//! for it, so their later requests are where it put them in time. Replayed at the recorded times this favours the scheduler
//! that recorded, so every candidate is judged under a closed loop too, in which the times of the trace do not count.

mod bench;
mod cgroups;
mod confirm;
mod data;
mod document;
mod host;
mod levels;
mod matter;
mod own_error;
mod pauses;
mod pieces;
mod report;
mod search;
mod space;
mod spec;
#[cfg(test)]
mod tests;

pub(crate) use bench::Within;
pub use space::{KNOBS, Knob};
pub use spec::{AdviseSpec, Bound};
