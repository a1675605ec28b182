//! Tables: typed values in columns that define how their values are written.

use ioweir_config::{format_bytes, format_count, format_decimals, format_nanos};
use ioweir_core::Nanos;

/// Values closer than this share of the larger one count as equal: none of them is the best.
pub const SAME_SHARE: f64 = 0.01;

/// Rows of typed values under named columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The title; may be empty.
    pub title: String,
    /// A text on how to read the table. Terminals leave it out.
    pub text: String,
    pub columns: Vec<Column>,
    /// The rows, each with a cell for every column.
    pub rows: Vec<Vec<Cell>>,
    /// Whether the table is shown on pages only, as it needs space.
    pub is_detail: bool,
}

/// A column: its name, its unit and how its values are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// The unit of the values; may be empty.
    pub unit: String,
    /// The format of the values.
    pub format: Format,
    /// Whether low or high values are better; the best value is marked.
    pub better: Option<Better>,
    /// Whether the column is left out before all others where a table is wider than a terminal.
    pub is_spare: bool,
}

/// How the values of a column are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Words, left-aligned. In every other format words are right-aligned.
    Text,
    /// Numbers, all with as many decimals as the smallest of the column needs.
    Fitted,
    /// Numbers with this number of decimals.
    Digits(usize),
    /// Numbers, each with as many decimals as its own size needs.
    Own,
    /// Bytes, each in a suitable unit.
    Bytes,
    /// Seconds, each in a suitable unit.
    Seconds,
    /// Multiples of a reference: `x0.71`.
    Factor,
}

/// Whether low or high values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The lowest value is the best.
    Lower,
    /// The highest value is the best.
    Higher,
}

/// A value with its emphasis.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub value: Value,
    /// The reason why the value is special, if it is.
    pub emphasis: Emphasis,
}

/// Why a value is special.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emphasis {
    /// The value is not special.
    #[default]
    None,
    /// The value is the best of its column.
    Best,
    /// The value breaks a rule.
    Fails,
    /// The value is based on too little data: a question mark follows.
    Doubtful,
}

/// The content of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value, because none is defined here.
    Absent,
    /// Words.
    Text(String),
    /// A whole number.
    Integer(i128),
    Number(f64),
    /// A mean and the half width of its interval.
    Interval(f64, f64),
    /// Yes or no.
    Flag(bool),
}

/// The type of the values in a column of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Yes or no.
    Flag,
    /// Whole numbers of 64 bits.
    Integer,
    Number,
    /// Words, or a mixture.
    Text,
}

impl Table {
    /// The narrowest kind that holds every value of column `at`; text if no other does.
    #[must_use]
    pub fn kind(&self, at: usize) -> Kind {
        let all = |holds: fn(&Value) -> bool| {
            let values = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| &cell.value);
            values.filter(|value| **value != Value::Absent).all(holds)
        };
        if all(|value| value.flag().is_some()) {
            Kind::Flag
        } else if all(|value| value.integer().is_some()) {
            Kind::Integer
        } else if all(|value| matches!(value, Value::Number(_) | Value::Interval(..)) || value.integer().is_some()) {
            Kind::Number
        } else {
            Kind::Text
        }
    }

    /// A table without rows.
    #[must_use]
    pub fn new(title: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Self {
        Self { title: title.into(), columns: columns.into_iter().collect(), ..Self::default() }
    }

    /// Sets the text on how to read the table.
    #[must_use]
    pub fn caption(self, text: impl Into<String>) -> Self {
        Self { text: text.into(), ..self }
    }

    /// Leaves the table out except on pages.
    #[must_use]
    pub fn detail(self) -> Self {
        Self { is_detail: true, ..self }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as text, with the best of each column marked.
    pub(super) fn shown(&self) -> Shown {
        let cell = |row: &Vec<Cell>, at: usize| row.get(at).cloned().unwrap_or_else(|| Cell::from(Value::Absent));
        let columns: Vec<Vec<ShownCell>> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| column.cells(self.rows.iter().map(|row| cell(row, at)).collect()))
            .collect();
        let row = |at: usize| columns.iter().map(|cells| cells[at].clone()).collect();
        Shown {
            columns: self
                .columns
                .iter()
                .map(|column| ShownColumn {
                    name: column.name.clone(),
                    unit: column.unit.clone(),
                    right: column.format != Format::Text,
                    is_spare: column.is_spare,
                })
                .collect(),
            rows: (0..self.rows.len()).map(row).collect(),
        }
    }
}

/// A table as text; only the escapes of a form are missing.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) columns: Vec<ShownColumn>,
    pub(super) rows: Vec<Vec<ShownCell>>,
}

#[derive(Clone, Debug)]
pub(super) struct ShownColumn {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) right: bool,
    pub(super) is_spare: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShownCell {
    pub(super) text: String,
    pub(super) emphasis: Emphasis,
}

impl ShownColumn {
    /// The name and unit on one line.
    pub(super) fn title(&self) -> String {
        if self.unit.is_empty() { self.name.clone() } else { format!("{} ({})", self.name, self.unit) }
    }
}

impl Column {
    fn new(name: impl Into<String>, unit: impl Into<String>, format: Format) -> Self {
        Self { name: name.into(), unit: unit.into(), format, better: None, is_spare: false }
    }

    /// A column of words.
    #[must_use]
    pub fn text(name: impl Into<String>) -> Self {
        Self::new(name, "", Format::Text)
    }

    /// A column of numbers with the decimals that the smallest of them needs.
    #[must_use]
    pub fn number(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self::new(name, unit, Format::Fitted)
    }

    /// A column of numbers without a unit, with this number of decimals.
    #[must_use]
    pub fn digits(name: impl Into<String>, digits: usize) -> Self {
        Self::new(name, "", Format::Digits(digits))
    }

    /// A column of whole numbers.
    #[must_use]
    pub fn count(name: impl Into<String>) -> Self {
        Self::digits(name, 0)
    }

    /// A column of bytes, each in a suitable unit.
    #[must_use]
    pub fn bytes(name: impl Into<String>) -> Self {
        Self::new(name, "", Format::Bytes)
    }

    /// A column of seconds, each in a suitable unit.
    #[must_use]
    pub fn seconds(name: impl Into<String>) -> Self {
        Self::new(name, "", Format::Seconds)
    }

    /// Sets the unit.
    #[must_use]
    pub fn unit(self, unit: impl Into<String>) -> Self {
        Self { unit: unit.into(), ..self }
    }

    /// Sets the format.
    #[must_use]
    pub fn format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// Leaves the column out before all others where a table is wider than a terminal.
    #[must_use]
    pub fn spare(self) -> Self {
        Self { is_spare: true, ..self }
    }

    /// Lets the best value be marked.
    #[must_use]
    pub fn better(self, better: Better) -> Self {
        Self { better: Some(better), ..self }
    }

    fn cells(&self, cells: Vec<Cell>) -> Vec<ShownCell> {
        let texts = self.format.texts(&cells);
        let best = self.better.and_then(|better| best(&cells, better)).map(|row| texts[row].clone());
        let shown = |(cell, text): (Cell, String)| {
            // Values with the same text are equally good.
            let emphasis = if best.as_ref() == Some(&text) { Emphasis::Best } else { cell.emphasis };
            ShownCell { text, emphasis }
        };
        cells.into_iter().zip(texts).map(shown).collect()
    }
}

/// The row of the best value; `None` if all values are equal within [`SAME_SHARE`].
fn best(cells: &[Cell], better: Better) -> Option<usize> {
    let values = || cells.iter().enumerate().filter_map(|(row, cell)| Some((row, cell.value.number()?)));
    let lowest = values().min_by(|left, right| left.1.total_cmp(&right.1))?;
    let highest = values().rev().max_by(|left, right| left.1.total_cmp(&right.1))?;
    let row = if better == Better::Lower { lowest.0 } else { highest.0 };
    (lowest.1 < highest.1 * (1.0 - SAME_SHARE)).then_some(row)
}

impl Format {
    /// The values of a column as text.
    fn texts(self, cells: &[Cell]) -> Vec<String> {
        let fitted = Self::Digits(fitting_digits(cells));
        let format = if self == Self::Fitted { fitted } else { self };
        cells.iter().map(|cell| format.text_of(&cell.value)).collect()
    }

    fn text_of(self, value: &Value) -> String {
        match value {
            Value::Absent => "-".into(),
            Value::Text(text) => text.clone(),
            Value::Flag(flag) => if *flag { "yes" } else { "no" }.into(),
            Value::Integer(integer) => match (self, u64::try_from(*integer)) {
                (Self::Text, _) => integer.to_string(),
                (Self::Digits(0) | Self::Own, Ok(count)) => format_count(count),
                _ => self.number_text(*integer as f64),
            },
            Value::Number(number) => self.number_text(*number),
            Value::Interval(mean, half_width) => {
                format!("{} ± {}", self.number_text(*mean), self.number_text(*half_width))
            }
        }
    }

    fn number_text(self, value: f64) -> String {
        match self {
            Self::Text => value.to_string(),
            Self::Fitted => format_decimals(value, 3),
            Self::Digits(digits) => format_decimals(value, digits),
            Self::Own => {
                let digits = match value.abs() {
                    size if size >= 1000.0 => 0,
                    size if size >= 10.0 => 1,
                    _ => 3,
                };
                format_decimals(value, digits)
            }
            Self::Bytes => format_bytes(whole(value)),
            Self::Seconds => format_seconds(value),
            Self::Factor => format!("x{value:.2}"),
        }
    }
}

/// The number of decimals with which the smallest value keeps three significant digits, at most three.
fn fitting_digits(cells: &[Cell]) -> usize {
    let values = cells.iter().filter_map(|cell| cell.value.number()).filter(|value| *value > 0.0);
    match values.fold(f64::INFINITY, f64::min) {
        value if value >= 100.0 => 1,
        value if value >= 10.0 => 2,
        _ => 3,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "saturating, and far from the limit")]
#[expect(clippy::cast_sign_loss, reason = "what is counted is positive")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// Seconds in a suitable unit.
#[must_use]
pub fn format_seconds(seconds: f64) -> String {
    format_nanos(Nanos(whole(seconds * 1e9)))
}

impl Value {
    /// The value as a number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(integer) => Some(*integer as f64),
            Self::Number(number) | Self::Interval(number, _) => Some(*number),
            Self::Absent | Self::Text(_) | Self::Flag(_) => None,
        }
    }

    /// The value, if it is a whole number of 64 bits.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        if let Self::Integer(integer) = self { i64::try_from(*integer).ok() } else { None }
    }

    /// The value, if it is yes or no.
    #[must_use]
    pub fn flag(&self) -> Option<bool> {
        if let Self::Flag(flag) = self { Some(*flag) } else { None }
    }

    /// The value as the field of a CSV file or a column of text; `None` if it is absent.
    #[must_use]
    pub fn field(&self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Text(text) => Some(text.clone()),
            Self::Integer(integer) => Some(integer.to_string()),
            // Numbers are written as in JSON.
            Self::Number(number) | Self::Interval(number, _) => Some(serde_json::Value::from(*number).to_string()),
            Self::Flag(flag) => Some(flag.to_string()),
        }
    }
}

impl Cell {
    #[must_use]
    pub fn emphasis(self, emphasis: Emphasis) -> Self {
        Self { emphasis, ..self }
    }

    /// Marks the value if it breaks a rule.
    #[must_use]
    pub fn fails_if(self, fails: bool) -> Self {
        if fails { self.emphasis(Emphasis::Fails) } else { self }
    }
}

impl<V: Into<Value>> From<V> for Cell {
    fn from(value: V) -> Self {
        Self { value: value.into(), emphasis: Emphasis::None }
    }
}

impl<V: Into<Value>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Self {
        value.map_or(Self::Absent, Into::into)
    }
}

macro_rules! value_from {
    ($($source:ty => $make:expr),+ $(,)?) => {$(
        impl From<$source> for Value {
            fn from(value: $source) -> Self {
                let make: fn($source) -> Self = $make;
                make(value)
            }
        }
    )+};
}

value_from!(
    &str => |text| Self::Text(text.to_owned()),
    &String => |text| Self::Text(text.clone()),
    String => Self::Text,
    f64 => Self::Number,
    bool => Self::Flag,
    u32 => |count| Self::Integer(count.into()),
    u64 => |count| Self::Integer(count.into()),
    i64 => |count| Self::Integer(count.into()),
    usize => |count| Self::Integer(count as i128),
);
