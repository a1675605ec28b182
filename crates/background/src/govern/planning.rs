//! The forecasts and plans of a governor: the load of bins, the debts that will come, and the directives of the executor.

use ioweir_config::{Complaint, Duration};
use ioweir_core::Nanos;
use ioweir_core::background::{Directive, Service};

use super::governor::{Governor, owed_blocks, seconds};
use super::sample::OpenBin;
use super::spec::GovernSpec;
use super::status::PlannedBin;
use crate::forecast::Calendar;
use crate::plan::{
    Demand, Horizon, Ledger, Load, LoadForecaster, Outlook, Rates, Solution, System, Unique, decide, solve,
};

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
            Unique::Own(ref shares) if shares[0].is_none() => {
                Load { unique: Unique::Share(self.forecaster.expected_unique()), ..load.clone() }.demand(0)
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
        self.spec.system(|service| *self.executor.service(service), owed)
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
        let bin = self.spec.bin();
        let bins = (self.spec.forecast.horizon.nanos().0 / bin.0) as usize;
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
        if let Some(share) = self.forecaster.assumed_unique().filter(|_| self.spec.counts_blocks()) {
            self.known.notes.push(format!(
                "which of the blocks written are new was not measured for as long as a day: {} % are taken to be, unless \
                 unique_percent says otherwise",
                share * 100.0
            ));
        }
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
            Some(percent) => Unique::Share(percent / 100.0),
            None if counts => Unique::Own(vec![unique]),
            None => Unique::Share(0.0),
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
