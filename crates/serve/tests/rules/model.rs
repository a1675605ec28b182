//! Several clients at once against a model: every block behaves as if its reads and writes happened one after the other, whatever the
//! scheduler, the splitting and the backend do. Data that was answered as durable is there after a power failure.

use crate::bench::{Bench, device};
use crate::client::*;
use crate::history::*;
use ioweir_config::Duration;
use ioweir_core::Nanos;
use ioweir_core::cores::SCHEDULES;
use ioweir_serve::backend::{Action, Backend, Done, Faulty, Io, Media, Memory};
use ioweir_serve::buffer::Pool;
use ioweir_serve::spec::Faults;
use proptest::prelude::*;

const POLICIES: [&str; 5] = ["noop", "deadline", "cfq", "bid-hdd", "bfq"];

fn run_on(backend: &str, policy: &str, merge: bool, moves: &[Move]) {
    let keys = format!(
        "{backend}\nscheduler = \"{policy}\"\nmerge = {merge}\nqueue_requests = 16\nrequest_bytes_max = \"4KiB\""
    );
    let mut run = Run::new(Bench::new(&keys));
    run.play(moves);
    run.settle();
    // At the end every block can be read.
    run.ask(0, READ, 0, 0, BLOCKS);
    run.settle();
    assert!(run.asked.values().all(|asked| asked.is_answered), "everything is answered");
    assert_eq!(run.bench.engine.buffered_bytes(), 0);
    run.end().check();
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn memory_is_linearisable(moves in moves(), policy in 0..POLICIES.len(), merge in any::<bool>()) {
        run_on("backend = \"memory\"\nsize = \"48KiB\"\ndepth = 3", POLICIES[policy], merge, &moves);
    }

    #[test]
    fn an_emulated_disk_is_linearisable(moves in moves(), policy in 0..POLICIES.len(), depth in 1..5) {
        let backend = format!("backend = \"emulated\"\nmodel = \"tiny\"\nsize = \"48KiB\"\ndepth = {depth}");
        run_on(&backend, POLICIES[policy], true, &moves);
    }

    #[test]
    fn a_device_that_stalls_and_fails_is_linearisable(moves in moves(), policy in 0..POLICIES.len(), seed in any::<u64>()) {
        let faults = format!("[device.faults]\nseed = {}\nerrors_per_million = 30000\nstalls_per_million = 300000\nstall = \"1ms\"", seed >> 1);
        let keys = format!("backend = \"faulty\"\nsize = \"48KiB\"\nscheduler = \"{}\"\nqueue_requests = 16\n{faults}", POLICIES[policy]);
        let mut run = Run::new(Bench::new(&keys));
        run.play(&moves);
        run.settle();
        run.end().check();
    }
}

proptest! {
    #![proptest_config(config(25))]

    #[test]
    fn files_are_linearisable(moves in moves(), policy in 0..POLICIES.len(), threads in any::<bool>(), direct in any::<bool>()) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let io = if threads { "threads" } else { "auto" };
        let backend = format!("backend = \"file\"\npath = {path:?}\nsize = \"48KiB\"\nio = \"{io}\"\ndirect = {direct}\ndepth = 4");
        run_on(&backend, POLICIES[policy], true, &moves);
    }
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn devices_with_checksums_are_linearisable_without_alarms(
        moves in moves(), policy in 0..POLICIES.len(), schedule in 0..SCHEDULES.len(), emulated in any::<bool>(),
    ) {
        let (policy, schedule) = (POLICIES[policy], SCHEDULES[schedule].name);
        let backend = if emulated { "backend = \"emulated\"\nmodel = \"tiny\"" } else { "backend = \"memory\"" };
        let keys = format!("{backend}\nsize = \"48KiB\"\ndepth = 4\nscheduler = \"{policy}\"\nqueue_requests = 16\n\
            checksums = true\ncores = {{ schedule = \"{schedule}\", workers = 1 }}");
        let mut run = Run::new(Bench::new(&keys));
        run.play(&moves);
        run.settle();
        run.ask(0, READ, 0, 0, BLOCKS);
        run.settle();
        assert!(run.asked.values().all(|asked| asked.is_answered && !asked.failed), "everything is answered");
        run.end().check();
    }

    #[test]
    fn failing_devices_with_checksums_stay_linearisable(
        moves in moves(), schedule in 0..SCHEDULES.len(), seed in any::<u64>(),
    ) {
        let keys = format!("backend = \"faulty\"\nsize = \"48KiB\"\nqueue_requests = 16\nchecksums = true\n\
            cores = {{ schedule = \"{}\", workers = 1 }}\n[device.faults]\nseed = {}\n\
            errors_per_million = 30000\nstalls_per_million = 300000\nstall = \"1ms\"", SCHEDULES[schedule].name, seed >> 1);
        let mut run = Run::new(Bench::new(&keys));
        run.play(&moves);
        run.settle();
        prop_assert_eq!(run.bench.engine.checksums().map(|counts| counts.blocks_damaged), Some(0));
        run.end().check();
    }
}

/// Memory that answers in any order, and checks that its operations do not overlap.
struct Watchful {
    memory: Memory,
    held: Vec<(u64, u64, bool, Io)>,
    random: u64,
}

impl Backend for Watchful {
    fn start(&mut self, _now: Nanos, io: Io) {
        let changes = matches!(io.action, Action::Write | Action::Trim | Action::Zero { .. });
        let (from, until) = (io.offset, io.offset + io.length);
        for (other_from, other_until, other_changes, _) in &self.held {
            let overlaps = from < *other_until && *other_from < until;
            assert!(!(overlaps && (changes || *other_changes)), "two that overlap are with the backend at once");
        }
        self.held.push((from, until, changes, io));
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> std::io::Result<()> {
        self.random = self.random.rotate_left(11).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        if !self.held.is_empty() && !self.random.is_multiple_of(3) {
            let (.., io) = self.held.swap_remove((self.random >> 7) as usize % self.held.len());
            self.memory.start(now, io);
        }
        self.memory.collect(now, done)
    }

    fn due(&self) -> Nanos {
        if self.held.is_empty() { Nanos::NEVER } else { Nanos::ZERO }
    }

    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn describe(&self) -> String {
        self.memory.describe()
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn what_overlaps_never_meets(moves in moves(), policy in 0..POLICIES.len(), random in any::<u64>(), depth in 1_u32..9) {
        let keys = format!("backend = \"memory\"\nsize = \"48KiB\"\nscheduler = \"{}\"\nqueue_requests = 64\ndepth = {depth}", POLICIES[policy]);
        let backend = Box::new(Watchful { memory: Memory::new(BLOCKS * BLOCK), held: Vec::new(), random });
        let mut run = Run::new(Bench::over(device(&keys), backend, Pool::new(256 << 10)));
        run.play(&moves);
        run.settle();
        run.end().check();
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn durable_writes_survive_the_loss_of_power(
        moves in moves(), policy in 0..POLICIES.len(), seed in any::<u64>(), at in 1_u64..80, depth in 1_u32..6,
    ) {
        let media = Media::new(BLOCKS * BLOCK);
        let faults = Faults { seed, stalls_per_million: 200_000, stall: Duration::new(Nanos::from_millis(1)), power_cut_at: at, ..Faults::default() };
        let keys = format!("backend = \"faulty\"\nsize = \"48KiB\"\nscheduler = \"{}\"\nqueue_requests = 16\ndepth = {depth}", POLICIES[policy]);
        let backend = Box::new(Faulty::new(media.clone(), faults));
        let mut run = Run::new(Bench::over(device(&keys), backend, Pool::new(256 << 10)));
        run.play(&moves);
        run.settle();
        if media.has_power() {
            // The run ended before the planned power failure, so the power is cut now.
            let mut random = seed;
            media.cut(|| { random = random.rotate_left(9).wrapping_mul(5); random >> 63 == 1 });
        }
        run.end().check_after_power_loss(media.contents().chunks(BLOCK as usize).map(value_of));
    }
}
