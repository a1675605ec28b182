//! The verb `show`: prints a comparison, a scorecard, a search of qos, an experiment, a sweep, a forecast, a plan, its policy, a govern file, a server's spec or a device back, with
//! every default.

use ioweir_config::read_spec;
use ioweir_device::{DeviceFile, PRESETS};

use crate::arguments::ShowArguments;
use crate::compare::read_comparison;
use crate::failure::Failure;
use crate::kinds::{is_device, names_any};
use crate::{
    advise, calibrate, engine, forecast, govern, output, plan, qos, scorecard, server, servers, simulate, sweep,
};

/// Prints the spec as TOML.
pub(crate) fn act(arguments: &ShowArguments) -> Result<(), Failure> {
    let name = arguments.spec.as_str();
    let is_preset = PRESETS.iter().any(|preset| preset.name == name);
    if !is_preset {
        engine::check_file("preset or file", name)?;
    }
    let text = if is_preset { String::new() } else { read_spec(name)? };
    if servers::are_described_by(&text) {
        return output::print(servers::to_toml(name)?.as_bytes());
    }
    if let Some(printed) = server::printed(name, &text) {
        return output::print(printed?.as_bytes());
    }
    if let Some(printed) = sweep::printed(name, &text) {
        return output::print(printed?.as_bytes());
    }
    if names_any(&text, &["worker"]) {
        return output::print(govern::to_toml(name)?.as_bytes());
    }
    if names_any(&text, &["class", "duration"]) {
        return output::print(simulate::read(name)?.to_toml().as_bytes());
    }
    if names_any(&text, &["recorded_under", "host_device", "budget", "rounds", "bound"]) {
        return output::print(advise::to_toml(name)?.as_bytes());
    }
    if names_any(&text, &["slowdown"]) {
        return output::print(scorecard::to_toml(name)?.as_bytes());
    }
    if names_any(&text, &["p99"]) {
        return output::print(qos::to_toml(name)?.as_bytes());
    }
    if names_any(&text, &["generations", "kind"]) {
        return output::print(calibrate::to_toml(name)?.as_bytes());
    }
    if names_any(&text, &["policy", "pool"]) {
        return output::print(plan::to_toml(name)?.as_bytes());
    }
    if names_any(&text, &["series", "method", "horizon", "backtest"]) {
        return output::print(forecast::to_toml(name)?.as_bytes());
    }
    if is_preset || is_device(&text) {
        return output::print(DeviceFile::load(name)?.to_toml().as_bytes());
    }
    output::print(read_comparison(name)?.to_toml().as_bytes())
}
