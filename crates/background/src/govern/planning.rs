//! The forecasts and plans of a governor: the load of bins, the debts that will come, and the directives of the executor.

use ioweir_config::{Complaint, Duration, format_bytes};
use ioweir_core::Nanos;
use ioweir_core::background::{Directive, Service};

use super::course::{Bin, Binding, Debt, binding, course, is_behind, quieter};
use super::governor::{Governor, owed_blocks, seconds};
use super::sample::OpenBin;
use super::spec::GovernSpec;
use super::status::PlannedBin;
use crate::forecast::Calendar;
use crate::plan::{Demand, Horizon, Ledger, Load, LoadForecaster, Outlook, Rates, Solution, System, decide, solve};

/// The most bins for which the course of a device's debts is looked at: a hundred days of ten minutes.
const COURSE_BINS_MAX: usize = 14_400;

impl Governor {
    /// Adds the debts that the writes of the bin leave.
    pub(super) fn incur_written(&mut self, demand: &Demand) {
        let (now, bin) = (Nanos(self.known.now_nanos), self.known.bin_nanos / self.spec.bin().0);
        let system = self.system(&|_| Vec::new());
        let place = usize::try_from(bin).unwrap_or(usize::MAX);
        for (service, batch) in system.debts(place, demand, self.executor.pool().used_blocks) {
            self.executor.incur(now, service, batch);
        }
        self.executor.store(now, demand.new_blocks);
    }

    /// Tells the forecaster of a bin; returns its load, if enough of it was measured.
    pub(super) fn feed(&mut self, bin_nanos: u64, measured: &OpenBin) -> Option<Demand> {
        let bin = self.spec.bin();
        let rates = [measured.foreground, measured.written_bytes, measured.unmapped_bytes];
        let load = load(&self.spec, bin_nanos, rates.map(|sum| measured.rate(bin, sum)), measured.unique());
        // Without a measurement of the share of new blocks, the expected share counts.
        let demand = match load.unique {
            Rates::Own(ref shares) if shares[0].is_none() => {
                Load { unique: Rates::Share(self.forecaster.expected_unique()), ..load.clone() }.demand(0)
            }
            _ => load.demand(0),
        };
        self.forecaster.update(&load, 0..1);
        demand
    }

    /// Thousandths of the device, or of the cores, that a bin's foreground needs.
    pub(super) fn per_mille(&self, requests: u64) -> u32 {
        let most = u128::from(self.spec.resource().units()) * u128::from(self.spec.unit_requests());
        u32::try_from((u128::from(requests) * 1000).div_ceil(most)).unwrap_or(u32::MAX)
    }

    fn system(&self, owed: &dyn Fn(Service) -> Vec<(Nanos, u64)>) -> System {
        // Bins are counted from 1970, by which the local clock is ahead or behind.
        let day_bin = self.local_second(0).rem_euclid(86_400) as u64 / (self.spec.bin().0 / 1_000_000_000);
        let day_bin = day_bin as usize;
        System { day_bin, ..self.spec.system(|service| *self.executor.service(service), owed) }
    }

    /// The local clock at a time since 1970, with the offset of now, in seconds.
    pub(super) fn local_second(&self, unix_seconds: i64) -> i64 {
        let now = seconds(self.known.now_nanos);
        unix_seconds + self.calendar.local_seconds(now) - now
    }

    /// The debts of a service that recur within the horizon.
    fn recurring(&self, service: Service) -> Vec<(Nanos, u64)> {
        let (Some(terms), Some(count)) = (self.spec.service.get(service.name()), self.known.counts.get(service.name()))
        else {
            return Vec::new();
        };
        let end = self.known.bin_nanos.saturating_add(self.spec.forecast.horizon.nanos().0);
        let every = terms.shared.every.map_or(u64::MAX, |every| every.nanos().0);
        let blocks = owed_blocks(terms, self.spec.block_bytes());
        let times = std::iter::successors(count.next_unix_nanos, |time| time.checked_add(every));
        times.take_while(|time| *time < end).map(|time| (Nanos(time), blocks)).collect()
    }

    /// Makes a plan from the forecast, and hands the executor its bins.
    pub fn replan(&mut self) {
        let bins = (self.spec.forecast.horizon.nanos().0 / self.spec.bin().0) as usize;
        if self.spec.takes_idle_class() {
            self.plan_device(bins);
        } else {
            self.plan_by_cores(bins);
        }
        if let Some(share) = self.forecaster.assumed_unique().filter(|_| self.spec.counts_blocks()) {
            self.known.notes.push(format!(
                "which of the blocks written are new was not measured for as long as a day: {} % are taken to be, unless \
                 unique_percent says otherwise",
                share * 100.0
            ));
        }
    }

    /// Plans the time of one device. Its work takes what the foreground leaves, and waits for quieter hours if these suffice; the
    /// forecast says whether they do, and whether all of that is enough.
    fn plan_device(&mut self, bins: usize) {
        let outlook = self.forecaster.outlook(bins);
        let bin_nanos = self.spec.bin().0;
        let units = self.spec.resource().units();
        let headroom_per_mille = self.spec.headroom_units() * 1000 / units;
        let load = |at: usize| self.per_mille(outlook.expected[at].requests);
        let limit = |at: usize| 1000_u32.saturating_sub(load(at)).saturating_sub(headroom_per_mille);
        let begun = self.known.now_nanos - self.known.bin_nanos;
        let names: Vec<Service> = self.spec.services().map(|(service, _)| service).collect();
        let debts: Vec<Debt> = names.iter().enumerate().flat_map(|(at, service)| self.debts_of(at, *service)).collect();
        let last = debts.iter().map(|debt| debt.due).filter(|due| due.is_finite()).fold(0.0, f64::max);
        let count = bins.max(((last / Nanos(bin_nanos).as_seconds()) as usize + 2).min(COURSE_BINS_MAX));
        // Beyond the horizon, loads are taken to be those within it, again and again.
        let bin = |at: usize| Bin {
            seconds: Nanos(bin_nanos - if at == 0 { begun } else { 0 }).as_seconds(),
            idle: f64::from(limit(at % bins)) / 1000.0,
        };
        let ahead: Vec<Bin> = (0..count).map(bin).collect();
        let open: Vec<Vec<bool>> = self.spec.services().map(|(_, terms)| self.spec.open_bins(terms)).collect();
        let bin_seconds = (bin_nanos / 1_000_000_000) as i64;
        let first = self.local_second(seconds(self.known.bin_nanos)).div_euclid(bin_seconds);
        let is_open = |service: usize, bin: usize| {
            let at = (first as usize).wrapping_add(bin).checked_rem(open[service].len());
            at.is_none_or(|at| open[service][at])
        };
        // Before a day was seen the forecast is a guess, and what work does is one before it worked for a bin: nothing waits for these.
        let is_known = outlook.history_days > 0 && self.known.worked_per_mille.is_some();
        let quieter = is_known.then(|| quieter(&ahead, &debts, &is_open)).flatten();
        let limit_units = if quieter.is_some() { 0 } else { units };
        let used = quieter.as_deref().unwrap_or(&ahead);
        let course = course(used, &debts, &is_open);
        let time_of = |service: usize| self.executor.service(names[service]).deadline.as_seconds();
        self.known.is_behind = is_known && is_behind(&ahead, &debts, &time_of, &is_open);
        let planned = |at: usize| {
            let (low, high) = outlook.requests_band.get(at).copied().unwrap_or_default();
            let mut pay_bytes: Vec<(String, u64)> = Vec::new();
            for (debt, paid) in debts.iter().zip(&course.paid[at]).filter(|(_, paid)| **paid >= 1.0) {
                let name = names[debt.service].name();
                match pay_bytes.last_mut().filter(|(last, _)| last == name) {
                    Some((_, bytes)) => *bytes += *paid as u64,
                    None => pay_bytes.push((name.to_owned(), *paid as u64)),
                }
            }
            PlannedBin {
                start_unix_seconds: seconds(self.known.bin_nanos + at as u64 * bin_nanos),
                forecast_per_mille: [low, outlook.expected[at].requests, high].map(|load| self.per_mille(load)),
                reserve_per_mille: 0,
                limit_per_mille: (used[at].idle * 1000.0).round() as u32,
                pay_bytes,
            }
        };
        let planned: Vec<PlannedBin> = (0..bins).map(planned).collect();
        let mut notes: Vec<String> = Vec::new();
        for (at, service) in names.iter().enumerate() {
            let late = course.late_bytes(&debts, at);
            if late >= 1.0 {
                notes.push(self.cannot_be_kept(*service, late, binding(&ahead, &debts, &is_open, at)));
            }
        }
        let from = Nanos(self.known.bin_nanos);
        self.executor.adopt(Nanos(self.known.now_nanos), &[Directive { from, limit_units, ..Directive::NONE }]);
        self.known.ahead = planned;
        self.known.notes = outlook.degraded;
        self.known.notes.extend(notes);
    }

    /// Whether the work of a device waits for quieter hours, although the foreground leaves time.
    pub(super) fn waits_for_quieter_hours(&self) -> bool {
        self.known.ahead.first().is_some_and(|bin| bin.limit_per_mille == 0 && bin.forecast_per_mille[1] < 1000)
    }

    /// A note on a deadline that cannot be kept, with the constraint that binds.
    fn cannot_be_kept(&self, service: Service, late_bytes: f64, binding: Binding) -> String {
        let hint = match binding {
            Binding::Rate => "its rate is the limit: raise bytes_per_second_max or iops_max, or allow more time",
            Binding::Hours => "its hours are the limit: extend `hours`, shorten `quiet`, or allow more time",
            Binding::Time if self.spec.force => "`force` takes the rest from the foreground when it is nearly due",
            Binding::Time => "allow more time, or let it take from the foreground: force = true",
        };
        format!(
            "the deadline of {} cannot be kept in the time that the foreground leaves: {} would be late; {hint}",
            service.name(),
            format_bytes(late_bytes as u64),
        )
    }

    /// The debts of a service, now and within the horizon.
    fn debts_of(&self, at: usize, service: Service) -> Vec<Debt> {
        let (now, block) = (self.known.now_nanos, self.spec.block_bytes() as f64);
        let settings = self.executor.service(service);
        let running = self.executor.running().filter(|slice| slice.service == service);
        let running = running.map(|slice| (Nanos(now), slice.due_at, slice.blocks));
        let queued = self.executor.queues()[service as usize].batches();
        let queued = queued.map(|batch| (batch.payable_at, batch.due_at, batch.blocks));
        let recurring = self.recurring(service).into_iter().map(|(time, blocks)| {
            let batch = settings.batch(time, blocks);
            (batch.payable_at, batch.due_at, batch.blocks)
        });
        let after = |time: Nanos| if time == Nanos::NEVER { f64::INFINITY } else { (time.0 as f64 - now as f64) / 1e9 };
        // A millisecond of the device is an operation.
        let worked = f64::from(self.known.worked_per_mille.unwrap_or(1000).clamp(1, 1000)) / 1000.0;
        let rate = worked * block * 1e6 / f64::from(settings.cost_per_mille.max(1));
        let rate_max = match settings.block_nanos_min.0 {
            0 => f64::INFINITY,
            nanos => block * 1e9 / nanos as f64,
        };
        let is_near = |left: f64, right: f64| left == right || (left - right).abs() < 3600.0;
        let mut debts: Vec<Debt> = Vec::new();
        for (payable_at, due_at, blocks) in running.chain(queued).chain(recurring).filter(|(_, _, blocks)| *blocks > 0)
        {
            let (from, due, bytes) = (after(payable_at), after(due_at), blocks as f64 * block);
            // Debts of about the same time are taken together.
            match debts.last_mut().filter(|last| is_near(due, last.due) && from <= 0.0 && last.from <= 0.0) {
                Some(last) => (last.bytes, last.due) = (last.bytes + bytes, last.due.min(due)),
                None => debts.push(Debt { service: at, bytes, from, due, rate, rate_max }),
            }
        }
        debts
    }

    /// Plans the cores of a machine, or the room of a pool.
    fn plan_by_cores(&mut self, bins: usize) {
        let bin = self.spec.bin();
        let ahead = self.forecaster.ahead(self.forecaster.outlook(bins));
        let outlook = self.forecaster.outlook(bins);
        let system = self.system(&|service| self.recurring(service));
        let place = usize::try_from(self.known.bin_nanos / bin.0).unwrap_or(usize::MAX);
        let ledger = Ledger::of(&self.executor, place, 0);
        let busy = outlook.busy();
        let horizon = Horizon::new(&system, &ledger, &outlook.high).with_busy(&busy);
        let solution = solve(&horizon);
        // Before a day was seen the forecast is a guess, for which nothing rests that finds the foreground idle.
        let is_guess = outlook.history_days == 0;
        let directive = |at: usize| {
            let from = Nanos(self.known.bin_nanos + at as u64 * bin.0);
            let directive = if at == 0 { decide(&system, &ledger, &ahead, from) } else { solution.directive(at, from) };
            let limit_work = if is_guess { u64::MAX } else { directive.limit_work };
            Directive { limit_work, ..directive }
        };
        let directives: Vec<Directive> = (0..bins).map(directive).collect();
        self.executor.adopt(Nanos(self.known.now_nanos), &directives);
        self.known.ahead = (0..bins).map(|at| self.planned_bin(&system, &outlook, &solution, at)).collect();
        self.known.notes = outlook.degraded;
        let note = |service: &Service| match horizon.late_bins(&solution.course, *service) {
            Some(Some(late_bins)) => format!(
                "the deadline of {} cannot be kept; its debt is paid up to {} late",
                service.name(),
                Duration::new(Nanos(bin.0.saturating_mul(late_bins as u64)))
            ),
            _ => format!("the deadline of {} cannot be kept within the plan", service.name()),
        };
        self.known.notes.extend(solution.gave_up.iter().map(note));
        if !solution.below_floor.is_empty() {
            self.known.notes.push("the pool goes below its floor, whatever is done".into());
        }
    }

    fn planned_bin(&self, system: &System, outlook: &Outlook, solution: &Solution, at: usize) -> PlannedBin {
        let units = u64::from(self.spec.resource().units());
        let of_units = |count: u32| (u64::from(count) * 1000 / units) as u32;
        let (low, high) = outlook.requests_band.get(at).copied().unwrap_or_default();
        let block = self.spec.block_bytes();
        let pay = |(service, _): (Service, _)| {
            let blocks = solution.course[at].paid_blocks[service as usize];
            (service.name().to_owned(), blocks.saturating_mul(block))
        };
        PlannedBin {
            start_unix_seconds: seconds(self.known.bin_nanos + at as u64 * self.spec.bin().0),
            forecast_per_mille: [low, outlook.expected[at].requests, high].map(|load| self.per_mille(load)),
            reserve_per_mille: of_units(solution.schedule.reserve_cores[at]),
            limit_per_mille: of_units(solution.schedule.limit_cores[at]),
            pay_bytes: system.run().map(pay).filter(|(_, bytes)| *bytes > 0).collect(),
        }
    }
}

/// The load of one bin: its foreground, and the bytes written and unmapped, a second; and the share of new blocks, if it was measured.
pub(super) fn load(
    spec: &GovernSpec,
    bin_nanos: u64,
    [foreground, written, unmapped]: [Option<f64>; 3],
    unique: Option<f64>,
) -> Load {
    let block = spec.block_bytes() as f64;
    // A device's foreground is counted in microseconds.
    let unit = if spec.cores.is_some() { 1.0 } else { 1e-3 };
    let counts = spec.counts_blocks();
    let rates = |rate: Option<f64>| {
        if counts { Rates::Own(vec![rate.map(|rate| rate / block)]) } else { Rates::Share(0.0) }
    };
    Load {
        utc_offset_seconds: None,
        start_unix_seconds: seconds(bin_nanos),
        bin_seconds: (spec.bin().0 / 1_000_000_000) as u32,
        requests: vec![foreground.map(|rate| rate * unit)],
        written: rates(written),
        unmapped: rates(unmapped),
        unique: match spec.unique_percent {
            Some(percent) => Rates::Share(percent / 100.0),
            None if counts => Rates::Own(vec![unique]),
            None => Rates::Share(0.0),
        },
        notes: Vec::new(),
    }
}

pub(super) fn forecaster(spec: &GovernSpec, calendar: &Calendar, bin_nanos: u64) -> Result<LoadForecaster, Complaint> {
    let load = load(spec, bin_nanos, [None; 3], None);
    LoadForecaster::new(&load, &spec.forecast.forecaster()?, spec.forecast.quantile, calendar)
        .map(|forecaster| forecaster.with_unique_before(spec.unique_before()))
        .map_err(|error| Complaint::new("forecast", error.problem, error.expected))
}
