//! Opens the backend of a device, and checks devices that are not open: whether they could be opened, and with which properties.

use std::ops::Range;
use std::sync::Arc;

use super::checked::sidecar::{Begun, Sidecar};
use super::checked::{WorkerPool, Workers};
use super::late::DataFiles;
use super::late::journal::Journal;
use super::tiered::refuse_slow_tier;
use super::{
    Backend, Cached, Checked, Emulated, Faulty, Joined, Late, Ledger, Media, Memory, Placed, Relocates, Upstream, book,
    file, joined, open_file,
};
use crate::buffer::Buffer;
use crate::snapshots::{self, Snapshots};
use crate::spec;

/// Whether the durable data is still there after the backend is closed and opened again.
pub(crate) fn outlives_its_backend(backend: &spec::Backend) -> bool {
    match backend {
        spec::Backend::File { .. } | spec::Backend::Nbd(_) => true,
        spec::Backend::Tiered { slow, .. } => outlives_its_backend(&slow.backend),
        spec::Backend::Joined { part } => part.iter().all(|part| outlives_its_backend(&part.backend)),
        _ => false,
    }
}

/// Opens the backend of a device, in the thread that will use it. `registered` are buffers that will be used often; `shared` are the
/// workers that devices share, for a device without its own.
///
/// # Errors
/// The problem, in words.
pub fn open(
    device: &spec::Device,
    registered: &mut [Buffer],
    shared: Option<&Arc<WorkerPool>>,
) -> Result<Box<dyn Backend>, String> {
    // The times of the files are read before the device is opened, because opening may write to them.
    let files = device.late.as_ref().map(|_| DataFiles::of(device.backend.files())).transpose()?;
    let mut backend = open_checked(device, registered, shared)?;
    if let (Some(late), Some(files)) = (&device.late, files) {
        let journal = late.journal.as_deref().map_or_else(Journal::in_memory, Journal::open)?;
        backend = Box::new(Late::open(backend, journal, files)?);
    }
    Ok(backend)
}

/// Opens the backend with its checksums, if it keeps any.
fn open_checked(
    device: &spec::Device,
    registered: &mut [Buffer],
    shared: Option<&Arc<WorkerPool>>,
) -> Result<Box<dyn Backend>, String> {
    let backend = match (&device.backend, &device.snapshots) {
        (spec::Backend::File { path, size, direct, io, threads }, Some(keys)) => {
            refuse_slow_tier(path)?;
            let mut files = file::Files::open(path, size.map(|size| size.0), *direct, device.read_only)?;
            let folder = keys.folder.clone().unwrap_or_else(|| snapshots::folder_beside(path));
            files.snapshots = Some(Arc::new(Snapshots::open(path, &folder)?));
            open_file(Arc::new(files), *io, device.depth, *threads, registered)?
        }
        _ => open_backend(&device.backend, (device.depth, device.relocates.as_ref()), device.read_only, registered)?,
    };
    if !device.checksums {
        return Ok(backend);
    }
    let items = items_of(device);
    let pool = match (&device.cores, shared) {
        (Some(own), _) => WorkerPool::start(Workers::of_machine(own, items))?,
        (None, Some(shared)) => Arc::clone(shared),
        (None, None) => return Err("cores: there are no workers for its checksums".into()),
    };
    let begun = match &device.backend {
        spec::Backend::File { path, .. } => Sidecar::begin(path, backend.size_bytes())?,
        _ => Begun::anew(backend.size_bytes()),
    };
    Ok(Box::new(Checked::new(backend, begun, pool, items)?))
}

/// The properties of a device that decide what exports on it can offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The length of the device.
    pub size_bytes: u64,
    /// As [`Backend::parts`].
    pub parts: Vec<Range<u64>>,
    /// As [`Backend::block_bytes_min`].
    pub block_bytes_min: u32,
    /// As [`Backend::trims`].
    pub trims: bool,
}

impl Default for Shape {
    /// A device of length zero.
    fn default() -> Self {
        Self { size_bytes: 0, parts: Vec::new(), block_bytes_min: 1, trims: true }
    }
}

impl Shape {
    /// The shape of an open device.
    #[must_use]
    pub fn of(backend: &dyn Backend) -> Self {
        Self {
            size_bytes: backend.size_bytes(),
            parts: backend.parts(),
            block_bytes_min: backend.block_bytes_min(),
            trims: backend.trims(),
        }
    }
}

/// The result of checking a device, or a part of one, without opening it: its shape, and a description of each upstream.
pub type Found = (Shape, Vec<String>);

/// Checks a device without opening it, as far as that is possible without changing anything. Returns the shape that the device will have,
/// and a description of each upstream with the features that it lacks.
///
/// # Errors
/// The reason, in words for people, for which the device could not be opened.
pub fn check(device: &spec::Device) -> Result<Found, String> {
    let found = check_backend(&device.backend, device.read_only)?;
    check_files(device)?;
    Ok(found)
}

/// Checks that no other server uses the files of a device.
///
/// # Errors
/// The file that is used, in words for people.
pub(crate) fn check_free(device: &spec::Device) -> Result<(), String> {
    device.backend.files().iter().try_for_each(|path| file::check_free(path, device.read_only))
}

/// Checks the files that belong to a device besides its data.
fn check_files(device: &spec::Device) -> Result<(), String> {
    let map = if let spec::Backend::Tiered { map, .. } = &device.backend { map.as_deref() } else { None };
    let books = [
        (&book::MAP, map),
        (&book::VOLUMES, device.volumes.as_deref()),
        (&book::JOURNAL, device.late.as_ref().and_then(|late| late.journal.as_deref())),
    ];
    for (kind, path) in books {
        path.map_or(Ok(()), |path| book::check(kind, path))?;
    }
    match (device.backend.file(), &device.snapshots) {
        (Some(path), Some(keys)) => {
            snapshots::check(path, &keys.folder.clone().unwrap_or_else(|| snapshots::folder_beside(path)))
        }
        _ => Ok(()),
    }
}

fn check_backend(backend: &spec::Backend, read_only: bool) -> Result<Found, String> {
    let plain = |size_bytes| (Shape { size_bytes, ..Shape::default() }, Vec::new());
    let checked = |name: String, backend: &spec::Backend, read_only| {
        let found = check_backend(backend, read_only).map_err(|error| format!("{name}: {error}"));
        found.map(|(shape, said)| (shape, said.iter().map(|what| format!("{name}: {what}")).collect::<Vec<_>>()))
    };
    match backend {
        spec::Backend::File { path, size, .. } => {
            refuse_slow_tier(path)?;
            file::check(path, size.map(|size| size.0), read_only).map(plain)
        }
        spec::Backend::Tiered { slow, fast, map, .. } => {
            let of_fast = checked("fast tier".into(), &fast.backend, false)?;
            let of_slow = match (&slow.backend, map) {
                (spec::Backend::File { path, size, .. }, Some(_)) => file::check(path, size.map(|size| size.0), false)
                    .map(plain)
                    .map_err(|error| format!("slow tier: {error}"))?,
                (other, _) => checked("slow tier".into(), other, false)?,
            };
            let Shape { size_bytes, trims, .. } = of_slow.0;
            let (shape, said) = together([of_slow, of_fast]);
            Ok((Shape { size_bytes, trims, ..shape }, said))
        }
        spec::Backend::Joined { part } => {
            let parts = part.iter().map(|part| checked(format!("part {}", part.name), &part.backend, read_only));
            let parts: Vec<Found> = parts.collect::<Result<_, _>>()?;
            let places = joined::places(parts.iter().map(|(shape, _)| shape.size_bytes))?;
            let (shape, said) = together(parts);
            Ok((Shape { size_bytes: places.last().map_or(0, |last| last.end), parts: places, ..shape }, said))
        }
        others => {
            let backend = open_backend(others, (1, None), read_only, &mut [])?;
            let said = if let spec::Backend::Nbd(_) = others { vec![backend.describe()] } else { Vec::new() };
            Ok((Shape::of(&*backend), said))
        }
    }
}

/// The result for a device that is composed of parts: the strictest of their limits, and all descriptions.
fn together(all: impl IntoIterator<Item = Found>) -> Found {
    let none = (Shape::default(), Vec::new());
    all.into_iter().fold(none, |(shape, said), (its, more)| {
        let block_bytes_min = shape.block_bytes_min.max(its.block_bytes_min);
        (Shape { block_bytes_min, trims: shape.trims && its.trims, ..shape }, [said, more].concat())
    })
}

fn open_backend(
    backend: &spec::Backend,
    (depth, relocates): (u32, Option<&Relocates>),
    read_only: bool,
    registered: &mut [Buffer],
) -> Result<Box<dyn Backend>, String> {
    let sizes = |size: &ioweir_config::Size| size.0;
    Ok(match backend {
        spec::Backend::Null { size } => Box::new(Memory::null(sizes(size))),
        spec::Backend::Memory { size } => Box::new(Memory::new(sizes(size))),
        spec::Backend::Nbd(upstream) => Box::new(Upstream::connect_to(upstream, read_only)?),
        spec::Backend::Emulated { model, size, seed } => {
            Box::new(Emulated::open(model, size.as_ref().map(sizes), *seed)?)
        }
        spec::Backend::Faulty { size, faults } => Box::new(Faulty::new(Media::new(sizes(size)), *faults)),
        spec::Backend::File { path, .. } => {
            refuse_slow_tier(path)?;
            open_plain(backend, depth, read_only, registered)?
        }
        spec::Backend::Tiered { slow, fast, cache, map } => {
            let (home, depth) = (slow.backend.file().filter(|_| map.is_some()), fast.depth);
            let slow = match home {
                Some(_) => open_plain(&slow.backend, slow.depth, false, registered),
                None => open_backend(&slow.backend, (slow.depth, None), false, registered),
            };
            let slow = slow.map_err(|error| format!("slow tier: {error}"))?;
            let fast = open_backend(&fast.backend, (depth, None), false, registered);
            let fast = fast.map_err(|error| format!("fast tier: {error}"))?;
            match (cache, map) {
                (Some(spec::Cache::Read), _) => Box::new(Cached::open(slow, fast)?),
                (None, path) => {
                    let ledger = path.as_deref().map_or_else(Ledger::in_memory, Ledger::open)?;
                    let ledger = home.into_iter().fold(ledger, Ledger::marking);
                    let placed = Placed::open(slow, fast, ledger, depth)?;
                    Box::new(match relocates {
                        Some(relocates) => placed.relocating(relocates),
                        None => placed,
                    })
                }
            }
        }
        spec::Backend::Joined { part } => {
            // The depth holds for each part; registered buffers are left out, because each part would register the same ones.
            let open = |part: &spec::Part| {
                let opened = open_backend(&part.backend, (depth, None), read_only, &mut []);
                opened
                    .map(|backend| (part.name.clone(), backend))
                    .map_err(|error| format!("part {}: {error}", part.name))
            };
            Box::new(Joined::new(part.iter().map(open).collect::<Result<_, _>>()?)?)
        }
    })
}

/// Opens a file, which may be a slow tier.
fn open_plain(
    backend: &spec::Backend,
    depth: u32,
    read_only: bool,
    registered: &mut [Buffer],
) -> Result<Box<dyn Backend>, String> {
    let spec::Backend::File { path, size, direct, io, threads } = backend else {
        return open_backend(backend, (depth, None), read_only, registered);
    };
    let files = file::Files::open(path, size.as_ref().map(|size| size.0), *direct, read_only)?;
    open_file(Arc::new(files), *io, depth, *threads, registered)
}

/// The workers that the devices of a spec share, if it has a table `[cores]`.
///
/// # Errors
/// As [`WorkerPool::start`].
pub fn shared_workers(spec: &spec::Spec) -> Result<Option<Arc<WorkerPool>>, String> {
    let Some(cores) = &spec.cores else { return Ok(None) };
    let items = spec.device.iter().filter(|device| device.shares_cores()).map(items_of);
    let items = items.fold(0_u32, u32::saturating_add);
    WorkerPool::start(Workers::of_machine(cores, items)).map(Some)
}

/// The most items of a device in its pool: twice its depth, so that no worker waits for the engine to pass completed items
/// on.
const fn items_of(device: &spec::Device) -> u32 {
    device.depth.saturating_mul(2)
}
