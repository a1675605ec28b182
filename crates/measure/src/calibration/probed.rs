//! Calibration by probes: facts that they show directly are set, the rest is fitted to their requests, and a held-out mix judges.

use ioweir_config::SpecError;
use ioweir_core::SECTOR_BYTES;
use ioweir_device::DeviceSpec;
use ioweir_device::calibration::{Pairs, Part, Source};
use ioweir_device::fit::{
    Groups,
    table::{FLASH_ONE_UNIT, FLASH_PROBED, Row, Values},
};
use ioweir_device::parameter::{self, Amount};
use ioweir_device::validate::{Load, Measured};
use sha2::{Digest as _, Sha256};

use super::{Calibrated, CalibrationSpec, Given, Kind, REQUESTS_MIN, is_shown};
use crate::validation::range_of;
use ioweir_config::to_table;
use ioweir_lab::document::Provenance;
use ioweir_lab::run::{Origin, Progress, RunError, hexadecimal};

/// The results of probing a device.
#[derive(Clone, Debug, Default)]
pub struct Probed {
    /// The device's name.
    pub name: String,
    /// The device's description, and facts that the probes measure directly, as the result shows them.
    pub facts: Vec<(String, String)>,
    /// Parameters that the probes say directly. They are not searched.
    pub known: Vec<(String, Amount)>,
    /// Parameters that the probes enclose, with the least and the greatest value. They are searched in between.
    pub enclosed: Vec<(String, (f64, f64))>,
    /// The requests that the rest is fitted to, in the order of submission.
    pub requests: Vec<Measured>,
    /// The groups of these requests.
    pub groups: Groups,
    /// The requests that judge, in the order of submission.
    pub held_out: Vec<Measured>,
    /// The times of reads two at once and one at a time, which tell several arms from one, if they were measured.
    pub pairs: Option<Pairs>,
    /// Random reads a second at 32 at once, if that was measured.
    pub read_random_per_second: Option<f64>,
}

impl CalibrationSpec {
    /// Fits a device to probes instead of a trace.
    ///
    /// # Errors
    /// If there are too few requests, or the start and the device do not fit together.
    pub fn run_probed(
        &self,
        probed: &Probed,
        origin: &Origin,
        progress: &dyn Progress,
    ) -> Result<Calibrated, RunError> {
        let kind = self.known_kind()?;
        let mut all: Vec<Measured> = probed.requests.iter().chain(&probed.held_out).copied().collect();
        all.sort_by_key(|request| request.arrival_nanos);
        if probed.requests.len().min(probed.held_out.len()) < REQUESTS_MIN / 2 {
            let problem = format!(
                "{} requests of probes and {} of the held-out mix are too few to fit a device to",
                probed.requests.len(),
                probed.held_out.len()
            );
            return Err(SpecError::of_file(&probed.name, problem, "give the probes more time with --for").into());
        }
        let held_out = from_first(&probed.held_out, kind);
        let given = Given {
            source: Source::Probe,
            name: &probed.name,
            sha256: hash(&all),
            load: Load::Released,
            fitted: (Part::Probes, &probed.requests),
            groups: Some(&probed.groups),
            judged: (Part::HeldOut, &held_out),
            range: range_of(&all),
            pairs: probed.pairs,
            rows: rows(kind, probed, &all),
        };
        let start = known(&self.start(kind, 0)?, &probed.known)?;
        let (file, fit) = self.fit(&given, &start, origin, progress)?;
        let provenance = Provenance::new(origin, Vec::new(), vec![("The device".into(), file.to_toml())]);
        let (facts, read_random_per_second) = (probed.facts.clone(), probed.read_random_per_second);
        Ok(Calibrated { facts, read_random_per_second, ..fit.calibrated(file, provenance) })
    }
}

/// The requests that judge. A flash drive was busy until the first of them came, and did not sleep.
fn from_first(held_out: &[Measured], kind: Kind) -> Vec<Measured> {
    let first = held_out.first().map_or(0, |request| request.arrival_nanos);
    let before_nanos = if kind == Kind::Flash { first } else { 0 };
    let later = |request: &Measured| Measured { arrival_nanos: request.arrival_nanos - before_nanos, ..*request };
    held_out.iter().map(later).collect()
}

/// The parameters that probes leave open. The few writes that are fitted to do not say what happens behind the buffer, or how large that
/// is.
fn rows(kind: Kind, probed: &Probed, all: &[Measured]) -> Vec<Row> {
    let is_seen = |row: &Row| match row.key {
        // The parameter's part in a read looks like a part of the command, and a faster interface hides the rest.
        "hdd.cache.store_and_forward" => false,
        "ssd.program" | "ssd.write_buffer" => false,
        key => is_shown(key, all),
    };
    let is_open = |row: &&Row| is_seen(row) && probed.known.iter().all(|(key, _)| key != row.key);
    let more = if kind == Kind::Flash { [FLASH_PROBED, FLASH_ONE_UNIT] } else { [&[][..]; 2] };
    kind.rows()
        .iter()
        .chain(more.into_iter().flatten())
        .filter(is_open)
        .map(|row| enclosed(bounded(*row, all), probed))
        .collect()
}

/// The parameter between the values that enclose it, if it is enclosed.
fn enclosed(row: Row, probed: &Probed) -> Row {
    let Some((_, (low, high))) = probed.enclosed.iter().find(|(key, _)| key == row.key) else { return row };
    let values = match row.values {
        Values::Between(_, _, unit) => Values::Between(*low, *high, unit),
        Values::Ratios(_, most, unit) => Values::Ratios(*low, high.min(most).max(*low), unit),
        values => values,
    };
    Row { values, ..row }
}

/// The parameter without values that the requests exclude: nothing passes the interface faster than it can, and no read that the
/// buffer answers takes less than that costs.
fn bounded(row: Row, all: &[Measured]) -> Row {
    let seconds = |request: &Measured| request.response_nanos.max(1) as f64 / 1e9;
    let rate = |request: &Measured| f64::from(request.sectors) * SECTOR_BYTES as f64 / seconds(request);
    let values = match (row.key, row.values) {
        ("hdd.interface_rate" | "ssd.interface_rate", Values::Ratios(low, high, unit)) => {
            Values::Ratios(all.iter().map(rate).fold(low, f64::max).min(high), high, unit)
        }
        ("hdd.cache.hit_overhead.read_after_read", Values::Between(low, high, unit)) => {
            let least = all.iter().map(|request| request.response_nanos as f64).fold(high, f64::min);
            Values::Between(low, least, unit)
        }
        (_, values) => values,
    };
    Row { values, ..row }
}

/// The device with the known amounts set.
fn known(start: &DeviceSpec, amounts: &[(String, Amount)]) -> Result<DeviceSpec, RunError> {
    let mut device = to_table(start).map_err(|problem| SpecError::of_file("device", problem, ""))?;
    for (key, amount) in amounts {
        parameter::set(&mut device, key, amount);
    }
    Ok(DeviceSpec::parse("device", &device.to_string())?)
}

/// The SHA-256 of measured requests.
fn hash(requests: &[Measured]) -> String {
    let mut hash = Sha256::new();
    for Measured { operation, sector, sectors, arrival_nanos, response_nanos } in requests {
        hash.update([*operation as u8]);
        for number in [*sector, u64::from(*sectors), *arrival_nanos, *response_nanos] {
            hash.update(number.to_le_bytes());
        }
    }
    hexadecimal(&hash.finalize())
}
