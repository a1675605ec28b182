//! Rules of a server without descriptors for clients: operators can still reach it.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::os::unix::net::UnixStream;

use crate::client::*;
use crate::process::Process;
use ioweir_serve::control::{Command, ask};

#[test]
fn without_descriptors_clients_wait_and_operators_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let head = format!(
        "control = \"unix:{at}/control\"\nwatch = \"unix:{at}/watch\"\nconnections_max = 1000\nhandshake_timeout = \"1h\""
    );
    let mut process =
        Process::start(folder.path(), &head, "backend = \"memory\"\nsize = \"64MiB\"\nrequest_bytes_max = \"64KiB\"");
    agree(&mut process.connect());
    process.limit_descriptors(process.descriptors() as u64 + 60);
    // More clients than there is room for, and few enough to wait in the socket.
    let others: Vec<UnixStream> = (0..100).map(|_| process.connect()).collect();
    let said = "ioweir_events_total{kind=\"listening_paused\"} ";
    let paused = || metrics(folder.path()).lines().find_map(|line| line.strip_prefix(said).map(String::from)).unwrap();
    while paused() == "0" {}
    let state = ask(&folder.path().join("control"), &Command::State {}).unwrap();
    let connections = state["connections"].as_u64().unwrap();
    assert!((20..60).contains(&connections), "{connections}");
    drop(others);
    agree(&mut process.connect());
    process.stop();
}
