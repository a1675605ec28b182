//! Is the page one small, well-formed, offline file, whatever the trace is called?

use super::fixture::{report, report_of};
use super::plain;
use crate::report::{HTML_BYTES_MAX, View, render_html};

#[test]
fn eight_results_of_a_hundred_thousand_points_stay_below_the_limit() {
    let page = render_html(&report_of(100_000, 100_000), &plain()).unwrap();
    assert!(page.len() < HTML_BYTES_MAX, "{} bytes", page.len());
    assert!(page.contains("of 800,000 recorded points are drawn"));
    assert_well_formed(&page);
}

#[test]
fn many_results_are_thinned_evenly() {
    let mut many = report_of(200, 5_000);
    let eight = many.outcomes.clone();
    for load in 2..12 {
        let more = eight.iter().cloned().map(|mut outcome| {
            outcome.load = format!("x{load}");
            outcome
        });
        many.outcomes.extend(more);
    }
    let page = render_html(&many, &plain()).unwrap();
    assert!(page.len() < HTML_BYTES_MAX, "{} bytes", page.len());
    assert!(page.contains("All comparisons") && page.contains("recorded points are drawn"));
    assert_eq!(page.matches("class=\"plot curve\"").count(), 2 * 11);
    assert_well_formed(&page);
}

#[test]
fn nothing_is_fetched() {
    let page = render_html(&report(), &plain()).unwrap();
    for reference in ["http:", "https:", "//", "src=", "@import", "url("] {
        let hits: Vec<_> = page.lines().filter(|line| line.contains(reference)).collect();
        let foreign: Vec<_> = hits.iter().filter(|line| !line.trim_start().starts_with("// ")).collect();
        assert!(foreign.is_empty(), "{reference}: {foreign:?}");
    }
}

#[test]
fn the_same_report_gives_the_same_bytes() {
    assert_eq!(render_html(&report(), &plain()).unwrap(), render_html(&report(), &plain()).unwrap());
}

#[test]
fn hostile_names_stay_text() {
    const NAME: &str = "</script></title><script>alert(1)</script>\"'`{{ 7*7 }}<!--&amp;";
    let mut report = report();
    for outcome in &mut report.outcomes {
        outcome.trace = NAME.into();
        outcome.scheduler = format!("{}{NAME}", outcome.scheduler);
        outcome.device = NAME.into();
        outcome.load = format!("{}{NAME}", outcome.load);
    }
    report.meta.command = NAME.into();
    report.meta.commit = NAME.into();
    report.meta.device_toml = NAME.into();
    report.meta.spec.traces = vec![NAME.into()];
    report.meta.traces[0].name = NAME.into();
    report.meta.traces[0].files[0] = (NAME.into(), NAME.into());
    let page = render_html(&report, &View::default()).unwrap();
    assert!(!page.contains("<script>alert") && !page.contains("<!--"));
    assert_eq!(page.matches("</script").count(), 1);
    // The page has one title, and so has each segment of a stacked bar.
    assert_eq!(page.matches("</title").count(), 1 + page.matches("<g class=").count());
    assert!(page.contains("{{ 7*7 }}"));
    assert_well_formed(&page);
}

#[test]
fn it_reads_without_script_and_without_sight() {
    let page = render_html(&report(), &plain()).unwrap();
    assert!(page.contains("<html lang=\"en\">") && page.contains("prefers-color-scheme: dark"));
    assert!(page.contains("@media print"));
    // The only thing that waits for the script is the row of buttons.
    assert_eq!(page.matches(" hidden>").count(), page.matches("class=\"controls\"").count());
    for (index, _) in page.match_indices("<th ") {
        assert!(page[index..].starts_with("<th scope="), "{}", &page[index..index + 60]);
    }
    for (index, _) in page.match_indices("<svg ") {
        let end = index + page[index..].find('>').unwrap();
        assert!(page[index..end].contains("aria-hidden") || page[index..end].contains("aria-label"));
    }
    assert_eq!(page.matches("<h1>").count(), 1);
}

/// Every element is closed in the order it was opened, attributes are quoted, and no `<` stands alone.
fn assert_well_formed(page: &str) {
    const VOID: [&str; 4] = ["meta", "br", "wbr", "!DOCTYPE"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        assert!(name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '!'), "<{tag}>");
        assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes nothing");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
            if name == "script" || name == "style" {
                rest = &rest[rest.find(&format!("</{name}>")).expect("raw text ends")..];
            }
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}
