//! Written traces read back unchanged, as far as the format can hold them.

use ioweir_core::{Flags, Nanos, Operation, Priority, StreamId};
use ioweir_trace::{Names, Record};
use proptest::prelude::*;

use crate::support::*;

fn records() -> impl Strategy<Value = Vec<Record>> {
    let record = (
        0..u64::MAX / 1000,
        0..u64::MAX / 2,
        0..u64::MAX / 2,
        0_usize..4,
        0_u8..32,
        0_u32..3,
        0_u32..2,
        prop::option::of(any::<u64>()),
    );
    prop::collection::vec(record, 1..200).prop_map(|rows| {
        let mut records: Vec<Record> = rows
            .into_iter()
            .map(|(time, offset_bytes, length_bytes, operation, flags, stream, volume, latency)| Record {
                time: Nanos(time),
                offset_bytes,
                length_bytes,
                operation: Operation::ALL[operation],
                flags: Flags::from_bits(flags).unwrap(),
                priority: Priority::NONE,
                stream: StreamId(stream),
                volume,
                latency: latency.map(Nanos),
            })
            .collect();
        records.sort_by_key(|record| record.time);
        let first = records[0].time;
        for record in &mut records {
            record.time = record.time.since(first);
        }
        records
    })
}

fn names() -> impl Strategy<Value = Names> {
    ("\\PC{0,12}", "[a-z\"\\\\\n]{0,12}").prop_map(|(one, two)| Names {
        streams: vec![format!("1 {one}"), two.clone(), "12".to_owned()],
        volumes: vec![one, two],
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parquet_holds_everything(
        records in records(), names in names(), epoch in prop::option::of(-(1_i128 << 90)..1_i128 << 90)
    ) {
        let mut read = Read { records, names, epoch, skipped: 0 };
        for record in &mut read.records {
            record.priority = Priority::from_bits(record.offset_bytes.to_le_bytes()[0] % 32).unwrap();
        }
        prop_assert_eq!(read_as("parquet", &parquet(&read), false).unwrap(), read);
    }

    #[test]
    fn hadoop_csv_holds_whole_sectors_of_one_volume(records in records()) {
        let names = Names {
            streams: vec!["1 a,b".to_owned(), "2".to_owned(), "1 (c) d".to_owned()],
            volumes: vec!["trace".to_owned()],
        };
        let mut read = Read { records, names, epoch: None, skipped: 0 };
        for record in &mut read.records {
            record.volume = 0;
            record.latency = None;
            record.offset_bytes -= record.offset_bytes % 512;
            record.length_bytes -= record.length_bytes % 512;
            if record.operation == Operation::Flush {
                (record.offset_bytes, record.length_bytes) = (0, 0);
                let without = record.flags.bits() & !Flags::PREFLUSH.bits();
                record.flags = Flags::from_bits(without).unwrap();
            } else if record.length_bytes == 0 {
                record.length_bytes = 512;
            }
        }
        let again = read_as("hadoop-csv", &write(&read, "hadoop-csv").unwrap(), false).unwrap();
        prop_assert_eq!(again.records.len(), read.records.len());
        for (record, before) in again.records.iter().zip(&read.records) {
            // Numbers follow the order of appearance; names stay.
            let name = |names: &Names, record: &Record| names.streams[record.stream.0 as usize].clone();
            prop_assert_eq!(name(&again.names, record), name(&read.names, before));
            prop_assert_eq!(Record { stream: before.stream, ..*record }, *before);
        }
    }

    #[test]
    fn fio_log_keeps_extents_to_the_microsecond(records in records()) {
        let names = vec!["/dev/sda".to_owned(), "b.dat".to_owned()];
        let mut read = Read {
            records, names: Names { streams: names.clone(), volumes: names }, epoch: None, skipped: 0
        };
        let first = read.records[0].volume;
        for record in &mut read.records {
            // Numbers follow the order of appearance.
            record.volume ^= first;
            record.stream = StreamId(record.volume);
            record.time = Nanos(record.time.0 - record.time.0 % 1_000);
            record.flags = Flags::NONE;
            record.latency = None;
            if record.operation == Operation::Flush {
                (record.offset_bytes, record.length_bytes) = (0, 0);
            }
        }
        let again = read_as("fio-iolog", &write(&read, "fio-iolog").unwrap(), false).unwrap();
        prop_assert_eq!(again.records, read.records);
    }
}

/// Makes the records such that a format holds them, and their numbers those that reading gives: in order of appearance.
fn fitted(mut records: Vec<Record>, fit: impl Fn(&mut Record)) -> Vec<Record> {
    let (mut streams, mut volumes) = (Vec::new(), Vec::new());
    for record in &mut records {
        fit(record);
        let number = |list: &mut Vec<u32>, old: u32| {
            let place = list.iter().position(|known| *known == old).unwrap_or_else(|| {
                list.push(old);
                list.len() - 1
            });
            u32::try_from(place).unwrap()
        };
        record.stream = StreamId(number(&mut streams, record.stream.0));
        record.volume = number(&mut volumes, record.volume);
    }
    records
}

fn named(read: &Read) -> Names {
    let used = |list: &[String], count: u32| list[..count as usize].to_vec();
    let streams = read.records.iter().map(|record| record.stream.0 + 1).max().unwrap_or(0);
    let volumes = read.records.iter().map(|record| record.volume + 1).max().unwrap_or(0);
    Names { streams: used(&read.names.streams, streams), volumes: used(&read.names.volumes, volumes) }
}

fn names_of(streams: &[&str], volumes: &[&str]) -> Names {
    let owned = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    Names { streams: owned(streams), volumes: owned(volumes) }
}

fn only_data(record: &mut Record) {
    record.flags = Flags::NONE;
    record.stream = StreamId(record.volume);
    if !matches!(record.operation, Operation::Read | Operation::Write) {
        record.operation = Operation::Write;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn msr_csv_keeps_requests_to_the_tick(records in records(), epoch in 0..4_000_000_000_i128) {
        let records = fitted(records, |record| {
            only_data(record);
            record.time = Nanos(record.time.0 / 1000 * 100);
            record.latency = Some(Nanos(record.latency.map_or(0, |latency| latency.0 / 100 * 100)));
        });
        let volumes = ["web server_3", "hm_0"];
        let mut read = Read { records, names: names_of(&volumes, &volumes), epoch: Some(epoch * 100), skipped: 0 };
        read.names = named(&read);
        let (bytes, losses) = write_telling(&read, "msr-csv").unwrap();
        prop_assert_eq!(losses, []);
        prop_assert_eq!(read_as("msr-csv", &bytes, false).unwrap(), read);
    }

    #[test]
    fn spc_keeps_requests_to_the_nanosecond(records in records()) {
        let records = fitted(records, |record| {
            only_data(record);
            record.latency = None;
            record.offset_bytes -= record.offset_bytes % 512;
        });
        let volumes = ["0", "1"];
        let mut read = Read { records, names: names_of(&volumes, &volumes), epoch: None, skipped: 0 };
        read.names = named(&read);
        let (bytes, losses) = write_telling(&read, "spc").unwrap();
        prop_assert_eq!(losses, []);
        prop_assert_eq!(read_as("spc", &bytes, false).unwrap(), read);
    }

    #[test]
    fn blkparse_text_holds_all_but_latencies(records in records()) {
        let records = fitted(records, |record| {
            record.latency = None;
            record.offset_bytes -= record.offset_bytes % 512;
            record.length_bytes -= record.length_bytes % 512;
            if record.operation == Operation::Flush {
                (record.offset_bytes, record.length_bytes) = (0, 0);
                record.flags = Flags::from_bits(record.flags.bits() & !Flags::PREFLUSH.bits()).unwrap();
            } else if record.length_bytes == 0 {
                record.length_bytes = 512;
            }
        });
        let names = names_of(&["1 a b", "1 [x] c]", "12"], &["8,0", "253,16"]);
        let mut read = Read { records, names, epoch: None, skipped: 0 };
        read.names = named(&read);
        let (bytes, losses) = write_telling(&read, "blkparse").unwrap();
        prop_assert_eq!(losses, []);
        // A pid alone may be the same as one with a command before it: names are told apart in another test.
        let again = read_as("blkparse", &bytes, false).unwrap();
        prop_assert_eq!(&again.names.volumes, &read.names.volumes);
        for (record, before) in again.records.iter().zip(&read.records) {
            prop_assert_eq!(Record { stream: before.stream, ..*record }, *before);
            prop_assert_eq!(
                &again.names.streams[record.stream.0 as usize], &read.names.streams[before.stream.0 as usize]
            );
        }
    }

    /// Every property that a conversion does not report as lost is there when the target is read again.
    #[test]
    fn nothing_is_lost_in_silence(records in records(), epoch in prop::option::of(0..1_i128 << 62)) {
        let names = names_of(&["1 a", "7", "b"], &["8,0", "host_1"]);
        let read = Read { records, names, epoch, skipped: 0 };
        for format in ioweir_trace::FORMATS.iter().filter(|format| format.write.is_some()) {
            let Ok((bytes, losses)) = write_telling(&read, format.name) else { continue };
            let lost = |what: &str| losses.iter().find(|loss| loss.what.starts_with(what)).map_or(0, |loss| loss.requests);
            let kinds = |operation| read.records.iter().filter(|record| record.operation == operation).count() as u64;
            let left_out = lost("discards") + lost("flushes");
            if read.records.len() as u64 == left_out {
                continue;
            }
            let again = read_as(format.name, &bytes, false).unwrap();
            prop_assert_eq!(again.records.len() as u64 + left_out, read.records.len() as u64, "{}", format.name);
            prop_assert!(lost("discards") == 0 || lost("discards") == kinds(Operation::Discard));
            prop_assert!(again.epoch == read.epoch || lost("the ") > 0 || lost("times") > 0 || left_out > 0);
            if left_out > 0 {
                continue;
            }
            for (now, before) in again.records.iter().zip(&read.records) {
                prop_assert!(now.operation == before.operation, "{}", format.name);
                prop_assert!(now.flags == before.flags || lost("flags") > 0, "{}", format.name);
                prop_assert!(now.time == before.time || lost("times") > 0, "{}", format.name);
                prop_assert!(now.latency == before.latency || lost("latencies") + lost("absent") > 0, "{}", format.name);
                let volume = |read: &Read, record: &Record| read.names.volumes[record.volume as usize].clone();
                prop_assert!(volume(&again, now) == volume(&read, before) || lost("names of volumes") > 0);
            }
        }
    }
}

#[test]
fn what_a_format_does_not_hold_is_told() {
    let told = |read: &Read, format: &str| -> Vec<String> {
        let (_, losses) = write_telling(read, format).unwrap();
        losses.iter().map(|loss| format!("{} {}", loss.requests, loss.what)).collect()
    };
    let hadoop = read(HADOOP.as_bytes()).unwrap();
    assert_eq!(told(&hadoop, "parquet"), [""; 0]);
    assert_eq!(
        told(&hadoop, "spc"),
        [
            "1 discards, which are left out",
            "1 flushes, which are left out",
            "3 flags (synchronous, metadata and the like)",
            "3 streams apart from volumes",
            "3 names of volumes",
        ]
    );
    assert_eq!(
        told(&hadoop, "msr-csv"),
        [
            "1 discards, which are left out",
            "1 flushes, which are left out",
            "3 flags (synchronous, metadata and the like)",
            "3 streams apart from volumes",
            "3 names of volumes",
            "3 absent latencies, which become 0",
            "3 the lack of a wall clock: times begin at 1970-01-01",
        ]
    );
    assert_eq!(
        told(&hadoop, "fio-iolog"),
        [
            "5 flags (synchronous, metadata and the like)",
            "5 streams apart from volumes",
            "1 times below the grain of the format",
        ]
    );
    let mut urgent = hadoop;
    urgent.records[0].priority = Priority::from_bits(12).unwrap();
    assert_eq!(told(&urgent, "parquet"), [""; 0]);
    for format in ["spc", "msr-csv", "fio-iolog", "hadoop-csv", "blkparse"] {
        assert!(told(&urgent, format).contains(&"1 I/O priorities".to_owned()), "{format}");
    }
    let msr = read(MSR.as_bytes()).unwrap();
    assert_eq!(told(&msr, "msr-csv"), [""; 0]);
    assert_eq!(told(&msr, "blkparse"), ["3 names of volumes", "3 latencies", "3 the wall-clock time of the trace"]);
}

#[test]
fn parquet_row_groups_read_as_one_trace() {
    let one = read(HADOOP.as_bytes()).unwrap().records[0];
    let records = (0..150_000).map(|time| Record { time: Nanos(time * 3), offset_bytes: time * 512, ..one }).collect();
    let names = Names { streams: vec!["1 x".to_owned()], volumes: vec!["v".to_owned()] };
    let before = Read { records, names, epoch: Some(5), skipped: 0 };
    let bytes = parquet(&before);
    assert!(bytes.len() < 150_000 * 4, "{} bytes", bytes.len());
    assert_eq!(read_as("parquet", &bytes, false).unwrap(), before);
}

#[test]
fn what_a_format_cannot_hold_is_refused() {
    let msr = read(MSR.as_bytes()).unwrap();
    let error = write(&msr, "hadoop-csv").unwrap_err();
    assert_eq!(
        error.to_string(),
        "target: hadoop-csv cannot hold more than one volume\n\nhint: choose one volume, or write parquet"
    );
    let odd = MSR.lines().next().unwrap().replace("3165323264", "3165323265");
    let error = write(&read(odd.as_bytes()).unwrap(), "hadoop-csv").unwrap_err();
    assert_eq!(
        error.to_string(),
        "target: hadoop-csv cannot hold offset 3165323265 + length 4096 bytes: not whole sectors\n\nhint: write parquet"
    );
    let blank = FIO_3.replace("/tmp/a b.dat", "/tmp/a  b");
    let error = write(&read(blank.as_bytes()).unwrap(), "fio-iolog").unwrap_err();
    assert_eq!(
        error.to_string(),
        "target: fio-iolog cannot hold the volume name `/tmp/a  b`\n  expected: a name without blanks"
    );
    let error = write(&read(odd.as_bytes()).unwrap(), "spc").unwrap_err();
    assert_eq!(
        error.to_string(),
        "target: spc cannot hold the offset 3165323265: not whole blocks of 512 bytes\n\nhint: write parquet"
    );
    let error = write(&read(odd.as_bytes()).unwrap(), "blkparse").unwrap_err();
    assert!(error.to_string().contains("not whole sectors"), "{error}");
    let error = write(&msr, "vscsi").unwrap_err();
    assert_eq!(
        error.to_string(),
        "target: format vscsi cannot be written\n  expected: one of: parquet, fio-iolog, blkparse, hadoop-csv, msr-csv, spc"
    );
}

#[test]
fn the_same_records_give_the_same_bytes() {
    for format in ["parquet", "hadoop-csv", "fio-iolog", "msr-csv", "spc", "blkparse"] {
        let read = read(HADOOP.as_bytes()).unwrap();
        assert_eq!(write(&read, format).unwrap(), write(&read, format).unwrap());
    }
}

#[test]
fn parquet_of_older_versions_is_still_read() {
    let [first, second] = ["version-1", "version-2"].map(|name| {
        let file = repository().join(format!("crates/trace/tests/data/{name}.parquet"));
        read_as("parquet", &std::fs::read(file).unwrap(), false).unwrap()
    });
    let hadoop = read(HADOOP.as_bytes()).unwrap();
    assert_eq!((first.records, first.names), (hadoop.records, hadoop.names));
    let flags: Vec<_> = second.records.iter().map(|record| (record.operation, record.flags)).collect();
    let read = [(Operation::Read, Flags::NONE), (Operation::Write, Flags::SYNC), (Operation::Flush, Flags::NONE)];
    assert_eq!((flags, second.names.streams), (read.to_vec(), vec!["7 dd".to_owned(), "8 cp".to_owned()]));
}
