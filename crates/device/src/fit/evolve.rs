//! Differential evolution: minimises a function of many variables without knowing its form.
//!
//! A population of points is improved generation by generation: each point moves towards one of the best and along the
//! difference of two others, and stays where that is no better (Storn and Price 1997; the move is that of JADE, Zhang and
//! Sanderson 2009, with drawn instead of learnt factors). All variables run from 0 to 1.

use super::super::random::Random;

/// How a function is minimised.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The points of a generation.
    pub population: usize,
    /// The number of generations.
    pub generations: usize,
    /// The seed of every draw.
    pub seed: u64,
}

/// The part of the population that points move towards.
const BEST_PART: usize = 7;
/// The chance that a variable of a point moves.
const CROSSOVER: f64 = 0.9;

/// A point and its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The variables.
    pub genes: Vec<f64>,
    /// The value of the function; infinite where it is not defined.
    pub cost: f64,
}

/// Looks for the minimum of a function of `variables`. `costs` computes it at several points, in any order or at once; after
/// each generation `watch` hears its number and the lowest cost so far, and ends the search by answering false. The same
/// effort gives the same result.
///
/// The points of the last generation are returned, the best first.
pub fn evolve(
    variables: usize,
    effort: Effort,
    costs: &dyn Fn(&[Vec<f64>]) -> Vec<f64>,
    watch: &mut dyn FnMut(usize, f64) -> bool,
) -> Vec<Point> {
    let mut random = Random::new(effort.seed);
    let population = effort.population.max(4);
    let drawn = |random: &mut Random| (0..variables).map(|_| random.uniform()).collect::<Vec<f64>>();
    // A quarter more points than are kept for each that the function is not defined at: bad regions do not fill the first
    // generation.
    let first: Vec<Vec<f64>> = (0..population * 4).map(|_| drawn(&mut random)).collect();
    let mut points = weighed(first, costs);
    points.sort_by(|one, other| one.cost.total_cmp(&other.cost));
    let defined = points.iter().take_while(|point| point.cost.is_finite()).count().max(population);
    // The population is a random sample of the defined points: the best points lie too close together.
    points.truncate(defined);
    while points.len() > population {
        let at = 1 + index(&mut random, points.len() - 1);
        points.swap_remove(at);
    }
    for generation in 1..=effort.generations {
        points.sort_by(|one, other| one.cost.total_cmp(&other.cost));
        let trials: Vec<Vec<f64>> = (0..points.len()).map(|at| trial(&points, at, &mut random)).collect();
        for (point, trial) in points.iter_mut().zip(weighed(trials, costs)) {
            if trial.cost <= point.cost {
                *point = trial;
            }
        }
        let best = points.iter().map(|point| point.cost).fold(f64::INFINITY, f64::min);
        if !watch(generation, best) {
            break;
        }
    }
    points.sort_by(|one, other| one.cost.total_cmp(&other.cost));
    points
}

fn weighed(genes: Vec<Vec<f64>>, costs: &dyn Fn(&[Vec<f64>]) -> Vec<f64>) -> Vec<Point> {
    let costs = costs(&genes);
    let cost = |at: usize| costs.get(at).copied().filter(|cost| !cost.is_nan()).unwrap_or(f64::INFINITY);
    genes.into_iter().enumerate().map(|(at, genes)| Point { genes, cost: cost(at) }).collect()
}

fn index(random: &mut Random, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).unwrap_or(0)
}

/// Where the point at `at` might move to.
fn trial(points: &[Point], at: usize, random: &mut Random) -> Vec<f64> {
    let best = index(random, (points.len() / BEST_PART).max(1));
    let (one, other) = (index(random, points.len()), index(random, points.len()));
    let factor = 0.3 + 0.6 * random.uniform();
    let gene = |point: usize, variable: usize| points.get(point).and_then(|point| point.genes.get(variable)).copied();
    let variables = points.get(at).map_or(0, |point| point.genes.len());
    let certain = index(random, variables.max(1));
    let moved = |variable: usize, random: &mut Random| {
        let of = |point: usize| gene(point, variable).unwrap_or(0.5);
        let own = of(at);
        if variable != certain && random.uniform() >= CROSSOVER {
            return own;
        }
        let to = own + factor * (of(best) - own) + factor * (of(one) - of(other));
        // A step over an edge ends between the edge and where it began.
        if to < 0.0 {
            own / 2.0
        } else if to > 1.0 {
            (own + 1.0) / 2.0
        } else {
            to
        }
    };
    (0..variables).map(|variable| moved(variable, random)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64, function: fn(&[f64]) -> f64) -> Vec<Point> {
        let effort = Effort { population: 40, generations: 300, seed };
        let costs = |points: &[Vec<f64>]| points.iter().map(|genes| function(genes)).collect();
        evolve(6, effort, &costs, &mut |_, _| true)
    }

    #[test]
    fn minimum_of_bent_valley_is_found() {
        // Rosenbrock's function from -2 to 2, whose minimum is at one in every variable; not defined in a corner.
        let valley = |genes: &[f64]| {
            let at: Vec<f64> = genes.iter().map(|gene| gene * 4.0 - 2.0).collect();
            if at[0] < -1.5 {
                return f64::NAN;
            }
            at.windows(2).map(|pair| 100.0 * (pair[1] - pair[0] * pair[0]).powi(2) + (1.0 - pair[0]).powi(2)).sum()
        };
        let points = run(1, valley);
        assert!(points[0].cost < 1e-2, "{:?}", points[0]);
        assert!(points[0].genes.iter().all(|gene| (gene - 0.75).abs() < 0.02), "{:?}", points[0]);
        assert!(points.windows(2).all(|pair| pair[0].cost <= pair[1].cost));
        assert_eq!(points, run(1, valley), "the same seed");
        assert_ne!(points, run(2, valley), "another seed");
    }

    #[test]
    fn a_search_is_ended_by_its_watcher() {
        let mut generations = 0;
        let effort = Effort { population: 8, generations: 100, seed: 0 };
        let costs = |points: &[Vec<f64>]| vec![f64::INFINITY; points.len()];
        let points = evolve(2, effort, &costs, &mut |generation, _| {
            generations = generation;
            generation < 3
        });
        assert_eq!((generations, points.len()), (3, 8));
    }
}
