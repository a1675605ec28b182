//! The collector: counts what happens in a run, by operation, by class of clients and by device, in memory that does not
//! grow with the length of the run.

use ioweir_core::{Dispatch, Nanos, Operation, Reason, SECTOR_BYTES, StreamId, Tier, Waiting};

use super::clients::Clients;
use super::course::{HeadTrack, Series};
use super::latencies::{Latencies, StepLatencies};
use super::outcome::{
    Class, ClassOutcome, FastOutcome, HeadPoint, Outcome, ServiceSums, Step, Throughput, TierOutcome,
};
use super::streams::StreamCounters;
use ioweir_device::Service;

/// A record that is done.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// When.
    pub now: Nanos,
    /// When it arrived.
    pub arrival: Nanos,
    pub operation: Operation,
    pub bytes: u64,
    /// The stream that sent it.
    pub stream: StreamId,
}

/// For how long a device has been at work. It may serve several at once: the time when it serves any, not the sum.
#[derive(Clone, Copy, Default)]
struct Busy {
    time: Nanos,
    /// When it has finished all that it was given.
    until: Nanos,
}

impl Busy {
    fn add(&mut self, now: Nanos, finish: Nanos) {
        self.time = self.time.after(finish.since(now.max(self.until)));
        self.until = self.until.max(finish);
    }
}

/// Length, detail and time steps of what is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The end of the warm-up: what is done before is counted in the steps alone.
    pub from: Nanos,
    /// The end of the run at the latest; [`Nanos::NEVER`]: when everything is done.
    pub to: Nanos,
    /// Width of the steps over time by class; [`Nanos::NEVER`]: none are kept.
    pub interval: Nanos,
    /// Whether latencies by operation, throughput over time and the way of the head are kept.
    pub keeps_series: bool,
    /// Whether requests are counted by stream.
    pub by_stream: bool,
    /// Whether the latencies of each class are kept, so that classes can be joined.
    pub keeps_latencies: bool,
}

impl Window {
    /// A run to its end, with all series.
    pub const WHOLE: Self = Self {
        from: Nanos::ZERO,
        to: Nanos::NEVER,
        interval: Nanos::NEVER,
        keeps_series: true,
        by_stream: false,
        keeps_latencies: false,
    };

    fn has_steps(&self) -> bool {
        self.interval < Nanos::NEVER
    }
}

#[derive(Clone, Copy, Default)]
struct TierCounters {
    requests: u64,
    service_nanos: u64,
    busy_nanos: u64,
    /// When all that it was given is done.
    busy_until: Nanos,
}

/// Requests of one operation, without their latencies.
#[derive(Clone, Copy, Default)]
struct OperationCounters {
    requests: u64,
    bytes: u64,
    latency_sum_nanos: u128,
}

impl OperationCounters {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.latency_sum_nanos += other.latency_sum_nanos;
    }
}

/// Counters of a class. Latencies go into those of the current step, and from there into those of the class.
struct ClassCounters {
    counts: ClassOutcome,
    by_operation: [OperationCounters; Operation::ALL.len()],
    latency: Latencies,
    read_latency: Latencies,
    /// Latencies of the current step: of reads, and of all others. A step's end adds them up, so that a request is recorded once.
    step_latency: [StepLatencies; 2],
    step_sum_nanos: u64,
    /// Time in the device in the current step, and in the next.
    device_nanos: [u64; 2],
}

impl ClassCounters {
    fn new(name: &str, clients: u32) -> Self {
        Self {
            counts: ClassOutcome { name: name.into(), clients, ..ClassOutcome::default() },
            by_operation: Default::default(),
            latency: Latencies::default(),
            read_latency: Latencies::default(),
            step_latency: Default::default(),
            step_sum_nanos: 0,
            device_nanos: [0; 2],
        }
    }

    fn end_step(&mut self, is_measured: bool) {
        let [reads, latency] = &mut self.step_latency;
        if is_measured {
            reads.add_to(&mut self.read_latency);
        }
        reads.move_into(latency);
        let requests = latency.len();
        let [p50_nanos, p99_nanos, p999_nanos] = latency.quantiles([0.5, 0.99, 0.999]);
        self.counts.steps.push(Step {
            requests,
            mean_nanos: self.step_sum_nanos.checked_div(requests).unwrap_or(0),
            p50_nanos,
            p99_nanos,
            p999_nanos,
            device_nanos: self.device_nanos[0],
        });
        if is_measured {
            latency.add_to(&mut self.latency);
        }
        latency.clear();
        self.step_sum_nanos = 0;
        self.device_nanos = [self.device_nanos[1], 0];
    }

    fn into_outcome(self, keeps_latencies: bool) -> ClassOutcome {
        let mut all = OperationCounters::default();
        self.by_operation.iter().for_each(|operation| all.add(operation));
        ClassOutcome {
            requests: all.requests,
            reads: self.by_operation[Operation::Read as usize].requests,
            bytes: all.bytes,
            latency_sum_nanos: u64::try_from(all.latency_sum_nanos).unwrap_or(u64::MAX),
            latency_p50_nanos: self.latency.quantile(0.5),
            latency_p99_nanos: self.latency.quantile(0.99),
            read_latency_p99_nanos: self.read_latency.quantile(0.99),
            latency_p999_nanos: self.latency.quantile(0.999),
            latency_max_nanos: self.latency.max(),
            latency: if keeps_latencies { self.latency } else { Latencies::default() },
            ..self.counts
        }
    }
}

/// Everything that is counted during a run.
pub struct Collector {
    window: Window,
    /// Dispatches with which the device is busy: as many as it works on at once, or may hold.
    busy_depth: usize,
    clients: Clients,
    classes: Vec<ClassCounters>,
    /// Requests of each client that were done.
    client_requests: Vec<u64>,
    /// When the current step ends.
    step_end: Nanos,
    streams: StreamCounters,
    latency: [Latencies; Operation::ALL.len()],
    dispatches: u64,
    merged_requests: u64,
    busy: Busy,
    fast: FastOutcome,
    fast_busy: Busy,
    tiers: [TierCounters; Tier::ALL.len()],
    service: ServiceSums,
    service_time: Latencies,
    seeks: u64,
    seek_distance_tracks: u64,
    seek_distance_squares: u128,
    wait_nanos: [u128; Reason::COUNT],
    /// Time in which any request waited, and of that, in which the device could have worked on more.
    waiting_nanos: u64,
    held_back_nanos: u64,
    /// Of the time in which any request waited, that in which the device had none.
    idling_nanos: u64,
    throughput: Series,
    head: HeadTrack,
}

impl Collector {
    /// Counters for these clients, on a device that is busy with `busy_depth` dispatches.
    #[must_use]
    pub fn new(window: Window, clients: Clients, busy_depth: u32) -> Self {
        let class = |class: &super::ClientClass| ClassCounters::new(&class.name, class.clients);
        Self {
            window,
            busy_depth: busy_depth as usize,
            classes: clients.classes().iter().map(class).collect(),
            client_requests: vec![0; clients.count()],
            step_end: window.interval,
            clients,
            streams: StreamCounters::default(),
            latency: Default::default(),
            dispatches: 0,
            merged_requests: 0,
            busy: Busy::default(),
            fast: FastOutcome::default(),
            fast_busy: Busy::default(),
            tiers: Default::default(),
            service: ServiceSums::default(),
            service_time: Latencies::default(),
            seeks: 0,
            seek_distance_tracks: 0,
            seek_distance_squares: 0,
            wait_nanos: [0; Reason::COUNT],
            waiting_nanos: 0,
            held_back_nanos: 0,
            idling_nanos: 0,
            throughput: Series::new(),
            head: HeadTrack::default(),
        }
    }

    fn class(&mut self, stream: StreamId) -> &mut ClassCounters {
        let class = self.clients.class(self.clients.client(stream));
        &mut self.classes[class]
    }

    fn end_steps(&mut self, now: Nanos) {
        while now >= self.step_end && self.window.has_steps() {
            // A step that lies partly in the warm-up counts as a whole, or not: specs are checked for whole steps.
            let is_measured = self.step_end > self.window.from;
            for class in &mut self.classes {
                class.end_step(is_measured);
            }
            self.step_end = self.step_end.after(self.window.interval);
        }
    }

    fn dispatched_fast(&mut self, now: Nanos, dispatch: &Dispatch, finish: Nanos) {
        self.fast_busy.add(now, finish);
        self.fast.busy = self.fast_busy.time;
        self.fast.dispatches += 1;
        let bytes = u64::from(dispatch.sectors) * SECTOR_BYTES;
        match dispatch.operation {
            Operation::Read => self.fast.read_bytes += bytes,
            Operation::Write => self.fast.write_bytes += bytes,
            Operation::Discard | Operation::Flush => {}
        }
    }

    /// The tier of the device that serves a dispatch, and what that means to the class it came from.
    fn served_by_tier(&mut self, now: Nanos, dispatch: &Dispatch, service: &Service) {
        let Window { from, to, .. } = self.window;
        let finish = service.finish;
        let spent = finish.since(now).0.saturating_sub(service.queue_nanos);
        let start = Nanos(finish.0 - spent).max(from);
        let tier = &mut self.tiers[service.tier as usize];
        tier.service_nanos = tier.service_nanos.saturating_add(finish.min(to).since(start).0);
        tier.busy_nanos += finish.min(to).since(start.max(tier.busy_until)).0;
        tier.busy_until = tier.busy_until.max(finish);
        if now >= from {
            tier.requests += 1;
            let is_fast = service.tier == Tier::Fast;
            let class = &mut self.class(dispatch.stream).counts;
            class.dispatched += 1;
            class.device_sum_nanos = class.device_sum_nanos.saturating_add(finish.since(now).0);
            class.fast_requests += u64::from(is_fast);
        }
    }

    /// Counts and latencies by operation, and those of all together.
    fn operations(&mut self) -> (Class, [Class; Operation::ALL.len()]) {
        let mut all = Class::default();
        let by_operation = Operation::ALL.map(|operation| {
            let mut counts = OperationCounters::default();
            self.classes.iter().for_each(|class| counts.add(&class.by_operation[operation as usize]));
            let OperationCounters { requests, bytes, latency_sum_nanos } = counts;
            let latency = std::mem::take(&mut self.latency[operation as usize]);
            all.requests += requests;
            all.bytes += bytes;
            all.latency_sum_nanos += latency_sum_nanos;
            all.latency.add(&latency);
            Class { requests, bytes, latency, latency_sum_nanos }
        });
        (all, by_operation)
    }

    /// Adds what the scheduler and the device of one of several have counted. Requests are counted by the machine.
    pub(crate) fn add_device(&mut self, device: &mut Self) {
        self.end_steps(self.window.to);
        device.end_steps(device.window.to);
        for (class, of_device) in self.classes.iter_mut().zip(&device.classes) {
            for (step, of_device) in class.counts.steps.iter_mut().zip(&of_device.counts.steps) {
                step.device_nanos = step.device_nanos.saturating_add(of_device.device_nanos);
            }
            class.counts.dispatched += of_device.counts.dispatched;
            class.counts.device_sum_nanos =
                class.counts.device_sum_nanos.saturating_add(of_device.counts.device_sum_nanos);
            class.counts.fast_requests += of_device.counts.fast_requests;
        }
        self.dispatches += device.dispatches;
        self.merged_requests += device.merged_requests;
        self.busy.time = self.busy.time.after(device.busy.time);
        self.service.add(&device.service);
        self.seeks += device.seeks;
        self.seek_distance_tracks += device.seek_distance_tracks;
        self.seek_distance_squares += device.seek_distance_squares;
        for (sum, nanos) in self.wait_nanos.iter_mut().zip(device.wait_nanos) {
            *sum += nanos;
        }
        self.waiting_nanos += device.waiting_nanos;
        self.held_back_nanos += device.held_back_nanos;
        self.idling_nanos += device.idling_nanos;
    }

    /// Dispatches to its device, and the time in which that worked on any.
    pub(crate) fn device_work(&self) -> (u64, Nanos) {
        (self.dispatches, self.busy.time)
    }

    /// The counts of the run, with the names of streams; the names of the run, and figures that only the run knows, are left empty.
    #[must_use]
    pub fn into_outcome(mut self, has_fast: bool, names: impl Fn(StreamId) -> String) -> Outcome {
        self.end_steps(self.window.to);
        let (all, by_operation) = self.operations();
        if let [only] = &mut self.classes[..]
            && !self.window.has_steps()
        {
            only.latency = all.latency.clone();
            only.read_latency = by_operation[Operation::Read as usize].latency.clone();
        }
        let tier = |tier: Tier| {
            let TierCounters { requests, service_nanos, busy_nanos, .. } = self.tiers[tier as usize];
            (requests > 0).then(|| TierOutcome { name: tier.name().to_owned(), requests, service_nanos, busy_nanos })
        };
        let conserving = match self.waiting_nanos {
            0 => 1.0,
            waiting => 1.0 - self.held_back_nanos as f64 / waiting as f64,
        };
        Outcome {
            span: self.window.to.since(self.window.from),
            all,
            by_operation,
            streams: self.streams.into_outcomes(|stream| names(StreamId(stream))),
            tiers: Tier::ALL.into_iter().rev().filter_map(tier).collect(),
            dispatches: self.dispatches,
            merged_requests: self.merged_requests,
            fast: has_fast.then_some(self.fast),
            busy: self.busy.time,
            idling: Nanos(self.idling_nanos),
            service: self.service,
            service_time: self.service_time,
            seeks: self.seeks,
            seek_distance_tracks: self.seek_distance_tracks,
            seek_distance_squares: self.seek_distance_squares,
            wait_nanos: self.wait_nanos,
            jain_millionths: millionths(jain(&self.client_requests, &self.clients)),
            conserving_millionths: millionths(conserving),
            throughput: if self.window.keeps_series {
                self.throughput.into_throughput()
            } else {
                Throughput::default()
            },
            head: self.head.points,
            classes: self.classes.into_iter().map(|class| class.into_outcome(self.window.keeps_latencies)).collect(),
            ..Outcome::default()
        }
    }
}

fn millionths(ratio: f64) -> u32 {
    ioweir_config::Ratio::new(ratio.clamp(0.0, 1.0)).map_or(0, ioweir_config::Ratio::millionths)
}

/// Jain's index of what each client got for its weight: 1 if all got the same, and 1/n if one of n got all.
fn jain(requests: &[u64], clients: &Clients) -> f64 {
    let weight = |client: usize| f64::from(clients.classes()[clients.class(client)].weight);
    let gains = || requests.iter().enumerate().map(|(client, requests)| *requests as f64 / weight(client));
    let (sum, squares) = gains().fold((0.0, 0.0), |(sum, squares), gain| (sum + gain, squares + gain * gain));
    if squares == 0.0 { 1.0 } else { sum * sum / (requests.len() as f64 * squares) }
}

/// The reports of the event loop, in the order of simulated time.
impl Collector {
    /// Until `now`, for `span`, this many requests have waited, while the device held `in_device` dispatches.
    pub(super) fn waited(&mut self, now: Nanos, span: Nanos, waiting: &Waiting, in_device: usize) {
        let measured = span.0.min(now.since(self.window.from).0);
        let mut waits = false;
        for (sum, &count) in self.wait_nanos.iter_mut().zip(&waiting.0) {
            if count > 0 {
                *sum += u128::from(measured) * u128::from(count);
                waits = true;
            }
        }
        if waits {
            self.waiting_nanos += measured;
            self.held_back_nanos += if in_device < self.busy_depth { measured } else { 0 };
            self.idling_nanos += if in_device == 0 { measured } else { 0 };
        }
    }

    /// A request has waited this long outside the queue that [`Self::waited`] does not count.
    pub(super) fn waited_outside(&mut self, nanos: u128) {
        self.wait_nanos[Reason::QueueFull as usize] += nanos;
    }

    /// The device has begun a dispatch, and this is how it serves it.
    pub(super) fn dispatched(&mut self, now: Nanos, dispatch: &Dispatch, service: &Service) {
        let Service { finish, overhead_nanos, seek_nanos, rotation_nanos, transfer_nanos, queue_nanos, .. } = *service;
        self.served_by_tier(now, dispatch, service);
        if self.window.has_steps() {
            self.end_steps(now);
            let later = finish.since(self.step_end.max(now)).0;
            let of = &mut self.class(dispatch.stream).device_nanos;
            of[0] = of[0].saturating_add(finish.since(now).0 - later);
            of[1] = of[1].saturating_add(later);
        }
        if now < self.window.from {
            return;
        }
        self.dispatches += 1;
        self.merged_requests += u64::from(dispatch.members - 1);
        if dispatch.tier == Tier::Fast {
            self.dispatched_fast(now, dispatch, finish);
            return;
        }
        self.busy.add(now, finish);
        self.service.overhead_nanos += u128::from(overhead_nanos);
        self.service.seek_nanos += u128::from(seek_nanos);
        self.service.rotation_nanos += u128::from(rotation_nanos);
        self.service.transfer_nanos += u128::from(transfer_nanos);
        self.service.queue_nanos += u128::from(queue_nanos);
        self.seeks += u64::from(service.movements);
        self.seek_distance_tracks += service.movement_tracks;
        self.seek_distance_squares += u128::from(service.movement_squares);
        if !self.window.keeps_series {
            return;
        }
        let service_nanos = overhead_nanos + seek_nanos + rotation_nanos + transfer_nanos + queue_nanos;
        self.service_time.record(service_nanos);
        if dispatch.sectors > 0 {
            let time = Nanos(finish.0 - transfer_nanos);
            self.head.add(HeadPoint { time, track: service.track, operation: dispatch.operation });
        }
    }

    /// The data of a dispatch has been moved.
    pub(super) fn moved(&mut self, now: Nanos, operation: Operation, bytes: u64) {
        if self.window.keeps_series {
            self.throughput.add(now, operation, bytes);
        }
    }

    /// A request was refused, its client being at its limit.
    pub(super) fn refused(&mut self, now: Nanos, stream: StreamId) {
        if now >= self.window.from {
            self.class(stream).counts.refused += 1;
        }
    }

    /// A request as submitted is done.
    pub(super) fn finished(&mut self, finished: &Finished) {
        let Finished { now, arrival, operation, bytes, stream } = *finished;
        if now >= self.step_end {
            self.end_steps(now);
        }
        let latency = now.since(arrival).0;
        let client = self.clients.client(stream);
        let class = &mut self.classes[self.clients.class(client)];
        if self.window.has_steps() {
            class.step_latency[usize::from(operation != Operation::Read)].record(latency);
            class.step_sum_nanos += latency;
        }
        if now < self.window.from {
            return;
        }
        self.client_requests[client] += 1;
        class.by_operation[operation as usize].add(&OperationCounters {
            requests: 1,
            bytes,
            latency_sum_nanos: latency.into(),
        });
        if self.window.keeps_series {
            self.latency[operation as usize].record(latency);
        }
        if self.window.by_stream {
            self.streams.finished(stream.0, bytes, latency);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_when_anything_is_in_the_device() {
        let request = ioweir_core::Request {
            operation: Operation::Read,
            flags: ioweir_core::Flags::NONE,
            stream: ioweir_core::StreamId(0),
            sector: 0,
            sectors: 8,
        };
        let mut collector = Collector::new(Window::WHOLE, Clients::of_trace(String::new()), 1);
        for (now, finish) in [(0, 10), (5, 8), (6, 14), (20, 30)] {
            let service = Service { finish: Nanos(finish), transfer_nanos: finish - now, ..Service::default() };
            collector.dispatched(Nanos(now), &Dispatch::alone(&request), &service);
        }
        assert_eq!(collector.busy.time, Nanos(24));
        assert_eq!(collector.service.transfer_nanos, 10 + 3 + 8 + 10);
    }

    #[test]
    fn jains_index_spans_equals_to_one_winner() {
        let jain = |requests: &[u64], weights: &[u32]| {
            let class = |weight: &u32| super::super::ClientClass {
                name: String::new(),
                clients: 1,
                weight: *weight,
                keeps_streams: false,
            };
            jain(requests, &Clients::new(weights.iter().map(class).collect()))
        };
        assert!((jain(&[5, 5, 5, 5], &[1; 4]) - 1.0).abs() < 1e-12);
        assert!((jain(&[5, 0, 0, 0], &[1; 4]) - 0.25).abs() < 1e-12);
        assert!((jain(&[10, 20], &[1, 2]) - 1.0).abs() < 1e-12);
        assert!((jain(&[], &[]) - 1.0).abs() < 1e-12);
    }
}
