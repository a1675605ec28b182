//! Rules of the reports about upstreams for operators.

use std::path::Path;

use ioweir_serve::control::{Command, ask};
use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::Spec;
use serde_json::Value;

use super::sham::Sham;
use crate::client::metrics;

fn state(folder: &Path) -> Value {
    ask(&folder.join("control"), &Command::State {}).unwrap()["devices"][0]["upstream"].clone()
}

#[test]
fn operators_see_connections_and_downtime_of_upstreams() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let sham = Sham::new(at);
    let text = format!(
        "[server]\nlisten = [\"unix:{0}/s\"]\ncontrol = \"unix:{0}/control\"\nwatch = \"unix:{0}/watch\"\n\
         [[device]]\nname = \"d\"\n{1}connections = 2\n[[export]]\nname = \"export\"\ndevice = \"d\"\n",
        at.display(),
        sham.keys("")
    );
    let spec = Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}"));
    let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap();
    while state(at)["connections"] != 2 {
        std::thread::yield_now();
    }
    assert_eq!((&state(at)["down_seconds"], &state(at)["problem"]), (&Value::Null, &Value::Null));
    sham.die(true);
    while state(at)["down_seconds"].as_f64().is_none_or(|down| down <= 0.0) {
        std::thread::yield_now();
    }
    assert!(metrics(at).contains("ioweir_upstream_connections{device=\"d\"} 0"), "{}", metrics(at));
    while state(at)["problem"].as_str().is_none_or(|problem| !problem.contains("cannot connect")) {
        std::thread::yield_now();
    }
    sham.revive();
    while state(at)["connections"] != 2 {
        std::thread::yield_now();
    }
    assert_eq!(state(at)["reconnects"], 1);
    while !metrics(at).contains("ioweir_upstream_reconnects_total{device=\"d\"} 1") {
        std::thread::yield_now();
    }
    server.stopper().stop();
    server.wait().unwrap();
}
