//! A Prometheus server, asked over its HTTP API: the past by range queries, then each second's value by instant queries.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use ioweir_config::shown;
use ioweir_core::Nanos;
use serde::Deserialize;

use super::{Past, Reading, Source, SourceError};
use crate::clock::Moment;
use crate::spec::SourceKeys;
use ioweir_serve::http;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// The most values that are asked for at once: Prometheus refuses 11,000.
const VALUES_MAX: i64 = 10_000;
/// The most values of the past that are asked for.
const PAST_VALUES_MAX: i64 = 1 << 20;
/// How far the time of a value may be from the time that was asked for.
const APART_SECONDS: f64 = 1.0;

/// A Prometheus server.
#[derive(Debug)]
pub struct Prometheus {
    agent: ureq::Agent,
    url: String,
    authorization: Option<String>,
    keys: SourceKeys,
}

impl Prometheus {
    /// The server of checked keys.
    ///
    /// # Errors
    /// If a file that the keys name cannot be read.
    pub fn new(keys: &SourceKeys) -> Result<Self, SourceError> {
        let url = keys.url.clone().unwrap_or_default().trim_end_matches('/').to_owned();
        let timeout = Duration::from_nanos(keys.timeout.nanos().0);
        let tls = url.starts_with("https://").then(|| http::tls(&keys.authorities, None)).transpose();
        let tls = tls.map_err(SourceError)?;
        let secret = |file: &Path| http::secret(file).map_err(SourceError);
        let authorization = match (&keys.user, &keys.password_file, &keys.token_file) {
            (Some(user), Some(file), _) => {
                let pair = format!("{user}:{}", secret(file)?);
                Some(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair)))
            }
            (_, _, Some(file)) => Some(format!("Bearer {}", secret(file)?)),
            _ => None,
        };
        Ok(Self { agent: http::agent(timeout, tls), url, authorization, keys: keys.clone() })
    }

    /// The text of an answer.
    fn ask(&self, path: &str, query: &[(&str, String)]) -> Result<Vec<u8>, SourceError> {
        let place = &self.url;
        let failed = |what: String| SourceError(format!("{}: {what}", shown(place)));
        let mut request = self.agent.get(format!("{place}/api/v1/{path}"));
        for (name, value) in query {
            request = request.query(*name, value);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let mut answer = request.call().map_err(|error| failed(error.to_string()))?;
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| failed(error.to_string()))?;
        match answer.status().as_u16() {
            200 => Ok(body),
            401 | 403 => Err(failed(format!("it refuses this user ({})", answer.status()))),
            // The body of a refused query says why.
            _ => match refusal(&body) {
                Some(why) => Err(failed(why)),
                None => Err(failed(format!("it answers {}", answer.status()))),
            },
        }
    }

    fn value(&self, query: &str, now: Nanos) -> Result<Option<f64>, SourceError> {
        let seconds = now.as_seconds();
        let body = self.ask("query", &[("query", query.to_owned()), ("time", format!("{seconds:.3}"))])?;
        read_instant(&body, seconds)
    }

    fn values(&self, query: &str, (start, bins, bin): (i64, i64, i64)) -> Result<Vec<Option<f64>>, SourceError> {
        let mut values = Vec::new();
        let mut from = 0;
        while from < bins {
            let until = bins.min(from + VALUES_MAX);
            // A value belongs to the bin that ends at its time.
            let (first, last) = (start + (from + 1) * bin, start + until * bin);
            let query = [("query", query.to_owned()), ("start", first.to_string()), ("end", last.to_string())];
            let query: Vec<_> = query.into_iter().chain([("step", bin.to_string())]).collect();
            let part = read_range(&self.ask("query_range", &query)?, first, bin, (until - from) as usize)?;
            values.extend(part);
            from = until;
        }
        Ok(values)
    }
}

impl Source for Prometheus {
    fn name(&self) -> String {
        format!("prometheus {}", self.url)
    }

    fn read(&mut self, now: Moment) -> Result<Reading, SourceError> {
        let value = |query: &Option<String>| match query {
            Some(query) => self.value(query, now.wall),
            None => Ok(None),
        };
        let reading = Reading {
            requests: value(&self.keys.requests)?,
            bytes: value(&self.keys.bytes)?,
            written_bytes: value(&self.keys.written_bytes)?,
            discarded_bytes: value(&self.keys.discarded_bytes)?,
            unique: value(&self.keys.unique)?.filter(is_share),
            busy: value(&self.keys.busy)?.filter(is_share),
            background_busy: None,
            latency_seconds: value(&self.keys.latency)?,
            stalled: None,
        };
        // Where nobody asks for anything, a latency is no number: only a load is there at all times.
        let keys = &self.keys;
        let load = [&keys.requests, &keys.bytes, &keys.written_bytes, &keys.discarded_bytes, &keys.busy];
        if reading == Reading::default() && load.into_iter().any(Option::is_some) {
            let problem =
                "its queries give no value that can be one: no series, no number, one below zero, or a share above one";
            return Err(SourceError(problem.into()));
        }
        Ok(reading)
    }

    fn past(&mut self, now: Moment, bin_seconds: u32) -> Result<Option<Past>, SourceError> {
        let bin = i64::from(bin_seconds.max(1));
        let end = now.wall.0.cast_signed() / 1_000_000_000 / bin * bin;
        let asked = (self.keys.past.nanos().0 / 1_000_000_000).cast_signed() / bin;
        let bins = asked.clamp(0, PAST_VALUES_MAX).min(end / bin);
        if bins == 0 {
            return Ok(None);
        }
        let range = (end - bins * bin, bins, bin);
        let values = |query: &Option<String>| match query {
            Some(query) => self.values(query, range),
            None => Ok(Vec::new()),
        };
        let shares = |query| values(query).map(|all| all.into_iter().map(|share| share.filter(is_share)).collect());
        Ok(Some(Past {
            start_unix_seconds: range.0,
            bin_seconds,
            requests: values(&self.keys.requests)?,
            written_bytes: values(&self.keys.written_bytes)?,
            discarded_bytes: values(&self.keys.discarded_bytes)?,
            unique: shares(&self.keys.unique)?,
            busy: shares(&self.keys.busy)?,
        }))
    }
}

/// Whether a number that is not negative is a share.
fn is_share(number: &f64) -> bool {
    *number <= 1.0
}

#[derive(Deserialize)]
struct Answer<T> {
    data: T,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<One>),
    Scalar((f64, String)),
    Matrix(Vec<Many>),
}

#[derive(Deserialize)]
struct One {
    value: (f64, String),
}

#[derive(Deserialize)]
struct Many {
    values: Vec<(f64, String)>,
}

fn refusal(body: &[u8]) -> Option<String> {
    let refusal: Refusal = serde_json::from_slice(body).ok()?;
    Some(shown(refusal.error.get(..200).unwrap_or(&refusal.error)))
}

fn data(body: &[u8]) -> Result<Data, SourceError> {
    let answer: Result<Answer<Data>, _> = serde_json::from_slice(body);
    answer.map(|answer| answer.data).map_err(|error| SourceError(format!("no answer of Prometheus: {error}")))
}

fn one_series<T>(mut all: Vec<T>) -> Result<Option<T>, SourceError> {
    let last = all.pop();
    if all.is_empty() {
        return Ok(last);
    }
    Err(SourceError(format!("the query gives {} series; sum(...) makes them one", all.len() + 1)))
}

/// A value that a rate, a share or a latency can have.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

/// Reads the answer to an instant query at `seconds`; `None` if it has no value that could be of that time.
///
/// # Errors
/// If it is no answer, or of several series.
pub fn read_instant(body: &[u8], seconds: f64) -> Result<Option<f64>, SourceError> {
    let (time, value) = match data(body)? {
        Data::Scalar(value) => value,
        Data::Vector(all) => match one_series(all)? {
            Some(one) => one.value,
            None => return Ok(None),
        },
        Data::Matrix(_) => {
            return Err(SourceError("the query gives a range of values; a rate(...) makes it one".into()));
        }
    };
    if (time - seconds).abs() > APART_SECONDS {
        // The message does not name the two times, which change each second, so that a problem is reported once.
        let order = if time < seconds { "before" } else { "after" };
        return Err(SourceError(format!("a value of another time, {order} the one that was asked for")));
    }
    Ok(number(&value))
}

/// Reads the answer to a range query from `first` on, with a value every `step` seconds.
///
/// # Errors
/// If it is no answer, of several series, or of other times.
pub fn read_range(body: &[u8], first: i64, step: i64, values: usize) -> Result<Vec<Option<f64>>, SourceError> {
    let Data::Matrix(all) = data(body)? else {
        return Err(SourceError("the answer to a range is no range".into()));
    };
    let mut read = vec![None; values];
    let many = one_series(all)?.map(|many| many.values).unwrap_or_default();
    for (time, value) in many {
        let at = (time - first as f64) / step as f64;
        let place = if at.fract() == 0.0 && at >= 0.0 { read.get_mut(at as usize) } else { None };
        let place = place.ok_or_else(|| SourceError(format!("a value of a time that was not asked for: {time:.0}")))?;
        *place = number(&value);
    }
    Ok(read)
}
