//! Specs of forecasts and plans: errors have their place, what is written is read back, and the
//! command of a spec says what it is.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use ioweir_background::forecast::ForecastSpec;
use ioweir_background::plan::PlanSpec;
use ioweir_lab::document::{Document, Origin, json_list};
use ioweir_lab::run::{Progress, RunError, Silent};

const FORECAST: &str = "series = [\"a.csv\", \"b.csv\"]\ncolumn = \"write IOPS\"\nbin = \"10m\"\nkind = \"sum\"\ntotal = true\n\
    utc_offset = \"-05:30\"\nformat = \"msr-csv\"\nvolume = \"hm_0\"\nevent = \"issue\"\nlenient = true\n\
    method = [\"naive-day\", \"paper:trend=0.8\"]\nquantile = [0.5, 0.9]\nbacktest = 3\n\n\
    [holiday]\n2026-12-25 = \"sunday\"\n";
const POLICY: &str = "[pool]\nsize = \"40GiB\"\nused = \"30GiB\"\n\n[cores]\ncount = 16\nforeground_iops = 100\n\
    background_operations = 50\n\n[load]\nread = \"reads\"\nwrite = \"writes\"\n\n[forecast]\nmethod = \"naive-day\"\n\
    bin = \"1h\"\nhorizon = \"1d\"\n\n[service.snapshot-delete]\nevery = \"2h\"\nretention = \"4h\"\n";

/// A policy as tables of a plan.
fn inline_policy() -> String {
    POLICY.replace('[', "[policy.")
}

#[test]
fn an_error_in_a_forecast_has_its_place() {
    let error =
        |line: &str| ForecastSpec::parse("f.toml", &format!("series = \"a.csv\"\n{line}")).unwrap_err().to_string();
    let unknown = error("horizont = \"1d\"");
    assert!(unknown.starts_with("f.toml:2:1: unknown field `horizont`"), "{unknown}");
    assert!(unknown.contains("hint: `ioweir show FILE`"), "{unknown}");
    for (line, expected) in [
        ("method = \"naive-dy\"", "f.toml:2:10: unknown forecaster `naive-dy`"),
        ("method = [\"naive-day\", \"naive-dy\"]", "f.toml:2:10: unknown forecaster `naive-dy`"),
        ("method = []", "f.toml:2:10: no method is named"),
        ("quantile = [0.5, 1.5]", "f.toml:2:12: quantile 1.5 is out of range\n  expected: 0 to 1"),
        ("bin = \"7m\"", "f.toml:2:7: a day is no whole number of bins of 7m\n  expected: a bin that divides a day"),
        ("horizon = \"1\"", "f.toml:2:11: duration `1` has no unit"),
        ("utc_offset = \"x\"", "f.toml:2:14: `x` is no offset\n  expected: hours from UTC"),
        ("time_zone = \"Berlin\"", "f.toml:2:13: `Berlin` is no time zone"),
        (
            "time_zone = \"Europe/Berlin\"\nutc_offset = \"+01:00\"",
            "f.toml:2:13: both an offset and a time zone are named",
        ),
        ("backtest = 0", "f.toml:2:12: a backtest of no days"),
        ("horizon = \"7d\"\nbacktest = 3", "f.toml:2:11: a backtest scores days, and hours at leads"),
        ("lead = \"1h\"", "f.toml:2:8: there is no backtest to score it"),
        ("lead = [\"90m\"]\nbacktest = 3", "f.toml:2:8: a lead of 90m\n  expected: whole hours up to 7d"),
        ("lead = \"24h\"\nbacktest = 3", "f.toml:2:8: a lead of 24h\n  expected: whole hours up to 7d, such as 1h"),
        ("lead = \"169h\"\nbacktest = 3", "f.toml:2:8: a lead of 169h\n  expected: whole hours up to 7d, such as 1h"),
        ("diagnose = true\nbacktest = 3", "f.toml:3:12: a diagnosis forecasts nothing"),
        ("diagnose = true\nmethod = \"naive-day\"", "f.toml:3:10: a diagnosis forecasts nothing"),
        ("event = \"done\"", "f.toml:2:9: unknown kind of event `done`"),
        ("kind = \"meen\"", "f.toml:2:8: unknown variant `meen`"),
        ("[holiday]\n2026-12-25 = \"sundy\"", "f.toml:3:14: `2026-12-25=sundy` is no holiday"),
        ("[holiday]\n\"2026.12.25\" = \"sunday\"", "f.toml:3:16: `2026.12.25=sunday` is no holiday"),
    ] {
        let error = error(line);
        assert!(error.starts_with(expected), "{line}: {error}");
    }
}

#[test]
fn plan_errors_have_a_place_in_policies_too() {
    let head = "series = \"load.csv\"\n";
    let plan = |text: &str| PlanSpec::parse("p.toml", text).unwrap_err().to_string();
    let unknown = plan(&format!("{head}replays = \"x\"\n"));
    assert!(unknown.starts_with("p.toml:2:1: unknown field `replays`"), "{unknown}");
    let inline = inline_policy();
    for (from, to, expected) in [
        ("count = 16", "count = 0", "p.toml:7:9: cores.count: 0 is out of range"),
        ("count = 16", "cout = 16", "p.toml:7:1: unknown field `cout`"),
        ("\"naive-day\"", "\"naive-dy\"", "p.toml:16:10: forecast.method: unknown forecaster `naive-dy`"),
        ("snapshot-delete", "snapshot", "p.toml:20:1: service.snapshot: unknown service `snapshot`"),
    ] {
        let error = plan(&format!("{head}{}", inline.replace(from, to)));
        assert!(error.starts_with(expected), "{to}: {error}");
    }
    let error = plan(&format!("{head}policy = 3\n"));
    assert!(error.contains("p.toml:2:10") && error.contains("the name of a file, or a table"), "{error}");
}

#[test]
fn empty_spec_says_what_it_lacks() {
    let error = ForecastSpec::default().run(&Silent).unwrap_err().to_string();
    assert_eq!(error, "no series is named\n  expected: at least one file");
    let error = PlanSpec::default().run(&origin(""), &Silent).unwrap_err().to_string();
    assert!(error.starts_with("no policy is named"), "{error}");
    let error = PlanSpec::parse("p", &inline_policy()).unwrap().run(&origin(""), &Silent).unwrap_err().to_string();
    assert_eq!(error, "no series is named\n  expected: at least one file");
}

#[test]
fn what_a_spec_writes_is_read_back() {
    for text in ["", FORECAST, "series = \"vdi:1\"\nmethod = \"mstl\"\nquantile = 1\n"] {
        let written = ForecastSpec::parse("f", text).unwrap().to_toml();
        assert_eq!(ForecastSpec::parse("written", &written).unwrap().to_toml(), written);
    }
    let written = ForecastSpec::parse("f", FORECAST).unwrap().to_toml();
    for line in FORECAST.lines() {
        assert!(written.contains(line), "{line} in\n{written}");
    }
    for text in ["", "series = \"a\"\npolicy = \"p.toml\"\nreplay = [\"b\", \"c\"]\nlenient = true\n", &inline_policy()]
    {
        let plan = PlanSpec::parse("p", text).unwrap();
        assert_eq!(PlanSpec::parse("written", &plan.to_toml()).unwrap(), plan);
    }
}

fn origin(command: &str) -> Origin {
    Origin { version: "1".into(), commit: "unknown".into(), command: command.into() }
}

fn json(document: &Document) -> String {
    json_list(std::slice::from_ref(document))
}

#[test]
fn inline_policy_plans_as_one_in_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut series = String::from("time,reads,writes\n");
    for hour in 0..72 {
        let busy = if (8..17).contains(&(hour % 24)) { 9 } else { 1 };
        series += &format!("2026-11-{:02} {:02}:00:00,{},{}\n", 16 + hour / 24, hour % 24, busy * 100, busy * 40);
    }
    fs::write(path("load.csv"), series).unwrap();
    fs::write(path("policy.toml"), POLICY).unwrap();
    let head = format!("series = '{}'\n", path("load.csv"));
    let named = PlanSpec::parse("p", &format!("{head}policy = '{}'\n", path("policy.toml"))).unwrap();
    let inline = PlanSpec::parse("p", &format!("{head}{}", inline_policy())).unwrap();
    let document = inline.run(&origin("same"), &Silent).unwrap();
    assert_eq!(json(&document), json(&named.run(&origin("same"), &Silent).unwrap()));
    assert!(json(&document).contains("snapshot-delete"));
}

#[test]
fn forecast_has_every_method_and_the_losses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("load.csv").display().to_string();
    let rows: Vec<String> =
        (0..72).map(|hour| format!("{},{}", hour * 3600, if hour == 9 { -1 } else { 100 })).collect();
    fs::write(&path, format!("time,reads\n{}\n", rows.join("\n"))).unwrap();
    let head = format!("series = '{path}'\nmethod = [\"naive-day\", \"naive-week\"]\n");
    let (document, series) = ForecastSpec::parse("f", &head).unwrap().run(&Silent).unwrap();
    assert_eq!(series.len(), 1);
    assert_eq!(series[0].losses.lines(), ["1 negative values masked"]);
    assert!(document.to_terminal(false).contains("reads, naive-day") && json(&document).contains("naive-week"));
    let (scored, _) = ForecastSpec::parse("f", &format!("{head}backtest = 1\n")).unwrap().run(&Silent).unwrap();
    assert!(scored.to_terminal(false).contains("SMAPE"));
    let long =
        ForecastSpec::parse("f", &format!("{head}backtest = 1000\n")).unwrap().run(&Silent).unwrap_err().to_string();
    assert!(long.starts_with("reads: 1000 days; 2 can be forecast\n  expected: 1 to 2"), "{long}");
}

#[test]
fn plan_command_is_read_back_by_shells() {
    let plan =
        "series = \"it's.csv\"\nreplay = [\"b.csv\"]\npolicy = \"p.toml\"\nformat = \"msr-csv\"\nevent = \"issue\"\n";
    assert_eq!(
        PlanSpec::parse("p", plan).unwrap().command(),
        "ioweir plan 'it'\\''s.csv' --replay b.csv --policy p.toml --format msr-csv --event issue"
    );
}

/// Wants the work stopped once so many runs are done.
struct Enough {
    most: usize,
    done: AtomicUsize,
}

impl Progress for Enough {
    fn finished(&self, _: &str) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.done.load(Ordering::Relaxed) >= self.most
    }
}

/// Runs until `most` runs are done and then stops: the error, and how many runs were done.
fn stopped_after<T: std::fmt::Debug>(
    most: usize,
    run: impl Fn(&dyn Progress) -> Result<T, RunError>,
) -> (RunError, usize) {
    let enough = Enough { most, done: AtomicUsize::new(0) };
    let error = run(&enough).expect_err("it is stopped");
    (error, enough.done.into_inner())
}

#[test]
fn forecast_and_plan_end_when_stopped() {
    let text = "series = 'vdi:1'\nbin = '1h'\nmethod = ['naive-day', 'naive-week']\n";
    let spec = ForecastSpec::parse("f", text).unwrap();
    assert_eq!(stopped_after(1, |progress| spec.run(progress)), (RunError::Stopped, 1));
    let backtest = ForecastSpec::parse("f", &format!("{text}backtest = 5\n")).unwrap();
    assert_eq!(stopped_after(3, |progress| backtest.run(progress)), (RunError::Stopped, 3));
    assert_eq!(stopped_after(0, |progress| backtest.run(progress)), (RunError::Stopped, 0));

    let folder = tempfile::tempdir().unwrap();
    let [past, come] = [(0, 48), (48, 72)].map(|(from, to)| {
        let path = folder.path().join(format!("{from}.csv")).display().to_string();
        let rows: Vec<String> = (from..to).map(|hour| format!("{},{},1", 1_454_284_800 + hour * 3600, hour)).collect();
        fs::write(&path, format!("time,reads,writes\n{}\n", rows.join("\n"))).unwrap();
        path
    });
    let plan = format!("series = '{past}'\nreplay = '{come}'\n{}", inline_policy());
    let plan = PlanSpec::parse("p", &plan).unwrap();
    // The steps are the plan, and then bin after bin.
    for most in [0, 1, 5] {
        assert_eq!(stopped_after(most, |progress| plan.run(&origin("x"), progress)), (RunError::Stopped, most));
    }
}
