//! Runs one scheduler on one device under one load: which request is served when?
//!
//! Three things happen in simulated time: a request arrives, the device finishes, a policy's timer runs out. At one
//! moment the device's completions come first, then arrivals, then the policy is asked until it waits. Nothing else is
//! an event: service times are closed forms, so a request costs two or three turns of the loop.

mod collect;
mod engine;
mod failure;
mod feed;
mod load;
mod observe;
mod outcome;
mod records;

pub use collect::{Finished, Gather};
pub use engine::{Ended, Simulation, run, simulate};
pub use failure::Failure;
pub use feed::{Arrivals, LOOK_AHEAD_RECORDS, Site};
pub use load::{Load, LoadError};
pub use observe::{Checker, Observer, Unobserved};
pub use outcome::{Class, FastOutcome, HISTOGRAM_DIGITS, HeadPoint, Outcome, ServiceSums, Throughput};
