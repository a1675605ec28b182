//! The disks of a world, and the devices on them: the layers of the server, over simulated disks.

use std::sync::Arc;

use super::disk::Disk;
use super::file::SimulatedFile;
use super::plan::{Backing, FAST_SECTORS, FIRST_PART_SECTORS, Plan, SECTORS};
use super::random::Random;
use super::upstream::{Fate, Upstream};
use ioweir_block::backend::checked::sidecar::Begun;
use ioweir_block::backend::checked::{WorkerPool, Workers};
use ioweir_block::backend::late::DataFiles;
use ioweir_block::backend::late::journal::Journal;
use ioweir_block::backend::opener::opener;
use ioweir_core::Nanos;
use ioweir_serve::backend::{self, Backend, Cached, Checked, Joined, Late, Ledger, Placed, Volumes};
use ioweir_serve::parts::UpstreamPlan;
use ioweir_serve::spec;

/// The largest size of a journal, a ledger or a table, twice, for a copy of it.
const BOOK_BYTES: u64 = 2 * (4 << 20);

/// The disks of a world.
#[derive(Debug)]
pub(super) struct Devices {
    backing: Backing,
    pub(super) disks: Vec<Disk>,
    /// The upstream of the disk, if the device is an export of one, with its number of connections and of kept bytes.
    upstream: Option<(Upstream, (u32, u64))>,
    /// The last disk as a file, for a map or a journal.
    book: SimulatedFile,
    /// The disk of the device that is added and removed, if there is one, and the file of its volumes.
    extra: Option<(Disk, SimulatedFile)>,
    /// The pool that computes checksums; its threads are never used.
    workers: Option<Arc<WorkerPool>>,
}

impl Devices {
    /// The disks of a plan, empty.
    pub(super) fn new(plan: &Plan) -> Self {
        let bytes = SECTORS * 512;
        let sizes = match plan.backing {
            Backing::Disk | Backing::Checked | Backing::Upstream => vec![bytes],
            Backing::Late => vec![bytes, BOOK_BYTES],
            Backing::Placed => vec![bytes, FAST_SECTORS * 512, BOOK_BYTES],
            Backing::Cached | Backing::CheckedCopies => vec![bytes, FAST_SECTORS * 512],
            Backing::Joined => vec![FIRST_PART_SECTORS * 512, bytes - FIRST_PART_SECTORS * 512],
        };
        let random = Random::new(plan.seed).fork(1);
        let disk = |(number, size)| Disk::new(size, random.fork(number), plan.service);
        let disks: Vec<Disk> = (0..).zip(sizes).map(disk).collect();
        let upstream = (plan.backing == Backing::Upstream)
            .then(|| (Upstream::new(disks[0].clone(), random.fork(9), plan.short_per_million), plan.upstream));
        let book = SimulatedFile::new(disks[disks.len() - 1].clone());
        let extra = plan.extra.as_ref().map(|its| {
            let disk = Disk::new(its.bytes_max(), random.fork(20), plan.service).of_length(its.bytes);
            let table = Disk::new(if its.has_volumes { BOOK_BYTES } else { 0 }, random.fork(21), plan.service);
            (disk, SimulatedFile::new(table))
        });
        Self { backing: plan.backing, disks, upstream, book, extra, workers: None }
    }

    /// Opens the device that is added and removed, and the table of its volumes.
    pub(super) fn open_extra(&mut self, device: &spec::Device) -> Result<(Box<dyn Backend>, Option<Volumes>), String> {
        let (disk, table) = self.extra.clone().ok_or("there is one")?;
        let length = disk.length_bytes();
        let mut backend = disk.open();
        if device.backend.size().is_some_and(|size| size.0 != length) {
            return Err(format!("it has {length} bytes, and the spec says something else"));
        }
        if device.checksums {
            backend = self.checked(device, backend, length)?;
        }
        let volumes = device.volumes.as_ref().map(|_| Volumes::opened_by(opener(table), length));
        Ok((backend, volumes.transpose()?))
    }

    /// The disk of the device that is added and removed.
    pub(super) fn extra_disk(&self) -> Option<&Disk> {
        self.extra.as_ref().map(|(disk, _)| disk)
    }

    /// The file of the table of volumes.
    pub(super) fn table(&self) -> Option<&SimulatedFile> {
        self.extra.as_ref().map(|(_, table)| table)
    }

    fn all(&self) -> impl Iterator<Item = &Disk> {
        self.disks.iter().chain(self.extra.iter().flat_map(|(disk, table)| [disk, table.disk()]))
    }

    /// Opens the device of a spec.
    pub(super) fn open(&mut self, device: &spec::Device) -> Result<Box<dyn Backend>, String> {
        let disk = |number: usize| self.disks[number].open();
        Ok(match self.backing {
            Backing::Disk => disk(0),
            Backing::Checked => {
                let disk = disk(0);
                self.checked(device, disk, SECTORS * 512)?
            }
            Backing::Late => {
                Box::new(Late::open(disk(0), Journal::opened_by(opener(self.book.clone()))?, DataFiles::default())?)
            }
            Backing::Placed => {
                let ledger = Ledger::opened_by(opener(self.book.clone()))?;
                let placed = Placed::open(disk(0), disk(1), ledger, device.depth)?;
                Box::new(match &device.relocates {
                    Some(relocates) => placed.relocating(relocates),
                    None => placed,
                })
            }
            Backing::Cached => Box::new(Cached::open(disk(0), disk(1))?),
            Backing::CheckedCopies => {
                let cached = Cached::open(disk(0), disk(1))?;
                self.checked(device, Box::new(cached), SECTORS * 512)?
            }
            Backing::Joined => Box::new(Joined::new(vec![("x".into(), disk(0)), ("y".into(), disk(1))])?),
            Backing::Upstream => {
                let (upstream, (connections, unflushed_bytes_max)) = self.upstream.clone().ok_or("there is one")?;
                let plan = UpstreamPlan {
                    name: "upstream".into(),
                    export: "a".into(),
                    connections,
                    timeout: Nanos::from_seconds(10),
                    reconnect_limit: Nanos::from_seconds(3600),
                    write_through: false,
                    unflushed_bytes_max,
                    read_only: false,
                    tls: None,
                };
                Box::new(backend::Upstream::open(plan, None, Box::new(upstream))?)
            }
        })
    }

    /// A layer of checksums over a device, without known ones.
    fn checked(
        &mut self,
        device: &spec::Device,
        over: Box<dyn Backend>,
        bytes: u64,
    ) -> Result<Box<dyn Backend>, String> {
        let workers = match &self.workers {
            Some(workers) => Arc::clone(workers),
            None => {
                let spec = device.cores.as_ref().ok_or("the spec has workers for checksums")?;
                let workers = Workers::of_machine(spec, device.depth * 2);
                WorkerPool::start(Workers { inline_bytes_max: u64::MAX, ..workers })?
            }
        };
        self.workers = Some(Arc::clone(&workers));
        Ok(Box::new(Checked::new(over, Begun::anew(bytes), workers, device.depth * 2)?))
    }

    /// The power fails, and if it `loses`, with the data that is not durable; otherwise no more data can be written.
    pub(super) fn turn_off(&self, loses: bool) {
        for disk in self.all() {
            if loses { disk.cut() } else { disk.media().turn_off() }
        }
    }

    /// Lets the upstream meet its fate, if there is one.
    pub(super) fn meet(&self, now: Nanos, fate: Fate) {
        if let Some((upstream, _)) = &self.upstream {
            upstream.meet(now, fate);
        }
    }

    /// The power is back, and there are no faults.
    pub(super) fn turn_on(&self) {
        if let Some((upstream, _)) = &self.upstream {
            upstream.reset();
        }
        for disk in self.all() {
            disk.media().restore();
        }
        self.calm();
    }

    /// Ends all faults of disks and files.
    pub(super) fn calm(&self) {
        if let Some(table) = self.table() {
            table.fail(0, false);
        }
        self.disks.iter().for_each(|disk| disk.set_trouble(super::disk::Trouble::default()));
    }

    /// Operations, and faults among them.
    pub(super) fn counts(&self) -> (u64, u64) {
        let counts = self.all().map(Disk::counts);
        counts.fold((0, 0), |sum, its| (sum.0 + its.0, sum.1 + its.1))
    }

    /// Whether a disk has reported that data is lost, although the data can be read as long as the disk has power.
    pub(super) fn have_lost(&self) -> bool {
        self.disks.iter().any(Disk::has_lost)
    }

    /// The longest time of an operation without faults.
    pub(super) fn slowest(&self, plan: &Plan) -> Nanos {
        plan.service.0.after(plan.service.1)
    }
}
