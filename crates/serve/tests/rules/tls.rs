//! Rules of TLS: which clients the server accepts, that no plain bytes count, and that decrypted data is what was sent.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::certificates::{Authority, Files, Identity, secure};
use crate::client::*;
use ioweir_serve::control::{self, ask};
use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::Spec;
use ioweir_serve::tls::names_of;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::json;

const SIZE: usize = 4 << 20;
const MEMORY: &str =
    "[[device]]\nname = \"d\"\nbackend = \"memory\"\nsize = \"4MiB\"\n[[export]]\nname = \"export\"\ndevice = \"d\"\n";

struct Served {
    server: Option<Server>,
    socket: PathBuf,
    files: Files,
    folder: tempfile::TempDir,
}

/// A server with these keys, and these keys of its TLS table.
fn serve(head: &str, tls: &str) -> Served {
    serve_text(head, tls, MEMORY)
}

fn serve_text(head: &str, tls: &str, tail: &str) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::new(folder.path());
    let socket = folder.path().join("s");
    let head = head.replace("FOLDER", folder.path().to_str().unwrap());
    let text = format!("[server]\nlisten = [\"unix:{}\"]\n{head}\n{}\n{tail}", socket.display(), files.table(tls));
    let spec = Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}"));
    let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap();
    Served { server: Some(server), socket, files, folder }
}

type Secret = StreamOwned<ClientConnection, UnixStream>;

impl Served {
    fn connect(&self) -> UnixStream {
        let socket = UnixStream::connect(&self.socket).unwrap();
        // A missing answer makes the test fail instead of hang.
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket
    }

    /// A client that has agreed on the export, encrypted.
    fn client(&self, config: &Arc<ClientConfig>) -> io::Result<Secret> {
        let mut socket = self.connect();
        start_tls(&mut socket)?;
        let mut secret = secure(config, socket);
        agree(&mut secret)?;
        Ok(secret)
    }

    fn stop(mut self) {
        let server = self.server.take().unwrap();
        server.stopper().stop();
        server.wait().unwrap();
    }
}

/// The kind of the last reply to an option, all of which are read.
fn reply_to(socket: &mut impl Read, option: u32) -> io::Result<u32> {
    loop {
        let mut head = [0; 20];
        socket.read_exact(&mut head)?;
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        assert_eq!((&head[..8], number(8)), (&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], option));
        let mut data = vec![0; number(16) as usize];
        socket.read_exact(&mut data)?;
        if number(12) == ACK || number(12) >> 31 == 1 {
            return Ok(number(12));
        }
    }
}

const ACK: u32 = 1;
const TLS_REQUIRED: u32 = 0x8000_0005;

/// Begins the negotiation and asks for TLS; all further bytes are encrypted.
fn start_tls(socket: &mut (impl Read + Write)) -> io::Result<()> {
    socket.read_exact(&mut [0; 18])?;
    socket.write_all(&[&CLIENT_FLAGS[..], &option(OPTION_STARTTLS, &[])].concat())?;
    assert_eq!(reply_to(socket, OPTION_STARTTLS)?, ACK);
    Ok(())
}

/// Uses the export. Replies are simple.
fn agree(socket: &mut (impl Read + Write)) -> io::Result<()> {
    socket.write_all(&info(OPTION_GO, "export", &[]))?;
    match reply_to(socket, OPTION_GO)? {
        ACK => Ok(()),
        error => Err(io::Error::other(format!("{error:x}"))),
    }
}

/// The cookie of a simple reply without an error.
fn answer(socket: &mut impl Read) -> io::Result<u64> {
    let mut reply = [0; 16];
    socket.read_exact(&mut reply)?;
    assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    Ok(u64::from_be_bytes(reply[8..].try_into().unwrap()))
}

/// A flush that is answered: the server is alive and well.
fn flush(socket: &mut (impl Read + Write)) {
    socket.write_all(&request(FLUSH, 0, 9, 0, 0)).unwrap();
    assert_eq!(answer(socket).unwrap(), 9);
}

/// Reads to the end of what the other side sends.
fn rest(socket: &mut impl Read) -> Vec<u8> {
    let mut heard = Vec::new();
    // A connection that is reset has come to its end, too.
    let _ = socket.read_to_end(&mut heard);
    heard
}

/// Reads and writes at random places, several at a time, and compares with a copy of the expected data.
fn read_and_write(socket: &mut (impl Read + Write), mut random: u64) {
    let mut model = vec![0_u8; SIZE];
    let mut draw = |below: u64| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) % below
    };
    for _ in 0..40 {
        // Requests in flight together do not overlap, so that each has one right answer.
        let mut asked = Vec::new();
        for slot in 0..4_u64 {
            let room = SIZE as u64 / 4;
            let length = if draw(3) == 0 { 1 + draw(200_000) } else { 1 + draw(9_000) };
            let offset = slot * room + draw(room - length);
            let range = offset as usize..(offset + length) as usize;
            let mut message = request(if draw(2) == 0 { READ } else { WRITE }, 0, slot, offset, length as u32);
            let is_read = message[7] == 0;
            if !is_read {
                let value = draw(255) as u8;
                model[range.clone()].iter_mut().zip(0_u8..251).for_each(|(byte, at)| *byte = value ^ at);
                message.extend_from_slice(&model[range.clone()]);
            }
            // The message is sent in pieces that do not follow requests or records.
            for piece in message.chunks(1 + draw(50_000) as usize) {
                socket.write_all(piece).unwrap();
                socket.flush().unwrap();
            }
            asked.push((is_read, range));
        }
        for _ in 0..asked.len() {
            let (is_read, range) = asked[answer(socket).unwrap() as usize].clone();
            if is_read {
                let mut data = vec![0; range.len()];
                socket.read_exact(&mut data).unwrap();
                assert!(data == model[range], "what was read is what was written");
            }
        }
    }
}

#[test]
fn what_was_written_encrypted_is_read_encrypted() {
    let served = serve("", "");
    for (version, seed) in [(&rustls::version::TLS13, 1), (&rustls::version::TLS12, 2)] {
        let mut secret = served.client(&served.files.client_of(None, &[version])).unwrap();
        secret.write_all(&request(WRITE_ZEROES, 0, 0, 0, SIZE as u32)).unwrap();
        answer(&mut secret).unwrap();
        read_and_write(&mut secret, seed);
        // One record has more requests than may be in flight; the others must not be forgotten.
        let many: Vec<u8> = (0..1000).flat_map(|cookie| request(FLUSH, 0, cookie, 0, 0)).collect();
        secret.write_all(&many).unwrap();
        for _ in 0..1000 {
            answer(&mut secret).unwrap();
        }
    }
    served.stop();
}

#[test]
fn tls_is_enforced_where_required_and_optional_elsewhere() {
    let required = serve("", "");
    let mut open = required.connect();
    open.read_exact(&mut [0; 18]).unwrap();
    open.write_all(&CLIENT_FLAGS).unwrap();
    assert_eq!(agree(&mut open).unwrap_err().to_string(), format!("{TLS_REQUIRED:x}"));
    open.write_all(&option(OPTION_EXPORT_NAME, b"export")).unwrap();
    assert!(rest(&mut open).is_empty());
    flush(&mut required.client(&required.files.client(None)).unwrap());
    required.stop();

    let offered = serve("", "required = false");
    let mut open = offered.connect();
    open.read_exact(&mut [0; 18]).unwrap();
    open.write_all(&CLIENT_FLAGS).unwrap();
    agree(&mut open).unwrap();
    flush(&mut open);
    flush(&mut offered.client(&offered.files.client(None)).unwrap());
    offered.stop();
}

#[test]
fn clients_need_valid_certificates_of_the_authority() {
    let served = serve("", "clients = \"FOLDER/ca.pem\"");
    let files = &served.files;
    let good = files.authority.sign("gold", &[]);
    let expired = files.authority.sign_until("gold", &[], 2020);
    let stranger = Authority::new("authority").sign("gold", &[]);
    let mut witness = served.client(&files.client(Some(&good))).unwrap();
    for versions in [&[&rustls::version::TLS13], &[&rustls::version::TLS12]] {
        for identity in [None, Some(&expired), Some(&stranger)] {
            assert!(served.client(&files.client_of(identity, versions)).is_err());
        }
        flush(&mut served.client(&files.client_of(Some(&good), versions)).unwrap());
    }
    flush(&mut witness);
    served.stop();
}

#[test]
fn reloads_take_renewed_certificates_and_refuse_bad_ones() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::new(folder.path());
    let at = |name: &str| folder.path().join(name).display().to_string();
    let text = format!("[server]\nlisten = [\"unix:{}\"]\n{}\n{MEMORY}", at("s"), files.table(""));
    std::fs::write(at("spec.toml"), &text).unwrap();
    let spec = Spec::parse(&at("spec.toml"), &text).unwrap();
    let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap();
    let config = files.client(None);
    let shown = || {
        let mut socket = UnixStream::connect(at("s")).unwrap();
        start_tls(&mut socket).unwrap();
        let mut secret = secure(&config, socket);
        agree(&mut secret).unwrap();
        secret.conn.peer_certificates().unwrap()[0].to_vec()
    };
    let before = shown();
    let renewed = files.authority.sign("server", &["localhost"]);
    files.write("server.pem", &renewed.certificate);
    files.write("server-key.pem", &renewed.key);
    assert_eq!(shown(), before);
    assert_eq!(server.controller().reload(), Ok(Vec::new()));
    let after = CertificateDer::from_pem_slice(renewed.certificate.as_bytes()).unwrap().to_vec();
    assert_eq!(shown(), after);
    files.write("server-key.pem", "no key");
    assert!(server.controller().reload().unwrap_err().contains("server-key.pem"));
    assert_eq!(shown(), after);
    server.stopper().stop();
    server.wait().unwrap();
}

#[test]
fn a_certificate_makes_its_client_a_tenant() {
    let tail = "[[tenant]]\nname = \"gold\"\nexport = \"export\"\ncertificate = \"gold\"\nweight = 300\n\
                [[tenant]]\nname = \"slow\"\nexport = \"export\"\ncertificate = \"slow.example\"\nlimit = \"1/s\"\n";
    let text = MEMORY.replace("[[export]]", "scheduler = \"mclock\"\n[[export]]");
    let served = serve_text("control = \"unix:FOLDER/c\"", "clients = \"FOLDER/ca.pem\"", &format!("{text}{tail}"));
    let signed = |common: &str, names: &[&str]| {
        let config = served.files.client(Some(&served.files.authority.sign(common, names)));
        served.client(&config).unwrap()
    };
    let read = |secret: &mut Secret, length: usize| {
        secret.write_all(&request(READ, 0, 1, 0, length as u32)).unwrap();
        answer(secret).unwrap();
        secret.read_exact(&mut vec![0; length]).unwrap();
    };
    let (mut gold, mut slow) = (signed("gold", &[]), signed("somebody", &["other.example", "slow.example"]));
    let (mut nobody, mut elder) = (signed("nobody", &[]), signed("golden", &["Gold", "gold.example"]));
    (0..3).for_each(|_| read(&mut gold, 4096));
    read(&mut slow, 512);
    (0..5).for_each(|_| read(&mut nobody, 1024));
    read(&mut elder, 1024);
    // The second request of a client with a limit of one a second waits; those of other clients do not.
    slow.write_all(&request(READ, 0, 2, 0, 512)).unwrap();
    flush(&mut gold);
    let state = ask(&served.folder.path().join("c"), &control::Command::State {}).unwrap();
    let classes: Vec<_> = state["classes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|class| {
            let read = &class["totals"]["read"];
            (class["name"].as_str().unwrap(), read["requests"].as_u64().unwrap(), read["bytes"].as_u64().unwrap())
        })
        .collect();
    // Names of certificates match only as a whole.
    assert_eq!(classes, [("export", 6, 6144), ("gold", 3, 12_288), ("slow", 1, 512)]);
    let clients = ask(&served.folder.path().join("c"), &control::Command::Clients {}).unwrap();
    let second = &clients["clients"][1];
    let names = json!(["somebody", "other.example", "slow.example"]);
    assert_eq!((&second["class"], &second["certificate"]), (&json!("slow"), &names));
    served.stop();
}

#[test]
fn exports_with_certificates_serve_their_clients_alone() {
    let text = MEMORY.trim_end().to_string() + "\nallow = [\"certificate:gold\"]\n";
    let served = serve_text("", "clients = \"FOLDER/ca.pem\"", &text);
    let client = |name: &str, names: &[&str]| {
        served.client(&served.files.client(Some(&served.files.authority.sign(name, names))))
    };
    flush(&mut client("gold", &[]).unwrap());
    flush(&mut client("somebody", &["gold"]).unwrap());
    assert!(
        client("golden", &["gold.example"]).unwrap_err().to_string().contains("80000006"),
        "there is no such export"
    );
    served.stop();
}

#[test]
fn plain_data_behind_starttls_is_never_read() {
    let served = serve("", "");
    let begin = [&CLIENT_FLAGS[..], &option(OPTION_STARTTLS, &[])].concat();
    let inject = option(OPTION_LIST, &[]);
    // The plain bytes follow the option in one piece, before the answer. The connection ends after the acknowledgement, or before it.
    let mut socket = served.connect();
    socket.write_all(&[begin.clone(), inject.clone()].concat()).unwrap();
    socket.read_exact(&mut [0; 18]).unwrap();
    // A client that does not know of inserted bytes would continue.
    if reply_to(&mut socket, OPTION_STARTTLS).is_ok() {
        assert!(agree(&mut secure(&served.files.client(None), socket)).is_err());
    }
    // The plain bytes follow the answer: they are no TLS, and the client gets an alert.
    let mut socket = served.connect();
    start_tls(&mut socket).unwrap();
    socket.write_all(&inject).unwrap();
    let heard = rest(&mut socket);
    assert!(heard.is_empty() || heard[0] == 0x15, "an alert, or nothing: {heard:?}");
    // Options agreed upon in the open do not count: replies are simple again.
    let mut socket = served.connect();
    socket.read_exact(&mut [0; 18]).unwrap();
    socket.write_all(&CLIENT_FLAGS).unwrap();
    socket.write_all(&option(OPTION_STARTTLS, &[])).unwrap();
    assert_eq!(reply_to(&mut socket, OPTION_STARTTLS).unwrap(), ACK);
    let mut secret = secure(&served.files.client(None), socket);
    agree(&mut secret).unwrap();
    flush(&mut secret);
    served.stop();
}

#[test]
fn garbage_handshakes_end_their_own_connection_only() {
    let served = serve("watch = \"unix:FOLDER/watch\"", "");
    let mut witness = served.client(&served.files.client(None)).unwrap();
    for garbage in [
        vec![0; 100],
        vec![0xff; 70_000],
        b"GET / HTTP/1.0\r\n\r\n".to_vec(),
        [&[22, 3, 1, 0x40, 0][..], &[1; 0x4000]].concat(),
    ] {
        let mut socket = served.connect();
        start_tls(&mut socket).unwrap();
        // The server may close the connection before all of the garbage is sent.
        let _ = socket.write_all(&garbage);
        let _ = socket.shutdown(Shutdown::Write);
        rest(&mut socket);
        flush(&mut witness);
    }
    // Garbage in the place of a request ends a connection that was good until then.
    let mut secret = served.client(&served.files.client(None)).unwrap();
    secret.sock.write_all(&[0x17; 100]).unwrap();
    rest(&mut secret.sock);
    flush(&mut witness);
    let counted = "ioweir_events_total{kind=\"tls_failed\"} 5";
    assert!(metrics(served.folder.path()).lines().any(|line| line == counted), "{counted}");
    served.stop();
}

#[test]
fn stalled_handshakes_delay_no_one_and_are_closed() {
    let served = serve("handshake_timeout = \"300ms\"", "");
    let mut witness = served.client(&served.files.client(None)).unwrap();
    let mut hello = Vec::new();
    let mut connection = secure(&served.files.client(None), io::empty()).conn;
    connection.write_tls(&mut hello).unwrap();
    let mut slow: Vec<_> = [0, 1, hello.len() / 2, hello.len()]
        .iter()
        .map(|&sent| {
            let mut socket = served.connect();
            start_tls(&mut socket).unwrap();
            socket.write_all(&hello[..sent]).unwrap();
            socket
        })
        .collect();
    flush(&mut witness);
    flush(&mut served.client(&served.files.client(None)).unwrap());
    slow.iter_mut().for_each(|socket| drop(rest(socket)));
    flush(&mut witness);
    served.stop();
}

/// A socket that breaks after this many bytes were sent.
struct Breaking {
    socket: UnixStream,
    left: usize,
}

impl Read for Breaking {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.socket.read(bytes)
    }
}

impl Write for Breaking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.socket.write(&bytes[..bytes.len().min(self.left)])?;
        self.left -= sent;
        if sent == 0 { Err(ErrorKind::BrokenPipe.into()) } else { Ok(sent) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn disconnects_at_any_handshake_byte_do_no_harm() {
    let served = serve("connections_max = 3", "clients = \"FOLDER/ca.pem\"");
    let config = served.files.client(Some(&served.files.authority.sign("gold", &[])));
    let mut witness = served.client(&config).unwrap();
    let attempt = |left: usize| -> io::Result<usize> {
        let mut socket = Breaking { socket: served.connect(), left };
        start_tls(&mut socket)?;
        let mut secret = secure(&config, socket);
        agree(&mut secret)?;
        secret.write_all(&request(FLUSH, 0, 9, 0, 0))?;
        answer(&mut secret)?;
        Ok(left - secret.sock.left)
    };
    let whole = loop {
        // Places become free a moment after a client has left.
        if let Ok(sent) = attempt(usize::MAX) {
            break sent;
        }
    };
    for left in 0..whole {
        // A signature may be a few bytes shorter in one handshake than in another.
        assert!(attempt(left).is_err() || left + 16 > whole);
    }
    flush(&mut witness);
    served.stop();
}

#[test]
fn both_sides_say_that_they_end() {
    let served = serve("", "");
    // A client that disconnects gets its answers, and a proper end of TLS.
    let mut secret = served.client(&served.files.client(None)).unwrap();
    let last = [request(WRITE, 0, 7, 0, 4096), vec![1; 4096], request(DISCONNECT, 0, 8, 0, 0)].concat();
    secret.write_all(&last).unwrap();
    assert_eq!(answer(&mut secret).unwrap(), 7);
    assert_eq!(secret.read(&mut [0; 1]).unwrap(), 0, "it ends as TLS does");
    // A client that ends the TLS session and keeps its socket open gets them, too.
    let mut secret = served.client(&served.files.client(None)).unwrap();
    secret.write_all(&[request(READ, 0, 5, 0, 4), request(READ, 0, 6, 0, 5000)].concat()).unwrap();
    secret.conn.send_close_notify();
    secret.flush().unwrap();
    let mut heard = Vec::new();
    secret.read_to_end(&mut heard).unwrap();
    assert_eq!(heard.len(), 2 * 16 + 4 + 5000);
    // A client that aborts the negotiation gets a proper end of TLS, too.
    let mut socket = served.connect();
    start_tls(&mut socket).unwrap();
    let mut secret = secure(&served.files.client(None), socket);
    secret.write_all(&option(OPTION_ABORT, &[])).unwrap();
    assert_eq!(reply_to(&mut secret, OPTION_ABORT).unwrap(), ACK);
    assert_eq!(secret.read(&mut [0; 1]).unwrap(), 0);
    served.stop();
}

#[test]
fn slow_tls_readers_delay_none_and_get_everything() {
    let served = serve("", "");
    let mut deaf = served.client(&served.files.client(None)).unwrap();
    let mut other = served.client(&served.files.client(None)).unwrap();
    for cookie in 0..64 {
        deaf.write_all(&request(READ, 0, cookie, 0, 1 << 20)).unwrap();
    }
    read_and_write(&mut other, 3);
    for _ in 0..64 {
        answer(&mut deaf).unwrap();
        deaf.read_exact(&mut vec![0; 1 << 20]).unwrap();
    }
    flush(&mut deaf);
    served.stop();
}

#[test]
fn certificates_have_the_names_they_were_signed_with() {
    let identity = Authority::new("authority").sign("gold", &["gold.example", "gold"]);
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
    assert_eq!(names_of(&certificate), ["gold", "gold.example", "gold"]);
    assert!(names_of(b"no certificate").is_empty());
    assert!(names_of(&certificate[..certificate.len() / 2]).is_empty());
}

#[test]
fn errors_in_files_are_reported_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::new(folder.path());
    let Identity { certificate, key } = files.authority.sign("other", &[]);
    files.write("other.pem", &certificate);
    files.write("other-key.pem", &key);
    files.write("empty.pem", "");
    let garbled = certificate.replace('M', "*");
    files.write("garbled.pem", &garbled);
    let table = files.table("clients = \"FOLDER/ca.pem\"");
    let wrong = |from: &str, to: &str| {
        let text = format!("{table}\n{MEMORY}").replace(from, to);
        let error = Spec::parse("s.toml", &text).unwrap_err().to_string();
        error.replace(folder.path().to_str().unwrap(), "FOLDER")
    };
    for (from, to, beginning) in [
        ("server.pem", "none.pem", "s.toml:2:15: certificate: FOLDER/none.pem: cannot be read: No such file"),
        ("server.pem", "empty.pem", "s.toml:2:15: certificate: FOLDER/empty.pem: has no certificate in it"),
        ("server.pem", "server-key.pem", "s.toml:2:15: certificate: FOLDER/server-key.pem: has no certificate in it"),
        ("server.pem", "garbled.pem", "s.toml:2:15: certificate: FOLDER/garbled.pem: is malformed"),
        ("server-key.pem", "server.pem", "s.toml:3:7: key: FOLDER/server.pem: has no private key in it"),
        (
            "server-key.pem",
            "other-key.pem",
            "s.toml:3:7: key: FOLDER/other-key.pem: is not the key to FOLDER/server.pem",
        ),
        ("ca.pem", "empty.pem", "s.toml:4:11: clients: FOLDER/empty.pem: has no certificate in it"),
        ("clients =", "client =", "s.toml:4:1: unknown field `client`"),
    ] {
        let error = wrong(from, to);
        assert!(error.starts_with(beginning), "{beginning}\n--- is not the beginning of ---\n{error}");
    }
    let spec = Spec::parse("s.toml", &format!("{table}\n{MEMORY}")).unwrap();
    assert!(spec.server.tls.as_ref().is_some_and(|tls| tls.required));
    assert_eq!(Spec::parse("s.toml", &spec.to_toml()).unwrap(), spec);
}

/// Whether a tool is installed; if not, prints that this part is skipped.
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        let _ = writeln!(io::stderr(), "skipped: {tool} is not installed");
    }
    found
}

fn run(tool: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(tool).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(text) } else { Err(format!("{tool} {arguments:?}: {text}")) }
}

#[test]
fn the_tools_of_others_copy_encrypted() {
    if !has("nbdinfo") || !has("nbdcopy") {
        return;
    }
    let served = serve("", "clients = \"FOLDER/ca.pem\"");
    let folder = served.folder.path();
    let place = |name: &str| folder.join(name).to_str().unwrap().to_string();
    // The file names that libnbd expects.
    let with_names = |folder: &str, identity: &Identity| {
        std::fs::create_dir(place(folder)).unwrap();
        std::fs::copy(place("ca.pem"), place(&format!("{folder}/ca-cert.pem"))).unwrap();
        std::fs::write(place(&format!("{folder}/client-cert.pem")), &identity.certificate).unwrap();
        std::fs::write(place(&format!("{folder}/client-key.pem")), &identity.key).unwrap();
        format!("nbds+unix:///export?socket={}&tls-certificates={}&tls-verify-peer=false", place("s"), place(folder))
    };
    let uri = with_names("good", &served.files.authority.sign("gold", &[]));
    let info = run("nbdinfo", &[&uri]).unwrap_or_else(|error| panic!("{error}"));
    assert!(info.contains("with TLS") && info.contains("export-size: 4194304"), "{info}");
    let bytes: Vec<u8> = (0..SIZE as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    std::fs::write(place("from"), &bytes).unwrap();
    run("nbdcopy", &["--flush", &place("from"), &uri]).unwrap_or_else(|error| panic!("{error}"));
    run("nbdcopy", &[&uri, &place("to")]).unwrap_or_else(|error| panic!("{error}"));
    assert!(std::fs::read(place("to")).unwrap() == bytes, "what was copied there and back is the same");
    let stranger = with_names("stranger", &Authority::new("authority").sign("gold", &[]));
    assert!(run("nbdinfo", &[&stranger]).is_err());
    assert!(run("nbdinfo", &[&format!("nbd+unix:///export?socket={}", place("s"))]).is_err());
    served.stop();
}
