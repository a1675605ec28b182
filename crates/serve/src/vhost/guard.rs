//! Survives the loss of memory that a client shares with the server.
//!
//! A client that shortens the file of its memory takes pages away. A thread that touches one gets SIGBUS, which would end the server. The
//! handler puts zeroes in the place of the whole mapping, which belongs to this client alone, and marks it as lost; the client is then
//! disconnected.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The most mappings of all clients together.
const MAPPINGS_MAX: usize = 4096;

/// A mapping that a client can take away. Free while its end is zero.
struct Mapping {
    is_taken: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    is_lost: AtomicBool,
}

static MAPPINGS: [Mapping; MAPPINGS_MAX] = [const {
    Mapping {
        is_taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        is_lost: AtomicBool::new(false),
    }
}; MAPPINGS_MAX];

/// Whether the handler could be installed: the number of the error if not.
static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();

/// A guarded mapping, while it exists. It has to end before the mapping does.
#[derive(Debug)]
pub(super) struct Guard(usize);

impl Guard {
    /// Guards a mapping of whole pages.
    pub(super) fn new(start: usize, length: usize) -> io::Result<Self> {
        INSTALLED.get_or_init(install).map_err(io::Error::from_raw_os_error)?;
        let free = |mapping: &Mapping| !mapping.is_taken.swap(true, Ordering::AcqRel);
        let number = MAPPINGS.iter().position(free).ok_or_else(|| io::Error::other("too many mappings"))?;
        let mapping = &MAPPINGS[number];
        mapping.is_lost.store(false, Ordering::Release);
        mapping.start.store(start, Ordering::Release);
        mapping.end.store(start + length, Ordering::Release);
        Ok(Self(number))
    }

    /// Whether the client has taken away a part of the mapping.
    pub(super) fn is_lost(&self) -> bool {
        MAPPINGS[self.0].is_lost.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        MAPPINGS[self.0].end.store(0, Ordering::Release);
        MAPPINGS[self.0].is_taken.store(false, Ordering::Release);
    }
}

#[allow(unsafe_code, reason = "a handler of signals is installed")]
fn install() -> Result<(), i32> {
    // SAFETY: all zeroes is a valid `sigaction`: no flags, and no signal is blocked.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for, and only makes calls that a handler may make.
    let result = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error().raw_os_error().unwrap_or_default()) }
}

#[allow(unsafe_code, reason = "the kernel calls it with pointers")]
extern "C" fn handle(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: SA_SIGINFO states that this is a siginfo_t; an address is in it for each code above zero.
    let address = unsafe { if (*info).si_code > 0 { (*info).si_addr() as usize } else { 0 } };
    for mapping in &MAPPINGS {
        let (start, end) = (mapping.start.load(Ordering::Acquire), mapping.end.load(Ordering::Acquire));
        if address == 0 || !(start..end).contains(&address) {
            continue;
        }
        mapping.is_lost.store(true, Ordering::Release);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the thread touches this mapping, so that it is there, and its owner keeps it: only this mapping, whose
        // content may change at any time anyway, is replaced.
        let placed = unsafe { libc::mmap(start as *mut _, end - start, protection, flags, -1, 0) };
        if placed != libc::MAP_FAILED {
            return;
        }
    }
    // The address lies in none of the mappings: when the instruction is tried again, the signal has its default effect. SAFETY: the
    // function takes numbers alone.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}
