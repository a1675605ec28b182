#![no_std]
extern crate alloc;
mod request;
mod scheduler;
mod time;
pub use request::*;
pub use scheduler::*;
pub use time::Nanos;
