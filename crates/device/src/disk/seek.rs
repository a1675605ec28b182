//! Seek time by distance in cylinders.
//!
//! There are three forms. Each is turned into one table of nanoseconds by distance at construction, so that a request costs
//! one load:
//!
//! - *table*: measured points, linear between them; the most accurate.
//! - *HPL* (Ruemmler and Wilkes 1994): a root below a threshold, a line above.
//! - *datasheet* (Lee 1993): a root and a line through the three numbers that a datasheet gives, such that the mean over
//!   uniformly random pairs of cylinders is the datasheet's average.

use super::spec::SeekSpec;
use ioweir_config::Duration;

/// The most cylinders for which the table is built.
pub(crate) const CYLINDERS_MAX: u32 = 1 << 21;
/// The longest seek: a longer one would not be a disk's.
pub(crate) const SEEK_MAX_NANOS: u64 = 4_000_000_000;

/// Seek times by distance.
#[derive(Clone, Debug)]
pub(crate) struct SeekTable {
    nanos: Vec<u32>,
}

impl SeekTable {
    /// The curve of `spec` for a disk of `cylinders`, which are at most [`CYLINDERS_MAX`].
    ///
    /// # Errors
    /// The wrong key below `seek`, the problem, and a hint.
    pub(crate) fn new(spec: &SeekSpec, cylinders: u32) -> Result<Self, SeekError> {
        match spec {
            SeekSpec::Table { points } => Self::measured(points, cylinders),
            SeekSpec::Hpl { threshold_cylinders, short, short_root, long, long_slope, single } => {
                let curve = Hpl {
                    threshold: *threshold_cylinders,
                    short: short.as_nanos_f64(),
                    root: short_root.as_nanos_f64(),
                    long: long.as_nanos_f64(),
                    slope: long_slope.as_nanos_f64(),
                };
                Self::tabulate(cylinders, |distance| match (distance, single) {
                    (1, Some(single)) => single.as_nanos_f64(),
                    _ => curve.nanos(distance),
                })
            }
            SeekSpec::Datasheet { single, average, full } => {
                let (root, line) = lee(single, average, full, cylinders)?;
                let least = single.as_nanos_f64();
                Self::tabulate(cylinders, |distance| {
                    let steps = f64::from(distance - 1);
                    root * steps.sqrt() + line * steps + least
                })
            }
        }
    }

    /// The time to move by `distance` cylinders; zero for none. Beyond the last cylinder it is the longest seek.
    #[inline]
    pub(crate) fn nanos(&self, distance: u32) -> u64 {
        let last = self.nanos.len() - 1;
        u64::from(self.nanos[(distance as usize).min(last)])
    }

    /// The mean over uniformly random pairs of cylinders, including seeks of no distance.
    pub(crate) fn mean_nanos(&self) -> f64 {
        let count = self.nanos.len() as f64;
        let sum: f64 = (1..self.nanos.len()).map(|d| 2.0 * (count - d as f64) * f64::from(self.nanos[d])).sum();
        sum / (count * count)
    }

    fn tabulate(cylinders: u32, curve: impl Fn(u32) -> f64) -> Result<Self, SeekError> {
        let mut nanos = Vec::with_capacity(cylinders as usize);
        nanos.push(0);
        for distance in 1..cylinders {
            let value = curve(distance);
            if !(0.0..=SEEK_MAX_NANOS as f64).contains(&value) {
                return Err(SeekError::whole(
                    format!("gives {:.3} ms for a seek of {distance} cylinders", value / 1e6),
                    "a seek takes between 0 and 4 s: check the parameters and their units",
                ));
            }
            nanos.push(rounded(value));
        }
        Ok(Self { nanos })
    }

    fn measured(points: &[(u32, Duration)], cylinders: u32) -> Result<Self, SeekError> {
        let mut nanos = vec![0];
        let mut before = (0, 0_u64);
        for (number, (distance, time)) in points.iter().enumerate() {
            let (distance, time) = (*distance, time.nanos().0);
            let key = format!("table.points[{number}]");
            if distance <= before.0 {
                return Err(SeekError::at(
                    key,
                    format!("distance {distance} is not above {}", before.0),
                    "sort the points by distance, from 1 cylinder up",
                ));
            }
            if number == 0 && distance != 1 {
                return Err(SeekError::at(
                    key,
                    format!("the first point is at distance {distance}"),
                    "the first point is the seek of 1 cylinder",
                ));
            }
            if time > SEEK_MAX_NANOS {
                return Err(SeekError::at(key, "is longer than 4 s".into(), "check the unit"));
            }
            let span = u64::from(distance - before.0);
            for step in 1..=span {
                if nanos.len() >= cylinders as usize {
                    break;
                }
                let part = if number == 0 { time } else { (before.1 * (span - step) + time * step + span / 2) / span };
                nanos.push(u32::try_from(part).unwrap_or(u32::MAX));
            }
            before = (distance, time);
        }
        if nanos.len() < cylinders as usize {
            return Err(SeekError::at(
                "table.points".into(),
                format!("covers distances up to {}, the disk has {cylinders} cylinders", before.0),
                "add a point for the longest seek, cylinders - 1",
            ));
        }
        Ok(Self { nanos })
    }
}

/// Why a seek curve cannot be built.
pub(crate) struct SeekError {
    /// The key below `seek`; empty for the whole.
    pub(crate) key: String,
    pub(crate) problem: String,
    pub(crate) hint: &'static str,
}

impl SeekError {
    fn at(key: String, problem: String, hint: &'static str) -> Self {
        Self { key, problem, hint }
    }

    fn whole(problem: String, hint: &'static str) -> Self {
        Self::at(String::new(), problem, hint)
    }
}

struct Hpl {
    threshold: u32,
    short: f64,
    root: f64,
    long: f64,
    slope: f64,
}

impl Hpl {
    fn nanos(&self, distance: u32) -> f64 {
        let cylinders = f64::from(distance);
        if distance < self.threshold {
            self.short + self.root * cylinders.sqrt()
        } else {
            self.long + self.slope * cylinders
        }
    }
}

/// Lee's two coefficients: nanoseconds by the root of the distance, and nanoseconds by the distance.
fn lee(single: &Duration, average: &Duration, full: &Duration, cylinders: u32) -> Result<(f64, f64), SeekError> {
    let (least, mean, most) = (single.as_nanos_f64(), average.as_nanos_f64(), full.as_nanos_f64());
    let count = f64::from(cylinders);
    let root = (-10.0 * least + 15.0 * mean - 5.0 * most) / (3.0 * count.sqrt());
    let line = (7.0 * least - 15.0 * mean + 8.0 * most) / (3.0 * count);
    if root < 0.0 || line < 0.0 {
        let low = (15.0 * mean - 7.0 * least) / 8.0;
        let high = (15.0 * mean - 10.0 * least) / 5.0;
        return Err(SeekError::at(
            "datasheet.full".into(),
            format!(
                "{full} does not fit an average of {average}: the curve would bend the wrong way (it can be {:.3} ms to {:.3} ms)",
                low / 1e6,
                high / 1e6
            ),
            "an arm accelerates, so the average seek lies well above a third of the way from the shortest to the longest",
        ));
    }
    Ok((root, line))
}

/// Rounds a time that was checked against [`SEEK_MAX_NANOS`], half away from zero as `f64::round` does, which is a call into a library.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn rounded(value: f64) -> u32 {
    let whole = value as u32;
    whole + u32::from(value - f64::from(whole) >= 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str) -> Duration {
        text.parse().expect("a span")
    }

    fn build(spec: &SeekSpec, cylinders: u32) -> SeekTable {
        SeekTable::new(spec, cylinders).unwrap_or_else(|error| panic!("{}: {}", error.key, error.problem))
    }

    #[test]
    fn measured_table_is_exact_and_monotone() {
        let points = vec![(1, span("0.5525ms")), (10, span("0.7876ms")), (100, span("1.1398ms")), (999, span("1.6ms"))];
        let table = build(&SeekSpec::Table { points: points.clone() }, 1000);
        assert_eq!(table.nanos(0), 0);
        for (distance, time) in &points {
            assert_eq!(table.nanos(*distance), time.nanos().0);
        }
        for distance in 1..999 {
            assert!(table.nanos(distance) <= table.nanos(distance + 1), "at {distance}");
        }
        assert_eq!(table.nanos(u32::MAX), 1_600_000, "past the end is the longest seek");
    }

    #[test]
    fn lees_form_reproduces_the_datasheet() {
        let spec = SeekSpec::Datasheet { single: span("0.8ms"), average: span("8.5ms"), full: span("18ms") };
        let table = build(&spec, 100_000);
        assert_eq!(table.nanos(1), 800_000);
        assert!((table.nanos(99_999) as f64 - 18e6).abs() < 1e4, "{}", table.nanos(99_999));
        assert!((table.mean_nanos() - 8.5e6).abs() < 1e4, "{}", table.mean_nanos());
    }

    #[test]
    fn hpl_form_is_root_then_line() {
        let spec = SeekSpec::Hpl {
            threshold_cylinders: 383,
            short: span("3.24ms"),
            short_root: span("0.4ms"),
            long: span("8ms"),
            long_slope: span("8us"),
            single: Some(span("2.5ms")),
        };
        let table = build(&spec, 1962);
        assert_eq!(table.nanos(1), 2_500_000);
        assert_eq!(table.nanos(100), 7_240_000);
        assert_eq!(table.nanos(1000), 16_000_000);
    }

    #[test]
    fn numbers_that_no_arm_produces_are_refused() {
        let average_too_high = SeekSpec::Datasheet { single: span("1ms"), average: span("9ms"), full: span("10ms") };
        assert!(SeekTable::new(&average_too_high, 1000).is_err_and(|error| error.key == "datasheet.full"));
        let short = SeekSpec::Table { points: vec![(1, span("1ms")), (10, span("2ms"))] };
        assert!(SeekTable::new(&short, 1000).is_err_and(|error| error.problem.contains("up to 10")));
        let unsorted = SeekSpec::Table { points: vec![(1, span("1ms")), (1, span("2ms"))] };
        assert!(SeekTable::new(&unsorted, 1000).is_err_and(|error| error.key == "table.points[1]"));
        assert!(SeekTable::new(&SeekSpec::Table { points: Vec::new() }, 2).is_err());
        let endless = SeekSpec::Hpl {
            threshold_cylinders: 1,
            short: Duration::default(),
            short_root: Duration::default(),
            long: Duration::default(),
            long_slope: span("1s"),
            single: None,
        };
        assert!(SeekTable::new(&endless, 100).is_err());
    }
}
