//! Damage in other people's formats: the error says where, what, and what was expected.

use crate::support::read_as;

/// Format, input, what is said.
const TEXTS: &[(&str, &str, &str)] = &[
    (
        "systor-csv",
        "Timestamp,Response,IOType,LUN,Offset,Size\n1455592500.5,,,6,512,1536\n",
        "trace:2:15: IOType is empty: no response was seen, so the direction is not known\n  expected: R or W\n\nhint: read leniently to leave such lines out",
    ),
    (
        "systor-csv",
        "Timestamp,Answer\n",
        "trace:1:11: unknown column `Answer`\n  expected: Timestamp,Response,IOType,LUN,Offset,Size",
    ),
    (
        "alibaba-csv",
        "419,X,8792731648,16384,1577808000000046\n",
        "trace:1:5: opcode `X` is not known\n  expected: R or W",
    ),
    (
        "spc",
        "0,36028797018963968,512,R,0.5\n",
        "trace:1:3: LBA 36028797018963968 + Size 512 ends beyond 2^64 bytes\n  expected: an extent that ends within 2^64 bytes",
    ),
    ("spc", "0,8,512,R\n", "trace:1:10: the line has 4 columns\n  expected: ASU,LBA,Size,Opcode,Timestamp,..."),
    (
        "tencent-csv",
        "1538323200,8,8,2,1063\n",
        "trace:1:16: IOType `2` is not known\n  expected: 0 for a read or 1 for a write",
    ),
    (
        "fiu",
        "8996 20782 gzip 283193184 8 X 6 0 56f1\n",
        "trace:1:1: the line has no lba size operation major minor after its process\n  expected: time pid process lba size operation major minor ...",
    ),
    (
        "etw-csv",
        "BeginHeader\nDiskRead, TimeStamp\n",
        "trace:2:20: column `Process Name` is missing\n  expected: a heading with TimeStamp, Process Name, ElapsedTime, DiskNum, ByteOffset, IOSize",
    ),
    (
        "etw-csv",
        "BeginHeader\nEndHeader\nDiskRaed, 1, System (4)\n",
        "trace:3:1: the header names no event `DiskRaed`\n  expected: an event that the header names",
    ),
    (
        "wpa-csv",
        "IO Type;Process (Name);Init Time (s);IO Time (us);Size (B);Min Offset;Disk\nRead;System;107;87,2;512;0x0;1\n",
        "trace:2:13: Init Time `107` has no decimals\n  expected: seconds with decimals, such as 1.079943800 or 1,079943800",
    ),
    (
        "thesios-csv",
        "filename,file_offset\n",
        "trace:1:21: column `application` is missing\n  expected: a heading with filename, file_offset, application, op_type, service_class, request_io_size_bytes, start_time, simulated_latency",
    ),
    (
        "ftrace",
        " a-1 [000] ..... 25.5: block_bio_queue: 7,3 R 8 - 8 [a]\n",
        "trace:1:49: `-` after the sector\n  expected: `+ sectors`",
    ),
    (
        "ftrace",
        "hello\n",
        "trace:1:1: not an event: `hello`\n  expected: command-pid [cpu] flags seconds: event: arguments",
    ),
    (
        "blkreplay",
        "start ; sector\n1.0 ; 8 ; 8 ; X ; 0.0 ; 0.0\n",
        "trace:2:15: op `X` is not known\n  expected: R or W",
    ),
    (
        "disksim",
        "1.5 0 8 8 q\n",
        "trace:1:11: flags `q` is not a hexadecimal number of 64 bits\n  expected: flags in hexadecimal digits, such as 0x1f00",
    ),
    (
        "mqsim",
        "1.5 0 8 8 1\n",
        "trace:1:1: time `1.5` is not a number\n  expected: time as a whole number in decimal digits",
    ),
    ("ucare", "1.5 0 8 8 2\n", "trace:1:11: type `2` is not known\n  expected: 1 for a read or 0 for a write"),
    (
        "flashnet-csv",
        "0.000,120,1,4096,0,0.1,512\n",
        "trace:1:24: the drive returned 512 bytes of 4096\n  expected: a request that was served in full\n\nhint: read leniently to leave failed requests out",
    ),
    (
        "disksim-measured",
        "R Hut 8 1 1.5 0\n",
        "trace:1:3: cache `Hut` is not known\n  expected: Hit or Miss or Doub or Trip",
    ),
    (
        "biotracer-ns",
        "8 8 4096 2 1 1 1 1\n",
        "trace:1:10: flags `2` is not known\n  expected: 0 for a read or 1 for a write or 4 for a read or 5 for a write",
    ),
    ("biotracer-ns", "8 8 4096 1 9 1 1 1\n", "trace:1:18: the request was done before it was created"),
    (
        "biosnoop",
        "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.1 x 7 sda R 8 512\n",
        "trace:2:1: not a request: `0.1 x 7 sda R 8 512`\n  expected: TIME(s) COMM PID DISK T SECTOR BYTES [P] [QUE(ms)] LAT(ms)",
    ),
    (
        "biosnoop",
        "TIME COMM\n",
        "trace:1:10: the line has 2 columns\n  expected: TIME(s) COMM PID DISK T SECTOR BYTES [P] [QUE(ms)] LAT(ms)",
    ),
];

#[test]
fn errors_say_where_what_and_what_was_expected() {
    for (format, input, expected) in TEXTS {
        let error = read_as(format, input.as_bytes(), false).unwrap_err();
        assert_eq!(error.to_string(), *expected);
    }
}

/// Lines that are out of order by more than the window are refused, whatever the reason that they are out of order at all.
#[test]
fn a_line_later_than_the_window_is_refused() {
    let mut text: String = (1..=4097).map(|time| format!("{time}.0,1,1,512,0,{time}.5,512\n")).collect();
    text.push_str("0,1,1,512,0,1.5,512\n");
    assert_eq!(read_as("flashnet-csv", text.as_bytes(), false).unwrap().records.len(), 4098);
    text.push_str("0,1,1,512,0,1.4,512\n");
    let error = read_as("flashnet-csv", text.as_bytes(), false).unwrap_err().to_string();
    assert!(error.starts_with("trace:4099:1: time runs backwards by 100000 ns"), "{error}");
    assert_eq!(read_as("flashnet-csv", text.as_bytes(), true).unwrap().skipped, 1);
}
