//! Runs one scheduler on one device under one load.

mod outcome;

pub use outcome::{Class, HISTOGRAM_DIGITS, HeadPoint, Outcome, ServiceSums, Throughput};
