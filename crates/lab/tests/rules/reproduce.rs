//! A reproduction says what it claims, of what, and how it judged.

use std::collections::BTreeSet;

use ioweir_lab::reproduce::bid::{Options, reproduce};
use ioweir_lab::reproduce::to_json;
use ioweir_lab::run::{Origin, Silent};

fn origin() -> Origin {
    Origin { version: "test".into(), commit: "test".into(), command: "test".into() }
}

#[test]
fn every_claim_of_the_bid_paper_is_judged_and_the_page_stands_alone() {
    let traces = format!("{}/../../traces/hadoop/hdd-emul", env!("CARGO_MANIFEST_DIR"));
    let options = Options { traces, quick: true };
    let done = reproduce(&options, &origin(), &Silent).expect("the traces are in the repository");
    let names: BTreeSet<&str> = done.claims.iter().map(|claim| claim.id.as_str()).collect();
    assert_eq!(names.len(), done.claims.len(), "names are unique");
    assert!(done.claims.len() >= 50);
    for claim in &done.claims {
        assert!(claim.ours.is_some(), "{} was computed", claim.id);
        assert!(!claim.paper.is_empty() && !claim.note.is_empty() && !claim.unit.is_empty(), "{}", claim.id);
    }
    assert!(done.holding() > 0 && done.holding() < done.claims.len(), "some hold, some fail, and both are said");
    let page = done.to_html().expect("the page renders");
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert!(!page.contains("http://") && !page.contains("https://"), "the page loads nothing");
    let json: serde_json::Value =
        serde_json::from_str(&to_json(std::slice::from_ref(&done)).expect("it renders")).expect("it is JSON");
    assert_eq!(json["claims"].as_array().map(Vec::len), Some(done.claims.len()));
    let again = reproduce(&options, &origin(), &Silent).expect("the traces are in the repository");
    assert_eq!(to_json(&[again]).ok(), to_json(&[done]).ok(), "the same input gives the same bytes");
}

#[test]
fn a_missing_trace_is_generated_and_the_page_says_so() {
    let options = Options { traces: "/nowhere".into(), quick: true };
    let done = reproduce(&options, &origin(), &Silent).expect("generators need no files");
    assert!(done.method[0].contains("Generated from a mix, since there is no trace: Grep"), "{}", done.method[0]);
    assert!(done.meta.inputs.iter().all(|trace| trace.format == "generated"));
    assert!(done.claims.iter().all(|claim| claim.ours.is_some()));
}

#[test]
fn the_reward_paper_holds_but_for_the_kernels_cfq() {
    use ioweir_lab::reproduce::reward;
    let options = reward::Options { quick: true };
    let done = reward::reproduce(&options, &origin(), &Silent).expect("its experiments run");
    let names: BTreeSet<&str> = done.claims.iter().map(|claim| claim.id.as_str()).collect();
    assert_eq!(names.len(), done.claims.len(), "names are unique");
    for claim in &done.claims {
        assert_eq!(claim.holds, claim.id != "figure-2-cfq-kernel", "{}: {:?}", claim.id, claim.ours);
        assert!(!claim.paper.is_empty() && !claim.note.is_empty(), "{}", claim.id);
    }
    let page = done.to_html().expect("the page renders");
    assert!(page.len() < 1_000_000 && !page.contains("http://") && !page.contains("https://"));
}
