//! A reproduction as one page: claims, tables, tracks, method.

use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use serde::Serialize;

use super::{Claim, Plot, Reproduction, Table, Track};
use crate::compare::Meta;
use crate::report::ReportError;

const STYLE: &str = include_str!("../../assets/report.css");
const TEMPLATE: &str = include_str!("../../assets/reproduce.html");

pub(super) fn render(reproduction: &Reproduction) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    // The name's ending turns escaping on.
    environment.add_template("reproduce.html", TEMPLATE)?;
    let page = environment.get_template("reproduce.html")?;
    let view = View {
        name: reproduction.name,
        paper: reproduction.paper,
        method: &reproduction.method,
        holding: reproduction.holding(),
        claims: reproduction.claims.iter().map(Row::new).collect(),
        tables: &reproduction.tables,
        tracks: &reproduction.tracks,
        plots: &reproduction.plots,
        meta: &reproduction.meta,
        spec: reproduction.meta.spec.to_toml(),
    };
    Ok(page.render(context! { page => Value::from(Serde(&view)), style => STYLE })?)
}

/// What the template is given.
#[derive(Serialize)]
struct View<'a> {
    name: &'a str,
    paper: &'a str,
    method: &'a [String],
    holding: usize,
    claims: Vec<Row<'a>>,
    tables: &'a [Table],
    tracks: &'a [Track],
    plots: &'a [Plot],
    meta: &'a Meta,
    spec: String,
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
