//! Rules of mirrors, one by one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ioweir_core::Nanos;
use ioweir_serve::backend::{
    Action, Backend, CLEAN_AFTER, Done, Io, LegState, Media, Memory, Mirror, MirrorPlan, Outcome, Task,
};
use ioweir_serve::buffer::{Buffer, Buffers};
use ioweir_serve::nbd::NbdError;
use ioweir_serve::spec::Faults;

use super::rig::*;
use crate::powered::{Grid, Powered};

/// Sectors of a region.
const OF_REGION: u64 = REGION / SECTOR;

fn lose_nothing() -> bool {
    true
}

fn owed(rig: &mut Rig) -> u64 {
    rig.mirror().owed_bytes(Task::Resync) / REGION
}

/// Past the time for which regions stay marked.
fn rest(rig: &mut Rig) {
    rig.pass(Nanos(CLEAN_AFTER.0 + 1_000_000_000));
}

fn is_out(rig: &mut Rig, leg: usize) -> bool {
    matches!(rig.state(leg), LegState::Out(_))
}

#[test]
fn a_leg_that_dies_and_returns_gets_what_it_lacks_and_nothing_else() {
    let mut rig = Rig::new(2, 1);
    rig.ok(Asked::write(0, SECTORS, 1));
    rest(&mut rig);
    rig.media(1).cut(lose_nothing);
    rig.ok(Asked::write(2 * OF_REGION + 3, 5, 2).durably());
    assert!(is_out(&mut rig, 1) && rig.is_in_sync(0));
    assert_eq!(owed(&mut rig), 0, "nothing can be copied to a leg that is out");
    rig.media(1).restore();
    let said = rig.mirror().reopen().unwrap().unwrap();
    assert!(said.contains("leg 1 is back"), "{said}");
    assert_eq!((rig.state(1), owed(&mut rig)), (LegState::Behind, 1));
    assert!(rig.resync(9));
    rig.pass(Nanos::from_millis(1));
    assert!(rig.is_in_sync(1));
    assert_eq!(rig.data(1), rig.data(0));
    assert!(rig.mirror().reopen().is_none(), "nothing is out");
}

#[test]
fn what_a_leg_lost_with_its_power_is_copied_although_it_had_got_it() {
    let mut rig = Rig::new(2, 1);
    rig.ok(Asked::write(0, 8, 1));
    rig.media(1).cut(|| false);
    rig.ok(Asked::write(3 * OF_REGION, 8, 2));
    rest(&mut rig);
    assert_eq!(rig.mirror().mirror().unwrap().legs[1].owed_bytes, 2 * REGION);
    rig.media(1).restore();
    rig.mirror().reopen().unwrap().unwrap();
    assert_eq!(owed(&mut rig), 2);
    assert!(rig.resync(9));
    assert_eq!(rig.data(1)[..8], [1; 8]);
}

#[test]
fn of_legs_that_parted_the_one_that_went_on_serves_alone_and_the_other_does_not() {
    let mut rig = Rig::new(2, 1);
    rig.media(1).cut(lose_nothing);
    rig.ok(Asked::write(0, 8, 7).durably());
    rig.kill();
    rig.media(1).restore();
    let refused = rig.start_with(&[1], None).unwrap_err();
    assert!(refused.starts_with("leg 0 is missing, and may have what the others lack: it is not there"), "{refused}");
    rig.start_with(&[0], None).unwrap();
    assert_eq!(rig.read(0, 8), [7; 8]);
    // Together, the one that went on is what the other becomes.
    rig.start().unwrap();
    assert_eq!((rig.state(0), rig.state(1), rig.read(0, 8)), (LegState::InSync, LegState::Behind, vec![7; 8]));
    // In the middle of that, the other has data of no time, whoever says that the first is lost.
    rig.kill();
    let refused = rig.start_with(&[1], Some(1)).unwrap_err();
    assert!(
        refused.contains("no leg that is there has everything") && refused.contains("leg 0 is missing"),
        "{refused}"
    );
}

#[test]
fn an_operator_may_say_that_a_leg_is_lost_and_it_is_never_right_again() {
    let mut rig = Rig::new(2, 1);
    rig.ok(Asked::write(0, 8, 7).durably());
    rest(&mut rig);
    rig.media(1).cut(lose_nothing);
    rig.ok(Asked::write(0, 8, 8).durably());
    rig.kill();
    rig.media(1).restore();
    let refused = rig.start_with(&[1], None).unwrap_err();
    let said = refused.rsplit(' ').next().unwrap().parse().unwrap();
    rig.start_with(&[1], Some(said + 1)).unwrap_err();
    rig.start_with(&[1], Some(said)).unwrap();
    assert_eq!(rig.read(0, 8), [7; 8]);
    rig.ok(Asked::write(3 * OF_REGION, 1, 9).durably());
    // It says so only once.
    rig.start_with(&[1], Some(said)).unwrap();
    rig.start().unwrap();
    assert_eq!((rig.state(0), rig.state(1), rig.read(0, 8)), (LegState::Behind, LegState::InSync, vec![7; 8]));
    assert!(rig.resync(9));
    assert_eq!(rig.data(0), rig.data(1));
}

#[test]
fn an_empty_leg_in_the_place_of_one_that_was_lost_gets_everything() {
    let mut rig = Rig::new(2, 1);
    rig.ok(Asked::write(0, SECTORS, 3).durably());
    rig.media(1).cut(lose_nothing);
    rig.ok(Asked::write(0, 1, 4).durably());
    rig.kill();
    rig.grid = rig.grid.with(1, Media::new(LEG_BYTES + 4096));
    rig.start().unwrap();
    assert_eq!((rig.state(1), owed(&mut rig)), (LegState::Behind, 4));
    assert!(rig.resync(9));
    rig.pass(Nanos::from_millis(1));
    assert!(rig.is_in_sync(1));
    assert_eq!(rig.data(1)[..SECTORS as usize], rig.data(0));
}

#[test]
fn a_first_leg_with_data_is_what_a_new_mirror_becomes() {
    let grid = Grid::new(&[LEG_BYTES; 2], 1);
    grid.media(0).write(8192 + 512, &[1; 512]).unwrap();
    let mut mirror = open(&grid, 2, &[0, 1], None, 1).unwrap();
    assert_eq!(mirror.mirror().unwrap().legs[1].state, LegState::Behind);
    assert_eq!(mirror.next_owed(Task::Resync, 0, 4096), Some(0..4096));
    let refused = open(&Grid::new(&[LEG_BYTES; 2], 1), 2, &[0], None, 1).err().unwrap();
    assert!(refused.contains("a new mirror takes all its legs"), "{refused}");
}

#[test]
fn after_a_loss_of_power_only_what_may_differ_is_copied_and_the_rest_of_a_resync_goes_on() {
    let mut rig = Rig::new(2, 1);
    rig.media(1).cut(lose_nothing);
    rig.ok(Asked::write(0, SECTORS, 1).durably());
    rig.media(1).restore();
    rig.mirror().reopen().unwrap().unwrap();
    assert!(!rig.resync(2));
    rest(&mut rig);
    rig.grid.cut();
    rig.grid.restore();
    rig.start().unwrap();
    assert_eq!((rig.state(1), owed(&mut rig)), (LegState::Behind, 2));
    assert!(rig.resync(9));
    rig.pass(Nanos::from_millis(1));
    assert_eq!((rig.state(1), rig.data(1)), (LegState::InSync, vec![1; SECTORS as usize]));
}

#[test]
fn legs_that_are_torn_both_read_as_one() {
    for seed in 0..40 {
        let mut rig = Rig::new(2, seed);
        rig.ok(Asked::write(0, 16, 1).durably());
        rig.ok(Asked::write(0, 16, 2));
        rig.grid.cut();
        rig.grid.restore();
        rig.start().unwrap();
        let found = rig.read(0, 16);
        assert!(found.iter().all(|&value| value == 1 || value == 2));
        // However much either leg has to do.
        let reads: Vec<_> = (0..4).map(|_| Asked::new(Action::Read, 0, 16)).collect();
        for (result, bytes) in rig.run(&reads) {
            assert_eq!((result.is_ok(), values(&bytes)), (true, found.clone()));
        }
        assert!(rig.resync(9));
        assert_eq!((&rig.data(0)[..16], &rig.data(1)[..16]), (&found[..], &found[..]));
    }
}

#[test]
fn a_clean_end_leaves_nothing_to_copy_and_a_write_that_was_long_ago_neither() {
    let mut rig = Rig::new(2, 1);
    rig.ok(Asked::write(0, 8, 1));
    rig.flush();
    rig.finish();
    rig.start().unwrap();
    assert_eq!(owed(&mut rig), 0);
    rig.ok(Asked::write(0, 8, 2));
    rig.kill();
    rig.start().unwrap();
    assert_eq!(owed(&mut rig), 1, "it may have been lost on one leg");
    assert!(rig.resync(9));
    rest(&mut rig);
    rig.kill();
    rig.start().unwrap();
    assert_eq!(owed(&mut rig), 0);
}

#[test]
fn what_all_legs_fail_is_the_clients_error_and_no_leg_is_out_for_it() {
    let mut rig = Rig::new(2, 1);
    rig.ok(Asked::write(0, 8, 1).durably());
    rig.grid.cut();
    let read = Asked::new(Action::Read, 0, 8);
    assert_eq!(rig.run_one(read.clone()).0, Err(NbdError::InputOutput));
    assert_eq!(rig.run_one(Asked::write(0, 8, 2)).0, Err(NbdError::InputOutput));
    assert!(rig.is_in_sync(0) && rig.is_in_sync(1));
    // A flush that no leg has done means that data may be lost: nothing is written until the device is opened again.
    assert_eq!(rig.run_one(Asked::new(Action::Flush, 0, 0)).0, Err(NbdError::InputOutput));
    rig.grid.restore();
    assert_eq!(rig.run_one(Asked::write(0, 8, 3)).0, Err(NbdError::InputOutput));
    assert_eq!(values(&rig.run_one(read).1), [1; 8]);
    rig.start().unwrap();
    rig.ok(Asked::write(0, 8, 3));
}

#[test]
fn a_read_that_one_leg_fails_is_answered_by_another() {
    let mut rig = Rig::new(3, 1);
    rig.ok(Asked::write(0, 8, 5));
    rig.media(0).cut(lose_nothing);
    assert_eq!(rig.read(0, 8), [5; 8]);
    assert!(is_out(&mut rig, 0));
    let copy = |leg| Asked::new(Action::Serve(Task::Copy(leg)), 0, 8);
    assert_eq!(rig.run_one(copy(0)).0, Err(NbdError::NotSupported), "there is no such copy now");
    assert_eq!(values(&rig.ok(copy(2))), [5; 8]);
}

#[test]
fn trims_zero_every_leg_alike_and_zeroes_that_have_to_be_fast_are_refused() {
    let mut rig = Rig::new(2, 1);
    rig.ok(Asked::write(0, 16, 5));
    rig.ok(Asked::new(Action::Trim, 4, 8));
    let wanted = [[5; 4], [0; 4], [0; 4], [5; 4]].concat();
    assert_eq!((&rig.data(0)[..16], &rig.data(1)[..16]), (&wanted[..], &wanted[..]));
    let fast = Asked::new(Action::Zero { keep: false, fast: true }, 0, 16);
    assert_eq!(rig.run_one(fast).0, Err(NbdError::NotSupported));
    assert_eq!(rig.read(0, 16), wanted);
}

#[test]
fn legs_that_do_not_belong_together_are_refused() {
    let refused = |grid: &Grid, legs: usize, there: &[usize]| open(grid, legs, there, None, 1).err().unwrap();
    let grid = Grid::new(&[LEG_BYTES; 2], 1);
    drop(open(&grid, 2, &[0, 1], None, 1).unwrap());
    let other = Grid::new(&[LEG_BYTES; 2], 1);
    drop(open(&other, 2, &[0, 1], None, 1).unwrap());
    assert!(refused(&grid.with(1, other.media(1)), 2, &[0, 1]).contains("belongs to another mirror"));
    let swapped = grid.with(0, grid.media(1)).with(1, grid.media(0));
    assert!(refused(&swapped, 2, &[0, 1]).contains("leg 0: is leg 1 of this mirror"));
    let three = Grid::new(&[LEG_BYTES; 3], 1).with(0, grid.media(0)).with(1, grid.media(1));
    assert!(refused(&three, 3, &[0, 1, 2]).contains("was made of 2 legs, and the spec has 3"));
    let foreign = Media::new(LEG_BYTES);
    foreign.write(0, b"something").unwrap();
    assert!(refused(&grid.with(1, foreign), 2, &[0, 1]).contains("leg 1: holds something else"));
    assert!(refused(&Grid::new(&[8192; 2], 1), 2, &[0, 1]).contains("too small"));
    let short = grid.with(1, Media::new(LEG_BYTES - 4096));
    // An empty one in the place of one that had everything.
    assert!(refused(&short, 2, &[0, 1]).contains("leg 1 is missing, and may have what the others lack: it is empty"));
}

/// Memory that keeps what it is asked, until it is told to go on, and counts reads.
struct Busy {
    memory: Memory,
    reads: Arc<Mutex<u32>>,
}

impl Backend for Busy {
    fn start(&mut self, now: Nanos, io: Io) {
        *self.reads.lock().unwrap() += u32::from(io.action == Action::Read);
        self.memory.start(now, io);
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> std::io::Result<()> {
        self.memory.collect(now, done)
    }

    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn describe(&self) -> String {
        self.memory.describe()
    }
}

/// Hears everything, and answers nothing while it is deaf.
struct Deaf {
    inner: Powered,
    is_deaf: Arc<AtomicBool>,
}

impl Backend for Deaf {
    fn start(&mut self, now: Nanos, io: Io) {
        self.inner.start(now, io);
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> std::io::Result<()> {
        if self.is_deaf.load(Ordering::Relaxed) { Ok(()) } else { self.inner.collect(now, done) }
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// A mirror of two legs, of which each can be made deaf.
fn deaf(grid: &Grid) -> (Mirror, [Arc<AtomicBool>; 2]) {
    let deaf = [Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false))];
    let (grid, of_legs) = (grid.clone(), deaf.clone());
    let open = move |leg: usize| {
        let inner = Powered::new(&grid, leg, Faults::default());
        Ok(Box::new(Deaf { inner, is_deaf: of_legs[leg].clone() }) as Box<dyn Backend>)
    };
    let plan = MirrorPlan { legs: 2, region_bytes: REGION, force: None, read_only: false };
    (Mirror::open(plan, Box::new(open)).unwrap(), deaf)
}

/// What has ended by a moment.
fn ended_by(mirror: &mut Mirror, seconds: u64) -> Vec<Done> {
    let mut done = Vec::new();
    for turn in 0..20 {
        mirror.submit().unwrap();
        mirror.collect(Nanos(Nanos::from_seconds(seconds).0 + turn), &mut done).unwrap();
    }
    done.sort_by_key(|done| done.id);
    done
}

fn one_buffer(byte: u8) -> Buffers {
    let mut buffer = Buffer::with_capacity(4096);
    buffer.bytes_mut().fill(byte);
    Buffers::One(buffer)
}

#[test]
fn a_leg_that_hangs_without_an_error_keeps_nobody_waiting() {
    let grid = Grid::new(&[LEG_BYTES; 2], 1);
    let (mut mirror, deaf) = deaf(&grid);
    let write =
        |id: u32, byte: u8| Io { id, action: Action::Write, length: 4096, buffers: one_buffer(byte), ..flush() };
    let reads = |id: u32| Io { id, action: Action::Read, length: 4096, buffers: one_buffer(0), ..flush() };
    mirror.start(Nanos::ZERO, write(0, 1));
    assert_eq!(ended_by(&mut mirror, 0).len(), 1);
    deaf[1].store(true, Ordering::Relaxed);
    mirror.start(Nanos::from_seconds(1), write(1, 2));
    mirror.start(Nanos::from_seconds(1), reads(2));
    mirror.start(Nanos::from_seconds(1), reads(3));
    mirror.start(Nanos::from_seconds(1), Io { id: 4, ..flush() });
    let early = ended_by(&mut mirror, 30);
    assert!(early.len() == 1 && early[0].result.is_ok(), "one of the reads is with the leg that answers: {early:?}");
    assert!(mirror.due() <= Nanos::from_seconds(32), "nobody else wakes it");
    let late = ended_by(&mut mirror, 31);
    assert!(late.len() == 3 && late.iter().all(|done| done.result.is_ok()), "{late:?}");
    // Whoever asked has as many buffers as before, with the data.
    let sizes = |done: &Done| done.buffers.as_slice().iter().map(Buffer::capacity).sum::<usize>();
    assert_eq!(late.iter().map(sizes).collect::<Vec<_>>(), [4096, 4096, 0]);
    let legs = mirror.mirror().unwrap().legs;
    assert_eq!(legs[0].state, LegState::InSync);
    assert_eq!(legs[1].state, LegState::Out("it has not answered for 30 s".into()));
    let refused = mirror.reopen().unwrap().unwrap_err();
    assert!(refused.contains("operations are still with it"), "{refused}");
    // What it says later is nobody's answer.
    deaf[1].store(false, Ordering::Relaxed);
    mirror.start(Nanos::from_seconds(40), reads(5));
    let after = ended_by(&mut mirror, 40);
    assert_eq!(after.iter().map(|done| done.id).collect::<Vec<_>>(), [5]);
    assert_eq!(after[0].buffers.as_slice()[0].bytes()[0], 2);
    assert!(mirror.reopen().unwrap().unwrap().contains("leg 1 is back"));
    assert_eq!(mirror.owed_bytes(Task::Resync), REGION);
}

#[test]
fn where_all_legs_hang_none_is_out_and_everything_is_answered_when_they_return() {
    let grid = Grid::new(&[LEG_BYTES; 2], 1);
    let (mut mirror, deaf) = deaf(&grid);
    deaf.iter().for_each(|leg| leg.store(true, Ordering::Relaxed));
    mirror.start(Nanos::ZERO, Io { id: 7, ..flush() });
    assert!(ended_by(&mut mirror, 100).is_empty());
    deaf.iter().for_each(|leg| leg.store(false, Ordering::Relaxed));
    let ended = ended_by(&mut mirror, 101);
    assert!(ended.len() == 1 && ended[0].result.is_ok(), "{ended:?}");
    assert!(mirror.mirror().unwrap().legs.iter().all(|leg| leg.state == LegState::InSync));
}

#[test]
fn reads_go_to_the_leg_that_has_least_to_do() {
    let counts = [Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0))];
    let of_legs = counts.clone();
    let busy = move |leg: usize| {
        Ok(Box::new(Busy { memory: Memory::new(LEG_BYTES), reads: of_legs[leg].clone() }) as Box<dyn Backend>)
    };
    let plan = MirrorPlan { legs: 2, region_bytes: REGION, force: None, read_only: false };
    let mut mirror = Mirror::open(plan, Box::new(busy)).unwrap();
    counts.iter().for_each(|count| *count.lock().unwrap() = 0);
    for id in 0..6 {
        mirror.start(Nanos::ZERO, Io { id, action: Action::Read, offset: 0, length: 0, ..flush() });
    }
    assert_eq!(counts.map(|count| *count.lock().unwrap()), [3, 3]);
    let mut done = Vec::new();
    mirror.collect(Nanos::ZERO, &mut done).unwrap();
    assert!(done.len() == 6 && done.iter().all(|done| matches!(done.result, Ok(Outcome::Plain | Outcome::Hole))));
}

fn flush() -> Io {
    Io {
        id: 0,
        action: Action::Flush,
        offset: 0,
        length: 0,
        durable: false,
        dispatch: None,
        buffers: ioweir_serve::buffer::Buffers::None,
    }
}

#[test]
fn no_first_block_of_a_leg_makes_the_opening_panic() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/mirror");
    let mut seeds = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let seed = std::fs::read(entry.unwrap().path()).unwrap();
        super::drive_mirror::drive(&seed);
        // And near it.
        for at in 1..seed.len().min(80) {
            for bit in 0..8 {
                let mut near = seed.clone();
                near[at] ^= 1 << bit;
                super::drive_mirror::drive(&near);
            }
        }
        seeds += 1;
    }
    assert!(seeds >= 6);
}
