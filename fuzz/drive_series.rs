//! Runs one fuzzing input through the series reader and the forecasters, for the target and for the test on stable.

use ioweir_background::forecast::{Calendar, FORECASTERS, ForecasterChoice};
use ioweir_background::series::{Kind, SeriesOptions, read_inputs};
use ioweir_trace::Input;

/// First byte: kind of samples in the low two bits, then adding up of labels, then an hour's bins, then two files. The
/// second chooses the forecaster. The rest is the table. Whatever comes out must hold what readers and forecasters promise.
pub(crate) fn drive(data: &[u8]) {
    let [selector, method, bytes @ ..] = data else { return };
    let kind = [Kind::Mean, Kind::Sum, Kind::Counter, Kind::Mean][usize::from(selector & 3)];
    let options = SeriesOptions {
        bin_seconds: (selector & 8 != 0).then_some(3600),
        columns: Vec::new(),
        kind,
        total: selector & 4 != 0,
    };
    let inputs = if selector & 16 != 0 {
        let (one, other) = bytes.split_at(bytes.len() / 2);
        vec![Input::from_bytes("one", one.to_vec()), Input::from_bytes("other", other.to_vec())]
    } else {
        vec![Input::from_bytes("table", bytes.to_vec())]
    };
    let Ok(found) = read_inputs(&inputs, &options) else { return };
    assert!(!found.is_empty(), "a table without values is an error");
    for series in &found {
        assert_eq!(
            series.start_unix_seconds % i64::from(series.bin_seconds),
            0,
            "bins begin at multiples of their length"
        );
        assert!(series.values.iter().flatten().all(|value| value.is_finite() && *value >= 0.0));
        assert!(series.values.iter().any(Option::is_some), "a series has a value");
    }
    let series = &found[0];
    let row = &FORECASTERS[usize::from(*method) % FORECASTERS.len()];
    let Ok(mut forecaster) =
        ForecasterChoice::of(row).build(series.start_unix_seconds, series.bin_seconds, &Calendar::default())
    else {
        return;
    };
    // Enough for a few weeks of hours; fuzzing is for the odd, not for the long.
    let bins = series.values.len().min(1000);
    forecaster.update(&series.values[..bins]);
    forecaster.refit();
    let forecast = forecaster.predict(30, &[0.05, 0.5, 0.95]);
    let mut rows = vec![&forecast.mean, &forecast.median];
    rows.extend(forecast.quantiles.iter().map(|(_, values)| values));
    assert!(rows.iter().all(|row| row.len() == 30 && row.iter().all(|value| value.is_finite() && *value >= 0.0)));
    let sorted =
        forecast.quantiles.windows(2).all(|pair| pair[0].1.iter().zip(&pair[1].1).all(|(low, high)| low <= high));
    assert!(sorted, "a higher quantile is nowhere lower");
}
