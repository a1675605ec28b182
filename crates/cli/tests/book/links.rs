//! The links of the documents lead somewhere, and every document is a chapter of the book.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{documents, root};

/// Documents at the root that link like those of the book.
const AT_ROOT: &[&str] = &["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md"];

/// The targets of a document's links, outside of its code.
fn targets(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code || line.starts_with("    ") {
            continue;
        }
        // Code in a line may hold brackets.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        let parts = prose.split("](").skip(1);
        targets.extend(parts.filter_map(|part| Some(part.split_once(')')?.0.to_owned())));
    }
    targets
}

/// The names by which the headings of a document are linked to.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
        }
        let Some((marks, title)) = line.split_once(' ') else { continue };
        if in_code || marks.is_empty() || marks.chars().any(|mark| mark != '#') {
            continue;
        }
        let lower = title.to_lowercase();
        let kept = lower.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        let name: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
        // A second heading of the same words is the first one's with a number.
        let number = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(number).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

fn problem(from: &Path, target: &str) -> Option<String> {
    let target = target.trim_matches(['<', '>']);
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { from.to_owned() } else { from.parent().unwrap().join(file) };
    let Ok(path) = path.canonicalize() else { return Some(format!("{file} is not there")) };
    let anchor = anchor.filter(|_| path.extension().is_some_and(|suffix| suffix == "md"))?;
    let is_there = anchors(&fs::read_to_string(&path).unwrap()).contains(anchor);
    (!is_there).then(|| format!("{file} has no heading #{anchor}"))
}

#[test]
fn every_link_of_the_documents_leads_somewhere() {
    let mut dead = Vec::new();
    let mut count = 0;
    for path in documents().into_iter().chain(AT_ROOT.iter().map(|name| root().join(name))) {
        for target in targets(&fs::read_to_string(&path).unwrap()) {
            count += 1;
            dead.extend(problem(&path, &target).map(|problem| format!("{}: {target}: {problem}", path.display())));
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
    assert!(count > 200, "links are found");
}

#[test]
fn every_document_is_a_chapter_of_the_book() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let chapters: BTreeSet<PathBuf> =
        targets(&summary).iter().filter_map(|target| docs.join(target).canonicalize().ok()).collect();
    // Measurements of a day are linked to from chapters.
    let is_chapter = |path: &PathBuf| chapters.contains(path) || path.starts_with(docs.join("benchmarks"));
    let left: Vec<PathBuf> =
        documents().into_iter().filter(|path| !is_chapter(path) && !path.ends_with("SUMMARY.md")).collect();
    assert!(left.is_empty(), "{left:?}");
}
