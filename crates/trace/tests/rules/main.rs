//! Rules of the trace readers and writers.
//!
//! Tests that need the shared samples say so and pass where the folder is absent.

// Tests speak to whoever runs them.
#![allow(clippy::print_stderr, clippy::print_stdout, clippy::unwrap_used)]

mod corpus;
mod cut;
mod fixtures;
mod golden;
mod golden_others;
mod group;
mod info;
mod malformed;
mod malformed_others;
mod reading;
mod reading_others;
mod round_trip;
mod support;
