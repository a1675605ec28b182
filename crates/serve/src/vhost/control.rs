//! The thread that talks to the monitor of a virtual machine, one for each client. It reads the messages of vhost-user, and gives orders to
//! the engine.
//!
//! There are few messages, and each may wait: for the rest of it, for memory to be mapped, or for the last answers of a ring. None of that
//! may delay an engine, so the engine's thread does not read them.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::Builder;

use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight, VhostUserLog,
    VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{BackendReqHandler, Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use virtio_queue::{Queue, QueueT as _};

use super::config::{
    FEATURE_EVENT_INDEX, FEATURE_LOG, FEATURE_PROTOCOL, QUEUE_SIZE_MAX, QUEUES_MAX, features, name, space,
};
use super::inflight::InFlight;
use super::memory::{Memory, Place, Shared};
use super::ring::RingPlan;
use super::rings::{Order, Rings, Wish};
use crate::engine::{Command, Handle};
use crate::nbd::Export;

/// An export as it is now.
pub(crate) type Describe = Box<dyn Fn() -> Option<Export> + Send>;

/// Creates the rings of a client that has connected, and starts the thread that talks to its monitor once `introduce` has given them to the
/// engine.
///
/// # Errors
/// If there are no descriptors or threads left.
pub(crate) fn begin(
    socket: OwnedFd,
    (number, engine): (u64, Handle),
    describe: Describe,
    introduce: impl FnOnce(Rings),
) -> io::Result<()> {
    // The thread waits for messages, so the socket blocks; the engine only waits for its end.
    rustix::io::ioctl_fionbio(&socket, false)?;
    let export = describe().ok_or_else(|| io::Error::other("the export is not there any more"))?;
    let rings = Rings::new(name(&export), socket.try_clone()?);
    let ending = socket.try_clone()?;
    let control = Control {
        engine,
        number,
        describe,
        features: 0,
        memory: None,
        log: None,
        inflight: None,
        rings: std::iter::repeat_with(RingState::default).take(usize::from(QUEUES_MAX)).collect(),
    };
    introduce(rings);
    let work = move || control.serve(UnixStream::from(socket));
    let thread = Builder::new().name(format!("ioweir-vhost-{number}")).spawn(work);
    if thread.is_err() {
        // Without a thread the rings cannot be served; the engine learns that from the end of the connection.
        let _ = rustix::net::shutdown(&ending, rustix::net::Shutdown::Both);
    }
    thread.map(drop)
}

/// The settings of a ring, from the messages of its monitor.
#[derive(Debug, Default)]
struct RingState {
    size: u16,
    base: u16,
    /// The addresses of descriptors, offers and answers, in the monitor.
    addresses: Option<[u64; 3]>,
    call: Option<OwnedFd>,
    is_enabled: bool,
    is_started: bool,
}

/// The state of the conversation.
struct Control {
    engine: Handle,
    number: u64,
    describe: Describe,
    features: u64,
    memory: Option<Memory>,
    log: Option<Arc<Shared>>,
    inflight: Option<InFlight>,
    rings: Vec<RingState>,
}

fn refused(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::ReqHandlerError(io::Error::other(what))
}

/// Checks that a descriptor for events is an eventfd, because a write to anything else may wait for a reader.
fn event(file: Option<File>) -> Result<Option<OwnedFd>> {
    let Some(file) = file else { return Ok(None) };
    let file = OwnedFd::from(file);
    let place = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let kind = std::fs::read_link(place).map_err(Error::ReqHandlerError)?;
    if kind.as_os_str() != "anon_inode:[eventfd]" {
        return Err(refused("a descriptor for events is no eventfd"));
    }
    rustix::io::ioctl_fionbio(&file, true).map_err(|error| Error::ReqHandlerError(error.into()))?;
    Ok(Some(file))
}

impl Control {
    /// Reads messages until the connection ends.
    fn serve(self, socket: UnixStream) {
        let (engine, number) = (self.engine.clone(), self.number);
        let mut handler = BackendReqHandler::from_stream(socket, Arc::new(Mutex::new(self)));
        let why = loop {
            match handler.handle_request() {
                Ok(()) => {}
                Err(Error::Disconnected | Error::SocketBroken(_)) => break None,
                Err(error) => break Some(format!("vhost-user: {error}")),
            }
        };
        // The receiver is dropped, because this thread needs no answer.
        let order = Order(Wish::End(why), channel().0);
        engine.send(Command::Rings(number, Box::new(order)));
    }

    /// Sends an order to the engine, and waits until it is carried out.
    fn order(&self, wish: Wish) -> Result<u16> {
        match self.engine.ask(|answer| Command::Rings(self.number, Box::new(Order(wish, answer)))).recv() {
            Ok(result) => result.map_err(refused),
            // The engine has disconnected the client.
            Err(_) => Err(Error::Disconnected),
        }
    }

    fn ring(&mut self, index: u32) -> Result<&mut RingState> {
        self.rings.get_mut(index as usize).ok_or(Error::InvalidParam)
    }

    fn export(&self) -> Result<Export> {
        (self.describe)().ok_or_else(|| refused("the export is not there any more"))
    }

    /// Gives the memory to the engine, with its log, if there is one.
    fn use_memory(&mut self) -> Result<()> {
        let log = self.log.clone().filter(|_| self.features & FEATURE_LOG != 0);
        let Some(memory) = &self.memory else { return Ok(()) };
        let memory = memory.logged(log).map_err(Error::ReqHandlerError)?;
        self.order(Wish::Memory(memory)).map(drop)
    }

    /// The ring that a monitor has described, as the engine needs it.
    fn plan(&mut self, number: u16, kick: OwnedFd) -> Result<RingPlan> {
        let has_event_index = self.features & FEATURE_EVENT_INDEX != 0;
        let has_enable = self.features & FEATURE_PROTOCOL != 0;
        let inflight = self.inflight.clone();
        let memory = self.memory.clone().ok_or_else(|| refused("a ring is kicked before there is memory"))?;
        let ring = self.ring(number.into())?;
        let addresses = ring.addresses.ok_or_else(|| refused("a ring is kicked before it has addresses"))?;
        let guest = |monitor| memory.guest_address(monitor).ok_or_else(|| refused("a ring lies outside of the memory"));
        let wrong = |error: virtio_queue::Error| refused(format!("a ring: {error}"));
        let mut queue = Queue::new(QUEUE_SIZE_MAX).map_err(wrong)?;
        queue.try_set_size(ring.size).map_err(wrong)?;
        queue.try_set_desc_table_address(guest(addresses[0])?).map_err(wrong)?;
        queue.try_set_avail_ring_address(guest(addresses[1])?).map_err(wrong)?;
        queue.try_set_used_ring_address(guest(addresses[2])?).map_err(wrong)?;
        queue.set_event_idx(has_event_index);
        queue.set_next_avail(ring.base);
        queue.set_ready(true);
        ring.is_started = true;
        let (call, is_enabled) = (ring.call.take(), ring.is_enabled || !has_enable);
        Ok(RingPlan { number, queue, kick, inflight, call, is_enabled })
    }

    fn stop(&mut self, index: u32) -> Result<u16> {
        let ring = self.ring(index)?;
        if !std::mem::take(&mut ring.is_started) {
            return Ok(ring.base);
        }
        let base = self.order(Wish::Stop(index as u16))?; // there are fewer rings
        self.ring(index)?.base = base;
        Ok(base)
    }
}

impl VhostUserBackendReqHandlerMut for Control {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        for index in 0..u32::from(QUEUES_MAX) {
            self.stop(index)?;
            *self.ring(index)? = RingState::default();
        }
        self.features = 0;
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(features(&self.export()?))
    }

    fn set_features(&mut self, asked: u64) -> Result<()> {
        if asked & !features(&self.export()?) != 0 {
            return Err(Error::InvalidParam);
        }
        let logs = (self.features ^ asked) & FEATURE_LOG != 0;
        self.features = asked;
        if logs { self.use_memory() } else { Ok(()) }
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        let place = |region: &VhostUserMemoryRegion| Place {
            monitor: region.user_addr,
            guest: region.guest_phys_addr,
            length: region.memory_size,
            offset: region.mmap_offset,
        };
        let memory = Memory::map(regions.iter().map(place).collect(), files).map_err(Error::ReqHandlerError)?;
        self.memory = Some(memory);
        self.use_memory()?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, size: u32) -> Result<()> {
        let size = u16::try_from(size).ok().filter(|size| size.is_power_of_two() && *size <= QUEUE_SIZE_MAX);
        self.ring(index)?.size = size.ok_or(Error::InvalidParam)?;
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let addresses = Some([descriptors, available, used]);
        let ring = self.ring(index)?;
        // Monitors repeat the addresses to say whether writes to the ring are to be logged; all writes are logged.
        if ring.is_started && ring.addresses != addresses {
            return Err(Error::InvalidOperation("a ring that is served does not move"));
        }
        ring.addresses = addresses;
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.ring(index)?.base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let base = self.stop(index)?;
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let kick = event(file)?.ok_or_else(|| refused("a ring without a descriptor for kicks"))?;
        let plan = self.plan(index.into(), kick)?;
        self.order(Wish::Start(Box::new(plan))).map(drop)
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let call = event(file)?;
        let ring = self.ring(index.into())?;
        if ring.is_started {
            return self.order(Wish::Call(index.into(), call)).map(drop);
        }
        ring.call = call;
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, _file: Option<File>) -> Result<()> {
        // The descriptor for errors is not used: a client whose rings are broken is disconnected.
        self.ring(index.into()).map(drop)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        type Of = VhostUserProtocolFeatures;
        Ok(Of::MQ | Of::LOG_SHMFD | Of::CONFIG | Of::INFLIGHT_SHMFD | Of::RESET_DEVICE)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(QUEUES_MAX.into())
    }

    fn set_vring_enable(&mut self, index: u32, is_enabled: bool) -> Result<()> {
        let ring = self.ring(index)?;
        ring.is_enabled = is_enabled;
        if ring.is_started {
            self.order(Wish::Enable(index as u16, is_enabled))?; // there are fewer rings
        }
        Ok(())
    }

    fn get_config(&mut self, offset: u32, size: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        space(&self.export()?, offset as usize, size as usize).ok_or(Error::InvalidParam)
    }

    fn set_config(&mut self, _offset: u32, _bytes: &[u8], _flags: VhostUserConfigFlags) -> Result<()> {
        Err(Error::InvalidOperation("nothing of the configuration can be set"))
    }

    fn get_inflight_fd(&mut self, asked: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (queues, size) = (asked.num_queues, asked.queue_size);
        if queues > QUEUES_MAX || size > QUEUE_SIZE_MAX {
            return Err(Error::InvalidParam);
        }
        let (file, length) = InFlight::create(queues, size).map_err(Error::ReqHandlerError)?;
        Ok((VhostUserInflight::new(length, 0, queues, size), file))
    }

    fn set_inflight_fd(&mut self, its: &VhostUserInflight, file: File) -> Result<()> {
        let (offset, length) = (its.mmap_offset, its.mmap_size);
        let inflight = InFlight::map(file, offset, length, its.num_queues, its.queue_size);
        self.inflight = Some(inflight.map_err(Error::ReqHandlerError)?);
        Ok(())
    }

    fn set_log_base(&mut self, log: &VhostUserLog, file: File) -> Result<()> {
        let log = Shared::map(file, log.mmap_offset, log.mmap_size).map_err(Error::ReqHandlerError)?;
        self.log = Some(Arc::new(log));
        self.use_memory()
    }

    fn set_gpu_socket(&mut self, _gpu: GpuBackend) -> Result<()> {
        Err(Error::InvalidOperation("a disk has no display"))
    }

    fn get_shared_object(&mut self, _object: VhostUserSharedMsg) -> Result<File> {
        Err(Error::InvalidOperation("a disk shares no objects"))
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Err(Error::InvalidOperation("memory comes as a table"))
    }

    fn add_mem_region(
        &mut self,
        _region: &VhostUserSingleMemoryRegion,
        _file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        Err(Error::InvalidOperation("memory comes as a table"))
    }

    fn remove_mem_region(&mut self, _region: &VhostUserSingleMemoryRegion) -> Result<()> {
        Err(Error::InvalidOperation("memory comes as a table"))
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        Err(Error::InvalidOperation("a disk has no state but its rings"))
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(Error::InvalidOperation("a disk has no state but its rings"))
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(Error::InvalidOperation("a disk shares no memory"))
    }
}
