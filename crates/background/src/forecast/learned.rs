//! The state that all forecasters share: history by days, errors of past days, quantiles, and correction within a day.
//!
//! A method is a pure function from past days to future days. This module asks the method what it would have forecast at
//! midnight of each of the last days. From those errors come the quantiles, the carry of an error from one hour to the next,
//! drift, and, if there are several methods, the weight of each. Nothing else is learned, so feeding all bins at once or one
//! by one gives the same state. Bins shorter than five minutes are forecast as five-minute slots, with their spread within
//! the slot.

use serde::{Deserialize, Serialize};

use super::combine::{combined, hedge, loss};
use super::correlation::Correlation;
use super::drift::{self, Carry, Drift};
use super::holt_winters::HoltWinters;
use super::paper::Paper;
use super::past::{Past, floor_of};
use super::spread::Spread;
use super::within::{Within, slot_bins, together};
use super::{Calendar, Forecast, ForecastError, holt_winters, mmpp, mstl, naive, paper, profile};

pub(super) const DAY_SECONDS: u32 = 86_400;
/// The number of days of history that a method uses.
const HISTORY_DAYS: usize = 56;
/// The number of days whose errors are kept.
const SCORED_DAYS: usize = 28;
/// The number of days whose values are kept: enough to score the first of the scored days.
const KEPT_DAYS: usize = HISTORY_DAYS + SCORED_DAYS + profile::TUNED_DAYS;
/// The number of days forecast at a refit; beyond them the last forecast week repeats.
const AHEAD_DAYS: usize = 8;
/// Values above this are damage and become gaps, as do negative values.
const VALUE_MAX: f64 = 1e18;
/// The most scenarios of a forecast: three weeks of errors.
const SCENARIOS: usize = 21;
/// The largest forecast, as a multiple of the largest value seen.
const GROWTH_MAX: f64 = 10.0;
/// How far around its time of day a quantile looks for the most that was seen, in seconds.
const SEEN_AROUND_SECONDS: u32 = 1800;
/// The version of the stored state.
const VERSION: u32 = 6;

/// The method that forecasts days from past days.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Method {
    NaiveDay,
    NaiveWeek,
    MedianWeek,
    Paper(Paper),
    HoltWinters(HoltWinters),
    Mmpp,
    DayProfile,
    Mstl,
    /// The weighted median of [`EXPERTS`].
    Hedge,
}

/// The methods that the default combines.
const EXPERTS: [Method; 5] =
    [Method::DayProfile, Method::Mstl, Method::NaiveWeek, Method::NaiveDay, Method::MedianWeek];

impl Method {
    /// The methods that are combined.
    fn experts(self) -> Vec<Self> {
        if self == Self::Hedge { EXPERTS.to_vec() } else { vec![self] }
    }

    /// Whether forecasts follow the level of the current day. The other methods stay as published: they are baselines and
    /// must not get this project's improvements.
    fn follows_the_day(self) -> bool {
        matches!(self, Self::DayProfile | Self::Mstl | Self::Hedge)
    }

    fn ahead(self, kept: &Past<'_>, days: usize, scores: &mut profile::Scores) -> Vec<f64> {
        let past = kept.last(HISTORY_DAYS);
        match self {
            Self::NaiveDay => naive::day(&past, days),
            Self::NaiveWeek => naive::week(&past, days),
            Self::MedianWeek => naive::median_week(&past, days),
            Self::Paper(paper) => paper::ahead(&paper, &past, days),
            Self::HoltWinters(settings) => holt_winters::ahead(&settings, &past, days),
            Self::Mmpp => mmpp::ahead(&past, days),
            Self::DayProfile => profile::ahead(kept, HISTORY_DAYS, days, scores),
            Self::Mstl => mstl::ahead(&past, days),
            Self::Hedge => Vec::new(),
        }
    }
}

/// The forecast of each expert for a day, made at its midnight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ScoredDay {
    day: i64,
    experts: Vec<Vec<f64>>,
}

/// The result of a refit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Fit {
    /// The first forecast day.
    day: i64,
    /// The forecast of every bin of the days ahead.
    ahead: Vec<f64>,
    /// The weights of the experts.
    weights: Vec<f64>,
    /// The offset added before taking logarithms.
    floor: f64,
    spread: Spread,
    correlation: Correlation,
    carry: Carry,
    drift: Option<Drift>,
    value_max: f64,
    /// The most that was seen around the time of day of each slot.
    seen_max: Vec<f64>,
    /// The errors of the scored days, oldest first: the value of each slot minus its forecast of midnight, zero in a gap.
    misses: Vec<Vec<f64>>,
}

/// A forecaster of the table with its learned state, which can be stored and restored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    version: u32,
    method: Method,
    bin_seconds: u32,
    calendar: Calendar,
    /// When the next bin begins.
    next_unix_seconds: i64,
    /// The day of the first value, which is at midnight.
    first_day: i64,
    /// One value for each slot; a slot is one bin, or several if bins are short.
    values: Vec<Option<f64>>,
    /// The bins of the incomplete slot.
    open: Vec<Option<f64>>,
    within: Within,
    masked_values: u64,
    scored: Vec<ScoredDay>,
    scores: profile::Scores,
    fit: Option<Fit>,
}

impl Learned {
    pub(super) fn new(
        method: Method,
        start_unix_seconds: i64,
        bin_seconds: u32,
        calendar: Calendar,
    ) -> Result<Self, ForecastError> {
        if bin_seconds == 0 || !DAY_SECONDS.is_multiple_of(bin_seconds) {
            return Err(ForecastError {
                problem: format!("a day is no whole number of bins of {bin_seconds} s"),
                expected: "a bin that divides a day, such as 5m, 10m or 1h".into(),
            });
        }
        let local = calendar.local_seconds(start_unix_seconds);
        let first_day = local.div_euclid(i64::from(DAY_SECONDS));
        let bins_before = (local.rem_euclid(i64::from(DAY_SECONDS)) / i64::from(bin_seconds)) as usize;
        let slot_bins = slot_bins(bin_seconds);
        Ok(Self {
            version: VERSION,
            method,
            bin_seconds,
            calendar,
            next_unix_seconds: start_unix_seconds,
            first_day,
            values: vec![None; bins_before / slot_bins],
            open: vec![None; bins_before % slot_bins],
            within: Within::default(),
            masked_values: 0,
            scored: Vec::new(),
            scores: profile::Scores::new(),
            fit: None,
        })
    }

    /// Restores the state that [`Self::save`] stored.
    ///
    /// # Errors
    /// [`ForecastError`] if the text is not a state of this version.
    pub fn restore(text: &str) -> Result<Self, ForecastError> {
        let state: Self = serde_json::from_str(text).map_err(|error| unusable(error.to_string()))?;
        state.check().map(|()| state)
    }

    /// Checks a state that was stored.
    pub(crate) fn check(&self) -> Result<(), ForecastError> {
        if self.version != VERSION {
            return Err(unusable(format!("it is of version {}", self.version)));
        }
        if self.bin_seconds == 0 || !DAY_SECONDS.is_multiple_of(self.bin_seconds) {
            return Err(unusable(format!("a day is no whole number of bins of {} s", self.bin_seconds)));
        }
        if self.is_whole() { Ok(()) } else { Err(unusable("its parts do not fit together".into())) }
    }

    /// Whether the lengths of all parts agree.
    fn is_whole(&self) -> bool {
        let slots = self.slots();
        let days = (self.values.len() / slots) as i64;
        let experts = self.method.experts().len();
        let is_day = |scored: &ScoredDay| {
            (self.first_day..self.first_day.saturating_add(days)).contains(&scored.day)
                && scored.experts.len() == experts
                && scored.experts.iter().all(|expert| expert.len() == slots)
        };
        let is_fit = |fit: &Fit| {
            let are_days = fit.misses.iter().all(|day| day.len() == slots);
            let are_slots = fit.seen_max.len() == slots && fit.ahead.len() == AHEAD_DAYS * slots;
            are_days && are_slots && fit.spread.is_whole(slots) && fit.carry.is_whole()
        };
        self.scored.iter().all(is_day) && profile::are_whole(&self.scores) && self.fit.as_ref().is_none_or(is_fit)
    }

    /// The learned state as JSON.
    ///
    /// # Errors
    /// [`ForecastError`] if it cannot be serialised, which finite numbers never cause.
    pub fn save(&self) -> Result<String, ForecastError> {
        serde_json::to_string(self)
            .map_err(|error| ForecastError { problem: error.to_string(), expected: "finite numbers".into() })
    }

    /// The lasting change of level that the last refit found, if any.
    #[must_use]
    pub fn drift(&self) -> Option<Drift> {
        self.fit.as_ref().and_then(|fit| fit.drift)
    }

    /// How alike the errors of two bins are, as measured by the last refit.
    #[must_use]
    pub fn correlation(&self) -> Correlation {
        self.fit.as_ref().map_or_else(Correlation::default, |fit| fit.correlation)
    }

    /// The weight of each method of a combination since the last refit, by name.
    #[must_use]
    pub fn weights(&self) -> Vec<(&'static str, f64)> {
        let name = |method: Method| match method {
            Method::NaiveDay => "naive-day",
            Method::NaiveWeek => "naive-week",
            Method::MedianWeek => "median-week",
            Method::Paper(_) => "paper",
            Method::HoltWinters(_) => "holt-winters",
            Method::Mmpp => "mmpp",
            Method::DayProfile => "day-profile",
            Method::Mstl => "mstl",
            Method::Hedge => "hedge",
        };
        let weights = self.fit.iter().flat_map(|fit| fit.weights.iter().copied());
        self.method.experts().into_iter().map(name).zip(weights).collect()
    }

    /// Forgets the bins that begin at or after a time, which is when the next one begins.
    pub(crate) fn forget_from(&mut self, unix_seconds: i64) {
        if unix_seconds >= self.next_unix_seconds {
            return;
        }
        self.next_unix_seconds = unix_seconds;
        let (slot_bins, bins) = (slot_bins(self.bin_seconds), self.next_local_bin());
        let Ok(bins) = usize::try_from(bins) else {
            // The new time lies before all that the forecaster knows.
            if let Ok(fresh) = Self::new(self.method, unix_seconds, self.bin_seconds, self.calendar.clone()) {
                *self = fresh;
            }
            return;
        };
        self.values.truncate(bins / slot_bins);
        self.open = vec![None; bins % slot_bins];
        let day = self.first_day + (self.values.len() / self.slots()) as i64;
        self.scored.retain(|scored| scored.day < day);
        self.scores.retain(|scored, _| *scored < day);
        self.fit = None;
    }

    /// The number of values that were refused because they were negative, not finite or absurdly large.
    #[must_use]
    pub fn masked_values(&self) -> u64 {
        self.masked_values
    }

    /// The most that was seen when it last learned; no bound before that.
    pub(crate) fn value_max(&self) -> f64 {
        self.fit.as_ref().map_or(f64::MAX, |fit| fit.value_max)
    }

    /// Whether as many values are known as a day has.
    pub(crate) fn knows_a_day(&self) -> bool {
        self.values.iter().flatten().count() >= self.slots()
    }

    /// The number of slots of a day.
    fn slots(&self) -> usize {
        (DAY_SECONDS / self.slot_seconds()) as usize
    }

    fn slot_seconds(&self) -> u32 {
        self.bin_seconds * slot_bins(self.bin_seconds) as u32
    }

    /// The number of bins from the first midnight to the next bin, on the local clock.
    fn next_local_bin(&self) -> i64 {
        let local = self.calendar.local_seconds(self.next_unix_seconds);
        (local - self.first_day * i64::from(DAY_SECONDS)).div_euclid(i64::from(self.bin_seconds))
    }

    fn push(&mut self, value: Option<f64>) {
        self.open.push(value);
        if self.open.len() >= slot_bins(self.bin_seconds) {
            self.close_slot();
        }
    }

    /// The number of bins from the first midnight that were taken.
    fn taken_bins(&self) -> i64 {
        (self.values.len() * slot_bins(self.bin_seconds) + self.open.len()) as i64
    }

    /// Closes the open slot: its value is the mean of its bins if at least half of them are known.
    fn close_slot(&mut self) {
        let (sum, count) =
            self.open.iter().flatten().fold((0.0, 0_usize), |(sum, count), value| (sum + value, count + 1));
        let mean = (count > 0 && 2 * count >= self.open.len()).then(|| sum / count as f64);
        if let Some(mean) = mean.filter(|_| self.open.len() > 1) {
            self.within.count(&self.open, mean);
        }
        self.values.push(mean);
        self.open.clear();
        // Memory stays bounded between refits, too.
        if self.values.len() > 2 * KEPT_DAYS * self.slots() {
            self.trim();
        }
    }

    /// The forecasts of every expert for the days after `kept`. A combination hides off-scale days from the experts that repeat a week
    /// before; the day profile finds them itself. The other experts see them, because one of them must follow a change at once.
    fn experts_ahead(&self, kept: &Past<'_>, days: usize, scores: &mut profile::Scores) -> Vec<Vec<f64>> {
        let recent = kept.last(HISTORY_DAYS);
        let values = matches!(self.method, Method::Hedge).then(|| profile::without_off_scale(&recent));
        let masked = values.as_ref().map_or(*kept, |values| Past { values, ..recent });
        let of = |method: Method, scores: &mut profile::Scores| {
            let is_weekly = matches!(method, Method::Mstl | Method::NaiveWeek);
            let past = if is_weekly { &masked } else { kept };
            method.ahead(past, days, scores)
        };
        self.method.experts().into_iter().map(|method| of(method, scores)).collect()
    }

    fn past(&self, days: usize) -> Past<'_> {
        let slots = self.slots();
        Past { slots, first_day: self.first_day, values: &self.values[..days * slots], calendar: &self.calendar }
    }

    /// Drops days that are no longer needed.
    fn trim(&mut self) {
        let slots = self.slots();
        let spare = (self.values.len() / slots).saturating_sub(KEPT_DAYS);
        self.values.drain(..spare * slots);
        self.first_day += spare as i64;
        let first = self.first_day + (self.values.len() / slots).saturating_sub(SCORED_DAYS) as i64;
        self.scored.retain(|scored| scored.day >= first);
        self.scores.retain(|day, _| *day >= first - profile::TUNED_DAYS as i64);
    }

    /// Scores every expert on the days not scored yet.
    fn score(&mut self, days: usize) {
        let slots = self.slots();
        let mut scores = std::mem::take(&mut self.scores);
        for place in days.saturating_sub(SCORED_DAYS).max(1)..days {
            let day = self.first_day + place as i64;
            let is_known = |values: &[Option<f64>]| values.iter().any(Option::is_some);
            let has_past = is_known(&self.values[..place * slots]);
            let is_scored = self.scored.iter().any(|scored| scored.day == day);
            if is_scored || !has_past || !is_known(&self.values[place * slots..(place + 1) * slots]) {
                continue;
            }
            let past = self.past(place);
            let experts = self.experts_ahead(&past, 1, &mut scores);
            self.scored.push(ScoredDay { day, experts });
        }
        self.scores = scores;
        self.scored.sort_by_key(|scored| scored.day);
    }

    fn fitted(&self, scores: &mut profile::Scores) -> Fit {
        let slots = self.slots();
        // Without a whole day, use the part of the first day that exists.
        let days = (self.values.len() / slots).max(usize::from(self.values.len() < slots));
        let mut short = Vec::new();
        let past = if self.values.len() < slots {
            short.extend_from_slice(&self.values);
            short.resize(slots, None);
            Past { slots, first_day: self.first_day - 1, values: &short, calendar: &self.calendar }
        } else {
            self.past(days)
        };
        let floor = floor_of(past.values);
        let mut losses: Vec<Vec<f64>> = Vec::new();
        let (mut errors, mut pairs, mut sequence) = (Vec::new(), Vec::new(), Vec::new());
        let mut misses = Vec::new();
        for scored in &self.scored {
            let Ok(place) = usize::try_from(scored.day - self.first_day) else { continue };
            let actual = &self.values[place * slots..(place + 1) * slots];
            let weights = hedge(&losses, scored.experts.len());
            let forecast = combined(&scored.experts, &weights);
            sequence.extend(actual.iter().zip(&forecast).map(|(value, forecast)| busy_error(*value, *forecast, floor)));
            errors.push(log_errors(actual, &forecast, floor));
            let miss = |(value, forecast): (&Option<f64>, &f64)| value.map_or(0.0, |value| value - forecast);
            misses.push(actual.iter().zip(&forecast).map(miss).collect());
            pairs.push(forecast.iter().copied().zip(actual.iter().copied()).collect());
            losses.push(scored.experts.iter().map(|expert| loss(actual, expert)).collect());
        }
        let experts = self.experts_ahead(&past, AHEAD_DAYS, scores);
        let weights = hedge(&losses, experts.len());
        let spread = Spread::of(slots, &errors, &pairs);
        Fit {
            day: past.target().max(self.first_day + (self.values.len() / slots) as i64),
            ahead: combined(&experts, &weights),
            weights,
            floor,
            correlation: Correlation::of(&errors, |slot| spread.scale(slot)),
            spread,
            carry: if self.method.follows_the_day() {
                Carry::of(&sequence, self.slot_seconds())
            } else {
                Carry::default()
            },
            drift: drift::alarm(&sequence, self.slot_seconds()),
            value_max: past.values.iter().flatten().copied().fold(0.0, f64::max),
            seen_max: seen_max(&past, (SEEN_AROUND_SECONDS / self.slot_seconds()).max(1) as usize),
            misses,
        }
    }

    /// Paths that the next bins may take: the forecast plus the errors of the same hours on each of the last scored days and the days
    /// after it. None is above the most that was seen, and there are none before a day was scored.
    #[must_use]
    pub fn scenarios(&self, horizon_bins: usize) -> Vec<Vec<f64>> {
        let Some(fit) = &self.fit else { return Vec::new() };
        let (slots, slot_bins) = (self.slots(), slot_bins(self.bin_seconds));
        let middle = self.predict(horizon_bins, &[]).median;
        let path = |number: usize| {
            let at = |(bin, middle): (usize, &f64)| {
                let slot = self.values.len() + (self.open.len() + bin) / slot_bins;
                let day = (number + slot / slots - self.values.len() / slots) % fit.misses.len();
                let miss = fit.misses[day].get(slot % slots).copied().unwrap_or(0.0);
                (middle + miss).clamp(0.0, fit.value_max)
            };
            middle.iter().enumerate().map(at).collect()
        };
        (fit.misses.len().saturating_sub(SCENARIOS)..fit.misses.len()).map(path).collect()
    }

    /// Takes the next bins, in order; `None` is a gap.
    pub fn update(&mut self, bins: &[Option<f64>]) {
        for bin in bins {
            let taken = bin.filter(|value| (0.0..=VALUE_MAX).contains(value));
            self.masked_values += u64::from(bin.is_some() && taken.is_none());
            // Where clocks go forward, an hour of the local day is missing; where they go back, the hour that comes twice
            // counts once.
            while self.taken_bins() < self.next_local_bin() {
                self.push(None);
            }
            if self.taken_bins() == self.next_local_bin() {
                self.push(taken);
            }
            self.next_unix_seconds += i64::from(self.bin_seconds);
        }
    }

    /// Learns from all bins so far.
    pub fn refit(&mut self) {
        self.trim();
        self.score(self.values.len() / self.slots());
        let mut scores = std::mem::take(&mut self.scores);
        self.fit = Some(self.fitted(&mut scores));
        self.scores = scores;
    }

    /// Forecasts the `horizon_bins` bins after the last one. Each of `quantiles` is between 0 and 1.
    #[must_use]
    pub fn predict(&self, horizon_bins: usize, quantiles: &[f64]) -> Forecast {
        let fresh;
        let fit = match &self.fit {
            Some(fit) => fit,
            None => {
                fresh = self.fitted(&mut profile::Scores::new());
                &fresh
            }
        };
        let slots = self.slots();
        let start = self.first_day * slots as i64 + self.values.len() as i64 - fit.day * slots as i64;
        let level = self.level_now(fit, start);
        let mut levels: Vec<f64> = quantiles.iter().copied().filter(|level| (0.0..=1.0).contains(level)).collect();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        let errors: Vec<f64> = levels.iter().map(|level| fit.spread.error_at(*level)).collect();
        let mut out = Forecast {
            quantiles: levels.iter().map(|level| (*level, Vec::with_capacity(horizon_bins))).collect(),
            errors_known: fit.spread.errors,
            history_days: self.values.len() / slots,
            degraded: self.degraded(fit),
            ..Forecast::default()
        };
        let limit = fit.value_max * GROWTH_MAX;
        let bounded = |value: f64| {
            let value = if value <= fit.floor * 1.001 { 0.0 } else { value };
            if value.is_finite() { value.clamp(0.0, limit) } else { limit }
        };
        let slot_bins = slot_bins(self.bin_seconds);
        let inside: Vec<f64> = levels.iter().map(|level| self.within.log_at(*level)).collect();
        let inside_median = self.within.log_at(0.5);
        let now_offset_seconds = self.calendar.offset_seconds(self.next_unix_seconds);
        for bin in 0..horizon_bins {
            let lead = (self.open.len() + bin) / slot_bins;
            let unix_seconds = self.next_unix_seconds + bin as i64 * i64::from(self.bin_seconds);
            let moved = self.calendar.offset_seconds(unix_seconds) - now_offset_seconds;
            let place = start.max(0) + lead as i64 + moved.div_euclid(i64::from(self.slot_seconds()));
            let place = usize::try_from(place).unwrap_or(0);
            let slot = place % slots;
            let ahead = ahead_at(&fit.ahead, slots, place);
            // An idle bin stays idle, whatever the level of the busy ones.
            let (middle, mean) = if ahead > fit.floor {
                let correction = fit.carry.correction(level, lead + 1, self.slot_seconds()).exp();
                let middle = (ahead * correction).min(fit.value_max.max(ahead));
                (middle, middle * fit.spread.ratio(slot))
            } else {
                (fit.floor, fit.spread.idle_mean)
            };
            let median = bounded(middle * inside_median.exp());
            out.median.push(median);
            out.mean.push(bounded(mean));
            // No quantile of a slot is above the most that was seen around its time of day, unless the forecast itself is. The errors of
            // the day on which the level changed would otherwise widen it for days.
            let room = (fit.seen_max[slot] / middle).ln().max(0.0);
            let mut lowest = 0.0_f64;
            for (((quantile, values), error), inside) in out.quantiles.iter_mut().zip(&errors).zip(&inside) {
                let error = together((error * fit.spread.scale(slot)).min(room), *inside);
                let mut value = bounded(middle * error.exp());
                value = if *quantile < 0.5 { value.min(median) } else { value.max(median) };
                lowest = lowest.max(value);
                values.push(lowest);
            }
        }
        out
    }

    /// The recent error of the bins since the last refit. That of the day before is not carried on: the methods have seen that day, and on
    /// bursty series a carried error doubled theirs.
    fn level_now(&self, fit: &Fit, start: i64) -> f64 {
        let slots = self.slots();
        let keep = drift::keep(self.slot_seconds());
        let since = usize::try_from(start).unwrap_or(0).min(self.values.len());
        let first = self.values.len() - since;
        let mut level = 0.0;
        for (place, value) in self.values[first..].iter().enumerate() {
            level = drift::next_level(level, busy_error(*value, ahead_at(&fit.ahead, slots, place), fit.floor), keep);
        }
        level
    }

    fn degraded(&self, fit: &Fit) -> Vec<String> {
        const DAYS_MIN: usize = 7;
        const GAPS_MAX: f64 = 0.3;
        let mut out = Vec::new();
        let days = self.values.len() / self.slots();
        if days < DAYS_MIN {
            out.push(format!(
                "only {days} days of history: days of the week that were not seen are guessed from others"
            ));
        }
        let gaps = self.values.iter().filter(|value| value.is_none()).count() as f64 / self.values.len().max(1) as f64;
        if gaps > GAPS_MAX {
            out.push(format!("{:.0} % of the history are gaps", gaps * 100.0));
        }
        if fit.spread.errors == 0 {
            out.push("no errors are known yet: the quantiles are a guess".into());
        }
        if let Some(drift) = fit.drift {
            let way = if drift.upwards { "above" } else { "below" };
            let hours = drift.bins_ago as f64 * f64::from(self.slot_seconds()) / 3600.0;
            let percent = 100.0 * drift.size.abs();
            out.push(format!("the level has been {percent:.0} % {way} what was forecast for {hours:.0} hours"));
        }
        out
    }
}

fn unusable(problem: String) -> ForecastError {
    ForecastError {
        problem: format!("the stored forecaster cannot be used: {problem}"),
        expected: format!("a state of version {VERSION}, as this program stores it"),
    }
}

/// The forecast of a bin counted from the first day ahead; beyond the last day, the last week repeats.
fn ahead_at(ahead: &[f64], slots: usize, place: usize) -> f64 {
    let days = ahead.len() / slots;
    let (day, slot) = (place / slots, place % slots);
    let day = if day < days { day } else { days - 1 - (7 - 1 - (day - days) % 7).min(days - 1) };
    ahead[day * slots + slot]
}

/// For each slot of a day, the most that was seen on any day at most `around` slots from it.
fn seen_max(past: &Past<'_>, around: usize) -> Vec<f64> {
    let slots = past.slots;
    let mut at = vec![0.0_f64; slots];
    for (place, value) in past.values.iter().enumerate().filter_map(|(place, value)| Some((place, (*value)?))) {
        at[place % slots] = at[place % slots].max(value);
    }
    let around = around.min(slots / 2);
    let near =
        |slot: usize| (slots - around..=slots + around).map(|away| at[(slot + away) % slots]).fold(0.0, f64::max);
    (0..slots).map(near).collect()
}

fn log_errors(actual: &[Option<f64>], forecast: &[f64], floor: f64) -> Vec<f64> {
    let error = |(value, forecast): (&Option<f64>, &f64)| {
        value.map_or(f64::NAN, |value| value.max(floor).ln() - forecast.max(floor).ln())
    };
    actual.iter().zip(forecast).map(error).collect()
}

/// The error of the logarithm if both are busy; otherwise not a number, since idle has no level.
fn busy_error(value: Option<f64>, forecast: f64, floor: f64) -> f64 {
    match value {
        Some(value) if value > floor && forecast > floor => (value / forecast).ln(),
        _ => f64::NAN,
    }
}
