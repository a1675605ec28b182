//! The sentence of a scorecard: which scheduler to take for protection, for fairness and for throughput, as far as the gate allows it.

use ioweir_config::{Ratio, Size};
use ioweir_device::calibration::{Range, Span};
use ioweir_device::{DeviceFile, Standing};
use serde::Serialize;

use super::figures::{Score, USUAL};
use super::loads::Loads;
use ioweir_lab::compare::{and_list, percent};
use ioweir_lab::document::SAME_SHARE;
use ioweir_lab::experiment::Figure;
use ioweir_lab::gate::{Evidence, Judgement, judge};

/// Below this index, tenants of equal weight differ by as much as half of their share.
const FAIR_MIN: f64 = 0.9;

/// The advice of a scorecard.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Advice {
    pub(super) judgement: Judgement,
    /// The best for each purpose; none where the gate allows no recommendation.
    pub(super) choices: Vec<Choice>,
    pub(super) text: String,
}

/// The best scheduler for a purpose.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Choice {
    purpose: &'static str,
    /// The best; none if no scheduler serves the purpose.
    scheduler: Option<String>,
    /// The schedulers that are as good within the noise.
    tied: Vec<String>,
    #[serde(skip)]
    text: String,
}

/// Whether two figures are equal within their intervals.
fn is_tie(one: &Figure, other: &Figure) -> bool {
    let noise = one.half_width.unwrap_or(0.0) + other.half_width.unwrap_or(0.0);
    (one.mean - other.mean).abs() <= noise.max(SAME_SHARE)
}

impl Advice {
    pub(super) fn new(loads: &Loads, scores: &[Score], slowdown: u32, standing: &Standing, file: &DeviceFile) -> Self {
        let whole = Size(4 << 10);
        let given = Range {
            read_size: Some(Span::from([whole, Size(256 << 10)])),
            write_size: Some(Span::from([whole; 2])),
            depth_max: Some(loads.depth),
            sequential: Some(Span::from([Ratio::ZERO; 2])),
            rate: None,
        };
        let outside = file.calibration.as_ref().map_or_else(Vec::new, |known| known.range.outside(&given));
        let judgement = judge(standing, &Evidence { is_generated: true, outside, ..Evidence::default() });
        if !judgement.recommends() {
            return Self { text: judgement.text(), judgement, choices: Vec::new() };
        }
        let choices = vec![protection(scores, slowdown), fairness(scores), throughput(scores)];
        let parts: Vec<&str> = choices.iter().map(|choice| choice.text.as_str()).collect();
        let mut text = parts.join("; ");
        text[..1].make_ascii_uppercase();
        text.push('.');
        Self { judgement, choices, text }
    }
}

/// The best of what qualifies, by a figure of which more is better, and those that tie with it.
fn best<'a>(
    scores: &'a [Score],
    figure: impl Fn(&'a Score) -> Option<Figure>,
) -> Option<(&'a Score, Figure, Vec<&'a Score>)> {
    let known = || scores.iter().filter_map(|score| Some((score, figure(score)?)));
    // The first of equals.
    let (first, of_first) = known().reduce(|best, other| if other.1.mean > best.1.mean { other } else { best })?;
    let tied = known().filter(|(score, own)| score.scheduler != first.scheduler && is_tie(own, &of_first));
    Some((first, of_first, tied.map(|(score, _)| score).collect()))
}

impl Choice {
    fn new(purpose: &'static str, best: Option<&Score>, tied: &[&Score], text: String) -> Self {
        let names: Vec<&str> = tied.iter().map(|score| score.label.as_str()).collect();
        let tied: Vec<String> = tied.iter().map(|score| score.scheduler.clone()).collect();
        let ties = match names.len() {
            0 => String::new(),
            1 => format!(", with which {} ties within the noise", names[0]),
            _ => format!(", with which {} tie within the noise", and_list(&names)),
        };
        Self { purpose, scheduler: best.map(|score| score.scheduler.clone()), text: text + &ties, tied }
    }
}

fn protection(scores: &[Score], slowdown: u32) -> Choice {
    let kept = |score: &Score| {
        let given_up = score.protects()?.given_up;
        Some(Figure { mean: -given_up.mean, ..given_up })
    };
    if let Some((first, _, tied)) = best(scores, kept)
        && let Some(of) = first.protects()
    {
        let ratio = of.p99_ratio.map_or(0.0, |ratio| ratio.mean);
        let cost = match of.given_up.mean {
            cost if cost >= SAME_SHARE => format!("at the cost of {} of the throughput", percent(cost)),
            _ => "at no cost of throughput".into(),
        };
        let text = format!(
            "for protection take {} with {} settings: beside {USUAL} busy tenants the p99 is {ratio:.1} times that alone, {cost}",
            first.label,
            of.settings.name()
        );
        return Choice::new("protection", Some(first), &tied, text);
    }
    let ratio = |score: &Score| score.lowest().and_then(|of| of.p99_ratio).map_or(f64::INFINITY, |ratio| ratio.mean);
    let lowest = scores.iter().min_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    let text = match lowest {
        Some(lowest) if ratio(lowest).is_finite() => format!(
            "none of them protects: beside {USUAL} busy tenants the lowest p99 is that of {}, {:.1} times that alone, and {slowdown} \
             times are allowed",
            lowest.label,
            ratio(lowest)
        ),
        _ => "none of them protects".into(),
    };
    Choice::new("protection", None, &[], text)
}

fn fairness(scores: &[Score]) -> Choice {
    let found = best(scores, |score| Some(score.least_fair()?.jain));
    let Some((first, jain, tied)) = found else {
        return Choice::new("fairness", None, &[], "nothing is known of fairness".into());
    };
    let test = first.least_fair().map_or("", |least| least.test);
    if jain.mean < FAIR_MIN {
        let text = format!(
            "none of them is fair in every test: the best is {}, with a Jain index of {:.2} in `{test}`",
            first.label, jain.mean
        );
        return Choice::new("fairness", None, &[], text);
    }
    let text = format!("for fairness {}: its lowest Jain index is {:.2}, in `{test}`", first.label, jain.mean);
    Choice::new("fairness", Some(first), &tied, text)
}

fn throughput(scores: &[Score]) -> Choice {
    let Some((first, share, tied)) = best(scores, |score| Some(score.throughput_shared)) else {
        return Choice::new("throughput", None, &[], "nothing is known of throughput".into());
    };
    if tied.len() + 1 == scores.len() {
        return Choice::new("throughput", None, &[], "for throughput it does not matter which".into());
    }
    let text = format!(
        "for throughput {}: {} of what eight tenants have under no scheduler",
        first.label,
        percent(share.mean)
    );
    Choice::new("throughput", Some(first), &tied, text)
}
