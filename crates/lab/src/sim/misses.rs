//! Reads whose data are not in memory.

use ioweir_config::Ratio;
use ioweir_device::random::Random;
use ioweir_trace::Record;

use super::cores::Way;

/// How the reads of a class miss in memory.
#[derive(Clone, Debug)]
pub struct Misses {
    /// The share of all reads that miss; of those, the share that misses once more; and so on.
    pub shares: Vec<Ratio>,
    /// Of the reads that miss, the share that the device answers without a worker after it. These miss once.
    pub direct: Ratio,
    /// The size of the devices that serve the class.
    pub end_byte: u64,
}

impl Misses {
    /// Whether anything has to be drawn for a read.
    pub(super) fn draws(&self) -> bool {
        self.direct > Ratio::ZERO || self.shares.len() > 1 || self.shares.iter().any(|share| *share < Ratio::ONE)
    }

    /// The way of a read; `draws` are those of its client.
    pub(super) fn way(&self, draws: &mut Random) -> Way {
        let Some((first, others)) = self.shares.split_first() else { return Way::ONCE };
        if !draws.chance(*first) {
            return Way::Memory;
        }
        if draws.chance(self.direct) {
            return Way::Direct;
        }
        let further = others.iter().take_while(|share| draws.chance(**share)).count();
        Way::Device { further: u8::try_from(further).unwrap_or(u8::MAX) }
    }

    /// The place of the data of a read that misses for the time of this number, from zero: they follow one another, up to the end of the
    /// devices.
    pub(super) fn offset_bytes(&self, record: &Record, time: u8) -> u64 {
        let offset = record.length_bytes.saturating_mul(u64::from(time)).saturating_add(record.offset_bytes);
        let fits = offset.saturating_add(record.length_bytes) <= self.end_byte;
        if fits { offset } else { record.offset_bytes }
    }
}
