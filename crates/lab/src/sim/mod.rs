//! The simulator: one scheduler on one device under one load.
//!
//! Three things happen in simulated time: a request arrives, the device finishes, a policy's timer runs out. At one
//! moment the device's completions come first, then arrivals, then the policy is asked until it waits. Nothing else is
//! an event: service times are closed forms, so a request costs two or three turns of the loop. The [`Collector`] counts
//! what happens, and an [`Outcome`] is made from its counts: one for comparisons and experiments alike.

mod account;
mod ahead;
mod buffers;
mod clients;
mod collect;
mod cores;
mod costs;
mod course;
mod engine;
mod failure;
mod feed;
mod goal;
mod latencies;
mod layers;
mod load;
mod locks;
pub(crate) mod log;
mod machine;
mod misses;
pub mod numbers;
mod observe;
mod outcome;
pub(crate) mod pool;
mod records;
mod replay;
mod route;
mod serial;
mod streams;
mod table;
mod tally;
pub(crate) mod varying;
mod waits;
mod watch;

pub(crate) use account::only_busy;
pub use account::{Account, Accountant, PARTS, Part, completion_parts_of};
pub use ahead::ReadAhead;
pub use clients::{ClientClass, Clients, Streams};
pub use collect::{Collector, Finished, Window};
pub use costs::{ClassCosts, Tail, Variation};
pub use engine::{Ended, Simulation, run};
pub use failure::Failure;
pub use feed::{Arrivals, Feed, LOOK_AHEAD_RECORDS, Site, Sites};
pub use goal::Goal;
pub use latencies::Latencies;
pub use layers::{Layer, LayerTimes, TIME_PARTS, TimePart};
pub use load::{Load, LoadError};
pub use locks::{MachineLocks, OwnWork, Pieces};
pub use log::{LogEnded, MachineLog};
pub use machine::{Machine, MachineCores, MachineDevice, MachineEnded, run_machine};
pub use misses::Misses;
pub use observe::{Checker, Observer, Unobserved};
pub use outcome::{
    Class, ClassOutcome, CoresOutcome, DebtOutcome, DeviceOutcome, FastOutcome, HeadPoint, Outcome, Returns,
    ServiceSums, Step, StreamOutcome, Throughput, TierOutcome,
};
pub use pool::TurnCosts;
pub use replay::simulate;
pub use route::Route;
pub use serial::{Serial, SerialSpec};
pub use tally::{Tally, Teller};
pub use varying::Distribution;
pub use waits::{Stay, Waits};

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use ioweir_core::random::NumberHasher;

/// A table by numbers, in which things are only looked up: its order means nothing.
type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;
