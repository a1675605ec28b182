//! Tests of the page map, garbage collection and discards, and of their memory.

use super::super::fill::Fill;
use super::*;

/// Overwrites everything at random `times` times; returns the write amplification of the last time.
fn overwrite(ssd: &mut Ssd, times: u64, seed: u64) -> f64 {
    let (units, mut random) = (ssd.sectors() / 8, Random(seed));
    let mut before = ssd.counts;
    for number in 0..units * times {
        if number == units * (times - 1) {
            before = ssd.counts;
        }
        serve(ssd, number * 1_000_000, Operation::Write, random.below(units), 1);
    }
    let now = ssd.counts;
    (now.written_units - before.written_units + now.copied_units - before.copied_units) as f64
        / (now.written_units - before.written_units) as f64
}

/// The write amplification of greedy collection under uniform random writes. For each block that is written, blocks lose a constant share
/// of their valid units, so `used = (kept - 1) / ln(kept)`, where `kept` is the share that the victim still holds.
fn expected(used: f64) -> f64 {
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..100 {
        let kept: f64 = f64::midpoint(low, high);
        if (kept - 1.0) / kept.ln() < used { low = kept } else { high = kept }
    }
    1.0 / (1.0 - low)
}

/// A drive with blocks of 256 units, and the share of its flash that holds data, without free and open blocks.
fn plain(per_mille: u32, state: &str) -> (Ssd, f64) {
    let text = format!(
        "[ssd]\ncapacity = \"256MiB\"\nstate = \"{state}\"\nover_provisioning_per_mille = {per_mille}\nchannels = 1\n\
         dies_per_channel = 2\npage = \"4KiB\"\npages_per_block = 256\nread = \"1us\"\nprogram = \"1us\"\nerase = \"1us\"\n"
    );
    let ssd = build(&spec(&text));
    let blocks = f64::from((ssd.shape.die_blocks - ssd.shape.free_blocks_min - 1) * ssd.shape.dies);
    let used = f64::from(ssd.shape.units) / (blocks * f64::from(ssd.shape.block_units));
    (ssd, used)
}

#[test]
fn write_amplification_is_that_of_greedy_collection() {
    for per_mille in [100, 200, 400] {
        let (mut ssd, used) = plain(per_mille, "filled");
        let measured = overwrite(&mut ssd, 4, 11);
        let expected = expected(used);
        assert!(near(measured, expected, 0.03), "{per_mille}: {measured} for {expected}");
        ssd.map.check();
    }
}

#[test]
fn steady_drive_begins_where_filled_one_arrives() {
    for per_mille in [100, 200, 400] {
        let (mut ssd, used) = plain(per_mille, "steady");
        ssd.map.check();
        let measured = overwrite(&mut ssd, 1, 12);
        let expected = expected(used);
        assert!(near(measured, expected, 0.03), "{per_mille}: {measured} for {expected}");
    }
}

#[test]
fn sequential_overwrites_copy_nothing() {
    let (mut ssd, _) = plain(100, "filled");
    let units = ssd.sectors() / 8;
    for number in 0..3 * units {
        serve(&mut ssd, number * 1_000_000, Operation::Write, number % units, 1);
    }
    assert_eq!(ssd.counts.write_amplification(), Some(1.0));
    assert!(ssd.counts.erased_blocks > 2 * units / 256);
}

#[test]
fn a_discarded_drive_behaves_as_fresh() {
    // Discarded in one piece, it behaves as fresh to the nanosecond.
    let (mut fresh, _) = plain(100, "fresh");
    let (mut used, _) = plain(100, "filled");
    overwrite(&mut used, 2, 5);
    let later = 10_000_000_000_000_000;
    used.serve(
        Nanos(later),
        &request(Operation::Discard, 0, u32::try_from(used.sectors()).expect("small"), Flags::NONE),
    );
    let mut random = Random(9);
    for number in 0..70_000 {
        let (operation, unit) = (Operation::ALL[random.below(2) as usize], random.below(65_536));
        let now = number * 500;
        let expected = serve(&mut fresh, now, operation, unit, 1).finish.0 - now;
        assert_eq!(serve(&mut used, later + now, operation, unit, 1).finish.0 - later - now, expected);
    }
    // Discarded in pieces, it has yet to erase its blocks.
    let (mut used, _) = plain(100, "filled");
    overwrite(&mut used, 2, 5);
    for unit in (0..65_536).step_by(64) {
        used.serve(Nanos(later), &request(Operation::Discard, unit * 8, 512, Flags::NONE));
    }
    let before = used.counts;
    assert_eq!(serve(&mut used, later, Operation::Read, 77, 1).finish, Nanos(later), "nothing is there");
    for unit in 0..65_536 {
        serve(&mut used, later + unit * 1_000_000, Operation::Write, unit * 7 % 65_536, 1);
    }
    assert_eq!(used.counts.copied_units, before.copied_units);
    used.map.check();
}

#[test]
fn discards_leave_collection_less_to_copy() {
    let (mut kept, _) = plain(100, "filled");
    let (mut half, _) = plain(100, "filled");
    half.serve(Nanos(0), &request(Operation::Discard, 32_768 * 8, 32_768 * 8, Flags::NONE));
    let mut random = Random(4);
    for number in 0..200_000 {
        let unit = random.below(32_768);
        for ssd in [&mut kept, &mut half] {
            serve(ssd, number * 1_000_000, Operation::Write, unit, 1);
        }
    }
    assert!(half.counts.copied_units * 4 < kept.counts.copied_units);
}

#[test]
fn collection_delays_who_comes_to_its_die() {
    let mut spec = preset("ssd-970pro");
    spec.capacity = ioweir_config::Size(1 << 30);
    let mut mean = |state| {
        spec.state = state;
        let mut ssd = build(&spec);
        let (units, mut random) = (ssd.sectors() / 8, Random(2));
        closed(&mut ssd, 16, 100_000, || {
            let operation = if random.below(10) < 7 { Operation::Read } else { Operation::Write };
            (operation, random.below(units), 1)
        })
        .1
    };
    assert!(mean(SsdState::Steady) > 1.3 * mean(SsdState::Filled));
}

#[test]
fn sustained_writes_run_at_what_collection_leaves() {
    // For each program of the host, a die does `amplification` programs and senses about as many pages: most pages of a
    // victim still hold something. The die also waits while it moves what it copies, twice 40.96 us a program.
    let mut spec = preset("ssd-970pro");
    (spec.capacity, spec.state) = (ioweir_config::Size(1 << 30), SsdState::Steady);
    let mut ssd = build(&spec);
    let (units, mut random) = (ssd.sectors() / 8, Random(6));
    let (rate, _) = closed(&mut ssd, 64, 300_000, || (Operation::Write, random.below(units), 1));
    let amplification = ssd.counts.write_amplification().expect("written");
    let most = 16.0 * 8.0 / (amplification * (185e-6 + 36e-6));
    let least = 16.0 * 8.0 / (amplification * (185e-6 + 36e-6 + 82e-6));
    assert!(rate < 1.05 * most && rate > 0.95 * least, "{rate}: {least} to {most} at {amplification}");
}

#[test]
fn overwriting_one_die_fills_no_others() {
    let mut ssd = small("");
    let units = ssd.sectors() / 8;
    for unit in 0..units {
        serve(&mut ssd, 0, Operation::Write, unit, 1);
    }
    // Overwrite the units that lie on die 0 at first; new data goes to all dies in turn, so the others would overflow.
    for round in 0..200_000_u64 {
        let unit = round % (units / 16) * 16 + round % 4;
        serve(&mut ssd, round * 1_000_000, Operation::Write, unit, 1);
    }
    ssd.map.check();
}

#[test]
fn terabyte_drive_grows_with_touched_units() {
    for (name, most) in [("ssd-970pro", 16 << 20), ("ssd-zn540", 16 << 20), ("ssd-slc", 64 << 20)] {
        for state in [SsdState::Fresh, SsdState::Filled] {
            let mut spec = preset(name);
            spec.capacity = ioweir_config::Size(1_000_204_886_016);
            spec.state = state;
            let mut ssd = build(&spec);
            let start = ssd.state_bytes();
            assert!(start < most, "{name} {state:?}: {start}");
            let (touched, mut random) = (300_000, Random(8));
            for unit in 0..touched {
                serve(&mut ssd, unit * 1_000_000, Operation::Read, random.below(200_000_000), 1);
            }
            assert_eq!(ssd.state_bytes(), start, "reading takes nothing");
            for unit in 0..touched {
                serve(&mut ssd, unit * 1_000_000, Operation::Write, unit, 1);
            }
            // One block of every die has been begun.
            let blocks = 4 * u64::from(ssd.shape.dies) * u64::from(ssd.shape.block_units);
            let grown = (ssd.state_bytes() - start) as u64;
            assert!(grown <= 12 * touched + blocks + (64 << 10), "{name} {state:?}: {grown}");
        }
    }
}

#[test]
fn steady_terabyte_drive_begins_small() {
    for (name, most) in [("ssd-970pro", 16 << 20), ("ssd-zn540", 16 << 20), ("ssd-slc", 64 << 20)] {
        let mut spec = preset(name);
        spec.capacity = ioweir_config::Size(1_000_204_886_016);
        spec.state = SsdState::Steady;
        let ssd = build(&spec);
        assert!(ssd.state_bytes() < most, "{name}: {}", ssd.state_bytes());
    }
}

#[test]
fn the_same_seed_gives_the_same_drive() {
    let run = |seed| {
        let mut ssd = Ssd::new(&spec(&SMALL.replace("fresh", "steady")), seed).expect("a drive");
        let mut random = Random(1);
        let finish = |number: u64| {
            serve(&mut ssd, number * 10_000, Operation::ALL[random.below(2) as usize], random.below(16_384), 1).finish
        };
        (0..5_000).map(finish).collect::<Vec<_>>()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn map_agrees_with_a_naive_one(
        state in prop::sample::select(vec![SsdState::Fresh, SsdState::Filled, SsdState::Steady]),
        buffer in prop::sample::select(vec![0_u64, 16, 64]),
        (dies, programs, program_units, spare) in (1_u32..4, 2_u32..6, 1_u32..4, 0_u32..300),
        steps in prop::collection::vec((0_u8..8, 0_u64..300, 1_u32..20), 1..1500),
    ) {
        let mut spec = spec(SMALL);
        spec.capacity = ioweir_config::Size(300 * 4096);
        (spec.state, spec.over_provisioning_per_mille) = (state, spare);
        (spec.channels, spec.dies_per_channel) = (1, dies);
        spec.page = ioweir_config::Size(4096 * u64::from(program_units));
        spec.pages_per_block = programs;
        spec.write_buffer = ioweir_config::Size(buffer * 4096);
        let mut ssd = build(&spec);
        let mut there = vec![state != SsdState::Fresh; 300];
        for (number, (kind, unit, units)) in (0..).zip(steps) {
            let units = units.min(300 - u32::try_from(unit).expect("small"));
            let operation = match kind { 0..=4 => Operation::Write, 5 => Operation::Read, 6 => Operation::Discard, _ => Operation::Flush };
            serve(&mut ssd, number * 100_000, operation, unit, units);
            let range = unit as usize..unit as usize + units as usize;
            match operation {
                Operation::Write => there[range].fill(true),
                Operation::Discard => there[range].fill(false),
                Operation::Read | Operation::Flush => {}
            }
        }
        let mut runs = Vec::new();
        for (unit, &is_there) in (0..).zip(&there) {
            prop_assert_eq!(ssd.map.place(unit).is_some(), is_there, "unit {}", unit);
            let first = ssd.map.place(unit);
            let follows = |&distance: &u32| ssd.map.place(unit + distance) == first.map(|place| place + distance);
            let run = u32::try_from((0..300 - unit).take_while(follows).count()).expect("small");
            ssd.map.runs(unit, 300, &mut runs);
            prop_assert_eq!((runs[0].place(), runs[0].units), (first, run), "from unit {}", unit);
            prop_assert_eq!(runs.iter().map(|run| run.units).sum::<u32>(), 300 - unit);
        }
        ssd.map.check();
    }

    #[test]
    fn a_unit_is_where_it_was_written_last(writes in prop::collection::vec((0_u32..64, 0_u32..2), 1..800)) {
        let shape = super::super::Shape {
            sectors: 512, units: 64, unit_sectors: 8, channels: 1, dies: 2, die_blocks: 14, block_units: 8,
            program_units: 1, page_units: 1, free_blocks_min: 2,
        };
        let mut map = Map::new(&shape, Fill::Fresh);
        // The content of each location on the flash: unit and version.
        let mut flash = vec![None; (shape.blocks() * shape.block_units) as usize];
        let (mut version, mut leaves) = ([None; 64], Vec::new());
        for (number, (unit, die)) in (0_u32..).zip(writes) {
            let die = if map.has_room(die) { die } else { 1 - die };
            if map.host_full(die) {
                while map.free_blocks(die) < 2 {
                    match map.collect(die) {
                        super::super::map::Step::Copied { from, to, .. } => flash[to as usize] = flash[from as usize],
                        super::super::map::Step::Erased => {}
                        super::super::map::Step::Nothing => break,
                    }
                }
                map.open_host(die);
            }
            map.make(unit, unit + 1, &mut leaves);
            if let Some(place) = map.place(unit) {
                map.lose(place, 1);
            }
            flash[map.host_place(die) as usize] = Some((unit, number));
            map.write(die, (&leaves, unit), unit, 1);
            version[unit as usize] = Some(number);
            for (unit, version) in (0..).zip(version) {
                let found = map.place(unit).and_then(|place| flash[place as usize]);
                prop_assert_eq!(found, version.map(|version| (unit, version)));
            }
        }
        map.check();
    }
}
