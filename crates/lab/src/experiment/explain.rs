//! The story of one request: runs the experiment once more, and records the rules that held the request and for how long, the requests that
//! were served meanwhile, and the device's work on it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use ioweir_core::policy::Policy;
use ioweir_core::tenant::{Explanation, Rule};
use ioweir_core::{Dispatch, Nanos, Operation, Reason, Scheduler, StreamId, Tag};

use super::run::jobs;
use super::spec::Experiment;
use crate::run::{RunError, Silent};
use crate::sim::{Clients, Layer, LayerTimes, Observer};
use ioweir_config::unknown;
use ioweir_config::{Size, format_count, format_nanos};
use ioweir_device::Service;
use ioweir_trace::Record;

/// The number of other requests that are named at the beginning, and at the end, of a list.
const NAMED: usize = 3;

/// Which request is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one with this number, from zero in the order of arrival.
    Request(u64),
    /// The slowest of a class that arrived after the warm-up and was done before the end.
    Slowest(String),
    /// The slowest request of all classes.
    SlowestOfAll,
}

impl Which {
    /// The request that is meant by its number, by the name of a class, or by `all`.
    #[must_use]
    pub fn named(text: &str) -> Self {
        match text.parse() {
            Ok(number) => Self::Request(number),
            Err(_) if text == "all" => Self::SlowestOfAll,
            Err(_) => Self::Slowest(text.to_owned()),
        }
    }
}

/// The story of one request of an experiment, in words: under its first scheduler, with its first seed.
///
/// # Errors
/// [`RunError`] if the experiment cannot be run or has a sweep, or if there is no such request.
pub fn explain(experiment: &Experiment, which: &Which) -> Result<String, RunError> {
    if !experiment.sweep.is_empty() {
        let problem = "the experiment has a sweep\n  expected: one without, whose requests are the same in every run";
        return Err(RunError::Value(format!("{problem}\n\nhint: take the sweep out of the file")));
    }
    let jobs = jobs(experiment)?;
    let job = jobs.first().ok_or_else(|| RunError::Value("the experiment names no scheduler".into()))?;
    let clients = job.clients();
    let number = match which {
        Which::Request(number) => *number,
        Which::Slowest(class) if !experiment.classes.iter().any(|known| known.name == *class) => {
            let names: Vec<&str> = experiment.classes.iter().map(|class| class.name.as_str()).collect();
            return Err(unknown("class", class, &names, "").into());
        }
        Which::Slowest(_) | Which::SlowestOfAll => {
            let mut slowest = Slowest::new(experiment, which, &clients);
            job.run(false, &Silent, &mut slowest)?;
            let found = slowest.found.map(|found| found.1);
            found.ok_or_else(|| RunError::Value("no such request was done after the warm-up".into()))?
        }
    };
    let mut story = Story::new(number, &clients);
    let (cell, _) = job.run(false, &Silent, &mut story)?;
    let Some(arrival) = story.arrival else {
        let problem = format!("there is no request {number}");
        return Err(RunError::Value(format!("{problem}\n  expected: a number below {}", story.arrived)));
    };
    let own_device = story.own_device.and_then(|device| cell.devices.get(device));
    let scheduler = own_device.map_or(&cell.scheduler, |device| &device.scheduler);
    Ok(story.tell(arrival, scheduler, own_device.map_or("the device", |device| &device.name)))
}

fn class_name(clients: &Clients, stream: StreamId) -> &str {
    &clients.classes()[clients.class(clients.client(stream))].name
}

/// `database`, or `web client 17` if the class has several.
fn client_name(clients: &Clients, stream: StreamId) -> String {
    clients.client_name(clients.client(stream))
}

/// Looks for the slowest request.
struct Slowest<'a> {
    clients: &'a Clients,
    class: Option<&'a str>,
    from: Nanos,
    live: BTreeMap<u64, (Nanos, StreamId)>,
    /// Latency and number.
    found: Option<(Nanos, u64)>,
}

impl<'a> Slowest<'a> {
    fn new(experiment: &Experiment, which: &'a Which, clients: &'a Clients) -> Self {
        let class = if let Which::Slowest(class) = which { Some(class.as_str()) } else { None };
        Self { clients, class, from: experiment.warm_up.nanos(), live: BTreeMap::new(), found: None }
    }
}

impl<S> Observer<S> for Slowest<'_> {
    fn arrived(&mut self, number: u64, record: &Record, arrival: Nanos) {
        let is_asked = self.class.is_none_or(|class| class_name(self.clients, record.stream) == class);
        if arrival >= self.from && is_asked {
            self.live.insert(number, (arrival, record.stream));
        }
    }

    fn finished(&mut self, number: u64, now: Nanos) {
        let Some((arrival, _)) = self.live.remove(&number) else { return };
        let latency = now.since(arrival);
        if self.found.is_none_or(|(slowest, _)| latency > slowest) {
            self.found = Some((latency, number));
        }
    }
}

/// The cause that held the request for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Held {
    /// A tenant policy says by which rule.
    Rule(Explanation),
    /// A block policy only counts who waits for what.
    Counted([u32; Reason::COUNT]),
}

/// The events in the life of one request.
struct Story<'a> {
    number: u64,
    clients: &'a Clients,
    arrived: u64,
    record: Option<Record>,
    arrival: Option<Nanos>,
    submitted: Option<Nanos>,
    dispatched: Option<Nanos>,
    service: Option<Service>,
    finished: Option<Nanos>,
    refused: Option<Nanos>,
    /// In a machine: the device of the calls that follow, and the one that the request went to.
    device: Option<usize>,
    own_device: Option<usize>,
    tag: Option<Tag>,
    now: Nanos,
    /// The request of each tag, by device.
    numbers: Vec<Vec<u64>>,
    /// The request's time by layer, in a machine.
    times: Option<LayerTimes>,
    /// The number of times that it came back from its device to go there again, and its time by layer until the last of them.
    returns: u32,
    before: LayerTimes,
    /// The cause that holds the request now, and since when.
    held: Option<(Nanos, Held)>,
    first: Option<Explanation>,
    last: Option<Explanation>,
    by_rule: Vec<(Rule, Nanos)>,
    by_reason: [u128; Reason::COUNT],
    /// The requests that went first meanwhile: their number by class, and the first and the last of them.
    passed: BTreeMap<String, u64>,
    first_passed: Vec<(u64, StreamId, Nanos)>,
    last_passed: VecDeque<(u64, StreamId, Nanos)>,
    passed_count: u64,
}

impl<'a> Story<'a> {
    fn new(number: u64, clients: &'a Clients) -> Self {
        Self {
            number,
            clients,
            arrived: 0,
            record: None,
            arrival: None,
            submitted: None,
            dispatched: None,
            service: None,
            finished: None,
            refused: None,
            device: None,
            own_device: None,
            tag: None,
            now: Nanos::ZERO,
            numbers: Vec::new(),
            times: None,
            returns: 0,
            before: LayerTimes::default(),
            held: None,
            first: None,
            last: None,
            by_rule: Vec::new(),
            by_reason: [0; Reason::COUNT],
            passed: BTreeMap::new(),
            first_passed: Vec::new(),
            last_passed: VecDeque::new(),
            passed_count: 0,
        }
    }

    /// The request that a tag stands for on the device of this call.
    fn of_tag(&self, tag: Tag) -> u64 {
        self.numbers
            .get(self.device.unwrap_or(0))
            .and_then(|numbers| numbers.get(tag.index()))
            .copied()
            .unwrap_or(u64::MAX)
    }

    /// Whether the device of this call is the request's own.
    fn is_own_device(&self) -> bool {
        self.device == self.own_device
    }

    fn waits(&self) -> bool {
        self.arrival.is_some() && self.dispatched.is_none() && self.refused.is_none()
    }

    /// Charges the time up to `now` to what held it.
    fn charge(&mut self, now: Nanos) {
        let Some((since, held)) = self.held.take() else { return };
        let span = now.since(since);
        match held {
            Held::Rule(explanation) => match self.by_rule.iter_mut().find(|(rule, _)| *rule == explanation.rule) {
                Some((_, sum)) => *sum = sum.after(span),
                None => self.by_rule.push((explanation.rule, span)),
            },
            Held::Counted(counts) => {
                for (sum, count) in self.by_reason.iter_mut().zip(counts) {
                    *sum += u128::from(span.0) * u128::from(count);
                }
            }
        }
    }
}

impl Observer<Policy> for Story<'_> {
    fn device(&mut self, device: usize) {
        self.device = Some(device);
    }

    fn arrived(&mut self, number: u64, record: &Record, arrival: Nanos) {
        self.arrived = number + 1;
        if number == self.number {
            (self.record, self.arrival) = (Some(*record), Some(arrival));
        }
    }

    fn submitted(&mut self, number: u64, tag: Tag, _sector: u64, _sectors: u32) {
        let device = self.device.unwrap_or(0);
        if self.numbers.len() <= device {
            self.numbers.resize(device + 1, Vec::new());
        }
        let numbers = &mut self.numbers[device];
        if numbers.len() <= tag.index() {
            numbers.resize(tag.index() + 1, 0);
        }
        numbers[tag.index()] = number;
        // If a request is sent in parts, the last is told of.
        if number == self.number {
            (self.own_device, self.tag) = (self.device, Some(tag));
        }
    }

    fn dispatched(&mut self, now: Nanos, dispatch: &Dispatch, members: &[Tag]) {
        if !self.is_own_device() {
            return;
        }
        if self.tag.is_some_and(|tag| members.contains(&tag)) {
            self.charge(now);
            self.dispatched = Some(now);
        } else if self.waits() {
            let entry = (self.of_tag(dispatch.tag), dispatch.stream, now);
            *self.passed.entry(class_name(self.clients, dispatch.stream).to_owned()).or_default() += 1;
            self.passed_count += 1;
            if self.first_passed.len() < NAMED {
                self.first_passed.push(entry);
            } else {
                if self.last_passed.len() == NAMED {
                    self.last_passed.pop_front();
                }
                self.last_passed.push_back(entry);
            }
        }
    }

    fn started(&mut self, _now: Nanos, dispatch: &Dispatch, service: &Service) {
        let is_own = self.is_own_device() && self.of_tag(dispatch.tag) == self.number;
        if is_own && self.service.is_none() && self.dispatched.is_some() {
            self.service = Some(*service);
        }
    }

    fn refused(&mut self, number: u64, _sectors: u32, _last: bool, now: Nanos) {
        if number == self.number {
            self.refused = Some(now);
        }
    }

    fn missed_again(&mut self, number: u64, times: &LayerTimes) {
        if number == self.number {
            // The last time is told of.
            let Self { number, clients, arrived, record, arrival, now, .. } = *self;
            let (returns, numbers) = (self.returns + 1, std::mem::take(&mut self.numbers));
            let fresh = Self::new(number, clients);
            *self = Self { arrived, record, arrival, now, returns, before: *times, numbers, ..fresh };
        }
    }

    fn answered(&mut self, number: u64, _now: Nanos, times: &LayerTimes) {
        if number == self.number {
            self.times = Some(*times);
        }
    }

    fn finished(&mut self, number: u64, now: Nanos) {
        if number == self.number {
            self.finished = Some(now);
        }
    }

    fn settled(&mut self, now: Nanos, scheduler: &Policy) {
        self.now = now;
        if !self.waits() || !self.is_own_device() {
            return;
        }
        self.charge(now);
        let Some(tag) = self.tag else { return };
        self.submitted.get_or_insert(now);
        let explanation = scheduler.tenants().and_then(|tenants| tenants.explain(now, tag));
        self.first = self.first.or(explanation);
        self.last = explanation.or(self.last);
        self.held = Some((now, explanation.map_or_else(|| Held::Counted(scheduler.waiting().0), Held::Rule)));
    }
}

// Writing to a string does not fail: the results of `writeln!` below are dropped.
impl Story<'_> {
    fn tell(mut self, arrival: Nanos, scheduler: &str, device: &str) -> String {
        let mut out = String::new();
        if let Some(record) = self.record {
            let (what, length) = (record.operation.name(), Size(record.length_bytes));
            let who = client_name(self.clients, record.stream);
            let _ = writeln!(out, "Request {} of {who}, a {what} of {length}, under {scheduler}", self.number);
        }
        let _ = writeln!(out, "  arrived at {arrival}");
        if let Some(now) = self.refused {
            let _ = writeln!(out, "  refused at {now}: its client is at its limit, and is refused there");
            return out;
        }
        self.charge(self.now);
        let until = self.dispatched.unwrap_or(self.now);
        let sent = self.tell_cores(&mut out, until).unwrap_or(arrival);
        if self.returns > 0 {
            let (times, span) =
                (self.returns, self.before.of_layer(Layer::Scheduler) + self.before.of_layer(Layer::Device));
            let _ = writeln!(
                out,
                "  missed in memory {} times: {} of its time in the scheduler and the device was before the last",
                times + 1,
                format_nanos(Nanos(span))
            );
        }
        let has_device = self.dispatched.is_some() || self.finished.is_none();
        if has_device {
            self.tell_waiting(&mut out, sent, until);
        }
        if until > sent {
            self.tell_passed(&mut out);
        }
        match (self.dispatched, self.service, self.finished) {
            (Some(dispatched), Some(service), Some(finished)) => {
                let left = self.times.map(|times| dispatched.after(Nanos(self.of_last(times, Layer::Device))));
                let inside = left.unwrap_or(finished).since(dispatched);
                let queued = inside.since(Nanos(service.work_nanos()));
                let _ = writeln!(
                    out,
                    "  went to {device} at {dispatched} and was there for {}: {} behind others, {} in service, by the {} tier",
                    format_nanos(inside),
                    format_nanos(queued),
                    format_nanos(inside.since(queued)),
                    if service.tier == ioweir_core::Tier::Fast { "fast" } else { "base" }
                );
                self.tell_background(&mut out);
                let _ =
                    writeln!(out, "  done at {finished}, {} after it arrived", format_nanos(finished.since(arrival)));
            }
            (Some(dispatched), ..) => {
                let _ = writeln!(out, "  went to {device} at {dispatched}; the run ended before it was done");
            }
            (None, _, Some(finished)) => {
                let is_read = self.record.is_some_and(|record| record.operation == Operation::Read);
                let place = if is_read { "from memory" } else { "in the write log" };
                let span = format_nanos(finished.since(arrival));
                let _ = writeln!(out, "  done at {finished}, {span} after it arrived, {place}");
            }
            (None, ..) => {
                let _ = writeln!(out, "  the run ended before it went to the device");
            }
        }
        out
    }

    /// The time in a layer since the request last missed in memory.
    fn of_last(&self, times: LayerTimes, layer: Layer) -> u64 {
        times.of_layer(layer) - self.before.of_layer(layer)
    }

    /// Tells the request's time in the cores; returns when the request left them for its device.
    fn tell_cores(&self, out: &mut String, dispatched: Nanos) -> Option<Nanos> {
        let times = self.times?;
        if times.of_layer(Layer::Cores) > 0 {
            let [waited, executed] =
                [times.core_wait_nanos(), times.core_run_nanos()].map(|nanos| format_nanos(Nanos(nanos)));
            let _ = writeln!(
                out,
                "  waited for {waited} for a core and was executed for {executed}, before and after the device"
            );
        }
        if times.log_room_nanos() > 0 {
            let room = format_nanos(Nanos(times.log_room_nanos()));
            let _ = writeln!(out, "  waited for {room} for room in the write log, until a consistency point ended");
        }
        let waits = [
            (times.lock_nanos(), "the lock of its object"),
            (times.own_work_nanos(), "work of the server itself"),
            (times.memory_nanos(), "memory for what it reads"),
        ];
        for (nanos, what) in waits.into_iter().filter(|(nanos, _)| *nanos > 0) {
            let _ = writeln!(out, "  waited for {} for {what}", format_nanos(Nanos(nanos)));
        }
        Some(Nanos(dispatched.0.saturating_sub(self.of_last(times, Layer::Scheduler))))
    }

    fn tell_background(&self, out: &mut String) {
        let Some(nanos) = self.times.map(|times| times.background_nanos).filter(|nanos| *nanos > 0) else { return };
        let _ = writeln!(
            out,
            "  for {} of its time in the scheduler and the device, the device worked for the background",
            format_nanos(Nanos(nanos))
        );
    }

    fn tell_waiting(&self, out: &mut String, arrival: Nanos, until: Nanos) {
        let waited = until.since(arrival);
        if waited == Nanos::ZERO {
            let _ = writeln!(out, "  did not wait: the device had room, and no request was before it");
            return;
        }
        let _ = writeln!(out, "  waited for {} before the device", format_nanos(waited));
        let outside = self.submitted.unwrap_or(until).since(arrival);
        if outside > Nanos::ZERO {
            let _ = writeln!(out, "    {:>9}  outside: the scheduler's queue was full", format_nanos(outside));
        }
        for (rule, span) in self.by_rule.iter().filter(|(_, span)| *span > Nanos::ZERO) {
            let _ = writeln!(out, "    {:>9}  {}", format_nanos(*span), rule.words());
        }
        let all: u128 = self.by_reason.iter().sum();
        if all > 0 {
            let _ = writeln!(out, "    of all that waited meanwhile, the scheduler counts:");
            for reason in Reason::ALL {
                let share = self.by_reason[reason as usize] as f64 / all as f64 * 100.0;
                if share > 0.0 {
                    let _ = writeln!(out, "    {share:>8.1} %  {}", reason.name());
                }
            }
        }
        if let Some(first) = &self.first {
            let _ = writeln!(out, "  when it came: {}", self.words(first));
        }
        if let Some(last) = self.last.filter(|last| Some(*last) != self.first) {
            let _ = writeln!(out, "  at the last: {}", self.words(&last));
        }
    }

    /// An explanation in words, with the names of clients.
    fn words(&self, explanation: &Explanation) -> String {
        let text = explanation.to_string();
        match explanation.first {
            Some(first) => {
                text.replace(&format!("client {} at", first.0), &format!("{} at", client_name(self.clients, first)))
            }
            None => text,
        }
    }

    fn tell_passed(&self, out: &mut String) {
        if self.passed_count == 0 {
            return;
        }
        let classes: Vec<String> =
            self.passed.iter().map(|(class, count)| format!("{} of {class}", format_count(*count))).collect();
        let _ = writeln!(out, "  dispatched meanwhile: {}: {}", format_count(self.passed_count), classes.join(", "));
        let name = |(number, stream, at): &(u64, StreamId, Nanos)| {
            format!("    {at}  request {number} of {}\n", client_name(self.clients, *stream))
        };
        out.extend(self.first_passed.iter().map(name));
        let left_out = self.passed_count - (self.first_passed.len() + self.last_passed.len()) as u64;
        if left_out > 0 {
            let _ = writeln!(out, "    ... {} more ...", format_count(left_out));
        }
        out.extend(self.last_passed.iter().map(name));
    }
}
