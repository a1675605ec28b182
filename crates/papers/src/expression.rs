//! Expressions over results, such as `saved(completion[bid-hdd], lesser(completion[noop], completion[cfq]))`, and sentences
//! that contain their numbers, such as `most here: {further:highest trace}[, {off:+.1} % off]`.
//!
//! `metric[terms]` selects a metric or course of all cells that fulfil the terms; functions and operators work on all
//! selected cells at once. A cell has one number for each seed, or for each part of a run: operators and functions use the mean,
//! so that a ratio is one of means.
//!
//! In a sentence, braces contain a name or an expression, and after a colon how it is shown: `+` with its sign, `.1` with
//! one decimal, `highest AXIS` as the name of the highest cell, `label` as a display name. Text in brackets is left out if
//! one of its numbers does not exist.

use std::collections::BTreeMap;

use super::cells::{Course, Term};
use super::claims::ClaimsFile;
use super::runs::Results;
use ioweir_lab::experiment::Figure;

/// The number or numbers of an expression, one entry for each cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Values<'a>(pub(super) Vec<Entry<'a>>);

/// The numbers of a cell, one for each seed, or its course.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Entry<'a> {
    /// The cell that it comes from, or the first one if there are several.
    cell: Option<usize>,
    numbers: Vec<f64>,
    pub(super) course: Option<&'a Course>,
}

impl Entry<'_> {
    pub(super) fn mean(&self) -> f64 {
        self.numbers.iter().sum::<f64>() / self.numbers.len() as f64
    }
}

impl<'a> Values<'a> {
    /// Numbers, each with the cell that it comes from; cells without numbers are left out.
    fn of(entries: impl Iterator<Item = (Option<usize>, Vec<f64>)>) -> Self {
        let entry = |(cell, numbers)| Entry { cell, numbers, course: None };
        Self(entries.filter(|(_, numbers)| !numbers.is_empty()).map(entry).collect())
    }

    fn single(number: impl Into<Option<f64>>) -> Self {
        Self::of(std::iter::once((None, number.into().into_iter().collect())))
    }

    pub(super) fn means(&self) -> Vec<f64> {
        self.0.iter().map(Entry::mean).collect()
    }

    /// The only number; `None` if there is none.
    fn number(&self) -> Result<Option<f64>, String> {
        match &self.0[..] {
            [] => Ok(None),
            [entry] => Ok(Some(entry.mean()).filter(|number| number.is_finite())),
            several => Err(format!("{} cells are selected where one number is needed", several.len())),
        }
    }

    fn each(&self, act: impl Fn(&Entry<'a>) -> Vec<f64>) -> Self {
        Self::of(self.0.iter().map(|entry| (entry.cell, act(entry))))
    }

    /// Combines cell by cell; a single number goes with every cell. Different cells cannot be combined.
    fn zip(&self, other: &Self, act: impl Fn(&Entry<'a>, &Entry<'a>) -> Vec<f64>) -> Self {
        let (left, right) = (self.0.len(), other.0.len());
        let count = if left == 1 { right } else { left };
        if left != right && left != 1 && right != 1 {
            return Self::default();
        }
        let pairs = (0..count).map(|at| (&self.0[at.min(left - 1)], &other.0[at.min(right - 1)]));
        Self::of(pairs.map(|(left, right)| (left.cell.or(right.cell), act(left, right))))
    }

    fn means_with(&self, other: &Self, act: impl Fn(f64, f64) -> f64) -> Self {
        self.zip(other, |left, right| vec![act(left.mean(), right.mean())])
    }

    fn fold(&self, act: fn(f64, f64) -> f64) -> Self {
        Self::single(self.means().into_iter().reduce(act))
    }
}

/// The name, the number of arguments (0 for any number), and the function.
type Function = (&'static str, usize, for<'a> fn(&[Values<'a>]) -> Values<'a>);
/// The symbol, and its effect on two means.
type Sign = (&'static str, fn(f64, f64) -> f64);

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

/// Operators by precedence, the lowest first; a longer operator comes before its prefixes.
const SIGNS: [&[Sign]; 4] = [
    &[("and ", |left, right| truth(left != 0.0 && right != 0.0))],
    &[
        ("<=", |left, right| truth(left <= right)),
        (">=", |left, right| truth(left >= right)),
        ("==", |left, right| truth(left == right)),
        ("<", |left, right| truth(left < right)),
        (">", |left, right| truth(left > right)),
    ],
    &[("+", |left, right| left + right), ("-", |left, right| left - right)],
    &[("*", |left, right| left * right), ("/", |left, right| left / right)],
];

/// The mean of one divided by the mean of the other. Numbers of the same count belong together pair by pair: runs that have seen
/// the same requests. Then the interval is that of the pairs' deviations from the ratio, divided by the second mean.
fn ratio_of_means(left: &Entry<'_>, right: &Entry<'_>) -> Option<Figure> {
    let ratio = left.mean() / right.mean();
    let deviations: Vec<f64> =
        left.numbers.iter().zip(&right.numbers).map(|(one, other)| one - ratio * other).collect();
    let are_pairs = left.numbers.len() == right.numbers.len();
    let half_width = Figure::of(&deviations).filter(|_| are_pairs)?.half_width.map(|half| half / right.mean());
    Some(Figure { mean: ratio, half_width, seeds: deviations.len() })
}

fn in_turn<'a>(values: &[Values<'a>], act: fn(f64, f64) -> f64) -> Values<'a> {
    let first = values.first().cloned().unwrap_or_default();
    values.iter().skip(1).fold(first, |left, right| left.means_with(right, act))
}

/// Whether the first lies between the two values that `limits` computes from the second and third.
fn around<'a>(of: &[Values<'a>], limits: fn(f64, f64) -> (f64, f64)) -> Values<'a> {
    let limit = |pick: fn((f64, f64)) -> f64| of[1].means_with(&of[2], |near, by| pick(limits(near, by)));
    within(&of[0], &limit(|limits| limits.0), &limit(|limits| limits.1))
}

fn within<'a>(number: &Values<'a>, low: &Values<'a>, high: &Values<'a>) -> Values<'a> {
    let above = number.means_with(low, |number, low| truth(number >= low));
    above.means_with(&number.means_with(high, |number, high| truth(number <= high)), |above, below| above * below)
}

fn median(entry: &Entry<'_>) -> Vec<f64> {
    let mut numbers = entry.numbers.clone();
    numbers.sort_by(f64::total_cmp);
    let (lower, upper) = (numbers.len().saturating_sub(1) / 2, numbers.len() / 2);
    numbers.get(upper).map(|upper| f64::midpoint(numbers[lower], *upper)).into_iter().collect()
}

/// The functions. Those with one argument that return a single number combine all cells.
const FUNCTIONS: [Function; 23] = [
    // The rate of a course from one time to another.
    ("level", 3, |of| {
        let span = of[1].number().ok().flatten().zip(of[2].number().ok().flatten());
        let level = |course: &Course| span.map(|(from, to)| course.level(from, to));
        of[0].each(|entry| entry.course.and_then(level).unwrap_or_default())
    }),
    // The mean of one divided by that of the other.
    ("ratio", 2, |of| of[0].means_with(&of[1], |left, right| left / right)),
    // The percentage by which the mean of one exceeds that of the other.
    ("change", 2, |of| of[0].means_with(&of[1], |left, right| (left / right - 1.0) * 100.0)),
    // Half the width of the interval of `change` (95 %, Student); no number if there is one number for each.
    ("half_width", 2, |of| {
        let half = |left: &Entry<'_>, right: &Entry<'_>| Some(ratio_of_means(left, right)?.half_width? * 100.0);
        of[0].zip(&of[1], |left, right| half(left, right).into_iter().collect())
    }),
    // Half the width of the interval of the mean over the seeds (95 %, Student); no number if there is one seed.
    ("interval", 1, |of| {
        of[0].each(|entry| Figure::of(&entry.numbers).and_then(|figure| figure.half_width).into_iter().collect())
    }),
    // Half the width of the interval of the mean of independent numbers, of half the width of each.
    ("half_width_of_mean", 1, |of| {
        let halves = of[0].means();
        let squares = halves.iter().map(|half| half * half).sum::<f64>();
        Values::single((!halves.is_empty()).then(|| squares.sqrt() / halves.len() as f64))
    }),
    // Without cells that have no finite number.
    ("finite", 1, |of| of[0].each(|entry| Some(entry.mean()).filter(|mean| mean.is_finite()).into_iter().collect())),
    // The percentage by which one is below the other.
    ("saved", 2, |of| of[0].means_with(&of[1], |left, right| (1.0 - left / right) * 100.0)),
    // Whether a number is between two others; within a number of percent of another; or within a factor of another.
    ("within", 3, |of| within(&of[0], &of[1], &of[2])),
    ("within_percent", 3, |of| around(of, |near, by| (near * (1.0 - by / 100.0), near * (1.0 + by / 100.0)))),
    ("within_factor", 3, |of| around(of, |near, by| (near / by, near * by))),
    ("lesser", 0, |of| in_turn(of, f64::min)),
    ("greater", 0, |of| in_turn(of, f64::max)),
    ("abs", 1, |of| of[0].each(|entry| vec![entry.mean().abs()])),
    ("median", 1, |of| of[0].each(median)),
    ("lowest", 1, |of| of[0].fold(f64::min)),
    ("highest", 1, |of| of[0].fold(f64::max)),
    ("first", 1, |of| of[0].fold(|first, _| first)),
    ("last", 1, |of| of[0].fold(|_, last| last)),
    ("sum", 1, |of| of[0].fold(|left, right| left + right)),
    ("mean", 1, |of| Values::single(Figure::of(&of[0].means()).map(|figure| figure.mean))),
    // How many entries are not 0, that is, how often a comparison holds.
    ("count", 1, |of| {
        let means = of[0].means();
        Values::single((!means.is_empty()).then(|| means.iter().filter(|mean| **mean != 0.0).count() as f64))
    }),
    // No number instead of 0.
    ("only", 1, |of| of[0].each(|entry| Some(entry.mean()).filter(|mean| *mean != 0.0).into_iter().collect())),
];

/// The rest of an expression, which is read and computed from left to right.
struct Reader<'s, 'a, 't> {
    scope: &'s Scope<'a>,
    rest: &'t str,
    /// The number of names that were followed to get here.
    depth: usize,
}

impl<'a, 't> Reader<'_, 'a, 't> {
    fn take(&mut self, sign: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn end(&mut self, sign: &str) -> Result<(), String> {
        if self.take(sign) { Ok(()) } else { Err(format!("a `{sign}` is missing before `{}`", self.rest)) }
    }

    fn level(&mut self, level: usize) -> Result<Values<'a>, String> {
        let Some(signs) = SIGNS.get(level) else { return self.factor() };
        let mut left = self.level(level + 1)?;
        while let Some((_, act)) = signs.iter().find(|(sign, _)| self.take(sign)) {
            left = left.means_with(&self.level(level + 1)?, act);
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Values<'a>, String> {
        if self.take("(") {
            let inner = self.level(0)?;
            return self.end(")").map(|()| inner);
        }
        if self.take("-") {
            return Ok(self.factor()?.each(|entry| vec![0.0 - entry.mean()]));
        }
        let word = self.word();
        if word.starts_with(|one: char| one.is_ascii_digit()) {
            return word
                .parse()
                .map(|number: f64| Values::single(number))
                .map_err(|_| format!("`{word}` is not a number"));
        }
        if word.is_empty() {
            let found = if self.rest.is_empty() { "at the end".into() } else { format!("before `{}`", self.rest) };
            return Err(format!("a number, a name, `metric[...]` or `function(...)` is missing {found}"));
        }
        if let Some(rest) = self.rest.strip_prefix('[') {
            let (terms, rest) = rest.split_once(']').ok_or("a `]` is missing")?;
            self.rest = rest;
            return self.scope.select(word, terms);
        }
        if self.take("(") { self.call(word) } else { self.scope.named(word, self.depth) }
    }

    fn word(&mut self) -> &'t str {
        let rest = self.rest.trim_start();
        let length = rest.find(|one: char| !one.is_ascii_alphanumeric() && one != '_' && one != '.');
        let (word, rest) = rest.split_at(length.unwrap_or(rest.len()));
        self.rest = rest;
        word
    }

    fn call(&mut self, name: &str) -> Result<Values<'a>, String> {
        let mut of = vec![self.level(0)?];
        while self.take(",") {
            of.push(self.level(0)?);
        }
        self.end(")")?;
        let known = FUNCTIONS.iter().find(|(known, ..)| *known == name);
        let (_, arguments, act) = known.ok_or_else(|| {
            let names: Vec<&str> = FUNCTIONS.iter().map(|(known, ..)| *known).collect();
            format!("there is no function `{name}`\n  expected: {}", names.join(", "))
        })?;
        if ![0, of.len()].contains(arguments) {
            return Err(format!("{name} takes {arguments} arguments, not {}", of.len()));
        }
        Ok(act(&of))
    }
}

/// The meaning of names where an expression is computed.
#[derive(Clone)]
pub(super) struct Scope<'a> {
    pub(super) results: &'a Results<'a>,
    pub(super) file: &'a ClaimsFile,
    /// Terms that every selection has in addition to its own.
    pub(super) at: Vec<Term>,
    /// Names for text or a number: a row of a list.
    pub(super) row: toml::Table,
    /// Names for an expression.
    pub(super) lets: BTreeMap<String, String>,
    /// Names of numbers that may not exist.
    pub(super) numbers: BTreeMap<&'static str, Option<f64>>,
}

/// A number in the form that expressions use.
pub(super) fn number_of(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

/// A value as text, without quotes.
pub(super) fn text_of(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => number_of(other).map_or_else(|| other.to_string(), |number| number.to_string()),
    }
}

impl<'a> Scope<'a> {
    pub(super) fn new(results: &'a Results<'a>, file: &'a ClaimsFile) -> Self {
        let (row, lets, numbers) = (toml::Table::new(), BTreeMap::new(), BTreeMap::new());
        Self { results, file, at: Vec::new(), row, lets, numbers }
    }

    /// A copy of this scope with further terms, and names from a row of a list.
    pub(super) fn on(&self, row: &toml::Table, at: &str) -> Result<Self, String> {
        let mut inner = self.clone();
        inner.row.extend(row.clone());
        inner.at = inner.terms(at)?;
        Ok(inner)
    }

    /// The display name of a name.
    fn label(&self, name: &str) -> String {
        self.file.labels.get(name).map_or(name, String::as_str).to_owned()
    }

    /// The terms of a list such as `grep, load=x50`, after the shared ones; a list's own term replaces a shared one of the
    /// same axis. Each `{name}` is replaced.
    fn terms(&self, own: &str) -> Result<Vec<Term>, String> {
        let replaced =
            |text: String, (name, value): (&String, _)| text.replace(&format!("{{{name}}}"), &text_of(value));
        let own = self.row.iter().fold(own.to_owned(), replaced);
        // Names such as `where` stand for no term before anything is run.
        let own = own.split(',').filter(|term| !term.trim().is_empty());
        let own: Vec<Term> = own.map(Term::parse).collect::<Result<_, _>>()?;
        let is_shared = |shared: &&Term| shared.axis.is_none() || own.iter().all(|term| term.axis != shared.axis);
        Ok(self.at.iter().filter(is_shared).cloned().chain(own.iter().cloned()).collect())
    }

    fn select(&self, metric: &str, terms: &str) -> Result<Values<'a>, String> {
        let terms = self.terms(terms)?;
        self.results.check(metric, &terms)?;
        let entry = |(at, cell): (usize, &'a super::cells::Cell)| {
            let numbers = cell.metrics.get(metric).cloned().unwrap_or_default();
            Entry { cell: Some(at), numbers, course: cell.courses.get(metric) }
        };
        let entries: Vec<Entry<'a>> = self.results.select(&terms).map(entry).collect();
        if entries.is_empty() {
            let terms: Vec<String> = terms.iter().map(ToString::to_string).collect();
            self.results.missed.replace(Some(format!("{metric}[{}]", terms.join(", "))));
        }
        Ok(Values(entries.into_iter().filter(|entry| !entry.numbers.is_empty() || entry.course.is_some()).collect()))
    }

    fn named(&self, name: &str, depth: usize) -> Result<Values<'a>, String> {
        if let Some(inner) = self.lets.get(name) {
            // Names have led to names more often than there are names.
            return if depth == self.lets.len() {
                Err("a `let` uses itself".into())
            } else {
                self.read(inner, depth + 1)
            };
        }
        let number = self.numbers.get(name).copied().or_else(|| self.row.get(name).map(number_of));
        number.map(Values::single).ok_or_else(|| format!("nothing is called `{name}`"))
    }

    fn read(&self, text: &str, depth: usize) -> Result<Values<'a>, String> {
        let mut reader = Reader { scope: self, rest: text, depth };
        let values = reader.level(0)?;
        match reader.rest.trim_start() {
            "" => Ok(values),
            rest => Err(format!("`{rest}` does not belong here")),
        }
    }

    /// The value of an expression.
    pub(super) fn value(&self, text: &str) -> Result<Values<'a>, String> {
        self.read(text, 0)
    }

    /// The only number of an expression; `None` if there is none.
    pub(super) fn number(&self, text: &str) -> Result<Option<f64>, String> {
        self.value(text)?.number()
    }

    /// The completed sentence; `None` if a number that is not optional does not exist.
    pub(super) fn sentence(&self, text: &str) -> Result<Option<String>, String> {
        let Some(at) = text.find(['{', '[']) else { return Ok(Some(text.to_owned())) };
        let is_value = text[at..].starts_with('{');
        let (open, close) = if is_value { ('{', '}') } else { ('[', ']') };
        let mut depth = 0;
        let closes = |(_, one): &(usize, char)| {
            depth += i32::from(*one == open) - i32::from(*one == close);
            depth == 0
        };
        let (end, _) = text[at..].char_indices().find(closes).ok_or_else(|| format!("a `{close}` is missing"))?;
        let inner = &text[at + 1..at + end];
        let shown = if is_value { self.shown(inner)? } else { Some(self.sentence(inner)?.unwrap_or_default()) };
        let after = self.sentence(&text[at + end + 1..])?;
        Ok(shown.zip(after).map(|(shown, after)| format!("{}{shown}{after}", &text[..at])))
    }

    /// The text for the content of braces.
    fn shown(&self, inner: &str) -> Result<Option<String>, String> {
        // A colon within a selection is part of a name.
        let after = inner.rfind(']').map_or(0, |at| at + 1);
        let colon = inner[after..].rfind(':').map_or(inner.len(), |at| after + at);
        let (expression, form) = (&inner[..colon], inner[colon..].trim_start_matches(':'));
        if let Some(text) = self.row.get(expression).filter(|value| number_of(value).is_none() || form == "label") {
            return Ok(Some(if form == "label" { self.label(&text_of(text)) } else { text_of(text) }));
        }
        let values = self.value(expression)?;
        if let Some(axis) = form.strip_prefix("highest ") {
            let highest = values.0.iter().max_by(|left, right| left.mean().total_cmp(&right.mean()));
            let cell = highest.and_then(|entry| self.results.cells.get(entry.cell?));
            return Ok(cell.and_then(|cell| cell.place(axis.trim())).map(|name| self.label(name)));
        }
        let wrong = || format!("`{form}` is no way to show a number\n  expected: `+`, `.1`, `highest AXIS`, `label`");
        let (signed, decimals) = form.strip_prefix('+').map_or((false, form), |rest| (true, rest));
        let decimals: Option<usize> = match decimals.strip_prefix('.') {
            Some(digits) => Some(digits.parse().ok().filter(|digits| *digits <= 9).ok_or_else(wrong)?),
            None if decimals.is_empty() => None,
            None => return Err(wrong()),
        };
        let show = |number: f64| {
            let text = decimals.map_or_else(|| number.to_string(), |decimals| format!("{number:.decimals$}"));
            if signed && !text.starts_with('-') { format!("+{text}") } else { text }
        };
        Ok(values.number()?.map(show))
    }
}
