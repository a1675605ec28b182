//! Draws of processor times whose distribution may have a heavy tail, from tables.

use std::sync::LazyLock;

use ioweir_config::Complaint;
use ioweir_device::random::natural_logarithm;
use serde::{Deserialize, Serialize};

/// The distribution of the varying part of a processor time. All have the same mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    #[default]
    Exponential,
    /// Lognormal: the standard deviation of the logarithm.
    Lognormal(f64),
    /// Pareto: the exponent of the tail. The smaller it is, the more of the time is in few requests.
    Pareto(f64),
}

impl Distribution {
    /// Checks the parameter; `key` is the place of the distribution.
    pub(crate) fn check(self, key: &str) -> Result<(), Complaint> {
        match self {
            Self::Exponential => Ok(()),
            Self::Lognormal(deviation) => Complaint::unless_within(format!("{key}.lognormal"), deviation, [0.0, 3.0]),
            Self::Pareto(exponent) => Complaint::unless_within(format!("{key}.pareto"), exponent, [1.1, 100.0]),
        }
    }
}

/// The number of steps in the table of exponential quantiles.
const STEPS: usize = 4096;

/// Exponential draws with mean 2^16 from a table, whose mean is exact to 1 in 2^16.
#[derive(Clone, Debug)]
pub(crate) struct Exponential {
    quantiles: Box<[u32]>,
}

impl Exponential {
    /// Builds the table: each entry is the mean of the distribution over its interval of probability.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 2^16 times 10")]
    pub(crate) fn new() -> Self {
        // The integral of -ln(x) from a to b is b(1 - ln b) - a(1 - ln a).
        let integral = |x: f64| if x > 0.0 { x * (1.0 - natural_logarithm(x)) } else { 0.0 };
        let entry = |step: usize| {
            let (low, high) = (step as f64 / STEPS as f64, (step + 1) as f64 / STEPS as f64);
            ((integral(high) - integral(low)) * STEPS as f64 * 65_536.0).round() as u32
        };
        Self { quantiles: (0..STEPS).map(entry).collect() }
    }

    pub(crate) fn draw(&self, drawn: u64, mean: u64) -> u64 {
        (mean * u64::from(self.quantiles[(drawn >> 52) as usize])) >> 16
    }
}

/// Draws of the varying part of processor times.
#[derive(Clone, Debug)]
pub(crate) enum Varying {
    Exponential(&'static Exponential),
    Heavy(Heavy),
}

/// The table of all exponential draws: one for each class would fill a cache, and be made for each run.
static EXPONENTIAL: LazyLock<Exponential> = LazyLock::new(Exponential::new);

/// Draws with mean 2^16 from a heavy tail. The last step of the table is a table itself, so that one draw of 2^24 is seen apart.
#[derive(Clone, Debug)]
pub(crate) struct Heavy {
    quantiles: Box<[u32]>,
    last: Box<[u32]>,
}

impl Varying {
    pub(crate) fn new(distribution: Distribution) -> Self {
        match distribution {
            Distribution::Exponential => Self::Exponential(&EXPONENTIAL),
            Distribution::Lognormal(deviation) => {
                Self::Heavy(Heavy::new(|rest| exponential(-deviation * normal(rest))))
            }
            Distribution::Pareto(exponent) => {
                Self::Heavy(Heavy::new(|rest| exponential(-natural_logarithm(rest) / exponent)))
            }
        }
    }

    pub(crate) fn draw(&self, drawn: u64, mean: u64) -> u64 {
        match self {
            Self::Exponential(exponential) => exponential.draw(drawn, mean),
            Self::Heavy(heavy) => heavy.draw(drawn, mean),
        }
    }
}

impl Heavy {
    /// Builds the tables from the value that a share of the draws exceeds.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 2^16 times 2^16")]
    fn new(exceeded: impl Fn(f64) -> f64) -> Self {
        // Each entry is the value in the middle of its interval of probability.
        let steps = STEPS as f64;
        let value = |step: usize, width: f64| exceeded((STEPS - step) as f64 * width - width / 2.0);
        let quantiles: Vec<f64> = (0..STEPS - 1).map(|step| value(step, 1.0 / steps)).collect();
        let last: Vec<f64> = (0..STEPS).map(|step| value(step, 1.0 / (steps * steps))).collect();
        let mean = (quantiles.iter().sum::<f64>() + last.iter().sum::<f64>() / steps) / steps;
        let scaled =
            |values: Vec<f64>| values.into_iter().map(|value| (value / mean * 65_536.0).round() as u32).collect();
        Self { quantiles: scaled(quantiles), last: scaled(last) }
    }

    fn draw(&self, drawn: u64, mean: u64) -> u64 {
        let value = match self.quantiles.get((drawn >> 52) as usize) {
            Some(value) => *value,
            None => self.last[(drawn >> 40) as usize % STEPS],
        };
        ((u128::from(mean) * u128::from(value)) >> 16) as u64
    }
}

/// The exponential of a number from -700 to 700, to about 1e-15; that of the system may differ from one machine to another.
fn exponential(power: f64) -> f64 {
    let doublings = (power / std::f64::consts::LN_2).round();
    let rest = power - doublings * std::f64::consts::LN_2;
    let sum = (1..=18).rev().fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    #[expect(clippy::cast_possible_truncation, reason = "at most 1010")]
    let scale = if doublings < 0.0 { 0.5_f64.powi(-doublings as i32) } else { 2.0_f64.powi(doublings as i32) };
    sum * scale
}

/// The value below which a normal variable lies with this probability, to about 1e-9: Acklam's rational approximation.
fn normal(probability: f64) -> f64 {
    const CENTRE: ([f64; 6], [f64; 6]) = (
        [
            -3.969683028665376e1,
            2.209460984245205e2,
            -2.759285104469687e2,
            1.38357751867269e2,
            -3.066479806614716e1,
            2.506628277459239,
        ],
        [
            -5.447609879822406e1,
            1.615858368580409e2,
            -1.556989798598866e2,
            6.680131188771972e1,
            -1.328068155288572e1,
            1.0,
        ],
    );
    const TAIL: ([f64; 6], [f64; 5]) = (
        [
            -7.784894002430293e-3,
            -3.223964580411365e-1,
            -2.400758277161838,
            -2.549732539343734,
            4.374664141464968,
            2.938163982698783,
        ],
        [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416, 1.0],
    );
    let polynomial = |factors: &[f64], x: f64| factors.iter().fold(0.0, |sum, factor| sum * x + factor);
    let tail = |probability: f64| {
        let q = (-2.0 * natural_logarithm(probability)).sqrt();
        polynomial(&TAIL.0, q) / polynomial(&TAIL.1, q)
    };
    if probability < 0.02425 {
        tail(probability)
    } else if probability > 1.0 - 0.02425 {
        -tail(1.0 - probability)
    } else {
        let q = probability - 0.5;
        q * polynomial(&CENTRE.0, q * q) / polynomial(&CENTRE.1, q * q)
    }
}

#[cfg(test)]
mod tests {
    use ioweir_device::random::Random;

    use super::*;

    #[test]
    fn exponential_draws_have_their_mean_and_their_square() {
        let exponential = Exponential::new();
        let sum: u64 = exponential.quantiles.iter().map(|value| u64::from(*value)).sum();
        let mean = sum as f64 / STEPS as f64 / 65_536.0;
        let squares: f64 = exponential.quantiles.iter().map(|value| (f64::from(*value) / 65_536.0).powi(2)).sum();
        assert!((mean - 1.0).abs() < 1e-4, "{mean}");
        assert!((squares / STEPS as f64 - 2.0).abs() < 2e-2, "{squares}");
        let mut random = Random::new(1);
        let drawn: u64 = (0..100_000).map(|_| exponential.draw(random.bits(), 1_000_000)).sum();
        assert!((drawn as f64 / 1e11 - 1.0).abs() < 0.01);
    }

    #[test]
    fn heavy_tails_have_their_mean_and_their_quantiles() {
        for (power, exact) in [(-1.0, 0.367_879_441_171_442_3), (0.0, 1.0), (9.5, 13_359.726_829_661_873)] {
            assert!((exponential(power) / exact - 1.0).abs() < 1e-13, "{power}");
        }
        for (probability, exact) in [(0.5, 0.0), (0.975, 1.959_964), (1e-6, -4.753_424)] {
            assert!((normal(probability) - exact).abs() < 1e-5, "{probability}");
        }
        let expected = [
            // exp(-1.8^2 / 2), and that times exp(1.8 * 2.326).
            (Distribution::Lognormal(1.8), 0.1979, 13.02),
            // A third, and that times 100^(2/3).
            (Distribution::Pareto(1.5), 0.5291, 7.181),
        ];
        for (distribution, median, percentile) in expected {
            let (varying, mut random) = (Varying::new(distribution), Random::new(1));
            let mut drawn: Vec<u64> = (0..400_000).map(|_| varying.draw(random.bits(), 1_000_000)).collect();
            drawn.sort_unstable();
            let at = |share: f64| drawn[(share * drawn.len() as f64) as usize] as f64 / 1e6;
            assert!((at(0.5) / median - 1.0).abs() < 0.02, "{distribution:?} median {}", at(0.5));
            assert!((at(0.99) / percentile - 1.0).abs() < 0.04, "{distribution:?} p99 {}", at(0.99));
            let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64 / 1e6;
            assert!((mean - 1.0).abs() < 0.15, "{distribution:?} mean {mean}");
        }
    }
}
