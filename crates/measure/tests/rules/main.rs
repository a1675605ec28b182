//! Rules of calibration and validation.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod calibration;
mod validation;
