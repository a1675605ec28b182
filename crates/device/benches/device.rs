//! How many requests a second does a device model serve on one core? `cargo bench -p ioweir-lab --bench device`.
//!
//! Prints the median of several runs in millions of requests a second; the checksum of the finish times tells two builds
//! apart that do not compute the same.

#![allow(clippy::disallowed_methods)] // A benchmark measures time; nothing it measures reads the clock.
#![allow(clippy::print_stdout)] // Its result is what it prints.

use std::hint::black_box;
use std::time::Instant;

use ioweir_core::{Dispatch, Flags, Nanos, Operation, Request, StreamId};
use ioweir_device::{DeviceSpec, SsdState};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const RUNS: usize = 7;
const REQUESTS: usize = 1 << 20;
const ROUNDS: usize = 8;

/// 4 KiB requests: random or sequential, two thirds reads or only reads.
fn requests(sectors: u64, sequential: bool) -> Vec<Dispatch> {
    let mut random = Pcg64Mcg::seed_from_u64(11);
    (0..REQUESTS as u64)
        .map(|number| {
            let chosen = random.next_u64();
            let sector = if sequential { number * 8 } else { chosen % (sectors / 8) * 8 } % (sectors - 7);
            let write = !sequential && chosen >> 32 > u64::from(u32::MAX) * 2 / 3;
            let operation = if write { Operation::Write } else { Operation::Read };
            Dispatch::alone(&Request { operation, flags: Flags::NONE, stream: StreamId(0), sector, sectors: 8 })
        })
        .collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn main() {
    for name in [
        "hdd-15k",
        "hdd",
        "cheetah-9lp",
        "atlas-10k",
        "ssd-970pro",
        "ssd-zn540",
        "ssd-slc",
        "ssd-970pro steady",
        "null",
    ] {
        let (preset, steady) = name.split_once(' ').map_or((name, false), |(preset, _)| (preset, true));
        let Ok(mut spec) = DeviceSpec::load(preset) else { continue };
        if let (DeviceSpec::Ssd(spec), true) = (&mut spec, steady) {
            spec.state = SsdState::Steady;
        }
        let build = median(
            (0..RUNS)
                .filter_map(|_| {
                    let start = Instant::now();
                    black_box(spec.build(1)).ok().map(|_| start.elapsed().as_secs_f64() * 1e3)
                })
                .collect(),
        );
        println!("{name:17} construction {build:8.3} ms");
        for (pattern, sequential) in [("random 4 KiB", false), ("sequential 4 KiB", true)] {
            let Ok(mut device) = spec.build(1) else { continue };
            let dispatches = requests(device.sectors(), sequential);
            let mut checksum = 0_u64;
            // A solid-state drive serves side by side: a request every 20 us, near what the slowest of them can take.
            let (mut now, pause) = (Nanos::ZERO, Nanos(if name.starts_with("ssd") { 20_000 } else { 0 }));
            let rates = (0..RUNS).map(|_| {
                let start = Instant::now();
                for _ in 0..ROUNDS {
                    for dispatch in &dispatches {
                        let service = device.serve(now, black_box(dispatch));
                        now = now.after(pause);
                        checksum = checksum.wrapping_mul(31).wrapping_add(service.finish.0 ^ service.movement_tracks);
                    }
                }
                (REQUESTS * ROUNDS) as f64 / start.elapsed().as_secs_f64() / 1e6
            });
            let rate = median(rates.collect());
            println!("{name:17} {pattern:18} {rate:7.1} M requests/s   checksum {checksum:016x}");
        }
    }
}
