//! Rules of upstreams, with a sham one that the test controls.

use ioweir_core::Nanos;
use ioweir_serve::backend::open;
use ioweir_serve::log::EventKind;
use ioweir_serve::nbd::protocol::{
    EXPORT_CAN_MULTI_CONN, EXPORT_READ_ONLY, EXPORT_SEND_FLUSH, EXPORT_SEND_FUA, EXPORT_SEND_TRIM,
    EXPORT_SEND_WRITE_ZEROES,
};
use ioweir_serve::spec::Spec;

use super::sham::{ALL, Manner, SIZE, Sham};
use crate::bench::{Bench, Peer, device};
use crate::client::*;

const EIO: u32 = 5;

/// A client of a device.
struct Asking {
    bench: Bench,
    peer: Peer,
    cookie: u64,
}

impl Asking {
    fn of(keys: &str) -> Self {
        let mut bench = Bench::new(keys);
        let peer = bench.connect(0, false);
        Self { bench, peer, cookie: 0 }
    }

    fn send(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> u64 {
        self.cookie += 1;
        if command == READ {
            self.peer.expect(self.cookie, length as usize);
        }
        let bytes = [&request(command, flags, self.cookie, offset, length)[..], data].concat();
        self.peer.send(&bytes);
        self.cookie
    }

    /// Runs turns until a condition holds; each turn advances time by a millisecond.
    fn until(&mut self, what: &str, mut is: impl FnMut(&mut Self) -> bool) {
        for _ in 0..20_000 {
            if is(self) {
                return;
            }
            self.bench.now = self.bench.now.after(Nanos::from_millis(1));
            self.bench.turn();
            self.bench.engine.wait(Nanos::from_millis(1)).unwrap();
        }
        panic!("it never comes to this: {what}");
    }

    /// The error of the answer to the request with this cookie.
    fn answer(&mut self, cookie: u64) -> u32 {
        let mut error = None;
        self.until("an answer", |asking| {
            error = asking.peer.answers().into_iter().find(|answer| answer.cookie == cookie).map(|answer| answer.error);
            error.is_some()
        });
        error.unwrap()
    }

    fn ask(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> u32 {
        let cookie = self.send(command, flags, offset, length, &[]);
        self.answer(cookie)
    }

    fn write(&mut self, flags: u16, offset: u64, value: u8) -> u32 {
        let cookie = self.send(WRITE, flags, offset, 4096, &[value; 4096]);
        self.answer(cookie)
    }

    fn read(&mut self, offset: u64) -> Result<u8, u32> {
        let cookie = self.send(READ, 0, offset, 4096, &[]);
        let mut read = None;
        self.until("a read", |asking| {
            read = asking.peer.answers().into_iter().find(|answer| answer.cookie == cookie);
            read.is_some()
        });
        let answer = read.unwrap();
        let bytes = answer.bytes();
        if answer.error != 0 {
            return Err(answer.error);
        }
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "what is read is whole");
        Ok(bytes[0])
    }

    fn counts(&self, kind: EventKind) -> u64 {
        self.bench.count(kind)
    }
}

fn asked(sham: &Sham, command: u16) -> Vec<(u16, u16, u64, u32)> {
    sham.manner().asked.iter().copied().filter(|asked| asked.0 == command).collect()
}

#[test]
fn requests_in_flight_survive_an_upstreams_death() {
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::new(folder.path());
    let mut asking = Asking::of(&sham.keys("connections = 1"));
    assert_eq!(asking.write(0, 0, 7), 0);
    sham.set(|manner| manner.held = vec![READ, WRITE]);
    let write = asking.send(WRITE, 0, 8192, 4096, &[9; 4096]);
    let read = asking.send(READ, 0, 0, 4096, &[]);
    asking.until("both are with it", |_| !asked(&sham, WRITE)[1..].is_empty());
    sham.die(false);
    asking.until("that is noticed", |asking| asking.counts(EventKind::UpstreamBroken) == 1);
    sham.set(|manner| manner.held.clear());
    sham.revive();
    let mut answers = Vec::new();
    asking.until("both are answered", |asking| {
        answers.extend(asking.peer.answers());
        answers.len() == 2
    });
    assert!(answers.iter().all(|answer| answer.error == 0 && [read, write].contains(&answer.cookie)), "{answers:?}");
    assert_eq!(asking.read(8192), Ok(9));
    assert_eq!(asking.ask(FLUSH, 0, 0, 0), 0);
}

#[test]
fn lost_writes_are_repeated_before_reads_and_flushes() {
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::new(folder.path());
    let mut asking = Asking::of(&sham.keys("connections = 1"));
    assert_eq!((asking.write(0, 0, 1), asking.write(0, 4096, 2)), (0, 0));
    assert_eq!(asking.ask(FLUSH, 0, 0, 0), 0);
    assert_eq!((asking.write(FUA, 8192, 5), asking.write(0, 0, 3), asking.write(0, 0, 4)), (0, 0, 0));
    assert_eq!(asking.ask(WRITE_ZEROES, 0, 4096, 4096), 0);
    let before = asked(&sham, WRITE).len();
    sham.die(true);
    sham.revive();
    assert_eq!((asking.read(0), asking.read(4096), asking.read(8192)), (Ok(4), Ok(0), Ok(5)));
    let again: Vec<_> = asked(&sham, WRITE).split_off(before);
    assert_eq!(
        again.iter().map(|asked| asked.2).collect::<Vec<_>>(),
        [0],
        "only what no flush covers, and its last value"
    );
    assert_eq!(asking.ask(FLUSH, 0, 0, 0), 0);
    sham.die(true);
    sham.revive();
    assert_eq!((asking.read(0), asking.read(4096)), (Ok(4), Ok(0)), "the flush has covered it");
    assert_eq!(asked(&sham, WRITE).len(), before + 1, "and nothing is written again");
}

#[test]
fn without_kept_writes_an_upstreams_death_fails_devices() {
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::new(folder.path());
    let mut asking = Asking::of(&sham.keys("connections = 1\nunflushed_max = \"0B\""));
    assert_eq!(asking.write(0, 0, 1), 0);
    assert_eq!(asking.ask(FLUSH, 0, 0, 0), 0);
    sham.die(true);
    sham.revive();
    assert_eq!(asking.read(0), Ok(1));
    assert_eq!(asking.ask(FLUSH, 0, 0, 0), 0, "nothing was lost: everything was flushed");
    assert_eq!(asking.write(0, 0, 2), 0);
    sham.die(true);
    sham.revive();
    assert_eq!(asking.read(0), Ok(1), "it is lost");
    assert_eq!(asking.counts(EventKind::UpstreamLoss), 1);
    assert_eq!(asking.ask(FLUSH, 0, 0, 0), EIO);
    assert_eq!((asking.write(0, 0, 3), asking.read(0)), (EIO, Ok(1)), "the device has failed");
}

#[test]
fn stated_write_through_upstreams_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::like(folder.path(), ALL & !EXPORT_SEND_FLUSH & !EXPORT_SEND_FUA);
    let refused = ioweir_serve::backend::open(&device(&sham.keys("")), &mut [], None).err().unwrap();
    assert!(refused.contains("it cannot flush") && refused.contains("write_through = true"), "{refused}");
    let mut asking = Asking::of(&sham.keys("connections = 1\nwrite_through = true"));
    assert_eq!((asking.write(FUA, 0, 1), asking.ask(FLUSH, 0, 0, 0)), (0, 0));
    assert_eq!(asked(&sham, FLUSH), [], "it cannot, and need not");
    sham.die(false);
    sham.revive();
    assert_eq!((asking.ask(FLUSH, 0, 0, 0), asking.read(0)), (0, Ok(1)));
    assert_eq!(asked(&sham, WRITE).len(), 1, "nothing is written again");
}

#[test]
fn flushes_use_connections_that_vouch_for_their_writes() {
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::new(folder.path());
    let mut asking = Asking::of(&sham.keys("connections = 2\nunflushed_max = \"0B\""));
    asking.until("there are two connections", |_| asked_connections(&sham) == 2);
    assert_eq!(asking.write(0, 0, 1), 0);
    // The other connection existed when the write was answered, and vouches for it.
    sham.break_one(0);
    asking.until("that is noticed", |asking| asking.counts(EventKind::UpstreamBroken) == 1);
    assert_eq!(asking.ask(FLUSH, 0, 0, 0), 0, "the connection that is left vouches for it");
    asking.until("there are two again", |_| asked_connections(&sham) == 2);
    assert_eq!(asking.write(0, 0, 2), 0);
    sham.break_one(0);
    asking.until("there are two again", |_| asked_connections(&sham) == 2);
    sham.break_one(0);
    asking.until("both were lost in turn", |asking| asking.counts(EventKind::UpstreamBroken) == 3);
    assert_eq!(asking.ask(FLUSH, 0, 0, 0), EIO, "nobody who is left was there when that was answered");
}

fn asked_connections(sham: &Sham) -> usize {
    sham.manner().live()
}

#[test]
fn missing_features_are_emulated_or_not_offered() {
    let folder = tempfile::tempdir().unwrap();
    let lacks = EXPORT_SEND_FUA | EXPORT_SEND_TRIM | EXPORT_SEND_WRITE_ZEROES | EXPORT_CAN_MULTI_CONN;
    let sham = Sham::like(folder.path(), ALL & !lacks);
    let mut asking = Asking::of(&sham.keys(""));
    assert_eq!(asking.write(FUA, 4096, 1), 0);
    assert_eq!(
        (asked(&sham, WRITE)[0].1, asked(&sham, FLUSH).len()),
        (0, 2),
        "a durable write is a write and a flush, after that at the beginning"
    );
    assert_eq!(asking.ask(WRITE_ZEROES, 0, 0, 1 << 20), 0);
    assert!(asked(&sham, WRITE_ZEROES).is_empty() && asked(&sham, WRITE).len() == 5, "zeroes are sent, in pieces");
    assert_eq!(asking.read(4096), Ok(0));
    assert_eq!(asking.ask(WRITE_ZEROES, FAST_ZERO, 0, 4096), 95);
    let spec = format!("[[device]]\nname = \"d\"\n{}[[export]]\nname = \"a\"\ndevice = \"d\"\n", sham.keys(""));
    let said = ioweir_serve::server::check(&Spec::parse("test", &spec).unwrap()).unwrap();
    for words in ["no FUA", "no trim: it is not offered", "zeroes: they are sent", "no block status", "not several"] {
        assert!(said[0].contains(words), "{words}: {said:?}");
    }
}

#[test]
fn joined_upstreams_are_shown_with_what_they_lack() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let shams = [Sham::like(folders[0].path(), ALL & !EXPORT_SEND_TRIM), Sham::new(folders[1].path())];
    let [upstream, other] = [&shams[0], &shams[1]].map(|sham| sham.keys(""));
    let memory = "backend = \"memory\"\nsize = \"1MiB\"\n";
    let map = folders[0].path().join("map");
    let placed = format!("scheduler = \"bid-hybrid\"\nmap = \"{}\"\n", map.display());
    for (kind, keys, places) in [
        (
            "joined",
            format!("[[device.part]]\nname = \"x\"\n{memory}[[device.part]]\nname = \"y\"\n{upstream}"),
            &["part y"][..],
        ),
        ("tiered", format!("cache = \"read\"\n[device.slow]\n{upstream}[device.fast]\n{memory}"), &["slow tier"]),
        ("tiered", format!("{placed}[device.slow]\n{upstream}[device.fast]\n{other}"), &["slow tier", "fast tier"]),
    ] {
        let part = if kind == "joined" { "part = \"y\"\n" } else { "" };
        let head = format!("[[device]]\nname = \"d\"\nbackend = \"{kind}\"\n{keys}");
        let text = format!("{head}[[export]]\nname = \"a\"\ndevice = \"d\"\n{part}");
        let spec = Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}"));
        let said = ioweir_serve::server::check(&spec).unwrap();
        assert_eq!(said.len(), places.len(), "{said:?}");
        for (said, place) in said.iter().zip(places) {
            assert!(said.starts_with(&format!("device d: {place}: upstream ")), "{said}");
        }
        assert!(said[0].contains("no trim: it is not offered"), "{said:?}");
        let backend = open(&spec.device[0], &mut [], None).unwrap();
        assert!(!backend.trims(), "{kind}");
        let status = backend.upstream().unwrap();
        assert!(status.connections as usize >= places.len() && status.down_seconds.is_none(), "{kind}: {status:?}");
        assert_eq!(status.name.matches("unix:").count(), places.len(), "{status:?}");
    }
}

#[test]
fn other_upstreams_in_its_place_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::new(folder.path());
    let mut asking = Asking::of(&sham.keys("connections = 1"));
    assert_eq!(asking.write(0, 0, 1), 0);
    type Change = fn(&mut Manner);
    let others: [(&str, Change); 4] = [
        ("size", |manner| manner.size = SIZE / 2),
        ("read-only", |manner| manner.flags |= EXPORT_READ_ONLY),
        ("blocks", |manner| manner.block_min = 512),
        ("flags", |manner| manner.flags &= !EXPORT_SEND_FUA),
    ];
    for (number, (what, change)) in others.into_iter().enumerate() {
        sham.die(false);
        sham.set(change);
        sham.revive();
        let read = asking.send(READ, 0, 0, 4096, &[]);
        let refused = number as u64 + 1;
        asking.until(what, |asking| asking.counts(EventKind::UpstreamRefused) >= refused);
        assert!(asking.peer.answers().is_empty(), "nothing is read from it");
        sham.die(false);
        sham.set(|manner| (manner.size, manner.flags, manner.block_min) = (SIZE, ALL, 1));
        sham.revive();
        assert_eq!(asking.answer(read), 0);
    }
}

#[test]
fn requests_fail_after_the_limit_until_upstreams_return() {
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::new(folder.path());
    let mut asking = Asking::of(&sham.keys("connections = 1\nreconnect_limit = \"2s\""));
    assert_eq!(asking.write(0, 0, 1), 0);
    sham.die(true);
    assert_eq!(asking.read(0), Err(EIO));
    assert_eq!(asking.counts(EventKind::UpstreamGone), 1);
    assert_eq!(asking.read(0), Err(EIO), "and so does what comes after it");
    sham.revive();
    asking.until("it is back", |asking| asking.counts(EventKind::UpstreamBack) > 0);
    assert_eq!(asking.read(0), Ok(1), "with what it had answered");
    assert_eq!(asking.ask(FLUSH, 0, 0, 0), 0);
}

#[test]
fn upstreams_that_break_the_protocol_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::new(folder.path());
    let mut asking = Asking::of(&sham.keys("connections = 1"));
    assert_eq!(asking.write(0, 0, 6), 0);
    let cookie_of_nobody = [&0x6744_6698_u32.to_be_bytes()[..], &[0; 4], &[0xff; 8], &[1; 4096]].concat();
    for nonsense in [vec![0; 64], cookie_of_nobody] {
        sham.set(|manner| manner.nonsense = Some(nonsense));
        assert_eq!(asking.read(0), Ok(6), "it is read over another connection");
    }
    assert_eq!(asking.counts(EventKind::UpstreamBroken), 2);
}

#[test]
fn errors_of_upstreams_are_errors_of_their_devices() {
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::new(folder.path());
    let mut asking = Asking::of(&sham.keys(""));
    sham.set(|manner| manner.fails = vec![(READ, 5), (WRITE, 28)]);
    assert_eq!((asking.read(0), asking.write(0, 0, 1)), (Err(EIO), 28));
    assert_eq!(asking.counts(EventKind::OperationFailed), 2);
    // An upstream that is about to stop breaks the connection with this error instead of answering.
    sham.set(|manner| manner.fails = vec![(READ, 108)]);
    let read = asking.send(READ, 0, 0, 4096, &[]);
    asking.until("it was left", |asking| asking.counts(EventKind::UpstreamBroken) > 0);
    sham.set(|manner| manner.fails = vec![(FLUSH, 28)]);
    assert_eq!(asking.answer(read), 0);
    assert_eq!(asking.ask(FLUSH, 0, 0, 0), EIO, "whether nothing was lost is not known");
    assert_eq!(asking.write(0, 0, 1), EIO);
}

#[test]
fn kept_writes_are_bounded_and_flushed_in_time() {
    const BYTES: u64 = 64 << 10;
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::new(folder.path());
    let mut asking = Asking::of(&sham.keys("connections = 2\nunflushed_max = \"8MiB\""));
    asking.until("there are two connections", |_| asked_connections(&sham) == 2);
    sham.set(|manner| manner.held = vec![FLUSH]);
    let mut written = 0;
    let waits = loop {
        let cookie = asking.send(WRITE, 0, written * BYTES, BYTES as u32, &[1; BYTES as usize]);
        let mut is_answered = false;
        for _ in 0..400 {
            asking.bench.turn();
            asking.bench.engine.wait(Nanos::from_millis(1)).unwrap();
            is_answered |= asking.peer.answers().iter().any(|answer| answer.cookie == cookie);
            if is_answered {
                break;
            }
        }
        if !is_answered {
            break cookie;
        }
        written += 1;
        assert!(written * BYTES < 9 << 20, "it is bounded");
    };
    assert!(written * BYTES > 7 << 20, "{written} writes were answered");
    assert_eq!(asked(&sham, FLUSH).len(), 2, "the server flushes by itself, after that at the beginning");
    sham.set(|manner| manner.held.clear());
    assert_eq!(asking.answer(waits), 0);
}

#[test]
fn devices_of_hanging_upstreams_count_as_hanging() {
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::new(folder.path());
    let mut asking = Asking::of(&sham.keys("timeout = \"1s\""));
    sham.set(|manner| manner.held = vec![READ]);
    let read = asking.send(READ, 0, 0, 4096, &[]);
    asking.until("it is with it", |_| !asked(&sham, READ).is_empty());
    asking.bench.now = asking.bench.now.after(Nanos::from_seconds(600));
    asking.bench.turn();
    assert!(asking.peer.answers().is_empty(), "it is neither answered nor asked again");
    assert_eq!((asked(&sham, READ).len(), asking.counts(EventKind::UpstreamBroken)), (1, 0));
    assert_eq!(asking.counts(EventKind::DeviceHangs), 1);
    sham.set(|manner| manner.held.clear());
    assert_eq!(asking.answer(read), 0);
}

#[test]
fn exports_have_the_block_sizes_of_their_upstream() {
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::new(folder.path());
    sham.set(|manner| manner.block_min = 512);
    let opened = ioweir_serve::backend::open(&device(&sham.keys("")), &mut [], None).unwrap();
    assert_eq!(ioweir_serve::backend::Shape::of(&*opened).block_bytes_min, 512);
    let text = |size: &str| {
        format!(
            "[[device]]\nname = \"d\"\n{}[[export]]\nname = \"a\"\ndevice = \"d\"\nsize = \"{size}\"\n",
            sham.keys("")
        )
    };
    let check = |size: &str| ioweir_serve::server::check(&Spec::parse("test", &text(size)).unwrap());
    assert!(check("4KiB").is_ok());
    let refused = check("1000B").unwrap_err().to_string();
    assert!(refused.contains("not of whole blocks of device d, which are of 512 bytes"), "{refused}");
    sham.set(|manner| manner.block_min = 64 << 10);
    let refused = check("4KiB").unwrap_err().to_string();
    assert!(refused.contains("65536 bytes at least"), "{refused}");
}

#[test]
fn the_example_is_read() {
    let spec = Spec::parse("upstream.toml", include_str!("../../../../../examples/upstream.toml")).unwrap();
    assert_eq!(spec.device[0].backend.name(), "nbd");
    assert_eq!(
        Spec::parse("again", &spec.to_toml()).map(|again| again.device),
        Ok(spec.device),
        "and written as it is read"
    );
}

#[test]
fn upstreams_are_used_once_with_checked_keys() {
    let spec = |keys: &str| {
        let text =
            format!("[[device]]\nname = \"d\"\nbackend = \"nbd\"\n{keys}\n[[export]]\nname = \"a\"\ndevice = \"d\"\n");
        Spec::parse("test", &text).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(spec("address = \"unix:/run/s\""), Ok(()));
    for (keys, words) in [
        ("", "needs the key `address`"),
        ("address = \"tcp:host:10809\"", "is not an address with a port"),
        ("address = \"unix:/s\"\nconnections = 17", "connections: 17 is out of range"),
        ("address = \"unix:/s\"\nwrite_through = true\nunflushed_max = \"8MiB\"", "nothing has to be kept"),
        ("address = \"unix:/s\"\nunflushed_max = \"1MiB\"", "unflushed_max: 1MiB is out of range"),
        (
            "address = \"unix:/s\"\ntls = { authority = \"/nonexistent.pem\" }",
            "authority: /nonexistent.pem: cannot be read",
        ),
        ("address = \"unix:/s\"\npath = \"x\"", "backend nbd takes no key `path`"),
    ] {
        let error = spec(keys).unwrap_err();
        assert!(error.contains(words), "{keys}: {error}");
        assert!(error.starts_with("test:"), "{error}");
    }
    let twice = "address = \"unix:/s\"\n[[device]]\nname = \"e\"\nbackend = \"nbd\"\naddress = \"unix:/s\"";
    assert!(spec(twice).unwrap_err().contains("is used already"));
}
