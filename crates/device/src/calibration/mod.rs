//! The calibration record of a device file: where its parameters come from, how far the model is from the device, and in
//! which range of requests that was seen.
//!
//! It stands beside the device as `[calibration]`. A device without one says nothing about its error.

mod file;
mod range;
#[cfg(test)]
mod tests;

use ioweir_config::{Complaint, Duration, Ratio, from_table, to_table};
use serde::{Deserialize, Serialize};
use toml::Table;

use super::parameter::{self, Amount};
use super::random::Random;
use super::{DeviceSpec, check};

pub use file::DeviceFile;
pub use range::{Observed, Range, Span};

/// How a device's parameters were found, and how good they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The kind of measurement: a trace, or probes of the device itself.
    pub source: Source,
    /// The trace's file, or the device.
    pub name: String,
    /// The SHA-256 of the measurement, in hexadecimal.
    pub sha256: String,
    /// The number of requests in the measurement.
    pub requests: u64,
    /// The version of ioweir that made the calibration.
    pub version: String,
    /// The requests that the parameters were fitted to.
    pub fitted: Part,
    /// The requests that the errors below were computed on.
    pub judged: Part,
    /// How the intervals of the parameters were found, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub intervals: String,
    /// The requests in which the device was seen.
    pub range: Range,
    /// The busy times of a disk that two reads made up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<Pairs>,
    /// The error by class of requests.
    #[serde(default, rename = "class", skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassError>,
    /// How a table and the model together predict response times by class.
    #[serde(default, rename = "blend", skip_serializing_if = "Vec::is_empty")]
    pub blends: Vec<BlendedClass>,
    /// The parameters that were fitted.
    #[serde(default, rename = "parameter", skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
}

/// The kind of measurement that a calibration rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A trace with response times.
    Trace,
    /// Probes of the device.
    Probe,
}

ioweir_core::named! {
    /// A part of the measurement.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Part {
        /// The earlier half of the requests.
        FirstHalf = "the first half",
        /// The later half of the requests.
        SecondHalf = "the second half",
        /// All probes but the last.
        Probes = "the probes",
        /// The last probe, a mix of requests that nothing was fitted to.
        HeldOut = "the held-out mix",
    }
}

/// The error of the model for one class of requests, on the part that it was not fitted to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassError {
    /// The class: `all`, operation and place, such as `read near`, or operation and queue, such as `read, alone`.
    pub name: String,
    /// The number of requests in the class.
    pub requests: u64,
    /// The mean response time of the device.
    pub measured_mean: Duration,
    /// The mean response time of the model.
    pub modelled_mean: Duration,
    /// The demerit: the root mean square distance between the two distributions of response times.
    pub demerit: Duration,
    /// The demerit between two halves of the device's own measurement: a smaller error of the model is within the noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halves: Option<Duration>,
    /// The demerit of the simplest alternative: a table of quantiles by class, made of the same requests as the fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Duration>,
}

/// The times between the completions of two reads that had the device to themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pairs {
    /// The number of pairs.
    pub count: u64,
    /// The mean time from the first completion to the second.
    pub apart: Duration,
    /// The mean time that such a read takes by itself.
    pub alone: Duration,
}

impl Pairs {
    /// The fewest pairs that say something.
    const COUNT_MIN: u64 = 25;
    /// Pairs that are less apart than this share of what a read takes were served beside each other. Disks of the family are at 0.8 or
    /// more, stripes of four at 0.7 or less (`experiments/calibration`, devices for tuning).
    const SHARE_MIN: f64 = 0.75;

    /// Whether the device serves requests beside each other.
    #[must_use]
    pub fn is_beside(&self) -> bool {
        self.count >= Self::COUNT_MIN && self.apart.as_nanos_f64() < self.alone.as_nanos_f64() * Self::SHARE_MIN
    }
}

/// The prediction of response times of one class by the model and a table of quantiles, and its error on the last quarter of the
/// requests. The share of the table was chosen on the quarter before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlendedClass {
    /// The class, as of the errors.
    pub name: String,
    /// The number of requests of the class in the last quarter.
    pub requests: u64,
    /// The share of the table; the rest is the model's.
    pub table_share: Ratio,
    /// The mean response time of the device.
    pub measured_mean: Duration,
    /// The demerit of the model by itself.
    pub model: Duration,
    /// The demerit of the table by itself.
    pub table: Duration,
    /// The demerit of both with their shares.
    pub blend: Duration,
    /// The table: the mean response times of equal parts of the first half, from the shortest. Empty if it has no share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<Duration>,
}

/// A parameter that was fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The key in the device file, such as `hdd.overhead.read_after_read`.
    pub key: String,
    /// The fitted value, which the device file has.
    pub value: Amount,
    /// The least value that the measurement allows; absent for words and switches, which have no interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<Amount>,
    /// The greatest value that the measurement allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<Amount>,
    /// The values of other devices that explain the measurement nearly as well: the values of one place belong together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drawn: Vec<Amount>,
}

impl Parameter {
    /// The interval as numbers (see [`Amount::number`]), if it has one.
    #[must_use]
    pub fn interval(&self) -> Option<(f64, f64)> {
        Some((self.low.as_ref()?.number()?, self.high.as_ref()?.number()?))
    }

    fn check(&self, number: usize, device: &Table) -> Result<(), Complaint> {
        let key = |name: &str| format!("calibration.parameter[{number}].{name}");
        let own = parameter::get(device, &self.key);
        let Some(own) = own else {
            let hint = "`ioweir show` prints a device with every parameter it has";
            return check::fail(key("key"), format!("the device has no parameter `{}`", self.key), hint);
        };
        if own != self.value {
            let problem = format!("{} is {own} in the device and {} here", self.key, self.value);
            let hint =
                "a parameter that was changed by hand is not calibrated: remove it from [[calibration.parameter]]";
            return check::fail(key("value"), problem, hint);
        }
        if self.drawn.iter().any(|drawn| !drawn.is_like(&own)) {
            let hint = "write the values of other devices in the unit of the value";
            return check::fail(key("drawn"), format!("is not of the kind of {}", self.value), hint);
        }
        match (&self.low, &self.high) {
            (None, None) => return Ok(()),
            (Some(low), Some(high)) if low.is_like(&own) && high.is_like(&own) => {}
            (Some(_), Some(_)) => {
                let hint = "write the interval in the unit of the value";
                return check::fail(key("low"), format!("is not of the kind of {}", self.value), hint);
            }
            _ => return check::fail(key("low"), "one end of the interval is missing", "give both, or none"),
        }
        let within = self.interval().zip(own.number()).is_some_and(|((low, high), own)| low <= own && own <= high);
        if within {
            return Ok(());
        }
        check::fail(key("low"), format!("{} does not lie in its interval", self.value), "low <= value <= high")
    }
}

/// Keys whose default is the value of another key: a file that is written out has both, and they change together.
const DEFAULTS: [(&str, &str); 4] = [
    ("hdd.cache.read_ahead_most", "hdd.cache.segment_size"),
    ("hdd.turn_skew", "hdd.cylinder_skew"),
    ("ssd.read_one_unit", "ssd.read"),
    ("ssd.overhead.read_one_unit", "ssd.overhead.read"),
];

impl Calibration {
    /// Checks the record against its device.
    fn check(&self, spec: &DeviceSpec) -> Result<(), Complaint> {
        let device = to_table(&spec.resolved()).map_err(Complaint::of_all)?;
        for (number, parameter) in self.parameters.iter().enumerate() {
            parameter.check(number, &device)?;
            let earlier = self.parameters.iter().take(number);
            if earlier.into_iter().any(|other| other.key == parameter.key) {
                let problem = format!("`{}` is there twice", parameter.key);
                return check::fail(format!("calibration.parameter[{number}].key"), problem, "remove one of them");
            }
        }
        let counts = || self.parameters.iter().map(|parameter| parameter.drawn.len());
        if counts().min() != counts().max() {
            let problem = "parameters have different numbers of values of other devices";
            return check::fail("calibration.parameter[0].drawn", problem, "give each the same number, or none");
        }
        if let Some(number) =
            self.blends.iter().position(|own| own.table_share.value() > 0.0 && own.quantiles.is_empty())
        {
            let key = format!("calibration.blend[{number}].quantiles");
            return check::fail(key, "a table with a share has no quantiles", "give them, or `table_share = 0`");
        }
        let spans = [("read_size", self.range.read_size), ("write_size", self.range.write_size)];
        for (name, span) in spans {
            if span.is_some_and(|span| span.low > span.high) {
                let key = format!("calibration.range.{name}");
                return check::fail(key, "ends before it begins", "write [least, most]");
            }
        }
        Ok(())
    }

    /// Draws a device that explains the measurement nearly as well, with values of all parameters that were found together. The
    /// same seed gives the same device; a record without other devices gives `spec`.
    #[must_use]
    pub fn draw(&self, spec: &DeviceSpec, seed: u64) -> DeviceSpec {
        let places = self.parameters.iter().map(|parameter| parameter.drawn.len()).min().unwrap_or(0);
        if places == 0 {
            return spec.clone();
        }
        let place = usize::try_from(Random::new(seed).below(places as u64)).unwrap_or(0);
        self.member(spec, place).unwrap_or_else(|| spec.clone())
    }

    /// The device at this place of the drawn values, if its parameters fit together.
    fn member(&self, spec: &DeviceSpec, place: usize) -> Option<DeviceSpec> {
        let mut table = to_table(&spec.resolved()).ok()?;
        for (key, default) in DEFAULTS {
            let is_default = parameter::get(&table, key) == parameter::get(&table, default);
            if let Some(own) = self.parameter(default).filter(|_| is_default && self.parameter(key).is_none()) {
                parameter::set(&mut table, key, own.drawn.get(place)?);
            }
        }
        for parameter in &self.parameters {
            parameter::set(&mut table, &parameter.key, parameter.drawn.get(place)?);
        }
        from_table::<DeviceSpec>(&table).ok().filter(|spec| spec.check().is_ok())
    }

    fn parameter(&self, key: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.key == key)
    }

    /// The error over all requests, if it was computed.
    #[must_use]
    pub fn overall(&self) -> Option<&ClassError> {
        self.classes.iter().find(|class| class.name == ClassError::ALL)
    }
}

impl ClassError {
    /// The name of the class of all requests.
    pub const ALL: &'static str = "all";

    /// The requests of the class as the object of a sentence.
    #[must_use]
    pub fn words(&self) -> String {
        if self.name == Self::ALL { "all requests".into() } else { format!("`{}`", self.name) }
    }

    /// The demerit as a share of the mean response time.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.demerit.as_nanos_f64() / self.measured_mean.as_nanos_f64().max(1.0)
    }

    /// The demerit of the table as a share of the mean response time, if it is known.
    #[must_use]
    pub fn table_share(&self) -> Option<f64> {
        self.table.map(|table| table.as_nanos_f64() / self.measured_mean.as_nanos_f64().max(1.0))
    }
}
