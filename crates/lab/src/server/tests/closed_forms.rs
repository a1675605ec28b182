//! The event loop compared with closed forms of queueing theory.

use std::collections::VecDeque;

use ioweir_core::cores::{CoreScheduler, Counts, Kind, Log, Queue, Run, Turn, Wait, Work};
use ioweir_core::{Nanos, Tag};

use super::super::engine::Engine;
use super::super::model::Model;
use super::*;
use crate::sim::Discipline;

/// Costs without turns, network, swings or flushes: service times are exponential.
fn bare_costs() -> CostSpec {
    let text = r#"
        turn = "0us"
        slow_path = "0us"
        spread_percent = 100.0
        network = "0us"
        read = { base = "100us" }
        write = { base = "50us" }
        attributes = { base = "50us" }
        restart = { base = "50us" }
        prefetch = { bytes = "1MiB", cost = { base = "0us" } }
        flush = { interval = "1000s", operations = 1, log_record = "1B", cost = { base = "0us" } }
        swing = { amplitude_percent = 0.0, period = "1s" }
    "#;
    CostSpec::parse("bare", text).expect("they make sense")
}

fn platform(workers: u32) -> PlatformSpec {
    let platform = PlatformSpec::load("mid-range").expect("a preset");
    PlatformSpec { workers: Some(workers), nvram: ioweir_config::Size(1 << 43), ..platform }
}

fn workload(read_share: f64) -> WorkloadSpec {
    let text = format!(
        "objects = 1\n[[operation]]\nname = \"read\"\nshare = {read_share}\nkind = \"read\"\n\
         [[operation]]\nname = \"write\"\nshare = {}\nkind = \"write\"\n",
        1.0 - read_share
    );
    WorkloadSpec::parse("two kinds", &text).expect("it makes sense")
}

/// Checks that a value is within 1 % of the expected one.
fn assert_within_one_percent(what: &str, seen: f64, expected: f64) {
    assert!((seen / expected - 1.0).abs() < 0.01, "{what}: {seen:.6} s, in closed form {expected:.6} s");
}

/// Erlang's C: the share of arrivals that wait.
fn erlang_c(servers: u32, offered: f64) -> f64 {
    let blocked =
        (1..=servers).fold(1.0, |blocked, server| offered * blocked / (f64::from(server) + offered * blocked));
    let utilisation = offered / f64::from(servers);
    blocked / (1.0 - utilisation * (1.0 - blocked))
}

#[test]
fn pool_with_one_queue_is_m_m_c() {
    for (workers, utilisation) in [(1, 0.6), (4, 0.8), (11, 0.9)] {
        let server = Server::new(platform(workers), workload(1.0), bare_costs()).expect("it makes sense");
        let (service, rate) = (100e-6, utilisation * f64::from(workers) / 100e-6);
        let seconds = 2_500_000.0 / rate;
        let outcome = run(&server, "all-to-hq:window=1s", &load(rate, (seconds * 1e3) as u64));
        let wait =
            erlang_c(workers, utilisation * f64::from(workers)) * service / (f64::from(workers) * (1.0 - utilisation));
        let mean = outcome.mean_seconds().expect("requests were answered");
        assert_within_one_percent(&format!("M/M/{workers}"), mean, service + wait);
        assert!((outcome.utilisation / utilisation - 1.0).abs() < 0.01, "{}", outcome.utilisation);
    }
}

/// Writes before reads, one worker, no slices.
#[derive(Default)]
struct WritesFirst {
    queues: [VecDeque<u32>; 2],
    kinds: Vec<Kind>,
    free: Vec<u32>,
}

impl Discipline for WritesFirst {}

impl CoreScheduler for WritesFirst {
    fn submit(&mut self, _now: Nanos, work: Work) -> Result<Tag, Work> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.kinds.push(work.kind);
            u32::try_from(self.kinds.len() - 1).expect("few requests")
        });
        self.kinds[slot as usize] = work.kind;
        self.queues[usize::from(work.kind != Kind::Write)].push_back(slot);
        Ok(Tag::new(slot, 0))
    }
    fn next(&mut self, _now: Nanos, _worker: u32, _log: Log) -> Turn {
        let is_empty = self.queues.iter().all(VecDeque::is_empty);
        if is_empty { Turn::Idle } else { Turn::Serve { queue: Queue::High, slice: Nanos::NEVER, switched: false } }
    }
    fn take(&mut self, _now: Nanos, _worker: u32) -> Option<Run> {
        let [writes, reads] = &mut self.queues;
        let slot = writes.pop_front().or_else(|| reads.pop_front())?;
        Some(Run { tag: Tag::new(slot, 0), allowance: Nanos::NEVER })
    }
    fn finished(&mut self, _now: Nanos, _worker: u32, tag: Tag, _used: Nanos) {
        self.free.push(u32::try_from(tag.index()).expect("few requests"));
    }
    fn suspended(&mut self, _now: Nanos, _worker: u32, _tag: Tag, _used: Nanos) {}
    fn preempted(&mut self, _now: Nanos, _worker: u32, _tag: Tag, _used: Nanos) {}
    fn restarted(&mut self, _now: Nanos, _tag: Tag) {}
    fn depths(&self) -> [u32; Queue::COUNT] {
        let [writes, reads] = [0, 1].map(|at: usize| u32::try_from(self.queues[at].len()).expect("few requests"));
        [writes, reads, 0]
    }
    fn waiting(&self) -> [u32; Wait::COUNT] {
        [0; Wait::COUNT]
    }
    fn counts(&self) -> [Counts; Queue::COUNT] {
        [Counts::default(); Queue::COUNT]
    }
}

#[test]
fn write_priority_worker_is_m_g_1() {
    let (read, write) = (100e-6, 50e-6);
    let (rate, read_share) = (9_000.0, 0.5);
    let model = Model::new(&platform(1), &workload(read_share), &bare_costs(), rate, 1 << 16);
    let outcome = Engine::new(&model, WritesFirst::default(), 3)
        .run(1_000_000_000, 300_000_000_000, 1)
        .expect("no law is broken");
    let (reads, writes) = (rate * read_share, rate * (1.0 - read_share));
    // The remaining time of the request in service when another arrives; the second moment of an exponential time is 2 m^2.
    let residual = reads * read * read + writes * write * write;
    let (of_writes, of_all) = (writes * write, writes * write + reads * read);
    let seen = |kind: Kind| outcome.by_kind[kind as usize].mean_seconds().expect("requests were answered");
    assert_within_one_percent("writes", seen(Kind::Write), write + residual / (1.0 - of_writes));
    assert_within_one_percent("reads", seen(Kind::Read), read + residual / ((1.0 - of_writes) * (1.0 - of_all)));
}
