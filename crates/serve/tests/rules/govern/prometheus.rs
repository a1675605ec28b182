//! Rules of the source that queries Prometheus, with a server that answers, lies, stalls or is gone.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use ioweir_govern::source::{Prometheus, Reading, Source, read_instant, read_range};

use super::{at, source_keys};
use crate::certificates::Authority;

/// The behaviour of a server at a request.
enum Act {
    /// Answers this.
    Answer(u16, String),
    /// Sends these bytes of a longer answer, and closes.
    Break,
    /// Reads, and never answers.
    Stall,
    /// Sends the client to another address.
    Away(String),
}

/// A server on loopback that does one thing for each request, in order.
struct Server {
    url: String,
    asked: Receiver<Vec<String>>,
    thread: Option<JoinHandle<()>>,
}

fn head(stream: &mut impl std::io::Read) -> Vec<String> {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.take_while(|line| !line.is_empty()).collect()
}

/// Does one thing; returns the connection if it is to stay open.
fn act(mut stream: impl std::io::Read + std::io::Write, act: &Act) -> (Vec<String>, bool) {
    let asked = head(&mut stream);
    let text = match act {
        Act::Answer(code, body) => {
            format!("HTTP/1.1 {code} Said\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
        }
        Act::Break => "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"status\"".to_owned(),
        Act::Stall => return (asked, true),
        Act::Away(url) => {
            format!("HTTP/1.1 302 Found\r\nLocation: {url}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
    };
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.flush();
    (asked, false)
}

impl Server {
    fn start(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asks, asked) = channel();
        let thread = std::thread::spawn(move || {
            let mut held: Vec<TcpStream> = Vec::new();
            for what in &acts {
                let (stream, _) = listener.accept().unwrap();
                let (lines, stays) = act(&stream, what);
                asks.send(lines).unwrap();
                if stays {
                    held.push(stream);
                }
            }
            // Connections that stall are held until the other end has given up.
            for mut stream in held {
                let _ = std::io::Read::read(&mut stream, &mut [0]);
            }
        });
        Self { url, asked, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.thread.take().unwrap().join();
    }
}

fn vector(time: u64, values: &[&str]) -> String {
    let series: Vec<_> =
        values.iter().map(|value| format!(r#"{{"metric":{{}},"value":[{time},"{value}"]}}"#)).collect();
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{}]}}}}"#, series.join(","))
}

const NOW: u64 = 1_700_000_000;

fn prometheus(url: &str, more: &str) -> Prometheus {
    Prometheus::new(&source_keys(&format!("kind = \"prometheus\"\nurl = \"{url}\"\n{more}"))).unwrap()
}

fn answers(bodies: &[String]) -> Vec<Act> {
    bodies.iter().map(|body| Act::Answer(200, body.clone())).collect()
}

#[test]
fn queries_become_rates_and_authentication_goes_along() {
    let server = Server::start(answers(&[vector(NOW, &["151.5"]), vector(NOW, &["0.004"])]));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "abc.def\n").unwrap();
    let token = folder.path().join("token");
    let keys = format!("requests = \"sum(rate(a[1m]))\"\nlatency = \"b\"\ntoken_file = {token:?}");
    let read = prometheus(&server.url, &keys).read(at(0));
    assert_eq!(read, Ok(Reading { requests: Some(151.5), latency_seconds: Some(0.004), ..Reading::default() }));
    let asked = server.asked.recv().unwrap();
    assert_eq!(asked[0], "GET /api/v1/query?query=sum(rate(a%5B1m%5D))&time=1700000000.000 HTTP/1.1");
    assert!(asked.iter().any(|line| line.eq_ignore_ascii_case("authorization: Bearer abc.def")), "{asked:?}");
}

#[test]
fn discards_and_new_blocks_have_their_own_queries() {
    let keys = "requests = \"a\"\ndiscarded_bytes = \"c\"\nunique = \"d\"\npast = \"1h\"";
    let server = Server::start(answers(&[vector(NOW, &["1"]), vector(NOW, &["4096"]), vector(NOW, &["0.25"])]));
    let read = prometheus(&server.url, keys).read(at(0)).unwrap();
    assert_eq!((read.discarded_bytes, read.unique), (Some(4096.0), Some(0.25)));
    let asked: Vec<_> = server.asked.iter().take(3).map(|lines| lines[0].clone()).collect();
    assert!(asked[1].contains("query=c") && asked[2].contains("query=d"), "{asked:?}");
    // A share above one is unknown.
    let server = Server::start(answers(&[vector(NOW, &["1"]), vector(NOW, &["0"]), vector(NOW, &["1.25"])]));
    let read = prometheus(&server.url, keys).read(at(0)).unwrap();
    assert_eq!((read.discarded_bytes, read.unique), (Some(0.0), None));
    let end = NOW as i64 / 1800 * 1800;
    let values = |value: &str| matrix(&[(end - 1800, value), (end, value)]);
    let server = Server::start(answers(&[values("1"), values("4096"), values("0.25")]));
    let past = prometheus(&server.url, keys).past(at(0), 1800).unwrap().unwrap();
    assert_eq!((past.discarded_bytes, past.unique), (vec![Some(4096.0); 2], vec![Some(0.25); 2]));
    assert!(past.written_bytes.is_empty(), "not asked for");
}

#[test]
fn basic_authentication_is_that_of_the_files() {
    let server = Server::start(answers(&[vector(NOW, &["1"])]));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("password"), "open sesame").unwrap();
    let keys = format!("requests = \"a\"\nuser = \"ali\"\npassword_file = {:?}", folder.path().join("password"));
    assert!(prometheus(&server.url, &keys).read(at(0)).is_ok());
    let asked = server.asked.recv().unwrap();
    let expected = "authorization: Basic YWxpOm9wZW4gc2VzYW1l";
    assert!(asked.iter().any(|line| line.eq_ignore_ascii_case(expected)), "{asked:?}");
}

#[test]
fn servers_that_lie_or_stall_give_a_reason() {
    let (before, after) = ("a value of another time, before the one", "a value of another time, after the one");
    let none = "no value that can be one";
    let cases = [
        (Act::Answer(200, vector(NOW + 3600, &["5"])), after),
        (Act::Answer(200, vector(NOW - 300, &["5"])), before),
        (Act::Answer(200, vector(NOW, &["5", "6"])), "gives 2 series; sum(...)"),
        (Act::Answer(200, vector(NOW, &["NaN"])), none),
        (Act::Answer(200, vector(NOW, &["-3"])), none),
        (Act::Answer(200, vector(NOW, &[])), none),
        (Act::Answer(200, "<html>".into()), "no answer of Prometheus"),
        (Act::Answer(200, r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#.into()), "rate(...)"),
        (Act::Answer(400, r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#.into()), "parse error"),
        (Act::Answer(401, String::new()), "refuses this user"),
        (Act::Answer(302, String::new()), "it answers 302"),
        (Act::Answer(503, "down".into()), "it answers 503"),
        (Act::Break, "http"),
        (Act::Stall, "timeout"),
    ];
    for (what, why) in cases {
        let server = Server::start(vec![what]);
        let mut source = prometheus(&server.url, "requests = \"a\"\ntimeout = \"300ms\"");
        let error = source.read(at(0)).unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(prometheus(&format!("http://{gone}"), "requests = \"a\"").read(at(0)).is_err());
}

#[test]
fn latencies_without_requests_are_unknown_without_an_error() {
    let server = Server::start(answers(&[vector(NOW, &["NaN"]), vector(NOW, &["7.5"]), vector(NOW, &["0.01"])]));
    assert_eq!(prometheus(&server.url, "latency = \"a\"").read(at(0)), Ok(Reading::default()));
    // A known value is kept where the load is unknown.
    let read = prometheus(&server.url, "busy = \"b\"\nlatency = \"a\"").read(at(0));
    assert_eq!(read, Ok(Reading { latency_seconds: Some(0.01), ..Reading::default() }));
}

#[test]
fn tokens_are_sent_to_the_named_address_only() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/api/v1/query", elsewhere.local_addr().unwrap());
    let server = Server::start(vec![Act::Away(address)]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "abc.def\n").unwrap();
    let keys = format!("requests = \"a\"\ntimeout = \"300ms\"\ntoken_file = {:?}", folder.path().join("token"));
    let error = prometheus(&server.url, &keys).read(at(0)).unwrap_err().to_string();
    assert!(error.contains("it answers 302"), "{error}");
    elsewhere.set_nonblocking(true).unwrap();
    assert!(elsewhere.accept().is_err(), "nobody was sent there");
}

#[test]
fn missing_values_and_non_numbers_are_unknown() {
    for value in ["NaN", "+Inf", "-Inf", "-1", "", "x", "1e999"] {
        assert_eq!(read_instant(vector(NOW, &[value]).as_bytes(), NOW as f64).unwrap(), None, "{value}");
    }
    assert_eq!(read_instant(vector(NOW, &[]).as_bytes(), NOW as f64).unwrap(), None);
    let scalar = format!(r#"{{"status":"success","data":{{"resultType":"scalar","result":[{NOW}.5,"7"]}}}}"#);
    assert_eq!(read_instant(scalar.as_bytes(), NOW as f64).unwrap(), Some(7.0));
}

fn matrix(values: &[(i64, &str)]) -> String {
    let values: Vec<_> = values.iter().map(|(time, value)| format!("[{time},\"{value}\"]")).collect();
    let series = format!(r#"{{"metric":{{}},"values":[{}]}}"#, values.join(","));
    format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[{series}]}}}}"#)
}

#[test]
fn missing_bins_are_gaps_and_unrequested_times_refused() {
    let body = matrix(&[(600, "1"), (1800, "3"), (2400, "NaN")]);
    let range = read_range(body.as_bytes(), 600, 600, 5).unwrap();
    assert_eq!(range, [Some(1.0), None, Some(3.0), None, None]);
    for time in [0, 601, 3600, -600] {
        let error = read_range(matrix(&[(time, "1")]).as_bytes(), 600, 600, 5).unwrap_err().to_string();
        assert!(error.contains("not asked for"), "{time}: {error}");
    }
}

#[test]
fn history_is_queried_in_parts_that_prometheus_answers() {
    let body = matrix(&[]);
    let server = Server::start(answers(&[body.clone(), body.clone(), body]));
    let mut source = prometheus(&server.url, "requests = \"a\"\npast = \"14d\"");
    let past = source.past(at(0), 60).unwrap().unwrap();
    let end = NOW as i64 / 60 * 60;
    assert_eq!((past.start_unix_seconds, past.requests.len()), (end - 14 * 86_400, 14 * 1440));
    let asked: Vec<_> = server.asked.iter().take(3).map(|lines| lines[0].clone()).collect();
    let first = end - 14 * 86_400 + 60;
    assert!(asked[0].contains(&format!("start={first}&end={}&step=60", first + 9999 * 60)), "{asked:?}");
    assert!(asked[2].contains(&format!("end={end}&step=60")), "{asked:?}");
}

/// A server that shows a certificate of `authority`.
fn encrypted(authority: &Authority) -> (String, JoinHandle<()>) {
    use rustls::pki_types::pem::PemObject as _;
    let identity = authority.sign("127.0.0.1", &["127.0.0.1"]);
    let certificate = rustls::pki_types::CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let connection = rustls::ServerConnection::new(config).unwrap();
        let stream = rustls::StreamOwned::new(connection, stream);
        act(stream, &Act::Answer(200, vector(NOW, &["9"])));
    });
    (url, thread)
}

#[test]
fn certificates_are_checked_by_the_named_authorities() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let file = folder.path().join("authorities.pem");
    std::fs::write(&file, &ours.pem).unwrap();
    for (authority, is_trusted) in [(&ours, true), (&theirs, false)] {
        let (url, thread) = encrypted(authority);
        let read = prometheus(&url, &format!("requests = \"a\"\nauthorities = {file:?}")).read(at(0));
        assert_eq!(read.is_ok(), is_trusted, "{read:?}");
        thread.join().unwrap();
    }
}

#[test]
fn files_without_a_secret_or_authority_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let of = |more: &str| {
        let text = format!("kind = \"prometheus\"\nurl = \"https://a\"\nrequests = \"a\"\n{more}");
        Prometheus::new(&source_keys(&text)).unwrap_err().to_string()
    };
    let key = |name: &str, file: &Path| format!("{name} = {file:?}");
    assert!(of(&key("authorities", &file)).contains("no such file"));
    std::fs::write(&file, "nothing").unwrap();
    assert!(of(&key("authorities", &file)).contains("no certificate in it"));
    std::fs::write(folder.path().join("ca.pem"), Authority::new("a").pem).unwrap();
    let authorities = key("authorities", &folder.path().join("ca.pem"));
    std::fs::write(&file, "two\nlines\n").unwrap();
    assert!(of(&format!("{authorities}\n{}", key("token_file", &file))).contains("of one line"));
}
