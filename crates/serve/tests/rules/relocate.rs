//! Rules of the service that moves blocks between tiers: their new place, and that none is lost on the way.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::bench::{Bench, device};
use crate::client::*;
use crate::history::*;
use crate::powered::{Grid, Powered};
use ioweir_config::Duration;
use ioweir_core::{Nanos, Tier};
use ioweir_serve::backend::{Action, Backend, Done, Io, Ledger, Memory, Placed, Relocates, Task};
use ioweir_serve::buffer::{Buffer, Buffers};
use ioweir_serve::spec::{Device, Faults, Service, Spec};
use proptest::prelude::*;

fn keys(length: &str, slow: &str, fast: &str) -> String {
    format!(
        "backend = \"tiered\"\nscheduler = \"bid-hybrid:wait=1ms\"\nqueue_requests = 16\nrequest_bytes_max = \"{length}\"\n\
         [device.slow]\nbackend = \"memory\"\nsize = \"{slow}\"\ndepth = 2\n\
         [device.fast]\nbackend = \"memory\"\nsize = \"{fast}\"\ndepth = 4\n"
    )
}

/// The device, and a service that moves blocks on it.
fn tiered(length: &str, (slow, fast): (&str, &str)) -> (Device, Service) {
    let keys = keys(length, slow, fast);
    let text = format!(
        "[[device]]\nname = \"d\"\n{keys}[[export]]\nname = \"a\"\ndevice = \"d\"\n\
         [service.r]\nkind = \"relocate\"\ndevice = \"d\"\ndefault = \"run\"\ndepth = 2\n"
    );
    let mut spec = Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(spec.device[0].relocates, Some(plain(10)));
    (device(&keys), spec.service.remove("r").unwrap())
}

/// A service that keeps this part of the fast tier free.
fn plain(margin_percent: u32) -> Relocates {
    Relocates { margin_percent, first: Vec::new() }
}

fn bench_of(length: &str, sizes: (&str, &str), backend: Placed) -> Bench {
    let (device, service) = tiered(length, sizes);
    Bench::with_services(device, Box::new(backend), [(service, None)])
}

/// Services that keep some part of the fast tier free, and have up to two ranges that come first.
fn relocates() -> impl Strategy<Value = Relocates> {
    let ranges = proptest::collection::vec((0..BLOCKS * BLOCK, 0..BLOCKS * BLOCK), 0..3);
    (1_u32..90, ranges).prop_map(|(margin_percent, ranges)| Relocates {
        margin_percent,
        first: ranges.into_iter().map(|(from, length)| from..from + length).collect(),
    })
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn blocks_that_move_between_tiers_are_linearisable(
        moves in moves(), length in 0..3_usize, fast in 2_u64..12, relocates in relocates(),
    ) {
        let length = ["4KiB", "8KiB", "64KiB"][length];
        let backend = Placed::open(
            Box::new(Memory::new(BLOCKS * BLOCK)),
            Box::new(Memory::new(4096 * fast)),
            Ledger::in_memory().unwrap(),
            4,
        );
        let fast = format!("{}KiB", 4 * fast);
        let mut run = Run::new(bench_of(length, ("48KiB", &fast), backend.unwrap().relocating(&relocates)));
        run.play(&moves);
        run.settle();
        run.ask(0, READ, 0, 0, BLOCKS);
        run.settle();
        prop_assert!(run.asked.values().all(|asked| asked.is_answered), "everything is answered");
        prop_assert_eq!(run.bench.engine.buffered_bytes(), 0);
        run.end().check();
    }
}

/// Tiers on a grid, with their map on it, too.
fn open_on(grid: &Grid, length: &str, seed: u64, relocates: &Relocates) -> Bench {
    let stall = Duration::new(Nanos::from_millis(1));
    let faults = |seed| Faults { seed, stalls_per_million: 200_000, stall, ..Faults::default() };
    let tier = |at: usize| Box::new(Powered::new(grid, at, faults(seed.rotate_left(at as u32 * 16))));
    let backend = Placed::open(tier(0), tier(1), Ledger::opened_by(grid.opener(2)).unwrap(), 4).unwrap();
    bench_of(length, ("48KiB", "24KiB"), backend.relocating(relocates))
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn power_loss_during_relocation_keeps_durable_data(
        moves in moves(), length in 0..3_usize, seed in any::<u64>(), at in 1_u64..400, slots in 3_u64..9, relocates in relocates(),
    ) {
        let length = ["4KiB", "8KiB", "64KiB"][length];
        let grid = Grid::new(&[BLOCKS * BLOCK, slots * 4096, 4 << 20], seed);
        let mut run = Run::new(open_on(&grid, length, seed, &relocates));
        grid.cut_after(at);
        run.play(&moves);
        run.settle();
        // Many blocks are moved after the last request, too.
        for _ in 0..20 {
            run.bench.now = run.bench.now.after(Nanos::from_millis(100));
            run.bench.turn();
        }
        let past = run.end();
        grid.cut();
        grid.restore();
        let mut bench = open_on(&grid, length, seed, &relocates);
        past.check_after_power_loss(read_all(&mut bench));
    }
}

/// Offsets and lengths of reads and writes.
type Uses = Arc<Mutex<Vec<(Action, u64, u64)>>>;

struct Noted(Memory, Uses);

impl Backend for Noted {
    fn start(&mut self, now: Nanos, io: Io) {
        self.1.lock().unwrap().push((io.action, io.offset, io.length));
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

fn ask(bench: &mut Bench, command: u16, offset: u64, length: u32) {
    let mut peer = bench.connect(0, true);
    let mut message = request(command, 0, 1, offset, length);
    if command == WRITE {
        message.extend(vec![7; length as usize]);
    } else {
        peer.expect(1, length as usize);
    }
    peer.send(&message);
    bench.settle();
    let answer = peer.answers().remove(0);
    assert_eq!(answer.error, 0);
    assert!(command == WRITE || answer.bytes().iter().all(|&byte| byte == 0 || byte == 7));
}

fn pay(bench: &mut Bench) {
    bench.turn_until(20_000, |bench| bench.services()[0].owed_bytes == 0);
}

#[test]
fn hot_blocks_move_up_and_cold_ones_down() {
    let (slow, fast) = (Uses::default(), Uses::default());
    let backend = Placed::open(
        Box::new(Noted(Memory::new(16 << 20), Arc::clone(&slow))),
        Box::new(Noted(Memory::new(1 << 20), Arc::clone(&fast))),
        Ledger::in_memory().unwrap(),
        4,
    );
    let mut bench = bench_of("64KiB", ("16MiB", "1MiB"), backend.unwrap().relocating(&plain(20)));
    let reads_of = |uses: &Uses| uses.lock().unwrap().drain(..).filter(|(action, ..)| *action == Action::Read).count();
    for _ in 0..5 {
        ask(&mut bench, READ, 8 << 20, 64 << 10);
    }
    pay(&mut bench);
    assert_eq!(bench.services()[0].done_bytes, 64 << 10);
    let _ = (reads_of(&slow), reads_of(&fast));
    ask(&mut bench, READ, 8 << 20, 64 << 10);
    assert_eq!((reads_of(&slow), reads_of(&fast)), (0, 1), "it lies on the fast tier");

    // Small writes are placed; there are more than the fast tier has room for.
    for block in 0..300 {
        ask(&mut bench, WRITE, block * 8192, 4096);
        if block % 50 == 0 {
            ask(&mut bench, READ, 8 << 20, 64 << 10);
            pay(&mut bench);
        }
    }
    pay(&mut bench);
    fast.lock().unwrap().clear();
    ask(&mut bench, WRITE, 15 << 20, 4096);
    let placed = fast.lock().unwrap().iter().any(|(action, ..)| *action == Action::Write);
    assert!(placed, "there is room for what is written now");
    fast.lock().unwrap().clear();
    ask(&mut bench, READ, 8 << 20, 64 << 10);
    assert_eq!(reads_of(&fast), 1, "what is hot has stayed");
    // All written data is there.
    for block in 0..300 {
        let mut peer = bench.connect(0, true);
        peer.expect(1, 4096);
        peer.send(&request(READ, 0, 1, block * 8192, 4096));
        bench.settle();
        assert_eq!(peer.answers()[0].bytes(), [7; 4096], "block {block}");
    }
}

/// Tiers of 16 MiB and 1 MiB, and the blocks that lie on the fast one after everything is paid.
fn placed_by(first: &[Range<u64>], uses: impl FnOnce(&mut Bench)) -> impl Fn(u64) -> bool {
    let slow = Uses::default();
    let backend = Placed::open(
        Box::new(Noted(Memory::new(16 << 20), Arc::clone(&slow))),
        Box::new(Memory::new(1 << 20)),
        Ledger::in_memory().unwrap(),
        4,
    );
    let relocates = Relocates { margin_percent: 20, first: first.to_vec() };
    let mut bench = bench_of("64KiB", ("16MiB", "1MiB"), backend.unwrap().relocating(&relocates));
    uses(&mut bench);
    pay(&mut bench);
    slow.lock().unwrap().clear();
    // One read of each region makes none of them hot.
    for region in 0..256 {
        ask(&mut bench, READ, region << 16, 1 << 16);
    }
    let reads = slow.lock().unwrap().iter().filter(|its| its.0 == Action::Read).cloned().collect::<Vec<_>>();
    let slow: BTreeSet<u64> =
        reads.iter().flat_map(|(_, offset, length)| offset / 4096..(offset + length) / 4096).collect();
    move |block| !slow.contains(&block)
}

#[test]
fn ranges_that_come_first_are_moved_unused() {
    let is_fast = placed_by(&[(8 << 20)..(8 << 20) + (256 << 10), (4 << 20) + 100..(4 << 20) + (64 << 10)], |_| {});
    let fast: Vec<u64> = (0..4096).filter(|block| is_fast(*block)).collect();
    let expected: Vec<u64> = (1025..1040).chain(2048..2112).collect();
    assert_eq!(fast, expected, "whole blocks of both ranges");
}

#[test]
fn earlier_ranges_get_the_room_of_later_ones() {
    // 256 slots, of which one has the identity and 51 stay free.
    let is_fast = placed_by(&[0..512 << 10, (1 << 20)..u64::MAX], |_| {});
    let fast: Vec<u64> = (0..4096).filter(|block| is_fast(*block)).collect();
    assert_eq!(fast, (0..128).chain(256..332).collect::<Vec<_>>(), "the second range has what the first leaves");
}

#[test]
fn used_blocks_make_room_for_what_comes_first() {
    let hot = |bench: &mut Bench| {
        for block in 0..200 {
            for _ in 0..5 {
                ask(bench, READ, (8 << 20) + block * 4096, 4096);
            }
        }
        pay(bench);
    };
    let is_fast = placed_by(&[], hot);
    assert!((2048..2248).filter(|block| is_fast(*block)).count() > 190, "they are hot");
    let first = 0..512 << 10;
    let is_fast = placed_by(std::slice::from_ref(&first), hot);
    assert!((0..128).all(&is_fast));
    assert!((2048..2248).any(&is_fast), "hot blocks get the rest");
}

#[test]
fn first_ranges_must_be_exports_of_the_device() {
    let refused = |first: &str| {
        let text = format!(
            "[[device]]\nname = \"d\"\n{}[[device]]\nname = \"other\"\nbackend = \"memory\"\nsize = \"1MiB\"\n\
             [[export]]\nname = \"a\"\ndevice = \"d\"\n[[export]]\nname = \"o\"\ndevice = \"other\"\n\
             [service.r]\nkind = \"relocate\"\ndevice = \"d\"\nfirst = {first}\n",
            keys("64KiB", "16MiB", "1MiB")
        );
        Spec::parse("test", &text).map(|spec| spec.device[0].relocates.clone()).map_err(|error| error.to_string())
    };
    let whole = 0..u64::MAX;
    assert_eq!(refused("[\"a\"]"), Ok(Some(Relocates { margin_percent: 10, first: vec![whole] })));
    assert!(refused("[\"b\"]").unwrap_err().contains("there is no export b"));
    assert!(refused("[\"o\"]").unwrap_err().contains("shows the device other"));
    assert!(refused("[\"a\", \"a\"]").unwrap_err().contains("named twice"));
}

#[test]
fn heat_is_remembered_across_restarts() {
    let open = |grid: &Grid| {
        let tier = |at: usize| Box::new(Powered::new(grid, at, Faults::default()));
        Placed::open(tier(0), tier(1), Ledger::opened_by(grid.opener(2)).unwrap(), 4).unwrap().relocating(&plain(10))
    };
    let use_once = |backend: &mut Placed| {
        let buffers = Buffers::One(Buffer::with_capacity(4096));
        let (id, action, offset, length) = (1, Action::Read, 128 << 10, 4096);
        let io = Io { id, action, offset, length, durable: false, dispatch: None, buffers };
        backend.start(Nanos::ZERO, io);
        let mut done = Vec::new();
        for turn in 1..10 {
            backend.submit().unwrap();
            backend.collect(Nanos(turn), &mut done).unwrap();
        }
        assert!(done.len() == 1 && done[0].result.is_ok());
        backend.owed_bytes(Task::Relocate(Tier::Fast))
    };
    for (ends_well, owed) in [(true, 64 << 10), (false, 0)] {
        let grid = Grid::new(&[1 << 20, 256 << 10, 4 << 20], 1);
        let mut backend = open(&grid);
        let before = (0..3).map(|_| use_once(&mut backend)).last();
        assert_eq!(before, Some(0), "three times are not often");
        if ends_well {
            backend.finish();
        }
        drop(backend);
        if !ends_well {
            grid.cut();
            grid.restore();
        }
        let mut backend = open(&grid);
        assert_eq!(use_once(&mut backend), owed, "the fourth time; the end was clean: {ends_well}");
    }
}
