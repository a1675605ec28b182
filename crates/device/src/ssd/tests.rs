//! The rules that the drive keeps.

use ioweir_core::{Dispatch, Flags, Nanos, Operation, Request, StreamId};
use proptest::prelude::*;

use super::super::{Device, DeviceSpec, Service};
use super::{Map, Ssd, SsdSpec, SsdState};

mod events;
mod files;
mod flash;
mod speed;
mod writes;

/// Two channels of two dies, blocks of 4 programs of 4 units; 64 MiB; round times.
const SMALL: &str = "[ssd]\ncapacity = \"64MiB\"\nstate = \"fresh\"\nover_provisioning_per_mille = 150\nchannels = 2\n\
                     dies_per_channel = 2\npage = \"16KiB\"\npages_per_block = 16\nread = \"50us\"\nprogram = \"500us\"\n\
                     erase = \"3ms\"\n";
const UNIT: u32 = 8;

fn spec(text: &str) -> SsdSpec {
    match DeviceSpec::parse("test", text) {
        Ok(DeviceSpec::Ssd(spec)) => spec,
        other => panic!("{other:?}"),
    }
}

fn preset(name: &str) -> SsdSpec {
    match DeviceSpec::load(name) {
        Ok(DeviceSpec::Ssd(spec)) => spec,
        other => panic!("{other:?}"),
    }
}

fn build(spec: &SsdSpec) -> Ssd {
    Ssd::new(spec, 1).expect("a drive")
}

fn small(more: &str) -> Ssd {
    build(&spec(&format!("{SMALL}{more}\n")))
}

fn request(operation: Operation, sector: u64, sectors: u32, flags: Flags) -> Dispatch {
    Dispatch::alone(&Request { operation, flags, stream: StreamId(0), sector, sectors })
}

/// `units` units from `unit` on, at `now`.
fn serve(ssd: &mut Ssd, now: u64, operation: Operation, unit: u64, units: u32) -> Service {
    ssd.serve(Nanos(now), &request(operation, unit * u64::from(UNIT), units * UNIT, Flags::NONE))
}

fn parts(service: &Service) -> u64 {
    service.overhead_nanos + service.transfer_nanos + service.queue_nanos
}

/// Keeps `depth` requests of `units` units in the drive; returns requests a second and the mean latency in nanoseconds.
fn closed(ssd: &mut Ssd, depth: usize, requests: usize, mut next: impl FnMut() -> (Operation, u64, u32)) -> (f64, f64) {
    let mut flights = std::collections::BinaryHeap::new();
    let (mut now, mut waited) = (0, 0);
    for _ in 0..requests {
        if flights.len() == depth
            && let Some(std::cmp::Reverse(finish)) = flights.pop()
        {
            now = finish;
        }
        let (operation, unit, units) = next();
        let service = serve(ssd, now, operation, unit, units);
        waited += service.finish.0 - now;
        flights.push(std::cmp::Reverse(service.finish.0));
    }
    let end = flights.into_iter().map(|flight| flight.0).max().unwrap_or(0);
    (requests as f64 / (end as f64 / 1e9), waited as f64 / requests as f64)
}

/// A small generator for addresses.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 16) % limit
    }
}

fn near(measured: f64, expected: f64, share: f64) -> bool {
    (measured / expected - 1.0).abs() <= share
}
