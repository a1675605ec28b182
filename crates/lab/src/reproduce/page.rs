//! A reproduction as one page: claims by figure with the paper's values beside ours, figures, tables, method.

use serde::Serialize;

use super::{Claim, Class, Provenance, Reproduction, Table, views};
use crate::report::Figure;
use crate::report::ReportError;
use crate::report::figure::{DrawnFigure, render_page};

const TEMPLATE: &str = include_str!("../../assets/reproduce.html");

pub(super) fn render(reproduction: &Reproduction) -> Result<String, ReportError> {
    let groups = by_figure(&reproduction.claims);
    let beside: Vec<Figure> = groups
        .iter()
        .map(|(name, claims)| Figure {
            title: format!("{name}: the paper and ours"),
            text: String::new(),
            charts: views::beside(claims),
        })
        .collect();
    let groups = groups.iter().zip(&beside).map(|((name, claims), figure)| Group {
        name: name.clone(),
        claims: claims.iter().map(|claim| Row::new(claim)).collect(),
        beside: (!figure.charts.is_empty()).then(|| figure.draw()),
    });
    let view = View {
        name: &reproduction.name,
        paper: &reproduction.paper,
        method: &reproduction.method,
        summary: reproduction.summary(),
        groups: groups.collect(),
        figures: reproduction.figures.iter().map(|figure| figure.draw()).collect(),
        tables: &reproduction.tables,
        meta: &reproduction.meta,
    };
    render_page("reproduce.html", TEMPLATE, &view)
}

/// The claims of each figure or table, in the order in which they come first: `12`, `5a` and `5b` are figures 12 and 5.
fn by_figure(claims: &[Claim]) -> Vec<(String, Vec<&Claim>)> {
    let mut groups: Vec<(String, Vec<&Claim>)> = Vec::new();
    for claim in claims {
        let number = claim.figure.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
        let name = if number.starts_with(|one: char| one.is_ascii_digit()) {
            format!("Figure {number}")
        } else {
            claim.figure.clone()
        };
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, claims)) => claims.push(claim),
            None => groups.push((name, vec![claim])),
        }
    }
    groups
}

/// The paragraphs of a README after its first heading, each in one line.
pub(super) fn paragraphs(readme: &str) -> Vec<String> {
    let parts = readme.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    parts.filter(|part| !part.is_empty() && !part.starts_with('#')).collect()
}

/// What the template is given.
#[derive(Serialize)]
struct View<'a> {
    name: &'a str,
    paper: &'a str,
    method: &'a [String],
    summary: String,
    groups: Vec<Group<'a>>,
    figures: Vec<DrawnFigure<'a>>,
    tables: &'a [Table],
    meta: &'a Provenance,
}

#[derive(Serialize)]
struct Group<'a> {
    name: String,
    claims: Vec<Row<'a>>,
    beside: Option<DrawnFigure<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    claim: &'a Claim,
    ours: String,
    calibrated: bool,
}

impl<'a> Row<'a> {
    fn new(claim: &'a Claim) -> Self {
        let ours = claim.ours.map_or("none".into(), |ours| format!("{ours:.2}"));
        Self { claim, ours, calibrated: claim.class == Class::Calibrated }
    }
}
