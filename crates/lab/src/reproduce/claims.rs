//! Claims of a paper: read from `claims.toml`, checked against what is run, and judged by the rule that each one has.

use std::collections::{BTreeMap, BTreeSet};

use ioweir_config::{Complaint, SpecError};
use serde::{Deserialize, Serialize};
use toml::{Spanned, Table, Value};

use super::expression::{At, Expression, Scope, Values, number_of, terms};
use super::results::{Results, Term};
use super::runs::Run;
use super::template::Template;

/// What kind of agreement a claim is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// A worked example with an exact result.
    Golden,
    /// A result of the paper, run again.
    #[default]
    Reproduced,
    /// The paper's number was used to set the model: that it comes out proves nothing.
    Calibrated,
    /// A goal beyond the paper.
    Beyond,
}

impl Class {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Golden => "golden",
            Self::Reproduced => "reproduced",
            Self::Calibrated => "calibrated",
            Self::Beyond => "beyond",
        }
    }
}

/// One sentence or figure of a paper, and what came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Name within the reproduction.
    pub id: String,
    /// Figure or table of the paper.
    pub figure: String,
    /// What is claimed.
    pub claim: String,
    /// The paper's value.
    pub paper: String,
    /// The value computed here.
    pub ours: Option<f64>,
    /// Unit of both.
    pub unit: String,
    /// Whether ours is within what the rule allows; `note` says the rule.
    pub holds: bool,
    /// The rule, and what differs.
    pub note: String,
    /// What kind of agreement it is about.
    pub class: Class,
    /// The paper's value from and to, where it is a number.
    #[serde(skip)]
    pub paper_range: Option<(f64, f64)>,
}

/// A string of the file, and where it is.
type Words = Spanned<String>;

/// `claims.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimsFile {
    /// Name of the reproduction.
    pub(super) name: String,
    /// The paper.
    pub(super) paper: String,
    /// Rows that groups of claims and tables go over.
    #[serde(default)]
    pub(super) list: BTreeMap<String, Vec<Table>>,
    /// Names of cells as the page shows them.
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    /// What claims have in common.
    #[serde(default)]
    like: BTreeMap<String, Fields>,
    group: Vec<Group>,
}

/// Claims that are made for every row of a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(rename = "for")]
    rows: Option<Rows>,
    #[serde(default)]
    every: Fields,
    claim: Vec<Fields>,
}

/// Rows: a list's name, or the rows themselves.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Rows {
    Named(String),
    Written(Vec<Table>),
}

impl Rows {
    pub(super) fn of(&self, lists: &BTreeMap<String, Vec<Table>>) -> Result<Vec<Table>, String> {
        match self {
            Self::Written(rows) => Ok(rows.clone()),
            Self::Named(name) => lists.get(name).cloned().ok_or_else(|| format!("there is no list `{name}`")),
        }
    }
}

/// The names of cells in falling order of their numbers, from the highest on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    of: Words,
    axis: String,
    names: Vec<String>,
}

/// The keys of a claim. Those that it lacks it has from its group, then from what it is like.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Fields {
    like: Option<Words>,
    class: Option<Class>,
    /// Terms of every selection.
    at: Option<Words>,
    id: Option<Words>,
    figure: Option<Words>,
    claim: Option<Words>,
    /// The paper's value as it is shown.
    paper: Option<Words>,
    /// The paper's value as a number, `paper` in expressions; or from which to which number.
    value: Option<Spanned<Value>>,
    ours: Option<Words>,
    unit: Option<Words>,
    note: Option<Words>,
    #[serde(rename = "let")]
    lets: BTreeMap<String, Words>,
    /// Left out where there is no number, since its cells are run in full only.
    optional: Option<bool>,

    // The rule: all that is given has to hold.
    within: Option<Spanned<Value>>,
    at_least: Option<Spanned<Value>>,
    at_most: Option<Spanned<Value>>,
    above: Option<Spanned<Value>>,
    below: Option<Spanned<Value>>,
    /// Within so many percent of `near`.
    within_percent: Option<f64>,
    /// From `near` by this to `near` times this.
    within_factor: Option<f64>,
    /// What those two are relative to; the paper's value where absent.
    near: Option<Words>,
    #[serde(rename = "where")]
    condition: Option<Words>,
    order: Option<Order>,
}

impl Fields {
    fn or(self, base: &Self) -> Self {
        let base = base.clone();
        let mut lets = base.lets;
        lets.extend(self.lets);
        macro_rules! merged {
            ($($key:ident),*) => { Self { $($key: self.$key.or(base.$key),)* lets } };
        }
        merged!(
            like,
            class,
            at,
            id,
            figure,
            claim,
            paper,
            value,
            ours,
            unit,
            note,
            optional,
            within,
            at_least,
            at_most,
            above,
            below,
            within_percent,
            within_factor,
            near,
            condition,
            order
        )
    }
}

/// How a number is compared with a bound.
#[derive(Clone, Copy, Debug)]
enum Bound {
    AtLeast,
    AtMost,
    Above,
    Below,
}

/// A claim with everything parsed.
#[derive(Clone, Debug)]
pub(super) struct Parsed {
    class: Class,
    at: Vec<Term>,
    variables: Table,
    lets: BTreeMap<String, Expression>,
    /// `id`, `figure`, `claim`, `paper`, `unit`, `note`.
    words: [Template; 6],
    value: Option<[Expression; 2]>,
    ours: Expression,
    optional: bool,
    bounds: Vec<(Bound, Expression)>,
    /// What the paper's value is times, or by.
    factors: Option<(f64, f64, Expression)>,
    condition: Option<Expression>,
    order: Option<(Expression, String, Vec<String>)>,
    /// Name of the claim, and where in the file it is computed.
    place: std::ops::Range<usize>,
}

/// A file while it is read, for the places of errors.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(super) fn complain(self, at: usize, problem: impl Into<String>) -> SpecError {
        Complaint::at(at..at, problem).in_file(self.file, Some(self.text))
    }

    pub(super) fn toml(self, error: &toml::de::Error) -> SpecError {
        Complaint::of_toml(error, &[]).in_file(self.file, Some(self.text))
    }

    /// Where the text of a string begins in the file: after its quotes, unless it is written with escapes.
    fn start(self, words: &Words) -> usize {
        let span = words.span();
        let raw = self.text.get(span.clone()).unwrap_or_default();
        span.start + raw.find(words.get_ref().as_str()).unwrap_or(0)
    }

    pub(super) fn expression(self, words: &Words) -> Result<Expression, SpecError> {
        let parsed = Expression::parse(words.get_ref(), self.start(words));
        parsed.map_err(|(at, problem)| self.complain(at, problem))
    }

    pub(super) fn template(self, words: &Words) -> Result<Template, SpecError> {
        let parsed = Template::parse(words.get_ref(), self.start(words));
        parsed.map_err(|(at, problem)| self.complain(at, problem))
    }

    /// A number, or an expression.
    fn number(self, value: &Spanned<Value>) -> Result<Expression, SpecError> {
        if let Some(number) = number_of(value.get_ref()) {
            return Ok(Expression::Number(number));
        }
        let text = value.get_ref().as_str();
        let text = text.ok_or_else(|| self.complain(value.span().start, "is neither a number nor an expression"))?;
        self.expression(&Spanned::new(value.span(), text.to_owned()))
    }

    /// Two numbers, or one as both.
    fn numbers(self, value: &Spanned<Value>) -> Result<[Expression; 2], SpecError> {
        let whole = || self.complain(value.span().start, "is not two numbers or expressions");
        let Value::Array(both) = value.get_ref() else {
            let one = self.number(value)?;
            return Ok([one.clone(), one]);
        };
        let [low, high] = &both[..] else { return Err(whole()) };
        let one = |inner: &Value| self.number(&Spanned::new(value.span(), inner.clone()));
        Ok([one(low)?, one(high)?])
    }
}

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

/// Reads and checks every claim.
pub(super) fn parse(source: Source<'_>, runs: &[Run]) -> Result<(ClaimsFile, Vec<Parsed>), SpecError> {
    let file: ClaimsFile = toml::from_str(source.text).map_err(|error| source.toml(&error))?;
    let mut claims = Vec::new();
    for group in &file.group {
        let place = group.claim.first().and_then(|claim| claim.id.as_ref()).map_or(0, |id| id.span().start);
        let rows = group.rows.as_ref().map_or_else(|| Ok(vec![Table::new()]), |rows| rows.of(&file.list));
        for row in rows.map_err(|problem| source.complain(place, problem))? {
            for own in &group.claim {
                let mut fields = own.clone().or(&group.every);
                if let Some(like) = &fields.like {
                    let base = file.like.get(like.get_ref());
                    let unknown =
                        || source.complain(like.span().start, format!("there is no [like.{}]", like.get_ref()));
                    fields = fields.clone().or(base.ok_or_else(unknown)?);
                }
                claims.push(parse_claim(source, fields, &row, runs)?);
            }
        }
    }
    Ok((file, claims))
}

fn parse_claim(source: Source<'_>, fields: Fields, row: &Table, runs: &[Run]) -> Result<Parsed, SpecError> {
    let place = fields.id.as_ref().map_or(0..0, Spanned::span);
    let missing = |key: &str| source.complain(place.start, format!("the claim has no `{key}`"));
    let needed = |key: &str, words: &Option<Words>| {
        words.as_ref().ok_or_else(|| missing(key)).and_then(|words| source.template(words))
    };
    let words = [
        needed("id", &fields.id)?,
        needed("figure", &fields.figure)?,
        needed("claim", &fields.claim)?,
        needed("paper", &fields.paper)?,
        needed("unit", &fields.unit)?,
        needed("note", &fields.note)?,
    ];
    let ours = fields.ours.as_ref().ok_or_else(|| missing("ours"))?;
    let optional_expression = |words: &Option<Words>| words.as_ref().map(|words| source.expression(words)).transpose();
    let lets = fields.lets.iter().map(|(name, words)| Ok((name.clone(), source.expression(words)?)));
    let at = fields.at.as_ref().map_or(Ok(Vec::new()), |at| {
        terms(at.get_ref(), row).map_err(|problem| source.complain(at.span().start, problem))
    })?;
    let claim = Parsed {
        class: fields.class.unwrap_or_default(),
        at,
        variables: row.clone(),
        lets: lets.collect::<Result<_, SpecError>>()?,
        words,
        value: fields.value.as_ref().map(|value| source.numbers(value)).transpose()?,
        ours: source.expression(ours)?,
        optional: fields.optional.unwrap_or(false),
        bounds: parse_bounds(source, &fields)?,
        factors: parse_factors(source, &fields)?,
        condition: optional_expression(&fields.condition)?,
        order: match &fields.order {
            Some(order) => Some((source.expression(&order.of)?, order.axis.clone(), order.names.clone())),
            None => None,
        },
        place: ours.span(),
    };
    let has_rule = claim.factors.is_some() || claim.condition.is_some() || claim.order.is_some();
    if claim.bounds.is_empty() && !has_rule {
        return Err(missing(
            "rule: within, at_least, at_most, above, below, within_percent, within_factor, where, order",
        ));
    }
    claim.check(source, runs)?;
    Ok(claim)
}

fn parse_bounds(source: Source<'_>, fields: &Fields) -> Result<Vec<(Bound, Expression)>, SpecError> {
    let mut bounds = Vec::new();
    if let Some(within) = &fields.within {
        let [low, high] = source.numbers(within)?;
        bounds.extend([(Bound::AtLeast, low), (Bound::AtMost, high)]);
    }
    let single = [
        (Bound::AtLeast, &fields.at_least),
        (Bound::AtMost, &fields.at_most),
        (Bound::Above, &fields.above),
        (Bound::Below, &fields.below),
    ];
    for (bound, value) in single {
        bounds.extend(value.as_ref().map(|value| Ok((bound, source.number(value)?))).transpose()?);
    }
    Ok(bounds)
}

fn parse_factors(source: Source<'_>, fields: &Fields) -> Result<Option<(f64, f64, Expression)>, SpecError> {
    let near = match &fields.near {
        Some(near) => source.expression(near)?,
        None => Expression::Name("paper".into(), 0),
    };
    let percent = fields.within_percent.map(|percent| (1.0 - percent / 100.0, 1.0 + percent / 100.0));
    Ok(match (percent, fields.within_factor) {
        (Some((low, high)), _) => Some((low, high, near)),
        // By, not times the inverse: the bound is the paper's value by the factor to the last digit.
        (None, Some(factor)) => Some((0.0, factor, near)),
        (None, None) => None,
    })
}

impl Parsed {
    /// Calls `act` for every expression.
    fn walk(&self, act: &mut dyn FnMut(&Expression)) {
        let own = std::iter::once(&self.ours)
            .chain(self.lets.values())
            .chain(self.value.iter().flatten())
            .chain(self.bounds.iter().map(|(_, bound)| bound))
            .chain(self.factors.iter().map(|(_, _, near)| near))
            .chain(self.condition.iter())
            .chain(self.order.iter().map(|(of, _, _)| of));
        own.for_each(|expression| expression.walk(act));
        self.words.iter().for_each(|words| words.walk(act));
    }

    fn scope<'a>(&self, results: &'a Results, labels: &'a BTreeMap<String, String>) -> Scope<'a> {
        let (at, variables, lets) = (self.at.clone(), self.variables.clone(), self.lets.clone());
        Scope { results, labels, at, variables, lets }
    }

    /// The runs that it needs.
    pub(super) fn runs(&self) -> BTreeSet<String> {
        let (empty, mut found) = (Results::default(), BTreeSet::new());
        let scope = self.scope(&empty, &NO_LABELS);
        self.walk(&mut |expression| {
            if let Expression::Select(selection) | Expression::Level(selection, _) = expression {
                let named =
                    scope.terms(&selection.terms).unwrap_or_default().into_iter().filter_map(|term| match term {
                        Term::Named(name) => Some(name),
                        Term::Is(axis, name) if axis == "run" => Some(name),
                        _ => None,
                    });
                found.extend(named);
            }
        });
        found
    }

    /// Whether names lead to names more often than there are names.
    fn is_deep(&self, expression: &Expression, left: usize) -> bool {
        let mut deep = false;
        expression.walk(&mut |one| {
            if let Expression::Name(name, _) = one
                && let Some(inner) = self.lets.get(name)
            {
                deep |= left == 0 || self.is_deep(inner, left - 1);
            }
        });
        deep
    }

    /// Checks that every name is known: of numbers, metrics, and cells.
    fn check(&self, source: Source<'_>, runs: &[Run]) -> Result<(), SpecError> {
        if self.lets.values().any(|inner| self.is_deep(inner, self.lets.len())) {
            return Err(source.complain(self.place.start, "a `let` uses itself"));
        }
        let empty = Results::default();
        let scope = self.scope(&empty, &NO_LABELS);
        let mut wrong: Option<At> = None;
        self.walk(&mut |expression| {
            let found = match expression {
                Expression::Name(name, offset) => {
                    let known = self.lets.contains_key(name) || self.variables.contains_key(name);
                    let known = known || name == "ours" || (name == "paper" && self.value.is_some());
                    (!known).then(|| (*offset, format!("nothing is called `{name}`")))
                }
                Expression::Select(selection) | Expression::Level(selection, _) => {
                    let known = scope.terms(&selection.terms);
                    let known = known.and_then(|terms| super::runs::check_terms(&selection.metric, &terms, runs));
                    known.err().map(|problem| (selection.offset, problem))
                }
                _ => None,
            };
            wrong = wrong.take().or(found);
        });
        match wrong {
            Some((at, problem)) => Err(source.complain(at, problem)),
            None => Ok(()),
        }
    }

    /// What came out, and whether it holds; none where it is left out.
    pub(super) fn judge(
        &self,
        source: Source<'_>,
        results: &Results,
        labels: &BTreeMap<String, String>,
    ) -> Result<Option<Claim>, SpecError> {
        let judged = self.judged(&mut self.scope(results, labels));
        judged.map_err(|problem| source.complain(self.place.start, problem))
    }

    fn judged(&self, scope: &mut Scope<'_>) -> Result<Option<Claim>, String> {
        let paper_range = match &self.value {
            None => None,
            Some([low, high]) => scope.value(low)?.number()?.zip(scope.value(high)?.number()?),
        };
        let mut name = |name: &str, number: Option<f64>| {
            number.map(|number| scope.variables.insert(name.into(), Value::Float(number)))
        };
        name("paper", paper_range.map(|(low, _)| low));
        let ours = scope.value(&self.ours)?.number()?;
        if ours.is_none() && self.optional {
            return Ok(None);
        }
        if let Some(ours) = ours {
            scope.variables.insert("ours".into(), Value::Float(ours));
        }
        let holds = ours.map_or(Ok(false), |ours| self.holds(ours, scope))?;
        let mut words = self.words.iter().map(|words| words.render(scope).map(Option::unwrap_or_default));
        let mut next = || words.next().unwrap_or_else(|| Ok(String::new()));
        let (id, figure, claim, paper, unit, note) = (next()?, next()?, next()?, next()?, next()?, next()?);
        Ok(Some(Claim { id, figure, claim, paper, ours, unit, holds, note, class: self.class, paper_range }))
    }

    fn holds(&self, ours: f64, scope: &Scope<'_>) -> Result<bool, String> {
        for (bound, limit) in &self.bounds {
            let Some(limit) = scope.value(limit)?.number()? else { return Ok(false) };
            let within = match bound {
                Bound::AtLeast => ours >= limit,
                Bound::AtMost => ours <= limit,
                Bound::Above => ours > limit,
                Bound::Below => ours < limit,
            };
            if !within {
                return Ok(false);
            }
        }
        if let Some((low, high, near)) = &self.factors {
            let Some(near) = scope.value(near)?.number()? else { return Ok(false) };
            let least = if *low == 0.0 { near / high } else { near * low };
            if ours < least || ours > near * high {
                return Ok(false);
            }
        }
        if let Some(condition) = &self.condition
            && scope.value(condition)?.number()? != Some(1.0)
        {
            return Ok(false);
        }
        let Some((of, axis, names)) = &self.order else { return Ok(true) };
        Ok(order(&scope.value(of)?, axis, scope.results).iter().zip(names).filter(|(one, name)| one == name).count()
            == names.len())
    }
}

/// The names of cells on an axis, those with the highest numbers first.
fn order(values: &Values, axis: &str, results: &Results) -> Vec<String> {
    let mut entries: Vec<_> = values.0.iter().collect();
    entries.sort_by(|left, right| right.mean().total_cmp(&left.mean()));
    let cells = entries.into_iter().filter_map(|entry| results.cells.get(entry.cell?));
    cells.filter_map(|cell| cell.place(axis).map(str::to_owned)).collect()
}
