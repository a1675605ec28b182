//! The identity of a device and the settings of its queue, from sysfs.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::RealError;
use super::system::{Number, System, line, names};

/// A block device as sysfs describes it. Facts that sysfs does not state are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// The kernel's name of the whole disk: `sda`.
    pub name: String,
    /// The device number: `8:0`.
    pub number: String,
    /// The partition of the disk that the user named, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The vendor's name for it.
    pub model: Option<String>,
    /// The serial number.
    pub serial: Option<String>,
    /// The world-wide name.
    pub wwid: Option<String>,
    /// The size of the device.
    pub size_bytes: Option<u64>,
    /// Whether the device claims to rotate; virtual disks often do so without a reason.
    pub rotational: Option<bool>,
    /// The I/O scheduler.
    pub scheduler: Option<String>,
    /// The I/O schedulers that the device can have.
    pub schedulers: Vec<String>,
    /// The number of requests that the queue holds.
    pub nr_requests: Option<u64>,
    /// How far the kernel reads ahead.
    pub read_ahead_kb: Option<u64>,
    /// The largest request.
    pub max_sectors_kb: Option<u64>,
    /// `write back` if the device has a volatile cache.
    pub write_cache: Option<String>,
    /// The unit of the device's addresses.
    pub logical_block_bytes: Option<u64>,
    /// The unit that the device writes without reading first.
    pub physical_block_bytes: Option<u64>,
    /// Hardware queues.
    pub hardware_queues: Option<u64>,
    /// The most requests that all hardware queues hold at once: the depth below the scheduler.
    pub depth: Option<u64>,
    /// The file of a loop device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backing_file: Option<String>,
    /// Whether a loop device bypasses the page cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backing_is_direct: Option<bool>,
}

/// The entry in brackets, and all entries: `none [bfq]`.
pub(super) fn choices(text: &str) -> (Option<String>, Vec<String>) {
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let all = text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect();
    (chosen.map(str::to_owned), all)
}

impl Identity {
    /// The identity of a device, or of the disk that it is a partition of.
    ///
    /// # Errors
    /// If sysfs does not know the device.
    pub fn of(system: &System, number: Number) -> Result<Self, RealError> {
        let unknown = || {
            RealError::new(format!("sysfs has no block device {number}"))
                .hint("a file on a network or memory file system has no block device under it")
        };
        let folder = system.folder(number).ok_or_else(unknown)?;
        let disk = System::disk(&folder);
        let name = |folder: &Path| folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = |entry: &str| line(&disk.join(entry));
        let count = |entry: &str| text(entry).and_then(|text| text.parse::<u64>().ok());
        let flag = |entry: &str| count(entry).map(|value| value != 0);
        let (scheduler, schedulers) = text("queue/scheduler").map_or_else(Default::default, |text| choices(&text));
        let queues = names(&disk.join("mq"));
        let tags = queues.iter().map(|queue| count(&format!("mq/{queue}/nr_tags")));
        Ok(Self {
            name: name(disk),
            number: System::number(disk).unwrap_or(number).to_string(),
            partition: (disk != folder).then(|| name(&folder)),
            model: text("device/model"),
            serial: text("serial").or_else(|| text("device/serial")),
            wwid: text("wwid").or_else(|| text("device/wwid")),
            size_bytes: count("size").map(|sectors| sectors.saturating_mul(512)),
            rotational: flag("queue/rotational"),
            scheduler,
            schedulers,
            nr_requests: count("queue/nr_requests"),
            read_ahead_kb: count("queue/read_ahead_kb"),
            max_sectors_kb: count("queue/max_sectors_kb"),
            write_cache: text("queue/write_cache"),
            logical_block_bytes: count("queue/logical_block_size"),
            physical_block_bytes: count("queue/physical_block_size"),
            hardware_queues: (!queues.is_empty()).then_some(queues.len() as u64),
            depth: tags.sum::<Option<u64>>().filter(|&depth| depth > 0),
            backing_file: text("loop/backing_file"),
            backing_is_direct: flag("loop/dio"),
        })
    }

    /// The number of the whole disk.
    #[must_use]
    pub fn disk(&self) -> Option<Number> {
        Number::parse(&self.number)
    }

    /// The numbers of the disk and its partitions, which all stand for it in the kernel's events.
    #[must_use]
    pub fn numbers(&self, system: &System) -> Vec<Number> {
        let Some(folder) = self.folder(system) else { return self.disk().into_iter().collect() };
        let folders = std::iter::once(folder.clone()).chain(System::partitions(&folder));
        folders.filter_map(|folder| System::number(&folder)).collect()
    }

    /// The device's folder in sysfs.
    pub(super) fn folder(&self, system: &System) -> Option<PathBuf> {
        system.folder(self.disk()?)
    }

    /// Whether the device is memory: a ram disk, compressed memory, or a null device.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        ["ram", "zram", "pmem", "nullb"].iter().any(|kind| {
            self.name.strip_prefix(kind).is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
        })
    }

    /// Remarks for people on how far a measurement of this device can be trusted.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let missing: Vec<&str> = [
            ("model", self.model.is_none()),
            ("serial number", self.serial.is_none()),
            ("depth", self.depth.is_none()),
            ("scheduler", self.scheduler.is_none()),
        ]
        .into_iter()
        .filter_map(|(name, is_missing)| is_missing.then_some(name))
        .collect();
        if !missing.is_empty() {
            remarks.push(format!("sysfs does not say: {} (usual of virtual disks)", missing.join(", ")));
        }
        if self.is_memory() {
            remarks.push(format!("{} is memory, not a device", self.name));
        }
        if self.backing_is_direct == Some(false) {
            remarks.push(format!(
                "{} reads its file through the page cache: `losetup --direct-io=on` measures the device",
                self.name
            ));
        }
        remarks
    }
}
