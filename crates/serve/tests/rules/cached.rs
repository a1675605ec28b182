//! Rules of a read cache whose copies are damaged, over a slow tier that is right.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use crate::checksums::{Direct, pool};
use crate::client::*;
use ioweir_serve::backend::RemarkKind;
use ioweir_serve::backend::checked::Workers;
use ioweir_serve::backend::{Backend as _, Cached, Faulty, Media, Outcome, TierStatus, Tiers, Verifier as _};
use ioweir_serve::control::{Command, ask};
use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::{Faults, Spec};
use serde_json::json;

/// A device with four blocks in its cache, and its media, of which every block can be damaged: the slow one and the fast one.
fn filled(inline_bytes_max: u64) -> (Direct, Media, Media) {
    let (slow, fast) = (Media::new(1 << 20), Media::new(64 << 10));
    let tier = |media: &Media| Box::new(Faulty::new(media.clone(), Faults::default()));
    let cached = Cached::open(tier(&slow), tier(&fast)).unwrap();
    let mut direct = Direct::new(Box::new(cached), Workers { inline_bytes_max, ..pool("baseline", 1, 4) });
    direct.write(0, &[&[1; 16_384]]).unwrap();
    fill(&mut direct);
    (direct, slow, fast)
}

/// The first read misses and is remembered; the second misses and is copied.
fn fill(direct: &mut Direct) {
    for _ in 0..2 {
        assert_eq!(direct.read(0, &[16_384]).1, Ok(Outcome::Plain));
    }
}

fn rot(media: &Media) {
    (0..media.size_bytes()).step_by(4096).for_each(|byte| media.flip(byte + 7, 3));
}

#[test]
fn damaged_copies_are_dropped_and_originals_read() {
    for inline_bytes_max in [0, u64::MAX] {
        let (mut direct, _slow, fast) = filled(inline_bytes_max);
        rot(&fast);
        assert_eq!(direct.read(100, &[3_000, 6_000]), (vec![1; 9_000], Ok(Outcome::Plain)));
        let said = direct.checked.remarks();
        let told =
            |offset: u64| format!("a copy of the 4096 bytes at {offset} was damaged: they were read from elsewhere");
        assert_eq!(said, [0, 4096, 8192].map(|offset| (RemarkKind::CopyDamaged, told(offset))));
        // The damaged copies were dropped, so the next read comes from the slow tier.
        assert_eq!(direct.read(0, &[12_288]), (vec![1; 12_288], Ok(Outcome::Plain)));
        let counts = direct.checked.counts();
        assert_eq!((direct.checked.remarks(), counts.blocks_damaged, counts.copies_damaged), (vec![], 0, 3));
    }
}

#[test]
fn partial_writes_over_damaged_copies_keep_the_original() {
    for (inline_bytes_max, first, length) in [(0, 5_000, 6_000), (u64::MAX, 5_000, 6_000), (0, 5_000, 10)] {
        let (mut direct, slow, fast) = filled(inline_bytes_max);
        rot(&fast);
        assert_eq!(direct.write(first as u64, &[&vec![2; length]]), Ok(Outcome::Plain));
        let expected = [vec![1; first], vec![2; length], vec![1; 16_384 - first - length]].concat();
        assert_eq!(direct.read(0, &[16_384]), (expected.clone(), Ok(Outcome::Plain)));
        assert!(slow.contents()[..16_384] == expected);
    }
}

#[test]
fn damage_on_the_slow_tier_is_an_error() {
    let (mut direct, slow, _fast) = filled(0);
    // A write takes its block out of the cache.
    direct.write(0, &[&[1; 4096]]).unwrap();
    slow.flip(7, 3);
    for _ in 0..4 {
        assert_eq!(direct.read(0, &[8192]).1, Ok(Outcome::Damaged(vec![0])));
    }
    assert_eq!(direct.checked.counts().blocks_damaged, 4);
}

#[test]
fn what_tiers_hold_and_serve_is_counted() {
    let (mut direct, _slow, _fast) = filled(0);
    let status = TierStatus {
        held_bytes: 16_384,
        room_bytes: 64 << 10,
        fast_read_bytes: 0,
        fast_written_bytes: 16_384,
        slow_read_bytes: 32_768,
        slow_written_bytes: 16_384,
    };
    assert_eq!(direct.checked.tiers().map(Tiers::status), Some(status));
    direct.read(4096, &[8192]).1.unwrap();
    assert_eq!(direct.checked.tiers().map(Tiers::status), Some(TierStatus { fast_read_bytes: 8192, ..status }));
}

#[test]
fn state_and_metrics_show_a_devices_tiers() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let text = format!(
        "[server]\nlisten = [\"unix:{at}/s\"]\ncontrol = \"unix:{at}/control\"\nwatch = \"unix:{at}/watch\"\n[[device]]\nname = \"d\"\n\
         backend = \"tiered\"\nscheduler = \"bid-hybrid\"\n[device.slow]\nbackend = \"memory\"\nsize = \"64MiB\"\n\
         [device.fast]\nbackend = \"memory\"\nsize = \"1MiB\"\n[[export]]\nname = \"export\"\ndevice = \"d\"\n"
    );
    let server =
        Server::start(&Spec::parse("test", &text).unwrap(), Entrance::Listeners(Vec::new()), false, None).unwrap();
    let mut client = UnixStream::connect(folder.path().join("s")).unwrap();
    agree(&mut client);
    client.write_all(&[request(WRITE, 0, 1, 4096, 4096), vec![1; 4096]].concat()).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
    let state = ask(&folder.path().join("control"), &Command::State {}).unwrap();
    let expected = json!({
        "held_bytes": 4096, "room_bytes": (1 << 20) - 4096, "fast_read_bytes": 0, "fast_written_bytes": 4096,
        "slow_read_bytes": 0, "slow_written_bytes": 0
    });
    assert_eq!(state["devices"][0]["tiers"], expected);
    let metrics = metrics(folder.path());
    for line in [
        "ioweir_tier_held_bytes{device=\"d\"} 4096.0",
        "ioweir_tier_room_bytes{device=\"d\"} 1044480.0",
        "ioweir_tier_written_bytes_total{device=\"d\",tier=\"fast\"} 4096",
        "ioweir_tier_read_bytes_total{device=\"d\",tier=\"slow\"} 0",
    ] {
        assert!(metrics.lines().any(|its| its == line), "{line}");
    }
    server.stopper().stop();
    server.wait().unwrap();
}
