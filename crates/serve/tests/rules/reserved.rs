//! Rules of the reservation that a lease gives a service: it is kept beside clients that want all of the device, ends with the lease, and
//! is shown.

use serde_json::Value;

use crate::bench::{Bench, device};
use crate::client::*;
use crate::operators::Served;
use crate::services::{fill, service};
use ioweir_core::tenant::{GroupId, Share};
use ioweir_core::{Nanos, StreamId};
use ioweir_serve::backend::Emulated;
use ioweir_serve::control::Command;
use ioweir_serve::engine::{Rates, ServiceOrder};
use ioweir_serve::log::EventKind;
use ioweir_serve::spec::{Holder, Service};

const MIB: u64 = 1 << 20;
/// The rate that the lease reserves, which is also its limit.
const RATE: u64 = 256 << 10;
const SECONDS: u64 = 8;
/// The scrub's class.
const SCRUB: u32 = 3;

fn spec() -> Service {
    service("kind = \"scrub\"\ndefault = \"run\"")
}

/// A scrub of the least weight beside a client of the largest, that always has eight reads at an emulated disk.
struct Case {
    bench: Bench,
    client: crate::bench::Peer,
    reads: u64,
}

impl Case {
    fn new(scheduler: &str) -> Self {
        let keys =
            "backend = \"emulated\"\nmodel = \"tiny\"\nsize = \"4MiB\"\nmerge = false\nrequest_bytes_max = \"64KiB\"";
        let device = device(&format!("{keys}\nscheduler = \"{scheduler}\""));
        let backend = fill(Emulated::open("tiny", Some(4 * MIB), 0).unwrap(), &[(0, 4 << 20)]);
        let spec = spec();
        let mut bench = Bench::with_services(device, Box::new(backend), [(spec, None)]);
        bench.entitle(StreamId(0), Share::weighted(10_000));
        bench.entitle(StreamId(SCRUB), Share::weighted(1));
        let client = bench.connect(0, true);
        let mut case = Self { bench, client, reads: 0 };
        (0..8).for_each(|_| case.read());
        case
    }

    fn read(&mut self) {
        self.reads += 1;
        let block = self.reads.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        self.client.expect(self.reads, 4096);
        self.client.send(&request(READ, 0, self.reads, block * 4096, 4096));
    }

    fn lease(&mut self, reserved: Option<u64>) {
        let rates = Rates { most: Some(RATE), reserved, ..Rates::default() };
        self.bench.order(SCRUB, ServiceOrder::Run(Nanos::from_seconds(SECONDS), rates));
    }

    fn reserved(&mut self) -> Option<u64> {
        self.bench.services()[0].reservation_per_second
    }

    /// Changes the share of the scrub.
    fn change(&mut self, share: Share, is_kept: bool) {
        self.bench.change(vec![(Holder::Class(StreamId(SCRUB)), share)], vec![spec()], is_kept);
    }

    /// Runs for some seconds; returns the bytes that the scrub has read in each, and the number of the client's reads.
    fn run(&mut self, seconds: u64) -> (f64, u64) {
        let (before, reads) = (self.done(), self.reads);
        let end = self.bench.now.after(Nanos::from_seconds(seconds));
        while self.bench.now < end {
            let due = self.bench.turn();
            let answers = self.client.answers().len();
            (0..answers).for_each(|_| self.read());
            if answers == 0 {
                self.bench.now = self.bench.now.max(due.min(end));
            }
        }
        ((self.done() - before) as f64 / seconds as f64, self.reads - reads)
    }

    fn done(&mut self) -> u64 {
        self.bench.services()[0].done_bytes
    }
}

#[test]
fn services_reach_their_leased_reservation_under_full_load() {
    for scheduler in ["mclock", "mclock:cost=sectors", "mclock:cost=device-time"] {
        let mut case = Case::new(scheduler);
        case.lease(None);
        let (without, reads) = case.run(SECONDS);
        assert!(without < RATE as f64 / 4.0, "{scheduler}: it makes {without} bytes a second without a reservation");
        case.lease(Some(RATE));
        let (with, reads_beside) = case.run(SECONDS);
        assert!(with > RATE as f64 * 0.95, "{scheduler}: it makes {with} bytes a second");
        // Four requests may have waited for the lease.
        assert!(with < RATE as f64 * 1.13, "{scheduler}: it makes {with} bytes a second");
        // The client gets the rest.
        assert!(reads_beside > reads / 2, "{scheduler}: {reads_beside} after {reads}");
    }
}

#[test]
fn a_reservation_ends_with_its_lease() {
    let mut case = Case::new("mclock");
    case.lease(Some(RATE));
    case.run(SECONDS / 2);
    // Requests of 64 KiB; some are shorter.
    assert!(case.reserved().is_some_and(|reserved| (4..=6).contains(&reserved)), "{:?}", case.reserved());
    // After the lease, the service's default is to run by its weight.
    case.run(SECONDS / 2 + 1);
    let (after, _) = case.run(SECONDS);
    assert_eq!(case.reserved(), None);
    assert!(after < RATE as f64 / 4.0, "it makes {after} bytes a second");
    for end in [ServiceOrder::Release, ServiceOrder::Pause(Nanos::from_seconds(1))] {
        case.lease(Some(RATE));
        assert!(case.reserved().is_some());
        case.bench.order(SCRUB, end);
        assert_eq!(case.reserved(), None);
    }
    // A smaller reservation holds at once.
    case.lease(Some(4 * RATE));
    let large = case.reserved();
    case.lease(Some(3 * RATE));
    assert!(case.reserved() < large && case.reserved().is_some(), "{large:?} {:?}", case.reserved());
}

#[test]
fn reservations_survive_changes_of_shares_or_are_reported() {
    let mut case = Case::new("mclock:groups=1");
    let lost = |case: &Case| case.bench.count(EventKind::ReservationLost);
    case.lease(Some(RATE));
    case.run(1);
    let reserved = case.reserved();
    assert!(reserved.is_some());
    // Changes of other classes' shares, of its own, and one that is rejected.
    let group = (Holder::Group(GroupId(0)), Share::weighted(1));
    let client = (Holder::Class(StreamId(0)), Share { reservation_per_second: 1, ..Share::weighted(5_000) });
    case.bench.change(vec![group, client], vec![spec()], true);
    assert_eq!(case.reserved(), reserved);
    case.change(Share::weighted(2), true);
    assert_eq!(case.reserved(), reserved);
    case.change(Share { limit_per_second: 2, ..Share::weighted(1) }, false);
    assert_eq!(case.reserved(), reserved);
    // The reservation is at most the limit.
    case.change(Share { limit_per_second: 2, ..Share::weighted(1) }, true);
    assert_eq!(case.reserved(), Some(2));
    assert_eq!(lost(&case), 0);
    for times in 1..=2 {
        case.change(Share { group: Some(GroupId(0)), ..Share::weighted(1) }, true);
        case.run(1);
        assert_eq!((case.reserved(), lost(&case)), (None, times), "it is said once");
        case.change(Share::weighted(1), true);
        assert!(case.reserved() >= reserved);
    }
    // After the lease, the class has its own share again, without the reservation of the lease.
    case.bench.order(SCRUB, ServiceOrder::Release);
    assert_eq!(case.reserved(), None);
}

const SPEC: &str = r#"
[[device]]
name = "d"
backend = "memory"
size = "64MiB"
scheduler = "mclock"
request_bytes_max = "256KiB"
[[group]]
name = "g"
device = "d"
[[export]]
name = "export"
device = "d"
[service.nightly]
kind = "scrub"
device = "d"
weight = 10
"#;

fn share(served: &Served) -> Value {
    let state = served.ask(&Command::State {}).unwrap();
    let classes = state["classes"].as_array().unwrap().clone();
    classes.into_iter().find(|class| class["name"] == "nightly").unwrap()["share"].take()
}

fn ask(served: &Served, text: &str) -> Result<String, String> {
    let answer = served.ask(&Command::parse(text.as_bytes()).unwrap()).map_err(|error| error.to_string())?;
    Ok(answer["changes"][0].as_str().unwrap().to_owned())
}

const RUN: &str = "{\"service\":{\"name\":\"nightly\",\"run\":{\"lease\":\"1h\",\"bytes_per_second_max\":4194304,\
                   \"reservation_bytes_per_second\":1048576}}}";

#[test]
fn leased_reservations_are_shown_as_any_class_shows() {
    let served = Served::of("", SPEC);
    assert_eq!(ask(&served, RUN).unwrap(), "service nightly: runs for 1h, at most 4 MiB/s, 1 MiB/s reserved");
    let shown = |wanted: (u64, u64)| {
        // A state is at most a tenth of a second old.
        while (share(&served)["weight"].as_u64(), share(&served)["reservation_per_second"].as_u64())
            != (Some(wanted.0), Some(wanted.1))
        {}
    };
    // Four requests of 256 KiB.
    shown((10, 4));
    let state = served.ask(&Command::State {}).unwrap();
    let columns = state["share_columns"].as_array().unwrap();
    assert!(columns.iter().any(|column| column["key"] == "reservation_per_second"), "{columns:?}");
    ask(&served, "{\"set\":[\"service.nightly.weight=20\"]}").unwrap();
    shown((20, 4));
    ask(&served, "{\"set\":[\"service.nightly.reservation=9/s\"]}").unwrap();
    shown((20, 9));
    ask(&served, "{\"set\":[\"service.nightly.reservation=3/s\"]}").unwrap();
    shown((20, 4));
    ask(&served, "{\"service\":{\"name\":\"nightly\",\"release\":{}}}").unwrap();
    shown((20, 3));
    served.stop();
}

#[test]
fn infeasible_reservations_are_refused_and_change_nothing() {
    let keeps = "reservation_bytes_per_second: scheduler sfq keeps no reservations";
    let whole = SPEC.replace("weight = 10", "weight = 10\ngroup = \"g\"");
    for (spec, what) in [
        (SPEC.replace("mclock", "sfq"), keeps),
        (SPEC.replace("mclock", "sfq+mq-deadline"), keeps),
        (whole, "cannot be reserved for a client in a group"),
    ] {
        let served = Served::of("", &spec);
        let error = ask(&served, RUN).unwrap_err();
        assert!(error.starts_with("service nightly: ") && error.contains(what), "{error}");
        let state = served.ask(&Command::State {}).unwrap();
        assert!(state["services"][0]["lease_left_seconds"].is_null());
        ask(&served, &RUN.replace(",\"reservation_bytes_per_second\":1048576", "")).unwrap();
        served.stop();
    }
    let served = Served::of("", SPEC);
    for (from, to, what) in [
        (":1048576", ":0", "reservation_bytes_per_second: 0 reserves nothing"),
        (":1048576", ":4194305", "reservation_bytes_per_second: more than bytes_per_second_max"),
    ] {
        let error = ask(&served, &RUN.replace(from, to)).unwrap_err();
        assert!(error.contains(what), "{error}");
    }
    served.stop();
}
