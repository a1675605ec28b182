//! Experiments: classes of clients that share a device, under several schedulers, with expectations about the results.

mod background;
mod calibrated;
mod document;
mod expect;
mod explain;
mod goal;
mod layers;
mod machine;
mod metric;
mod overrides;
mod parse;
mod run;
mod spec;
mod summary;
mod sweep;
mod traffic;
mod work;

pub use document::document;
#[cfg(feature = "parquet")]
pub(crate) use document::key as metric_key;
pub use expect::{Bound, Expectation, Verdict};
pub use explain::{Which, explain};
pub(crate) use machine::DeviceGroup;
pub use metric::{METRICS, Metric};
pub use overrides::Overrides;
#[cfg(any(feature = "parquet", feature = "servers"))]
pub(crate) use run::jobs;
pub use run::{ExperimentMeta, ExperimentReport, record, run, run_observed};
pub(crate) use run::{limits, with_places};
pub use spec::{
    BackgroundSpec, ClassSpec, CoresSpec, DeviceChoice, DeviceGroupSpec, Experiment, GroupSpec, Pace, PhaseSpec,
    Spacing, key_tables,
};
pub use summary::{Figure, Summary};
pub use sweep::assign;
pub(crate) use traffic::{ClassArrivals, Place};
