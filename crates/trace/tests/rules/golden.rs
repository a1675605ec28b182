//! Real captures as the readers read them, against the tables of the samples' READMEs and against other readers.

use std::path::Path;

use ioweir_core::{Flags, Operation};
use ioweir_trace::{self as trace, Input, ReadOptions, Record};

use crate::support::{Read, read_inputs, read_path, repository, shared};

fn count(read: &Read, keep: impl Fn(&Record) -> bool) -> usize {
    read.records.iter().filter(|record| keep(record)).count()
}

fn bytes(read: &Read, operation: Operation) -> u64 {
    read.records.iter().filter(|record| record.operation == operation).map(|record| record.length_bytes).sum()
}

#[test]
fn binary_and_text_captures_agree_on_queues() {
    let Some(text) = shared("block/blktrace-local/oltp.blkparse.txt.gz") else { return };
    let binary = read_path(&repository().join("traces/oltp/oltp"));
    let text = read_path(&text);
    assert_eq!(binary.records.len(), 31_576);
    assert_eq!(binary.records, text.records);
    assert_eq!(binary.names, text.names);
}

#[test]
fn binary_and_text_captures_agree_on_every_event() {
    let Some(text) = shared("block/blktrace-local/oltp.blkparse.txt.gz") else { return };
    for (event, latency) in trace::Event::ALL.into_iter().flat_map(|event| [(event, false), (event, true)]) {
        let options = ReadOptions { event, latency, ..ReadOptions::default() };
        let binary = ["oltp.blktrace.0.gz", "oltp.blktrace.1.gz"]
            .map(|file| Input::from_path(&repository().join("traces/oltp").join(file)));
        let binary = read_inputs(binary.to_vec(), &options).unwrap();
        let text = read_inputs(vec![Input::from_path(&text)], &options).unwrap();
        assert_eq!(binary.records.len(), text.records.len(), "{}", event.name());
        for (place, (binary, text)) in binary.records.iter().zip(&text.records).enumerate() {
            assert_eq!(binary, text, "{} {place}", event.name());
        }
        let data = count(&binary, |record| record.length_bytes > 0);
        let known = count(&binary, |record| record.latency.is_some());
        println!("{}: {known} latencies of {data}", event.name());
        let paired = latency && event != trace::Event::Complete;
        assert!(if paired { known * 1000 >= data * 999 } else { known == 0 });
    }
}

#[test]
fn oltp_capture_has_its_tables_counts() {
    let read = read_path(&repository().join("traces/oltp/oltp.blktrace"));
    let reads = count(&read, |record| record.operation == Operation::Read);
    let writes = count(&read, |record| record.operation == Operation::Write);
    let discards = count(&read, |record| record.operation == Operation::Discard);
    let flushes = count(&read, |record| record.operation == Operation::Flush);
    assert_eq!((reads, writes, discards, flushes), (14_889, 12_249, 965, 3_473));
    assert_eq!(reads + writes + discards, 28_103);
    assert_eq!(bytes(&read, Operation::Read), 578_024 * 1024);
    assert_eq!(bytes(&read, Operation::Write) + bytes(&read, Operation::Discard), 528_552 * 1024);
    assert_eq!(read.names.volumes, ["7,3"]);
}

#[test]
fn oltp_processor_has_its_rows_counts() {
    for (file, data) in [("oltp.blktrace.0.gz", 13_052), ("oltp.blktrace.1.gz", 15_051)] {
        let read = read_path(&repository().join("traces/oltp").join(file));
        assert_eq!(count(&read, |record| record.length_bytes > 0), data, "{file}");
    }
}

/// Requests of the queue events: job, with data, reads, writes, read and written MB, pids.
const HADOOP: [(&str, usize, usize, usize, u64, u64, usize); 12] = [
    ("loop-ssd/randomtextwriter", 1886, 58, 1828, 0, 1562, 11),
    ("loop-ssd/grep", 15086, 12651, 2435, 1553, 14, 39),
    ("loop-ssd/wordcount", 16082, 12705, 3377, 1553, 20, 48),
    ("loop-ssd/wordstandarddeviation", 15645, 12721, 2924, 1553, 15, 45),
    ("loop-ssd/sort", 29155, 22571, 6584, 2751, 4709, 85),
    ("loop-ssd/terasort", 29594, 22617, 6977, 2747, 4769, 73),
    ("hdd-emul/randomtextwriter", 1645, 34, 1611, 0, 1044, 12),
    ("hdd-emul/grep", 10676, 8469, 2207, 1036, 13, 34),
    ("hdd-emul/wordcount", 11006, 8509, 2497, 1036, 18, 40),
    ("hdd-emul/wordstandarddeviation", 10986, 8536, 2450, 1036, 17, 36),
    ("hdd-emul/sort", 13695, 8972, 4723, 1056, 3141, 58),
    ("hdd-emul/terasort", 14052, 8808, 5244, 1035, 3182, 55),
];

#[test]
fn hadoop_queue_events_have_their_tables_counts() {
    for (job, all, reads, writes, read_mb, write_mb, pids) in HADOOP {
        let Some(path) = shared(&format!("hadoop/{job}.csv.zst")) else { continue };
        let read = read_path(&path);
        let data = |operation| count(&read, |record| record.operation == operation && record.length_bytes > 0);
        assert_eq!(data(Operation::Read) + data(Operation::Write), all, "{job}");
        assert_eq!((data(Operation::Read), data(Operation::Write)), (reads, writes), "{job}");
        // The table's MB are of 2^20 bytes.
        let mebibytes = |operation| (bytes(&read, operation) + (1 << 19)) >> 20;
        assert_eq!((mebibytes(Operation::Read), mebibytes(Operation::Write)), (read_mb, write_mb), "{job}");
        assert_eq!(read.names.streams.len(), pids, "{job}");
    }
}

/// Rows of the insert events that are in the repository.
const INSERTS: [(&str, usize); 12] = [
    ("hdd-emul/grep", 8823),
    ("hdd-emul/randomtextwriter", 2512),
    ("hdd-emul/sort", 16864),
    ("hdd-emul/terasort", 16836),
    ("hdd-emul/wordcount", 8968),
    ("hdd-emul/wordstandarddeviation", 8981),
    ("loop-ssd/grep", 12980),
    ("loop-ssd/randomtextwriter", 3698),
    ("loop-ssd/sort", 33958),
    ("loop-ssd/terasort", 34289),
    ("loop-ssd/wordcount", 13322),
    ("loop-ssd/wordstandarddeviation", 13187),
];

#[test]
fn hadoop_insert_events_are_whole() {
    for (job, rows) in INSERTS {
        let read = read_path(&repository().join(format!("traces/hadoop/{job}.insert.csv.zst")));
        assert_eq!(read.records.len(), rows, "{job}");
        let largest = read.records.iter().map(|record| record.length_bytes).max();
        assert!(largest <= Some(512 << 10), "{job}: requests are split at 512 KiB");
    }
}

#[test]
fn msr_samples_have_their_tables_counts() {
    for (file, rows, reads, volume) in [
        ("rsrch_1", 13_780, 0.003, "rsrch_1"),
        ("wdev_1", 1_055, 0.0, "wdev_1"),
        ("hm_0.first-part", 7_016, 0.830, "hm_0"),
    ] {
        let Some(path) = shared(&format!("block/msr-cambridge/{file}.csv.gz")) else { continue };
        let read = read_path(&path);
        assert_eq!(read.records.len(), rows, "{file}");
        let share = count(&read, |record| record.operation == Operation::Read) as f64 / rows as f64;
        assert!((share - reads).abs() < 0.0006, "{file}: {share}");
        assert_eq!(read.names.volumes, [volume]);
        // The week began on 2007-02-22 at 17:00 GMT.
        let start = read.epoch.unwrap() / 1_000_000_000;
        assert!((1_172_163_600..1_172_163_600 + 86_400).contains(&start), "{file}: {start}");
    }
}

#[test]
fn vscsi_sample_has_its_tables_counts() {
    let Some(path) = shared("block/cloudphysics/cloudPhysicsIO.vscsi.gz") else { return };
    let read = read_path(&path);
    assert_eq!(read.records.len(), 113_872);
    assert_eq!(count(&read, |record| record.operation == Operation::Read), 46_974);
    assert_eq!(bytes(&read, Operation::Read) / 1_000_000, 1_797);
    assert_eq!((bytes(&read, Operation::Write) + 500_000) / 1_000_000, 2_409);
    assert_eq!(read.records.iter().map(|record| record.length_bytes).max(), Some(69_632));
}

#[test]
fn fio_sample_has_its_tables_counts() {
    let read = read_path(&repository().join("traces/fio/mix.iolog.gz"));
    assert_eq!(read.records.len(), 6_451);
    assert_eq!(count(&read, |record| record.operation == Operation::Read), 4_433);
    assert_eq!(bytes(&read, Operation::Read) / 1_000_000, 29);
}

#[test]
fn nvme_samples_have_their_tables_counts() {
    let Some(path) = shared("block/blktrace/sample.blktrace.0.gz") else { return };
    let read = read_path(&path);
    assert_eq!(read.records.len(), 963);
    assert_eq!(bytes(&read, Operation::Read), 963 * 4096);
    assert!(read.names.streams.iter().any(|name| name.contains("VizCompositorTh")) || read.names.streams.len() == 1);

    let Some(path) = shared("block/blkparse/nvme0n1.blktrace.txt.gz") else { return };
    let read = read_path(&path);
    assert_eq!(count(&read, |record| record.length_bytes > 0), 225);
    assert_eq!(count(&read, |record| record.operation == Operation::Flush), 23);
    assert_eq!(count(&read, |record| record.flags.has(Flags::FUA)), 42);
    assert_eq!(read.records.iter().map(|record| record.length_bytes).max(), Some(81_920));
}

/// One run, as binary records and as CSV, is the same requests of the same processes.
#[test]
fn raw_hadoop_captures_agree_with_their_csv() {
    for (archive, folder, job, csv) in [
        ("raw-blktrace-loop-ssd-grep.tar.zst", "loop-ssd-grep", "grep", "loop-ssd/grep.csv.zst"),
        ("raw-blktrace-hdd-emul-sort.tar.zst", "hdd-emul-sort", "sort", "hdd-emul/sort.csv.zst"),
    ] {
        let (Some(archive), Some(csv)) = (shared(&format!("hadoop/{archive}")), shared(&format!("hadoop/{csv}")))
        else {
            continue;
        };
        let files = unpack(&archive, &format!("{folder}/with-process-notes/{job}.blktrace."));
        assert_eq!(files.len(), 2);
        let binary = read_inputs(files, &ReadOptions::default()).unwrap();
        let csv = read_path(&csv);
        // The binary capture of `sort` runs on for a second in which eight more requests came.
        let later = if job == "sort" { 8 } else { 0 };
        assert_eq!(binary.records.len(), csv.records.len() + later, "{job}");
        assert!(binary.names.streams.starts_with(&csv.names.streams), "{job}");
        // Two tracers stamped the same events, some microseconds apart.
        let requests = |records: &[Record]| {
            let key = |record: &Record| {
                let extent = (record.offset_bytes, record.length_bytes);
                (record.stream, extent, record.operation as u8, record.flags.bits())
            };
            let mut requests: Vec<_> = records.iter().map(key).collect();
            requests.sort_unstable();
            requests
        };
        assert!(requests(&binary.records[..csv.records.len()]) == requests(&csv.records), "{job}");
    }
}

/// The members of a tar whose names start so: 512-byte headers with name and octal size.
fn unpack(archive: &Path, prefix: &str) -> Vec<Input> {
    let bytes = zstd::stream::decode_all(std::fs::File::open(archive).unwrap()).unwrap();
    let mut inputs = Vec::new();
    let mut at = 0;
    while at + 512 <= bytes.len() && bytes[at] != 0 {
        let text = |from: usize, to: usize| {
            let field = &bytes[at + from..at + to];
            String::from_utf8_lossy(field.split(|&byte| byte == 0).next().unwrap()).trim().to_owned()
        };
        let size = usize::from_str_radix(&text(124, 136), 8).unwrap();
        if text(0, 100).starts_with(prefix) {
            inputs.push(Input::from_bytes(text(0, 100), bytes[at + 512..at + 512 + size].to_vec()));
        }
        at += 512 + size.div_ceil(512) * 512;
    }
    inputs.sort_by(|one, other| one.name().cmp(other.name()));
    inputs
}

/// `blkparse -d` writes the files of the processors into one, with all records.
#[test]
fn merged_binary_equals_files_of_processors() {
    let files = ["oltp.blktrace.0.gz", "oltp.blktrace.1.gz"].map(|file| repository().join("traces/oltp").join(file));
    let mut records: Vec<Vec<u8>> = Vec::new();
    for file in &files {
        let mut bytes = Vec::new();
        let mut unpacked = flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap());
        std::io::Read::read_to_end(&mut unpacked, &mut bytes).unwrap();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (record, next) = rest.split_at(48 + usize::from(u16::from_le_bytes([rest[46], rest[47]])));
            records.push(record.to_vec());
            rest = next;
        }
    }
    assert_eq!(records.len(), 190_561);
    records.sort_by_key(|record| u64::from_le_bytes(*record[8..].first_chunk().unwrap()));
    let merged = read_inputs(vec![Input::from_bytes("merged", records.concat())], &ReadOptions::default()).unwrap();
    let pair = files.map(|file| Input::from_path(&file)).to_vec();
    assert_eq!(merged, read_inputs(pair, &ReadOptions::default()).unwrap());
}
