//! bid-adaptive by example: whose bulk is next.

use crate::driver::Disk;

/// A disk that has served so many reads, two to a bulk, and nothing else.
fn after_reads(count: u64, parameters: &[(&str, u64)]) -> Disk {
    let mut disk = Disk::new("bid-adaptive", parameters);
    for number in 0..count {
        disk.read("x", number % 10 * 100_000);
        disk.serve();
    }
    disk
}

fn submit(disk: &mut Disk, names: &[(&str, u64)]) {
    for &(name, sector) in names {
        assert!(if name.starts_with('w') { disk.write(name, sector) } else { disk.read(name, sector) });
    }
}

const READS: [(&str, u64); 4] = [("r3", 300_000), ("r1", 100_000), ("r4", 400_000), ("r2", 200_000)];

#[test]
fn reads_go_first_where_nothing_is_known_of_the_load() {
    let mut disk = Disk::new("bid-adaptive", &[("bulk", 2)]);
    submit(&mut disk, &READS);
    submit(&mut disk, &[("w1", 500_000)]);
    assert_eq!(disk.serve_all(), "r1 r2 r3 r4 w1");
}

#[test]
fn a_few_writes_go_first_after_the_bulk_that_runs_and_in_one_go() {
    let mut disk = after_reads(30, &[("bulk", 2)]);
    submit(&mut disk, &READS);
    submit(&mut disk, &[("r5", 410_000), ("r6", 420_000), ("r7", 430_000)]);
    assert_eq!(disk.serve(), "r1");
    submit(&mut disk, &[("w1", 500_000), ("w0", 50_000)]);
    assert_eq!(disk.serve_all(), "r2 w0 w1 r3 r4 r5 r6 r7");
}

#[test]
fn a_burst_of_writes_does_not_go_first() {
    let mut disk = after_reads(30, &[("bulk", 2)]);
    submit(&mut disk, &READS);
    submit(&mut disk, &[("r5", 410_000), ("r6", 420_000), ("r7", 430_000)]);
    assert_eq!(disk.serve(), "r1");
    submit(&mut disk, &[("w1", 500_000), ("w2", 600_000), ("w3", 700_000)]);
    assert_eq!(disk.serve_all(), "r2 r3 r4 r5 r6 r7 w1 w2 w3");
}

#[test]
fn writes_are_passed_over_a_number_of_times() {
    let mut disk = Disk::new("bid-adaptive", &[("bulk", 1), ("passes", 2)]);
    submit(&mut disk, &READS);
    submit(&mut disk, &[("w2", 600_000), ("w1", 500_000)]);
    assert_eq!(disk.serve_all(), "r1 r2 w1 r3 r4 w2");
}

#[test]
fn a_bulk_does_not_end_where_the_head_need_not_seek() {
    let mut disk = Disk::new("bid-adaptive", &[("bulk", 2), ("passes", 1)]);
    submit(&mut disk, &[("w", 900_000)]);
    submit(&mut disk, &[("r1", 0), ("r2", 8), ("r3", 16), ("r4", 24), ("r5", 32), ("r6", 40)]);
    // Twice its length is the most.
    assert_eq!(disk.serve_all(), "r1 r2 r3 r4 w r5 r6");
}

#[test]
fn reads_start_again_at_the_lowest_and_writes_at_the_oldest() {
    let mut disk = Disk::new("bid-adaptive", &[]);
    submit(&mut disk, &[("r9", 900_000)]);
    assert_eq!(disk.serve(), "r9");
    submit(&mut disk, &[("r2", 200_000), ("r1", 100_000)]);
    assert_eq!(disk.serve_all(), "r1 r2");
    submit(&mut disk, &[("w9", 900_000)]);
    assert_eq!(disk.serve(), "w9");
    submit(&mut disk, &[("w2", 200_000), ("w1", 100_000)]);
    assert_eq!(disk.serve_all(), "w2 w1");
}

#[test]
fn a_bulk_begins_with_what_is_overdue() {
    for (age, order) in [(2, "r3 r4 r1 r5 r6"), (100, "r3 r4 r5 r6 r1")] {
        let mut disk = Disk::new("bid-adaptive", &[("bulk", 1), ("age", age)]);
        submit(&mut disk, &[("r2", 200_000)]);
        assert_eq!(disk.serve(), "r2");
        submit(&mut disk, &[("r1", 100_000), ("r3", 300_000), ("r4", 400_000), ("r5", 500_000), ("r6", 600_000)]);
        assert_eq!(disk.serve_all(), order, "age {age}");
    }
}

#[test]
fn small_requests_go_up_together_whatever_they_do() {
    let mut disk = Disk::new("bid-adaptive", &[("bulk", 2)]);
    for number in 0..200 {
        submit(&mut disk, &[if number % 2 == 0 { ("r", number * 1_000) } else { ("w", number * 1_000) }]);
        disk.serve();
    }
    submit(&mut disk, &READS);
    submit(&mut disk, &[("w3", 350_000), ("w1", 150_000), ("w0", 50_000)]);
    assert_eq!(disk.serve_all(), "r2 r3 w3 r4 w0 r1 w1");
}
