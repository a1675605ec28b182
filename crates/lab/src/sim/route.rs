//! The way of a class's requests to its devices.

use std::ops::Range;

/// Where the requests of a class go: one device, or several that divide its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub devices: Range<usize>,
    /// Bytes in a row on one device, before the next one follows.
    pub stripe_bytes: u64,
}

impl Route {
    #[must_use]
    pub const fn to(device: usize) -> Self {
        Self { devices: device..device + 1, stripe_bytes: u64::MAX }
    }

    /// The byte that lies on the device with this number of the route's, at this place.
    pub(crate) fn address(&self, number: usize, place: u64) -> u64 {
        let count = self.devices.len() as u64;
        if count <= 1 {
            return place;
        }
        (place / self.stripe_bytes * count + number as u64) * self.stripe_bytes + place % self.stripe_bytes
    }

    /// The device of a byte, and the byte's place on it.
    pub(super) fn place(&self, offset_bytes: u64) -> (usize, u64) {
        let count = self.devices.len() as u64;
        if count <= 1 {
            return (self.devices.start, offset_bytes);
        }
        let stripe = offset_bytes / self.stripe_bytes;
        let device = self.devices.start + (stripe % count) as usize;
        (device, stripe / count * self.stripe_bytes + offset_bytes % self.stripe_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripe_covers_every_byte_once() {
        let route = Route { devices: 2..5, stripe_bytes: 8 };
        let mut seen = std::collections::BTreeSet::new();
        for byte in 0..3 * 8 * 4 {
            let (device, place) = route.place(byte);
            assert!((2..5).contains(&device) && place < 32);
            assert!(seen.insert((device, place)), "byte {byte}");
            assert_eq!(route.address(device - 2, place), byte);
        }
        assert_eq!(Route::to(1).place(100), (1, 100));
    }
}
