//! Rules of a takeover: sockets are handed over, clients are drained, and no client is refused.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::client::*;
use crate::process::Process;
use ioweir_serve::control::AskError;
use ioweir_serve::front::Takeover;
use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::Spec;

fn start(folder: &Path) -> Process {
    let at = folder.display();
    let device = format!("backend = \"file\"\npath = \"{at}/disk\"\nsize = \"64MiB\"");
    Process::start(folder, &format!("control = \"unix:{at}/control\""), &device)
}

fn message(manager: &UnixDatagram) -> String {
    let mut message = [0; 64];
    let length = manager.recv(&mut message).unwrap();
    String::from_utf8_lossy(&message[..length]).trim().to_string()
}

/// Reads the first block; `None` if the server has ended the connection, which it may not refuse.
fn look(socket: &Path) -> Option<u8> {
    let mut client = UnixStream::connect(socket).unwrap_or_else(|error| panic!("a client is refused: {error}"));
    let negotiated = [&CLIENT_FLAGS[..], &option(OPTION_EXPORT_NAME, b"export"), &request(READ, 0, 1, 0, 512)].concat();
    client.write_all(&negotiated).ok()?;
    let mut answer = [0; 18 + 10 + 16 + 512];
    client.read_exact(&mut answer).ok()?;
    Some(answer[18 + 10 + 16])
}

#[test]
fn takeovers_move_sockets_and_devices_refusing_no_client() {
    let folder = tempfile::tempdir().unwrap();
    let manager = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    let mut before = start(folder.path());
    let mut client = before.connect();
    agree(&mut client);
    // The write is not flushed, which the first server does at its end.
    client.write_all(&[request(WRITE, 0, 1, 0, 512), vec![7; 512]].concat()).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
    let socket = folder.path().join("s");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let others: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut looks = 0_u64;
                    while !is_over.load(Ordering::Relaxed) {
                        if let Some(found) = look(&socket) {
                            assert_eq!(found, 7, "what was answered is there, whoever serves");
                            looks += 1;
                        }
                    }
                    looks
                })
            })
            .collect();
        let takeover = Takeover::ask(&folder.path().join("control")).unwrap();
        assert_eq!(takeover.listeners.len(), 1);
        assert_eq!(message(&manager), format!("MAINPID={}", std::process::id()));
        let listeners = takeover.wait().unwrap();
        let text = std::fs::read_to_string(folder.path().join("spec.toml")).unwrap();
        let spec = Spec::parse("spec.toml", &text).unwrap();
        let server = Server::start(&spec, Entrance::TakenOver(listeners), false, None).unwrap();
        before.wait();
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0, "a client that was connected is ended");
        assert_eq!(look(&socket), Some(7));
        is_over.store(true, Ordering::Relaxed);
        let looks: u64 = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert!(looks > 0);
        server.stopper().stop();
        server.wait().unwrap();
    });
    assert!(!socket.exists(), "the socket file is the one's who has the socket");
}

#[test]
fn stopping_servers_notify_the_service_manager() {
    let folder = tempfile::tempdir().unwrap();
    let manager = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    let mut process = start(folder.path());
    agree(&mut process.connect());
    process.stop();
    assert_eq!(message(&manager), "STOPPING=1");
}

#[test]
fn what_cannot_be_taken_over_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let Err(AskError::Unreachable(problem)) = Takeover::ask(&folder.path().join("control")) else {
        panic!("nobody is there")
    };
    assert!(problem.contains("no server listens there"), "{problem}");
}
