//! Schedulers as users write them: a policy, or a pair of an order of tenants above an elevator, with settings.

use std::fmt;
use std::str::FromStr;

use ioweir_core::QueueLimits;
use ioweir_core::policy::{Below, PAIR, PairError, PairRow, Policy, PolicyRow, Reads, Settings};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::choice::{Choice, ChoiceError, deserialize_text};
use crate::{is_same_name, shown};

/// A scheduler with its settings; text in a file.
///
/// ```
/// use ioweir_config::SchedulerChoice;
/// let choice: SchedulerChoice = "mclock+bid-hdd:history=4:window=32".parse()?;
/// assert_eq!(choice.to_string(), "mclock+bid-hdd:history=4:window=32");
/// # Ok::<(), ioweir_config::ChoiceError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SchedulerChoice {
    /// The policy; for a pair, its order.
    pub row: &'static PolicyRow,
    /// The settings of `row`.
    pub settings: Settings,
    /// The elevator of a pair.
    pub below: Option<Below>,
}

impl SchedulerChoice {
    /// A single policy, with every parameter at its default.
    #[must_use]
    pub fn of(row: &'static PolicyRow) -> Self {
        Self { row, settings: row.defaults(), below: None }
    }

    /// Makes the scheduler.
    #[must_use]
    pub fn build(&self, limits: QueueLimits) -> Policy {
        match &self.below {
            None => self.row.build(limits, &self.settings),
            Some(below) => self.row.build_above(limits, &self.settings, below),
        }
    }

    /// The keys of shares, and the priorities, that change its decisions. A pair reads what either half reads.
    #[must_use]
    pub fn reads(&self) -> Reads {
        let Some(below) = &self.below else { return self.row.reads };
        Reads {
            latency: self.row.reads.latency || below.is_adaptive(),
            priority: self.row.reads.priority || below.row.reads.priority,
            ..self.row.reads
        }
    }

    /// Whether its elevator may merge requests; an order alone never does.
    #[must_use]
    pub const fn merges(&self) -> bool {
        !self.row.knows_shares || self.below.is_some()
    }
}

/// Whether this part sets a parameter of pairs.
fn is_pairs(part: &&str) -> bool {
    let name = part.split('=').next().unwrap_or_default();
    PAIR.parameters.iter().any(|parameter| is_same_name(parameter.name, name))
}

/// Reads the part after the `+`: the elevator with its parameters, and the parameters of the pair.
fn parse_below(text: &str) -> Result<(Choice<PolicyRow>, Choice<PairRow>), ChoiceError> {
    let (pairs, own): (Vec<&str>, Vec<&str>) = text.split(':').partition(is_pairs);
    let pair = std::iter::once("pair").chain(pairs).collect::<Vec<_>>().join(":");
    Ok((own.join(":").parse()?, pair.parse()?))
}

/// A parameter of the pair belongs after the elevator; after the order it is an error, unless the order has one of that
/// name.
fn its_own(error: ChoiceError, upper: &str, lower: &str) -> ChoiceError {
    let (pairs, own): (Vec<&str>, Vec<&str>) = upper.split(':').partition(is_pairs);
    match pairs.first().and_then(|part| part.split('=').next()) {
        Some(name) if error.problem.contains(&format!("`{name}`")) => {
            let hint = format!("`{name}` is the pair's: {}+{lower}:{}", own.join(":"), pairs.join(":"));
            ChoiceError { hint, ..error }
        }
        _ => error,
    }
}

/// Why an upper and a lower policy cannot form a pair.
fn no_pair(error: PairError, text: &str, swapped: &str, (upper, lower): (&PolicyRow, &PolicyRow)) -> ChoiceError {
    let (upper, lower, is_swapped) = (upper.name, lower.name, lower.knows_shares && !upper.knows_shares);
    let (problem, expected) = match error {
        PairError::NoElevator if is_swapped => (
            format!("scheduler `{}`: the order of tenants comes first, the elevator second", shown(text)),
            "ORDER+ELEVATOR",
        ),
        PairError::NoElevator => (
            format!("scheduler `{}`: {lower} is no elevator", shown(text)),
            "an elevator behind the +, such as deadline",
        ),
        PairError::NoOrder => (
            format!("scheduler `{}`: {upper} is no order of tenants", shown(text)),
            "an order of tenants before the +, such as sfq",
        ),
        PairError::Places => (
            format!("scheduler `{}`: {lower} places data on a second device, and no order goes above it", shown(text)),
            "an elevator of one device behind the +, such as bid-hdd",
        ),
    };
    let hint = if is_swapped { format!("did you mean `{swapped}`?") } else { "`ioweir doc policy` lists both".into() };
    ChoiceError { problem, expected: expected.into(), hint }
}

impl FromStr for SchedulerChoice {
    type Err = ChoiceError;

    /// Reads `name[:parameter=value...]`, or two of them joined by a `+`.
    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        let Some((upper, lower)) = text.split_once('+') else {
            let Choice { row, settings } = text.parse()?;
            return Ok(Self { row, settings, below: None });
        };
        if upper.is_empty() || lower.is_empty() {
            return Err(ChoiceError {
                problem: format!("scheduler `{}` lacks one of its halves", shown(text)),
                expected: "ORDER+ELEVATOR".into(),
                hint: "such as sfq+mq-deadline; `ioweir doc policy` lists both".into(),
            });
        }
        if lower.contains('+') {
            return Err(ChoiceError {
                problem: format!("scheduler `{}` has more than two halves", shown(text)),
                expected: "ORDER+ELEVATOR".into(),
                hint: "`ioweir doc policy` lists both".into(),
            });
        }
        let upper: Choice<PolicyRow> = upper.parse().map_err(|error| its_own(error, upper, lower))?;
        let (lower, pair) = parse_below(lower)?;
        let swapped =
            || Self { row: lower.row, settings: lower.settings, below: Some(below(upper, &pair)) }.to_string();
        upper.row.goes_above(lower.row).map_err(|error| no_pair(error, text, &swapped(), (upper.row, lower.row)))?;
        Ok(Self { row: upper.row, settings: upper.settings, below: Some(below(lower, &pair)) })
    }
}

fn below(Choice { row, settings }: Choice<PolicyRow>, pair: &Choice<PairRow>) -> Below {
    Below { row, settings, pair: pair.settings }
}

impl fmt::Display for SchedulerChoice {
    /// Writes the form that can be read back, without settings at their default.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", Choice { row: self.row, settings: self.settings })?;
        let Some(Below { row, settings, pair }) = self.below else { return Ok(()) };
        write!(out, "+{}", Choice { row, settings })?;
        Choice { row: &PAIR, settings: pair }.fmt_settings(out)
    }
}

impl PartialEq for SchedulerChoice {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for SchedulerChoice {}

impl Serialize for SchedulerChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SchedulerChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_text(deserializer, "scheduler")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_reads_back_what_it_prints() {
        for text in
            ["sfq+deadline", "reward:estimator=service+cfq:quantum=4:window=32", "reward:window=9+noop:window=1"]
        {
            assert_eq!(text.parse::<SchedulerChoice>().unwrap().to_string(), text);
        }
        let anywhere = "sfq+cfq:window=3:quantum=4".parse::<SchedulerChoice>().unwrap();
        assert_eq!(anywhere.to_string(), "sfq+cfq:quantum=4:window=3");
    }

    #[test]
    fn what_is_wrong_with_a_pair_is_said() {
        let error = |text: &str| text.parse::<SchedulerChoice>().unwrap_err();
        let swapped = error("deadline:fifo-batch=4+sfq:depth=8:window=3");
        assert!(swapped.problem.ends_with("the order of tenants comes first, the elevator second"), "{swapped}");
        assert_eq!(swapped.hint, "did you mean `sfq:depth=8+deadline:fifo-batch=4:window=3`?");
        assert_eq!(error("noop+deadline").problem, "scheduler `noop+deadline`: noop is no order of tenants");
        assert_eq!(error("sfq+wfq").expected, "an elevator behind the +, such as deadline");
        assert!(error("sfq+bid-hybrid").problem.contains("places data on a second device"));
        assert_eq!(error("sfq+noop+noop").problem, "scheduler `sfq+noop+noop` has more than two halves");
        assert_eq!(error("sfq+").problem, "scheduler `sfq+` lacks one of its halves");
        assert_eq!(error("sfq+deadlin").hint, "did you mean `deadline`?");
        assert_eq!(
            error("sfq+deadline:window=0").problem,
            "pair: window: `0` is neither adaptive nor a number above zero"
        );
        assert_eq!(error("sfq:window=3+deadline").hint, "`window` is the pair's: sfq+deadline:window=3");
    }
}
