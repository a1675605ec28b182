//! The snapshots of a device: their folder, and which are taken and kept.

use std::path::PathBuf;

use ioweir_config::{Complaint, Duration, keys};
use ioweir_core::Nanos;

use super::backends::Backend;
use super::check::within;

/// The most snapshots that are kept of those that the server takes.
const KEEP_MAX: u32 = 10_000;

keys! {
    /// Snapshots of a device's file on XFS or btrfs, which share its blocks.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Snapshots {
        /// where they lie, on the same file system; made if it is missing. Beside the device's file, as PATH.snapshots, if absent
        folder: Option<PathBuf> = absent,
        /// how often the server takes a snapshot, from 1s on; if absent, only `ioweir ctl SERVER snapshot take` takes them
        every: Option<Duration> = absent,
        /// how many scheduled snapshots stay, 1 to 10000: older ones are deleted. Needed beside `every`
        keep: Option<u32> = absent,
        /// how long clients may wait for a snapshot, up to 1m; one that takes longer is given up
        pause_max: Duration = (Duration::from_seconds(1)),
    }
}

/// Checks the snapshots of a device at `at`.
pub(super) fn check(snapshots: &Snapshots, backend: &Backend, at: &str) -> Result<(), Complaint> {
    let key = |name: &str| format!("{at}.snapshots.{name}");
    if !matches!(backend, Backend::File { .. }) {
        let problem = format!("snapshots: backend {} takes none", backend.name());
        let expected = "backend = \"file\", with a file on XFS or btrfs";
        return Err(Complaint::of_value(format!("{at}.snapshots"), problem).expected(expected));
    }
    within(&key("pause_max"), snapshots.pause_max, Duration::new(Nanos::from_millis(1)), Duration::from_seconds(60))?;
    if let Some(every) = snapshots.every {
        within(&key("every"), every, Duration::from_seconds(1), Duration::from_seconds(400 * 86_400))?;
    }
    within(&key("keep"), snapshots.keep.unwrap_or(1), 1, KEEP_MAX)?;
    match (snapshots.every, snapshots.keep) {
        (Some(_), None) => {
            let complaint = Complaint::of_value(key("every"), "every: without `keep`, the disk would be full some day");
            Err(complaint.expected("keep beside it, such as 24"))
        }
        (None, Some(_)) => {
            let complaint =
                Complaint::of_value(key("keep"), "keep: without `every`, the server takes none that it could delete");
            Err(complaint.expected("every beside it, such as \"1h\""))
        }
        _ => Ok(()),
    }
}
