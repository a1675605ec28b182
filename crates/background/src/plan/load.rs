//! Converts series to demands and forecasts to outlooks, in whole numbers.

use super::policy::Policy;
use super::system::Demand;
use crate::forecast::{Calendar, Correlation, ForecasterChoice, Learned};
use crate::series::{Counted, Series, is_column, lines_of_losses};
use ioweir_config::Size;
use ioweir_core::background::overwrite_debt;
use serde::{Deserialize, Serialize};

/// An error in the load of a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}\n  expected: {expected}\n\nhint: {hint}")]
pub struct LoadError {
    pub problem: String,
    /// The values that are accepted.
    pub expected: String,
    /// The advice to the user.
    pub hint: String,
}

/// The foreground load in bins; `None` is a gap.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// When the first bin begins.
    pub start_unix_seconds: i64,
    /// Length of a bin.
    pub bin_seconds: u32,
    /// By how much the clock of its times is ahead of UTC, if they say so.
    pub utc_offset_seconds: Option<i32>,
    /// Requests a second.
    pub requests: Vec<Option<f64>>,
    /// Blocks written a second.
    pub written: Rates,
    /// Blocks unmapped a second, metadata included.
    pub unmapped: Rates,
    /// The share of blocks written that are new, from 0 to 1: `u(t)` of the paper.
    pub unique: Rates,
    /// Problems found while reading.
    pub notes: Vec<String>,
}

/// A quantity besides the rate of requests: measured, or a share of a whole, which is that rate for rates.
#[derive(Clone, Debug, PartialEq)]
pub enum Rates {
    /// Measured in each bin.
    Own(Vec<Option<f64>>),
    /// A share of the whole, for every bin.
    Share(f64),
}

/// The blocks written, and the ones among them that are new.
fn written(rate_blocks: f64, unique: f64) -> (u64, u64) {
    let written = whole(rate_blocks);
    (written, written - overwrite_debt(written, (unique * 1000.0).round() as u32))
}

impl Rates {
    fn at(&self, bin: usize, whole: f64) -> f64 {
        match self {
            Self::Own(values) => values.get(bin).copied().flatten().unwrap_or(0.0),
            Self::Share(share) => whole * share,
        }
    }
}

/// The values of a column of shares.
fn shares(series: &Series) -> Result<Vec<Option<f64>>, LoadError> {
    let wrong = series.values.iter().flatten().find(|share| !(0.0..=1.0).contains(*share));
    wrong.map_or_else(
        || Ok(series.values.clone()),
        |share| {
            Err(LoadError {
                problem: format!("the column `{}` holds {share}", ioweir_config::shown(&series.name)),
                expected: "shares of blocks written that are new, from 0 to 1".into(),
                hint: "without a measured share, leave `unique` out and state unique_percent".into(),
            })
        },
    )
}

/// Adds two series; a bin is known if it is known in both.
fn sum(left: &[Option<f64>], right: &[Option<f64>]) -> Vec<Option<f64>> {
    left.iter().zip(right).map(|(left, right)| Some((*left)? + (*right)?)).collect()
}

fn scaled(values: &[Option<f64>], factor: f64) -> Vec<Option<f64>> {
    values.iter().map(|value| value.map(|value| value * factor)).collect()
}

impl Load {
    /// The load in the columns of a file, as the policy defines them.
    ///
    /// # Errors
    /// [`LoadError`] if a column is missing or ambiguous.
    pub fn of_series(series: &[Series], policy: &Policy) -> Result<Self, LoadError> {
        let terms = &policy.load;
        let names = || series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>().join(", ");
        let column = |name: &Option<String>| match name {
            None => Ok(None),
            Some(name) => {
                series.iter().find(|series| is_column(&series.name, name)).map(Some).ok_or_else(|| LoadError {
                    problem: format!("the series has no column `{}`", ioweir_config::shown(name)),
                    expected: format!("one of {}", names()),
                    hint: "[load] of the policy names the columns: total, or read and write".into(),
                })
            }
        };
        let (total, read) = (column(&terms.total)?, column(&terms.read)?);
        let (write, unmap) = (column(&terms.write)?, column(&terms.unmap)?);
        let only = if let ([only], None, None, None) = (series, total, read, write) { Some(only) } else { None };
        let unclear = || LoadError {
            problem: format!("it is not clear which column is the load: there are {}", names()),
            expected: "`total`, or `read` and `write`, in [load] of the policy".into(),
            hint: "total = \"value\"".into(),
        };
        let first = total.or(read).or(write).or(only).ok_or_else(unclear)?;
        let block = policy.pool.block.0 as f64;
        // The unit in requests, and in blocks.
        let request = terms.request.0 as f64;
        let (per_request, per_block) = match terms.unit.parse::<Size>() {
            Ok(Size(unit)) => (terms.scale * unit as f64 / request, terms.scale * unit as f64 / block),
            Err(_) => (terms.scale, terms.scale * request / block),
        };
        let (requests, written) = match (total.or(only), read, write) {
            (Some(total), _, Some(write)) => (total.values.clone(), Some(write)),
            (Some(total), _, None) => (total.values.clone(), None),
            (None, Some(read), Some(write)) => (sum(&read.values, &write.values), Some(write)),
            (None, None, Some(write)) => (write.values.clone(), Some(write)),
            (None, _, None) => return Err(unclear()),
        };
        let metadata = 1.0 + terms.metadata_percent / 100.0;
        let written = match written {
            Some(write) => Rates::Own(scaled(&write.values, per_block)),
            None => Rates::Share(terms.write_percent / 100.0 * request / block),
        };
        let unmapped = unmap.map_or(Rates::Share(0.0), |unmap| Rates::Own(scaled(&unmap.values, per_block * metadata)));
        let unique = match column(&terms.unique)? {
            None => Rates::Share(terms.unique_percent / 100.0),
            Some(series) => Rates::Own(shares(series)?),
        };
        let used = [total, read, write, unmap, only];
        let notes = lines_of_losses(used.into_iter().flatten());
        Ok(Self {
            start_unix_seconds: first.start_unix_seconds,
            bin_seconds: first.bin_seconds,
            utc_offset_seconds: first.losses.utc_offset_seconds,
            requests: scaled(&requests, per_request),
            written,
            unmapped,
            unique,
            notes,
        })
    }

    /// The load of a block trace.
    #[must_use]
    pub fn of_trace(counted: &Counted, policy: &Policy) -> Self {
        let [reads, writes, unmaps] = &counted.requests;
        let block = policy.pool.block.0 as f64;
        let metadata = 1.0 + policy.load.metadata_percent / 100.0;
        let requests = sum(&sum(&reads.values, &writes.values), &unmaps.values);
        Self {
            start_unix_seconds: reads.start_unix_seconds,
            bin_seconds: reads.bin_seconds,
            utc_offset_seconds: None,
            requests: scaled(&requests, policy.load.scale),
            written: Rates::Own(scaled(&counted.bytes[1].values, policy.load.scale / block)),
            unmapped: Rates::Own(scaled(&counted.bytes[2].values, policy.load.scale * metadata / block)),
            unique: Rates::Own(counted.unique_ratio.values.clone()),
            notes: Vec::new(),
        }
    }

    /// A load of `bins` bins from `from` on, after a gap of `gap` bins.
    #[must_use]
    pub fn part(&self, from: usize, gap: usize, bins: usize) -> Self {
        let cut = |values: &[Option<f64>]| {
            let known = values.iter().skip(from).copied();
            std::iter::repeat_n(None, gap).chain(known).take(bins).collect::<Vec<_>>()
        };
        let rates = |rates: &Rates| match rates {
            Rates::Own(values) => Rates::Own(cut(values)),
            Rates::Share(share) => Rates::Share(*share),
        };
        Self {
            requests: cut(&self.requests),
            written: rates(&self.written),
            unmapped: rates(&self.unmapped),
            unique: rates(&self.unique),
            notes: Vec::new(),
            ..self.clone()
        }
    }

    /// The number of known bins, and of all bins.
    #[must_use]
    pub fn known_bins(&self) -> (usize, usize) {
        (self.requests.iter().flatten().count(), self.requests.len())
    }

    /// When the bin after the last begins.
    #[must_use]
    pub fn end_unix_seconds(&self) -> i64 {
        self.start_unix_seconds.saturating_add(self.requests.len() as i64 * i64::from(self.bin_seconds))
    }

    /// The load of a bin; `None` in a gap.
    #[must_use]
    pub fn demand(&self, bin: usize) -> Option<Demand> {
        let requests = self.requests.get(bin).copied().flatten()?;
        let seconds = f64::from(self.bin_seconds);
        let (written_blocks, new_blocks) = written(self.written.at(bin, requests) * seconds, self.unique.at(bin, 1.0));
        Some(Demand {
            requests: whole(requests * seconds),
            written_blocks,
            new_blocks,
            unmapped_blocks: whole(self.unmapped.at(bin, requests) * seconds),
        })
    }
}

/// A count: rounded, never negative, and capped so that sums cannot overflow.
fn whole(value: f64) -> u64 {
    const MOST: f64 = 1e15;
    if value.is_finite() { value.clamp(0.0, MOST).round() as u64 } else { 0 }
}

/// The range of load in the bins ahead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// The expected load.
    pub expected: Vec<Demand>,
    /// The high quantile of sums from the first bin on: the load that fills pools and occupies cores.
    pub high: Vec<Demand>,
    /// The low quantile of sums from the first bin on.
    pub low: Vec<Demand>,
    /// The low and the high quantile of requests in each single bin.
    pub requests_band: Vec<(u64, u64)>,
    /// The high quantile of blocks written in each single bin.
    pub written_high: Vec<u64>,
    /// Reasons to trust the forecast less than usual.
    pub degraded: Vec<String>,
    /// The number of days of history that it is based on.
    pub history_days: usize,
}

/// Forecasts a load. Its state can be stored; what was stored is [checked](LoadForecaster::check) before it is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadForecaster {
    bin_seconds: u32,
    quantile: f64,
    requests: Learned,
    written: Model,
    unmapped: Model,
    unique: Model,
    /// The share of new blocks until one has been measured for as long as a day.
    #[serde(default)]
    unique_before: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Model {
    Own(Box<Learned>),
    Share(f64),
}

impl LoadForecaster {
    /// A forecaster without history.
    ///
    /// # Errors
    /// [`crate::forecast::ForecastError`] if a day is not a whole number of bins.
    pub fn new(
        load: &Load,
        choice: &ForecasterChoice,
        quantile: f64,
        calendar: &Calendar,
    ) -> Result<Self, crate::forecast::ForecastError> {
        let build = || choice.build(load.start_unix_seconds, load.bin_seconds, calendar);
        let model = |rates: &Rates| {
            Ok(match rates {
                Rates::Own(_) => Model::Own(Box::new(build()?)),
                Rates::Share(share) => Model::Share(*share),
            })
        };
        Ok(Self {
            bin_seconds: load.bin_seconds,
            quantile,
            requests: build()?,
            written: model(&load.written)?,
            unmapped: model(&load.unmapped)?,
            unique: model(&load.unique)?,
            unique_before: None,
        })
    }

    /// Sets the share of new blocks that is assumed until the share was measured for as long as a day.
    #[must_use]
    pub fn with_unique_before(self, share: f64) -> Self {
        Self { unique_before: Some(share), ..self }
    }

    /// Copies another forecaster's model of which blocks are new, unless both learn it.
    pub fn judge_unique_as(&mut self, other: &Self) {
        if !matches!((&self.unique, &other.unique), (Model::Own(_), Model::Own(_))) {
            self.unique = other.unique.clone();
        }
        self.unique_before = other.unique_before;
    }

    /// The share of new blocks that is assumed, because too little of it was measured.
    #[must_use]
    pub fn assumed_unique(&self) -> Option<f64> {
        match &self.unique {
            Model::Own(model) => self.unique_before.filter(|_| !model.knows_a_day()),
            Model::Share(_) => None,
        }
    }

    /// The share of new blocks that is expected in the next bin.
    #[must_use]
    pub fn expected_unique(&self) -> f64 {
        self.shares(1).at(1, 0)
    }

    /// The shares of new blocks in the next bins.
    fn shares(&self, bins: usize) -> Shares {
        let bins_a_day = (86_400 / self.bin_seconds.max(1)) as usize;
        match (&self.unique, self.assumed_unique()) {
            (Model::Share(share), _) => Shares::One(*share),
            (Model::Own(_), Some(share)) => Shares::One(share),
            (Model::Own(model), None) => Shares::Band(Band::of(model, bins, self.quantile).summed(bins_a_day)),
        }
    }

    /// Checks a forecaster that was stored.
    ///
    /// # Errors
    /// [`crate::forecast::ForecastError`] if it is of another version, or its parts do not fit together.
    pub fn check(&self) -> Result<(), crate::forecast::ForecastError> {
        self.requests.check()?;
        for model in [&self.written, &self.unmapped, &self.unique] {
            if let Model::Own(model) = model {
                model.check()?;
            }
        }
        Ok(())
    }

    /// Feeds bins of a load, in order.
    pub fn update(&mut self, load: &Load, bins: std::ops::Range<usize>) {
        self.requests.update(&load.requests[bins.clone()]);
        for (model, rates) in
            [(&mut self.written, &load.written), (&mut self.unmapped, &load.unmapped), (&mut self.unique, &load.unique)]
        {
            if let (Model::Own(model), Rates::Own(values)) = (model, rates) {
                model.update(&values[bins.clone()]);
            }
        }
    }

    /// Forgets the bins that begin at or after a time, which is when the next one begins, and learns from those before.
    pub fn forget_from(&mut self, unix_seconds: i64) {
        self.learned().for_each(|model| model.forget_from(unix_seconds));
        self.refit();
    }

    /// Learns from all bins so far.
    pub fn refit(&mut self) {
        self.learned().for_each(Learned::refit);
    }

    /// The forecasters of all that is measured.
    fn learned(&mut self) -> impl Iterator<Item = &mut Learned> {
        let others =
            [&mut self.written, &mut self.unmapped, &mut self.unique].into_iter().filter_map(|model| match model {
                Model::Own(model) => Some(&mut **model),
                Model::Share(_) => None,
            });
        std::iter::once(&mut self.requests).chain(others)
    }

    /// Forecasts the range of load in the next `bins` bins.
    #[must_use]
    pub fn outlook(&self, bins: usize) -> Outlook {
        let requests = Band::of(&self.requests, bins, self.quantile);
        let band = |model: &Model| match model {
            Model::Own(model) => Band::of(model.as_ref(), bins, self.quantile),
            Model::Share(share) => requests.times(*share),
        };
        let written_rates = band(&self.written);
        let seconds = f64::from(self.bin_seconds);
        let written_high = written_rates.rates[2].iter().map(|rate| whole(rate * seconds)).collect();
        let bins_a_day = (86_400 / self.bin_seconds.max(1)) as usize;
        let (written_rates, unmapped) = (written_rates.summed(bins_a_day), band(&self.unmapped).summed(bins_a_day));
        let unique = self.shares(bins);
        let [low, _, high] = &requests.rates;
        let requests_band =
            low.iter().zip(high).map(|(low, high)| (whole(low * seconds), whole(high * seconds))).collect();
        let (degraded, history_days) = (requests.degraded.clone(), requests.history_days);
        let requests = requests.summed(bins_a_day);
        let demands = |place: usize| {
            let count = |band: &Band, bin: usize| whole(band.rates[place].get(bin).copied().unwrap_or(0.0) * seconds);
            let demand = |bin: usize| {
                let rate = written_rates.rates[place].get(bin).copied().unwrap_or(0.0);
                let (written_blocks, new_blocks) = written(rate * seconds, unique.at(place, bin));
                let (requests, unmapped_blocks) = (count(&requests, bin), count(&unmapped, bin));
                Demand { requests, written_blocks, new_blocks, unmapped_blocks }
            };
            (0..bins).map(demand).collect()
        };
        let (low, expected, high) = (demands(0), demands(1), demands(2));
        Outlook { expected, high, low, requests_band, written_high, degraded, history_days }
    }

    /// Paths that the load of the next bins may take: those of the last days' errors, and the high path of the outlook.
    #[must_use]
    pub fn ahead(&self, outlook: Outlook) -> Ahead {
        let bins = outlook.high.len();
        let requests = self.requests.scenarios(bins);
        let paths = |model: &Model| match model {
            Model::Own(model) => model.scenarios(bins),
            Model::Share(share) => requests.iter().map(|path| path.iter().map(|rate| rate * share).collect()).collect(),
        };
        let (written_rates, unmapped) = (paths(&self.written), paths(&self.unmapped));
        let (unique, seconds) = (self.shares(bins), f64::from(self.bin_seconds));
        let rate = |paths: &[Vec<f64>], path: usize, bin: usize| {
            paths.get(path % paths.len().max(1)).and_then(|path| path.get(bin)).copied().unwrap_or(0.0) * seconds
        };
        let demand = |path: usize, bin: usize| {
            let (written_blocks, new_blocks) = written(rate(&written_rates, path, bin), unique.at(1, bin));
            Demand {
                requests: whole(rate(&requests, path, bin)),
                written_blocks,
                new_blocks,
                unmapped_blocks: whole(rate(&unmapped, path, bin)),
            }
        };
        let mut scenarios: Vec<Vec<Demand>> =
            (0..requests.len()).map(|path| (0..bins).map(|bin| demand(path, bin)).collect()).collect();
        // The high path, of which no bin is above the most that was seen.
        let requests_max = self.requests.value_max();
        let written_max = match &self.written {
            Model::Own(model) => model.value_max(),
            Model::Share(share) => requests_max * share,
        };
        let (requests_max, written_max) = (whole(requests_max * seconds), whole(written_max * seconds));
        scenarios.push(
            outlook
                .high
                .iter()
                .map(|demand| Demand {
                    requests: demand.requests.min(requests_max),
                    written_blocks: demand.written_blocks.min(written_max),
                    new_blocks: demand.new_blocks.min(written_max),
                    ..*demand
                })
                .collect(),
        );
        Ahead { busy: outlook.busy(), demand: outlook.high, scenarios }
    }
}

/// Low, expected and high shares of new blocks.
enum Shares {
    Band(Band),
    One(f64),
}

impl Shares {
    fn at(&self, place: usize, bin: usize) -> f64 {
        match self {
            Self::Band(band) => band.rates[place].get(bin).copied().unwrap_or(0.0).clamp(0.0, 1.0),
            Self::One(share) => *share,
        }
    }
}

/// Low, expected and high rates.
struct Band {
    rates: [Vec<f64>; 3],
    correlation: Correlation,
    degraded: Vec<String>,
    history_days: usize,
}

impl Band {
    fn of(model: &Learned, bins: usize, quantile: f64) -> Self {
        let mut forecast = model.predict(bins, &[1.0 - quantile, quantile]);
        let high = forecast.quantiles.pop().map_or_else(|| forecast.mean.clone(), |(_, values)| values);
        let low = forecast.quantiles.pop().map_or_else(|| forecast.mean.clone(), |(_, values)| values);
        let degraded = forecast.degraded;
        let correlation = model.correlation();
        Self { rates: [low, forecast.mean, high], correlation, degraded, history_days: forecast.history_days }
    }

    fn times(&self, factor: f64) -> Self {
        let rates = self.rates.each_ref().map(|rates| rates.iter().map(|rate| rate * factor).collect());
        Self { rates, correlation: self.correlation, degraded: Vec::new(), history_days: self.history_days }
    }

    /// The low, expected and high sums from the first bin on; errors of single bins partly cancel.
    fn summed(self, bins_a_day: usize) -> Self {
        let [low, mean, high] = self.rates;
        let Correlation { same_day, other_day } = self.correlation;
        let around = |edge: &[f64], sign: f64| {
            // Sums over all bins, over the whole days so far, and over the present day.
            let (mut total, mut squares, mut days, mut day, mut before) = (0.0, 0.0, 0.0, 0.0, 0.0);
            let rate = |(bin, (mean, edge)): (usize, (&f64, &f64))| {
                let error = ((edge - mean) * sign).max(0.0);
                if bin > 0 && bin.is_multiple_of(bins_a_day.max(1)) {
                    days += day * day;
                    day = 0.0;
                }
                total += error;
                day += error;
                squares += error * error;
                let alike = days + day * day;
                let variance =
                    squares + same_day * (alike - squares).max(0.0) + other_day * (total * total - alike).max(0.0);
                let spread: f64 = variance.sqrt();
                let rate = mean + sign * (spread - before);
                before = spread;
                rate.max(0.0)
            };
            mean.iter().zip(edge).enumerate().map(rate).collect::<Vec<f64>>()
        };
        let rates = [around(&low, -1.0), mean.clone(), around(&high, 1.0)];
        Self { rates, correlation: self.correlation, degraded: self.degraded, history_days: self.history_days }
    }
}

/// The outlook of a plan that is made anew in each bin, from that bin on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// The high path, by which background work rests.
    pub demand: Vec<Demand>,
    /// The requests that are expected in each bin.
    pub busy: Vec<u64>,
    /// The paths that the load may take, by which cores are reserved.
    pub scenarios: Vec<Vec<Demand>>,
}

impl Ahead {
    /// A load that is known.
    #[must_use]
    pub fn known(demand: &[Demand]) -> Self {
        let busy = demand.iter().map(|demand| demand.requests).collect();
        Self { demand: demand.to_vec(), busy, scenarios: vec![demand.to_vec()] }
    }
}

impl Outlook {
    /// The requests that are expected in each bin.
    #[must_use]
    pub fn busy(&self) -> Vec<u64> {
        self.expected.iter().map(|demand| demand.requests).collect()
    }
}

/// Forecasts at the start of each bin from `from` on, by a forecaster that has seen all earlier bins of `load`: the high
/// path of at most `horizon` bins, never beyond the end of `load`. The forecaster refits at each local midnight. Each is made
/// when it is asked for.
pub fn outlooks<'a>(
    load: &'a Load,
    from: usize,
    mut forecaster: LoadForecaster,
    horizon: usize,
    calendar: &'a Calendar,
) -> impl Iterator<Item = Ahead> + 'a {
    let bins = load.requests.len();
    let midnight = move |bin: usize| {
        let begins = load.start_unix_seconds + bin as i64 * i64::from(load.bin_seconds);
        calendar.day(begins) != calendar.day(begins - i64::from(load.bin_seconds))
    };
    (from..bins).map(move |bin| {
        if bin > from {
            forecaster.update(load, bin - 1..bin);
            if midnight(bin) {
                forecaster.refit();
            }
        }
        let outlook = forecaster.outlook(horizon.min(bins - bin));
        forecaster.ahead(outlook)
    })
}
