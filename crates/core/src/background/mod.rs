//! Which work can wait, what does waiting cost, and when does it get cores?
//!
//! Source: Kachmar and Kaeli, "A Smart Background Scheduler for Storage Systems". Work that a system need not do at once
//! (deleting a snapshot, say) is written down as *debt*, in blocks. Debt ties up room in the pool until it is paid, and
//! paying takes cores. [`SERVICES`] has what is known of each kind; [`DebtQueue`] keeps one kind's debt; [`Pool`] keeps the
//! room; [`Turns`] says whose debt is paid next; [`Watermark`] is the rule that knows no future. [`Executor`] puts them
//! together: it obeys a plan where there is one, and the foreground at once.
//!
//! The contract is that of the crate: time is an argument, all memory is taken at construction, decisions use integers
//! only, ties go to the lower place in the table, and every wait names its [`Hold`].
//!
//! **Units.** Debt is counted in blocks of the pool. A *background operation* is what reading and handling one block
//! costs; a core does so many a second. Work is counted in thousandths of an operation, so that a service whose blocks are
//! cheap (a rebuild streams them) and one whose blocks are dear (compression) go through the same sums.

mod debt;
mod executor;
mod pool;
mod service;
mod turns;
mod watermark;

pub use debt::{Batch, DebtQueue, overwrite_debt, snapshot_delete_debt, time_to_clear, unmap_debt};
pub use executor::{Bucket, Directive, Executor, Hold, Settings, Slice, SliceTag, Step};
pub use pool::{Pool, PoolState};
pub use service::{SERVICES, SERVICES_COUNT, Service, ServiceRow, ServiceSettings, Source};
pub use turns::Turns;
pub use watermark::Watermark;
