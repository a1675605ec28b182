//! The real series of the shared folder, where it is there.

use std::path::Path;

use ioweir_background::series::{SeriesOptions, read_inputs};
use ioweir_trace::Input;

#[allow(dead_code, reason = "the survey is the benchmark's; its list of series is tested here")]
#[path = "../../../benches/accuracy/survey.rs"]
mod survey;
use survey::real_series;

#[test]
fn real_series_are_read_as_readme_counts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/timeseries");
    if !folder.is_dir() {
        println!("skipped: the folder of real series is not there");
        return;
    }
    let taxi = read_inputs(&[Input::from_path(&folder.join("nab/nyc_taxi.csv.gz"))], &SeriesOptions::default())
        .unwrap()
        .remove(0);
    assert_eq!((taxi.bin_seconds, taxi.values.len(), taxi.values.iter().flatten().count()), (1800, 10_320, 10_320));
    assert_eq!(taxi.values[0], Some(10_844.0));

    let machine =
        read_inputs(&[Input::from_path(&folder.join("bitbrains-rnd/2013-7/415.csv.gz"))], &SeriesOptions::default())
            .unwrap();
    let write = machine.iter().find(|series| series.name.starts_with("Disk write")).unwrap();
    assert_eq!((machine.len(), write.bin_seconds), (10, 300));
    assert!(write.coverage() > 0.95);

    let options = SeriesOptions { columns: vec!["throughput".into()], ..SeriesOptions::default() };
    let day = std::fs::read_dir(folder.join("perseus/cluster_A/host_1")).unwrap().next().unwrap().unwrap().path();
    let drives = read_inputs(&[Input::from_path(&day)], &options).unwrap();
    assert_eq!((drives.len(), drives[0].bin_seconds), (12, 15));

    let (subjects, missing) = real_series(&folder).unwrap();
    assert_eq!((subjects.len(), missing.len()), (40, 0));
}
