//! Plans for deferred work: when to do it and with how many cores, from a forecast, debts, a policy and a pool.
//!
//! Source: Kachmar and Kaeli, "A Smart Background Scheduler for Storage Systems". Planning is a pure function: the same
//! forecast, debts and policy give the same plan. Everything after the forecast uses whole numbers.

mod bound;
mod document;
mod envelope;
mod horizon;
mod lint;
mod load;
mod made;
mod owing;
mod planner;
mod play;
pub mod policy;
mod queueing;
mod replay;
mod rest;
mod schedule;
mod spec;
mod system;
mod timers;

pub use bound::{Bound, bound};
pub use document::{Actual, document};
pub use horizon::Horizon;
pub use lint::{Finding, Severity, lint};
pub use load::{Ahead, Load, LoadError, LoadForecaster, Outlook, Rates, outlooks};
pub use made::{Likely, Plan, PlanBin, Setting, Sheet, Window, plan};
pub use planner::{Solution, decide, solve};
pub use policy::Policy;
pub use queueing::{erlang_c, servers_needed};
pub use replay::{Decider, Replayed, replay};
pub use schedule::{BinCourse, Schedule};
pub use spec::PlanSpec;
pub use system::{Demand, Ledger, System, Terms};
