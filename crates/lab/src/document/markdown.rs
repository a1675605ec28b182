//! Markdown: headings, paragraphs and tables with pipes, for documents and issue threads.

use std::fmt::Write as _;

use ioweir_config::shown;

use super::table::ShownCell;
use super::{Block, Document, DocumentError, Emphasis, Form, Provenance, Table};

pub(super) const FORM: Form = Form { suffix: "md", summary: "tables, for documents and issue threads", write: render };

// Writing to a string does not fail, so the results of `writeln!` below are ignored.

#[expect(clippy::unnecessary_wraps, reason = "a form may fail")]
fn render(document: &Document) -> Result<Vec<u8>, DocumentError> {
    let mut out = format!("# {}\n", escaped(&document.title));
    if !document.headline.is_empty() {
        let _ = writeln!(out, "\n{}", escaped(&document.headline));
    }
    for block in &document.blocks {
        match block {
            Block::Heading(title) => {
                let _ = writeln!(out, "\n## {}", escaped(title));
            }
            Block::Text(text) => {
                let lines: Vec<String> = text.lines().map(escaped).collect();
                let _ = writeln!(out, "\n{}", lines.join("\n"));
            }
            Block::Facts(facts) => push_facts(&mut out, facts),
            Block::Table(table) if !table.is_detail && !table.rows.is_empty() => push_table(&mut out, table),
            Block::Table(_) | Block::Figure(_) => {}
        }
    }
    if let Some(provenance) = &document.provenance {
        push_provenance(&mut out, provenance);
    }
    Ok(out.into_bytes())
}

fn push_facts(out: &mut String, facts: &[(String, String)]) {
    out.push('\n');
    for (name, value) in facts {
        let _ = writeln!(out, "- {}: {}", escaped(name), escaped(value));
    }
}

fn push_table(out: &mut String, table: &Table) {
    if !table.title.is_empty() {
        let _ = writeln!(out, "\n### {}", escaped(&table.title));
    }
    if !table.text.is_empty() {
        let _ = writeln!(out, "\n{}", escaped(&table.text));
    }
    let shown = table.shown();
    out.push('\n');
    push_row(out, shown.columns.iter().map(|column| escaped(&column.title())));
    push_row(out, shown.columns.iter().map(|column| if column.right { "---:" } else { "---" }.to_owned()));
    for row in &shown.rows {
        push_row(out, row.iter().map(cell));
    }
}

fn cell(cell: &ShownCell) -> String {
    let text = escaped(&cell.text);
    match cell.emphasis {
        Emphasis::None => text,
        Emphasis::Best | Emphasis::Fails => format!("**{text}**"),
        Emphasis::Doubtful => format!("{text}?"),
    }
}

fn push_row(out: &mut String, cells: impl Iterator<Item = String>) {
    let _ = writeln!(out, "| {} |", cells.collect::<Vec<_>>().join(" | "));
}

fn push_provenance(out: &mut String, provenance: &Provenance) {
    let _ = writeln!(out, "\n## How to get this again\n");
    let _ = writeln!(out, "- ioweir {} ({})", escaped(&provenance.version), escaped(&provenance.commit));
    let _ = writeln!(out, "- parameters SHA-256 {}", escaped(&provenance.spec_sha256));
    for input in &provenance.inputs {
        for (file, sha256) in &input.files {
            let _ = writeln!(out, "- {} ({}) SHA-256 {}", escaped(file), escaped(&input.format), escaped(sha256));
        }
    }
    // An indented block is code, so nothing inside it is markup.
    let lines = provenance.command.lines().map(|line| format!("    {}", shown(line)));
    let _ = writeln!(out, "\n{}", lines.collect::<Vec<_>>().join("\n"));
}

/// Plain text: anything that Markdown or HTML would take for markup is escaped.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for character in shown(text).chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => out.extend(['\\', character]),
            _ => out.push(character),
        }
    }
    out
}
