//! Small traces, written out here, as each reader reads them.

use std::io::Write;

use ioweir_core::{Flags, Nanos, Operation};
use ioweir_trace::{self as trace, Input, ReadOptions};

use crate::support::*;

fn queue(option: trace::Event) -> ReadOptions {
    ReadOptions { event: option, ..ReadOptions::default() }
}

#[test]
fn formats_are_recognised_by_content_or_named() {
    for (name, bytes) in samples() {
        let format = trace::format(name).unwrap();
        assert!(format.detects(&bytes), "{name}");
        let found = trace::FORMATS.iter().find(|format| !format.ambiguous && format.detects(&bytes));
        if format.ambiguous {
            assert_eq!(found.map(|format| format.name), None, "{name}");
            let error = read(&bytes).unwrap_err();
            assert!(error.expected.contains(name) && error.hint.contains("--format"), "{error}");
        } else {
            assert_eq!(found.map(|format| format.name), Some(name));
        }
        read_sample(name, &bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn every_format_has_a_sample() {
    let samples = samples();
    // A format of one's own has as many samples as there are users.
    for format in trace::FORMATS.iter().filter(|format| format.name != "columns") {
        assert!(samples.iter().any(|(name, _)| *name == format.name), "{}", format.name);
    }
}

#[test]
fn every_table_row_has_name_and_text() {
    for format in trace::FORMATS {
        assert!(!format.title.is_empty() && format.doc().len() > 100, "{}", format.name);
        assert_eq!(trace::format(format.name).map(|found| found.name), Some(format.name));
    }
    assert!(trace::format("nothing").is_none());
}

#[test]
fn compressed_input_reads_as_plain_input() {
    for (name, bytes) in samples() {
        let read = |bytes: &[u8]| read_sample(name, bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let plain = read(&bytes);
        if name == "parquet" {
            continue;
        }
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let gzip = |part: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(part).unwrap();
            encoder.finish().unwrap()
        };
        let zstd = |part: &[u8]| zstd::stream::encode_all(part, 1).unwrap();
        assert_eq!(read(&gzip(&bytes)), plain, "{name} gzip");
        assert_eq!(read(&[gzip(first), gzip(second)].concat()), plain, "{name} gzip members");
        assert_eq!(read(&zstd(&bytes)), plain, "{name} zstd");
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9][..], &zstd(first), &zstd(second)].concat();
        assert_eq!(read(&skippable), plain, "{name} zstd frames");
        let bzip2 = |part: &[u8]| {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(part).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(read(&[bzip2(first), bzip2(second)].concat()), plain, "{name} bzip2 streams");
    }
}

#[test]
fn a_pipe_reads_as_a_file() {
    for (name, bytes) in samples() {
        let ambiguous = trace::format(name).unwrap().ambiguous;
        let options = || ReadOptions { format: trace::format(name).filter(|_| ambiguous), ..ReadOptions::default() };
        let pipe = || Input::from_reader("trace", std::io::Cursor::new(bytes.clone()));
        let piped = read_inputs(vec![pipe()], &options()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(piped, read_sample(name, &bytes).unwrap(), "{name}");
        // And again, from what was kept.
        let input = pipe();
        for _ in 0..2 {
            assert_eq!(read_inputs(vec![input.clone()], &options()).unwrap(), piped, "{name}");
        }
    }
}

#[test]
fn named_pipe_is_read_repeatedly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let writer = std::thread::spawn({
        let path = path.clone();
        move || std::fs::write(path, HADOOP).unwrap()
    });
    assert_eq!(trace::recognise(std::slice::from_ref(&path), &ReadOptions::default()).unwrap().name, "hadoop-csv");
    for _ in 0..2 {
        assert_eq!(read_path(&path).records, read(HADOOP.as_bytes()).unwrap().records);
    }
    writer.join().unwrap();
}

/// `printf 'time_s,pid,comm,op,lba,sectors\n1.5,7,x,R,8,8\n' | xz --check=crc32`
pub(crate) const XZ: [u8; 100] = [
    253, 55, 122, 88, 90, 0, 0, 1, 105, 34, 222, 54, 2, 0, 33, 1, 22, 0, 0, 0, 116, 47, 229, 163, 1, 0, 44, 116, 105,
    109, 101, 95, 115, 44, 112, 105, 100, 44, 99, 111, 109, 109, 44, 111, 112, 44, 108, 98, 97, 44, 115, 101, 99, 116,
    111, 114, 115, 10, 49, 46, 53, 44, 55, 44, 120, 44, 82, 44, 56, 44, 56, 10, 0, 0, 0, 0, 37, 78, 246, 117, 0, 1, 65,
    45, 26, 151, 59, 140, 144, 66, 153, 13, 1, 0, 0, 0, 0, 1, 89, 90,
];

#[test]
fn xz_is_unpacked_and_other_packings_are_named() {
    assert_eq!(read(&XZ).unwrap(), read(b"time_s,pid,comm,op,lba,sectors\n1.5,7,x,R,8,8\n").unwrap());
    for length in 6..XZ.len() {
        assert!(read(&XZ[..length]).is_err(), "{length}");
    }
    let mut greedy = XZ;
    // The size of the dictionary, and the checksum of the header that holds it.
    greedy[16] = 32;
    greedy[20..24].copy_from_slice(&[9, 136, 165, 118]);
    let error = read(&greedy).unwrap_err().to_string();
    assert!(error.starts_with("trace: unpacking it takes more than 80 MiB of memory"), "{error}");
    for (start, name) in [(&b"PK\x03\x04"[..], "zip"), (b"\x04\x22\x4d\x18", "lz4"), (b"7z\xbc\xaf", "7z")] {
        let error = read(start).unwrap_err().to_string();
        assert!(error.contains(&format!("packed with {name}, which is not unpacked here")), "{error}");
        assert!(error.contains("unpack it first"), "{error}");
    }
}

#[test]
fn both_blktrace_byte_orders_agree() {
    let events = [Event::queue(10, READ, 8, 4096), Event::queue(20, WRITE | FLUSH | FUA | SYNC, 1 << 40, 4096)];
    let little = read(&blktrace(&events, false)).unwrap();
    assert_eq!(little, read(&blktrace(&events, true)).unwrap());
    assert_eq!(little.records[1].offset_bytes, 1 << 49);
    assert_eq!(little.names.volumes, ["8,1"]);
}

#[test]
fn files_of_processors_are_merged_by_time() {
    let one: Vec<Event<'_>> = [10, 40, 50, 90].map(|time| Event::queue(time, READ, time, 512)).into();
    let two: Vec<Event<'_>> = [5, 41, 42, 100].map(|time| Event::queue(time, READ, time, 512)).into();
    let inputs = vec![
        Input::from_bytes("a.blktrace.0", blktrace(&one, false)),
        Input::from_bytes("a.blktrace.1", blktrace(&two, true)),
        Input::from_bytes("a.blktrace.2", Vec::new()),
    ];
    let read = read_inputs(inputs, &ReadOptions::default()).unwrap();
    let sectors: Vec<u64> = read.records.iter().map(|record| record.offset_bytes / 512).collect();
    assert_eq!(sectors, [5, 10, 40, 41, 42, 50, 90, 100]);
    assert_eq!(read.records[0].time, Nanos::ZERO);
    assert_eq!(read.records[7].time, Nanos(95));
}

#[test]
fn slightly_disordered_trace_is_sorted() {
    let times = [10, 30, 20, 40];
    let events: Vec<Event<'_>> = times.map(|time| Event::queue(time, READ, time, 512)).into();
    let read = read(&blktrace(&events, false)).unwrap();
    let sorted: Vec<u64> = read.records.iter().map(|record| record.time.0).collect();
    assert_eq!(sorted, [0, 10, 20, 30]);
}

#[test]
fn blktrace_flags_decide_the_operation() {
    let cases = [
        (READ, 512, Some((Operation::Read, Flags::NONE))),
        (WRITE | DISCARD | SYNC, 512, Some((Operation::Discard, Flags::SYNC))),
        (WRITE | FLUSH | SYNC, 0, Some((Operation::Flush, Flags::SYNC))),
        (FLUSH, 0, Some((Operation::Flush, Flags::NONE))),
        (READ | FLUSH, 0, Some((Operation::Flush, Flags::NONE))),
        (READ, 0, None),
        (WRITE | FLUSH | FUA, 512, Some((Operation::Write, Flags::FUA.with(Flags::PREFLUSH)))),
        (WRITE, 0, Some((Operation::Write, Flags::NONE))),
        (READ | PASSED_THROUGH, 36, None),
        (0, 0, None),
    ];
    let mut events = vec![Event::queue(1, READ, 0, 512)];
    events.extend((2..).zip(cases).map(|(time, (action, bytes, _))| Event::queue(time, action, 8, bytes)));
    let read = read(&blktrace(&events, false)).unwrap();
    let found: Vec<_> = read.records[1..].iter().map(|record| (record.operation, record.flags)).collect();
    let expected: Vec<_> = cases.into_iter().filter_map(|(_, _, expected)| expected).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_kind_of_event_is_an_option() {
    let issue = Event { action: WRITE | ISSUE, ..Event::queue(30, 0, 99, 1024) };
    let bytes = blktrace(&[Event::queue(10, WRITE, 98, 512), issue], false);
    let input = || vec![Input::from_bytes("trace", bytes.clone())];
    let read = read_inputs(input(), &queue(trace::Event::Issue)).unwrap();
    assert_eq!(read.records.len(), 1);
    assert_eq!(read.records[0].length_bytes, 1024);
    let error = read_inputs(input(), &queue(trace::Event::Insert)).unwrap_err();
    assert_eq!(error.to_string(), "trace: the trace has 2 events but none of kind insert\n\nhint: try --event queue");
}

#[test]
fn notes_name_processes_and_tell_the_wall_clock() {
    let command = b"dd\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let late = [&[0_u8; 8][..], b"late\0\0\0\0\0\0\0\0\0\0\0\0"].concat();
    let clock = [1_700_000_000_u32.to_be_bytes(), 500_u32.to_be_bytes()].concat();
    let note =
        |time, action, pid, payload| Event { action: NOTIFY | action, pid, payload, ..Event::queue(time, 0, 0, 0) };
    let events = [
        note(100, 0, 7, &command[..]),
        note(100, 1, 0, &clock[..]),
        note(100, 2, 0, b"a message"),
        Event::queue(110, READ, 0, 512),
        Event { pid: 8, ..Event::queue(120, READ, 0, 512) },
        note(130, CGROUP, 8, &late[..]),
        note(130, 0, 7, b"cp\0"),
        Event::queue(140, READ, 0, 512),
        Event { action: READ | QUEUE | CGROUP, payload: &[0; 8], ..Event::queue(150, 0, 0, 512) },
    ];
    let read = read(&blktrace(&events, true)).unwrap();
    assert_eq!(read.names.streams, ["7 dd", "8 late", "7 cp"]);
    let streams: Vec<u32> = read.records.iter().map(|record| record.stream.0).collect();
    assert_eq!(streams, [0, 1, 2, 2]);
    assert_eq!(read.epoch, Some(1_700_000_000_000_000_000 + 500 + 10));
}

#[test]
fn ftrace_capture_with_context_reads_the_same() {
    let events = [Event::queue(10, READ, 8, 4096), Event::queue(20, WRITE, 16, 4096)];
    let context: Vec<u8> = events.iter().flat_map(|event| [vec![0xaa; 16], event.bytes(false)].concat()).collect();
    assert_eq!(read(&context).unwrap(), read(&blktrace(&events, false)).unwrap());
}

#[test]
fn blkparse_text_gives_extents_commands_and_flushes() {
    let read = read(BLKPARSE.as_bytes()).unwrap();
    let found: Vec<_> =
        read.records.iter().map(|record| (record.operation, record.offset_bytes / 512, record.length_bytes)).collect();
    assert_eq!(
        found,
        [
            (Operation::Write, 763_360_912, 4096),
            (Operation::Write, 575_512_928, 4096),
            (Operation::Flush, 0, 0),
            (Operation::Read, 0, 0),
        ]
    );
    assert_eq!(read.names.streams, ["1867 dmcrypt_write/2", "1889 a b] c]", "1889 x"]);
    assert_eq!(read.names.volumes, ["259,0", "8,16"]);
    assert_eq!(read.records[2].stream.0, 1, "(null) is the process as it was known");
}

#[test]
fn blkparse_events_after_a_summary_are_not_lost() {
    let text =
        [BLKPARSE, "259,0    3        3     1.000000299  1867  Q   W 763360912 + 8 [dmcrypt_write/2]\n"].concat();
    assert_eq!(read(text.as_bytes()).unwrap().records.len(), 5);
}

#[test]
fn hadoop_commands_may_hold_commas() {
    let read = read(HADOOP.as_bytes()).unwrap();
    assert_eq!(read.names.streams, ["11452 DataXceiver for", "10 a,b", "10 x"]);
    let times: Vec<u64> = read.records.iter().map(|record| record.time.0).collect();
    assert_eq!(times, [0, 485_000, 93_851_000, 193_851_000, 193_851_001]);
    assert_eq!(read.records[3].operation, Operation::Flush);
    assert_eq!(read.records[4].length_bytes, 128 << 20);
}

#[test]
fn msr_ticks_are_exact_and_hosts_apart() {
    let read = read(MSR.as_bytes()).unwrap();
    assert_eq!(read.names.volumes, ["wdev_1", "hm_0"]);
    assert_eq!(read.names.streams, read.names.volumes);
    assert_eq!(read.records[2].time, Nanos(2_700));
    assert_eq!(read.records[0].latency, Some(Nanos(118_900)));
    assert_eq!(read.epoch, Some((128_166_410_318_060_999 - 116_444_736_000_000_000) * 100));
}

#[test]
fn both_vscsi_versions_are_the_same_trace() {
    for version in [1, 2] {
        let bytes: Vec<u8> = [(0x28, 7), (0x8a, 9), (0x35, 9)]
            .iter()
            .flat_map(|&(command, time)| vscsi(version, command, time, 8, 512))
            .collect();
        let read = read(&bytes).unwrap();
        let found: Vec<_> =
            read.records.iter().map(|record| (record.operation, record.time.0, record.offset_bytes)).collect();
        assert_eq!(found, [(Operation::Read, 0, 4096), (Operation::Write, 2000, 4096), (Operation::Flush, 2000, 0)]);
    }
}

#[test]
fn every_version_of_the_fio_log_is_read() {
    let three = read(FIO_3.as_bytes()).unwrap();
    let found: Vec<_> = three.records.iter().map(|record| (record.operation, record.time.0)).collect();
    assert_eq!(
        found,
        [
            (Operation::Read, 0),
            (Operation::Write, 153_000),
            (Operation::Flush, 154_000),
            (Operation::Flush, 155_000),
            (Operation::Discard, 156_000),
        ]
    );
    assert_eq!(three.names.volumes, ["/tmp/db.dat", "/tmp/a b.dat"]);
    let two = read(FIO_2.as_bytes()).unwrap();
    assert_eq!(two.records.iter().map(|record| record.time.0).collect::<Vec<_>>(), [0, 500_000]);
    let one = read(FIO_1.as_bytes()).unwrap();
    assert_eq!(
        one.records.iter().map(|record| record.operation).collect::<Vec<_>>(),
        [Operation::Read, Operation::Write]
    );
    assert_eq!(one.names.volumes, ["trace"]);
}

#[test]
fn line_ends_may_be_windows_or_none() {
    let binary =
        ["blktrace", "parquet", "vscsi", "oracle-general", "oracle-general-opns", "lcs", "btrecord", "hp-srt", "octf"];
    for (name, bytes) in samples().into_iter().filter(|(name, _)| !binary.contains(name)) {
        let text = String::from_utf8(bytes).unwrap();
        let read = |text: &str| read_sample(name, text.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let plain = read(&text);
        assert_eq!(read(&text.replace('\n', "\r\n")), plain, "{name}");
        assert_eq!(read(text.trim_end()), plain, "{name}");
    }
}

#[test]
fn chosen_volume_starts_at_time_zero() {
    let options = |name: &str| ReadOptions { volume: Some(name.to_owned()), ..ReadOptions::default() };
    let input = || vec![Input::from_bytes("trace", MSR.into())];
    let read = read_inputs(input(), &options("hm_0")).unwrap();
    assert_eq!(read.records.len(), 1);
    assert_eq!(read.records[0].time, Nanos::ZERO);
    let error = read_inputs(input(), &options("usr_0")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "trace: has no requests of volume `usr_0`\n  expected: one of its volumes: wdev_1, hm_0"
    );
}

#[test]
fn long_traces_come_in_batches_without_a_seam() {
    let mut text = String::from("time_s,pid,comm,op,lba,sectors\n");
    for number in 0..60_000_u64 {
        text.push_str(&format!("{}.{:06},{},worker,R,{},8\n", number / 1000, number % 1000, number % 7, number * 8));
    }
    let read = read(text.as_bytes()).unwrap();
    assert_eq!(read.records.len(), 60_000);
    assert!(read.records.iter().zip(0..).all(|(record, number)| record.offset_bytes == number * 4096));
}

#[test]
fn completions_tell_latencies_where_they_are_asked_for() {
    let complete = |time, sector, bytes| Event { action: WRITE | 8, ..Event::queue(time, 0, sector, bytes) };
    let events = [
        Event::queue(10, WRITE, 8, 4096),
        Event::queue(20, WRITE, 16, 4096),
        Event::queue(30, WRITE | FUA, 64, 4096),
        Event::queue(35, WRITE | FLUSH, 0, 0),
        complete(40, 8, 8192),
        complete(50, 64, 4096),
        complete(70, 64, 0),
        Event::queue(80, WRITE, 8, 4096),
    ];
    let bytes = blktrace(&events, false);
    let options = ReadOptions { latency: true, ..ReadOptions::default() };
    let read = read_inputs(vec![Input::from_bytes("trace", bytes.clone())], &options).unwrap();
    let latencies: Vec<_> = read.records.iter().map(|record| record.latency.map(|latency| latency.0)).collect();
    assert_eq!(latencies, [Some(30), Some(20), Some(40), None, None]);
    let without = read_as("blktrace", &bytes, false).unwrap();
    assert!(without.records.iter().all(|record| record.latency.is_none()));
}

#[test]
fn volumes_are_read_in_linear_time() {
    let lines = (0..200_000).map(|number| format!("{number},host{number},0,Read,0,512,1\n"));
    let read = read(lines.collect::<String>().as_bytes()).unwrap();
    assert_eq!((read.names.volumes.len(), read.names.streams.len()), (200_000, 200_000));
}
