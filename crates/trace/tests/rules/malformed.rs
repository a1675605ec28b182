//! Input that is not what it claims to be: an error that says where and what, never a panic, never silence.

use std::io::Write;

use ioweir_trace::{self as trace, Input, ReadOptions};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::support::*;
use crate::{fixtures, reading};

#[test]
fn every_prefix_is_read_or_refused() {
    for (name, bytes) in samples() {
        for length in 0..bytes.len() {
            for lenient in [false, true] {
                let _ = read_as(name, &bytes[..length], lenient);
            }
            let _ = read(&bytes[..length]);
        }
    }
}

#[test]
fn binary_trace_cut_in_record_is_refused() {
    for (name, bytes) in samples() {
        let binary =
            ["blktrace", "vscsi", "parquet", "oracle-general", "oracle-general-opns", "lcs", "btrecord", "hp-srt"];
        if !binary.contains(&name) && bytes != fixtures::octf_queues()[0] {
            continue;
        }
        assert!(read_as(name, &bytes[..bytes.len() - 1], false).is_err(), "{name}");
        if name != "parquet" {
            assert_eq!(read_as(name, &bytes[..bytes.len() - 1], true).unwrap().skipped, 1, "{name}");
        }
    }
}

#[test]
fn damaged_bytes_are_read_or_refused() {
    let mut random = Pcg64::seed_from_u64(17);
    let mut below = |limit: usize| usize::try_from(random.next_u64() % limit as u64).unwrap();
    for (name, bytes) in samples() {
        let cases = if name == "parquet" { 1_000 } else { 3_000 };
        for case in 0..cases {
            let mut damaged = bytes.clone();
            for _ in 0..=below(3) {
                let place = below(damaged.len());
                damaged[place] =
                    if case % 2 == 0 { damaged[place] ^ (1 << below(8)) } else { u8::try_from(below(256)).unwrap() };
            }
            let _ = read_as(name, &damaged, case % 3 == 0);
        }
    }
}

#[test]
fn damaged_compression_is_read_or_refused() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(HADOOP.as_bytes()).unwrap();
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(HADOOP.as_bytes()).unwrap();
    let zstd = zstd::stream::encode_all(HADOOP.as_bytes(), 1).unwrap();
    for packed in [encoder.finish().unwrap(), zstd, bzip2.finish().unwrap(), reading::XZ.to_vec()] {
        for length in 6..packed.len() {
            assert!(read(&packed[..length]).is_err());
        }
        for place in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[place] ^= 0x10;
            let _ = read(&damaged);
        }
    }
}

#[test]
fn decompression_bomb_is_refused_at_long_line() {
    let bomb = zstd::stream::encode_all(&vec![b'1'; 64 << 20][..], 3).unwrap();
    assert!(bomb.len() < 10_000);
    let error = read_as("hadoop-csv", &bomb, true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "trace:1:65537: the line is longer than 65536 bytes\n  expected: lines of a text trace\n\n\
         hint: if the file is not text, name its format"
    );
}

#[test]
fn empty_input_is_an_error_in_every_format() {
    // Columns of one's own are not named here.
    for format in trace::FORMATS.iter().filter(|format| format.name != "columns") {
        let error = read_as(format.name, b"", false).unwrap_err().to_string();
        assert!(error.contains("empty") || format.name == "parquet", "{}: {error}", format.name);
    }
    assert_eq!(read(b"").unwrap_err().to_string(), "trace: the file is empty\n  expected: a trace");
}

#[test]
fn an_unknown_format_lists_the_known_ones() {
    let names: Vec<&str> = trace::FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(
        read(b"hello\n").unwrap_err().to_string(),
        "trace: the format is not recognised\n  \
         expected: one of: NAMES\n\n\
         hint: name it with --format if it is one of these, as its first lines may be damaged; say what the columns of another \
         text file are with --columns (`ioweir doc format columns`)"
            .replace("NAMES", &names.join(", "))
    );
}

/// Format, input, what is said.
const TEXTS: &[(&str, &str, &str)] = &[
    (
        "hadoop-csv",
        "time_s,pid,comm,op,lba,sectors,color\n",
        "trace:1:32: unknown column `color`\n  expected: time_s,pid,comm,op,lba,sectors",
    ),
    (
        "hadoop-csv",
        "time_s,pid,comm,op,lba\n",
        "trace:1:23: column `sectors` is missing\n  expected: time_s,pid,comm,op,lba,sectors",
    ),
    (
        "hadoop-csv",
        "time_s,pid,comm,op,lba,sectors\n1.5,7,x,R,8,-8\n",
        "trace:2:13: negative sectors `-8`\n  expected: sectors as a whole number in decimal digits",
    ),
    (
        "hadoop-csv",
        "time_s,pid,comm,op,lba,sectors\n1.5,7,x,R,eight,8\n",
        "trace:2:11: lba `eight` is not a number\n  expected: lba as a whole number in decimal digits",
    ),
    (
        "hadoop-csv",
        "time_s,pid,comm,op,lba,sectors\n1.5,7,x,R,99999999999999999999,8\n",
        "trace:2:11: lba `99999999999999999999` does not fit 64 bits\n  expected: lba as a whole number in decimal digits",
    ),
    (
        "hadoop-csv",
        "time_s,pid,comm,op,lba,sectors\n1.5,7,x,R,36028797018963967,8\n",
        "trace:2:11: lba 36028797018963967 + sectors 8 ends beyond 2^64 bytes\n  \
         expected: an extent that ends within 2^64 bytes",
    ),
    (
        "hadoop-csv",
        "time_s,pid,comm,op,lba,sectors\n1.5,7,x,R,8,8\n1.4,7,x,R,8,8\n",
        "trace:3:1: time runs backwards by 100000000 ns\n  expected: a time not before that of the record above\n\n\
         hint: sort the trace by time, or read leniently to leave such records out",
    ),
    (
        "hadoop-csv",
        "time_s,pid,comm,op,lba,sectors\n1.5,7,x,Q,8,8\n",
        "trace:2:9: operation `Q` is not known\n  \
         expected: [F] R, W, D, N or Z with a letter, then any of F, A, B, S, M, U: such as R, RA, WS, FWFSM",
    ),
    (
        "hadoop-csv",
        "time_s,pid,comm,op,lba,sectors\n1.5,7,x,R\n",
        "trace:2:10: the line has 4 columns\n  expected: time_s,pid,comm,op,lba,sectors",
    ),
    (
        "hadoop-csv",
        "time_s,pid,comm,op,lba,sectors\n1.1234567891,7,x,R,8,8\n",
        "trace:2:1: time_s `1.1234567891` is not a number of seconds\n  \
         expected: time_s as seconds with at most nine decimals, such as 12.000345",
    ),
    ("hadoop-csv", "time_s,pid,comm,op,lba,sectors\n", "trace: holds no requests"),
    (
        "msr-csv",
        "128166410318060999,wdev,1,Scribble,3165323264,4096,1189\n",
        "trace:1:27: Type `Scribble` is not known\n  expected: Read or Write",
    ),
    (
        "msr-csv",
        "128166410318060999,wdev,1,Write,18446744073709551615,4096,1189\n",
        "trace:1:33: Offset 18446744073709551615 + Size 4096 ends beyond 2^64 bytes\n  \
         expected: an extent that ends within 2^64 bytes",
    ),
    (
        "msr-csv",
        "Timestamp,Hostname,DiskNumber,Kind,Offset,Size,ResponseTime\n",
        "trace:1:31: unknown column `Kind`\n  \
         expected: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
    ),
    (
        "msr-csv",
        "184467440737095517,wdev,1,Write,0,4096,1189\n",
        "trace:1:1: Timestamp 184467440737095517 (units of 100 ns) does not fit 64 bits of nanoseconds",
    ),
    (
        "fio-iolog",
        "fio version 9 iolog\n",
        "trace:1:13: version `9 iolog` is not known\n  expected: `2 iolog` or `3 iolog`",
    ),
    (
        "fio-iolog",
        "fio version 3 iolog\n5 /dev/sda erase 0 512\n",
        "trace:2:12: action `erase` is not known\n  expected: `file action [offset length]` with read, write, trim, \
         sync, datasync, wait, add, open or close",
    ),
    (
        "fio-iolog",
        "fio version 3 iolog\n5 /dev/sda read 0 -512\n",
        "trace:2:19: negative length `-512`\n  expected: length as a whole number in decimal digits",
    ),
    (
        "blkparse",
        "  8,0    1        1     0.000000000  7  Q   R 8 - 8 [x]\n",
        "trace:1:49: `-` after the sector\n  expected: `+ sectors` or `[command]`",
    ),
    (
        "blkparse",
        "  8,0    1        1     0.000000000  7  Q   R 8 + 8 x]\n",
        "trace:1:52: `x]` after the extent\n  expected: `[command]`",
    ),
    (
        "blkparse",
        "hello\n",
        "trace:1:1: not an event: `hello`\n  expected: maj,min cpu sequence time pid action letters ...\n\n\
         hint: blkparse's default output is read; what its option -f prints is read with --columns, such as \
`time:s,event=D,op:letters,sector,sectors,pid,command` for -f \"%T.%t,%a,%d,%S,%n,%p,%C\\n\"",
    ),
    (
        "blkparse",
        "  8,0    1        1     0.000000000  7  C   R 8 + 8 [0]\n",
        "trace: the trace has 1 events but none of kind queue\n\n\
         hint: `--event complete` takes the completions as requests, at the time of their completion: without latencies, and \
         without the processes that asked",
    ),
];

#[test]
fn text_errors_say_place_problem_and_expectation() {
    for (format, input, expected) in TEXTS {
        let error = read_as(format, input.as_bytes(), false).unwrap_err();
        assert_eq!(error.to_string(), *expected);
    }
}

#[test]
fn errors_in_binary_say_record_and_byte() {
    let good = blktrace(&[Event::queue(10, READ, 8, 4096)], false);
    let cut = [&good[..], &good[..20]].concat();
    assert_eq!(
        read(&cut).unwrap_err().to_string(),
        "trace: record 2 at byte 48: the record is cut short: 20 bytes are left\n  \
         expected: 48 bytes and the payload whose length they tell\n\n\
         hint: the capture ended in mid-record: read leniently to leave the last one out"
    );
    let strange = [&good[..], &[0xff; 48][..]].concat();
    assert_eq!(
        read(&strange).unwrap_err().to_string(),
        "trace: record 2 at byte 48: the record starts with 0xffffffff\n  expected: 0x65617407"
    );
    let mut old = good.clone();
    old[0] = 6;
    assert_eq!(
        read(&old).unwrap_err().to_string(),
        "trace: record 1 at byte 0: version 6 is not known\n  expected: version 7"
    );
    let beyond = blktrace(&[Event::queue(10, READ, u64::MAX, 4096)], false);
    assert_eq!(
        read(&beyond).unwrap_err().to_string(),
        "trace: record 1 at byte 0: sector 18446744073709551615 lies beyond 2^64 bytes\n  \
         expected: an extent that ends within 2^64 bytes"
    );
    let unknown = [vscsi(1, 0x28, 7, 8, 512), vscsi(1, 0x2a, 8, 8, 512), vscsi(1, 0x12, 9, 8, 512)].concat();
    assert_eq!(
        read(&unknown).unwrap_err().to_string(),
        "trace: record 3 at byte 64: version 0x0100 with command 0x12\n  \
         expected: the version of the first record, and a command that reads or writes"
    );
    let back = [vscsi(1, 0x28, 7, 8, 512), vscsi(1, 0x2a, 6, 8, 512)].concat();
    assert_eq!(
        read(&back).unwrap_err().to_string(),
        "trace: record 2 at byte 32: time runs backwards by 1000 ns\n  \
         expected: a time not before that of the record above\n\n\
         hint: sort the trace by time, or read leniently to leave such records out"
    );
}

#[test]
fn what_is_later_than_the_window_is_refused() {
    let mut events: Vec<Event<'_>> = (1..=4_097).map(|time| Event::queue(time * 10, READ, 8, 512)).collect();
    events.push(Event::queue(10, READ, 8, 512));
    assert_eq!(read(&blktrace(&events, false)).unwrap().records.len(), 4_098);
    events.push(Event::queue(9, READ, 8, 512));
    assert_eq!(
        read(&blktrace(&events, false)).unwrap_err().to_string(),
        "trace: record 4099 at byte 196704: time runs backwards by 1 ns\n  \
         expected: a record at most 4096 records out of order\n\n\
         hint: sort the trace by time, or read leniently to leave such records out"
    );
}

#[test]
fn reading_leniently_skips_and_counts() {
    let text = HADOOP.replace("\n2.9,", "\nrubbish\n2.9,").replace("RA", "RX");
    assert!(read(text.as_bytes()).is_err());
    let lenient = read_as("hadoop-csv", text.as_bytes(), true).unwrap();
    assert_eq!((lenient.records.len(), lenient.skipped), (4, 2));

    let event = Event::queue(10, READ, 8, 4096).bytes(true);
    let rubbish = [&event[..], b"rubbish in between, longer than a record of forty-eight bytes", &event[..]].concat();
    let lenient = read_as("blktrace", &rubbish, true).unwrap();
    assert_eq!((lenient.records.len(), lenient.skipped), (2, 1));
}

#[test]
fn second_file_of_single_file_format_is_refused() {
    let inputs = vec![Input::from_bytes("one", MSR.into()), Input::from_bytes("two", MSR.into())];
    assert_eq!(
        read_inputs(inputs, &ReadOptions::default()).unwrap_err().to_string(),
        "two: a second file of one trace, but msr-csv is one file a trace\n\nhint: read the files one by one"
    );
}

#[test]
fn file_standing_for_a_trace_is_named() {
    let mut tar = vec![0; 1024];
    tar[..6].copy_from_slice(b"a.spc\0");
    tar[257..262].copy_from_slice(b"ustar");
    let files: [(&[u8], &str); 16] = [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:3d27\nsize 133050344\n",
            "trace: is a Git LFS pointer; the data of 133050344 bytes was not fetched",
        ),
        (b"/annex/objects/SHA256E-s1--ab.gz\n", "trace: is a git-annex pointer"),
        (
            b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title>",
            "trace: is a web page (`404 Not Found`), not a trace",
        ),
        (b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>", "trace: is an error message of a server (XML)"),
        (b"PK\x03\x04\x14\0\x01\0", "trace: cannot be read: it is an encrypted zip archive"),
        (b"PK\x05\x06\0\0\0\0", "trace: cannot be read: it is an empty zip archive"),
        (b"Salted__abcdefgh", "trace: is encrypted with openssl"),
        (b"-----BEGIN PGP MESSAGE-----\n", "trace: is encrypted with PGP"),
        (b"\x8c\x0d\x04\x09\x03\x02", "trace: is encrypted with PGP"),
        (b"\x85\x02\x0c\x03\x11", "trace: is encrypted with PGP"),
        (b"PERFILE2\0\0\0", "trace: is a recording of perf"),
        (b"\x17\x08Dtracing6\0", "trace: is a recording of trace-cmd"),
        (b"\xff\xfe8\0,\x000\0", "trace: is text in UTF-16"),
        (b"{\"message\":\"Not Found\",\"status\":\"404\"}", "trace: is a message of a server"),
        (b"404: Not Found", "trace: is a message of a server"),
        (&tar, "trace: is a tar archive, whose first file is `a.spc`"),
    ];
    for (bytes, expected) in files {
        let error = read(bytes).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        assert!(error.contains("hint: "), "{error}");
        let named = read_as("spc", bytes, true).unwrap_err().to_string();
        assert!(named.starts_with(expected), "{named}");
    }
}

#[test]
fn reports_of_averages_are_named_with_readers() {
    let reports: [(&[u8], &str); 4] = [
        (b"avg-cpu:  %user\n", "is a report of iostat or sar"),
        (b"\"Dstat 0.7.3 CSV output\"\n", "is a recording of dstat"),
        (b"<Results>\n<TimeSpan>\n", "is a result of diskspd"),
        (b"\nCommand Line: diskspd.exe -b4K\n", "is a result of diskspd"),
    ];
    for (bytes, expected) in reports {
        let error = read(bytes).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("`ioweir forecast`"), "{error}");
    }
}
