//! Tables: delimiters, times, gaps, counters, damage.

use std::io::Write as _;

use ioweir_background::series::{Kind, Losses, SeriesOptions, read_inputs};
use ioweir_trace::Input;

use super::{bins, read, read_all};

#[test]
fn delimiters_headers_and_times_are_recognised() {
    let tables = [
        "time,iops\n1200,4\n1800,6\n",
        "time;iops\n1970-01-01 00:20:00;4\n1970-01-01 00:30:00;6\n",
        "\"ts\"\t\"iops\"\n1200000000000\t4\n1200000600000\t6\n",
        "# a comment\n1970-01-01T00:20:00Z|4\r\n1970-01-01T00:30:00Z|6",
        "iops,when\n4,1970-01-01T01:20:00+01:00\n6,1970-01-01T01:30:00+01:00\n",
        "time;iops\n1200;4,0\n1800;6,0\n",
    ];
    for table in tables {
        let series = read(table, &SeriesOptions::default());
        assert_eq!((series.bin_seconds, series.values), (600, vec![Some(4.0), Some(6.0)]), "{table}");
        assert_eq!(series.start_unix_seconds % 600, 0);
        let utc_offset_seconds = table.contains("+01:00").then_some(3600);
        assert_eq!(series.losses, Losses { utc_offset_seconds, ..Losses::default() }, "{table}");
    }
}

#[test]
fn samples_become_means_sums_and_rates() {
    let table = "time,n\n0,10\n60,20\n120,30\n180,40\n240,60\n300,100\n";
    assert_eq!(read(table, &bins(120)).values, [Some(15.0), Some(35.0), Some(80.0)]);
    let sum = SeriesOptions { kind: Kind::Sum, ..bins(120) };
    assert_eq!(read(table, &sum).values, [Some(30.0), Some(70.0), Some(160.0)]);
    let counter = SeriesOptions { kind: Kind::Counter, ..bins(60) };
    let rates = [10.0, 10.0, 10.0, 20.0, 40.0].map(|rise: f64| Some(rise / 60.0));
    assert_eq!(read(table, &counter).values, rates);
}

#[test]
fn infinite_value_is_a_gap() {
    for word in ["inf", "+Inf", "-inf", "NaN", "Infinity"] {
        let series = read(&format!("time,n\n0,1\n60,{word}\n120,3\n"), &bins(60));
        assert_eq!((series.values, series.losses.missing_values), (vec![Some(1.0), None, Some(3.0)], 1), "{word}");
    }
}

#[test]
fn dashboard_exports_are_read_with_units() {
    // A cell with a unit is a number, not the name of a series.
    let table = "Time,read,write\n2026-01-01 00:00:00,223 io/s,1001 io/s\n2026-01-01 00:01:00,1.2K io/s,980 io/s\n";
    let series = read_all(table, &SeriesOptions::default()).unwrap();
    let named: Vec<_> = series.iter().map(|series| (series.name.as_str(), series.values.clone())).collect();
    let expected = [("read", vec![Some(223.0), Some(1200.0)]), ("write", vec![Some(1001.0), Some(980.0)])];
    assert_eq!(named, expected);
    // A name with quotes and commas in it is one name.
    let table = "\"Time\",\"{device=\"\"sda\"\",job=\"\"node\"\"}\"\n2026-01-01 00:00:00,4\n2026-01-01 00:01:00,5\n";
    let series = read(table, &SeriesOptions::default());
    assert_eq!((series.name.as_str(), series.values), ("{device=\"sda\",job=\"node\"}", vec![Some(4.0), Some(5.0)]));
}

#[test]
fn table_with_too_few_rows_is_reported() {
    let told = |text: &str| read_all(text, &SeriesOptions::default()).unwrap_err();
    assert_eq!(
        told("time,value\n"),
        "rates.csv: holds a header and no rows\n  expected: rows of times and numbers below it"
    );
    assert_eq!(
        told("time,value\n1699920000,5\n"),
        "rates.csv: holds one row: the step between rows is not known\n  expected: at least two rows, or the length of a \
         bin\n\nhint: --bin 1h, or bin = \"1h\" in a spec, gives the length"
    );
    assert_eq!(
        told("time,value\n0,nan\n600,nan\n"),
        "rates.csv: holds no values: in none of its 2 rows is there a number that can be one\n  expected: rows of times and \
         numbers"
    );
}

#[test]
fn a_gap_is_never_zero() {
    let table = "time,n\n0,1\n60,2\n240,5\n300,\n360,nan\n420,8\n";
    let series = read(table, &bins(60));
    assert_eq!(series.values, [Some(1.0), Some(2.0), None, None, Some(5.0), None, None, Some(8.0)]);
    assert_eq!(series.losses.missing_values, 2);
}

#[test]
fn bin_with_under_half_samples_is_gap() {
    let rows: String =
        (0..20).filter(|minute| !(11..20).contains(minute)).map(|minute| format!("{},7\n", minute * 60)).collect();
    let series = read(&format!("time,n\n{rows}"), &bins(600));
    assert_eq!((series.values, series.losses.thin_bins), (vec![Some(7.0), None], 1));
    // The sum of a bin with missing samples is scaled to all of them.
    let rows: String = (0..20).filter(|minute| *minute < 16).map(|minute| format!("{},7\n", minute * 60)).collect();
    let sum = SeriesOptions { kind: Kind::Sum, ..bins(600) };
    assert_eq!(read(&format!("time,n\n{rows}"), &sum).values, [Some(70.0), Some(70.0)]);
}

#[test]
fn duplicates_count_once_late_rows_are_sorted() {
    let series = read("time,n\n0,1\n60,2\n60,2\n180,4\n120,3\n180,6\n", &bins(60));
    assert_eq!(series.values, [Some(1.0), Some(2.0), Some(3.0), Some(5.0)]);
    assert_eq!((series.losses.duplicate_rows, series.losses.rows_out_of_order), (1, 1));
    let falling = read("time,n\n180,4\n120,3\n60,2\n0,1\n", &bins(60));
    assert_eq!((falling.start_unix_seconds, falling.values), (0, vec![Some(1.0), Some(2.0), Some(3.0), Some(4.0)]));
}

#[test]
fn a_counter_that_begins_anew_leaves_a_gap() {
    let counter = SeriesOptions { kind: Kind::Counter, ..bins(60) };
    let series = read("time,n\n0,600\n60,1200\n120,30\n180,630\n240,1230\n", &counter);
    assert_eq!(series.values, [Some(10.0), None, Some(10.0), Some(10.0)]);
    assert_eq!(series.losses.counter_resets, 1);
}

#[test]
fn possible_counter_is_reported() {
    let rows: String = (0..100).map(|minute| format!("{},{}\n", minute * 60, minute * 5)).collect();
    let series = read(&format!("time,n\n{rows}"), &bins(60));
    assert!(series.losses.looks_like_counter);
    assert!(series.losses.lines().iter().any(|line| line.contains("counter")));
}

#[test]
fn negative_and_absurd_values_are_masked_and_counted() {
    let mut table = String::from("time,n\n");
    for minute in 0..100 {
        let value = match minute {
            7 => "-4".to_string(),
            8 => "1e300".to_string(),
            9 => "90000000000".to_string(),
            _ => (10 + minute % 3).to_string(),
        };
        table += &format!("{},{value}\n", minute * 60);
    }
    let series = read(&table, &bins(60));
    assert_eq!(series.values[7..10], [None, None, None]);
    assert_eq!((series.losses.negative_values, series.losses.absurd_values), (1, 2));
    assert_eq!(series.values.iter().flatten().count(), 97);
}

#[test]
fn labels_are_series_or_a_total() {
    let table = "ts,disk,bytes\n0,a,1\n0,b,10\n60,a,2\n60,b,20\n120,a,3\n";
    let both = read_all(table, &bins(60)).unwrap();
    assert_eq!(both.iter().map(|series| series.name.as_str()).collect::<Vec<_>>(), ["a bytes", "b bytes"]);
    assert_eq!(both[1].values, [Some(10.0), Some(20.0)]);
    // A bin in which one disk has no value has no sum.
    let total = read(table, &SeriesOptions { total: true, ..bins(60) });
    assert_eq!(total.values, [Some(11.0), Some(22.0), None]);
    // The second label is 1,600 years later: there is no room for the bins between.
    let table = "ts,disk,bytes\n0,a,1\n60,a,1\n51180149220,b,1\n51180149280,b,2\n";
    assert_eq!(read_all(table, &bins(60)).unwrap().len(), 2);
    let error = read_all(table, &SeriesOptions { total: true, ..bins(60) }).unwrap_err().to_string();
    assert!(error.contains("lie so far apart that their total has 853002489 bins"), "{error}");
}

#[test]
fn files_that_follow_one_another_are_one_series() {
    let inputs = ["time,n\n0,1\n60,2\n", "time,n\n120,3\n180,4\n"].map(|text| text.as_bytes().to_vec());
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&inputs[1]).unwrap();
        encoder.finish().unwrap()
    };
    let inputs = [Input::from_bytes("one", inputs[0].clone()), Input::from_bytes("two", gzip)];
    let series = read_inputs(&inputs, &bins(60)).unwrap();
    assert_eq!(series[0].values, [Some(1.0), Some(2.0), Some(3.0), Some(4.0)]);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let error = |text: &str| read_all(text, &SeriesOptions::default()).unwrap_err();
    assert!(error("").starts_with("rates.csv: the file is empty"));
    assert!(error("a,b\nx,y\n").contains("no column holds times"));
    assert!(error("time,n\n0,1\n60,2\n120,3\n180,x\n").starts_with("rates.csv:5:5: `x` is not a number"));
    assert!(error("time,n\n0,1\n60,2\n120,3\nnever,4\n").starts_with("rates.csv:5:1: `never` is no time"));
    assert!(error("time,n\n0,1\n60,2\n120\n").starts_with("rates.csv:4:4: the line ends before its column `n`"));
    assert!(error("time,n\n0,1\n60,2\n99999999999,3\n").starts_with("rates.csv:4:1: this time makes"));
    let columns = SeriesOptions { columns: vec!["m".into()], ..SeriesOptions::default() };
    assert!(read_all("time,n\n0,1\n", &columns).unwrap_err().contains("has no column `m`\n  expected: one of time, n"));
}

#[test]
fn every_spelling_of_a_table_is_read() {
    let tables = [
        "time;n\n1200;1,523,796.5\n1800;2,750,000.5\n",
        "time;n\n1200;1.523.796,5\n1800;2.750.000,5\n",
        "time,n\n1200,\"1,523,796.5\"\n1800,\"2,750,000.5\"\n",
        "time;n\n1200;1 523 796.5\n1800;2 750 000.5\n",
        "time;n\n1200;1'523'796.5\n1800;2'750'000.5\n",
        "sep=;\ntime;n\n1200;1523796.5\n1800;2750000.5\n",
        "\u{feff}time,n\n1200,1523796.5\n1800,2750000.5\n",
        "# time;n\n1200;1523796.5\n1800;2750000.5\n",
        "time,n\n1200,1.5237965 Mil\n1800,2.7500005 Mil\n",
        "time,n\n1200,1523.7965 K\n1800,2750.0005 K\n",
        "time,n\n1200,1523.7965 kB/s\n1800,2750.0005 kB/s\n",
    ];
    for table in tables {
        let series = read(table, &SeriesOptions::default());
        assert_eq!(series.name, "n", "{table}");
        assert_eq!(series.values, [Some(1_523_796.5), Some(2_750_000.5)], "{table}");
    }
}

#[test]
fn ambiguous_comma_is_an_error() {
    let error = read_all("time;n\n1200;1,523\n1800;2,750\n", &SeriesOptions::default()).unwrap_err().to_string();
    assert!(error.contains("`1,523` may have a comma between thousands or before decimals"), "{error}");
}

#[test]
fn sadf_output_has_series_per_column_and_disk() {
    let table = "# hostname;interval;timestamp;DEV;tps;rkB/s\nweb1;-1;2026-03-01 22:50:00 CET;LINUX-RESTART\t(2 CPU)\n\
                 web1;600;2026-03-01 23:00:00 CET;sda;1.5;3\nweb1;600;2026-03-01 23:00:00 CET;sdb;2.5;4\n\
                 web1;600;2026-03-01 23:10:00 CET;sda;1.5;3\nweb1;600;2026-03-01 23:10:00 CET;sdb;2.5;4\n";
    let series = read_all(table, &SeriesOptions::default()).unwrap();
    let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["web1 sda tps", "web1 sdb tps", "web1 sda rkB/s", "web1 sdb rkB/s"]);
    assert_eq!(series[0].start_unix_seconds, 1_772_402_400);
    let losses = Losses { rows_passed_over: 1, utc_offset_seconds: Some(3600), ..Losses::default() };
    assert_eq!(series[0].losses, losses);
}

#[test]
fn counter_is_known_by_name_or_rise() {
    let table = |name: &str, value: &dyn Fn(u32) -> u32| {
        let rows: String = (0..100).map(|row| format!("{},{}\n", row * 60, value(row))).collect();
        read(&format!("time,{name}\n{rows}"), &bins(60)).losses.looks_like_counter
    };
    assert!(table("reads", &|row| row * 7), "it only rises");
    assert!(table("reads", &|row| (row + 1) % 60 * 7), "it begins anew once");
    assert!(table("node_disk_reads_completed_total", &|row| 5 + row / 30), "its name says so");
    assert!(!table("iops", &|row| 100 + row % 24 * 10), "a rate of a day falls slowly and often");
    assert!(!table("iops", &|row| 100 + row % 2), "a rate goes up and down");
}
