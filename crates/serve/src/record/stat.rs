//! The kernel's own counts of what a device has done, to check a recording.

use crate::real::{Identity, System};

/// Counts since the device appeared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Requests that were completed: reads, writes and discards, after merging.
    requests: u64,
}

impl Stat {
    /// The counts of a device now.
    #[must_use]
    pub fn of(system: &System, identity: &Identity) -> Option<Self> {
        let text = std::fs::read_to_string(system.proc.join("diskstats")).ok()?;
        Self::parse(&text, &identity.name)
    }

    fn parse(text: &str, device: &str) -> Option<Self> {
        let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(device))?;
        let field = |at: usize| line.split_whitespace().nth(at).and_then(|word| word.parse::<u64>().ok());
        // Reads, writes, and on newer kernels discards.
        Some(Self { requests: field(3)?.checked_add(field(7)?)?.checked_add(field(14).unwrap_or(0))? })
    }

    /// The requests that were completed since an earlier look; the counts of a device may wrap.
    #[must_use]
    pub const fn since(&self, before: &Self) -> u64 {
        self.requests.wrapping_sub(before.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_writes_and_discards_count_and_merges_do_not() {
        let text =
            "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n 254       0 vda 10 7 80 3 20 9 160 4 0 5 6 30 2 8 1 494 260\n";
        let count = |device: &str| Stat::parse(text, device).map(|stat| stat.requests);
        assert_eq!((count("vda"), count("loop0"), count("vd")), (Some(60), Some(0), None));
    }
}
