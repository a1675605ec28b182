//! Rules of the codec: the bytes of each message, and that neither the cuts of the stream nor garbage change it.

#[path = "../../../../fuzz/drive_nbd.rs"]
mod drive_nbd;

use std::fs;
use std::path::Path;

use crate::client::*;
use drive_nbd::{Heard, drive, exports, hear, hear_under};
use ioweir_serve::nbd::{
    Agreed, Command, Contexts, Export, NbdError, Negotiation, Replies, Request, Tls, protocol, reply,
};
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
const TLS_REQUIRED: u32 = 0x8000_0005;
const EXTENDED_HEADERS_REQUIRED: u32 = 0x8000_000a;

#[test]
fn the_greeting_offers_fixed_newstyle_and_no_zeroes() {
    assert_eq!(&Negotiation::new(exports(), Tls::None).greeting(), b"NBDMAGICIHAVEOPT\0\x03");
}

#[test]
fn go_answers_size_flags_and_requested_facts() {
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
    assert_eq!(heard.agreed, Some(Agreed { export: 0, replies: Replies::Structured, contexts: Contexts::NONE }));
}

#[test]
fn info_describes_and_goes_on() {
    let heard = hear_options(&[info(OPTION_INFO, "b", &[]), info(OPTION_INFO, "c", &[]), info(OPTION_GO, "b", &[])]);
    // The export is read-only, so there is no trim and no write-zeroes; without structured replies there is no DF.
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
    // A client of the first newstyle has no flags.
    assert_eq!(answer([0; 4], b"a").answers.len(), 134);
    let unknown = answer([0, 0, 0, 3], b"c");
    assert!(unknown.closed && unknown.answers.is_empty());
}

#[test]
fn clients_with_unknown_flags_are_disconnected() {
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
fn block_status_needs_one_export_and_structured_replies() {
    let select = |name: &str, queries: &[&str]| contexts(OPTION_SET_META_CONTEXT, name, queries);
    let structured = option(OPTION_STRUCTURED_REPLY, &[]);
    let go = info(OPTION_GO, "a", &[]);
    let allocation =
        |options: &[Vec<u8>]| hear_options(options).agreed.map(|agreed| agreed.contexts == Contexts::of(&[1]));
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
fn unknown_and_oversized_options_are_refused_without_disconnecting() {
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
fn option_data_of_wrong_length_is_refused() {
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
    assert_eq!(heard.agreed, Some(Agreed { export: 0, replies: Replies::Structured, contexts: Contexts::of(&[1]) }));
    assert_eq!(heard.payload, b"hello");
    let first = Request { command: Command::Write, flags: FUA, cookie: 1, offset: 512, length: 5, payload: 5 };
    assert_eq!(heard.requests[0], first);
    let commands: Vec<_> = heard.requests.iter().map(|request| request.command.number()).collect();
    assert_eq!(commands, [1, 0, 7, 6, 4, 5, 3, 2]);
    for request in &heard.requests[..7] {
        assert_eq!(request.check(&exports()[0], Contexts::of(&[1])), Ok(()));
    }
}

#[test]
fn invalid_requests_get_the_errors_of_the_protocol() {
    let [writable, read_only] = [&exports()[0], &exports()[1]].map(Clone::clone);
    let check = |command, flags, offset, length, export| {
        let payload = if command == Command::Write { length as u32 } else { 0 };
        Request { command, flags, cookie: 0, offset, length, payload }.check(export, Contexts::NONE)
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
    assert_eq!(check(Command::Trim, 0, 0, 1 << 40, &large), Ok(()));
    assert_eq!(check(Command::Trim, 0, 1, 1 << 40, &large), Err(NbdError::NoSpace));
    assert_eq!(check(Command::Write, protocol::COMMAND_PAYLOAD_LENGTH, 0, 1, &large), Err(NbdError::Invalid));
}

#[test]
fn replies_are_those_of_the_protocol() {
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        out.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let of = |replies, command| reply::Reply { replies, command, cookie: 0x0102_0304_0506_0708, offset: 256 };
    let extents = [reply::Extent { length: 65536, state: 3 }];
    let failed = |command| written(&|out| of(Replies::Structured, command).put_end(out, Some(NbdError::NoSpace)));
    let simple = of(Replies::Simple, Command::Read);
    assert_eq!(written(&|out| simple.put_end(out, Some(NbdError::InputOutput))), "67446698000000050102030405060708");
    assert_eq!(written(&|out| simple.put_data(out, true, 256, 4096)), "67446698000000000102030405060708");

    let structured = of(Replies::Structured, Command::Read);
    assert_eq!(written(&|out| structured.put_end(out, None)), "668e33ef00010000010203040506070800000000");
    assert_eq!(
        written(&|out| structured.put_data(out, false, 512, 4096)),
        "668e33ef00000001010203040506070800001008 0000000000000200".replace(' ', "")
    );
    assert_eq!(
        written(&|out| structured.put_hole(out, true, 512, 4096)),
        "668e33ef0001000201020304050607080000000c 0000000000000200 00001000".replace(' ', "")
    );
    assert_eq!(failed(Command::Read), "668e33ef00018001010203040506070800000006 0000001c 0000".replace(' ', ""));
    assert_eq!(failed(Command::Trim), "674466980000001c0102030405060708");
    assert_eq!(
        written(&|out| structured.put_extents(out, true, 1, &extents)),
        "668e33ef0001000501020304050607080000000c 00000001 00010000 00000003".replace(' ', "")
    );
}

#[test]
fn extended_replies_are_those_of_the_protocol() {
    let written = |command, write: &dyn Fn(reply::Reply, &mut Vec<u8>)| {
        let (mut out, cookie) = (Vec::new(), 0x0102_0304_0506_0708);
        write(reply::Reply { replies: Replies::Extended, command, cookie, offset: 256 }, &mut out);
        let text: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        // A chunk begins with magic, flags and kind, and the fields that every chunk has.
        assert!(text.starts_with("6e8a278c"));
        assert_eq!(&text[16..48], "01020304050607080000000000000100", "cookie and offset of the request");
        [&text[8..16], &text[48..64], &text[64..]].join(" ")
    };
    // With extended headers no command has a simple reply.
    assert_eq!(written(Command::Write, &|reply, out| reply.put_end(out, None)), "00010000 0000000000000000 ");
    assert_eq!(
        written(Command::Trim, &|reply, out| reply.put_end(out, Some(NbdError::NoSpace))),
        "00018001 0000000000000006 0000001c0000"
    );
    assert_eq!(
        written(Command::Read, &|reply, out| reply.put_data(out, false, 512, 4096)),
        "00000001 0000000000001008 0000000000000200"
    );
    assert_eq!(
        written(Command::Read, &|reply, out| reply.put_hole(out, true, 512, 4096)),
        "00010002 000000000000000c 000000000000020000001000"
    );
    let extents = [reply::Extent { length: 1 << 40, state: 3 }, reply::Extent { length: 512, state: 0 }];
    assert_eq!(
        written(Command::BlockStatus, &|reply, out| reply.put_extents(out, true, 1, &extents)),
        [
            "00010006 0000000000000028 0000000100000002",
            "00000100000000000000000000000003",
            "00000000000002000000000000000000",
        ]
        .concat()
    );
}

#[test]
fn extended_headers_cannot_be_given_up_again() {
    let (structured, wide) = (option(OPTION_STRUCTURED_REPLY, &[]), option(OPTION_EXTENDED_HEADERS, &[]));
    let base = contexts(OPTION_SET_META_CONTEXT, "a", &["base:allocation"]);
    let go = info(OPTION_GO, "a", &[]);
    let agreed = Some(Agreed { export: 0, replies: Replies::Extended, contexts: Contexts::of(&[1]) });
    // The option is accepted with structured replies before it, or without them.
    assert_eq!(hear_options(&[wide.clone(), base.clone(), go.clone()]).agreed, agreed);
    let heard = hear_options(&[structured.clone(), base.clone(), wide.clone(), structured, go]);
    assert_eq!(heard.agreed, agreed);
    let kinds: Vec<_> = option_replies(&heard.answers).iter().map(|reply| (reply.0, reply.1)).collect();
    assert_eq!(kinds, [(8, ACK), (10, 4), (10, ACK), (11, ACK), (8, EXTENDED_HEADERS_REQUIRED), (7, 3), (7, ACK)]);
    let heard = hear_options(&[option(OPTION_EXTENDED_HEADERS, &[1]), base]);
    assert_eq!(option_replies(&heard.answers).iter().map(|reply| reply.1).collect::<Vec<_>>(), [INVALID, INVALID]);
    // The option is refused a second time.
    let heard = hear_options(&[wide.clone(), wide.clone()]);
    assert_eq!(option_replies(&heard.answers).iter().map(|reply| reply.1).collect::<Vec<_>>(), [ACK, INVALID]);
    let heard = hear_options(&[wide, option(OPTION_EXPORT_NAME, b"a")]);
    assert!(heard.closed && heard.agreed.is_none());
}

#[test]
fn extended_requests_come_out_as_they_were_sent() {
    let heard = hear(&extended_talk_of("a"), [usize::MAX]);
    assert_eq!(heard.agreed, Some(Agreed { export: 0, replies: Replies::Extended, contexts: Contexts::of(&[1]) }));
    assert_eq!(heard.requests.iter().map(|request| request.payload).collect::<Vec<_>>(), [5, 0, 0, 12, 0, 0, 0]);
    // The payload flag is removed from a write, and refused for other commands.
    assert_eq!(heard.requests[0].flags, 0);
    let checked: Vec<_> =
        heard.requests[..6].iter().map(|request| request.check(&exports()[0], Contexts::of(&[1]))).collect();
    assert_eq!(checked, [Ok(()), Ok(()), Ok(()), Err(NbdError::Invalid), Ok(()), Ok(())]);
}

#[test]
fn what_is_no_extended_request_is_none() {
    let talk = |last: Vec<u8>| {
        let options = [option(OPTION_EXTENDED_HEADERS, &[]), info(OPTION_GO, "a", &[])].concat();
        hear(&[CLIENT_FLAGS.to_vec(), options, last].concat(), [7])
    };
    // A write has data, with the flag as required, or without it, as from QEMU.
    let bare = talk([extended(WRITE, 0, 1, 0, 5), b"hello".to_vec(), extended(FLUSH, 0, 2, 0, 0)].concat());
    assert_eq!((bare.requests.len(), &bare.payload[..]), (2, &b"hello"[..]));
    assert_eq!(bare.requests[0].check(&exports()[0], Contexts::of(&[1])), Ok(()));
    // Commands without data may have lengths of 64 bits.
    assert_eq!(talk(extended(TRIM, 0, 1, 0, u64::MAX)).requests[0].length, u64::MAX);
    let most = u64::from(protocol::REQUEST_BYTES_MAX);
    assert!(!talk(extended(WRITE, PAYLOAD_LENGTH, 1, 0, most)).is_broken);
    assert!(talk(extended(WRITE, PAYLOAD_LENGTH, 1, 0, most + 1)).is_broken);
    assert!(talk(extended(READ, PAYLOAD_LENGTH, 1, 0, 1 << 40)).is_broken);
    // Headers of the other kind are not accepted.
    assert!(talk([request(FLUSH, 0, 1, 0, 0), vec![0; 8]].concat()).is_broken);
    let compact = [CLIENT_FLAGS.to_vec(), info(OPTION_GO, "a", &[]), extended(FLUSH, 0, 1, 0, 0)].concat();
    assert!(hear(&compact, [usize::MAX]).is_broken);
}

#[test]
fn a_server_that_requires_tls_refuses_everything_before() {
    let start = option(OPTION_STARTTLS, &[]);
    let kinds = |tls, options: &[Vec<u8>]| {
        let heard = hear_under(tls, &[CLIENT_FLAGS.to_vec(), options.concat()].concat(), [usize::MAX]);
        let kinds: Vec<_> = option_replies(&heard.answers).iter().map(|reply| (reply.0, reply.1)).collect();
        (kinds, heard)
    };
    let mut oversize = b"IHAVEOPT\0\0\0\x07".to_vec();
    oversize.extend(70_000_u32.to_be_bytes());
    oversize.extend(vec![b'x'; 70_000]);
    let refused =
        [option(OPTION_LIST, &[]), info(OPTION_INFO, "a", &[]), info(OPTION_GO, "a", &[]), option(77, &[9]), oversize];
    let (answers, heard) = kinds(Tls::Required, &refused);
    assert_eq!(answers, [3, 6, 7, 77, 7].map(|option| (option, TLS_REQUIRED)));
    assert!(heard.agreed.is_none() && !heard.closed);
    assert!(kinds(Tls::Required, &[option(OPTION_EXPORT_NAME, b"a")]).1.closed);
    assert_eq!(kinds(Tls::Required, &[option(OPTION_ABORT, &[])]).0, [(2, ACK)]);
    // The option must have no data, and is accepted once.
    let (answers, heard) = kinds(Tls::Required, &[option(OPTION_STARTTLS, b"x"), start.clone(), start.clone()]);
    assert_eq!(answers, [(5, INVALID), (5, ACK), (5, INVALID)]);
    assert!(heard.is_secret);
    let (answers, heard) = kinds(Tls::Offered, &[info(OPTION_INFO, "a", &[]), info(OPTION_GO, "a", &[])]);
    assert_eq!((answers.len(), heard.agreed.is_some(), heard.is_secret), (4, true, false));
}

#[test]
fn agreements_before_tls_do_not_count_after() {
    let structured = option(OPTION_STRUCTURED_REPLY, &[]);
    let base = contexts(OPTION_SET_META_CONTEXT, "a", &["base:allocation"]);
    for before in [vec![structured.clone(), base.clone()], vec![option(OPTION_EXTENDED_HEADERS, &[]), base.clone()]] {
        let go = info(OPTION_GO, "a", &[]);
        let talk = [CLIENT_FLAGS.to_vec(), before.concat(), option(OPTION_STARTTLS, &[]), base.clone(), go].concat();
        let heard = hear_under(Tls::Offered, &talk, [usize::MAX]);
        assert_eq!(heard.agreed, Some(Agreed { export: 0, replies: Replies::Simple, contexts: Contexts::NONE }));
    }
}

/// A stream of options and requests, mostly valid ones.
fn talk() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![3 => compact_talk(), 2 => extended_talk()]
}

fn extended_talk() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        (1_u32..13, prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(number, data)| option(number, &data)),
        Just(option(OPTION_STRUCTURED_REPLY, &[])),
        Just(option(OPTION_STARTTLS, &[])),
        Just(contexts(OPTION_SET_META_CONTEXT, "a", &["base:allocation"])),
    ];
    let request = (0_u16..9, 0_u16..64, any::<u64>(), any::<u64>(), 0_u64..600, 0_u32..34).prop_map(
        |(command, flags, cookie, offset, length, shift)| {
            let has_data = flags & PAYLOAD_LENGTH != 0;
            let length = if has_data { length } else { length << shift };
            let length = if command == WRITE { length.min(600) } else { length };
            let data = if has_data || command == WRITE { length as usize } else { 0 };
            [extended(command, flags, cookie, offset, length), vec![7; data]].concat()
        },
    );
    (prop::collection::vec(part, 0..5), prop::collection::vec(request, 0..8)).prop_map(|(options, requests)| {
        let last = [option(OPTION_EXTENDED_HEADERS, &[]), info(OPTION_GO, "a", &[3])].concat();
        [CLIENT_FLAGS.to_vec(), options.concat(), last, requests.concat()].concat()
    })
}

fn compact_talk() -> impl Strategy<Value = Vec<u8>> {
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
    fn any_cut_of_the_stream_gives_equal_events(talk in talk(), pieces in prop::collection::vec(1_usize..70, 1..40)) {
        for tls in [Tls::None, Tls::Offered] {
            prop_assert_eq!(hear_under(tls, &talk, [usize::MAX]), hear_under(tls, &talk, pieces.clone()));
        }
    }

    #[test]
    fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..400, talk in talk()) {
        drive(&bytes);
        // Garbage after a valid beginning.
        let mut damaged = talk[..at.min(talk.len())].to_vec();
        damaged.append(&mut bytes);
        damaged.insert(0, 13);
        drive(&damaged);
    }
}

#[test]
fn every_prefix_of_a_stream_gives_a_prefix() {
    for talk in [whole_talk(), extended_talk_of("a")] {
        let whole = hear(&talk, [usize::MAX]);
        for end in 0..talk.len() {
            let heard = hear(&talk[..end], [1]);
            assert!(!heard.closed && !heard.is_broken, "a client that pauses after {end} bytes has done nothing wrong");
            assert!(whole.answers.starts_with(&heard.answers) && whole.requests.starts_with(&heard.requests));
        }
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
    let mut extended_long = [CLIENT_FLAGS.to_vec(), option(OPTION_EXTENDED_HEADERS, &[])].concat();
    extended_long.extend(info(OPTION_GO, "a", &[]));
    extended_long.extend(extended(WRITE, PAYLOAD_LENGTH, 1, 0, u64::MAX));
    let garbled = [&talk[..talk.len() - 100], b"garbage that is longer than a request header"].concat();
    for (name, bytes) in [
        ("whole", with(0, &talk)),
        ("bytewise", with(1, &talk)),
        ("cut-in-header", with(27, &talk[..talk.len() - 3])),
        ("garbled", with(5, &garbled)),
        ("extended", with(0, &extended_talk_of("a"))),
        ("extended-tls-required", with(2, &extended_talk_of("a"))),
        ("extended-tls-cut", with(31, &extended_talk_of("a"))),
        ("extended-long-payload", with(3, &extended_long)),
        ("export-name", with(3, &[&[0, 0, 0, 0][..], &option(OPTION_EXPORT_NAME, b"b")].concat())),
        ("long-option", with(0, &[&CLIENT_FLAGS[..], b"IHAVEOPT", &[0, 0, 0, 7, 255, 255, 255, 255, 0, 0]].concat())),
    ] {
        fs::write(corpus().join(name), bytes).expect("the corpus can be written");
    }
}
