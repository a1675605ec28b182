//! No byte sequence makes a trace reader panic or break its promises.
//!
//! `cargo +nightly fuzz run trace`; a failure goes into `corpus/trace` under a name that says what it was.

#![no_main]

#[path = "../drive_trace.rs"]
mod drive_trace;

libfuzzer_sys::fuzz_target!(init: forgive_the_library(), |data: &[u8]| drive_trace::drive(data));

/// The Parquet library panics on some damaged files; the reader turns that into an error. The fuzzer, which ends at every
/// panic, must let those of the library pass.
fn forgive_the_library() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map_or("", |location| location.file());
        if !file.contains("/parquet-") && !file.contains("/bytes-") {
            usual(panic);
        }
    }));
}
