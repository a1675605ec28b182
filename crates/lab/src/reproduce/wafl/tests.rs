//! Is every claim judged, by the same rule every time?

use std::collections::BTreeSet;

use super::*;
use crate::run::Silent;
use crate::server::RunLength;

/// One load, one short run.
const TINY: Scale = Scale {
    loads: &[0.955],
    length: RunLength { warm_up: 1, measured: 3 },
    search: RunLength { warm_up: 1, measured: 3 },
    runs_max: 1,
};

/// The smallest server alone: what is claimed of others has no number then, and does not hold.
fn small() -> Reproduction {
    let origin = Origin { version: "test".into(), commit: "test".into(), command: "test".into() };
    at_scale(&CELLS[2..3], &TINY, &origin, &Silent).expect("no law is broken")
}

#[test]
fn every_claim_is_judged_and_the_same_input_gives_the_same_bytes() {
    let done = small();
    let names: BTreeSet<&str> = done.claims.iter().map(|claim| claim.id.as_str()).collect();
    assert_eq!(names.len(), done.claims.len(), "names are unique");
    for claim in &done.claims {
        assert!(!claim.paper.is_empty() && !claim.note.is_empty() && !claim.unit.is_empty(), "{}", claim.id);
        assert!(claim.ours.is_some() || !claim.holds, "{} holds without a number", claim.id);
    }
    let page = done.to_html().expect("the page renders");
    assert!(!page.contains("http://") && !page.contains("https://"), "the page loads nothing");
    assert!(page.contains("spread_percent"), "the costs are on the page");
    assert_eq!(small().to_text(), done.to_text());
}

#[test]
fn what_holds_on_the_smallest_server_is_known() {
    let done = small();
    let shown = done.claims.iter().filter(|claim| claim.ours.is_some());
    let lines: Vec<String> =
        shown.map(|claim| format!("{} {}", if claim.holds { "holds" } else { "FAILS" }, claim.id)).collect();
    insta::assert_snapshot!(lines.join("\n"));
}
