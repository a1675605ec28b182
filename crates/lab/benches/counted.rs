//! The benchmarks whose instructions are counted, in one executable: `scripts/instructions` would else wait for both of them to be
//! linked. `IOWEIR_BENCH` names the one that runs, with the arguments that it takes alone.

mod experiment;
mod simulate;

fn main() {
    let name = std::env::var("IOWEIR_BENCH").unwrap_or_default();
    match name.as_str() {
        "experiment" => experiment::main(),
        "simulate" => simulate::main(),
        _ => panic!("IOWEIR_BENCH is '{name}', which is no benchmark that is counted"),
    }
}
