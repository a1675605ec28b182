//! Rules of devices with checksums: all damage is found and nothing else is, whichever thread computes the checksums and however it ends.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../../fuzz/drive_checksums.rs"]
mod drive_checksums;

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;

use crate::bench::{Bench, device};
use crate::client::*;
use drive_checksums::{IDENTITY, drive};
use ioweir_core::Nanos;
use ioweir_core::cores::{self, SCHEDULES};
use ioweir_serve::backend::RemarkKind;
use ioweir_serve::backend::checked::sidecar::{self, Begun};
use ioweir_serve::backend::checked::table::{BLOCK_BYTES, Table};
use ioweir_serve::backend::checked::{Append, WorkerPool, Workers};
use ioweir_serve::backend::{self, Action, Backend, Checked, Done, Faulty, Io, Media, Memory, Outcome, Verifier as _};
use ioweir_serve::buffer::{Buffer, Buffers};
use ioweir_serve::nbd::NbdError;
use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::{Faults, Spec};
use proptest::prelude::*;

pub(crate) fn pool(schedule: &str, count: u32, items: u32) -> Workers {
    let row = cores::find(schedule).unwrap();
    let schedule = row.schedule(&row.defaults());
    Workers { schedule, count, cores: count, items, inline_bytes_max: 0, append: crc32c::crc32c_append }
}

/// A device with checksums by itself, whose operations are started and waited for.
pub(crate) struct Direct {
    pub(crate) checked: Checked,
    pub(crate) now: Nanos,
    id: u32,
}

impl Direct {
    pub(crate) fn new(inner: Box<dyn Backend>, workers: Workers) -> Self {
        Self::over(inner, &WorkerPool::start(workers).unwrap(), workers.items)
    }

    fn over(inner: Box<dyn Backend>, pool: &Arc<WorkerPool>, items: u32) -> Self {
        let begun = Begun::anew(inner.size_bytes());
        Self { checked: Checked::new(inner, begun, Arc::clone(pool), items).unwrap(), now: Nanos::ZERO, id: 0 }
    }

    pub(crate) fn start(&mut self, action: Action, offset: u64, length: u64, buffers: Buffers) -> u32 {
        self.id += 1;
        let io = Io { id: self.id, action, offset, length, durable: false, dispatch: None, buffers };
        self.checked.start(self.now, io);
        self.checked.submit().unwrap();
        self.id
    }

    /// Waits until an operation has finished.
    pub(crate) fn some(&mut self) -> Vec<Done> {
        let mut done = Vec::new();
        loop {
            self.now = self.now.after(Nanos(1));
            self.checked.collect(self.now, &mut done).unwrap();
            self.checked.submit().unwrap();
            if !done.is_empty() {
                return done;
            }
            if self.checked.due() != Nanos::NEVER {
                self.now = self.now.max(self.checked.due());
                continue;
            }
            let descriptors = self.checked.descriptors();
            let mut polled: Vec<_> =
                descriptors.iter().map(|it| rustix::event::PollFd::new(it, rustix::event::PollFlags::IN)).collect();
            let minute = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
            assert!(rustix::event::poll(&mut polled, Some(&minute)).unwrap() > 0, "nobody was woken");
        }
    }

    pub(crate) fn act(&mut self, action: Action, offset: u64, length: u64, buffers: Buffers) -> Done {
        let id = self.start(action, offset, length, buffers);
        let mut done = self.some();
        assert_eq!((done.len(), done[0].id), (1, id));
        done.remove(0)
    }

    pub(crate) fn read(&mut self, offset: u64, pieces: &[usize]) -> (Vec<u8>, Result<Outcome, NbdError>) {
        let buffers = buffers(pieces.iter().map(|&length| vec![0xaa; length]));
        let length = pieces.iter().sum::<usize>() as u64;
        let done = self.act(Action::Read, offset, length, buffers);
        assert_eq!(done.buffers.as_slice().iter().map(Buffer::len).collect::<Vec<_>>(), pieces);
        assert_eq!(matches!(done.buffers, Buffers::One(_)), pieces.len() == 1);
        (done.buffers.as_slice().iter().flat_map(|buffer| buffer.bytes().to_vec()).collect(), done.result)
    }

    pub(crate) fn write(&mut self, offset: u64, pieces: &[&[u8]]) -> Result<Outcome, NbdError> {
        let length = pieces.iter().map(|piece| piece.len()).sum::<usize>() as u64;
        let buffers = buffers(pieces.iter().map(|piece| piece.to_vec()));
        self.act(Action::Write, offset, length, buffers).result
    }
}

/// Buffers as the engine hands them over: a single one, or those of several requests.
pub(crate) fn buffers(pieces: impl Iterator<Item = Vec<u8>>) -> Buffers {
    let mut buffers: Vec<Buffer> = pieces
        .map(|bytes| {
            let mut buffer = Buffer::with_capacity(bytes.len());
            buffer.bytes_mut().copy_from_slice(&bytes);
            buffer
        })
        .collect();
    if buffers.len() == 1 { Buffers::One(buffers.remove(0)) } else { Buffers::Many(buffers) }
}

/// A size that is no multiple of the block, so that the last block is short.
const SIZE: u64 = 40_000;

#[derive(Clone, Debug)]
enum Step {
    Read(u64, Vec<usize>),
    Write(u64, Vec<usize>, u8),
    Trim(u64, u64),
    Zero(u64, u64),
    Flip(u64, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = prop_oneof![3 => 0..SIZE, 2 => (0..SIZE / BLOCK_BYTES).prop_map(|block| block * BLOCK_BYTES)];
    let length =
        prop_oneof![3 => 1_usize..3_000, 2 => (1_usize..4).prop_map(|blocks| blocks * 4096), 1 => 1_usize..20_000];
    let pieces = (place.clone(), prop::collection::vec(length, 1..4)).prop_map(|(offset, mut pieces)| {
        let mut left = (SIZE - offset) as usize;
        pieces.iter_mut().for_each(|piece| {
            *piece = (*piece).min(left);
            left -= *piece;
        });
        pieces.retain(|&piece| piece > 0);
        (offset, pieces)
    });
    let range = (place, 1_u64..20_000).prop_map(|(offset, length)| (offset, length.min(SIZE - offset)));
    let step = prop_oneof![
        4 => pieces.clone().prop_map(|(offset, pieces)| Step::Read(offset, pieces)),
        6 => (pieces, any::<u8>()).prop_map(|((offset, pieces), value)| Step::Write(offset, pieces, value)),
        1 => range.clone().prop_map(|(offset, length)| Step::Trim(offset, length)),
        2 => range.prop_map(|(offset, length)| Step::Zero(offset, length)),
        2 => (0..SIZE, 0_u32..8).prop_map(|(byte, bit)| Step::Flip(byte, bit)),
    ];
    prop::collection::vec(step, 1..80)
}

/// The contents of the device as its client expects them, and the blocks whose checksums are known.
struct Model {
    expected: Vec<u8>,
    known: Vec<bool>,
}

impl Model {
    fn range(block: u64) -> std::ops::Range<usize> {
        (block * BLOCK_BYTES) as usize..((block + 1) * BLOCK_BYTES).min(SIZE) as usize
    }

    fn touched(offset: u64, length: u64) -> impl Iterator<Item = u64> {
        offset / BLOCK_BYTES..(offset + length).div_ceil(BLOCK_BYTES)
    }

    fn is_whole(block: u64, offset: u64, length: u64) -> bool {
        let range = Self::range(block);
        offset <= range.start as u64 && range.end as u64 <= offset + length
    }

    fn damaged(&self, blocks: impl Iterator<Item = u64>, contents: &[u8]) -> Vec<u64> {
        let differs = |block: u64| contents[Self::range(block)] != self.expected[Self::range(block)];
        blocks.filter(|&block| self.known[block as usize] && differs(block)).collect()
    }
}

fn play(steps: &[Step], schedule: &str, workers: u32, inline_bytes_max: u64) {
    let media = Media::new(SIZE);
    let faulty = Faulty::new(media.clone(), Faults::default());
    let mut direct = Direct::new(Box::new(faulty), Workers { inline_bytes_max, ..pool(schedule, workers, 4) });
    let mut model = Model { expected: vec![0; SIZE as usize], known: vec![false; SIZE.div_ceil(BLOCK_BYTES) as usize] };
    let (mut found, mut told) = (0, 0);
    for step in steps {
        let before = media.contents();
        match step {
            Step::Flip(byte, bit) => media.flip(*byte, *bit),
            Step::Read(offset, pieces) => {
                let length = pieces.iter().sum::<usize>() as u64;
                let damaged = model.damaged(Model::touched(*offset, length), &before);
                let (bytes, result) = direct.read(*offset, pieces);
                assert_eq!(bytes, before[*offset as usize..][..length as usize]);
                found += damaged.len() as u64;
                let expected = if damaged.is_empty() { Outcome::Plain } else { Outcome::Damaged(damaged) };
                assert_eq!(result, Ok(expected));
            }
            Step::Write(offset, pieces, value) => {
                let length = pieces.iter().sum::<usize>() as u64;
                let (start, end) = (*offset as usize, (offset + length) as usize);
                let bytes: Vec<u8> = (start..end).map(|at| (at as u8).wrapping_mul(31) ^ value).collect();
                let mut rest = &bytes[..];
                let pieces: Vec<&[u8]> = pieces.iter().map(|&length| rest.split_off(..length).unwrap()).collect();
                let in_part = |block: &u64| !Model::is_whole(*block, *offset, length);
                let damaged = model.damaged(Model::touched(*offset, length).filter(in_part), &before);
                let result = direct.write(*offset, &pieces);
                found += damaged.len() as u64;
                if damaged.is_empty() {
                    assert_eq!(result, Ok(Outcome::Plain));
                    model.expected[start..end].copy_from_slice(&bytes);
                    for block in Model::touched(*offset, length) {
                        model.known[block as usize] |= Model::is_whole(block, *offset, length);
                    }
                } else {
                    assert_eq!(result, Err(NbdError::InputOutput));
                    assert!(media.contents() == before, "nothing was written");
                }
            }
            Step::Trim(offset, length) => {
                assert!(direct.act(Action::Trim, *offset, *length, Buffers::None).result.is_ok());
                model.expected[*offset as usize..][..*length as usize].fill(0);
                Model::touched(*offset, *length).for_each(|block| model.known[block as usize] = false);
            }
            Step::Zero(offset, length) => {
                let zero = Action::Zero { keep: false, fast: false };
                assert!(direct.act(zero, *offset, *length, Buffers::None).result.is_ok());
                model.expected[*offset as usize..][..*length as usize].fill(0);
                for block in Model::touched(*offset, *length) {
                    model.known[block as usize] = Model::is_whole(block, *offset, *length);
                }
            }
        }
        told += direct.checked.remarks().len() as u64;
        let counts = direct.checked.counts();
        let known = model.known.iter().filter(|&&known| known).count() as u64;
        assert_eq!((counts.blocks_damaged, counts.blocks_known, counts.items_failed), (found, known, 0));
        assert!(told <= found);
    }
    assert!(found == 0 || told > 0, "somebody is told");
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 2_000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn every_flipped_bit_that_is_read_is_reported(
        steps in steps(), schedule in 0..SCHEDULES.len(), workers in 1_u32..3, inline in prop::sample::select(vec![0, 4096, 12_288, u64::MAX]),
    ) {
        play(&steps, SCHEDULES[schedule].name, workers, inline);
    }

    #[test]
    fn kept_checksums_return_and_changed_files_lose_them(
        ranges in prop::collection::vec((0_u64..5_000, 1_u64..40, any::<u32>()), 0..12), place in any::<u64>(), bit in 0_u32..8,
    ) {
        let mut table = Table::new(IDENTITY.size_bytes);
        for (first, count, seed) in ranges {
            table.set(first..first + count, |block| seed.wrapping_add(block as u32));
            table.forget(first + 1..first + count / 2);
        }
        let mut bytes = Vec::new();
        sidecar::write(&table, &IDENTITY, &mut bytes).unwrap();
        prop_assert_eq!(&sidecar::read(&IDENTITY, &bytes[..]).unwrap(), &table);
        let at = (place % bytes.len() as u64) as usize;
        sidecar::read(&IDENTITY, &bytes[..at]).unwrap_err();
        sidecar::read(&IDENTITY, &[&bytes[..], &[0]].concat()[..]).unwrap_err();
        bytes[at] ^= 1_u8 << bit;
        sidecar::read(&IDENTITY, &bytes[..]).unwrap_err();
    }
}

#[test]
fn damaged_blocks_are_reported_once_until_rewritten() {
    let media = Media::new(SIZE);
    let faulty = Faulty::new(media.clone(), Faults::default());
    let mut direct = Direct::new(Box::new(faulty), pool("baseline", 1, 4));
    direct.write(0, &[&[7; 20_000]]).unwrap();
    media.flip(5_000, 3);
    for _ in 0..3 {
        assert_eq!(direct.read(0, &[16_384]).1, Ok(Outcome::Damaged(vec![1])));
    }
    let told = "the 4096 bytes at 4096 are damaged: their checksum is not that of the data that was written there";
    assert_eq!(direct.checked.remarks(), [(RemarkKind::Plain, told.to_string())]);
    assert_eq!(direct.checked.counts().blocks_damaged, 3);
    direct.write(4096, &[&[7; 4096]]).unwrap();
    assert_eq!(direct.read(0, &[16_384]).1, Ok(Outcome::Plain));
    media.flip(5_000, 3);
    assert_eq!(direct.write(5_000, &[&[7; 10]]), Err(NbdError::InputOutput));
    assert_eq!(direct.checked.remarks(), [(RemarkKind::Plain, told.to_string())]);
}

#[test]
fn holes_are_checked_as_well() {
    let mut direct = Direct::new(Box::new(Memory::null(1 << 20)), pool("baseline", 1, 4));
    let zero = Action::Zero { keep: false, fast: false };
    direct.act(zero, 0, 1 << 20, Buffers::None).result.unwrap();
    assert_eq!(direct.read(100, &[9_000]).1, Ok(Outcome::Plain));
    // The null device drops the write, and its checksum reveals that.
    direct.write(8192, &[&[1; 4096]]).unwrap();
    assert_eq!(direct.read(0, &[16_384]).1, Ok(Outcome::Damaged(vec![2])));

    let mut direct = Direct::new(Box::new(Memory::new(1 << 20)), pool("baseline", 1, 4));
    direct.act(zero, 0, 1 << 20, Buffers::None).result.unwrap();
    assert_eq!(direct.read(100, &[9_000]).1, Ok(Outcome::Hole));
    assert_eq!(direct.checked.counts().blocks_checked, 3);
}

/// Many operations at once with little room in the pool; all complete, with the data that was written.
fn crowd(workers: u32, items: u32) {
    const PLACES: u64 = 64;
    const SPAN: u64 = 24 << 10;
    let mut direct = Direct::new(Box::new(Memory::new(PLACES * SPAN)), pool("combo", workers, items));
    let mut written = vec![0_u8; PLACES as usize];
    for round in 1..=60_u8 {
        let mut wanted = Vec::new();
        for place in 0..PLACES {
            let length = 512 + (place * 997 + u64::from(round) * 4_099) % (SPAN - 512);
            if (u64::from(round) + place).is_multiple_of(2) {
                let value = vec![round; length as usize];
                written[place as usize] = round;
                wanted.push((direct.start(Action::Write, place * SPAN, length, buffers([value].into_iter())), None));
            } else {
                let value = vec![0xaa; 512];
                let id = direct.start(Action::Read, place * SPAN, 512, buffers([value].into_iter()));
                wanted.push((id, Some(written[place as usize])));
            }
        }
        while !wanted.is_empty() {
            for done in direct.some() {
                let place = wanted.iter().position(|&(id, _)| id == done.id).expect("each comes back once");
                let (_, value) = wanted.swap_remove(place);
                let is_hole = done.result == Ok(Outcome::Hole);
                assert!(is_hole || done.result == Ok(Outcome::Plain), "{:?}", done.result);
                if let Some(value) = value.filter(|_| !is_hole) {
                    assert_eq!(done.buffers.as_slice()[0].bytes(), [value; 512]);
                }
            }
        }
    }
    let counts = direct.checked.counts();
    assert_eq!((counts.blocks_damaged, counts.items_failed), (0, 0));
    assert!(counts.queues.iter().map(|queue| queue.finished).sum::<u64>() > 2_000);
}

#[test]
fn thousands_of_items_complete_with_any_workers() {
    for workers in [1, 2, 4] {
        crowd(workers, 3);
        crowd(workers, 200);
    }
}

#[test]
fn every_schedule_drives_the_workers() {
    for row in SCHEDULES {
        let keys = format!(
            "backend = \"memory\"\nsize = \"8MiB\"\nchecksums = true\n[device.cores]\nschedule = \"{}\"\nworkers = 1\ninline_max = \"0B\"",
            row.name
        );
        let mut bench = Bench::new(&keys);
        let mut peer = bench.connect(0, true);
        for cookie in 0..40_u64 {
            let mut message = request(WRITE, 0, cookie, cookie * 30_000, 30_000);
            message.extend([cookie as u8; 30_000]);
            peer.send(&message);
            bench.turn();
        }
        bench.settle();
        assert!(peer.answers().iter().all(|answer| answer.error == 0), "{}", row.name);
        for cookie in 0..40_u64 {
            peer.send(&request(READ, 0, cookie, cookie * 30_000, 30_000));
            bench.settle();
            assert_eq!(peer.answers()[0].bytes(), [cookie as u8; 30_000], "{}", row.name);
        }
        let counts = bench.engine.checksums().unwrap();
        // The last answer may be here before its worker has counted the item as finished.
        assert!(counts.queues.iter().map(|queue| queue.taken).sum::<u64>() >= 80, "{}: {counts:?}", row.name);
        assert_eq!(counts.blocks_damaged, 0);
    }
}

#[test]
fn only_data_of_some_length_goes_to_workers() {
    let workers = Workers { inline_bytes_max: 8192, ..pool("baseline", 1, 4) };
    let mut direct = Direct::new(Box::new(Memory::new(1 << 20)), workers);
    for (offset, length, goes) in [(0, 8192, false), (4096, 4096, false), (65_536, 12_288, true)] {
        let data = || buffers(std::iter::once(vec![7; length]));
        for action in [Action::Write, Action::Read] {
            let done = direct.act(action, offset, length as u64, data());
            assert_eq!(done.result, Ok(Outcome::Plain));
            // The time with a worker is that of the cores. A read may be back at once: this clock ticks once a turn.
            assert!(done.cores == Nanos::ZERO || goes, "{action:?} {length}");
            assert!(done.cores > Nanos::ZERO || !goes || action == Action::Read, "{length}");
        }
    }
    assert_eq!(direct.checked.counts().blocks_checked, 2 + 1 + 3);
}

#[test]
fn a_worker_that_fails_fails_one_request() {
    let append: Append = |sum, bytes| match bytes {
        [0xee, ..] => resume_unwind(Box::new("as told")),
        _ => crc32c::crc32c_append(sum, bytes),
    };
    let force = Workers { append, ..pool("baseline", 1, 4) };
    let mut direct = Direct::new(Box::new(Memory::new(1 << 20)), force);
    direct.write(0, &[&[1; 8192]]).unwrap();
    assert_eq!(direct.write(0, &[&[0xee; 4096]]), Err(NbdError::InputOutput));
    assert_eq!(direct.checked.counts().items_failed, 1);
    // The failed write left the device unchanged, and the worker continues.
    assert_eq!(direct.read(0, &[8192]), (vec![1; 8192], Ok(Outcome::Plain)));
    assert_eq!(direct.checked.remarks().len(), 1);
}

#[test]
fn devices_share_workers_until_the_last_ends() {
    let pool = WorkerPool::start(pool("combo", 1, 4)).unwrap();
    let mut devices = [0, 1].map(|_| Direct::over(Box::new(Memory::new(1 << 20)), &pool, 2));
    let weak = Arc::downgrade(&pool);
    drop(pool);
    // Both devices start more operations than they may hand over.
    for (number, device) in (1_u8..).zip(&mut devices) {
        for at in 0..5 {
            device.start(Action::Write, at * 8192, 8192, buffers(std::iter::once(vec![number; 8192])));
        }
    }
    for device in &mut devices {
        let mut done = Vec::new();
        while done.len() < 5 {
            done.extend(device.some());
        }
        assert!(done.iter().all(|done| done.result == Ok(Outcome::Plain)), "{done:?}");
    }
    for (number, device) in (1_u8..).zip(&mut devices) {
        assert_eq!(device.read(8192, &[8192]), (vec![number; 8192], Ok(Outcome::Plain)));
        let counts = device.checked.counts();
        assert_eq!((counts.blocks_written, counts.blocks_checked, counts.items_failed), (10, 2, 0));
        // A block that is overwritten does not count as new.
        assert_eq!(counts.blocks_new, 10);
        device.start(Action::Write, 4096, 8192, buffers(std::iter::once(vec![9; 8192])));
        assert_eq!(device.some()[0].result, Ok(Outcome::Plain));
        let counts = device.checked.counts();
        assert_eq!((counts.blocks_written, counts.blocks_new), (12, 10));
    }
    // A worker counts an item after it has handed it back.
    let finished = |device: &Direct| device.checked.counts().queues.iter().map(|its| its.finished).sum::<u64>();
    let [first, mut second] = devices;
    assert!((13..=14).contains(&finished(&second)), "of both together");
    drop(first);
    assert_eq!(second.read(0, &[4096]), (vec![2; 4096], Ok(Outcome::Plain)));
    drop(second);
    assert!(weak.upgrade().is_none(), "the workers have ended");
}

#[test]
fn only_readers_of_a_damaged_block_get_errors() {
    // The disk is slow, so that requests which arrive together are merged.
    let keys = "backend = \"emulated\"\nmodel = \"tiny\"\nscheduler = \"noop\"\nchecksums = true";
    let mut damaging =
        Bench::over(device(keys), Box::new(Damaging(Memory::new(1 << 20))), ioweir_serve::buffer::Pool::new(256 << 10));
    let mut peer = damaging.connect(0, true);
    for cookie in 0..3 {
        peer.send(&request(READ, 0, cookie, cookie * 4096, 4096));
    }
    damaging.turn();
    let mut answers: Vec<_> = peer.answers().iter().map(|answer| (answer.cookie, answer.error)).collect();
    answers.sort_unstable();
    assert_eq!(answers, [(0, 0), (1, 5), (2, 0)]);
}

/// A device that damages its second block.
struct Damaging(Memory);

impl Backend for Damaging {
    fn start(&mut self, now: Nanos, io: Io) {
        assert_eq!((io.offset, io.length), (0, 3 * 4096), "what came in together is one operation");
        self.0.start(now, io);
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> std::io::Result<()> {
        self.0.collect(now, done)?;
        done.iter_mut().for_each(|done| done.result = Ok(Outcome::Damaged(vec![1])));
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

#[test]
fn concurrent_writes_to_one_block_raise_no_alarm() {
    let mut bench = Bench::new("backend = \"memory\"\nsize = \"64KiB\"\nchecksums = true");
    let mut peer = bench.connect(0, true);
    let write =
        |cookie, offset, bytes: &[u8]| [request(WRITE, 0, cookie, offset, bytes.len() as u32), bytes.to_vec()].concat();
    peer.send(&write(1, 0, &[1; 8192]));
    bench.settle();
    // The writes are adjacent in sectors and have a gap in bytes: two operations of one dispatch, both in the first block.
    peer.send(&[write(2, 0, &[2; 700]), write(3, 1024, &[3; 5000])].concat());
    bench.settle();
    assert!(peer.answers().iter().all(|answer| answer.error == 0));
    peer.send(&request(READ, 0, 4, 0, 8192));
    bench.settle();
    let expected = [vec![2; 700], vec![1; 324], vec![3; 5000], vec![1; 2168]].concat();
    assert_eq!(peer.answers()[0].bytes(), expected);
    // The checksum of the first block is no longer known, that of the second is.
    assert_eq!(bench.engine.checksums().unwrap().blocks_known, 1);
}

#[test]
fn a_device_that_flips_bits_is_found_out() {
    let keys = "backend = \"faulty\"\nsize = \"64KiB\"\nchecksums = true\n[device.faults]\nflips_per_million = 1000000";
    let mut bench = Bench::new(keys);
    let mut peer = bench.connect(0, true);
    peer.send(&[request(WRITE, 0, 1, 0, 65_536), vec![5; 65_536]].concat());
    bench.settle();
    peer.send(&request(READ, 0, 2, 0, 65_536));
    bench.settle();
    let answers = peer.answers();
    assert_eq!(answers.iter().map(|answer| answer.error).collect::<Vec<_>>(), [0, 5]);
}

/// The log's remarks of the backends of a device.
fn remarks(device: &str) -> Vec<String> {
    let events = crate::log::events(device).into_iter().filter(|event| event["event"] == "device_remark");
    events.map(|event| event["message"].as_str().unwrap().to_string()).collect()
}

/// A server of a file, and a client of it.
struct Served {
    server: Server,
    client: UnixStream,
    /// The device's name in the log, which is that of the folder.
    name: String,
    /// The number of remarks that were logged before the server started.
    before: usize,
}

impl Served {
    fn start(folder: &Path, keys: &str) -> Self {
        let (socket, disk) = (folder.join("s"), folder.join("disk"));
        let name = folder.file_name().unwrap().to_str().unwrap().to_string();
        crate::log::listen();
        let before = remarks(&name).len();
        let text = format!(
            "[server]\nlisten = [\"unix:{}\"]\n[[device]]\nname = \"{name}\"\nbackend = \"file\"\npath = {disk:?}\nsize = \"1MiB\"\n{keys}\n[[export]]\nname = \"export\"\ndevice = \"{name}\"\n",
            socket.display()
        );
        let spec = Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}"));
        let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap();
        let mut client = UnixStream::connect(&socket).unwrap();
        client.read_exact(&mut [0; 18]).unwrap();
        client.write_all(&[&CLIENT_FLAGS[..], &option(OPTION_EXPORT_NAME, b"export")].concat()).unwrap();
        client.read_exact(&mut [0; 10]).unwrap();
        Self { server, client, name, before }
    }

    /// Sends a request, and returns the error of its answer.
    fn ask(&mut self, message: &[u8]) -> u32 {
        self.client.write_all(message).unwrap();
        let mut reply = [0; 16];
        self.client.read_exact(&mut reply).unwrap();
        u32::from_be_bytes(reply[4..8].try_into().unwrap())
    }

    fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
        match self.ask(&request(READ, 0, 1, offset, length)) {
            0 => {
                let mut bytes = vec![0; length as usize];
                self.client.read_exact(&mut bytes).unwrap();
                Ok(bytes)
            }
            error => Err(error),
        }
    }

    /// Ends the server in order; returns its remarks.
    fn stop(self) -> Vec<String> {
        self.server.stopper().stop();
        self.server.wait().unwrap();
        remarks(&self.name).split_off(self.before)
    }
}

const CHECKSUMS: &str = "checksums = true\ncores = { schedule = \"qats\", workers = 1 }";

fn flip(disk: &Path, place: u64) {
    let file = OpenOptions::new().read(true).write(true).open(disk).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, place).unwrap();
    file.write_all_at(&[byte[0] ^ 4], place).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn only_a_clean_end_keeps_the_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, kept) = (folder.path().join("disk"), folder.path().join("disk.checksums"));
    let mut served = Served::start(folder.path(), CHECKSUMS);
    assert_eq!(served.ask(&[request(WRITE, 0, 1, 0, 20_000), vec![9; 20_000]].concat()), 0);
    assert_eq!(served.stop(), [""; 0]);
    assert!(kept.exists());

    // The kept checksums are used and their file is removed. The disk is then damaged without the server.
    let mut served = Served::start(folder.path(), CHECKSUMS);
    assert!(!kept.exists());
    assert_eq!(served.read(0, 12_288).unwrap(), [9; 12_288]);
    flip(&disk, 9_000);
    assert_eq!(served.read(0, 12_288), Err(5));
    assert_eq!(served.read(0, 8_192).unwrap(), [9; 8_192]);
    let told = "the 4096 bytes at 8192 are damaged: their checksum is not that of the data that was written there";
    assert_eq!(served.stop(), [told]);

    // Another program has written to the file in the meantime, which is no damage.
    flip(&disk, 0);
    let mut served = Served::start(folder.path(), CHECKSUMS);
    assert_eq!(served.read(0, 4_096).unwrap()[0], 13);
    let told = served.stop();
    assert!(told.len() == 1 && told[0].contains("disk.checksums: not used: the file was changed since"), "{told:?}");

    // The backend is dropped without a clean end, as after a kill, and keeps no checksums.
    let keys = format!("backend = \"file\"\npath = {disk:?}\n{CHECKSUMS}");
    assert!(kept.exists());
    drop(backend::open(&device(&keys), &mut [], None).unwrap());
    assert!(!kept.exists());

    // A file that is not the server's own is left alone.
    std::fs::write(&kept, "a note to myself").unwrap();
    let error = backend::open(&device(&keys), &mut [], None).err().unwrap();
    assert!(error.contains("disk.checksums: is no file of checksums"), "{error}");
    assert_eq!(std::fs::read(&kept).unwrap(), b"a note to myself");

    // A table whose writing was cut off is not used.
    std::fs::write(&kept, b"ioweirCS").unwrap();
    let told = Served::start(folder.path(), CHECKSUMS).stop();
    assert!(told.len() == 1 && told[0].contains("disk.checksums: not used: it is truncated"), "{told:?}");
}

#[test]
fn without_the_option_nothing_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::start(folder.path(), "");
    assert_eq!(served.ask(&[request(WRITE, 0, 1, 0, 512), vec![9; 512]].concat()), 0);
    flip(&folder.path().join("disk"), 0);
    assert_eq!(served.read(0, 512).unwrap()[0], 13);
    served.stop();
    assert!(!folder.path().join("disk.checksums").exists());
}

#[test]
fn fio_finds_what_it_wrote_through_checksums() {
    if std::process::Command::new("fio").arg("--version").output().is_err() {
        let _ = writeln!(std::io::stderr(), "skipped: fio is not installed");
        return;
    }
    for schedule in ["baseline", "combo"] {
        let folder = tempfile::tempdir().unwrap();
        let keys = format!("checksums = true\ncores = {{ schedule = \"{schedule}\", workers = 1 }}");
        let served = Served::start(folder.path(), &keys);
        let output = std::process::Command::new("fio")
            .args(["--name=verify", "--ioengine=nbd"])
            .arg(format!("--uri=nbd+unix:///export?socket={}", folder.path().join("s").display()))
            .args(["--rw=randwrite", "--bssplit=512/30:4k/40:20k/20:100k/10"])
            .args([
                "--bs_unaligned=0",
                "--iodepth=16",
                "--size=1m",
                "--io_size=8m",
                "--verify=crc32c",
                "--verify_fatal=1",
            ])
            .args(["--verify_state_save=0", "--randrepeat=1", "--fsync=64", "--output-format=terse"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(served.stop(), [""; 0]);
    }
}

#[test]
fn the_corpus_of_kept_checksums_is_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/checksums");
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        drive(&std::fs::read(entry.unwrap().path()).unwrap());
        seeds += 1;
    }
    assert!(seeds >= 3);
}

/// Writes the seeds again: `cargo test -p ioweir-serve --test checksums write_the_seeds -- --ignored`.
#[test]
#[ignore = "writes files of the repository"]
fn write_the_seeds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/checksums");
    std::fs::create_dir_all(&folder).unwrap();
    let mut table = Table::new(IDENTITY.size_bytes);
    let seed = |name: &str, table: &Table| {
        let mut bytes = vec![0];
        sidecar::write(table, &IDENTITY, &mut bytes).unwrap();
        // The driver adds the last four bytes itself.
        bytes.truncate(bytes.len() - 4);
        File::create(folder.join(name)).unwrap().write_all(&bytes).unwrap();
    };
    seed("empty", &table);
    table.set(0..3, |block| block as u32 + 1);
    seed("first", &table);
    table.set(2_000..2_050, |block| block as u32);
    seed("two-chunks", &table);
}
