//! Mixes of Hadoop jobs, from which traffic is generated if no trace of a job exists.
//!
//! The six jobs are those of Table 2 of the BID paper. All numbers were measured on the captures in `traces/hadoop/hdd-emul`
//! (requests as inserted into the scheduler) and rounded: see each mix.

use ioweir_core::Nanos;

/// A length and its frequency, as a share of the sum of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weighted {
    /// Length in sectors.
    pub sectors: u32,
    /// The weight of this length relative to the others.
    pub weight: u32,
}

/// Bursts of writes as write-back sends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The mean time from the end of one burst to the start of the next.
    pub interval: Nanos,
    /// The mean number of requests.
    pub requests: u32,
    /// The mean time between two of them.
    pub gap: Nanos,
    /// The lengths of requests.
    pub sectors: &'static [Weighted],
    /// The sequential requests per thousand.
    pub sequential_per_mille: u32,
    /// Whether they have the metadata flag.
    pub metadata: bool,
}

/// The traffic of one job.
#[derive(Debug)]
pub struct JobMix {
    /// The name on the command line.
    pub name: &'static str,
    /// The job as Table 2 of the paper describes it.
    pub title: &'static str,
    /// Sources of the numbers, in Markdown.
    pub doc: &'static str,
    /// The number of requests in the capture.
    pub requests: u64,
    /// The size of the disk in sectors.
    pub sectors: u64,
    /// The number of tasks that read concurrently.
    pub readers: u32,
    /// The number of a reader's requests for each file.
    pub reads_a_file: u32,
    /// The mean time that a task computes between files.
    pub read_pause: Nanos,
    /// The sequential reads per thousand within a file.
    pub read_sequential_per_mille: u32,
    /// Lengths of reads.
    pub read_sectors: &'static [Weighted],
    /// Quantiles of the time from a reader's request to its next (5, 20, 35, 50, 65, 80, 95 of 100); one of them is drawn,
    /// and varied by half.
    pub read_gaps: [Nanos; 7],
    /// Write-back of data.
    pub bulk: Option<Burst>,
    /// Write-back of metadata and small files.
    pub small: Option<Burst>,
    /// The mean time between two writes of the journal.
    pub journal_interval: Nanos,
    /// The lengths of the journal's writes.
    pub journal_sectors: &'static [Weighted],
}

/// Finds a mix by its name.
#[must_use]
pub fn mix(name: &str) -> Option<&'static JobMix> {
    MIXES.iter().find(|mix| mix.name == name)
}

const fn row(sectors: u32, weight: u32) -> Weighted {
    Weighted { sectors, weight }
}

const fn micros(gaps: [u64; 7]) -> [Nanos; 7] {
    let mut out = [Nanos::ZERO; 7];
    let mut place = 0;
    while place < gaps.len() {
        out[place] = Nanos(gaps[place] * 1000);
        place += 1;
    }
    out
}

/// The captured disk: 10 GiB.
const SECTORS: u64 = 20_971_520;
/// Read-ahead of 128 KiB, and the small reads that open a file.
const READS: &[Weighted] = &[row(256, 972), row(8, 12), row(64, 6), row(32, 6), row(128, 4)];
const READS_OF_SORTS: &[Weighted] = &[row(256, 938), row(8, 33), row(32, 8), row(64, 7), row(16, 6), row(128, 4)];
const PAGES: &[Weighted] = &[row(8, 1)];
/// Requests split at 512 KiB, with the ends of files.
const BULK: &[Weighted] = &[row(1024, 740), row(8, 60), row(256, 80), row(608, 120)];
const SMALL: &[Weighted] = &[row(8, 590), row(16, 140), row(24, 55), row(32, 50), row(256, 165)];
const JOURNAL: &[Weighted] = &[row(96, 25), row(216, 25), row(264, 25), row(544, 25)];

const fn small(interval_millis: u64, requests: u32) -> Option<Burst> {
    Some(Burst {
        interval: Nanos::from_millis(interval_millis),
        requests,
        gap: Nanos::from_micros(1),
        sectors: SMALL,
        sequential_per_mille: 15,
        metadata: true,
    })
}

const fn bulk(interval_millis: u64, requests: u32, gap_micros: u64, sequential_per_mille: u32) -> Option<Burst> {
    Some(Burst {
        interval: Nanos::from_millis(interval_millis),
        requests,
        gap: Nanos::from_micros(gap_micros),
        sectors: BULK,
        sequential_per_mille,
        metadata: false,
    })
}

const MEASURED: &str = "\
Measured on the capture of this job in traces/hadoop/hdd-emul, requests as put into the scheduler. Readers: threads with at \
least 50 reads, counted in each second in which any read. Bursts: writes of the kernel's write-back less than 0.5 s apart. \
Journal: writes of the journal's thread, commits 0.1 s apart. Pauses between files are such that reads come as often as in the \
capture. What is not modelled: phases of a job, files that are read again, and where files lie.";

/// Every mix, in the order of the paper's table.
pub static MIXES: &[JobMix] = &[
    JobMix {
        name: "grep",
        title: "sequential reads for the most part, and small writes",
        doc: MEASURED,
        requests: 8_823,
        sectors: SECTORS,
        readers: 5,
        reads_a_file: 526,
        read_pause: Nanos::from_millis(42_000),
        read_sequential_per_mille: 948,
        read_sectors: READS,
        read_gaps: micros([42, 934, 1_010, 1_713, 4_271, 48_405, 116_090]),
        bulk: None,
        small: small(3_700, 6),
        journal_interval: Nanos::from_millis(5_500),
        journal_sectors: JOURNAL,
    },
    JobMix {
        name: "randomtextwriter",
        title: "sequential writes for the most part, random ones among them, hardly a read",
        doc: MEASURED,
        requests: 2_512,
        sectors: SECTORS,
        readers: 1,
        reads_a_file: 34,
        read_pause: Nanos::from_millis(0),
        read_sequential_per_mille: 265,
        read_sectors: PAGES,
        // There are 34 reads in 71 s, too few for quantiles.
        read_gaps: micros([2_000_000; 7]),
        bulk: bulk(3_100, 106, 20, 878),
        small: None,
        journal_interval: Nanos::from_millis(4_400),
        journal_sectors: JOURNAL,
    },
    JobMix {
        name: "sort",
        title: "large sequential reads, more than writes; random writes, later sequential ones",
        doc: MEASURED,
        requests: 16_864,
        sectors: SECTORS,
        readers: 3,
        reads_a_file: 519,
        read_pause: Nanos::from_millis(16_500),
        read_sequential_per_mille: 911,
        read_sectors: READS_OF_SORTS,
        read_gaps: micros([48, 955, 1_018, 1_486, 3_657, 20_976, 112_967]),
        bulk: bulk(4_400, 224, 2_000, 893),
        small: None,
        journal_interval: Nanos::from_millis(5_200),
        journal_sectors: JOURNAL,
    },
    JobMix {
        name: "terasort",
        title: "sequential and random reads and writes, more reads than writes",
        doc: MEASURED,
        requests: 16_836,
        sectors: SECTORS,
        readers: 3,
        reads_a_file: 487,
        read_pause: Nanos::from_millis(18_700),
        read_sequential_per_mille: 912,
        read_sectors: READS_OF_SORTS,
        read_gaps: micros([44, 955, 1_011, 1_331, 3_526, 29_678, 113_534]),
        bulk: bulk(3_100, 140, 2_000, 887),
        small: None,
        journal_interval: Nanos::from_millis(4_800),
        journal_sectors: JOURNAL,
    },
    JobMix {
        name: "wordcount",
        title: "sequential reads for the most part; many random writes, then random reads and small sequential writes",
        doc: MEASURED,
        requests: 8_968,
        sectors: SECTORS,
        readers: 4,
        reads_a_file: 526,
        read_pause: Nanos::from_millis(35_600),
        read_sequential_per_mille: 943,
        read_sectors: READS,
        read_gaps: micros([52, 1_233, 4_492, 14_798, 31_694, 59_231, 126_250]),
        bulk: None,
        small: small(3_600, 7),
        journal_interval: Nanos::from_millis(5_100),
        journal_sectors: JOURNAL,
    },
    JobMix {
        name: "wordstandarddeviation",
        title: "sequential reads for the most part; small writes between phases and at the end",
        doc: MEASURED,
        requests: 8_981,
        sectors: SECTORS,
        readers: 5,
        reads_a_file: 526,
        read_pause: Nanos::from_millis(27_600),
        read_sequential_per_mille: 939,
        read_sectors: READS,
        read_gaps: micros([940, 12_174, 22_347, 30_761, 43_962, 71_877, 158_028]),
        bulk: None,
        small: small(3_200, 7),
        journal_interval: Nanos::from_millis(5_100),
        journal_sectors: JOURNAL,
    },
];
