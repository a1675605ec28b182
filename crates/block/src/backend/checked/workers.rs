//! The workers that compute checksums, and the cost model that decides which data is worth handing to them.

use std::sync::Arc;
use std::time::Duration;

use ioweir_config::{ScheduleChoice, Size, keys};
use ioweir_core::cores::{Cores, CoresLimits, Counts, Queue, SCHEDULES, Schedule, Work};

use super::Append;
use super::sums::Summing;
use super::table::BLOCK_BYTES;
use crate::executor::{Clock as _, Executor, MachineClock};

keys! {
    /// Worker threads, and the schedule by which they serve.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WorkerKeys {
        /// schedule of cores, name[:parameter=value...]: `ioweir doc cores` lists them
        schedule: ScheduleChoice = (ScheduleChoice::of(&SCHEDULES[0])),
        /// how many threads, 1 to 256; if absent, one less than the machine has cores, and at least one
        workers: Option<u32> = absent,
        /// data up to this length is summed by the device's own thread, "0B" for none; as much as takes less time than handing
        /// it to a worker, 10 us, if absent: measured at the start, at most 256KiB
        inline_max: Option<Size> = absent,
    }
}

/// The settings of the workers that compute checksums.
#[derive(Clone, Copy, Debug)]
pub struct Workers {
    /// The schedule of the workers.
    pub schedule: Schedule,
    /// The number of workers.
    pub count: u32,
    /// The cores of the machine: at least as many as workers.
    pub cores: u32,
    /// The most items in the pool.
    pub items: u32,
    /// Data of at most this length does not go to a worker: the thread that has it computes its checksums.
    pub inline_bytes_max: u64,
    /// The function that computes checksums.
    pub append: Append,
}

/// The time to hand an item to a worker and take it back, which wakes two threads. Measured with small reads, see
/// `experiments/serve/checksums`.
const HAND_OVER: Duration = Duration::from_micros(10);
/// The most that the engine's thread computes at once, however fast it is.
const INLINE_BYTES_MAX: u64 = 256 << 10;

impl Workers {
    /// Workers for CRC-32C on all cores but one, unless the spec gives a number. Data is summed inline as long as that is
    /// faster, or as the spec says.
    #[must_use]
    pub fn of_machine(keys: &WorkerKeys, items: u32) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1));
        let append = crc32c::crc32c_append;
        Self {
            schedule: keys.schedule.row.schedule(&keys.schedule.settings),
            count: keys.workers.unwrap_or_else(|| cores.saturating_sub(1).max(1)),
            cores,
            items,
            inline_bytes_max: keys.inline_max.map_or_else(|| computed_within(HAND_OVER, append), |size| size.0),
            append,
        }
    }
}

/// Running workers, which compute for one device or for several. They end when the last device is dropped.
#[derive(Debug)]
pub struct WorkerPool {
    executor: Executor,
    pub(super) workers: Workers,
}

impl WorkerPool {
    /// Starts the workers.
    ///
    /// # Errors
    /// A problem with the schedule or the threads, in words.
    pub fn start(workers: Workers) -> Result<Arc<Self>, String> {
        let Workers { schedule, count, cores, items, .. } = workers;
        // A returned item may still occupy the pool for a moment.
        let limits = CoresLimits { requests: items.saturating_add(count), workers: count, cores, seed: 0 };
        let cores = Cores::new(schedule, limits).map_err(|error| format!("cores: {error}"))?;
        let executor = Executor::start(cores, 0).map_err(|error| format!("cores: no workers: {error}"))?;
        Ok(Arc::new(Self { executor, workers }))
    }

    pub(super) fn submit(&self, work: Work, item: Summing) {
        // Each device hands over no more than its part of the items. A refused item would be dropped, which returns its job.
        let _ = self.executor.submit(work, Box::new(item));
    }

    /// The counts of the schedule, in the order of [`Queue::ALL`].
    pub(super) fn queues(&self) -> [Counts; Queue::COUNT] {
        self.executor.counted().queues
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
    // The fastest of several measurements counts, because other threads may have run during the others.
    let fastest = (0..16).map(|_| once()).min().unwrap_or(time).as_nanos().max(1);
    let bytes = u64::try_from(time.as_nanos() * data.len() as u128 / fastest).unwrap_or(u64::MAX);
    (bytes / BLOCK_BYTES * BLOCK_BYTES).min(INLINE_BYTES_MAX)
}
