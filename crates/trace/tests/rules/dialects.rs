//! Every dialect that the tracers print, one row for each, as their printing code has it.
//!
//! The texts are made up; their shapes follow blkparse (`blkparse_fmt.c`), the kernel's block events, `perf script`,
//! `trace-cmd report`, bcc's `biosnoop` in Python, Lua and C, `iosnoop` of perf-tools, and
//! fio's `iolog.c`.

use ioweir_trace::{self as trace, Completeness, Event, Input, ReadOptions, Record};

/// The records of a text in short, each as operation, sector, sectors, microseconds and latency; and then the gaps of the capture.
fn told(text: &str, event: Event) -> String {
    let options = ReadOptions { event, latency: true, ..ReadOptions::default() };
    match trace::open_inputs(vec![Input::from_bytes("trace", text.as_bytes().to_vec())], &options) {
        Ok(mut source) => {
            let (mut all, mut batch) = (Vec::new(), Vec::new());
            loop {
                match source.read_batch(&mut batch) {
                    Err(error) => return error.to_string(),
                    Ok(()) if batch.is_empty() => break,
                    Ok(()) => all.extend(batch.iter().map(one)),
                }
            }
            format!("{}{}", all.join(", "), lacks(&source.completeness()))
        }
        Err(error) => error.to_string(),
    }
}

fn one(record: &Record) -> String {
    let letter = ['R', 'W', 'D', 'F'][record.operation as usize];
    let latency = record.latency.map(|latency| format!(" {}us", latency.0 / 1000)).unwrap_or_default();
    let (sector, sectors) = (record.offset_bytes / 512, record.length_bytes / 512);
    format!("{letter} {sector}+{sectors} @{}{latency}", record.time.0 / 1000)
}

fn lacks(completeness: &Completeness) -> String {
    let counts = [
        (completeness.events_lost, "lost"),
        (completeness.holes_uncounted, "uncounted"),
        (completeness.requests_in_holes, "in holes"),
        (completeness.requests_superseded, "superseded"),
        (completeness.completions_unmatched, "unmatched"),
        (completeness.completions_elsewhere, "elsewhere"),
        (completeness.lines_passed_over, "passed over"),
    ];
    counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("; {count} {what}")).collect()
}

/// A dialect: its name, its text, and its records in short.
type Row = (&'static str, &'static str, &'static str);

fn check(rows: &[Row], event: Event) {
    for (name, text, expected) in rows {
        assert_eq!(told(text, event), *expected, "{name}\n{text}");
    }
}

#[test]
fn every_dialect_of_blkparse_is_read() {
    check(
        &[
            (
                "default",
                "  8,0    1        1     0.000000000   501  Q   R 2048 + 8 [fio]\n  8,0    1        2     0.000100000     0  C   R 2048 + 8 [0]\n",
                "R 2048+8 @0 100us",
            ),
            (
                "-t: the time since an earlier event",
                "  8,0    1        1     0.000000000   501  Q   R 2048 + 8 [fio]\n  8,0    1        2     0.000001000   501  D   R 2048 + 8 (    1000) [fio]\n  8,0    1        3     0.000100000     0  C   R 2048 + 8 (   99000) [0]\n",
                "R 2048+8 @0 100us",
            ),
            (
                "letter B, a barrier of old kernels",
                "  8,0    1        1     0.000000000   501  Q WBS 2048 + 8 [jbd2]\n",
                "W 2048+8 @0",
            ),
            (
                "zone append and zone reset",
                "  8,0    1        1     0.000000000   501  Q  ZA 2048 + 8 [x]\n  8,0    1        2     0.000001000   501  Q ZRA 0 + 0 [x]\n  8,0    1        3     0.000002000   501  Q  ZR 524288 + 0 [x]\n",
                "W 2048+8 @0",
            ),
            (
                "messages, plugs, remaps and splits",
                "  8,0    1        0     0.000000000     0  m   N cfq501S / alloced\n  8,0    1        1     0.000000000   501  A   R 2048 + 8 <- (8,1) 0\n  8,0    1        2     0.000001000   501  Q   R 2048 + 8 [fio]\n  8,0    1        3     0.000002000   501  P   N [fio]\n  8,0    1        4     0.000003000   501  U   N [fio] 1\n  8,0    1        5     0.000004000   501  X   R 2048 / 2052 [fio]\n  8,0    1        6     0.000005000   501 UT   N [fio] 1\n",
                "R 2048+8 @0",
            ),
            (
                "passthrough",
                "  8,0    1        1     0.000000000   501  Q   R 2048 + 8 [fio]\n  8,0    1        2     0.000001000   501  D   N 36 (12 00 00 00 24 00 ..) [hdparm]\n  8,0    1        3     0.000002000   501  C   N (12 00 00 00 24 00 ..) [0]\n",
                "R 2048+8 @0",
            ),
            (
                "the summary, with lost events",
                "  8,0    1        1     0.000000000   501  Q   R 2048 + 8 [fio]\nCPU1 (sda):\n Reads Queued:           1,        4KiB\n\nThroughput (R/W): 0KiB/s / 0KiB/s\nEvents (sda): 1 entries\nSkips: 1 forward (1,234 -  99.9%)\n",
                "R 2048+8 @0; 1234 lost; 1 in holes",
            ),
            (
                "messages of blktrace",
                "  8,0    1        1     0.000000000   501  Q   R 2048 + 8 [fio]\n=== sda ===\nTotal:                     1 events (dropped 0),        1 KiB data\n",
                "R 2048+8 @0; 2 passed over",
            ),
            (
                "a gap in the numbers",
                "  8,0    1        1     0.000000000   501  Q   R 2048 + 8 [fio]\n  8,0    1        5     0.000100000     0  C   R 2048 + 8 [0]\n  8,0    1        6     0.000200000   501  Q   R 4096 + 8 [fio]\n  8,0    1        7     0.000300000     0  C   R 4096 + 8 [0]\n  8,0    1        8     0.000400000     0  P   N [fio]\n",
                "R 2048+8 @0, R 4096+8 @200 100us; 3 lost; 1 in holes; 1 unmatched",
            ),
            (
                "blk_classic of the kernel's tracer: no numbers",
                "  8,0    1     0.000000000   501   Q   R 2048 + 8 [fio]\n  8,0    1     0.000100000     0   C   R 2048 + 8 [0]\n",
                "R 2048+8 @0 100us",
            ),
            (
                "filtered by someone: no gap is a loss",
                "  8,0    1        1     0.000000000   501  Q   R 2048 + 8 [fio]\n  8,0    1        5     0.000100000     0  C   R 2048 + 8 [0]\n",
                "R 2048+8 @0 100us",
            ),
        ],
        Event::Queue,
    );
}

#[test]
fn completions_and_issues_of_blkparse_are_read() {
    check(
        &[(
            "completions alone",
            "  8,0    1        1     0.000000000     0  C   R 2048 + 8 [0]\n  8,0    1        2     0.000100000     0  C  WS 4096 + 8 [0]\n  8,0    1        3     0.000200000     0  C  WS 4096 + 0 [0]\n",
            "R 2048+8 @0, W 4096+8 @100",
        )],
        Event::Complete,
    );
    check(
        &[(
            "-t, a flush without sectors",
            "  8,0    1        1     0.000000000   501  D FWS (    1000) [jbd2]\n  8,0    1        2     0.000001000   501  D   N 0 (12 00 ..) [x]\n  8,0    1        3     0.000100000   501  D   R 2048 + 8 (    1000) [fio]\n",
            "F 0+0 @0, R 2048+8 @100",
        )],
        Event::Issue,
    );
}

#[test]
fn all_ftrace_and_trace_cmd_dialects_are_read() {
    const Q: &str = "   fio-501     [003] ..... 10.000001: block_bio_queue: 8,0 R 2048 + 8 [fio]\n";
    let texts = [
        ("trace: a heading", format!("# tracer: nop\n#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n{Q}"), "R 2048+8 @0"),
        ("thread groups", "   fio-501 (    499) [003] ..... 10.000001: block_bio_queue: 8,0 R 2048 + 8 [fio]\n".into(), "R 2048+8 @0"),
        ("no flags", "   fio-501 [003] 10.000001: block_bio_queue: 8,0 R 2048 + 8 [fio]\n".into(), "R 2048+8 @0"),
        ("a command with blanks", "   my db-7-501 [003] ..... 10.000001: block_bio_queue: 8,0 R 2048 + 8 [my db-7]\n".into(), "R 2048+8 @0"),
        ("priorities of newer kernels", "   fio-501 [003] ..... 10.000001: block_bio_queue: 8,0 R 2048 + 8 [fio]\n   fio-501 [003] ..... 10.000002: block_rq_issue: 8,0 R 4096 () 2048 + 8 be,0,4 [fio]\n <idle>-0 [003] ..... 10.000101: block_rq_complete: 8,0 R () 2048 + 8 be,0,4 [0]\n".into(), "R 2048+8 @0 100us"),
        ("LOST of trace_pipe", format!("{Q}CPU:3 [LOST 1234 EVENTS]\n   fio-501     [003] ..... 10.010001: block_rq_complete: 8,0 R () 2048 + 8 [0]\n"), "R 2048+8 @0; 1234 lost; 1 in holes; 1 unmatched"),
        ("DROPPED of trace-cmd", format!("cpus=4\n{Q}CPU:3 [1234 EVENTS DROPPED]\n{Q}"), "R 2048+8 @0, R 2048+8 @0; 1234 lost; 1 in holes"),
        ("DROPPED without a number", format!("{Q}CPU:3 [EVENTS DROPPED]\n"), "R 2048+8 @0; 1 uncounted; 1 in holes"),
        ("heads of trace-cmd", format!("version = 6\nCPU 3 is empty\ncpus=8\n{Q}"), "R 2048+8 @0; 1 passed over"),
        ("a loss in the head, nobody knows where", format!("CPU 3 is empty\nCPU 5: 1234 events lost\ncpus=8\n{Q}   fio-501 [003] 10.000101: block_rq_complete: 8,0 R () 2048 + 8 [0]\n"), "R 2048+8 @0; 1234 lost; 1 passed over"),
        ("statistics of trace-cmd", format!("CPU: 0\nentries: 0\noverrun: 12\ncommit overrun: 0\nbytes: 1004\noldest event ts:    99.1\nnow ts:   100.2\ndropped events: 0\nread events: 5\n\n{Q}"), "R 2048+8 @0; 12 lost; 8 passed over"),
        ("stacks of the kernel", format!("{Q}   fio-501     [003] ..... 10.000002: <stack trace>\n => submit_bio_noacct\n => submit_bio\n"), "R 2048+8 @0; 2 passed over"),
        ("lines of the function tracer", format!("{Q}   fio-501     [003] ..... 10.000002: submit_bio <-blkdev_read\n"), "R 2048+8 @0"),
        ("nanoseconds of trace-cmd -t", "   fio-501 [003] 10.000001500: block_bio_queue: 8,0 R 2048 + 8 [fio]\n   fio-501 [003] 10.000101500: block_rq_complete: 8,0 R () 2048 + 8 [0]\n".into(), "R 2048+8 @0 100us"),
        ("the tracer blk", "   fio-501     [003] ..... 10.000001:   8,0    Q   R 2048 + 8 [fio]\n   fio-501     [003] ..... 10.000002:   8,0    G   R 2048 + 8 [fio]\n   fio-501     [003] ..... 10.000003:   8,0    m   N cfq501S / alloced\n <idle>-0       [003] d.h1. 10.000101:   8,0    C   R 2048 + 8 [0]\n".into(), "R 2048+8 @0 100us"),
        ("the tracer blk with cgroups", "   fio-501     [003] ..... 10.000001:   8,0 /system.slice Q   R 2048 + 8 [fio]\n   fio-501     [003] ..... 10.000002:   8,0 2a,1  Q  WS 4096 + 8 [fio]\n".into(), "R 2048+8 @0, W 4096+8 @1"),
        ("events overwritten before the first", format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: 205/1439   #P:4\n{Q}   fio-501 [003] ..... 10.000101: block_rq_complete: 8,0 R () 2048 + 8 [0]\n"), "R 2048+8 @0 100us; 1234 lost"),
        ("a request before the first event of another processor", format!("# entries-in-buffer/entries-written: 205/1439   #P:4\n{Q}   fio-501 [002] ..... 10.000101: block_rq_complete: 8,0 R () 2048 + 8 [0]\n"), "R 2048+8 @0; 1234 lost; 1 in holes; 1 unmatched"),
        ("trace-cmd report -l", "     fio-501     3d..2. 10.000001: block_bio_queue:      8,0 R 2048 + 8 [fio]\n  <idle>-0       3d.h1. 10.000101: block_rq_complete:    8,0 R () 2048 + 8 [0]\n".into(), "R 2048+8 @0 100us"),
        ("what trace-cmd record prints", format!("CPU0 data recorded at offset=0x1000\n    4096 bytes in size (8192 uncompressed)\n{Q}"), "R 2048+8 @0; 2 passed over"),
        ("a stacked device completes bios", "  dm-501 [000] ..... 1.000000: block_bio_queue: 253,0 R 2048 + 8 [dm]\n <idle>-0 [000] ..... 1.000110: block_bio_complete: 253,0 R 2048 + 8 [0]\n".into(), "R 2048+8 @0 110us"),
        ("a partition whose disk completes", format!("{Q}   fio-501 [003] ..... 10.000101: block_rq_complete: 8,16 R () 2048 + 8 [0]\n"), "R 2048+8 @0; 1 elsewhere"),
        ("formats that trace-cmd cannot read", format!("trace-cmd: Warning...\n  function scsi_trace_parse_cdb not defined\n  [kvmmmu:kvm_mmu_get_page] bad op token {{\ncpus=2\n{Q}"), "R 2048+8 @0; 3 passed over"),
        ("raw fields", "   fio-501 [003] 10.000001: block_bio_queue:       dev=8388608 sector=2048 nr_sector=8 rwbs=R comm=fio\n".into(), "trace:1:52: the fields of the event are printed raw\n  expected: maj,min letters ... sector + sectors\n\nhint: print it with `trace-cmd report` without -R, or on the machine that recorded it"),
        ("an unknown line", format!("{Q}what is this\n"), "trace:2:1: not an event: `what is this`\n  expected: command-pid [cpu] flags seconds: event: arguments"),
    ];
    for (name, text, expected) in texts {
        assert_eq!(told(&text, Event::Queue), expected, "{name}\n{text}");
    }
}

#[test]
fn every_dialect_of_perf_script_is_read() {
    const D: &str = "fio 28997 [039] 100.700000: block:block_rq_issue: 8,0 R 4096 () 2048 + 8 [fio]\n";
    const C: &str = "swapper     0 [039] 100.700500: block:block_rq_complete: 8,0 R () 2048 + 8 [0]\n";
    let texts = [
        ("plain", format!("{D}{C}"), "R 2048+8 @0 500us"),
        ("pid and thread", format!("{}{C}", D.replace("28997", "28900/28997")), "R 2048+8 @0 500us"),
        ("-F without the processor", format!("{D}{C}").replace(" [039]", ""), "R 2048+8 @0 500us"),
        (
            "stacks",
            format!(
                "{D}            7fffa5a2dc02 blk_mq_start_request ([kernel.kallsyms])\n                   db730 write (/lib/x86_64-linux-gnu/libc-2.24.so)\n        6566322d30333762 [unknown] ([unknown])\n\n{C}"
            ),
            "R 2048+8 @0 500us; 3 passed over",
        ),
        (
            "stacks with lines of source",
            format!("{D}\tffffffff8149a1c0 submit_bio+0x10 ([kernel.kallsyms])\n  blk-core.c:123\n{C}"),
            "R 2048+8 @0 500us; 2 passed over",
        ),
        (
            "a lost-events record",
            format!("{D}fio 28997 [039] 100.700100: PERF_RECORD_LOST lost 27\n{C}"),
            "R 2048+8 @0; 27 lost; 1 in holes; 1 unmatched",
        ),
        (
            "a warning",
            format!("{D}{C}Warning:\nProcessed 9 events and lost 2 chunks!\n\nCheck IO/CPU overload!\n"),
            "R 2048+8 @0; 1 uncounted; 1 in holes; 2 passed over",
        ),
        (
            "other records",
            format!("{D}fio 28997 [039] 100.700100: PERF_RECORD_COMM: fio:28997/28997\n{C}"),
            "R 2048+8 @0 500us",
        ),
        ("a wrong direction does not end it", format!("{D}{}", C.replace(" R ", " W ")), "R 2048+8 @0; 1 unmatched"),
    ];
    for (name, text, expected) in texts {
        assert_eq!(told(&text, Event::Issue), expected, "{name}\n{text}");
    }
}

#[test]
fn every_dialect_of_biosnoop_is_read() {
    const NEW: &str = "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  ";
    let texts = [
        ("Python", format!("{NEW} LAT(ms)\n0.000000    fio            4242    sda       R 2048       4096      0.61\n"), "R 2048+8 @0 610us"),
        ("-P", format!("{NEW}P LAT(ms)\n1.774198    fio            4242    sda       R 2056       4096   S    0.48\n"), "R 2056+8 @0 480us"),
        ("-P, a length that fills its column", format!("{NEW}P LAT(ms)\n1.774198    fio            4242    sda       R 2056       1048576R    0.48\n"), "R 2056+2048 @0 480us"),
        ("-Q", format!("{NEW}QUE(ms) LAT(ms)\n0.000000    fio            4242    sda       W 2048       4096      0.10    0.61\n"), "W 2048+8 @0 710us"),
        ("-Q and -P", format!("{NEW}P QUE(ms) LAT(ms)\n0.000000    fio            4242    sda       W 2048       4096   R    0.10    0.61\n"), "W 2048+8 @0 710us"),
        ("a latency that touches the length", format!("{NEW} LAT(ms)\n9.000000    fio            4242    sda       R 2048       10485761234.50\n"), "R 2048+2048 @0 1234500us"),
        ("no heading", "0.000000    fio            4242    sda       R 2048       4096      0.61\n".into(), "R 2048+8 @0 610us"),
        ("a heading again", format!("{NEW} LAT(ms)\n0.000000 fio 4242 sda R 2048 4096 0.61\n{NEW} LAT(ms)\n1.000000 fio 4242 sda R 2048 4096 0.61\n"), "R 2048+8 @0 610us, R 2048+8 @1000000 610us"),
        ("C, letters of the kernel", "TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   LAT(ms)\n0.000000    jbd2           4242    sda     FWFS 2048       4096      0.610\n".into(), "W 2048+8 @0 610us"),
        ("C, -Q without a queue time", "TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)\n0.000000    fio            4242    sda     R    2048       4096     -1.000   0.610\n".into(), "R 2048+8 @0 610us"),
        ("C, -t across midnight", "TIMESTAMP    COMM           PID     DISK    T    SECTOR     BYTES   LAT(ms)\n23:59:59.500 fio            4242    sda     R    2048       4096      0.500\n00:00:00.500 fio            4242    Unknown R    2048       4096      0.500\n".into(), "R 2048+8 @0 500us, R 2048+8 @1000000 500us"),
        ("Lua", "TIME(s)        COMM           PID    DISK    T  SECTOR    BYTES   LAT(ms)\n0.000          fio            4242   sda     R  2048      4096       0.61\n".into(), "R 2048+8 @0 610us"),
        ("a blank disk and no data", format!("{NEW} LAT(ms)\n0.000000    kworker/7:0    4242              R 18446744073709551615 0         0.61\n1.774198    Pool Worker    5151    nvme0n1   W 520198144  225280    0.48\n1.801000    trimmer        700               D 49020000   131072    0.30\n"), "W 520198144+440 @0, D"),
        ("lost events", format!("{NEW} LAT(ms)\n0.000000 fio 4242 sda R 2048 4096 0.61\nlost 12 events on CPU #3\nPossibly lost 3 samples\n"), "R 2048+8 @0 610us; 15 lost"),
        ("a command that was passed through", format!("{NEW}QUE(ms) LAT(ms)\n0.000000    ?              0                 R 18446744073709551615 8        -1.00    0.12\nlibbpf: a warning\n0.000510    kworker/u8:2+e 31337   nvme0n1   W 18446744073709551615 0         0.00    0.88\n"), "F 0+0 @0 880us; 2 passed over"),
        ("bpftrace", "Attaching 4 probes...\nTIME(ms)     DISK ID        COMM             PID    LAT(ms)\n             MAJOR MINOR\n611          259   0        bash             4179        10\n".into(), "trace:2:1: bpftrace's biosnoop prints neither sectors nor lengths"),
    ];
    for (name, text, expected) in texts {
        let told = told(&text, Event::Queue);
        match name {
            "a blank disk and no data" => {
                assert_eq!(told, "W 520198144+440 @0 480us, D 49020000+256 @26982 300us; 1 passed over", "{name}")
            }
            "bpftrace" => assert!(told.starts_with(expected), "{name}\n{told}"),
            _ => assert_eq!(told, expected, "{name}\n{text}"),
        }
    }
}

#[test]
fn every_dialect_of_iosnoop_is_read() {
    let line = |times: &str| format!("{times}fio          4242   R    8,0      2048         4096       0.61\n");
    let names = "COMM         PID    TYPE DEV      BLOCK        BYTES     LATms\n";
    let texts = [
        (
            "-ts",
            format!(
                "Tracing block I/O. Ctrl-C to end.\nSTARTs ENDs {names}{}Ending tracing...\n",
                line("1.000000 1.000605 ")
            ),
            "R 2048+8 @0 605us; 2 passed over",
        ),
        (
            "-s",
            format!("STARTs {names}{}{}", line("1.000000 "), line("1.000500 ")),
            "R 2048+8 @0 610us, R 2048+8 @500 610us",
        ),
        (
            "-t",
            format!("ENDs {names}{}{}", line("1.000000 "), line("1.000500 ")),
            "R 2048+8 @0 610us, R 2048+8 @500 610us",
        ),
        (
            "a write without data, and a command that was passed through",
            format!(
                "STARTs {names}1.000000 jbd2 42 WFS 8,0 18446744073709551615 0 0.50\n1.000100 ? 0 R 8,0 18446744073709551615 36 0.1\n"
            ),
            "F 0+0 @0 500us; 1 passed over",
        ),
        (
            "without times",
            format!("{names}{}", line("")),
            "trace:1:1: iosnoop was told to print no times\n  expected: [STARTs] [ENDs] COMM PID TYPE DEV BLOCK BYTES LATms\n\nhint: record with `iosnoop -ts`",
        ),
    ];
    for (name, text, expected) in texts {
        assert_eq!(told(&text, Event::Queue), expected, "{name}\n{text}");
    }
}

#[test]
fn fio_actions_are_read_in_both_versions() {
    let actions = [
        ("add", ""),
        ("open", ""),
        ("write", " 4096 8192"),
        ("read", " 0 4096"),
        ("trim", " 0 1048576"),
        ("sync", " 0 0"),
        ("datasync", ""),
        ("stat", " 0 0"),
        ("mkdir", " 0 0"),
        ("close", ""),
        ("unlink", ""),
    ];
    let lines = |before: &str| -> String {
        actions.iter().map(|(action, extent)| format!("{before}/dev/my disk {action}{extent}\n")).collect()
    };
    let expected = "W 8+16 @0, R 0+8 @0, D 0+2048 @0, F 0+0 @0, F 0+0 @0";
    assert_eq!(told(&format!("fio version 2 iolog\n{}", lines("")), Event::Queue), expected);
    assert_eq!(told(&format!("fio version 3 iolog\n{}", lines("7 ")), Event::Queue), expected);
    let waits = "fio version 2 iolog\nf read 0 4096\nf wait 1500 0\nf read 4096 4096\n";
    assert_eq!(told(waits, Event::Queue), "R 0+8 @0, R 8+8 @1500");
    let ignored = "fio version 3 iolog\n0 f read 0 4096\n1 f wait 1500 0\n7 f read 4096 4096\n";
    assert_eq!(told(ignored, Event::Queue), "R 0+8 @0, R 8+8 @7; 1 passed over");
}

/// How many requests outlasted the reader's window, and how many had not completed at the end.
fn unpaired(text: &str, event: Event) -> (u64, u64) {
    let options = ReadOptions { event, latency: true, ..ReadOptions::default() };
    let mut source = trace::open_inputs(vec![Input::from_bytes("trace", text.into())], &options).unwrap();
    let mut batch = Vec::new();
    while source.read_batch(&mut batch).is_ok() && !batch.is_empty() {}
    let completeness = source.completeness();
    (completeness.requests_outlasting, completeness.requests_unfinished)
}

#[test]
fn requests_without_latency_are_counted_with_reasons() {
    let line = |number: u64, action: &str| {
        format!("  8,0    1        0  {number}.000000000   501  {action}   R {} + 8 [fio]\n", number * 8)
    };
    assert_eq!(unpaired(&line(0, "Q"), Event::Queue), (0, 0));
    let first = [line(0, "Q"), line(0, "C"), line(1, "Q")].concat();
    assert_eq!(unpaired(&first, Event::Queue), (0, 1));
    let many: String = (2..70_000).map(|number| line(number, "Q")).collect();
    assert_eq!(unpaired(&[first, many].concat(), Event::Queue), (70_000 - 1 - 65_536, 65_536));
    let completed = [line(0, "C"), line(0, "C")].concat();
    assert_eq!(unpaired(&completed, Event::Complete), (0, 0));
}

#[test]
fn ten_thousand_writes_in_flight_have_their_latencies() {
    let line = |number: u64, nanos: u64, action: &str| {
        format!("  8,0    1        0  0.{nanos:09}   501  {action}   W {} + 8 [flush]\n", number * 8)
    };
    let queued: String = (0..10_000).map(|number| line(number, number, "Q")).collect();
    let done: String = (0..10_000).map(|number| line(number, number + 100_000_000, "C")).collect();
    let told = told(&[queued, done].concat(), Event::Queue);
    assert_eq!(told.matches("100000us").count(), 10_000);
}

#[test]
fn xperf_dumps_say_their_start_and_losses() {
    let text = "BeginHeader\n DiskRead, TimeStamp, Process Name ( PID), ByteOffset, IOSize, ElapsedTime, DiskNum\nEndHeader\nOS Version: 10.0.17763, Trace Size: 8960KB, Events Lost: 3, Buffers lost: 0, Trace Start: 132537600000000000, Trace Length: 34 sec\n DiskRead, 1500, app.exe ( 4), 0x1000, 0x1000, 500, 0\n";
    assert_eq!(told(text, Event::Queue), "R 8+8 @0 500us; 3 lost");
    let buffers = text.replace("Lost: 3, Buffers lost: 0", "Lost: 0, Buffers lost: 2");
    assert_eq!(told(&buffers, Event::Queue), "R 8+8 @0 500us; 2 uncounted");
    let input = Input::from_bytes("trace", text.into());
    let mut source = trace::open_inputs(vec![input], &ReadOptions::default()).unwrap();
    source.read_batch(&mut Vec::new()).unwrap();
    assert_eq!(source.epoch_unix_nanos(), Some(1_609_286_400_001_000_000));
}

#[test]
fn the_table_of_diskio_is_read() {
    let expected = "W 6072600+128 @0 209us, R 6072728+8 @260 382us, F 0+0 @684 173us; 1 passed over";
    assert_eq!(told(crate::fixtures::DISKIO, Event::Queue), expected);
}

/// A binary event of blktrace: its number, microseconds, sector, and action (1 a request, 8 a completion) of a read of 8 sectors.
fn binary(number: u32, micros: u64, sector: u64, action: u32) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&0x6561_7407_u32.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&(micros * 1000).to_le_bytes());
    out.extend_from_slice(&sector.to_le_bytes());
    for word in [4096, 1 << 16 | action, 10, 8 << 20, 0, 0] {
        out.extend_from_slice(&u32::to_le_bytes(word));
    }
    out
}

#[test]
fn a_gap_in_binary_numbers_retires_open_requests() {
    let read = |numbers: [u32; 4]| {
        let events = [(0, 2048, 1), (100, 2048, 8), (200, 4096, 1), (300, 4096, 8)];
        let bytes = numbers
            .into_iter()
            .zip(events)
            .flat_map(|(number, (at, sector, action))| binary(number, at, sector, action));
        let options = ReadOptions { latency: true, ..ReadOptions::default() };
        let mut source = trace::open_inputs(vec![Input::from_bytes("trace", bytes.collect())], &options).unwrap();
        let mut batch = Vec::new();
        source.read_batch(&mut batch).unwrap();
        let records: Vec<String> = batch.iter().map(one).collect();
        format!("{}{}", records.join(", "), lacks(&source.completeness()))
    };
    assert_eq!(read([1, 2, 3, 4]), "R 2048+8 @0 100us, R 4096+8 @200 100us");
    assert_eq!(read([1, 9, 10, 11]), "R 2048+8 @0, R 4096+8 @200 100us; 7 lost; 1 in holes; 1 unmatched");
}

#[test]
fn a_trace_without_completions_says_so() {
    let line = |action: &str| format!("  8,0    1        0     0.000000000   501  {action}   R 2048 + 8 [fio]\n");
    let remarks = |text: String| {
        let options = ReadOptions { latency: true, ..ReadOptions::default() };
        let mut source = trace::open_inputs(vec![Input::from_bytes("trace", text.into())], &options).unwrap();
        let mut batch = Vec::new();
        while source.read_batch(&mut batch).is_ok() && !batch.is_empty() {}
        source.remarks().join(" ")
    };
    assert!(remarks(line("Q")).contains("holds no completions"));
    assert_eq!(remarks([line("Q"), line("C")].concat()), "");
}
