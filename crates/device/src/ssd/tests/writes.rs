//! Acknowledgement, the buffer, flushes, and reads that meet writes.

use super::*;

const BUFFER: &str = "write_buffer = \"64KiB\"";
const MILLI: u64 = 1_000_000;

#[test]
fn write_waits_for_room_in_full_buffer() {
    // Sixteen units fit; the first programs end after 500 us and free four units on each of four dies.
    let mut ssd = small(BUFFER);
    for number in 0..16 {
        assert_eq!(serve(&mut ssd, 0, Operation::Write, number, 1).finish, Nanos(0), "{number}");
    }
    let late = serve(&mut ssd, 0, Operation::Write, 16, 1);
    assert_eq!((late.finish.0, late.queue_nanos), (500_000, 500_000));
    assert_eq!(serve(&mut ssd, 600_000, Operation::Write, 17, 1).finish, Nanos(600_000));
}

#[test]
fn flush_and_forced_write_wait_for_programs() {
    let mut ssd = small(BUFFER);
    serve(&mut ssd, 0, Operation::Write, 0, 1);
    assert_eq!(serve(&mut ssd, 10, Operation::Flush, 0, 0).finish, Nanos(500_000), "began when its data were there");
    assert_eq!(ssd.counts.padded_units, 3);
    assert_eq!(serve(&mut ssd, MILLI, Operation::Flush, 0, 0).finish, Nanos(MILLI), "nothing is left to do");

    let forced = ssd.serve(Nanos(2 * MILLI), &request(Operation::Write, 8, 8, Flags::FUA));
    assert_eq!(forced.finish, Nanos(2 * MILLI + 500_000));
    serve(&mut ssd, 3 * MILLI, Operation::Write, 2, 4);
    let after = ssd.serve(Nanos(3 * MILLI + 1), &request(Operation::Write, 64, 8, Flags::PREFLUSH));
    assert_eq!(after.finish, Nanos(3 * MILLI + 500_000), "what came before is on flash, this is in the buffer");
}

#[test]
fn protected_buffer_makes_flushes_cheap() {
    let mut ssd = small(&format!("{BUFFER}\npower_loss_protection = true"));
    let forced = ssd.serve(Nanos(0), &request(Operation::Write, 0, 8, Flags::FUA.with(Flags::PREFLUSH)));
    assert_eq!(forced.finish, Nanos(0));
    assert_eq!(serve(&mut ssd, 0, Operation::Flush, 0, 0).finish, Nanos(0));
    assert_eq!(ssd.counts.padded_units, 0);
}

#[test]
fn read_is_served_from_buffer_until_programmed() {
    let mut ssd = small(BUFFER);
    serve(&mut ssd, 0, Operation::Write, 0, 5);
    assert_eq!(serve(&mut ssd, 1, Operation::Read, 0, 5).finish, Nanos(1), "one program under way, one being filled");
    assert_eq!(serve(&mut ssd, 499_999, Operation::Read, 0, 1).finish, Nanos(499_999));
    assert_eq!(serve(&mut ssd, 500_000, Operation::Read, 0, 1).finish, Nanos(550_000));
    assert_eq!(serve(&mut ssd, MILLI, Operation::Read, 4, 1).finish, Nanos(MILLI), "still being filled");
}

#[test]
fn unbuffered_read_never_ends_before_its_program() {
    for suspend in ["", "suspend = \"5us\""] {
        let mut ssd = small(suspend);
        let (mut random, mut now) = (Random(5), 0);
        let mut written = std::collections::BTreeMap::new();
        for _ in 0..4_000 {
            now += random.below(200_000);
            let unit = random.below(256);
            if random.below(2) == 0 {
                written.insert(unit, serve(&mut ssd, now, Operation::Write, unit, 1).finish.0);
            } else if let Some(&end) = written.get(&unit) {
                let read = serve(&mut ssd, now, Operation::Read, unit, 1).finish.0;
                assert!(read >= end.max(now) + 50_000, "read at {read}, programmed at {end}, asked at {now}");
            }
        }
    }
}

#[test]
fn read_waits_for_or_suspends_a_program() {
    // Unit 0 lies on die 0, and so does unit 16: four dies of programs of four units.
    let begin = |suspend: &str| {
        let mut ssd = small(suspend);
        serve(&mut ssd, 0, Operation::Write, 0, 16);
        serve(&mut ssd, 10 * MILLI, Operation::Write, 16, 4);
        ssd
    };
    let mut ssd = begin("");
    let other = serve(&mut ssd, 10 * MILLI + 1_000, Operation::Read, 4, 1);
    assert_eq!((other.finish.0, other.queue_nanos), (10 * MILLI + 51_000, 0), "another die");
    let behind = serve(&mut ssd, 10 * MILLI + 1_000, Operation::Read, 0, 1);
    assert_eq!((behind.finish.0, behind.queue_nanos), (10 * MILLI + 550_000, 499_000));

    let mut ssd = begin("suspend = \"5us\"");
    let through = serve(&mut ssd, 10 * MILLI + 1_000, Operation::Read, 0, 1);
    assert_eq!((through.finish.0, through.queue_nanos), (10 * MILLI + 56_000, 5_000));
    let next = serve(&mut ssd, 10 * MILLI + 1_000, Operation::Read, 0, 1);
    assert_eq!(next.finish.0, 10 * MILLI + 111_000, "reads do not suspend reads");
    let write = serve(&mut ssd, 11 * MILLI, Operation::Write, 32, 16);
    assert_eq!(write.finish.0, 11 * MILLI + 500_000);
}

#[test]
fn overwritten_units_in_buffer_are_programmed_once() {
    let mut ssd = small(BUFFER);
    for _ in 0..100 {
        serve(&mut ssd, 0, Operation::Write, 3, 1);
    }
    assert_eq!((ssd.counts.written_units, ssd.counts.coalesced_units), (100, 99));
    assert_eq!(ssd.counts.write_amplification(), Some(1.0));
}

#[test]
fn a_unit_written_in_part_is_read_first() {
    let mut ssd = small("");
    serve(&mut ssd, 0, Operation::Write, 0, 4);
    let at = |now, sector, sectors| (Nanos(now), request(Operation::Write, sector, sectors, Flags::NONE));
    for (now, sector, sectors, nanos) in
        [(MILLI, 1, 3, 550_000), (3 * MILLI, 0, 8, 500_000), (5 * MILLI, 4, 8, 600_000), (7 * MILLI, 80, 4, 500_000)]
    {
        let (now, write) = at(now, sector, sectors);
        assert_eq!(ssd.serve(now, &write).finish.0 - now.0, nanos, "sector {sector}");
    }
}
