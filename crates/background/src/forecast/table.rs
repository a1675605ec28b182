//! The table of forecasters and their settings.
//!
//! A new method is one file beside this one, one variant of `Method` and one row here: names on the command line, `ioweir
//! doc`, the reference page and the tests over all forecasters come from that row.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::holt_winters::HoltWinters;
use super::learned::{Learned, Method};
use super::paper::Paper;
use super::{Calendar, ForecastError};
use ioweir_config::shown;
use ioweir_config::{ChoiceError, unknown};

/// A setting of a forecaster.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name on the command line.
    pub name: &'static str,
    /// The value if none is given.
    pub default: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// Whether only whole numbers are accepted.
    pub whole: bool,
    pub help: &'static str,
}

/// A row of the table of forecasters.
#[derive(Clone, Copy, Debug)]
pub struct ForecasterRow {
    /// The name on the command line.
    pub name: &'static str,
    /// The method in one line.
    pub summary: &'static str,
    /// The publication that the method is from.
    pub source: &'static str,
    /// How it works here, and where it differs from the source.
    pub doc: &'static str,
    /// The settings of the method.
    pub settings: &'static [Setting],
    method: fn(&[f64]) -> Method,
}

const KACHMAR: &str = "Kachmar and Kaeli, A Smart Background Scheduler for Storage Systems, section V-A";

const fn share(name: &'static str, default: f64, help: &'static str) -> Setting {
    Setting { name, default, min: 0.0, max: 1.0, whole: false, help }
}

const fn switch(name: &'static str, default: f64, help: &'static str) -> Setting {
    Setting { name, default, min: 0.0, max: 1.0, whole: true, help }
}

const fn paper_settings(trend: f64, season: f64, clusters: f64, own: f64) -> [Setting; 6] {
    [
        share("trend", trend, "weight of the newest week in the trend"),
        share("season", season, "weight of the newest day in the season"),
        Setting { name: "clusters", default: clusters, min: 1.0, max: 7.0, whole: true, help: "kinds of days" },
        switch("daily", own, "1: the trend is each day's mean; 0: it is a moving mean over a day"),
        switch("shape", own, "1: days are clustered by their shape; 0: by their values"),
        switch("log", 0.0, "1: all of it in logarithms"),
    ]
}

const PAPER: [Setting; 6] = paper_settings(0.5, 0.5, 2.0, 0.0);
const PAPER_TUNED: [Setting; 6] = paper_settings(0.8, 0.2, 3.0, 1.0);

fn paper(values: &[f64]) -> Method {
    let at = |place: usize| values.get(place).copied().unwrap_or(PAPER[place].default);
    Method::Paper(Paper {
        trend: at(0),
        season: at(1),
        clusters: at(2) as usize,
        daily_trend: at(3) == 1.0,
        normalised: at(4) == 1.0,
        log: at(5) == 1.0,
    })
}

/// All forecasters; the first one is the default.
pub const FORECASTERS: &[ForecasterRow] = &[
    ForecasterRow {
        name: "hedge",
        summary: "day-profile, mstl, naive-week, naive-day and median-week, each by how well it did lately",
        source: "Freund and Schapire, A Decision-Theoretic Generalization of On-Line Learning, 1997 (the weights)",
        doc: "Each bin is the weighted median of the five forecasts. A method's weight falls by e for each third of a usual \
day's absolute error that it has lost; a day counts a fifth less with each day that passes. The rule was chosen on half of the real series \
at hand and reported on the other half (experiments/background/forecast-choice).",
        settings: &[],
        method: |_| Method::Hedge,
    },
    ForecasterRow {
        name: "day-profile",
        summary: "a profile of the day, from days weighted by age and likeness, in logarithms",
        source: "this project",
        doc: "Days of the wanted weekday count by age; other days as far as they look like those. Outliers are clipped at \
three robust spreads, the profile is smoothed by at most two bins, and yesterday's level is carried on. Age, likeness and \
smoothing are the mean of the best three of a grid of 36, by the series' own last seven days. Days whose shape is far from \
their weekday's, undeclared holidays, are left out unless three come in a row. Logarithms, because the noise of \
loads is a share of them and the median is what SMAPE wants. There is no trend within the day.",
        settings: &[],
        method: |_| Method::DayProfile,
    },
    ForecasterRow {
        name: "mstl",
        summary: "a daily and a weekly season by local regression, and a damped trend, in logarithms",
        source: "Bandara, Hyndman and Bergmeir, MSTL, 2021; the decomposition is the library stlrs",
        doc: "The last seasons repeat; the rise of the trend over the last day continues, four fifths of it each day. Gaps \
are filled with the median of their slot on days of the same weekday. Before two weeks there is no weekly season.",
        settings: &[],
        method: |_| Method::Mstl,
    },
    ForecasterRow {
        name: "paper",
        summary: "a weekly cycle of trends plus a daily cycle of seasons, each a moving average: the paper's own",
        source: KACHMAR,
        doc: "As written: the trend is a moving mean over a day, the season what is left; an exponentially weighted mean \
of the trend runs over the same weekdays, one of the season over the days of one cluster, which is that of the day a week \
before. Weights and number of clusters are not in the paper: half, and the two that its bound sqrt(n/2) rounds to for the \
seven days of a week. A weekday that was not seen takes the trend of its cluster.",
        settings: &PAPER,
        method: paper,
    },
    ForecasterRow {
        name: "paper-tuned",
        summary: "the same, with the settings that suit it best",
        source: KACHMAR,
        doc: "Settings found on the very days that a survey of this project scored, so in the paper's favour: the trend \
is the mean of each day, the newest week counts 0.8 in it, the newest day 0.2 in the season, and days are clustered in \
three by their shape. This is what the goals of the other forecasters are measured against.",
        settings: &PAPER_TUNED,
        method: paper,
    },
    ForecasterRow {
        name: "holt-winters",
        summary: "level, damped trend and one season, smoothed exponentially",
        source: "Winters, Forecasting Sales by Exponentially Weighted Moving Averages, 1960; damping by Gardner and McKenzie",
        doc: "Additive, with the weights of least squares one bin ahead, found by a search along one weight after the \
other. The paper's comparison is period=1 and log=0. With period=7 and less than two weeks the period is a day.",
        settings: &[
            Setting { name: "period", default: 1.0, min: 1.0, max: 7.0, whole: true, help: "days of the season" },
            switch("log", 0.0, "1: in logarithms"),
        ],
        method: |values| {
            let at = |place: usize, otherwise: f64| values.get(place).copied().unwrap_or(otherwise);
            Method::HoltWinters(HoltWinters { period_days: (at(0, 1.0) as usize).max(1), log: at(1, 0.0) == 1.0 })
        },
    },
    ForecasterRow {
        name: "mmpp",
        summary: "low, medium and high states: what to keep in reserve for bursts, not a forecast of a day",
        source: "Kachmar and Kaeli, section V-A; Fischer and Meier-Hellstern, The Markov-modulated Poisson Process, 1993",
        doc: "States are three clusters of the logarithms; rates, shares and lengths of stay are counted. The forecast \
goes from the last state to the mean of all within a few stays, so it knows nothing of the time of day.",
        settings: &[],
        method: |_| Method::Mmpp,
    },
    ForecasterRow {
        name: "naive-week",
        summary: "each bin as it was a week before",
        source: "folklore; the floor that a forecaster must be above",
        doc: "Where that was not seen or is a gap: the last day of the same weekday, then of the same part of the week \
(Monday to Friday, or the weekend), then any.",
        settings: &[],
        method: |_| Method::NaiveWeek,
    },
    ForecasterRow {
        name: "naive-day",
        summary: "each bin as it was a day before",
        source: "folklore; the floor that a forecaster must be above",
        doc: "Where the bin a day before is a gap, the last day that has none there.",
        settings: &[],
        method: |_| Method::NaiveDay,
    },
    ForecasterRow {
        name: "median-week",
        summary: "each bin at its median over the last seven days",
        source: "folklore",
        doc: "A single unusual day changes nothing, and a lasting change of level is followed after four days. Gaps do not count.",
        settings: &[],
        method: |_| Method::MedianWeek,
    },
];

/// Finds a row by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ForecasterRow> {
    FORECASTERS.iter().find(|row| row.name == name)
}

/// A forecaster with its settings: `naive-week`, `paper:trend=0.8`.
#[derive(Clone, Debug)]
pub struct ForecasterChoice {
    /// The row of the table.
    pub row: &'static ForecasterRow,
    /// Values in the order of the row's settings.
    pub values: Vec<f64>,
}

impl ForecasterChoice {
    /// A row with every setting at its default.
    #[must_use]
    pub fn of(row: &'static ForecasterRow) -> Self {
        Self { row, values: row.settings.iter().map(|setting| setting.default).collect() }
    }

    /// Makes a forecaster of a series whose first bin begins at `start_unix_seconds`.
    ///
    /// # Errors
    /// [`ForecastError`] if a day is not a whole number of bins.
    pub fn build(
        &self,
        start_unix_seconds: i64,
        bin_seconds: u32,
        calendar: &Calendar,
    ) -> Result<Learned, ForecastError> {
        Learned::new((self.row.method)(&self.values), start_unix_seconds, bin_seconds, calendar.clone())
    }
}

impl std::str::FromStr for ForecasterChoice {
    type Err = ChoiceError;

    /// Reads `name[:setting=value...]`.
    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let names: Vec<_> = FORECASTERS.iter().map(|row| row.name).collect();
        let row =
            find(name).ok_or_else(|| unknown("forecaster", name, &names, "`ioweir doc forecaster` lists them"))?;
        let mut choice = Self::of(row);
        let mut seen: Vec<&str> = Vec::new();
        for part in parts {
            let error = |problem: String, expected: String| ChoiceError {
                problem,
                expected,
                hint: format!("`ioweir doc forecaster {}` lists its settings", row.name),
            };
            let (name, value) = part.split_once('=').ok_or_else(|| {
                let problem = format!("`{}` in forecaster `{}` sets nothing", shown(part), shown(text));
                error(problem, "NAME:SETTING=VALUE, with more settings behind further colons".into())
            })?;
            let known: Vec<_> = row.settings.iter().map(|setting| setting.name).collect();
            let Some(place) = known.iter().position(|known| *known == name) else {
                return Err(match known.is_empty() {
                    true => {
                        error(format!("forecaster {} has no setting `{}`", row.name, shown(name)), "no settings".into())
                    }
                    false => {
                        unknown(&format!("{} setting", row.name), name, &known, "`ioweir doc forecaster` lists them")
                    }
                });
            };
            if seen.contains(&name) {
                return Err(error(
                    format!("forecaster `{}` sets {name} twice", shown(text)),
                    "each setting once".into(),
                ));
            }
            seen.push(name);
            let setting = row.settings[place];
            let fits = |number: &f64| {
                (setting.min..=setting.max).contains(number) && (!setting.whole || number.fract() == 0.0)
            };
            choice.values[place] = value.parse().ok().filter(fits).ok_or_else(|| {
                let whole = if setting.whole { "a whole number" } else { "a number" };
                let expected = format!("{whole} from {} to {}", setting.min, setting.max);
                error(format!("{}: {name}: `{}` cannot be taken", row.name, shown(value)), expected)
            })?;
        }
        Ok(choice)
    }
}

impl Serialize for ForecasterChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ForecasterChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for ForecasterChoice {
    /// Writes the form that can be read back, without settings at their default.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.row.name)?;
        for (setting, value) in self.row.settings.iter().zip(&self.values).filter(|(row, value)| row.default != **value)
        {
            write!(out, ":{}={value}", setting.name)?;
        }
        Ok(())
    }
}
