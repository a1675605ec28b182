//! The table of background services: what it costs to pay a block of their debt, and the space that paying it frees.

/// How many services there are.
pub const SERVICES_COUNT: usize = 12;

/// A background service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Service {
    /// Frees blocks that only an expired snapshot still holds.
    SnapshotDelete,
    /// Frees the extents of a deleted volume.
    VolumeDelete,
    /// Frees blocks that hosts have unmapped.
    Unmap,
    /// Compacts live blocks and frees the segments that overwrites left behind.
    Defragmentation,
    /// Compresses cold data harder than the write path does.
    DeepCompression,
    /// Finds duplicate blocks.
    OfflineDedup,
    /// Reconstructs the stripes of a failed drive.
    Rebuild,
    /// Moves data to where it will be read.
    Relocation,
    /// Moves data and metadata from the fast tier to their final location.
    Flush,
    /// Sends writes to the other site.
    Replication,
    /// Reads everything and compares checksums.
    Scrub,
    /// Looks for patterns in the data.
    Analytics,
}

named! {
    /// The source of a service's debt.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Source {
        /// Every block written.
        Writes = "blocks written",
        /// Every block overwritten: the old one is garbage.
        Overwrites = "blocks written over",
        /// Every unmapped block.
        Unmaps = "blocks unmapped",
        /// The stored data, once in each period.
        Stored = "the data stored, once a period",
        /// Events that the operator names, such as a failed drive or a deleted volume.
        Named = "what the operator names",
    }
}

/// A row of the table of services, with its defaults.
#[derive(Clone, Copy, Debug)]
pub struct ServiceRow {
    /// The service.
    pub service: Service,
    /// The name in policies and reports.
    pub name: &'static str,
    /// The service's work, in one line.
    pub summary: &'static str,
    /// When to run it, and where the numbers come from.
    pub doc: &'static str,
    /// The source of its debt.
    pub source: Source,
    /// Blocks in one item, which is not divided.
    pub item_blocks: u32,
    /// Background operations for a thousand blocks of debt; 1000 is one operation a block, as in the paper.
    pub cost_per_mille: u32,
    /// Blocks of the pool held by a thousand blocks of debt until they are paid.
    pub tied_per_mille: u32,
    /// Whether its debt takes new space when it is incurred, because the new version of a block is stored beside the old
    /// one. Other debt (a deleted volume, what compression will save) lies in space that was taken earlier.
    pub takes_room: bool,
    /// Items that it pays in a round before the next queue's turn.
    pub priority: u32,
    /// The longest time that its debt may wait, in seconds; zero means no deadline.
    pub deadline_seconds: u32,
}

/// The settings of one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceSettings {
    /// As in [`ServiceRow`].
    pub item_blocks: u32,
    /// As in [`ServiceRow`].
    pub cost_per_mille: u32,
    /// As in [`ServiceRow`].
    pub tied_per_mille: u32,
    /// As in [`ServiceRow`].
    pub priority: u32,
    /// As in [`ServiceRow`], but in nanoseconds; [`crate::Nanos::NEVER`] means no deadline.
    pub deadline: crate::Nanos,
    /// The time before its debt may be paid, such as a snapshot's retention.
    pub retention: crate::Nanos,
    /// The least time between two of its blocks, whatever is idle: its rate. Zero means any rate.
    pub block_nanos_min: crate::Nanos,
}

impl ServiceSettings {
    /// The work for `blocks` of debt, in thousandths of an operation.
    #[must_use]
    pub const fn work(&self, blocks: u64) -> u64 {
        blocks.saturating_mul(self.cost_per_mille as u64)
    }

    /// The least time that `blocks` of debt take at its rate.
    #[must_use]
    pub const fn pace(&self, blocks: u64) -> crate::Nanos {
        crate::Nanos(blocks.saturating_mul(self.block_nanos_min.0))
    }

    /// Debt that is incurred now.
    #[must_use]
    pub const fn batch(&self, now: crate::Nanos, blocks: u64) -> super::Batch {
        let payable_at = now.after(self.retention);
        super::Batch { payable_at, due_at: payable_at.after(self.deadline), blocks }
    }

    /// The blocks of debt that `work` pays.
    #[must_use]
    pub const fn blocks(&self, work: u64) -> u64 {
        match self.cost_per_mille {
            0 => u64::MAX,
            cost => work / cost as u64,
        }
    }

    /// The blocks of the pool held by `blocks` of debt.
    #[must_use]
    pub const fn tied(&self, blocks: u64) -> u64 {
        (blocks as u128 * self.tied_per_mille as u128 / 1000) as u64
    }

    /// Whether paying its debt frees space.
    #[must_use]
    pub const fn reclaims(&self) -> bool {
        self.tied_per_mille > 0
    }

    /// Whether `self` frees more space for the same work than `other`.
    #[must_use]
    pub const fn is_denser(&self, other: &Self) -> bool {
        self.tied_per_mille as u64 * other.cost_per_mille as u64
            > other.tied_per_mille as u64 * self.cost_per_mille as u64
    }
}

impl Service {
    /// Every service, in the order of the table.
    pub const ALL: [Self; SERVICES_COUNT] = [
        Self::SnapshotDelete,
        Self::VolumeDelete,
        Self::Unmap,
        Self::Defragmentation,
        Self::DeepCompression,
        Self::OfflineDedup,
        Self::Rebuild,
        Self::Relocation,
        Self::Flush,
        Self::Replication,
        Self::Scrub,
        Self::Analytics,
    ];

    /// The service's row in the table of services.
    #[must_use]
    pub const fn row(self) -> &'static ServiceRow {
        &SERVICES[self as usize]
    }

    /// The name in policies and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Finds a service by its name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        SERVICES.iter().find(|row| row.name == name).map(|row| row.service)
    }
}

impl ServiceRow {
    /// The settings that this row of the table gives.
    #[must_use]
    pub const fn defaults(&self) -> ServiceSettings {
        ServiceSettings {
            item_blocks: self.item_blocks,
            cost_per_mille: self.cost_per_mille,
            tied_per_mille: self.tied_per_mille,
            priority: self.priority,
            deadline: match self.deadline_seconds {
                0 => crate::Nanos::NEVER,
                seconds => crate::Nanos::from_seconds(seconds as u64),
            },
            retention: crate::Nanos::ZERO,
            block_nanos_min: crate::Nanos::ZERO,
        }
    }
}

/// Every service. Services that free space have no deadline, and services with neither can always wait. The planner's order
/// (deadlines, space, all else) depends on this.
pub static SERVICES: [ServiceRow; SERVICES_COUNT] = [
    ServiceRow {
        service: Service::SnapshotDelete,
        name: "snapshot-delete",
        summary: "frees what only an expired snapshot still holds",
        doc: "A snapshot holds every block written over since it was taken; when its retention ends, each of them is looked \
up and freed. One operation a block, as the paper has it. Pay it in quiet hours, before the pool needs the room.",
        source: Source::Writes,
        item_blocks: 1,
        cost_per_mille: 1000,
        tied_per_mille: 1000,
        takes_room: true,
        priority: 8,
        deadline_seconds: 0,
    },
    ServiceRow {
        service: Service::VolumeDelete,
        name: "volume-delete",
        summary: "frees the extents of a deleted volume",
        doc: "Extents are freed whole: an operation handles fifty blocks. It gives back the most room for its work, so it goes \
first when room is short.",
        source: Source::Named,
        item_blocks: 256,
        cost_per_mille: 20,
        tied_per_mille: 1000,
        takes_room: false,
        priority: 8,
        deadline_seconds: 0,
    },
    ServiceRow {
        service: Service::Unmap,
        name: "unmap",
        summary: "frees what hosts have unmapped",
        doc: "Len/BSize x (1 + DMD) blocks for each unmap; DMD, the metadata for the data, is 2 to 5 %. Ranges are long: an \
operation handles twenty blocks.",
        source: Source::Unmaps,
        item_blocks: 16,
        cost_per_mille: 50,
        tied_per_mille: 1000,
        takes_room: false,
        priority: 6,
        deadline_seconds: 0,
    },
    ServiceRow {
        service: Service::Defragmentation,
        name: "defragmentation",
        summary: "moves live blocks together and frees overwritten ones",
        doc: "(1 - u) x writes: in a log each overwrite leaves a dead block, and freeing a segment means reading and writing \
its live blocks: two operations a block.",
        source: Source::Overwrites,
        item_blocks: 1,
        cost_per_mille: 2000,
        tied_per_mille: 1000,
        takes_room: true,
        priority: 6,
        deadline_seconds: 0,
    },
    ServiceRow {
        service: Service::DeepCompression,
        name: "deep-compression",
        summary: "packs cold data harder than the write path does",
        doc: "Written data is read, compressed with a slow and strong method, and written again; about a third of the room comes \
back. Any quiet time will do.",
        source: Source::Writes,
        item_blocks: 4,
        cost_per_mille: 1500,
        tied_per_mille: 300,
        takes_room: false,
        priority: 3,
        deadline_seconds: 0,
    },
    ServiceRow {
        service: Service::OfflineDedup,
        name: "offline-dedup",
        summary: "finds blocks that are there twice",
        doc: "Written data is read, hashed and looked up; the gain depends on the data, 15 % is assumed. Any quiet time will do.",
        source: Source::Writes,
        item_blocks: 4,
        cost_per_mille: 1200,
        tied_per_mille: 150,
        takes_room: false,
        priority: 3,
        deadline_seconds: 0,
    },
    ServiceRow {
        service: Service::Rebuild,
        name: "rebuild",
        summary: "makes a failed drive's stripes whole again",
        doc: "Until it is done, the next failure may lose data: it has a deadline, which counts from the failure. Stripes are \
streamed: an operation handles thirty blocks.",
        source: Source::Named,
        item_blocks: 256,
        cost_per_mille: 33,
        tied_per_mille: 0,
        takes_room: false,
        priority: 8,
        deadline_seconds: 86_400,
    },
    ServiceRow {
        service: Service::Relocation,
        name: "relocation",
        summary: "moves data to where it will be read (prefetching, tiering)",
        doc: "Useful only if it is done before the readers come, harmless if it is not: it uses the remaining time.",
        source: Source::Named,
        item_blocks: 8,
        cost_per_mille: 500,
        tied_per_mille: 0,
        takes_room: false,
        priority: 2,
        deadline_seconds: 0,
    },
    ServiceRow {
        service: Service::Flush,
        name: "flush",
        summary: "moves data and metadata from the fast tier to their final tier",
        doc: "The write path waits when the fast tier is full, so this is paid within minutes, not at night. Its cores are sized \
by M/M/c, below the width of a bin.",
        source: Source::Writes,
        item_blocks: 16,
        cost_per_mille: 100,
        tied_per_mille: 0,
        takes_room: false,
        priority: 8,
        deadline_seconds: 300,
    },
    ServiceRow {
        service: Service::Replication,
        name: "replication",
        summary: "sends writes to the other site",
        doc: "Data that the other site does not have is lost with this one: the deadline is the recovery point objective (RPO).",
        source: Source::Writes,
        item_blocks: 16,
        cost_per_mille: 50,
        tied_per_mille: 0,
        takes_room: false,
        priority: 6,
        deadline_seconds: 900,
    },
    ServiceRow {
        service: Service::Scrub,
        name: "scrub",
        summary: "reads everything and compares checksums",
        doc: "All data stored once a period; the period is the deadline. It streams: an operation handles a hundred blocks.",
        source: Source::Stored,
        item_blocks: 256,
        cost_per_mille: 10,
        tied_per_mille: 0,
        takes_room: false,
        priority: 2,
        deadline_seconds: 604_800,
    },
    ServiceRow {
        service: Service::Analytics,
        name: "analytics",
        summary: "looks for patterns in the data",
        doc: "It has no deadline and gives no room back: it uses the remaining time.",
        source: Source::Named,
        item_blocks: 8,
        cost_per_mille: 500,
        tied_per_mille: 0,
        takes_room: false,
        priority: 1,
        deadline_seconds: 0,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_stands_at_its_own_place() {
        for (place, (row, service)) in SERVICES.iter().zip(Service::ALL).enumerate() {
            assert_eq!((row.service, place), (service, service as usize));
            assert_eq!(Service::find(row.name), Some(service));
        }
    }

    #[test]
    fn what_has_a_deadline_gives_no_room_back() {
        for row in &SERVICES {
            assert!(row.deadline_seconds == 0 || row.tied_per_mille == 0, "{}", row.name);
            assert!(row.cost_per_mille > 0 && row.priority > 0 && row.item_blocks > 0, "{}", row.name);
        }
    }
}
