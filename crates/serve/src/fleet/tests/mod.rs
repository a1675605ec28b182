//! Tests of a fleet in virtual time: real coordinators, a store in memory in place of etcd, and tenants whose service is a fluid.

#[path = "../../../../../fuzz/drive_fleet.rs"]
mod drive_fleet;
mod real;
mod splits;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ioweir_core::fleet::Sight;
use ioweir_core::policy;
use ioweir_core::tenant::{Share, TenantControl};
use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Request, Scheduler as _, Step, StreamId};

use super::coordinator::{Ask, Coordinator, Heard, Own, Snapshot, Store, Turn};
use super::wire::{self, Answer, assignments};
use crate::engine::Served;
use crate::log::EventKind;
use crate::spec::{ClassPart, Fleet, Spec};

const SECOND: u64 = 1_000_000_000;
const PERIOD: u64 = SECOND / 4;
/// The time of a step.
const STEP: u64 = SECOND / 20;
const LIMIT: u64 = 12_000;

/// A model of etcd.
#[derive(Default)]
struct Kept {
    now: u64,
    revision: i64,
    /// The revision at which the newest round began, and all reports then.
    round: i64,
    rounds: BTreeMap<i64, Snapshot>,
    /// By server: its record.
    records: BTreeMap<String, Vec<u8>>,
    /// The lease and the report of each server.
    reports: BTreeMap<String, (i64, Vec<u8>)>,
    /// The end and the length of each lease.
    leases: BTreeMap<i64, (u64, u64)>,
    tenants: (i64, Vec<u8>),
}

impl Kept {
    fn expire(&mut self, now: u64) {
        self.now = now;
        self.leases.retain(|_, (end, _)| *end > now);
        let leases = &self.leases;
        self.reports.retain(|_, (lease, _)| leases.contains_key(lease));
    }
}

/// A server's connection to the model of etcd.
struct Link {
    kept: Rc<RefCell<Kept>>,
    server: String,
    is_cut: bool,
    /// The store answers one exchange of this many.
    answers_one_of: u64,
    asked: u64,
}

impl Link {
    fn kept(&self) -> Result<std::cell::RefMut<'_, Kept>, String> {
        if self.is_cut { Err("no answer".into()) } else { Ok(self.kept.borrow_mut()) }
    }
}

impl Store for Link {
    fn grant(&mut self, seconds: u64) -> Result<i64, String> {
        let mut kept = self.kept()?;
        let (id, end) = (kept.leases.keys().max().unwrap_or(&0) + 1, kept.now + seconds * SECOND);
        kept.leases.insert(id, (end, seconds * SECOND));
        Ok(id)
    }

    fn renew(&mut self, lease: i64) -> Result<bool, String> {
        let mut kept = self.kept()?;
        let now = kept.now;
        Ok(kept.leases.get_mut(&lease).map(|(end, lasts)| *end = now + *lasts).is_some())
    }

    fn exchange(&mut self, ask: &Ask<'_>) -> Result<Answer, String> {
        self.asked += 1;
        if !self.asked.is_multiple_of(self.answers_one_of) {
            return Err("it is slow".into());
        }
        let server = self.server.clone();
        let mut kept = self.kept()?;
        let lease = kept.reports.get(&server).map_or(0, |(lease, _)| *lease);
        let is_mine = if ask.is_new { lease == 0 } else { lease == ask.lease };
        let is_done = is_mine && ask.begins.is_none_or(|round| round == kept.round);
        if is_done {
            kept.revision += 1;
            if let Some(record) = ask.record {
                kept.records.insert(server.clone(), record.into());
            }
            kept.reports.insert(server, (ask.lease, ask.report.as_bytes().to_vec()));
            if ask.begins.is_some() {
                kept.round = kept.revision;
                let heard =
                    |server: &String, report: &Vec<u8>| Heard { server: server.clone(), report: report.clone() };
                let reports = kept.reports.iter().map(|(server, (_, report))| heard(server, report)).collect();
                let records = kept.records.iter().map(|(server, record)| heard(server, record)).collect();
                let round = kept.round;
                kept.rounds.insert(round, Snapshot { reports, records });
            }
        }
        let tenants = Some(kept.tenants.clone()).filter(|(revision, _)| *revision > ask.tenants_after);
        let lease = (!is_done).then_some(lease);
        Ok(Answer { is_done, lease, round: kept.round, revision: kept.revision, tenants })
    }

    fn snapshot(&mut self, revision: i64) -> Result<Snapshot, String> {
        self.kept()?.rounds.get(&revision).cloned().ok_or_else(|| "compacted".into())
    }

    fn leave(&mut self, lease: Option<i64>) {
        if let Ok(mut kept) = self.kept() {
            kept.records.remove(&self.server);
            lease.and_then(|lease| kept.leases.remove(&lease));
        }
    }
}

/// A server with one tenant.
struct Node {
    coordinator: Coordinator<Link>,
    own: Own,
    /// The rate that the server's clients ask for, in requests a second.
    offered: u64,
    served: Served,
    part: ClassPart,
    turn: Turn,
    /// When it turns next, by the clock of the world.
    next: u64,
    /// The server's clock: its speed in thousandths, and its value at the start.
    clock: (u64, u64),
    is_dead: bool,
}

impl Node {
    fn limit(&self) -> u64 {
        if self.is_dead { 0 } else { self.part.of(self.own.share).limit_per_second }
    }

    fn got(&self) -> u64 {
        self.offered.min(self.limit())
    }
}

struct Fleets {
    kept: Rc<RefCell<Kept>>,
    nodes: Vec<Node>,
    now: u64,
}

fn keys(server: &str, alone: u32) -> Fleet {
    let text = format!("name = \"f\"\nserver = \"{server}\"\netcd = [\"http://127.0.0.1:1\"]\nalone = {alone}\n");
    toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"))
}

impl Fleets {
    fn new(servers: usize) -> Self {
        Self::with(servers, 100)
    }

    fn with(servers: usize, alone: u32) -> Self {
        let mut fleet = Self { kept: Rc::default(), nodes: Vec::new(), now: 0 };
        for number in 0..servers {
            fleet.join(&format!("s{number}"), alone);
        }
        fleet
    }

    fn join(&mut self, server: &str, alone: u32) {
        let link =
            Link { kept: Rc::clone(&self.kept), server: server.into(), is_cut: false, answers_one_of: 1, asked: 0 };
        let share = Share { limit_per_second: LIMIT, reservation_per_second: 1_200, ..Share::weighted(100) };
        let own = Own { class: 0, tenant: "gold".into(), share, counts_sectors: false, hears_of_others: true };
        let number = self.nodes.len() as u64;
        self.nodes.push(Node {
            coordinator: Coordinator::new(keys(server, alone), link),
            own,
            offered: 0,
            served: Served::default(),
            part: ClassPart::default(),
            turn: Turn::default(),
            // Each server turns at another time of the period.
            next: self.now + number * PERIOD / 7,
            clock: (1_000, number * 3_600 * SECOND),
            is_dead: false,
        });
    }

    /// Lets time pass; `watch` sees all servers after each step.
    fn run(&mut self, seconds: u64, mut watch: impl FnMut(&[Node])) {
        let until = self.now + seconds * SECOND;
        while self.now < until {
            self.run_a_step();
            watch(&self.nodes);
        }
    }

    fn run_a_step(&mut self) {
        self.now += STEP;
        self.kept.borrow_mut().expire(self.now);
        for node in self.nodes.iter_mut().filter(|node| !node.is_dead) {
            let got = node.got() * STEP / SECOND;
            node.served.requests += got;
            if node.offered > node.limit() {
                node.served.throttled_nanos += STEP;
                node.served.waited_nanos += STEP;
            }
            if self.now >= node.next {
                let (rate, began) = node.clock;
                node.next = self.now + PERIOD * 1_000 / rate;
                let own_time = Nanos(began + self.now / 1_000 * rate);
                node.turn = node.coordinator.turn(own_time, std::slice::from_ref(&node.own), &[node.served]);
                node.part = node.turn.parts.get(&0).copied().unwrap_or_default();
            }
        }
    }

    fn sights(&self) -> Vec<Sight> {
        self.nodes.iter().map(|node| node.turn.status.sight).collect()
    }

    fn got(&self) -> Vec<u64> {
        self.nodes.iter().map(Node::got).collect()
    }
}

fn all(nodes: &[Node]) -> u64 {
    nodes.iter().map(Node::limit).sum()
}

/// Three servers that have settled, with more asked of the first than of the others.
fn settled() -> Fleets {
    let mut fleet = Fleets::new(3);
    for (node, offered) in fleet.nodes.iter_mut().zip([20_000, 3_000, 1_000]) {
        node.offered = offered;
    }
    fleet.run(10, |_| {});
    fleet
}

#[test]
fn single_servers_have_the_shares_of_their_spec() {
    let mut fleet = Fleets::new(1);
    let share = fleet.nodes[0].own.share;
    for offered in [0, 5_000, 50_000, 100] {
        fleet.nodes[0].offered = offered;
        fleet.run(3, |nodes| {
            assert_eq!(nodes[0].part.of(share), share);
            assert!(nodes[0].turn.elsewhere.is_empty());
        });
    }
    assert_eq!(fleet.sights(), [Sight::Seeing]);
}

#[test]
fn a_single_server_decides_as_without_a_fleet() {
    for (name, weight) in [("mclock", 1), ("reward", 3), ("sfq", 9)] {
        let row = policy::find(name).expect("it is in the table");
        let share = Share { limit_per_second: LIMIT, ..Share::weighted(weight) };
        let [mut with, mut without] = [(); 2].map(|()| {
            let mut policy = row.build(QueueLimits::with_requests(8), &row.defaults());
            let control = policy.tenants_mut().expect("a policy between tenants");
            for (client, share) in [(0, share), (1, Share::weighted(2))] {
                control.configure(Nanos::ZERO, StreamId(client), share).expect("it is feasible");
            }
            policy
        });
        let counts = with.tenants().is_some_and(TenantControl::counts_elsewhere);
        let mut fleet = Fleets::new(1);
        let own = &mut fleet.nodes[0].own;
        (own.share, own.hears_of_others) = (share, counts);
        fleet.nodes[0].offered = 50_000;
        let (mut used, mut dispatched, mut seed) = (share, 0, 7_u64);
        for _ in 0..200 {
            let mut now = Nanos(fleet.now);
            fleet.run_a_step();
            // As the link of a server does after each turn of its coordinator.
            let part = fleet.nodes[0].part.of(share);
            for told in std::mem::take(&mut fleet.nodes[0].turn.elsewhere) {
                with.tenants_mut().expect("the policy has tenants").served_elsewhere(now, StreamId(told.0), told.1);
            }
            if part != used {
                with.tenants_mut()
                    .expect("the policy has tenants")
                    .configure(now, StreamId(0), part)
                    .expect("it is feasible");
                used = part;
            }
            for _ in 0..40 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let request = Request {
                    operation: Operation::Read,
                    flags: Flags::NONE,
                    stream: StreamId((seed >> 40) as u32 % 2),
                    sector: (seed >> 33) % 4_096 * 8,
                    sectors: 8,
                };
                assert_eq!(with.submit(now, request).ok(), without.submit(now, request).ok());
                let steps = [with.poll(now), without.poll(now)];
                assert_eq!(steps[0], steps[1]);
                now = now.after(Nanos(60_000));
                if let Step::Dispatch(dispatch) = steps[0] {
                    with.complete(now, dispatch.tag);
                    without.complete(now, dispatch.tag);
                    dispatched += 1;
                }
            }
        }
        assert!(dispatched > 5_000, "{name}: {dispatched}");
    }
}

#[test]
fn connected_servers_use_the_limit_and_no_more() {
    let mut fleet = settled();
    let got = fleet.got();
    assert!(got[1] == 3_000 && got[2] == 1_000 && got[0] > LIMIT - 4_000 - 700, "{got:?}");
    assert_eq!(fleet.sights(), [Sight::Seeing; 3]);
    for offered in [[1_000, 20_000, 3_000], [0, 0, 30_000], [5_000, 5_000, 5_000], [100, 100, 100], [30_000, 30_000, 0]]
    {
        fleet.nodes.iter_mut().zip(offered).for_each(|(node, offered)| node.offered = offered);
        fleet.run(6, |nodes| assert!(all(nodes) <= LIMIT, "{}", all(nodes)));
        let (got, asked) = (fleet.got().iter().sum::<u64>(), offered.iter().sum::<u64>().min(LIMIT));
        assert!(got * 100 >= asked * 85, "{got} of {asked}");
    }
    let reserved: u64 = fleet.nodes.iter().map(|node| node.part.of(node.own.share).reservation_per_second).sum();
    assert!(reserved <= 1_200 && reserved > 1_100, "{reserved}");
}

#[test]
fn cut_off_servers_fall_back_after_their_lease() {
    let mut fleet = settled();
    let before = fleet.nodes[0].limit();
    fleet.nodes[0].coordinator.store().is_cut = true;
    // The lease was last renewed up to a quarter of its length ago.
    fleet.run(3, |nodes| {
        assert_eq!(nodes[0].limit(), before);
        assert!(all(nodes) <= LIMIT);
    });
    assert_eq!(fleet.sights(), [Sight::Keeping, Sight::Seeing, Sight::Seeing]);
    fleet.run(4, |nodes| assert!(all(nodes) <= 2 * LIMIT, "two islands"));
    assert_eq!(fleet.sights(), [Sight::Alone, Sight::Seeing, Sight::Seeing]);
    assert_eq!(fleet.nodes[0].limit(), LIMIT);
    assert_eq!(fleet.nodes[1].limit() + fleet.nodes[2].limit(), LIMIT, "the others have what it had");
    fleet.nodes[0].coordinator.store().is_cut = false;
    fleet.run(3, |nodes| assert!(all(nodes) <= 2 * LIMIT));
    assert_eq!(fleet.sights(), [Sight::Seeing; 3]);
    fleet.run(2, |nodes| assert!(all(nodes) <= LIMIT));
}

#[test]
fn without_etcd_each_goes_by_its_configured_part() {
    for (alone, most) in [(100, 3 * LIMIT), (33, LIMIT)] {
        let mut fleet = Fleets::with(3, alone);
        fleet.nodes.iter_mut().for_each(|node| node.offered = 20_000);
        fleet.run(5, |_| {});
        fleet.nodes.iter_mut().for_each(|node| node.coordinator.store().is_cut = true);
        fleet.run(3, |nodes| assert!(all(nodes) <= LIMIT, "within the lease"));
        fleet.run(10, |nodes| assert!(all(nodes) <= most, "{alone}"));
        assert_eq!(fleet.sights(), [Sight::Alone; 3]);
        assert_eq!(fleet.nodes[1].limit(), LIMIT * u64::from(alone) / 100);
        assert!(fleet.nodes[1].turn.status.failures > 10);
    }
}

#[test]
fn a_slow_etcd_delays_parts_and_takes_nothing() {
    let mut fleet = settled();
    fleet.nodes.iter_mut().for_each(|node| node.coordinator.store().answers_one_of = 3);
    for offered in [[1_000, 20_000, 3_000], [30_000, 30_000, 0]] {
        fleet.nodes.iter_mut().zip(offered).for_each(|(node, offered)| node.offered = offered);
        fleet.run(12, |nodes| {
            assert!(nodes.iter().all(|node| node.turn.status.sight != Sight::Alone));
            assert!(all(nodes) <= 2 * LIMIT, "one that is late adds at most its last part");
        });
        let got: u64 = fleet.got().iter().sum();
        assert!(got * 100 >= LIMIT * 85, "{got}");
    }
}

#[test]
fn clocks_that_differ_change_nothing() {
    let mut fleet = Fleets::new(3);
    // The clocks differ by hours from the start; one is a hundredth too fast, one too slow.
    fleet.nodes[1].clock.0 = 1_010;
    fleet.nodes[2].clock.0 = 990;
    fleet.nodes.iter_mut().for_each(|node| node.offered = 20_000);
    fleet.run(5, |_| {});
    for offered in [[1_000, 20_000, 3_000], [0, 0, 30_000], [30_000, 30_000, 0]] {
        fleet.nodes.iter_mut().zip(offered).for_each(|(node, offered)| node.offered = offered);
        fleet.run(10, |nodes| assert!(all(nodes) <= LIMIT, "{}", all(nodes)));
    }
    assert_eq!(fleet.sights(), [Sight::Seeing; 3]);
}

#[test]
fn a_server_that_lies_leaves_others_even_parts() {
    let mut fleet = settled();
    fleet.nodes[1].offered = 20_000;
    // Server 2 reports more service than it could ever give, and is held to an even part.
    fleet.nodes[2].offered = u64::MAX / SECOND;
    let mut lie = 0_u64;
    for _ in 0..40 {
        lie += 1 << 40;
        fleet.nodes[2].served.requests = lie;
        fleet.nodes[2].served.throttled_nanos += SECOND;
        fleet.run(1, |nodes| assert!(all(nodes) <= LIMIT));
    }
    let even = LIMIT / 3;
    let limits: Vec<u64> = fleet.nodes.iter().map(Node::limit).collect();
    assert!(limits.iter().all(|limit| *limit + 1 >= even), "{limits:?}");
}

#[test]
fn dead_servers_keep_their_part_for_a_lease() {
    let mut fleet = settled();
    fleet.nodes[1].offered = 20_000;
    fleet.nodes[0].is_dead = true;
    fleet.run(4, |_| {});
    assert!(fleet.nodes[1].limit() < LIMIT / 2 + 1_000, "its lease is not over");
    fleet.run(6, |nodes| assert!(all(nodes) <= LIMIT));
    assert!(fleet.nodes[1].limit() > LIMIT - 2_000, "{}", fleet.nodes[1].limit());
    // The others need not wait for the lease of a server that leaves.
    fleet.nodes[2].coordinator.leave();
    fleet.nodes[2].is_dead = true;
    fleet.run(2, |_| {});
    assert_eq!(fleet.nodes[1].limit(), LIMIT);
}

#[test]
fn a_second_server_of_one_name_is_excluded() {
    let mut fleet = settled();
    fleet.join("s1", 100);
    fleet.run(5, |_| {});
    assert_eq!(fleet.sights(), [Sight::Seeing, Sight::Seeing, Sight::Seeing, Sight::Alone]);
    let problem = fleet.nodes[3].turn.status.problem.clone().unwrap_or_default();
    assert!(problem.contains("another server `s1`"), "{problem}");
    fleet.nodes[1].coordinator.leave();
    fleet.nodes[1].is_dead = true;
    fleet.run(3, |_| {});
    assert_eq!(fleet.sights()[3], Sight::Seeing);
}

#[test]
fn invalid_reports_are_logged_and_left_out() {
    let mut fleet = settled();
    fleet.kept.borrow_mut().reports.insert("evil".into(), (1, b"ioweir-fleet 1\nrubbish\n".to_vec()));
    let mut said = false;
    fleet.run(4, |nodes| {
        said |= nodes[0].turn.remarks.iter().any(|(kind, what)| {
            *kind == EventKind::FleetRefused && what.contains("server evil: line 2: expected five whole numbers")
        });
        assert!(all(nodes) <= LIMIT);
    });
    assert!(said);
    assert_eq!(fleet.sights(), [Sight::Seeing; 3]);
    assert_eq!(fleet.nodes[0].turn.status.servers, 3);
}

#[test]
fn what_was_served_elsewhere_is_told_once() {
    let mut fleet = settled();
    let (mut told, before) = (0, fleet.nodes[1].served.requests + fleet.nodes[2].served.requests);
    let mut last = Nanos::ZERO;
    fleet.run(10, |nodes| {
        let seen = Nanos(nodes[0].next);
        if seen != last {
            told += nodes[0].turn.elsewhere.iter().map(|(_, told)| told.by_weight).sum::<u64>();
            last = seen;
        }
    });
    let served = fleet.nodes[1].served.requests + fleet.nodes[2].served.requests - before;
    assert!(told.abs_diff(served) <= served / 8, "{told} of {served}: what has not been reported yet is missing");
}

#[test]
fn specs_of_tenants_become_assignments_for_present_ones() {
    let text = "[[device]]\nname = \"d\"\nbackend = \"memory\"\nsize = \"1MiB\"\nscheduler = \"mclock\"\n\
                [[export]]\nname = \"gold\"\ndevice = \"d\"\n";
    let spec = Spec::parse("s.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let made = assignments(b"[gold]\nlimit = \"500/s\"\nweight = 7\n[elsewhere]\nweight = 9\n", &spec);
    assert_eq!(made, Ok(vec!["export.gold.limit=500/s".into(), "export.gold.weight=7".into()]));
    for wrong in [&b"gold = 1"[..], b"[gold", b"\xff", b"[gold]\nweight = [1]\n"] {
        assert!(assignments(wrong, &spec).is_err());
    }
}

#[test]
fn the_corpus_of_fleet_documents_causes_no_panic() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/fleet");
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for file in files.flatten() {
        drive_fleet::drive(&std::fs::read(file.path()).unwrap_or_else(|error| panic!("{error}")));
        count += 1;
    }
    assert!(count >= 7, "{count}");
}

#[test]
fn any_answer_is_read_or_refused() {
    let mut seed = 1_u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize
    };
    let texts = [
        r#"{"header":{"revision":"7"},"succeeded":true,"responses":[{"response_put":{}},{"response_range":{"kvs":[{"mod_revision":"5","value":"YQ=="}]}}]}"#,
        r#"{"kvs":[{"key":"L2lvd2Vpci9mL3JlcG9ydC9z","value":"YQ=="}]}"#,
    ];
    assert_eq!(
        wire::read_exchange(texts[0].as_bytes(), false).map(|answer| (answer.round, answer.is_done)),
        Ok((5, true))
    );
    let heard = wire::read_snapshot(texts[1].as_bytes(), "/ioweir/f/");
    let reports = vec![Heard { server: "s".into(), report: b"a".to_vec() }];
    assert_eq!(heard, Ok(Snapshot { reports, records: Vec::new() }));
    assert!(wire::read_snapshot(texts[1].as_bytes(), "/other/").is_err());
    for text in texts {
        for _ in 0..2_000 {
            let mut bytes = text.as_bytes().to_vec();
            let at = random() % bytes.len();
            bytes[at] = random() as u8;
            bytes.truncate(1 + random() % bytes.len());
            let _ = (wire::read_exchange(&bytes, true), wire::read_snapshot(&bytes, "/ioweir/f/"));
        }
    }
}
