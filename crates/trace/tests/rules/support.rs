//! Builders of small traces, and where the samples lie.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::fixtures;
use ioweir_trace::{self as trace, Input, Names, ReadOptions, Record, TraceError};

/// A trace read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) records: Vec<Record>,
    pub(crate) names: Names,
    pub(crate) epoch: Option<i128>,
    pub(crate) skipped: u64,
}

pub(crate) fn read_inputs(inputs: Vec<Input>, options: &ReadOptions) -> Result<Read, TraceError> {
    let mut source = trace::open_inputs(inputs, options)?;
    let (mut records, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.read_batch(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        assert!(batch.len() <= trace::BATCH_RECORDS);
        records.extend_from_slice(&batch);
    }
    let names = source.names().clone();
    Ok(Read { records, names, epoch: source.epoch_unix_nanos(), skipped: source.skipped() })
}

pub(crate) fn read_as(format: &str, bytes: &[u8], lenient: bool) -> Result<Read, TraceError> {
    let options = ReadOptions { format: trace::format(format), lenient, ..ReadOptions::default() };
    read_inputs(vec![Input::from_bytes("trace", bytes.to_vec())], &options)
}

pub(crate) fn read(bytes: &[u8]) -> Result<Read, TraceError> {
    read_inputs(vec![Input::from_bytes("trace", bytes.to_vec())], &ReadOptions::default())
}

pub(crate) fn read_path(path: &Path) -> Read {
    let groups = trace::group(&[path.to_path_buf()]).unwrap();
    let inputs = groups[0].files.iter().map(|file| Input::from_path(file)).collect();
    read_inputs(inputs, &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A sample: from the repository, or else from the folder of samples beside it. A test that lacks one says so on the
/// terminal, past the capture of its output.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let places = [repository().join("traces").join(path), repository().join("../shared/traces").join(path)];
    let found = places.iter().find(|path| path.exists()).cloned();
    if found.is_none() {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let _ = writeln!(std::io::stderr(), "{test}: skipped: the sample {path} is not in this repository");
    }
    found
}

/// One blktrace record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) time: u64,
    pub(crate) sector: u64,
    pub(crate) bytes: u32,
    pub(crate) action: u32,
    pub(crate) pid: u32,
    pub(crate) device: u32,
    pub(crate) payload: &'a [u8],
}

pub(crate) const READ: u32 = 1 << 16;
pub(crate) const WRITE: u32 = 1 << 17;
pub(crate) const FLUSH: u32 = 1 << 18;
pub(crate) const SYNC: u32 = 1 << 19;
pub(crate) const PASSED_THROUGH: u32 = 1 << 25;
pub(crate) const NOTIFY: u32 = 1 << 26;
pub(crate) const DISCARD: u32 = 1 << 29;
pub(crate) const FUA: u32 = 1 << 31;
pub(crate) const CGROUP: u32 = 1 << 8;
pub(crate) const QUEUE: u32 = 1;
pub(crate) const ISSUE: u32 = 7;

impl Event<'_> {
    pub(crate) fn queue(time: u64, action: u32, sector: u64, bytes: u32) -> Self {
        Self { time, sector, bytes, action: action | QUEUE, pid: 7, device: 8 << 20 | 1, payload: &[] }
    }

    pub(crate) fn bytes(&self, big: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |little: &[u8]| {
            let mut field = little.to_vec();
            if big {
                field.reverse();
            }
            out.extend_from_slice(&field);
        };
        put(&0x6561_7407_u32.to_le_bytes());
        put(&1_u32.to_le_bytes());
        put(&self.time.to_le_bytes());
        put(&self.sector.to_le_bytes());
        put(&self.bytes.to_le_bytes());
        put(&self.action.to_le_bytes());
        put(&self.pid.to_le_bytes());
        put(&self.device.to_le_bytes());
        put(&0_u32.to_le_bytes());
        put(&0_u16.to_le_bytes());
        put(&u16::try_from(self.payload.len()).unwrap().to_le_bytes());
        out.extend_from_slice(self.payload);
        out
    }
}

pub(crate) fn blktrace(events: &[Event<'_>], big: bool) -> Vec<u8> {
    events.iter().flat_map(|event| event.bytes(big)).collect()
}

/// A vscsi record of either version.
pub(crate) fn vscsi(version: u16, command: u16, micros: u64, block: u64, length: u32) -> Vec<u8> {
    let kind = version << 8;
    let mut out = Vec::new();
    if version == 1 {
        for word in [1, length, 1] {
            out.extend_from_slice(&u32::to_le_bytes(word));
        }
        out.extend_from_slice(&command.to_le_bytes());
        out.extend_from_slice(&kind.to_le_bytes());
    } else {
        out.extend_from_slice(&command.to_le_bytes());
        out.extend_from_slice(&kind.to_le_bytes());
        for word in [1, length, 1] {
            out.extend_from_slice(&u32::to_le_bytes(word));
        }
    }
    out.extend_from_slice(&block.to_le_bytes());
    out.extend_from_slice(&micros.to_le_bytes());
    if version == 2 {
        out.extend_from_slice(&99_u64.to_le_bytes());
    }
    out
}

pub(crate) const HADOOP: &str = "\
time_s,pid,comm,op,lba,sectors
2.806149,11452,DataXceiver for,RM,16843016,8
2.806634,11452,DataXceiver for,RA,16843024,256
2.9,10,a,b,FWFSM,8,8
3,10,(null),FWS,0,0
3.000000001,10,x,DS,4096,262144
";

pub(crate) const MSR: &str = "\
128166410318060999,wdev,1,Write,3165323264,4096,1189
128166410318060999,wdev,1,Read,3154124800,512,1166
128166410318061026,hm,0,Write,3154137088,4096,1163
";

pub(crate) const BLKPARSE: &str = "\
#Maj,Mn CPU   SeqNo     Seconds     PID  Evt Typ Sector   +Len Description
259,0    3        1     0.000000000  1867  A   W 746579600 + 8 <- (253,3) 578805392
259,0    3        3     0.000000299  1867  Q   W 763360912 + 8 [dmcrypt_write/2]
  8,16  11        4     0.000000300  1889  Q FWFSM 575512928 + 8 [a b] c]]
259,0   11        5     0.024124474  1889  Q FWS [(null)]
259,0   11        6     0.024124475  1889  Q  RA 0 + 0 [x]
259,0   11        7     0.024124476  1889  Q   R 36 (12 00 00 00 24 00 ..) [smartctl]
259,0    6        8     0.024133625   612  D  FN [kworker/11:1H]
259,0    6        9     0.024133626   612  C  FN 0 [0]
259,0    6       10     0.024133627   612  P   N [kworker/11:1H]
CPU0 (sda):
 Reads Queued:        7809,    90276KiB\t Writes Queued:        7084,    45752KiB

Total (sda):
Throughput (R/W): 9905KiB/s / 9057KiB/s
Events (sda): 190561 entries
";

pub(crate) const FIO_3: &str = "\
fio version 3 iolog
16 /tmp/db.dat add
586 /tmp/db.dat open
591 /tmp/db.dat read 21131264 8192
744 /tmp/a b.dat write 8294400 8192
745 /tmp/db.dat sync
746 /tmp/db.dat datasync 0 0
747 /tmp/db.dat trim 0 1048576
748 /tmp/db.dat close
";

pub(crate) const FIO_2: &str = "\
fio version 2 iolog
/dev/sda add
/dev/sda open
/dev/sda read 0 4096
/dev/sda wait 500 0
/dev/sda wait 99 0
/dev/sda write 4096 4096
/dev/sda close
";

pub(crate) const FIO_1: &str = "0, 0, 4096\n1, 4096, 512\n";

/// The tracer `blk`, with lost events before the first.
const TRACER_BLK: &str = "\
# entries-in-buffer/entries-written: 3/9   #P:4
   fio-501     [003] ..... 10.000001:   8,0    Q   R 2048 + 8 [fio]
   fio-501     [003] ..... 10.000002:   8,0    m   N cfq501S / alloced
 <idle>-0       [003] d.h1. 10.000101:   8,0    C   R 2048 + 8 [0]
";

/// `trace-cmd report -l`.
const TRACE_CMD_LATENCY: &str = "\
cpus=4
     fio-501     3d..2. 10.000001: block_bio_queue:      8,0 R 2048 + 8 [fio]
  <idle>-0       3d.h1. 10.000101: block_rq_complete:    8,0 R () 2048 + 8 [0]
";

/// A small whole trace of each format.
pub(crate) fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let events = [
        Event { payload: b"dd\0\0\0\0\0\0\0\0\0\0\0\0\0\0", ..Event::queue(5, NOTIFY, 0, 0) },
        Event::queue(10, READ, 8, 4096),
        Event::queue(20, WRITE | FLUSH | FUA | SYNC, 16, 4096),
        Event { action: WRITE | ISSUE, ..Event::queue(21, 0, 16, 4096) },
        Event::queue(30, WRITE | DISCARD, 0, 1 << 20),
    ];
    let note = Event { action: NOTIFY, ..events[0] };
    let events = [note, events[1], events[2], events[3], events[4]];
    let pair = |version| [vscsi(version, 0x28, 7, 8, 4096), vscsi(version, 0x2a, 9, 16, 512)].concat();
    let hadoop = read(HADOOP.as_bytes()).unwrap();
    let mut samples = vec![
        ("blktrace", blktrace(&events, false)),
        ("blktrace", blktrace(&events, true)),
        ("parquet", parquet(&hadoop)),
        ("hadoop-csv", HADOOP.into()),
        ("fio-iolog", FIO_3.into()),
        ("fio-iolog", FIO_2.into()),
        ("fio-iolog", FIO_1.into()),
        ("msr-csv", MSR.into()),
        ("blkparse", BLKPARSE.into()),
        ("ftrace", TRACER_BLK.into()),
        ("ftrace", TRACE_CMD_LATENCY.into()),
        ("vscsi", pair(1)),
        ("vscsi", pair(2)),
    ];
    samples.extend(fixtures::others());
    samples
}

/// Reads a sample: named where its content does not tell the format.
pub(crate) fn read_sample(name: &str, bytes: &[u8]) -> Result<Read, TraceError> {
    if trace::format(name).unwrap().ambiguous { read_as(name, bytes, false) } else { read(bytes) }
}

/// Where a writer's bytes go in a test.
#[derive(Clone, Default)]
pub(crate) struct Memory(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Memory {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl std::io::Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A source over records in memory.
pub(crate) struct Replay<'a> {
    pub(crate) read: &'a Read,
    pub(crate) next: usize,
}

impl trace::TraceSource for Replay<'_> {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        let end = (self.next + trace::BATCH_RECORDS).min(self.read.records.len());
        batch.extend_from_slice(&self.read.records[self.next..end]);
        self.next = end;
        Ok(())
    }

    fn names(&self) -> &Names {
        &self.read.names
    }

    fn epoch_unix_nanos(&self) -> Option<i128> {
        self.read.epoch
    }
}

pub(crate) fn write(read: &Read, format: &str) -> Result<Vec<u8>, TraceError> {
    write_telling(read, format).map(|(bytes, _)| bytes)
}

/// The bytes, and what they do not hold.
pub(crate) fn write_telling(read: &Read, format: &str) -> Result<(Vec<u8>, Vec<trace::Loss>), TraceError> {
    let memory = Memory::default();
    let target = trace::Target::new("target", Box::new(memory.clone()));
    let format = trace::format(format).unwrap();
    let converted = trace::convert(&mut Replay { read, next: 0 }, format, target)?;
    assert_eq!(converted.records, read.records.len() as u64);
    Ok((memory.bytes(), converted.losses))
}

pub(crate) fn parquet(read: &Read) -> Vec<u8> {
    write(read, "parquet").unwrap()
}
