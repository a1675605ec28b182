//! Rules of joined devices: shares hold across the parts, each part is flushed by itself, and no operation reaches from one into another.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, StreamId};
use ioweir_serve::backend::{self, Action, Backend, Done, Emulated, Io, Joined, Memory};
use ioweir_serve::buffer::{Buffer, Buffers, Pool};
use ioweir_serve::engine::Command;
use ioweir_serve::nbd::{Export, NbdError};
use ioweir_serve::server::check;
use ioweir_serve::spec::{Backend as BackendSpec, Device, Holder, Spec};
use proptest::prelude::*;

use crate::bench::{Bench, Peer, device};
use crate::client::*;
use crate::history::config;
use crate::services::service;

const MIB: u64 = 1 << 20;

/// A disk that two devices share.
struct Spindle {
    disk: Emulated,
    owners: HashMap<u32, (usize, u32)>,
    ended: [Vec<Done>; 2],
    last: u32,
}

/// A file that is half of a disk.
struct Half {
    spindle: Rc<RefCell<Spindle>>,
    number: usize,
}

const HALF_BYTES: u64 = 1 << 30;

impl Half {
    fn both(model: &str) -> [Self; 2] {
        let disk = Emulated::open(model, Some(2 * HALF_BYTES), 7).unwrap();
        let spindle = Spindle { disk, owners: HashMap::new(), ended: [Vec::new(), Vec::new()], last: 0 };
        let spindle = Rc::new(RefCell::new(spindle));
        [0, 1].map(|number| Self { spindle: Rc::clone(&spindle), number })
    }
}

impl Backend for Half {
    fn start(&mut self, now: Nanos, io: Io) {
        let mut spindle = self.spindle.borrow_mut();
        spindle.last += 1;
        let (id, base) = (spindle.last, self.number as u64 * HALF_BYTES);
        spindle.owners.insert(id, (self.number, io.id));
        let dispatch =
            io.dispatch.map(|dispatch| ioweir_core::Dispatch { sector: dispatch.sector + base / 512, ..dispatch });
        spindle.disk.start(now, Io { id, offset: io.offset + base, dispatch, ..io });
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        let mut spindle = self.spindle.borrow_mut();
        let mut ended = Vec::new();
        spindle.disk.collect(now, &mut ended)?;
        for its in ended {
            let (number, id) = spindle.owners.remove(&its.id).unwrap();
            spindle.ended[number].push(Done { id, ..its });
        }
        done.append(&mut spindle.ended[self.number]);
        Ok(())
    }

    fn due(&self) -> Nanos {
        let spindle = self.spindle.borrow();
        if spindle.ended[self.number].is_empty() { spindle.disk.due() } else { Nanos::ZERO }
    }

    fn size_bytes(&self) -> u64 {
        HALF_BYTES
    }

    fn describe(&self) -> String {
        format!("half {}", self.number)
    }
}

/// A bench of these parts under a scheduler, whose exports show them.
fn joined(keys: &str, parts: Vec<Box<dyn Backend>>, shares: &[(Holder, Share)]) -> Bench {
    let names = (0..).map(|number: u32| number.to_string());
    let joined = Joined::new(names.zip(parts).collect()).unwrap();
    let (places, device) = (joined.parts(), device(&format!("backend = \"memory\"\nsize = \"1MiB\"\n{keys}")));
    let pool = Pool::new(device.request_bytes_max.0 as usize);
    let mut bench = Bench::over(device, Box::new(joined), pool);
    let export = |place: &std::ops::Range<u64>| Export {
        name: place.start.to_string(),
        offset_bytes: place.start,
        description: String::new(),
        size_bytes: place.end - place.start,
        read_only: false,
        block_bytes_min: 1,
        block_bytes_preferred: 4096,
        trims: true,
    };
    let exports: Arc<[Export]> = places.iter().map(export).collect();
    bench.engine.configure(exports, shares).unwrap();
    bench
}

/// A client that always has this many random reads in flight.
struct Reader {
    peer: Peer,
    random: u64,
    answered: u64,
}

impl Reader {
    fn ask(&mut self) {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let block = (self.random >> 33) % (HALF_BYTES / 4096);
        self.peer.send(&request(READ, 0, block, block * 4096, 4096));
    }

    fn new(peer: Peer, depth: u64, seed: u64) -> Self {
        let mut reader = Self { peer, random: seed, answered: 0 };
        (0..depth).for_each(|_| reader.ask());
        reader
    }

    fn go_on(&mut self) {
        for _ in self.peer.answers() {
            self.answered += 1;
            self.ask();
        }
    }
}

/// Runs the benches of one disk until the readers have had this many answers.
fn run(benches: &mut [&mut Bench], readers: &mut [Reader; 2], answers: u64) {
    let mut now = Nanos::ZERO;
    while readers.iter().map(|reader| reader.answered).sum::<u64>() < answers {
        let mut due = Nanos::NEVER;
        for bench in &mut *benches {
            bench.now = bench.now.max(now);
            due = due.min(bench.turn());
        }
        readers.iter_mut().for_each(Reader::go_on);
        now = now.max(due);
    }
}

fn weighing(weight: u32) -> Share {
    Share::weighted(weight)
}

#[test]
fn weights_hold_across_joined_files_of_one_disk() {
    let keys = "scheduler = \"sfq\"\ndepth = 1";
    let parts = Half::both("hdd").map(|half| Box::new(half) as Box<dyn Backend>);
    let shares = [(0, 1000), (1, 1)].map(|(class, weight)| (Holder::Class(StreamId(class)), weighing(weight)));
    let mut together = joined(keys, parts.into(), &shares);
    let mut readers = [0, 1].map(|number| Reader::new(together.connect(number, true), 32, number as u64));
    run(&mut [&mut together], &mut readers, 10_010);
    let [heavy, light] = readers.map(|reader| reader.answered);
    assert!((990..=1010).contains(&(heavy / light.max(1))), "1000:1 comes out {heavy}:{light}");

    // Separate schedulers cannot divide the disk.
    let mut apart = Half::both("hdd").map(|half| {
        let device = device(&format!("backend = \"memory\"\nsize = \"1MiB\"\n{keys}"));
        let pool = Pool::new(device.request_bytes_max.0 as usize);
        Bench::over(device, Box::new(half), pool)
    });
    for (bench, weight) in apart.iter_mut().zip([1000, 1]) {
        bench.entitle(StreamId(0), weighing(weight));
    }
    let mut readers = [0, 1].map(|number: usize| Reader::new(apart[number].connect(0, true), 32, number as u64));
    let [first, second] = &mut apart;
    run(&mut [first, second], &mut readers, 2_000);
    let [heavy, light] = readers.map(|reader| reader.answered);
    assert!(heavy < 2 * light, "without one scheduler, 1000:1 comes out {heavy}:{light}");
}

/// A device that counts its flushes.
struct Counted(Memory, Rc<Cell<u32>>, Option<NbdError>);

impl Backend for Counted {
    fn start(&mut self, now: Nanos, io: Io) {
        self.1.set(self.1.get() + u32::from(io.action == Action::Flush));
        self.0.start(now, io);
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        let before = done.len();
        self.0.collect(now, done)?;
        if let Some(error) = self.2 {
            done[before..].iter_mut().for_each(|done| done.result = Err(error));
        }
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
fn client_flushes_cover_one_part_the_last_all() {
    let counts: [Rc<Cell<u32>>; 3] = Default::default();
    let part = |count: &Rc<Cell<u32>>| Box::new(Counted(Memory::new(MIB), Rc::clone(count), None)) as Box<dyn Backend>;
    let mut bench = joined("scheduler = \"sfq\"", counts.iter().map(part).collect(), &[]);
    let flushes = || [0, 1, 2].map(|part: usize| counts[part].get());
    let mut peer = bench.connect(1, true);
    peer.send(&request(FLUSH, 0, 1, 0, 0));
    bench.settle();
    assert_eq!(peer.answers()[0].error, 0);
    assert_eq!(flushes(), [0, 1, 0]);
    drop(peer);
    bench.engine.handle().send(Command::Stop(None));
    bench.turn_until(1000, |bench| bench.stopped);
    assert_eq!(flushes(), [1, 2, 1]);
}

#[test]
fn a_joint_flush_fails_as_its_worst_part() {
    for (errors, expected) in [
        ([None, None], Ok(())),
        ([None, Some(NbdError::NoSpace)], Err(NbdError::NoSpace)),
        ([Some(NbdError::NoSpace), Some(NbdError::InputOutput)], Err(NbdError::InputOutput)),
        ([Some(NbdError::InputOutput), Some(NbdError::NoSpace)], Err(NbdError::InputOutput)),
    ] {
        let part = |error| Box::new(Counted(Memory::new(MIB), Rc::default(), error)) as Box<dyn Backend>;
        let mut joined = Joined::new(errors.map(|error| (String::new(), part(error))).into()).unwrap();
        let length = joined.size_bytes();
        let done = perform(&mut joined, Action::Flush, (0, length), Buffers::None);
        assert_eq!(done.result.map(drop), expected);
    }
}

/// Carries out one operation of a device in memory.
fn perform(joined: &mut Joined, action: Action, (offset, length): (u64, u64), buffers: Buffers) -> Done {
    let (durable, dispatch) = (false, None);
    joined.start(Nanos::ZERO, Io { id: 5, action, offset, length, durable, dispatch, buffers });
    let mut done = Vec::new();
    joined.collect(Nanos::ZERO, &mut done).unwrap();
    assert_eq!((done.len(), done[0].id), (1, 5));
    done.remove(0)
}

proptest! {
    #![proptest_config(config(256))]

    /// Each part is compared with a memory of the same length; a request that lies in no part, or in several, is refused and changes
    /// nothing.
    #[test]
    fn operations_on_a_part_touch_that_part_alone(
        lengths in prop::collection::vec(1..40_u64, 1..5),
        operations in prop::collection::vec((0..8_u64, -3..44_i64, 1..12_u64, 0..3_u8), 1..40),
    ) {
        let memory = |blocks: u64| (String::new(), Box::new(Memory::new(blocks * 512)) as Box<dyn Backend>);
        let mut joined = Joined::new(lengths.iter().copied().map(memory).collect()).unwrap();
        let places = joined.parts();
        let mut model: Vec<Vec<u8>> = lengths.iter().map(|blocks| vec![0; *blocks as usize * 512]).collect();
        for (number, (part, at, sectors, kind)) in operations.into_iter().enumerate() {
            let part = part as usize % places.len();
            let Some(offset) = places[part].start.checked_add_signed(at * 512) else { continue };
            let (end, length) = (offset + sectors * 512, sectors * 512);
            let whole = places.iter().position(|place| place.start <= offset && end <= place.end);
            let mut buffer = Buffer::with_capacity(length as usize);
            buffer.bytes_mut().fill(number as u8 + 1);
            let action = [Action::Read, Action::Write, Action::Zero { keep: false, fast: false }][kind as usize];
            let buffers = if kind == 2 { Buffers::None } else { Buffers::One(buffer) };
            let done = perform(&mut joined, action, (offset, length), buffers);
            let Some(part) = whole else {
                prop_assert_eq!(done.result, Err(NbdError::Invalid));
                continue;
            };
            let from = (offset - places[part].start) as usize;
            let its = &mut model[part][from..from + length as usize];
            match kind {
                1 => its.fill(number as u8 + 1),
                2 => its.fill(0),
                _ => {}
            }
        }
        for (place, model) in places.iter().zip(&model) {
            let buffer = Buffers::One(Buffer::with_capacity(model.len()));
            let done = perform(&mut joined, Action::Read, (place.start, model.len() as u64), buffer);
            let read = match (&done.result, &done.buffers) {
                (Ok(ioweir_serve::backend::Outcome::Hole), _) => vec![0; model.len()],
                (_, Buffers::One(buffer)) => buffer.bytes().to_vec(),
                _ => panic!("one buffer was given"),
            };
            prop_assert_eq!(&read, model);
        }
    }
}

/// A device of two files, whose discards are carried out later.
fn of_files(at: &Path) -> Device {
    let at = at.display();
    let part = |name: &str| {
        format!("[[device.part]]\nname = \"{name}\"\nbackend = \"file\"\npath = \"{at}/{name}\"\nsize = \"64KiB\"\n")
    };
    let device = format!("[[device]]\nname = \"d\"\nbackend = \"joined\"\n{}{}", part("one"), part("two"));
    let export = "[[export]]\nname = \"a\"\ndevice = \"d\"\npart = \"one\"\n";
    let text = format!("{device}{export}[service.later]\nkind = \"trim\"\ndevice = \"d\"\n");
    Spec::parse("s.toml", &text).unwrap_or_else(|error| panic!("{error}")).device.remove(0)
}

#[test]
fn foreign_changes_to_any_part_drop_kept_files() {
    for changed in [None, Some("one"), Some("two")] {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let device = of_files(folder.path());
            let backend = backend::open(&device, &mut [], None).unwrap_or_else(|error| panic!("{error}"));
            (device, backend)
        };
        let service = || [(service("kind = \"trim\""), None)];
        let (device, backend) = open();
        let mut bench = Bench::with_services(device, backend, service());
        let mut peer = bench.connect(0, true);
        // The discard is of the second part.
        peer.send(&request(TRIM, 0, 1, 4 * MIB, 8192));
        bench.settle();
        assert_eq!(peer.answers()[0].error, 0);
        bench.engine.handle().send(Command::Stop(None));
        bench.turn_until(1000, |bench| bench.stopped);
        drop(bench);
        assert!(folder.path().join("one.later.service").exists(), "the journal lies beside the first part");
        if let Some(name) = changed {
            let path = folder.path().join(name);
            let times = || path.metadata().map(|its| (its.ctime(), its.ctime_nsec())).unwrap();
            let before = times();
            while times() == before {
                std::fs::write(&path, vec![2; 64 << 10]).unwrap();
            }
        }
        let (device, mut backend) = open();
        let remarks = backend.remarks();
        let said = |what: &str| remarks.iter().any(|(_, remark)| remark.contains(what));
        assert_eq!(said("the device was changed since; it is not used"), changed.is_some(), "{remarks:?}");
        let mut bench = Bench::with_services(device, backend, service());
        assert_eq!(bench.services()[0].owed_bytes, if changed.is_some() { 0 } else { 8192 }, "{changed:?}");
    }
}

const SPEC: &str = r#"[[device]]
name = "disk"
backend = "joined"
scheduler = "sfq"
[[device.part]]
name = "one"
backend = "memory"
size = "8MiB"
[[device.part]]
name = "two"
backend = "emulated"
model = "hdd"
size = "2MiB"
[[export]]
name = "a"
device = "disk"
part = "one"
[[export]]
name = "b"
device = "disk"
part = "two"
offset = "1MiB"
size = "1MiB"
"#;

#[test]
fn joined_specs_read_back_with_the_deepest_depth() {
    let spec = Spec::parse("s.toml", SPEC).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(Spec::parse("s.toml", &spec.to_toml()).unwrap(), spec, "{}", spec.to_toml());
    assert_eq!(spec.device[0].depth, 32);
    let BackendSpec::Joined { ref part } = spec.device[0].backend else { panic!("{spec:?}") };
    assert_eq!(part.iter().map(|part| part.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    check(&spec).unwrap();
    let beyond = SPEC.replace("offset = \"1MiB\"", "offset = \"2MiB\"");
    let error = check(&Spec::parse("s.toml", &beyond).unwrap()).unwrap_err().to_string();
    assert_eq!(error, "export b: ends past its part, two, which has 2 MiB");
}

#[test]
fn errors_in_parts_are_reported_with_their_place() {
    for (from, to, beginning) in [
        ("\"two\"\nbackend", "\"one\"\nbackend", "s.toml:10:8: part name `one` is empty or taken"),
        ("part = \"one\"\n", "", "s.toml:16:10: device disk is joined, and an export shows one of its parts"),
        ("part = \"one\"", "part = \"three\"", "s.toml:17:8: unknown part of device disk `three`"),
        ("\"emulated\"\nmodel = \"hdd\"", "\"tiered\"", "s.toml:11:11: backend tiered is no part of another device"),
        ("size = \"8MiB\"", "path = \"x\"", "s.toml:8:8: backend memory takes no key `path`"),
        ("\"joined\"", "\"mirror\"", "s.toml:3:11: unknown backend `mirror`"),
    ] {
        assert!(SPEC.contains(from), "{from}");
        let error = Spec::parse("s.toml", &SPEC.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with(beginning), "{beginning}\n--- is not the beginning of ---\n{error}");
    }
    let other = "[[device]]\nname = \"d\"\nbackend = \"null\"\nsize = \"1MiB\"\n[[export]]\nname = \"a\"\ndevice = \"d\"\npart = \"x\"\n";
    let error = Spec::parse("s.toml", other).unwrap_err().to_string();
    assert!(error.starts_with("s.toml:8:8: part: device d has none"), "{error}");
}

/// Parts of all that two clients of equal weight get, the first with four requests outstanding and the second with
/// sixty-four, on an emulated disk.
fn part_of_the_shallow_one(depth: u32) -> f64 {
    let keys =
        format!("backend = \"emulated\"\nmodel = \"hdd\"\nsize = \"2GiB\"\nscheduler = \"sfq\"\ndepth = {depth}");
    let mut bench = Bench::new(&keys);
    let mut readers =
        [(0, 4), (1, 64)].map(|(number, depth)| Reader::new(bench.connect(number, true), depth, number as u64));
    run(&mut [&mut bench], &mut readers, 3_000);
    let [shallow, deep] = readers.map(|reader| reader.answered as f64);
    shallow / (shallow + deep)
}

/// The table of depths in docs/server/devices.md.
#[test]
fn four_requests_get_their_share_until_depth_six() {
    for (depth, expected) in [(1, 0.5), (4, 0.5), (6, 0.5), (8, 0.44), (16, 0.24), (32, 0.12)] {
        let part = part_of_the_shallow_one(depth);
        assert!((part - expected).abs() < 0.02, "depth {depth}: {part}");
    }
}
