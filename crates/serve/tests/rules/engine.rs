//! Rules of the engine without its thread: the effect of each command, what a broken client leaves behind, and which requests wait.

use std::collections::HashMap;
use std::io::Read as _;
use std::net::Shutdown;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use crate::bench::{Answer, Bench, Peer, TIMEOUTS};
use crate::client::*;
use ioweir_config::IoPriority;
use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, Operation, Priority, Step, StreamId, Tag};
use ioweir_serve::engine::{Call, Change, Command, Observer};
use ioweir_serve::nbd::protocol::REQUEST_BYTES_MAX;
use ioweir_serve::nbd::{Export, Replies};

const MEMORY: &str = "backend = \"memory\"\nsize = \"64MiB\"\nscheduler = \"noop\"";

fn ask(bench: &mut Bench, peer: &mut Peer, bytes: &[u8]) -> Vec<Answer> {
    peer.send(bytes);
    bench.settle();
    peer.answers()
}

fn ok(cookie: u64) -> Answer {
    Answer { cookie, error: 0, data: vec![], extents: vec![], contexts: vec![] }
}

fn write(cookie: u64, flags: u16, offset: u64, data: &[u8]) -> Vec<u8> {
    [request(WRITE, flags, cookie, offset, data.len() as u32), data.to_vec()].concat()
}

#[test]
fn written_data_is_read_in_every_reply_form() {
    let mut bench = Bench::new(MEMORY);
    let data: Vec<u8> = (0..10_000_u32).map(|number| number as u8 | 1).collect();
    for structured in [false, true] {
        let mut peer = bench.connect(0, structured);
        // The write neither begins nor ends at a sector.
        assert_eq!(ask(&mut bench, &mut peer, &write(1, 0, 777, &data)), [ok(1)]);
        peer.expect(2, 10_002);
        let answers = ask(&mut bench, &mut peer, &request(READ, 0, 2, 776, 10_002));
        assert_eq!(answers[0].bytes(), [&[0][..], &data, &[0]].concat());
    }
}

/// The streams of the requests that were dispatched, in order.
#[derive(Default)]
struct Streams {
    of: HashMap<Tag, u32>,
    dispatched: Vec<u32>,
}

#[derive(Clone, Default)]
struct Dispatched(Arc<Mutex<Streams>>);

impl Observer for Dispatched {
    fn called(&mut self, _now: Nanos, call: &Call) {
        let Streams { of, dispatched } = &mut *self.0.lock().unwrap();
        match call {
            Call::Submit(request, tag) => drop(of.insert(*tag, request.stream.0)),
            Call::Poll(Step::Dispatch(dispatch)) => dispatched.push(of[&dispatch.tag]),
            _ => {}
        }
    }
}

#[test]
fn class_priorities_apply_at_once_where_supported() {
    let priority = |text: &str| text.parse::<IoPriority>().unwrap().0;
    for (scheduler, uses) in [("mq-deadline", true), ("sfq+mq-deadline:window=64", true), ("deadline", false)] {
        let keys =
            format!("backend = \"emulated\"\nmodel = \"tiny\"\nscheduler = \"{scheduler}\"\ndepth = 1\nmerge = false");
        let idle = priority("idle");
        let mut bench = Bench::with_priorities(&keys, [idle, Priority::NONE, Priority::NONE]);
        let seen = Dispatched::default();
        bench.engine.observe(Box::new(seen.clone()));
        let mut peers = [bench.connect(0, true), bench.connect(1, true)];
        let mut order = |bench: &mut Bench| {
            // The first request is dispatched at once, and keeps the disk busy while the others arrive.
            peers[1].send(&request(READ, 0, 9, 1 << 20, 4096));
            bench.turn();
            for cookie in 0..3 {
                for peer in &mut peers {
                    peer.send(&request(READ, 0, cookie, cookie * 65_536, 4096));
                }
            }
            bench.settle();
            assert_eq!(peers.iter_mut().map(|peer| peer.answers().len()).sum::<usize>(), 7);
            seen.0.lock().unwrap().dispatched.split_off(0)[1..].to_vec()
        };
        let before = order(&mut bench);
        assert_eq!(before == [1, 1, 1, 0, 0, 0], uses, "{scheduler}: {before:?}");

        let ((prepared, _hear), (keep, verdict)) = (channel(), channel());
        keep.send(()).unwrap();
        let priorities = vec![priority("realtime:0"), Priority::NONE, Priority::NONE];
        let change = Change {
            shares: Vec::new(),
            priorities,
            timeouts: TIMEOUTS,
            services: Vec::new(),
            exports: None,
            prepared,
            verdict,
        };
        bench.engine.handle().send(Command::Change(Box::new(change)));
        bench.turn();
        let after = order(&mut bench);
        assert_eq!(after == [0, 0, 0, 1, 1, 1], uses, "{scheduler}: {after:?}");
    }
}

#[test]
fn long_requests_are_split_and_put_together() {
    let mut bench = Bench::new(&format!("{MEMORY}\nrequest_bytes_max = \"64KiB\""));
    let data: Vec<u8> = (0..300_000_u32).map(|number| (number / 7) as u8).collect();
    let mut peer = bench.connect(0, true);
    peer.send_long(&write(1, 0, 5_000, &data), || {
        bench.turn();
    });
    bench.settle();
    assert_eq!(peer.answers(), [ok(1)]);
    for (flags, pieces) in [(0, 5), (DF, 1)] {
        peer.send(&request(READ, flags, 2, 5_000, 300_000));
        let mut answers = Vec::new();
        while answers.is_empty() {
            bench.turn();
            answers = peer.answers();
        }
        assert_eq!(answers[0].bytes(), data);
        assert_eq!(answers[0].data.len(), pieces);
    }
    let mut simple = bench.connect(0, false);
    simple.expect(3, 300_000);
    simple.send(&request(READ, 0, 3, 5_000, 300_000));
    let mut answers = Vec::new();
    while answers.is_empty() {
        bench.turn();
        answers = simple.answers();
    }
    assert_eq!(answers[0].bytes(), data);
    assert_eq!(bench.engine.buffered_bytes(), 0);
}

#[test]
fn the_longest_request_fits_the_smallest_buffers() {
    let mut bench = Bench::new("backend = \"memory\"\nsize = \"65MiB\"\nbuffer_bytes_max = \"192MiB\"");
    let mut peer = bench.connect(0, false);
    let data: Vec<u8> = (0..16_u32 << 20).flat_map(u32::to_be_bytes).collect();
    // The write neither begins nor ends where requests are cut.
    peer.send_long(&write(1, 0, 777, &data), || {
        bench.turn();
    });
    bench.settle();
    assert_eq!(peer.answers(), [ok(1)]);
    peer.expect(2, data.len());
    peer.send(&request(READ, 0, 2, 777, data.len() as u32));
    let mut answers = Vec::new();
    while answers.is_empty() {
        bench.turn();
        answers = peer.answers();
    }
    assert!(answers[0].error == 0 && answers[0].bytes() == data);
    assert_eq!(bench.engine.buffered_bytes(), 0);
}

#[test]
fn holes_are_not_sent_and_are_told_of() {
    let mut bench = Bench::new(MEMORY);
    let mut peer = bench.connect(0, true);
    assert_eq!(ask(&mut bench, &mut peer, &write(1, 0, 1 << 20, &[7; 4096])), [ok(1)]);
    peer.send(&request(READ, 0, 2, 0, 65_536));
    bench.settle();
    let mut raw = [0; 100];
    assert_eq!(peer.socket.read(&mut raw).unwrap(), 20 + 12);
    let answers = ask(&mut bench, &mut peer, &request(BLOCK_STATUS, 0, 3, 0, 2 << 20));
    assert_eq!(answers[0].extents, [(1 << 20, 3), (65_536, 0), ((1 << 20) - 65_536, 3)]);
    let answers = ask(&mut bench, &mut peer, &request(BLOCK_STATUS, REQUEST_ONE, 4, 0, 2 << 20));
    assert_eq!(answers[0].extents, [(1 << 20, 3)]);
}

#[test]
fn zeroes_and_trims_read_as_zeroes() {
    let mut bench = Bench::new(MEMORY);
    let mut peer = bench.connect(0, true);
    for command in [WRITE_ZEROES, TRIM] {
        let sent = [write(1, 0, 0, &[9; 8192]), request(FLUSH, 0, 2, 0, 0)].concat();
        assert_eq!(ask(&mut bench, &mut peer, &sent).len(), 2);
        assert_eq!(ask(&mut bench, &mut peer, &request(command, FUA, 3, 100, 5000)), [ok(3)]);
        let bytes = ask(&mut bench, &mut peer, &request(READ, 0, 4, 0, 8192))[0].bytes();
        assert_eq!(bytes, [&[9; 100][..], &[0; 5000], &[9; 3092]].concat());
    }
    assert_eq!(ask(&mut bench, &mut peer, &request(CACHE, 0, 5, 0, 4096)), [ok(5)]);
}

#[test]
fn invalid_requests_are_answered_and_the_connection_continues() {
    let mut bench = Bench::new(MEMORY);
    let mut peer = bench.connect(2, true);
    let size = 64 << 20;
    let wrong = [
        write(1, 0, 0, b"abc"),
        request(READ, 0, 2, size, 1),
        request(READ, 0, 3, 0, u32::MAX),
        request(77, 0, 4, 0, 0),
        request(TRIM, 0, 5, 0, 512),
        request(FLUSH, 0, 6, 3, 4),
        request(READ, 0, 7, 0, 0),
    ]
    .concat();
    let answers = ask(&mut bench, &mut peer, &wrong);
    let errors: Vec<_> = answers.iter().map(|answer| (answer.cookie, answer.error)).collect();
    assert_eq!(errors, [(1, 1), (2, 22), (3, 22), (4, 22), (5, 1), (6, 22), (7, 0)]);
    // The data of a refused write is dropped, whatever its length.
    let mut writer = bench.connect(0, true);
    writer.send(&request(WRITE, 0, 8, 0, u32::MAX));
    writer.send(&[0; 100_000]);
    bench.turn();
    assert_eq!((bench.engine.buffered_bytes(), writer.answers()[0].error), (0, 28));
}

#[test]
fn garbage_closes_the_connection_and_no_other() {
    let mut bench = Bench::new(MEMORY);
    let (mut good, mut bad) = (bench.connect(0, true), bench.connect(0, true));
    bad.send(&[1; 28]);
    bench.turn();
    bad.answers();
    assert!(bad.is_closed);
    assert_eq!(bench.engine.clients(), 1);
    assert_eq!(ask(&mut bench, &mut good, &request(FLUSH, 0, 1, 0, 0)), [ok(1)]);
}

#[test]
fn a_disconnect_is_followed_by_answers_and_end() {
    let mut bench = Bench::new(MEMORY);
    let mut peer = bench.connect(0, true);
    peer.send(&[write(1, 0, 0, &[1; 512]), request(DISCONNECT, 0, 2, 0, 0)].concat());
    bench.turn();
    assert_eq!((peer.answers(), peer.is_closed, bench.engine.clients()), (vec![ok(1)], true, 0));
    // The end of a client's stream is followed by answers and the end, too.
    let mut peer = bench.connect(0, true);
    peer.send(&write(1, 0, 0, &[1; 512]));
    peer.socket.shutdown(Shutdown::Write).unwrap();
    bench.turn();
    bench.turn();
    assert_eq!((peer.answers(), peer.is_closed, bench.engine.clients()), (vec![ok(1)], true, 0));
}

/// A disk that takes a millisecond for everything, one after the other.
const SLOW: &str = "backend = \"emulated\"\nmodel = \"tiny\"\nscheduler = \"noop\"\nmerge = false";

#[test]
fn a_broken_connection_takes_what_is_queued_along() {
    let mut bench = Bench::new(SLOW);
    let mut peer = bench.connect(0, true);
    let mut other = bench.connect(1, true);
    for cookie in 0..20 {
        peer.send(&write(cookie, 0, cookie * 8192, &[1; 4096]));
    }
    bench.turn();
    assert_eq!(bench.engine.requests(), 20);
    drop(peer);
    bench.turn();
    // One request is with the disk and ends unanswered; the others never get there.
    assert_eq!(bench.engine.requests(), 1);
    assert_eq!(ask(&mut bench, &mut other, &request(FLUSH, 0, 1, 0, 0)), [ok(1)]);
    assert_eq!((bench.engine.requests(), bench.engine.clients(), bench.engine.buffered_bytes()), (0, 1, 0));
    let bytes = ask(&mut bench, &mut other, &request(READ, 0, 2, 0, 20 * 8192))[0].bytes();
    assert_eq!(bytes.iter().filter(|&&byte| byte == 1).count(), 4096);
}

#[test]
fn a_full_class_queue_leaves_room_to_others() {
    let mut bench =
        Bench::new("backend = \"null\"\nsize = \"64MiB\"\nscheduler = \"sfq\"\nmerge = false\nqueue_requests = 2");
    bench.entitle(StreamId(0), Share { limit_per_second: 1, burst: 1, ..Share::weighted(1) });
    let (mut peer, mut other) = (bench.connect(0, true), bench.connect(1, true));
    for cookie in 0..6 {
        peer.send(&request(READ, 0, cookie, 0, 512));
    }
    bench.turn();
    // One request was served. Two wait for the limit and fill the queue; the others of that class are held back, and no other class is.
    other.send(&request(READ, 0, 9, 0, 512));
    bench.turn();
    bench.turn();
    assert_eq!(other.answers().iter().map(|answer| answer.cookie).collect::<Vec<_>>(), [9]);
    assert_eq!(bench.engine.requests(), 5);
    drop(peer);
    bench.turn();
    bench.turn();
    assert_eq!((bench.engine.requests(), bench.engine.clients()), (0, 1));
}

#[test]
fn a_pausing_device_ignores_times_that_are_over() {
    let mut bench = Bench::new("backend = \"null\"\nsize = \"64MiB\"\nscheduler = \"sfq\"\nmerge = false");
    bench.entitle(StreamId(0), Share { limit_per_second: 1, burst: 1, ..Share::weighted(1) });
    let mut peer = bench.connect(0, true);
    for cookie in 0..3 {
        peer.send(&request(READ, 0, cookie, cookie * 8192, 512));
    }
    bench.turn();
    let (ready, hear) = channel();
    bench.engine.handle().send(Command::Pause(Nanos::from_seconds(5), ready));
    bench.turn();
    bench.turn();
    assert_eq!(hear.try_recv(), Ok(Ok(())));
    // The limit would let the next request pass now, but there is nothing to do until the pause ends.
    bench.now = bench.now.after(Nanos::from_seconds(2));
    let due = bench.turn();
    assert!(due > bench.now.after(Nanos::from_seconds(2)), "it would turn without an end: {due} at {}", bench.now);
    bench.settle();
    assert_eq!(peer.answers().len(), 3);
}

#[test]
fn clients_may_idle_but_not_stall() {
    let mut bench = Bench::new(MEMORY);
    let (mut idle, mut half) = (bench.connect(0, true), bench.connect(0, true));
    half.send(&request(WRITE, 0, 1, 0, 4096));
    half.send(&[1; 100]);
    bench.turn();
    bench.now = bench.now.after(Nanos::from_seconds(29));
    bench.turn();
    assert_eq!(bench.engine.clients(), 2);
    bench.now = bench.now.after(Nanos::from_seconds(2));
    bench.turn();
    assert_eq!((bench.engine.clients(), bench.engine.buffered_bytes()), (1, 0));
    half.answers();
    assert!(half.is_closed);
    bench.now = bench.now.after(Nanos::from_seconds(3600));
    assert_eq!(ask(&mut bench, &mut idle, &request(FLUSH, 0, 1, 0, 0)), [ok(1)]);
}

#[test]
fn clients_that_do_not_read_delay_nobody_else() {
    let mut bench = Bench::new("backend = \"null\"\nsize = \"64MiB\"");
    let (mut deaf, mut other) = (bench.connect(0, true), bench.connect(1, true));
    // More requests than sockets hold, and more than a client may have in flight.
    for cookie in 0..200 {
        deaf.send(&request(READ, 0, cookie, 0, 1 << 20));
    }
    for _ in 0..10 {
        bench.turn();
    }
    let held = bench.engine.buffered_bytes();
    assert!(held > 1 << 20 && held <= 128 << 20, "{held} bytes are held");
    assert_eq!(ask_of(&mut bench, &mut other, &request(READ, 0, 1, 0, 65_536))[0].bytes(), [0; 65_536]);
    bench.now = bench.now.after(Nanos::from_seconds(31));
    bench.turn();
    assert_eq!((bench.engine.clients(), bench.engine.requests(), bench.engine.buffered_bytes()), (1, 0, 0));
}

/// Asks as `ask` does, while others have requests in flight.
fn ask_of(bench: &mut Bench, peer: &mut Peer, bytes: &[u8]) -> Vec<Answer> {
    peer.send(bytes);
    let mut answers = Vec::new();
    while answers.is_empty() {
        bench.turn();
        answers = peer.answers();
    }
    answers
}

#[test]
fn a_stop_lets_requests_finish_and_ends() {
    let mut bench = Bench::new(SLOW);
    let mut peer = bench.connect(0, true);
    peer.send(&[write(1, 0, 0, &[1; 4096]), request(WRITE, 0, 2, 8192, 4096)].concat());
    bench.turn();
    bench.engine.handle().send(Command::Stop(None));
    while !bench.stopped {
        let due = bench.turn();
        bench.now = bench.now.max(due.min(bench.now.after(Nanos::from_millis(100))));
    }
    let answers = peer.answers();
    // The second write was never received in full.
    assert_eq!(answers.iter().map(|answer| (answer.cookie, answer.error)).collect::<Vec<_>>(), [(2, 108), (1, 0)]);
    assert!(peer.is_closed);
}

#[test]
fn an_emulated_disk_takes_its_time() {
    let mut bench = Bench::new(SLOW);
    let mut peer = bench.connect(0, true);
    peer.send(&request(READ, 0, 1, 1 << 16, 4096));
    let due = bench.turn();
    assert!(peer.answers().is_empty());
    assert!(due > bench.now.after(Nanos::from_micros(100)) && due < Nanos::from_seconds(1), "{due}");
    bench.now = due;
    bench.turn();
    assert_eq!(peer.answers()[0].bytes(), [0; 4096]);
}

fn wide(bench: &mut Bench) -> Peer {
    bench.connect_for(0, Replies::Extended)
}

fn write_wide(cookie: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    [extended(WRITE, PAYLOAD_LENGTH, cookie, offset, data.len() as u64), data.to_vec()].concat()
}

#[test]
fn extended_headers_carry_what_the_others_do() {
    let mut bench = Bench::new(&format!("{MEMORY}\nrequest_bytes_max = \"64KiB\""));
    let data: Vec<u8> = (0..150_000_u32).map(|number| (number / 3) as u8 | 1).collect();
    let mut peer = wide(&mut bench);
    peer.send_long(&write_wide(1, 5_000, &data), || {
        bench.turn();
    });
    bench.settle();
    assert_eq!(peer.answers(), [ok(1)]);
    for (flags, pieces) in [(0, 3), (DF, 1)] {
        let answers = ask_of(&mut bench, &mut peer, &extended(READ, flags, 2, 5_000, 150_000));
        assert_eq!((answers[0].bytes(), answers[0].data.len()), (data.clone(), pieces));
    }
    let zeroed = ask(&mut bench, &mut peer, &extended(WRITE_ZEROES, FUA, 3, 0, 64 << 20));
    assert_eq!(zeroed, [ok(3)]);
    let all = ask(&mut bench, &mut peer, &extended(BLOCK_STATUS, 0, 4, 0, 64 << 20));
    assert_eq!(all[0].extents, [(64 << 20, 3)]);
    let others = [extended(FLUSH, 0, 5, 0, 0), extended(CACHE, 0, 6, 0, 64 << 20), extended(TRIM, 0, 7, 0, 0)].concat();
    let mut answers = ask(&mut bench, &mut peer, &others);
    answers.sort_by_key(|answer| answer.cookie);
    assert_eq!(answers, [ok(5), ok(6), ok(7)]);
}

#[test]
fn data_that_requests_should_not_have_is_skipped() {
    let mut bench = Bench::new(MEMORY);
    let mut peer = wide(&mut bench);
    let wrong = [
        [extended(BLOCK_STATUS, PAYLOAD_LENGTH, 1, 0, 12), vec![0x25; 12]].concat(),
        [extended(TRIM, PAYLOAD_LENGTH, 2, 0, 512), vec![0x25; 512]].concat(),
        [extended(77, PAYLOAD_LENGTH, 3, 0, 4), vec![0x25; 4]].concat(),
        [extended(WRITE, 0, 4, 0, 512), vec![0x25; 512]].concat(),
        extended(READ, 0, 5, 1, 64 << 20),
        write_wide(6, 64 << 20, b"past the end"),
        extended(FLUSH, 0, 7, 0, 0),
    ]
    .concat();
    let answers = ask(&mut bench, &mut peer, &wrong);
    let mut errors: Vec<_> = answers.iter().map(|answer| (answer.cookie, answer.error)).collect();
    errors.sort_unstable();
    assert_eq!(errors, [(1, 22), (2, 22), (3, 22), (4, 0), (5, 22), (6, 28), (7, 0)]);
    peer.send(&extended(WRITE, PAYLOAD_LENGTH, 8, 0, 1 << 40));
    bench.turn();
    peer.answers();
    assert!(peer.is_closed, "nobody sends a terabyte in one request");
}

/// The number of discards that the scheduler has at once, and their length.
#[derive(Default)]
struct Discards {
    held: u32,
    held_most: u32,
    sectors_most: u32,
    count: u32,
}

struct Counter(Arc<Mutex<Discards>>);

impl Observer for Counter {
    fn called(&mut self, _now: Nanos, call: &Call) {
        let mut seen = self.0.lock().expect("nobody panicked");
        match call {
            Call::Submit(request, _) if request.operation == Operation::Discard => {
                seen.held += 1;
                seen.count += 1;
                seen.held_most = seen.held_most.max(seen.held);
                seen.sectors_most = seen.sectors_most.max(request.sectors);
            }
            // The client sends nothing else while the calls are counted.
            Call::Complete(_) | Call::Cancel(_, Ok(_)) => seen.held = seen.held.saturating_sub(1),
            _ => {}
        }
    }
}

#[test]
fn a_terabyte_is_zeroed_piecewise_between_other_requests() {
    let mut bench = Bench::new("backend = \"null\"\nsize = \"1TiB\"\nscheduler = \"noop\"");
    let seen = Arc::new(Mutex::new(Discards::default()));
    bench.engine.observe(Box::new(Counter(Arc::clone(&seen))));
    let (mut peer, mut other) = (wide(&mut bench), bench.connect(1, true));
    peer.send(&extended(WRITE_ZEROES, 0, 1, 4096, (1 << 40) - 4096));
    bench.turn();
    assert!(bench.turn() <= bench.now, "it goes on at once");
    assert_eq!(ask_of(&mut bench, &mut other, &request(READ, 0, 2, 0, 512))[0].bytes(), [0; 512]);
    assert!(peer.answers().is_empty(), "a terabyte is not done in three turns");
    bench.settle();
    assert_eq!(peer.answers(), [ok(1)]);
    let seen = seen.lock().unwrap();
    let most = REQUEST_BYTES_MAX;
    let parts = (1_u64 << 40) / u64::from(most);
    assert_eq!((seen.held_most, seen.sectors_most, u64::from(seen.count)), (1, most / 512, parts));
}

#[test]
fn long_ranges_end_with_their_client_or_error() {
    let mut bench = Bench::new("backend = \"null\"\nsize = \"1TiB\"\nscheduler = \"noop\"");
    let mut peer = wide(&mut bench);
    peer.send(&extended(TRIM, 0, 1, 0, 1 << 40));
    bench.turn();
    drop(peer);
    for _ in 0..3 {
        bench.turn();
    }
    assert_eq!((bench.engine.requests(), bench.engine.clients()), (0, 0));
    let faults = "backend = \"faulty\"\nsize = \"256MiB\"\n[device.faults]\nerrors_per_million = 1000000";
    let mut bench = Bench::new(faults);
    let mut peer = wide(&mut bench);
    let answers = ask(&mut bench, &mut peer, &extended(TRIM, 0, 1, 0, 256 << 20));
    assert_eq!((answers[0].cookie, answers[0].error), (1, 5));
}

#[test]
fn an_export_is_one_slice_of_its_device() {
    let mut bench = Bench::new(&format!("{MEMORY}\nrequest_bytes_max = \"8KiB\""));
    let export = |offset_bytes: u64, size_bytes: u64| Export {
        name: format!("at {offset_bytes}"),
        description: String::new(),
        offset_bytes,
        size_bytes,
        read_only: false,
        block_bytes_min: 1,
        block_bytes_preferred: 4096,
        trims: true,
    };
    let exports = [export(0, 64 << 20), export(1 << 20, 1 << 20), export(2 << 20, 1 << 20)];
    bench.engine.configure(Arc::new(exports), &[]).unwrap();
    let (mut whole, mut slice) = (bench.connect(0, true), bench.connect(1, true));
    for cookie in [1, 2] {
        assert_eq!(ask(&mut bench, &mut whole, &write(cookie, 0, (cookie + 1) << 19, &[9; 4096])), [ok(cookie)]);
    }
    assert_eq!(ask(&mut bench, &mut slice, &write(3, 0, 777, &[5; 20_000])), [ok(3)]);
    let answers = ask(&mut bench, &mut slice, &request(READ, 0, 4, 0, 32_768));
    assert_eq!(answers[0].data.iter().map(|(offset, _)| *offset).min(), Some(0), "places are those on the export");
    let bytes = answers[0].bytes();
    assert_eq!((&bytes[..777], &bytes[777..20_777]), (&[9; 777][..], &[5; 20_000][..]));
    let bytes = ask(&mut bench, &mut whole, &request(READ, 0, 5, (1 << 20) + 777, 20_000))[0].bytes();
    assert_eq!(bytes, [5; 20_000]);
    for command in [TRIM, WRITE_ZEROES] {
        assert_eq!(ask(&mut bench, &mut slice, &request(command, 0, 6, 4096, 4096)), [ok(6)]);
    }
    assert_eq!(ask(&mut bench, &mut whole, &request(READ, 0, 7, (1 << 20) + 4096, 4096))[0].bytes(), [0; 4096]);
    for (command, error) in [(READ, 22), (TRIM, 28)] {
        assert_eq!(ask(&mut bench, &mut slice, &request(command, 0, 8, (1 << 20) - 1, 2))[0].error, error);
    }
}
