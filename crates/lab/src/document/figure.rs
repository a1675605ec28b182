//! Figures: series on axes, as data. `draw` draws them.

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A line from point to point; a value that is not finite breaks it.
    Line,
    /// A hairline from point to point, for many points.
    Hair,
    /// A level that holds until the next point.
    Steps,
    /// The area under levels that hold until the next point.
    Area,
    /// A dot at each point.
    Dots,
    /// A bar from zero; the bars of several series at one position are side by side.
    Bars,
    /// A bar from the end of the previous series at the same position: point n belongs to point n of each series.
    Stack,
}

/// An axis of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    /// Whether equal distances mean equal ratios.
    pub is_logarithmic: bool,
    /// Values that must be visible.
    pub shows: Vec<f64>,
    /// Words instead of numbers, each at a value.
    pub words: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// An axis that begins at zero.
    #[must_use]
    pub fn from_zero(label: impl Into<String>) -> Self {
        Self { shows: vec![0.0], ..Self::new(label) }
    }

    /// An axis on which equal distances mean equal ratios.
    #[must_use]
    pub fn logarithmic(label: impl Into<String>) -> Self {
        Self { is_logarithmic: true, ..Self::new(label) }
    }

    /// Categories at 0, 1, 2, and so on.
    #[must_use]
    pub fn categories<S: Into<String>>(label: impl Into<String>, names: impl IntoIterator<Item = S>) -> Self {
        let words: Vec<_> = names.into_iter().enumerate().map(|(at, name)| (at as f64, name.into())).collect();
        let shows = vec![-0.5, words.len() as f64 - 0.5];
        Self { words, shows, ..Self::new(label) }
    }

    /// Days: seconds from a moment on the local clock, with the name of the day at each midnight.
    #[must_use]
    pub fn days(label: impl Into<String>, start_local_seconds: i64, seconds: f64) -> Self {
        const DAY: i64 = 86_400;
        let first = start_local_seconds.div_euclid(DAY);
        let midnights = (first..).map(|day| (day, (day * DAY - start_local_seconds) as f64));
        let inside = midnights.skip_while(|(_, at)| *at < 0.0).take_while(|(_, at)| *at < seconds);
        Self::new(label).words(inside.map(|(day, at)| (at, weekday(day).to_owned())))
    }

    /// Makes these values visible.
    #[must_use]
    pub fn showing(self, shows: impl IntoIterator<Item = f64>) -> Self {
        Self { shows: shows.into_iter().collect(), ..self }
    }

    /// Writes words at values, in place of numbers.
    #[must_use]
    pub fn words(self, words: impl IntoIterator<Item = (f64, String)>) -> Self {
        Self { words: words.into_iter().collect(), ..self }
    }
}

/// The name of a day, by its number since 1970-01-01, which was a Thursday.
#[must_use]
pub fn weekday(day: i64) -> &'static str {
    const NAMES: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    NAMES[usize::try_from(day.rem_euclid(7)).unwrap_or(0)]
}

/// Values that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name of the series in legends.
    pub name: String,
    /// The mark that the points are drawn with.
    pub mark: Mark,
    /// The position and the value of each point.
    pub points: Vec<(f64, f64)>,
    /// An interval around the points: position, lower end, upper end.
    pub band: Vec<(f64, f64, f64)>,
    /// The number of its colour on the page; if absent, the number of the series in its chart.
    pub colour: Option<usize>,
}

impl Series {
    /// A series without an interval.
    #[must_use]
    pub fn new(name: impl Into<String>, mark: Mark, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark, points, band: Vec::new(), colour: None }
    }

    /// Sets the colour, by its number on the page.
    #[must_use]
    pub fn colour(self, colour: usize) -> Self {
        Self { colour: Some(colour), ..self }
    }
}

/// Series on common axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub title: String,
    /// The horizontal axis.
    pub across: Axis,
    /// The vertical axis.
    pub upward: Axis,
    /// The series; the first is drawn lowest.
    pub series: Vec<Series>,
}

impl Chart {
    /// Horizontal bars, one row for each of `names`, the first on top. Each part has a value for every row; the parts of a
    /// row are drawn one after another.
    #[must_use]
    pub fn rows(
        title: impl Into<String>,
        names: impl IntoIterator<Item = String>,
        across: Axis,
        parts: impl IntoIterator<Item = (String, Vec<f64>)>,
    ) -> Self {
        let words: Vec<(f64, String)> = names.into_iter().enumerate().map(|(at, name)| (-(at as f64), name)).collect();
        let shows = [0.5, 0.5 - words.len() as f64];
        let part = |(name, values): (String, Vec<f64>)| {
            let points = values.into_iter().enumerate().map(|(at, value)| (value, -(at as f64)));
            Series::new(name, Mark::Stack, points.collect())
        };
        let upward = Axis::new("").showing(shows).words(words);
        Self { title: title.into(), across, upward, series: parts.into_iter().map(part).collect() }
    }

    /// Whether bars are horizontal, so that each row has a name.
    pub(super) fn has_rows(&self) -> bool {
        !self.upward.words.is_empty() && self.series.iter().all(|series| series.mark == Mark::Stack)
    }
}

/// Charts that are seen together.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub title: String,
    /// A text on how to read the figure.
    pub text: String,
    pub charts: Vec<Chart>,
    /// Whether the charts have the same axes, and are magnified horizontally together if the page is viewed with a script.
    pub is_zoomable: bool,
}

impl Figure {
    /// Charts that each have their own axes.
    #[must_use]
    pub fn new(title: impl Into<String>, text: impl Into<String>, charts: Vec<Chart>) -> Self {
        Self { title: title.into(), text: text.into(), charts, is_zoomable: false }
    }

    /// Lets viewers magnify the charts together, as they have common axes.
    #[must_use]
    pub fn zoomable(self) -> Self {
        Self { is_zoomable: true, ..self }
    }
}
