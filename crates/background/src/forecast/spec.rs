//! The spec of a forecast: the series, how they are read, and the settings of the forecast.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use ioweir_config::date::day_of;
use ioweir_config::{Complaint, Duration, Flag, FlagForm, SpecError, keys, plain, shown};
use ioweir_trace::ReadOptions;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::diagnose::{diagnose, document as diagnosis};
use super::{
    Backtest, Calendar, ForecastError, ForecasterChoice, LEVELS, Predicted, Scored, backtest, find, predictions,
    scores, whole_days,
};
use crate::series::{Kind, Series, SeriesOptions, VDI_PREFIX, open_series};
use ioweir_lab::document::Document;
use ioweir_lab::run::{Progress, RunError, unless_stopped};
use ioweir_lab::spec::{OneOrMore, ReadingKeys};

/// The most bins that are forecast at once.
const HORIZON_BINS_MAX: u64 = 1 << 20;
const HOUR_NANOS: u64 = 3_600_000_000_000;
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

const SERIES: &str = "Reading series";
const FORECASTING: &str = "Forecasting";

keys! {
    /// Everything that determines a forecast: the same value gives the same bytes. `ioweir forecast` builds it from its flags and
    /// from `--spec FILE`, and `ioweir show` prints it with every default.
    ///
    /// # Examples
    /// ```
    /// use ioweir_background::forecast::ForecastSpec;
    /// use ioweir_lab::run::Silent;
    ///
    /// let spec = ForecastSpec::parse("night.toml", r#"
    ///     series = "vdi:1"
    ///     bin = "1h"
    ///     method = "naive-week"
    /// "#)?;
    /// let (document, series) = spec.run(&Silent)?;
    /// assert_eq!(series[0].bin_seconds, 3600);
    /// assert!(document.to_terminal(false).contains("naive-week"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Clone, Debug)]
    pub struct ForecastSpec {
        /// tables of rates in order of time, or a block trace, or vdi:SEED
        series: OneOrMore<String> = (OneOrMore::default()),
        /// columns to read, by name; all columns of numbers if there are none; the flag may be repeated
        columns as "column": OneOrMore<String> = (OneOrMore::default())
            => Flag::new("column", "NAME", FlagForm::Repeated).under(SERIES),
        /// length of a bin, with unit; must divide a day; if absent the table's own step, and 10m for traces
        bin: Option<Duration> = absent => Flag::new("bin", "TIME", FlagForm::Text).under(SERIES),
        /// meaning of a value: mean (a level or a rate), sum (count since the previous value), counter (count since the start)
        kind: Kind = (Kind::Mean) => Flag::new("kind", "mean|sum|counter", FlagForm::Text).under(SERIES),
        /// add up rows with different labels (drives, hosts) into one series
        total: bool = (false) => Flag::switch("total", true).under(SERIES),
        /// local time minus UTC, such as +01:00 or -5: days begin at local midnight
        utc_offset: UtcOffset = (UtcOffset::default())
            => Flag::new("utc-offset", "OFFSET", FlagForm::Signed).under(SERIES),
        /// time zone by its IANA name, such as Europe/Berlin, instead of an offset; the table's times are UTC then
        time_zone: Option<String> = absent
            => Flag::new("time-zone", "NAME", FlagForm::Text).under(SERIES).excluding(&["utc-offset"]),
        /// forecasters, settings after colons: paper:trend=0.8
        methods as "method": OneOrMore<ForecasterChoice> = (usual_methods())
            => Flag::new("method", "NAME[:SETTING=VALUE...],...", FlagForm::Texts).under(FORECASTING),
        /// time to look ahead, with unit
        horizon: Duration = (Duration::from_seconds(86_400))
            => Flag::new("horizon", "TIME", FlagForm::Text).under(FORECASTING),
        /// quantiles to forecast, each 0 to 1
        quantiles as "quantile": OneOrMore<f64> = (OneOrMore(vec![0.5, 0.95, 0.99]))
            => Flag::new("quantile", "SHARE,...", FlagForm::Shares).under(FORECASTING),
        /// forecast each of so many last days at its midnight, and score the forecast against the actual values
        backtest_days as "backtest": Option<usize> = absent
            => Flag::new("backtest", "DAYS", FlagForm::Number).under(FORECASTING),
        /// show what the series are like instead: autocorrelation, lag plots, trend, seasons and rest; best with --export page.html
        diagnose: bool = (false) => Flag::switch("diagnose", true)
            .under(FORECASTING)
            .excluding(&["method", "horizon", "quantile", "backtest"]),
        /// times ahead at which a backtest scores too, up to a week: 1h,6h,7d
        leads as "lead": OneOrMore<Duration> = (OneOrMore::default())
            => Flag::new("lead", "TIME,...", FlagForm::Texts).under(FORECASTING),
        /// days that behave like another weekday: "2026-12-25" = "sunday"
        holidays as "holiday": BTreeMap<String, String> = (BTreeMap::new()),
        ..reading: ReadingKeys,
    }
}

fn usual_methods() -> OneOrMore<ForecasterChoice> {
    OneOrMore(find("hedge").map(ForecasterChoice::of).into_iter().collect())
}

impl Default for ForecastSpec {
    fn default() -> Self {
        ioweir_config::defaults()
    }
}

ioweir_lab::spec_file!(
    ForecastSpec,
    &[("unknown field", "`ioweir show FILE` prints a forecast with every key there is")],
    check
);

impl ForecastSpec {
    /// Checks what can be checked without the series.
    ///
    /// # Errors
    /// [`Complaint`] about the first value that is invalid.
    pub fn check(&self) -> Result<(), Complaint> {
        if self.methods.0.is_empty() {
            return Err(Complaint::of_value("method", "no method is named").expected("at least one"));
        }
        if let Some(level) = self.quantiles.0.iter().find(|level| !(0.0..=1.0).contains(*level)) {
            let problem = format!("quantile {level} is out of range");
            return Err(Complaint::of_value("quantile", problem).expected("0 to 1, such as 0.95"));
        }
        if self.backtest_days == Some(0) {
            return Err(Complaint::of_value("backtest", "a backtest of no days").expected("at least 1"));
        }
        if self.backtest_days.is_none() && !self.leads.0.is_empty() {
            let complaint = Complaint::of_value("lead", "there is no backtest to score it");
            return Err(complaint.expected("a backtest").hint("backtest = 14, or --backtest 14"));
        }
        if self.backtest_days.is_some() && self.horizon != Self::default().horizon {
            let complaint = Complaint::of_value("horizon", "a backtest scores days, and hours at leads");
            return Err(complaint.expected("one of the two").hint("lead = \"7d\", or --lead 7d"));
        }
        self.lead_hours()?;
        self.check_diagnosis()?;
        self.calendar()?;
        self.bin_seconds().map(|_| ())
    }

    /// Refuses options that only forecasts use beside a diagnosis.
    fn check_diagnosis(&self) -> Result<(), Complaint> {
        let usual = Self::default();
        let named = |methods: &[ForecasterChoice]| methods.iter().map(ToString::to_string).collect::<Vec<_>>();
        let differs = [
            ("method", named(&self.methods.0) != named(&usual.methods.0)),
            ("horizon", self.horizon != usual.horizon),
            ("quantile", self.quantiles.0 != usual.quantiles.0),
            ("backtest", self.backtest_days.is_some()),
        ];
        match differs.into_iter().find(|(_, differs)| self.diagnose && *differs) {
            Some((key, _)) => Err(Complaint::of_value(key, "a diagnosis forecasts nothing").expected("one of the two")),
            None => Ok(()),
        }
    }

    fn lead_hours(&self) -> Result<Vec<u32>, Complaint> {
        let hours = |lead: &Duration| match (lead.nanos().0 / HOUR_NANOS, lead.nanos().0 % HOUR_NANOS) {
            (hours @ (1..=23 | 25..=168), 0) => Ok(hours as u32),
            _ => {
                let complaint = Complaint::of_value("lead", format!("a lead of {lead}"));
                Err(complaint.expected("whole hours up to 7d, such as 1h, 6h or 7d; a day is always scored"))
            }
        };
        self.leads.0.iter().map(hours).collect()
    }

    /// When days begin, and which of them behave like which.
    fn calendar(&self) -> Result<Calendar, Complaint> {
        let mut calendar = match &self.time_zone {
            Some(_) if self.utc_offset.seconds != 0 => {
                let problem = "both an offset and a time zone are named";
                return Err(Complaint::of_value("time_zone", problem).expected("one of them"));
            }
            Some(zone) => Calendar::of_zone(zone)
                .map_err(|error| Complaint::of_value("time_zone", error.problem).expected(error.expected))?,
            None => Calendar { utc_offset_seconds: self.utc_offset.seconds, ..Calendar::default() },
        };
        for (date, weekday) in &self.holidays {
            let place = WEEKDAYS.iter().position(|known| *known == weekday.to_lowercase());
            let (Some(day), Some(place)) = (day_of(date), place) else {
                let problem = format!("`{}={}` is no holiday", shown(date), shown(weekday));
                let complaint = Complaint::of_value(format!("holiday.\"{date}\""), problem);
                return Err(complaint.expected("DATE=WEEKDAY, such as 2026-12-25=sunday"));
            };
            calendar.acts_like.insert(day, place as u8);
        }
        Ok(calendar)
    }

    fn bin_seconds(&self) -> Result<Option<u32>, Complaint> {
        let Some(bin) = self.bin else { return Ok(None) };
        match (bin.nanos().0 / 1_000_000_000, bin.nanos().0 % 1_000_000_000) {
            (seconds @ 1..=86_400, 0) if 86_400 % seconds == 0 => Ok(u32::try_from(seconds).ok()),
            _ => {
                let complaint = Complaint::of_value("bin", format!("a day is no whole number of bins of {bin}"));
                Err(complaint.expected("a bin that divides a day, such as 5m, 10m or 1h"))
            }
        }
    }

    /// Reads the series. What was found wrong with each are its [`Series::losses`].
    ///
    /// # Errors
    /// [`RunError`] if a value or a file is invalid, or the work is stopped.
    pub fn read(&self, progress: &dyn Progress) -> Result<Vec<Series>, RunError> {
        self.check()?;
        let names = &self.series.0;
        if names.is_empty() {
            return Err(RunError::Value("no series is named\n  expected: at least one file".into()));
        }
        let options = SeriesOptions {
            bin_seconds: self.bin_seconds()?,
            columns: self.columns.0.clone(),
            kind: self.kind,
            total: self.total,
        };
        for name in names.iter().filter(|name| !name.starts_with(VDI_PREFIX) && *name != "-") {
            std::fs::metadata(name)
                .map_err(|error| SpecError::of_file(shown(name), format!("cannot be read: {}", plain(&error)), ""))?;
        }
        let reading = ReadOptions { latency: false, ..self.reading.options()? };
        unless_stopped(progress, open_series(names, &options, &reading, progress))
    }

    /// Forecasts every series with every method, or scores them. A run is a forecast, or of a backtest a day.
    ///
    /// # Errors
    /// [`RunError`] if a value is invalid, a series too short or too long for it, or the work is stopped.
    pub fn document(&self, series: &[Series], progress: &dyn Progress) -> Result<Document, RunError> {
        self.check()?;
        let mut calendar = self.calendar()?;
        // A series that says how far its clock is from UTC is counted by that clock, unless another is named.
        let offset = series.first().and_then(|series| series.losses.utc_offset_seconds);
        if let Some(offset) = offset.filter(|_| calendar.is_of_utc())
            && series.iter().all(|series| series.losses.utc_offset_seconds == Some(offset))
        {
            calendar.utc_offset_seconds = offset;
        }
        if self.diagnose {
            return self.look(series, &calendar, progress);
        }
        match self.backtest_days {
            Some(days) => self.score(series, &calendar, days, progress),
            None => self.predict(series, &calendar, progress),
        }
    }

    /// Reads the series and forecasts them.
    ///
    /// # Errors
    /// As [`ForecastSpec::read`] and [`ForecastSpec::document`].
    pub fn run(&self, progress: &dyn Progress) -> Result<(Document, Vec<Series>), RunError> {
        let series = self.read(progress)?;
        Ok((self.document(&series, progress)?, series))
    }

    fn look(&self, series: &[Series], calendar: &Calendar, progress: &dyn Progress) -> Result<Document, RunError> {
        progress.started(series.len());
        let look = |series: &Series| {
            let found = unless_stopped(progress, diagnose(series, calendar))?;
            progress.finished(&series.name);
            Ok::<_, RunError>(found)
        };
        Ok(diagnosis(&series.iter().map(look).collect::<Result<Vec<_>, _>>()?)?)
    }

    fn predict(&self, series: &[Series], calendar: &Calendar, progress: &dyn Progress) -> Result<Document, RunError> {
        progress.started(series.len() * self.methods.0.len());
        let mut predicted = Vec::new();
        for series in series {
            let bins = (self.horizon.nanos().0 / 1_000_000_000).div_ceil(u64::from(series.bin_seconds.max(1)));
            if bins > HORIZON_BINS_MAX {
                let complaint = Complaint::of_value("horizon", format!("{} are {bins} bins", self.horizon));
                return Err(complaint
                    .expected(format!("at most {HORIZON_BINS_MAX} bins"))
                    .hint("take longer bins")
                    .into());
            }
            for choice in &self.methods.0 {
                let mut forecaster = choice.build(series.start_unix_seconds, series.bin_seconds, calendar)?;
                forecaster.update(&series.values);
                forecaster.refit();
                unless_stopped(progress, Ok::<_, RunError>(()))?;
                let end = series.start_unix_seconds + series.values.len() as i64 * i64::from(series.bin_seconds);
                predicted.push(Predicted {
                    series: &series.name,
                    forecaster: choice.to_string(),
                    start_unix_seconds: end,
                    bin_seconds: series.bin_seconds,
                    weights: forecaster.weights(),
                    masked_values: forecaster.masked_values(),
                    forecast: forecaster.predict(bins as usize, &self.quantiles.0),
                });
                progress.finished(&choice.to_string());
            }
        }
        Ok(predictions(&predicted, calendar)?)
    }

    fn score(
        &self,
        series: &[Series],
        calendar: &Calendar,
        test_days: usize,
        progress: &dyn Progress,
    ) -> Result<Document, RunError> {
        progress.started(series.len() * self.methods.0.len() * test_days);
        let test = Backtest { test_days, history_days: None, horizon_days: 1, lead_hours: self.lead_hours()? };
        let mut scored = Vec::new();
        for series in series {
            let (first, end) = whole_days(series, calendar);
            let most = usize::try_from(end - 1 - first).unwrap_or(0);
            if most > 0 && test_days > most {
                let problem = format!("{}: {test_days} days; {most} can be forecast", shown(&series.name));
                return Err(Complaint::of_value("backtest", problem).expected(format!("1 to {most}")).into());
            }
            if !test.lead_hours.is_empty() && 3600 % series.bin_seconds != 0 {
                let problem =
                    format!("{}: an hour is no whole number of bins of {} s", shown(&series.name), series.bin_seconds);
                return Err(Complaint::of_value("lead", problem).expected("a bin that divides an hour").into());
            }
            for choice in &self.methods.0 {
                let tested = backtest(series, choice, calendar, &test, progress)?;
                if tested.origins.is_empty() {
                    let days = series.days();
                    let problem = format!("{}: {days:.1} days are too few to forecast any", shown(&series.name));
                    return Err(RunError::Value(format!("{problem}\n  expected: two whole days at least")));
                }
                let (test_days, name, forecaster) = (tested.origins.len(), &*series.name, choice.to_string());
                let ahead = std::iter::once((24, tested.scores())).chain(tested.lead_scores());
                scored.extend(ahead.map(|(lead_hours, scores)| Scored {
                    series: name,
                    forecaster: forecaster.clone(),
                    lead_hours,
                    test_days,
                    quantiles: LEVELS,
                    scores,
                }));
            }
        }
        Ok(scores(&scored)?)
    }
}

/// Local time minus UTC; text in a file: `+01:00`, `-5`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UtcOffset {
    /// The offset, less than 19 hours.
    pub seconds: i32,
}

impl FromStr for UtcOffset {
    type Err = ForecastError;

    fn from_str(text: &str) -> Result<Self, ForecastError> {
        let wrong = || ForecastError {
            problem: format!("`{}` is no offset", shown(text)),
            expected: "hours from UTC: +01:00, -5".into(),
        };
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
        let number = |text: &str| text.parse::<u8>().map_err(|_| wrong());
        let (hours, minutes) = (i32::from(number(hours)?), i32::from(number(minutes)?));
        if hours > 18 || minutes > 59 {
            return Err(wrong());
        }
        Ok(Self { seconds: sign * (hours * 3600 + minutes * 60) })
    }
}

impl fmt::Display for UtcOffset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, seconds) = (if self.seconds < 0 { '-' } else { '+' }, self.seconds.unsigned_abs());
        write!(out, "{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60)
    }
}

impl Serialize for UtcOffset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UtcOffset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
