//! The memory for the saved state of services, which lasts as long as the world.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ioweir_serve::engine::Shelf;

/// The bytes that a service has kept; empty before the first time.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Vec<u8>>);

impl Kept {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf for Kept {
    fn name(&self) -> String {
        "memory".into()
    }

    fn read(&self) -> Result<Option<Vec<u8>>, String> {
        let bytes = self.bytes();
        Ok((!bytes.is_empty()).then(|| bytes.clone()))
    }

    fn keep(&self, bytes: Vec<u8>) -> io::Result<()> {
        *self.bytes() = bytes;
        Ok(())
    }

    fn waits_for_disk(&self) -> bool {
        false
    }
}
