//! Generated weeks of virtual desktops: a seeded series whose noise is known.
//!
//! The shape follows figures 4 and 9 of the background paper: a login storm around eight, work until half past five with a
//! lunch break, busier Mondays and quieter Fridays, a virus scan at night, quiet weekends except for Sunday's backup. The
//! rate of each value is known, and so is the error that no forecaster can beat.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::{Losses, Series};

const DAY_SECONDS: i64 = 86_400;

/// The parameters of a generated series. The defaults give the series on which the forecasters are measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vdi {
    /// When the first bin begins, on the local clock; a multiple of `bin_seconds`.
    pub start_unix_seconds: i64,
    /// Length of a bin.
    pub bin_seconds: u32,
    /// The number of bins.
    pub bins: usize,
    /// The spread of a bin's logarithm around that of its rate.
    pub noise: f64,
    /// The share of bins that are two to four times their rate.
    pub spikes: f64,
    /// The height of the login storm, as a multiple of the usual: 0 for a day that is a plateau.
    pub storm: f64,
    /// The hour at which work ends.
    pub work_ends_hour: f64,
    /// Days, by number from the first, that are like a Saturday whatever the calendar says.
    pub holidays: Vec<i64>,
    /// From this bin on, every rate is multiplied by this factor.
    pub shift: Option<(usize, f64)>,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for Vdi {
    /// Four weeks of 10-minute bins from Monday, 2016-02-01, with a spread of 0.18.
    fn default() -> Self {
        Self {
            start_unix_seconds: 1_454_284_800,
            bin_seconds: 600,
            bins: 28 * 144,
            noise: 0.18,
            spikes: 0.0,
            storm: 1.0,
            work_ends_hour: 17.5,
            holidays: Vec::new(),
            shift: None,
            seed: 0,
        }
    }
}

/// A generated series, and the rates that it was drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct VdiSeries {
    /// Requests a second in each bin.
    pub series: Series,
    /// The rate of each bin, without the noise: the best possible forecast.
    pub rates: Vec<f64>,
}

/// Random variation between days of one kind.
struct Day {
    level: f64,
    storm_hour: f64,
    storm_height: f64,
}

impl Vdi {
    /// Generates the series.
    #[must_use]
    pub fn generate(&self) -> VdiSeries {
        let mut random = Normals(Pcg64::seed_from_u64(self.seed));
        let bin_seconds = i64::from(self.bin_seconds.max(1));
        let first_day = self.start_unix_seconds.div_euclid(DAY_SECONDS);
        let (mut number, mut drift) = (None, 0.0);
        let mut day = Day { level: 1.0, storm_hour: STORM_HOUR, storm_height: STORM };
        let (mut rates, mut values) = (Vec::with_capacity(self.bins), Vec::with_capacity(self.bins));
        for bin in 0..self.bins {
            let time = self.start_unix_seconds + bin as i64 * bin_seconds;
            let today = time.div_euclid(DAY_SECONDS);
            if number.replace(today) != Some(today) {
                drift += 0.02 * random.normal();
                day = Day {
                    level: (drift + 0.06 * random.normal()).exp(),
                    storm_hour: STORM_HOUR + 8.0 / 60.0 * random.normal(),
                    storm_height: STORM * self.storm * (0.12 * random.normal()).exp(),
                };
            }
            let middle = time.rem_euclid(DAY_SECONDS) + bin_seconds / 2;
            let weekday = (today + 3).rem_euclid(7);
            let acts_like = if self.holidays.contains(&(today - first_day)) { 5 } else { weekday };
            let shift = self.shift.filter(|(from, _)| bin >= *from).map_or(1.0, |(_, factor)| factor);
            let rate = shape(acts_like, middle as f64 / 3600.0, &day, self.work_ends_hour) * day.level * shift;
            let spike = if random.uniform() < self.spikes { 2.0 + 2.0 * random.uniform() } else { 1.0 };
            rates.push(rate);
            values.push(Some(rate * spike * (self.noise * random.normal()).exp()));
        }
        let series = Series {
            name: format!("vdi-{}", self.seed),
            start_unix_seconds: self.start_unix_seconds,
            bin_seconds: self.bin_seconds.max(1),
            values,
            losses: Losses::default(),
        };
        VdiSeries { series, rates }
    }
}

const STORM_HOUR: f64 = 8.0 + 10.0 / 60.0;
/// Requests a second at the height of the login storm.
const STORM: f64 = 6000.0;

/// Requests a second at an hour of a day of the week, 0 being Monday.
fn shape(weekday: i64, hour: f64, day: &Day, work_ends_hour: f64) -> f64 {
    const BASE: f64 = 300.0;
    const SCAN: f64 = 900.0;
    const STORM_SPREAD_HOURS: f64 = 28.0 / 60.0;
    let within = |from: f64, to: f64| f64::from(u8::from(hour >= from && hour < to));
    if weekday >= 5 {
        let backup = if weekday == 6 { 1500.0 * within(2.0, 6.0) } else { 0.0 };
        return 450.0 + backup;
    }
    let busy = match weekday {
        0 => 1.10,
        4 => 0.85,
        _ => 1.0,
    };
    // People come and go over half an hour, not all at once.
    let ramp =
        |from: f64, to: f64| (1.0 / (1.0 + (-(hour - from) * 8.0).exp())) * (1.0 / (1.0 + ((hour - to) * 8.0).exp()));
    let lunch = 1.0 - 0.35 * (-((hour - 12.5) / 0.5).powi(2) / 2.0).exp();
    let storm = day.storm_height * (-((hour - day.storm_hour) / STORM_SPREAD_HOURS).powi(2) / 2.0).exp();
    BASE + SCAN * within(1.0, 3.0) + busy * (2500.0 * ramp(9.0, work_ends_hour) * lunch + storm)
}

/// Normal and uniform numbers from a seed.
struct Normals(Pcg64);

impl Normals {
    /// A uniform number from zero up to, but not including, one.
    fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A normal number with mean zero and spread one, by the Box-Muller method.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}
