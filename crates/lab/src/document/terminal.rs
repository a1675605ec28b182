//! Terminal: headline, paragraphs and aligned tables; figures and details are left out.
//!
//! The best value of a column has a `*`, so that it can be recognised without bold type.

use std::fmt::Write as _;

use ioweir_config::shown;
use unicode_width::UnicodeWidthStr as _;

use super::table::ShownCell;
use super::{Block, Document, DocumentError, Emphasis, Form, Table};

pub(super) const FORM: Form = Form { suffix: "txt", summary: "aligned tables, as a terminal shows them", write: plain };

/// The number of blanks between two columns.
const GAP: usize = 3;

#[expect(clippy::unnecessary_wraps, reason = "a form may fail")]
fn plain(document: &Document) -> Result<Vec<u8>, DocumentError> {
    Ok(render(document, &document.blocks, false).into_bytes())
}

// Writing to a string does not fail, so the results of `writeln!` below are ignored.

pub(super) fn render(document: &Document, blocks: &[Block], bold: bool) -> String {
    let mut out = format!("{}\n", shown(&document.title));
    if !document.headline.is_empty() {
        let _ = writeln!(out, "{}", shown(&document.headline));
    }
    // Paragraphs follow one another directly; a blank line separates everything else.
    let mut is_text = true;
    for block in blocks {
        let was_text = std::mem::replace(&mut is_text, matches!(block, Block::Text(_) | Block::Heading(_)));
        match block {
            Block::Heading(title) => {
                let _ = writeln!(out, "\n{}", shown(title));
            }
            Block::Text(text) => {
                if !was_text {
                    out.push('\n');
                }
                for line in text.lines() {
                    let _ = writeln!(out, "{}", shown(line));
                }
            }
            Block::Facts(facts) => push_facts(&mut out, facts),
            Block::Table(table) if !table.is_detail && !table.rows.is_empty() => {
                if !table.title.is_empty() {
                    let _ = writeln!(out, "\n{}", shown(&table.title));
                }
                out.push('\n');
                push_table(&mut out, table, bold);
            }
            Block::Table(_) | Block::Figure(_) => is_text = was_text,
        }
    }
    out
}

fn push_facts(out: &mut String, facts: &[(String, String)]) {
    let width = facts.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    out.push('\n');
    for (name, value) in facts {
        let blanks = width - name.width();
        let _ = writeln!(out, "{}{:blanks$}  {}", shown(name), "", shown(value));
    }
}

impl Table {
    /// The rows below their names, for a terminal.
    #[must_use]
    pub fn to_terminal(&self, bold: bool) -> String {
        let mut out = String::new();
        push_table(&mut out, self, bold);
        out
    }
}

fn push_table(out: &mut String, table: &Table, bold: bool) {
    let table = table.shown();
    let has_units = table.columns.iter().any(|column| !column.unit.is_empty());
    let texts: Vec<Vec<String>> = table.rows.iter().map(|row| row.iter().map(text).collect()).collect();
    let widths: Vec<usize> = table
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let cells = texts.iter().map(|row| row[at].width());
            cells.chain([shown(&column.name).width(), column.unit.width()]).max().unwrap_or(0)
        })
        .collect();
    let rights: Vec<bool> = table.columns.iter().map(|column| column.right).collect();
    let plain = vec![false; widths.len()];
    // The names of text columns are on the line above the rule, where number columns have their unit.
    let (upper, lower): (Vec<String>, Vec<String>) = table
        .columns
        .iter()
        .map(|column| match (shown(&column.name), column.right) {
            (name, true) => (name, column.unit.clone()),
            (name, false) => (String::new(), name),
        })
        .unzip();
    if has_units {
        push_line(out, &upper, &widths, &rights, &plain);
        push_line(out, &lower, &widths, &rights, &plain);
    } else {
        let names: Vec<String> = table.columns.iter().map(|column| shown(&column.name)).collect();
        push_line(out, &names, &widths, &rights, &plain);
    }
    let whole = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
    let _ = writeln!(out, "{}", "-".repeat(whole));
    for (row, texts) in table.rows.iter().zip(&texts) {
        let strong: Vec<bool> =
            row.iter().map(|cell| bold && matches!(cell.emphasis, Emphasis::Best | Emphasis::Fails)).collect();
        push_line(out, texts, &widths, &rights, &strong);
    }
}

fn text(cell: &ShownCell) -> String {
    let text = shown(&cell.text);
    match cell.emphasis {
        Emphasis::Best => format!("*{text}"),
        Emphasis::Doubtful => format!("{text}?"),
        Emphasis::None | Emphasis::Fails => text,
    }
}

/// Writes cells side by side, without trailing blanks.
fn push_line(out: &mut String, cells: &[String], widths: &[usize], rights: &[bool], strong: &[bool]) {
    let mut line = String::new();
    for (at, cell) in cells.iter().enumerate() {
        let blanks = " ".repeat(widths[at] - cell.width());
        let gap = if at > 0 { " ".repeat(GAP) } else { String::new() };
        let (start, end) = if strong[at] { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
        let (before, after) = if rights[at] { (blanks.as_str(), "") } else { ("", blanks.as_str()) };
        let _ = write!(line, "{gap}{before}{start}{cell}{end}{after}");
    }
    out.push_str(line.trim_end());
    out.push('\n');
}
