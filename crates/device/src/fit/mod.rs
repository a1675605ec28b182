//! Fits a device model to measured response times.
//!
//! A candidate is a device file with other values of some parameters ([`table`]). Its cost on the requests of a trace is half
//! their demerit and half the root mean square of the demerits by class, so that errors of different classes do not cancel. On
//! probes it is the mean, over groups of requests that show one thing, of the error as a share of what was measured
//! ([`Fit::grouped`]): in nanoseconds, waits in a queue would outweigh all that a sequential read takes. A
//! seeded search ([`evolve()`]) looks for the cheapest. Nothing here has threads: whoever calls says how candidates are
//! weighed.

mod ensemble;
mod evolve;
mod start;
pub mod table;
#[cfg(test)]
mod tests;

use ioweir_config::{ByteRate, Complaint, Duration, Ratio, Size, from_table, to_table};
use ioweir_core::{Nanos, Operation};
use toml::Table;

use super::DeviceSpec;
use super::parameter::{self, Amount};
use super::quantity::Skew;
use super::random::natural_logarithm;
use super::validate::{Load, Measured, Validation, mean, replay, sorted_demerit};

pub use ensemble::Ensemble;
pub use evolve::{Effort, Point, evolve};
pub use start::start;
use table::{Row, Unit, Values};

/// The fewest requests of a class that counts: fewer say little about a distribution.
const CLASS_REQUESTS_MIN: usize = 25;
/// The values of a parameter that are tried to see whether a device has it.
const TRIED_VALUES: u32 = 10;

/// Requests in groups by the property that they show. All groups count alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    /// The group of each request.
    pub of: Vec<usize>,
    /// The duration of an access of each group without the wait for a place of the medium, in nanoseconds, where it is known: the group
    /// then shows this time. Other groups show the distribution of their response times.
    pub accesses: Vec<Option<f64>>,
}

/// Parameters of a device to be fitted, and the requests to fit them to.
#[derive(Clone, Debug)]
pub struct Fit<'a> {
    start: Table,
    rows: Vec<Row>,
    requests: &'a [Measured],
    /// The group of each request and the accesses of the groups, if they are of probes.
    groups: Option<(&'a [usize], &'a [Option<f64>])>,
    /// Whether only groups that show accesses count.
    of_accesses: bool,
    load: Load,
    seed: u64,
}

impl<'a> Fit<'a> {
    /// A fit that begins from `start`, of those of `rows` that such a device has. Every other parameter stays as it is there.
    ///
    /// # Errors
    /// If the device cannot be written as TOML, which is a defect.
    pub fn new(start: &DeviceSpec, rows: &[Row], requests: &'a [Measured], load: Load) -> Result<Self, Complaint> {
        let start = to_table(start).map_err(Complaint::of_all)?;
        let fit = Self { start, rows: Vec::new(), requests, groups: None, of_accesses: false, load, seed: 0 };
        // A disk whose zones are listed has no zoning, and one without a buffer none of its parameters.
        let applies = |row: &&Row| {
            if row.beside.is_some_and(|key| parameter::get(&fit.start, key).is_none()) {
                return false;
            }
            let alone = Self { rows: vec![**row], ..fit.clone() };
            (0..=TRIED_VALUES).any(|step| alone.device(&[f64::from(step) / f64::from(TRIED_VALUES)]).is_some())
        };
        let rows = rows.iter().filter(applies).copied().collect();
        Ok(Self { rows, ..fit })
    }

    /// Fits to requests that are in groups.
    #[must_use]
    pub fn grouped(self, groups: Option<&'a Groups>) -> Self {
        Self { groups: groups.map(|groups| (&groups.of[..], &groups.accesses[..])), ..self }
    }

    /// The fit of the arm alone, to accesses without the wait for a place of the medium, if they are known: nothing but the arm and
    /// the command moves them.
    #[must_use]
    pub fn of_arm(&self) -> Option<Self> {
        let (of, accesses) = self.groups?;
        let shows = |group: &usize| accesses.get(*group).is_some_and(Option::is_some);
        let (first, last) = (of.iter().position(shows)?, of.iter().rposition(shows)?);
        // The head comes from the read before.
        let part = first.saturating_sub(1)..=last;
        // A slow interface would be taken for a slow arm.
        let moves = |row: &&Row| row.is_of_arm() || row.key == "hdd.interface_rate";
        let rows: Vec<Row> = self.rows.iter().filter(moves).copied().collect();
        // Accesses alone do not tell the arm from a command that is not known.
        if !rows.iter().any(Row::is_of_arm) || self.rows.iter().any(|row| row.key == "hdd.overhead.read_after_read") {
            return None;
        }
        Some(Self {
            rows,
            requests: self.requests.get(part.clone())?,
            groups: Some((of.get(part)?, accesses)),
            of_accesses: true,
            ..self.clone()
        })
    }

    /// The fit of all other parameters of a device with an arm.
    #[must_use]
    pub fn beside_arm(&self, arm: &DeviceSpec) -> Option<Self> {
        let rows = self.rows.iter().filter(|row| !row.is_of_arm()).copied().collect();
        Some(Self { start: to_table(arm).ok()?, rows, ..self.clone() })
    }

    /// The fit of what reads show, if they end before the first write, as probes do: what writes cost says nothing about them. With
    /// all parameters at once, a search of this length leaves errors in reads that writes do not outweigh.
    #[must_use]
    pub fn of_reads(&self) -> Option<Self> {
        let (of, accesses) = self.groups?;
        let reads = self.reads_before_writes()?;
        let rows: Vec<Row> = self.rows.iter().filter(|row| !row.is_of_writes()).copied().collect();
        let is_part = !rows.is_empty() && rows.len() < self.rows.len();
        Some(Self {
            rows,
            requests: self.requests.get(..reads)?,
            groups: Some((of.get(..reads)?, accesses)),
            ..self.clone()
        })
        .filter(|_| is_part)
    }

    /// The fit of what writes cost on a device that was fitted to the reads before them.
    #[must_use]
    pub fn beside_reads(&self, reads: &DeviceSpec) -> Option<Self> {
        let (of, accesses) = self.groups?;
        // The last read says since when nothing was asked for.
        let part = self.reads_before_writes()?.saturating_sub(1)..;
        let rows = self.rows.iter().filter(|row| row.is_of_writes()).copied().collect();
        Some(Self {
            start: to_table(reads).ok()?,
            rows,
            requests: self.requests.get(part.clone())?,
            groups: Some((of.get(part)?, accesses)),
            ..self.clone()
        })
    }

    /// The number of reads, if all of them come before the first write, and there is one.
    fn reads_before_writes(&self) -> Option<usize> {
        let is_write = |request: &Measured| request.operation == Operation::Write;
        let first = self.requests.iter().position(is_write)?;
        self.requests.get(first..)?.iter().all(is_write).then_some(first)
    }

    /// The parameters.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The genes of all parameters, from fits of some of them each.
    #[must_use]
    pub fn genes_of(&self, parts: [(&Self, &Point); 2]) -> Vec<f64> {
        let gene = |row: &Row| {
            let of = |(fit, point): &(&Self, &Point)| {
                let at = fit.rows.iter().position(|other| other.key == row.key)?;
                point.genes.get(at).copied()
            };
            parts.iter().find_map(of)
        };
        self.rows.iter().filter_map(gene).collect()
    }

    /// The device with these values; `None` if they do not fit together.
    #[must_use]
    pub fn device(&self, genes: &[f64]) -> Option<DeviceSpec> {
        let mut table = self.start.clone();
        for (row, gene) in self.rows.iter().zip(genes) {
            parameter::set(&mut table, row.key, &row.amount(*gene));
        }
        from_table::<DeviceSpec>(&table).ok().filter(|spec| spec.check().is_ok())
    }

    /// The cost of these values, in nanoseconds or as a share of the groups' means; infinite if they do not fit together.
    #[must_use]
    pub fn cost(&self, genes: &[f64]) -> f64 {
        let weigh = |spec: DeviceSpec| match self.groups {
            None => cost(&spec, self.requests, self.load, self.seed),
            Some(groups) => grouped_cost(&spec, self, groups),
        };
        self.device(genes).map_or(f64::INFINITY, weigh)
    }
}

/// The device where the fit of a disk begins if none is given: only its size and speed matter.
pub const UNKNOWN_DISK: &str = include_str!("disk.toml");

/// The cost of a device on measured requests: half the demerit, half the root mean square of the demerits by class, in
/// nanoseconds.
#[must_use]
pub fn cost(spec: &DeviceSpec, requests: &[Measured], load: Load, seed: u64) -> f64 {
    let Ok(mut device) = spec.build(seed) else { return f64::INFINITY };
    let Ok(result) = Validation::new(&mut *device, requests, load) else { return f64::INFINITY };
    let by_class = result.by_class();
    let demerits: Vec<f64> = by_class
        .iter()
        .skip(1)
        .filter(|(_, [measured, _])| measured.len() >= CLASS_REQUESTS_MIN)
        .map(|(_, [measured, modelled])| sorted_demerit(measured, modelled))
        .collect();
    let squares: f64 = demerits.iter().map(|demerit| demerit * demerit).sum();
    f64::midpoint(result.demerit_nanos(), (squares / demerits.len().max(1) as f64).sqrt())
}

/// The cost of a device on requests in groups: the mean of the groups' errors, each as a share of the measured value. Squares would favour
/// groups that no model comes near, such as reads of which one in ten crosses to another track.
fn grouped_cost(spec: &DeviceSpec, fit: &Fit<'_>, (of, accesses): (&[usize], &[Option<f64>])) -> f64 {
    let Ok(mut device) = spec.build(fit.seed) else { return f64::INFINITY };
    let Ok(replayed) = replay(&mut *device, fit.requests, fit.load) else { return f64::INFINITY };
    let mut times: Vec<[Vec<u64>; 2]> = vec![[Vec::new(), Vec::new()]; accesses.len()];
    for ((request, modelled), group) in fit.requests.iter().zip(&replayed).zip(of) {
        if let Some([measured, model]) = times.get_mut(*group) {
            measured.push(request.response_nanos);
            model.push(match accesses.get(*group) {
                Some(Some(_)) => modelled.response_nanos().saturating_sub(modelled.service.rotation_nanos),
                _ => modelled.response_nanos(),
            });
        }
    }
    let share = |([measured, modelled], access): (&mut [Vec<u64>; 2], &Option<f64>)| match access {
        Some(access) => Some((mean(modelled) / access.max(1.0) - 1.0).abs()),
        None if fit.of_accesses || measured.is_empty() => None,
        None => {
            modelled.sort_unstable();
            measured.sort_unstable();
            Some(sorted_demerit(measured, modelled) / mean(measured).max(1.0))
        }
    };
    let shares: Vec<f64> = times.iter_mut().zip(accesses).filter_map(share).collect();
    shares.iter().sum::<f64>() / shares.len().max(1) as f64
}

impl Row {
    /// Whether it says how long the arm moves, or which of two places it has to move between.
    fn is_of_arm(&self) -> bool {
        self.key.starts_with("hdd.seek.") || ["hdd.head_switch", "hdd.surfaces"].contains(&self.key)
    }

    /// Whether only writes show the parameter.
    fn is_of_writes(&self) -> bool {
        self.key.starts_with("ssd.") && self.key.contains("write") || self.key == "ssd.program"
    }

    /// The value for a gene from 0 to 1.
    #[must_use]
    pub fn amount(&self, gene: f64) -> Amount {
        let gene = gene.clamp(0.0, 1.0);
        match self.values {
            Values::Between(low, high, unit) => unit.amount(low + (high - low) * gene),
            Values::Ratios(low, high, unit) => unit.amount(ratio(low, high, gene)),
            Values::Words(words) => Amount::Word(choice(words, gene).copied().unwrap_or_default().into()),
            Values::Switch => Amount::Switch(gene >= 0.5),
        }
    }
}

/// The number at a part of the way from `low` to `high` by octaves, linear within each: the same on every machine.
fn ratio(low: f64, high: f64, part: f64) -> f64 {
    let octaves = natural_logarithm(high / low) / std::f64::consts::LN_2 * part;
    #[expect(clippy::cast_possible_truncation, reason = "a few dozen")]
    let whole = octaves.floor() as i32;
    (low * 2_f64.powi(whole) * (1.0 + octaves - octaves.floor())).min(high)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1 times a length")]
fn choice<T>(items: &[T], gene: f64) -> Option<&T> {
    items.get((gene * items.len() as f64) as usize).or(items.last())
}

impl Unit {
    fn amount(self, number: f64) -> Amount {
        let like = match self {
            Self::Count => Amount::Count(0),
            Self::Share => Amount::Share(Ratio::ZERO),
            Self::Revolutions => Amount::Skew(Skew::Revolution(0)),
            Self::Nanos | Self::NanosEach => Amount::Time(Duration::new(Nanos(0))),
            Self::Bytes => Amount::Size(Size(0)),
            Self::BytesPerSecond => Amount::Rate(ByteRate(0)),
        };
        // Values are rounded, since no measurement is exact to a part of a sector, a tenth of a microsecond or a kilobyte a second. Times
        // per unit are rounded to whole nanoseconds, as a write of 128 KiB has 32 units.
        let step = match self {
            Self::Count | Self::NanosEach => 1.0,
            Self::Share | Self::Revolutions => 0.001,
            Self::Nanos => 100.0,
            Self::Bytes => 512.0,
            Self::BytesPerSecond => 1_000.0,
        };
        like.with_number((number / step).round() * step)
    }
}
