//! The price of a second of service, in seconds of response.
//!
//! A client with requests in several queues is to pay for each by what waits there. How many queues a device has cannot be
//! seen, but requests of different queues differ in their responses. So there is a price for each response time: the sum of
//! responses over the sum of service times, of all requests whose responses differ from it by a factor of less than two to four.
//! Above tiers, whose responses differ by more, a charge is the response in the mean, as in Algorithm 1. Above one queue,
//! whose responses differ by less, it is in proportion to the service time.

use super::means::NANOS_MAX;

/// After so many requests, what was learnt before counts half.
const MEMORY: u32 = 1_024;

/// One for each power of two below [`NANOS_MAX`], and one more above and below.
const BANDS: usize = NANOS_MAX.ilog2() as usize + 2;

/// Sums over the last requests, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Band {
    responses: u64,
    services: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Prices {
    bands: [Band; BANDS],
    /// The number of requests since sums were halved.
    count: u32,
}

impl Prices {
    pub(super) const NEW: Self = Self { bands: [Band { responses: 0, services: 0 }; BANDS], count: 0 };

    /// The charge for a request, in nanoseconds.
    pub(super) fn charge(&mut self, response: u64, service: u64) -> u64 {
        let response = response.clamp(1, NANOS_MAX - 1);
        let service = service.min(response);
        self.count += 1;
        if self.count == MEMORY {
            self.forget();
        }
        let at = response.ilog2() as usize + 1;
        self.bands[at].responses += response;
        self.bands[at].services += service;
        let [mut responses, mut services] = [0; 2];
        // A price that changed from one band to the next would charge requests of one queue by their responses.
        for band in &self.bands[at - 1..=at + 1] {
            responses += band.responses;
            services += band.services;
        }
        // The product is less than 2^63.
        let shift = (u64::BITS - responses.leading_zeros()).saturating_sub(32);
        (service * (responses >> shift)).checked_div(services >> shift).unwrap_or(response)
    }

    #[cold]
    fn forget(&mut self) {
        self.count = 0;
        for band in &mut self.bands {
            band.responses /= 2;
            band.services /= 2;
        }
    }
}
