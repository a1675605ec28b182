//! Forecasters keep what they promise on any input.

#![allow(clippy::unwrap_used, reason = "tests: a failure is to stop the test")]

use ioweir_background::forecast::{
    Backtest, Bursts, Calendar, FORECASTERS, Forecast, ForecasterChoice, LEVELS, Learned, backtest, diagnose, find,
    geometric_mean,
};
use ioweir_background::series::{Losses, Series, Vdi};
use ioweir_lab::run::Silent;
use proptest::prelude::*;

const MONDAY: i64 = 1_454_284_800;
const HOUR: u32 = 3600;

fn learned(name: &str) -> Learned {
    name.parse::<ForecasterChoice>().unwrap().build(MONDAY, HOUR, &Calendar::default()).unwrap()
}

fn fitted(name: &str, values: &[Option<f64>]) -> Learned {
    let mut forecaster = learned(name);
    forecaster.update(values);
    forecaster.refit();
    forecaster
}

/// Hours of a noiseless week: busy by day, quiet at night and at the weekend.
fn hour_of_week(hour: usize) -> f64 {
    let (day, hour) = (hour / 24 % 7, hour % 24);
    let busy = if day >= 5 { 0.2 } else { 1.0 + 0.1 * day as f64 };
    100.0 + busy * 900.0 * if (8..18).contains(&hour) { 1.0 } else { 0.05 }
}

fn weeks(count: usize) -> Vec<Option<f64>> {
    (0..count * 168).map(|hour| Some(hour_of_week(hour))).collect()
}

fn smape(forecast: &[f64], actual: impl Iterator<Item = f64>) -> f64 {
    let errors: Vec<f64> = forecast.iter().zip(actual).map(|(f, a)| 200.0 * (f - a).abs() / (f + a)).collect();
    errors.iter().sum::<f64>() / errors.len() as f64
}

fn keeps_its_promises(forecast: &Forecast, bins: usize) {
    let mut rows = vec![&forecast.median, &forecast.mean];
    rows.extend(forecast.quantiles.iter().map(|(_, values)| values));
    for row in rows {
        assert_eq!(row.len(), bins);
        assert!(row.iter().all(|value| value.is_finite() && *value >= 0.0));
    }
    for pair in forecast.quantiles.windows(2) {
        assert!(pair[0].0 <= pair[1].0);
        assert!(pair[0].1.iter().zip(&pair[1].1).all(|(low, high)| low <= high));
    }
}

#[test]
fn a_noiseless_week_is_forecast_exactly() {
    for (name, most) in [
        ("naive-week", 1e-9),
        ("day-profile", 1e-9),
        ("hedge", 0.05),
        ("mstl", 0.5),
        // The weekday's trend repeats, and so does the cluster's season where each weekday is its own cluster.
        ("paper:trend=1:season=1:clusters=7:daily=1", 1e-9),
        ("paper:trend=0.3:season=0.6:clusters=7:daily=1", 1e-9),
    ] {
        let forecaster = fitted(name, &weeks(4));
        let forecast = forecaster.predict(168, &[0.5, 0.95]);
        let error = smape(&forecast.median, (0..168).map(hour_of_week));
        assert!(error <= most, "{name}: {error}");
        let error = smape(&forecast.mean, (0..168).map(hour_of_week));
        // The mean remembers the first days, which nobody could know.
        assert!(error <= most.max(2.0), "mean of {name}: {error}");
    }
}

#[test]
fn a_week_beyond_the_horizon_repeats() {
    let forecast = fitted("day-profile", &weeks(4)).predict(24 * 21, &[]);
    assert!(smape(&forecast.median, (0..24 * 21).map(hour_of_week)) < 1e-9);
}

#[test]
fn whatever_a_series_is_a_forecast_is_finite() {
    let shapes: Vec<(&str, Vec<Option<f64>>)> = vec![
        ("nothing", vec![]),
        ("one bin", vec![Some(5.0)]),
        ("one gap", vec![None]),
        ("shorter than a day", vec![Some(3.0); 7]),
        ("one day", vec![Some(3.0); 24]),
        ("all zero", vec![Some(0.0); 24 * 16]),
        ("constant", vec![Some(7.0); 24 * 16]),
        ("all gaps", vec![None; 24 * 16]),
        (
            "absurd",
            [Some(f64::MAX), Some(f64::NAN), Some(-1.0), Some(f64::INFINITY), Some(1e18), Some(1e-300)].repeat(80),
        ),
        ("one spike", (0..24 * 20).map(|hour| Some(if hour == 300 { 1e15 } else { 1.0 })).collect()),
    ];
    for row in FORECASTERS {
        for (shape, values) in &shapes {
            let forecaster = fitted(row.name, values);
            let forecast = forecaster.predict(24 * 9, &[0.99, 0.01, 0.5, 0.0, 1.0]);
            keeps_its_promises(&forecast, 24 * 9);
            let (zero, constant) = (*shape == "all zero", *shape == "constant");
            assert!(!zero || forecast.median.iter().all(|value| *value == 0.0), "{}", row.name);
            assert!(!constant || forecast.median.iter().all(|value| (value - 7.0).abs() < 0.01), "{}", row.name);
        }
    }
}

#[test]
fn impossible_values_are_counted_gaps() {
    let mut values = weeks(3);
    for (place, value) in [(30, -5.0), (31, f64::NAN), (32, 1e30)] {
        values[place] = Some(value);
    }
    let mut gaps = values.clone();
    gaps[30..33].fill(None);
    let (damaged, honest) = (fitted("hedge", &values), fitted("hedge", &gaps));
    assert_eq!((damaged.masked_values(), honest.masked_values()), (3, 0));
    assert_eq!(damaged.predict(24, &[0.95]), honest.predict(24, &[0.95]));
}

#[test]
fn unfelt_change_of_level_is_no_drift() {
    // Hardly any noise: the usual error is so small that each systematic one is many times as large.
    let values = |factor: f64| -> Vec<Option<f64>> {
        let wave = |bin: usize| 100.0 + 50.0 * (bin as f64 * std::f64::consts::TAU / 24.0).sin();
        let value = |bin: usize| wave(bin) * if bin < 14 * 24 { 1.0 } else { factor };
        (0..20 * 24).map(|bin| Some(value(bin) * (1.0 + 1e-5 * (bin % 7) as f64))).collect()
    };
    assert_eq!(fitted("naive-week", &values(0.998)).drift(), None);
    let drift = fitted("naive-week", &values(0.8)).drift().unwrap();
    assert!(!drift.upwards && (drift.size + 0.2).abs() < 0.01, "{drift:?}");
}

/// Hours in UTC of a load that is busy from eight to eighteen on the clocks of Berlin.
fn berlin_hours(calendar: &Calendar, start: i64, hours: usize) -> Vec<Option<f64>> {
    let hour = |at: usize| calendar.local_seconds(start + 3600 * at as i64).rem_euclid(86_400) / 3600;
    (0..hours).map(|at| Some(if (8..18).contains(&hour(at)) { 1000.0 } else { 100.0 })).collect()
}

#[test]
fn local_load_is_forecast_across_clock_changes() {
    let berlin = Calendar::of_zone("Europe/Berlin").unwrap();
    let winter = Calendar { utc_offset_seconds: 3600, ..Calendar::default() };
    // The clocks change on Sunday, 2024-03-31, and on Sunday, 2024-10-27; three weeks end on the Saturday midnight before.
    for (midnight, hours) in [(1_711_839_600, 47_usize), (1_729_980_000, 49)] {
        let start = midnight - 21 * 86_400;
        let (known, next) = (21 * 24, hours);
        let values = berlin_hours(&berlin, start, known + next);
        let error = |calendar: &Calendar| {
            let mut forecaster =
                "naive-week".parse::<ForecasterChoice>().unwrap().build(start, HOUR, calendar).unwrap();
            forecaster.update(&values[..known]);
            forecaster.refit();
            let forecast = forecaster.predict(next, &[]);
            // Values that are told after the change belong to their local hour, too.
            forecaster.update(&values[known..]);
            forecaster.refit();
            let later = forecaster.predict(48, &[]);
            let after = berlin_hours(&berlin, start + 3600 * (known + next) as i64, 48);
            let first = smape(&forecast.median, values[known..].iter().map(|value| value.unwrap()));
            first + smape(&later.median, after.iter().map(|value| value.unwrap()))
        };
        assert!(error(&berlin) < 1e-9, "{}", error(&berlin));
        assert!(error(&winter) > 5.0, "{}", error(&winter));
        assert!(berlin.day(midnight) * 86_400 == berlin.local_seconds(midnight));
    }
}

#[test]
fn gaps_cost_little_zeros_much() {
    let made = Vdi { bin_seconds: HOUR, bins: 28 * 24, ..Vdi::default() }.generate();
    let (values, rates) = (made.series.values, made.rates);
    let known = 27 * 24;
    let error = |values: &[Option<f64>]| {
        smape(&fitted("hedge", &values[..known]).predict(24, &[]).median, rates[known..].iter().copied())
    };
    let holes = |with: Option<f64>| {
        let hole = |place: usize| place % 13 == 5 || place / 6 % 29 == 3;
        values.iter().enumerate().map(|(place, value)| if hole(place) { with } else { *value }).collect::<Vec<_>>()
    };
    let (clean, gaps, zeros) = (error(&values), error(&holes(None)), error(&holes(Some(0.0))));
    assert!(gaps < clean + 4.0, "{gaps} beside {clean}");
    assert!(zeros > gaps, "{zeros} beside {gaps}");
}

#[test]
fn declared_holiday_is_sunday_undeclared_is_left_out() {
    let day_of_series = 24; // A Thursday.
    let made = Vdi { bin_seconds: HOUR, bins: 36 * 24, noise: 0.05, holidays: vec![day_of_series], ..Vdi::default() }
        .generate();
    let values = made.series.values;
    let known = day_of_series as usize * 24;
    let actual = |from: usize| values[from..from + 24].iter().map(|value| value.unwrap());
    let day = MONDAY / 86_400 + day_of_series;
    let calendar = Calendar { acts_like: [(day, 5)].into(), ..Calendar::default() };
    let ask = |calendar: &Calendar, until: usize| {
        let mut forecaster = ForecasterChoice::of(find("hedge").unwrap()).build(MONDAY, HOUR, calendar).unwrap();
        forecaster.update(&values[..until]);
        forecaster.refit();
        forecaster.predict(24, &[]).median
    };
    let unknown = smape(&ask(&Calendar::default(), known), actual(known));
    let declared = smape(&ask(&calendar, known), actual(known));
    assert!(unknown > 50.0 && declared < 20.0, "{unknown} {declared}");
    // The Thursday behind it: nobody ever said that the one before was no Thursday.
    let next = known + 7 * 24;
    let behind = smape(&ask(&Calendar::default(), next), actual(next));
    assert!(behind < 20.0, "{behind}");
}

#[test]
fn day_so_far_corrects_its_rest() {
    let day = 24 * 6;
    let made =
        Vdi { bin_seconds: 600, bins: 22 * day, noise: 0.1, shift: Some((21 * day, 1.6)), ..Vdi::default() }.generate();
    let mut forecaster = ForecasterChoice::of(find("hedge").unwrap()).build(MONDAY, 600, &Calendar::default()).unwrap();
    forecaster.update(&made.series.values[..21 * day]);
    forecaster.refit();
    let noon = 21 * day + day / 2;
    let before = forecaster.predict(day, &[]).median[day / 2..day / 2 + 6].to_vec();
    forecaster.update(&made.series.values[21 * day..noon]);
    let after = forecaster.predict(6, &[]).median;
    let truth = || made.rates[noon..noon + 6].iter().copied();
    assert!(smape(&after, truth()) < 0.7 * smape(&before, truth()));
}

#[test]
fn a_lasting_shift_is_found_and_said() {
    let shifted =
        Vdi { bin_seconds: HOUR, bins: 30 * 24, noise: 0.1, shift: Some((28 * 24, 3.0)), ..Vdi::default() }.generate();
    let forecaster = fitted("naive-week", &shifted.series.values);
    assert!(forecaster.drift().is_some_and(|drift| drift.upwards));
    assert!(forecaster.predict(1, &[]).degraded.iter().any(|reason| reason.contains("above what was forecast")));
    let steady = Vdi { bin_seconds: HOUR, bins: 30 * 24, noise: 0.1, ..Vdi::default() }.generate();
    assert_eq!(fitted("hedge", &steady.series.values).drift(), None);
}

/// The quantiles at 95 % of five days, each as forecast at its midnight, after the level of four weeks has changed by a factor.
fn after_shift(hour: usize, factor: f64) -> Vec<f64> {
    let (day, begin) = (144, 28 * 144 + hour * 6);
    let made = Vdi { bins: 34 * day, noise: 0.1, shift: Some((begin, factor)), ..Vdi::default() }.generate();
    let mut forecaster = ForecasterChoice::of(find("hedge").unwrap()).build(MONDAY, 600, &Calendar::default()).unwrap();
    let mut quantiles = Vec::new();
    let mut known = 0;
    for from in (begin.div_ceil(day) + 1..34).map(|number| number * day) {
        forecaster.update(&made.series.values[known..from]);
        forecaster.refit();
        quantiles.extend(forecaster.predict(day, &[0.95]).quantiles.remove(0).1);
        known = from;
    }
    quantiles
}

#[test]
fn quantiles_follow_a_risen_level_within_a_day() {
    for hour in [6, 12, 18] {
        let (steady, risen) = (after_shift(hour, 1.0), after_shift(hour, 3.0));
        let above = |(steady, risen): (&f64, &f64)| risen / (3.0 * steady);
        let mut first_day: Vec<f64> = steady.iter().zip(&risen).take(144).map(above).collect();
        first_day.sort_by(f64::total_cmp);
        assert!(first_day[72] < 1.1 && first_day[143] < 3.0, "at {hour} h: {first_day:?}");
    }
}

#[test]
fn quantiles_cover_what_they_promise() {
    let made = Vdi { bin_seconds: HOUR, bins: 49 * 24, ..Vdi::default() }.generate();
    let test = Backtest { test_days: 21, history_days: None, horizon_days: 1, lead_hours: Vec::new() };
    let hedge = ForecasterChoice::of(find("hedge").unwrap());
    let scores = backtest(&made.series, &hedge, &Calendar::default(), &test, &Silent).unwrap().scores();
    assert_eq!(scores.bins, 21 * 24);
    for (level, covered) in LEVELS.iter().zip(scores.coverage_percent) {
        assert!((covered.unwrap() - level * 100.0).abs() < 4.0, "P{}: {covered:?}", level * 100.0);
    }
}

#[test]
fn the_default_beats_the_paper_and_last_week() {
    let made = Vdi { bin_seconds: HOUR, bins: 35 * 24, seed: 5, ..Vdi::default() }.generate();
    let test = Backtest { test_days: 7, history_days: None, horizon_days: 1, lead_hours: Vec::new() };
    let smape = |name: &str| {
        let choice: ForecasterChoice = name.parse().unwrap();
        backtest(&made.series, &choice, &Calendar::default(), &test, &Silent).unwrap().scores().smape_percent.unwrap()
    };
    let hedge = smape("hedge");
    assert!(hedge < 0.8 * smape("paper-tuned"));
    assert!(hedge < 0.9 * smape("naive-week"));
}

#[test]
fn a_zone_moves_midnight() {
    let calendar = Calendar { utc_offset_seconds: 8 * 3600, ..Calendar::default() };
    let choice = ForecasterChoice::of(find("day-profile").unwrap());
    // Local midnight of a Monday is eight hours before that of UTC.
    let mut there = choice.build(MONDAY - 8 * 3600, HOUR, &calendar).unwrap();
    let mut here = choice.build(MONDAY, HOUR, &Calendar::default()).unwrap();
    for forecaster in [&mut there, &mut here] {
        forecaster.update(&weeks(3));
        forecaster.refit();
    }
    assert_eq!(there.predict(48, &[0.9]), here.predict(48, &[0.9]));
}

#[test]
fn bursts_are_three_states_and_a_reserve() {
    let values: Vec<Option<f64>> = (0..3000)
        .map(|bin| {
            Some(match bin / 10 % 10 {
                0..=5 => 10.0,
                6..=8 => 40.0,
                _ => 160.0,
            })
        })
        .collect();
    let bursts = Bursts::of(&values, 60, 10_000).unwrap();
    let level = 0.6 * 10.0 + 0.3 * 40.0 + 0.1 * 160.0;
    assert!((bursts.rates[2] - 160.0 / level).abs() < 0.2, "{:?}", bursts.rates);
    assert!((bursts.shares[2] - 0.1).abs() < 0.01);
    assert!((bursts.stay_seconds[2] - 600.0).abs() < 60.0, "{:?}", bursts.stay_seconds);
    assert_eq!(Bursts::of(&[None, Some(0.0)], 60, 10), None);
}

#[test]
fn choices_read_back_and_say_what_is_wrong() {
    for text in ["hedge", "paper", "paper:trend=0.8:clusters=3", "holt-winters:period=7"] {
        assert_eq!(text.parse::<ForecasterChoice>().unwrap().to_string(), text);
    }
    let error = |text: &str| text.parse::<ForecasterChoice>().unwrap_err();
    assert_eq!(error("hegde").hint, "did you mean `hedge`?");
    assert_eq!(error("paper:trendy=1").hint, "did you mean `trend`?");
    assert_eq!(error("paper:clusters=2.5").expected, "a whole number from 1 to 7");
    assert_eq!(error("paper:trend").problem, "`trend` in forecaster `paper:trend` sets nothing");
    assert_eq!(error("naive-day:trend=1").expected, "no settings");
    let uneven = ForecasterChoice::of(&FORECASTERS[0]).build(0, 7, &Calendar::default()).unwrap_err();
    assert_eq!(uneven.problem, "a day is no whole number of bins of 7 s");
}

#[test]
fn a_stored_state_of_another_version_is_refused() {
    let state = fitted("naive-day", &weeks(1)).save().unwrap();
    assert!(
        Learned::restore(&state.replacen("\"version\":6", "\"version\":99", 1))
            .unwrap_err()
            .problem
            .contains("version 99")
    );
    assert!(Learned::restore(&state.replacen("\"bin_seconds\":3600", "\"bin_seconds\":0", 1)).is_err());
    assert!(Learned::restore("{}").is_err());
    let mut broken: serde_json::Value = serde_json::from_str(&state).unwrap();
    broken["fit"]["ahead"] = serde_json::json!([1.0]);
    assert!(Learned::restore(&broken.to_string()).unwrap_err().problem.contains("do not fit together"));
}

#[test]
fn the_mean_of_ratios_is_geometric() {
    let interval = geometric_mean(&[0.5, 2.0], 1).unwrap();
    assert!((interval.value - 1.0).abs() < 1e-12 && interval.low <= 0.51 && interval.high >= 1.99);
    assert_eq!(geometric_mean(&[0.0, f64::NAN], 1), None);
}

#[test]
fn seed_determines_generated_weeks() {
    let one = Vdi::default().generate();
    assert_eq!(one, Vdi::default().generate());
    assert_ne!(one.series.values, Vdi { seed: 1, ..Vdi::default() }.generate().series.values);
    let errors: Vec<f64> =
        one.series.values.iter().zip(&one.rates).map(|(value, rate)| (value.unwrap() / rate).ln()).collect();
    let spread = (errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64).sqrt();
    assert!((spread - 0.18).abs() < 0.01, "{spread}");
}

/// Values as a bad day would have them: mostly plausible, with gaps, zeros and damage.
fn any_values() -> impl Strategy<Value = Vec<Option<f64>>> {
    let value = prop_oneof![
        6 => (0.0..1e4_f64).prop_map(Some),
        2 => Just(None),
        2 => Just(Some(0.0)),
        1 => any::<f64>().prop_map(Some),
    ];
    prop::collection::vec(value, 0..8 * 24 * 3).prop_map(|values| values.repeat(2))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_series_has_a_finite_forecast(values in any_values(), row in 0..FORECASTERS.len(), horizon in 0_usize..60) {
        let forecaster = fitted(FORECASTERS[row].name, &values);
        keeps_its_promises(&forecaster.predict(horizon, &[0.9, 0.1, 0.5, 0.99]), horizon);
    }

    #[test]
    fn told_bin_by_bin_is_told_at_once(values in any_values(), row in 0..FORECASTERS.len(), cut in 0.0..1.0_f64) {
        let name = FORECASTERS[row].name;
        let cut = (values.len() as f64 * cut) as usize;
        let once = fitted(name, &values);
        let mut twice = fitted(name, &values[..cut]);
        for value in &values[cut..] {
            twice.update(&[*value]);
        }
        twice.refit();
        prop_assert_eq!(once.predict(30, &[0.5, 0.95]), twice.predict(30, &[0.5, 0.95]));
    }

    #[test]
    fn a_stored_forecaster_goes_on_where_it_was(values in any_values(), row in 0..FORECASTERS.len()) {
        let forecaster = fitted(FORECASTERS[row].name, &values);
        let mut restored = Learned::restore(&forecaster.save().unwrap()).unwrap();
        prop_assert_eq!(forecaster.predict(30, &[0.5, 0.95]), restored.predict(30, &[0.5, 0.95]));
        prop_assert_eq!(&forecaster, &restored);
        restored.update(&values);
        restored.refit();
        keeps_its_promises(&restored.predict(5, &[0.5]), 5);
    }
}

#[test]
fn daily_updates_equal_one_update() {
    let made = Vdi { bin_seconds: HOUR, bins: 130 * 24, ..Vdi::default() }.generate().series;
    let once = fitted("hedge", &made.values);
    let mut daily = learned("hedge");
    for day in made.values.chunks(24) {
        daily.update(day);
        daily.refit();
    }
    assert_eq!(once.predict(48, &[0.5, 0.95]), daily.predict(48, &[0.5, 0.95]));
    // The kept state is bounded: four months take no more room than three.
    assert!(daily.save().unwrap().len() < 300_000);
}

#[test]
fn seconds_are_forecast_within_their_minutes() {
    // One second in ten is busy.
    let second = |bin: usize| Some(if bin.is_multiple_of(10) { 91.0 } else { 1.0 });
    let mut forecaster =
        find("hedge").map(ForecasterChoice::of).unwrap().build(MONDAY + 7, 1, &Calendar::default()).unwrap();
    let values: Vec<_> = (0..3 * 86_400).map(second).collect();
    forecaster.update(&values);
    forecaster.refit();
    let forecast = forecaster.predict(86_400, &[0.5, 0.8, 0.97]);
    keeps_its_promises(&forecast, 86_400);
    let middle = 40_000;
    assert!((forecast.mean[middle] - 10.0).abs() < 0.5, "{}", forecast.mean[middle]);
    assert!(forecast.median[middle] < 1.5 && forecast.quantiles[1].1[middle] < 2.0);
    assert!((80.0..120.0).contains(&forecast.quantiles[2].1[middle]), "{}", forecast.quantiles[2].1[middle]);
    assert!(forecaster.save().unwrap().len() < 200_000, "what is kept does not grow with the bins");
}

#[test]
fn two_day_series_is_tested_on_one() {
    let series = Series {
        name: "short".into(),
        start_unix_seconds: MONDAY,
        bin_seconds: HOUR,
        values: weeks(1)[..50].to_vec(),
        losses: Losses::default(),
    };
    let test = Backtest { test_days: 30, history_days: None, horizon_days: 1, lead_hours: Vec::new() };
    let tested = backtest(&series, &"naive-day".parse().unwrap(), &Calendar::default(), &test, &Silent).unwrap();
    assert_eq!((tested.origins.len(), tested.scores().bins), (1, 24));
}

#[test]
fn diagnosis_finds_the_day_in_additive_parts() {
    let series = Vdi { seed: 1, bins: 28 * 144, ..Vdi::default() }.generate().series;
    let found = diagnose(&series, &Calendar::default()).unwrap();
    assert_eq!((found.bin_seconds, found.days, found.gaps_percent), (600, 28, 0.0));
    assert_eq!(found.autocorrelation.len(), 8 * 144 + 1);
    // Desktops are used on working days: a day before tells much, a week before more, half a day before nothing.
    let [half, day, week] = [72, 144, 7 * 144].map(|lag: usize| found.autocorrelation[lag]);
    assert!(half < 0.0 && day > 0.4 && week > day, "{half} {day} {week}");
    // The bin before explains most of what one bin can.
    assert_eq!(found.partial_autocorrelation[1], found.autocorrelation[1]);
    assert!(found.partial_autocorrelation[2..].iter().all(|value| value.abs() < found.partial_autocorrelation[1]));
    assert!(found.daily_strength > 0.5 && found.weekly_strength.unwrap() > 0.3);
    // Gaps are filled with the usual values; bins of a minute are joined.
    let with = |bin_seconds: u32, gap: Option<usize>| {
        let mut series =
            Vdi { seed: 1, bin_seconds, bins: 7 * 86_400 / bin_seconds as usize, ..Vdi::default() }.generate().series;
        gap.into_iter().for_each(|at| series.values[at..at + 36].fill(None));
        diagnose(&series, &Calendar::default()).unwrap()
    };
    let (whole, gap) = (with(600, None), with(600, Some(300)));
    assert!((gap.gaps_percent - 100.0 * 36.0 / 1008.0).abs() < 1e-9 && whole.weekly_strength.is_none());
    assert!((gap.autocorrelation[144] - whole.autocorrelation[144]).abs() < 0.1);
    assert_eq!(with(60, None).bin_seconds, 300);
    let short = Series { values: series.values[..200].to_vec(), ..series };
    let error = diagnose(&short, &Calendar::default()).unwrap_err().to_string();
    assert!(error.contains("1.4 days are too few"), "{error}");
}

#[test]
fn nearer_hours_are_forecast_better() {
    let series = Vdi { seed: 3, bins: 28 * 144, ..Vdi::default() }.generate().series;
    let test = Backtest { test_days: 5, history_days: None, horizon_days: 1, lead_hours: vec![1, 6] };
    let choice = "day-profile".parse().unwrap();
    let tested = backtest(&series, &choice, &Calendar::default(), &test, &Silent).unwrap();
    let alone = Backtest { lead_hours: Vec::new(), ..test };
    let day = backtest(&series, &choice, &Calendar::default(), &alone, &Silent).unwrap();
    assert_eq!(tested.scores(), day.scores(), "the days are forecast as without leads");
    let leads: Vec<_> = tested.lead_scores().collect();
    // Hours of the last day are left out if their forecast reaches beyond it.
    assert_eq!(leads.iter().map(|(hours, scores)| (*hours, scores.bins)).collect::<Vec<_>>(), [(1, 720), (6, 690)]);
    assert!(leads[0].1.smape_percent < tested.scores().smape_percent);
}
