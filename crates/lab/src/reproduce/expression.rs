//! Expressions over results: `saved(completion[bid-hdd, grep], lesser(completion[noop, grep], completion[cfq, grep]))`.
//!
//! `metric[terms]` selects a metric of all cells that fulfil the terms; functions and signs work on all selected cells at
//! once. A cell has a number for each seed: signs take the mean, `ratio` and `change` go seed by seed.

use std::collections::BTreeMap;

use super::results::{Course, Results, Term};
use crate::experiment::Figure;

/// A problem, and at which byte of the file.
pub(super) type At = (usize, String);

/// A parsed expression.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Number(f64),
    /// A `let`, a number of the list, `ours` or `paper`.
    Name(String, usize),
    /// A metric of cells.
    Select(Selection),
    /// The rate of a course from one time to another.
    Level(Selection, Box<[Expression; 2]>),
    Call(&'static Function, Vec<Expression>),
    Binary(Operator, Box<[Expression; 2]>),
}

/// What is selected: terms as written, before names in braces are replaced.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) metric: String,
    pub(super) terms: String,
    /// Where it begins.
    pub(super) offset: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Plus,
    Minus,
    Times,
    Over,
    Below,
    Above,
    AtMost,
    AtLeast,
    Equal,
    And,
}

/// Signs by how tightly they bind, the loosest first; longer signs before their beginnings.
const LEVELS: [&[(&str, Operator)]; 4] = [
    &[("and ", Operator::And)],
    &[
        ("<=", Operator::AtMost),
        (">=", Operator::AtLeast),
        ("==", Operator::Equal),
        ("<", Operator::Below),
        (">", Operator::Above),
    ],
    &[("+", Operator::Plus), ("-", Operator::Minus)],
    &[("*", Operator::Times), ("/", Operator::Over)],
];

impl Operator {
    fn apply(self, left: f64, right: f64) -> f64 {
        let truth = |holds: bool| f64::from(u8::from(holds));
        match self {
            Self::Plus => left + right,
            Self::Minus => left - right,
            Self::Times => left * right,
            Self::Over => left / right,
            Self::Below => truth(left < right),
            Self::Above => truth(left > right),
            Self::AtMost => truth(left <= right),
            Self::AtLeast => truth(left >= right),
            Self::Equal => truth(left == right),
            Self::And => truth(left != 0.0 && right != 0.0),
        }
    }
}

/// The number or numbers of an expression: an entry for each cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Values(pub(super) Vec<Entry>);

/// The numbers of a cell, one a seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Entry {
    /// The cell it comes from, the first where it comes from several.
    pub(super) cell: Option<usize>,
    numbers: Vec<f64>,
}

impl Entry {
    pub(super) fn mean(&self) -> f64 {
        self.numbers.iter().sum::<f64>() / self.numbers.len() as f64
    }
}

impl Values {
    pub(super) fn single(number: impl Into<Option<f64>>) -> Self {
        Self(number.into().into_iter().map(|number| Entry { cell: None, numbers: vec![number] }).collect())
    }

    pub(super) fn means(&self) -> Vec<f64> {
        self.0.iter().map(Entry::mean).collect()
    }

    /// The one number; none where there is none.
    pub(super) fn number(&self) -> Result<Option<f64>, String> {
        match &self.0[..] {
            [] => Ok(None),
            [entry] => Ok(Some(entry.mean()).filter(|number| number.is_finite())),
            several => Err(format!("{} cells are selected where one number is needed", several.len())),
        }
    }

    fn each(&self, act: impl Fn(&Entry) -> Vec<f64>) -> Self {
        let entries = self.0.iter().map(|entry| Entry { cell: entry.cell, numbers: act(entry) });
        Self(entries.filter(|entry| !entry.numbers.is_empty()).collect())
    }

    /// Cell by cell; one number goes with every cell. Different cells have nothing in common.
    fn zip(&self, other: &Self, act: impl Fn(&Entry, &Entry) -> Vec<f64>) -> Self {
        let (left, right) = (self.0.len(), other.0.len());
        let count = if left == 1 { right } else { left };
        if left != right && left != 1 && right != 1 {
            return Self::default();
        }
        let pair = |at: usize| (&self.0[at.min(left - 1)], &other.0[at.min(right - 1)]);
        let entries = (0..count)
            .map(pair)
            .map(|(left, right)| Entry { cell: left.cell.or(right.cell), numbers: act(left, right) });
        Self(entries.filter(|entry| !entry.numbers.is_empty()).collect())
    }

    fn fold(&self, act: fn(f64, f64) -> f64) -> Self {
        Self::single(self.means().into_iter().reduce(act))
    }
}

/// A function of expressions.
#[derive(Debug)]
pub(super) struct Function {
    name: &'static str,
    arguments_max: usize,
    apply: fn(&[Values]) -> Values,
}

fn ratios(left: &Entry, right: &Entry) -> Vec<f64> {
    left.numbers.iter().zip(&right.numbers).map(|(left, right)| left / right).collect()
}

fn in_turn(values: &[Values], act: fn(f64, f64) -> f64) -> Values {
    let mut values = values.iter().cloned();
    let first = values.next().unwrap_or_default();
    values.fold(first, |left, right| left.zip(&right, |left, right| vec![act(left.mean(), right.mean())]))
}

fn median(entry: &Entry) -> Vec<f64> {
    let mut numbers = entry.numbers.clone();
    numbers.sort_by(f64::total_cmp);
    let (lower, upper) = (numbers.len().saturating_sub(1) / 2, numbers.len() / 2);
    numbers.get(upper).map(|upper| f64::midpoint(numbers[lower], *upper)).into_iter().collect()
}

const fn function(name: &'static str, arguments_max: usize, apply: fn(&[Values]) -> Values) -> Function {
    Function { name, arguments_max, apply }
}

/// The functions. Those of one argument that end in a single number go over cells.
static FUNCTIONS: [Function; 16] = [
    // One by the other, seed by seed: both have seen the same requests.
    function("ratio", 2, |of| of[0].zip(&of[1], ratios)),
    // By how many percent one is more than the other, from the mean of the ratios.
    function("change", 2, |of| {
        of[0].zip(&of[1], |left, right| {
            Figure::of(&ratios(left, right)).map(|ratio| (ratio.mean - 1.0) * 100.0).into_iter().collect()
        })
    }),
    // Half the width of the interval of `change` (95 %, Student); nothing where there is one seed.
    function("half_width", 2, |of| {
        of[0].zip(&of[1], |left, right| {
            let ratio = Figure::of(&ratios(left, right));
            ratio.and_then(|ratio| ratio.half_width).map(|half| half * 100.0).into_iter().collect()
        })
    }),
    // By how many percent one is less than the other.
    function("saved", 2, |of| of[0].zip(&of[1], |left, right| vec![(1.0 - left.mean() / right.mean()) * 100.0])),
    function("lesser", usize::MAX, |of| in_turn(of, f64::min)),
    function("greater", usize::MAX, |of| in_turn(of, f64::max)),
    function("abs", 1, |of| of[0].each(|entry| vec![entry.mean().abs()])),
    function("median", 1, |of| of[0].each(median)),
    function("lowest", 1, |of| of[0].fold(f64::min)),
    function("highest", 1, |of| of[0].fold(f64::max)),
    function("first", 1, |of| of[0].fold(|first, _| first)),
    function("last", 1, |of| of[0].fold(|_, last| last)),
    function("sum", 1, |of| of[0].fold(|left, right| left + right)),
    function("mean", 1, |of| {
        let means = of[0].means();
        Values::single(Figure::of(&means).map(|figure| figure.mean))
    }),
    // How many are not 0: how often a comparison holds.
    function("count", 1, |of| {
        let means = of[0].means();
        Values::single((!means.is_empty()).then(|| means.iter().filter(|mean| **mean != 0.0).count() as f64))
    }),
    // Nothing in place of 0.
    function("only", 1, |of| of[0].each(|entry| Some(entry.mean()).filter(|mean| *mean != 0.0).into_iter().collect())),
];

impl Expression {
    /// Reads an expression that begins at byte `start` of a file.
    pub(super) fn parse(text: &str, start: usize) -> Result<Self, At> {
        let mut parser = Parser { text, at: 0, start };
        let expression = parser.level(0)?;
        parser.skip();
        if parser.at < text.len() {
            return Err(parser.wrong(parser.at, format!("`{}` does not belong here", parser.rest())));
        }
        Ok(expression)
    }

    /// Calls `act` for this expression and all within it.
    pub(super) fn walk(&self, act: &mut dyn FnMut(&Self)) {
        act(self);
        match self {
            Self::Call(_, inner) => inner.iter().for_each(|one| one.walk(act)),
            Self::Binary(_, inner) | Self::Level(_, inner) => inner.iter().for_each(|one| one.walk(act)),
            Self::Number(_) | Self::Name(..) | Self::Select(_) => {}
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    start: usize,
}

impl<'a> Parser<'a> {
    fn wrong(&self, at: usize, problem: impl Into<String>) -> At {
        (self.start + at, problem.into())
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn take(&mut self, sign: &str) -> bool {
        self.skip();
        let found = self.rest().starts_with(sign);
        self.at += if found { sign.len() } else { 0 };
        found
    }

    fn level(&mut self, level: usize) -> Result<Expression, At> {
        let Some(signs) = LEVELS.get(level) else { return self.factor() };
        let mut left = self.level(level + 1)?;
        while let Some((_, operator)) = signs.iter().find(|(sign, _)| self.take(sign)) {
            left = Expression::Binary(*operator, Box::new([left, self.level(level + 1)?]));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Expression, At> {
        if self.take("(") {
            let inner = self.level(0)?;
            return if self.take(")") { Ok(inner) } else { Err(self.wrong(self.at, "a `)` is missing")) };
        }
        if self.take("-") {
            return Ok(Expression::Binary(Operator::Minus, Box::new([Expression::Number(0.0), self.factor()?])));
        }
        self.skip();
        let (start, rest) = (self.at, self.rest());
        let length = rest.find(|one: char| !one.is_ascii_alphanumeric() && one != '_' && one != '.');
        let word = &rest[..length.unwrap_or(rest.len())];
        self.at += word.len();
        if word.starts_with(|one: char| one.is_ascii_digit()) {
            let number = word.parse().map_err(|_| self.wrong(start, format!("`{word}` is not a number")))?;
            return Ok(Expression::Number(number));
        }
        if word.is_empty() {
            return Err(self.wrong(start, "a number, a name, `metric[...]` or `function(...)` is missing"));
        }
        match self.rest().chars().next() {
            Some('[') => Ok(Expression::Select(self.selection(word, start)?)),
            Some('(') => self.call(word, start),
            _ => Ok(Expression::Name(word.into(), self.start + start)),
        }
    }

    fn selection(&mut self, metric: &str, offset: usize) -> Result<Selection, At> {
        let Some(length) = self.rest().find(']') else { return Err(self.wrong(self.at, "a `]` is missing")) };
        let terms = self.rest()[1..length].to_owned();
        self.at += length + 1;
        Ok(Selection { metric: metric.into(), terms, offset: self.start + offset })
    }

    fn call(&mut self, name: &str, start: usize) -> Result<Expression, At> {
        self.at += 1;
        let mut inner = vec![self.level(0)?];
        while self.take(",") {
            inner.push(self.level(0)?);
        }
        if !self.take(")") {
            return Err(self.wrong(self.at, "a `)` is missing"));
        }
        if name == "level" {
            return match <[Expression; 3]>::try_from(inner) {
                Ok([Expression::Select(course), from, to]) => Ok(Expression::Level(course, Box::new([from, to]))),
                _ => Err(self.wrong(start, "level is written `level(course[...], from, to)`")),
            };
        }
        let names = || FUNCTIONS.iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
        let known = FUNCTIONS.iter().find(|known| known.name == name);
        let known = known.ok_or_else(|| {
            self.wrong(start, format!("there is no function `{name}`\n  expected: level, {}", names()))
        })?;
        if inner.len() != known.arguments_max && known.arguments_max != usize::MAX {
            return Err(
                self.wrong(start, format!("{name} takes {} arguments, not {}", known.arguments_max, inner.len()))
            );
        }
        Ok(Expression::Call(known, inner))
    }
}

/// What names mean where an expression is evaluated.
pub(super) struct Scope<'a> {
    pub(super) results: &'a Results,
    /// Names of cells as people read them.
    pub(super) labels: &'a BTreeMap<String, String>,
    /// Terms that every selection has beside its own.
    pub(super) at: Vec<Term>,
    /// Names that stand for text or a number.
    pub(super) variables: toml::Table,
    pub(super) lets: BTreeMap<String, Expression>,
}

/// A number as an expression sees it.
pub(super) fn number_of(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

/// A value as text: text without its quotes.
pub(super) fn text_of(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => number_of(other).map_or_else(|| other.to_string(), |number| number.to_string()),
    }
}

/// `text` with each `{name}` replaced.
pub(super) fn filled(text: &str, variables: &toml::Table) -> String {
    variables.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), &text_of(value)))
}

/// The terms of a list such as `grep, load=x50`.
pub(super) fn terms(text: &str, variables: &toml::Table) -> Result<Vec<Term>, String> {
    let text = filled(text, variables);
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(Term::parse).collect()
}

impl Scope<'_> {
    /// The name of a cell as people read it.
    pub(super) fn label(&self, name: &str) -> String {
        self.labels.get(name).map_or(name, String::as_str).to_owned()
    }

    /// The terms of a selection, after those that it shares; its own take the place of those of the same axis.
    pub(super) fn terms(&self, own: &str) -> Result<Vec<Term>, String> {
        let own = terms(own, &self.variables)?;
        let replaced = |shared: &&Term| {
            let Term::Is(axis, _) = shared else { return true };
            !own.iter().any(|term| matches!(term, Term::Is(other, _) if other == axis))
        };
        let shared: Vec<Term> = self.at.iter().filter(replaced).cloned().collect();
        Ok(shared.into_iter().chain(own).collect())
    }

    /// The courses of a selection, with their cells.
    pub(super) fn courses(&self, selection: &Selection) -> Result<Vec<(usize, &Course)>, String> {
        let terms = self.terms(&selection.terms)?;
        let found = self.results.select(&terms);
        Ok(found.filter_map(|(at, cell)| Some((at, cell.courses.get(&selection.metric)?))).collect())
    }

    /// What an expression comes to.
    pub(super) fn value(&self, expression: &Expression) -> Result<Values, String> {
        Ok(match expression {
            Expression::Number(number) => Values::single(*number),
            Expression::Name(name, _) => match (self.lets.get(name), self.variables.get(name)) {
                (Some(inner), _) => self.value(inner)?,
                (None, Some(value)) => Values::single(number_of(value)),
                (None, None) => Values::default(),
            },
            Expression::Select(selection) => {
                let terms = self.terms(&selection.terms)?;
                let found = self.results.select(&terms).filter_map(|(at, cell)| {
                    let numbers = cell.metrics.get(&selection.metric).filter(|numbers| !numbers.is_empty())?;
                    Some(Entry { cell: Some(at), numbers: numbers.clone() })
                });
                Values(found.collect())
            }
            Expression::Level(selection, span) => {
                let [from, to] = [self.value(&span[0])?.number()?, self.value(&span[1])?.number()?];
                let (Some(from), Some(to)) = (from, to) else { return Ok(Values::default()) };
                let courses = self.courses(selection)?.into_iter();
                let entries = courses.map(|(at, course)| Entry { cell: Some(at), numbers: course.level(from, to) });
                Values(entries.filter(|entry| !entry.numbers.is_empty()).collect())
            }
            Expression::Call(function, inner) => {
                let inner: Result<Vec<Values>, String> = inner.iter().map(|one| self.value(one)).collect();
                (function.apply)(&inner?)
            }
            Expression::Binary(operator, inner) => {
                let [left, right] = [self.value(&inner[0])?, self.value(&inner[1])?];
                left.zip(&right, |left, right| vec![operator.apply(left.mean(), right.mean())])
            }
        })
    }
}
