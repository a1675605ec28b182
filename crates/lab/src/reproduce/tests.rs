//! The claim engine on small papers, and the files of the papers that come with the program.

use std::collections::{BTreeMap, BTreeSet};

use super::expression::{Expression, Scope};
use super::results::{Cell, Course, Results};
use super::template::Template;
use super::*;
use crate::document::{Form, json_list};
use crate::run::Silent;

fn origin() -> Origin {
    Origin { version: "test".into(), commit: "test".into(), command: "test".into() }
}

/// Two schedulers at loads of 0.5 and 1.0, with two seeds, and a course.
fn results() -> Results {
    let cell = |scheduler: &str, load: &str, times: [f64; 2]| {
        let cell = Cell::new("r").at("scheduler", scheduler).at("load", load);
        times.into_iter().fold(cell, |cell, time| cell.metric("time", time))
    };
    let mut cells = vec![
        cell("noop", "0.5", [1.0, 2.0]),
        cell("noop", "1.0", [10.0, 30.0]),
        cell("cfq:quantum=2", "0.5", [2.0, 2.0]),
        cell("cfq:quantum=2", "1.0", [10.0, 10.0]),
    ];
    let counts = vec![vec![0.0, 10.0, 20.0, 30.0], vec![0.0, 20.0, 40.0, 60.0]];
    cells[0].courses.insert("requests".into(), Course::Steps { step_seconds: 10.0, counts });
    Results { cells }
}

fn scope<'a>(results: &'a Results, labels: &'a BTreeMap<String, String>) -> Scope<'a> {
    let variables = toml::from_str("who = \"noop\"\nlimit = 3").expect("it is TOML");
    let lets = BTreeMap::from([("all".to_owned(), Expression::parse("time[r]", 0).expect("it parses"))]);
    Scope { results, labels, at: Vec::new(), variables, lets }
}

/// Every operator and function, by hand.
const GOLDEN: &[(&str, &[f64])] = &[
    ("1 + 2 * 3 - 8 / 4", &[5.0]),
    ("-(1 + 2)", &[-3.0]),
    ("limit", &[3.0]),
    ("1 < 2 and 2 <= 2 and 3 > 2 and 2 >= 2 and 1 == 1", &[1.0]),
    ("1 > 2", &[0.0]),
    // Selections: the mean over seeds of each cell.
    ("all", &[1.5, 20.0, 2.0, 10.0]),
    ("time[r, noop]", &[1.5, 20.0]),
    ("time[r, {who}, load=1]", &[20.0]),
    ("time[r, cfq:quantum=2, load>=0.6]", &[10.0]),
    ("time[scheduler=cfq:quantum=2, load<=0.6]", &[2.0]),
    ("time[r, bfq]", &[]),
    // Cell by cell; one number goes with all; lists of different length with none.
    ("time[noop] - time[cfq:quantum=2]", &[-0.5, 10.0]),
    ("time[noop] * 2", &[3.0, 40.0]),
    ("time[noop] + all", &[]),
    // Seed by seed: (1/2 + 2/2) / 2 and (10/10 + 30/10) / 2.
    ("ratio(time[noop], time[cfq:quantum=2])", &[0.75, 2.0]),
    ("change(time[noop], time[cfq:quantum=2])", &[-25.0, 100.0]),
    ("saved(time[cfq:quantum=2], time[noop])", &[-100.0 / 3.0, 50.0]),
    ("lesser(time[noop], time[cfq:quantum=2], 9)", &[1.5, 9.0]),
    ("greater(time[noop], time[cfq:quantum=2])", &[2.0, 20.0]),
    ("abs(0 - time[noop])", &[1.5, 20.0]),
    ("median(time[noop])", &[1.5, 20.0]),
    ("lowest(all)", &[1.5]),
    ("highest(all)", &[20.0]),
    ("first(all)", &[1.5]),
    ("last(all)", &[10.0]),
    ("sum(all)", &[33.5]),
    ("mean(all)", &[8.375]),
    ("mean(time[bfq])", &[]),
    ("count(all > 5)", &[2.0]),
    ("only(all > 5)", &[1.0, 1.0]),
    // 30 and 60 requests in the 20 s from 10 s on.
    ("level(requests[noop], 10, 30)", &[2.25]),
];

#[test]
fn every_operator_comes_to_what_it_is_by_hand() {
    let (results, labels) = (results(), BTreeMap::new());
    let scope = scope(&results, &labels);
    for (text, expected) in GOLDEN {
        let expression = Expression::parse(text, 0).expect(text);
        let got = scope.value(&expression).expect(text).means();
        assert_eq!(got.len(), expected.len(), "{text}: {got:?}");
        assert!(got.iter().zip(*expected).all(|(got, expected)| (got - expected).abs() < 1e-12), "{text}: {got:?}");
    }
    let half =
        Expression::parse("half_width(time[noop, load=0.5], time[cfq:quantum=2, load=0.5])", 0).expect("it parses");
    // Ratios 0.5 and 1: deviation 0.3536 over the root of two, times 12.706.
    let width = scope.value(&half).expect("it is one cell").means()[0];
    assert!((width - 317.65).abs() < 0.01, "{width}");
}

#[test]
fn sentences_show_numbers_as_they_say_and_leave_out_what_does_not_exist() {
    let (results, labels) = (results(), BTreeMap::from([("1.0".to_owned(), "full load".to_owned())]));
    let scope = scope(&results, &labels);
    let cases = [
        ("{who} at {limit}", "noop at 3"),
        ("{limit:+.1}", "+3.0"),
        ("{time[noop, load=0.5]:.2} s[ of {time[bfq]} s]", "1.50 s"),
        ("most at {time[noop]:highest load}", "most at full load"),
    ];
    for (text, expected) in cases {
        let shown = Template::parse(text, 0).expect(text).render(&scope).expect(text);
        assert_eq!(shown.as_deref(), Some(expected), "{text}");
    }
    let missing = Template::parse("{time[bfq]}", 0).expect("it parses");
    assert_eq!(missing.render(&scope), Ok(None));
}

const EXPERIMENT: &str = r#"
[[run]]
name = "table"
kind = "written"
spec = { axes = ["who"], rows = [{ who = "a", iops = 100 }, { who = "b", iops = 50 }] }
"#;

/// A paper of one claim for each rule; `paper` is 100 everywhere.
fn claims(rule: &str) -> String {
    format!(
        "name = \"test\"\npaper = \"A paper\"\n[[group]]\n[[group.claim]]\nid = \"one\"\nfigure = \"1\"\nclaim = \"IOPS\"\nunit = \
         \"\"\npaper = \"{{paper}}\"\nvalue = 90\nnote = \"rule\"\nours = \"iops[table, a]\"\n{rule}\n"
    )
}

fn paper(claims: String) -> Paper {
    Paper {
        name: "test",
        experiment: ("experiment.toml", EXPERIMENT),
        claims: ("claims.toml", claims.leak()),
        page: ("page.toml", ""),
        readme: "# Head\n\nOne\nparagraph.\n",
        files: &[],
    }
}

fn json(done: &Reproduction) -> String {
    json_list(&[done.document().expect("it renders")])
}

fn reproduced(claims: String) -> Reproduction {
    paper(claims).reproduce(&Options::default(), &origin(), &Silent).expect("it runs")
}

#[test]
fn a_rule_decides_whether_a_claim_holds() {
    let cases = [
        ("within = [100, 100]", true),
        ("within = [101, 200]", false),
        ("within = [0, \"iops[table, b] * 2\"]", true),
        ("at_least = 100", true),
        ("at_least = 100.5", false),
        ("at_most = 100", true),
        ("at_most = 99", false),
        ("above = 100", false),
        ("above = 99", true),
        ("below = 100", false),
        ("below = 101", true),
        ("within_percent = 12", true),
        ("within_percent = 11", false),
        ("within_percent = 1\nnear = \"iops[table, b] * 2\"", true),
        ("within_factor = 1.2", true),
        ("within_factor = 1.1", false),
        ("where = \"ours == iops[table, b] * 2\"", true),
        ("where = \"ours < paper\"", false),
        ("order = { of = \"iops[table]\", axis = \"who\", names = [\"a\", \"b\"] }", true),
        ("order = { of = \"iops[table]\", axis = \"who\", names = [\"b\"] }", false),
        // All that is given has to hold.
        ("at_least = 1\nbelow = 2", false),
    ];
    for (rule, holds) in cases {
        let done = reproduced(claims(rule));
        assert_eq!((done.claims[0].holds, done.claims[0].ours), (holds, Some(100.0)), "{rule}");
        assert_eq!(done.claims[0].paper, "90");
    }
}

#[test]
fn a_claim_that_fails_is_reported_as_failing() {
    let done = reproduced(claims("at_least = 101"));
    let text = done.document().expect("it renders").to_terminal(false);
    assert!(text.contains("FAILS"), "{text}");
    let found = "No figure or table holds throughout.\nFigure 1: 1 of 1 fails: \u{201c}IOPS\u{201d}: the paper has 90, here it is 100.00.";
    assert!(text.contains(found), "{text}");
    assert!(done.summary().starts_with("0 of 1 claims hold"));
    assert!(json(&done).contains("\"holds\": false"));
    let done = reproduced(claims("at_least = 101").replace("iops[table, a]", "iops[table, who=a] / 0"));
    assert_eq!(
        (done.claims[0].ours, done.claims[0].holds),
        (None, false),
        "a number that does not exist does not hold"
    );
}

#[test]
fn a_calibrated_claim_is_never_counted_as_reproduced() {
    let done = reproduced(claims("at_least = 1\nclass = \"calibrated\""));
    assert!(done.claims[0].holds);
    assert_eq!(done.summary(), "1 of 1 claims hold; without the 1 that the model was calibrated by, 0 of 0");
    let other = reproduced(claims("at_least = 1"));
    assert_eq!((other.claims[0].class, other.summary().as_str()), (Class::Reproduced, "1 of 1 claims hold"));
    assert!(json(&other).contains("\"class\": \"reproduced\""));
}

#[test]
fn an_error_of_a_file_says_where_it_is() {
    let cases = [
        ("", "claims.toml:5:6: the claim has no `rule"),
        ("at_leas = 1", "claims.toml:13:1: unknown field `at_leas`"),
        ("at_least = \"ours +\"", "claims.toml:13:19: a number, a name"),
        ("at_least = \"mine\"", "claims.toml:13:13: nothing is called `mine`"),
        ("where = \"1 < iop[table, a]\"", "claims.toml:13:14: run `table` has no metric `iop`"),
        ("where = \"1 < iops[table, c]\"", "claims.toml:13:14: nothing in run `table` is called `c`"),
        ("where = \"1 < iops[a]\"", "claims.toml:13:14: `iops` of which run?"),
        ("where = \"1 < iops[table, whom=a]\"", "claims.toml:13:14: run `table` has no axis `whom`"),
        ("where = \"larger(1, 2)\"", "claims.toml:13:10: there is no function `larger`"),
        ("where = \"abs(1, 2)\"", "claims.toml:13:10: abs takes 1 arguments"),
        ("at_least = 1\nlike = \"that\"", "claims.toml:14:8: there is no [like.that]"),
        ("at_least = 1\nlet = { x = \"y\", y = \"x\" }", "claims.toml:12:8: a `let` uses itself"),
    ];
    for (rule, expected) in cases {
        let error = paper(claims(rule)).parse().err().expect(rule).to_string();
        assert!(error.starts_with(expected), "{rule}: {error}");
    }
    // A selection of several cells is found out when it is computed.
    let several = paper(claims("at_least = 1").replace("[table, a]", "[table]"));
    let error = several.reproduce(&Options::default(), &origin(), &Silent).expect_err("two cells").to_string();
    assert!(error.starts_with("claims.toml:12:8: 2 cells are selected"), "{error}");
    let mut broken = paper(claims("at_least = 1"));
    broken.experiment.1 = "[[run]]\nname = \"r\"\nkind = \"server\"\nspec = { loads = [1.0] }\n";
    let error = broken.parse().err().expect("the run lacks keys").to_string();
    assert!(error.starts_with("experiment.toml:2:8: missing field"), "{error}");
}

#[test]
fn a_claim_about_a_change_bounds_its_size_and_not_its_sign_alone() {
    let wafl = PAPERS.iter().find(|paper| paper.name == "wafl").expect("it comes with the program");
    let file: toml::Table = wafl.claims.1.parse().expect("it is TOML");
    for rule in ["lower", "higher", "number-lower", "number-higher"] {
        let like = file["like"][rule].as_table().expect("a table");
        assert!(like.contains_key("above") && like.contains_key("below"), "{rule}");
    }
    let with =
        |value: &str| reproduced(claims("above = 0\nbelow = \"greater(10 * paper, 20)\"").replace("value = 90", value));
    assert!(with("value = 11").claims[0].holds, "100 is less than ten times 11");
    assert!(!with("value = 2.28").claims[0].holds, "100 is more than ten times 2.28");
}

#[test]
fn the_files_of_every_paper_are_in_order() {
    for paper in PAPERS {
        let parsed = paper.parse().unwrap_or_else(|error| panic!("{}: {error}", paper.name));
        let names: BTreeSet<&str> = parsed.runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names.len(), parsed.runs.len(), "{}: names of runs are unique", paper.name);
        assert!(!document::paragraphs(paper.readme).is_empty());
    }
}

/// The smallest server alone, one load and one short run: what is claimed of others has no number then, and does not hold.
fn small() -> Reproduction {
    let wafl = PAPERS.iter().find(|paper| paper.name == "wafl").expect("it comes with the program");
    let full = wafl.experiment.1;
    let line = full.lines().find(|line| line.starts_with("quick = ")).expect("it has a quick form");
    let tiny = "quick = { loads = [0.955], warm_up = 1, measured = 3, search_measured = 3, runs_max = 1, server = [{ platform = \
                \"low-end\", workload = \"spc-1\", schedules = \"main\" }] }";
    let paper = Paper { experiment: ("experiment.toml", full.replace(line, tiny).leak()), ..*wafl };
    paper.reproduce(&Options { quick: true, ..Options::default() }, &origin(), &Silent).expect("no law is broken")
}

#[test]
fn every_claim_of_the_wafl_paper_is_judged_and_the_same_input_gives_the_same_bytes() {
    let done = small();
    let names: BTreeSet<&str> = done.claims.iter().map(|claim| claim.id.as_str()).collect();
    assert_eq!(names.len(), done.claims.len(), "names are unique");
    for claim in &done.claims {
        assert!(!claim.paper.is_empty() && !claim.note.is_empty() && !claim.unit.is_empty(), "{}", claim.id);
        assert!(claim.ours.is_some() || !claim.holds, "{} holds without a number", claim.id);
    }
    let form = Form::from_file_name("page.html").expect("it is a form");
    let page = form.render(&done.document().expect("it renders")).expect("the page renders");
    let page = String::from_utf8(page).expect("it is text");
    assert!(!page.contains("http://") && !page.contains("https://"), "the page loads nothing");
    assert!(page.contains("spread_percent"), "the costs are on the page");
    assert_eq!(json(&small()), json(&done));
}

#[test]
fn what_holds_on_the_smallest_server_is_known() {
    let done = small();
    let shown = done.claims.iter().filter(|claim| claim.ours.is_some());
    let lines: Vec<String> =
        shown.map(|claim| format!("{} {}", if claim.holds { "holds" } else { "FAILS" }, claim.id)).collect();
    insta::assert_snapshot!(lines.join("\n"));
}
