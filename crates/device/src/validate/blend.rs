//! Predictions of response times by class that are partly a model's and partly a table's.
//!
//! A model knows how requests depend on each other, and a table what the device really took: where neither is right, their errors
//! partly cancel. How much of a class the table predicts is chosen on requests that neither was made of. A simulation cannot use
//! the table, which does not say when a request would have ended under another order.

use ioweir_config::Ratio;

use super::{ClassError, Classes, Validation, demerit, span};
use crate::calibration::BlendedClass;

/// The shares of the table that are tried, the model alone first.
const SHARES: [f64; 3] = [0.0, 0.5, 1.0];
/// A class with fewer requests stays the model's.
const REQUESTS_MIN: usize = 25;
/// The number of quantiles of a class, each the mean of an equal part of its requests.
const QUANTILES: usize = 32;

/// Chooses for each class how much of its times a table of `known` predicts: the share with the least error on `choice`. The errors
/// of the record are those on `judged`. All three hold times of the same model.
#[must_use]
pub fn blended(known: &Validation, choice: &Validation, judged: &Validation) -> Vec<BlendedClass> {
    let (known, choice) = (known.places(), choice.places());
    let mut classes = Vec::new();
    for (number, own) in judged.places().iter().enumerate() {
        let (Some(seen), Some(chosen), Some(name)) =
            (known.get(number), choice.get(number), Classes::NAMES.get(number))
        else {
            continue;
        };
        if own[0].is_empty() || seen[0].len().min(chosen[0].len()) < REQUESTS_MIN {
            continue;
        }
        let quantiles = quantiles(&seen[0]);
        let error =
            |[measured, modelled]: &[Vec<u64>; 2], share: f64| demerit(measured, &mixed(modelled, &quantiles, share));
        let better = |one: &f64, other: &f64| error(chosen, *one).total_cmp(&error(chosen, *other));
        let share = SHARES.into_iter().min_by(better).unwrap_or_default();
        classes.push(BlendedClass {
            name: (*name).into(),
            requests: own[0].len() as u64,
            table_share: Ratio::new(share).unwrap_or(Ratio::ZERO),
            measured_mean: span(super::mean(&own[0])),
            model: span(error(own, 0.0)),
            table: span(error(own, 1.0)),
            blend: span(error(own, share)),
            quantiles: if share > 0.0 { quantiles.iter().map(|nanos| span(*nanos)).collect() } else { Vec::new() },
        });
    }
    classes
}

impl Validation {
    /// The error over all requests if the classes of a record are predicted by their blends.
    #[must_use]
    pub fn blended_error(&self, classes: &[BlendedClass]) -> ClassError {
        let blend = |(number, [_, modelled]): (usize, &[Vec<u64>; 2])| {
            let own = classes.iter().find(|class| Classes::NAMES.get(number) == Some(&class.name.as_str()));
            let Some(own) = own else { return modelled.clone() };
            let quantiles: Vec<f64> = own.quantiles.iter().map(|time| time.as_nanos_f64()).collect();
            mixed(modelled, &quantiles, own.table_share.value())
        };
        let modelled_nanos = self.places().iter().enumerate().flat_map(blend).collect::<Vec<u64>>();
        let demerit = demerit(&self.measured_nanos, &modelled_nanos);
        let [measured, modelled] = [&self.measured_nanos, &modelled_nanos].map(|times| span(super::mean(times)));
        ClassError {
            name: ClassError::ALL.into(),
            requests: self.measured_nanos.len() as u64,
            measured_mean: measured,
            modelled_mean: modelled,
            demerit: span(demerit),
            halves: None,
            table: None,
        }
    }

    /// The measured and the modelled times of each class by place.
    fn places(&self) -> Vec<[Vec<u64>; 2]> {
        let split = self.classes.split(&self.measured_nanos).into_iter().zip(self.classes.split(&self.modelled_nanos));
        split.map(|(measured, modelled)| [measured, modelled]).collect()
    }
}

/// The means of equal parts of the times, from the shortest to the longest.
fn quantiles(times: &[u64]) -> Vec<f64> {
    let mut times = times.to_vec();
    times.sort_unstable();
    let count = QUANTILES.min(times.len());
    let part = |number: usize| &times[number * times.len() / count..(number + 1) * times.len() / count];
    (0..count).map(|number| super::mean(part(number))).collect()
}

/// Modelled times with this share of the quantiles of the same rank, sorted.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times of requests are not negative")]
fn mixed(modelled: &[u64], quantiles: &[f64], share: f64) -> Vec<u64> {
    let mut modelled = modelled.to_vec();
    modelled.sort_unstable();
    let count = modelled.len().max(1);
    let at = |rank: usize| quantiles.get((2 * rank + 1) * quantiles.len() / (2 * count)).copied();
    let mix = |(rank, nanos): (usize, &u64)| match at(rank) {
        Some(table) => (*nanos as f64 * (1.0 - share) + table * share).round() as u64,
        None => *nanos,
    };
    modelled.iter().enumerate().map(mix).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Measured;
    use super::*;
    use ioweir_core::Operation;

    /// Reads of a device that takes so long, and of a model that says so much.
    fn result(measured: impl Fn(u64) -> u64, modelled: impl Fn(u64) -> u64) -> Validation {
        let read = |number: u64| Measured {
            operation: Operation::Read,
            sector: number * 7_919 % 100_000 * 8,
            sectors: 8,
            arrival_nanos: number * 1_000_000,
            response_nanos: measured(number),
        };
        let reads: Vec<Measured> = (0..200).map(read).collect();
        Validation {
            measured_nanos: reads.iter().map(|read| read.response_nanos).collect(),
            modelled_nanos: (0..200).map(modelled).collect(),
            classes: Classes::new(&reads, 1 << 30),
            is_beside: vec![false; reads.len()],
        }
    }

    #[test]
    fn blend_takes_what_was_closer_where_chosen() {
        let of = |modelled: fn(u64) -> u64, [seen, chosen]: [u64; 2]| {
            let [seen, chosen, judged] = [seen, chosen, chosen].map(|base| result(|number| base + number, modelled));
            let classes = blended(&seen, &chosen, &judged);
            assert!(classes.iter().all(|class| class.blend.nanos() <= class.model.nanos()), "{classes:?}");
            let before = judged.errors()[0].demerit.as_nanos_f64();
            assert!(judged.blended_error(&classes).demerit.as_nanos_f64() <= before + 1.0);
            let share = classes[0].table_share.value();
            assert_eq!(classes[0].quantiles.is_empty(), share == 0.0);
            share
        };
        assert_eq!(of(|number| 10_000 + number, [20_000, 10_000]), 0.0, "the device has changed, as the model says");
        assert_eq!(of(|number| 50_000 + number, [10_000, 10_000]), 1.0, "the table is right");
        assert_eq!(of(|number| 8_000 + number, [12_000, 10_000]), 0.5, "their errors cancel");
    }

    #[test]
    fn few_requests_stay_the_models() {
        let few = |count: usize| {
            let all = result(|number| number, |number| number * 2);
            let classes = Classes { numbers: all.classes.numbers[..count].to_vec() };
            Validation {
                measured_nanos: all.measured_nanos[..count].to_vec(),
                modelled_nanos: all.modelled_nanos[..count].to_vec(),
                classes,
                is_beside: vec![false; count],
            }
        };
        assert!(blended(&few(20), &few(20), &few(20)).is_empty());
        assert!(!blended(&few(60), &few(60), &few(60)).is_empty());
    }
}
