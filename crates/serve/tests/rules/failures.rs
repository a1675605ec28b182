//! Rules of devices that fail: every client gets the error of a loss, each time, and never a false success.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use crate::bench::{Bench, Peer, device};
use crate::client::*;
use ioweir_core::Nanos;
use ioweir_serve::backend::{self, Action, Backend, Done, Io, Ledger, Memory, Placed};
use ioweir_serve::buffer::Pool;
use ioweir_serve::engine::Command;
use ioweir_serve::log::EventKind;
use ioweir_serve::nbd::NbdError;
use redb::StorageBackend;

const INPUT_OUTPUT: u32 = 5;
const NO_SPACE: u32 = 28;

/// A device of two tiers whose scheduler places written data.
const PLACED: &str = "backend = \"tiered\"\nscheduler = \"bid-hybrid\"\n\
    [device.slow]\nbackend = \"memory\"\nsize = \"1MiB\"\n\
    [device.fast]\nbackend = \"memory\"\nsize = \"1MiB\"\n";

/// Flushes that a test ends, in an order of its choice.
#[derive(Clone, Default)]
struct Flushes(Arc<Mutex<Vec<Io>>>);

/// A device whose flushes a test ends.
struct Flushing {
    inner: Box<dyn Backend>,
    flushes: Flushes,
    ended: Arc<Mutex<Vec<Done>>>,
}

impl Flushes {
    fn over(&self, inner: Box<dyn Backend>) -> (Flushing, Arc<Mutex<Vec<Done>>>) {
        let ended = Arc::default();
        (Flushing { inner, flushes: self.clone(), ended: Arc::clone(&ended) }, ended)
    }

    fn take(&self, at: usize, error: Option<NbdError>) -> Done {
        let io = self.0.lock().unwrap().remove(at);
        Done::new(io.id, io.buffers, error.map_or(Ok(backend::Outcome::Plain), Err))
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl Backend for Flushing {
    fn start(&mut self, now: Nanos, io: Io) {
        if io.action == Action::Flush { self.flushes.0.lock().unwrap().push(io) } else { self.inner.start(now, io) }
    }

    fn submit(&mut self) -> io::Result<()> {
        self.inner.submit()
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        done.append(&mut self.ended.lock().unwrap());
        self.inner.collect(now, done)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.inner.descriptors()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

fn send(peer: &mut Peer, command: u16, cookie: u64) {
    let data = [command as u8; 4096];
    let length = if command == FLUSH { 0 } else { 4096 };
    peer.send(&request(command, 0, cookie, 0, length));
    if command == WRITE {
        peer.send(&data);
    }
    if command == READ {
        peer.expect(cookie, 4096);
    }
}

/// The error of a command that ends by itself.
fn ask(bench: &mut Bench, peer: &mut Peer, command: u16, cookie: u64) -> u32 {
    send(peer, command, cookie);
    bench.settle();
    let answers = peer.answers();
    assert_eq!((answers.len(), answers[0].cookie), (1, cookie));
    answers[0].error
}

fn turns(bench: &mut Bench) {
    for _ in 0..20 {
        bench.turn();
    }
}

#[test]
fn flushes_fail_for_all_clients_until_a_reopen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let device = device(&format!("backend = \"file\"\npath = {path:?}\nsize = \"1MiB\"\ndirect = false"));
    let mut pool = Pool::new(256 << 10);
    let flushes = Flushes::default();
    let (backend, ended) = flushes.over(backend::open(&device, pool.registered(), None).unwrap());
    let mut bench = Bench::over(device, Box::new(backend), pool);
    let (mut writer, mut other) = (bench.connect(0, false), bench.connect(1, false));
    assert_eq!(ask(&mut bench, &mut writer, WRITE, 1), 0);
    let reopen = |bench: &mut Bench| {
        let (sender, answer) = channel();
        bench.engine.handle().send(Command::Reopen(sender));
        turns(bench);
        answer.try_recv().unwrap()
    };
    assert_eq!(reopen(&mut bench), Err("it has not failed".into()));
    send(&mut other, FLUSH, 2);
    turns(&mut bench);
    ended.lock().unwrap().push(flushes.take(0, Some(NbdError::InputOutput)));
    turns(&mut bench);
    assert_eq!(other.answers()[0].error, INPUT_OUTPUT);
    assert!(bench.engine.failure().is_some());
    for (cookie, command) in [(3, FLUSH), (4, WRITE), (5, FLUSH), (6, TRIM)] {
        assert_eq!(ask(&mut bench, &mut writer, command, cookie), INPUT_OUTPUT, "{command}");
    }
    assert_eq!(ask(&mut bench, &mut other, FLUSH, 7), INPUT_OUTPUT);
    assert_eq!((ask(&mut bench, &mut other, READ, 8), flushes.count()), (0, 0));
    assert!(reopen(&mut bench).unwrap().starts_with("file "));
    assert_eq!(bench.engine.failure(), None);
    for (cookie, command) in [(9, WRITE), (10, FLUSH), (11, READ)] {
        assert_eq!(ask(&mut bench, &mut writer, command, cookie), 0, "{command}");
    }
}

#[test]
fn flushes_in_flight_together_fail_together() {
    let flushes = Flushes::default();
    let device = device("backend = \"null\"\nsize = \"1MiB\"\ndepth = 8");
    let (backend, ended) = flushes.over(Box::new(Memory::new(1 << 20)));
    let mut bench = Bench::over(device, Box::new(backend), Pool::new(256 << 10));
    let mut peers: Vec<Peer> = (0..3).map(|_| bench.connect(0, false)).collect();
    for peer in &mut peers[..2] {
        send(peer, FLUSH, 1);
    }
    turns(&mut bench);
    assert_eq!(flushes.count(), 2);
    // The system has reported the loss to the other flush, whose result was not collected yet.
    ended.lock().unwrap().push(flushes.take(0, None));
    turns(&mut bench);
    send(&mut peers[2], FLUSH, 1);
    turns(&mut bench);
    assert!(peers.iter_mut().all(|peer| peer.answers().is_empty()), "it is not known yet");
    ended.lock().unwrap().push(flushes.take(0, Some(NbdError::InputOutput)));
    turns(&mut bench);
    assert!(peers.iter_mut().all(|peer| peer.answers()[0].error == INPUT_OUTPUT));
}

#[test]
fn hanging_devices_delay_the_end_twice_the_timeout() {
    let flushes = Flushes::default();
    let (backend, _ended) = flushes.over(Box::new(Memory::new(1 << 20)));
    let mut bench = Bench::over(device("backend = \"null\"\nsize = \"1MiB\""), Box::new(backend), Pool::new(256 << 10));
    let mut peer = bench.connect(0, false);
    send(&mut peer, FLUSH, 1);
    turns(&mut bench);
    bench.engine.handle().send(Command::Stop(None));
    turns(&mut bench);
    for (seconds, clients, is_hung) in [(9, 1, false), (2, 1, false), (8, 1, false), (2, 1, true)] {
        bench.now = bench.now.after(Nanos::from_seconds(seconds));
        turns(&mut bench);
        assert_eq!((bench.engine.clients(), bench.hung, bench.stopped), (clients, is_hung, false), "{seconds}");
    }
}

#[test]
fn operations_older_than_thirty_seconds_count_as_hanging() {
    let flushes = Flushes::default();
    let (backend, ended) = flushes.over(Box::new(Memory::new(1 << 20)));
    let mut bench = Bench::over(device("backend = \"null\"\nsize = \"1MiB\""), Box::new(backend), Pool::new(256 << 10));
    let (mut peer, mut other) = (bench.connect(0, false), bench.connect(1, false));
    assert_eq!(bench.turn(), Nanos::NEVER, "a device at rest is not looked at");
    send(&mut peer, FLUSH, 1);
    turns(&mut bench);
    let begun = bench.now;
    // Other requests of the device, and earlier checks, change nothing.
    for (second, hangs, said) in [(20, false, 0), (29, false, 0), (31, true, 1), (45, true, 1)] {
        bench.now = begun.after(Nanos::from_seconds(second));
        send(&mut other, READ, second);
        turns(&mut bench);
        assert_eq!(other.answers()[0].error, 0);
        let device = bench.report().device;
        assert_eq!((device.hangs, bench.count(EventKind::DeviceHangs)), (hangs, said), "{second}");
        assert_eq!(device.oldest_operation.unwrap().0 / 1_000_000_000, second);
        assert!(bench.turn() <= begun.after(Nanos::from_seconds(second.max(30) + 2)), "it is looked at again");
    }
    ended.lock().unwrap().push(flushes.take(0, None));
    turns(&mut bench);
    assert_eq!((peer.answers()[0].error, bench.count(EventKind::DeviceBack)), (0, 0));
    bench.now = begun.after(Nanos::from_seconds(47));
    assert_eq!((bench.turn(), bench.count(EventKind::DeviceBack)), (Nanos::NEVER, 1));
    let device = bench.report().device;
    assert_eq!((device.hangs, device.oldest_operation), (false, None));
}

/// A device that holds every operation until the test lets it continue.
struct Hanging {
    inner: Memory,
    is_hung: Arc<AtomicBool>,
}

impl Backend for Hanging {
    fn start(&mut self, now: Nanos, io: Io) {
        self.inner.start(now, io);
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        if self.is_hung.load(Ordering::Relaxed) { Ok(()) } else { self.inner.collect(now, done) }
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[test]
fn devices_that_complete_nothing_delay_the_end_once() {
    // The operations in flight when the server is asked to stop, whether one of them ends meanwhile, and the multiple of the timeout after
    // which the device is left behind.
    for (commands, moves, times) in [
        (vec![READ, WRITE], false, 1),
        (vec![READ, WRITE], true, 2),
        (vec![READ, TRIM], false, 2),
        (vec![READ, FLUSH], false, 2),
    ] {
        let is_hung = Arc::new(AtomicBool::new(true));
        let backend = Hanging { inner: Memory::new(1 << 20), is_hung: is_hung.clone() };
        let device = device("backend = \"null\"\nsize = \"1MiB\"\ndepth = 8");
        let mut bench = Bench::over(device, Box::new(backend), Pool::new(256 << 10));
        let mut peers: Vec<Peer> = commands.iter().map(|_| bench.connect(0, false)).collect();
        for (number, (peer, command)) in (0..).zip(peers.iter_mut().zip(&commands)) {
            let (offset, length) = if *command == FLUSH { (0, 0) } else { (number << 16, 4096) };
            peer.send(&request(*command, 0, 1, offset, length));
            if *command == WRITE {
                peer.send(&[1; 4096]);
            }
        }
        turns(&mut bench);
        // A drain has no limit; the time counts from the stop that sets one.
        bench.engine.handle().send(Command::Stop(Some(Nanos::NEVER)));
        turns(&mut bench);
        bench.now = bench.now.after(Nanos::from_seconds(3600));
        bench.engine.handle().send(Command::Stop(None));
        turns(&mut bench);
        if moves {
            is_hung.store(false, Ordering::Relaxed);
            turns(&mut bench);
            is_hung.store(true, Ordering::Relaxed);
        }
        bench.now = bench.now.after(Nanos::from_seconds(9));
        turns(&mut bench);
        assert!(!bench.hung, "{commands:?}");
        bench.now = bench.now.after(Nanos::from_seconds(2));
        turns(&mut bench);
        assert_eq!(bench.hung, times == 1, "{commands:?}");
        bench.now = bench.now.after(Nanos::from_seconds(10));
        turns(&mut bench);
        assert!(bench.hung || moves, "{commands:?}");
    }
}

#[test]
fn draining_servers_wait_for_devices_until_stopped() {
    for is_stopped in [false, true] {
        let flushes = Flushes::default();
        let (backend, ended) = flushes.over(Box::new(Memory::new(1 << 20)));
        let device = device("backend = \"null\"\nsize = \"1MiB\"");
        let mut bench = Bench::over(device, Box::new(backend), Pool::new(256 << 10));
        let (mut peer, mut idle) = (bench.connect(0, false), bench.connect(0, false));
        send(&mut peer, FLUSH, 1);
        turns(&mut bench);
        bench.engine.handle().send(Command::Stop(Some(Nanos::NEVER)));
        turns(&mut bench);
        assert!(idle.answers().is_empty() && idle.is_closed && peer.answers().is_empty() && !peer.is_closed);
        bench.now = bench.now.after(Nanos::from_seconds(3600));
        turns(&mut bench);
        assert_eq!((bench.engine.clients(), bench.hung, bench.stopped), (1, false, false));
        if is_stopped {
            // A longer time changes nothing.
            for within in [None, Some(Nanos::from_seconds(60))] {
                bench.engine.handle().send(Command::Stop(within));
                turns(&mut bench);
            }
            bench.now = bench.now.after(Nanos::from_seconds(20));
            turns(&mut bench);
            assert!(bench.hung);
        } else {
            ended.lock().unwrap().push(flushes.take(0, None));
            turns(&mut bench);
            assert_eq!(peer.answers()[0].error, 0);
            assert!(peer.is_closed && flushes.count() == 1, "the last flush is under way");
            ended.lock().unwrap().push(flushes.take(0, None));
            turns(&mut bench);
            assert!(bench.stopped);
        }
    }
}

#[test]
fn a_flush_without_space_may_be_tried_again() {
    let flushes = Flushes::default();
    let (backend, ended) = flushes.over(Box::new(Memory::new(1 << 20)));
    let mut bench = Bench::over(device("backend = \"null\"\nsize = \"1MiB\""), Box::new(backend), Pool::new(256 << 10));
    let mut peer = bench.connect(0, false);
    for error in [Some(NbdError::NoSpace), None] {
        send(&mut peer, FLUSH, 1);
        turns(&mut bench);
        ended.lock().unwrap().push(flushes.take(0, error));
        turns(&mut bench);
        assert_eq!(peer.answers()[0].error, error.map_or(0, |_| NO_SPACE));
    }
}

/// A folder that is full while a test says so.
#[derive(Clone, Debug, Default)]
struct Folder(Arc<(Mutex<Vec<u8>>, AtomicBool)>);

impl Folder {
    fn set_full(&self, is_full: bool) {
        self.0.1.store(is_full, Ordering::SeqCst);
    }

    fn check(&self) -> io::Result<()> {
        if self.0.1.load(Ordering::SeqCst) { Err(io::Error::from_raw_os_error(28)) } else { Ok(()) }
    }
}

impl StorageBackend for Folder {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.0.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.0.0.lock().unwrap()[offset as usize..][..out.len()]);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.check()?;
        self.0.0.lock().unwrap().resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.0.0.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }
}

#[test]
fn maps_in_full_folders_recover_without_false_answers() {
    let folder = Folder::default();
    let open = {
        let folder = folder.clone();
        move || redb::Builder::new().create_with_backend(folder.clone())
    };
    let ledger = Ledger::opened_by(Box::new(open)).unwrap();
    let placed = Placed::open(Box::new(Memory::new(1 << 20)), Box::new(Memory::new(1 << 20)), ledger, 4).unwrap();
    let mut bench = Bench::over(device(PLACED), Box::new(placed), Pool::new(256 << 10));
    let mut peer = bench.connect(0, false);
    assert_eq!(ask(&mut bench, &mut peer, WRITE, 1), 0);
    folder.set_full(true);
    assert_eq!(ask(&mut bench, &mut peer, FLUSH, 2), NO_SPACE);
    assert_eq!(ask(&mut bench, &mut peer, WRITE, 3), NO_SPACE, "its place is not durable");
    assert_eq!((ask(&mut bench, &mut peer, FLUSH, 4), bench.engine.failure()), (NO_SPACE, None));
    folder.set_full(false);
    for (cookie, command) in [(5, FLUSH), (6, WRITE), (7, FLUSH), (8, READ)] {
        assert_eq!(ask(&mut bench, &mut peer, command, cookie), 0, "{command}");
    }
}

#[test]
fn a_map_that_loses_writes_fails_its_device() {
    let (flushes, folder) = (Flushes::default(), Folder::default());
    let ledger = Ledger::opened_by(Box::new(move || redb::Builder::new().create_with_backend(folder.clone())));
    let (fast, ended) = flushes.over(Box::new(Memory::new(1 << 20)));
    let placed = Placed::open(Box::new(Memory::new(1 << 20)), Box::new(fast), ledger.unwrap(), 4).unwrap();
    let mut bench = Bench::over(device(PLACED), Box::new(placed), Pool::new(256 << 10));
    let mut peer = bench.connect(0, false);
    assert_eq!(ask(&mut bench, &mut peer, WRITE, 1), 0);
    assert_eq!((flushes.count(), bench.engine.failure()), (0, None));
    bench.now = bench.now.after(Nanos::from_seconds(2));
    turns(&mut bench);
    assert_eq!(flushes.count(), 1, "the server makes the place durable by itself");
    ended.lock().unwrap().push(flushes.take(0, Some(NbdError::InputOutput)));
    turns(&mut bench);
    assert!(bench.engine.failure().is_some());
    assert_eq!(bench.count(EventKind::DeviceFailed), 1);
    for (cookie, command) in [(2, WRITE), (3, FLUSH), (4, TRIM)] {
        assert_eq!(ask(&mut bench, &mut peer, command, cookie), INPUT_OUTPUT, "{command}");
    }
    assert_eq!(ask(&mut bench, &mut peer, READ, 5), 0);
}

#[test]
fn a_failed_last_flush_ends_the_server_badly() {
    let spec = "[server]\nlisten = [\"tcp:127.0.0.1:0\"]\n[[device]]\nname = \"d\"\nbackend = \"faulty\"\nsize = \"1MiB\"\n\
                [device.faults]\nerrors_per_million = 1000000\n[[export]]\nname = \"a\"\ndevice = \"d\"\n";
    let spec = ioweir_serve::spec::Spec::parse("test", spec).unwrap();
    let server =
        ioweir_serve::server::Server::start(&spec, ioweir_serve::server::Entrance::Listeners(vec![]), false, None);
    let server = server.unwrap();
    server.stopper().stop();
    let error = server.wait().unwrap_err().to_string();
    assert!(error.starts_with("device d: what was written may be gone"), "{error}");
}
