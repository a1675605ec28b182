//! The file beside a device's file that keeps its checksums from a clean end to the next start.
//!
//! `PATH.checksums` is written when everything is completed and durable. It is durably removed before the first request is
//! served, so no checksum is ever older than the data. It names its file and the time of that file's last change: a file
//! that was exchanged, or written while no server ran, has no checksums and raises no false alarm.
//!
//! All numbers are little-endian: 8 bytes `ioweirCS`; version and block length, 32 bits each; length, device and inode of
//! the file, 64 bits each; seconds and nanoseconds of its last change, 64 bits each; the number of chunks, 64 bits; the
//! chunks, each with its number, a bit for each of 1024 blocks, and 1024 checksums of 32 bits; and finally the CRC-32C of
//! everything before.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek as _, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::table::{BLOCK_BYTES, Table, damaged, read_u64};
use crate::durable::keep_name;

const MAGIC: [u8; 8] = *b"ioweirCS";
const VERSION: u32 = 1;

/// The identity of a file, and its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The length of the file.
    pub size_bytes: u64,
    /// The number of the device that holds the file.
    pub device: u64,
    /// The file's inode.
    pub inode: u64,
    /// The time of its last change (ctime): seconds and nanoseconds since 1970.
    pub changed: (i64, i64),
}

impl Identity {
    /// The present identity of a file.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        Ok(Self::of(&path.metadata()?))
    }

    /// The common identity of several files, if there are any; for one file, its own.
    ///
    /// # Errors
    /// The file that does not exist, in words.
    pub fn of_all(paths: &[PathBuf]) -> Result<Option<Self>, String> {
        let of = |path: &PathBuf| Self::of_file(path).map_err(|error| format!("{}: {error}", path.display()));
        let each: Vec<Self> = paths.iter().map(of).collect::<Result<_, _>>()?;
        Ok(each.into_iter().reduce(Self::followed_by))
    }

    fn followed_by(self, next: Self) -> Self {
        let mix = |one: u64, other: u64| one.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ other;
        let signed = |one: i64, other: i64| mix(one.cast_unsigned(), other.cast_unsigned()).cast_signed();
        Self {
            size_bytes: self.size_bytes.saturating_add(next.size_bytes),
            device: mix(self.device, next.device),
            inode: mix(self.inode, next.inode),
            changed: (signed(self.changed.0, next.changed.0), signed(self.changed.1, next.changed.1)),
        }
    }

    fn of(metadata: &Metadata) -> Self {
        Self {
            size_bytes: metadata.len(),
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Passes bytes on, and computes their checksum.
struct Summed<S> {
    stream: S,
    sum: u32,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(bytes)?;
        self.sum = crc32c::crc32c_append(self.sum, &bytes[..read]);
        Ok(read)
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stream.write(bytes)?;
        self.sum = crc32c::crc32c_append(self.sum, &bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Writes the table of a file.
///
/// # Errors
/// If `out` fails.
pub fn write(table: &Table, identity: &Identity, out: impl Write) -> io::Result<()> {
    let mut out = Summed { stream: out, sum: 0 };
    out.write_all(&MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&(BLOCK_BYTES as u32).to_le_bytes())?;
    for number in fields(identity) {
        out.write_all(&number.to_le_bytes())?;
    }
    table.write(&mut out)?;
    let sum = out.sum;
    out.write_all(&sum.to_le_bytes())?;
    out.flush()
}

fn fields(identity: &Identity) -> [u64; 5] {
    let Identity { size_bytes, device, inode, changed: (seconds, nanos) } = *identity;
    [size_bytes, device, inode, seconds.cast_unsigned(), nanos.cast_unsigned()]
}

/// Reads the table of a file.
///
/// # Errors
/// If `input` cannot be read, is damaged, or belongs to another file or another state of the file.
pub fn read(identity: &Identity, input: impl Read) -> io::Result<Table> {
    let mut input = Summed { stream: input, sum: 0 };
    let mut head = [0; 16];
    input.read_exact(&mut head)?;
    let [version, block_bytes] = [8, 12].map(|at| u32::from_le_bytes(head[at..at + 4].try_into().unwrap_or_default()));
    if head[..8] != MAGIC {
        return Err(damaged("it does not hold checksums"));
    }
    if version != VERSION || u64::from(block_bytes) != BLOCK_BYTES {
        let problem = format!(
            "version {version}, blocks of {block_bytes} bytes: only version {VERSION}, blocks of {BLOCK_BYTES} is known"
        );
        return Err(damaged(&problem));
    }
    let mut found = [0; 5];
    for number in &mut found {
        *number = read_u64(&mut input)?;
    }
    let expected = fields(identity);
    if found[..3] != expected[..3] {
        return Err(damaged("it belongs to another file"));
    }
    if found != expected {
        return Err(damaged("the file was changed since"));
    }
    let table = Table::read(identity.size_bytes, &mut input)?;
    let (sum, mut last) = (input.sum, [0; 4]);
    input.read_exact(&mut last)?;
    if u32::from_le_bytes(last) != sum || input.read(&mut [0])? > 0 {
        return Err(damaged("it is damaged"));
    }
    Ok(table)
}

/// The file that keeps the checksums of another one.
#[derive(Debug)]
pub struct Sidecar {
    /// The file that the checksums belong to.
    of: PathBuf,
    path: PathBuf,
}

/// The checksums that a device starts with.
#[derive(Debug)]
pub struct Begun {
    /// The known checksums.
    pub table: Table,
    /// The file that keeps the checksums at the end, if there is one.
    pub sidecar: Option<Sidecar>,
    /// Why kept checksums are not used, if they are not.
    pub remark: Option<String>,
}

impl Begun {
    /// A start without known checksums, which will not be kept.
    #[must_use]
    pub const fn anew(size_bytes: u64) -> Self {
        Self { table: Table::new(size_bytes), sidecar: None, remark: None }
    }
}

impl Sidecar {
    /// Reads the kept checksums of a file, and removes them from disk. The checksums of a block device are not kept, because nothing shows
    /// whether it was written meanwhile.
    ///
    /// # Errors
    /// If the kept checksums cannot be removed, in words: they would be out of date after an unclean end.
    pub fn begin(of: &Path, size_bytes: u64) -> Result<Begun, String> {
        let metadata = of.metadata().map_err(|error| format!("{}: {error}", of.display()))?;
        if !metadata.is_file() {
            return Ok(Begun::anew(size_bytes));
        }
        let mut path = of.as_os_str().to_os_string();
        path.push(".checksums");
        let sidecar = Self { of: of.into(), path: path.into() };
        let failed = |error: io::Error| format!("{}: {error}", sidecar.path.display());
        let mut kept = match File::open(&sidecar.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Begun { sidecar: Some(sidecar), ..Begun::anew(size_bytes) });
            }
            Err(error) => return Err(failed(error)),
        };
        let mut magic = [0; MAGIC.len()];
        // An incomplete file may not even have its magic number.
        if kept.metadata().map_err(failed)?.len() > 0 && (kept.read_exact(&mut magic).is_err() || magic != MAGIC) {
            let path = sidecar.path.display();
            return Err(format!("{path}: is no file of checksums, and has the name of one: move it away"));
        }
        kept.rewind().map_err(failed)?;
        let identity = Identity { size_bytes, ..Identity::of(&metadata) };
        let (table, remark) = match read(&identity, BufReader::new(kept)) {
            Ok(table) => (table, None),
            Err(error) => {
                let reason = match error.kind() {
                    io::ErrorKind::UnexpectedEof => "it is truncated".to_string(),
                    _ => error.to_string(),
                };
                let remark = format!("{}: not used: {reason}", sidecar.path.display());
                (Table::new(size_bytes), Some(format!("{remark}; blocks have no checksum until they are written")))
            }
        };
        std::fs::remove_file(&sidecar.path).map_err(failed)?;
        keep_name(&sidecar.path).map_err(failed)?;
        Ok(Begun { table, sidecar: Some(sidecar), remark })
    }

    /// Writes a table to disk. Called when everything is durable and no more writes come.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn keep(&self, table: &Table) -> io::Result<()> {
        let identity = Identity::of(&self.of.metadata()?);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&self.path)?;
        write(table, &identity, BufWriter::with_capacity(1 << 16, &file))?;
        file.sync_all()?;
        keep_name(&self.path)
    }

    /// The path of the sidecar file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}
