//! How fast is each trace format read?
//!
//! `cargo bench -p ioweir-trace --bench read -- [MEBIBYTES] [RUNS] [FORMAT]` makes uncompressed input of that size in memory
//! from a seed, reads it that often on one core, and prints the median. Nothing is asserted: wall time depends on the
//! machine.

// A bench measures time and prints it; its inputs are made here, so that nothing can fail.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods, clippy::cast_possible_truncation)]

use std::io::Write;
use std::time::Instant;

use ioweir_trace::{self as trace, Input, ReadOptions};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

struct Requests {
    random: Pcg64,
    number: u64,
    nanos: u64,
}

struct Request {
    number: u64,
    nanos: u64,
    pid: u32,
    sector: u64,
    sectors: u32,
    read: bool,
}

impl Requests {
    fn new() -> Self {
        Self { random: Pcg64::seed_from_u64(1), number: 0, nanos: 1_000_000_000 }
    }

    fn next(&mut self) -> Request {
        let random = self.random.next_u64();
        self.number += 1;
        self.nanos += random % 200_000;
        Request {
            number: self.number,
            nanos: self.nanos,
            pid: 1_000 + (random >> 20) as u32 % 40,
            sector: (random >> 30) % (1 << 31),
            sectors: 8 << (random % 6),
            read: random >> 63 == 0,
        }
    }
}

fn blktrace(request: &Request, out: &mut Vec<u8>, actions: &[u32]) {
    for action in actions {
        let category = if request.read { 1 } else { 2 };
        out.extend_from_slice(&0x6561_7407_u32.to_le_bytes());
        out.extend_from_slice(&(request.number as u32).to_le_bytes());
        out.extend_from_slice(&request.nanos.to_le_bytes());
        out.extend_from_slice(&request.sector.to_le_bytes());
        for word in [request.sectors * 512, category << 16 | action, request.pid, 8 << 20, 0, 0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
}

fn line(format: &str, request: &Request, out: &mut Vec<u8>) {
    let Request { number, nanos, pid, sector, sectors, read } = *request;
    let (seconds, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let letters = if read { "RA" } else { "WS" };
    match format {
        "blktrace" | "blktrace, with latencies" | "blktrace, 8 processors" => {
            blktrace(request, out, &[1, 4, 12, 7, 8]);
            return;
        }
        "blktrace, queue events only" => {
            blktrace(request, out, &[1]);
            return;
        }
        "blkparse" => {
            for (place, action) in ["Q", "G", "I", "D"].into_iter().enumerate() {
                let sequence = number * 5 + place as u64;
                write!(out, "  8,0    1 {sequence:8} {seconds:5}.{fraction:09} {pid:5}  {action} {letters:>3}")
                    .unwrap();
                writeln!(out, " {sector} + {sectors} [worker/{pid}]").unwrap();
            }
            write!(out, "  8,0    1 {number:8} {seconds:5}.{fraction:09}     0  C {letters:>3}").unwrap();
            writeln!(out, " {sector} + {sectors} [0]")
        }
        "hadoop-csv" => {
            writeln!(out, "{seconds}.{:06},{pid},worker {pid},{letters},{sector},{sectors}", fraction / 1000)
        }
        "msr-csv" => {
            let ticks = 128_166_410_318_060_999 + nanos / 100;
            let kind = if read { "Read" } else { "Write" };
            writeln!(out, "{ticks},hm,0,{kind},{},{},{}", sector * 512, sectors * 512, pid)
        }
        "fio-iolog" => {
            let kind = if read { "read" } else { "write" };
            writeln!(out, "{} /dev/sda {kind} {} {}", nanos / 1000, sector * 512, sectors * 512)
        }
        _ => {
            for word in [number as u32, sectors * 512, 1, if read { 0x0100_0028 } else { 0x0100_002a }] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(&sector.to_le_bytes());
            out.write_all(&(nanos / 1000).to_le_bytes())
        }
    }
    .unwrap();
}

fn input(format: &str, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(size + 4096);
    match format {
        "hadoop-csv" => out.extend_from_slice(b"time_s,pid,comm,op,lba,sectors\n"),
        "fio-iolog" => out.extend_from_slice(b"fio version 3 iolog\n"),
        _ => {}
    }
    let mut requests = Requests::new();
    while out.len() < size {
        line(format, &requests.next(), &mut out);
    }
    out
}

/// `scripts/instructions` counts the instructions of this function.
#[inline(never)]
fn measured(inputs: &[Input], options: &ReadOptions) -> u64 {
    let mut source = trace::open_inputs(inputs.to_vec(), options).unwrap();
    let mut batch = Vec::new();
    let mut records = 0;
    loop {
        source.read_batch(&mut batch).unwrap();
        if batch.is_empty() {
            return records;
        }
        records += batch.len() as u64;
    }
}

/// The units by which instructions are counted: events of blktrace, records of formats without text, bytes of text.
fn bytes_or_records(format: &str, size: f64, records: u64) -> u64 {
    match format {
        "vscsi" | "parquet" => records,
        format if format.starts_with("blktrace") => size as u64 / 48,
        _ => size as u64,
    }
}

/// The records of one file dealt to eight, so that the next record is always in another file.
fn deal(bytes: &[u8]) -> Vec<Input> {
    let mut files = vec![Vec::new(); 8];
    for (place, record) in bytes.chunks_exact(48).enumerate() {
        files[place % 8].extend_from_slice(record);
    }
    files.into_iter().map(|file| Input::from_bytes("bench", file)).collect()
}

fn measure(format: &str, bytes: Vec<u8>, runs: usize) {
    let size = bytes.len() as f64;
    let inputs = if format.ends_with("processors") { deal(&bytes) } else { vec![Input::from_bytes("bench", bytes)] };
    let options = ReadOptions { latency: format.ends_with("latencies"), ..ReadOptions::default() };
    let mut records = 0;
    let mut seconds: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            records = measured(&inputs, &options);
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    let median = seconds[runs / 2];
    let mut line =
        format!("{format:28} {:10.1} MB/s {:10.2} M records/s", size / median / 1e6, records as f64 / median / 1e6);
    if format.starts_with("blktrace") {
        line.push_str(&format!(" {:10.2} M events/s", size / 48.0 / median / 1e6));
    }
    println!("{line}");
    println!("measured: {}", bytes_or_records(format, size, records) * runs as u64);
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let number = |place: usize, usual: usize| words.get(place).and_then(|word| word.parse().ok()).unwrap_or(usual);
    let (mebibytes, runs) = (number(0, 128), number(1, 5));
    let chosen = words.get(2).map_or("", String::as_str);
    println!("{mebibytes} MiB of each, median of {runs} runs");
    let formats = [
        "blktrace",
        "blktrace, queue events only",
        "blktrace, with latencies",
        "blktrace, 8 processors",
        "blkparse",
        "hadoop-csv",
        "msr-csv",
        "fio-iolog",
        "vscsi",
    ];
    for format in formats.into_iter().filter(|format| format.starts_with(chosen)) {
        measure(format, input(format, mebibytes << 20), runs);
    }
    if "parquet".starts_with(chosen) {
        let csv = Input::from_bytes("bench", input("hadoop-csv", mebibytes << 20));
        let mut source = trace::open_inputs(vec![csv], &ReadOptions::default()).unwrap();
        let path = std::env::temp_dir().join(format!("ioweir-read-{}.parquet", std::process::id()));
        let target = trace::Target::new("bench", Box::new(std::fs::File::create(&path).unwrap()));
        trace::convert(&mut *source, trace::format("parquet").unwrap(), target).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        measure("parquet", bytes, runs);
    }
}
