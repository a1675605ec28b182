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
    /// Whether our value is within the bounds of the rule; `note` states the rule.
    pub holds: bool,
    /// Whether our value lies on the paper's side of the neutral value; absent if the claim is a quantity, not a direction.
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

/// Claims counted by the kind of their agreement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Results of the paper, each by its own rule.
    pub results: Agreement,
    /// Results that state a direction, by that.
    pub sign: Agreement,
    /// Results with a number, by whether ours is within a factor of two of it.
    pub magnitude: Agreement,
    /// Results that our data cannot have; none of the above counts them but the sign.
    pub out_of_reach: usize,
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
        let results = || of(Class::Reproduced);
        let in_reach = || results().filter(|claim| claim.bound.is_none());
        let whole = |class: Class| Agreement::count(of(class).map(|claim| claim.holds));
        Self {
            results: Agreement::count(in_reach().map(|claim| claim.holds)),
            sign: Agreement::count(results().filter_map(|claim| claim.sign)),
            magnitude: Agreement::count(in_reach().filter_map(|claim| claim.magnitude)),
            out_of_reach: results().count() - in_reach().count(),
            inputs: whole(Class::Calibrated),
            worked_examples: whole(Class::Golden),
            beyond: whole(Class::Beyond),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { results, sign, magnitude, inputs, worked_examples, beyond, .. } = *self;
        let parts = [
            (results, "results hold by their own rules"),
            (sign, "have the paper's sign"),
            (magnitude, "are within a factor of 2 of its number"),
            (worked_examples, "worked examples are exact"),
            (inputs, "inputs agree, which proves nothing"),
            (beyond, "goals beyond the paper hold"),
        ];
        let mut parts: Vec<String> = parts
            .iter()
            .filter(|(agreement, _)| agreement.of > 0)
            .map(|(Agreement { holds, of }, words)| format!("{holds} of {of} {words}"))
            .collect();
        if self.out_of_reach > 0 {
            parts.push(format!("{} are out of reach with our data", self.out_of_reach));
        }
        out.write_str(&parts.join(", "))
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
    /// The rule, an expression of `ours` and `paper`.
    holds: String,
    /// The value that would say nothing: 0 for a change, 1 for a ratio. With it, a claim with a `value` states a direction,
    /// too.
    neutral: Option<f64>,
    /// Whether ours has the paper's direction, if that is more than the side of `neutral`: an expression like `holds`.
    sign: Option<String>,
    /// The most that our data allow `ours` to be, an expression. The claim is out of reach if its rule refuses that, too, or, where
    /// that is more than the paper's value, the paper's value.
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
        let ends: &[Value] = match &self.value {
            None => &[],
            Some(Value::Array(ends)) => ends,
            Some(one) => std::slice::from_ref(one),
        };
        let ends = ends.iter().map(|end| scope.number(&text_of(end)).map_err(|problem| of("value", problem)));
        let ends: Vec<Option<f64>> = ends.collect::<Result<_, _>>()?;
        let paper_range = ends.first().copied().flatten().zip(ends.last().copied().flatten());
        if self.value.is_some() {
            scope.numbers.insert("paper", paper_range.map(|(low, _)| low));
        }
        for (name, text) in &self.lets {
            scope.value(text).map_err(|problem| of(name, problem))?;
        }
        let ours = scope.number(&self.ours).map_err(|problem| of("ours", problem))?;
        scope.numbers.insert("ours", ours);
        let is_true = |scope: &Scope<'_>, key: &str, rule: &str| {
            scope.number(rule).map(|truth| truth == Some(1.0)).map_err(|problem| of(key, problem))
        };
        let holds = is_true(&scope, "holds", &self.holds)? && ours.is_some();
        let sign = self.sign.as_ref().map(|rule| is_true(&scope, "sign", rule)).transpose()?;
        let bound = self.bound.as_ref().map(|bound| scope.number(bound)).transpose();
        let bound = bound.map_err(|problem| of("bound", problem))?.flatten();
        let words = |key: &str, text: &str| {
            scope.sentence(text).map(Option::unwrap_or_default).map_err(|problem| of(key, problem))
        };
        let mut claim = Claim {
            id: words("id", &self.id)?,
            figure: words("figure", &self.figure)?,
            claim: words("claim", &self.claim)?,
            paper: words("paper", &self.paper)?,
            ours,
            unit: words("unit", &self.unit)?,
            holds,
            sign: None,
            magnitude: None,
            bound: None,
            note: words("note", &self.note)?,
            class: self.class,
            paper_range,
        };
        (claim.sign, claim.magnitude) = self.agreement(&claim, sign);
        if let Some(bound) = bound.filter(|_| !claim.holds) {
            // A bound is one-sided: where our data allow more than the paper's number, they allow that number.
            let mut is_allowed = false;
            for allowed in [bound, paper_range.map_or(bound, |(low, _)| bound.min(low))] {
                scope.numbers.insert("ours", Some(allowed));
                is_allowed |= is_true(&scope, "holds", &self.holds)?;
            }
            claim.bound = (!is_allowed).then_some(bound);
        }
        Ok((ours.is_some() || !self.optional).then_some(claim))
    }

    /// Whether our value agrees with the paper's by sign, and by magnitude; `sign` is the answer of the claim's own rule.
    fn agreement(&self, claim: &Claim, sign: Option<bool>) -> (Option<bool>, Option<bool>) {
        let neutral = self.neutral.unwrap_or(0.0);
        let sides = claim.paper_range.map(|(low, high)| (low - neutral, high - neutral));
        let Some((low, high)) = sides.filter(|(low, high)| low * high > 0.0) else {
            // Without a number, or with one that says nothing, the rule states the direction.
            return (Some(sign.unwrap_or(claim.holds)), None);
        };
        let ours = claim.ours.map_or(f64::NAN, |ours| (ours - neutral) * low.signum());
        let (near, far) = (low.abs().min(high.abs()), low.abs().max(high.abs()));
        let sign = sign.or_else(|| self.neutral.map(|_| ours > 0.0));
        let is_within = ours >= near / MAGNITUDE_FACTOR && ours <= far * MAGNITUDE_FACTOR;
        (sign, Some(is_within && sign != Some(false)))
    }
}
