//! The claim engine on small papers, and the files of the papers that come with the program.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::{Cell, Course, same};
use super::*;
use ioweir_lab::document::{Form, json_list};
use ioweir_lab::run::Silent;

fn origin() -> Origin {
    Origin { version: "test".into(), commit: "test".into(), command: "test".into() }
}

/// The runs that the results below belong to.
const ASKED: &str = r#"
[[run]]
name = "r"
kind = "stored"
spec = { rows = [], axes = ["scheduler", "load"], metrics = { time = "", requests = "" }, courses = {} }
variant = [{ name = "noop", set = {} }, { name = "cfq:quantum=2", set = {} }, { name = "bfq", set = {} }, { name = "1", set = {} }, { name = "0.5", set = {} }]
"#;

fn runs() -> Vec<runs::Run> {
    runs::parse(SourceFile { file: "experiment.toml", text: ASKED }, &[]).expect("they are runs")
}

/// Two schedulers at loads of 0.5 and 1.0, with two seeds, and a course.
fn results(runs: &[runs::Run]) -> Results<'_> {
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
    Results::new(runs, cells)
}

fn scope<'a>(results: &'a Results<'a>, file: &'a ClaimsFile) -> Scope<'a> {
    let row = toml::from_str("who = \"noop\"\nlimit = 3").expect("it is TOML");
    let mut scope = Scope::new(results, file).on(&row, "run=r").expect("it is a term");
    scope.lets = BTreeMap::from([("all".to_owned(), "time[]".to_owned())]);
    scope
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
    ("time[noop]", &[1.5, 20.0]),
    ("time[{who}, load=1]", &[20.0]),
    ("time[cfq:quantum=2, load>=0.6]", &[10.0]),
    ("time[scheduler=cfq:quantum=2, load<=0.6]", &[2.0]),
    ("time[bfq]", &[]),
    // Cell by cell; a single number goes with all cells; lists of different length have nothing in common.
    ("time[noop] - time[cfq:quantum=2]", &[-0.5, 10.0]),
    ("time[noop] * 2", &[3.0, 40.0]),
    ("time[noop] + all", &[]),
    // Ratios of means: 1.5 / 2 and 20 / 10.
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
    ("within(all, 1.5, 10)", &[1.0, 0.0, 1.0, 1.0]),
    ("within_percent(all, 2, 25)", &[1.0, 0.0, 1.0, 0.0]),
    ("within_factor(all, 5, 4)", &[1.0, 1.0, 1.0, 1.0]),
    ("within_factor(all, 5, 3.9)", &[1.0, 0.0, 1.0, 1.0]),
    ("within(time[bfq], 1, 2)", &[]),
    ("count(all > 5)", &[2.0]),
    ("only(all > 5)", &[1.0, 1.0]),
    // 30 and 60 requests in the 20 s from 10 s on.
    ("level(requests[noop], 10, 30)", &[2.25]),
];

#[test]
fn names_of_policies_are_compared_by_their_parameters() {
    let pairs = [
        ("bid-hdd:batch=1s:wait=0s", "bid-hdd:wait=0s:batch=1s", true),
        ("bid-hdd:batch=1s", "bid-hdd:batch=1000ms", true),
        ("cfq:quantum=2", "cfq:quantum=2.0", true),
        ("cfq:quantum=2", "cfq:quantum=3", false),
        ("cfq:quantum=2", "cfq", false),
        ("cfq:a=1:a=1", "cfq:a=1:b=1", false),
        ("a:b", "b:a", false),
        ("0.5", "0.50", true),
    ];
    for (left, right, are_same) in pairs {
        assert_eq!([same(left, right), same(right, left)], [are_same; 2], "{left} and {right}");
    }
}

#[test]
fn every_operator_agrees_with_hand_calculation() {
    let (runs, file) = (runs(), ClaimsFile::default());
    let results = results(&runs);
    let scope = scope(&results, &file);
    for (text, expected) in GOLDEN {
        let got = scope.value(text).expect(text).means();
        assert_eq!(got.len(), expected.len(), "{text}: {got:?}");
        assert!(got.iter().zip(*expected).all(|(got, expected)| (got - expected).abs() < 1e-12), "{text}: {got:?}");
    }
    let half = "half_width(time[noop, load=0.5], time[cfq:quantum=2, load=0.5])";
    // Times 1 and 2 of 0.75 x 2: deviation 0.7071 over the root of two, times 12.706, divided by 2.
    let width = scope.value(half).expect("it is one cell").means()[0];
    assert!((width - 317.65).abs() < 0.01, "{width}");
    // A second run that is ten times as slow under both makes one ratio of 1 to 10 and one of 1: their mean is not the
    // ratio of the means, 1.5 / 1.05.
    let slow = |times: [f64; 2]| times.into_iter().fold(Cell::new("r"), |cell, time| cell.metric("time", time));
    let cells = vec![slow([0.1, 1.5]).at("scheduler", "noop"), slow([0.01, 1.5]).at("scheduler", "bfq")];
    let results = Results::new(&runs, cells);
    let scope = Scope { results: &results, ..scope };
    let change = scope.value("change(time[noop], time[bfq])").expect("two cells").means()[0];
    assert!((change - (1.6 / 1.51 - 1.0) * 100.0).abs() < 1e-9, "{change}");
}

#[test]
fn sentences_show_numbers_and_omit_absent_ones() {
    let (runs, labels) = (runs(), BTreeMap::from([("1.0".to_owned(), "full load".to_owned())]));
    let (results, mut file) = (results(&runs), ClaimsFile::default());
    file.labels = labels;
    let scope = scope(&results, &file);
    let cases = [
        ("{who} at {limit}", "noop at 3"),
        ("{limit:+.1}", "+3.0"),
        ("{time[noop, load=0.5]:.2} s[ of {time[bfq]} s]", "1.50 s"),
        ("most at {time[noop]:highest load}", "most at full load"),
    ];
    for (text, expected) in cases {
        let shown = scope.sentence(text).expect(text);
        assert_eq!(shown.as_deref(), Some(expected), "{text}");
    }
    assert_eq!(scope.sentence("{time[bfq]}"), Ok(None));
}

const EXPERIMENT: &str = r#"
[[run]]
name = "table"
kind = "stored"
spec = { axes = ["who"], metrics = { iops = "iops" }, rows = [{ who = "a", iops = 100 }, { who = "b", iops = 50 }] }
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
        experiment: SourceFile { file: "experiment.toml", text: EXPERIMENT },
        claims: SourceFile { file: "claims.toml", text: claims.leak() },
        page: SourceFile { file: "page.toml", text: "" },
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
        ("within(ours, 100, 100)", true),
        ("within(ours, 101, 200)", false),
        ("within(ours, 0, iops[table, b] * 2)", true),
        ("ours >= 100.5", false),
        ("within_percent(ours, paper, 12)", true),
        ("within_percent(ours, paper, 11)", false),
        ("within_percent(ours, iops[table, b] * 2, 1)", true),
        ("within_factor(ours, paper, 1.2)", true),
        ("within_factor(ours, paper, 1.1)", false),
        ("ours == highest(iops[table])", true),
        ("ours < iops[table, b]", false),
        // A claim without a number does not hold.
        ("ours < 1 / 0 * iops[table, b]", true),
        ("ours < 0 / 0", false),
        ("ours >= 1 and ours < 2", false),
    ];
    for (rule, holds) in cases {
        let done = reproduced(claims(&format!("holds = \"{rule}\"")));
        assert_eq!((done.claims[0].holds(), done.claims[0].ours), (holds, Some(100.0)), "{rule}");
        assert_eq!(done.claims[0].paper, "90");
    }
}

#[test]
fn a_claim_that_fails_is_reported_as_failing() {
    let done = reproduced(claims("holds = \"ours >= 101\""));
    let text = done.document().expect("it renders").to_terminal(false);
    assert!(text.contains("FAILS"), "{text}");
    assert!(text.contains("No figure or table holds throughout.") && text.contains("\n1 claim fails\n"), "{text}");
    // Why is said where it stands, on a terminal too.
    let (claim, verdict) = (&done.claims[0], text.find("FAILS"));
    let why = text.find(&format!("\n{}: {}\n", claim.id, claim.note));
    assert!(why > verdict && !claim.note.is_empty(), "{text}");
    assert!(done.counts().to_string().starts_with("of 1 results, 0 agree"), "{}", done.counts());
    assert!(json(&done).contains("\"verdict\": \"fails\""));
    let done = reproduced(claims("holds = \"ours >= 101\"").replace("iops[table, a]", "iops[table, who=a] / 0"));
    assert_eq!(
        (done.claims[0].ours, done.claims[0].holds()),
        (None, false),
        "a number that does not exist does not hold"
    );
}

#[test]
fn a_calibrated_claim_is_never_counted_as_reproduced() {
    let done = reproduced(claims("holds = \"ours >= 1\"\nclass = \"calibrated\""));
    assert_eq!(done.claims[0].verdict, Verdict::Input);
    assert_eq!(done.counts().others(), "Counted apart: 1 of 1 inputs agree, which proves nothing.");
    let other = reproduced(claims("holds = \"ours >= 1\""));
    let all = ResultCounts { of: 1, hold: 1, hold_by_size: 1, ..ResultCounts::default() };
    assert_eq!((other.claims[0].class, other.counts().results), (Class::Reproduced, all));
    assert!(json(&other).contains("\"class\": \"reproduced\""));
}

#[test]
fn sign_and_magnitude_are_judged_apart() {
    // Ours is 100 throughout; the paper's value, what else the claim says, and the two verdicts.
    let cases = [
        ("value = 90", "", None, Some(true)),
        ("value = 49", "", None, Some(false)),
        ("value = 90", "neutral = 0", Some(true), Some(true)),
        ("value = -90", "neutral = 0", Some(false), Some(false)),
        ("value = 201", "neutral = 0", Some(true), Some(false)),
        ("value = [201, 300]", "neutral = 0", Some(true), Some(false)),
        ("value = [30, 49]", "neutral = 0", Some(true), Some(false)),
        ("value = [30, 50]", "neutral = 0", Some(true), Some(true)),
        // Below 110 by 10, where the paper is by 20; above where the paper is below; the rule's direction where it says nothing.
        ("value = 90", "neutral = 110", Some(true), Some(true)),
        ("value = 90", "neutral = 95", Some(false), Some(false)),
        ("value = 90", "neutral = 90", Some(true), None),
        ("", "", Some(true), None),
        ("value = 90", "sign = \"ours < 100\"", Some(false), Some(false)),
    ];
    for (value, rule, sign, magnitude) in cases {
        let text = claims(&format!("holds = \"ours >= 1\"\n{rule}"))
            .replace("{paper}", "as said")
            .replace("value = 90", value);
        let claim = &reproduced(text).claims[0];
        assert_eq!((claim.sign, claim.magnitude), (sign, magnitude), "{value} {rule}");
    }
}

#[test]
fn unreachable_claim_is_out_of_reach() {
    let done = reproduced(claims("holds = \"ours >= 150\"\nbound = \"120\""));
    assert_eq!((done.claims[0].holds(), done.claims[0].bound), (false, Some(120.0)));
    let results = ResultCounts { of: 1, out_of_reach: 1, ..ResultCounts::default() };
    assert_eq!(done.counts().results, results);
    let text = done.document().expect("it renders").to_terminal(false);
    assert!(text.contains("out of reach") && !text.contains("FAILS"), "{text}");
    let fails = reproduced(claims("holds = \"ours >= 150\"\nbound = \"160\""));
    assert_eq!((fails.claims[0].bound, fails.counts().results.out_of_reach), (None, 0), "the data allow it");
    for (bound, expected) in [(62.7, None), (30.0, None), (20.0, Some(20.0))] {
        let text = claims(&format!("holds = \"within(ours, 28, 52)\"\nbound = \"{bound}\""));
        let fails = reproduced(text.replace("value = 90", "value = [28, 52]"));
        assert_eq!((fails.claims[0].holds(), fails.claims[0].bound), (false, expected), "a bound of {bound}");
    }
    let holds = reproduced(claims("holds = \"ours >= 50\"\nbound = \"20\""));
    assert_eq!((holds.claims[0].holds(), holds.claims[0].bound), (true, None));
}

#[test]
fn the_page_begins_with_what_was_found() {
    let mut own = paper(claims("holds = \"ours >= 1\""));
    own.page.text = "found = [\"A is {iops[table, a]:.0}.\", \"No {iops[table, a] / 0}.\", \"So it is.\"]\n";
    let done = own.reproduce(&Options::default(), &origin(), &Silent).expect("it runs");
    assert_eq!(done.found, ["A is 100.", "So it is."]);
    assert!(done.document().expect("it renders").to_terminal(false).contains("A is 100. So it is."));
    own.page.text = "found = [\"{iops}\"]\n";
    let error = own.reproduce(&Options::default(), &origin(), &Silent).expect_err("nothing has that name").to_string();
    assert!(error.starts_with("page.toml:1:"), "{error}");
}

#[test]
fn file_errors_have_their_place() {
    let cases = [
        ("hold = \"1\"", "claims.toml:5:1: unknown field `hold`"),
        (
            "holds = \"ours +\"",
            "claims.toml:5:1: holds: a number, a name, `metric[...]` or `function(...)` is missing at the end",
        ),
        (
            "holds = \"ours > )\"",
            "claims.toml:5:1: holds: a number, a name, `metric[...]` or `function(...)` is missing before `)`",
        ),
        ("holds = \"mine\"", "claims.toml:5:1: holds: nothing is called `mine`"),
        ("holds = \"1 < iop[table, a]\"", "claims.toml:5:1: holds: run `table` has no metric `iop`"),
        ("holds = \"1 < iops[table, c]\"", "claims.toml:5:1: holds: nothing in run `table` is called `c`"),
        ("holds = \"1 < iops[a]\"", "claims.toml:5:1: holds: `iops` of which run?"),
        ("holds = \"1 < iops[table, whom=a]\"", "claims.toml:5:1: holds: run `table` has no axis `whom`"),
        ("holds = \"larger(1, 2)\"", "claims.toml:5:1: holds: there is no function `larger`"),
        ("holds = \"abs(1, 2)\"", "claims.toml:5:1: holds: abs takes 1 arguments"),
        ("holds = \"1\"\nlike = \"that\"", "claims.toml:5:1: there is no [like.that]"),
        ("holds = \"1\"\nlet = { x = \"y\", y = \"x\" }", "claims.toml:5:1: x: a `let` uses itself"),
    ];
    for (rule, expected) in cases {
        let error = paper(claims(rule)).parse().err().expect(rule).to_string();
        assert!(error.starts_with(expected), "{rule}: {error}");
    }
    let error = paper(claims("").replace("value = 90\n", "")).parse().err().expect("no rule and no number").to_string();
    assert!(error.starts_with("claims.toml:5:1: `holds` is missing"), "{error}");
    // A selection of several cells is detected when it is computed.
    let several = paper(claims("holds = \"ours >= 1\"").replace("[table, a]", "[table]"));
    let error = several.reproduce(&Options::default(), &origin(), &Silent).expect_err("two cells").to_string();
    assert!(error.starts_with("claims.toml:5:1: ours: 2 cells are selected"), "{error}");
    let mut broken = paper(claims("holds = \"ours >= 1\""));
    broken.experiment.text = "[[run]]\nname = \"r\"\nkind = \"server\"\nspec = { loads = [1.0] }\n";
    let error = broken.parse().err().expect("the run lacks keys").to_string();
    assert!(error.starts_with("experiment.toml:2:1: missing field"), "{error}");
}

#[test]
fn results_with_numbers_agree_by_sign_and_size() {
    use Verdict::{Fails, Holds, OutOfReach, SignOnly};
    // Ours is 100 throughout.
    let cases = [
        ("value = 51", "neutral = 0", Holds),
        ("value = 49", "neutral = 0", SignOnly),
        ("value = 201", "neutral = 0", SignOnly),
        ("value = -90", "neutral = 0", Fails),
        ("value = 49", "", Fails),
        // The interval has to lie on the paper's side, too; a rule of its own has to hold beside that.
        ("value = 90", "neutral = 0\ninterval = \"99\"", Holds),
        ("value = 90", "neutral = 0\ninterval = \"101\"", Fails),
        ("value = 90", "neutral = 0\ninterval = \"1 / 0 * iops[table, b] / 0\"", Fails),
        ("value = 90", "neutral = 0\nholds = \"ours < 99\"", SignOnly),
        ("value = 300", "neutral = 0\nbound = \"149\"", OutOfReach),
        ("value = 300", "neutral = 0\nbound = \"151\"", SignOnly),
    ];
    for (value, rule, verdict) in cases {
        let claim = &reproduced(claims(rule).replace("value = 90", value)).claims[0];
        assert_eq!(claim.verdict, verdict, "{value} {rule}");
    }
    let done = reproduced(claims("neutral = 0").replace("value = 90", "value = 300"));
    let results = ResultCounts { of: 1, sign_only: 1, ..ResultCounts::default() };
    assert_eq!(done.counts().results, results);
    let by_size = reproduced(claims("neutral = 0")).counts();
    let without_number = claims("holds = \"ours >= 1\"").replace("value = 90", "").replace("{paper}", "more");
    let by_direction = reproduced(without_number).counts();
    assert_eq!([by_size, by_direction].map(|counts| counts.results.hold_by_size), [1, 0]);
    assert!(by_direction.to_string().starts_with("of 1 results, 1 agree (0 by size, 1 by direction"), "{by_direction}");
    let text = done.document().expect("it renders").to_terminal(false);
    assert!(text.contains("1 claim has the paper's sign, but not its size"), "{text}");
    assert!(text.contains("one: agrees from 150 to 600"), "{text}");
}

#[test]
fn an_empty_selection_is_an_error() {
    // Both names are known, and nothing has both.
    let text = claims("holds = \"ours >= 1\"").replace("iops[table, a]", "sum(iops[table, who=a, b])");
    let error =
        paper(text.clone()).reproduce(&Options::default(), &origin(), &Silent).expect_err("no cell").to_string();
    assert!(error.starts_with("claims.toml:5:1: ours: `iops[table, who=a, b]` selects nothing"), "{error}");
    // A quick run does a part only.
    let quick = Options { quick: true, ..Options::default() };
    assert_eq!(paper(text).reproduce(&quick, &origin(), &Silent).expect("it runs").claims[0].ours, None);
}

#[test]
fn quick_pages_have_no_row_without_numbers() {
    let table = |rows: &str| {
        format!(
            "[[table]]\ntitle = \"IOPS\"\nat = \"run=table\"\nrows = {{ for = [{rows}], at = \"who={{who}}, {{also}}\", name = \"{{who}}\" }}\ncolumns = \
             [[\"IOPS\", \"{{iops[]}}\"]]\n"
        )
    };
    let (full, empty) = ("{ who = \"a\", also = \"a\" }", "{ who = \"a\", also = \"b\" }");
    let mut own = paper(claims("holds = \"ours >= 1\""));
    own.page.text = [table(&format!("{full}, {empty}")), table(empty)].concat().leak();
    let quick = Options { quick: true, ..Options::default() };
    let done = own.reproduce(&quick, &origin(), &Silent).expect("it runs");
    assert_eq!(done.tables.iter().map(|table| table.rows.len()).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_quick_run_says_that_it_is_quick() {
    let quick =
        paper(claims("neutral = 0")).reproduce(&Options { quick: true, ..Options::default() }, &origin(), &Silent);
    let says = |done: &Reproduction| done.document().expect("it renders").to_terminal(false).contains("quick run");
    assert!(says(&quick.expect("it runs")) && !says(&reproduced(claims("neutral = 0"))));
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

/// A reproduction with only the smallest server, one load and one short run: claims about others have no number then, and do not hold.
fn small() -> Reproduction {
    let wafl = PAPERS.iter().find(|paper| paper.name == "wafl").expect("it comes with the program");
    let full = wafl.experiment.text;
    let start = full.find("[run.quick]").expect("it has a quick form");
    let end = start + full[start..].find("[[run]]").expect("another run follows");
    let tiny = "quick = { loads = [0.955], warm_up = 1, measured = 3, search_measured = 3, runs_max = 1, server = [{ platform = \
                \"low-end\", workload = \"spc-1\", schedules = \"main\" }] }\n";
    let text = [&full[..start], tiny, &full[end..]].concat();
    let paper = Paper { experiment: SourceFile { text: text.leak(), ..wafl.experiment }, ..*wafl };
    paper.reproduce(&Options { quick: true, ..Options::default() }, &origin(), &Silent).expect("no law is broken")
}

/// One series of the generated load, planned for two days after two weeks.
#[test]
fn background_claims_are_judged_on_a_short_series() {
    let full = PAPERS.iter().find(|paper| paper.name == "background").expect("it comes with the program");
    let days = "days = 6, history_days = 21 }\npools_gib";
    assert!(full.experiment.text.contains(days) && full.experiment.text.contains("seeds = [0, 1, 2]"));
    let text = full.experiment.text.replace("seeds = [0, 1, 2]", "seeds = [0]");
    let text = text.replace("seeds = [0, 1, 2, 3, 4, 5, 6, 7]", "seeds = [0]");
    let text = text.replace(days, "days = 2, history_days = 14 }\npools_gib");
    let paper = Paper { experiment: SourceFile { text: text.leak(), ..full.experiment }, ..*full };
    let done = paper.reproduce(&Options { quick: true, ..Options::default() }, &origin(), &Silent).expect("it runs");
    assert!(done.holding() > 0 && done.holding() < done.claims.len(), "some hold, some fail, and both are said");
    for claim in &done.claims {
        assert!(claim.ours.is_some() && !claim.paper.is_empty() && !claim.note.is_empty(), "{}", claim.id);
    }
}

#[test]
fn wafl_claims_are_judged_deterministically() {
    let done = small();
    let names: BTreeSet<&str> = done.claims.iter().map(|claim| claim.id.as_str()).collect();
    assert_eq!(names.len(), done.claims.len(), "names are unique");
    for claim in &done.claims {
        assert!(!claim.paper.is_empty() && !claim.unit.is_empty(), "{}", claim.id);
        assert!(claim.ours.is_some() || !claim.holds(), "{} holds without a number", claim.id);
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
        shown.map(|claim| format!("{} {}", if claim.holds() { "holds" } else { "FAILS" }, claim.id)).collect();
    insta::assert_snapshot!(lines.join("\n"));
}
