//! Background work: its debt, its cost, and when it gets cores.
//!
//! Source: Kachmar and Kaeli, "A Smart Background Scheduler for Storage Systems". Work that a system need not do at once
//! (deleting a snapshot, for example) is recorded as *debt*, in blocks. Debt takes space in the pool until it is paid, and
//! paying it takes cores. [`SERVICES`] describes each kind of work; [`DebtQueue`] holds the debt of one kind; [`Pool`]
//! counts space; [`Turns`] chooses the next debt to pay; [`Watermark`] is the rule without a forecast. [`Executor`] combines
//! them: it follows a plan if there is one, and yields to the foreground at once.
//!
//! The contract is that of the crate: time is an argument, all memory is allocated at construction, decisions use integers
//! only, ties go to the first in the table, and every wait names its [`Hold`].
//!
//! **Units.** Debt is counted in blocks of the pool. A *background operation* is the cost of reading and handling one block;
//! a core does a fixed number of them a second. Work is counted in thousandths of an operation, so that a service with cheap
//! blocks (a rebuild streams them) and one with expensive blocks (compression) use the same formulas.

mod contract;
mod cost;
mod debt;
mod decide;
mod executor;
mod opening;
mod pool;
mod promise;
mod service;
mod slots;
mod turns;
mod watermark;

pub use contract::{Bucket, Directive, Hold, Resource, Settings, Step};
pub use debt::{Batch, DebtQueue, overwrite_debt, time_to_clear};
pub use executor::Executor;
pub use pool::{Pool, PoolState};
pub use service::{SERVICES, SERVICES_COUNT, Service, ServiceRow, ServiceSettings, Source};
pub use slots::{Slice, SliceTag};
pub use turns::Turns;
pub use watermark::Watermark;
