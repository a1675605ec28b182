//! A histogram of latencies to three digits, made to be counted into for each request.

/// Significant bits that are kept: three decimal digits, so that a quantile is within 0.1 %.
const DIGITS_BITS: u32 = 11;
/// Counts of each power of two, but for the smallest, which are exact.
const HALF: usize = 1 << (DIGITS_BITS - 1);

/// How many requests took how long, in nanoseconds. Its counts are those of an HDR histogram of three digits; it takes memory
/// up to the longest that was recorded, half a megabyte at most.
///
/// ```
/// use ioweir_lab::sim::Latencies;
///
/// let mut latencies = Latencies::default();
/// for nanos in 1..=1_000_000 {
///     latencies.record(nanos);
/// }
/// let median = latencies.quantile(0.5);
/// assert!((500_000..=500_500).contains(&median));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    counts: Vec<u64>,
    requests: u64,
}

/// The count that a latency belongs to.
#[inline]
const fn index(nanos: u64) -> usize {
    let shift = (u64::BITS - DIGITS_BITS) - (nanos | HALF as u64).leading_zeros();
    shift as usize * HALF + (nanos >> shift) as usize
}

/// The shortest latency that belongs to a count.
const fn shortest(index: usize) -> u64 {
    let shift = (index / HALF).saturating_sub(1);
    ((index - shift * HALF) as u64) << shift
}

/// The longest latency that belongs to a count.
const fn longest(index: usize) -> u64 {
    let shift = (index / HALF).saturating_sub(1);
    shortest(index) + ((1 << shift) - 1)
}

impl Latencies {
    /// Counts a request.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        let index = index(nanos);
        if index >= self.counts.len() {
            self.grow(index);
        }
        self.counts[index] += 1;
        self.requests += 1;
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        self.counts.resize((index | (HALF - 1)) + 1, 0);
    }

    /// Counts what another has counted.
    pub fn add(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.requests += other.requests;
    }

    /// Requests that were counted.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.requests
    }

    /// Whether nothing was counted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// The latency that this part of the requests (0 to 1) did not exceed, rounded up by 0.1 % at most; zero if nothing was
    /// counted. Of no part at all it is the shortest latency, rounded down.
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        self.quantile_among(0..self.counts.len(), part)
    }

    /// The quantile, where all that was counted lies in `counts`, given in ascending order.
    fn quantile_among(&self, mut counts: impl Iterator<Item = usize>, part: f64) -> u64 {
        let wanted = ((part.min(1.0) * self.requests as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let found = counts.find(|index| {
            seen += self.counts[*index];
            seen >= wanted
        });
        found.map_or(0, if part == 0.0 { shortest } else { longest })
    }

    /// The longest latency, rounded up as a quantile; zero if nothing was counted.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.counts.iter().rposition(|&count| count > 0).map_or(0, longest)
    }
}

/// Latencies of a time step. Adding them up, their quantiles and forgetting them take time by the number of different latencies, not
/// by the longest one.
#[derive(Default)]
pub(super) struct StepLatencies {
    latencies: Latencies,
    /// The counts that are not zero.
    used: Vec<usize>,
}

impl StepLatencies {
    /// Counts a request.
    #[inline]
    pub(super) fn record(&mut self, nanos: u64) {
        self.latencies.record(nanos);
        let index = index(nanos);
        if self.latencies.counts[index] == 1 {
            self.used.push(index);
        }
    }

    /// Moves everything into `sum`.
    pub(super) fn move_into(&mut self, sum: &mut Self) {
        let empty = self.used.iter().copied();
        let empty = empty.filter(|index| sum.latencies.counts.get(*index).is_none_or(|count| *count == 0));
        sum.used.extend(empty);
        self.add_to(&mut sum.latencies);
        self.clear();
    }

    /// Counts everything in `sum`, too.
    pub(super) fn add_to(&self, sum: &mut Latencies) {
        if sum.counts.len() < self.latencies.counts.len() {
            sum.counts.resize(self.latencies.counts.len(), 0);
        }
        self.used.iter().for_each(|index| sum.counts[*index] += self.latencies.counts[*index]);
        sum.requests += self.latencies.requests;
    }

    /// Forgets everything, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.used.drain(..).for_each(|index| self.latencies.counts[index] = 0);
        self.latencies.requests = 0;
    }

    /// Requests that were counted.
    pub(super) const fn len(&self) -> u64 {
        self.latencies.len()
    }

    /// Quantiles, as [`Latencies::quantile`].
    pub(super) fn quantiles<const N: usize>(&mut self, parts: [f64; N]) -> [u64; N] {
        self.used.sort_unstable();
        parts.map(|part| self.latencies.quantile_among(self.used.iter().copied(), part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn latencies_are_an_hdr_histogram_of_three_digits(
            recorded in proptest::collection::vec((any::<u64>(), 0u32..63), 0..200),
            parts in proptest::collection::vec(0.0..=1.0f64, 1..20),
        ) {
            let mut model = Histogram::<u64>::new(3).unwrap();
            let (mut first, mut second) = (Latencies::default(), Latencies::default());
            for (number, (bits, shift)) in recorded.iter().enumerate() {
                let nanos = bits >> 1 >> shift;
                model.record(nanos).unwrap();
                if number % 3 == 0 { first.record(nanos) } else { second.record(nanos) }
            }
            first.add(&second);
            prop_assert_eq!((first.len(), first.is_empty(), first.max()), (model.len(), model.is_empty(), model.max()));
            for part in parts.into_iter().chain([0.0, 0.5, 0.999, 1.0]) {
                prop_assert_eq!(first.quantile(part), model.value_at_quantile(part), "{}", part);
            }
        }

        #[test]
        fn steps_count_as_whole_histograms(
            steps in proptest::collection::vec(proptest::collection::vec((any::<bool>(), any::<u64>(), 0u32..63), 0..30), 1..9),
        ) {
            let parts = [0.0, 0.5, 0.99, 1.0];
            let (mut reads, mut others) = (StepLatencies::default(), StepLatencies::default());
            let (mut sum, mut model_sum) = (Latencies::default(), Latencies::default());
            for step in steps {
                let mut model = Latencies::default();
                for (is_read, bits, shift) in step {
                    let nanos = bits >> shift;
                    model.record(nanos);
                    if is_read { reads.record(nanos) } else { others.record(nanos) }
                }
                reads.move_into(&mut others);
                prop_assert_eq!(others.len(), model.len());
                prop_assert_eq!(others.quantiles(parts), parts.map(|part| model.quantile(part)));
                others.add_to(&mut sum);
                others.clear();
                model_sum.add(&model);
                prop_assert_eq!(parts.map(|part| sum.quantile(part)), parts.map(|part| model_sum.quantile(part)));
                prop_assert_eq!((sum.len(), reads.len(), others.len()), (model_sum.len(), 0, 0));
            }
        }
    }

    #[test]
    fn the_longest_latency_there_can_be_is_counted() {
        let mut latencies = Latencies::default();
        latencies.record(u64::MAX);
        assert_eq!((latencies.max(), latencies.quantile(0.5)), (u64::MAX, u64::MAX));
    }
}
