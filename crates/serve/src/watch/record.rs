//! What has each class been given, since the server began and in each of the last seconds?

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use ioweir_core::{Operation, Reason};

use crate::backend::Checksums;
use crate::engine::{ClassCounters, ClassCounts, ClassState, Counters, OperationCounters, Report};
use crate::spec::Spec;

/// Seconds that are kept.
pub const HISTORY_SECONDS: usize = 120;

/// What a class did in one second.
#[derive(Clone, Debug, PartialEq)]
pub struct Second {
    /// It began so many seconds after the server did.
    pub at_seconds: u64,
    /// Requests answered, and bytes of those that went well, by operation.
    pub done: [(u64, u64); Operation::ALL.len()],
    /// How long half, 99 and 99.9 percent of them took at most; none where there were none.
    pub latency_nanos: Option<[u64; 3]>,
    /// Waiting by reason, as in [`ClassCounts::wait_nanos`].
    pub wait_nanos: [u64; Reason::COUNT],
}

/// A class.
#[derive(Debug)]
pub(super) struct ClassRecord {
    pub(super) device: usize,
    pub(super) standing: ClassState,
    /// Since the server began.
    pub(super) counts: ClassCounts,
    pub(super) seconds: VecDeque<Second>,
    /// The second that is not over.
    now: Option<Box<ClassCounters>>,
}

/// What is known of all of them.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) classes: Vec<ClassRecord>,
    /// Units with the backend, by device.
    pub(super) inflight: Vec<u32>,
    /// What was checked, by device, where it is.
    pub(super) checksums: Vec<Option<Checksums>>,
}

impl Record {
    pub(super) fn new(spec: &Spec) -> Self {
        let class = |class: crate::spec::Class| ClassRecord {
            device: class.device,
            standing: ClassState::default(),
            counts: ClassCounts::default(),
            seconds: VecDeque::new(),
            now: None,
        };
        let devices = spec.device.len();
        Self {
            classes: spec.classes().into_iter().map(class).collect(),
            inflight: vec![0; devices],
            checksums: vec![None; devices],
        }
    }

    /// Adds what an engine has counted, and hands back its tally for the next time.
    pub(super) fn take_in(&mut self, device: usize, report: Report) -> Box<Counters> {
        let mut tally = report.counters;
        if let Some(inflight) = self.inflight.get_mut(device) {
            *inflight = report.inflight;
        }
        if let Some(checksums) = self.checksums.get_mut(device) {
            *checksums = report.checksums;
        }
        for (number, class) in self.classes.iter_mut().enumerate().filter(|(_, class)| class.device == device) {
            class.standing = report.classes.get(number).copied().unwrap_or_default();
            let Some(more) = tally.get(number) else { continue };
            class.counts.add(&more.counts);
            class.now.get_or_insert_default().add(more);
        }
        tally.clear();
        tally
    }

    /// A second is over.
    pub(super) fn end_second(&mut self, at_seconds: u64) {
        for class in &mut self.classes {
            if class.seconds.back().is_some_and(|last| last.at_seconds >= at_seconds) {
                continue;
            }
            class.seconds.push_back(Second::new(at_seconds, class.now.as_deref()));
            if let Some(now) = &mut class.now {
                now.clear();
            }
            if class.seconds.len() > HISTORY_SECONDS {
                class.seconds.pop_front();
            }
        }
    }
}

impl Second {
    fn new(at_seconds: u64, tally: Option<&ClassCounters>) -> Self {
        let done = |of: &OperationCounters| (of.requests, of.bytes);
        let quantiles = |latency: &Histogram<u64>| [0.5, 0.99, 0.999].map(|part| latency.value_at_quantile(part));
        Self {
            at_seconds,
            done: tally
                .map_or_else(Default::default, |tally| std::array::from_fn(|at| done(&tally.counts.operations[at]))),
            latency_nanos: tally.filter(|tally| !tally.latency.is_empty()).map(|tally| quantiles(&tally.latency)),
            wait_nanos: tally.map_or_else(Default::default, |tally| tally.counts.wait_nanos),
        }
    }
}
