//! Rules of the client's side of the protocol: the bytes of requests, and that no answer without a request is taken.

#[path = "../../../../../fuzz/drive_upstream.rs"]
mod drive_upstream;

use std::fs;
use std::path::Path;

use drive_upstream::{ASKED, SIZE, drive, hear};
use ioweir_serve::nbd::client::{Asked, Coverage, Encryption, put_request};
use ioweir_serve::nbd::{Command, NbdError, Replies};
use proptest::prelude::*;

use crate::client;

/// A stream of the corpus, without its first byte.
fn stream(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/upstream").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))[1..].to_vec()
}

fn heard(name: &str) -> drive_upstream::Heard {
    hear(Encryption::None, &stream(name), usize::MAX)
}

#[test]
fn the_corpus_of_upstreams_reads_alike_however_cut() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/upstream");
    let mut count = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let data = fs::read(entry.unwrap().path()).unwrap();
        drive(&data);
        for length in [0, 2, 6, 20, 254] {
            drive(&[&[length], &data[1..]].concat());
        }
        count += 1;
    }
    assert!(count >= 18, "there is a corpus");
}

proptest! {
    #[test]
    fn no_bytes_of_an_upstream_do_harm(name in 0_usize..3, flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), length in any::<u8>()) {
        let mut bytes = stream(["simple", "structured", "extended"][name]);
        for (place, value) in flips {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        drive(&[&[length][..], &bytes].concat());
    }
}

#[test]
fn the_best_form_of_an_upstream_is_negotiated() {
    let terms = |name: &str| heard(name).terms.unwrap();
    assert_eq!((terms("simple").replies, terms("simple").allocation), (Replies::Simple, None));
    assert_eq!((terms("structured").replies, terms("structured").allocation), (Replies::Structured, Some(5)));
    assert_eq!((terms("extended").replies, terms("extended").allocation), (Replies::Extended, Some(5)));
    let old = terms("old-answer");
    assert_eq!((old.size_bytes, old.replies, old.blocks.min), (SIZE, Replies::Simple, 1), "one that knows no GO");
    let said = heard("simple").said;
    let name = [&1_u32.to_be_bytes()[..], b"a"].concat();
    let expected = [
        client::CLIENT_FLAGS.to_vec(),
        client::option(client::OPTION_EXTENDED_HEADERS, &[]),
        client::option(client::OPTION_STRUCTURED_REPLY, &[]),
        client::option(client::OPTION_GO, &[&name[..], &[0, 1, 0, 3]].concat()),
    ];
    assert_eq!(said, expected.concat());
}

#[test]
fn answers_mean_the_same_in_each_form() {
    for (name, value) in [("simple", b'x'), ("extended", b'z')] {
        let heard = heard(name);
        let (data, coverage, _, error, done) = &heard.answers[0];
        assert!(data.iter().all(|(_, byte)| *byte == value) && coverage.is_all(4096, 8192), "{name}");
        assert_eq!((*error, *done, heard.problem.clone()), (None, 1, None), "{name}");
    }
    let structured = heard("structured");
    assert!(structured.answers[0].1.is_all(4096, 8192), "data and a hole, in another order");
    assert_eq!(structured.answers[3].2, [(4096, 3), (SIZE - 4096, 0)]);
    assert_eq!((structured.answers[4].3, structured.answers[4].4), (Some(NbdError::InputOutput), 1));
    assert_eq!(heard("simple").answers[2].3, Some(NbdError::InputOutput));
    assert_eq!(heard("extended").answers[2].3, Some(NbdError::NoSpace));
}

#[test]
fn upstreams_that_lie_are_left_with_a_reason() {
    for (name, words) in [
        ("data-twice", "the same data twice"),
        ("data-outside", "data that was not asked for"),
        ("cookie-of-nobody", "an answer without a request"),
        ("chunk-of-gigabytes", "a chunk is too long"),
        ("extents-that-lie", "another number of extents"),
        ("long-option", "longer ones, than any option needs"),
        ("tls-required", "give the device a table `tls`"),
        ("unknown-export", "it has no export `a`: no [31msuch"),
        ("old-server", "the old handshake of NBD"),
        ("blocks-that-lie", "its blocks are of 3, 5 and 1 bytes"),
        ("garbled", "it is no NBD server"),
    ] {
        let problem = heard(name).problem.unwrap_or_default();
        assert!(problem.contains(words), "{name}: {problem}");
    }
    let inserted = hear(Encryption::First, &stream("tls-then-more"), usize::MAX).problem.unwrap_or_default();
    assert!(inserted.contains("before the connection is encrypted"), "{inserted}");
}

#[test]
fn requests_are_written_as_a_server_reads_them() {
    let asked = Asked { command: Command::Write, offset: 4096, length: 512 };
    let put = |replies| {
        let mut bytes = Vec::new();
        put_request(&mut bytes, replies, client::FUA, 7, &asked);
        bytes
    };
    assert_eq!(put(Replies::Structured), client::request(client::WRITE, client::FUA, 7, 4096, 512));
    let extended = client::extended(client::WRITE, client::FUA | client::PAYLOAD_LENGTH, 7, 4096, 512);
    assert_eq!(put(Replies::Extended), extended);
    assert_eq!(ASKED[1].command, Command::Write);
}

#[test]
fn chunks_are_complete_without_gaps_and_overlaps() {
    let mut coverage = Coverage::default();
    for (offset, length) in [(100, 10), (50, 10), (60, 40), (110, 1)] {
        coverage.add(offset, length).unwrap();
    }
    assert!(coverage.is_all(50, 61) && !coverage.is_all(50, 60) && !coverage.is_all(49, 62));
    for (offset, length) in [(110, 1), (49, 2), (0, 1000), (60, 1)] {
        assert!(coverage.clone().add(offset, length).is_err(), "{length} at {offset}");
    }
    let mut confetti = Coverage::default();
    assert!((0..10_000).any(|at| confetti.add(at * 2, 1).is_err()), "gaps are bounded");
}
