//! Small traces of the formats that other people's tools write, made after their descriptions.

pub(crate) const SYSTOR: &str = "\
Timestamp,Response,IOType,LUN,Offset,Size
1455592501.000000000,0.000250000,R,0,10737418240,4096
1455592500.999999000,,W,6,512,1536
1455592501.000000000,0.012000,W,0,0,65536
";

pub(crate) const ALIBABA: &str = "\
419,W,8792731648,16384,1577808000000046
725,R,59110326272,360448,1577808000000046
419,R,0,512,1577808000000045
";

pub(crate) const SPC: &str = "\
0,303567,3584,w,0.000000
1, 55590, 3072, W, 0.000001, 17, anything
0,303574,0,r,0.026214
1,8,100,R,1.5000000009
";

pub(crate) const TENCENT: &str = "\
1538323200,12910952,128,0,1063
1538323200,6338688,8,1,1627
1538323201,512,8,1,1063
";

pub(crate) const FIU: &str = "\
89968195792462 20782 gzip 283193184 8 R 6 0 56f11b71
89968195792470 20782 ki worker/0:1 283193192 16 W 8 1 56f11b71 56f11b72
89968195792466 1 R 0 8 W 6 0
";

pub(crate) const DISKIO: &str = "\
QD/I - Number of outstanding IOs at IO start time.

   IO Type, Start Time,   End Time,    IO Time,  Disk SrvT,    IO Size,  Byte Offset,  Pri, QD/I, QD/C,     Process Name ( PID), Disk, Filename
 DiskWrite,      13044,      13253,        209,        209, 0x00010000, 0x00b9523000,    3,    0,    0,           System (   4),    0, C:\\a,b.etl
  DiskRead,      13304,      13686,        382,        382, 0x00001000, 0x00b9533000,    3,    0,    0,       my db.exe (5151),    1, C:\\db
 DiskFlush,      13728,      13901,        173,        173,           ,             ,    3,    0,    0,       my db.exe (5151),    1, \"C:\\db\"
";

pub(crate) const ETW: &str = "\
BeginHeader
DiskRead, TimeStamp,     Process Name ( PID),   ThreadID,   CPU,  IrpPtr,   ByteOffset,     IOSize, ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri,  VolSnap,  FileObject, FileName
DiskWrite, TimeStamp,     Process Name ( PID),   ThreadID,  IrpPtr,   ByteOffset,     IOSize, ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri,  VolSnap,  FileObject, FileName
DiskFlush, TimeStamp,     Process Name ( PID),   ThreadID,  IrpPtr,   ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri
DiskReadInit, TimeStamp,     Process Name ( PID),   ThreadID,  IrpPtr
CSwitch, TimeStamp, New Process Name ( PID)
EndHeader
OS Version: 6.0.6001, Trace Size: 11 KB
           DiskReadInit,      30, System (   4),  12, 0xfa
               DiskRead,     130, System (   4),  12,  1, 0xfa, 0x0000001000, 0x00002000, 100, 0, 0x43, 90, 3, Original, 0xfb, \"C:\\a, b.dat\"
              DiskWrite,     140, sql (x) serv.exe (1234),  12, 0xfa, 0x200, 0x200, 250, 1, 0x43, 90, 3, Original, 0xfb, \"C:\\c\"
                CSwitch,     141, Idle (   0)
              DiskFlush,     150, Unknown ( -1),  12, 0xfa, 20, 0, 0x43, 20, 3
";

pub(crate) const WPA: &str = "\
IO Type;Priority;Process (Name);Init Time (s);Complete Time (s);IO Time (us);Disk Service Time (us);Size (B);Min Offset;Max Offset;QD/I - Queue Depth at Init Time;QD/C - Queue Depth at Complete Time;Disk;Count
Read;Normal;System;1,079943800;1,080031000;87,200;87,200;512;0x0000000000000000;0x00000000000001FF;0;0;1;1
Write;Very Low;sql server.exe;1,080116400;1,080275600;1.159,200;159,200;16.384;0x0000000000000400;0x00000000000043FF;0;0;1;1
Flush;Normal;System;1,080116500;1,080275600;159,200;159,200;0;0xFFFFFFFFFFFFFFFF;0xFFFFFFFFFFFFFFFF;0;0;2;1
";

/// Requests like these, from a machine whose numbers have decimal points.
pub(crate) const WPA_POINTS: &str = "\
Disk,IO Type,Process (Name),Init Time (s),IO Time (us),Size (B),Min Offset
1,Read,System,1.079943800,87.200,512,0x0000000000000000
1,Write,sql server.exe,1.080116400,\"1,159.200\",\"16,384\",0x0000000000000400
2,Flush,System,1.080116500,159.200,0,0xFFFFFFFFFFFFFFFF
";

pub(crate) const THESIOS: &str = "\
filename,file_offset,application,c_time,io_zone,redundancy_type,op_type,service_class,from_flash_cache,cache_hit,request_io_size_bytes,disk_io_size_bytes,response_io_size_bytes,start_time,disk_time,simulated_disk_start_time,simulated_latency
d206,2453358,bigtable,1705305576,WARM,REPLICATED,WRITE,THROUGHPUT_ORIENTED,0,-1,3390,3390,0,1705305600.015989780,0.000000000,0.000000000,0.000124652
0c44,7354368,4aed,1705167112,WARM,REPLICATED,READ,LATENCY_SENSITIVE,0,0,1050624,1052672,1050624,1705305600.019597054,0.004239065,1705305600.019604445,0.004246402
d206,0,bigtable,1705305576,WARM,REPLICATED,READ,LATENCY_SENSITIVE,0,1,512,0,512,1705305600.019597054,0.000000000,0.000000000,0.000000001
";

pub(crate) const FTRACE: &str = "\
# tracer: nop
#
         python3-1928    [001] .....  2541.040392: block_bio_queue: 7,3 RM 69896 + 8 [python3]
         python3-1928    [001] d..1.  2541.040424: block_rq_insert: 7,3 RM 4096 () 69896 + 8 be,0,4 [python3]
 my-comm [x] (y)-77      (     70) [000] .....  2541.040425: block_bio_queue: 7,3 WS 80 + 16 [my-comm [x] (y)]
         python3-1928    [001] .....  2541.040430: block_rq_issue: 7,3 RM 4096 () 69896 + 8 [python3]
     ksoftirqd/1-22      [001] ..s..  2541.040456: block_rq_complete: 7,3 RM () 69896 + 8 be,0,4 [0]
    kworker/0:0H-10      [000] .....  2541.069957: block_rq_issue: 7,3 FF 0 () 0 + 0 none,0,0 [kworker/0:0H]
     ksoftirqd/0-14      [000] ..s..  2541.074901: block_rq_complete: 7,3 FF () 18446744073709551615 + 0 none,0,0 [0]
         sg_inq-5        [000] .....  2541.074902: block_rq_issue: 7,3 N 36 (12 00 00 00 24 00) 0 + 0 [sg_inq]
         python3-1928    [001] .....  2541.074903: block_split: 7,3 R 0 / 8 [python3]
         python3-1928    [001] .....  2541.074904: block_bio_queue: 7,3 FWS 0 + 0 [python3]
";

/// The output of perf script for these events.
pub(crate) const PERF: &str = "\
         python3    1928 [001]  2541.040392: block:block_bio_queue: 7,3 RM 69896 + 8 [python3]
 my-comm [x] (y) 70/77   [000]  2541.040425123: block:block_bio_queue: 7,3 WS 80 + 16 [my-comm [x] (y)]
";

pub(crate) const TRACE_CMD: &str = "\
cpus=2
         python3-1928  [001]  2541.040392: block_bio_queue:      7,3 RM 69896 + 8 [python3]
";

pub(crate) const BLKREPLAY: &str = "\
Copyright somebody

PLEASE keep this
start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0
      0.000000000 ;     49339162 ;    3 ; W ; 0.0 ; 0.0

PLEASE keep this
start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0
      1.323841531 ;     12860602 ;    6 ; RA ; 0.000001 ; 0.000250000
      1.323841530 ;     12860602 ;    6 ; R ; 0.0 ; 0.0
";

pub(crate) const DISKSIM: &str = "\
13.191135\t30\t0\t5\t1
17.829285\t20\t576560\t6\t20
24.314779 20 0 24 D
";

pub(crate) const MQSIM: &str = "\
938513000 4 264719034 16 0
938828000 3 197570570 16 1
";

pub(crate) const UCARE: &str = "\
0.000 0 200626176 4096 0
223.412 0 3159347200 100 1
";

pub(crate) const FLASHNET: &str = "\
0.000,120,1,4096,4923392,0.092,4096
0.000,146,1,4096,4923392,0.091,4096
1000.000,1003,0,524288,0,1000.152,524288
";

pub(crate) const MEASURED: &str = "\
R Hit    1975456   4  15362.00000  56074.00000
W Miss 265552 2 14901.000000 4757.708932
R Hit 8 1 1.5 0
";

pub(crate) const BIOTRACER: &str = "\
2048 8 4096 0 1000 1500 1600 2000
4096 24 8192 5 1200 1200 1300 1900
";

pub(crate) const BIOSNOOP: &str = "\
TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)
0.000000    supervise      1950    xvda1     W 13092560   4096      0.10    0.74
0.000100    kworker/u 8    1951    xvda1     R 13092568   512       0.00    0.90
0.000200    jbd2           1952    xvda2     W 18446744073709551615 0 0.00 0.10
";

pub(crate) const IOSNOOP: &str = "Tracing block I/O. Ctrl-C to end.
STARTs          ENDs            COMM         PID    TYPE DEV      BLOCK        BYTES     LATms
5982800.302061  5982800.302679  my db        30505  R    202,1    12862264     4096       0.62
5982800.302423  5982800.302842  jbd2/xvda-8  340    FWS  202,1    6610424      8192       0.42
";

pub(crate) const FIO_LATENCY: &str = "0, 500000, 0, 4096, 8192
3, 1200000, 1, 4096, 0, 0
";

pub(crate) const BIOSNOOP_WITHOUT_QUEUE: &str = "\
TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)
0.000004    supervise      1950   xvda1   W 13092560   4096       0.74
";

/// libCacheSim records, with and without operation and name space.
pub(crate) fn oracle(time: u32, object: u64, size: u32, operation: Option<(u8, u16)>, next: i64) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&time.to_le_bytes());
    out.extend_from_slice(&object.to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    if let Some((operation, space)) = operation {
        out.push(operation);
        out.extend_from_slice(&space.to_le_bytes());
    }
    out.extend_from_slice(&next.to_le_bytes());
    out
}

/// An LCS file of records with time, object, size and operation, and a field of floating point that nobody reads.
pub(crate) fn lcs() -> Vec<u8> {
    let mut header = vec![0; 1024];
    header[..8].copy_from_slice(&0x1234_5678_9abc_def0_u64.to_le_bytes());
    header[8..14].copy_from_slice(b"<IQfiB");
    header[248..251].copy_from_slice(&[2, 4, 1]);
    header[253] = 5;
    header[1004..1008].copy_from_slice(&21_u32.to_le_bytes());
    header[1016..].copy_from_slice(&0x1234_5678_9abc_def0_u64.to_le_bytes());
    for (time, object, size, operation) in [(7_u32, 8_u64, 512_i32, 1_u8), (9, 16, 4096, 3)] {
        header.extend_from_slice(&time.to_le_bytes());
        header.extend_from_slice(&object.to_le_bytes());
        header.extend_from_slice(&1.5_f32.to_le_bytes());
        header.extend_from_slice(&size.to_le_bytes());
        header.push(operation);
    }
    header
}

/// A time, and its packets: sector, bytes, and whether the packet reads.
pub(crate) type Bunch<'a> = (u64, &'a [(u64, u64, bool)]);

/// A btrecord file.
pub(crate) fn btrecord(bunches: &[Bunch<'_>], big: bool) -> Vec<u8> {
    let packets: usize = bunches.iter().map(|(_, packets)| packets.len()).sum();
    let mut out = Vec::new();
    let mut put = |number: u64| out.extend(if big { number.to_be_bytes() } else { number.to_le_bytes() });
    for number in [0x0903, bunches.first().map_or(0, |bunch| bunch.0), bunches.len() as u64, packets as u64] {
        put(number);
    }
    for (time, packets) in bunches {
        put(packets.len() as u64);
        put(*time);
        for (sector, bytes, reads) in *packets {
            put(*sector);
            put(*bytes);
            // The direction is four bytes, and four more that fill up.
            put(if big { u64::from(*reads) << 32 } else { u64::from(*reads) });
        }
    }
    out
}

/// An SRT file of requests: seconds, microseconds, latency, bytes, sector, disk, flags.
pub(crate) fn srt(requests: &[[u32; 7]]) -> Vec<u8> {
    let mut out = b"$$TR_IOREC-1.3 (test)\nversion = 1.3;\n\x0c".to_vec();
    let other = [56, 4 << 16 | 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let records = requests.iter().map(|[seconds, micros, latency, bytes, sector, disk, flags]| {
        [56, 4 << 16 | 1, *seconds, *micros, 5, *latency, *bytes, *sector, 8 << 24 | disk << 8 | 7, 4, 1, *flags, 0, 1]
    });
    for record in std::iter::once(other).chain(records) {
        out.extend(record.iter().flat_map(|word: &u32| word.to_be_bytes()));
    }
    out
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}

/// A message with these numbers as its fields, from 1 on; zeros are left out, as writers do.
fn numbers(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, value) in (1..).zip(values).filter(|(_, value)| **value != 0) {
        varint(number << 3, &mut out);
        varint(*value, &mut out);
    }
    out
}

fn part(number: u64, bytes: &[u8], out: &mut Vec<u8>) {
    varint(number << 3 | 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// A message of an OCTF queue, with its length before it: its number and time, the kind of its body, and the body.
fn message(number: u64, time: u64, kind: u64, body: &[u8]) -> Vec<u8> {
    let mut inside = Vec::new();
    part(1, &numbers(&[number, time]), &mut inside);
    part(kind, body, &mut inside);
    let mut out = Vec::new();
    varint(inside.len() as u64, &mut out);
    out.extend(inside);
    out
}

fn device() -> Vec<u8> {
    let mut out = numbers(&[77]);
    part(2, b"nvme0n1", &mut out);
    out
}

/// Two OCTF queues: requests of both interleave, and one identity comes twice.
pub(crate) fn octf_queues() -> [Vec<u8>; 2] {
    // Fields of a request: lba, length, class, device, operation, flush, fua, none, identity.
    let request = |values: [u64; 9]| numbers(&values);
    let done = |id| numbers(&[8, 8, 0, 77, id]);
    let one = [
        message(1, 100, 3, &device()),
        message(2, 200, 2, &request([8, 8, 19, 77, 2, 0, 1, 0, 5])),
        message(4, 260, 5, &done(5)),
        message(5, 300, 2, &request([16, 8, 19, 77, 1, 0, 0, 0, 5])),
        message(7, 390, 5, &done(5)),
    ];
    let two = [
        message(1, 100, 3, &device()),
        message(3, 250, 2, &request([0, 0, 2, 77, 2, 1, 0, 0, 6])),
        message(6, 310, 2, &request([0, 2048, 2, 77, 3, 0, 0, 0, 7])),
        message(8, 400, 4, b""),
    ];
    [one.concat(), two.concat()]
}

/// The files of a tar.
pub(crate) fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, bytes) in files {
        let mut header = [0_u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[136..147].copy_from_slice(b"00000000000");
        header[148..156].copy_from_slice(b"        ");
        header[156] = b'0';
        header[257..263].copy_from_slice(b"ustar\0");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(bytes);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

pub(crate) fn octf_tar() -> Vec<u8> {
    let [one, two] = octf_queues();
    tar(&[("t/octf.summary", b"{}"), ("t/octf.trace.0", &one), ("t/octf.trace.1", &two)])
}

/// A whole trace of each format here, in the order of the corpus.
pub(crate) fn others() -> Vec<(&'static str, Vec<u8>)> {
    let objects = |operation: Option<(u8, u16)>| {
        [oracle(7, 8, 512, operation, 2), oracle(7, 16, 4096, operation, -1), oracle(9, 8, 512, operation, -1)].concat()
    };
    let bunches: [Bunch<'_>; 2] = [(1_000, &[(8, 4096, true), (16, 512, false)]), (2_000, &[(0, 4096, false)])];
    vec![
        ("systor-csv", SYSTOR.into()),
        ("alibaba-csv", ALIBABA.into()),
        ("spc", SPC.into()),
        ("tencent-csv", TENCENT.into()),
        ("tencent-csv-bytes", TENCENT.into()),
        ("fiu", FIU.into()),
        ("etw-csv", ETW.into()),
        ("xperf-diskio", DISKIO.into()),
        ("wpa-csv", WPA.into()),
        ("wpa-csv", WPA_POINTS.into()),
        ("thesios-csv", THESIOS.into()),
        ("ftrace", FTRACE.into()),
        ("ftrace", PERF.into()),
        ("ftrace", TRACE_CMD.into()),
        ("blkreplay", BLKREPLAY.into()),
        ("disksim", DISKSIM.into()),
        ("mqsim", MQSIM.into()),
        ("ucare", UCARE.into()),
        ("flashnet-csv", FLASHNET.into()),
        ("disksim-measured", MEASURED.into()),
        ("biotracer-s", BIOTRACER.into()),
        ("biotracer-us", BIOTRACER.into()),
        ("biotracer-ns", BIOTRACER.into()),
        ("biosnoop", BIOSNOOP.into()),
        ("biosnoop", BIOSNOOP_WITHOUT_QUEUE.into()),
        ("iosnoop", IOSNOOP.into()),
        ("fio-latency", FIO_LATENCY.into()),
        ("oracle-general", objects(None)),
        ("oracle-general-opns", objects(Some((3, 2)))),
        ("lcs", lcs()),
        ("btrecord", btrecord(&bunches, false)),
        ("btrecord", btrecord(&bunches, true)),
        ("hp-srt", srt(&[[0, 174, 19_687, 4096, 1056, 1, 0x1b], [30, 0, 5, 512, 8, 0, 0x0100_0000]])),
        ("octf", octf_tar()),
        ("octf", octf_queues()[0].clone()),
    ]
}
