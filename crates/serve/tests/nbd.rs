//! The codec: what is said, byte by byte, and that no cut of the stream and no garbage changes it.

mod client;
#[path = "../../../fuzz/drive_nbd.rs"]
mod drive_nbd;

use std::fs;
use std::path::Path;

use client::*;
use drive_nbd::{Heard, drive, exports, hear};
use ioweir_serve::nbd::{Agreed, Command, Export, NbdError, Negotiation, Request, protocol, reply};
use proptest::prelude::*;

/// Replies to options: option, kind, data.
fn option_replies(mut bytes: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut replies = Vec::new();
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four bytes"));
    while !bytes.is_empty() {
        assert_eq!(bytes[..8], 0x0003_e889_0455_65a9_u64.to_be_bytes());
        let length = number(&bytes[16..20]) as usize;
        replies.push((number(&bytes[8..12]), number(&bytes[12..16]), bytes[20..20 + length].to_vec()));
        bytes = &bytes[20 + length..];
    }
    replies
}

fn hear_options(options: &[Vec<u8>]) -> Heard {
    hear(&[CLIENT_FLAGS.to_vec(), options.concat()].concat(), [usize::MAX])
}

const ACK: u32 = 1;
const UNSUPPORTED: u32 = 0x8000_0001;
const INVALID: u32 = 0x8000_0003;
const UNKNOWN: u32 = 0x8000_0006;
const TOO_BIG: u32 = 0x8000_0009;

#[test]
fn the_greeting_offers_fixed_newstyle_and_no_zeroes() {
    assert_eq!(&Negotiation::new(exports()).greeting(), b"NBDMAGICIHAVEOPT\0\x03");
}

#[test]
fn go_tells_size_flags_and_what_was_asked_for() {
    let heard = hear_options(&[option(OPTION_STRUCTURED_REPLY, &[]), info(OPTION_GO, "a", &[1, 2, 3, 77])]);
    let size_and_flags = [&[0, 0][..], &(1_u64 << 20).to_be_bytes(), &0b1101_1110_1101_u16.to_be_bytes()].concat();
    let sizes = [0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 4, 0, 0, 0];
    assert_eq!(
        option_replies(&heard.answers),
        [
            (8, ACK, vec![]),
            (7, 3, size_and_flags),
            (7, 3, b"\0\x01a".to_vec()),
            (7, 3, b"\0\x02the first".to_vec()),
            (7, 3, sizes.to_vec()),
            (7, ACK, vec![]),
        ]
    );
    assert_eq!(heard.agreed, Some(Agreed { export: 0, structured: true, allocation: false }));
}

#[test]
fn info_describes_and_goes_on() {
    let heard = hear_options(&[info(OPTION_INFO, "b", &[]), info(OPTION_INFO, "c", &[]), info(OPTION_GO, "b", &[])]);
    // Read only: no trim, no zeroes; without structured replies no DF.
    let size_and_flags = [&[0, 0][..], &(1_u64 << 20).to_be_bytes(), &0b101_0000_1111_u16.to_be_bytes()].concat();
    let replies = option_replies(&heard.answers);
    assert_eq!(replies[0], (6, 3, size_and_flags));
    assert_eq!((replies[1].0, replies[1].1), (6, ACK));
    assert_eq!((replies[2].0, replies[2].1), (6, UNKNOWN));
    assert_eq!(heard.agreed.map(|agreed| agreed.export), Some(1));
}

#[test]
fn the_export_without_a_name_is_the_first() {
    assert_eq!(hear_options(&[info(OPTION_GO, "", &[])]).agreed.map(|agreed| agreed.export), Some(0));
}

#[test]
fn export_name_honours_no_zeroes() {
    let answer =
        |flags: [u8; 4], name: &[u8]| hear(&[flags.to_vec(), option(OPTION_EXPORT_NAME, name)].concat(), [usize::MAX]);
    assert_eq!(answer([0, 0, 0, 3], b"a").answers.len(), 10);
    assert_eq!(answer([0, 0, 0, 1], b"a").answers.len(), 134);
    // The client of the first newstyle: no flags at all.
    assert_eq!(answer([0; 4], b"a").answers.len(), 134);
    let unknown = answer([0, 0, 0, 3], b"c");
    assert!(unknown.closed && unknown.answers.is_empty());
}

#[test]
fn clients_with_flags_of_the_future_are_let_go() {
    assert!(hear(&[0, 0, 0, 7], [1]).closed);
    assert!(hear(&[&[0; 4][..], &option(OPTION_LIST, &[])].concat(), [usize::MAX]).closed);
}

#[test]
fn the_list_names_and_describes_every_export() {
    let heard = hear_options(&[option(OPTION_LIST, &[]), option(OPTION_LIST, &[1])]);
    assert_eq!(
        option_replies(&heard.answers)[..3],
        [(3, 2, b"\0\0\0\x01athe first".to_vec()), (3, 2, b"\0\0\0\x01b".to_vec()), (3, ACK, vec![])]
    );
    assert_eq!(option_replies(&heard.answers)[3].1, INVALID);
}

#[test]
fn block_status_is_selected_for_one_export_and_only_with_structured_replies() {
    let select = |name: &str, queries: &[&str]| contexts(OPTION_SET_META_CONTEXT, name, queries);
    let structured = option(OPTION_STRUCTURED_REPLY, &[]);
    let go = info(OPTION_GO, "a", &[]);
    let allocation = |options: &[Vec<u8>]| hear_options(options).agreed.map(|agreed| agreed.allocation);
    let base = ["base:allocation"];
    assert_eq!(allocation(&[structured.clone(), select("a", &base), go.clone()]), Some(true));
    assert_eq!(allocation(&[structured.clone(), select("b", &base), go.clone()]), Some(false));
    assert_eq!(allocation(&[structured.clone(), select("a", &base), select("a", &[]), go.clone()]), Some(false));
    assert_eq!(allocation(&[structured.clone(), select("a", &["base:"]), go.clone()]), Some(false));
    assert_eq!(allocation(&[select("a", &base), go.clone()]), Some(false));
    assert_eq!(option_replies(&hear_options(&[select("a", &base)]).answers)[0].1, INVALID);
    let listed = hear_options(&[structured, contexts(OPTION_LIST_META_CONTEXT, "a", &["base:"])]);
    assert_eq!(option_replies(&listed.answers)[1], (9, 4, b"\0\0\0\0base:allocation".to_vec()));
}

#[test]
fn options_that_are_not_known_or_too_long_are_refused_and_the_talk_goes_on() {
    let mut oversize = b"IHAVEOPT".to_vec();
    oversize.extend(OPTION_GO.to_be_bytes());
    oversize.extend(70_000_u32.to_be_bytes());
    oversize.extend(vec![b'x'; 70_000]);
    let heard = hear_options(&[option(OPTION_STARTTLS, &[]), oversize, option(OPTION_ABORT, &[])]);
    let kinds: Vec<_> = option_replies(&heard.answers).iter().map(|reply| (reply.0, reply.1)).collect();
    assert_eq!(kinds, [(5, UNSUPPORTED), (7, TOO_BIG), (2, ACK)]);
    assert!(heard.closed);
}

#[test]
fn data_that_is_not_what_it_says_is_refused() {
    for data in [&b""[..], b"\0\0\0\x05a\0\0", b"\0\0\0\x01a\0\x01", b"\0\0\0\x01a\0\0x", b"\xff\xff\xff\xff"] {
        let heard = hear_options(&[option(OPTION_GO, data), option(OPTION_INFO, data)]);
        assert!(option_replies(&heard.answers).iter().all(|reply| reply.1 == INVALID), "{data:?}");
    }
    let heard = hear_options(&[option(OPTION_STRUCTURED_REPLY, &[]), option(10, b"\0\0\0\x01a\xff\xff\xff\xff")]);
    assert_eq!(option_replies(&heard.answers)[1].1, INVALID);
}

#[test]
fn a_client_that_only_talks_is_let_go() {
    let heard = hear_options(&vec![option(OPTION_LIST, &[]); 300]);
    assert!(heard.closed);
    assert_eq!(option_replies(&heard.answers).len(), 256 * 3);
}

#[test]
fn requests_come_out_as_they_were_sent() {
    let heard = hear(&whole_talk(), [usize::MAX]);
    assert_eq!(heard.agreed, Some(Agreed { export: 0, structured: true, allocation: true }));
    assert_eq!(heard.payload, b"hello");
    let first = Request { command: Command::Write, flags: FUA, cookie: 1, offset: 512, length: 5 };
    assert_eq!(heard.requests[0], first);
    let commands: Vec<_> = heard.requests.iter().map(|request| request.command.number()).collect();
    assert_eq!(commands, [1, 0, 7, 6, 4, 5, 3, 2]);
    for request in &heard.requests[..7] {
        assert_eq!(request.check(&exports()[0], true), Ok(()));
    }
}

#[test]
fn what_makes_no_sense_is_answered_with_the_error_of_the_protocol() {
    let [writable, read_only] = [&exports()[0], &exports()[1]].map(Clone::clone);
    let check = |command, flags, offset, length, export| {
        Request { command, flags, cookie: 0, offset, length }.check(export, false)
    };
    let size = 1 << 20;
    assert_eq!(check(Command::Read, 0, size - 1, 1, &writable), Ok(()));
    assert_eq!(check(Command::Read, 0, size - 1, 2, &writable), Err(NbdError::Invalid));
    assert_eq!(check(Command::Read, 0, u64::MAX, 2, &writable), Err(NbdError::Invalid));
    assert_eq!(check(Command::Write, 0, size - 1, 2, &writable), Err(NbdError::NoSpace));
    assert_eq!(check(Command::Write, 0, 0, 1, &read_only), Err(NbdError::NotPermitted));
    assert_eq!(check(Command::Trim, 0, 0, 1, &read_only), Err(NbdError::NotPermitted));
    assert_eq!(check(Command::Flush, 0, 0, 0, &read_only), Ok(()));
    assert_eq!(check(Command::Flush, 0, 1, 0, &writable), Err(NbdError::Invalid));
    assert_eq!(check(Command::Write, protocol::COMMAND_DF, 0, 1, &writable), Err(NbdError::Invalid));
    assert_eq!(check(Command::BlockStatus, 0, 0, 1, &writable), Err(NbdError::Invalid));
    assert_eq!(check(Command::Unknown(8), 0, 0, 1, &writable), Err(NbdError::Invalid));
    let large = Export { size_bytes: 1 << 40, ..writable.clone() };
    assert_eq!(check(Command::Read, 0, 0, 64 << 20, &large), Ok(()));
    assert_eq!(check(Command::Read, 0, 0, (64 << 20) + 1, &large), Err(NbdError::Invalid));
    assert_eq!(check(Command::Trim, 0, 0, u32::MAX, &large), Ok(()));
}

#[test]
fn replies_are_those_of_the_protocol() {
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        out.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let cookie = 0x0102_0304_0506_0708;
    assert_eq!(
        written(&|out| reply::put_simple(out, cookie, Some(NbdError::InputOutput))),
        "67446698000000050102030405060708"
    );
    assert_eq!(written(&|out| reply::put_done(out, cookie)), "668e33ef00010000010203040506070800000000");
    assert_eq!(
        written(&|out| reply::put_data(out, cookie, false, 512, 4096)),
        "668e33ef00000001010203040506070800001008 0000000000000200".replace(' ', "")
    );
    assert_eq!(
        written(&|out| reply::put_hole(out, cookie, true, 512, 4096)),
        "668e33ef0001000201020304050607080000000c 0000000000000200 00001000".replace(' ', "")
    );
    assert_eq!(
        written(&|out| reply::put_error(out, cookie, NbdError::NoSpace)),
        "668e33ef00018001010203040506070800000006 0000001c 0000".replace(' ', "")
    );
    let extents = [reply::Extent { length: 65536, state: 3 }];
    assert_eq!(
        written(&|out| reply::put_extents(out, cookie, &extents)),
        "668e33ef0001000501020304050607080000000c 00000001 00010000 00000003".replace(' ', "")
    );
}

/// A talk of options and requests that make sense, more or less.
fn talk() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just("a"), Just("b"), Just(""), Just("nobody")];
    let part = prop_oneof![
        (1_u32..12, prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(number, data)| option(number, &data)),
        (name.clone(), prop::collection::vec(0_u16..5, 0..4)).prop_map(|(name, items)| info(OPTION_INFO, name, &items)),
        (9_u32..11, name).prop_map(|(number, name)| contexts(number, name, &["base:allocation"])),
        Just(option(OPTION_STRUCTURED_REPLY, &[])),
    ];
    let request = (0_u16..9, 0_u16..32, any::<u64>(), 0_u64..2 << 20, 0_u32..600).prop_map(
        |(command, flags, cookie, offset, length)| {
            let mut bytes = request(command, flags, cookie, offset, length);
            if command == WRITE {
                bytes.extend(vec![7; length as usize]);
            }
            bytes
        },
    );
    (prop::collection::vec(part, 0..6), prop::collection::vec(request, 0..6)).prop_map(|(options, requests)| {
        [CLIENT_FLAGS.to_vec(), options.concat(), info(OPTION_GO, "a", &[3]), requests.concat()].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_of_the_stream_gives_the_same_events(talk in talk(), pieces in prop::collection::vec(1_usize..70, 1..40)) {
        prop_assert_eq!(hear(&talk, [usize::MAX]), hear(&talk, pieces));
    }

    #[test]
    fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..400, talk in talk()) {
        drive(&bytes);
        // Garbage behind a beginning that makes sense.
        let mut damaged = talk[..at.min(talk.len())].to_vec();
        damaged.append(&mut bytes);
        damaged.insert(0, 13);
        drive(&damaged);
    }
}

#[test]
fn every_prefix_of_a_talk_is_heard_as_a_prefix() {
    let talk = whole_talk();
    let whole = hear(&talk, [usize::MAX]);
    for end in 0..talk.len() {
        let heard = hear(&talk[..end], [1]);
        assert!(!heard.closed && !heard.is_broken, "a client that pauses after {end} bytes has done nothing wrong");
        assert!(whole.answers.starts_with(&heard.answers) && whole.requests.starts_with(&heard.requests));
    }
}

fn corpus() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/nbd")
}

#[test]
fn the_fuzzing_corpus_is_survived() {
    let mut inputs = 0;
    for entry in fs::read_dir(corpus()).expect("the corpus is committed") {
        drive(&fs::read(entry.expect("readable").path()).expect("readable"));
        inputs += 1;
    }
    assert!(inputs >= 5, "the corpus has its seeds");
}

/// Writes the seeds again: `cargo test -p ioweir-serve --test nbd write_the_seeds -- --ignored`.
#[test]
#[ignore = "writes into the corpus"]
fn write_the_seeds() {
    let talk = whole_talk();
    let with = |pieces: u8, bytes: &[u8]| [&[pieces][..], bytes].concat();
    let garbled = [&talk[..talk.len() - 100], b"garbage that is longer than a request header"].concat();
    for (name, bytes) in [
        ("whole", with(0, &talk)),
        ("bytewise", with(1, &talk)),
        ("cut-in-header", with(27, &talk[..talk.len() - 3])),
        ("garbled", with(5, &garbled)),
        ("export-name", with(3, &[&[0, 0, 0, 0][..], &option(OPTION_EXPORT_NAME, b"b")].concat())),
        ("long-option", with(0, &[&CLIENT_FLAGS[..], b"IHAVEOPT", &[0, 0, 0, 7, 255, 255, 255, 255, 0, 0]].concat())),
    ] {
        fs::write(corpus().join(name), bytes).expect("the corpus can be written");
    }
}
