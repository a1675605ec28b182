//! Simulates days of a foreground on one device with background work beside it: run by the governor, and in the simple ways. Prints a row of
//! JSON for each case. `experiments/background/governed/run` builds it, keeps the rows and judges them.
//!
//! Devices serve without preemption. A disk seeks and rotates; with command queueing it has up to `depth` requests and takes the one that
//! it reaches first. A flash drive has eight dies, each with a queue. Time is compressed: the governor's day of 24 hours is played in
//! less time of the device, with as much less work.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an experiment: a failure is to stop it"
)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use ioweir_background::govern::{GovernSpec, Governor, Sample, Slice, State, Step};
use ioweir_core::Nanos;
use ioweir_core::random::SplitMix;

/// Looks of the governor in a day, ten seconds apart.
const TICKS_OF_A_DAY: usize = 8640;
const HOURS: usize = 24;
/// Days that are played, after one that is not measured.
const DAYS: usize = 5;
/// Monday, 2026-03-02 00:00 UTC.
const MONDAY: u64 = 1_772_409_600;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SHARES: [f64; 4] = [0.3, 0.6, 0.9, 0.95];
/// The hour at which each day's work is released, and the day before's is due.
const RELEASE: usize = 8;
/// The longest request of the governor's worker.
const GOVERNED_BYTES: u64 = 64 * KIB;
/// The longest request of its worker while it is behind.
const GOVERNED_LATE_BYTES: u64 = MIB;

/// An exponentially distributed number.
fn exponential(random: &mut SplitMix, mean: f64) -> f64 {
    -(1.0 - random.unit()).ln() * mean
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Device {
    Disk { depth: usize },
    Flash { writes: bool },
}

impl Device {
    const ALL: [(&'static str, Self); 4] = [
        ("disk", Self::Disk { depth: 1 }),
        ("disk-ncq", Self::Disk { depth: 32 }),
        ("flash-reads", Self::Flash { writes: false }),
        ("flash-writes", Self::Flash { writes: true }),
    ];

    /// How much faster than the clock a day passes.
    const fn speed(self) -> u64 {
        if let Self::Disk { .. } = self { 48 } else { 1440 }
    }

    /// The mean time of a request of the foreground alone, of the whole device.
    const fn service_seconds(self) -> f64 {
        if let Self::Disk { .. } = self { 9.2e-3 } else { 0.31e-3 / 8.0 }
    }
}

/// A shape of the day: loads by hour, as shares of what the device does one request at a time.
type Shape = (&'static str, [f64; HOURS]);

fn shapes() -> [Shape; 3] {
    let of = |load: &dyn Fn(usize) -> f64| std::array::from_fn(load);
    let bump = |hour: usize, at: f64, width: f64| (-((hour as f64 - at) / width).powi(2)).exp();
    [
        ("two-peaks", of(&|hour| 0.08 + 0.6 * (bump(hour, 10.0, 2.0) + bump(hour, 15.5, 2.0)).min(1.0))),
        ("nocturnal", of(&|hour| if !(4..22).contains(&hour) { 0.7 } else { 0.2 })),
        ("flat", of(&|_| 0.5)),
    ]
}

#[derive(Clone, Copy)]
struct Request {
    at: f64,
    place: f64,
    angle: f64,
    writes: bool,
}

/// The arrivals from `first_hour` of the first day on, in seconds of the device.
fn arrivals(device: Device, shape: &[f64; HOURS], first_hour: usize, seed: u64) -> Vec<Request> {
    let mut random = SplitMix::new(seed);
    let hour_seconds = 3600.0 / device.speed() as f64;
    let mut all = Vec::new();
    for hour in 0..HOURS * (DAYS + 1) {
        // Hours of different days differ a little.
        let load = shape[(first_hour + hour) % HOURS] * (0.9 + 0.2 * random.unit());
        let (mut at, end) = (hour as f64 * hour_seconds, (hour + 1) as f64 * hour_seconds);
        let gap = device.service_seconds() / load.max(0.01);
        loop {
            at += exponential(&mut random, gap);
            if at >= end {
                break;
            }
            let (place, angle) = (random.unit(), random.unit());
            all.push(Request { at, place, angle, writes: random.unit() < 0.3 });
        }
    }
    all
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    None,
    /// A hundredth of the foreground's weight.
    Weight(u64),
    /// Starts only while the foreground has nothing.
    Idle(u64),
    /// An idle class that runs from midnight to six.
    Nightly(u64),
    Governed,
}

impl Way {
    const ALL: [(&'static str, Self); 7] = [
        ("none", Self::None),
        ("weight-1M", Self::Weight(MIB)),
        ("idle-1M", Self::Idle(MIB)),
        ("idle-64K", Self::Idle(64 * KIB)),
        ("nightly-1M", Self::Nightly(MIB)),
        ("nightly-64K", Self::Nightly(64 * KIB)),
        ("governed", Self::Governed),
    ];
}

/// A governor of the scrub, with its worker.
struct Governed {
    governor: Governor,
    speed: u64,
    begun: u64,
    running: Option<Slice>,
    /// When the governor has something to do, in seconds of the device.
    wakes_at: f64,
    paid: u64,
    looked: f64,
    busy_seconds: f64,
    own_seconds: f64,
    took_seconds: f64,
    kept: State,
    kills: SplitMix,
}

impl Governed {
    fn new(device: Device, shape: &[f64; HOURS], first_hour: usize, work: u64) -> Self {
        let speed = device.speed();
        let begun = MONDAY + first_hour as u64 * 3600;
        let text = format!(
            "calm = \"10s\"\n[service.scrub]\nowed = \"{}B\"\nevery = \"1d\"\ndeadline = \"1d\"\nexpected_rate = \"{}\"\n\
             [forecast]\nhorizon = \"2d\"\n",
            work * speed,
            if let Device::Disk { .. } = device { "100MB/s" } else { "300MB/s" },
        );
        let spec = GovernSpec::parse("simulated", &text).unwrap();
        let mut governor = Governor::new(&spec, Nanos::from_seconds(begun)).unwrap();
        let bin = Nanos::from_seconds(600);
        governor.recall((0..3 * 144).rev().map(|back| {
            let end = begun - back * 600;
            let load = shape[((end - 600) / 3600 % 24) as usize];
            let busy = Nanos((bin.0 as f64 * load) as u64);
            (
                Nanos::from_seconds(end),
                Sample { span: bin, busy, background_busy: Some(Nanos::ZERO), ..Sample::default() },
            )
        }));
        let kept = governor.state();
        let kills = SplitMix::new(5);
        Self {
            governor,
            speed,
            begun,
            running: None,
            wakes_at: 0.0,
            paid: 0,
            looked: 0.0,
            busy_seconds: 0.0,
            own_seconds: 0.0,
            took_seconds: 0.0,
            kept,
            kills,
        }
    }

    fn time(&self, now: f64) -> Nanos {
        Nanos(self.begun * 1_000_000_000 + (now * 1e9 * self.speed as f64) as u64)
    }

    fn longer(&self, seconds: f64) -> Nanos {
        Nanos((seconds * 1e9 * self.speed as f64) as u64)
    }

    /// Ten seconds of the governor.
    fn tick(&mut self, now: f64, left: u64) {
        let time = self.time(now);
        let service = ioweir_background::govern::Service::Scrub;
        if self.kills.unit() < 3.0 / TICKS_OF_A_DAY as f64 {
            // Killed: the next one goes on from the state of at most a minute before, and no slice runs.
            let spec = self.governor.spec().clone();
            let state: State = serde_json::from_str(&serde_json::to_string(&self.kept).unwrap()).unwrap();
            self.governor = Governor::resume(&spec, time, state).unwrap();
            let open: Vec<_> = self.governor.running().map(|slice| slice.tag).collect();
            for tag in open {
                self.governor.complete(time, tag, 0, Nanos::ZERO);
            }
            self.running = None;
        }
        let span = self.longer(now - self.looked);
        let sample = Sample {
            span,
            busy: self.longer(self.busy_seconds + self.own_seconds).min(span),
            background_busy: Some(self.longer(self.own_seconds).min(span)),
            ..Sample::default()
        };
        (self.looked, self.busy_seconds, self.own_seconds) = (now, 0.0, 0.0);
        self.governor.sample(time, &sample);
        if left == 0 {
            // A worker that has finished ends its slice.
            self.close(now);
        }
        self.governor.owes(time, service, (left + self.paid) * self.speed);
        self.poll(now);
        if self.time(now).0 / 60_000_000_000 != self.time(now - 10.0 / self.speed as f64).0 / 60_000_000_000 {
            self.kept = self.governor.state();
        }
    }

    fn poll(&mut self, now: f64) {
        let time = self.time(now);
        loop {
            match self.governor.poll(time) {
                Step::Run(slice) => {
                    (self.running, self.paid, self.took_seconds) = (Some(slice), 0, 0.0);
                }
                Step::Pause(_) | Step::End(_) => self.close(now),
                Step::WaitUntil(at, _) | Step::Idle(at) => {
                    self.wakes_at = at.since(Nanos::from_seconds(self.begun)).as_seconds() / self.speed as f64;
                    return;
                }
            }
        }
    }

    fn close(&mut self, now: f64) {
        if let Some(slice) = self.running.take() {
            let took = self.longer(self.took_seconds);
            self.governor.complete(self.time(now), slice.tag, self.paid * self.speed, took);
            self.paid = 0;
        }
    }

    /// The background has done so much, in so much time of the device.
    fn done(&mut self, now: f64, bytes: u64, seconds: f64) {
        self.paid += bytes;
        self.own_seconds += seconds;
        self.took_seconds += seconds;
        if self.running.is_some_and(|slice| self.paid * self.speed >= slice.bytes) {
            self.close(now);
            self.poll(now);
        }
    }
}

struct Outcome {
    /// Latencies in the busy hours and in all, in seconds.
    busy: Vec<f64>,
    all: Vec<f64>,
    done: u64,
    missed: usize,
    missed_share: f64,
}

struct World<'a> {
    device: Device,
    way: Way,
    shape: &'a [f64; HOURS],
    first_hour: usize,
    /// The bytes of a day's work.
    work: u64,
    left: u64,
    governed: Option<Governed>,
    outcome: Outcome,
    hour_seconds: f64,
}

impl<'a> World<'a> {
    fn new(device: Device, way: Way, (shape, first_hour): (&'a [f64; HOURS], usize), work: u64) -> Self {
        let governed = (way == Way::Governed).then(|| Governed::new(device, shape, first_hour, work));
        let outcome = Outcome { busy: Vec::new(), all: Vec::new(), done: 0, missed: 0, missed_share: 0.0 };
        let hour_seconds = 3600.0 / device.speed() as f64;
        Self { device, way, shape, first_hour, work, left: work, governed, outcome, hour_seconds }
    }

    fn hour(&self, at: f64) -> usize {
        (self.first_hour + (at / self.hour_seconds) as usize) % HOURS
    }

    fn is_measured(&self, at: f64) -> bool {
        at >= self.hour_seconds * HOURS as f64
    }

    /// The length of the next background request, if one may be made as far as the way goes.
    fn chunk(&self, now: f64) -> Option<u64> {
        let chunk = match self.way {
            Way::None => return None,
            Way::Weight(chunk) | Way::Idle(chunk) => chunk,
            Way::Nightly(chunk) => (self.hour(now) < 6).then_some(chunk)?,
            Way::Governed => {
                let governed = self.governed.as_ref()?;
                let slice = governed.governor.running().next()?;
                if slice.is_behind { GOVERNED_LATE_BYTES } else { GOVERNED_BYTES }
            }
        };
        (self.left > 0).then(|| chunk.min(self.left))
    }

    fn served(&mut self, request: &Request, end: f64, seconds: f64) {
        if let Some(governed) = &mut self.governed {
            governed.busy_seconds += seconds;
        }
        if self.is_measured(request.at) {
            let load_max = self.shape.iter().copied().fold(0.0, f64::max);
            let latency = end - request.at;
            self.outcome.all.push(latency);
            if self.shape[self.hour(request.at)] >= load_max / 2.0 {
                self.outcome.busy.push(latency);
            }
        }
    }

    fn worked(&mut self, now: f64, bytes: u64, seconds: f64) {
        self.left -= bytes.min(self.left);
        if self.is_measured(now) {
            self.outcome.done += bytes;
        }
        if let Some(governed) = &mut self.governed {
            governed.done(now, bytes, seconds);
        }
    }

    /// Ten seconds of the day have passed: the governor looks, and at the end of a day its work is released anew.
    fn tick(&mut self, tick: usize, tick_seconds: f64) {
        if let Some(governed) = &mut self.governed {
            governed.tick(tick as f64 * tick_seconds, self.left);
        }
        if tick.is_multiple_of(TICKS_OF_A_DAY) {
            self.release(tick / TICKS_OF_A_DAY);
        }
    }

    /// When the governor is to be asked, at the latest.
    fn wakes_at(&self) -> f64 {
        self.governed.as_ref().map_or(f64::INFINITY, |governed| governed.wakes_at)
    }

    fn wake(&mut self, now: f64) {
        if let Some(governed) = self.governed.as_mut().filter(|governed| governed.wakes_at <= now) {
            governed.poll(now);
        }
    }

    /// A day is over: what is left is late, and the next work is released.
    fn release(&mut self, day: usize) {
        if day > 1 && self.left > 0 && self.work < u64::MAX / 4 {
            self.outcome.missed += 1;
            self.outcome.missed_share += self.left as f64 / self.work as f64 / DAYS as f64;
        }
        self.left = self.work;
    }

    fn run(mut self, arrivals: &[Request]) -> Outcome {
        match self.device {
            Device::Disk { depth } => self.run_disk(depth, arrivals),
            Device::Flash { writes } => self.run_flash(writes, arrivals),
        }
        self.release(DAYS + 1);
        self.outcome
    }

    fn run_disk(&mut self, depth: usize, arrivals: &[Request]) {
        let tick_seconds = 10.0 / self.device.speed() as f64;
        let (mut now, mut next, mut tick) = (0.0_f64, 0, 0);
        let mut queue: VecDeque<Request> = VecDeque::new();
        let mut inside: Vec<Request> = Vec::new();
        let mut head = 0.0;
        let mut disk = Head { background: 0.5, at_background: false };
        // With weights: the virtual time of each.
        let (mut of_foreground, mut of_background) = (0.0_f64, 0.0_f64);
        let end = self.hour_seconds * (HOURS * (DAYS + 1)) as f64;
        while now < end {
            while (tick + 1) as f64 * tick_seconds <= now {
                tick += 1;
                self.tick(tick, tick_seconds);
            }
            self.wake(now);
            while next < arrivals.len() && arrivals[next].at <= now {
                queue.push_back(arrivals[next]);
                next += 1;
            }
            while inside.len() < depth
                && let Some(request) = queue.pop_front()
            {
                inside.push(request);
            }
            let chunk = self.chunk(now);
            let is_background_next = match self.way {
                // A free place in the device is the background's, too; at depth one the virtual times decide.
                Way::Weight(_) if depth > 1 => inside.len() < depth,
                Way::Weight(_) => inside.is_empty() || of_background < of_foreground,
                _ => inside.is_empty(),
            };
            let reach = |request: &Request, now: f64| disk.reach(head, request.place, request.angle, now);
            let best = (0..inside.len())
                .min_by(|left, right| reach(&inside[*left], now).total_cmp(&reach(&inside[*right], now)));
            let background =
                chunk.filter(|_| is_background_next).map(|chunk| (chunk, disk.reach_background(head, now)));
            // Beside others in the device, the background is taken when it is reached first.
            let background = background.filter(|(_, reach_background)| {
                depth == 1
                    || best.is_none_or(|best| !disk.at_background && *reach_background <= reach(&inside[best], now))
            });
            if let Some((chunk, reach)) = background {
                let seconds = reach + chunk as f64 / 180e6;
                now += seconds;
                head = disk.background;
                disk.at_background = true;
                disk.background = (disk.background + chunk as f64 / 4e11) % 1.0;
                of_background = of_background.max(of_foreground - 1.0) + chunk as f64 * 100.0;
                self.worked(now, chunk, seconds);
            } else if let Some(best) = best {
                let request = inside.swap_remove(best);
                let seconds = reach(&request, now) + 8192.0 / 180e6;
                now += seconds;
                (head, disk.at_background) = (request.place, false);
                of_foreground += 8192.0;
                self.served(&request, now, seconds);
            } else {
                let arrival = arrivals.get(next).map_or(end, |request| request.at);
                now = arrival.min((tick + 1) as f64 * tick_seconds).min(self.wakes_at()).max(now + 1e-9);
            }
        }
    }

    fn run_flash(&mut self, writes: bool, arrivals: &[Request]) {
        let tick_seconds = 10.0 / self.device.speed() as f64;
        let end = self.hour_seconds * (HOURS * (DAYS + 1)) as f64;
        let mut dies = [0.0_f64; 8];
        let (mut next, mut tick) = (0, 0);
        let mut random = SplitMix::new(11);
        // When requests of the foreground end, those of the background, and the length of each of the latter.
        let mut foreground: VecDeque<f64> = VecDeque::new();
        let mut background: Option<(f64, u64, f64)> = None;
        let mut now = 0.0_f64;
        let mut written = 0_u64;
        while now < end {
            while (tick + 1) as f64 * tick_seconds <= now {
                tick += 1;
                self.tick(tick, tick_seconds);
            }
            self.wake(now);
            if let Some((ends, bytes, seconds)) = background
                && ends <= now
            {
                background = None;
                self.worked(now, bytes, seconds);
            }
            foreground.retain(|ends| *ends > now);
            while next < arrivals.len() && arrivals[next].at <= now {
                let request = arrivals[next];
                next += 1;
                let die = (request.place * 8.0) as usize;
                let seconds = if request.writes { 0.8e-3 } else { 0.1e-3 };
                dies[die] = dies[die].max(request.at) + seconds;
                foreground.push_back(dies[die]);
                self.served(&request, dies[die], seconds / 8.0);
            }
            // An idle class of a flash drive starts beside up to two requests of the foreground, which is a third of the dies.
            let may = match self.way {
                Way::Weight(_) => true,
                _ => foreground.len() <= 2,
            };
            if background.is_none()
                && may
                && let Some(chunk) = self.chunk(now)
            {
                let mut last = now;
                let mut busy = 0.0;
                for _ in 0..chunk.div_ceil(16 * KIB) {
                    let die = (random.draw() % 8) as usize;
                    let mut seconds = if writes { 0.8e-3 } else { 0.1e-3 };
                    written += 1;
                    // One page in 64 of what is written pays for a collection.
                    if writes && written.is_multiple_of(64) {
                        seconds += 5e-3;
                    }
                    dies[die] = dies[die].max(now) + seconds;
                    busy += seconds / 8.0;
                    last = last.max(dies[die]);
                }
                background = Some((last, chunk, busy));
            }
            let arrival = arrivals.get(next).map_or(end, |request| request.at);
            let ended = background.map_or(end, |(ends, _, _)| ends);
            // The background may start again when a request of the foreground ends.
            let freed = match background {
                None if self.chunk(now).is_some() => foreground.iter().copied().fold(end, f64::min),
                _ => end,
            };
            let tick_end = (tick + 1) as f64 * tick_seconds;
            now = arrival.min(ended).min(freed).min(tick_end).min(self.wakes_at()).max(now + 1e-9);
        }
    }
}

/// Where the background reads next, and whether the head is there.
struct Head {
    background: f64,
    at_background: bool,
}

impl Head {
    const TURN: f64 = 1.0 / 120.0;

    /// The time from now until a place passes under the head.
    fn reach(&self, head: f64, place: f64, angle: f64, now: f64) -> f64 {
        let seek = 0.5e-3 + 8e-3 * (place - head).abs().sqrt();
        let turned = (angle - (now + seek) / Self::TURN).rem_euclid(1.0);
        seek + turned * Self::TURN
    }

    fn reach_background(&self, head: f64, now: f64) -> f64 {
        if self.at_background { 0.0 } else { self.reach(head, self.background, self.background * 1e6 % 1.0, now) }
    }
}

fn quantile(values: &mut [f64], quantile: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * quantile) as usize]
}

/// The rows of one shape, seed and device: the ways at each share of what an idle class with short requests does.
fn cases(seed: u64, (name, shape): &Shape, (title, device): (&str, Device)) -> Vec<String> {
    let arrivals = arrivals(device, shape, RELEASE, seed);
    let play = |way: Way, work: u64| World::new(device, way, (shape, RELEASE), work).run(&arrivals);
    let whole = play(Way::Idle(64 * KIB), u64::MAX / 2).done / DAYS as u64;
    let mut none = play(Way::None, 1);
    let (none_busy, none_p50) = (quantile(&mut none.busy, 0.99), quantile(&mut none.all, 0.5));
    let mut rows = Vec::new();
    for share in SHARES {
        let work = (whole as f64 * share) as u64;
        for (way_name, way) in Way::ALL.into_iter().filter(|(_, way)| *way != Way::None) {
            let mut outcome = play(way, work);
            let (busy_p99, p50) = (quantile(&mut outcome.busy, 0.99), quantile(&mut outcome.all, 0.5));
            rows.push(format!(
                "{{\"seed\":{seed},\"shape\":\"{name}\",\"device\":\"{title}\",\"share\":{share},\"way\":\"{way_name}\",\
                 \"busy_p99_ms\":{:.4},\"busy_p99_over_none\":{:.4},\"p50_over_none\":{:.4},\"days_missed\":{},\
                 \"missed_percent\":{:.3},\"requests\":{}}}",
                busy_p99 * 1e3,
                busy_p99 / none_busy,
                p50 / none_p50,
                outcome.missed,
                100.0 * outcome.missed_share,
                outcome.busy.len(),
            ));
        }
    }
    rows
}

/// The seeds are arguments; names of shapes and devices among them leave out the others.
fn main() {
    let (seeds, names): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.parse::<u64>().is_ok());
    let is_meant = |name: &str, all: &[&str]| {
        names.iter().any(|named| named == name) || !all.iter().any(|of| names.iter().any(|named| named == of))
    };
    let shapes = shapes();
    let (shape_names, device_names) = (shapes.each_ref().map(|shape| shape.0), Device::ALL.map(|device| device.0));
    let mut jobs = Vec::new();
    for seed in seeds.iter().map(|seed| seed.parse().unwrap()) {
        for shape in shapes.iter().filter(|shape| is_meant(shape.0, &shape_names)) {
            let devices = Device::ALL.into_iter().filter(|device| is_meant(device.0, &device_names));
            jobs.extend(devices.map(|device| (seed, *shape, device)));
        }
    }
    let (next, jobs) = (AtomicUsize::new(0), &jobs);
    let work = || {
        let mut rows = Vec::new();
        while let Some((seed, shape, device)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            rows.extend(cases(*seed, shape, *device));
            eprintln!("seed {seed}, {}, {}", shape.0, device.0);
        }
        rows
    };
    let mut rows = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    rows.sort();
    rows.iter().for_each(|row| println!("{row}"));
}
