//! Does request scheduling inside a storage server do what its paper says?
//!
//! Source: Zhou et al., "Empirical Evaluation and Enhancement of Enterprise Storage System Request Scheduling", ACM TOS
//! 14(2), 2018: Table 2 and figures 4 to 8.

mod cells;
mod claims;
#[cfg(test)]
mod tests;
mod views;

use crate::run::{Origin, Progress};
use crate::server::{COSTS, CostSpec, PLATFORMS, ServerError, WORKLOADS};

use super::{Provenance, Reproduction};
use cells::{CELLS, Cell, FULL, QUICK, Scale};
use claims::{Results, claims};

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Fewer loads, shorter runs, one seed and so no intervals.
    pub quick: bool,
}

/// Runs the experiments.
///
/// # Errors
/// [`ServerError`] where the simulator broke a law.
pub fn reproduce(options: &Options, origin: &Origin, progress: &dyn Progress) -> Result<Reproduction, ServerError> {
    at_scale(&CELLS, if options.quick { &QUICK } else { &FULL }, origin, progress)
}

fn at_scale(
    cells: &'static [Cell],
    scale: &Scale,
    origin: &Origin,
    progress: &dyn Progress,
) -> Result<Reproduction, ServerError> {
    let done = cells::run(cells, scale, &CostSpec::usual()?, progress)?;
    let claims = claims(&Results(&done));
    let (tables, figures) = (views::tables(&done), views::figures(&done, &claims));
    let parts = [("Platform", PLATFORMS), ("Workload", WORKLOADS)];
    let mut specs = vec![("Costs: one set for all figures".to_string(), COSTS.to_string())];
    for (what, presets) in parts {
        specs.extend(presets.iter().map(|preset| (format!("{what} {}", preset.name), preset.parameters.to_string())));
    }
    Ok(Reproduction {
        name: "Request scheduling in WAFL",
        paper: "Zhou et al., Empirical Evaluation and Enhancement of Enterprise Storage System Request Scheduling",
        method: method(scale),
        meta: Provenance::new(origin, Vec::new(), specs),
        claims: claims.into_iter().map(|(claim, _)| claim).collect(),
        tables,
        figures,
    })
}

fn method(scale: &Scale) -> Vec<String> {
    let loads: Vec<String> = scale.loads.iter().map(|load| format!("{:.1}", load * 100.0)).collect();
    vec![
        "The paper's servers and their software are not to be had. Ours is a simulator (`ioweir doc platform`, `ioweir doc workload`) \
         with one documented set of costs for all figures, at the end of this page. A claim holds where its sign, and the \
         order of what it compares, are the paper's; magnitudes stand side by side."
            .into(),
        format!(
            "Loads: the server finds the highest load under which the baseline's mean response time is within 30 ms (10 ms on \
             all-flash) by bisection; the loads are {} % of it. Runs measure {} swings of the load after {} of warm-up, and are \
             repeated by the paper's rule (two, and three more where these two differ by 1 % or more) with other seeds, at most {} \
             times. All schedules see the same requests.",
            loads.join(", "),
            scale.length.measured,
            scale.length.warm_up,
            scale.runs_max
        ),
        "Changes of figures 4 to 7 are over the loads from 86 % of the peak on, as the paper's (76,000 to 88,000 requests a second \
         on mid-range); those of figure 8 and of `adaptive` are over all loads."
            .into(),
        "Equation 1 counts the weights of queues that are not empty, as the paper writes it, in all figures but 5d. There, for all \
         three curves, it counts all three weights, which gives the constant slices of 1200, 600 and 200 us that the paper names: \
         only so has all-to-lq the short slices that the paper explains its loss by. Figure 6 and `combo` use Equation 2 where \
         the name says qats or combo."
            .into(),
        "What the model makes different, and so which claims to look at twice. A turn costs a worker 10 us whatever it serves, and a \
         queue's turn ends when the queue is empty: all-to-hq has the fewest and fullest turns, and so gains a little where the \
         paper's loses. SPC-1's requests are short here, and hardly one is preempted: np-to-hq and all-to-hq are the same to a \
         thousandth. At the peak an HQ weight of 90 or 120 saves turns in LQ, which outweighs what it does to restarted requests. \
         Below nine tenths of the peak workers are mostly free here, and no schedule matters: so weights matter more under heavier \
         load, not less, and the gains at the paper's lightest loads are larger than ours."
            .into(),
        "Costs are those of processors and the same on every platform: a read costs no less where the disks are flash, so that \
         combo does not lose under DATABASE on all-flash. Writes of VDI are too small here to fill the log, and only under VDA do \
         consistency points fall behind when combo gives MQ fewer turns. The low-end server is the same as the others with fewer \
         workers; what held the paper's back is not known."
            .into(),
        "Beyond the paper: `adaptive` learns what kinds of requests need, and `oracle` knows what each request needs. No paper's number \
         stands beside them; the rule is the target that was set for them."
            .into(),
    ]
}
