//! Devices of several legs that hold the same.

use ioweir_config::{Complaint, Size};

use super::backends::Backend;
use super::check::within;
use super::tiers::{TierKeys, resolve_tier};

/// The most legs of a mirror.
const LEGS_MAX: usize = 8;
/// The size of a region if the spec says none.
const REGION: Size = Size(1 << 20);

/// A mirror as the file has it.
pub(super) struct MirrorKeys {
    pub(super) legs: Vec<TierKeys>,
    pub(super) region: Option<Size>,
    pub(super) force_generation: Option<u64>,
}

impl MirrorKeys {
    /// Checks the legs of the device at `at`.
    pub(super) fn resolve(self, at: &str) -> Result<Backend, Complaint> {
        let Self { legs, region, force_generation } = self;
        if !(2..=LEGS_MAX).contains(&legs.len()) {
            let problem = format!("leg: a mirror of {} has none that another one could replace", legs.len());
            let problem = if legs.len() > LEGS_MAX { format!("leg: {} are too many", legs.len()) } else { problem };
            let expected = format!("2 to {LEGS_MAX} tables [[device.leg]]");
            return Err(Complaint::of_value(format!("{at}.leg"), problem).expected(expected));
        }
        let region = region.unwrap_or(REGION);
        within(&format!("{at}.region"), region, Size(4096), Size(1 << 30))?;
        if !region.0.is_power_of_two() {
            let problem = "region is not a power of two";
            return Err(Complaint::of_value(format!("{at}.region"), problem).expected("such as 1MiB"));
        }
        let mut resolved = Vec::new();
        for (number, leg) in legs.into_iter().enumerate() {
            let at = format!("{at}.leg[{number}]");
            let leg = resolve_tier(leg, &at)?;
            if matches!(leg.backend, Backend::Null { .. }) {
                let problem = "a leg is of backend null, which forgets what is written to it";
                let complaint = Complaint::of_value(format!("{at}.backend"), problem);
                return Err(complaint.expected("a backend that keeps what is written"));
            }
            resolved.push(leg);
        }
        Ok(Backend::Mirror { region, force_generation, leg: resolved })
    }
}
