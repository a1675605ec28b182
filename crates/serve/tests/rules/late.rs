//! Rules of discards that are answered at once and carried out later: which data reads may see, and that no write is lost.

use std::sync::{Arc, Mutex};

use crate::bench::{Bench, device};
use crate::client::*;
use crate::history::*;
use crate::powered::{Grid, Powered};
use crate::services::service;
use ioweir_config::Duration;
use ioweir_core::Nanos;
use ioweir_serve::backend::late::DataFiles;
use ioweir_serve::backend::late::journal::Journal;
use ioweir_serve::backend::{Action, Backend, Done, Faulty, Io, Late, Media, Memory};
use ioweir_serve::engine::ServiceWait;
use ioweir_serve::log::EventKind;
use ioweir_serve::spec::{Faults, Service};
use proptest::prelude::*;

fn trimming(default: &str) -> [(Service, Option<std::path::PathBuf>); 1] {
    [(service(&format!("kind = \"trim\"\ndefault = \"{default}\"\ndepth = 2")), None)]
}

fn keys(length: &str) -> String {
    format!(
        "backend = \"memory\"\nsize = \"48KiB\"\nscheduler = \"sfq\"\nqueue_requests = 16\nrequest_bytes_max = \"{length}\""
    )
}

/// Only whole blocks of this size are discarded, so the tests' shorter blocks are discarded together.
const WHOLE: u64 = 4096 / BLOCK;

/// Makes discards whole blocks of the device, as only these are carried out.
fn whole(moves: Vec<Move>) -> Vec<Move> {
    let widened = |step| match step {
        Move::Ask { client, command: TRIM, flags, block, blocks } => {
            let (first, end) = (block / WHOLE * WHOLE, (block + blocks).next_multiple_of(WHOLE).min(BLOCKS));
            Move::Ask { client, command: TRIM, flags, block: first, blocks: end - first }
        }
        other => other,
    };
    moves.into_iter().map(widened).collect()
}

fn faults(seed: u64, errors_per_million: u32) -> Faults {
    let stall = Duration::new(Nanos::from_millis(1));
    Faults { seed, errors_per_million, stalls_per_million: 300_000, stall, ..Faults::default() }
}

proptest! {
    #![proptest_config(config(50))]

    #[test]
    fn discards_take_effect_late_but_never_after_writes(
        moves in moves().prop_map(whole), seed in any::<u64>(), short in any::<bool>(), ranges_max in 0_usize..4, fails in any::<bool>(),
    ) {
        let errors = if fails { 30_000 } else { 0 };
        let inner = Faulty::new(Media::new(BLOCKS * BLOCK), faults(seed, errors));
        let late = Late::open(Box::new(inner), Journal::in_memory().unwrap(), DataFiles::default()).unwrap().with_ranges_max(ranges_max);
        let device = device(&keys(if short { "4KiB" } else { "64KiB" }));
        let mut run = Run::with_late_discards(Bench::with_services(device, Box::new(late), trimming("run")));
        run.play(&moves);
        run.settle();
        // At the end all discards are carried out, unless a flush has failed, and every block can be read.
        run.bench.turn_until(20_000, |bench| {
            let report = bench.services().remove(0);
            report.owed_bytes == 0 || report.wait == ServiceWait::Failed
        });
        run.ask(0, READ, 0, 0, BLOCKS);
        run.settle();
        prop_assert!(run.asked.values().all(|asked| asked.is_answered), "everything is answered");
        prop_assert_eq!(run.bench.engine.buffered_bytes(), 0);
        run.end().check();
    }
}

/// A device and the journal of its discards on one supply.
fn open_on(grid: &Grid, length: &str, seed: u64, default: &str) -> Bench {
    let inner = Powered::new(grid, 0, faults(seed, 0));
    let late = Late::open(Box::new(inner), Journal::opened_by(grid.opener(1)).unwrap(), DataFiles::default()).unwrap();
    Bench::with_services(device(&keys(length)), Box::new(late), trimming(default))
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn late_discards_after_power_loss_spare_later_writes(
        moves in moves().prop_map(whole), seed in any::<u64>(), short in any::<bool>(), at in 1_u64..250, pays in any::<bool>(),
    ) {
        let length = if short { "4KiB" } else { "64KiB" };
        let grid = Grid::new(&[BLOCKS * BLOCK, 4 << 20], seed);
        let mut run = Run::with_late_discards(open_on(&grid, length, seed, if pays { "run" } else { "rest" }));
        grid.cut_after(at);
        run.play(&moves);
        run.settle();
        let past = run.end();
        grid.cut();
        grid.restore();
        let mut bench = open_on(&grid, length, seed, "run");
        bench.turn_until(20_000, |bench| bench.services()[0].owed_bytes == 0);
        past.check_after_power_loss(read_all(&mut bench));
    }
}

/// The discards that a device gets.
type Trims = Arc<Mutex<Vec<(u64, u64)>>>;

struct Noted(Memory, Trims);

impl Backend for Noted {
    fn start(&mut self, now: Nanos, io: Io) {
        if io.action == Action::Trim {
            self.1.lock().unwrap().push((io.offset, io.length));
        }
        self.0.start(now, io);
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> std::io::Result<()> {
        self.0.collect(now, done)
    }

    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

fn noted(default: &str, ranges_max: usize) -> (Bench, Trims) {
    let trims = Trims::default();
    let inner = Noted(Memory::new(1 << 20), Arc::clone(&trims));
    let late = Late::open(Box::new(inner), Journal::in_memory().unwrap(), DataFiles::default())
        .unwrap()
        .with_ranges_max(ranges_max);
    let device = device("backend = \"memory\"\nsize = \"1MiB\"\nscheduler = \"sfq\"");
    (Bench::with_services(device, Box::new(late), trimming(default)), trims)
}

fn ask(bench: &mut Bench, command: u16, offset: u64, length: u32) {
    let mut peer = bench.connect(0, true);
    let mut message = request(command, 0, 1, offset, length);
    if command == WRITE {
        message.extend(vec![7; length as usize]);
    }
    peer.send(&message);
    bench.settle();
    assert_eq!(peer.answers()[0].error, 0);
}

#[test]
fn discards_are_joined_paid_and_cancelled_by_writes() {
    let (mut bench, trims) = noted("rest", 100);
    for at in [0, 64 << 10, 16 << 10, 32 << 10, 48 << 10] {
        ask(&mut bench, TRIM, at, 16 << 10);
    }
    // A discard of less than a block has no effect.
    ask(&mut bench, TRIM, (128 << 10) + 1, 4096);
    ask(&mut bench, WRITE, 20 << 10, 1000);
    let report = bench.services().remove(0);
    assert_eq!((report.owed_bytes, report.wait), ((80 << 10) - 4096, ServiceWait::Rests));
    assert!(trims.lock().unwrap().is_empty());
    bench.order(
        3,
        ioweir_serve::engine::ServiceOrder::Run(Nanos::from_seconds(100), ioweir_serve::engine::Rates::default()),
    );
    bench.turn_until(1000, |bench| bench.services()[0].last_finished.is_some());
    assert_eq!(*trims.lock().unwrap(), [(0, 20 << 10), (24 << 10, 56 << 10)]);
    let report = bench.services().remove(0);
    assert_eq!((report.done_bytes, report.found.failed_bytes), (76 << 10, 0));
    assert!(report.last_finished.is_some());
    // Written data is unharmed, and the service's discards count for its class.
    let mut peer = bench.connect(0, true);
    peer.expect(1, 1000);
    peer.send(&request(READ, 0, 1, 20 << 10, 1000));
    bench.settle();
    assert_eq!(peer.answers()[0].bytes(), [7; 1000]);
}

#[test]
fn a_full_journal_carries_discards_out_at_once() {
    let (mut bench, trims) = noted("rest", 2);
    for at in [0, 100 << 10, 200 << 10, 300 << 10] {
        ask(&mut bench, TRIM, at, 4096);
    }
    assert_eq!(*trims.lock().unwrap(), [(200 << 10, 4096), (300 << 10, 4096)]);
    assert_eq!(bench.services()[0].owed_bytes, 8192);
}

#[test]
fn journals_belong_to_one_device_and_its_contents() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, path) = (folder.path().join("disk"), folder.path().join("journal"));
    std::fs::write(&disk, vec![1; 1 << 20]).unwrap();
    let open = |bytes| {
        let inner = Memory::new(bytes);
        Late::open(Box::new(inner), Journal::open(&path)?, DataFiles::of(vec![disk.clone()])?)
    };
    let bench = |late: Late| {
        let device = device("backend = \"memory\"\nsize = \"1MiB\"");
        Bench::with_services(device, Box::new(late), trimming("rest"))
    };
    let end = |mut bench: Bench| {
        bench.engine.handle().send(ioweir_serve::engine::Command::Stop(None));
        bench.turn_until(100, |bench| bench.stopped);
    };
    let mut first = bench(open(1 << 20).unwrap());
    ask(&mut first, TRIM, 0, 8192);
    // A server that dies leaves its debt to the next one.
    drop(first);
    let mut second = bench(open(1 << 20).unwrap());
    assert_eq!(second.services()[0].owed_bytes, 8192);
    end(second);
    let mut third = bench(open(1 << 20).unwrap());
    assert_eq!(third.services()[0].owed_bytes, 8192);
    end(third);
    // Another program writes to the file between a clean end and the next start.
    let later = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    std::fs::File::options().write(true).open(&disk).unwrap().set_modified(later).unwrap();
    let mut fourth = bench(open(1 << 20).unwrap());
    assert_eq!((fourth.services()[0].owed_bytes, fourth.count(EventKind::DeviceRemark)), (0, 1));
    end(fourth);
    let copy = folder.path().join("copy");
    std::fs::copy(&disk, &copy).unwrap();
    let others = DataFiles::of(vec![copy]).unwrap();
    let of_others = Late::open(Box::new(Memory::new(1 << 20)), Journal::open(&path).unwrap(), others);
    for refused in [open(2 << 20).err().unwrap(), of_others.err().unwrap()] {
        assert!(refused.contains("belongs to another device"), "{refused}");
    }
}
