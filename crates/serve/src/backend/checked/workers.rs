//! The workers that compute checksums, and the cost model that says what is worth handing to them.

use std::time::Duration;

use ioweir_core::cores::Schedule;

use super::Append;
use super::table::BLOCK_BYTES;
use crate::executor::{Clock as _, MachineClock};

/// The workers that compute checksums.
#[derive(Clone, Copy, Debug)]
pub struct Workers {
    /// The schedule that they follow.
    pub schedule: Schedule,
    /// The number of workers.
    pub count: u32,
    /// The cores of the machine: at least as many as workers.
    pub cores: u32,
    /// The most items in the pool.
    pub items: u32,
    /// Data of at most this length does not go to a worker: the thread that has it computes its checksums.
    pub inline_bytes_max: u64,
    /// The checksum.
    pub append: Append,
}

/// What it costs to hand an item to a worker and take it back: two threads are woken. Measured with small reads, see
/// `experiments/serve/checksums`.
const HAND_OVER: Duration = Duration::from_micros(10);
/// The most that the engine's thread computes at once, however fast it is.
const INLINE_BYTES_MAX: u64 = 256 << 10;

impl Workers {
    /// Workers for CRC-32C on all cores but one, unless `workers` gives a number. Data is summed inline as long as that is
    /// faster, or up to `inline_bytes_max`.
    #[must_use]
    pub fn of_machine(schedule: Schedule, workers: Option<u32>, items: u32, inline_bytes_max: Option<u64>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1));
        let count = workers.unwrap_or_else(|| cores.saturating_sub(1).max(1));
        let append = crc32c::crc32c_append;
        let inline_bytes_max = inline_bytes_max.unwrap_or_else(|| computed_within(HAND_OVER, append));
        Self { schedule, count, cores, items, inline_bytes_max, append }
    }
}

/// The bytes whose checksums this machine computes within `time`, in whole blocks.
fn computed_within(time: Duration, append: Append) -> u64 {
    let data = vec![0x5a; 1 << 16];
    let once = || {
        let clock = MachineClock::new();
        std::hint::black_box(append(0, std::hint::black_box(&data)));
        Duration::from_nanos(clock.now().0)
    };
    // The fastest of several: other threads may have run meanwhile.
    let fastest = (0..16).map(|_| once()).min().unwrap_or(time).as_nanos().max(1);
    let bytes = u64::try_from(time.as_nanos() * data.len() as u128 / fastest).unwrap_or(u64::MAX);
    (bytes / BLOCK_BYTES * BLOCK_BYTES).min(INLINE_BYTES_MAX)
}
