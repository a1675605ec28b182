//! Counts by stream.

use std::collections::BTreeMap;

use super::outcome::StreamOutcome;

/// Streams that are counted apart; those beyond are counted together.
const STREAMS_MAX: usize = 1 << 16;

/// Counters of one stream. Latencies are counted at three digits, as [`super::Latencies`] does, but only if there are any: most streams
/// are short.
#[derive(Clone, Debug, Default)]
struct Counters {
    requests: u64,
    bytes: u64,
    latency_sum_nanos: u64,
    latencies: BTreeMap<u64, u64>,
}

/// Counters of all streams of a run.
#[derive(Debug, Default)]
pub(super) struct StreamCounters(Vec<Counters>);

/// The largest latency that counts as the same: within 0.1 %, as in a latencies of three digits.
const fn rounded(nanos: u64) -> u64 {
    let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(11);
    nanos | ((1 << shift) - 1)
}

impl StreamCounters {
    pub(super) fn finished(&mut self, stream: u32, bytes: u64, latency_nanos: u64) {
        let at = (stream as usize).min(STREAMS_MAX);
        if self.0.len() <= at {
            self.0.resize_with(at + 1, Counters::default);
        }
        let counters = &mut self.0[at];
        counters.requests += 1;
        counters.bytes += bytes;
        counters.latency_sum_nanos = counters.latency_sum_nanos.saturating_add(latency_nanos);
        *counters.latencies.entry(rounded(latency_nanos)).or_default() += 1;
    }

    /// The streams that sent anything, those whose requests waited longest first.
    pub(super) fn into_outcomes(self, name: impl Fn(u32) -> String) -> Vec<StreamOutcome> {
        let mut streams: Vec<StreamOutcome> = Vec::new();
        for (number, counters) in (0..).zip(&self.0) {
            if counters.requests > 0 {
                let is_rest = number as usize == STREAMS_MAX;
                streams.push(StreamOutcome {
                    name: if is_rest { "(all others)".into() } else { name(number) },
                    requests: counters.requests,
                    bytes: counters.bytes,
                    latency_sum_nanos: counters.latency_sum_nanos,
                    latency_p50_nanos: counters.quantile(50),
                    latency_p99_nanos: counters.quantile(99),
                    latency_max_nanos: counters.quantile(100),
                });
            }
        }
        // A stable sort: streams that fare alike stay in the order in which they came.
        streams.sort_by_key(|stream| std::cmp::Reverse(stream.latency_p99_nanos));
        streams
    }
}

impl Counters {
    fn quantile(&self, percent: u128) -> u64 {
        let wanted = (u128::from(self.requests) * percent).div_ceil(100);
        let mut seen = 0;
        let found = self.latencies.iter().find(|(_, count)| {
            seen += u128::from(**count);
            seen >= wanted
        });
        found.map_or(0, |(nanos, _)| *nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Latencies;
    use super::*;

    #[test]
    fn quantiles_are_those_of_a_latencies() {
        let (mut streams, mut latencies) = (StreamCounters::default(), Latencies::default());
        for number in 0..10_000_u64 {
            let nanos = number * number * 977 % 3_000_000_007;
            streams.finished(0, 512, nanos);
            latencies.record(nanos);
        }
        let stream = &streams.into_outcomes(|number| number.to_string())[0];
        assert_eq!((stream.requests, stream.bytes), (10_000, 5_120_000));
        let of = |quantile| latencies.quantile(quantile);
        let ours = (stream.latency_p50_nanos, stream.latency_p99_nanos, stream.latency_max_nanos);
        assert_eq!(ours, (of(0.5), of(0.99), of(1.0)));
    }
}
