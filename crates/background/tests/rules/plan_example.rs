//! The example that the README plans: its series is generated, and this is its generator.

use std::fmt::Write as _;
use std::path::Path;

use ioweir_background::series::Vdi;
use ioweir_config::date::format_day;

/// Four weeks of virtual desktops from Monday, 2016-02-01, seed 6; three of ten requests write.
fn example() -> String {
    let generated = Vdi { seed: 6, ..Vdi::default() }.generate().series;
    let mut text = String::from("time,read,write\n");
    for (bin, value) in generated.values.iter().enumerate() {
        let time = generated.start_unix_seconds + bin as i64 * i64::from(generated.bin_seconds);
        let day = format_day(time.div_euclid(86_400));
        let second = time.rem_euclid(86_400);
        let rate = value.unwrap_or_default();
        let _ = writeln!(
            text,
            "{day} {:02}:{:02}:00,{:.1},{:.1}",
            second / 3600,
            second % 3600 / 60,
            rate * 0.7,
            rate * 0.3
        );
    }
    text
}

#[test]
fn the_example_series_is_what_its_generator_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/vdi/load.csv");
    if std::env::var_os("IOWEIR_WRITE_EXAMPLES").is_some() {
        std::fs::write(&path, example()).expect("the example can be written");
    }
    let stored = std::fs::read_to_string(&path).expect("the example is there");
    assert!(stored == example(), "run this test with IOWEIR_WRITE_EXAMPLES=1 to write it anew");
}
