//! etcd over its JSON gateway (`/v3/...`), which has the same calls as its gRPC. The HTTP client is a dependency anyway; etcd's own client
//! would need a compiler of protocol buffers and an asynchronous HTTP/2 stack of a hundred crates, for four calls.
//!
//! Keys: `/ioweir/FLEET/report/SERVER` under the server's lease, `/ioweir/FLEET/round`, whose revision is the round, and
//! `/ioweir/FLEET/tenants`, which people write.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ioweir_config::shown;
use serde_json::{Value, json};

use super::coordinator::{Ask, Snapshot, Store};
use super::wire::{Answer, read_exchange, read_lease, read_snapshot};
use crate::http;
use crate::spec::Fleet as Keys;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// The most bytes of an error answer that are shown.
const PROBLEM_BYTES_MAX: usize = 300;

/// A client of etcd.
#[derive(Debug)]
pub struct Etcd {
    agent: ureq::Agent,
    /// The addresses of the cluster, and the number of the one that is asked first.
    endpoints: Vec<String>,
    at: usize,
    /// The user with the password, and the token that stands for them.
    user: Option<(String, String)>,
    token: Option<String>,
    report: String,
    /// The key of the server's record.
    member: String,
    prefix: String,
    round: String,
    tenants: String,
    server: String,
}

fn encoded(key: &str) -> String {
    STANDARD.encode(key)
}

impl Etcd {
    /// A client for checked keys. It makes no connection yet.
    ///
    /// # Errors
    /// If a file that the keys name cannot be used.
    pub fn new(keys: &Keys) -> Result<Self, String> {
        // Other servers rely on this server's report for a lease, so it has to learn in time that the lease ends.
        let timeout = Duration::from_nanos(keys.lease.nanos().0 / 4);
        let own = keys.certificate.as_deref().zip(keys.key.as_deref());
        let tls = keys.authorities.as_deref().map(|authorities| http::tls(authorities, own)).transpose();
        let tls = tls.map_err(|problem| format!("fleet.{problem}"))?;
        let secret = |file: &Path| http::secret(file).map_err(|problem| format!("fleet.password_file: {problem}"));
        let user = match (&keys.user, &keys.password_file) {
            (Some(user), Some(file)) => Some((user.clone(), secret(file)?)),
            _ => None,
        };
        let prefix = format!("/ioweir/{}", keys.name);
        Ok(Self {
            agent: http::agent(timeout, tls),
            endpoints: keys.etcd.iter().map(|url| url.trim_end_matches('/').to_string()).collect(),
            at: 0,
            user,
            token: None,
            report: format!("{prefix}/report/{}", keys.server),
            member: format!("{prefix}/member/{}", keys.server),
            prefix: format!("{prefix}/"),
            round: format!("{prefix}/round"),
            tenants: format!("{prefix}/tenants"),
            server: keys.server.clone(),
        })
    }

    /// Asks the endpoints in turn until one answers.
    pub(super) fn call(&mut self, path: &str, body: &Value) -> Result<Vec<u8>, String> {
        if self.user.is_some() && self.token.is_none() {
            self.authenticate()?;
        }
        match self.post(path, body)? {
            (200, answer) => Ok(answer),
            // A token ends after a while, or with etcd's restart.
            (401, _) if self.token.take().is_some() => {
                self.authenticate()?;
                let (status, answer) = self.post(path, body)?;
                if status == 200 { Ok(answer) } else { Err(self.refusal(status, &answer)) }
            }
            (status, answer) => Err(self.refusal(status, &answer)),
        }
    }

    fn authenticate(&mut self) -> Result<(), String> {
        let Some((name, password)) = &self.user else { return Ok(()) };
        let body = json!({"name": name, "password": password});
        let (status, answer) = self.post("auth/authenticate", &body)?;
        let token = serde_json::from_slice::<Value>(&answer).ok();
        let token = token.as_ref().and_then(|answer| answer.get("token")).and_then(Value::as_str);
        match token.filter(|token| status == 200 && !token.chars().any(char::is_control)) {
            Some(token) => {
                self.token = Some(token.to_string());
                Ok(())
            }
            None => Err(self.refusal(status, &answer)),
        }
    }

    fn post(&mut self, path: &str, body: &Value) -> Result<(u16, Vec<u8>), String> {
        let mut problem = String::new();
        for _ in 0..self.endpoints.len() {
            let endpoint = &self.endpoints[self.at];
            let mut request =
                self.agent.post(format!("{endpoint}/v3/{path}")).header("Content-Type", "application/json");
            if let Some(token) = &self.token {
                request = request.header("Authorization", token);
            }
            let answered = request.send(body.to_string().as_bytes()).and_then(|mut answer| {
                let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
                Ok((answer.status().as_u16(), body))
            });
            match answered {
                // A member that has lost the others of its cluster answers 503, so another member is asked.
                Ok((503, _)) if self.endpoints.len() > 1 => problem = format!("{}: it answers 503", shown(endpoint)),
                Ok(answer) => return Ok(answer),
                Err(error) => problem = format!("{}: {error}", shown(endpoint)),
            }
            self.at = (self.at + 1) % self.endpoints.len();
        }
        Err(problem)
    }

    fn refusal(&self, status: u16, answer: &[u8]) -> String {
        let endpoint = shown(&self.endpoints[self.at]);
        let why = serde_json::from_slice::<Value>(answer).ok();
        let why = why.as_ref().and_then(|why| why.get("error").or_else(|| why.get("message"))).and_then(Value::as_str);
        // A proxy or gateway that refuses the call before etcd sees it answers in plain text.
        let why = why.or_else(|| std::str::from_utf8(answer).ok().map(str::trim).filter(|words| !words.is_empty()));
        match why {
            Some(why) => format!("{endpoint}: {}", shown(why.get(..PROBLEM_BYTES_MAX).unwrap_or(why))),
            None => format!("{endpoint}: it answers {status}"),
        }
    }
}

impl Store for Etcd {
    fn grant(&mut self, seconds: u64) -> Result<i64, String> {
        let answer = self.call("lease/grant", &json!({"TTL": seconds.to_string()}))?;
        match read_lease(&answer)? {
            (id, 1..) if id > 0 => Ok(id),
            _ => Err("etcd grants no lease".into()),
        }
    }

    fn renew(&mut self, lease: i64) -> Result<bool, String> {
        let answer = self.call("lease/keepalive", &json!({"ID": lease.to_string()}))?;
        Ok(read_lease(&answer)?.1 > 0)
    }

    fn exchange(&mut self, ask: &Ask<'_>) -> Result<Answer, String> {
        let own = encoded(&self.report);
        let round = encoded(&self.round);
        let is_mine = match ask.is_new {
            true => json!({"key": own, "target": "VERSION", "result": "EQUAL", "version": "0"}),
            false => json!({"key": own, "target": "LEASE", "result": "EQUAL", "lease": ask.lease.to_string()}),
        };
        let mut compare = vec![is_mine];
        let put = json!({"request_put": {"key": own, "value": encoded(ask.report), "lease": ask.lease.to_string()}});
        let read_round = json!({"request_range": {"key": round}});
        let after = (ask.tenants_after + 1).to_string();
        let tenants = json!({"request_range": {"key": encoded(&self.tenants), "min_mod_revision": after}});
        let of_round = match ask.begins {
            Some(revision) => {
                compare.push(
                    json!({"key": round, "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string()}),
                );
                json!({"request_put": {"key": round, "value": encoded(&self.server)}})
            }
            None => read_round.clone(),
        };
        let mut success = vec![put, of_round, tenants.clone()];
        if let Some(record) = ask.record {
            success.push(json!({"request_put": {"key": encoded(&self.member), "value": encoded(record)}}));
        }
        let body = json!({
            "compare": compare,
            "success": success,
            "failure": [{"request_range": {"key": own}}, read_round, tenants],
        });
        read_exchange(&self.call("kv/txn", &body)?, ask.begins.is_some())
    }

    fn snapshot(&mut self, revision: i64) -> Result<Snapshot, String> {
        // No other key lies between records and reports. A zero is the next character after a slash.
        let [from, to] = ["member/", "report0"].map(|key| encoded(&format!("{}{key}", self.prefix)));
        let body = json!({"key": from, "range_end": to, "revision": revision.to_string()});
        read_snapshot(&self.call("kv/range", &body)?, &self.prefix)
    }

    fn leave(&mut self, lease: Option<i64>) {
        // Where this is not heard, the lease ends by itself, and room is left to the record.
        let _ = self.call("kv/deleterange", &json!({"key": encoded(&self.member)}));
        if let Some(lease) = lease {
            let _ = self.call("lease/revoke", &json!({"ID": lease.to_string()}));
        }
    }
}
