//! Rules of the server model.

mod closed_forms;
mod experiments;
mod files;
mod machine;
mod mechanisms;
mod rules;

use ioweir_core::Nanos;

use super::*;

/// A preset server with the usual costs.
fn server(platform: &str, workload: &str) -> Server {
    let platform = PlatformSpec::load(platform).expect("a preset");
    let workload = WorkloadSpec::load(workload).expect("a preset");
    Server::new(platform, workload, CostSpec::usual().expect("they make sense")).expect("presets make sense")
}

/// A load of this length, with half a second of warm-up.
fn load(requests_per_second: f64, measured_millis: u64) -> ServerLoad {
    let (warm_up, measured) = (Nanos::from_millis(500), Nanos::from_millis(measured_millis));
    ServerLoad { requests_per_second, warm_up, measured, batches: 8, seed: 0 }
}

fn run(server: &Server, schedule: &str, load: &ServerLoad) -> ServerOutcome {
    server.run(&schedule.parse().expect("a schedule"), load).expect("it runs, and breaks no law")
}
