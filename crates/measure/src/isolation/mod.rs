//! Isolation of tenants that share a device: the [scorecard](ScorecardSpec) of schedulers, and the [search](QosSpec) of Linux's
//! `io.cost.qos`.
//!
//! Each test is an experiment, which `ioweir simulate` runs too. All schedulers run in each with the same seeds, so their figures are
//! paired with those of `fifo`, which stands for no scheduler at all. The same tests can be measured on a server, and shown beside.

mod advice;
mod document;
mod figures;
mod loads;
mod measured;
mod qos;
mod spec;
#[cfg(test)]
mod tests;

pub use qos::QosSpec;
pub use spec::ScorecardSpec;
