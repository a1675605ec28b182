//! A reproduction as a document: claims by figure with the paper's values beside ours, figures, tables, method.

use std::collections::BTreeMap;

use ioweir_config::format_decimals;
use serde::Serialize;

use super::{Claim, Class, Counts, Provenance, Reproduction, page};
use crate::document::{Cell, Column, Document, DocumentError, Figure, Format, Table, records_of};

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
        document.headline = format!("{}: {}.", self.paper, self.counts());
        let groups = by_figure(&self.claims);
        if !self.found.is_empty() {
            document.text(self.found.join(" "));
        }
        document.text(found(&groups));
        for (name, claims) in groups {
            document.heading(&name);
            document.push(table(&claims));
            document.push(rules(&claims));
            let charts = page::beside(&claims);
            if !charts.is_empty() {
                document.push(Figure::new("The paper and ours", "", charts));
            }
        }
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

/// The result in words: for which figures every claim holds, and which claims of others fail.
fn found(groups: &[(String, Vec<&Claim>)]) -> String {
    let is_failing = |claim: &&&Claim| !claim.holds && claim.bound.is_none();
    let fails = |claims: &[&Claim]| claims.iter().filter(is_failing).count();
    let whole: Vec<&str> =
        groups.iter().filter(|(_, claims)| fails(claims) == 0).map(|(name, _)| name.as_str()).collect();
    let whole = match whole.len() {
        0 => "No figure or table holds throughout.".to_owned(),
        all if all == groups.len() => "Every claim of every figure and table holds.".to_owned(),
        _ => format!("All claims hold of {}.", whole.join(", ")),
    };
    let part = |(name, claims): &(String, Vec<&Claim>)| {
        let first = claims.iter().find(is_failing)?;
        let (count, all) = (fails(claims), claims.len());
        let unit = if first.unit.is_empty() { String::new() } else { format!(" {}", first.unit) };
        let number = |ours| format!("here it is {}{unit}", format_decimals(ours, 2));
        let ours = first.ours.map_or_else(|| "here no number comes out".to_owned(), number);
        Some(format!(
            "{name}: {count} of {all} {} \u{201c}{}\u{201d}: the paper has {}, {ours}.",
            if count == 1 { "fails:" } else { "fail, first of them" },
            first.claim,
            first.paper
        ))
    };
    std::iter::once(whole).chain(groups.iter().filter_map(part)).collect::<Vec<_>>().join("\n")
}

fn table(claims: &[&Claim]) -> Table {
    let columns = [
        Column::text("verdict"),
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
        let verdict = match (claim.holds, claim.bound, claim.class) {
            (false, Some(_), _) => "out of reach",
            (false, None, _) => "FAILS",
            (true, _, Class::Calibrated) => "calibrated",
            (true, ..) => "holds",
        };
        table.row([
            Cell::from(verdict).fails_if(verdict == "FAILS"),
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

/// The rule of a claim, and what our data allow if that is not enough.
fn remark(claim: &Claim) -> String {
    let Claim { note, unit, .. } = claim;
    claim.bound.map_or_else(
        || note.clone(),
        |bound| format!("out of reach here: at most {} {unit}; {note}", format_decimals(bound, 1)),
    )
}

/// The paragraphs of a README after its headings, each on one line.
pub(super) fn paragraphs(readme: &str) -> Vec<String> {
    let parts = readme.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    parts.filter(|part| !part.is_empty() && !part.starts_with('#')).collect()
}
