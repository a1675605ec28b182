//! Which settings matter: the share of the variance between samples that each explains by itself.
//!
//! Samples are put into groups by scheduler, or by the lower, middle and upper third of a setting's values. The share is
//! epsilon squared (Kelley 1935): the variance between the groups over all variance, less what chance alone would explain.
//! Effects that two settings only have together are in nobody's share.

use super::search::Sample;
use super::space::{Candidate, Setup, dimensions};

/// The fewest samples of a scheduler that say anything.
const SAMPLES_MIN: usize = 9;
/// Groups of a setting's values.
const GROUPS: usize = 3;

/// The share that a setting explains.
pub(super) struct Share {
    /// The scheduler whose samples these are; empty for the choice among schedulers.
    pub(super) family: String,
    pub(super) setting: String,
    pub(super) tried: String,
    pub(super) samples: usize,
    pub(super) share: f64,
}

/// The share of the variance of values in groups that the groups explain.
fn epsilon_squared(groups: &[Vec<f64>]) -> Option<f64> {
    let groups: Vec<&Vec<f64>> = groups.iter().filter(|group| !group.is_empty()).collect();
    let count: usize = groups.iter().map(|group| group.len()).sum();
    if groups.len() < 2 || count <= groups.len() {
        return None;
    }
    let mean_of = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mean = groups.iter().flat_map(|group| group.iter()).sum::<f64>() / count as f64;
    let between: f64 = groups.iter().map(|group| group.len() as f64 * (mean_of(group) - mean).powi(2)).sum();
    let within: f64 =
        groups.iter().map(|group| group.iter().map(|value| (value - mean_of(group)).powi(2)).sum::<f64>()).sum();
    let by_chance = (groups.len() - 1) as f64 * within / (count - groups.len()) as f64;
    let all = between + within;
    Some(if all > 0.0 { ((between - by_chance) / all).max(0.0) } else { 0.0 })
}

/// The shares of the choice among schedulers, and of every setting of each.
pub(super) fn shares(samples: &[Sample], plain: &[Candidate], base: &Setup) -> Vec<Share> {
    let of_family = |plain: &Candidate| {
        samples.iter().filter(|sample| sample.candidate.family() == plain.family()).collect::<Vec<_>>()
    };
    let families: Vec<Vec<&Sample>> = plain.iter().map(of_family).collect();
    let scores = |samples: &[&Sample]| samples.iter().map(|sample| sample.score).collect::<Vec<f64>>();
    let groups: Vec<Vec<f64>> = families.iter().map(|samples| scores(samples)).collect();
    let share = |share| Share {
        family: String::new(),
        setting: "scheduler".into(),
        tried: plain.iter().map(Candidate::family).collect::<Vec<_>>().join(", "),
        samples: samples.len(),
        share,
    };
    let mut all: Vec<Share> = epsilon_squared(&groups).map(share).into_iter().collect();
    for (plain, samples) in plain.iter().zip(&families) {
        if samples.len() < SAMPLES_MIN {
            continue;
        }
        let mut own = Vec::new();
        for dimension in dimensions(plain, base) {
            let mut groups = vec![Vec::new(); GROUPS];
            for sample in samples {
                let group = dimension.level(&sample.candidate) * GROUPS / dimension.levels.len();
                groups[group].push(sample.score);
            }
            let Some(share) = epsilon_squared(&groups) else { continue };
            let (setting, tried) = (dimension.name().to_owned(), dimension.range());
            own.push(Share { family: plain.family(), setting, tried, samples: samples.len(), share });
        }
        own.sort_by(|one, other| other.share.total_cmp(&one.share).then_with(|| one.setting.cmp(&other.setting)));
        all.append(&mut own);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::epsilon_squared;

    #[test]
    fn full_cause_has_whole_share_chance_none() {
        let share = |groups: &[&[f64]]| epsilon_squared(&groups.iter().map(|group| group.to_vec()).collect::<Vec<_>>());
        assert_eq!(share(&[&[1.0, 1.0], &[2.0, 2.0], &[4.0, 4.0]]), Some(1.0));
        assert_eq!(share(&[&[1.0, 2.0], &[1.0, 2.0]]), Some(0.0));
        assert_eq!(share(&[&[3.0, 3.0], &[3.0]]), Some(0.0), "nothing varies");
        // Between: 6 (2 x 3 x 1), within: 4; chance explains 1 of 10.
        let part = share(&[&[1.0, 2.0, 3.0], &[3.0, 4.0, 5.0]]).expect("two groups");
        assert!((part - (6.0 - 1.0) / 10.0).abs() < 1e-12, "{part}");
        assert_eq!(share(&[&[1.0], &[], &[]]), None);
        assert_eq!(share(&[&[1.0], &[2.0]]), None, "a value each says nothing");
    }
}
