//! The parameters that a fit may change, one row for each key of a device file.

/// A parameter with the values that are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The key in a device file.
    pub key: &'static str,
    /// The values.
    pub values: Values,
    /// Another key: only a device that has it has this parameter to fit.
    pub beside: Option<&'static str>,
}

/// The values of a parameter. Amounts are in nanoseconds, bytes, bytes a second, or whole numbers.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// From one amount to another, all equally likely.
    Between(f64, f64, Unit),
    /// From one amount to another, equal ratios equally likely.
    Ratios(f64, f64, Unit),
    /// A choice from several words.
    Words(&'static [&'static str]),
    /// On or off.
    Switch,
}

/// How the amounts of a row are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A whole number.
    Count,
    /// A share of the whole.
    Share,
    /// A skew, as a share of a revolution.
    Revolutions,
    /// A time.
    Nanos,
    /// A time that a request takes for each of its many units.
    NanosEach,
    /// A size.
    Bytes,
    /// A rate.
    BytesPerSecond,
}

const US: f64 = 1e3;
const MS: f64 = 1e6;
const KIB: f64 = 1024.0;
const MB: f64 = 1e6;

/// A key that only a disk has whose zones are not known.
const ZONING: &str = "hdd.zoning.inner";

const fn row(key: &'static str, values: Values) -> Row {
    Row { key, values, beside: None }
}

const fn time(key: &'static str, low: f64, high: f64) -> Row {
    row(key, Values::Between(low, high, Unit::Nanos))
}

const fn word(key: &'static str, words: &'static [&'static str]) -> Row {
    row(key, Values::Words(words))
}

const fn switch(key: &'static str) -> Row {
    row(key, Values::Switch)
}

/// The parameters of a disk that response times say something about, for a disk with `[hdd.zoning]`, `[hdd.seek.datasheet]` and
/// `[hdd.cache]`.
pub const DISK: &[Row] = &[
    time("hdd.seek.datasheet.single", 0.1 * MS, 5.0 * MS),
    time("hdd.seek.datasheet.average", 2.0 * MS, 16.0 * MS),
    time("hdd.seek.datasheet.full", 5.0 * MS, 30.0 * MS),
    time("hdd.head_switch", 0.05 * MS, 3.0 * MS),
    time("hdd.write_settle", -1.5 * MS, 2.0 * MS),
    time("hdd.reposition", 0.0, 3.0 * MS),
    row("hdd.zoning.outer_sectors_per_track", Values::Ratios(30.0, 3000.0, Unit::Count)),
    row("hdd.zoning.inner", Values::Between(0.4, 1.0, Unit::Share)),
    // With listed zones, the surfaces are known.
    Row { beside: Some(ZONING), ..row("hdd.surfaces", Values::Between(1.0, 16.0, Unit::Count)) },
    row("hdd.interface_rate", Values::Ratios(1.0 * MB, 600.0 * MB, Unit::BytesPerSecond)),
    row("hdd.interface_write_rate", Values::Ratios(1.0 * MB, 600.0 * MB, Unit::BytesPerSecond)),
    time("hdd.overhead.read_after_read", 0.0, 4.0 * MS),
    time("hdd.overhead.read_after_write", 0.0, 4.0 * MS),
    time("hdd.overhead.write_after_read", 0.0, 4.0 * MS),
    time("hdd.overhead.write_after_write", 0.0, 4.0 * MS),
    time("hdd.cache.hit_overhead.read_after_read", 0.0, 4.0 * MS),
    time("hdd.cache.hit_overhead.read_after_write", 0.0, 4.0 * MS),
    time("hdd.cache.hit_overhead.write_after_read", 0.0, 4.0 * MS),
    time("hdd.cache.hit_overhead.write_after_write", 0.0, 4.0 * MS),
    row("hdd.cache.segments", Values::Ratios(1.0, 64.0, Unit::Count)),
    row("hdd.cache.segment_size", Values::Ratios(16.0 * KIB, 2048.0 * KIB, Unit::Bytes)),
    word("hdd.cache.read_ahead", &["none", "track", "next_track", "track_or_next", "segment"]),
    row("hdd.cache.read_ahead_begins_after", Values::Between(0.0, 3.0, Unit::Count)),
    switch("hdd.cache.read_ahead_after_hit"),
    switch("hdd.cache.keep_requested"),
    switch("hdd.cache.read_before"),
    switch("hdd.cache.read_written"),
    row("hdd.cache.write_segments", Values::Between(1.0, 16.0, Unit::Count)),
    time("hdd.cache.read_completion", 0.0, 2.0 * MS),
    word("hdd.cache.write", &["none", "contiguous", "all"]),
    switch("hdd.cache.zero_latency_reads"),
    switch("hdd.cache.zero_latency_writes"),
    switch("hdd.cache.store_and_forward"),
];

/// Parameters of a disk without known zones that a trace, unlike probes, leaves open: how far tracks are turned against each other. That is
/// often two or three times as far as arm and heads need, so that it does not follow from their times.
pub const DISK_TRACED: &[Row] = &[
    Row { beside: Some(ZONING), ..row("hdd.surface_skew", Values::Between(0.0, 0.6, Unit::Revolutions)) },
    Row { beside: Some(ZONING), ..row("hdd.cylinder_skew", Values::Between(0.0, 0.6, Unit::Revolutions)) },
];

/// The order of commands, which only requests that are in a disk together show.
pub const DISK_QUEUED: &[Row] = &[word("hdd.command_order", &["fifo", "sptf"])];

/// The parameters of a solid-state drive that response times say something about.
pub const FLASH: &[Row] = &[
    row("ssd.channels", Values::Ratios(1.0, 32.0, Unit::Count)),
    row("ssd.dies_per_channel", Values::Ratios(1.0, 16.0, Unit::Count)),
    time("ssd.read", 5.0 * US, 300.0 * US),
    time("ssd.program", 50.0 * US, 3.0 * MS),
    row("ssd.channel_rate", Values::Ratios(50.0 * MB, 4000.0 * MB, Unit::BytesPerSecond)),
    row("ssd.interface_rate", Values::Ratios(50.0 * MB, 16_000.0 * MB, Unit::BytesPerSecond)),
    row("ssd.write_buffer", Values::Ratios(1024.0 * KIB, 65_536.0 * KIB, Unit::Bytes)),
    time("ssd.overhead.read", 0.0, 300.0 * US),
    time("ssd.overhead.write", 0.0, 300.0 * US),
    row("ssd.overhead.write_per_unit", Values::Between(0.0, 30.0 * US, Unit::NanosEach)),
    time("ssd.overhead.command", 0.0, 300.0 * US),
    time("ssd.serial.read", 0.0, 100.0 * US),
    time("ssd.serial.write", 0.0, 100.0 * US),
    row("ssd.wake.idle", Values::Ratios(1.0 * MS, 4_000.0 * MS, Unit::Nanos)),
    time("ssd.wake.takes", 0.0, 3.0 * MS),
];

/// Parameters that only probes determine: how far even and odd pages differ. Fitted to the response times of a trace, this parameter made
/// the error larger on requests outside the fit.
pub const FLASH_PROBED: &[Row] = &[time("ssd.read_spread", 0.0, 60.0 * US)];

/// The cost of a read of one unit, which reads of one unit beside longer ones show.
pub const FLASH_ONE_UNIT: &[Row] = &[
    Row { beside: Some("ssd.read_one_unit"), ..time("ssd.read_one_unit", 5.0 * US, 300.0 * US) },
    Row { beside: Some("ssd.overhead.read_one_unit"), ..time("ssd.overhead.read_one_unit", 0.0, 300.0 * US) },
];
