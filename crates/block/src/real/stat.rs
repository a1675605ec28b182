//! The kernel's own counts of a device's requests: to check a recording, and to measure the load.

use super::System;

/// Counts since the device appeared, after merging. They may wrap, and begin anew when the device is attached again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Reads that were completed.
    pub reads: u64,
    /// Sectors that the reads have read.
    pub read_sectors: u64,
    /// The sum of their times, in milliseconds.
    pub read_millis: u64,
    /// Writes that were completed.
    pub writes: u64,
    /// Sectors that they wrote.
    pub written_sectors: u64,
    /// The sum of their times, in milliseconds.
    pub write_millis: u64,
    /// The time with at least one request in flight, in milliseconds.
    pub busy_millis: u64,
    /// Discards that were completed; zero where the kernel does not count them.
    pub discards: u64,
    /// Sectors that they discarded.
    pub discarded_sectors: u64,
}

impl Stat {
    /// The present counts of the device of this name.
    #[must_use]
    pub fn of(system: &System, device: &str) -> Option<Self> {
        let text = std::fs::read_to_string(system.proc.join("diskstats")).ok()?;
        Self::parse(&text, device)
    }

    /// The counts of a device in the text of `/proc/diskstats`.
    #[must_use]
    pub fn parse(text: &str, device: &str) -> Option<Self> {
        let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(device))?;
        let field = |at: usize| line.split_whitespace().nth(at).and_then(|word| word.parse::<u64>().ok());
        Some(Self {
            reads: field(3)?,
            read_sectors: field(5)?,
            read_millis: field(6)?,
            writes: field(7)?,
            written_sectors: field(9)?,
            write_millis: field(10)?,
            busy_millis: field(12)?,
            // Kernels before 4.18 do not count discards.
            discards: field(14).unwrap_or(0),
            discarded_sectors: field(16).unwrap_or(0),
        })
    }

    /// Reads, writes and discards.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.reads.wrapping_add(self.writes).wrapping_add(self.discards)
    }

    /// The counts since an earlier reading; `None` if one of them has gone back, so that the time between is unknown.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<Self> {
        Some(Self {
            reads: self.reads.checked_sub(before.reads)?,
            read_sectors: self.read_sectors.checked_sub(before.read_sectors)?,
            read_millis: self.read_millis.checked_sub(before.read_millis)?,
            writes: self.writes.checked_sub(before.writes)?,
            written_sectors: self.written_sectors.checked_sub(before.written_sectors)?,
            write_millis: self.write_millis.checked_sub(before.write_millis)?,
            busy_millis: self.busy_millis.checked_sub(before.busy_millis)?,
            discards: self.discards.checked_sub(before.discards)?,
            discarded_sectors: self.discarded_sectors.checked_sub(before.discarded_sectors)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_writes_and_discards_count_without_merges() {
        let text =
            "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n 254       0 vda 10 7 80 3 20 9 160 4 0 5 6 30 2 8 1 494 260\n";
        let count = |device: &str| Stat::parse(text, device).map(|stat| stat.requests());
        assert_eq!((count("vda"), count("loop0"), count("vd")), (Some(60), Some(0), None));
    }

    #[test]
    fn counts_that_went_back_yield_no_value() {
        let before = Stat { reads: 10, writes: 5, ..Stat::default() };
        let after = Stat { reads: 12, writes: 5, ..Stat::default() };
        assert_eq!(after.since(&before), Some(Stat { reads: 2, ..Stat::default() }));
        assert_eq!(before.since(&after), None);
    }
}
