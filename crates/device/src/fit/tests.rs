//! Fits: what the table can say, and that a hidden device is found.

use ioweir_core::Operation;

use super::*;
use crate::random::Random;
use crate::validate::replay;

/// A disk of which nothing is known.
const DISK: &str = include_str!("disk.toml");

fn start() -> DeviceSpec {
    DeviceSpec::parse("disk.toml", DISK).unwrap()
}

#[test]
fn every_row_names_a_parameter_that_a_device_of_its_kind_has() {
    let flash = DeviceSpec::load("ssd-970pro").unwrap();
    for (rows, start) in [(table::DISK, start()), (table::FLASH, flash)] {
        let fit = Fit::new(&start, rows, &[], Load::Closed).unwrap();
        for row in rows {
            let fit = Fit { rows: vec![*row], ..fit.clone() };
            // A key that does not exist would be refused whatever its value.
            assert!((0..=10).any(|tenth| fit.device(&[f64::from(tenth) / 10.0]).is_some()), "{}", row.key);
            if let Values::Between(low, high, _) | Values::Ratios(low, high, _) = row.values {
                let [first, last] = [row.amount(0.0), row.amount(1.0)].map(|amount| amount.number().unwrap());
                assert!((first - low).abs() <= 600.0 && (last - high).abs() <= 600.0 && low < high, "{}", row.key);
            }
        }
    }
}
