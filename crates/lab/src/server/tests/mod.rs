//! Rules of the servers that are written as machines.

mod experiments;
mod files;
mod mechanisms;
mod rules;

use ioweir_config::Duration;
use ioweir_core::Nanos;

use super::*;
use crate::run::Silent;

const fn millis(millis: u64) -> Duration {
    Duration::new(Nanos::from_millis(millis))
}

/// The usual costs, with a swing of the load every 100 ms, so that runs can be short.
fn costs() -> CostSpec {
    let mut costs = CostSpec::usual().expect("they make sense");
    costs.swing.period = millis(100);
    costs
}

/// A preset server.
fn server(platform: &str, workload: &str) -> Server {
    let platform = PlatformSpec::load(platform).expect("a preset");
    Server::new(platform, WorkloadSpec::load(workload).expect("a preset"), costs()).expect("presets make sense")
}

/// A load of so many swings, after two of warm-up.
fn load(requests_per_second: f64, measured: u32) -> ServerLoad {
    ServerLoad { requests_per_second, warm_up: 2, measured, seed: 0 }
}

fn run(server: &Server, schedule: &str, load: &ServerLoad) -> ServerOutcome {
    server.run(&schedule.parse().expect("a schedule"), load, &Silent).expect("it runs")
}
