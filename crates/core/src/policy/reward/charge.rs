//! The charge of a request: its client's mean cost; under a floor at most a multiple of the mean charge of all requests.

/// The number of requests in the mean charge, as a power of two.
const MEAN_SHIFT: u32 = 7;

const THOUSAND: u64 = 1_000;

#[derive(Clone, Debug)]
pub(super) struct Charges {
    /// The mean charge, times 2^[`MEAN_SHIFT`].
    mean: u64,
    /// The floor in thousandths, zero for none.
    floor_thousandths: u64,
}

impl Charges {
    pub(super) const fn new(floor_thousandths: u64) -> Self {
        Self { mean: 0, floor_thousandths }
    }

    /// The charge for a mean cost; it is then included in the mean charge of all.
    #[inline(always)]
    pub(super) fn charge(&mut self, nanos: u64) -> u64 {
        let mut charge = nanos.max(1);
        if self.mean == 0 {
            self.mean = charge << MEAN_SHIFT;
        }
        if let Some(most) = (self.mean * THOUSAND).checked_div(self.floor_thousandths) {
            charge = charge.min((most >> MEAN_SHIFT).max(1));
        }
        self.mean = self.mean - (self.mean >> MEAN_SHIFT) + charge;
        charge
    }

    /// The mean charge of all requests.
    pub(super) fn mean(&self) -> u64 {
        (self.mean >> MEAN_SHIFT).max(1)
    }
}
