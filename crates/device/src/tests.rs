//! The rules that the models keep.

use ioweir_core::{Dispatch, Flags, Nanos, Operation, Request, StreamId};

use super::disk::geometry::Geometry;
use super::*;

mod cached;
mod disk;
mod files;
mod layout;
mod measured;
mod queue;

/// A dispatch as the simulator sends it.
fn dispatch(operation: Operation, sector: u64, sectors: u32) -> Dispatch {
    Dispatch::alone(&Request { operation, flags: Flags::NONE, stream: StreamId(0), sector, sectors })
}

fn device(name: &str) -> Box<dyn Device> {
    DeviceSpec::load(name).expect(name).build(1).expect(name)
}

/// A small generator for addresses.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 16) % limit
    }
}
