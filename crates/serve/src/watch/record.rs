//! The record of the service that each class has received since the server began, and in each of the last seconds.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use ioweir_config::ShareNumbers;
use ioweir_core::{Operation, Reason};

use crate::control::{FleetClass, FleetStatus};
use crate::engine::{
    ClassCounters, ClassCounts, ClassState, Counters, DeviceReport, LAYERS, OperationCounters, Report, ServiceReport,
};
use crate::engines::Watched;
use crate::spec::{Device, Spec};

/// The number of seconds that are kept.
pub const HISTORY_SECONDS: usize = 120;

/// The counts of a class in one second.
#[derive(Clone, Debug, PartialEq)]
pub struct Second {
    /// When the second began, counted from the start of the server.
    pub at_seconds: u64,
    /// The answered requests, and the bytes of those without an error, by operation.
    pub done: [(u64, u64); Operation::ALL.len()],
    /// The 50th, 99th and 99.9th percentile of their latency; `None` if there were none.
    pub latency_nanos: Option<[u64; 3]>,
    /// Waiting by reason, as in [`ClassCounts::wait_nanos`].
    pub wait_nanos: [u64; Reason::COUNT],
    /// The time of requests by layer, as in [`ClassCounts::layer_nanos`].
    pub layer_nanos: [u64; LAYERS.len()],
}

/// A class.
#[derive(Debug)]
pub(super) struct ClassRecord {
    pub(super) device: usize,
    pub(super) state: ClassState,
    /// The counts since the server began.
    pub(super) counts: ClassCounts,
    pub(super) seconds: VecDeque<Second>,
    /// The class's state in the fleet, if it is a member of one.
    pub(super) fleet: Option<FleetClass>,
    /// The second that has not ended.
    now: Option<Box<ClassCounters>>,
}

/// A device.
#[derive(Debug)]
pub(super) struct DeviceRecord {
    /// The device's last report; until the first, its state at the start.
    pub(super) report: DeviceReport,
    /// Whether the last report has its reservations further behind than the report before.
    pub(super) reservations_broken: bool,
    /// Why the device is not open, if it is not.
    pub(super) trouble: Option<String>,
}

/// The records of all classes and devices.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) classes: Vec<ClassRecord>,
    pub(super) devices: Vec<DeviceRecord>,
    /// The state of the fleet, if the server belongs to one.
    pub(super) fleet: Option<FleetStatus>,
}

impl Record {
    pub(super) fn new(spec: &Spec) -> Self {
        let mut record = Self::default();
        record.fit(spec);
        record
    }

    /// Adds records for new classes and devices.
    pub(super) fn fit(&mut self, spec: &Spec) {
        self.devices.extend(spec.device.iter().skip(self.devices.len()).map(DeviceRecord::new));
        self.classes.extend(spec.classes().into_iter().skip(self.classes.len()).map(ClassRecord::new));
    }

    /// Takes up which devices are open.
    pub(super) fn see_devices(&mut self, watched: &[Watched]) {
        for (device, watched) in self.devices.iter_mut().zip(watched) {
            device.trouble.clone_from(&watched.trouble);
        }
    }

    /// Takes over the state of the fleet.
    pub(super) fn see_fleet(&mut self, fleet: Option<FleetStatus>) {
        for (class, number) in self.classes.iter_mut().zip(0..) {
            class.fleet = fleet.as_ref().and_then(|fleet| fleet.classes.get(&number)).copied();
        }
        self.fleet = fleet;
    }

    /// Adds an engine's counters, and returns them, zeroed, for the next question.
    pub(super) fn add(&mut self, device: usize, report: Report) -> Box<Counters> {
        let Report { mut counters, classes, device: report } = report;
        if let Some(of) = self.devices.get_mut(device) {
            of.reservations_broken = report.reservations_behind > of.report.reservations_behind;
            of.report = report;
        }
        for (number, class) in self.classes.iter_mut().enumerate().filter(|(_, class)| class.device == device) {
            class.state = classes.get(number).copied().unwrap_or_default();
            let Some(more) = counters.get(number) else { continue };
            class.counts.add(&more.counts);
            class.now.get_or_insert_default().add(more);
        }
        counters.clear();
        counters
    }

    /// The reports of the services of all devices.
    pub(super) fn services(&self) -> impl Iterator<Item = &ServiceReport> {
        self.devices.iter().flat_map(|device| &device.report.services)
    }

    /// The numbers of a class's share, with the reservation that the lease of a service gives it; `None` if its scheduler has no
    /// shares.
    pub(super) fn share(&self, spec: &Spec, class: usize) -> Option<ShareNumbers> {
        let numbers = spec.share_of(class)?.numbers();
        let its = self.services().find(|report| report.class as usize == class);
        let leased = its.and_then(|report| report.reservation_per_second);
        Some(ShareNumbers { reservation_per_second: leased.unwrap_or(numbers.reservation_per_second), ..numbers })
    }

    /// Ends a second.
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

impl DeviceRecord {
    fn new(device: &Device) -> Self {
        let report = DeviceReport { depth: device.depth, ..DeviceReport::default() };
        Self { report, reservations_broken: false, trouble: None }
    }
}

impl ClassRecord {
    fn new(class: crate::spec::Class) -> Self {
        Self {
            device: class.device,
            state: ClassState::default(),
            counts: ClassCounts::default(),
            seconds: VecDeque::new(),
            fleet: None,
            now: None,
        }
    }
}

impl Second {
    fn new(at_seconds: u64, counters: Option<&ClassCounters>) -> Self {
        let done = |of: &OperationCounters| (of.requests, of.bytes);
        let quantiles = |latency: &Histogram<u64>| [0.5, 0.99, 0.999].map(|part| latency.value_at_quantile(part));
        Self {
            at_seconds,
            done: counters.map_or_else(Default::default, |counters| {
                std::array::from_fn(|at| done(&counters.counts.operations[at]))
            }),
            latency_nanos: counters
                .filter(|counters| !counters.latency.is_empty())
                .map(|counters| quantiles(&counters.latency)),
            wait_nanos: counters.map_or_else(Default::default, |counters| counters.counts.wait_nanos),
            layer_nanos: counters.map_or_else(Default::default, |counters| counters.counts.layer_nanos()),
        }
    }
}
