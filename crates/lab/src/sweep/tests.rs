//! Rules that hold for a sweep whatever happens to it.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use toml::{Table, Value};

use super::*;
use crate::document::FORMS;
use crate::run::{Origin, RunError, Silent};

fn origin() -> Origin {
    Origin { version: "1".into(), commit: "test".into(), command: "ioweir sweep s.toml".into() }
}

const EXPERIMENT: &str = "title = \"t\"\n[experiment]\nduration = \"2s\"\ninterval = \"1s\"\nschedulers = [\"fifo\", \"wfq\"]\nseeds = [1, 2]\n\
                          [experiment.device.null]\ncapacity = \"1GiB\"\nservice = \"1ms\"\n\
                          [[experiment.class]]\nname = \"a\"\nbacklog = 3\n[[experiment.class]]\nname = \"b\"\nrate = \"100/s\"\n";
const AXES: &str = "[sweep]\n\"class.b.rate\" = { from = \"100/s\", to = \"400/s\", factor = 2 }\ndepth = [1, 4]\n";

fn plan(text: &str) -> Plan {
    Plan::new(Sweep::parse("s.toml", text).unwrap(), &origin()).unwrap()
}

fn running(shard: &str, threads: usize) -> Running {
    Running { shard: shard.parse().unwrap(), threads: Some(threads) }
}

fn run(folder: &Path, plan: &Plan, shard: &str, threads: usize) -> Ran {
    Folder::create(folder, plan).unwrap().run(plan, running(shard, threads), &Silent).unwrap()
}

/// The merged document in every form.
fn merged(folder: &Path) -> Vec<Vec<u8>> {
    let folder = Folder::open(folder).unwrap();
    let document = document(&folder, folder.merge(false).unwrap(), By::default()).unwrap();
    FORMS.iter().map(|form| form.render(&document).unwrap()).collect()
}

fn parts(folder: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> =
        fs::read_dir(folder.join("parts")).unwrap().map(|entry| entry.unwrap().path()).collect();
    parts.sort();
    parts
}

/// A folder, and a trace in it: reads of 4 KiB, the last at an offset.
fn with_trace(last_offset: u64) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.csv");
    let mut text = "time_s,pid,comm,op,lba,sectors\n".to_owned();
    for index in 0..40_u64 {
        let sector = if index == 39 { last_offset / 512 } else { index * 7919 % 1000 * 8 };
        text += &format!("0.{index:03}000,{},w,R,{sector},8\n", index % 2);
    }
    fs::write(&trace, text).unwrap();
    let name = trace.display().to_string();
    (folder, name)
}

#[test]
fn merged_table_is_independent_of_execution() {
    let plan = plan(&format!("{EXPERIMENT}{AXES}"));
    assert_eq!(plan.cells(), 3 * 2 * 2 * 2);
    let folders: Vec<TempDir> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
    let paths: Vec<&Path> = folders.iter().map(TempDir::path).collect();
    run(paths[0], &plan, "1/1", 1);
    run(paths[1], &plan, "1/1", 2);
    let shares = ["2/2", "1/2"].map(|shard| run(paths[2], &plan, shard, 2).cells);
    assert_eq!(shares, [12, 12]);
    // Stopped after a third, in the middle of a part, which has no name yet.
    run(paths[3], &plan, "2/3", 1);
    fs::write(paths[3].join("parts").join(".ioweir-half"), b"PAR1").unwrap();
    assert_eq!(run(paths[3], &plan, "1/1", 2).there, 8, "nothing is computed twice");
    let whole = merged(paths[0]);
    for path in &paths[1..] {
        assert!(merged(path) == whole, "{}", path.display());
    }
    let table = Folder::open(paths[0]).unwrap().merge(false).unwrap().table;
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).take(7).collect();
    assert_eq!(names, ["cell", "depth", "scheduler", "seed", "class", "class.b.rate", "requests"]);
    assert_eq!(table.rows.len(), 24 * 2, "a row for each cell and class");
}

/// The cells as another process makes them from the sweep's text.
fn elsewhere(plan: &Plan, origin: &Origin) -> Cells {
    Cells::new(Sweep::parse("spec", &plan.resolved().to_toml()).unwrap(), origin)
}

#[test]
fn parts_of_other_processes_are_byte_equal() {
    let (folder, trace) = with_trace(0);
    let comparison = format!("[comparison]\ntraces = [\"{trace}\"]\nschedulers = [\"noop\", \"clook\"]\n");
    for text in
        [format!("{EXPERIMENT}{AXES}"), format!("{comparison}[sweep]\nseeds = [1, 2]\nqueue_requests = [8, 9]\n")]
    {
        let plan = plan(&text);
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        run(here.path(), &plan, "1/1", 2);
        let opened = Folder::create(there.path(), &plan).unwrap();
        let cells = elsewhere(&plan, &origin());
        let places = opened.missing(&plan, Shard::WHOLE).places;
        assert_eq!((places.len(), cells.first_other(&places).unwrap()), (plan.cells(), None));
        for group in places.chunks(5) {
            let made = std::sync::Mutex::new(Vec::new());
            let keep = |one: Made| {
                made.lock().unwrap().push(one);
                Ok(())
            };
            on_threads(Some(2), || cells.run(group, &Silent, &keep)).unwrap();
            opened.take(&made.into_inner().unwrap()).unwrap();
        }
        assert_eq!(opened.missing(&plan, Shard::WHOLE).places, []);
        assert!(merged(there.path()) == merged(here.path()));
        let part = |folder: &Path| parts(folder).iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>();
        assert!(part(there.path()) == part(here.path()));
        let new = Origin { version: "2".into(), ..origin() };
        assert_eq!(elsewhere(&plan, &new).first_other(&places).unwrap(), Some(places[0]));
        let nowhere = Place { point: 1 << 20, ..places[0] };
        assert!(cells.first_other(&[nowhere]).unwrap_err().to_string().contains("no point"));
        let past = Place { run: 1 << 20, ..places[0] };
        assert_eq!(cells.first_other(&[past]).unwrap(), Some(past));
        assert!(cells.run(&[past], &Silent, &|_| Ok(())).unwrap_err().to_string().contains("no cell"));
    }
    let plan = plan(&comparison);
    let places = Folder::create(&folder.path().join("runs"), &plan).unwrap().missing(&plan, Shard::WHOLE).places;
    fs::write(&trace, "time_s,pid,comm,op,lba,sectors\n0.1,1,w,R,0,8\n").unwrap();
    assert_eq!(elsewhere(&plan, &origin()).first_other(&places).unwrap(), Some(places[0]), "other content");
    fs::remove_file(&trace).unwrap();
    assert!(elsewhere(&plan, &origin()).first_other(&places).unwrap_err().to_string().contains("t.csv"));
}

#[test]
fn uncountable_foreign_part_is_refused() {
    let plan = plan(EXPERIMENT);
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &plan, "1/2", 1);
    let opened = Folder::open(folder.path()).unwrap();
    let left = opened.missing(&plan, Shard::WHOLE).places;
    assert_eq!(left.len(), 2);
    let other = fs::read(&parts(folder.path())[0]).unwrap();
    for (part, problem) in [(other.clone(), "is of cell"), (other[..9].to_vec(), "damaged Parquet")] {
        let error = opened.take(&[Made { name: left[0].name, part: Ok(part) }]).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    assert_eq!(opened.missing(&plan, Shard::WHOLE).places, left);
    opened.take(&[Made { name: left[0].name, part: Err("why".into()) }]).unwrap();
    assert_eq!(opened.status().unwrap().failed[0].problem, "why");
}

#[test]
fn shards_may_begin_at_the_same_time() {
    let (one, other) = (plan(EXPERIMENT), plan(&EXPERIMENT.replace("wfq", "sfq")));
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let begin = |plan: &Plan| Folder::create(folder.path(), plan).is_ok();
        assert_eq!(rayon::join(|| begin(&one), || begin(&one)), (true, true));
        let folder = tempfile::tempdir().unwrap();
        let begin = |plan: &Plan| Folder::create(folder.path(), plan).is_ok();
        let (first, second) = rayon::join(|| begin(&one), || begin(&other));
        assert!(first != second, "of two sweeps one has the folder");
    }
}

#[test]
fn a_finished_sweep_is_not_run_again() {
    let plan = plan(EXPERIMENT);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path(), &plan, "1/1", 1), Ran { cells: 4, ..Ran::default() });
    let before = merged(folder.path());
    assert_eq!(run(folder.path(), &plan, "1/1", 1), Ran { cells: 4, there: 4, ..Ran::default() });
    assert!(merged(folder.path()) == before);
}

#[test]
fn damaged_or_foreign_parts_are_made_again() {
    let plan_of_one = plan(EXPERIMENT);
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run(folder.path(), &plan_of_one, "1/1", 1);
    let whole = merged(folder.path());
    let mut of_version_two = plan(EXPERIMENT);
    of_version_two.resolved.origin.version = "2".into();
    // The names are the same, as if the hash did not hold the version.
    run(other.path(), &of_version_two, "1/1", 1);
    let files = parts(folder.path());
    let bytes = fs::read(&files[0]).unwrap();
    fs::write(&files[0], &bytes[..bytes.len() / 2]).unwrap();
    fs::copy(&files[2], &files[1]).unwrap();
    fs::copy(&parts(other.path())[3], &files[3]).unwrap();
    fs::write(folder.path().join("parts/0123456789abcdef.parquet"), b"").unwrap();
    let status = Folder::open(folder.path()).unwrap().status().unwrap();
    assert_eq!((status.done, status.missing(), status.failed_count, status.uncounted_count), (1, 3, 0, 4));
    let problem = |file: &Path| {
        let name = file.file_name().unwrap().to_str().unwrap();
        status.uncounted.iter().find(|failed| failed.name == name).unwrap().problem.clone()
    };
    assert!(problem(&files[0]).contains("damaged Parquet"), "{status:?}");
    assert!(problem(&files[1]).contains("is of cell"), "{status:?}");
    assert_eq!(problem(&files[3]), "is of version 2 (test)");
    assert_eq!(problem(Path::new("0123456789abcdef.parquet")), "is of no cell of this sweep");
    assert!(Folder::open(folder.path()).unwrap().merge(false).is_err());
    assert_eq!(run(folder.path(), &plan_of_one, "1/1", 1).there, 1);
    assert!(merged(folder.path()) == whole);
}

#[test]
fn no_changed_byte_of_a_part_panics() {
    let plan = plan(EXPERIMENT);
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &plan, "1/1", 1);
    let file = parts(folder.path()).remove(0);
    let bytes = fs::read(&file).unwrap();
    let opened = Folder::open(folder.path()).unwrap();
    for at in (0..bytes.len()).step_by(3) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        fs::write(&file, &changed).unwrap();
        assert!(opened.status().unwrap().done >= 3, "byte {at}");
    }
}

#[test]
fn another_sweep_version_or_content_is_refused() {
    let (folder, trace) = with_trace(0);
    let runs = folder.path().join("runs");
    let text = format!("traces = [\"{trace}\"]\nschedulers = [\"noop\"]\n");
    let first = plan(&text);
    Folder::create(&runs, &first).unwrap();
    let refused = |plan: &Plan| Folder::create(&runs, plan).unwrap_err().to_string();
    let error = refused(&plan(&text.replace("noop", "clook")));
    assert!(error.contains("holds another sweep") && error.contains("hint: name another folder"), "{error}");
    let new = Origin { version: "2".into(), ..origin() };
    let error = refused(&Plan::new(Sweep::parse("s.toml", &text).unwrap(), &new).unwrap());
    assert!(error.contains("holds a sweep of version 1 (test), and this is 2 (test)"), "{error}");
    fs::write(&trace, "time_s,pid,comm,op,lba,sectors\n0.1,1,w,R,0,8\n").unwrap();
    let error = refused(&plan(&text));
    assert!(error.contains("holds this sweep over traces of other content"), "{error}");
    let error = Folder::create(folder.path(), &first).unwrap_err().to_string();
    assert!(error.contains("holds other files, and no sweep.json"), "{error}");
}

#[test]
fn failing_cell_is_reported_others_go_on() {
    let (folder, trace) = with_trace(400 << 30);
    // The trace's last request lies past the end of the smaller device alone.
    let text = format!("traces = [\"{trace}\"]\nschedulers = [\"noop\"]\ndevice = [\"ssd-970pro\", \"hdd\"]\n");
    let plan = plan(&text);
    let runs = folder.path().join("runs");
    let ran = run(&runs, &plan, "1/1", 2);
    let [failed] = &ran.failed[..] else { panic!("{ran:?}") };
    assert!((ran.failed_count, ran.cells) == (1, 2) && failed.problem.contains("t.csv:41"), "{ran:?}");
    let opened = Folder::open(&runs).unwrap();
    let status = opened.status().unwrap();
    assert_eq!((status.done, status.missing(), status.failed_count), (1, 0, 1));
    let error = opened.merge(false).unwrap_err().to_string();
    assert!(error.contains("0 of 2 cells are missing and 1 failed"), "{error}");
    let partial = opened.merge(true).unwrap();
    let document = document(&opened, partial, By::default()).unwrap();
    assert_eq!(document.records.rows.len(), 1);
    assert!(document.headline.contains("1 of 2 cells are not in it"), "{}", document.headline);
    assert_eq!(run(&runs, &plan, "1/1", 1).failed_count, 1, "it is tried again");
}

#[test]
fn cell_name_covers_all_dependencies() {
    let (_folder, trace) = with_trace(0);
    let text = format!("traces = [\"{trace}\"]\nschedulers = [\"noop\"]\nqueue_requests = 64\n");
    let name = |text: &str| plan(text).names.clone();
    let first = name(&text);
    assert_eq!(name(&text), first);
    assert_eq!(name(&format!("{text}goal = \"busy\"\n")), first, "the goal changes no run");
    for (old, new) in
        [("noop", "clook"), ("64", "65"), ("queue", "device = \"ssd-970pro\"\nqueue"), ("queue", "seeds = 7\nqueue")]
    {
        assert_ne!(name(&text.replace(old, new)), first, "{new}");
    }
    let new = Origin { commit: "other".into(), ..origin() };
    assert_ne!(Plan::new(Sweep::parse("s.toml", &text).unwrap(), &new).unwrap().names, first);
    let content = fs::read_to_string(&trace).unwrap();
    fs::write(&trace, content.replace("0.001000", "0.001001")).unwrap();
    assert_ne!(name(&text), first);
}

#[test]
fn sweep_over_seeds_replays_comparisons_samples() {
    let (folder, trace) = with_trace(0);
    let base = format!("[comparison]\ntraces = [\"{trace}\"]\nschedulers = [\"noop\"]\n");
    let runs = folder.path().join("runs");
    run(&runs, &plan(&format!("{base}[sweep]\nseeds = {{ from = 1, to = 3, step = 1 }}\n")), "1/1", 1);
    let table = Folder::open(&runs).unwrap().merge(false).unwrap().table;
    let column = |name: &str| table.columns.iter().position(|column| column.name == name).unwrap();
    let comparison = crate::compare::Comparison::parse(
        "c",
        &format!("traces = [\"{trace}\"]\nschedulers = [\"noop\"]\nseeds = [1, 2, 3]\n"),
    )
    .unwrap();
    let report = crate::compare::run(&comparison, &origin(), &Silent).unwrap();
    for (row, outcome) in table.rows.iter().zip(&report.outcomes) {
        assert_eq!(row[column("completion_seconds")], outcome.completion.as_seconds().into());
        assert_eq!(row[column("seed")], outcome.seed.into());
        assert_eq!(row[column("resampled")], true.into());
    }
    assert_eq!(table.rows.len(), 3);
}

#[test]
fn ranges_span_first_to_last_value() {
    let values = |text: &str| {
        let table: Table = toml::from_str(&format!("r = {text}")).unwrap();
        let values = range::values(table["r"].as_table().unwrap(), 100);
        values.map(|values| Value::Array(values).to_string()).unwrap_or_else(|(problem, _)| problem)
    };
    for (text, expected) in [
        ("{ from = 1, to = 7, step = 3 }", "[1, 4, 7]"),
        ("{ from = 1, to = 8, step = 3 }", "[1, 4, 7]"),
        ("{ from = 1, to = 32, factor = 2 }", "[1, 2, 4, 8, 16, 32]"),
        ("{ from = 0.1, to = 0.4, step = 0.1 }", "[0.1, 0.2, 0.3, 0.4]"),
        ("{ from = \"1k/s\", to = \"2k/s\", step = \"0.5k/s\" }", "[\"1k/s\", \"1.5k/s\", \"2k/s\"]"),
        (
            "{ from = \"bid-hdd:wait=1ms\", to = \"bid-hdd:wait=2ms\", step = 1 }",
            "[\"bid-hdd:wait=1ms\", \"bid-hdd:wait=2ms\"]",
        ),
        ("{ from = \"x10\", to = \"x10\", factor = 2 }", "[\"x10\"]"),
        ("{ from = 1, to = 7 }", "a range has either a `step` or a `factor`"),
        ("{ from = 7, to = 1, step = 1 }", "the range does not lead from `from` to `to`"),
        ("{ from = 0, to = 1, factor = 2 }", "the range does not lead from `from` to `to`"),
        ("{ from = 1, to = 2, step = 0 }", "the range does not lead from `from` to `to`"),
        ("{ from = 1, to = 1000, step = 1 }", "the range has more than 100 values"),
        ("{ from = \"1ms\", to = \"1s\", factor = 2 }", "`from` and `to` differ in more than one number"),
        ("{ from = \"1ms\", to = \"9ms\", step = \"1us\" }", "`step` has another unit than `from`"),
        ("{ from = \"ä1\", to = \"ä3\", step = 2 }", "[\"ä1\", \"ä3\"]"),
        ("{ from = nan, to = 1, step = 2 }", "`from` = nan is no number within 2^53, nor a text with one"),
        ("{ from = 1, until = 1, step = 2 }", "a range has no key `until`"),
    ] {
        assert_eq!(values(text), expected, "{text}");
    }
}

#[test]
fn sweep_file_errors_have_their_place() {
    let error = |text: &str| {
        let planned = Sweep::parse("s.toml", text).map_err(RunError::from);
        planned.and_then(|sweep| Plan::new(sweep, &origin())).unwrap_err().to_string()
    };
    let swept = |axes: &str| format!("{EXPERIMENT}[sweep]\n{axes}\n");
    for (text, expected) in [
        ("title = \"t\"\n".to_owned(), "s.toml: names nothing to sweep"),
        ("comparison = 3\n".to_owned(), "s.toml:1:14: comparison: invalid type: integer"),
        ("comparison = \"none.toml\"\n".to_owned(), "s.toml:1:14: comparison: none.toml: cannot be read"),
        (
            "comparison = \"a\"\nexperiment = \"b\"\n".to_owned(),
            "s.toml:2:14: experiment: there is a comparison as well",
        ),
        ("[comparison]\ntrace = [\"a\"]\n".to_owned(), "s.toml:2:1: unknown field `trace`"),
        (EXPERIMENT.replace("2s", "0s"), "s.toml:3:12: duration: nothing can be measured"),
        (swept("depth = 3"), "s.toml:17:9: sweep.depth: has one value"),
        (swept("depth = []"), "s.toml:17:9: sweep.depth: has no values"),
        (swept("depth = [1, 2, 1]"), "s.toml:17:16: sweep.depth[2]: is there twice"),
        (swept("depth = [1, 0]"), "s.toml:17:13: depth = 0: depth: is 0"),
        (swept("deep = [1]"), "s.toml:17:9: deep = 1: unknown field `deep`"),
        (swept("\"class.b.rate\" = [\"1/s\", \"fast\"]"), "s.toml:17:26: class.b.rate = \"fast\": "),
        (
            swept("\"class.c.rate\" = [\"1/s\"]"),
            "s.toml:17:19: class.c.rate = \"1/s\": sweep: `class.c.rate`: there is no `c`",
        ),
        (EXPERIMENT.replace("\"wfq\"", "\"wfk\""), "s.toml:5:23: unknown scheduler `wfk`"),
        (swept("schedulers = [\"fifo\", \"wfk\"]"), "s.toml:17:23: schedulers = \"wfk\": unknown scheduler `wfk`"),
        (swept("seeds = [7, -1]\ndepth = [1, 2]"), "s.toml:17:13: seeds = -1: invalid value: integer `-1`"),
        (swept("class.b.rate = [\"1/s\"]"), "s.toml:17:1: sweep.class: a range has no key `b`"),
        (swept("seeds = { from = 1, to = 3000000, step = 1 }"), "sweep.seeds: the range has more than 1000000 values"),
        (
            swept("depth = { from = 1, to = 4000, step = 1 }\nqueue_requests = { from = 1, to = 4000, step = 1 }"),
            "s.toml:16:1: sweep: stands for 16000000 points",
        ),
    ] {
        let found = error(&text);
        assert!(found.contains(expected), "{text}\n{found}\nexpected {expected}");
    }
}

#[test]
fn best_of_each_group_is_over_seeds() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &plan(&format!("{EXPERIMENT}{AXES}")), "1/1", 2);
    let opened = Folder::open(folder.path()).unwrap();
    let about = |metric: &str| {
        let by = By { metric: Some(metric), ..By::default() };
        document(&opened, opened.merge(false).unwrap(), by)
    };
    let page = about("iops").unwrap();
    assert!(page.headline.starts_with("iops is highest with "), "{}", page.headline);
    assert!(page.headline.contains("of 12 groups, means of 2 seeds with 95 % intervals"), "{}", page.headline);
    let tables: Vec<_> = page
        .blocks
        .iter()
        .filter_map(|block| if let crate::document::Block::Table(table) = block { Some(table) } else { None })
        .collect();
    assert_eq!(tables[0].rows.len(), 12, "three rates, two depths, two classes");
    let figure = page
        .blocks
        .iter()
        .find_map(|block| if let crate::document::Block::Figure(figure) = block { Some(figure) } else { None });
    let figure = figure.unwrap();
    assert_eq!(
        (figure.charts.len(), figure.charts[0].series.len()),
        (4, 2),
        "depth and class apart, a line for each scheduler"
    );
    assert_eq!(figure.charts[0].series[0].band.len(), 3);
    let error = about("iopss").unwrap_err().to_string();
    assert!(error.contains("`iopss`") && error.contains("did you mean") && error.contains("iops"), "{error}");
}

/// The merged document of a comparison as JSON and as text.
fn compared(keys: &str, by: By<'_>) -> (serde_json::Value, String) {
    let folder = TempDir::new().unwrap();
    let plan = plan(&format!("[comparison]\n{keys}"));
    run(folder.path(), &plan, "1/1", 2);
    let folder = Folder::open(folder.path()).unwrap();
    let document = document(&folder, folder.merge(false).unwrap(), by).unwrap();
    let form = FORMS.iter().find(|form| form.suffix == "json").unwrap();
    (serde_json::from_slice(&form.render(&document).unwrap()).unwrap(), document.to_terminal(false))
}

#[test]
fn nothing_is_recommended_on_a_contradicted_model() {
    let file = |cpu: u32| format!("{}/../../traces/oltp/oltp.blktrace.{cpu}.gz", env!("CARGO_MANIFEST_DIR"));
    let keys = format!(
        "traces = [{:?}, {:?}]\ndevice = \"hdd\"\nschedulers = [\"none\", \"mq-deadline\"]\n",
        file(0),
        file(1)
    );
    let (json, text) = compared(&keys, By::default());
    assert_eq!(json["gate"][0]["judgement"]["decision"], "calibrate", "{}", json["gate"]);
    assert!(text.contains("No recommendation in 1 of 1") && text.contains("calibrate first"), "{text}");
    assert!(text.contains("Calibrate first: ioweir calibrate "), "{text}");
}

#[test]
fn the_best_is_of_requests_that_count() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("scrub.ftrace");
    let line = |number: u64, class: &str, sector: u64| {
        format!(
            "p-{} [000] ..... 1.{:06}: block_rq_insert: 8,0 R 4096 () {sector} + 8 {class} [p]",
            number % 2,
            number * 100
        )
    };
    let lines: Vec<String> = (0..200)
        .map(|number| {
            line(number, if number % 2 == 0 { "idle,0,7" } else { "be,0,4" }, number * 7_777_777 % 100_000_000)
        })
        .collect();
    fs::write(&path, format!("# tracer: nop\n{}\n", lines.join("\n"))).unwrap();
    let keys = format!(
        "traces = [{path:?}]\nevent = \"insert\"\ndevice = \"hdd\"\nschedulers = [\"none\", \"mq-deadline\"]\ngoal = \"read-p99\"\n"
    );
    let (json, text) = compared(&keys, By::default());
    let row = &json["rows"][0];
    assert_eq!(row["counted"], "requests that are not of the idle class", "{row}");
    assert_eq!(row["counted_requests"], 100, "{row}");
    assert!(row["counted_latency_mean_seconds"] != row["latency_mean_seconds"], "{row}");
    assert!(text.contains("counted_read_latency_p99_seconds"), "{text}");
    let of_all = By { of: Some("all"), goal: "mean".parse().ok(), ..By::default() };
    let text = compared(&keys, of_all).1;
    assert!(text.contains("latency_mean_seconds") && !text.contains("counted_"), "all count: {text}");
    let every = compared(&format!("{keys}of = \"all\"\n"), By::default()).0;
    assert!(every["rows"][0]["counted"].is_null(), "{}", every["rows"][0]);
}
