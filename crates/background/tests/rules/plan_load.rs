//! The knowledge of a plan about its load: which blocks are new.

use ioweir_background::forecast::Calendar;
use ioweir_background::plan::{Load, LoadForecaster, Policy};
use ioweir_background::series::{Losses, Series};

const HOUR_SECONDS: u32 = 3600;
const DAY_BINS: usize = 24;
const POLICY: &str = "[pool]\nsize = \"10TiB\"\nblock = \"4KiB\"\n[cores]\ncount = 8\nforeground_iops = 100\n\
                      background_operations = 100\n[forecast]\nbin = \"1h\"\nmethod = \"naive-day\"\n\
                      [load]\ntotal = \"requests\"\nwrite_percent = 50\nunique = \"new\"\n";

fn column(name: &str, value: impl Fn(usize) -> f64) -> Series {
    Series {
        name: name.into(),
        start_unix_seconds: 0,
        bin_seconds: HOUR_SECONDS,
        values: (0..14 * DAY_BINS).map(|bin| Some(value(bin % DAY_BINS))).collect(),
        losses: Losses::default(),
    }
}

#[test]
fn new_block_share_is_forecast_by_hour() {
    let policy = Policy::parse("policy.toml", POLICY).unwrap();
    // Desktops are made at night, when most written blocks are new.
    let share = |hour: usize| if hour < 6 { 0.9 } else { 0.1 };
    let series = [column("requests", |_| 100.0), column("new", share)];
    let load = Load::of_series(&series, &policy).unwrap();
    let written = 50 * u64::from(HOUR_SECONDS);
    for hour in 0..DAY_BINS {
        let demand = load.demand(hour).unwrap();
        assert_eq!((demand.written_blocks, demand.new_blocks), (written, (written as f64 * share(hour)) as u64));
    }
    let choice = policy.forecast.forecaster().unwrap();
    let mut forecaster = LoadForecaster::new(&load, &choice, 0.95, &Calendar::default()).unwrap();
    forecaster.update(&load, 0..load.requests.len());
    forecaster.refit();
    let expected = forecaster.outlook(DAY_BINS).expected;
    let shares = expected.iter().map(|demand| demand.new_blocks as f64 / demand.written_blocks as f64);
    for (hour, forecast) in shares.enumerate() {
        assert!((forecast - share(hour)).abs() < 0.01, "hour {hour}: {forecast}");
    }
}

#[test]
fn new_block_share_above_one_is_refused() {
    let policy = Policy::parse("policy.toml", POLICY).unwrap();
    let series = [column("requests", |_| 100.0), column("new", |_| 17.0)];
    let error = Load::of_series(&series, &policy).unwrap_err().to_string();
    assert!(error.contains("the column `new` holds 17") && error.contains("from 0 to 1"), "{error}");
}
