//! Rules of watching and changing a running server, over real sockets: its reports, which clients may ask, and that a change is made
//! everywhere or nowhere.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command as Process, Stdio};

use crate::bench::device;
use crate::certificates::Files;
use crate::client::*;
use ioweir_serve::capture::Capture;
use ioweir_serve::control::{AskError, Command, DeviceCommand, DeviceName, ask};
use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::Spec;
use ioweir_trace::{self as trace, Input, Names, ReadOptions, Target};
use serde_json::{Value, json};

/// Two disks. On the first are two exports and a tenant; its scheduler keeps reservations by the measured cost of requests.
const SPEC: &str = r#"
[[device]]
name = "disk"
backend = "emulated"
model = "tiny"
size = "4MiB"
scheduler = "reward+bfq:window=adaptive"
[[device]]
name = "other"
backend = "memory"
size = "64MiB"
scheduler = "mclock"
[[group]]
name = "g"
device = "other"
[[export]]
name = "export"
device = "disk"
weight = 300
[[export]]
name = "silver"
device = "other"
group = "g"
[[export]]
name = "a \"b\\ c"
device = "other"
[[tenant]]
name = "tenant"
export = "export"
certificate = "tenant.example"
weight = 5
latency = "10ms"
"#;

struct Served {
    server: Option<Server>,
    folder: tempfile::TempDir,
    /// The address of HTTP.
    place: String,
}

impl Served {
    fn new() -> Self {
        Self::with(SPEC, None)
    }

    fn with(tail: &str, capture: Option<Capture>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (listen, control) = (at("s"), at("control"));
        let head = "watch = \"tcp:127.0.0.1:0\"\nconnections_max = 9";
        // Tenants are known by certificates, which no client of this test shows. The table comes last, so that line numbers in the tests
        // hold.
        let tls = Files::new(folder.path()).table("clients = \"FOLDER/ca.pem\"\nrequired = false");
        let text =
            format!("[server]\nlisten = [\"unix:{listen}\"]\ncontrol = \"unix:{control}\"\n{head}\n{tail}\n{tls}");
        let file = at("spec.toml");
        std::fs::write(&file, &text).unwrap();
        let spec = Spec::parse(&file, &text).unwrap_or_else(|error| panic!("{error}"));
        let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, capture).unwrap();
        let place = server.watched_at().unwrap().strip_prefix("tcp:").unwrap().to_string();
        Self { server: Some(server), folder, place }
    }

    fn control(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    fn ask(&self, command: &Command) -> Result<Value, AskError> {
        ask(&self.control(), command)
    }

    fn set(&self, assignments: &[&str]) -> Result<Value, String> {
        let assignments = assignments.iter().map(|text| (*text).to_string()).collect();
        self.ask(&Command::Set(assignments)).map_err(|error| error.to_string())
    }

    fn state(&self) -> Value {
        self.ask(&Command::State {}).unwrap()
    }

    /// An answer by HTTP: its status, its head and its body.
    fn http(&self, request: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.place).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).unwrap_or("0").parse().unwrap();
        (status, head.to_lowercase(), body.to_string())
    }

    fn get(&self, path: &str) -> String {
        let host = &self.place;
        let (status, _, body) = self.http(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        assert_eq!(status, 200);
        body
    }

    /// A client that has agreed on an export, with simple replies.
    fn client(&self, export: &str) -> UnixStream {
        let mut socket = UnixStream::connect(self.folder.path().join("s")).unwrap();
        let mut greeting = [0; 18];
        socket.read_exact(&mut greeting).unwrap();
        socket.write_all(&[&CLIENT_FLAGS[..], &option(OPTION_EXPORT_NAME, export.as_bytes())].concat()).unwrap();
        let mut answer = [0; 10];
        socket.read_exact(&mut answer).unwrap();
        socket
    }

    fn spec_file(&self) -> PathBuf {
        self.folder.path().join("spec.toml")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stopper().stop();
            server.wait().unwrap();
        }
        assert!(!self.control().exists(), "its sockets are removed");
    }
}

fn read(socket: &mut UnixStream, length: u32) {
    socket.write_all(&request(READ, 0, 1, 0, length)).unwrap();
    socket.read_exact(&mut vec![0; 16 + length as usize]).unwrap();
}

fn class<'a>(state: &'a Value, name: &str) -> &'a Value {
    state["classes"].as_array().unwrap().iter().find(|class| class["name"] == name).unwrap()
}

#[test]
fn the_state_shows_what_is_served_and_counted() {
    let served = Served::new();
    let mut client = served.client("export");
    for _ in 0..10 {
        read(&mut client, 8192);
    }
    let state = served.state();
    assert_eq!(
        (&state["schema_version"], &state["connections"], &state["connections_max"]),
        (&json!(1), &json!(1), &json!(9))
    );
    assert_eq!(state["spec"], served.spec_file().to_str().unwrap());
    let devices = state["devices"].as_array().unwrap();
    let names: Vec<_> = devices.iter().map(|device| (&device["name"], &device["knows_shares"])).collect();
    assert_eq!(names, [(&json!("disk"), &json!(true)), (&json!("other"), &json!(true))]);
    assert_eq!(devices[0]["size_bytes"], 4 << 20);
    let names: Vec<_> =
        state["classes"].as_array().unwrap().iter().map(|class| class["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["export", "silver", "a \"b\\ c", "tenant"]);
    let gold = class(&state, "export");
    assert_eq!(gold["totals"]["read"], json!({"requests": 10, "bytes": 81_920, "errors": 0}));
    assert_eq!(
        (&gold["connections"], &gold["share"]["weight"], &gold["kind"]),
        (&json!(1), &json!(300), &json!("export"))
    );
    assert_eq!((&gold["queued_requests"], &gold["oldest_wait_seconds"]), (&json!(0), &Value::Null));
    let tenant = class(&state, "tenant");
    assert_eq!((&tenant["export"], &tenant["share"]["latency_seconds"]), (&json!("export"), &json!(0.01)));
    assert_eq!(class(&state, "silver")["group"], "g");
    let columns = state["share_columns"].as_array().unwrap().iter().map(|column| column["key"].as_str().unwrap());
    assert_eq!(columns.collect::<Vec<_>>(), ["weight", "latency_seconds"], "nobody has a limit");
    // The state by HTTP agrees, and counts the requests in one of its seconds once that is over.
    loop {
        let state: Value = serde_json::from_str(&served.get("/state")).unwrap();
        let seconds = class(&state, "export")["seconds"].as_array().unwrap().clone();
        let sum = |key: &str| seconds.iter().map(|second| second[key].as_u64().unwrap()).sum::<u64>();
        if sum("read_requests") > 0 {
            assert_eq!((sum("read_requests"), sum("read_bytes"), sum("latency_samples")), (10, 81_920, 10));
            let busy = seconds.iter().find(|second| second["read_requests"] != 0).unwrap();
            assert!(busy["latency_p50_seconds"].as_f64() <= busy["latency_p999_seconds"].as_f64());
            break;
        }
    }
    assert!(served.get("/").contains("<!doctype html>") || served.get("/").contains("<!DOCTYPE html>"));
}

/// A sample of the text format: its name, its labels, its value.
type Sample = (String, BTreeMap<String, String>, f64);

/// Reads the text format as its specification says; anything else stops the test.
fn samples(text: &str) -> Vec<Sample> {
    let mut all = Vec::new();
    for line in text.lines() {
        if line.starts_with("# HELP ") || line.starts_with("# TYPE ") || line == "# EOF" {
            continue;
        }
        let end = line.find(['{', ' ']).unwrap();
        let (name, mut rest) = line.split_at(end);
        assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_'), "{line}");
        let mut labels = BTreeMap::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            while !rest.starts_with('}') {
                let (key, value) = rest.trim_start_matches(',').split_once("=\"").unwrap();
                let mut letters = value.char_indices();
                let mut text = String::new();
                let end = loop {
                    match letters.next().unwrap() {
                        (at, '"') => break at,
                        (_, '\\') => text.push(match letters.next().unwrap().1 {
                            'n' => '\n',
                            other => other,
                        }),
                        (_, letter) => text.push(letter),
                    }
                };
                assert!(labels.insert(key.to_string(), text).is_none(), "{line}");
                rest = &value[end + 1..];
            }
            rest = &rest[1..];
        }
        all.push((name.to_string(), labels, rest.trim().parse().unwrap()));
    }
    assert!(text.ends_with("# EOF\n"));
    all
}

#[test]
fn metrics_are_what_prometheus_reads_and_add_up() {
    let served = Served::new();
    let mut client = served.client("export");
    for _ in 0..10 {
        read(&mut client, 4096);
    }
    client.write_all(&request(READ, 0, 1, 1 << 40, 4096)).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
    let text = served.get("/metrics");
    let all = samples(&text);
    let of = |name: &str, labels: &[(&str, &str)]| -> f64 {
        let fits = |sample: &&Sample| {
            sample.0 == name && labels.iter().all(|(key, value)| sample.1.get(*key).is_some_and(|its| its == value))
        };
        let found: Vec<_> = all.iter().filter(fits).collect();
        assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
        found[0].2
    };
    let gold = [("device", "disk"), ("class", "export")];
    let read = [gold[0], gold[1], ("op", "read")];
    assert_eq!(of("ioweir_requests_total", &[read[0], read[1], read[2], ("result", "ok")]), 10.0);
    assert_eq!(of("ioweir_request_bytes_total", &read), 40_960.0);
    assert_eq!(of("ioweir_rejected_requests_total", &[gold[0], gold[1], ("reason", "invalid")]), 1.0);
    for name in ["ioweir_request_duration_seconds", "ioweir_queue_duration_seconds", "ioweir_service_duration_seconds"]
    {
        assert_eq!(of(&format!("{name}_count"), &read), 10.0);
        assert_eq!(of(&format!("{name}_bucket"), &[read[0], read[1], read[2], ("le", "+Inf")]), 10.0);
        let bounds: BTreeSet<String> = all
            .iter()
            .filter(|sample| sample.0 == format!("{name}_bucket"))
            .map(|sample| sample.1["le"].clone())
            .collect();
        assert_eq!(bounds.len(), 20, "10 us to 10 s in steps of 1, 2, 5, and the rest: {bounds:?}");
    }
    assert_eq!(of("ioweir_class_weight", &gold), 300.0);
    assert_eq!(of("ioweir_class_weight", &[("class", "a \"b\\ c")]), 100.0);
    assert_eq!(of("ioweir_class_latency_seconds", &[("class", "tenant")]), 0.01);
    assert_eq!(of("ioweir_inflight_limit_requests", &[("device", "disk")]), 1.0);
    assert_eq!(of("ioweir_policy_info", &[("device", "other"), ("policy", "mclock:groups=1")]), 1.0);
    assert_eq!(of("ioweir_nbd_connections", &[]), 1.0);
    assert_eq!(of("ioweir_events_total", &[("kind", "protocol_error")]), 0.0);
    // Names that users of the metrics rely on.
    let names: BTreeSet<&str> = all.iter().map(|sample| sample.0.as_str()).collect();
    for name in [
        "ioweir_wait_seconds_total",
        "ioweir_queued_requests",
        "ioweir_queued_bytes",
        "ioweir_inflight_requests",
        "ioweir_build_info",
    ] {
        assert!(names.contains(name), "{name}");
    }
    check_by_promtool(&text);
}

#[test]
fn shared_workers_are_named_and_counted_once() {
    let device = |name: &str| {
        format!("[[device]]\nname = \"{name}\"\nbackend = \"memory\"\nsize = \"1MiB\"\nchecksums = true\n")
    };
    let own = "[device.cores]\nworkers = 1\ninline_max = \"0B\"\n";
    let export = |name: &str| format!("[[export]]\nname = \"{name}\"\ndevice = \"{name}\"\n");
    let cores = "[cores]\nschedule = \"qats\"\nworkers = 1\ninline_max = \"0B\"\n";
    let devices = ["a", "b", "c"].map(device).concat() + own;
    let exports = ["a", "b", "c"].map(export).concat();
    let served = Served::with(&format!("{cores}{devices}{exports}"), None);
    for (export, writes) in [("a", 1), ("b", 2), ("c", 3)] {
        let mut client = served.client(export);
        for _ in 0..writes {
            client.write_all(&[request(WRITE, 0, 1, 0, 4096), vec![7; 4096]].concat()).unwrap();
            client.read_exact(&mut [0; 16]).unwrap();
        }
    }
    let state = served.state();
    let checksums = |device: usize| state["devices"][device]["checksums"].clone();
    let named = |device: usize| [checksums(device)["pool"].clone(), checksums(device)["schedule"].clone()];
    let schedule = |name: &str| ioweir_core::cores::find(name).unwrap().name;
    let is_of = |found: &Value, name: &str| found.as_str().unwrap().starts_with(schedule(name));
    assert!(is_of(&named(0)[1], "qats") && is_of(&named(1)[1], "qats") && is_of(&named(2)[1], "baseline"));
    assert_eq!([0, 1, 2].map(|device| named(device)[0].clone()), [json!("[cores]"), json!("[cores]"), json!("c")]);
    // A worker counts an item after it has handed it back, so the last one may be missing.
    let all = samples(&served.get("/metrics"));
    let finished = |pool: &str| -> f64 {
        let its = all.iter().filter(|sample| sample.0 == "ioweir_cores_finished_total" && sample.1["pool"] == pool);
        its.map(|sample| sample.2).sum()
    };
    assert!((2.0..=3.0).contains(&finished("[cores]")) && (2.0..=3.0).contains(&finished("c")), "{all:?}");
    let pools: BTreeSet<_> = all.iter().filter_map(|sample| sample.1.get("pool")).collect();
    assert_eq!(pools.len(), 2);
}

fn check_by_promtool(text: &str) {
    let rules = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus-rules.yml");
    if let Ok(output) = Process::new("promtool").args(["check", "rules"]).arg(rules).output() {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let started =
        Process::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut promtool) = started else {
        let _ = writeln!(std::io::stderr(), "skipped: promtool is not installed");
        return;
    };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!told.contains("error while linting") && !told.contains("parsing error"), "{told}");
}

#[test]
fn healthy_servers_answer_probes() {
    let served = Served::new();
    assert_eq!(served.get("/health"), "ok\n");
}

#[test]
fn http_answers_this_machine_and_changes_nothing() {
    let served = Served::new();
    let host = &served.place;
    let get = |host: &str| served.http(&format!("GET /state HTTP/1.1\r\n{host}Connection: close\r\n\r\n"));
    for wrong in [
        "Host: evil.example\r\n",
        "Host: evil.example:10800\r\n",
        "Host: 192.0.2.1\r\n",
        "Host: \r\n",
        "Host: localhost\r\nHost: evil.example\r\n",
        "Host: localhost\r\nHost: localhost\r\n",
    ] {
        let (status, head, body) = get(wrong);
        assert!(matches!(status, 400 | 403) && !body.contains("classes"), "{wrong}: {head}");
    }
    let other = served.http("GET http://evil.example/state HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(other.0, 403, "a target names another host");
    for right in ["Host: localhost\r\n".to_string(), format!("Host: {host}\r\n"), "Host: [::1]:1\r\n".to_string()] {
        assert_eq!(get(&right).0, 200, "{right}");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let asked =
            format!("{method} /state HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        assert_eq!(served.http(&asked).0, 405, "{method}");
    }
    let (_, head, _) = get(&format!("Host: {host}\r\n"));
    assert!(head.contains("cache-control: no-store") && head.contains("x-frame-options: deny"), "{head}");
    assert!(!head.contains("access-control-allow-origin"));
    assert_eq!(std::fs::metadata(served.control()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn watches_listen_on_unix_and_loopback_sockets_only() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("watch");
    let text = format!(
        "[server]\nlisten = [\"tcp:127.0.0.1:0\"]\nwatch = \"unix:{}\"\n[[device]]\nname = \"d\"\nbackend = \"null\"\nsize = \
         \"1MiB\"\n[[export]]\nname = \"a\"\ndevice = \"d\"\n",
        place.display()
    );
    let spec = Spec::parse("test", &text).unwrap();
    let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap();
    let mut stream = UnixStream::connect(&place).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("ioweir_build_info{"), "{answer}");
    server.stopper().stop();
    server.wait().unwrap();
    assert!(!place.exists(), "it is removed");
    let open = text.replace(&format!("unix:{}", place.display()), "tcp:0.0.0.0:0");
    assert!(Spec::parse("test", &open).unwrap_err().to_string().contains("can be reached by others"));
}

#[test]
fn endless_questions_delay_no_other_answer() {
    let served = Served::new();
    let mut dripping: Vec<_> = (0..40).map(|_| TcpStream::connect(&served.place).unwrap()).collect();
    for stream in &mut dripping {
        // The first connection may have been closed in favour of the last.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX-A: ");
    }
    assert!(served.get("/metrics").contains("ioweir_build_info"));
    for stream in &mut dripping {
        let _ = stream.write_all(b"a");
    }
    assert!(served.get("/metrics").contains("ioweir_build_info"));
}

#[test]
fn garbage_does_no_harm() {
    let served = Served::new();
    let mut client = served.client("export");
    for garbage in [&b"\0\xff\xfe garbage\r\n\r\n"[..], &[b'a'; 200_000], b"GET / HTTP/1.1\r\nHost", b""] {
        let mut stream = TcpStream::connect(&served.place).unwrap();
        // The server may close the connection before all is sent.
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    for (garbage, expected) in [
        (&b"nonsense\n"[..], "not a command"),
        (b"{\"state\":{}", "not a command"),
        (b"{\"stop\":{}}\n", "not a command"),
        (&[b'x'; 70_000], "longer than 65536 bytes"),
    ] {
        let mut stream = UnixStream::connect(served.control()).unwrap();
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("{\"error\":") && answer.contains(expected), "{answer}");
    }
    // Each line is a command.
    let mut stream = UnixStream::connect(served.control()).unwrap();
    stream.write_all(b"{\"set\":[]}\nx\n{\"set\":[]}\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.lines().map(|line| line.contains("\"ok\"")).collect::<Vec<_>>(), [true, false, true]);
    // Idle connections do not keep other clients from being served.
    let idle: Vec<_> =
        (0..25).map(|_| (TcpStream::connect(&served.place), UnixStream::connect(served.control()))).collect();
    read(&mut client, 4096);
    drop(idle);
    served.state();
}

#[test]
fn changes_are_made_at_once_and_atomically() {
    let served = Served::new();
    let mut client = served.client("export");
    // The number of requests that the scheduler needs before it knows their cost.
    for _ in 0..40 {
        read(&mut client, 4096);
    }
    let changes = served.set(&["export.export.weight=100", "tenant.tenant.weight=9", "group.g.weight=4"]).unwrap();
    let expected = ["group.g.weight 100 -> 4", "export.export.weight 300 -> 100", "tenant.tenant.weight 5 -> 9"];
    assert_eq!(changes["changes"], json!(expected));
    let weights = || {
        let state = served.state();
        let of = |name: &str| class(&state, name)["share"]["weight"].as_u64().unwrap();
        (of("export"), of("silver"), of("tenant"), state["groups"][0]["share"]["weight"].as_u64().unwrap())
    };
    assert_eq!(weights(), (100, 100, 9, 4));
    let whats: Vec<_> =
        served.state()["changes"].as_array().unwrap().iter().map(|change| change["what"].clone()).collect();
    assert_eq!(whats, expected);
    for (wrong, beginning) in [
        (
            &["export.silver.weight=7", "export.export.weight=0"][..],
            "export.export.weight=0: weight: 0 is out of range\n  expected: 1 to 10000",
        ),
        (
            &["export.silver.weight=7", "export.export.weight=lots"],
            "export.export.weight=lots: invalid type: string \"lots\", expected a whole number without quotes",
        ),
        (&["export.silver.weight=7", "export.nobody.weight=1"], "export.nobody.weight=1: unknown export `nobody`"),
        (&["export.silver.weight=7", "export.export.wait=1"], "export.export.wait=1: unknown key `wait`"),
        (&["export.silver.weight=7", "device.disk.depth=1"], "device.disk.depth=1: unknown table `device`"),
        (&["export.silver.weight=7", "export.silver.weight=8"], "export.silver.weight=8: assigned twice"),
        (&["export.silver.weight=7", "weight"], "weight: not an assignment"),
        (
            &["export.silver.weight=7", "export.silver.group=h"],
            "export.silver.group=h: unknown group of device other `h`",
        ),
        (&["export.silver.weight=7", "export.silver.latency=10"], "export.silver.latency=10: "),
        (
            &["export.silver.weight=7", "export.export.limit=5/s", "export.export.reservation=6/s"],
            "export.export.limit=5/s export.export.reservation=6/s: the limit, 5/s, is below",
        ),
        (
            // Only the scheduler knows that this reservation is infeasible: requests have cost time, and this many do not fit into a
            // second.
            &["export.silver.weight=7", "export.export.reservation=1000000000/s"],
            "export.export: device disk: 1000000000/s cannot be reserved",
        ),
    ] {
        let error = served.set(wrong).unwrap_err();
        assert!(error.starts_with(beginning), "{wrong:?}: {error}");
        assert_eq!(weights(), (100, 100, 9, 4), "{wrong:?}");
    }
    assert_eq!(served.state()["changes"].as_array().unwrap().len(), 3);
    served
        .set(&["export.export.limit_bytes=8MiB/s", "tenant.tenant.latency=none", "server.connections_max=3"])
        .unwrap();
    let state = served.state();
    assert_eq!(class(&state, "export")["share"]["limit_bytes_per_second"], 8 << 20);
    assert_eq!(
        (&class(&state, "tenant")["share"]["latency_seconds"], &state["connections_max"]),
        (&Value::Null, &json!(3))
    );
    assert_eq!(served.set(&["export.export.weight=100"]).unwrap()["changes"], json!([]));
    read(&mut client, 4096);
}

#[test]
fn changed_priorities_of_classes_are_reported() {
    let served = Served::new();
    let changes = served.set(&["export.export.priority=idle", "tenant.tenant.priority=realtime:1"]).unwrap();
    assert_eq!(
        changes["changes"],
        json!(["export.export.priority none -> idle", "tenant.tenant.priority none -> realtime:1"])
    );
    let state = served.state();
    let priority = |name: &str| class(&state, name)["priority"].clone();
    assert_eq!(
        [priority("export"), priority("tenant"), priority("silver")],
        [json!("idle"), json!("realtime:1"), Value::Null]
    );
    let error = served.set(&["export.export.priority=urgent"]).unwrap_err();
    assert!(error.starts_with("export.export.priority=urgent: ") && error.contains("no I/O priority"), "{error}");
}

#[test]
fn one_change_moves_a_reservation_between_classes() {
    let served = Served::new();
    let mut client = served.client("export");
    // From here on the largest cost of a request is known; more than half of the rate that fits into a second is reserved.
    for _ in 0..50 {
        read(&mut client, 4096);
    }
    let mut most = 1_u64 << 32;
    while served.set(&[&format!("export.export.reservation={most}/s")]).is_err() {
        most /= 2;
        assert!(most > 0);
    }
    let (all, none) = (format!("={most}/s"), "=0/s");
    let keys = ["export.export.reservation", "tenant.tenant.reservation"];
    let error = served.set(&[&(keys[1].to_string() + &all)]).unwrap_err();
    assert!(error.contains("cannot be reserved"), "{error}");
    served.set(&[&(keys[1].to_string() + &all), &(keys[0].to_string() + none)]).unwrap();
    served.set(&[&(keys[0].to_string() + &all), &(keys[1].to_string() + none)]).unwrap();
}

#[test]
fn reloaded_specs_apply_as_a_whole_or_not() {
    let served = Served::new();
    let file = served.spec_file();
    let text = std::fs::read_to_string(&file).unwrap();
    let reload = |text: &str| {
        std::fs::write(&file, text).unwrap();
        served.ask(&Command::Reload {})
    };
    let name = file.to_str().unwrap();
    for (from, to, beginning) in [
        ("weight = 300", "weight = -3", format!("{name}:24:10: weight: invalid value: integer `-3`")),
        ("\"reward+", "\"rewart+", format!("{name}:12:13: unknown scheduler `rewart`")),
        (
            "\"reward+",
            "\"sfq+",
            "device.disk.scheduler reward+bfq:window=adaptive -> sfq+bfq:window=adaptive: this does not change while"
                .into(),
        ),
        ("size = \"4MiB\"", "size = \"2MiB\"", "device disk: its length does not change".into()),
        (
            "[[tenant]]\nname = \"tenant\"\nexport = \"export\"\ncertificate = \"tenant.example\"\nweight = 5\nlatency = \"10ms\"\n",
            "",
            "tenant tenant is missing".into(),
        ),
        (
            "tenant.example",
            "else.example",
            "tenant.tenant.certificate tenant.example -> else.example: this does not".into(),
        ),
        ("watch = \"tcp:127.0.0.1:0\"\n", "", "server.watch tcp:127.0.0.1:0 -> none: this does not".into()),
    ] {
        assert!(text.contains(from), "{from}");
        let both = text.replacen("weight = 300", "weight = 200", 1).replacen(from, to, 1);
        let both = if from == "weight = 300" { text.replacen(from, to, 1) } else { both };
        let error = reload(&both).unwrap_err().to_string();
        assert!(error.starts_with(&beginning), "{beginning}\n--- is not the beginning of ---\n{error}");
        assert_eq!(class(&served.state(), "export")["share"]["weight"], 300);
    }
    let changed = reload(&text.replace("weight = 300", "weight = 200").replace("group = \"g\"\n", "")).unwrap();
    assert_eq!(changed["changes"], json!(["export.export.weight 300 -> 200", "export.silver.group g -> none"]));
    assert_eq!(
        reload(&text.replace("weight = 300", "weight = 200").replace("group = \"g\"\n", "")).unwrap()["changes"],
        json!([])
    );
    served.set(&["export.export.weight=9", "server.stall_timeout=9s"]).unwrap();
    let changed = reload(&text.replace("weight = 300", "weight = 200")).unwrap();
    let expected = [
        "server.stall_timeout 9s -> 30s, which takes back an assignment",
        "export.export.weight 9 -> 200, which takes back an assignment",
        "export.silver.group none -> g",
    ];
    assert_eq!(changed["changes"], json!(expected));
    std::fs::remove_file(&file).unwrap();
    assert!(served.ask(&Command::Reload {}).unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn failed_devices_are_shown_and_reopened_where_possible() {
    let spec = "[[device]]\nname = \"d\"\nbackend = \"faulty\"\nsize = \"1MiB\"\n[device.faults]\nerrors_per_million = 1000000\n\
                [[export]]\nname = \"export\"\ndevice = \"d\"\n[[device]]\nname = \"good\"\nbackend = \"memory\"\nsize = \"1MiB\"\n\
                [[export]]\nname = \"other\"\ndevice = \"good\"\n";
    let mut served = Served::with(spec, None);
    let mut client = served.client("export");
    client.write_all(&request(FLUSH, 0, 1, 0, 0)).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
    let state = served.state();
    assert!(state["devices"][0]["failed"]["what"].as_str().unwrap().contains("a flush has failed"));
    assert_eq!(
        (&state["devices"][1]["failed"], &state["devices"][0]["reservations_broken"]),
        (&Value::Null, &json!(false))
    );
    assert!(state["devices"][0]["age_seconds"].as_f64().unwrap() < 60.0);
    let reopen = |device: &str| {
        served.ask(&Command::Device(DeviceCommand::Reopen(DeviceName { name: device.into() }))).unwrap_err().to_string()
    };
    assert_eq!(reopen("d"), "device d: it is in memory: opened again it would be empty");
    assert_eq!(reopen("good"), "device good: it has not failed");
    assert!(reopen("none").starts_with("unknown device `none`"));
    // The server ends with an error, because data is lost.
    let server = served.server.take().unwrap();
    server.stopper().stop();
    server.wait().unwrap_err();
}

#[test]
fn a_capture_goes_on_through_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture.parquet");
    let target = Target::new("capture", Box::new(std::fs::File::create(&path).unwrap()));
    let names = Names { streams: vec!["export".into()], volumes: vec!["d".into()] };
    let (writer, device) = (
        trace::format("parquet").unwrap().write.unwrap(),
        device("backend = \"memory\"\nsize = \"64MiB\"\nscheduler = \"sfq\""),
    );
    let (capture, written) = Capture::begin(move || (writer.open)(target), names, &device).unwrap();
    let one = "[[device]]\nname = \"d\"\nbackend = \"memory\"\nsize = \"64MiB\"\nscheduler = \"sfq\"\n[[export]]\nname = \"export\"\ndevice = \"d\"\n";
    let served = Served::with(one, Some(capture));
    let mut client = served.client("export");
    for weight in 1..=5 {
        read(&mut client, 4096);
        served.set(&[&format!("export.export.weight={weight}")]).unwrap();
        read(&mut client, 4096);
    }
    drop(client);
    drop(served);
    assert_eq!(written.wait().unwrap(), 10);
    let bytes = std::fs::read(path).unwrap();
    let input = vec![Input::from_bytes("capture.parquet", bytes)];
    let mut source = trace::open_inputs(input, &ReadOptions::default()).unwrap();
    let (mut batch, mut records) = (Vec::new(), 0);
    loop {
        source.read_batch(&mut batch).unwrap();
        records += batch.len();
        if batch.is_empty() {
            break;
        }
    }
    assert_eq!(records, 10);
}

#[path = "../../../../fuzz/drive_control.rs"]
mod drive_control;

/// The fuzzer's corpus, replayed on stable: what once failed does not fail again.
#[test]
fn the_corpus_of_control_commands_does_no_harm() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/control");
    for entry in std::fs::read_dir(folder).unwrap() {
        drive_control::drive(&std::fs::read(entry.unwrap().path()).unwrap());
    }
}
