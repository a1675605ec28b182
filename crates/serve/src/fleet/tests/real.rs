//! Tests with a real etcd, started on loopback with a folder of its own. Where etcd is not installed, tests say so and end.

#![allow(clippy::print_stderr, reason = "a test says what it skips")]
#![allow(clippy::disallowed_methods, reason = "another program is waited for, by the clock of the machine")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioweir_core::fleet::Sight;
use ioweir_core::tenant::Share;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, IsCa, Issuer, KeyPair};
use serde_json::json;

use super::super::coordinator::{Ask, Heard, Store as _};
use super::super::etcd::Etcd;
use crate::server::{Entrance, Server};
use crate::spec::{Fleet, Spec};

/// The longest time of any step.
const PATIENCE: Duration = Duration::from_secs(60);

/// An etcd of its own, which ends with this.
struct Daemon {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Daemon {
    /// `None` where etcd is not installed.
    fn start(more: &[String]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let [port, peer] = [free_port(), free_port()];
        let scheme = if more.is_empty() { "http" } else { "https" };
        let (url, peer) = (format!("{scheme}://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(folder.path()).args(["--name", "one", "--listen-client-urls", &url]);
        command.args(["--advertise-client-urls", &url, "--listen-peer-urls", &peer]);
        command.args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("one={peer}")]).args(more);
        let child = match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) => {
                eprintln!("skipped: etcd cannot be started ({error}): scripts/install-tools test");
                return None;
            }
        };
        Some(Self { child, port, _folder: folder })
    }

    fn keys(&self, server: &str, more: &str) -> Fleet {
        let scheme = if more.contains("authorities") { "https" } else { "http" };
        let port = self.port;
        let text = format!(
            "name = \"f\"\nserver = \"{server}\"\netcd = [\"{scheme}://127.0.0.1:{port}\"]\nlease = \"8s\"\n{more}"
        );
        toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A client that etcd has granted a lease, and that lease.
    fn client(&self, server: &str, more: &str) -> (Etcd, i64) {
        let mut etcd = Etcd::new(&self.keys(server, more)).unwrap_or_else(|error| panic!("{error}"));
        let lease = until("etcd answers", || etcd.grant(10).ok());
        (etcd, lease)
    }

    fn end(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.unwrap_or_else(|error| panic!("{error}")).port()
}

/// Asks again and again until there is an answer.
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        sleep(Duration::from_millis(20));
    }
}

fn ask(lease: i64, report: &str) -> Ask<'_> {
    Ask { lease, report, record: None, is_new: false, begins: None, tenants_after: 0 }
}

#[test]
fn etcd_stores_reports_under_leases_and_numbers_rounds() {
    let Some(daemon) = Daemon::start(&[]) else { return };
    let ((mut one, lease), (mut other, others)) = (daemon.client("one", ""), daemon.client("other", ""));
    let first =
        one.exchange(&Ask { is_new: true, begins: Some(0), ..ask(lease, "a") }).unwrap_or_else(|e| panic!("{e}"));
    assert!(first.is_done && first.round == first.revision && first.round > 0 && first.tenants.is_none(), "{first:?}");
    // A server with an outdated round cannot begin one, and learns the newest.
    let late = other.exchange(&Ask { is_new: true, begins: Some(0), ..ask(others, "b") });
    let late = late.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((late.is_done, late.lease, late.round), (false, Some(0), first.round));
    let said = other.exchange(&Ask { is_new: true, ..ask(others, "b") }).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((said.is_done, said.round), (true, first.round));
    // A report that was written after the round began is not in it.
    let reports =
        other.snapshot(first.round).map(|snapshot| snapshot.reports).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(reports.iter().map(|heard| heard.server.as_str()).collect::<Vec<_>>(), ["one"]);
    let next = one.exchange(&Ask { begins: Some(first.round), ..ask(lease, "c") }).unwrap_or_else(|e| panic!("{e}"));
    let reports = other.snapshot(next.round).map(|snapshot| snapshot.reports).unwrap_or_else(|error| panic!("{error}"));
    let found: Vec<_> = reports.iter().map(|heard| (heard.server.as_str(), heard.report.as_slice())).collect();
    assert_eq!(found, [("one", &b"c"[..]), ("other", b"b")]);
    // Two servers cannot have one name.
    let (mut thief, its) = daemon.client("one", "");
    let refused = thief.exchange(&Ask { is_new: true, ..ask(its, "d") }).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((refused.is_done, refused.lease), (false, Some(lease)));
    // A record outlasts the lease of its server, unless the server leaves.
    let (mut third, its) = daemon.client("third", "");
    let said = third.exchange(&Ask { is_new: true, record: Some("r"), ..ask(its, "d") });
    assert!(said.is_ok_and(|answer| answer.is_done));
    assert!(third.call("lease/revoke", &json!({"ID": its.to_string()})).is_ok());
    let said = one.exchange(&Ask { record: Some("r"), ..ask(lease, "c") });
    assert!(said.is_ok_and(|answer| answer.is_done));
    // A report is deleted with its lease.
    assert_eq!((one.renew(lease), other.renew(others)), (Ok(true), Ok(true)));
    one.leave(Some(lease));
    assert_eq!(one.renew(lease), Ok(false));
    let round = other.exchange(&Ask { begins: Some(next.round), ..ask(others, "b") }).unwrap_or_else(|e| panic!("{e}"));
    let snapshot = other.snapshot(round.round).unwrap_or_else(|error| panic!("{error}"));
    let servers = |heard: &[Heard]| heard.iter().map(|heard| heard.server.clone()).collect::<Vec<_>>();
    assert_eq!((servers(&snapshot.reports), servers(&snapshot.records)), (vec!["other".into()], vec!["third".into()]));
    third.leave(None);
    let round =
        other.exchange(&Ask { begins: Some(round.round), ..ask(others, "b") }).unwrap_or_else(|e| panic!("{e}"));
    assert!(
        other.snapshot(round.round).is_ok_and(|snapshot| snapshot.records.is_empty()),
        "it has taken its record back"
    );
    assert!(other.snapshot(1 << 40).is_err(), "a revision that there is not");
}

#[test]
fn etcd_is_asked_over_tls_by_a_user() {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let path = |name: &str| folder.path().join(name).display().to_string();
    identities(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    let more = ["--cert-file", &path("one.pem"), "--key-file", &path("one.key"), "--trusted-ca-file", &path("ca.pem")];
    let more: Vec<String> = more.into_iter().chain(["--client-cert-auth"]).map(String::from).collect();
    let Some(daemon) = Daemon::start(&more) else { return };
    let (ca, certificate, key) = (path("ca.pem"), path("one.pem"), path("one.key"));
    let shown = format!("authorities = \"{ca}\"\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n");
    let (mut admin, _) = daemon.client("one", &shown);
    let mut anonymous =
        Etcd::new(&daemon.keys("one", &format!("authorities = \"{ca}\"\n"))).unwrap_or_else(|e| panic!("{e}"));
    assert!(anonymous.grant(10).is_err(), "it shows no certificate");
    for (call, body) in [
        ("auth/user/add", json!({"name": "root", "password": "secret"})),
        ("auth/role/add", json!({"name": "root"})),
        ("auth/user/grant", json!({"user": "root", "role": "root"})),
        ("auth/enable", json!({})),
    ] {
        admin.call(call, &body).unwrap_or_else(|error| panic!("{call}: {error}"));
    }
    let write =
        |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap_or_else(|e| panic!("{e}"));
    write("right", "secret\n");
    write("wrong", "guess\n");
    let user = |file: &str| format!("{shown}user = \"root\"\npassword_file = \"{}\"\n", path(file));
    let (mut etcd, lease) = daemon.client("one", &user("right"));
    let said = etcd.exchange(&Ask { is_new: true, begins: Some(0), ..ask(lease, "a") });
    assert!(said.as_ref().is_ok_and(|answer| answer.is_done), "{said:?}");
    let mut wrong = Etcd::new(&daemon.keys("one", &user("wrong"))).unwrap_or_else(|error| panic!("{error}"));
    let refused = wrong.exchange(&ask(lease, "b")).unwrap_err();
    assert!(refused.contains("authentication failed"), "{refused}");
    let refused = admin.exchange(&ask(lease, "b")).unwrap_err();
    assert!(refused.contains("user name is empty") || refused.contains("permission"), "{refused}");
}

/// An authority, and what it has signed for 127.0.0.1.
fn identities(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut authority = CertificateParams::new(Vec::default())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    std::fs::write(folder.join("ca.pem"), authority.self_signed(&key)?.pem())?;
    let issuer = Issuer::new(authority, key);
    let own = KeyPair::generate()?;
    let mut leaf = CertificateParams::new(vec!["127.0.0.1".to_string()])?;
    // If etcd has users, its gateway refuses clients whose certificate has a common name.
    leaf.distinguished_name = DistinguishedName::new();
    let certificate = leaf.signed_by(&own, &issuer)?;
    std::fs::write(folder.join("one.pem"), certificate.pem())?;
    std::fs::write(folder.join("one.key"), own.serialize_pem())?;
    Ok(())
}

fn server(daemon: &Daemon, name: &str, folder: &Path) -> Server {
    let (socket, port) = (folder.join(name).display().to_string(), daemon.port);
    let text = format!(
        "[server]\nlisten = [\"unix:{socket}\"]\n\
         [[device]]\nname = \"d\"\nbackend = \"memory\"\nsize = \"1MiB\"\nscheduler = \"mclock\"\n\
         [[export]]\nname = \"gold\"\ndevice = \"d\"\nlimit = \"10k/s\"\nreservation = \"100/s\"\n\
         [fleet]\nname = \"f\"\nserver = \"{name}\"\netcd = [\"http://127.0.0.1:{port}\"]\nperiod = \"100ms\"\nlease = \"2s\"\n"
    );
    let spec = Spec::parse("s.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap_or_else(|error| panic!("{error}"))
}

fn share(server: &Server) -> Share {
    server.controller().running().0.entitlements(0)[0].1
}

fn sight(server: &Server) -> Option<Sight> {
    server.controller().fleet().map(|fleet| fleet.sight)
}

#[test]
fn servers_divide_a_limit_and_survive_without_etcd() {
    let Some(mut daemon) = Daemon::start(&[]) else { return };
    let (mut people, _) = daemon.client("people", "");
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let servers = ["one", "two"].map(|name| server(&daemon, name, folder.path()));
    let limits = || servers.each_ref().map(|server| share(server).limit_per_second);
    until("they divide the limit", || (limits() == [5_000, 5_000]).then_some(()));
    // A change in etcd reaches all servers.
    let say = |people: &mut Etcd, text: &str| {
        use base64::Engine as _;
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let body = json!({"key": encode("/ioweir/f/tenants"), "value": encode(text)});
        people.call("kv/put", &body).unwrap_or_else(|error| panic!("{error}"));
    };
    say(&mut people, "[gold]\nlimit = \"6k/s\"\nweight = 7\n[who-is-elsewhere]\nlimit = \"1/s\"\n");
    until("both take it up", || (limits() == [3_000, 3_000]).then_some(()));
    assert_eq!(servers.each_ref().map(|server| share(server).weight), [7, 7]);
    // A table is taken as a whole: a limit below the reservation is refused, with the weight beside it.
    say(&mut people, "[gold]\nlimit = \"50/s\"\nweight = 9\n");
    let refused = |server: &Server| server.controller().fleet().is_some() && share(server).weight == 7;
    let begun = people.grant(10);
    assert!(begun.is_ok() && servers.iter().all(refused));
    say(&mut people, "[gold]\nlimit = \"8k/s\"\n");
    until("what is right again is taken up", || (limits() == [4_000, 4_000]).then_some(()));
    assert_eq!(servers.each_ref().map(|server| share(server).weight), [7, 7]);
    daemon.end();
    until("both see that they are alone", || {
        servers.iter().all(|server| sight(server) == Some(Sight::Alone)).then_some(())
    });
    assert_eq!(limits(), [800, 800], "`alone` percent of what the spec says, with what was changed");
    for server in servers {
        server.stopper().stop();
        assert_eq!(server.wait(), Ok(()));
    }
}
