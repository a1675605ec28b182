//! Claims of a paper, read from `claims.toml`, checked against the runs, and each judged by its own rule.

use std::collections::BTreeMap;
use std::fmt;

use ioweir_config::{SpecError, from_table};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::expression::{Scope, text_of};
use super::{SourceFile, in_words};

/// The kind of agreement that a claim states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// A worked example with an exact result.
    Golden,
    /// A result of the paper, run again.
    #[default]
    Reproduced,
    /// The paper's number was used to set the model, so agreement proves nothing.
    Calibrated,
    /// A goal beyond the paper.
    Beyond,
}

/// The factor within which a result has the paper's magnitude.
const MAGNITUDE_FACTOR: f64 = 2.0;

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Neither the paper's size nor its sign, or not what the claim's own rule asks for.
    Fails,
    /// Our value lies on the paper's side, but not within a factor of two of its number.
    SignOnly,
    /// Our data cannot have it, whatever the model.
    OutOfReach,
    /// Agrees: a result with a number within a factor of two and on the paper's side, any other claim by its own rule.
    Holds,
    /// Agrees, and has to: the model was set by the paper's number.
    Input,
}

/// A sentence or figure of a paper, and our result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Name within the reproduction.
    pub id: String,
    /// Figure or table of the paper.
    pub figure: String,
    /// The claim in words.
    pub claim: String,
    /// The paper's value.
    pub paper: String,
    /// The value computed here.
    pub ours: Option<f64>,
    /// Unit of both.
    pub unit: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether our value lies on the paper's side of what would say nothing, with all of its interval where there is one; absent if
    /// the claim is a quantity, not a direction.
    pub sign: Option<bool>,
    /// Whether our value is within a factor of two of the paper's, on its side; absent if the paper has no number.
    pub magnitude: Option<bool>,
    /// The most that our data allow, where that is not enough for the claim to hold: it is out of reach here.
    pub bound: Option<f64>,
    /// The rule, and what differs.
    pub note: String,
    /// The kind of agreement that the claim states.
    pub class: Class,
    /// The range of the paper's value, if it is a number.
    #[serde(skip)]
    pub paper_range: Option<(f64, f64)>,
    /// From where to where our value has the paper's size, for a result with a number and no rule of its own.
    #[serde(skip)]
    pub accepted: Option<(f64, f64)>,
}

impl Claim {
    /// Whether it agrees with the paper.
    #[must_use]
    pub fn holds(&self) -> bool {
        matches!(self.verdict, Verdict::Holds | Verdict::Input)
    }
}

/// How many claims hold, and of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Agreement {
    /// The number of claims that hold.
    pub holds: usize,
    /// The number of all claims.
    pub of: usize,
}

impl Agreement {
    fn count(verdicts: impl Iterator<Item = bool>) -> Self {
        let add = |agreement: Self, holds| Self { holds: agreement.holds + usize::from(holds), of: agreement.of + 1 };
        verdicts.fold(Self::default(), add)
    }
}

/// Results of the paper, counted by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResultCounts {
    /// All of them: the sum of the others.
    pub of: usize,
    /// Results that hold.
    pub hold: usize,
    /// Results among those that hold for which the paper has a number: they are within a factor of two of it. The others hold by direction.
    pub hold_by_size: usize,
    /// Results that have the paper's sign, but not its size.
    pub sign_only: usize,
    /// Results that fail.
    pub fail: usize,
    /// Results that our data cannot have.
    pub out_of_reach: usize,
}

/// Claims counted by class and verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Results of the paper.
    pub results: ResultCounts,
    /// Numbers of the paper that the model was set by: agreement proves nothing.
    pub inputs: Agreement,
    /// Worked examples with an exact result.
    pub worked_examples: Agreement,
    /// Goals beyond the paper.
    pub beyond: Agreement,
}

impl Counts {
    #[must_use]
    pub fn of(claims: &[Claim]) -> Self {
        let of = |class: Class| claims.iter().filter(move |claim| claim.class == class);
        let with = |verdict: Verdict| of(Class::Reproduced).filter(|claim| claim.verdict == verdict).count();
        let whole = |class: Class| Agreement::count(of(class).map(Claim::holds));
        Self {
            results: ResultCounts {
                of: of(Class::Reproduced).count(),
                hold: with(Verdict::Holds),
                hold_by_size: of(Class::Reproduced)
                    .filter(|claim| claim.verdict == Verdict::Holds && claim.magnitude == Some(true))
                    .count(),
                sign_only: with(Verdict::SignOnly),
                fail: with(Verdict::Fails),
                out_of_reach: with(Verdict::OutOfReach),
            },
            inputs: whole(Class::Calibrated),
            worked_examples: whole(Class::Golden),
            beyond: whole(Class::Beyond),
        }
    }

    /// Counts inputs, worked examples and goals beyond the paper in a sentence; empty if there are none.
    #[must_use]
    pub fn others(&self) -> String {
        let parts = [
            (self.worked_examples, "worked examples are exact"),
            (self.inputs, "inputs agree, which proves nothing"),
            (self.beyond, "goals beyond the paper hold"),
        ];
        let parts = parts.iter().filter(|(agreement, _)| agreement.of > 0);
        let parts: Vec<String> =
            parts.map(|(Agreement { holds, of }, words)| format!("{holds} of {of} {words}")).collect();
        if parts.is_empty() { String::new() } else { format!("Counted apart: {}.", parts.join(", ")) }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResultCounts { of, hold, hold_by_size, sign_only, fail, out_of_reach } = self.results;
        write!(out, "of {of} results, {hold} agree")?;
        if hold > 0 {
            write!(
                out,
                " ({hold_by_size} by size, {} by direction, without a number of the paper)",
                hold - hold_by_size
            )?;
        }
        write!(out, ", {sign_only} have the paper's sign but not its size, {fail} fail")?;
        if out_of_reach > 0 { write!(out, ", and {out_of_reach} are out of reach with our data") } else { Ok(()) }
    }
}

/// `claims.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimsFile {
    /// Name of the reproduction.
    pub(super) name: String,
    pub(super) paper: String,
    /// Lists of rows, for which groups of claims and tables are repeated.
    #[serde(default)]
    list: BTreeMap<String, Vec<Table>>,
    /// The names of cells as the page shows them.
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    /// Keys that claims have in common.
    #[serde(default)]
    like: BTreeMap<String, Table>,
    group: Vec<Group>,
}

/// Claims that are repeated for every row of a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(rename = "for")]
    rows: Option<Rows>,
    /// The keys that all claims of the group have.
    #[serde(default)]
    every: Table,
    claim: Vec<Table>,
}

/// Rows: the name of a list, or the rows themselves.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Rows {
    Named(String),
    Written(Vec<Table>),
}

impl Rows {
    pub(super) fn of(&self, file: &ClaimsFile) -> Result<Vec<Table>, String> {
        match self {
            Self::Written(rows) => Ok(rows.clone()),
            Self::Named(name) => file.list.get(name).cloned().ok_or_else(|| format!("there is no list `{name}`")),
        }
    }
}

/// The keys of a claim: its own, then those of its group, then those of the claim it is like.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default)]
    class: Class,
    /// Terms of every selection in the claim.
    #[serde(default)]
    at: String,
    id: String,
    figure: String,
    claim: String,
    /// The paper's value as it is displayed.
    paper: String,
    /// The paper's value as a number or an expression, called `paper` in expressions; or its range.
    value: Option<Value>,
    ours: String,
    unit: String,
    note: String,
    /// The rule, an expression of `ours` and `paper`. A result with a number needs none: it has to have the paper's sign, and be within
    /// a factor of two. A rule that it has all the same has to hold, too.
    holds: Option<String>,
    /// Half the width of the interval of `ours`, an expression. With it, the sign counts only if all of the interval has it.
    interval: Option<String>,
    /// The value that would say nothing: 0 for a change, 1 for a ratio. With it, a claim with a `value` states a direction,
    /// too.
    neutral: Option<f64>,
    /// Whether ours has the paper's direction, if that is more than the side of `neutral`: an expression like `holds`.
    sign: Option<String>,
    /// The most that our data allow `ours` to be, an expression. A claim that does not hold is out of reach if it would not hold by that
    /// value either, or, where that is more than the paper's value, by the paper's value.
    bound: Option<String>,
    #[serde(default, rename = "let")]
    lets: BTreeMap<String, String>,
    /// Left out if there is no number, because its cells are only part of the full run.
    #[serde(default)]
    optional: bool,
}

/// The table with the keys of `base` that it lacks, and the same for tables within it.
fn with_base(mut own: Table, base: &Table) -> Table {
    for (key, value) in base {
        match (own.get_mut(key), value) {
            (None, _) => drop(own.insert(key.clone(), value.clone())),
            (Some(Value::Table(inner)), Value::Table(base)) => *inner = with_base(std::mem::take(inner), base),
            (Some(_), _) => {}
        }
    }
    own
}

impl ClaimsFile {
    pub(super) fn parse(source: SourceFile<'_>) -> Result<Self, SpecError> {
        source.read()
    }

    /// Judges every claim by the results of `scope`; without results, only checks the claims.
    pub(super) fn judge(&self, source: SourceFile<'_>, scope: &Scope<'_>) -> Result<Vec<Claim>, SpecError> {
        let mut claims = Vec::new();
        for group in &self.group {
            let rows = group.rows.as_ref().map_or_else(|| Ok(vec![Table::new()]), |rows| rows.of(self));
            for row in rows.map_err(|problem| source.complain("", &problem))? {
                for own in &group.claim {
                    let fields = self.fields(own, group);
                    let judged = fields.and_then(|fields| fields.judge(scope.on(&row, &fields.at)?));
                    let place = || format!("id = \"{}\"", own.get("id").map(text_of).unwrap_or_default());
                    claims.extend(judged.map_err(|problem| source.complain(&place(), &problem))?);
                }
            }
        }
        Ok(claims)
    }

    fn fields(&self, own: &Table, group: &Group) -> Result<Fields, String> {
        let mut table = with_base(own.clone(), &group.every);
        if let Some(like) = table.remove("like") {
            let base = self.like.get(&text_of(&like));
            table = with_base(table, base.ok_or_else(|| format!("there is no [like.{}]", text_of(&like)))?);
        }
        from_table(&table).map_err(|error| in_words(&error))
    }
}

impl Fields {
    /// Judges the claim; `None` if it is left out.
    fn judge(&self, mut scope: Scope<'_>) -> Result<Option<Claim>, String> {
        let of = |key: &str, problem: String| format!("{key}: {problem}");
        scope.lets.clone_from(&self.lets);
        scope.numbers.insert("ours", None);
        let paper_range = self.paper_range(&scope)?;
        scope.results.missed.take();
        if self.value.is_some() {
            scope.numbers.insert("paper", paper_range.map(|(low, _)| low));
        }
        for (name, text) in &self.lets {
            scope.value(text).map_err(|problem| of(name, problem))?;
        }
        let ours = scope.number(&self.ours).map_err(|problem| of("ours", problem))?;
        scope.results.is_left_out(ours.is_some()).map_err(|problem| of("ours", problem))?;
        scope.numbers.insert("ours", ours);
        let number = |scope: &Scope<'_>, key: &str, rule: &str| scope.number(rule).map_err(|problem| of(key, problem));
        let optional = |key: &str, rule: &Option<String>| {
            rule.as_ref().map(|rule| number(&scope, key, rule)).transpose().map(Option::flatten)
        };
        let (bound, interval) = (optional("bound", &self.bound)?, optional("interval", &self.interval)?);
        let accepted = self.accepted(paper_range);
        if self.holds.is_none() && accepted.is_none() && (self.value.is_none() || paper_range.is_some()) {
            return Err("`holds` is missing: only a result with a number is judged without a rule".into());
        }
        // How a value of ours agrees: by sign, by magnitude, and in all.
        let agreement = |scope: &Scope<'_>, ours: Option<f64>| {
            let is_true = |key: &str, rule: &Option<String>| {
                rule.as_ref().map(|rule| number(scope, key, rule).map(|truth| truth == Some(1.0))).transpose()
            };
            let (rule, sign) = (is_true("holds", &self.holds)?, is_true("sign", &self.sign)?);
            let paper = accepted.zip(paper_range);
            let (sign, magnitude) = self.agreement(paper, ours, interval, sign, rule);
            let by_number = magnitude.filter(|_| self.class == Class::Reproduced);
            let holds = by_number.is_none_or(|is_within| is_within && sign != Some(false));
            Ok::<_, String>((sign, magnitude, holds && rule.unwrap_or(true) && ours.is_some()))
        };
        let words = |key: &str, text: &str| {
            scope.sentence(text).map(Option::unwrap_or_default).map_err(|problem| of(key, problem))
        };
        let (sign, magnitude, holds) = agreement(&scope, ours)?;
        let mut claim = Claim {
            id: words("id", &self.id)?,
            figure: words("figure", &self.figure)?,
            claim: words("claim", &self.claim)?,
            paper: words("paper", &self.paper)?,
            ours,
            unit: words("unit", &self.unit)?,
            verdict: Verdict::Fails,
            sign,
            magnitude,
            bound: None,
            note: words("note", &self.note)?,
            class: self.class,
            paper_range,
            accepted: accepted.filter(|_| self.class == Class::Reproduced && self.holds.is_none()),
        };
        if let Some(bound) = bound.filter(|_| !holds) {
            // A bound is one-sided: where our data allow more than the paper's number, they allow that number.
            let mut is_allowed = false;
            for allowed in [bound, paper_range.map_or(bound, |(low, _)| bound.min(low))] {
                scope.numbers.insert("ours", Some(allowed));
                is_allowed |= agreement(&scope, Some(allowed))?.2;
            }
            claim.bound = (!is_allowed).then_some(bound);
        }
        claim.verdict = match (holds, self.class) {
            (true, Class::Calibrated) => Verdict::Input,
            (true, _) => Verdict::Holds,
            (false, _) if claim.bound.is_some() => Verdict::OutOfReach,
            (false, Class::Reproduced) if magnitude.is_some() && sign == Some(true) => Verdict::SignOnly,
            (false, _) => Verdict::Fails,
        };
        Ok((ours.is_some() || !self.optional).then_some(claim))
    }

    /// The ends of the range of the paper's value, the same if it is one number; `None` without a number.
    fn paper_range(&self, scope: &Scope<'_>) -> Result<Option<(f64, f64)>, String> {
        let ends: &[Value] = match &self.value {
            None => &[],
            Some(Value::Array(ends)) => ends,
            Some(one) => std::slice::from_ref(one),
        };
        let ends = ends.iter().map(|end| scope.number(&text_of(end)).map_err(|problem| format!("value: {problem}")));
        let ends: Vec<Option<f64>> = ends.collect::<Result<_, _>>()?;
        Ok(ends.first().copied().flatten().zip(ends.last().copied().flatten()))
    }

    /// From where to where a value of ours has the paper's size; `None` if the paper has no number, or one that says nothing.
    fn accepted(&self, paper_range: Option<(f64, f64)>) -> Option<(f64, f64)> {
        let neutral = self.neutral.unwrap_or(0.0);
        let (low, high) = paper_range.map(|(low, high)| (low - neutral, high - neutral))?;
        let (near, far) = if low.abs() < high.abs() { (low, high) } else { (high, low) };
        let ends = (near / MAGNITUDE_FACTOR + neutral, far * MAGNITUDE_FACTOR + neutral);
        (low * high > 0.0).then_some((ends.0.min(ends.1), ends.0.max(ends.1)))
    }

    /// Whether `ours` agrees with the paper by sign, and by magnitude. `paper` is the range of our values that have its size and the
    /// range of its own, if it has a number; `sign` and `rule` are what the claim's own rules say.
    fn agreement(
        &self,
        paper: Option<((f64, f64), (f64, f64))>,
        ours: Option<f64>,
        interval: Option<f64>,
        sign: Option<bool>,
        rule: Option<bool>,
    ) -> (Option<bool>, Option<bool>) {
        let Some(((low, high), (paper, _))) = paper else {
            // Without a number, or with one that says nothing, the rule states the direction.
            return (Some(sign.or(rule).unwrap_or(false)), None);
        };
        let ours = ours.unwrap_or(f64::NAN);
        let half_width = if self.interval.is_some() { interval.unwrap_or(f64::INFINITY) } else { 0.0 };
        let is_beyond = |neutral: f64| (ours - neutral) * (paper - neutral).signum() > half_width;
        let sign = sign.or_else(|| self.neutral.map(is_beyond));
        (sign, Some((low..=high).contains(&ours) && sign != Some(false)))
    }
}
