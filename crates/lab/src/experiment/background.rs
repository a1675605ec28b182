//! Background classes: requests that may wait, sent as core's executor of background work decides.
//!
//! Each device of such a class has an executor of its own. Its cores are the requests that the class may have there at a time,
//! its blocks are requests, and its foreground is whatever else the device has.

use std::collections::VecDeque;

use ioweir_core::Nanos;
use ioweir_core::background::{
    Bucket, Executor, Pool, Resource, SERVICES, SERVICES_COUNT, Service, ServiceSettings, Settings, SliceTag, Step,
    Watermark,
};

use super::spec::{BackgroundSpec, ClassSpec, Experiment, Pace};
use super::traffic::Place;
use crate::sim::{Clients, DebtOutcome};

/// Which of the executor's services stands for the work of a class: its own settings take the place of the table's.
const SERVICE: Service = Service::Scrub;

/// The background work of a class on one device.
struct Lane {
    class: usize,
    client: u32,
    device: usize,
    pace: Pace,
    is_present: bool,
    executor: Executor,
    blocks: u64,
    block_bytes: u64,
    due_at: Nanos,
    deadline: Nanos,
    /// Requests that are out, and since when.
    sent: VecDeque<(SliceTag, Nanos)>,
    /// When the executor is to be asked again.
    wake: Nanos,
}

impl Lane {
    fn new(spec: &ClassSpec, background: &BackgroundSpec, class: usize, client: u32, place: &Place, at: usize) -> Self {
        let devices = place.route.devices.len() as u64;
        let size = spec.size.0;
        let per_device = |bytes: u64| bytes.div_ceil(size * devices);
        let blocks = per_device(background.debt.0);
        let deadline = background.deadline.map_or(Nanos::NEVER, |deadline| deadline.nanos());
        let own = ServiceSettings {
            item_blocks: 1,
            cost_per_mille: 1000,
            tied_per_mille: 1000,
            deadline,
            ..SERVICE.row().defaults()
        };
        let mut services: [ServiceSettings; SERVICES_COUNT] = SERVICES.map(|row| row.defaults());
        services[SERVICE as usize] = own;
        let watermark = Watermark {
            low_per_mille: background.low.millionths() / 1000,
            high_per_mille: background.high.millionths() / 1000,
        };
        let is_marked = background.pace == Pace::Watermark;
        let room = if is_marked { background.room.map_or(blocks, |room| per_device(room.0)) } else { u64::MAX };
        let operation = background.request_time.nanos();
        let executor = Executor::new(Settings {
            resource: Resource::Cores(spec.backlog.unwrap_or(1)),
            operation,
            // A slice is one request.
            slice: Nanos::ZERO,
            grace: Nanos::NEVER,
            headroom_units: 0,
            forces: true,
            calm: if background.pace == Pace::Idle { background.calm.nanos() } else { Nanos::ZERO },
            bucket: if is_marked { Bucket::Fixed { watermark, harvests: false } } else { Bucket::Planned },
            pool: Pool { blocks: room, used_blocks: 0, floor_blocks: 0, alarm_blocks: 0 },
            services,
            batches_max: 1,
            directives_max: 0,
        });
        Self {
            class,
            client,
            device: place.route.devices.start + at,
            pace: background.pace,
            is_present: false,
            executor,
            blocks,
            block_bytes: size,
            due_at: Nanos::NEVER,
            deadline,
            sent: VecDeque::new(),
            wake: Nanos::NEVER,
        }
    }

    fn wanted_cores(&self, has_foreground: bool) -> u32 {
        if has_foreground && self.pace == Pace::Idle { u32::MAX } else { 0 }
    }
}

/// All background work of an experiment.
pub(super) struct Background {
    lanes: Vec<Lane>,
    /// No lane is to be asked before.
    wake: Nanos,
}

impl Background {
    pub(super) fn new(experiment: &Experiment, clients: &Clients, places: &[Place]) -> Self {
        let mut lanes = Vec::new();
        for (class, (spec, place)) in experiment.classes.iter().zip(places).enumerate() {
            let Some(background) = &spec.background else { continue };
            for (at, client) in clients.of_class(class).enumerate() {
                lanes.push(Lane::new(spec, background, class, client, place, at));
            }
        }
        Self { lanes, wake: Nanos::NEVER }
    }

    /// The clients of a class come with all that they owe, or leave.
    pub(super) fn begin(&mut self, class: usize, is_present: bool, now: Nanos) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.class == class) {
            if is_present {
                let batch = lane.executor.service(SERVICE).batch(now, lane.blocks);
                lane.executor.incur(now, SERVICE, batch);
                lane.executor.foreground(now, lane.wanted_cores(false));
                lane.due_at = now.after(lane.deadline);
            }
            lane.is_present = is_present;
            lane.wake = if is_present { now } else { Nanos::NEVER };
            self.wake = self.wake.min(lane.wake);
        }
    }

    /// When the next request is sent, as far as that is known.
    pub(super) const fn next_time(&self) -> Nanos {
        self.wake
    }

    /// The client that sends a request now.
    #[inline]
    pub(super) fn next(&mut self, now: Nanos) -> Option<u32> {
        if self.wake > now { None } else { self.poll(now) }
    }

    fn poll(&mut self, now: Nanos) -> Option<u32> {
        for lane in self.lanes.iter_mut().filter(|lane| lane.wake <= now) {
            match lane.executor.poll(now) {
                Step::Run(slice) => {
                    lane.sent.push_back((slice.tag, now));
                    return Some(lane.client);
                }
                Step::WaitUntil(time, _) => lane.wake = time,
                // Requests are not interrupted.
                Step::Idle | Step::Pause(_) | Step::End(_) => lane.wake = Nanos::NEVER,
            }
        }
        self.wake = self.lanes.iter().map(|lane| lane.wake).min().unwrap_or(Nanos::NEVER);
        None
    }

    /// A request of this client has completed.
    pub(super) fn completed(&mut self, client: u32, now: Nanos) {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.client == client) else { return };
        // Requests are alike: which of them it was does not matter.
        if let Some((tag, since)) = lane.sent.pop_front() {
            lane.executor.complete(now, tag, 1, now.since(since));
        }
        if lane.is_present {
            (lane.wake, self.wake) = (now, now);
        }
    }

    /// A device has requests of the foreground from now on, or has none.
    pub(super) fn foreground(&mut self, device: usize, has_any: bool, now: Nanos) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.device == device && lane.pace == Pace::Idle) {
            lane.executor.foreground(now, lane.wanted_cores(has_any));
            if lane.is_present {
                (lane.wake, self.wake) = (now, now);
            }
        }
    }

    /// The debts by class, with the bytes that are left or late at `end`.
    pub(super) fn debts(&self, end: Nanos) -> Vec<(usize, DebtOutcome)> {
        let mut debts: Vec<(usize, DebtOutcome)> = Vec::new();
        for lane in &self.lanes {
            let left = lane.executor.debt_blocks(SERVICE);
            let late = lane.executor.late_blocks() + if lane.due_at <= end { left } else { 0 };
            let owed_bytes = lane.blocks * lane.block_bytes;
            let debt =
                DebtOutcome { owed_bytes, left_bytes: left * lane.block_bytes, late_bytes: late * lane.block_bytes };
            match debts.iter_mut().find(|(class, _)| *class == lane.class) {
                Some((_, sum)) => sum.add(&debt),
                None => debts.push((lane.class, debt)),
            }
        }
        debts
    }
}
