//! The presets: named devices, their sources, and how far their numbers are validated.

ioweir_core::named! {
    /// Where the numbers of a preset come from.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Status {
        /// Response times were compared with those of the drive itself; the sources say how close they are.
        Validated = "validated",
        /// The parameters were measured on the drive; its response times were not, or this model does not reach them.
        Calibrated = "calibrated",
        /// The numbers are those of a datasheet, and assumptions about the rest.
        Datasheet = "datasheet",
        /// No such device exists.
        Artificial = "artificial",
    }
}

/// A device known by name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name on the command line.
    pub name: &'static str,
    /// A title for lists: the device in a few words.
    pub title: &'static str,
    /// About the year in which such a device was new; `None` if it belongs to no year.
    pub year: Option<u16>,
    /// How far the parameters can be trusted.
    pub status: Status,
    /// Where each group of numbers comes from.
    pub sources: &'static [&'static str],
    /// The parameters, as a device file.
    pub parameters: &'static str,
}

const DISKSIM: &str = "zones, skews, seek points, overheads, buffer segments and read-ahead: the drive's parameter set published with DiskSim 4, extracted from the drive by DIXtrac";
const SPARES: &str =
    "spares lie at the end of each zone instead of where the drive has them; slipped and remapped sectors are left out";

const REPOSITION: &str = "repositioning: as long as a seek of one cylinder (assumed; that this drive has one was chosen by looking at the requests)";

const NO_REPOSITION: &str = "no repositioning (chosen by looking at the requests: with that of one cylinder the model is further from the drive)";

/// Every preset.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "hdd",
        title: "7200 rpm SATA disk of 250 GB, as in a Hadoop node",
        year: Some(2008),
        status: Status::Datasheet,
        sources: &[
            "size: what the paper on BID names (250 GB SATA); 7200 rpm and two surfaces assumed, as usual for that at the time",
            "seek 8.5 ms read, 9.5 ms write: datasheet of the 7K1000.C; 0.8 ms to the next track: that of the Barracuda ES.2; \
             the write settle is the difference of the first two; full stroke 18 ms assumed",
            "sectors per track: chosen for a sustained 100 MB/s outside and 60 MB/s inside; cylinders: what the size then needs",
            "skews: cover a head switch of 0.4 ms and a seek of one cylinder with some margin (assumed)",
            "overhead 0.1 ms, read-ahead of 512 KiB, write cache on: assumed",
        ],
        parameters: include_str!("presets/hdd.toml"),
    },
    Preset {
        name: "hdd-no-cache",
        title: "the disk `hdd` with its read-ahead and its write cache switched off",
        year: Some(2008),
        status: Status::Datasheet,
        sources: &["everything: `hdd`; a sequential stream that pauses loses a revolution"],
        parameters: include_str!("presets/hdd-no-cache.toml"),
    },
    Preset {
        name: "hdd-15k",
        title: "Seagate Cheetah 15K.5, 15,000 rpm, 146 GB (ST3146855FC)",
        year: Some(2006),
        status: Status::Validated,
        sources: &[
            "validated against 10,000 random requests to the drive with its cache off: demerit 0.29 ms (0.31 ms over replays \
             with other phases, 5 % of the mean), mean 1.5 to 2 % low, p99 1.1 ms low; sequential access is not validated",
            "everything but the following: the parameter set of the Parallel Data Laboratory (2008), extracted by DIXtrac",
            "seek curve: 139 of its 342 points, which give the rest to 10 us; the last one extrapolated by 169 cylinders",
            "skews between runs: means over the outer zones of the extracted layout; spares lie at the end of each zone",
            "interface 400 MB/s: Fibre Channel of the drive's generation (assumed)",
        ],
        parameters: include_str!("presets/hdd-15k.toml"),
    },
    Preset {
        name: "cheetah-9lp",
        title: "Seagate Cheetah 9LP, 10,000 rpm, 9 GB (ST39102LW)",
        year: Some(1997),
        status: Status::Validated,
        sources: &[
            "validated against 10,000 requests to the drive, half of them answered from its buffer: demerit 0.10 ms (2.4 % of \
             the mean; DiskSim 0.107 ms)",
            DISKSIM,
            "interface 80 MB/s: Ultra2 SCSI, as its connector is for (assumed); the requests were measured over a test bench's bus of \
             4.876 MB/s, which takes its place in the validation",
            "read-ahead to the end of the next track: chosen by looking at the requests; what DiskSim's parameter set says (scheme 4, \
             `track_or_next`) leaves the model 0.17 ms from the drive",
            REPOSITION,
            "not modelled: one sequential read in twenty that the drive took from the media though it had time to read ahead",
            SPARES,
        ],
        parameters: include_str!("presets/cheetah-9lp.toml"),
    },
    Preset {
        name: "atlas-10k",
        title: "Quantum Atlas 10K, 10,000 rpm, 9 GB",
        year: Some(1999),
        status: Status::Validated,
        sources: &[
            "validated against 10,000 requests to the drive, half of them answered from its buffer: demerit 0.09 ms (2.4 % of \
             the mean; DiskSim 0.268 ms)",
            DISKSIM,
            "interface 80 MB/s: Ultra2 SCSI, as drives of its generation have (assumed); the requests were measured over a test \
             bench's bus of 5.172 MB/s, which takes its place in the validation",
            "read-ahead to the end of the next track: chosen by looking at the requests, by a little; what DiskSim's parameter set says \
             (scheme 4, `track_or_next`) gives 0.10 ms",
            NO_REPOSITION,
            SPARES,
        ],
        parameters: include_str!("presets/atlas-10k.toml"),
    },
    Preset {
        name: "barracuda",
        title: "Seagate Barracuda, 7200 rpm, 2 GB (ST32171W)",
        year: Some(1996),
        status: Status::Validated,
        sources: &[
            "validated against 10,000 requests to the drive, half of them answered from its buffer: demerit 0.23 ms (3.5 % of \
             the mean; DiskSim 0.348 ms)",
            DISKSIM,
            "interface 40 MB/s: Fast-20 on a wide bus, from the product manual of its family (that this drive of it has that: assumed); \
             the requests were measured over a test bench's bus of 3.821 MB/s, which takes its place in the validation",
            "every write completes in the buffer (chosen by looking at the requests); the parameter set says only those that continue another",
            REPOSITION,
            SPARES,
        ],
        parameters: include_str!("presets/barracuda.toml"),
    },
    Preset {
        name: "hp-c3323a",
        title: "HP C3323A, 5400 rpm, 1 GB",
        year: Some(1994),
        status: Status::Validated,
        sources: &[
            "validated against 9,074 requests to the drive, one in six answered from its buffer: demerit 0.24 ms (1.5 % of the \
             mean; DiskSim 0.306 ms)",
            DISKSIM,
            "interface 10 MB/s: Fast SCSI-2, as drives of its generation have (assumed); in the validation 3.519 MB/s take its place, \
             0.1455 ms a sector: fitted to the reads that the buffer answered, since the parameter set leaves it out",
            "size: 2,056,008 sectors; the parameter set was later corrected to 1,743,672, but the requests measured on the drive \
             reach beyond that",
            NO_REPOSITION,
            SPARES,
        ],
        parameters: include_str!("presets/hp-c3323a.toml"),
    },
    Preset {
        name: "ssd-slc",
        title: "SLC flash as in the paper on BID: 25 us to read, 500 us to write a page of 4 KiB",
        year: None,
        status: Status::Datasheet,
        sources: &[
            "page of 4 KiB, 256 pages a block, 25 us, 500 us: Table 3 of the paper; channel and interface take no time, so that \
             these are what a page takes at queue depth one",
            "size: that of the `hdd` preset beside which it stands in the paper (assumed)",
            "ten channels of two dies: as in SLC drives of its time (assumed); together they write 164 MB/s",
            "erase 1.5 ms, 25 % of spare flash, no write buffer: assumed",
        ],
        parameters: include_str!("presets/ssd-slc.toml"),
    },
    Preset {
        name: "ssd-970pro",
        title: "Samsung 970 PRO, 512 GB, MLC, PCIe 3.0 x4",
        year: Some(2018),
        status: Status::Calibrated,
        sources: &[
            "times, rates, channels, dies, pages, buffer and spare flash: the set that NVMeVirt (snu-csl/nvmevirt, ssd_config.h) \
             fits to the drive; the erase is hidden in it. Response times of this model were not compared with the drive",
            "the set's four partitions of two channels each, with a map of their own, are one here",
            "blocks of 4 MiB: what 512 GB in 8192 blocks a die come to; a flush or discard costs a write's overhead (assumed)",
        ],
        parameters: include_str!("presets/ssd-970pro.toml"),
    },
    Preset {
        name: "ssd-zn540",
        title: "the flash of a Western Digital ZN540, 1 TB, TLC, PCIe 3.0 x4, behind a page map",
        year: Some(2020),
        status: Status::Calibrated,
        sources: &[
            "times, rates, channels, dies, pages: the set that NVMeVirt (snu-csl/nvmevirt, ssd_config.h) fits to the drive; the \
             erase is hidden in it. Response times of this model were not compared with the drive",
            "the drive itself is zoned: its host collects garbage. The page map and 7 % of spare flash are assumed",
            "blocks of 1077 pages: a zone's capacity of 1077 MiB over 32 dies; buffer: ten programs for each of 14 open zones; \
             it survives a loss of power (assumed)",
        ],
        parameters: include_str!("presets/ssd-zn540.toml"),
    },
    Preset {
        name: "hdd-20tb",
        title: "7200 rpm nearline disk of 20 TB, ten platters",
        year: Some(2021),
        status: Status::Datasheet,
        sources: &[
            "size, speed, 285 MB/s at the outer edge, buffer of 256 MB: datasheet of the Exos X20",
            "seeks, which that leaves out: specification of the Ultrastar DC HC310, a disk of the same speed and size of platter; \
             14 ms from edge to edge assumed",
            "130 MB/s at the inner edge, 20 surfaces: assumed; conventional recording, as the drive has",
            "kept to compare with: random reads of 4 KiB at depth 16, 168 a second on the datasheet, 188 here",
        ],
        parameters: include_str!("presets/hdd-20tb.toml"),
    },
    Preset {
        name: "hdd-2x7tb",
        title: "7200 rpm nearline disk of 14 TB with two actuators, half of the addresses each",
        year: Some(2021),
        status: Status::Datasheet,
        sources: &[
            "size, speed, 524 MB/s at the outer edge over both actuators, buffer: published numbers of the Exos 2X14",
            "seeks: as for hdd-20tb; 120 MB/s at the inner edge and the surfaces: assumed",
            "the halves share a spindle; here they turn independently, and each serves its commands in the order of arrival",
            "kept to compare with: 304 random reads a second; 167 here at depth 16, because the halves do not choose among commands",
        ],
        parameters: include_str!("presets/hdd-2x7tb.toml"),
    },
    Preset {
        name: "hdd-smr",
        title: "7200 rpm host-managed SMR disk of 14 TB, zones of 256 MiB",
        year: Some(2017),
        status: Status::Datasheet,
        sources: &[
            "size, speed, 233 MB/s at the outer edge, buffer of 512 MB, eight platters: published numbers of the Ultrastar Hs14 (DC \
             HC620)",
            "zones of 256 MiB, the first 1 % of them conventional, 110 MB/s at the inner edge: assumed, as usual of such disks; \
             seeks: as for hdd-20tb",
            "a write that is not at its zone's write pointer makes the host read and write that zone again; the drive itself \
             refuses it",
            "no write cache: the host is told of what is on the medium (assumed)",
        ],
        parameters: include_str!("presets/hdd-smr.toml"),
    },
    Preset {
        name: "ssd-qlc",
        title: "QLC data-centre drive of 61 TB that maps 16 KiB at once",
        year: Some(2023),
        status: Status::Datasheet,
        sources: &[
            "size, map, rates and commands a second: published numbers of the Solidigm D5-P5336",
            "110 us for a read and 40 us for a write alone: assumed; 7 % of spare flash: assumed",
            "writes of less than 16 KiB read the rest first; the rated writes are of 16 KiB",
        ],
        parameters: include_str!("presets/ssd-qlc.toml"),
    },
    Preset {
        name: "ssd-990pro",
        title: "Samsung 990 PRO, 2 TB, TLC, PCIe 4.0 x4",
        year: Some(2022),
        status: Status::Datasheet,
        sources: &[
            "rates and commands a second, at high depth and alone: datasheet of the drive",
            "all of them hold for its SLC buffer; the slower writes after it are not modelled, nor is heat",
        ],
        parameters: include_str!("presets/ssd-990pro.toml"),
    },
    Preset {
        name: "raid-5",
        title: "array of eight hdd-20tb with rotating parity (RAID 5)",
        year: Some(2021),
        status: Status::Artificial,
        sources: &[
            "chunks of 512 KiB and the place of the parity (left symmetric): the defaults of mdadm",
            "a write of less than a row reads the old data and the old parity first; there is no cache of a controller",
        ],
        parameters: include_str!("presets/raid-5.toml"),
    },
    Preset {
        name: "raid-10",
        title: "array of eight hdd-20tb: stripes over four mirrors of two (RAID 10)",
        year: Some(2021),
        status: Status::Artificial,
        sources: &[
            "chunks of 512 KiB: the default of mdadm",
            "a read goes to the drive of a mirror that is free first; there is no cache of a controller",
        ],
        parameters: include_str!("presets/raid-10.toml"),
    },
    Preset {
        name: "tiered",
        title: "array of an SSD and an HDD tier, served side by side, as in the paper on reward scheduling",
        year: None,
        status: Status::Artificial,
        sources: &[
            "reads of the tiers exponential with means of 200 us and 10 ms: section 4 of the paper (Elnably and others, HotStorage \
             2012); writes as reads, one service at a time in each tier",
            "a request hits the fast tier by its class's hit ratio, or else every other time",
        ],
        parameters: include_str!("presets/tiered.toml"),
    },
    Preset {
        name: "bank",
        title: "281 disks of a storage server, each with a queue of its own, as in the paper on request scheduling in WAFL",
        year: None,
        status: Status::Artificial,
        sources: &[
            "281 disks of 450 GB: mid-range in Table 1 of the paper; that data lie on them at random, and a flush writes to 16 of them: assumed",
            "15,000 rpm, 2.5 ms until the sector comes round and 3.5 ms of seek in the mean: as a fixed and an exponential half (assumed); 8 us a \
             KiB are 128 MB/s",
        ],
        parameters: include_str!("presets/bank.toml"),
    },
    Preset {
        name: "tiny",
        title: "one surface of 100 tracks of 100 sectors, for examples that one can follow by hand",
        year: None,
        status: Status::Artificial,
        sources: &["geometry: the worked example of the paper on BID; times: round numbers"],
        parameters: include_str!("presets/tiny.toml"),
    },
    Preset {
        name: "null",
        title: "takes no time, to measure everything else",
        year: None,
        status: Status::Artificial,
        sources: &[],
        parameters: include_str!("presets/null.toml"),
    },
];
