//! The simplest alternative to a model: a table of quantiles of response times by class.

use std::collections::BTreeMap;

use super::load::depths_of;
use super::{Measured, Sorter};

/// A class with fewer requests takes its quantiles from a wider one.
const REQUESTS_MIN: usize = 25;

/// The class of a request, from the widest class to the narrowest: operation and place, size, requests in the device.
type Key = [u8; 3];

/// The widest class of all, and the numbers of a key that are left out.
const ANY: u8 = u8::MAX;

/// The response times that a table of quantiles by class says of `unseen` requests, in their order. It is made of `known` requests
/// of the same device: by operation, sequential or not, distance, size, and the requests that are in the device. A class that was
/// seldom seen takes the quantiles of a wider one.
#[must_use]
pub fn tabled(known: &[Measured], unseen: &[Measured], device_sectors: u64) -> Vec<u64> {
    let mut table: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
    for (request, key) in known.iter().zip(keys(known, device_sectors)) {
        for key in widening(key) {
            table.entry(key).or_default().push(request.response_nanos);
        }
    }
    table.values_mut().for_each(|times| times.sort_unstable());
    let keys = keys(unseen, device_sectors);
    let of = |key: Key| {
        let enough = |key: &Key| table.get(key).is_some_and(|times| times.len() >= REQUESTS_MIN);
        widening(key).into_iter().find(enough).unwrap_or([ANY; 3])
    };
    let classes: Vec<Key> = keys.into_iter().map(of).collect();
    let mut counts: BTreeMap<Key, usize> = BTreeMap::new();
    for class in &classes {
        *counts.entry(*class).or_default() += 1;
    }
    // The requests of a class get its quantiles at equal steps, one after the other.
    let mut given: BTreeMap<Key, usize> = BTreeMap::new();
    let time = |class: &Key| {
        let times = table.get(class).map_or(&[][..], |times| &times[..]);
        let (number, count) = (given.entry(*class).or_default(), counts.get(class).copied().unwrap_or(1).max(1));
        let at = (2 * *number + 1) * times.len() / (2 * count);
        *number += 1;
        times.get(at.min(times.len().saturating_sub(1))).copied().unwrap_or(0)
    };
    classes.iter().map(time).collect()
}

/// A key with less and less of it.
const fn widening([place, size, depth]: Key) -> [Key; 4] {
    [[place, size, depth], [place, size, ANY], [place, ANY, ANY], [ANY, ANY, ANY]]
}

fn keys(requests: &[Measured], device_sectors: u64) -> Vec<Key> {
    let mut sorter = Sorter::new(device_sectors);
    let key = |(request, depth): (&Measured, usize)| {
        let place = sorter.class(request.operation, request.sector, request.sectors.into());
        [place, octaves(u64::from(request.sectors) / 8), octaves(depth as u64)]
    };
    requests.iter().zip(depths_of(requests)).map(key).collect()
}

/// Half the number of binary digits: each step is a factor of four.
const fn octaves(number: u64) -> u8 {
    ((u64::BITS - number.leading_zeros()).div_ceil(2)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioweir_core::Operation;

    /// Reads of two sizes, one of them ten times as slow.
    fn reads(count: u64) -> Vec<Measured> {
        let read = |number: u64| Measured {
            operation: Operation::Read,
            sector: number * 7_919 % 100_000,
            sectors: if number.is_multiple_of(3) { 256 } else { 8 },
            arrival_nanos: number * 1_000_000,
            response_nanos: if number.is_multiple_of(3) { 500_000 } else { 50_000 } + number % 100,
        };
        (0..count).map(read).collect()
    }

    #[test]
    fn table_tells_seen_classes_apart() {
        let unseen = reads(600);
        let said = tabled(&reads(3_000), &unseen, 1 << 20);
        for (request, said) in unseen.iter().zip(&said) {
            assert!(said.abs_diff(request.response_nanos) <= 100, "{request:?}: {said}");
        }
        let (mut sorted, mut times) = (said, unseen.iter().map(|read| read.response_nanos).collect::<Vec<_>>());
        sorted.sort_unstable();
        times.sort_unstable();
        assert!(super::super::sorted_demerit(&sorted, &times) < 2.0, "all quantiles are used");
    }

    #[test]
    fn unseen_class_takes_times_of_all() {
        let write = Measured { operation: Operation::Write, ..reads(1)[0] };
        assert!(tabled(&reads(1_000), &[write; 30], 1 << 20).iter().any(|nanos| *nanos > 400_000));
        assert_eq!(tabled(&[], &reads(3), 1 << 20), [0; 3], "nothing says nothing");
    }
}
