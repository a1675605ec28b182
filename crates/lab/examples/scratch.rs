#![allow(clippy::all, clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used, missing_docs)]
use ioweir_lab::server::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let dir = "crates/lab/src/server/";
    let read = |f: String| std::fs::read_to_string(format!("{dir}{f}")).unwrap();
    let platform: PlatformSpec = toml::from_str(&read(format!("platforms/{}.toml", args[1]))).unwrap();
    let workload: WorkloadSpec = toml::from_str(&read(format!("workloads/{}.toml", args[2]))).unwrap();
    let costs: CostSpec =
        toml::from_str(&std::fs::read_to_string(std::env::var("COSTS").unwrap_or(format!("{dir}costs.toml"))).unwrap())
            .unwrap();
    let span: f64 = args[3].parse().unwrap();
    let names: Vec<&str> = args[5].split(',').collect();
    for rate in args[4].split(',') {
        let rate: f64 = rate.parse::<f64>().unwrap() * 1000.0;
        let mut base = None;
        for name in &names {
            let t = std::time::Instant::now();
            let o = Server::new(platform.clone(), workload.clone(), costs.clone())
                .unwrap()
                .run(
                    &name.parse().unwrap(),
                    &ServerLoad {
                        requests_per_second: rate,
                        warm_up: ioweir_core::Nanos(2_000_000_000),
                        measured: ioweir_core::Nanos((span * 1e9) as u64),
                        seed: std::env::var("SEED").map_or(7, |s| s.parse().unwrap()),
                    },
                )
                .unwrap();
            let e = t.elapsed().as_secs_f64();
            let m = o.mean_seconds().unwrap() * 1e3;
            let b = *base.get_or_insert(m);
            let q = |k: usize| o.by_kind[k].mean_seconds().unwrap_or(0.0) * 1e3;
            println!(
                "{:7.0} {:22} mrt {:7.3} ({:+6.1}%) p99 {:7.2} r {:6.2} w {:6.2} o {:6.2} util {:.3} turn {:.3} disk {:.2} log {:.2} cp {} rs {:?} ret {:?} {}{:.2}M/s",
                rate,
                name,
                m,
                (m / b - 1.0) * 100.0,
                o.all.quantile_seconds(0.99).unwrap() * 1e3,
                q(0),
                q(1),
                q(2),
                o.utilisation,
                o.turn_share,
                o.disk_utilisation,
                o.log_fill_max,
                o.consistency_points,
                o.restart_percent().map(|x| (x * 100.0).round() / 100.0),
                (o.returns.disk, o.returns.lock, o.returns.memory, o.returns.log, o.returns.preempted),
                if o.saturated { "SAT " } else { "" },
                o.simulated as f64 / e / 1e6
            );
        }
    }
}
