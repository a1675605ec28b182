//! What a second of service is worth in the queue in which a request was served.
//!
//! The right charge is service time times the price of its queue, which is the sum of responses over the sum of service times
//! there. Which queue served a request cannot be seen, but queues differ in their responses. So there is a price for each band of
//! response times, a power of two wide, and all charges of a band add up to its responses: above tiers, which differ in
//! responses, a charge is the response in the mean, as in Algorithm 1, and above one queue, which has a band or two, it
//! is in proportion to the service time.

use super::means::NANOS_MAX;

/// The number of requests that a band remembers, as a power of two.
const MEMORY: u32 = 6;

/// One for each power of two below [`NANOS_MAX`].
const BANDS: usize = NANOS_MAX.ilog2() as usize;

/// Sums over the last requests of a band, in nanoseconds; older ones count less and less.
#[derive(Clone, Copy, Debug)]
struct Band {
    responses: u64,
    services: u64,
    count: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Prices {
    bands: [Band; BANDS],
}

impl Prices {
    pub(super) const NEW: Self = Self { bands: [Band { responses: 0, services: 0, count: 0 }; BANDS] };

    /// The charge for a request, in nanoseconds.
    pub(super) fn charge(&mut self, response: u64, service: u64) -> u64 {
        let response = response.clamp(1, NANOS_MAX - 1);
        let service = service.min(response);
        let band = &mut self.bands[response.ilog2() as usize];
        if band.count >> MEMORY == 1 {
            band.responses -= band.responses >> MEMORY;
            band.services -= band.services >> MEMORY;
        } else {
            band.count += 1;
        }
        band.responses += response;
        band.services += service;
        // Less than 2^62.
        (service * (band.responses >> MEMORY)).checked_div(band.services >> MEMORY).unwrap_or(response)
    }
}
