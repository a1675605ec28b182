//! The durations of the steps of requests.

use super::SsdSpec;
use super::clock::Pace;
use super::spec::Shape;

/// Times in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Times {
    pub(super) sense: u64,
    pub(super) sense_one: u64,
    pub(super) spread: u64,
    pub(super) program: u64,
    pub(super) erase: u64,
    pub(super) suspend: Option<u64>,
    pub(super) read: u64,
    pub(super) read_one: u64,
    pub(super) write: u64,
    pub(super) write_unit: u64,
    pub(super) command: u64,
    pub(super) serial_read: u64,
    pub(super) serial_write: u64,
    pub(super) chunk_bytes: u64,
    pub(super) unit_bytes: u64,
    pub(super) channel: Pace,
    pub(super) interface: Pace,
    /// The moves of a whole page that is read.
    pub(super) page: Moves,
    /// Moving the data of a program to its die, if it is full.
    pub(super) program_move: u64,
}

/// The durations of moving units of a page to the host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moves {
    pub(super) channel_nanos: u64,
    /// From the beginning on the channel to that on the interface.
    pub(super) lead_nanos: u64,
    pub(super) interface_nanos: u64,
}

impl Times {
    /// The durations of a spec with all defaults filled in.
    pub(super) fn new(spec: &SsdSpec, shape: &Shape) -> Self {
        let overhead = &spec.overhead;
        let mut times = Self {
            sense: spec.read.nanos().0,
            sense_one: spec.read_one_unit.unwrap_or(spec.read).nanos().0,
            spread: spec.read_spread.nanos().0,
            program: spec.program.nanos().0,
            erase: spec.erase.nanos().0,
            suspend: spec.suspend.map(|suspend| suspend.nanos().0),
            read: overhead.read.nanos().0,
            read_one: overhead.read_one_unit.unwrap_or(overhead.read).nanos().0,
            write: overhead.write.nanos().0,
            write_unit: overhead.write_per_unit.nanos().0,
            command: overhead.command.nanos().0,
            serial_read: spec.serial.map_or(0, |serial| serial.read.nanos().0),
            serial_write: spec.serial.map_or(0, |serial| serial.write.nanos().0),
            chunk_bytes: spec.transfer_chunk.0,
            unit_bytes: spec.mapping_unit.0,
            channel: Pace::new(spec.channel_rate.map(|rate| rate.0)),
            interface: Pace::new(spec.interface_rate.map(|rate| rate.0)),
            page: Moves::default(),
            program_move: 0,
        };
        times.page = times.moves(shape.page_units);
        times.program_move = times.channel.nanos(u64::from(shape.program_units) * times.unit_bytes);
        times
    }

    /// The durations of moving a number of units of one page.
    pub(super) fn moves(&self, units: u32) -> Moves {
        let bytes = u64::from(units) * self.unit_bytes;
        let chunk_bytes = self.chunk_bytes.min(bytes);
        let (channel_nanos, interface_nanos) = (self.channel.nanos(bytes), self.interface.nanos(bytes));
        // The interface begins with the first chunk, but not so early that it would run out of data.
        let first = self.channel.nanos(chunk_bytes);
        let behind = (channel_nanos + self.interface.nanos(chunk_bytes)).saturating_sub(interface_nanos);
        Moves { channel_nanos, lead_nanos: first.max(behind), interface_nanos }
    }
}
