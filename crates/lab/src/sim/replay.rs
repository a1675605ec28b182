//! The replay of a trace under a load, to its end.

use ioweir_core::{Nanos, Scheduler};

use super::clients::{Clients, Streams};
use super::collect::{Collector, Window};
use super::engine::{Simulation, run};
use super::feed::Feed;
use super::{Ended, Failure, Load, Observer, Outcome};
use ioweir_device::Device;
use ioweir_trace::TraceSource;

/// Runs a trace under a load to its end.
///
/// # Errors
/// [`Failure`] if the trace cannot be read, holds several address spaces, or does not fit the device.
///
/// # Examples
/// ```
/// use ioweir_core::{Nanos, QueueLimits, policy};
/// use ioweir_device::DeviceSpec;
/// use ioweir_lab::sim::{Load, Simulation, Unobserved, simulate};
/// use ioweir_lab::workload::{JobGenerator, mix};
///
/// let mut disk = DeviceSpec::load("hdd")?.build(0)?;
/// let (row, limits) = (policy::find("bid-hdd").expect("a policy"), QueueLimits::DEFAULT);
/// let scheduler = row.build(limits, &row.defaults());
/// let simulation = Simulation { scheduler, limits, device: &mut *disk, fast: None, lenient: false, until: Nanos::NEVER };
/// let trace = Box::new(JobGenerator::new(mix("grep").expect("a mix"), 1_000, None, 0));
/// let outcome = simulate(simulation, trace, Load::RECORDED, &mut Unobserved)?;
/// assert_eq!(outcome.all.requests, 1_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn simulate<S: Scheduler, O: Observer<S>>(
    simulation: Simulation<'_, S>,
    source: Box<dyn TraceSource + '_>,
    load: Load,
    observer: &mut O,
) -> Result<Outcome, Failure> {
    let Simulation { scheduler, limits, device, fast, lenient, until } = simulation;
    let has_fast = fast.is_some();
    let mut feed = Feed::new(source, load, Streams::KEPT);
    let mut collector = Collector::new(Window::WHOLE, Clients::of_trace(String::new()), limits.depth);
    let simulation = Simulation { scheduler, limits, device: &mut *device, fast, lenient, until };
    let ended = run(simulation, &mut feed, &mut collector, observer)?;
    let outcome = collector.into_outcome(has_fast, |stream| stream.0.to_string()).of_run(&ended, device);
    Ok(Outcome { requests_simulated: outcome.all.requests, skipped: ended.skipped + feed.skipped(), ..outcome })
}

impl Outcome {
    /// With what only the end of the run and its device say.
    #[must_use]
    pub(crate) fn of_run(self, ended: &Ended, device: &dyn Device) -> Self {
        let span = if self.span == Nanos::NEVER { ended.completion } else { self.span };
        let &Ended { completion, skipped, reservations_behind, .. } = ended;
        Self { span, completion, skipped, reservations_behind, tracks: device.tracks(), flash: device.flash(), ..self }
    }
}
