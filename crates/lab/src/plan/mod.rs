//! When is deferred work to be done, and with how many cores? A plan from a forecast, debts, a policy and a pool.
//!
//! Source: Kachmar and Kaeli, "A Smart Background Scheduler for Storage Systems". Planning is a pure function: the same
//! forecast, debts and policy give the same plan. Everything behind the forecast is whole numbers.

mod horizon;
mod planner;
mod system;

pub use horizon::{BinCourse, Horizon, Schedule};
pub use planner::{Solution, solve};
pub use system::{Demand, Ledger, System, Terms};
