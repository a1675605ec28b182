//! A server of the live page and of a made-up state, which a real server has only at times.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use super::PAGE;

/// A server of one page, and its state, which can be changed.
pub(crate) struct Fixture {
    address: SocketAddr,
    state: Arc<Mutex<Value>>,
    thread: Option<JoinHandle<()>>,
}

impl Fixture {
    pub(crate) fn start(state: Value) -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), state)
    }

    pub(crate) fn start_at(address: SocketAddr, state: Value) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(state));
        let served = Arc::clone(&state);
        // The state `null` ends the thread.
        let thread = std::thread::spawn(move || {
            for socket in listener.incoming() {
                if served.lock().unwrap().is_null() {
                    return;
                }
                // A browser connects ahead of time and may say nothing for long.
                let (socket, state) = (socket.unwrap(), Arc::clone(&served));
                std::thread::spawn(move || answer(&socket, &state));
            }
        });
        Self { address, state, thread: Some(thread) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn page(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn set(&self, state: Value) {
        *self.state.lock().unwrap() = state;
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.set(Value::Null);
        // The thread notices the end at the next connection, which this one may be.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends one answer on a connection.
fn answer(socket: &TcpStream, state: &Mutex<Value>) {
    let mut lines = BufReader::new(socket).lines().map_while(Result::ok);
    let Some(asked) = lines.next() else { return };
    while lines.next().is_some_and(|line| !line.is_empty()) {}
    let (status, kind, body) = match asked.split(' ').nth(1) {
        Some("/") => ("200 OK", "text/html; charset=utf-8", PAGE.to_string()),
        Some("/state") => ("200 OK", "application/json", state.lock().unwrap().to_string()),
        _ => ("404 Not Found", "text/plain", String::new()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n", body.len());
    // A browser that has gone needs no answer.
    let _ = (&mut &*socket).write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes());
}

/// A second of a class. Without requests it has no latency.
pub(crate) fn second(at: u64, requests: u64) -> Value {
    let latency = |seconds: f64| if requests > 0 { json!(seconds) } else { Value::Null };
    let waits = if requests > 0 { json!({ "ordering": 3.0, "device_full": 1.0 }) } else { json!({}) };
    json!({
        "at_seconds": at, "read_requests": requests, "write_requests": 0, "other_requests": 0,
        "read_bytes": requests * 4096, "write_bytes": 0, "latency_p50_seconds": latency(0.01),
        "latency_p99_seconds": latency(0.02), "latency_p999_seconds": latency(0.05), "latency_samples": requests,
        "wait_seconds_by_reason": waits,
    })
}

/// A class with these seconds, of which requests wait where it has any.
pub(crate) fn class(name: &str, weight: u32, seconds: Vec<Value>) -> Value {
    let total = |requests: usize| json!({ "requests": requests, "bytes": 0, "errors": 0 });
    let asks = !seconds.is_empty();
    json!({
        "name": name, "kind": "export", "export": name, "device": "disk", "group": null, "connections": u32::from(asks),
        "share": {
            "weight": weight, "reservation_per_second": 0, "limit_per_second": 0, "burst": 0,
            "limit_bytes_per_second": 0, "burst_bytes": 0, "latency_seconds": null,
        },
        "inflight_requests": 0, "queued_requests": if asks { 7 } else { 0 }, "queued_bytes": 0,
        "oldest_wait_seconds": if asks { json!(0.012) } else { Value::Null },
        "oldest_waits_because": if asks { json!("another goes first") } else { Value::Null },
        "totals": { "read": total(seconds.len()), "write": total(0), "flush": total(0), "discard": total(0) },
        "wait_seconds_by_reason": {}, "seconds": seconds,
    })
}

/// The state of a server with one device.
pub(crate) fn state(now_seconds: f64, classes: &[Value]) -> Value {
    let connections: u64 = classes.iter().filter_map(|class| class["connections"].as_u64()).sum();
    json!({
        "schema_version": 1, "version": "0.0.0", "spec": "made-up.toml", "listen": ["tcp:127.0.0.1:10809"], "now_seconds": now_seconds,
        "connections": connections, "connections_max": 64,
        "devices": [{
            "name": "disk", "description": "made up", "scheduler": "sfq", "depth": 2, "size_bytes": 1 << 30,
            "connections": connections, "inflight_requests": 1, "queued_requests": 7 * connections, "queued_bytes": 0,
            "knows_shares": true,
        }],
        "groups": [], "classes": classes, "changes": [],
        "share_columns": [{ "key": "weight", "title": "weight", "unit": "", "help": "" }],
        "columns": [
            { "key": "queued_requests", "title": "queued", "unit": "requests", "help": "waiting" },
            { "key": "inflight_requests", "title": "in flight", "unit": "requests", "help": "with the device" },
        ],
    })
}
