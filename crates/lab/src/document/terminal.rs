//! Terminal: headline, paragraphs and aligned tables; figures and details are left out.
//!
//! The best value of a column has a `*`, so that it can be recognised without bold type. On a screen of limited width, prose is
//! wrapped; a table first wraps its columns of words, then leaves out spare columns and columns of numbers from the right, and a line below
//! names them.

use std::fmt::Write as _;

use ioweir_config::shown;
use unicode_width::UnicodeWidthStr as _;

use super::split_command;
use super::table::{ShownCell, ShownColumn};
use super::{Block, Document, DocumentError, Emphasis, Form, Table};

pub(super) const FORM: Form = Form { suffix: "txt", summary: "aligned tables, as a terminal shows them", write: plain };

/// The number of blanks between two columns.
const GAP: usize = 3;
/// Columns of words are not wrapped to fewer characters than this.
const WORDS_MIN: usize = 24;

/// How a terminal shows text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    /// Whether the best values are in bold type.
    pub bold: bool,
    /// Characters in a line; without it, lines are as long as their content.
    pub width: Option<usize>,
}

#[expect(clippy::unnecessary_wraps, reason = "a form may fail")]
fn plain(document: &Document) -> Result<Vec<u8>, DocumentError> {
    Ok(render(document, &document.blocks, Screen::default()).into_bytes())
}

// Writing to a string does not fail, so the results of `writeln!` below are ignored.

pub(super) fn render(document: &Document, blocks: &[Block], screen: Screen) -> String {
    let mut out = String::new();
    screen.push_text(&mut out, &document.title);
    if document.summary.is_empty() {
        screen.push_text(&mut out, &document.headline);
        push_blocks(&mut out, blocks.iter(), true, screen);
        return out;
    }
    let (tables, others): (Vec<&Block>, Vec<&Block>) =
        blocks.iter().partition(|block| matches!(block, Block::Table(_)));
    push_facts(&mut out, &document.summary, screen);
    push_blocks(&mut out, tables.into_iter(), false, screen);
    push_blocks(&mut out, others.into_iter(), false, screen);
    out
}

/// Writes blocks. Paragraphs follow one another directly; a blank line separates everything else.
fn push_blocks<'a>(out: &mut String, blocks: impl Iterator<Item = &'a Block>, mut is_text: bool, screen: Screen) {
    for block in blocks {
        let was_text = std::mem::replace(&mut is_text, matches!(block, Block::Text(_) | Block::Heading(_)));
        match block {
            Block::Heading(title) => {
                out.push('\n');
                screen.push_text(out, title);
            }
            Block::Text(text) => {
                if !was_text {
                    out.push('\n');
                }
                screen.push_text(out, text);
            }
            Block::Facts(facts) => {
                out.push('\n');
                push_facts(out, facts, screen);
            }
            Block::Table(table) if !table.is_detail && !table.rows.is_empty() => {
                if !table.title.is_empty() {
                    out.push('\n');
                    screen.push_text(out, &table.title);
                }
                out.push('\n');
                push_table(out, table, screen);
            }
            Block::Table(_) | Block::Figure(_) => is_text = was_text,
        }
    }
}

fn push_facts(out: &mut String, facts: &[(String, String)], screen: Screen) {
    let width = facts.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    for (name, value) in facts {
        let blanks = width - name.width();
        let lines = screen.wrapped(&format!("{}{:blanks$}  {}", shown(name), "", shown(value)), width + 2);
        let _ = writeln!(out, "{lines}");
    }
}

impl Screen {
    /// Writes lines of text, wrapped.
    fn push_text(self, out: &mut String, text: &str) {
        for line in text.lines() {
            let _ = writeln!(out, "{}", self.wrapped(&shown(line), 0));
        }
    }

    /// A line, broken between words where it is too long; the second and later lines begin with `indent` blanks. Words are never
    /// broken, and blanks at the beginning of the line are kept.
    #[must_use]
    pub fn wrapped(self, line: &str, indent: usize) -> String {
        match self.width {
            Some(width) if line.width() > width => broken(line, width, indent).join("\n"),
            _ => line.to_owned(),
        }
    }
}

/// The lines of a text that is broken between words; a word that is longer than a line has a line of its own.
fn broken(text: &str, width: usize, indent: usize) -> Vec<String> {
    if text.width() <= width {
        return vec![text.to_owned()];
    }
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut has_word = false;
    for word in words(text, width.saturating_sub(indent)) {
        if has_word && !word.is_empty() && line.width() + 1 + word.width() > width {
            lines.push(line.trim_end().to_owned());
            line = " ".repeat(indent);
        } else if has_word || word.is_empty() {
            line.push(' ');
        }
        has_word |= !word.is_empty();
        line.push_str(&word);
    }
    lines.push(line);
    lines
}

/// The words of a text. What stands between backquotes is one word if it fits a line, and so is the command at the end of a sentence,
/// so that it can be copied.
fn words(text: &str, width: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (text, command) = split_command(text).filter(|(_, command)| command.width() <= width).unwrap_or((text, ""));
    for word in text.split(' ').chain(Some(command).filter(|command| !command.is_empty())) {
        match words.last_mut() {
            Some(last) if last.matches('`').count() % 2 == 1 && last.width() + 1 + word.width() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

impl Table {
    /// The rows below their names, for a terminal.
    #[must_use]
    pub fn to_terminal(&self, screen: Screen) -> String {
        let mut out = String::new();
        push_table(&mut out, self, screen);
        out
    }
}

/// The columns that fit a screen, each with its place in the table and its width. Columns of words are wrapped before a column is
/// left out. Spare columns are left out first, then numbers, then words, each from the right; the first column stays.
fn fitted(natural: &[usize], columns: &[ShownColumn], screen: Screen) -> Vec<(usize, usize)> {
    let mut kept: Vec<(usize, usize)> = natural.iter().copied().enumerate().collect();
    let Some(width) = screen.width else { return kept };
    loop {
        let excess = (whole(&kept) + GAP * kept.len().saturating_sub(1)).saturating_sub(width);
        let mut narrowed = kept.clone();
        for _ in 0..excess {
            let words = narrowed.iter_mut().filter(|(at, width)| !columns[*at].right && *width > WORDS_MIN);
            let Some(widest) = words.max_by_key(|(_, width)| *width) else { break };
            widest.1 -= 1;
        }
        if kept.len() <= 1 || whole(&narrowed) + excess <= whole(&kept) {
            return narrowed;
        }
        let last_that = |is: fn(&ShownColumn) -> bool| kept.iter().skip(1).rposition(|(at, _)| is(&columns[*at]));
        let last = last_that(|column| column.is_spare).or_else(|| last_that(|column| column.right));
        let last = last.map_or(kept.len() - 1, |at| at + 1);
        kept.remove(last);
    }
}

/// The widths of columns, added up.
fn whole(columns: &[(usize, usize)]) -> usize {
    columns.iter().map(|(_, width)| width).sum()
}

fn push_table(out: &mut String, table: &Table, screen: Screen) {
    let table = table.shown();
    let texts: Vec<Vec<String>> = table.rows.iter().map(|row| row.iter().map(text).collect()).collect();
    let natural: Vec<usize> = table
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let cells = texts.iter().map(|row| row[at].width());
            cells.chain([shown(&column.name).width(), column.unit.width()]).max().unwrap_or(0)
        })
        .collect();
    let kept = fitted(&natural, &table.columns, screen);
    push_names(out, &table.columns, &kept);
    for (row, texts) in table.rows.iter().zip(&texts) {
        let is_strong = |at: usize| screen.bold && matches!(row[at].emphasis, Emphasis::Best | Emphasis::Fails);
        let cells: Vec<Vec<String>> = kept.iter().map(|&(at, width)| broken(&texts[at], width, 0)).collect();
        for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let cell = |(cell, &(at, width)): (&Vec<String>, &(usize, usize))| {
                let text = cell.get(line).cloned().unwrap_or_default();
                aligned(&text, width, table.columns[at].right, is_strong(at))
            };
            push_line(out, cells.iter().zip(&kept).map(cell));
        }
    }
    let is_left_out = |at: &usize| kept.iter().all(|(kept, _)| kept != at);
    let left_out: Vec<String> =
        (0..natural.len()).filter(is_left_out).map(|at| shown(&table.columns[at].name)).collect();
    if !left_out.is_empty() {
        screen.push_text(out, &format!("too wide for this terminal: {}; --wide shows them", left_out.join(", ")));
    }
}

/// Writes the names and units of the columns that are kept, and a rule.
fn push_names(out: &mut String, columns: &[ShownColumn], kept: &[(usize, usize)]) {
    let name = |column: &ShownColumn| shown(&column.name);
    let line = |of: &dyn Fn(&ShownColumn) -> String| -> Vec<String> {
        let cell = |&(at, width): &(usize, usize)| aligned(&of(&columns[at]), width, columns[at].right, false);
        kept.iter().map(cell).collect()
    };
    if columns.iter().any(|column| !column.unit.is_empty()) {
        // The names of text columns are on the line above the rule, where number columns have their unit.
        push_line(out, line(&|column| if column.right { name(column) } else { String::new() }));
        push_line(out, line(&|column| if column.right { column.unit.clone() } else { name(column) }));
    } else {
        push_line(out, line(&name));
    }
    let _ = writeln!(out, "{}", "-".repeat(whole(kept) + GAP * kept.len().saturating_sub(1)));
}

fn text(cell: &ShownCell) -> String {
    let text = shown(&cell.text);
    match cell.emphasis {
        Emphasis::Best => format!("*{text}"),
        Emphasis::Doubtful => format!("{text}?"),
        Emphasis::None | Emphasis::Fails => text,
    }
}

/// A cell with blanks to its width, in bold type if it is strong.
fn aligned(cell: &str, width: usize, right: bool, strong: bool) -> String {
    let blanks = " ".repeat(width.saturating_sub(cell.width()));
    let (start, end) = if strong && !cell.is_empty() { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
    let (before, after) = if right { (blanks.as_str(), "") } else { ("", blanks.as_str()) };
    format!("{before}{start}{cell}{end}{after}")
}

/// Writes cells side by side, without trailing blanks.
fn push_line(out: &mut String, cells: impl IntoIterator<Item = String>) {
    let cells: Vec<String> = cells.into_iter().collect();
    out.push_str(cells.join(&" ".repeat(GAP)).trim_end());
    out.push('\n');
}
