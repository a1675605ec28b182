//! The markup of a page. Whatever is not written here is escaped where it is put in.

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

use super::draw::{DrawnChart, DrawnFigure, Layer};
use super::html::{Page, Piece};
use super::table::{Emphasis, Shown, ShownCell};
use super::{Provenance, TraceMeta, split_command};

const STYLE: &str = include_str!("../../assets/document.css");
const SCRIPT: &str = include_str!("../../assets/document.js");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const LINE: PreEscaped<&str> = PreEscaped("\n");

/// The whole page.
pub(super) fn page(page: &Page<'_>) -> String {
    let policy = if page.is_zoomable { format!("{POLICY}; script-src 'unsafe-inline'") } else { POLICY.to_owned() };
    let content = html! {
        (DOCTYPE) (LINE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { (page.title) " | " (page.command) } (LINE)
                style { (LINE) (PreEscaped(STYLE)) }
            } (LINE)
            body { (LINE) (header(page)) (LINE) main { (LINE)
                @if !page.contents.is_empty() { (contents(&page.contents)) }
                @for piece in &page.blocks { (block(piece, page)) (LINE) }
                @if let Some(provenance) = page.provenance { (again(provenance)) }
            } (LINE)
            @if page.is_zoomable { script { (LINE) (PreEscaped(SCRIPT)) } (LINE) } }
        }
    };
    content.into_string() + "\n"
}

fn header(page: &Page<'_>) -> Markup {
    html! {
        header {
            p class="kicker" {
                (page.command)
                @if let Some(provenance) = page.provenance { " " span { "version " (provenance.version) } }
            }
            h1 { (page.title) }
            p class="headline" { (marked(&page.headline)) }
            @if page.left_out > 0 {
                p class="note" {
                    "This document has too many results for one page: " (page.left_out) " of its figures are left out."
                }
            }
        }
    }
}

fn contents(titles: &[String]) -> Markup {
    html! {
        nav aria-label="Contents" {
            ul {
                @for (at, title) in titles.iter().enumerate() { li { a href={ "#section-" (at + 1) } { (title) } } }
            }
        } (LINE)
    }
}

fn block(piece: &Piece, page: &Page<'_>) -> Markup {
    // Below a heading a title is one level lower.
    let titled = |title: &str| html! { @if page.contents.is_empty() { h2 { (title) } } @else { h3 { (title) } } };
    html! {
        @match piece {
            Piece::Heading { number, title } => h2 id={ "section-" (number) } { (title) },
            Piece::Text(text) => @for line in text.lines() { (paragraph(line)) },
            Piece::Facts(facts) => dl { @for (name, value) in facts { dt { (name) } dd { (marked(value)) } } },
            Piece::Table { title, text, table: shown } => {
                @if !title.is_empty() { (titled(title)) }
                @if !text.is_empty() { p { (marked(text)) } }
                (table(label(title, text, &page.title), shown))
            },
            Piece::Figure(drawn) => {
                (titled(&drawn.title))
                @if !drawn.text.is_empty() { p { (marked(&drawn.text)) } }
                (figure(drawn))
            },
        }
    }
}

/// The name of a table for people who do not see it: its title, or the first sentence about it, or the page's title.
fn label<'a>(title: &'a str, text: &'a str, page: &'a str) -> &'a str {
    let sentence = text.split_once(". ").map_or(text, |(first, _)| first);
    [title, sentence, page].into_iter().find(|words| !words.is_empty()).unwrap_or_default()
}

/// Puts a table into a region that scrolls by itself.
fn scrolled(label: &str, table: Markup) -> Markup {
    html! { div class="scroll" role="region" aria-label=(label) tabindex="0" { (table) } }
}

fn table(title: &str, shown: &Shown) -> Markup {
    let content = html! {
        table {
            caption class="unseen" { (title) }
            thead {
                tr {
                    @for column in &shown.columns {
                        th scope="col" class=[column.right.then_some("number")] {
                            (column.name)
                            @if !column.unit.is_empty() { " " small { (column.unit) } }
                        }
                    }
                }
            }
            tbody {
                @for row in &shown.rows {
                    (LINE) tr {
                        @if let Some((first, cells)) = row.split_first() {
                            th scope="row" { (wrapped(&first.text)) }
                            @for (cell, column) in cells.iter().zip(shown.columns.iter().skip(1)) {
                                td class=(class_of(cell, column.right)) { (emphasised(cell)) }
                            }
                        }
                    }
                }
            }
        }
    };
    scrolled(title, content)
}

fn class_of(cell: &ShownCell, is_number: bool) -> String {
    let emphasis = match cell.emphasis {
        Emphasis::None => "",
        Emphasis::Best => " best",
        Emphasis::Fails => " fails",
        Emphasis::Doubtful => " doubtful",
    };
    format!("{}{emphasis}", if is_number { "number" } else { "" })
}

fn emphasised(cell: &ShownCell) -> Markup {
    html! {
        @if cell.emphasis == Emphasis::Best { span class="star" { "*" } }
        (marked(&cell.text))
        @if cell.emphasis == Emphasis::Doubtful { sup title="rests on too few values" { "?" } }
    }
}

fn figure(drawn: &DrawnFigure) -> Markup {
    let panels = html! { div class="panels" { @for one in &drawn.charts { (LINE) (chart(one, drawn.is_zoomable)) } } };
    html! {
        @match drawn.charts.first().filter(|_| drawn.is_zoomable) {
            Some(first) => div class="zoom" data-low=(first.span.0) data-high=(first.span.1) { (controls()) (panels) },
            None => (panels),
        }
        @if let Some((points, all)) = &drawn.thinned {
            p class="note" {
                (points) " of " (all)
                " points are drawn: the first, the last, the lowest and the highest of each stretch."
            }
        }
    }
}

fn controls() -> Markup {
    let buttons = [("in", "Magnify"), ("out", "Widen"), ("left", "Earlier"), ("right", "Later"), ("all", "All")];
    html! {
        div class="controls" role="group" aria-label="Part shown" hidden {
            @for (name, text) in buttons { button type="button" data-do=(name) { (text) } }
            span class="status" role="status" {}
        }
    }
}

/// A paragraph; a command at its end stands below it.
fn paragraph(line: &str) -> Markup {
    html! {
        @match split_command(line) {
            Some((text, command)) => {
                p { (marked(text)) }
                pre class="command" tabindex="0" { (command) }
            },
            None => p { (marked(line)) },
        }
    }
}

fn chart(drawn: &DrawnChart, is_zoomable: bool) -> Markup {
    let against = if drawn.upward.is_empty() { String::new() } else { format!("{} against ", drawn.upward) };
    let has_rows = drawn.rows > 0;
    let size = match (drawn.rows, drawn.names) {
        (0, 0) => None,
        (0, names) => Some(format!("--names:{names}")),
        (rows, _) => Some(format!("--rows:{rows}")),
    };
    html! {
        figure {
            figcaption class="above" { (drawn.title) }
            @if drawn.layers.len() > 1 {
                p class="key-line" {
                    @for layer in &drawn.layers {
                        span class="term" {
                            span class={ "key " (layer.colour) } aria-hidden="true" {}
                            (layer.name)
                        } " "
                    }
                }
            }
            div class={ "plot" @if has_rows { " rows" } @if drawn.names > 0 { " names" } } style=[size]
                role="img" aria-label={ (drawn.title) ": " (against) (drawn.across) } {
                div class="ticks-y" aria-hidden="true" {
                    @for tick in &drawn.ticks_y { span style={ "top:" (tick.at) "%" } { (tick.label) } }
                }
                div class={ "area" @if is_zoomable { " time" } } {
                    @if has_rows {
                        @for tick in &drawn.ticks_x { i class="rule-x" style={ "left:" (tick.at) "%" } {} }
                    } @else {
                        @for tick in &drawn.ticks_y { i class="rule-y" style={ "top:" (tick.at) "%" } {} }
                    }
                    svg viewBox="0 0 1000000 4000" preserveAspectRatio="none" aria-hidden="true" {
                        @for layer in &drawn.layers { (paths(layer)) }
                    }
                    @for total in &drawn.totals {
                        span class="total" style={ "left:" (total.left) "%;top:" (total.top) "%" } { (total.label) }
                    }
                }
                div class="ticks-x" aria-hidden="true" {
                    @for tick in &drawn.ticks_x { span style={ "left:" (tick.at) "%" } { (tick.label) } }
                }
            }
            figcaption {
                "Across: " (drawn.across) "."
                @if !drawn.upward.is_empty() { " Upward: " (drawn.upward) "." }
            }
        }
    }
}

fn paths(layer: &Layer) -> Markup {
    html! {
        g class=(layer.colour) {
            @if !layer.area.is_empty() { path class=(layer.area_class) d=(layer.area) {} }
            @if !layer.line.is_empty() { path class=(layer.line_class) d=(layer.line) {} }
        }
    }
}

fn again(meta: &Provenance) -> Markup {
    html! {
        section aria-labelledby="again" {
            h2 id="again" { "How to get this again" }
            pre class="command" tabindex="0" { (meta.command) }
            p {
                "Version " (meta.version) ", commit " (meta.commit) ", parameters " (meta.spec_sha256) "."
            }
            @if !meta.inputs.is_empty() { (scrolled("Inputs", inputs(&meta.inputs))) }
            @for (name, text) in &meta.specs { details { summary { (name) } pre tabindex="0" { (text) } } }
        } (LINE)
    }
}

fn inputs(inputs: &[TraceMeta]) -> Markup {
    html! {
        table {
            caption class="unseen" { "Inputs" }
            thead { tr { @for name in ["Input", "Format", "SHA-256"] { th scope="col" { (name) } } } }
            tbody {
                @for input in inputs {
                    @for (file, hash) in &input.files {
                        (LINE) tr { th scope="row" { (file) } td { (input.format) } td { code { (hash) } } }
                    }
                }
            }
        }
    }
}

/// A text, with its parts between backticks as code.
fn marked(text: &str) -> Markup {
    if !text.matches('`').count().is_multiple_of(2) {
        return text.render();
    }
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// As [`marked`]. Names with parameters are long, and may break after a colon.
fn wrapped(text: &str) -> Markup {
    PreEscaped(marked(text).into_string().replace(':', ":<wbr>"))
}
