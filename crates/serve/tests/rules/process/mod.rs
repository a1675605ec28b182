//! A server in a process of its own, which can be killed and whose descriptors can be counted.

#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::Spec;

/// The path of the spec that the process serves.
const SPEC: &str = "IOWEIR_TEST_SPEC";

/// The test's own process: it serves a spec until it ends.
#[test]
#[ignore = "started by the tests that need a process"]
fn serve_as_a_process() {
    let Ok(path) = std::env::var(SPEC) else { return };
    let spec = Spec::parse("test", &fs::read_to_string(path).unwrap()).unwrap();
    Server::start(&spec, Entrance::Listeners(Vec::new()), true, None).unwrap().wait().unwrap();
}

/// A running server.
pub(crate) struct Process {
    child: Child,
    socket: PathBuf,
}

impl Process {
    /// Serves a device of these keys as `export`, whose further keys follow `[[export]]` among them; `head` holds further
    /// keys of `[server]`.
    pub(crate) fn start(folder: &Path, head: &str, device: &str) -> Self {
        let (spec, socket) = (folder.join("spec.toml"), folder.join("s"));
        let listen = format!("[server]\nlisten = [\"unix:{}\"]\n{head}", socket.display());
        let (device, further) = device.split_once("[[export]]").unwrap_or((device, ""));
        let export = format!("[[export]]\nname = \"export\"\ndevice = \"d\"\n{further}");
        fs::write(&spec, format!("{listen}\n[[device]]\nname = \"d\"\n{device}\n{export}\n")).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["process::serve_as_a_process", "--exact", "--ignored", "--nocapture"])
            .env(SPEC, &spec)
            // The socket at which a test receives messages to the service manager.
            .env("NOTIFY_SOCKET", folder.join("notify"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, socket }
    }

    /// A connection, as soon as there can be one.
    pub(crate) fn connect(&mut self) -> UnixStream {
        loop {
            // The socket file of a killed server exists until this server has replaced it.
            match UnixStream::connect(&self.socket) {
                Ok(client) => return client,
                Err(_) => assert!(self.child.try_wait().unwrap().is_none(), "the server runs"),
            }
        }
    }

    /// Limits the process to this many descriptors.
    pub(crate) fn limit_descriptors(&self, most: u64) {
        let limit = rustix::process::Rlimit { current: Some(most), maximum: Some(most) };
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::prlimit(Some(process), rustix::process::Resource::Nofile, limit).unwrap();
    }

    /// The number of its open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Kills the process as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the process ends by itself, successfully.
    pub(crate) fn wait(&mut self) {
        assert!(self.child.wait().unwrap().success(), "the server ends well");
    }

    /// Stops the process as `kill` does; it must end successfully.
    pub(crate) fn stop(mut self) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::TERM)
            .unwrap();
        self.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ends the process of a test that has failed; others have stopped it already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
