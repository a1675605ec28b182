//! Background work, as pure functions: series of load, forecasts, plans, and the decisions of the governor.
//!
//! Nothing here reads a clock, opens a socket or starts a thread: the same series, policy and samples give the same plan and the
//! same decisions.

pub mod forecast;
pub mod govern;
pub mod hours;
pub mod plan;
pub mod series;
pub mod terms;
