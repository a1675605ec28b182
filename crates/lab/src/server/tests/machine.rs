//! The model compared with the simulated whole server (`sim::machine`): the same platform, requests and costs, written as an experiment.

use super::*;
use crate::experiment::{self, Experiment};
use crate::run::{Origin, Silent};
use crate::sim::Outcome;

const RATE: f64 = 14_000.0;
const SEEDS: u64 = 4;
/// Random reads and writes, and sequential reads: of each, the requests a second, and its number of KiB.
const READS: (f64, u64) = (5_000.0, 4);
const WRITES: (f64, u64) = (6_000.0, 4);
const SEQUENTIAL: (f64, u64) = (3_000.0, 16);

/// Three workers, a log that fills, few objects, and little memory for reads.
fn model() -> Server {
    let workload = format!(
        "objects = 2000\n\
         [[operation]]\nname = \"read\"\nshare = {}\nkind = \"read\"\nsizes = [[\"4KiB\", 1.0]]\nmisses_percent = [76.0, 30.0, 0.0]\n\
         single_block_percent = 30.0\n\
         [[operation]]\nname = \"write\"\nshare = {}\nkind = \"write\"\nsizes = [[\"4KiB\", 1.0]]\nlocks = true\n\
         [[operation]]\nname = \"sequential\"\nshare = {}\nkind = \"read\"\nsequential = true\nsizes = [[\"16KiB\", 1.0]]\n\
         misses_percent = [31.0, 5.0, 0.0]\n",
        READS.0, WRITES.0, SEQUENTIAL.0
    );
    let workload = WorkloadSpec::parse("both", &workload).expect("it makes sense");
    let mut platform = PlatformSpec::load("low-end").expect("a preset");
    (platform.nvram, platform.read_buffers) = (ioweir_config::Size(128 << 20), ioweir_config::Size(16 << 20));
    let mut costs = CostSpec::usual().expect("they make sense");
    costs.flush.operations = 40;
    costs.network = ioweir_config::Duration::default();
    costs.tail.as_mut().expect("the usual costs have one").prefetches_percent = 0.0;
    Server::new(platform, workload, costs).expect("it makes sense")
}

/// The server of `model` as a machine. A read from memory costs a machine its `read` and its `completion`, and the model what it costs before a wait:
/// so `read` is the difference here, and `slow_path` the rest.
fn machine(schedule: &str, seed: u64) -> Experiment {
    let class = |name: &str, (rate, kib): (f64, u64), costs: &str, keys: &str| {
        format!(
            "[[class]]\nname = \"{name}\"\nrate = \"{rate}/s\"\nsize = \"{kib}KiB\"\nswing = {{ amplitude = 0.2, period = \"1400ms\" }}\n\
             cost = {{ {costs} }}\n{keys}\n"
        )
    };
    // 114 us for a read and 63 us for a restart, and 1 us for each KiB.
    let read = |kib: u64| format!("read = \"51us\", completion = \"{}us\", slow_path = \"{}us\"", 63 + kib, 75 + kib);
    let text = format!(
        "duration = \"2800ms\"\ninterval = \"2800ms\"\nschedulers = [\"none\"]\nseeds = [{seed}]\ndepth = 4096\n\
         [device.bank]\ncapacity = \"1TB\"\ndisks = 113\naccess = \"3ms\"\naccess_random = \"3ms\"\nper_kib = \"8us\"\nstripe = 16\n\
         cache = {{ hits = 0.65, access = \"150us\", per_kib = \"2us\" }}\n\
         [cores]\nworkers = 3\nschedule = \"{schedule}\"\nturn_each = \"2us\"\nexpiry = \"22us\"\nslow_path = \"12us\"\nspread = 0.5\n\
         read_buffers = \"16MiB\"\nserial = {{ window = \"2ms\", length = \"100us\" }}\n\
         tail = {{ share = 0.001, from = \"1ms\", to = \"5ms\" }}\n\
         [log]\nclass = \"point\"\nsize = \"36700KiB\"\nrecord = \"256B\"\ninterval = \"2800ms\"\nwrites = 40\nbase = \"100us\"\nper_kib = \"250ns\"\n\
         [read_ahead]\nclass = \"ahead\"\nbase = \"200us\"\nper_kib = \"1.7us\"\n\
         [locks]\nobject = \"4KiB\"\n[own_work]\nclass = \"own\"\nregion = \"40KiB\"\nwithin = \"10ms\"\n\
         {}{}{}\
         [[class]]\nname = \"own\"\nrate = \"142/s\"\narrivals = \"constant\"\nregion = {{ from = \"0B\", to = \"8000KiB\" }}\n\
         cost = {{ read = \"0s\", completion = \"150us\", slow_path = \"12us\", tail = {{ share = 0.0, from = \"0s\", to = \"0s\" }} }}\n\
         [[class]]\nname = \"point\"\nsize = \"512KiB\"\n[[class]]\nname = \"ahead\"\nsize = \"256KiB\"\n",
        class("read", READS, &read(4), "misses = [0.76, 0.3]\ndirect = 0.3"),
        class(
            "write",
            WRITES,
            "write = \"75us\"",
            "read_ratio = 0.0\nlocks = true\nregion = { from = \"0B\", to = \"8000KiB\" }"
        ),
        class("sequential", SEQUENTIAL, &read(16), "misses = [0.31, 0.05]\nsequential = 1.0\nclients = 16"),
    );
    Experiment::parse("machine.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// The figures of a run that both engines have.
const FIGURES: [&str; 5] = ["mean of reads", "mean of writes", "mean of sequential reads", "busy workers", "points"];

fn of_model(schedule: &str, seed: u64) -> [f64; 5] {
    let load = ServerLoad {
        requests_per_second: RATE,
        warm_up: Nanos::ZERO,
        measured: Nanos::from_millis(2_800),
        batches: 1,
        seed,
    };
    let outcome = run(&model(), schedule, &load);
    let mean = |at: usize| outcome.by_operation[at].1.mean_seconds().expect("requests were answered") * 1e6;
    [mean(0), mean(1), mean(2), outcome.utilisation * 100.0, outcome.consistency_points as f64]
}

fn of_machine(schedule: &str, seed: u64) -> [f64; 5] {
    let origin = Origin { version: "test".into(), commit: "test".into(), command: "test".into() };
    let report = experiment::run(&machine(schedule, seed), &origin, &Silent).expect("it runs");
    let outcome: &Outcome = &report.summaries[0].cells[0];
    let mean = |at: usize| {
        let class = &outcome.classes[at];
        class.latency_sum_nanos as f64 / class.requests as f64 / 1e3
    };
    let busy = outcome.cores.expect("cores").busy.0 as f64 / 3.0 / 2.8e7;
    [mean(0), mean(1), mean(2), busy, outcome.log.expect("a log").points as f64]
}

/// The mean of a figure over the seeds, and the square of its standard error.
fn mean(runs: &[[f64; 5]], figure: usize) -> (f64, f64) {
    let count = runs.len() as f64;
    let mean = runs.iter().map(|run| run[figure]).sum::<f64>() / count;
    let squares = runs.iter().map(|run| (run[figure] - mean).powi(2)).sum::<f64>();
    (mean, squares / (count - 1.0) / count)
}

#[test]
fn model_and_machine_agree_on_one_server() {
    /// Student's t for 95 % and 6 degrees of freedom: two times four seeds.
    const CHANCE: f64 = 2.447;
    for schedule in ["baseline", "combo"] {
        let of = |run: fn(&str, u64) -> [f64; 5]| (0..SEEDS).map(|seed| run(schedule, seed)).collect::<Vec<_>>();
        let (model, machine) = (of(of_model), of(of_machine));
        for (figure, name) in FIGURES.iter().enumerate() {
            let ((model, of_model), (machine, of_machine)) = (mean(&model, figure), mean(&machine, figure));
            let difference = (machine - model).abs();
            let interval = CHANCE * (of_model + of_machine).sqrt();
            assert!(difference <= interval, "{schedule}, {name}: {model} and {machine}, more than {interval} apart");
        }
    }
}
