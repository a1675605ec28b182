//! Runs one fuzzing input through the readers of specs, for the target and for the test that replays the corpus on stable.

use std::fmt::Display;

use ioweir_background::forecast::ForecastSpec;
use ioweir_background::plan::{PlanSpec, Policy};
use ioweir_device::DeviceSpec;
use ioweir_lab::compare::Comparison;
use ioweir_lab::server::ServerExperiment;
use ioweir_measure::advise::AdviseSpec;
use ioweir_measure::calibration::CalibrationSpec;
use ioweir_serve::spec::Spec;

/// The readers, by the digit that an input begins with. Experiments and what is governed have targets of their own; sweeps open what they
/// name.
pub(crate) const READERS: [fn(&str) -> bool; 9] = [
    |text| comes_back(text, Spec::parse, Spec::to_toml),
    |text| comes_back(text, Comparison::parse, Comparison::to_toml),
    |text| comes_back(text, ServerExperiment::parse, ServerExperiment::to_toml),
    |text| comes_back(text, AdviseSpec::parse, AdviseSpec::to_toml),
    |text| comes_back(text, CalibrationSpec::parse, CalibrationSpec::to_toml),
    |text| comes_back(text, ForecastSpec::parse, ForecastSpec::to_toml),
    |text| comes_back(text, PlanSpec::parse, PlanSpec::to_toml),
    |text| comes_back(text, Policy::parse, Policy::to_toml),
    |text| comes_back(text, DeviceSpec::parse, DeviceSpec::to_toml),
];

/// First byte: a digit, the kind of the spec. The rest is read as one, and never run. Returns whether it is one.
pub(crate) fn drive(data: &[u8]) -> bool {
    let Some((digit, rest)) = data.split_first() else { return false };
    let Some(read) = READERS.get(usize::from(digit.wrapping_sub(b'0'))) else { return false };
    std::str::from_utf8(rest).is_ok_and(read)
}

/// Whether a text is a spec. Asserts that a spec reads back as itself when it is written, and that an error names its file.
fn comes_back<S, E: Display>(text: &str, parse: fn(&str, &str) -> Result<S, E>, to_toml: fn(&S) -> String) -> bool {
    let spec = match parse("fuzz.toml", text) {
        Ok(spec) => spec,
        Err(error) => {
            assert!(error.to_string().starts_with("fuzz.toml"), "{error}");
            return false;
        }
    };
    let written = to_toml(&spec);
    match parse("again.toml", &written) {
        Ok(again) => assert_eq!(to_toml(&again), written),
        Err(error) => panic!("what is written cannot be read: {error}\n{written}"),
    }
    true
}
