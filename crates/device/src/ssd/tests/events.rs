//! Reserving ahead gives the same times as following every step of every request.
//!
//! They agree within two per cent: a calendar lets a short transfer into an earlier gap, but never moves a reservation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

/// Random reads of one unit, simulated step by step in the order of time: die, channel and interface each serve first come,
/// first served. Returns requests a second and the mean latency in nanoseconds.
fn step_by_step(ssd: &Ssd, depth: usize, units: &[u64]) -> (f64, f64) {
    let times = &ssd.times;
    let bytes = times.unit_bytes;
    let mut free = vec![[0_u64; 3]; ssd.dies.len()];
    // The time, the number of the request, and the step that it is ready for.
    let mut events: BinaryHeap<Reverse<(u64, usize, usize)>> = BinaryHeap::new();
    let mut began = vec![0; units.len()];
    for number in 0..depth {
        events.push(Reverse((times.read_one, number, 0)));
    }
    let (mut next, mut waited, mut end) = (depth, 0, 0);
    while let Some(Reverse((now, number, step))) = events.pop() {
        let place = ssd.map.place(u32::try_from(units[number]).expect("32 bits")).expect("it holds data");
        let (die, slot) = ssd.map.die_and_slot(place);
        let is_odd = slot / ssd.shape.page_units % 2 == 1;
        let (server, nanos) = match step {
            0 if is_odd => (die, times.sense_one + times.spread),
            0 => (die, times.sense_one - times.spread),
            1 => (die % ssd.shape.channels, times.channel.nanos(bytes)),
            2 => (0, times.interface.nanos(bytes)),
            _ => {
                waited += now - began[number];
                end = now;
                if next < units.len() {
                    began[next] = now;
                    events.push(Reverse((now + times.read_one, next, 0)));
                    next += 1;
                }
                continue;
            }
        };
        let server = &mut free[server as usize][step];
        *server = now.max(*server) + nanos;
        events.push(Reverse((*server, number, step + 1)));
    }
    (units.len() as f64 / (end as f64 / 1e9), waited as f64 / units.len() as f64)
}

#[test]
fn reserving_ahead_gives_what_following_every_step_gives() {
    for name in ["ssd-970pro", "ssd-zn540"] {
        for depth in [1, 4, 16, 64, 256] {
            let mut ssd = build(&preset(name));
            let (limit, mut random) = (ssd.sectors() / 8, Random(depth as u64));
            let units: Vec<u64> = (0..20_000).map(|_| random.below(limit)).collect();
            let expected = step_by_step(&ssd, depth, &units);
            let mut next = units.iter().copied();
            let measured = closed(&mut ssd, depth, units.len(), || (Operation::Read, next.next().unwrap_or(0), 1));
            assert!(
                near(measured.0, expected.0, 0.02) && near(measured.1, expected.1, 0.02),
                "{name} at depth {depth}: {measured:?} for {expected:?}"
            );
        }
    }
}
