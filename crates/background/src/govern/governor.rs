//! The governor: its inputs and its decisions.

use ioweir_config::{Complaint, Duration};
use ioweir_core::Nanos;
use ioweir_core::background::{self as core, Executor, Hold, Resource, SERVICES_COUNT, Service, SliceTag};

use super::planning::forecaster;
use super::sample::{OpenBin, Sample};
use super::spec::{GovernSpec, ServiceSpec};
use super::state::{Known, State, StateError, VERSION, VERSION_WITHOUT_LIMITS};
use super::status::{BinRecord, PlannedBin};
use crate::forecast::Calendar;
use crate::hours::is_open;
use crate::plan::LoadForecaster;

const MINUTE_NANOS: u64 = 60_000_000_000;
/// The least part of what was expected of work that is learnt, in thousandths.
const WORKED_MIN: u128 = 10;
/// After a pause of more bins the forecaster begins anew, and bins that are over are forgotten.
const PAUSE_BINS_MAX: u64 = 10_000;
/// The number of bins that are over that the state keeps: a week of ten minutes.
const PAST_MAX: usize = 1008;

/// A piece of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The handle by which the slice is completed.
    pub tag: SliceTag,
    /// The service that does the work.
    pub service: Service,
    /// The bytes of debt that the slice pays.
    pub bytes: u64,
    /// How fast: a worker that can be given a rate takes all of the time until `ends_at`.
    pub bytes_per_second: u64,
    /// The rate that the slice should get even if the foreground wants all of the resource: the rate that urgent debt needs, or the
    /// reserved rate.
    pub reservation_bytes_per_second: u64,
    /// The time of the device, or of a core, that it is expected to take.
    pub device_time: Nanos,
    /// When it started.
    pub started_at: Nanos,
    /// When it is expected to end.
    pub ends_at: Nanos,
    /// When this debt is due; [`Nanos::NEVER`] if it can wait.
    pub due_at: Nanos,
    /// Whether short requests would leave some of a debt that is nearly due, so that a worker which can makes longer ones.
    pub is_behind: bool,
}

/// The answer to [`Governor::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Start this, and poll again.
    Run(Slice),
    /// Pause this slice, complete it with what it has paid, and poll again.
    Pause(SliceTag),
    /// End this slice by any means, complete it, and poll again: it was told to pause and did not.
    End(SliceTag),
    /// The governor has nothing to do before this time or the next call, whichever is first.
    WaitUntil(Nanos, Hold),
    /// No debt is owed; poll again by the given time.
    Idle(Nanos),
}

/// Decides when background work runs.
#[derive(Clone, Debug)]
pub struct Governor {
    pub(super) spec: GovernSpec,
    pub(super) calendar: Calendar,
    pub(super) known: Known,
    pub(super) forecaster: LoadForecaster,
    pub(super) executor: Executor,
}

impl Governor {
    /// A governor that begins now.
    ///
    /// # Errors
    /// [`Complaint`] if the spec is invalid.
    pub fn new(spec: &GovernSpec, now: Nanos) -> Result<Self, Complaint> {
        let mut governor = Self::without_plan(spec, now)?;
        governor.incur_due(now);
        governor.replan();
        Ok(governor)
    }

    fn without_plan(spec: &GovernSpec, now: Nanos) -> Result<Self, Complaint> {
        spec.check()?;
        let calendar = spec.calendar()?;
        let bin_nanos = now.0 - now.0 % spec.bin().0;
        let mut governor = Self {
            forecaster: forecaster(spec, &calendar, bin_nanos)?,
            executor: Executor::new(spec.settings()),
            known: Known { now_nanos: now.0, bin_nanos, ..Known::default() },
            spec: spec.clone(),
            calendar,
        };
        for (service, terms) in spec.services() {
            let next = (terms.shared.owed.is_some() && !GovernSpec::is_fed(service, terms)).then_some(now.0);
            governor.known.counts.entry(service.name().to_owned()).or_default().next_unix_nanos = next;
        }
        Ok(governor)
    }

    /// A governor that goes on from a kept state. Slices that ran then, run still as far as it knows: the caller completes
    /// those that do not.
    ///
    /// # Errors
    /// [`StateError`] if the state is damaged, of another version or spec, or from a time to come.
    pub fn resume(spec: &GovernSpec, now: Nanos, state: State) -> Result<Self, StateError> {
        let fresh =
            Self::without_plan(spec, now).map_err(|complaint| StateError::new(complaint.problem(), "a valid spec"))?;
        if !(VERSION_WITHOUT_LIMITS..=VERSION).contains(&state.version) {
            let expected = format!("version {VERSION_WITHOUT_LIMITS} to {VERSION}");
            return Err(StateError::new(format!("it is of version {}", state.version), expected));
        }
        if state.about != about(spec) {
            return Err(StateError::new(format!("it is of another spec: {}", state.about), about(spec)));
        }
        let bin = spec.bin().0;
        let (then, begun) = (state.known.now_nanos, state.known.bin_nanos);
        if then > now.0.saturating_add(bin) {
            let hint = "a state from before now; is the clock right?";
            return Err(StateError::new(format!("it is from {} s after now", (then - now.0) / 1_000_000_000), hint));
        }
        if begun % bin != 0 || begun > then {
            return Err(StateError::new("its parts do not fit together", "a state as this program keeps it"));
        }
        state.forecaster.check().map_err(|error| StateError::new(error.problem, error.expected))?;
        let mut executor = fresh.executor;
        let mut words = state.executor.iter().copied();
        let mut are_enough = true;
        let mut next = |_| {
            let word = words.next();
            are_enough &= word.is_some();
            word.unwrap_or(0)
        };
        let is_state = executor.words(&mut next).is_some();
        if is_state && state.version > VERSION_WITHOUT_LIMITS {
            executor.limit_words(&mut next);
        }
        if !is_state || !are_enough || words.next().is_some() || executor.now().0 > then {
            return Err(StateError::new("the debts are damaged", "a state as this program keeps it"));
        }
        let known = state.known;
        if spec.services().any(|(service, _)| !known.counts.contains_key(service.name())) {
            return Err(StateError::new("a service is missing", "a state as this program keeps it"));
        }
        let mut forecaster = state.forecaster;
        if let Ok(begun) = self::forecaster(spec, &fresh.calendar, known.bin_nanos) {
            forecaster.judge_unique_as(&begun);
        }
        Ok(Self { spec: fresh.spec, calendar: fresh.calendar, known, forecaster, executor })
    }

    /// The state that a restart needs.
    #[must_use]
    pub fn state(&self) -> State {
        let mut words = Vec::new();
        let mut keep = |word| {
            words.push(word);
            word
        };
        // Each word is answered with itself, so that the executor stays as it is.
        let mut executor = self.executor.clone();
        let _ = executor.words(&mut keep);
        executor.limit_words(&mut keep);
        State {
            version: VERSION,
            about: about(&self.spec),
            known: self.known.clone(),
            forecaster: self.forecaster.clone(),
            executor: words,
        }
    }

    /// Takes samples of the time before now, oldest first, each with its end. For a governor that begins.
    pub fn recall(&mut self, past: impl IntoIterator<Item = (Nanos, Sample)>) {
        let mut past = past.into_iter().peekable();
        let Some((first, sample)) = past.peek() else { return };
        let begins = first.0.saturating_sub(sample.span.0);
        let (bin, now, open) = (self.spec.bin().0, self.known.now_nanos, self.known.bin_nanos);
        let from = (begins - begins % bin).max(open.saturating_sub(bin * PAUSE_BINS_MAX)).min(open);
        let Ok(forecaster) = forecaster(&self.spec, &self.calendar, from) else { return };
        self.forecaster = forecaster;
        let (mut bin_nanos, mut measured) = (from, OpenBin::default());
        for (end, sample) in past.filter(|(end, _)| end.0 <= now) {
            let middle = end.0.saturating_sub(sample.span.0 / 2);
            while middle >= bin_nanos + bin {
                self.feed(bin_nanos, &std::mem::take(&mut measured));
                bin_nanos += bin;
            }
            if middle >= bin_nanos
                && let Some(foreground) = self.foreground_of(&sample)
            {
                measured.add(&sample, foreground);
            }
        }
        while bin_nanos < open {
            self.feed(bin_nanos, &std::mem::take(&mut measured));
            bin_nanos += bin;
        }
        self.known.open = measured;
        self.forecaster.refit();
        self.replan();
    }

    /// Goes on at an earlier time: the clock was put back. What is owed stays owed and due as far away as it was; of what was
    /// measured, only what lies before now counts. No slice runs from now on.
    pub fn set_back(&mut self, now: Nanos) {
        let span = self.known.now_nanos.saturating_sub(now.0);
        let bin = now.0 - now.0 % self.spec.bin().0;
        self.executor.set_back(now);
        for count in self.known.counts.values_mut() {
            count.next_unix_nanos = count.next_unix_nanos.map(|next| next.saturating_sub(span));
            count.finished_unix_seconds = count.finished_unix_seconds.map(|at| at.min(seconds(now.0)));
        }
        self.forecaster.forget_from(seconds(bin));
        self.known.past.retain(|record| record.start_unix_seconds < seconds(bin));
        let fresh = Known { now_nanos: now.0, bin_nanos: bin, ..Known::default() };
        let Known { counts, past, samples, above, above_beside, latency_nanos, .. } = std::mem::take(&mut self.known);
        self.known = Known { counts, past, samples, above, above_beside, latency_nanos, ..fresh };
        self.replan();
    }

    /// Takes the measurements since the sample before.
    pub fn sample(&mut self, now: Nanos, sample: &Sample) {
        let now = self.advance(now);
        // A sample counts for the bin in which most of it lies.
        let middle = Nanos(now.0.saturating_sub(sample.span.0 / 2));
        self.close_bins(middle);
        let foreground = self.foreground_of(sample);
        if let Some(foreground) = foreground {
            self.known.open.add(sample, foreground);
        }
        self.known.sampled_nanos = Some(now.0);
        if sample.span.0 > 0 {
            // An idle class yields by itself.
            let wanted = foreground.filter(|_| !self.spec.is_idle_class());
            self.executor.foreground(now, wanted.map_or(0, |foreground| self.wanted_units(foreground, sample.span)));
        }
        if let Some(objective) = &self.spec.objective {
            let most = objective.latency_max.nanos();
            let is_above = sample.latency.is_some_and(|latency| latency > most);
            let is_beside = self.executor.running().next().is_some();
            self.executor.felt(now, is_above);
            self.known.samples += u64::from(sample.latency.is_some());
            self.known.above += u64::from(is_above);
            self.known.open_above += u64::from(is_above);
            self.known.above_beside += u64::from(is_above && is_beside);
        }
        self.known.latency_nanos = sample.latency.map(|latency| latency.0);
        self.close_bins(now);
    }

    /// Takes a service's debt as its worker counts it: all that is left, including the bytes of the running slice.
    pub fn owes(&mut self, now: Nanos, service: Service, bytes: u64) {
        let now = self.advance(now);
        let Some(count) = self.known.counts.get_mut(service.name()) else { return };
        let (owed, before) = (bytes.div_ceil(self.spec.block_bytes()), self.executor.debt_blocks(service));
        count.rest_bytes = 0;
        if owed > before {
            let batch = self.executor.service(service).batch(now, owed - before);
            self.executor.incur(now, service, batch);
        } else {
            self.executor.forgive(now, service, before - owed);
        }
        self.note_finished(service);
    }

    /// Decides the next step. Call it after every other call, until it returns a time to wait for, or that it is idle.
    #[must_use]
    pub fn poll(&mut self, now: Nanos) -> Step {
        let now = self.advance(now);
        self.close_bins(now);
        self.incur_due(now);
        if self.is_stale(now) {
            self.executor.foreground(now, u32::MAX);
        }
        self.open_services(now);
        let next = self.next_time(now);
        let until = |time: Nanos| time.min(next);
        match self.executor.poll(now) {
            core::Step::Run(slice) => Step::Run(self.slice(&slice)),
            core::Step::Pause(tag) => Step::Pause(tag),
            core::Step::End(tag) => {
                let service = self.executor.running().find(|slice| slice.tag == tag).map(|slice| slice.service);
                if let Some(count) = service.and_then(|service| self.known.counts.get_mut(service.name())) {
                    count.overruns += 1;
                }
                Step::End(tag)
            }
            core::Step::WaitUntil(time, hold) => Step::WaitUntil(until(time), hold),
            core::Step::Idle => Step::Idle(until(Nanos::NEVER)),
        }
    }

    /// Completes a slice, with the bytes that it paid, and the device's or a core's time that it took. Returns whether it was running.
    pub fn complete(&mut self, now: Nanos, tag: SliceTag, paid_bytes: u64, took: Nanos) -> bool {
        let now = self.advance(now);
        let Some(slice) = self.executor.running().find(|slice| slice.tag == tag).copied() else { return false };
        let block = self.spec.block_bytes();
        let Some(count) = self.known.counts.get_mut(slice.service.name()) else { return false };
        let paid = paid_bytes.saturating_add(count.rest_bytes);
        count.rest_bytes = paid % block;
        count.paid_bytes = count.paid_bytes.saturating_add(paid_bytes);
        count.device_nanos = count.device_nanos.saturating_add(took.0);
        if now > slice.due_at {
            count.late_bytes = count.late_bytes.saturating_add(paid_bytes);
        }
        let open = self.known.open_paid.entry(slice.service.name().to_owned()).or_default();
        *open = open.saturating_add(paid_bytes);
        self.executor.complete(now, tag, paid / block, took);
        self.note_finished(slice.service);
        true
    }

    /// The slices that run, as far as the governor knows.
    pub fn running(&self) -> impl Iterator<Item = Slice> + '_ {
        self.executor.running().map(|running| self.slice(running))
    }

    #[must_use]
    pub const fn spec(&self) -> &GovernSpec {
        &self.spec
    }

    /// Bins that are over, oldest first: a week of ten minutes at most.
    #[must_use]
    pub fn past(&self) -> &[BinRecord] {
        &self.known.past
    }

    /// The plan: the open bin and those after it.
    #[must_use]
    pub fn ahead(&self) -> &[PlannedBin] {
        &self.known.ahead
    }

    pub(super) fn is_stale(&self, now: Nanos) -> bool {
        let since = self.known.sampled_nanos.map_or(Nanos::NEVER, |at| Nanos(now.0.saturating_sub(at)));
        since > self.spec.stale.nanos()
    }

    fn slice(&self, slice: &core::Slice) -> Slice {
        let bytes = slice.blocks.saturating_mul(self.spec.block_bytes());
        let nanos = u128::from(slice.ends_at.since(slice.started_at).0.max(1));
        let rate = (u128::from(bytes) * 1_000_000_000).div_ceil(nanos);
        let promised = self.executor.promised_units(slice.service).min(slice.units);
        let reserved = (rate * u128::from(promised)).div_ceil(u128::from(slice.units.max(1)));
        let whole = |rate: u128| u64::try_from(rate).unwrap_or(u64::MAX);
        Slice {
            tag: slice.tag,
            service: slice.service,
            bytes,
            bytes_per_second: whole(rate),
            reservation_bytes_per_second: whole(reserved),
            device_time: self.executor.expected(slice),
            started_at: slice.started_at,
            ends_at: slice.ends_at,
            due_at: slice.due_at,
            is_behind: self.known.is_behind,
        }
    }

    /// The time, which never goes back.
    fn advance(&mut self, now: Nanos) -> Nanos {
        self.known.now_nanos = self.known.now_nanos.max(now.0);
        Nanos(self.known.now_nanos)
    }

    fn note_finished(&mut self, service: Service) {
        if let Some(count) = self.known.counts.get_mut(service.name())
            && self.executor.debt_blocks(service) == 0
        {
            count.finished_unix_seconds = Some(seconds(self.known.now_nanos));
        }
    }

    /// The foreground's work in a sample: requests for cores, nanoseconds for a device. `None` if a source cannot tell it from that of
    /// an idle class, which takes all that is left.
    fn foreground_of(&self, sample: &Sample) -> Option<u64> {
        match self.spec.resource() {
            Resource::Cores(_) => Some(sample.requests),
            Resource::DeviceTime => {
                let held: u32 = self.executor.running().map(|slice| slice.units).sum();
                let is_known = sample.background_busy.is_some() || held == 0 || !self.spec.is_idle_class();
                let own = sample.background_busy.unwrap_or(Nanos(sample.span.0 / 1000 * u64::from(held)));
                is_known.then(|| sample.busy.0.min(sample.span.0).saturating_sub(own.0))
            }
        }
    }

    /// The units that the foreground wants, if this is its work in that time.
    fn wanted_units(&self, foreground: u64, span: Nanos) -> u32 {
        let wanted = match &self.spec.cores {
            Some(cores) => {
                let served = u128::from(span.0) * u128::from(cores.foreground_iops.max(1));
                (u128::from(foreground) * 1_000_000_000).div_ceil(served.max(1))
            }
            None => (u128::from(foreground) * 1000).div_ceil(u128::from(span.0.max(1))),
        };
        u32::try_from(wanted).unwrap_or(u32::MAX)
    }

    /// Tells the executor which services may run at this hour.
    fn open_services(&mut self, now: Nanos) {
        let minute = (self.local_second(seconds(now.0)).rem_euclid(86_400) / 60) as u32;
        let mut open = [true; SERVICES_COUNT];
        for (service, terms) in self.spec.services() {
            open[service as usize] = is_open(&terms.shared.hours, &terms.shared.quiet, minute);
        }
        self.executor.open(now, open);
    }

    /// When the governor has something to do whatever the executor says.
    fn next_time(&self, now: Nanos) -> Nanos {
        let bin_end = self.known.bin_nanos + self.spec.bin().0;
        let stale = self.known.sampled_nanos.map(|at| at.saturating_add(self.spec.stale.nanos().0).saturating_add(1));
        let owed = self.known.counts.values().filter_map(|count| count.next_unix_nanos);
        // Hours begin at whole minutes.
        let has_hours =
            |(_, terms): (_, &ServiceSpec)| !terms.shared.hours.is_empty() || !terms.shared.quiet.is_empty();
        let minute = self.spec.services().any(has_hours).then(|| (now.0 / MINUTE_NANOS + 1) * MINUTE_NANOS);
        let all = owed.chain(stale).chain([bin_end]).chain(minute).filter(|time| *time > now.0);
        Nanos(all.min().unwrap_or(u64::MAX))
    }

    /// Adds the debts that recur.
    fn incur_due(&mut self, now: Nanos) {
        let spec = &self.spec;
        for (service, terms) in spec.services() {
            let Some(count) = self.known.counts.get_mut(service.name()) else { continue };
            let Some(next) = count.next_unix_nanos.filter(|next| *next <= now.0) else { continue };
            let every = terms.shared.every.map_or(0, |every| every.nanos().0);
            // Debt of several periods that were missed in a long pause is owed once.
            count.next_unix_nanos = (every > 0).then(|| next + ((now.0 - next) / every.max(1) + 1) * every);
            let blocks = owed_blocks(terms, spec.block_bytes());
            let batch = self.executor.service(service).batch(now, blocks);
            self.executor.incur(now, service, batch);
        }
    }

    /// Closes the bins that are over by `now`, and plans anew if there is one.
    fn close_bins(&mut self, now: Nanos) {
        let bin = self.spec.bin().0;
        let begins = now.0 - now.0 % bin;
        if begins <= self.known.bin_nanos {
            return;
        }
        if (begins - self.known.bin_nanos) / bin > PAUSE_BINS_MAX {
            // The spec was checked when the governor was made.
            if let Ok(fresh) = forecaster(&self.spec, &self.calendar, begins) {
                self.forecaster = fresh;
            }
            (self.known.bin_nanos, self.known.past) = (begins, Vec::new());
            (self.known.open, self.known.ahead) = (OpenBin::default(), Vec::new());
        }
        let day = self.calendar.day(seconds(self.known.bin_nanos));
        while self.known.bin_nanos < begins {
            self.learn();
        }
        let spare = self.known.past.len().saturating_sub(PAST_MAX);
        self.known.past.drain(..spare);
        if self.calendar.day(seconds(begins)) != day {
            self.forecaster.refit();
        }
        self.replan();
    }

    /// Of what was expected of the work of whole bins, the part that it did, with the open bin; `None` if there was too little work for it.
    fn worked(&self, planned: &PlannedBin) -> Option<u32> {
        let is_left = |name: &str| {
            self.spec.services().any(|(service, _)| service.name() == name && self.executor.debt_blocks(service) > 0)
        };
        let expected: u64 = planned.pay_bytes.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
        if expected == 0 || !planned.pay_bytes.iter().all(|(name, _)| is_left(name)) {
            return None;
        }
        let paid = self.known.open_paid.values().copied().fold(0, u64::saturating_add);
        let before = self.known.worked_per_mille;
        let part = u128::from(paid) * u128::from(before.unwrap_or(1000)) / u128::from(expected);
        let part = part.clamp(WORKED_MIN, 1000) as u32;
        // The mean of about an hour of bins of ten minutes.
        Some(before.map_or(part, |before| (before * 7 + part) / 8))
    }

    /// Closes the open bin.
    fn learn(&mut self) {
        let open = std::mem::take(&mut self.known.open);
        let start = seconds(self.known.bin_nanos);
        let demand = self.feed(self.known.bin_nanos, &open);
        if let Some(demand) = demand {
            self.incur_written(&demand);
        }
        let planned = self.known.ahead.first().filter(|planned| planned.start_unix_seconds == start);
        let forecast = planned.map(|planned| planned.forecast_per_mille);
        // The rate of short requests is not learnt from long ones.
        let worked = planned.filter(|_| !self.known.is_behind).and_then(|planned| self.worked(planned));
        self.known.worked_per_mille = worked.or(self.known.worked_per_mille);
        let owed = |(service, _): (Service, &ServiceSpec)| {
            let blocks = self.executor.debt_blocks(service);
            (service.name().to_owned(), blocks.saturating_mul(self.spec.block_bytes()))
        };
        let record = BinRecord {
            start_unix_seconds: start,
            actual_per_mille: demand.map(|demand| self.per_mille(demand.requests)),
            forecast_per_mille: forecast,
            paid_bytes: std::mem::take(&mut self.known.open_paid).into_iter().collect(),
            owed_bytes: self.spec.services().map(owed).collect(),
            above: std::mem::take(&mut self.known.open_above),
        };
        self.known.past.push(record);
        let over = usize::from(!self.known.ahead.is_empty());
        self.known.ahead.drain(..over);
        self.known.bin_nanos += self.spec.bin().0;
    }
}

pub(super) fn seconds(nanos: u64) -> i64 {
    (nanos / 1_000_000_000) as i64
}

pub(super) fn owed_blocks(terms: &ServiceSpec, block_bytes: u64) -> u64 {
    terms.shared.owed.map_or(0, |owed| owed.0.div_ceil(block_bytes))
}

/// The terms in which a kept state must agree with the spec.
fn about(spec: &GovernSpec) -> String {
    let names: Vec<&str> = spec.services().map(|(service, _)| service.name()).collect();
    let what = spec.cores.as_ref().map_or_else(|| "a device".to_owned(), |cores| format!("{} cores", cores.count));
    let bin = Duration::new(spec.bin());
    let zone = spec.forecast.time_zone.clone().unwrap_or_else(|| spec.forecast.utc_offset_hours.to_string());
    let (block, method) = (spec.block_bytes(), &spec.forecast.method);
    format!("{what}, bins of {bin}, blocks of {block} bytes, {method} at {zone}, {}", names.join(" "))
}
