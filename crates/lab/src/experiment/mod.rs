//! Who gets what of a device that many share? Runs an [`Experiment`]: classes of clients, schedulers, and what is expected.

mod amount;
mod cell;
mod expect;
mod explain;
mod keys;
mod metric;
mod parse;
mod run;
mod spec;
mod summary;
mod sweep;
mod tally;
mod traffic;

pub use amount::{PerSecond, Time};
pub use cell::{Cell, ClassResult, Measured, Step, TierResult};
pub use expect::{Bound, Expectation, Verdict};
pub use explain::{Which, explain};
pub use keys::{KEYS, Key};
pub use metric::{METRICS, Metric};
pub use run::{ExperimentError, ExperimentMeta, ExperimentReport, Store, run, run_observed};
pub use spec::{ClassSpec, DeviceChoice, Experiment, GroupSpec, PhaseSpec, Spacing};
pub use summary::{Figure, Summary};
pub(crate) use sweep::assign;
