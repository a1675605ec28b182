//! Legs that rot without an error, below checksums: the leg that is right answers, and the other one is written anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use ioweir_core::Nanos;
use ioweir_serve::backend::checked::Workers;
use ioweir_serve::backend::{
    Action, Backend, CLEAN_AFTER, Cached, Checksums, Done, Faulty, Io, LegState, Media, Mirror, MirrorPlan, Outcome,
    Task,
};
use ioweir_serve::engine::{Command, ServiceOrder};
use ioweir_serve::log::EventKind;
use ioweir_serve::nbd::NbdError;
use ioweir_serve::spec::Faults;

use super::{rig, service};
use crate::checksums::{Direct, buffers, pool};
use crate::client::*;
use crate::powered::{Grid, Powered};

/// Of data, on each leg.
const BYTES: usize = (rig::SECTORS * rig::SECTOR) as usize;

/// A mirror whose blocks are all known, and all filled with ones; nothing is marked any more.
fn filled(inline_bytes_max: u64, seed: u64) -> (Direct, Grid) {
    let grid = Grid::new(&[rig::LEG_BYTES; 2], seed);
    let mirror = rig::open(&grid, 2, &[0, 1], None, seed).unwrap();
    (filled_over(mirror, inline_bytes_max), grid)
}

fn filled_over(over: impl Backend + 'static, inline_bytes_max: u64) -> Direct {
    let mut direct = Direct::new(Box::new(over), Workers { inline_bytes_max, ..pool("baseline", 1, 4) });
    direct.write(0, &[&[1; BYTES]]).unwrap();
    direct.now = direct.now.after(Nanos(CLEAN_AFTER.0 + 1_000_000_000));
    for _ in 0..40 {
        direct.act(Action::Flush, 0, 0, buffers(std::iter::empty())).result.unwrap();
    }
    direct
}

/// A leg that cannot be written, while it is worn.
struct Worn {
    inner: Powered,
    is_worn: Arc<AtomicBool>,
    refused: Vec<Done>,
}

impl Backend for Worn {
    fn start(&mut self, now: Nanos, io: Io) {
        if io.action == Action::Write && self.is_worn.load(Ordering::Relaxed) {
            self.refused.push(Done::new(io.id, io.buffers, Err(NbdError::InputOutput)));
        } else {
            self.inner.start(now, io);
        }
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> std::io::Result<()> {
        done.append(&mut self.refused);
        self.inner.collect(now, done)
    }

    fn due(&self) -> Nanos {
        if self.refused.is_empty() { self.inner.due() } else { Nanos::ZERO }
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

fn rot(grid: &Grid, leg: usize, block: u64) {
    grid.media(leg).flip(8192 + block * 4096 + 77, 3);
}

fn data(grid: &Grid, leg: usize) -> Vec<u8> {
    grid.contents(leg)[8192..].to_vec()
}

/// The damaged copies that were counted, the damaged blocks, and what was said.
fn told(direct: &mut Direct) -> (u64, u64, Vec<(EventKind, String)>) {
    let Checksums { copies_damaged, blocks_damaged, .. } = direct.checked.checksums().unwrap();
    (copies_damaged, blocks_damaged, direct.checked.remarks())
}

fn rewritten(copy: u8, block: u64) -> (EventKind, String) {
    let what = format!("copy {copy} of the 4096 bytes at {} was damaged", block * 4096);
    (EventKind::CopyDamaged, format!("{what}: it was written anew from one that is right"))
}

#[test]
fn what_has_rotted_on_either_leg_is_answered_by_the_other_and_written_anew() {
    for inline_bytes_max in [0, u64::MAX] {
        let (mut direct, grid) = filled(inline_bytes_max, 1);
        // Each leg has something that the other has not, and the read covers parts of both.
        rot(&grid, 0, 1);
        rot(&grid, 1, 2);
        // Two at once, so that each leg has one.
        let reads = [4096 + 100, 4096 + 200].map(|offset| {
            let pieces = buffers([vec![0xaa; 3000], vec![0xaa; 3000]].into_iter());
            direct.start(Action::Read, offset, 6000, pieces)
        });
        let mut ended = Vec::new();
        while ended.len() < reads.len() {
            ended.append(&mut direct.some());
        }
        for done in ended {
            assert_eq!(done.result, Ok(Outcome::Plain));
            assert!(done.buffers.as_slice().iter().all(|buffer| buffer.bytes() == [1; 3000]));
        }
        let (copies, blocks, mut said) = told(&mut direct);
        said.sort_by_key(|(_, what)| what.clone());
        // Either read may find what both saw.
        said.dedup();
        assert_eq!((said, blocks), (vec![rewritten(0, 1), rewritten(1, 2)], 0));
        assert!((2..=4).contains(&copies), "{copies}");
        assert!((0..2).all(|leg| data(&grid, leg) == [1; BYTES]));
        assert_eq!(direct.read(0, &[BYTES]), (vec![1; BYTES], Ok(Outcome::Plain)));
        assert_eq!(told(&mut direct), (copies, 0, vec![]), "it is whole again");
    }
}

#[test]
fn below_a_read_cache_a_rotten_leg_is_written_anew_and_a_rotten_copy_is_given_up() {
    for inline_bytes_max in [0, u64::MAX] {
        let grid = Grid::new(&[rig::LEG_BYTES; 2], 1);
        let fast = Media::new(64 << 10);
        let tier = Box::new(Faulty::new(fast.clone(), Faults::default()));
        let mirror = rig::open(&grid, 2, &[0, 1], None, 1).unwrap();
        let mut direct = filled_over(Cached::open(Box::new(mirror), tier).unwrap(), inline_bytes_max);
        assert_eq!((direct.checked.copies(), direct.checked.mirror().map(|its| its.legs.len())), (2, Some(2)));
        rot(&grid, 0, 1);
        assert_eq!(direct.read(4096 + 100, &[6000]), (vec![1; 6000], Ok(Outcome::Plain)));
        assert_eq!(told(&mut direct), (1, 0, vec![rewritten(0, 1)]));
        rot(&grid, 0, 3);
        assert_eq!(direct.write(3 * 4096 + 10, &[&[1; 20]]), Ok(Outcome::Plain));
        assert_eq!(told(&mut direct), (2, 0, vec![rewritten(0, 3)]));
        assert!((0..2).all(|leg| data(&grid, leg) == [1; BYTES]));
        for _ in 0..3 {
            assert_eq!(direct.read(0, &[8192]).1, Ok(Outcome::Plain));
        }
        (0..fast.size_bytes()).step_by(4096).for_each(|byte| fast.flip(byte + 7, 3));
        assert_eq!(direct.read(0, &[8192]), (vec![1; 8192], Ok(Outcome::Plain)));
        let said =
            |offset: u64| format!("a copy of the 4096 bytes at {offset} was damaged: they were read from elsewhere");
        assert_eq!(told(&mut direct), (4, 0, [0, 4096].map(|offset| (EventKind::CopyDamaged, said(offset))).to_vec()));
        assert!((0..2).all(|leg| data(&grid, leg) == [1; BYTES]), "no leg was touched");
    }
}

#[test]
fn what_was_being_written_at_a_crash_is_as_the_first_leg_has_it_even_if_that_has_rotted() {
    let (mut direct, grid) = filled(0, 1);
    direct.write(4096, &[&[2; 4096]]).unwrap();
    direct.act(Action::Flush, 0, 0, buffers(std::iter::empty())).result.unwrap();
    // In the region that is marked, and in another one.
    [1, 5].into_iter().for_each(|block| rot(&grid, 0, block));
    drop(direct);
    let mirror = rig::open(&grid, 2, &[0, 1], None, 1).unwrap();
    let mut direct = Direct::new(Box::new(mirror), pool("baseline", 1, 4));
    assert_eq!(direct.checked.owed_bytes(Task::Resync), rig::REGION);
    for offset in (0..rig::REGION).step_by(4096) {
        direct.act(Action::Serve(Task::Resync), offset, 4096, buffers(std::iter::empty())).result.unwrap();
    }
    let legs = [data(&grid, 0), data(&grid, 1)];
    assert!(legs[0][..8192] == legs[1][..8192] && legs[1][4096..8192] != [2; 4096], "no checksum says which is right");
    assert_eq!(legs[1][8192..], [1; BYTES - 8192], "nothing else is copied");
}

#[test]
fn what_has_rotted_on_both_legs_stays_an_error_and_neither_is_touched() {
    let (mut direct, grid) = filled(0, 1);
    rot(&grid, 0, 1);
    grid.media(1).flip(8192 + 4096, 0);
    rot(&grid, 0, 3);
    let legs = [data(&grid, 0), data(&grid, 1)];
    for _ in 0..2 {
        assert_eq!(direct.read(0, &[12_288]).1, Ok(Outcome::Damaged(vec![1])));
        assert_eq!(direct.write(4096, &[&[2; 10]]), Err(NbdError::InputOutput));
    }
    assert!([0, 1].map(|leg| data(&grid, leg)) == legs);
    // The block that only one has is right all the same.
    assert_eq!(direct.read(4096, &[12_288]).1, Ok(Outcome::Damaged(vec![1])));
    let (copies, blocks, said) = told(&mut direct);
    assert_eq!((copies, blocks, said.len()), (1, 5, 2));
    assert_eq!((said[0].0, &said[1]), (EventKind::DeviceRemark, &rewritten(0, 3)));
    // Whoever writes all of it heals it.
    direct.write(4096, &[&[2; 4096]]).unwrap();
    assert_eq!(direct.read(4096, &[4096]), (vec![2; 4096], Ok(Outcome::Plain)));
}

#[test]
fn a_write_of_parts_of_rotten_blocks_keeps_the_rest_as_the_leg_has_it_that_is_right() {
    for (inline_bytes_max, first, length) in [(0, 5_000, 6_000), (u64::MAX, 5_000, 6_000), (0, 5_000, 10)] {
        for leg in 0..2 {
            let (mut direct, grid) = filled(inline_bytes_max, 1);
            // What is read of two edges goes to a leg each.
            rot(&grid, leg, 1);
            rot(&grid, leg, 2);
            assert_eq!(direct.write(first as u64, &[&vec![2; length]]), Ok(Outcome::Plain));
            let expected = [vec![1; first], vec![2; length], vec![1; BYTES - first - length]].concat();
            assert_eq!(direct.read(0, &[BYTES]), (expected.clone(), Ok(Outcome::Plain)));
            let copies = told(&mut direct).0;
            if leg == 0 {
                // What the write has neither seen nor written over, the read has seen.
                assert!((0..2).all(|leg| data(&grid, leg) == expected));
                assert_eq!(copies, if length > 10 { 1 } else { 2 });
            } else {
                assert_eq!(copies, u64::from(length > 10), "the second edge is read there");
            }
        }
    }
}

#[test]
fn data_that_has_become_a_hole_on_one_leg_is_found_as_well() {
    let (mut direct, grid) = filled(0, 1);
    grid.media(0).write(8192, &[0; 16_384]).unwrap();
    assert_eq!(direct.read(100, &[9_000]), (vec![1; 9_000], Ok(Outcome::Plain)));
    assert_eq!(data(&grid, 0)[..12_288], [1; 12_288]);
}

#[test]
fn during_a_resync_no_leg_is_taken_for_right_that_lacks_the_block() {
    let grid = Grid::new(&[rig::LEG_BYTES; 2], 3);
    let mut bench = service::bench(&grid, "resync", true);
    // The copy to the leg that comes back waits.
    bench.order(3, ServiceOrder::Pause(Nanos::from_seconds(1 << 20)));
    let mut peer = bench.connect(0, true);
    (0..8).for_each(|block| service::write(&mut bench, &mut peer, 0, block * 4096, 7));
    grid.media(1).cut(|| true);
    service::write(&mut bench, &mut peer, FUA, 4096, 8);
    grid.media(1).restore();
    let (sender, answer) = channel();
    bench.engine.handle().send(Command::Reopen(sender));
    bench.turn_until(100, |_| true);
    bench.turn();
    answer.try_recv().unwrap().unwrap();
    rot(&grid, 0, 1);
    peer.send(&request(READ, 0, 1, 4096, 4096));
    bench.settle();
    assert_eq!(peer.answers()[0].error, 5, "the other leg has what was there before");
    assert_eq!(data(&grid, 1)[4096..8192], [7; 4096]);
    assert_eq!((bench.count(EventKind::CopyDamaged), bench.count(EventKind::DeviceRemark)), (0, 1));
}

#[test]
fn a_leg_that_cannot_be_written_anew_is_out_and_gets_the_block_when_it_comes_back() {
    let grid = Grid::new(&[rig::LEG_BYTES; 2], 5);
    let is_worn = Arc::new(AtomicBool::new(false));
    let of_leg = (grid.clone(), is_worn.clone());
    let open = move |leg: usize| {
        let inner = Powered::new(&of_leg.0, leg, Faults::default());
        let is_worn = if leg == 0 { of_leg.1.clone() } else { Arc::default() };
        Ok(Box::new(Worn { inner, is_worn, refused: Vec::new() }) as Box<dyn Backend>)
    };
    let plan = MirrorPlan { legs: 2, region_bytes: rig::REGION, force: None, read_only: false };
    let mirror = Mirror::open(plan, Box::new(open)).unwrap();
    let mut direct = filled_over(mirror, 0);
    rot(&grid, 0, 1);
    is_worn.store(true, Ordering::Relaxed);
    assert_eq!(direct.read(4096, &[4096]), (vec![1; 4096], Ok(Outcome::Plain)));
    let (_, _, said) = told(&mut direct);
    let damaged = "copy 0 of the 4096 bytes at 4096 was damaged: it cannot be written anew (input_output), and another one is read";
    assert!(said.contains(&(EventKind::CopyDamaged, damaged.into())), "{said:?}");
    assert!(matches!(direct.checked.mirror().unwrap().legs[0].state, LegState::Out(_)));
    assert_eq!(direct.read(4096, &[4096]), (vec![1; 4096], Ok(Outcome::Plain)));
    is_worn.store(false, Ordering::Relaxed);
    direct.checked.reopen().unwrap().unwrap();
    assert_eq!(direct.checked.owed_bytes(Task::Resync), rig::REGION);
    for offset in (0..rig::REGION).step_by(4096) {
        direct.act(Action::Serve(Task::Resync), offset, 4096, buffers(std::iter::empty())).result.unwrap();
    }
    assert_eq!(direct.checked.owed_bytes(Task::Resync), 0);
    assert!(data(&grid, 0) == data(&grid, 1));
}

#[test]
fn whenever_the_power_fails_while_a_leg_is_written_anew_the_other_one_stays_right_and_is_never_copied_to() {
    let mut cuts = 0;
    for operations in 1..40 {
        let (mut direct, grid) = filled(0, operations);
        rot(&grid, 0, 1);
        rot(&grid, 1, 2);
        grid.cut_after(operations);
        let ended = direct.read(4096, &[8192]);
        let is_cut = !grid.media(0).has_power();
        cuts += u32::from(is_cut);
        assert!(is_cut || ended == (vec![1; 8192], Ok(Outcome::Plain)));
        drop(direct);
        grid.restore();
        let reopened = rig::open(&grid, 2, &[0, 1], None, operations).unwrap();
        assert_eq!(reopened.owed_bytes(Task::Resync), 0, "one leg would be copied over the other");
        assert_eq!((&data(&grid, 1)[4096..8192], &data(&grid, 0)[8192..12_288]), (&[1; 4096][..], &[1; 4096][..]));
        if !is_cut {
            break;
        }
    }
    assert_eq!(cuts, 4, "the read, that of each copy, and the write");
}

#[test]
fn a_damaged_copy_is_logged_and_counted_and_its_client_has_the_data() {
    let grid = Grid::new(&[rig::LEG_BYTES; 2], 3);
    let mut bench = service::bench(&grid, "resync", true);
    let mut peer = bench.connect(0, true);
    service::write(&mut bench, &mut peer, 0, 4096, 7);
    rot(&grid, 0, 1);
    for _ in 0..2 {
        peer.send(&request(READ, 0, 1, 4096, 4096));
        bench.settle();
        let answers = peer.answers();
        assert!(answers[0].error == 0 && answers[0].bytes() == [7; 4096], "{answers:?}");
    }
    let Checksums { copies_damaged, blocks_damaged, .. } = bench.engine.checksums().unwrap();
    assert_eq!((copies_damaged, blocks_damaged, bench.count(EventKind::CopyDamaged)), (1, 0, 1));
}
