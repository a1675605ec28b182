//! Where the policies of ioweir meet clocks and threads: the only crate that has them.
//!
//! [`executor`] is a pool of worker threads that a schedule of cores drives.

pub mod executor;
