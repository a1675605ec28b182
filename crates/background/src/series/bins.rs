//! Binning: turns samples at uneven times into values at even intervals.

use super::{Kind, Losses, SeriesOptions};

/// A bin with less than this share of its samples is a gap.
const COVERAGE_MIN: f64 = 0.5;
/// A larger value is damage: no storage reaches this rate.
const VALUE_MAX: f64 = 1e18;
/// A bin larger than the 90 % quantile by this factor is damage, not a burst.
const BURST_MAX: f64 = 1e6;

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    sum: f64,
    samples: u32,
}

/// Bins being filled with the samples of one column and label.
#[derive(Debug)]
pub(super) struct Binner {
    kind: Kind,
    bin_seconds: i64,
    /// The number of the first bin, counted from 1970-01-01.
    first: i64,
    bins: Vec<Bin>,
    last: Option<(i64, f64)>,
    fell: u64,
    /// How often it fell to less than a tenth, as a counter that begins anew.
    reset: u64,
    rose: u64,
    pub(super) losses: Losses,
}

impl Binner {
    pub(super) fn new(options: &SeriesOptions, bin_seconds: u32) -> Self {
        Self {
            kind: options.kind,
            bin_seconds: i64::from(bin_seconds),
            first: 0,
            bins: Vec::new(),
            last: None,
            fell: 0,
            reset: 0,
            rose: 0,
            losses: Losses::default(),
        }
    }

    /// Adds one sample. If that needed more than `bins_max` bins, refuses the sample and returns the number of bins.
    pub(super) fn add(&mut self, time: i64, value: Option<f64>, bins_max: usize) -> Result<(), u64> {
        if let Some((last, last_value)) = self.last {
            if time == last && value == Some(last_value) {
                self.losses.duplicate_rows += 1;
                return Ok(());
            }
            self.losses.rows_out_of_order += u64::from(time < last);
        }
        let Some(value) = value.filter(|value| value.is_finite()) else {
            self.losses.missing_values += 1;
            // The bin exists, as a gap.
            return self.put(time, None, bins_max);
        };
        if value < 0.0 {
            self.losses.negative_values += 1;
            return self.put(time, None, bins_max);
        }
        if value > VALUE_MAX {
            self.losses.absurd_values += 1;
            return self.put(time, None, bins_max);
        }
        let before = self.last;
        if before.is_none_or(|(last, _)| time >= last) {
            self.last = Some((time, value));
        }
        if let Some((_, last_value)) = before {
            self.fell += u64::from(value < last_value);
            self.reset += u64::from(value < last_value / 10.0);
            self.rose += u64::from(value > last_value);
        }
        match self.kind {
            Kind::Mean | Kind::Sum => self.put(time, Some(value), bins_max),
            Kind::Counter => match before {
                // A counter gives no rate at its first sample or when it goes back.
                Some((last, _)) if time <= last => Ok(()),
                None => self.put(time, None, bins_max),
                Some((_, last_value)) if value < last_value => {
                    self.losses.counter_resets += 1;
                    self.put(time, None, bins_max)
                }
                Some((last, last_value)) => {
                    // The step across a gap is not the rate of any bin inside it. The bin of the second sample gets it only
                    // if the first sample is at most one bin away.
                    let rate = (value - last_value) / (time - last) as f64;
                    let near = time - last <= self.bin_seconds.max(1) * 2;
                    self.put(time, near.then_some(rate), bins_max)
                }
            },
        }
    }

    fn put(&mut self, time: i64, value: Option<f64>, bins_max: usize) -> Result<(), u64> {
        let bin = time.div_euclid(self.bin_seconds);
        if self.bins.is_empty() {
            self.first = bin;
        }
        let end = self.first + self.bins.len() as i64;
        let span = (end.max(bin + 1) - self.first.min(bin)) as u64;
        if span > bins_max as u64 {
            return Err(span);
        }
        if bin < self.first {
            // The list at least doubles, so that a file in falling order takes linear time; `finish` drops what stays empty.
            let room = (bins_max as u64 - span) as usize;
            let missing = (self.first - bin) as usize + self.bins.len().min(room);
            self.bins.splice(0..0, std::iter::repeat_n(Bin::default(), missing));
            self.first -= missing as i64;
        } else if bin >= end {
            self.bins.resize((bin - self.first + 1) as usize, Bin::default());
        }
        if let (Some(value), Some(bin)) = (value, self.bins.get_mut((bin - self.first) as usize)) {
            bin.sum += value;
            bin.samples += 1;
        }
        Ok(())
    }

    /// Whether the column is a counter by its name or by its values: they rise, and fall only where the counter begins anew.
    pub(super) fn looks_like_counter(&self, name: &str) -> bool {
        const SAMPLES_MIN: u64 = 50;
        const RESETS_MAX_SHARE: u64 = 20;
        let name = name.split(['{', ' ']).next().unwrap_or_default();
        let is_named = name.ends_with("_total") || name.ends_with("_count");
        let rises = self.rose >= SAMPLES_MIN && self.fell == self.reset && self.fell * RESETS_MAX_SHARE <= self.rose;
        self.kind != Kind::Counter && (rises || is_named && self.rose > self.fell * RESETS_MAX_SHARE)
    }

    pub(super) fn bins(&self) -> usize {
        self.bins.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bins.iter().all(|bin| bin.samples == 0)
    }

    /// The start of the first bin, and the values, for samples that are `step_seconds` apart.
    pub(super) fn finish(mut self, step_seconds: f64) -> (i64, Vec<Option<f64>>, Losses) {
        let empty = self.bins.iter().take_while(|bin| bin.samples == 0).count();
        self.bins.drain(..empty);
        self.first += empty as i64;
        while self.bins.last().is_some_and(|bin| bin.samples == 0) {
            self.bins.pop();
        }
        let bin_seconds = self.bin_seconds as f64;
        let expected = (bin_seconds / step_seconds.max(1.0)).max(1.0);
        let samples_min = (expected * COVERAGE_MIN).floor().max(1.0);
        let scale = match self.kind {
            Kind::Mean => 1.0,
            // The sum of a bin that lacks no sample.
            Kind::Sum => bin_seconds / step_seconds.max(1.0),
            Kind::Counter => 1.0,
        };
        let mut values: Vec<Option<f64>> = Vec::with_capacity(self.bins.len());
        for bin in &self.bins {
            let thin = bin.samples > 0 && f64::from(bin.samples) < samples_min;
            self.losses.thin_bins += u64::from(thin);
            values.push((bin.samples > 0 && !thin).then(|| bin.sum / f64::from(bin.samples) * scale));
        }
        let mut positive: Vec<f64> = values.iter().flatten().copied().filter(|value| *value > 0.0).collect();
        if !positive.is_empty() {
            let place = (positive.len() - 1) * 9 / 10;
            let (_, usual, _) = positive.select_nth_unstable_by(place, f64::total_cmp);
            let limit = *usual * BURST_MAX;
            for value in values.iter_mut().filter(|value| value.is_some_and(|value| value > limit)) {
                *value = None;
                self.losses.absurd_values += 1;
            }
        }
        (self.first * self.bin_seconds, values, self.losses)
    }
}
