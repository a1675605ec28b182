//! A block device or file that is opened to be measured.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ioweir_config::format_bytes;
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

use super::{Identity, Number, RealError, System};

/// The kinds of access to a target that the caller wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Open it for writing. A device that is in use is never opened for writing.
    pub write: bool,
    /// Read a device although it is in use.
    pub in_use: bool,
}

/// The kind of storage that a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A block device.
    Device,
    /// A file on a file system of a block device.
    File,
    /// A file in memory.
    Memory,
    /// A file on a network or in user space.
    Network,
}

/// An open block device or file.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    pub(crate) file: Arc<File>,
    kind: Kind,
    size_bytes: u64,
    alignment_bytes: u64,
    is_writable: bool,
    /// Why the page cache is not bypassed, if it is not.
    cached: Option<String>,
    identity: Option<Identity>,
}

/// Types of file systems whose files lie in memory.
const MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
/// Types of file systems whose files lie on other machines or in user space: NFS, CIFS, SMB, 9P, Ceph, FUSE.
const NETWORK: [i64; 6] = [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x00c3_6400, 0x6573_5546];

/// The alignment that a file needs if sysfs does not state one.
const ALIGNMENT_BYTES: u64 = 4096;

impl Target {
    /// Opens a block device or a file. Nothing is created, and nothing is written by opening.
    ///
    /// # Errors
    /// If it is neither, is in use and may not be, or cannot be opened.
    pub fn open(system: &System, path: &Path, access: Access) -> Result<Self, RealError> {
        let (expected, hint) = ("a block device or a regular file", "`lsblk` lists the block devices of this machine");
        let refused = |error| RealError::refused(path, "cannot be found", &error).expected(expected).hint(hint);
        let about = std::fs::metadata(path).map_err(refused)?;
        if !about.file_type().is_block_device() && !about.is_file() {
            let what = if about.is_dir() { "a folder" } else { "neither a block device nor a file" };
            return Err(RealError::of(path, format_args!("is {what}")).expected(expected).hint(hint));
        }
        let is_device = about.file_type().is_block_device();
        let number = system.device_of(path).ok();
        let identity = number.and_then(|number| Identity::of(system, number).ok());
        if let Some(number) = number.filter(|_| is_device) {
            check_users(system, path, number, access)?;
        }
        let (file, cached) = open_file(path, access.write, is_device)?;
        let size_bytes = match is_device {
            true => rustix::fs::seek(&file, SeekFrom::End(0)).map_err(|error| refused_size(path, error.into()))?,
            false => about.len(),
        };
        if size_bytes == 0 {
            return Err(RealError::of(path, "is empty").expected("a device or file with data to read"));
        }
        let kind = if is_device { Kind::Device } else { kind_of_file(&file) };
        let file = Arc::new(file);
        if kind == Kind::Network {
            // The file stays open until the process ends, because closing it may wait for a server that does not answer, before any error
            // is printed.
            std::mem::forget(Arc::clone(&file));
        }
        let logical = identity.as_ref().and_then(|identity| identity.logical_block_bytes);
        let alignment_bytes = logical.filter(|bytes| bytes.is_power_of_two()).unwrap_or(ALIGNMENT_BYTES);
        let path = path.to_owned();
        Ok(Self { path, file, kind, size_bytes, alignment_bytes, is_writable: access.write, cached, identity })
    }

    /// The target's path, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kind of storage.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The target's size.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Offsets and lengths must be multiples of this.
    #[must_use]
    pub const fn alignment_bytes(&self) -> u64 {
        self.alignment_bytes
    }

    /// Whether it was opened for writing.
    #[must_use]
    pub const fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Whether the page cache is bypassed.
    #[must_use]
    pub const fn is_direct(&self) -> bool {
        self.cached.is_none()
    }

    /// The device, or the one under the file, if sysfs knows it.
    #[must_use]
    pub const fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// A description of the target, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let what = match self.kind {
            Kind::Device => "device",
            Kind::File | Kind::Memory | Kind::Network => "file",
        };
        let way = if self.is_direct() { "direct" } else { "through the page cache" };
        let access = if self.is_writable { "read and written" } else { "read only" };
        format!("{what} {}, {}, {way}, {access}", self.path.display(), format_bytes(self.size_bytes))
    }

    /// Remarks for people on how far a measurement of this target can be trusted.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let path = self.path.display();
        if let Some(why) = &self.cached {
            remarks.push(format!("{path}: direct I/O is refused ({why}), so the page cache answers too"));
        }
        match self.kind {
            Kind::Memory => remarks.push(format!("{path} lies in memory, not on a device")),
            Kind::Network => remarks.push(format!("{path} lies on a network or user-space file system")),
            Kind::File => remarks.push(format!("{path} is a file: its file system is measured with it")),
            Kind::Device => {}
        }
        if matches!(self.kind, Kind::Device | Kind::File) {
            remarks.extend(self.identity.iter().flat_map(Identity::remarks));
        }
        remarks
    }
}

fn refused_size(path: &Path, error: io::Error) -> RealError {
    RealError::refused(path, "its size cannot be found", &error)
}

fn check_users(system: &System, path: &Path, number: Number, access: Access) -> Result<(), RealError> {
    let users = system.folder(number).map_or_else(Vec::new, |folder| system.users(&folder));
    if users.is_empty() || access.in_use && !access.write {
        return Ok(());
    }
    let error = RealError::of(path, format_args!("is in use: {}", users.join(", ")));
    Err(if access.write {
        error.expected("a device that nothing uses: its data will be lost")
    } else {
        error
            .expected("a device that nothing uses")
            .hint("--in-use reads it all the same; what uses it disturbs the result")
    })
}

/// Opens a file for direct I/O, or through the page cache, then with the reason.
fn open_file(path: &Path, write: bool, is_device: bool) -> Result<(File, Option<String>), RealError> {
    let mut options = OpenOptions::new();
    options.read(true).write(write);
    // An exclusive open of a device fails if something else has claimed it.
    let exclusive = if write && is_device { OFlags::EXCL } else { OFlags::empty() };
    let with = |flags: OFlags| options.clone().custom_flags((flags | exclusive).bits().cast_signed()).open(path);
    let refused = |error: io::Error| {
        let hint = match Errno::from_io_error(&error) {
            Some(Errno::ACCESS | Errno::PERM) if rustix::process::geteuid().is_root() => {
                "a container or a policy of this machine keeps it even from root: run this on the host"
            }
            Some(Errno::ACCESS | Errno::PERM) => "devices are read by root and by members of the group `disk`",
            Some(Errno::BUSY) => "something has claimed it: a mount, an array, another ioweir",
            _ => "",
        };
        RealError::refused(path, "cannot be opened", &error).hint(hint)
    };
    match with(OFlags::DIRECT) {
        Ok(file) => Ok((file, None)),
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::OPNOTSUPP)) => {
            Ok((with(OFlags::empty()).map_err(refused)?, Some(ioweir_config::plain(&error))))
        }
        Err(error) => Err(refused(error)),
    }
}

fn kind_of_file(file: &File) -> Kind {
    rustix::fs::fstatfs(file).map_or(Kind::File, |about| kind_of_type(about.f_type))
}

/// The kind of a file, by the type of its file system.
fn kind_of_type(magic: i64) -> Kind {
    if MEMORY.contains(&magic) {
        Kind::Memory
    } else if NETWORK.contains(&magic) {
        Kind::Network
    } else {
        Kind::File
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::backend::Action;
    use crate::real::{Ring, Stop};

    fn system() -> System {
        System::default()
    }

    #[test]
    fn only_devices_and_files_can_be_targets() {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, words) in [
            (Path::new("/dev/null"), "neither a block device nor a file"),
            (folder.path(), "is a folder"),
            (&folder.path().join("none"), "cannot be found"),
        ] {
            let error = Target::open(&system(), path, Access::default()).expect_err("it is refused").to_string();
            assert!(error.contains(words), "{error}");
        }
        let empty = folder.path().join("empty");
        File::create(&empty).expect("a file");
        let error = Target::open(&system(), &empty, Access::default()).expect_err("it is refused").to_string();
        assert!(error.contains("is empty"), "{error}");
    }

    #[test]
    fn targets_are_read_only_unless_opened_for_writing() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&[7; 16384]).expect("it can be written");
        for (write, expected) in [(false, [7; 4096]), (true, [0; 4096])] {
            let target = Target::open(&system(), file.path(), Access { write, in_use: false }).expect("it opens");
            assert_eq!(target.is_writable(), write);
            let mut ring = Ring::open(&target, 4, Stop::default()).expect("a ring");
            let read = ring.perform(Action::Read, 4096, 8192).expect("it reads");
            assert_eq!((read.result, read.length), (Ok(()), 8192));
            let wrote = ring.perform(Action::Write, 4096, 4096).expect("the ring goes on");
            assert_eq!(wrote.result.is_ok(), write, "{wrote:?}");
            let now = std::fs::read(file.path()).expect("it reads");
            assert_eq!(now[4096..8192] == expected, !write);
        }
    }

    #[test]
    fn files_in_memory_and_on_networks_are_recognized() {
        let types = [
            ("tmpfs", 0x0102_1994),
            ("nfs", 0x6969),
            ("cifs", 0xff53_4d42),
            ("9p", 0x0102_1997),
            ("fuse", 0x6573_5546),
        ];
        for (name, magic) in types {
            let expected = if name == "tmpfs" { Kind::Memory } else { Kind::Network };
            assert_eq!(kind_of_type(magic), expected, "{name}");
        }
        for (name, magic) in [("ext4", 0xef53), ("xfs", 0x5846_5342), ("btrfs", 0x9123_683e)] {
            assert_eq!(kind_of_type(magic), Kind::File, "{name}");
        }
    }

    #[test]
    fn errors_say_that_network_files_have_no_device() {
        let roots = tempfile::tempdir().expect("a folder");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let number = Number::of(std::os::unix::fs::MetadataExt::dev(&file.as_file().metadata().expect("it is there")));
        let mounts = roots.path().join("self/mountinfo");
        std::fs::create_dir(roots.path().join("self")).expect("a folder");
        for source in ["server:/export", "//server/share", "tmpfs"] {
            std::fs::write(&mounts, format!("36 35 {number} / / rw - nfs4 {source} rw\n")).expect("it can be written");
            let system = System { sys: roots.path().join("sys"), proc: roots.path().to_owned() };
            let error = system.device_of(file.path()).expect_err("there is none").to_string();
            assert!(error.contains("lies on no block device") && error.contains("name a device"), "{error}");
        }
    }

    #[test]
    fn reads_past_the_end_fail_at_once() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&[7; 8192]).expect("it can be written");
        let target = Target::open(&system(), file.path(), Access::default()).expect("it opens");
        let mut ring = Ring::open(&target, 4, Stop::default()).expect("a ring");
        let done = ring.perform(Action::Read, 4096, 8192).expect("the ring goes on");
        assert!(done.result.is_err(), "a short read is no success");
    }
}
