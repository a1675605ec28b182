//! Rules of the trace readers and writers.
//!
//! Tests of other people's captures, which may not be copied, say on the terminal which samples they lack.

// Tests speak to whoever runs them.
#![allow(clippy::print_stderr, clippy::print_stdout, clippy::unwrap_used)]

mod corpus;
mod cut;
mod dialects;
mod fixtures;
mod golden;
mod golden_others;
mod group;
mod info;
mod malformed;
mod malformed_others;
mod own_columns;
mod reading;
mod reading_others;
mod round_trip;
mod support;
mod together;
mod tracefs;
