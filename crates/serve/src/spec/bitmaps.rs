//! Bitmaps of a device: where they lie, and what a mark is for.

use std::path::PathBuf;

use ioweir_config::{Complaint, Duration, Size, keys};
use ioweir_core::Nanos;

use super::check::within;

keys! {
    /// Marks of what is changed of a device, which `ioweir ctl SERVER bitmap` begins, freezes and clears.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Bitmaps {
        /// the file that keeps them, which is made if it is missing
        file: PathBuf = required,
        /// what a mark is for, a power of two from 4KiB to 64MiB. The first change of each region waits until its mark is durable
        region: Size = (Size(64 << 10)),
        /// how long clients may wait when one begins, is frozen or cleared: what takes longer is given up. Up to 1m
        pause_max: Duration = (Duration::from_seconds(1)),
    }
}

/// Checks the bitmaps of a device at `at`.
pub(super) fn check(bitmaps: &Bitmaps, at: &str) -> Result<(), Complaint> {
    let key = |name: &str| format!("{at}.bitmaps.{name}");
    within(&key("pause_max"), bitmaps.pause_max, Duration::new(Nanos::from_millis(1)), Duration::from_seconds(60))?;
    within(&key("region"), bitmaps.region, Size(4096), Size(64 << 20))?;
    if !bitmaps.region.0.is_power_of_two() {
        let problem = format!("region: {} is no power of two", bitmaps.region);
        return Err(Complaint::of_value(key("region"), problem).expected("such as 64KiB"));
    }
    Ok(())
}
