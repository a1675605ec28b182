//! Fixtures of other people's formats as their readers read them.

use ioweir_core::{Flags, Operation, Priority, PriorityClass};
use ioweir_trace::{self as trace, Event, Input, ReadOptions};

use crate::fixtures::*;
use crate::support::*;

use Operation::{Discard, Flush, Read as Reads, Write as Writes};

/// Time, operation, offset, length, latency of each record.
type Rows<'a> = &'a [(u64, Operation, u64, u64, Option<u64>)];

#[track_caller]
fn check(read: &Read, rows: Rows<'_>, streams: &[&str], volumes: &[&str]) {
    let found: Vec<_> = read
        .records
        .iter()
        .map(|record| {
            let latency = record.latency.map(|latency| latency.0);
            (record.time.0, record.operation, record.offset_bytes, record.length_bytes, latency)
        })
        .collect();
    assert_eq!(found, rows);
    assert_eq!(read.names.streams, streams);
    assert_eq!(read.names.volumes, volumes);
}

fn text(text: &str) -> Read {
    read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

fn named(name: &str, bytes: &[u8]) -> Read {
    read_as(name, bytes, false).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn systor_may_lack_a_response() {
    let read = text(SYSTOR);
    let rows = [
        (0, Writes, 512, 1536, None),
        (1_000, Reads, 10 << 30, 4096, Some(250_000)),
        (1_000, Writes, 0, 65_536, Some(12_000_000)),
    ];
    check(&read, &rows, &["LUN0", "LUN6"], &["LUN0", "LUN6"]);
    assert_eq!(read.epoch, Some(1_455_592_500_999_999_000));
}

#[test]
fn alibaba_has_its_time_last() {
    let read = text(ALIBABA);
    let rows = [
        (0, Reads, 0, 512, None),
        (1_000, Writes, 8_792_731_648, 16_384, None),
        (1_000, Reads, 59_110_326_272, 360_448, None),
    ];
    check(&read, &rows, &["419", "725"], &["419", "725"]);
    assert_eq!(read.epoch, Some(1_577_808_000_000_045_000));
    assert_eq!(text(&format!("device_id,opcode,offset,length,timestamp\n{ALIBABA}")), read);
}

#[test]
fn spc_reads_units_blanks_and_extra_columns() {
    let rows = [
        (0, Writes, 303_567 * 512, 3584, None),
        (1_000, Writes, 55_590 * 512, 3072, None),
        (26_214_000, Reads, 303_574 * 512, 0, None),
        (1_500_000_000, Reads, 4096, 100, None),
    ];
    check(&text(SPC), &rows, &["0", "1"], &["0", "1"]);
}

#[test]
fn tencent_counts_seconds_and_its_copy_bytes() {
    let sectors = named("tencent-csv", TENCENT.as_bytes());
    let rows = [
        (0, Reads, 12_910_952 * 512, 65_536, None),
        (0, Writes, 6_338_688 * 512, 4096, None),
        (1_000_000_000, Writes, 512 * 512, 4096, None),
    ];
    check(&sectors, &rows, &["1063", "1627"], &["1063", "1627"]);
    let bytes = named("tencent-csv-bytes", TENCENT.as_bytes());
    assert_eq!((bytes.records[2].offset_bytes, bytes.records[2].length_bytes), (512, 4096));
    assert_eq!(bytes.epoch, Some(1_538_323_200_000_000_000));
}

#[test]
fn fiu_accepts_blanks_and_any_digest_length() {
    let rows = [
        (0, Reads, 283_193_184 * 512, 4096, None),
        (4, Writes, 0, 4096, None),
        (8, Writes, 283_193_192 * 512, 8192, None),
    ];
    check(&text(FIU), &rows, &["20782 gzip", "20782 ki worker/0:1", "1 R"], &["6,0", "8,1"]);
}

#[test]
fn etw_uses_header_columns_and_arrival_times() {
    let rows = [
        (0, Writes, 512, 512, Some(250_000)),
        (140_000, Reads, 4096, 8192, Some(100_000)),
        (240_000, Flush, 0, 0, Some(20_000)),
    ];
    let process = format!("{} Unknown", u32::MAX);
    check(&text(ETW), &rows, &["4 System", "1234 sql (x) serv.exe", &process], &["disk0", "disk1"]);
}

#[test]
fn wpa_numbers_follow_the_machines_locale() {
    let comma = text(WPA);
    let rows = [
        (0, Reads, 0, 512, Some(87_200)),
        (172_600, Writes, 1024, 16_384, Some(1_159_200)),
        (172_700, Flush, 0, 0, Some(159_200)),
    ];
    check(&comma, &rows, &["System", "sql server.exe"], &["disk1", "disk2"]);
    assert_eq!(text(WPA_POINTS), comma);
    assert_eq!(text(&format!("\u{feff}{WPA}")), comma);
}

#[test]
fn thesios_files_are_volumes_and_classes_are_kept() {
    let read = text(THESIOS);
    let rows = [
        (0, Writes, 2_453_358, 3390, Some(124_652)),
        (3_607_274, Reads, 7_354_368, 1_050_624, Some(4_246_402)),
        (3_607_274, Reads, 0, 512, Some(1)),
    ];
    let streams = ["bigtable THROUGHPUT_ORIENTED", "4aed LATENCY_SENSITIVE", "bigtable LATENCY_SENSITIVE"];
    check(&read, &rows, &streams, &["d206", "0c44"]);
}

#[test]
fn ftrace_trace_cmd_and_perf_agree() {
    let with = |event| {
        let options = ReadOptions { event, latency: true, ..ReadOptions::default() };
        read_inputs(vec![Input::from_bytes("trace", FTRACE.into())], &options).unwrap()
    };
    let rows = [
        (0, Reads, 69_896 * 512, 4096, Some(64_000)),
        (33_000, Writes, 80 * 512, 8192, None),
        (34_512_000, Flush, 0, 0, None),
    ];
    let queue = with(trace::Event::Queue);
    check(&queue, &rows, &["1928 python3", "77 my-comm [x] (y)"], &["7,3"]);
    assert_eq!(queue.records[0].flags, Flags::METADATA);
    check(&with(trace::Event::Insert), &[(0, Reads, 69_896 * 512, 4096, Some(32_000))], &["1928 python3"], &["7,3"]);
    let issue = with(trace::Event::Issue);
    let rows = [(0, Reads, 69_896 * 512, 4096, Some(26_000)), (29_527_000, Flush, 0, 0, None)];
    check(&issue, &rows, &["1928 python3", "10 kworker/0:0H"], &["7,3"]);
    let rows = [(0, Reads, 69_896 * 512, 4096, None), (33_123, Writes, 80 * 512, 8192, None)];
    check(&text(PERF), &rows, &["1928 python3", "77 my-comm [x] (y)"], &["7,3"]);
    check(&text(TRACE_CMD), &rows[..1], &["1928 python3"], &["7,3"]);
}

#[test]
fn only_header_of_a_load_may_repeat() {
    let rows = [
        (0, Writes, 49_339_162 * 512, 1536, None),
        (1_323_841_530, Reads, 12_860_602 * 512, 3072, None),
        (1_323_841_531, Reads, 12_860_602 * 512, 3072, Some(250_000)),
    ];
    check(&text(BLKREPLAY), &rows, &["trace"], &["trace"]);
    let other = BLKREPLAY.replacen("\n\nPLEASE keep this\nstart", "\n\nPLEASE keep that\nstart", 2);
    assert!(text(&other).records.len() == 3, "both copies changed alike");
    let damaged = BLKREPLAY.replace("      1.323841531", "      1.32384x531");
    assert_eq!(
        read(damaged.as_bytes()).unwrap_err().to_string(),
        "trace:9:7: time `1.32384x531` is not a number of seconds\n  \
         expected: time as seconds in decimal digits, such as 12.5"
    );
    let tail = format!("{BLKREPLAY}PLEASE keep that\n");
    assert!(read(tail.as_bytes()).unwrap_err().to_string().starts_with("trace:11:17: the line has 1 columns"));
}

#[test]
fn five_columns_differ_in_their_units() {
    let disksim = named("disksim", DISKSIM.as_bytes());
    let rows = [
        (0, Reads, 0, 2560, None),
        (4_638_150, Writes, 576_560 * 512, 3072, None),
        (11_123_644, Reads, 0, 12_288, None),
    ];
    check(&disksim, &rows, &["30", "20"], &["30", "20"]);
    let mqsim = named("mqsim", MQSIM.as_bytes());
    let rows = [(0, Writes, 264_719_034 * 512, 8192, None), (315_000, Reads, 197_570_570 * 512, 8192, None)];
    check(&mqsim, &rows, &["4", "3"], &["4", "3"]);
    let ucare = named("ucare", UCARE.as_bytes());
    let rows = [(0, Writes, 200_626_176, 4096, None), (223_412_000, Reads, 3_159_347_200, 100, None)];
    check(&ucare, &rows, &["trace"], &["trace"]);
    assert_eq!(
        read(MQSIM.as_bytes()).unwrap_err().to_string(),
        "trace: the content does not tell which format this is\n  \
         expected: the name of its format, which could be: disksim, mqsim, ucare\n  \
         the beginning of this file would be, as\n    \
         disksim: 2 requests of 16384 bytes (half at most 8192) in 315.000000 s, up to byte 135536153600\n    \
         mqsim: 2 requests of 16384 bytes (half at most 8192) in 0.000315 s, up to byte 135536153600\n    \
         ucare: 2 requests of 32 bytes (half at most 16) in 315.000000 s, up to byte 264719050\n\n\
         hint: name it with --format; `ioweir doc format NAME` describes each"
    );
}

#[test]
fn flashnet_is_put_in_the_order_of_submission() {
    let rows = [
        (0, Reads, 4_923_392, 4096, Some(146_000)),
        (1_000, Reads, 4_923_392, 4096, Some(120_000)),
        (1_000_061_000, Writes, 0, 524_288, Some(1_003_000)),
    ];
    check(&text(FLASHNET), &rows, &["trace"], &["trace"]);
}

#[test]
fn think_times_begin_at_completions() {
    let rows = [
        (0, Reads, 1_975_456 * 512, 2048, Some(15_362_000)),
        (71_436_000, Writes, 265_552 * 512, 1024, Some(14_901_000)),
        (91_094_708, Reads, 4096, 512, Some(1_500)),
    ];
    check(&text(MEASURED), &rows, &["trace"], &["trace"]);
}

#[test]
fn biotracer_has_the_unit_that_is_named() {
    for (name, unit) in [("biotracer-s", 1_000_000_000), ("biotracer-us", 1_000), ("biotracer-ns", 1)] {
        let rows =
            [(0, Reads, 1 << 20, 4096, Some(1_000 * unit)), (200 * unit, Writes, 2 << 20, 8192, Some(700 * unit))];
        check(&named(name, BIOTRACER.as_bytes()), &rows, &["trace"], &["trace"]);
    }
}

#[test]
fn biosnoop_times_are_those_of_completion() {
    let read = text(BIOSNOOP);
    // Begun at -0.84 ms, -0.80 ms and 0.10 ms.
    let rows = [
        (0, Writes, 13_092_560 * 512, 4096, Some(840_000)),
        (40_000, Reads, 13_092_568 * 512, 512, Some(900_000)),
        (940_000, Flush, 0, 0, Some(100_000)),
    ];
    check(&read, &rows, &["1950 supervise", "1951 kworker/u 8", "1952 jbd2"], &["xvda1", "xvda2"]);
    let rows = [(0, Writes, 13_092_560 * 512, 4096, Some(740_000))];
    check(&text(BIOSNOOP_WITHOUT_QUEUE), &rows, &["1950 supervise"], &["xvda1"]);
}

#[test]
fn objects_are_sectors() {
    let samples = others();
    let sample = |name: &str| samples.iter().find(|(known, _)| *known == name).unwrap().1.clone();
    let rows = [(0, Reads, 4096, 512, None), (0, Reads, 8192, 4096, None), (2_000_000_000, Reads, 4096, 512, None)];
    check(&named("oracle-general", &sample("oracle-general")), &rows, &["trace"], &["trace"]);
    let writes = rows.map(|row| (row.0, Writes, row.2, row.3, None));
    check(&named("oracle-general-opns", &sample("oracle-general-opns")), &writes, &["ns2"], &["ns2"]);
    let rows = [(0, Reads, 4096, 512, None), (2_000_000_000, Writes, 8192, 4096, None)];
    check(&read(&lcs()).unwrap(), &rows, &["trace"], &["trace"]);
    let hashed = oracle(1, u64::MAX / 2, 1, None, -1);
    assert_eq!(
        read_as("oracle-general", &hashed, false).unwrap_err().to_string(),
        "trace: record 1 at byte 0: object 9223372036854775807 is too large for a sector\n  \
         expected: the number of a 512-byte sector\n\n\
         hint: a trace of hashed objects has no places on a disk"
    );
}

#[test]
fn a_damaged_lcs_header_is_told() {
    let with = |place: usize, byte: u8| {
        let mut bytes = lcs();
        bytes[place] = byte;
        read_as("lcs", &bytes, false).unwrap_err().to_string()
    };
    assert!(with(1016, 0).contains("does not begin and end with the magic number"));
    assert!(with(8, b'>').contains("not little-endian"));
    assert!(with(9, b'x').contains("type `x` is not known"));
    assert!(with(1004, 0).contains("the length of a record is not the sum of its fields"));
    assert!(with(250, 3).contains("the field of the time is number 3"));
    assert!(with(248, 6).contains("the field of the object is number 6"));
}

#[test]
fn bunches_of_several_processors_are_one_trace() {
    let one = btrecord(&[(1_000, &[(8, 4096, true), (16, 512, false)]), (3_000, &[(0, 4096, false)])], false);
    let two = btrecord(&[(2_000, &[(64, 512, true)])], true);
    let inputs = vec![Input::from_bytes("sda.replay.0", one), Input::from_bytes("sda.replay.1", two)];
    let rows = [
        (0, Reads, 4096, 4096, None),
        (0, Writes, 8192, 512, None),
        (1_000, Reads, 32_768, 512, None),
        (2_000, Writes, 0, 4096, None),
    ];
    check(&read_inputs(inputs, &ReadOptions::default()).unwrap(), &rows, &["sda.replay"], &["sda.replay"]);
}

#[test]
fn a_btrecord_file_holds_what_its_header_promises() {
    let whole = btrecord(&[(1_000, &[(8, 4096, true)]), (2_000, &[(8, 4096, true)])], false);
    let cut = &whole[..whole.len() - 40];
    assert_eq!(
        read(cut).unwrap_err().to_string(),
        "trace: record 3 at byte 72: the file ends after 1 bunches and 1 packets\n  \
         expected: 2 and 2, as its header says"
    );
    let lenient = read_as("btrecord", cut, true).unwrap();
    assert_eq!((lenient.records.len(), lenient.skipped), (1, 1));
}

#[test]
fn srt_tells_disks_and_who_waited() {
    let bytes = srt(&[[0, 174, 19_687, 4096, 1056, 1, 0x1b], [30, 0, 5, 512, 8, 0, 0x0100_0000]]);
    let read = read(&bytes).unwrap();
    let rows = [(0, Reads, 1056 * 512, 4096, Some(19_687_000)), (29_999_826_000, Writes, 4096, 512, Some(5_000))];
    check(&read, &rows, &["disk1", "disk0"], &["disk1", "disk0"]);
    assert_eq!(read.records[1].flags, Flags::SYNC);
}

#[test]
fn octf_queues_are_one_trace() {
    let options = ReadOptions { latency: true, ..ReadOptions::default() };
    let tar = read_inputs(vec![Input::from_bytes("octf.tar", octf_tar())], &options).unwrap();
    let rows = [
        (0, Writes, 4096, 4096, Some(60)),
        (50, Flush, 0, 0, None),
        (100, Reads, 8192, 4096, Some(90)),
        (110, Discard, 0, 1 << 20, None),
    ];
    check(&tar, &rows, &["class 19", "class 2"], &["nvme0n1"]);
    assert_eq!(tar.records[0].flags, Flags::FUA);
    let files = octf_queues().map(|queue| Input::from_bytes("octf.trace.0", queue));
    assert_eq!(read_inputs(files.to_vec(), &options).unwrap(), tar);
}

#[test]
fn a_damaged_tar_is_told() {
    let whole = octf_tar();
    let mut damaged = whole.clone();
    // In the header of the last file.
    let place = damaged.windows(14).rposition(|name| name == b"t/octf.trace.1").unwrap();
    damaged[place] = b's';
    let error = read_as("octf", &damaged, false).unwrap_err().to_string();
    assert!(error.contains("a header of the archive is damaged"), "{error}");
    let lenient = read_as("octf", &damaged, true).unwrap();
    assert_eq!((lenient.records.len(), lenient.skipped), (2, 1));
    let error = read_as("octf", &whole[..place + 520], false).unwrap_err().to_string();
    assert!(error.contains("cut short"), "{error}");
}

#[test]
fn newer_ftrace_event_has_its_priority() {
    let read = |said: &str| {
        let line = format!("dd-7 [001] ..... 1.5: block_rq_issue: 8,0 W 4096 () 80 + 8{said} [dd]\n");
        let options = ReadOptions { event: Event::Issue, ..ReadOptions::default() };
        read_inputs(vec![Input::from_bytes("trace", line.into_bytes())], &options).map(|read| read.records[0].priority)
    };
    let priority = |class, level| Priority::new(class, level).unwrap();
    assert_eq!(read(" be,0,4"), Ok(priority(PriorityClass::BestEffort, 4)));
    assert_eq!(read(" rt,3,0"), Ok(priority(PriorityClass::Realtime, 0)));
    assert_eq!(read(" idle,0,7"), Ok(priority(PriorityClass::Idle, 7)));
    assert_eq!(read(" none,0,0"), Ok(Priority::NONE));
    assert_eq!(read(""), Ok(Priority::NONE));
    for unknown in ["be,0,8", "best,0,4", "be,4", "be,0,4,1", "be,x,4"] {
        let error = read(&format!(" {unknown}")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("trace:1:60: priority `{unknown}` is not known")), "{error}");
    }
}
