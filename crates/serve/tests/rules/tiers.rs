//! Rules of tiers: where data lies, and that it survives a power failure.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::sync::{Arc, Mutex};

use crate::bench::{Bench, Peer, device};
use crate::client::*;
use crate::history::*;
use crate::powered::{Grid, Powered};
use ioweir_config::Duration;
use ioweir_core::{Nanos, Step, Tier};
use ioweir_serve::backend::{Backend, Cached, Done, Faulty, Io, Ledger, Media, Memory, Placed, Tiers};
use ioweir_serve::buffer::Pool;
use ioweir_serve::engine::{Call, Observer};
use ioweir_serve::spec::{Faults, Spec};
use proptest::prelude::*;

/// Policies that place nearly all writes, or only small ones.
const PLACING: [&str; 3] =
    ["bid-hybrid", "bid-hybrid:packing-threshold=3KiB", "bid-hybrid:packing-threshold=6KiB:wait=1ms"];

fn keys(scheduler: &str, request_bytes_max: &str, rest: &str) -> String {
    format!(
        "backend = \"tiered\"\nscheduler = \"{scheduler}\"\nqueue_requests = 16\nrequest_bytes_max = \"{request_bytes_max}\"\n{rest}"
    )
}

fn tiers(slow: &str, fast: &str) -> String {
    format!("[device.slow]\n{slow}\n[device.fast]\n{fast}\n")
}

fn play_on(keys: &str, moves: &[Move]) {
    let mut run = Run::new(Bench::new(keys));
    run.play(moves);
    run.settle();
    // At the end every block can be read.
    run.ask(0, READ, 0, 0, BLOCKS);
    run.settle();
    assert!(run.asked.values().all(|asked| asked.is_answered), "everything is answered");
    assert_eq!(run.bench.engine.buffered_bytes(), 0);
    run.end().check();
}

const LENGTHS: [&str; 3] = ["4KiB", "8KiB", "64KiB"];

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn placement_is_linearisable(moves in moves(), policy in 0..PLACING.len(), length in 0..LENGTHS.len(), fast in 2_u64..12, depth in 1..5) {
        let rest = tiers(
            &format!("backend = \"memory\"\nsize = \"48KiB\"\ndepth = {depth}"),
            &format!("backend = \"memory\"\nsize = \"{}KiB\"\ndepth = {depth}", 4 * fast),
        );
        play_on(&keys(PLACING[policy], LENGTHS[length], &rest), &moves);
    }

    #[test]
    fn placement_on_emulated_devices_is_linearisable(moves in moves(), policy in 0..PLACING.len(), length in 0..LENGTHS.len(), fast in 2_u64..12) {
        let rest = tiers(
            "backend = \"emulated\"\nmodel = \"tiny\"\nsize = \"48KiB\"",
            &format!("backend = \"emulated\"\nmodel = \"ssd-slc\"\nsize = \"{}KiB\"\ndepth = 4", 4 * fast),
        );
        play_on(&keys(PLACING[policy], LENGTHS[length], &rest), &moves);
    }

    #[test]
    fn a_read_cache_is_linearisable(moves in moves(), policy in 0..3_usize, length in 0..LENGTHS.len(), fast in 2_u64..12, slow_fast in any::<bool>()) {
        let model = if slow_fast { "backend = \"emulated\"\nmodel = \"tiny\"" } else { "backend = \"memory\"" };
        let rest = tiers(
            &format!("{model}\nsize = \"48KiB\""),
            &format!("{model}\nsize = \"{}KiB\"\ndepth = 4", 4 * fast),
        );
        let policy = ["noop", "deadline", "bfq"][policy];
        play_on(&keys(policy, LENGTHS[length], &format!("cache = \"read\"\n{rest}")), &moves);
    }

    #[test]
    fn tiers_that_stall_and_fail_are_linearisable(moves in moves(), seed in any::<u64>(), length in 0..LENGTHS.len(), caches in any::<bool>()) {
        let faults = |seed| Faults { seed, errors_per_million: 30_000, stalls_per_million: 300_000, stall: Duration::new(Nanos::from_millis(1)), ..Faults::default() };
        let tier = |bytes, seed| Box::new(Faulty::new(Media::new(bytes), faults(seed)));
        let (slow, fast) = (tier(BLOCKS * BLOCK, seed), tier(24 << 10, seed.rotate_left(32)));
        let rest = tiers("backend = \"memory\"\nsize = \"48KiB\"\ndepth = 4", "backend = \"memory\"\nsize = \"24KiB\"\ndepth = 4");
        let (policy, cache) = if caches { ("noop", "cache = \"read\"") } else { (PLACING[0], "") };
        let opened: Result<Box<dyn Backend>, String> = if caches {
            Cached::open(slow, fast).map(|backend| Box::new(backend) as Box<dyn Backend>)
        } else {
            Placed::open(slow, fast, Ledger::in_memory().unwrap(), 4).map(|backend| Box::new(backend) as Box<dyn Backend>)
        };
        // Tiers that fail at once are not opened.
        if let Ok(backend) = opened {
            let device = device(&keys(policy, LENGTHS[length], &format!("{cache}\n{rest}")));
            let mut run = Run::new(Bench::over(device, backend, Pool::new(256 << 10)));
            run.play(&moves);
            run.settle();
            prop_assert_eq!(run.bench.engine.buffered_bytes(), 0);
            run.end().check();
        }
    }
}

/// Tiers of this many slots on a grid, with their map on it, too.
fn open_on(grid: &Grid, scheduler: &str, length: &str, seed: u64) -> Bench {
    let faults = |seed| Faults {
        seed,
        stalls_per_million: 200_000,
        stall: Duration::new(Nanos::from_millis(1)),
        ..Faults::default()
    };
    let tier = |at: usize| Box::new(Powered::new(grid, at, faults(seed.rotate_left(at as u32 * 16))));
    let backend = Placed::open(tier(0), tier(1), Ledger::opened_by(grid.opener(2)).unwrap(), 4).unwrap();
    let rest =
        tiers("backend = \"memory\"\nsize = \"48KiB\"\ndepth = 2", "backend = \"memory\"\nsize = \"24KiB\"\ndepth = 4");
    Bench::over(device(&keys(scheduler, length, &rest)), Box::new(backend), Pool::new(256 << 10))
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn maps_find_durable_data_after_power_loss(
        moves in moves(), policy in 0..PLACING.len(), length in 0..LENGTHS.len(), seed in any::<u64>(), at in 1_u64..250, slots in 3_u64..9,
    ) {
        let grid = Grid::new(&[BLOCKS * BLOCK, slots * 4096, 4 << 20], seed);
        let mut run = Run::new(open_on(&grid, PLACING[policy], LENGTHS[length], seed));
        grid.cut_after(at);
        run.play(&moves);
        run.settle();
        let past = run.end();
        // The run may have ended before the planned power failure, so the power is cut now.
        grid.cut();
        grid.restore();
        let mut bench = open_on(&grid, PLACING[policy], LENGTHS[length], seed);
        past.check_after_power_loss(read_all(&mut bench));
    }
}

fn ok(peer: &mut Peer, bench: &mut Bench, bytes: &[u8]) {
    peer.send(bytes);
    bench.settle();
    let answers = peer.answers();
    assert!(!answers.is_empty() && answers.iter().all(|answer| answer.error == 0), "{answers:?}");
}

fn write(flags: u16, offset: u64, bytes: &[u8]) -> Vec<u8> {
    [request(WRITE, flags, 1, offset, bytes.len() as u32), bytes.to_vec()].concat()
}

fn read(peer: &mut Peer, bench: &mut Bench, offset: u64, length: u32) -> Vec<u8> {
    peer.send(&request(READ, 0, 2, offset, length));
    bench.settle();
    peer.answers()[0].bytes()
}

/// The device that each dispatch was sent to.
#[derive(Clone, Default)]
struct Dispatched(Arc<Mutex<Vec<(u64, Tier)>>>);

impl Observer for Dispatched {
    fn called(&mut self, _now: Nanos, call: &Call) {
        if let Call::Poll(Step::Dispatch(dispatch)) = call {
            self.0.lock().unwrap().push((dispatch.sector, dispatch.tier));
        }
    }
}

impl Dispatched {
    fn take(&self) -> Vec<(u64, Tier)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Two tiers of 1 MiB and 64 KiB on media that outlive the server, and their map.
fn lasting() -> Grid {
    Grid::new(&[1 << 20, 64 << 10, 4 << 20], 1)
}

fn open_lasting(grid: &Grid) -> Result<Bench, String> {
    let tier = |at: usize| Box::new(Powered::new(grid, at, Faults::default()));
    let backend = Placed::open(tier(0), tier(1), Ledger::opened_by(grid.opener(2)).unwrap(), 4)?;
    let rest = tiers("backend = \"memory\"\nsize = \"1MiB\"", "backend = \"memory\"\nsize = \"64KiB\"");
    Ok(Bench::over(device(&keys("bid-hybrid", "64KiB", &rest)), Box::new(backend), Pool::new(256 << 10)))
}

#[test]
fn placed_data_stays_on_fast_tiers_across_restarts() {
    let grid = lasting();
    let mut bench = open_lasting(&grid).unwrap();
    let mut peer = bench.connect(0, true);
    ok(&mut peer, &mut bench, &write(FUA, 40_960, &[7; 8192]));
    ok(&mut peer, &mut bench, &write(0, 500_000, &[8; 100]));
    drop(bench);
    grid.cut();
    grid.restore();
    let mut bench = open_lasting(&grid).unwrap();
    let seen = Dispatched::default();
    bench.engine.observe(Box::new(seen.clone()));
    let mut peer = bench.connect(0, true);
    let found = read(&mut peer, &mut bench, 36_864, 16_384);
    assert_eq!(found, [[0; 4096], [7; 4096], [7; 4096], [0; 4096]].concat());
    let mut dispatched = seen.take();
    dispatched.sort_by_key(|dispatch| dispatch.0);
    assert_eq!(dispatched, [(72, Tier::Base), (80, Tier::Fast), (96, Tier::Base)]);
    // Blocks that moved were never written on the slow tier; a block whose move was not durable is at its old place.
    assert_eq!(grid.contents(0), vec![0; 1 << 20]);
    assert_eq!(read(&mut peer, &mut bench, 499_712, 4096), [0; 4096]);
}

#[test]
fn partly_written_blocks_move_as_a_whole() {
    let grid = lasting();
    grid.media(0).write(0, &[5; 1 << 20]).unwrap();
    let mut bench = open_lasting(&grid).unwrap();
    let mut peer = bench.connect(0, true);
    // Within a block, across a boundary, and both ends of three blocks.
    for (offset, length) in [(100, 50), (4096 * 3 - 10, 20), (4096 * 6 + 1, 4096 * 2 + 4090)] {
        ok(&mut peer, &mut bench, &write(FUA, offset, &vec![9; length]));
        let (from, until) = (offset / 4096 * 4096, (offset + length as u64).div_ceil(4096) * 4096);
        let mut wanted = vec![5; (until - from) as usize];
        wanted[(offset - from) as usize..][..length].fill(9);
        assert_eq!(read(&mut peer, &mut bench, from, (until - from) as u32), wanted);
    }
    assert_eq!(grid.contents(0), vec![5; 1 << 20], "home is as it was");
    // A block that has moved is written in place.
    ok(&mut peer, &mut bench, &write(FUA, 150, &[3; 10]));
    drop(bench);
    let mut bench = open_lasting(&grid).unwrap();
    let mut peer = bench.connect(0, true);
    let found = read(&mut peer, &mut bench, 0, 4096);
    assert_eq!(found, [&[5; 100][..], &[9; 50], &[3; 10], &[5; 3936]].concat());
}

#[test]
fn trimmed_blocks_go_home_and_free_slots_durably() {
    let grid = lasting();
    grid.media(0).write(0, &[5; 1 << 20]).unwrap();
    let mut bench = open_lasting(&grid).unwrap();
    let seen = Dispatched::default();
    bench.engine.observe(Box::new(seen.clone()));
    let mut peer = bench.connect(0, true);
    // The first write fills all fifteen slots, so the second one stays on the slow tier.
    ok(&mut peer, &mut bench, &write(FUA, 0, &[9; 4096 * 15]));
    ok(&mut peer, &mut bench, &write(FUA, 4096 * 20, &[9; 4096]));
    assert_eq!(seen.take().last(), Some(&(160, Tier::Base)), "the policy knows that there is no room");
    for command in [TRIM, WRITE_ZEROES] {
        ok(&mut peer, &mut bench, &request(command, FUA, 3, 4096 + 1000, 4096 * 4));
        let mut wanted = vec![9; 4096 * 15];
        wanted[4096 + 1000..][..4096 * 4].fill(0);
        assert_eq!(read(&mut peer, &mut bench, 0, 4096 * 15), wanted);
        // The three blocks in between are whole.
        assert!(grid.contents(0)[8192..][..4096 * 3].iter().all(|&byte| byte == 0));
        seen.take();
        ok(&mut peer, &mut bench, &write(FUA, 4096 * 2, &[9; 4096 * 3]));
        ok(&mut peer, &mut bench, &write(FUA, 4096 + 1000, &[9; 3096]));
        ok(&mut peer, &mut bench, &write(FUA, 4096 * 5, &[9; 1000]));
        assert!(seen.take().iter().all(|dispatch| dispatch.1 == Tier::Fast));
        assert_eq!(read(&mut peer, &mut bench, 0, 4096 * 15), [9; 4096 * 15]);
    }
    let contents = grid.contents(1);
    assert!(contents[4096..].iter().all(|&byte| byte == 9), "every slot is in use");
}

#[test]
fn old_data_at_home_never_returns() {
    for command in [TRIM, WRITE_ZEROES] {
        let grid = lasting();
        grid.media(0).write(0, &[5; 1 << 20]).unwrap();
        grid.media(0).flush().unwrap();
        let mut bench = open_lasting(&grid).unwrap();
        let mut peer = bench.connect(0, true);
        ok(&mut peer, &mut bench, &write(FUA, 0, &[9; 4096 * 4]));
        ok(&mut peer, &mut bench, &request(command, 0, 3, 0, 4096 * 4));
        // The commit of this block frees the slots of the others, too.
        ok(&mut peer, &mut bench, &write(FUA, 65_536, &[9; 4096]));
        grid.cut();
        drop(bench);
        grid.restore();
        let mut bench = open_lasting(&grid).unwrap();
        let mut peer = bench.connect(0, true);
        let found = read(&mut peer, &mut bench, 0, 4096 * 4);
        assert!(found.iter().all(|&byte| byte == 0 || byte == 9), "it is older than what was made durable");
    }
}

#[test]
fn partial_last_blocks_stay_at_home() {
    let rest = tiers("backend = \"memory\"\nsize = \"9728\"", "backend = \"memory\"\nsize = \"64KiB\"")
        .replace("9728", "9728B");
    let mut bench = Bench::new(&keys("bid-hybrid", "64KiB", &rest));
    let mut peer = bench.connect(0, true);
    ok(&mut peer, &mut bench, &write(FUA, 4000, &[7; 5728]));
    assert_eq!(read(&mut peer, &mut bench, 0, 9728), [&[0; 4000][..], &[7; 5728]].concat());
}

#[test]
fn what_is_allocated_is_told_of_both_tiers() {
    let mut bench = open_lasting(&lasting()).unwrap();
    let mut peer = bench.connect(0, true);
    ok(&mut peer, &mut bench, &write(0, 65_536, &[7; 4096]));
    peer.send(&request(BLOCK_STATUS, 0, 2, 0, 1 << 20));
    bench.settle();
    assert_eq!(peer.answers()[0].extents, [(65_536, 2)]);
    peer.send(&request(BLOCK_STATUS, 0, 3, 65_536, 1 << 19));
    bench.settle();
    assert_eq!(peer.answers()[0].extents, [(4096, 0)]);
}

#[test]
fn durable_writes_that_come_together_share_a_commit() {
    let grid = lasting();
    let mut bench = open_lasting(&grid).unwrap();
    let mut peer = bench.connect(0, true);
    let before = grid.flushes(2);
    let writes: Vec<u8> = (0..12).flat_map(|block| write(FUA, block * 8192, &[1; 4096])).collect();
    ok(&mut peer, &mut bench, &writes);
    assert_eq!(read(&mut peer, &mut bench, 8192, 4096), [1; 4096]);
    let alone = grid.flushes(2) - before;
    assert!(alone <= 12, "twelve writes took {alone} flushes of the map");
    // A write in place needs no commit.
    let before = grid.flushes(2);
    ok(&mut peer, &mut bench, &writes);
    assert_eq!(grid.flushes(2), before);
}

#[test]
fn unflushed_placements_become_durable_after_a_while() {
    let grid = lasting();
    let mut bench = open_lasting(&grid).unwrap();
    let mut peer = bench.connect(0, true);
    let before = grid.flushes(2);
    ok(&mut peer, &mut bench, &write(0, 0, &[1; 4096]));
    bench.now = bench.now.after(Nanos::from_seconds(2));
    while grid.flushes(2) == before {
        bench.turn();
    }
    // Dropping the bench waits for the running commit.
    drop(bench);
    grid.cut();
    grid.restore();
    let mut bench = open_lasting(&grid).unwrap();
    let mut peer = bench.connect(0, true);
    assert_eq!(read(&mut peer, &mut bench, 0, 4096), [1; 4096]);
}

#[test]
fn tiers_that_do_not_belong_together_are_refused() {
    let grid = lasting();
    let mut bench = open_lasting(&grid).unwrap();
    let mut peer = bench.connect(0, true);
    ok(&mut peer, &mut bench, &write(FUA, 0, &[1; 4096]));
    drop(bench);
    let refused = |grid: &Grid| open_lasting(grid).err().unwrap();
    let other = |at: usize, bytes: u64| grid.with(at, Media::new(bytes));
    assert!(refused(&other(2, 4 << 20)).contains("belongs to another map, or its map was lost"));
    assert!(refused(&other(1, 64 << 10)).contains("is empty, and its map says that blocks lie there"));
    assert!(refused(&other(1, 128 << 10)).contains("was made for tiers of 1048576 and 65536 bytes"));
    assert!(refused(&other(0, 2 << 20)).contains("was made for tiers of 1048576 and 65536 bytes"));
    let foreign = Media::new(64 << 10);
    foreign.write(0, b"something").unwrap();
    assert!(refused(&other(1, 0).with(1, foreign)).contains("holds something else"));
    assert!(refused(&Grid::new(&[1 << 20, 4096, 4 << 20], 1)).contains("too small"));
    assert!(open_lasting(&grid).is_ok());
}

/// Memory that counts its reads, and lets them fail if a test asks for it.
struct Counted {
    memory: Memory,
    reads: Arc<Mutex<(u32, bool)>>,
}

impl Backend for Counted {
    fn start(&mut self, now: Nanos, io: Io) {
        self.memory.start(now, io);
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> std::io::Result<()> {
        let before = done.len();
        self.memory.collect(now, done)?;
        for done in &mut done[before..] {
            let mut reads = self.reads.lock().unwrap();
            reads.0 += 1;
            if reads.1 {
                done.result = Err(ioweir_serve::nbd::NbdError::InputOutput);
            }
        }
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn describe(&self) -> String {
        self.memory.describe()
    }
}

#[test]
fn third_reads_are_cached_until_changes_or_failures() {
    let counts = [Arc::new(Mutex::new((0, false))), Arc::new(Mutex::new((0, false)))];
    let counted = |at: usize, bytes| Box::new(Counted { memory: Memory::new(bytes), reads: counts[at].clone() });
    let backend = Cached::open(counted(0, 1 << 20), counted(1, 64 << 10)).unwrap();
    let rest = tiers("backend = \"memory\"\nsize = \"1MiB\"", "backend = \"memory\"\nsize = \"64KiB\"");
    let device = device(&keys("noop", "64KiB", &format!("cache = \"read\"\n{rest}")));
    let mut bench = Bench::over(device, Box::new(backend), Pool::new(256 << 10));
    let mut peer = bench.connect(0, true);
    ok(&mut peer, &mut bench, &write(0, 4096, &[1; 8192]));
    let took = |before: &mut [u32; 2]| {
        let now = [counts[0].lock().unwrap().0, counts[1].lock().unwrap().0];
        let took = [now[0] - before[0], now[1] - before[1]];
        *before = now;
        took
    };
    let mut before = [0; 2];
    took(&mut before);
    // The first read misses and is remembered; the second misses and is copied; the third is found.
    for wanted in [[1, 0], [1, 1], [0, 1]] {
        assert_eq!(read(&mut peer, &mut bench, 4096, 8192), [1; 8192]);
        assert_eq!(took(&mut before), wanted);
    }
    // A read of two blocks, one of them from each tier.
    assert_eq!(read(&mut peer, &mut bench, 0, 8192), [[0; 4096], [1; 4096]].concat());
    assert_eq!(took(&mut before), [1, 1]);
    ok(&mut peer, &mut bench, &write(0, 8192, &[2; 10]));
    took(&mut before);
    assert_eq!(read(&mut peer, &mut bench, 4096, 8192), [&[1; 4096][..], &[2; 10], &[1; 4086]].concat());
    assert_eq!(took(&mut before), [1, 1]);
    counts[1].lock().unwrap().1 = true;
    assert_eq!(read(&mut peer, &mut bench, 4096, 4096), [1; 4096]);
    assert_eq!(took(&mut before), [1, 1], "it failed, and was read from the disk");
}

/// A spec of a placed device of two files.
const TIERS: &str = r#"[[device]]
name = "d"
backend = "tiered"
scheduler = "bid-hybrid"
map = "d.map"
[device.slow]
backend = "file"
path = "slow"
depth = 2
[device.fast]
backend = "file"
path = "fast"
[[export]]
name = "a"
device = "d"
"#;

#[test]
fn a_spec_of_tiers_reads_back() {
    let text = TIERS;
    let spec = Spec::parse("s.toml", text).unwrap();
    assert_eq!(Spec::parse("s.toml", &spec.to_toml()).unwrap(), spec, "{}", spec.to_toml());
    assert_eq!(spec.device[0].depth, 2);
    let cached = text.replace("bid-hybrid", "noop").replace("map = \"d.map\"", "cache = \"read\"");
    let spec = Spec::parse("s.toml", &cached).unwrap();
    assert_eq!(Spec::parse("s.toml", &spec.to_toml()).unwrap(), spec, "{}", spec.to_toml());
    assert_eq!(spec.device[0].depth, 34);
}

#[test]
fn errors_in_tiers_are_reported_with_their_place() {
    let text = TIERS;
    let cached = text.replace("bid-hybrid", "noop").replace("map = \"d.map\"", "cache = \"read\"");
    let memory = "backend = \"memory\"\nsize = \"1MiB\"";
    let of_memory = text
        .replace("backend = \"file\"\npath = \"slow\"", memory)
        .replace("backend = \"file\"\npath = \"fast\"", memory);
    Spec::parse("s.toml", &of_memory.replace("map = \"d.map\"", "")).unwrap();
    for (text, from, to, beginning) in [
        (text, "bid-hybrid", "noop", "s.toml:4:13: scheduler noop places nothing on the fast tier"),
        (text, "scheduler = \"bid-hybrid\"", "", "s.toml:1:1: scheduler noop places nothing on the fast tier"),
        (
            text,
            "map =",
            "cache = \"read\"\nmap =",
            "s.toml:5:9: cache: scheduler bid-hybrid places data on the fast tier itself",
        ),
        (&cached, "cache =", "map = \"m\"\ncache =", "s.toml:5:7: map: a read cache is empty after a restart"),
        (text, "map = \"d.map\"", "", "s.toml:1:1: backend tiered needs the key `map`"),
        (
            text,
            "[device.fast]\nbackend = \"file\"\npath = \"fast\"",
            "",
            "s.toml:1:1: backend tiered needs the key `fast`",
        ),
        (text, "\"fast\"\n", "\"slow\"\n", "s.toml:12:8: file slow is used already"),
        (text, "d.map", "slow", "s.toml:5:7: file slow is used already"),
        (text, "path = \"fast\"", "path = \"fast\"\nslow = 1", "s.toml:13:1: unknown field `slow`"),
        (
            text,
            "backend = \"file\"\npath = \"fast\"",
            "backend = \"tiered\"",
            "s.toml:11:11: a tier has no tiers itself",
        ),
        (
            text,
            "backend = \"file\"\npath = \"fast\"",
            "backend = \"null\"\nsize = \"1MiB\"",
            "s.toml:10:1: the fast tier is of backend null",
        ),
        (text, "path = \"fast\"", "path = \"fast\"\nmodel = \"hdd\"", "s.toml:13:9: backend file takes no key `model`"),
        (text, "backend = \"file\"\npath = \"fast\"", memory, "s.toml:10:1: slow is of backend file, fast of memory"),
        (
            &of_memory,
            "map = \"d.map\"\n",
            "map = \"d.map\"\n",
            "s.toml:5:7: map: the tiers that it maps are gone with the server",
        ),
        (text, "map = \"d.map\"", "path = \"x\"", "s.toml:5:8: backend tiered takes no key `path`"),
        (
            &text.replace("tiered", "file"),
            "",
            "",
            "s.toml:4:13: scheduler bid-hybrid places data on a second device, and backend file has none",
        ),
    ] {
        let error = Spec::parse("s.toml", &text.replace(from, to)).unwrap_err().to_string();
        assert!(error.starts_with(beginning), "{beginning}\n--- is not the beginning of ---\n{error}");
    }
}

#[test]
fn the_example_is_a_spec_of_both_kinds() {
    let spec = Spec::parse("tiers.toml", include_str!("../../../../examples/tiers.toml")).unwrap();
    assert_eq!(spec.device.iter().map(|device| device.depth).collect::<Vec<_>>(), [1, 33]);
    for device in spec.device {
        let backend = ioweir_serve::backend::open(&device, Pool::new(256 << 10).registered(), None).unwrap();
        assert_eq!(
            (backend.size_bytes(), backend.tiers().and_then(Tiers::placement).is_some()),
            (1 << 30, device.scheduler.row.places)
        );
    }
}
