//! How measured requests are sent to a model.

use serde::Serialize;

use super::Measured;

/// A sender, or a queue, has so many places if at least one request in this many took one that had just become free.
const PLACES_PART: usize = 10;
/// With fewer places, requests that are sent at equal intervals look as if they had waited for one.
const PLACES_MIN: usize = 4;
/// The percentage of the places ever taken that counts as nearly all of them.
const NEARLY_ALL_PERCENT: usize = 90;

/// How measured requests are sent to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Each request is sent a think time after the completion of the one before.
    Closed,
    /// Requests are sent at their arrival times.
    Arrivals,
    /// Each request is sent as long after a completion as it was submitted after one, with as many completions before it.
    Released,
}

impl Load {
    /// The load under which the requests were measured. It is closed if each arrived after the completion of the one before. They
    /// were released by completions if there were so many places for them, and requests waited for one: of a replayer with threads,
    /// or of a queue of the host. By their times alone, a model that is a little slower than the device would then get requests
    /// faster than it serves them, and fall behind for as long as a burst lasts.
    #[must_use]
    pub fn of(requests: &[Measured]) -> Self {
        let completed = completed(requests, &ends(requests));
        let depths = depths(&completed);
        let most = depths.iter().copied().max().unwrap_or(0);
        if most <= 1 {
            return Self::Closed;
        }
        let took_a_freed_place = |(pair, depth): &(&[usize], &usize)| {
            matches!(pair, [before, after] if before < after) && **depth * 100 >= most * NEARLY_ALL_PERCENT
        };
        let waited = completed.windows(2).zip(depths.iter().skip(1)).filter(took_a_freed_place).count();
        if most >= PLACES_MIN && waited * PLACES_PART >= requests.len() { Self::Released } else { Self::Arrivals }
    }
}

/// How many requests had been completed when each was submitted.
fn completed(requests: &[Measured], ends: &[u64]) -> Vec<usize> {
    requests.iter().map(|request| ends.partition_point(|end| *end <= request.arrival_nanos)).collect()
}

/// The times of all completions, in their order.
fn ends(requests: &[Measured]) -> Vec<u64> {
    let mut ends: Vec<u64> = requests.iter().map(Measured::completion_nanos).collect();
    ends.sort_unstable();
    ends
}

/// The requests that the device had with each of them.
fn depths(completed: &[usize]) -> Vec<usize> {
    completed.iter().enumerate().map(|(number, completed)| (number + 1).saturating_sub(*completed)).collect()
}

/// The requests that the device had with each of these.
pub(super) fn depths_of(requests: &[Measured]) -> Vec<usize> {
    depths(&completed(requests, &ends(requests)))
}

/// The most requests that the device had at once.
#[must_use]
pub fn depth_max(requests: &[Measured]) -> u32 {
    let most = depths(&completed(requests, &ends(requests))).into_iter().max().unwrap_or(0);
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// The completions that were seen before each request was submitted, and how long after the last of them it was.
pub(super) fn releases(requests: &[Measured]) -> Vec<(usize, u64)> {
    let ends = ends(requests);
    let release = |(request, before): (&Measured, usize)| {
        let last = before.checked_sub(1).and_then(|last| ends.get(last)).copied().unwrap_or(0);
        (before, request.arrival_nanos.saturating_sub(last))
    };
    requests.iter().zip(completed(requests, &ends)).map(release).collect()
}
