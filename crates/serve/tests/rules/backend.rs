//! Rules of backends by themselves: every operation comes back.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use ioweir_core::Nanos;
use ioweir_serve::backend::{self, Action, Io};
use ioweir_serve::buffer::{Buffers, Pool};
use rustix::event::{PollFd, PollFlags, poll};

#[test]
fn more_operations_than_fit_the_ring_come_back() {
    // More operations than the depth, because merged requests and tiers cut a dispatch into several.
    const OPERATIONS: u32 = 2000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let device = crate::bench::device(&format!("backend = \"file\"\npath = {path:?}\nsize = \"8MiB\"\ndepth = 1"));
    let mut pool = Pool::new(256 << 10);
    let mut backend = backend::open(&device, pool.registered(), None).unwrap();
    for id in 0..OPERATIONS {
        let (offset, length) = (u64::from(id) * 4096, 4096);
        let buffers = Buffers::One(pool.take(4096));
        backend.start(
            Nanos::ZERO,
            Io { id, action: Action::Read, offset, length, durable: false, dispatch: None, buffers },
        );
    }
    backend.submit().unwrap();
    let mut done = Vec::new();
    for _ in 0..1_000_000 {
        backend.collect(Nanos::ZERO, &mut done).unwrap();
        backend.submit().unwrap();
        if done.len() == OPERATIONS as usize {
            break;
        }
        let descriptors = backend.descriptors();
        let mut descriptors: Vec<_> =
            descriptors.iter().map(|descriptor| PollFd::new(descriptor, PollFlags::IN)).collect();
        poll(&mut descriptors, None).unwrap();
    }
    assert_eq!(done.len(), OPERATIONS as usize);
    assert!(done.iter().all(|done| done.result.is_ok()));
}
