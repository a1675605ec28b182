//! A server of two tenants on an emulated disk, and clients that always have requests in flight.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;

use ioweir_serve::control::{Command, ask};
use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::Spec;

use crate::client::*;

/// The number of requests that each client has in flight.
const DEPTH: u64 = 8;
const REQUEST_BYTES: u32 = 4096;
const DISK_BYTES: u64 = 1 << 30;

/// The folder and port of a server, which need not run.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    port: u16,
}

impl Place {
    pub(crate) fn new() -> Self {
        // A port that was free just now.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        Self { folder: tempfile::tempdir().unwrap(), port }
    }

    pub(crate) fn page(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(crate) fn serve(&self) -> Server {
        let folder = self.folder.path().display();
        let text = format!(
            "[server]\nlisten = [\"unix:{folder}/socket\"]\ncontrol = \"unix:{folder}/control\"\n\
             watch = \"tcp:127.0.0.1:{}\"\n\
             [[device]]\nname = \"disk\"\nbackend = \"emulated\"\nmodel = \"hdd\"\nsize = \"1GiB\"\nscheduler = \"sfq\"\n\
             [[export]]\nname = \"gold\"\ndevice = \"disk\"\nweight = 300\n\
             [[export]]\nname = \"bronze\"\ndevice = \"disk\"\nweight = 100\n",
            self.port
        );
        let spec = Spec::parse("two-tenants.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap()
    }

    pub(crate) fn set(&self, assignment: &str) {
        ask(&self.folder.path().join("control"), &Command::Set(vec![assignment.into()])).unwrap();
    }

    /// A client that reads until the server ends.
    pub(crate) fn ask(&self, export: &str) -> JoinHandle<()> {
        let mut socket = UnixStream::connect(self.socket()).unwrap();
        agree(&mut socket, export);
        std::thread::spawn(move || read_on(socket))
    }
}

/// Ends a server and waits for its clients.
pub(crate) fn end(server: Server, clients: impl IntoIterator<Item = JoinHandle<()>>) {
    server.stopper().stop();
    server.wait().unwrap();
    for client in clients {
        client.join().unwrap();
    }
}

fn agree(socket: &mut UnixStream, export: &str) {
    let mut greeting = [0; 18];
    socket.read_exact(&mut greeting).unwrap();
    socket.write_all(&[&CLIENT_FLAGS[..], &option(OPTION_EXPORT_NAME, export.as_bytes())].concat()).unwrap();
    let mut answer = [0; 10];
    socket.read_exact(&mut answer).unwrap();
}

fn read_on(mut socket: UnixStream) {
    // Each request reads another place, by steps of an odd number of pages.
    let offset = |number: u64| number * 7_919 * u64::from(REQUEST_BYTES) % DISK_BYTES;
    let ask =
        |socket: &mut UnixStream, number| socket.write_all(&request(READ, 0, number, offset(number), REQUEST_BYTES));
    let mut answer = [0; 16 + REQUEST_BYTES as usize];
    for number in 0.. {
        // The client ends with its server.
        if ask(&mut socket, number).is_err() || (number >= DEPTH && socket.read_exact(&mut answer).is_err()) {
            return;
        }
    }
}
