//! A reproduction as one page: claims, figures, tables, method.

use serde::Serialize;

use super::{Claim, Provenance, Reproduction, Table};
use crate::report::ReportError;
use crate::report::figure::{DrawnFigure, render_page};

const TEMPLATE: &str = include_str!("../../assets/reproduce.html");

pub(super) fn render(reproduction: &Reproduction) -> Result<String, ReportError> {
    let view = View {
        name: reproduction.name,
        paper: reproduction.paper,
        method: &reproduction.method,
        holding: reproduction.holding(),
        claims: reproduction.claims.iter().map(Row::new).collect(),
        figures: reproduction.figures.iter().map(|figure| figure.draw()).collect(),
        tables: &reproduction.tables,
        meta: &reproduction.meta,
    };
    render_page("reproduce.html", TEMPLATE, &view)
}

/// What the template is given.
#[derive(Serialize)]
struct View<'a> {
    name: &'a str,
    paper: &'a str,
    method: &'a [String],
    holding: usize,
    claims: Vec<Row<'a>>,
    figures: Vec<DrawnFigure<'a>>,
    tables: &'a [Table],
    meta: &'a Provenance,
}

#[derive(Serialize)]
struct Row<'a> {
    claim: &'a Claim,
    ours: String,
}

impl<'a> Row<'a> {
    fn new(claim: &'a Claim) -> Self {
        Self { claim, ours: claim.ours.map_or("none".into(), |ours| format!("{ours:.2}")) }
    }
}
