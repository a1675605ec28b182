//! The kernel's facts about devices, in sysfs and procfs. Tests replace the roots of both.

use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::RealError;

/// The number of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number {
    /// The number of the driver.
    pub major: u32,
    /// The number among the driver's devices.
    pub minor: u32,
}

impl Number {
    /// The number that `stat` reports.
    #[must_use]
    pub fn of(device: u64) -> Self {
        Self { major: rustix::fs::major(device), minor: rustix::fs::minor(device) }
    }

    /// The number in `text`, as `8:16`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.major, self.minor)
    }
}

/// The roots of sysfs and procfs.
#[derive(Clone, Debug)]
pub struct System {
    /// Usually `/sys`.
    pub sys: PathBuf,
    /// Usually `/proc`.
    pub proc: PathBuf,
}

impl Default for System {
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into() }
    }
}

impl System {
    /// The control group of a process, by its `/proc` entry: in the hierarchy that counts block I/O if there is one, else in the common
    /// one. `None` if the process has ended.
    #[must_use]
    pub fn control_group(&self, pid: u32) -> Option<String> {
        let text = fs::read_to_string(self.proc.join(pid.to_string()).join("cgroup")).ok()?;
        let lines = text.lines().filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            Some((number == "0", controllers, path))
        });
        let lines: Vec<_> = lines.collect();
        let of_blocks = lines.iter().find(|(_, controllers, _)| controllers.split(',').any(|one| one == "blkio"));
        of_blocks.or_else(|| lines.iter().find(|(is_common, ..)| *is_common)).map(|(_, _, path)| (*path).to_owned())
    }
}

/// The first line of a file, without blanks around it; `None` if there is no such file or it is empty.
pub(super) fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// The names in a folder, sorted; none if the folder does not exist.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

impl System {
    /// The number of the block device at a path, or of the one under the file at it.
    ///
    /// # Errors
    /// If there is nothing at the path, or no block device under it.
    pub fn device_of(&self, path: &Path) -> Result<Number, RealError> {
        let about = fs::metadata(path).map_err(|error| RealError::refused(path, "cannot be found", &error))?;
        if about.file_type().is_block_device() {
            return Ok(Number::of(about.rdev()));
        }
        let number = Number::of(about.dev());
        if self.folder(number).is_some() {
            return Ok(number);
        }
        // Some file systems have numbers of their own; the table of mounts names their devices.
        let mounts = fs::read_to_string(self.proc.join("self/mountinfo")).unwrap_or_default();
        let text = number.to_string();
        let source = mounts.lines().filter_map(Mount::of).find(|mount| mount.number == text).map(|mount| mount.source);
        let device = source.filter(|source| source.starts_with("/dev/")).and_then(|source| fs::metadata(source).ok());
        device.filter(|about| about.file_type().is_block_device()).map(|about| Number::of(about.rdev())).ok_or_else(
            || {
                RealError::of(path, "lies on no block device")
                    .expected("a block device, or a path on a file system of one")
                    .hint("what is on a network or in memory has no device here: name a device")
            },
        )
    }

    /// The folder of a block device, which may be a partition.
    pub(super) fn folder(&self, number: Number) -> Option<PathBuf> {
        fs::canonicalize(self.sys.join("dev/block").join(number.to_string())).ok()
    }

    /// The folder of the whole disk that a folder is a partition of; the folder itself for a disk.
    pub(super) fn disk(folder: &Path) -> &Path {
        if folder.join("partition").exists() { folder.parent().unwrap_or(folder) } else { folder }
    }

    /// The number of the device of a folder.
    pub(super) fn number(folder: &Path) -> Option<Number> {
        Number::parse(&line(&folder.join("dev"))?)
    }

    /// The folders of the partitions of a disk.
    pub(super) fn partitions(disk: &Path) -> Vec<PathBuf> {
        let folders = names(disk).into_iter().map(|name| disk.join(name));
        folders.filter(|folder| folder.join("partition").exists()).collect()
    }

    /// The users of the device of a folder: mounts, swap, and devices that are built on it. For a disk, the users of its partitions too.
    pub(super) fn users(&self, folder: &Path) -> Vec<String> {
        let mut folders = Self::partitions(folder);
        folders.push(folder.to_owned());
        let mounts = fs::read_to_string(self.proc.join("self/mountinfo")).unwrap_or_default();
        let swaps = fs::read_to_string(self.proc.join("swaps")).unwrap_or_default();
        let mut users = Vec::new();
        for folder in folders {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let number = Self::number(&folder).map(|number| number.to_string());
            for mount in mounts.lines().filter_map(Mount::of) {
                let is_named = mount
                    .source
                    .rsplit_once('/')
                    .is_some_and(|(folder, last)| last == name && folder.ends_with("/dev"));
                if number.as_deref() == Some(mount.number) || is_named {
                    users.push(format!("{name} is mounted at {}", mount.place));
                }
            }
            let is_swap =
                |line: &str| line.split_whitespace().next().is_some_and(|path| path.ends_with(&format!("/{name}")));
            if swaps.lines().skip(1).any(is_swap) {
                users.push(format!("{name} is swap"));
            }
            let holders = names(&folder.join("holders"));
            users.extend(holders.into_iter().map(|holder| format!("{name} is a part of {holder}")));
        }
        users.dedup();
        users
    }
}

/// The fields of a line of `mountinfo` that are used.
struct Mount<'a> {
    number: &'a str,
    place: &'a str,
    source: &'a str,
}

impl<'a> Mount<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut fields = left.split(' ').skip(2);
        let (number, place) = (fields.next()?, fields.nth(1)?);
        Some(Self { number, place, source: right.split(' ').nth(1)? })
    }
}
