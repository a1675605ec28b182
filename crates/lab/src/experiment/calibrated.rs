//! The parts of an experiment that lie outside of the range in which its calibrated device was seen.

use ioweir_device::calibration::{Range, Span};
use ioweir_trace::ReadOptions;

use super::spec::{ClassSpec, Experiment};
use crate::run::{RunError, Silent, TraceFiles};
use ioweir_config::Ratio;

impl Experiment {
    /// A sentence for each property of a class that lies outside of its device's calibrated range.
    pub(super) fn outside_of_calibration(&self) -> Result<Vec<String>, RunError> {
        let groups = self.device_groups();
        let seen = |group: usize| self.known(group).map(|known| &known.range);
        let mut outside = Vec::new();
        for (number, group) in groups.iter().enumerate() {
            let given = Range { depth_max: Some(group.depth), ..Range::default() };
            let parts = seen(number).into_iter().flat_map(|seen| seen.outside(&given));
            outside.extend(parts.map(|part| format!("The device{} is not calibrated for {part}.", of(group.name))));
        }
        for class in &self.classes {
            let number = self.group_of(class);
            let (Some(seen), Some(group)) = (seen(number), groups.get(number)) else { continue };
            let parts = seen.outside(&class.range()?).into_iter();
            let name = of(group.name);
            outside.extend(parts.map(|part| {
                format!("The device{name} is not calibrated for the class `{}`, which has {part}.", class.name)
            }));
        }
        Ok(outside)
    }
}

fn of(device: &str) -> String {
    if device.is_empty() { String::new() } else { format!(" `{device}`") }
}

impl ClassSpec {
    /// The range of the class's requests; how many it has at once is not known.
    fn range(&self) -> Result<Range, RunError> {
        if let Some(name) = &self.trace {
            let traces = TraceFiles::find(std::slice::from_ref(name), &ReadOptions::default())?;
            let Some(trace) = traces.first() else { return Ok(Range::default()) };
            return Ok(trace.witness(&Silent)?.0.range());
        }
        let ratios = || std::iter::once(self.read_ratio).chain(self.phases.iter().filter_map(|phase| phase.read_ratio));
        let size = Some(Span::from([self.size; 2]));
        Ok(Range {
            read_size: size.filter(|_| ratios().any(|ratio| ratio > Ratio::ZERO)),
            write_size: size.filter(|_| ratios().any(|ratio| ratio < Ratio::ONE)),
            sequential: Some(Span::from([self.sequential; 2])),
            ..Range::default()
        })
    }
}
