//! A client's side of the protocol, byte by byte: written a second time, for tests only.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// `NBDMAGIC`, `IHAVEOPT`, and the flags of a client that knows fixed newstyle and wants no zeroes.
pub(crate) const CLIENT_FLAGS: [u8; 4] = [0, 0, 0, 3];

pub(crate) const OPTION_EXPORT_NAME: u32 = 1;
pub(crate) const OPTION_ABORT: u32 = 2;
pub(crate) const OPTION_LIST: u32 = 3;
pub(crate) const OPTION_STARTTLS: u32 = 5;
pub(crate) const OPTION_INFO: u32 = 6;
pub(crate) const OPTION_GO: u32 = 7;
pub(crate) const OPTION_STRUCTURED_REPLY: u32 = 8;
pub(crate) const OPTION_LIST_META_CONTEXT: u32 = 9;
pub(crate) const OPTION_SET_META_CONTEXT: u32 = 10;
pub(crate) const OPTION_EXTENDED_HEADERS: u32 = 11;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISCONNECT: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const BLOCK_STATUS: u16 = 7;

pub(crate) const FUA: u16 = 1;
pub(crate) const NO_HOLE: u16 = 2;
pub(crate) const DF: u16 = 4;
pub(crate) const REQUEST_ONE: u16 = 8;
pub(crate) const FAST_ZERO: u16 = 16;
pub(crate) const PAYLOAD_LENGTH: u16 = 32;

/// An option with its data.
pub(crate) fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).expect("short").to_be_bytes());
    bytes.extend(data);
    bytes
}

/// `INFO` or `GO` for an export.
pub(crate) fn info(number: u32, name: &str, items: &[u16]) -> Vec<u8> {
    let mut data = counted(name.as_bytes());
    data.extend(u16::try_from(items.len()).expect("few").to_be_bytes());
    data.extend(items.iter().flat_map(|item| item.to_be_bytes()));
    option(number, &data)
}

/// `SET_META_CONTEXT` or `LIST_META_CONTEXT` for an export.
pub(crate) fn contexts(number: u32, name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = counted(name.as_bytes());
    data.extend(u32::try_from(queries.len()).expect("few").to_be_bytes());
    data.extend(queries.iter().flat_map(|query| counted(query.as_bytes())));
    option(number, &data)
}

fn counted(text: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(text.len()).expect("short").to_be_bytes().to_vec();
    bytes.extend(text);
    bytes
}

/// A request without its data.
pub(crate) fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// A request with an extended header.
pub(crate) fn extended(command: u16, flags: u16, cookie: u64, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = 0x21e4_1c71_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// The bytes of a client that uses every option of the negotiation and every command once.
pub(crate) fn whole_talk() -> Vec<u8> {
    whole_talk_of("a")
}

/// A negotiation about the export of this name, with every option.
pub(crate) fn whole_talk_of(name: &str) -> Vec<u8> {
    [
        CLIENT_FLAGS.to_vec(),
        option(OPTION_STARTTLS, &[]),
        option(OPTION_STRUCTURED_REPLY, &[]),
        option(OPTION_LIST, &[]),
        contexts(OPTION_LIST_META_CONTEXT, name, &[]),
        contexts(OPTION_SET_META_CONTEXT, name, &["base:allocation", "qemu:dirty-bitmap:x"]),
        info(OPTION_INFO, "nobody", &[]),
        info(OPTION_GO, name, &[1, 2, 3]),
        request(WRITE, FUA, 1, 512, 5),
        b"hello".to_vec(),
        request(READ, DF, 2, 512, 4096),
        request(BLOCK_STATUS, REQUEST_ONE, 3, 0, 1 << 20),
        request(WRITE_ZEROES, FAST_ZERO | NO_HOLE, 4, 0, 65536),
        request(TRIM, 0, 5, 4096, 4096),
        request(CACHE, 0, 6, 0, 4096),
        request(FLUSH, 0, 7, 0, 0),
        request(DISCONNECT, 0, 8, 0, 0),
    ]
    .concat()
}

/// The bytes of a client that asks for encryption and agrees on extended headers.
pub(crate) fn extended_talk_of(name: &str) -> Vec<u8> {
    [
        CLIENT_FLAGS.to_vec(),
        option(OPTION_STRUCTURED_REPLY, &[]),
        option(OPTION_STARTTLS, &[]),
        option(OPTION_EXTENDED_HEADERS, &[]),
        option(OPTION_STRUCTURED_REPLY, &[]),
        contexts(OPTION_SET_META_CONTEXT, name, &["base:allocation"]),
        info(OPTION_GO, name, &[3]),
        extended(WRITE, PAYLOAD_LENGTH, 1, 512, 5),
        b"hello".to_vec(),
        extended(READ, DF, 2, 512, 4096),
        extended(BLOCK_STATUS, 0, 3, 0, 1 << 20),
        extended(BLOCK_STATUS, PAYLOAD_LENGTH, 4, 0, 12),
        [&1_u64.to_be_bytes()[..], &1_u32.to_be_bytes()].concat(),
        extended(WRITE_ZEROES, NO_HOLE, 5, 0, 65536),
        extended(TRIM, 0, 6, 0, 1 << 20),
        extended(DISCONNECT, 0, 7, 0, 0),
    ]
    .concat()
}

/// Negotiates as far as an export of 64 MiB, and leaves the socket where requests begin. Replies are simple.
pub(crate) fn agree(socket: &mut (impl Read + Write)) {
    let mut greeting = [0; 18];
    socket.read_exact(&mut greeting).expect("a greeting");
    choose(socket);
}

/// The client's part of the negotiation after the greeting.
pub(crate) fn choose(socket: &mut (impl Read + Write)) {
    socket
        .write_all(&[&CLIENT_FLAGS[..], &option(OPTION_EXPORT_NAME, b"export")].concat())
        .expect("the server listens");
    let mut answer = [0; 10];
    socket.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[..8], (64_u64 << 20).to_be_bytes());
}

/// A flush that is answered: the server is alive and well.
pub(crate) fn flush(socket: &mut (impl Read + Write)) {
    socket.write_all(&request(FLUSH, 0, 9, 0, 0)).expect("the server listens");
    let mut answer = [0; 16];
    socket.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
}

/// The metrics of a server whose page is at `watch` in a folder.
pub(crate) fn metrics(folder: &Path) -> String {
    let mut socket = UnixStream::connect(folder.join("watch")).expect("a server");
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("it listens");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer");
    text
}
