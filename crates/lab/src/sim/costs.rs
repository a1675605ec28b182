//! Processor time of requests, by class.

use ioweir_config::Ratio;
use ioweir_core::{Nanos, Operation};
use ioweir_device::random::Random;
use ioweir_trace::Record;

use super::varying::{Distribution, Varying};

/// Processor time of the requests of a class.
#[derive(Clone, Debug, Default)]
pub struct ClassCosts {
    /// Of a read before it goes to its device.
    pub read: Nanos,
    /// Of a write before it goes to its device.
    pub write: Nanos,
    /// Of a flush or discard before it goes to its device.
    pub other: Nanos,
    /// Of a KiB of data: of a write before the device, of a read after it.
    pub kibibyte: Nanos,
    /// Of any request after its device has completed it.
    pub completion: Nanos,
    /// Of a read before it goes to its device, beside.
    pub slow_path: Nanos,
    /// How times of equal requests differ; not at all where `None`.
    pub variation: Option<Variation>,
}

/// How the processor times of requests of one operation and length differ.
#[derive(Clone, Debug)]
pub struct Variation {
    /// The share of a time that varies.
    spread: Ratio,
    varying: Varying,
    tail: Option<Tail>,
}

/// Requests that take much longer before their device than others: any time from `from` to `to` longer, each as likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The share of such requests.
    pub share: Ratio,
    pub from: Nanos,
    pub to: Nanos,
}

impl Variation {
    /// The variation with this share, distribution and tail; `None` where nothing varies.
    #[must_use]
    pub fn new(spread: Ratio, distribution: Distribution, tail: Option<Tail>) -> Option<Self> {
        let varies = spread > Ratio::ZERO || tail.is_some();
        varies.then(|| Self { spread, varying: Varying::new(distribution), tail })
    }

    fn draw(&self, mean: Nanos, draws: &mut Random) -> Nanos {
        let varies = u128::from(mean.0) * u128::from(self.spread.millionths()) / u128::from(Ratio::ONE_MILLIONTHS);
        let varies = u64::try_from(varies).unwrap_or(u64::MAX);
        if self.spread == Ratio::ZERO {
            return mean;
        }
        Nanos(mean.0 - varies).after(Nanos(self.varying.draw(draws.bits(), varies)))
    }

    fn draw_tail(&self, draws: &mut Random) -> Nanos {
        match self.tail {
            Some(tail) if draws.chance(tail.share) => {
                tail.from.after(Nanos(draws.below(tail.to.since(tail.from).0.saturating_add(1))))
            }
            _ => Nanos::ZERO,
        }
    }
}

impl ClassCosts {
    /// The processor time of a request before its device and after it, where it is slow if it waits for that; `draws` are those of its
    /// client. A request that is answered without its device needs both at once.
    pub(super) fn of(
        &self,
        record: &Record,
        (is_slow, is_at_once): (bool, bool),
        draws: Option<&mut Random>,
    ) -> (Nanos, Nanos) {
        let data = u128::from(record.length_bytes) * u128::from(self.kibibyte.0) / 1024;
        let data = Nanos(u64::try_from(data).unwrap_or(u64::MAX));
        let (before, after) = match record.operation {
            Operation::Read => (self.read, self.completion.after(data)),
            Operation::Write => (self.write.after(data), self.completion),
            Operation::Flush | Operation::Discard => (self.other, self.completion),
        };
        let before = if is_slow { before.after(self.slow_path) } else { before };
        let (before, after) = if is_at_once { (before.after(after), Nanos::ZERO) } else { (before, after) };
        match (&self.variation, draws) {
            (Some(variation), Some(draws)) => {
                let before = variation.draw(before, draws).after(variation.draw_tail(draws));
                let after = if is_at_once { after } else { variation.draw(after, draws) };
                (before, after)
            }
            _ => (before, after),
        }
    }
}
