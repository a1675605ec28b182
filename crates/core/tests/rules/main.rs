//! Rules of the policies and of the structures they are built from.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod adaptive;
mod background;
mod background_device;
mod bounds;
mod controllers;
mod cores;
mod cores_model;
mod cores_orders;
mod driver;
mod driving;
mod fleet;
mod golden;
mod golden_linux;
mod hybrid;
mod model;
mod no_allocation;
mod pairs;
mod priority;
mod reads;
mod staging;
mod starvation;
mod tenants;
