//! The search for the best settings: a Latin hypercube, successive halving over pieces of the trace, and steps around the best.
//!
//! Every scheduler gets samples by the number of things that it can set. All are run on two pieces of the trace; the best third
//! goes on to four, and the best third of these to all eight. Around the best, one setting is changed at a time, in steps that
//! get shorter. At last each setting goes back to its default unless that costs more than a fifth of a percent.
//!
//! Schedulers as they come stay in to the end. Samples of a scheduler depend on its name and the seed alone, so it does not matter
//! in which order schedulers are named.

use std::collections::BTreeMap;

use ioweir_device::random::Random;

use super::bench::{Bench, Measures, RECORDED, score};
use super::pieces::Pieces;
use super::space::{Candidate, Dimension, dimensions};
use super::spec::Bound;
use ioweir_lab::compare::Goal;
use ioweir_lab::run::RunError;

/// Pieces of the trace that each stage of halving runs on.
const STAGES: [usize; 3] = [2, 4, Pieces::SEEN];
/// The divisor of each stage: one of this many candidates goes on to the next.
const KEPT: usize = 3;
/// The fewest runs of a search: one of each load for a few candidates.
pub(super) const BUDGET_MIN: u32 = 20;
/// A setting is put back to its default if that costs no more than this share.
const SIMPLER_SHARE: f64 = 0.002;

/// A candidate that was run, with its result.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) candidate: Candidate,
    /// The candidate's value relative to that of leaving everything as it is.
    pub(super) score: f64,
    /// By what factor it exceeds the bound; one if it does not.
    excess: f64,
}

/// The results of a search.
pub(super) struct Searched {
    /// All samples on the first pieces, which show how much each setting matters.
    pub(super) samples: Vec<Sample>,
    /// The samples of candidates that were run on the whole half, the best first.
    pub(super) best: Vec<Sample>,
    pub(super) runs: usize,
}

/// The inputs of a search.
pub(super) struct Search<'a> {
    pub(super) bench: &'a Bench<'a>,
    pub(super) pieces: &'a Pieces,
    pub(super) goal: Goal,
    pub(super) bound: Option<Bound>,
    pub(super) seed: u64,
    /// The most runs.
    pub(super) budget: usize,
    /// The candidate with which all others are compared.
    pub(super) leave: &'a Candidate,
    /// The schedulers with their default parameters.
    pub(super) plain: &'a [Candidate],
}

/// A stable number for a name (FNV-1a).
fn number(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Points of a Latin hypercube: of `points` points, each has another part of each dimension.
fn hypercube(dimensions: &[Dimension], points: usize, random: &mut Random) -> Vec<Vec<u64>> {
    let mut columns = Vec::new();
    for dimension in dimensions {
        let mut order: Vec<usize> = (0..points).collect();
        for at in (1..points).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        let level = |part: usize| dimension.levels[(2 * part + 1) * dimension.levels.len() / (2 * points)];
        columns.push(order.into_iter().map(level).collect::<Vec<u64>>());
    }
    (0..points).map(|point| columns.iter().map(|column| column[point]).collect()).collect()
}

impl Search<'_> {
    pub(super) fn run(&self) -> Result<Searched, RunError> {
        let mut runs = 0;
        let mut field = self.samples();
        let mut samples = Vec::new();
        let mut best = Vec::new();
        for (stage, pieces) in STAGES.into_iter().enumerate() {
            best = self.measured(&field, pieces, &mut runs)?;
            if stage == 0 {
                samples.clone_from(&best);
            }
            best.sort_by(order);
            let places = best.len().div_ceil(KEPT);
            let stays = |at: usize, sample: &Sample| at < places || self.is_plain(&sample.candidate);
            field = best
                .iter()
                .enumerate()
                .filter(|(at, one)| stays(*at, one))
                .map(|(_, one)| one.candidate.clone())
                .collect();
        }
        self.polish(&mut best, &mut runs)?;
        best.sort_by(order);
        Ok(Searched { samples, best, runs })
    }

    fn is_plain(&self, candidate: &Candidate) -> bool {
        candidate == self.leave || self.plain.contains(candidate)
    }

    /// The first candidates: schedulers with default parameters, and samples of their settings.
    fn samples(&self) -> Vec<Candidate> {
        let mut found: BTreeMap<String, Candidate> = BTreeMap::new();
        let mut add = |candidate: Candidate| found.entry(candidate.to_string()).or_insert(candidate).changes();
        add(self.leave.clone());
        self.plain.iter().cloned().for_each(|candidate| {
            add(candidate);
        });
        // Three quarters of the runs are for the stages, which run 1 + 1/3 + 1/9 of the samples under each load.
        let points = (self.budget * 3 / 4 / 2 * 9 / 13).saturating_sub(self.plain.len() + 1);
        let spaces: Vec<Vec<Dimension>> =
            self.plain.iter().map(|candidate| dimensions(candidate, &self.bench.base)).collect();
        let all: usize = spaces.iter().map(Vec::len).sum();
        for (candidate, space) in self.plain.iter().zip(&spaces) {
            let mut random = Random::stream(self.seed, number(&candidate.family()));
            let share = (points * space.len()).checked_div(all).unwrap_or(0);
            for point in hypercube(space, share, &mut random) {
                let set = |candidate, (dimension, value): (&Dimension, u64)| dimension.with(&candidate, value);
                add(space.iter().zip(point).fold(candidate.clone(), set));
            }
        }
        found.into_values().collect()
    }

    /// Runs candidates on some pieces.
    fn measured(&self, candidates: &[Candidate], pieces: usize, runs: &mut usize) -> Result<Vec<Sample>, RunError> {
        let trace = self.pieces.seen(pieces);
        let with_leave: Vec<&Candidate> = std::iter::once(self.leave).chain(candidates).collect();
        let measures = self.bench.measure(&with_leave, &trace, self.seed)?;
        *runs += 2 * with_leave.len();
        let Some((leave, rest)) = measures.split_first() else { return Ok(Vec::new()) };
        let sample = |(candidate, measures): (&Candidate, &Measures)| Sample {
            candidate: candidate.clone(),
            score: score(self.goal, measures, leave),
            excess: self.bound.map_or(1.0, |bound| bound.excess(&measures[RECORDED]).max(1.0)),
        };
        Ok(candidates.iter().zip(rest).map(sample).collect())
    }

    /// Changes one setting of the best candidate at a time, and puts settings back that do not matter.
    fn polish(&self, best: &mut Vec<Sample>, runs: &mut usize) -> Result<(), RunError> {
        let Some(mut centre) = best.iter().min_by(|one, other| order(one, other)).cloned() else { return Ok(()) };
        let space = dimensions(&centre.candidate, &self.bench.base);
        let mut divisor = 4;
        // Enough runs are kept for putting settings back to their defaults.
        while divisor <= 64 && *runs + 2 * (space.len() + 2) < self.budget {
            let left = (self.budget - *runs) / 2 - space.len() - 1;
            let mut steps = self.steps(&centre.candidate, &space, divisor, best);
            steps.truncate(left);
            let found = self.measured(&steps, Pieces::SEEN, runs)?;
            best.extend(found.iter().cloned());
            match found.into_iter().min_by(order).filter(|found| order(found, &centre).is_lt()) {
                Some(better) => centre = better,
                None => divisor *= 2,
            }
        }
        for dimension in space.iter().filter(|dimension| dimension.is_set(&centre.candidate)).collect::<Vec<_>>() {
            if *runs + 4 > self.budget {
                break;
            }
            let simpler = dimension.without(&centre.candidate);
            let found = self.measured(&[simpler], Pieces::SEEN, runs)?;
            best.extend(found.iter().cloned());
            let is_as_good =
                |found: &Sample| found.excess <= centre.excess && found.score <= centre.score * (1.0 + SIMPLER_SHARE);
            if let Some(mut found) = found.into_iter().find(is_as_good) {
                // The simpler candidate takes the place of the one that it is as good as.
                found.score = found.score.min(centre.score);
                best.retain(|one| one.candidate != found.candidate && one.candidate != centre.candidate);
                best.push(found.clone());
                centre = found;
            }
        }
        let mut seen = Vec::new();
        best.retain(|one| {
            let text = one.candidate.to_string();
            let is_new = !seen.contains(&text);
            seen.push(text);
            is_new
        });
        Ok(())
    }

    /// The neighbours of a candidate that have not been run: one setting moved by this part of its values, either way.
    fn steps(&self, centre: &Candidate, space: &[Dimension], divisor: usize, known: &[Sample]) -> Vec<Candidate> {
        let mut steps: Vec<Candidate> = Vec::new();
        for dimension in space {
            let at = dimension.level(centre);
            let step = (dimension.levels.len() / divisor).max(1);
            let last = dimension.levels.len() - 1;
            for to in [at.saturating_sub(step), (at + step).min(last)] {
                let candidate = dimension.with(centre, dimension.levels[to]);
                let is_known = known.iter().any(|sample| sample.candidate == candidate) || steps.contains(&candidate);
                if !is_known {
                    steps.push(candidate);
                }
            }
        }
        steps
    }
}

/// The better first: what keeps to the bound, then the lower value, then what sets less.
pub(super) fn order(one: &Sample, other: &Sample) -> std::cmp::Ordering {
    let key = |sample: &Sample| (sample.excess, sample.score);
    let ((excess, score), (other_excess, other_score)) = (key(one), key(other));
    let simpler = || one.candidate.changes().cmp(&other.candidate.changes());
    let name = || one.candidate.to_string().cmp(&other.candidate.to_string());
    excess.total_cmp(&other_excess).then(score.total_cmp(&other_score)).then_with(simpler).then_with(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::space::{Candidate, Setup};
    use ioweir_core::QueueLimits;
    use ioweir_device::DeviceSpec;

    #[test]
    fn hypercube_tries_every_part_once() {
        let device = DeviceSpec::load("hdd").expect("a preset");
        let base = Setup { limits: QueueLimits::DEFAULT, device };
        let space = dimensions(&Candidate::of("bfq".parse().expect("a scheduler")), &base);
        assert!(space.len() >= 5, "{}", space.len());
        let points = hypercube(&space, 64, &mut Random::new(1));
        assert_ne!(points, hypercube(&space, 64, &mut Random::new(2)));
        for (at, dimension) in space.iter().enumerate() {
            let most = 64_usize.div_ceil(dimension.levels.len());
            for level in &dimension.levels {
                let count = points.iter().filter(|point| point[at] == *level).count();
                assert!((64 / dimension.levels.len()..=most).contains(&count), "{}: {count}", dimension.name());
            }
        }
    }
}
