//! The values that a search tries for a parameter: round numbers, so that advice is easy to read and to set.

use ioweir_core::policy::{Parameter, Search, Unit};

/// The first digits of round numbers.
const DIGITS: [u64; 5] = [1, 2, 3, 5, 7];
/// The range of a parameter without one of its own: from its default divided by this to its default times this.
const USUAL_FACTOR: u64 = 4;
/// Durations up to this are tried in steps of a microsecond, longer ones in milliseconds.
const SHORT_NANOS: u64 = 4_000_000;

/// The powers of two from the first that is not below `from` up to `to`.
pub(super) fn powers_of_two(from: u64, to: u64) -> Vec<u64> {
    let powers = (0..u64::BITS).map(|power| 1_u64 << power);
    powers.filter(|value| (from..=to).contains(value)).collect()
}

/// The values to try for a parameter, in order; its default is one of them. What is not searched has none.
pub(super) fn levels(parameter: &Parameter) -> Vec<u64> {
    let (from, to) = match (parameter.search, parameter.unit) {
        (Search::Nothing, _) => return Vec::new(),
        (_, Unit::Switch | Unit::Choice(_)) => return (parameter.min..=parameter.max).collect(),
        (Search::Between(from, to), _) => (from, to),
        (Search::Usual, _) => (parameter.default / USUAL_FACTOR, parameter.default.saturating_mul(USUAL_FACTOR)),
    };
    let (from, to) = (from.max(parameter.min), to.min(parameter.max));
    let step = parameter.linux.map_or_else(|| step(parameter), |file| file.unit);
    let mut levels = match parameter.unit {
        Unit::Bytes => powers_of_two(from, to),
        _ => round_numbers(step).filter(|value| (from..=to).contains(value)).collect(),
    };
    levels.extend([from, to, parameter.default].map(|value| value - value % step));
    levels.retain(|value| (parameter.min..=parameter.max).contains(value));
    levels.sort_unstable();
    levels.dedup();
    levels
}

fn step(parameter: &Parameter) -> u64 {
    match parameter.unit {
        Unit::Duration if parameter.default < SHORT_NANOS => 1_000,
        Unit::Duration => 1_000_000,
        _ => 1,
    }
}

fn round_numbers(step: u64) -> impl Iterator<Item = u64> {
    let decades = std::iter::successors(Some(step), |decade| decade.checked_mul(10));
    decades.flat_map(|decade| DIGITS.into_iter().filter_map(move |digit| decade.checked_mul(digit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioweir_core::policy::{PAIR, POLICIES};

    #[test]
    fn tried_values_fit_the_parameter_and_linux() {
        let pair = PAIR.parameters.iter();
        for parameter in POLICIES.iter().flat_map(|row| row.parameters).chain(pair) {
            let levels = levels(parameter);
            assert!(levels.is_sorted_by(|low, high| low < high), "{}", parameter.name);
            assert!(levels.len() <= 64, "{}: {}", parameter.name, levels.len());
            for level in &levels {
                assert!((parameter.min..=parameter.max).contains(level), "{} = {level}", parameter.name);
                let unit = parameter.linux.map_or(1, |file| file.unit);
                assert_eq!(level % unit, 0, "{} = {level} is no whole number of {unit}", parameter.name);
            }
            assert_eq!(parameter.search == Search::Nothing, levels.is_empty(), "{}", parameter.name);
            assert!(levels.is_empty() || levels.contains(&parameter.default), "{}: its default", parameter.name);
        }
    }

    #[test]
    fn durations_are_tried_at_round_numbers() {
        let row = ioweir_core::policy::find("bfq").unwrap();
        let idle = row.parameters.iter().find(|parameter| parameter.name == "slice-idle").unwrap();
        let millis: Vec<u64> = levels(idle).iter().map(|nanos| nanos / 1_000_000).collect();
        assert_eq!(millis, [0, 1, 2, 3, 5, 7, 8, 10, 16]);
    }
}
