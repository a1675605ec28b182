//! A read cache that rots: what it holds is not what was read from the slow tier, which is right.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use crate::checksums::{Direct, pool};
use ioweir_serve::backend::checked::Workers;
use ioweir_serve::backend::{Backend as _, Cached, Faulty, Media, Outcome};
use ioweir_serve::spec::Faults;

/// Four blocks that are in the cache, and its media: the slow one, and the fast one, of which every block can rot.
fn filled(inline_bytes_max: u64) -> (Direct, Media, Media) {
    let (slow, fast) = (Media::new(1 << 20), Media::new(64 << 10));
    let tier = |media: &Media| Box::new(Faulty::new(media.clone(), Faults::default()));
    let cached = Cached::open(tier(&slow), tier(&fast)).unwrap();
    let mut direct = Direct::new(Box::new(cached), Workers { inline_bytes_max, ..pool("baseline", 1, 4) });
    direct.write(0, &[&[1; 16_384]]).unwrap();
    fill(&mut direct);
    (direct, slow, fast)
}

/// Missed and remembered; missed and copied.
fn fill(direct: &mut Direct) {
    for _ in 0..2 {
        assert_eq!(direct.read(0, &[16_384]).1, Ok(Outcome::Plain));
    }
}

fn rot(media: &Media) {
    (0..media.size_bytes()).step_by(4096).for_each(|byte| media.flip(byte + 7, 3));
}

#[test]
fn a_copy_that_rots_is_given_up_and_the_slow_tier_is_read() {
    for inline_bytes_max in [0, u64::MAX] {
        let (mut direct, _slow, fast) = filled(inline_bytes_max);
        rot(&fast);
        assert_eq!(direct.read(100, &[3_000, 6_000]), (vec![1; 9_000], Ok(Outcome::Plain)));
        let said = direct.checked.remarks();
        let told = |offset: u64| format!("a copy of the 4096 bytes at {offset} was damaged: they are read from elsewhere");
        assert_eq!(said.iter().map(|(_, what)| what.clone()).collect::<Vec<_>>(), [0, 4096, 8192].map(told));
        // It is not there any more.
        assert_eq!(direct.read(0, &[12_288]), (vec![1; 12_288], Ok(Outcome::Plain)));
        assert_eq!((direct.checked.remarks(), direct.checked.checksums().unwrap().blocks_damaged), (vec![], 0));
    }
}

#[test]
fn a_write_of_parts_of_blocks_whose_copies_have_rotted_keeps_the_rest_as_the_slow_tier_has_it() {
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
fn what_has_rotted_on_the_slow_tier_is_an_error_whatever_is_copied() {
    let (mut direct, slow, _fast) = filled(0);
    // A write takes its block out of the cache.
    direct.write(0, &[&[1; 4096]]).unwrap();
    slow.flip(7, 3);
    for _ in 0..4 {
        assert_eq!(direct.read(0, &[8192]).1, Ok(Outcome::Damaged(vec![0])));
    }
    assert_eq!(direct.checked.checksums().unwrap().blocks_damaged, 4);
}
