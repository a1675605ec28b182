//! Rules of robustness: whatever clients do that break off, stall or send garbage, the server lives, gets back all resources, and serves
//! others meanwhile.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;

use crate::bench::{Bench, TIMEOUTS};
use crate::client::*;
use crate::process::Process;
use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, StreamId};
use ioweir_serve::engine::{Change, Command, Timeouts};
use ioweir_serve::log::EventKind;

const MEMORY: &str = "backend = \"memory\"\nsize = \"64MiB\"";
/// A disk that takes a millisecond for everything, one after the other.
const SLOW: &str = "backend = \"emulated\"\nmodel = \"tiny\"\nscheduler = \"noop\"\nmerge = false";

/// First requests, each with its data.
fn requests() -> Vec<Vec<u8>> {
    let write = |flags, cookie, offset, data: &[u8]| {
        [request(WRITE, flags, cookie, offset, data.len() as u32), data.to_vec()].concat()
    };
    vec![
        write(FUA, 1, 512, b"hello"),
        request(READ, 0, 2, 0, 65_536),
        write(0, 3, 4000, &[7; 200]),
        request(FLUSH, 0, 4, 0, 0),
        request(WRITE_ZEROES, NO_HOLE, 5, 100, 10_000),
        // A write that is refused, with data that is dropped.
        write(0, 6, u64::MAX - 100, &[9; 60]),
        request(READ, 0, 7, 0, u32::MAX),
        request(TRIM, 0, 8, 0, 1 << 20),
        request(CACHE, 0, 9, 0, 4096),
        request(77, 0, 10, 0, 4096),
        request(BLOCK_STATUS, 0, 12, 0, 1 << 20),
        request(READ, 0, 11, 512, 5),
    ]
}

/// Streams of bytes that clients send, from their flags to the first requests.
fn talks() -> Vec<Vec<u8>> {
    let (flags, requests) = (CLIENT_FLAGS.to_vec(), requests().concat());
    let chosen = option(OPTION_EXPORT_NAME, b"export");
    let longer = |number: u32, length: u32| {
        [&b"IHAVEOPT"[..], &number.to_be_bytes(), &length.to_be_bytes(), &vec![b'x'; length.min(70_000) as usize]]
            .concat()
    };
    vec![
        [&flags[..], &chosen, &requests].concat(),
        // A stream of a client of the first newstyle.
        [&[0; 4][..], &chosen, &requests].concat(),
        whole_talk_of("export"),
        [flags.clone(), option(OPTION_LIST, &[]), option(OPTION_LIST, &[]), option(OPTION_ABORT, &[])].concat(),
        // More data than any option needs, after which the stream continues, and for `EXPORT_NAME`, which cannot be refused otherwise.
        [flags.clone(), longer(OPTION_GO, 70_000), info(OPTION_GO, "export", &[3])].concat(),
        [flags.clone(), longer(OPTION_EXPORT_NAME, u32::MAX)].concat(),
        [flags, chosen, request(WRITE, 0, 1, 0, u32::MAX), vec![1; 500]].concat(),
    ]
}

/// Every byte near the beginning and near the end, and some between.
fn cuts(length: usize) -> impl Iterator<Item = usize> {
    (0..=length).filter(move |cut| *cut < 700 || length - cut < 50 || cut.is_multiple_of(4099))
}

/// A server for hostile clients, and a witness, which must not notice them.
struct Watched {
    process: Process,
    witness: UnixStream,
    places: u32,
    /// Descriptors while the witness is the only client.
    descriptors: usize,
    _folder: tempfile::TempDir,
}

impl Watched {
    fn new(head: &str, places: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // A thousand clients have their minimum.
        let device = MEMORY.replacen("size", "request_bytes_max = \"64KiB\"\nsize", 1);
        let mut process = Process::start(folder.path(), &format!("connections_max = {places}\n{head}"), &device);
        let mut witness = process.connect();
        agree(&mut witness);
        flush(&mut witness);
        let descriptors = process.descriptors();
        Self { process, witness, places, descriptors, _folder: folder }
    }

    /// Checks that all descriptors and places of clients were released.
    fn check(mut self) {
        let mut round_trips = 0;
        while self.process.descriptors() != self.descriptors {
            // The server notices a moment later which clients have left, and answers meanwhile.
            flush(&mut self.witness);
            round_trips += 1;
            assert!(
                round_trips < 1_000_000,
                "descriptors: {} now, {} before",
                self.process.descriptors(),
                self.descriptors
            );
        }
        let mut others: Vec<_> = (1..self.places.min(64)).map(|_| self.join()).collect();
        others.iter_mut().for_each(flush);
        flush(&mut self.witness);
        drop(others);
        self.process.stop();
    }

    /// Connects one more client. Descriptors are released a moment before places are.
    fn join(&mut self) -> UnixStream {
        for _ in 0..1_000_000 {
            let mut socket = self.process.connect();
            if socket.read_exact(&mut [0; 18]).is_ok() {
                choose(&mut socket);
                return socket;
            }
        }
        panic!("there is no place for a client though none has one");
    }
}

/// Reads to the end of what the other side sends.
fn rest(socket: &mut UnixStream) -> Vec<u8> {
    let mut heard = Vec::new();
    // A connection that is reset has come to its end, too.
    let _ = socket.read_to_end(&mut heard);
    heard
}

/// Sends as much as the server takes, closes this direction, and reads the answers.
fn talk_and_listen(mut socket: UnixStream, bytes: &[u8]) {
    // The server may disconnect a client that breaks the protocol before all is sent.
    let _ = socket.write_all(bytes);
    let _ = socket.shutdown(Shutdown::Write);
    rest(&mut socket);
}

/// Draws numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % end
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.below(256) as u8).collect()
    }

    /// A valid stream that is cut off, with changed bytes, and garbage after it.
    fn garble(&mut self, talk: &[u8]) -> Vec<u8> {
        let mut bytes = talk[..self.below(talk.len() + 1)].to_vec();
        for _ in 0..self.below(4) {
            if !bytes.is_empty() {
                let place = self.below(bytes.len());
                bytes[place] = self.below(256) as u8;
            }
        }
        bytes.append(&mut self.bytes(3000));
        bytes
    }
}

#[test]
fn whoever_leaves_at_any_byte_leaves_nothing_behind() {
    let mut watched = Watched::new("", 64);
    for talk in talks() {
        for cut in cuts(talk.len()) {
            let mut socket = watched.process.connect();
            // A server without a free place closes the connection.
            let _ = socket.write_all(&talk[..cut]);
            drop(socket);
            talk_and_listen(watched.process.connect(), &talk[..cut]);
        }
        flush(&mut watched.witness);
    }
    watched.check();
}

#[test]
fn stopping_at_any_byte_disturbs_no_other_client() {
    let mut watched = Watched::new("handshake_timeout = \"1s\"\nstall_timeout = \"1s\"", 1000);
    let negotiation = &talks()[0][..4 + 16 + 6];
    let mut stopped = Vec::new();
    for cut in 0..negotiation.len() {
        let mut socket = watched.process.connect();
        socket.write_all(&negotiation[..cut]).unwrap();
        stopped.push(socket);
    }
    let mut idle = watched.join();
    for request in requests() {
        for cut in [1, 4, 27, request.len() - 1] {
            let mut socket = watched.join();
            socket.write_all(&request[..cut]).unwrap();
            stopped.push(socket);
        }
    }
    for mut socket in stopped {
        flush(&mut watched.witness);
        // Returns when the server has closed the connection.
        rest(&mut socket);
    }
    flush(&mut idle);
    drop(idle);
    watched.check();
}

#[test]
fn nonsense_harms_nobody_but_who_talks_it() {
    let mut watched = Watched::new("", 64);
    let talks = talks();
    let mut random = Random(1);
    for round in 0..1000 {
        let talk = &talks[random.below(talks.len())];
        let bytes = if round % 4 == 0 { random.bytes(5000) } else { random.garble(talk) };
        let mut socket = watched.process.connect();
        if round % 3 == 0 {
            let _ = socket.write_all(&bytes);
        } else {
            talk_and_listen(socket, &bytes);
        }
        if round % 50 == 0 {
            flush(&mut watched.witness);
        }
    }
    watched.check();
}

#[test]
fn clients_that_only_take_places_give_them_back() {
    let mut watched = Watched::new("", 8);
    for _ in 0..20 {
        let mut takers: Vec<_> = (1..8).map(|_| watched.join()).collect();
        // A client beyond the limit is closed at once.
        assert_eq!(rest(&mut watched.process.connect()), b"");
        flush(&mut watched.witness);
        takers.iter_mut().for_each(flush);
    }
    watched.check();
}

/// Disconnects a client. A process that another test starts at this moment may hold the socket for longer than this one.
fn leave(peer: crate::bench::Peer) {
    // The other side may have closed the connection.
    let _ = peer.socket.shutdown(Shutdown::Both);
}

/// Checks that the engine holds no requests and no clients but the witness, which is served.
fn check_engine(bench: &mut Bench, witness: &mut crate::bench::Peer, when: &str) {
    bench.settle();
    bench.turn();
    let engine = &bench.engine;
    assert_eq!((engine.requests(), engine.buffered_bytes(), engine.clients()), (0, 0, 1), "{when}");
    witness.send(&request(FLUSH, 0, 1, 0, 0));
    bench.settle();
    assert_eq!(witness.answers().len(), 1, "{when}");
}

#[test]
fn an_engine_forgets_clients_leaving_at_any_byte() {
    let requests = [requests().concat(), request(DISCONNECT, 0, 12, 0, 0)].concat();
    for device in [MEMORY, SLOW] {
        let mut bench = Bench::new(device);
        let mut witness = bench.connect(1, true);
        for cut in 0..=requests.len() {
            for (structured, at_once) in [(false, false), (true, true)] {
                let mut peer = bench.connect(0, structured);
                peer.send(&requests[..cut]);
                bench.turn();
                if at_once {
                    leave(peer);
                } else {
                    peer.socket.shutdown(Shutdown::Write).unwrap();
                    bench.settle();
                }
                check_engine(&mut bench, &mut witness, &format!("{device}, {cut} bytes, at once: {at_once}"));
            }
        }
    }
}

#[test]
fn engines_cut_off_clients_stalled_at_any_byte() {
    let mut bench = Bench::new(MEMORY);
    let mut witness = bench.connect(1, true);
    let requests = requests();
    let mut ends = vec![0];
    ends.extend(requests.iter().scan(0, |end, request| {
        *end += request.len();
        Some(*end)
    }));
    let requests = requests.concat();
    for cut in 0..=requests.len() {
        let mut peer = bench.connect(0, true);
        peer.send(&requests[..cut]);
        bench.turn();
        bench.turn();
        bench.now = bench.now.after(Nanos::from_seconds(29));
        bench.turn();
        assert_eq!(bench.engine.clients(), 2, "{cut} bytes");
        bench.now = bench.now.after(Nanos::from_seconds(2));
        bench.turn();
        assert_eq!(bench.engine.clients() == 2, ends.contains(&cut), "{cut} bytes");
        leave(peer);
        bench.turn();
        check_engine(&mut bench, &mut witness, &format!("{cut} bytes"));
    }
}

#[test]
fn an_engine_keeps_nothing_of_whoever_talks_nonsense() {
    let mut bench = Bench::new(MEMORY);
    let mut witness = bench.connect(1, true);
    let requests = requests().concat();
    let mut random = Random(2);
    for round in 0..1000 {
        let mut peer = bench.connect(0, round % 2 == 0);
        peer.send(&random.garble(&requests));
        bench.turn();
        leave(peer);
        check_engine(&mut bench, &mut witness, &format!("round {round}"));
    }
}

/// A device that completes requests at once, with the least memory for data.
const LITTLE: &str = "backend = \"null\"\nsize = \"1GiB\"\nscheduler = \"sfq\"\nbuffer_bytes_max = \"192MiB\"";

#[test]
fn clients_that_do_not_read_leave_others_memory() {
    let mut bench = Bench::new(LITTLE);
    bench.entitle(StreamId(0), Share::weighted(1000));
    let mut slow: Vec<_> = (0..4).map(|_| bench.connect(1, false)).collect();
    for peer in &mut slow {
        for cookie in 0..40 {
            peer.send(&request(READ, 0, cookie, 0, 2 << 20));
        }
    }
    for _ in 0..20 {
        bench.turn();
    }
    assert!(bench.engine.buffered_bytes() > 70 << 20, "they hold what can be borrowed");
    let mut heavy = bench.connect(0, false);
    for cookie in 0..20 {
        heavy.expect(cookie, 2 << 20);
        heavy.send(&request(READ, 0, cookie, 0, 2 << 20));
    }
    let mut answers = 0;
    for _ in 0..10_000 {
        bench.turn();
        answers += heavy.answers().len();
    }
    assert_eq!(answers, 20);
}

/// As many descriptors as this process may have.
fn raise_descriptors() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
}

#[test]
fn thousands_of_silent_clients_stay_within_their_memory() {
    const CLIENTS: u32 = 4_000;
    const BYTES_MAX: u64 = 192 << 20;
    raise_descriptors();
    let mut bench = Bench::new(&format!("{LITTLE}\nrequest_bytes_max = \"8KiB\""));
    bench.clients_max(CLIENTS + 10);
    let within = |bench: &Bench, connected: u32| {
        let held = bench.engine.buffered_bytes() + bench.engine.free_bytes();
        assert!(held <= BYTES_MAX, "{held} bytes of buffers, at {connected} clients");
        let beside = bench.engine.connection_bytes();
        assert!(beside <= (connected as usize) << 20, "{beside} bytes beside them, at {connected} clients");
    };
    let mut peers: Vec<_> = Vec::new();
    for number in 0..CLIENTS {
        let mut peer = bench.connect(1, number % 2 == 0);
        match number % 4 {
            // The client sends only the beginning of a write.
            0 => peer.send(&request(WRITE, 0, 1, 0, 1 << 20)),
            1 => peer.send(&(0..200).flat_map(|cookie| request(FLUSH, 0, cookie, 0, 0)).collect::<Vec<_>>()),
            _ => peer.send(&(0..8).flat_map(|cookie| request(READ, 0, cookie, 0, 1 << 20)).collect::<Vec<_>>()),
        }
        bench.turn();
        within(&bench, number + 1);
        peers.push(peer);
    }
    assert!(bench.engine.buffered_bytes() > 64 << 20, "they hold what they can");
    // One more of the same class is served, whatever they hold.
    let mut one = bench.connect(1, false);
    for cookie in 0..50 {
        one.expect(cookie, 4096);
        one.send(&request(READ, 0, cookie, 4096 * cookie, 4096));
    }
    let mut answers = 0;
    for _ in 0..200 {
        bench.turn();
        answers += one.answers().len();
    }
    assert_eq!(answers, 50);
    within(&bench, CLIENTS + 1);
}

#[test]
fn only_clients_below_the_reading_rate_are_disconnected() {
    for (bytes, is_kept) in [(300 << 10, false), (400 << 10, true)] {
        let mut bench = Bench::new(LITTLE);
        let mut peer = bench.connect(0, false);
        for cookie in 0..40 {
            peer.send(&request(READ, 0, cookie, 0, 1 << 20));
        }
        // The client sends a part of the request every 20 s.
        for _ in 0..20 {
            let mut left = bytes;
            while left > 0 {
                bench.turn();
                let mut piece = vec![0; left.min(4096)];
                match peer.socket.read(&mut piece) {
                    Ok(read) if read > 0 => left -= read,
                    _ => break,
                }
            }
            bench.turn();
            bench.now = bench.now.after(Nanos::from_seconds(20));
            bench.turn();
        }
        assert_eq!(bench.engine.clients() == 1, is_kept, "{bytes} bytes in 20 s");
        assert_eq!(bench.count(EventKind::ClientSlow), u64::from(!is_kept));
    }
}

#[test]
fn idle_clients_are_cut_off_where_specified() {
    let mut bench = Bench::new(SLOW);
    let mut idle = bench.connect(0, true);
    let pass = |bench: &mut Bench, seconds| {
        bench.now = bench.now.after(Nanos::from_seconds(seconds));
        bench.turn();
    };
    pass(&mut bench, 100_000);
    assert_eq!(bench.engine.clients(), 1, "there is no limit unless the spec has one");
    idle.send(&request(READ, 0, 1, 0, 512));
    bench.settle();
    let (prepared, _answer) = channel();
    let (keep, verdict) = channel();
    keep.send(()).unwrap();
    let timeouts = Timeouts { idle: Nanos::from_seconds(60), ..TIMEOUTS };
    let change = Change {
        shares: Vec::new(),
        priorities: Vec::new(),
        timeouts,
        services: Vec::new(),
        exports: None,
        prepared,
        verdict,
    };
    bench.engine.handle().send(Command::Change(Box::new(change)));
    pass(&mut bench, 59);
    assert_eq!(bench.engine.clients(), 1);
    idle.send(&request(READ, 0, 2, 0, 512));
    bench.settle();
    pass(&mut bench, 59);
    assert_eq!((bench.engine.clients(), bench.count(EventKind::ClientIdle)), (1, 0));
    pass(&mut bench, 2);
    assert_eq!((bench.engine.clients(), bench.count(EventKind::ClientIdle)), (0, 1));
}

#[test]
fn slow_senders_are_served_while_they_send() {
    let mut bench = Bench::new(MEMORY);
    let (mut slow, mut other) = (bench.connect(0, true), bench.connect(1, true));
    let message = [request(WRITE, 0, 1, 0, 100), vec![7; 100]].concat();
    for byte in message {
        slow.send(&[byte]);
        bench.now = bench.now.after(Nanos::from_seconds(20));
        bench.turn();
        other.send(&request(FLUSH, 0, 1, 0, 0));
        bench.turn();
        assert_eq!(other.answers().len(), 1, "others are served in the same turn");
    }
    bench.settle();
    assert_eq!(slow.answers().iter().map(|answer| answer.error).collect::<Vec<_>>(), [0]);
    drop(slow);
    bench.turn();
    check_engine(&mut bench, &mut other, "all of it was sent");
}
