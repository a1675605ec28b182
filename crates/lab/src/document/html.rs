//! HTML: one page with every table and figure, which needs neither a network nor a script.
//!
//! Figures are inline SVG. Only pages with figures to magnify have a script, which changes the visible part. Foreign text
//! (names of traces, specs) reaches the page only through the escaping of its markup.

use ioweir_config::shown;

use super::draw::DrawnFigure;
use super::markup;
use super::table::Shown;
use super::{Block, Document, DocumentError, Form, Provenance, Table};

pub(super) const FORM: Form =
    Form { suffix: "html", summary: "one self-contained page with charts, readable offline", write: render };

/// The most bytes of a page, which is reached by thinning the points of its figures.
pub const HTML_BYTES_MAX: usize = 1_000_000;

/// The initial number of points of all figures of a page together, and the fewest and most of one series.
const POINTS: usize = 64_000;
const SERIES_POINTS: (usize, usize) = (400, 6_000);
/// A series thinned to fewer points would show nothing, so figures with more points are left out instead.
const SERIES_POINTS_MIN: usize = 100;

/// A page of less than [`HTML_BYTES_MAX`] bytes, unless its tables alone are longer.
fn render(document: &Document) -> Result<Vec<u8>, DocumentError> {
    let large = |points: &usize| *points > SERIES_POINTS.0;
    let series = document.figures().flat_map(|figure| &figure.charts).flat_map(|chart| &chart.series);
    let many = series.map(|series| series.points.len()).filter(large).count();
    let mut points_max = Some((POINTS / many.max(1)).clamp(SERIES_POINTS.0, SERIES_POINTS.1));
    loop {
        let text = markup::page(&Page::new(document, points_max));
        let Some(points) = points_max.filter(|_| text.len() > HTML_BYTES_MAX) else { return Ok(text.into_bytes()) };
        points_max = (points >= SERIES_POINTS_MIN).then_some(points * 3 / 4);
    }
}

/// The contents of a page.
pub(super) struct Page<'a> {
    pub(super) command: &'static str,
    pub(super) title: String,
    pub(super) headline: String,
    /// The headings to jump to; empty if there is one section.
    pub(super) contents: Vec<String>,
    pub(super) blocks: Vec<Piece>,
    pub(super) is_zoomable: bool,
    /// The number of figures for which there was no space.
    pub(super) left_out: usize,
    pub(super) provenance: Option<&'a Provenance>,
}

pub(super) enum Piece {
    Heading { number: usize, title: String },
    Text(String),
    Facts(Vec<(String, String)>),
    Table { title: String, text: String, table: Shown },
    Figure(DrawnFigure),
}

impl Document {
    fn figures(&self) -> impl Iterator<Item = &super::Figure> {
        self.blocks.iter().filter_map(|block| if let Block::Figure(figure) = block { Some(figure) } else { None })
    }
}

impl<'a> Page<'a> {
    fn new(document: &'a Document, points_max: Option<usize>) -> Self {
        let fits = |figure: &&super::Figure| points_max.is_some() || figure.points() <= SERIES_POINTS_MIN;
        let mut contents = Vec::new();
        let mut blocks = Vec::new();
        for block in &document.blocks {
            match block {
                Block::Heading(title) => {
                    contents.push(shown(title));
                    blocks.push(Piece::Heading { number: contents.len(), title: shown(title) });
                }
                Block::Text(text) => blocks.push(Piece::Text(prose(text))),
                Block::Facts(facts) => {
                    let fact = |(name, value): &(String, String)| (shown(name), shown(value));
                    blocks.push(Piece::Facts(facts.iter().map(fact).collect()));
                }
                Block::Table(table) if !table.rows.is_empty() => blocks.push(piece(table)),
                Block::Figure(figure) if fits(&figure) => {
                    blocks.push(Piece::Figure(figure.draw(points_max.unwrap_or(SERIES_POINTS_MIN))));
                }
                Block::Table(_) | Block::Figure(_) => {}
            }
        }
        Self {
            command: document.command,
            title: shown(&document.title),
            headline: prose(&document.headline),
            contents: if contents.len() > 1 { contents } else { Vec::new() },
            blocks,
            is_zoomable: document.figures().filter(fits).any(|figure| figure.is_zoomable),
            left_out: document.figures().filter(|figure| !fits(figure)).count(),
            provenance: document.provenance.as_ref(),
        }
    }
}

fn piece(table: &Table) -> Piece {
    let mut shown_table = table.shown();
    for row in &mut shown_table.rows {
        for (cell, column) in row.iter_mut().zip(&shown_table.columns) {
            cell.text = shown(&cell.text);
            if column.right {
                // A number stays with its unit; an interval may break before its sign.
                cell.text = cell.text.replace(' ', "\u{a0}").replace("\u{a0}±", " ±");
            }
        }
    }
    Piece::Table { title: shown(&table.title), text: prose(&table.text), table: shown_table }
}

/// A text in which percent signs stay on the line of their numbers.
fn prose(text: &str) -> String {
    text.lines().map(shown).collect::<Vec<_>>().join("\n").replace(" %", "\u{a0}%")
}
