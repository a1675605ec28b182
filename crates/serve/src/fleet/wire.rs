//! Answers of etcd over its JSON gateway. Anyone with access to etcd may have written them, so they are checked in full.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ioweir_config::shown;
use serde::Deserialize;
use toml::Value;

use super::coordinator::{Heard, Snapshot};
use crate::spec::{ClassKind, Spec};

/// The most servers whose reports are read.
const SERVERS_MAX: usize = 10_000;
/// The most bytes of the specs of tenants.
const TENANTS_BYTES_MAX: usize = 1 << 20;

/// The answer to an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Whether the report was written; if not, the key belongs to another server, or another has begun a round.
    pub is_done: bool,
    /// The lease of the stored report, if the answer has it; 0 for none.
    pub lease: Option<i64>,
    /// The revision at which the newest round began; 0 if there was none yet.
    pub round: i64,
    /// The revision of the answer.
    pub revision: i64,
    /// The specs of tenants with their revision, if they have changed.
    pub tenants: Option<(i64, Vec<u8>)>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Header {
    revision: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct KeyValue {
    key: String,
    value: String,
    mod_revision: String,
    lease: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RangeAnswer {
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OneAnswer {
    response_range: Option<RangeAnswer>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ExchangeAnswer {
    header: Header,
    succeeded: bool,
    responses: Vec<OneAnswer>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GrantAnswer {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "TTL")]
    ttl: String,
    /// The answer to a renewal, which etcd wraps in one more layer.
    result: Option<Box<GrantAnswer>>,
}

/// Parses a whole number of the JSON of protocol buffers: a text, which is empty for zero.
fn number(text: &str) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let number = text.parse::<i64>().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| format!("`{}` is not a whole number", shown(text)))
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("not base64: {error}"))
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("not an answer of etcd: {error}"))
}

/// Reads the answer to an exchange. Its last two parts are always the round and the specs of tenants.
///
/// # Errors
/// What is wrong with it, in words.
pub fn read_exchange(body: &[u8], begins: bool) -> Result<Answer, String> {
    let answer: ExchangeAnswer = parse(body)?;
    let revision = number(&answer.header.revision)?;
    let mut ranges = answer.responses.iter().filter_map(|one| one.response_range.as_ref());
    let first = |range: Option<&RangeAnswer>| -> Result<Option<(i64, i64, Vec<u8>)>, String> {
        let Some(found) = range.and_then(|range| range.kvs.first()) else { return Ok(None) };
        Ok(Some((number(&found.mod_revision)?, number(&found.lease)?, bytes(&found.value)?)))
    };
    let lease = if answer.succeeded { None } else { Some(first(ranges.next())?.map_or(0, |(_, lease, _)| lease)) };
    let round = match answer.succeeded && begins {
        true => revision,
        false => first(ranges.next())?.map_or(0, |(round, ..)| round),
    };
    let tenants = first(ranges.next())?.map(|(revision, _, value)| (revision, value));
    let tenants = tenants.filter(|(_, value)| value.len() <= TENANTS_BYTES_MAX);
    Ok(Answer { is_done: answer.succeeded, lease, round, revision, tenants })
}

/// Reads the reports and the records of servers. Their keys are `report/SERVER` and `member/SERVER` after `prefix`.
///
/// # Errors
/// What is wrong with the answer, in words. The content of reports and records is not checked here.
pub fn read_snapshot(body: &[u8], prefix: &str) -> Result<Snapshot, String> {
    let answer: RangeAnswer = parse(body)?;
    if answer.kvs.len() > 2 * SERVERS_MAX {
        return Err(format!("reports of more than {SERVERS_MAX} servers"));
    }
    let mut snapshot = Snapshot::default();
    for found in &answer.kvs {
        let key = String::from_utf8(bytes(&found.key)?).map_err(|_| "a key that is not text".to_string())?;
        let (kind, server) = key.strip_prefix(prefix).and_then(|rest| rest.split_once('/')).unwrap_or_default();
        let heard = match kind {
            "report" => &mut snapshot.reports,
            "member" => &mut snapshot.records,
            _ => return Err(format!("{}: the key of neither a report nor a record", shown(&key))),
        };
        heard.push(Heard { server: server.to_string(), report: bytes(&found.value)? });
    }
    Ok(snapshot)
}

/// Reads the answer to a grant or a renewal of a lease: its number, and the seconds that it lasts, 0 if it is over.
pub(super) fn read_lease(body: &[u8]) -> Result<(i64, i64), String> {
    let answer: GrantAnswer = parse(body)?;
    let answer =
        answer.result.map_or_else(|| Ok((answer.id, answer.ttl)), |inner| Ok::<_, String>((inner.id, inner.ttl)))?;
    Ok((number(&answer.0)?, number(&answer.1)?))
}

/// The assignments that apply this text to the tenants that this server has. The text is a table for each tenant, with the keys of shares.
///
/// # Errors
/// What is wrong with it, in words.
pub fn assignments(value: &[u8], spec: &Spec) -> Result<Vec<String>, String> {
    let text = std::str::from_utf8(value).map_err(|_| "not text".to_string())?;
    let tables: toml::Table = text.parse().map_err(|error: toml::de::Error| error.message().to_string())?;
    let classes = spec.classes();
    let mut made = Vec::new();
    for (name, keys) in &tables {
        let Value::Table(keys) = keys else {
            return Err(format!("{}: not a table\n  expected: [NAME] with keys of a share", shown(name)));
        };
        let is_its = |class: &&crate::spec::Class| class.name == *name && !class.is_removed;
        let Some(class) = classes.iter().find(is_its).filter(|class| class.kind != ClassKind::Service) else {
            continue;
        };
        for (key, value) in keys {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Integer(number) => number.to_string(),
                _ => return Err(format!("{}.{}: not a text or a number", shown(name), shown(key))),
            };
            made.push(format!("{}.{name}.{key}={value}", class.kind.name()));
        }
    }
    Ok(made)
}
