//! Validation of a device model: replays measured requests and compares the distributions of response times.
//!
//! The measure is the *demerit* of Ruemmler and Wilkes (1994): the root mean square of the horizontal distance between the
//! two cumulative distributions, which is a time. It does not compare single requests, which no model of this kind can
//! predict.
//!
//! A measured trace is the text format that DiskSim calls `validate`, one request on each line, `.gz` or plain:
//!
//! ```text
//! R Hit   31853640   8   4067.00000      9.00000
//! ```
//!
//! The fields are direction, hit or miss (in the drive's buffer; not used), first sector, sectors, response time, and think
//! time until the next request, in microseconds. One request is outstanding at a time.

use std::io::{BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;
use ioweir_core::{Dispatch, Flags, Nanos, Operation, Request, StreamId};
use serde::Serialize;

use super::{Device, Service};
use ioweir_config::SpecError;

/// The most requests that are read.
const REQUESTS_MAX: usize = 10_000_000;
/// The longest line: a request is about fifty characters.
const LINE_BYTES_MAX: u64 = 1 << 12;

/// A request with the response time that the drive had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Read or write.
    pub operation: Operation,
    /// First sector.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// Response time of the drive.
    pub response_nanos: u64,
    /// The time from its completion to the next request.
    pub think_nanos: u64,
}

/// A model compared with a measured trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Validation {
    /// The number of requests compared.
    pub requests: usize,
    /// The demerit: the distance between the two distributions.
    pub demerit_nanos: f64,
    /// Response times of the drive.
    pub measured: Distribution,
    /// Response times of the model.
    pub modelled: Distribution,
    /// The mean overhead in the model.
    pub overhead_mean_nanos: f64,
    /// The mean seek in the model.
    pub seek_mean_nanos: f64,
    /// The mean wait for the sector in the model.
    pub rotation_mean_nanos: f64,
    /// The mean transfer in the model.
    pub transfer_mean_nanos: f64,
}

/// A summary of response times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Mean.
    pub mean_nanos: f64,
    /// Standard deviation.
    pub deviation_nanos: f64,
    /// The median: half of the times are at most this.
    pub p50_nanos: u64,
    /// 95 % of the times are at most this.
    pub p95_nanos: u64,
    /// 99 % of the times are at most this.
    pub p99_nanos: u64,
}

impl Validation {
    /// The demerit divided by the measured mean.
    #[must_use]
    pub fn demerit_ratio(&self) -> f64 {
        self.demerit_nanos / self.measured.mean_nanos
    }

    /// The error of the model's mean, divided by the measured mean.
    #[must_use]
    pub fn mean_error_ratio(&self) -> f64 {
        self.modelled.mean_nanos / self.measured.mean_nanos - 1.0
    }
}

impl Distribution {
    /// Summarizes sorted times.
    fn of(sorted: &[u64]) -> Self {
        let count = sorted.len().max(1) as f64;
        let mean_nanos = sorted.iter().map(|&time| time as f64).sum::<f64>() / count;
        let squares: f64 = sorted.iter().map(|&time| (time as f64 - mean_nanos).powi(2)).sum();
        let quantile = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            sorted.get(rank).copied().unwrap_or(0)
        };
        Self {
            mean_nanos,
            deviation_nanos: (squares / count).sqrt(),
            p50_nanos: quantile(50),
            p95_nanos: quantile(95),
            p99_nanos: quantile(99),
        }
    }
}

/// The root mean square of the horizontal distance between the distributions of two sets of times, in their unit. The sets
/// need neither be sorted nor of the same size; the result is zero if one is empty.
#[must_use]
pub fn demerit(one: &[u64], other: &[u64]) -> f64 {
    let sorted = |times: &[u64]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times
    };
    let (one, other) = (sorted(one), sorted(other));
    let count = one.len().max(other.len());
    if one.is_empty() || other.is_empty() {
        return 0.0;
    }
    // The value in the middle of each of `count` equal steps up the distribution.
    let at = |times: &[u64], step: usize| times[(2 * step + 1) * times.len() / (2 * count)] as f64;
    let squares: f64 = (0..count).map(|step| (at(&one, step) - at(&other, step)).powi(2)).sum();
    (squares / count as f64).sqrt()
}

/// Serves the requests one after another, each a think time after the previous completion.
///
/// # Errors
/// The number, counted from 1, of the first request that does not lie on the device.
pub fn replay(device: &mut dyn Device, requests: &[Measured]) -> Result<Vec<Service>, usize> {
    let mut now = Nanos::ZERO;
    let mut services = Vec::with_capacity(requests.len());
    for (number, measured) in requests.iter().enumerate() {
        let request = Request {
            operation: measured.operation,
            flags: Flags::NONE,
            stream: StreamId(0),
            sector: measured.sector,
            sectors: measured.sectors,
        };
        if request.sector_end() > device.sectors() {
            return Err(number + 1);
        }
        let service = device.serve(now, &Dispatch::alone(&request));
        now = service.finish.after(Nanos(measured.think_nanos));
        services.push(service);
    }
    Ok(services)
}

/// Replays a measured trace and compares the response times.
///
/// # Errors
/// As [`replay`].
pub fn validate(device: &mut dyn Device, requests: &[Measured]) -> Result<Validation, usize> {
    let services = replay(device, requests)?;
    let mut measured: Vec<u64> = requests.iter().map(|request| request.response_nanos).collect();
    let mut modelled: Vec<u64> = services
        .iter()
        .map(|service| {
            let moving = service.seek_nanos + service.rotation_nanos + service.transfer_nanos;
            service.overhead_nanos + moving + service.queue_nanos
        })
        .collect();
    measured.sort_unstable();
    modelled.sort_unstable();
    let count = services.len().max(1) as f64;
    let mean = |part: fn(&Service) -> u64| services.iter().map(|service| part(service) as f64).sum::<f64>() / count;
    Ok(Validation {
        requests: services.len(),
        demerit_nanos: demerit(&measured, &modelled),
        measured: Distribution::of(&measured),
        modelled: Distribution::of(&modelled),
        overhead_mean_nanos: mean(|service| service.overhead_nanos),
        seek_mean_nanos: mean(|service| service.seek_nanos),
        rotation_mean_nanos: mean(|service| service.rotation_nanos),
        transfer_mean_nanos: mean(|service| service.transfer_nanos),
    })
}

/// Reads a measured trace; `file` is only for the errors.
///
/// # Errors
/// The first line that is not a request, with line and column.
pub fn read_measured(file: &str, input: impl Read) -> Result<Vec<Measured>, SpecError> {
    let mut input = BufReader::new(input);
    let failed = |line: usize, column: usize, problem: String| SpecError {
        file: file.into(),
        position: (line > 0).then_some((line, column)),
        problem,
        hint: "a line is `R|W Hit|Miss SECTOR SECTORS RESPONSE_US THINK_US`".into(),
    };
    let head = input.fill_buf().map_err(|error| failed(0, 0, format!("cannot be read: {error}")))?;
    let mut lines: Box<dyn BufRead + '_> =
        if head.starts_with(&[0x1f, 0x8b]) { Box::new(BufReader::new(GzDecoder::new(input))) } else { Box::new(input) };
    let mut requests = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(|error| failed(number, 1, format!("cannot be read: {error}")))? == 0 {
            break;
        }
        let text = std::str::from_utf8(&line).map_err(|_| failed(number, 1, "not text".into()))?;
        if text.trim().is_empty() {
            continue;
        }
        if requests.len() == REQUESTS_MAX {
            return Err(failed(number, 1, format!("more than {REQUESTS_MAX} requests")));
        }
        requests.push(parse_line(text).map_err(|(column, problem)| failed(number, column, problem))?);
    }
    Ok(requests)
}

/// Parses one request; the error is the column and the problem there.
fn parse_line(text: &str) -> Result<Measured, (usize, String)> {
    let mut rest = text;
    let mut word = |what: &str| {
        rest = rest.trim_start();
        let column = text.len() - rest.len() + 1;
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        if word.is_empty() { Err((column, format!("the line ends before {what}"))) } else { Ok((column, word)) }
    };
    let (column, direction) = word("R or W")?;
    let operation = match direction {
        "R" => Operation::Read,
        "W" => Operation::Write,
        _ => return Err((column, format!("\"{direction}\" is neither R nor W"))),
    };
    let (column, hit) = word("Hit or Miss")?;
    if hit != "Hit" && hit != "Miss" {
        return Err((column, format!("\"{hit}\" is neither Hit nor Miss")));
    }
    let (column, sector) = word("the first sector")?;
    let sector = sector.parse().map_err(|_| (column, format!("\"{sector}\" is no sector number")))?;
    let (column, sectors) = word("the length")?;
    let sectors = sectors.parse().map_err(|_| (column, format!("\"{sectors}\" is no number of sectors")))?;
    let (column, response) = word("the response time")?;
    let response_nanos = nanos_of_micros(response).ok_or((column, format!("\"{response}\" is no time in us")))?;
    let (column, think) = word("the think time")?;
    let think_nanos = nanos_of_micros(think).ok_or((column, format!("\"{think}\" is no time in us")))?;
    if let Ok((column, more)) = word("") {
        return Err((column, format!("\"{more}\" after the last column")));
    }
    Ok(Measured { operation, sector, sectors, response_nanos, think_nanos })
}

/// Parses a decimal number of microseconds below an hour.
fn nanos_of_micros(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let micros: u64 = whole.parse().ok().filter(|&micros| micros < 3_600_000_000)?;
    // Three decimal places are nanoseconds; further ones are dropped.
    let nanos = fraction.bytes().chain(*b"000").take(3).fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Some(micros * 1_000 + nanos)
}
