//! How many requests a second does a device model serve on one core? `cargo bench -p ioweir-device --bench device [-- DEVICE...]`.
//!
//! Prints the median of several runs in millions of requests a second; the checksum of the finish times tells two builds
//! apart that do not compute the same. `IOWEIR_BENCH_RUNS` sets another number of runs.

#![allow(clippy::disallowed_methods)] // A benchmark measures time; nothing it measures reads the clock.
#![allow(clippy::print_stdout)] // Its result is what it prints.

use std::hint::black_box;
use std::time::Instant;

use ioweir_core::{Dispatch, Flags, Nanos, Operation, Request, StreamId};
use ioweir_device::{DeviceSpec, SsdState};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const REQUESTS: usize = 1 << 20;
const ROUNDS: usize = 8;

/// Requests of one size: where the one of a number lies, of as many places as there are, and whether it is a write.
struct Pattern {
    name: &'static str,
    sectors: u32,
    place: fn(u64, &mut Pcg64Mcg, u64) -> (u64, bool),
}

const PATTERNS: [Pattern; 4] = [
    Pattern {
        name: "random 4 KiB",
        sectors: 8,
        place: |_, random, places| {
            let chosen = random.next_u64();
            (chosen % places, chosen >> 32 > u64::from(u32::MAX) * 2 / 3)
        },
    },
    Pattern { name: "sequential 4 KiB", sectors: 8, place: |number, _, places| (number % places, false) },
    Pattern {
        name: "8 streams 256 KiB",
        sectors: 512,
        place: |number, _, places| {
            let (stream, step) = (number % 8, number / 8);
            ((stream * (places / 8) + step) % places, stream % 2 == 1)
        },
    },
    // Twice as much as flash has to spare, so that garbage is collected.
    Pattern {
        name: "overwrites 512 KiB",
        sectors: 1_024,
        place: |number, random, places| {
            let few = places / 50;
            let run = if random.next_u64() % 9 == 0 { random.next_u64() % few } else { number % few };
            (run, number % 2 == 1)
        },
    },
];

fn requests(size_sectors: u64, pattern: &Pattern) -> Vec<Dispatch> {
    let mut random = Pcg64Mcg::seed_from_u64(11);
    let places = size_sectors / u64::from(pattern.sectors);
    (0..REQUESTS as u64)
        .map(|number| {
            let (place, is_write) = (pattern.place)(number, &mut random, places);
            let operation = if is_write { Operation::Write } else { Operation::Read };
            let (sector, sectors) = (place * u64::from(pattern.sectors), pattern.sectors);
            Dispatch::alone(&Request { operation, flags: Flags::NONE, stream: StreamId(0), sector, sectors })
        })
        .collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn main() {
    let runs: usize = std::env::var("IOWEIR_BENCH_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let names = [
        "hdd-15k",
        "hdd",
        "cheetah-9lp",
        "atlas-10k",
        "ssd-970pro",
        "ssd-zn540",
        "ssd-slc",
        "ssd-970pro steady",
        "null",
    ];
    for name in names.into_iter().filter(|name| chosen.is_empty() || chosen.iter().any(|one| one == name)) {
        let (preset, steady) = name.split_once(' ').map_or((name, false), |(preset, _)| (preset, true));
        let Ok(mut spec) = DeviceSpec::load(preset) else { continue };
        if let (DeviceSpec::Ssd(spec), true) = (&mut spec, steady) {
            spec.state = SsdState::Steady;
        }
        let build = median(
            (0..runs)
                .filter_map(|_| {
                    let start = Instant::now();
                    black_box(spec.build(1)).ok().map(|_| start.elapsed().as_secs_f64() * 1e3)
                })
                .collect(),
        );
        println!("{name:17} construction {build:8.3} ms");
        for pattern in &PATTERNS {
            let Ok(mut device) = spec.build(1) else { continue };
            let dispatches = requests(device.sectors(), pattern);
            let mut checksum = 0_u64;
            // A solid-state drive serves requests in parallel: one of 4 KiB comes every 20 us, near the limit of the slowest drive.
            let pause_nanos = 20_000 * u64::from(pattern.sectors / 8);
            let (mut now, pause) = (Nanos::ZERO, Nanos(if name.starts_with("ssd") { pause_nanos } else { 0 }));
            let rates = (0..runs).map(|_| {
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
            println!("{name:17} {:18} {rate:7.1} M requests/s   checksum {checksum:016x}", pattern.name);
        }
    }
}
