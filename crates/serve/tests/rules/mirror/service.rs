//! A mirror under an engine and a server: resync and scrub as services, and what operators see.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::channel;

use ioweir_core::Nanos;
use ioweir_serve::backend::checked::sidecar::Begun;
use ioweir_serve::backend::checked::{WorkerPool, Workers};
use ioweir_serve::backend::{Backend, Checked};
use ioweir_serve::control::{Command, ask};
use ioweir_serve::engine;
use ioweir_serve::log::EventKind;
use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::{Device, Service, Spec};
use serde_json::Value;

use super::rig;
use crate::bench::{Bench, Peer};
use crate::client::*;
use crate::powered::Grid;

const MIRROR: &str = "[[device]]\nname = \"d\"\nbackend = \"mirror\"\nregion = \"8KiB\"\nscheduler = \"sfq\"\n\
    [[device.leg]]\nbackend = \"memory\"\nsize = \"1MiB\"\n[[device.leg]]\nbackend = \"memory\"\nsize = \"1MiB\"\n\
    [service.resync]\nkind = \"resync\"\ndevice = \"d\"\ndefault = \"run\"\n\
    [service.nightly]\nkind = \"scrub\"\ndevice = \"d\"\ndefault = \"run\"\n\
    [[export]]\nname = \"a\"\ndevice = \"d\"\n";

/// The device of the spec, and one of its services.
fn keys(kind: &str) -> (Device, Service) {
    let mut spec = Spec::parse("test", MIRROR).unwrap_or_else(|error| panic!("{error}"));
    (spec.device.remove(0), spec.service.remove(kind).unwrap())
}

/// An engine over the disks of a grid.
pub(super) fn bench(grid: &Grid, kind: &str, checked: bool) -> Bench {
    let (device, service) = keys(kind);
    let mut backend: Box<dyn Backend> = Box::new(rig::open(grid, 2, &[0, 1], None, 1).unwrap());
    if checked {
        let row = &ioweir_core::cores::SCHEDULES[0];
        let workers = Workers {
            schedule: row.schedule(&row.defaults()),
            count: 1,
            cores: 1,
            items: 8,
            inline_bytes_max: 1 << 30,
            append: crc32c::crc32c_append,
        };
        let begun = Begun::anew(backend.size_bytes());
        backend = Box::new(Checked::new(backend, begun, WorkerPool::start(workers).unwrap(), 8).unwrap());
    }
    Bench::with_services(device, backend, [(service, None)])
}

pub(super) fn write(bench: &mut Bench, peer: &mut Peer, flags: u16, offset: u64, byte: u8) {
    peer.send(&[request(WRITE, flags, 1, offset, 4096), vec![byte; 4096]].concat());
    bench.settle();
    let answers = peer.answers();
    assert!(answers.len() == 1 && answers[0].error == 0, "{answers:?}");
}

fn data(grid: &Grid, leg: usize) -> Vec<u8> {
    grid.contents(leg)[8192..].to_vec()
}

#[test]
fn the_service_copies_to_a_leg_that_came_back_while_clients_go_on() {
    let grid = Grid::new(&[rig::LEG_BYTES; 2], 3);
    let mut bench = bench(&grid, "resync", false);
    let mut peer = bench.connect(0, true);
    write(&mut bench, &mut peer, 0, 0, 1);
    grid.media(1).cut(|| false);
    for block in 0..8 {
        write(&mut bench, &mut peer, if block == 5 { FUA } else { 0 }, block * 4096, 2);
    }
    assert_eq!((bench.count(EventKind::LegOut), bench.services()[0].owed_bytes), (1, 0));
    grid.media(1).restore();
    let (sender, answer) = channel();
    bench.engine.handle().send(engine::Command::Reopen(sender));
    bench.turn_until(100, |_| true);
    bench.turn();
    let said = answer.try_recv().unwrap().unwrap();
    assert!(said.starts_with("leg 1 is back"), "{said}");
    write(&mut bench, &mut peer, 0, 3 * 4096, 3);
    bench.turn_until(20_000, |bench| bench.count(EventKind::LegInSync) == 1);
    write(&mut bench, &mut peer, 0, 7 * 4096, 4);
    assert_eq!(data(&grid, 1), data(&grid, 0));
    let report = bench.services().remove(0);
    assert_eq!((report.owed_bytes, report.done_bytes), (0, 32 << 10));
    assert_eq!((bench.count(EventKind::LegBack), bench.count(EventKind::LegOut)), (1, 1));
}

#[test]
fn a_scrub_repairs_the_leg_that_is_damaged_from_the_one_that_is_right() {
    let grid = Grid::new(&[rig::LEG_BYTES; 2], 3);
    let mut bench = bench(&grid, "nightly", true);
    let mut peer = bench.connect(0, true);
    for block in 0..8 {
        write(&mut bench, &mut peer, 0, block * 4096, 7);
    }
    bench.turn_until(20_000, |bench| bench.count(EventKind::ServiceFinished) == 1);
    grid.media(0).flip(8192 + 4096 + 9, 1);
    grid.media(1).flip(8192 + 3 * 4096, 5);
    bench.now = bench.now.after(Nanos::from_seconds(8 * 86_400));
    bench.turn_until(20_000, |bench| bench.count(EventKind::ServiceFinished) == 2);
    assert_eq!(bench.services()[0].repaired_bytes, 2 * 4096);
    assert!((0..2).all(|leg| data(&grid, leg).iter().all(|&byte| byte == 7)));
}

/// What the server says over its sockets.
fn state(folder: &Path) -> Value {
    ask(&folder.join("control"), &Command::State {}).unwrap()["devices"][0]["mirror"].clone()
}

#[test]
fn operators_see_which_leg_is_out_and_bring_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // The second leg loses its power, and is empty when it is opened again.
    let leg = "[[device.leg]]\nbackend = \"faulty\"\nsize = \"256KiB\"\n";
    let text = format!(
        "[server]\nlisten = [\"unix:{0}/s\"]\ncontrol = \"unix:{0}/control\"\nwatch = \"unix:{0}/watch\"\n\
         [[device]]\nname = \"d\"\nbackend = \"mirror\"\nregion = \"64KiB\"\n{leg}{leg}[device.leg.faults]\npower_cut_at = 40\n\
         [service.resync]\nkind = \"resync\"\ndevice = \"d\"\ndefault = \"run\"\n[[export]]\nname = \"export\"\ndevice = \"d\"\n",
        at.display()
    );
    let spec = Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}"));
    let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap();
    let mut client = UnixStream::connect(at.join("s")).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    client.write_all(&[&CLIENT_FLAGS[..], &option(OPTION_EXPORT_NAME, b"export")].concat()).unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    assert_eq!((&state(at)["legs"][1]["state"], &state(at)["generation"]), (&"in_sync".into(), &1.into()));
    for _ in 0..50 {
        client.write_all(&[request(WRITE, 0, 1, 4096, 4096), vec![1; 4096]].concat()).unwrap();
        let mut reply = [0; 16];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(reply[4..8], [0; 4], "every write is answered well");
    }
    while state(at)["legs"][1]["state"] == "in_sync" {
        std::thread::yield_now();
    }
    let leg = state(at)["legs"][1].clone();
    assert_eq!((&leg["state"], &leg["why"]), (&"out".into(), &"an operation failed: input_output".into()));
    assert!(metrics(at).contains("ioweir_mirror_leg_in_sync{device=\"d\",leg=\"1\"} 0.0"), "{}", metrics(at));
    let said = ask(&at.join("control"), &Command::Reopen("d".into())).unwrap();
    assert!(said["changes"][0].as_str().unwrap().contains("leg 1 is back"), "{said}");
    while state(at)["legs"][1]["state"] != "in_sync" {
        std::thread::yield_now();
    }
    assert!(metrics(at).contains("ioweir_mirror_leg_in_sync{device=\"d\",leg=\"1\"} 1.0"));
    drop(client);
    server.stopper().stop();
    server.wait().unwrap();
}
