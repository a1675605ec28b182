//! A reproduction as a document: claims by outcome, failures with their reasons, the paper's values beside ours, and the method.

use std::collections::BTreeMap;

use ioweir_config::format_decimals;
use serde::Serialize;

use super::{Claim, Counts, Provenance, Reproduction, Verdict, page};
use ioweir_lab::document::{Cell, Column, Document, DocumentError, Figure, Format, Table, records_of};

#[derive(Serialize)]
struct Json<'a> {
    meta: &'a Provenance,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    condition: BTreeMap<&'a str, &'a str>,
    counts: Counts,
    found: &'a [String],
    claims: &'a [Claim],
}

impl Reproduction {
    /// The document for all forms.
    ///
    /// # Errors
    /// [`DocumentError`], which would be a defect of the program.
    pub fn document(&self) -> Result<Document, DocumentError> {
        let condition = self.condition.iter().map(|(axis, value)| (axis.as_str(), value.as_str())).collect();
        let data =
            Json { meta: &self.meta, condition, counts: self.counts(), found: &self.found, claims: &self.claims };
        let mut document = Document::new("ioweir reproduce", &self.name, &data)?;
        let quick = if self.is_quick {
            " This is a quick run: shorter, and with fewer loads and seeds than the full one."
        } else {
            ""
        };
        document.headline = format!(
            "{}: {}. A result with a number agrees within a factor of 2 and on the paper's side.{quick}",
            self.paper,
            self.counts()
        );
        let figures = by_figure(&self.claims);
        if !self.found.is_empty() {
            document.text(self.found.join(" "));
        }
        let others = self.counts().others();
        if !others.is_empty() {
            document.text(others);
        }
        document.text(whole(&figures));
        for verdict in VERDICTS {
            let claims: Vec<&Claim> = self.claims.iter().filter(|claim| claim.verdict == verdict).collect();
            if !claims.is_empty() {
                push_claims(&mut document, verdict, &claims);
            }
        }
        let beside = figures.iter().map(|(name, claims)| (name, page::beside(claims)));
        let beside: Vec<_> = beside.filter(|(_, charts)| !charts.is_empty()).collect();
        if !beside.is_empty() {
            document.heading("The paper and ours");
        }
        beside.into_iter().for_each(|(name, charts)| document.push(Figure::new(name, "", charts)));
        document.heading("Results");
        self.figures.iter().for_each(|figure| document.push(figure.clone()));
        self.tables.iter().for_each(|table| document.push(table.clone()));
        let mut method = Table::new("How it was run, and what differs", [Column::text("")]).detail();
        self.method.iter().for_each(|paragraph| method.row([paragraph.as_str().into()]));
        document.push(method);
        document.records = records_of(&self.claims, &["id", "figure"]);
        document.provenance = Some(self.meta.clone());
        Ok(document)
    }
}

/// The verdicts in the order of the page: what asks for an explanation comes first.
const VERDICTS: [Verdict; 5] = [Verdict::Fails, Verdict::SignOnly, Verdict::OutOfReach, Verdict::Holds, Verdict::Input];

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Fails => "FAILS",
            Self::SignOnly => "sign only",
            Self::OutOfReach => "out of reach",
            Self::Holds => "holds",
            Self::Input => "input",
        }
    }

    fn heading(self, count: usize) -> String {
        let claims = if count == 1 { "claim" } else { "claims" };
        let (one, many) = match self {
            Self::Fails => ("fails", "fail"),
            Self::SignOnly => ("has the paper's sign, but not its size", "have the paper's sign, but not its size"),
            Self::OutOfReach => ("is out of reach with our data", "are out of reach with our data"),
            Self::Holds => ("holds", "hold"),
            Self::Input => ("was an input", "were inputs"),
        };
        format!("{count} {claims} {}", if count == 1 { one } else { many })
    }
}

/// The claims of one verdict. Why a claim does not hold stands below the table; the rules of all others are a detail.
fn push_claims(document: &mut Document, verdict: Verdict, claims: &[&Claim]) {
    document.heading(verdict.heading(claims.len()));
    document.push(table(claims));
    match verdict {
        Verdict::Fails | Verdict::SignOnly | Verdict::OutOfReach => document.text(explained(claims)),
        Verdict::Holds | Verdict::Input => document.push(rules(claims)),
    }
}

/// The claims of each figure or table, in the order of their first claims: `5a` and `5b` are figure 5.
fn by_figure(claims: &[Claim]) -> Vec<(String, Vec<&Claim>)> {
    let mut groups: Vec<(String, Vec<&Claim>)> = Vec::new();
    for claim in claims {
        let number = claim.figure.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
        let is_number = number.starts_with(|one: char| one.is_ascii_digit());
        let name = if is_number { format!("Figure {number}") } else { claim.figure.clone() };
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, claims)) => claims.push(claim),
            None => groups.push((name, vec![claim])),
        }
    }
    groups
}

/// A line for each rule and remark, with the claims that have it.
fn explained(claims: &[&Claim]) -> String {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for claim in claims {
        let remark = remark(claim);
        match lines.iter_mut().find(|(known, _)| *known == remark) {
            Some((_, ids)) => ids.push(&claim.id),
            None => lines.push((remark, vec![&claim.id])),
        }
    }
    lines.iter().map(|(remark, ids)| format!("{}: {remark}", ids.join(", "))).collect::<Vec<_>>().join("\n")
}

/// For which figures and tables every claim holds, in a sentence.
fn whole(figures: &[(String, Vec<&Claim>)]) -> String {
    let is_whole = |claims: &[&Claim]| claims.iter().all(|claim| claim.holds());
    let whole: Vec<&str> =
        figures.iter().filter(|(_, claims)| is_whole(claims)).map(|(name, _)| name.as_str()).collect();
    match whole.len() {
        0 => "No figure or table holds throughout.".to_owned(),
        all if all == figures.len() => "Every claim of every figure and table holds.".to_owned(),
        _ => format!("All claims hold of {}.", whole.join(", ")),
    }
}

fn table(claims: &[&Claim]) -> Table {
    let columns = [
        Column::text("verdict"),
        Column::text("figure"),
        Column::text("claim"),
        Column::text("paper").format(Format::Own),
        Column::digits("ours", 2),
        Column::text("unit"),
        Column::text("sign"),
        Column::text("factor 2"),
        Column::text("id"),
    ];
    let mut table = Table::new("", columns);
    let answer = |truth: Option<bool>| Cell::from(truth.map_or("", |truth| if truth { "yes" } else { "no" }));
    for claim in claims {
        table.row([
            Cell::from(claim.verdict.name()).fails_if(claim.verdict == Verdict::Fails),
            claim.figure.as_str().into(),
            claim.claim.as_str().into(),
            claim.paper.as_str().into(),
            claim.ours.into(),
            claim.unit.as_str().into(),
            answer(claim.sign),
            answer(claim.magnitude),
            claim.id.as_str().into(),
        ]);
    }
    table
}

/// The rule by which each claim is judged, and what differs, for readers of the page.
fn rules(claims: &[&Claim]) -> Table {
    let columns = [Column::text("claim"), Column::text("class"), Column::text("rule and remark")];
    let mut table = Table::new("Rules", columns).detail();
    for claim in claims {
        table.row([claim.id.as_str().into(), format!("{:?}", claim.class).to_lowercase().into(), remark(claim).into()]);
    }
    table
}

/// The rule of a claim, what our data allow if that is not enough, and what differs.
fn remark(claim: &Claim) -> String {
    let bound = claim.bound.map(|bound| format!("at most {} {} here", format_decimals(bound, 1), claim.unit));
    let plain = |number: f64| format_decimals(number, if number.abs() < 10.0 { 2 } else { 0 });
    let rule = claim.accepted.map(|(low, high)| format!("agrees from {} to {}", plain(low), plain(high)));
    let note = Some(claim.note.clone()).filter(|note| !note.is_empty());
    [bound, rule, note].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The paragraphs of a README after its headings, each on one line.
pub(super) fn paragraphs(readme: &str) -> Vec<String> {
    let parts = readme.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    parts.filter(|part| !part.is_empty() && !part.starts_with('#')).collect()
}
