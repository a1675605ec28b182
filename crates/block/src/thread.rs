//! A thread that ends with its owner.

use std::io;
use std::thread::{Builder, JoinHandle};

/// A thread whose end is waited for when this is dropped. What tells the thread to end must be dropped before.
#[derive(Debug)]
pub struct OwnedThread(Option<JoinHandle<()>>);

impl OwnedThread {
    /// Starts a thread of this name.
    ///
    /// # Errors
    /// If the system has no threads left.
    pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        Ok(Self(Some(Builder::new().name(name.into()).spawn(work)?)))
    }
}

impl Drop for OwnedThread {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A thread that has panicked has ended, too.
            let _ = thread.join();
        }
    }
}
