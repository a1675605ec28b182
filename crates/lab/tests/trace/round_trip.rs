//! What is written reads back the same, as far as the format can hold it.

use ioweir_core::{Flags, Nanos, Operation, StreamId};
use ioweir_lab::trace::{Names, Record};
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
        let read = Read { records, names, epoch, skipped: 0 };
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
    fn a_fio_log_holds_extents_of_files_to_the_microsecond(records in records()) {
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

#[test]
fn parquet_of_several_row_groups_reads_as_one_trace() {
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
    let error = write(&msr, "vscsi").unwrap_err();
    assert_eq!(
        error.to_string(),
        "target: format vscsi cannot be written\n  expected: one of: parquet, hadoop-csv, fio-iolog, spc"
    );
}

#[test]
fn the_same_records_give_the_same_bytes() {
    for format in ["parquet", "hadoop-csv", "fio-iolog"] {
        let read = read(HADOOP.as_bytes()).unwrap();
        assert_eq!(write(&read, format).unwrap(), write(&read, format).unwrap());
    }
}
