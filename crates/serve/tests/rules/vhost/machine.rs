//! A virtual machine without a processor: guest memory, rings in it, and a monitor that shares them with a server. The rings are written
//! here field by field; the messages come from the `vhost` crate's front end.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserInflight, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend as _};
use vhost::{VhostBackend as _, VhostUserDirtyLogRegion, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes as _, FileOffset, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

/// The address of the memory in the guest.
pub(super) const BASE: u64 = 0x1000_0000;
pub(super) const MEMORY_BYTES: u64 = 8 << 20;
/// The memory of a ring: descriptors, offers, answers, and an indirect table, at quarters of it.
const RING_BYTES: u64 = 0x1_0000;
const QUARTER: u64 = RING_BYTES / 4;
/// The address of data.
pub(super) const DATA: u64 = BASE + (4 << 20);
pub(super) const SIZE: u16 = 64;

pub(super) const NEXT: u16 = 1;
pub(super) const WRITABLE: u16 = 2;
pub(super) const INDIRECT: u16 = 4;

pub(super) const IN: u32 = 0;
pub(super) const OUT: u32 = 1;
pub(super) const FLUSH: u32 = 4;
pub(super) const GET_ID: u32 = 8;
pub(super) const DISCARD: u32 = 11;
pub(super) const WRITE_ZEROES: u32 = 13;

pub(super) const OK: u8 = 0;
pub(super) const FAILED: u8 = 1;
pub(super) const UNSUPPORTED: u8 = 2;
/// The status of a request that has no answer yet.
const UNWRITTEN: u8 = 0xff;

pub(super) const FEATURE_READ_ONLY: u64 = 1 << 5;
pub(super) const FEATURE_LOG: u64 = 1 << 26;
pub(super) const FEATURE_EVENT_INDEX: u64 = 1 << 29;
const FEATURE_PROTOCOL: u64 = 1 << 30;
const FEATURE_VERSION_1: u64 = 1 << 32;

/// A file in memory.
pub(super) fn memory_file(bytes: u64) -> File {
    let file = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    file.into()
}

/// The guest's side of a ring.
#[derive(Debug)]
struct Ring {
    kick: EventFd,
    call: EventFd,
    offered: u16,
    seen: u16,
}

/// The memory of a guest with its rings, which outlives connections.
pub(super) struct Machine {
    pub(super) file: File,
    pub(super) memory: GuestMemoryMmap,
    rings: Vec<Ring>,
    pub(super) features: u64,
    pub(super) inflight: Option<(VhostUserInflight, File)>,
}

/// A place for data of a request: its address and length, and whether the device writes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part(pub(super) u64, pub(super) u32, pub(super) bool);

impl Machine {
    pub(super) fn new(rings: u16) -> Self {
        let file = memory_file(MEMORY_BYTES);
        let offset = FileOffset::new(file.try_clone().unwrap(), 0);
        let memory =
            GuestMemoryMmap::from_ranges_with_files([(GuestAddress(BASE), MEMORY_BYTES as usize, Some(offset))])
                .unwrap();
        let event = || EventFd::new(0).unwrap();
        let ring = |_| Ring { kick: event(), call: event(), offered: 0, seen: 0 };
        Self { file, memory, rings: (0..rings).map(ring).collect(), features: 0, inflight: None }
    }

    fn at(ring: u16, quarter: u64) -> u64 {
        BASE + u64::from(ring) * RING_BYTES + quarter * QUARTER
    }

    /// The address of a ring's indirect table.
    pub(super) fn indirect(ring: u16) -> u64 {
        Self::at(ring, 3)
    }

    /// Connects, and shares memory and rings.
    pub(super) fn connect(&mut self, socket: &Path) -> Monitor {
        let stream = UnixStream::connect(socket).unwrap();
        let ending = stream.try_clone().unwrap();
        let mut monitor = Monitor { frontend: Frontend::from_stream(stream, 64), socket: ending };
        monitor.introduce(self);
        self.share(&mut monitor);
        for ring in 0..self.rings.len() {
            self.start(&mut monitor, ring as u16);
        }
        monitor
    }

    pub(super) fn share(&self, monitor: &mut Monitor) {
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: BASE,
            memory_size: MEMORY_BYTES,
            userspace_addr: self.monitor_address(BASE),
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        };
        monitor.frontend.set_mem_table(&[region]).unwrap();
    }

    fn monitor_address(&self, guest: u64) -> u64 {
        self.memory.get_host_address(GuestAddress(guest)).unwrap() as u64
    }

    /// Starts a ring, from the next offer that was not taken.
    pub(super) fn start(&self, monitor: &mut Monitor, ring: u16) {
        let (frontend, its) = (&mut monitor.frontend, &self.rings[usize::from(ring)]);
        let index = usize::from(ring);
        frontend.set_vring_num(index, SIZE).unwrap();
        frontend.set_vring_base(index, self.used_index(ring)).unwrap();
        let addresses = VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: self.monitor_address(Self::at(ring, 0)),
            avail_ring_addr: self.monitor_address(Self::at(ring, 1)),
            used_ring_addr: self.monitor_address(Self::at(ring, 2)),
            log_addr: None,
        };
        frontend.set_vring_addr(index, &addresses).unwrap();
        frontend.set_vring_call(index, &its.call).unwrap();
        frontend.set_vring_kick(index, &its.kick).unwrap();
        // The server may have refused the ring, and closed the connection.
        let _ = frontend.set_vring_enable(index, true);
    }

    pub(super) fn put<T: vm_memory::ByteValued>(&self, address: u64, value: T) {
        self.memory.write_obj(value, GuestAddress(address)).unwrap();
    }

    pub(super) fn get<T: vm_memory::ByteValued>(&self, address: u64) -> T {
        self.memory.read_obj(GuestAddress(address)).unwrap()
    }

    pub(super) fn bytes(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read_slice(&mut bytes, GuestAddress(address)).unwrap();
        bytes
    }

    /// Writes a descriptor of a table.
    pub(super) fn describe(&self, table: u64, index: u16, part: Part, flags: u16, next: u16) {
        let at = table + 16 * u64::from(index);
        self.put(at, part.0);
        self.put(at + 8, part.1);
        self.put(at + 12, flags | if part.2 { WRITABLE } else { 0 });
        self.put(at + 14, next);
    }

    /// Writes a chain of descriptors to a table, from `first` on.
    pub(super) fn chain(&self, table: u64, first: u16, parts: &[Part]) {
        for (index, part) in (first..).zip(parts) {
            let is_last = usize::from(index - first) + 1 == parts.len();
            self.describe(table, index, *part, if is_last { 0 } else { NEXT }, index + 1);
        }
    }

    pub(super) fn table(ring: u16) -> u64 {
        Self::at(ring, 0)
    }

    /// Offers a chain, without a kick.
    pub(super) fn offer(&mut self, ring: u16, head: u16) {
        let its = &mut self.rings[usize::from(ring)];
        let at = Self::at(ring, 1);
        let (place, offered) = (at + 4 + 2 * u64::from(its.offered % SIZE), its.offered.wrapping_add(1));
        its.offered = offered;
        self.put(place, head);
        self.memory.store(offered, GuestAddress(at + 2), std::sync::atomic::Ordering::Release).unwrap();
    }

    /// Claims to have offered this many chains, whatever the ring holds.
    pub(super) fn claim(&mut self, ring: u16, offered: u16) {
        self.put(Self::at(ring, 1) + 2, offered);
    }

    pub(super) fn kick(&self, ring: u16) {
        self.rings[usize::from(ring)].kick.write(1).unwrap();
    }

    pub(super) fn used_index(&self, ring: u16) -> u16 {
        self.memory.load(GuestAddress(Self::at(ring, 2) + 2), std::sync::atomic::Ordering::Acquire).unwrap()
    }

    /// The index of the offer at which the device wants a kick.
    pub(super) fn wanted_kick(&self, ring: u16) -> u16 {
        self.get(Self::at(ring, 2) + 4 + 8 * u64::from(SIZE))
    }

    /// Asks for a notification once this many answers are there.
    pub(super) fn want_call(&self, ring: u16, used: u16) {
        self.put(Self::at(ring, 1) + 4 + 2 * u64::from(SIZE), used.wrapping_sub(1));
    }

    /// The answers so far: the heads of chains, and the bytes written to each.
    pub(super) fn answers(&self, ring: u16) -> Vec<(u32, u32)> {
        let entry = |index: u16| {
            let at = Self::at(ring, 2) + 4 + 8 * u64::from(index % SIZE);
            (self.get(at), self.get(at + 4))
        };
        (0..self.used_index(ring)).map(entry).collect()
    }

    /// The number of notifications since the last call; waits for the first.
    pub(super) fn calls(&self, ring: u16) -> u64 {
        let mut count = [0; 8];
        let call = self.rings[usize::from(ring)].call.as_fd_of();
        poll(&mut [PollFd::new(&call, PollFlags::IN)], None).unwrap();
        rustix::io::read(call, &mut count).unwrap();
        u64::from_ne_bytes(count)
    }

    /// Waits until there are this many answers.
    pub(super) fn wait(&self, ring: u16, answers: u16) {
        let call = self.rings[usize::from(ring)].call.as_fd_of();
        while self.used_index(ring) < answers {
            poll(&mut [PollFd::new(&call, PollFlags::IN)], None).unwrap();
            let _ = rustix::io::read(call, &mut [0; 8]);
        }
    }

    /// The parts of a request with this head and data, and the address of its status.
    pub(super) fn request(&self, head: u16, kind: u32, sector: u64, data: &[Part]) -> (Vec<Part>, u64) {
        let place = DATA + u64::from(head) * 64;
        self.put(place, kind);
        self.put(place + 4, 0_u32);
        self.put(place + 8, sector);
        let status = place + 32;
        self.put(status, UNWRITTEN);
        let parts = [&[Part(place, 16, false)], data, &[Part(status, 1, true)]].concat();
        (parts, status)
    }

    /// Sends a request; returns its status.
    pub(super) fn ask(&mut self, ring: u16, kind: u32, sector: u64, data: &[Part]) -> u8 {
        let (parts, status) = self.request(0, kind, sector, data);
        self.chain(Self::table(ring), 0, &parts);
        self.carry_out(ring, 0, status)
    }

    /// Offers a chain and waits for its answer; returns its status.
    pub(super) fn carry_out(&mut self, ring: u16, head: u16, status: u64) -> u8 {
        self.offer(ring, head);
        self.kick(ring);
        let its = &mut self.rings[usize::from(ring)];
        its.seen = its.seen.wrapping_add(1);
        let seen = its.seen;
        self.wait(ring, seen);
        self.get(status)
    }
}

trait Descriptor {
    fn as_fd_of(&self) -> std::os::fd::BorrowedFd<'_>;
}

impl Descriptor for EventFd {
    fn as_fd_of(&self) -> std::os::fd::BorrowedFd<'_> {
        #[allow(unsafe_code, reason = "the type of the monitor's crate does not lend its descriptor")]
        // SAFETY: the descriptor is open as long as the value lives.
        unsafe {
            std::os::fd::BorrowedFd::borrow_raw(self.as_raw_fd())
        }
    }
}

/// A connection of a monitor to a server.
pub(super) struct Monitor {
    pub(super) frontend: Frontend,
    socket: UnixStream,
}

impl Monitor {
    /// Agrees on features, and on memory for requests in flight.
    pub(super) fn introduce(&mut self, machine: &mut Machine) {
        let offered = self.frontend.get_features().unwrap();
        assert_eq!(offered & FEATURE_VERSION_1, FEATURE_VERSION_1);
        let protocol = self.frontend.get_protocol_features().unwrap();
        self.frontend.set_protocol_features(protocol & !VhostUserProtocolFeatures::REPLY_ACK).unwrap();
        self.frontend.set_owner().unwrap();
        let wanted = FEATURE_VERSION_1 | FEATURE_PROTOCOL | machine.features;
        self.frontend.set_features(wanted).unwrap();
        if let Some((its, file)) = &mut machine.inflight {
            if its.mmap_size == 0 {
                (*its, *file) = self.frontend.get_inflight_fd(its).unwrap();
            }
            self.frontend.set_inflight_fd(its, file.as_raw_fd()).unwrap();
        }
    }

    pub(super) fn features(&mut self) -> u64 {
        self.frontend.get_features().unwrap()
    }

    /// The configuration of the device.
    pub(super) fn config(&mut self) -> Vec<u8> {
        self.frontend.get_config(0, 60, VhostUserConfigFlags::WRITABLE, &[0; 60]).unwrap().1
    }

    pub(super) fn log(&mut self, file: &File, bytes: u64) {
        let region = VhostUserDirtyLogRegion { mmap_size: bytes, mmap_offset: 0, mmap_handle: file.as_raw_fd() };
        self.frontend.set_log_base(0, Some(region)).unwrap();
    }

    /// Stops a ring; returns the index of the next offer.
    pub(super) fn stop(&mut self, ring: u16) -> u32 {
        self.frontend.get_vring_base(usize::from(ring)).unwrap()
    }

    /// Waits until the server has closed the connection.
    pub(super) fn wait_for_end(&self) {
        poll(&mut [PollFd::new(&self.socket, PollFlags::RDHUP)], None).unwrap();
    }

    /// Ends the connection, and waits until the server has closed its side: it serves one monitor at a time.
    pub(super) fn close(self) {
        self.socket.shutdown(std::net::Shutdown::Write).unwrap();
        self.wait_for_end();
    }

    /// Whether the connection is open.
    pub(super) fn is_open(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&none)).unwrap() == 0
    }
}
