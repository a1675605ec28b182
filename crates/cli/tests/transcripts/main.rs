//! Transcripts: the program's output, on which stream it comes, and the exit code.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

mod advise;
mod kept;
mod specs;
mod sweeps;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A hundred requests of two processes, in this project's own CSV.
fn trace() -> String {
    let mut text = String::from("time_s,pid,comm,op,lba,sectors\n");
    for index in 0..100_u64 {
        let (operation, sector) =
            if index % 4 == 3 { ("W", 900_000 + index * 64) } else { ("R", index * 977 % 5_000 * 8) };
        text += &format!("0.{index:03}000,{},worker,{operation},{sector},64\n", 100 + index % 2);
    }
    text
}

/// A folder with `trace.csv` in it.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("trace.csv"), trace()).unwrap();
    folder
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ioweir"));
    command.args(arguments).current_dir(folder).env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

/// The whole output of a command, as a user sees it.
fn transcript(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let mut text = format!("$ ioweir {}\n", arguments.join(" "));
    text += &String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    if !errors.is_empty() {
        text += &format!("--- standard error\n{errors}");
    }
    let status = output.status.code().unwrap();
    text + &format!("--- exit code {status}\n")
}

/// Several commands, one under the other.
fn transcripts(folder: &Path, commands: &[&[&str]]) -> String {
    commands.iter().map(|arguments| transcript(folder, arguments)).collect::<Vec<_>>().join("\n")
}

#[test]
fn help_is_data() {
    let folder = folder();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["--help"],
            &["compare", "--help"],
            &["trace", "info", "--help"],
            &["trace", "convert", "--help"],
            &["trace", "cut", "--help"],
            &["trace", "generate", "--help"],
            &["doc", "--help"],
            &["show", "--help"],
        ],
    ));
}

#[test]
fn without_arguments_it_says_what_to_type_first() {
    let folder = folder();
    insta::assert_snapshot!(transcript(folder.path(), &[]));
}

#[test]
fn demonstration_is_the_same_everywhere() {
    let folders = [folder(), folder()];
    let [one, other] = folders.each_ref().map(|folder| {
        let output = run(folder.path(), &["demo", "--json", "report.json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && text.starts_with("terasort.insert.csv.zst on hdd, load closed:32\n"),
            "{text}"
        );
        fs::read(folder.path().join("report.json")).unwrap()
    });
    assert_eq!(one, other);
}

#[test]
fn missing_unit_is_assumed_and_reported() {
    let folder = folder();
    let run = |arguments: &[&str]| {
        let common = ["compare", "trace.csv", "--scheduler", "none", "--export", "out.txt"];
        let output = run(folder.path(), &[&common[..], arguments].concat());
        assert!(output.status.success());
        (String::from_utf8(output.stderr).unwrap(), fs::read(folder.path().join("out.txt")).unwrap())
    };
    let (said, typed) = run(&["--load", "8,10x", "--request-bytes-max", "512"]);
    assert!(
        said.contains("load 8: taken as closed:8,") && said.contains("largest request 512: taken as 512KiB"),
        "{said}"
    );
    assert_eq!(run(&["--load", "closed:8,x10", "--request-bytes-max", "512KiB"]), (String::new(), typed));
    // Advice takes a load at the trace's times, and has a flag of its own for closed loops.
    let advise = ["advise", "trace.csv", "--device", "hdd", "--budget", "8", "--rounds", "2", "--load", "4"];
    let said = command(folder.path(), &[&advise[..], &["--request-bytes-max", "64"]].concat()).output().unwrap().stderr;
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("load 4: taken as x4,") && said.contains("largest request 64: taken as 64KiB"), "{said}");
}

#[test]
fn many_comparisons_are_rows_with_a_mean() {
    let folder = folder();
    fs::create_dir(folder.path().join("traces")).unwrap();
    for name in ["a.csv", "b.csv", "c.csv"] {
        fs::write(folder.path().join("traces").join(name), trace()).unwrap();
    }
    fs::write(folder.path().join("traces/notes.md"), "no trace\n").unwrap();
    let devices = ["compare", "traces", "--device", "hdd,hdd-15k,ssd-970pro", "--scheduler", "none,clook"];
    insta::assert_snapshot!(transcript(folder.path(), &devices));
    assert!(run(folder.path(), &[&devices[..], &["--export", "all.txt"]].concat()).status.success());
    let whole = fs::read_to_string(folder.path().join("all.txt")).unwrap();
    assert_eq!(whole.matches("mean wait").count(), 9);
}

#[test]
fn uninformative_columns_come_last() {
    let folder = folder();
    let table = |load: &str| {
        let output = run(folder.path(), &["compare", "trace.csv", "--scheduler", "none,bid-hdd", "--load", load]);
        String::from_utf8(output.stdout).unwrap()
    };
    let place = |text: &str, column: &str| {
        let names = text.lines().find(|line| line.contains("completion   ")).unwrap();
        names.find(column).unwrap()
    };
    let (idle, full) = (table("x0.1"), table("closed:4"));
    assert!(idle.contains("Load x0.1: requests arrive at the trace's times, which leave the device idle"), "{idle}");
    assert!(place(&idle, "completion") > place(&idle, "latency mean"), "{idle}");
    assert!(full.contains("Load closed:4: streams send their next request when one completes"), "{full}");
    assert!(place(&full, "completion") < place(&full, "latency mean"), "{full}");
}

#[test]
fn every_verb_has_a_manual_page() {
    let folder = folder();
    assert!(run(folder.path(), &["man", "pages"]).status.success());
    let page = fs::read_to_string(folder.path().join("pages/ioweir-compare.1")).unwrap();
    assert!(page.contains("Replay traces under several schedulers"), "{page}");
    for page in ["ioweir", "ioweir-ctl-set", "ioweir-reproduce"] {
        assert!(folder.path().join(format!("pages/{page}.1")).exists(), "{page}");
    }
}

#[test]
fn a_shell_is_offered_names_and_their_summaries() {
    let folder = folder();
    let offered = |words: &[&str]| {
        let mut command = command(folder.path(), &[&["--"], words].concat());
        let output = command.env("COMPLETE", "zsh").env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert!(offered(&["ioweir", "compare", "--scheduler", "noop,bid-hd"]).starts_with("noop,bid-hdd:"));
    assert!(offered(&["ioweir", "compare", "--device", "ssd-9"]).contains("ssd-970pro"));
    assert!(offered(&["ioweir", "compare", "--load", "clo"]).starts_with("closed"));
    assert!(offered(&["ioweir", "doc", "pol"]).contains("policy"));
    assert!(offered(&["ioweir", "comp"]).contains("compare"));
}

#[test]
fn output_fits_eighty_columns() {
    let folder = folder();
    let verbs = [
        "compare",
        "advise",
        "simulate",
        "sweep",
        "record",
        "replay",
        "forecast",
        "plan",
        "govern",
        "calibrate",
        "serve",
        "ctl",
    ];
    let helps = verbs.iter().map(|verb| vec![*verb, "--help"]);
    let others: [&[&str]; 20] = [
        &[],
        &["plan"],
        &["doc", "wafl"],
        &["--help"],
        &["trace", "cut", "--help"],
        &["advise", "qos", "--help"],
        &["advise", "scorecard", "--help"],
        &["advise", "targets", "--help"],
        &["demo"],
        &["compare", "trace.csv", "--scheduler", "none,bfq"],
        &["compare", "trace.csv", "--by", "stream", "--seeds", "1,2"],
        &["trace", "info", "trace.csv"],
        &["doc"],
        &["doc", "policy"],
        &["doc", "bfq"],
        &["doc", "serve"],
        &["doc", "hdd"],
        &["check", "trace.csv"],
        &["compare", "trace.csv", "--device", "ssd"],
        &["compare", "trace.csv", "--scheduler", "nonsense"],
    ];
    for arguments in others.iter().map(|arguments| arguments.to_vec()).chain(helps) {
        let output = command(folder.path(), &arguments).env("COLUMNS", "80").output().unwrap();
        for line in [output.stdout, output.stderr].iter().flat_map(|text| std::str::from_utf8(text).unwrap().lines()) {
            // A name or an example that is longer than a line is not broken.
            let is_whole =
                line.trim_start().split(' ').count() <= 2 || line.contains('`') || line.starts_with("  ioweir ");
            assert!(line.chars().count() <= 80 || is_whole, "{arguments:?}: {line}");
        }
    }
    let wide = command(folder.path(), &["compare", "trace.csv", "--wide"]).env("COLUMNS", "80").output().unwrap();
    assert_eq!(wide.stdout, run(folder.path(), &["compare", "trace.csv"]).stdout);
    let narrow = command(folder.path(), &["compare", "trace.csv"]).env("COLUMNS", "80").output().unwrap();
    assert!(String::from_utf8(narrow.stdout).unwrap().contains("too wide for this terminal: "));
}

#[test]
fn guessed_names_end_at_the_right_command() {
    let folder = folder();
    fs::write(folder.path().join("server.toml"), "[[device]]\nname = \"d\"\n[[export]]\nname = \"a\"\n").unwrap();
    fs::write(folder.path().join("class.toml"), "[[class]]\nname = \"a\"\n").unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    fs::copy(folder.path().join("trace.csv"), folder.path().join("folder/only.csv")).unwrap();
    for (arguments, said) in [
        (&["check", "trace.csv"][..], "`ioweir trace info trace.csv` checks a trace"),
        (&["lint", "server.toml"], "`ioweir serve server.toml --check`"),
        (&["validate", "server.toml"], "`ioweir serve server.toml --check`"),
        (&["run"], "`ioweir simulate SPEC.toml` runs an experiment"),
        (&["compare", "trace.csv", "--out", "x.html"], "it is --export FILE here"),
        (&["compare", "trace.csv", "--policy", "bfq"], "it is --scheduler NAME here"),
        (&["compare", "trace.csv", "--device", "ssd"], "ssd-970pro"),
        (&["doc", "bfq"], "bfq: budget fair queueing"),
        (&["doc", "hdd"], "hdd: 7200 rpm"),
        (&["doc", "schedulers"], "Schedulers."),
        (&["doc", "array"], "ioweir doc device-file array.layout"),
        (&["doc", "wafl"], "No entry is named `wafl`; these speak of it"),
        (&["doc", "raid"], "ioweir doc device raid-5"),
        (&["version"], "`ioweir --version` prints it"),
        (&["compare", "trace.csv", "-o", "x.html"], "it is --export FILE here"),
        (&["sweep", "s.toml", "--out", "runs"], "it is --output here"),
        (&["trace", "convert", "trace.csv", "o.fio", "--to", "fio-iolog"], "it is --as FORMAT here"),
        (&["compare", "server.toml"], "`ioweir serve server.toml` serves it"),
        (&["trace", "info", "class.toml"], "`ioweir simulate class.toml` runs it"),
        (&["compare", "trace.csv", "--device", "raid"], "raid-10"),
        (&["compare", "trace.csv", "--device", "array"], "examples/arrays has files"),
        (&["reproduce"], "PAPER"),
        (&["trace", "convert", "trace.csv"], "for example `ioweir trace convert grep.blktrace grep.parquet`"),
        (&["qos", "hdd", "--p99", "9ms"], "`ioweir advise qos DEVICE --p99 TIME`"),
        (&["explain", "x.toml", "--request=7"], "`ioweir simulate SPEC.toml --explain all`"),
        (&["compare", "trace.csv", "--seed", "7"], "it is --seeds N,N here"),
        (&["advise", "trace.csv", "--seeds", "7"], "it is --seed N here"),
        (
            &["calibrate", "trace.csv", "--validate", "trace.csv"],
            "`ioweir calibrate trace.csv --kind disk -o own.toml` (or flash) fits one",
        ),
        // A folder stands for the traces in it.
        (&["trace", "info", "folder"], "requests              100\n"),
    ] {
        let output = run(folder.path(), arguments);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
}

#[test]
fn errors_name_the_place_and_a_way_on() {
    let folder = folder();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let device = |keys: &str| format!("[[device]]\nname = \"d\"\n{keys}scheduler = \"sfq\"\n");
    write("one.toml", &(device("backend = \"null\"\nsize = \"1MiB\"\n") + "[export]\nname = \"a\"\ndevice = \"d\"\n"));
    write("size.toml", &device("backend = \"memory\"\n"));
    write("colon.toml", &device("backend = \"file:disk.img\"\n"));
    write(
        "classes.toml",
        "duration = \"1s\"\nseeds = 1\nschedulers = [\"fifo\"]\ndevice = \"tiny\"\n[[class]]\nname = \"a\"\nbacklog = 1\n",
    );
    write(
        "of.toml",
        "duration = \"1s\"\nschedulers = [\"fifo\"]\ndevice = \"tiny\"\n[[class]]\nname = \"a\"\nbacklog = 1\n",
    );
    for (arguments, said) in [
        (
            &["serve", "one.toml", "--check"][..],
            "one.toml:6:1: export: invalid type: one table, expected a list of tables",
        ),
        (&["serve", "one.toml", "--check"], "hint: begin each with [[export]]"),
        (&["serve", "size.toml", "--check"], "hint: add size = \"1GiB\" below [[device]]"),
        (&["serve", "colon.toml", "--check"], "hint: backend = \"file\", with keys of its own beside it: path"),
        (
            &["simulate", "classes.toml"],
            "classes.toml:2:9: seeds: invalid type: integer `1`, expected a list in brackets",
        ),
        (&["simulate", "classes.toml"], "hint: seeds = [1]"),
        (&["simulate", "class.toml"], "hint: did you mean classes.toml?"),
        (
            &["simulate", "of.toml", "--of", "a"],
            "hint: on the command line: --goal read-p99 or --goal mean beside --of",
        ),
        (&["forecast", "vdi:1", "--horizon", "3"], "--horizon: duration `3` has no unit"),
        (&["advise", "qos", "hdd", "--p99", "5"], "--p99: duration `5` has no unit"),
        (&["advise", "hdd", "--bound", "p99"], "bound `p99` has no time"),
        (&["compare", "trace.csv", "--scheduler", "sfq+"], "hint: such as sfq+mq-deadline"),
        (&["compare", "trace.csv", "--goal", "p99"], "hint: did you mean `read-p99`?"),
        (&["compare", "trace.csv", "--fast-device", "nope"], "hint: `ioweir doc device` says what the presets are"),
        (&["trace", "generate", "grep", "t.csv", "--requests", "many"], "`many` is no whole number, or too large"),
        (&["trace", "generate", "grep", "t.csv", "--requests", "0"], "0 is not in 1.."),
        (&["ctl", "size.toml", "blah"], "expected: one of state, clients, kick"),
        (&["top", "nowhere"], "expected: the spec of a running server, or its control socket"),
        (&["replay", "trace.csv", "nowhere"], "hint: `lsblk` lists the block devices of this machine"),
        (&["calibrate", "trace.csv", "--kind", "disk"], "hint: `ioweir record DEVICE -o seen.parquet` records one"),
        // A preset has a kind.
        (&["calibrate", "trace.csv", "--preset", "hdd-15k"], "trace.csv: no request has a latency"),
    ] {
        let output = run(folder.path(), arguments);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(text.contains(said) && output.status.code() == Some(2), "{arguments:?}: {text}");
    }
}

#[test]
fn usage_errors_say_what_was_meant() {
    let folder = folder();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["compare"],
            &["comapre", "trace.csv"],
            &["compare", "trace.csv", "--sheduler", "noop"],
            &["compare", "trace.csv", "--depth", "0"],
            &["compare", "trace.csv", "--event", "enqueue"],
        ],
    ));
}

#[test]
fn bad_values_say_what_was_expected() {
    let folder = folder();
    fs::write(folder.path().join("own.parquet"), b"PAR1\xff\xfe").unwrap();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["compare", "trace.csv", "--scheduler", "noop,bid_hd"],
            &["compare", "trace.csv", "--scheduler", "bid-hdd:wait=6"],
            &["compare", "trace.csv", "--scheduler", "noop,noop"],
            &["compare", "trace.csv", "--load", "x0"],
            &["compare", "trace.csv", "--request-bytes-max", "512"],
            &["compare", "trace.csv", "--device", "hdx"],
            &["compare", "trace.csv", "--format", "blktrase"],
            &["compare", "trace.csv", "--reference", "bfg"],
            &["compare", "trace.csv", "--seeds", "1,2,x"],
            &["compare", "trace.csv", "--seeds", "-1"],
            &["compare", "trace.csv", "--depth", "32.5"],
            &["compare", "trace.csv", "--goal", "p99"],
            &["simulate", "trace.csv"],
            &["simulate", "own.parquet"],
            &["calibrate", "--validate", "."],
            &["compare", "trace.csv", "--export", "report.pdf"],
            &["compare", "missing.csv"],
            &["doc", "polcy"],
            &["doc", "policy", "dedline"],
            &["trace", "generate", "terrasort", "t.csv"],
            &["trace", "cut", "trace.csv", "t.csv", "--scale", "2"],
            &["trace", "cut", "trace.csv", "t.csv", "--from", "10"],
            &["trace", "cut", "trace.csv", "t.csv", "--streams", "nobody"],
            &["show", "hdd-15"],
            &["reproduce", "reward", "--quick", "--traces", "folder"],
            &["reproduce", "bid", "--quick", "--trace", "trace.csv"],
            &["reproduce", "bid", "--quick", "--traces", "nowhere"],
        ],
    ));
}

#[test]
fn trace_comes_from_standard_input() {
    let folder = folder();
    let json = |name: &str| {
        let input = fs::File::open(folder.path().join("trace.csv")).unwrap();
        let arguments = ["compare", name, "--scheduler", "noop,bid-hdd", "--json", "-"];
        let output = command(folder.path(), &arguments).stdin(input).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let mut results = serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["results"].take();
        let name_of = |result: &mut serde_json::Value| result.as_object_mut().unwrap().remove("trace").unwrap();
        let names: Vec<_> = results.as_array_mut().unwrap().iter_mut().map(name_of).collect();
        assert_eq!(names.len(), 2);
        results
    };
    let results = json("trace.csv");
    for name in ["-", "/dev/stdin"] {
        assert_eq!(json(name), results, "{name}");
        let output = command(folder.path(), &["compare", name]).stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("nothing came from standard input") && error.contains("hint: pipe a trace"), "{error}");
        assert_eq!(output.status.code(), Some(2), "{name}");
    }
}

#[test]
fn a_damaged_trace_is_named_with_the_place() {
    let folder = folder();
    fs::write(folder.path().join("bad.csv"), trace().replace("0.003000,", "0.003000x,")).unwrap();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[&["compare", "bad.csv"], &["compare", "bad.csv", "--lenient", "--scheduler", "noop"]],
    ));
}

#[test]
fn a_damaged_spec_is_named_with_the_place() {
    let folder = folder();
    fs::write(folder.path().join("spec.toml"), "traces = [\"trace.csv\"]\ndeph = 4\n").unwrap();
    fs::write(folder.path().join("wrong.toml"), "loads = [\"fast\"]\n").unwrap();
    fs::write(folder.path().join("broken.toml"), "traces = [\"trace.csv\"\n").unwrap();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["compare", "--spec", "spec.toml"],
            &["show", "broken.toml"],
            &["show", "wrong.toml"],
            &["compare", "--spec", "missing.toml"]
        ],
    ));
}

#[test]
fn a_comparison_reads_as_drawn() {
    let folder = folder();
    let arguments = ["compare", "trace.csv", "--scheduler", "noop,bid-hdd:wait=2ms", "--load", "recorded,closed:4"];
    insta::assert_snapshot!(transcript(folder.path(), &arguments));
}

#[test]
fn documentation_comes_from_the_tables() {
    let folder = folder();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[&["doc"], &["doc", "policy", "noop"], &["doc", "load"], &["doc", "reason"], &["doc", "exit-codes"]],
    ));
    for topic in ["policy", "device", "simulate", "metric", "format", "mix", "export", "units", "columns"] {
        assert!(run(folder.path(), &["doc", topic]).status.success(), "{topic}");
    }
}

#[test]
fn json_on_standard_output_is_alone_there() {
    let folder = folder();
    let output = run(folder.path(), &["compare", "trace.csv", "--json", "-"]);
    assert!(output.status.success() && output.stderr.is_empty());
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["results"].as_array().unwrap().len(), 5);
    assert_eq!(value["results"][0]["requests"], 100);
    assert_eq!(value["meta"]["spec"]["traces"][0], "trace.csv");
}

#[test]
fn folder_is_compared_trace_by_trace() {
    let folder = folder();
    fs::create_dir(folder.path().join("night")).unwrap();
    for (name, text) in [("a.csv", trace()), ("b.csv", trace()), ("notes.txt", "nothing to replay\n".into())] {
        fs::write(folder.path().join("night").join(name), text).unwrap();
    }
    let output = run(folder.path(), &["compare", "night", "--scheduler", "noop", "--json", "-"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.starts_with("left out: night/notes.txt"), "{told}");
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let traces: Vec<_> = value["results"].as_array().unwrap().iter().map(|result| result["trace"].clone()).collect();
    assert_eq!(traces, ["night/a.csv", "night/b.csv"]);
}

#[test]
fn devices_depths_and_seeds_are_compared_together() {
    let folder = folder();
    let axes = ["--device", "hdd,ssd-slc", "--depth", "1,32", "--seeds", "1,2,3", "--by", "stream"];
    let arguments: Vec<&str> = ["compare", "trace.csv", "--scheduler", "noop,cfq"].into_iter().chain(axes).collect();
    let json: Vec<&str> = arguments.iter().copied().chain(["--json", "-"]).collect();
    let value: serde_json::Value = serde_json::from_slice(&run(folder.path(), &json).stdout).unwrap();
    assert_eq!(value["results"].as_array().unwrap().len(), 24);
    assert_eq!(value["over_seeds"].as_array().unwrap().len(), 8);
    assert_eq!(value["results"][0]["streams"].as_array().unwrap().len(), 2);
    let text = String::from_utf8(run(folder.path(), &arguments).stdout).unwrap();
    assert_eq!(text.matches("3 samples of the trace").count(), 4, "{text}");
}

#[test]
fn the_requests_of_a_run_are_a_trace() {
    let folder = folder();
    let compare = ["compare", "trace.csv", "--scheduler", "noop", "--requests", "requests.parquet"];
    assert!(run(folder.path(), &compare).status.success());
    let info = run(folder.path(), &["trace", "info", "requests.parquet"]);
    assert!(info.status.success(), "{}", String::from_utf8_lossy(&info.stderr));
    assert!(String::from_utf8(info.stdout).unwrap().contains("100"));
    let both = ["compare", "trace.csv", "--scheduler", "noop,cfq", "--requests", "requests.parquet"];
    assert!(run(folder.path(), &both).status.success());
    let info = run(folder.path(), &["trace", "info", "requests.parquet"]);
    assert!(String::from_utf8(info.stderr).unwrap().contains("holds the requests of several runs"));
}

#[test]
fn command_in_report_gives_the_report() {
    let folder = folder();
    fs::write(folder.path().join("it's a trace.csv"), trace()).unwrap();
    let first = ["compare", "it's a trace.csv", "--scheduler", "cfq,noop", "--depth", "4", "--no-merge", "--json", "-"];
    let first = run(folder.path(), &first).stdout;
    let value: serde_json::Value = serde_json::from_slice(&first).unwrap();
    let again = value["meta"]["command"].as_str().unwrap();
    let again = again.replacen("ioweir", env!("CARGO_BIN_EXE_ioweir"), 1) + " --json -";
    let second = Command::new("sh").args(["-c", &again]).current_dir(folder.path()).output().unwrap().stdout;
    assert_eq!(String::from_utf8(first).unwrap(), String::from_utf8(second).unwrap());
}

#[test]
fn flags_override_the_spec() {
    let folder = folder();
    fs::write(folder.path().join("spec.toml"), "traces = [\"trace.csv\"]\nseeds = 3\nschedulers = [\"cfq\"]\n")
        .unwrap();
    let output = run(folder.path(), &["compare", "--spec", "spec.toml", "--seeds", "4", "--json", "-"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["meta"]["spec"]["seeds"], &value["meta"]["spec"]["schedulers"][0]), (&4.into(), &"cfq".into()));
}

#[test]
fn what_show_prints_is_read_back() {
    let folder = folder();
    fs::write(folder.path().join("spec.toml"), "traces = [\"trace.csv\"]\nrequest_bytes_max = \"1024k\"\n").unwrap();
    let shown = run(folder.path(), &["show", "spec.toml"]).stdout;
    assert!(String::from_utf8_lossy(&shown).contains("request_bytes_max = \"1MiB\""));
    fs::write(folder.path().join("again.toml"), &shown).unwrap();
    assert_eq!(run(folder.path(), &["show", "again.toml"]).stdout, shown);
    let device = run(folder.path(), &["show", "hdd"]).stdout;
    fs::write(folder.path().join("disk.toml"), &device).unwrap();
    assert_eq!(run(folder.path(), &["show", "disk.toml"]).stdout, device);
}

#[test]
fn exports_are_whole_and_never_replace_inputs() {
    let folder = folder();
    let exports = ["report.json", "report.csv", "report.md", "report.html", "report.parquet", "report.txt"];
    let mut arguments = vec!["compare", "trace.csv", "--scheduler", "noop,cfq", "--quiet"];
    for export in exports {
        arguments.extend(["--export", export]);
    }
    assert!(run(folder.path(), &arguments).status.success());
    for export in exports {
        assert!(fs::metadata(folder.path().join(export)).unwrap().len() > 100, "{export}");
    }
    // No temporary file is left.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1 + exports.len());
    fs::hard_link(folder.path().join("trace.csv"), folder.path().join("linked.csv")).unwrap();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["compare", "trace.csv", "--export", "./trace.csv"],
            &["compare", "trace.csv", "--export", "linked.csv"],
            &["compare", "trace.csv", "--json", "a.json", "--export", "./a.json"],
            &["compare", "trace.csv", "--quiet", "--json", "missing/a.json"],
            &["trace", "convert", "trace.csv", "trace.csv"],
        ],
    ));
    assert_eq!(fs::read_to_string(folder.path().join("trace.csv")).unwrap(), trace());
}

#[cfg(unix)]
#[test]
fn an_output_that_is_a_link_stays_one() {
    let folder = folder();
    let link = folder.path().join("link.json");
    std::os::unix::fs::symlink("real.json", &link).unwrap();
    for _ in 0..2 {
        assert!(run(folder.path(), &["compare", "trace.csv", "--json", "link.json"]).status.success());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink() && folder.path().join("real.json").is_file());
    }
}

#[test]
fn figures_of_a_trace_read_as_drawn() {
    let folder = folder();
    fs::copy(folder.path().join("trace.csv"), folder.path().join("second.csv")).unwrap();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["trace", "info", "trace.csv"],
            &["trace", "info", "trace.csv", "--json", "-"],
            &["trace", "info", "none.csv"]
        ],
    ));
    let both = run(folder.path(), &["trace", "info", "trace.csv", "second.csv", "--json", "-"]).stdout;
    let both: serde_json::Value = serde_json::from_slice(&both).unwrap();
    assert_eq!((&both[0]["requests"], &both[1]["trace"]), (&100.into(), &"second.csv".into()));
}

#[test]
fn trace_names_are_not_sent_to_terminals() {
    let folder = folder();
    fs::write(folder.path().join("evil.csv"), trace().replace("worker", "\u{1b}[2Jworker")).unwrap();
    for arguments in [&["trace", "info", "evil.csv"][..], &["compare", "evil.csv"]] {
        assert!(!run(folder.path(), arguments).stdout.contains(&0x1b), "{arguments:?}");
    }
}

#[test]
fn a_trace_converts_there_and_back() {
    let folder = folder();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["trace", "convert", "trace.csv", "trace.parquet"],
            &["trace", "convert", "trace.parquet", "back.csv"],
            &["trace", "convert", "trace.csv", "trace.xyz"],
            &["trace", "convert", "trace.csv", "trace.bin", "--as", "blktrace"],
        ],
    ));
    let results = |name: &str| {
        let output = run(folder.path(), &["compare", name, "--json", "-"]);
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        value["results"][2]["latency_mean_seconds"].as_f64().unwrap()
    };
    assert_eq!(results("trace.csv"), results("back.csv"));
}

#[test]
fn what_a_target_cannot_hold_is_said() {
    let folder = folder();
    fs::write(folder.path().join("columns.txt"), "0 0 8 8 1\n1 0 16 8 0\n").unwrap();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["trace", "convert", "trace.csv", "trace.spc"],
            &["trace", "convert", "trace.csv", "trace.msr", "--as", "msr-csv"],
            &["trace", "convert", "trace.csv", "trace.blkparse"],
            &["trace", "info", "columns.txt"],
            &["trace", "convert", "columns.txt", "columns.spc", "--format", "mqsim"],
        ],
    ));
}

#[test]
fn a_trace_is_cut_and_a_job_generated() {
    let folder = folder();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["trace", "cut", "trace.csv", "part.csv", "--from", "10ms", "--to", "20ms", "--scale", "x2"],
            &["trace", "cut", "trace.csv", "part.spc", "--offset-from", "0", "--offset-to", "1MiB"],
            &["trace", "generate", "terasort", "job.parquet", "--requests", "1000", "--seed", "7"],
            &["trace", "info", "job.parquet"],
        ],
    ));
    let generate = |name: &str, seed: &str| {
        let arguments = ["trace", "generate", "grep", name, "--requests", "500", "--seed", seed];
        assert!(run(folder.path(), &arguments).status.success());
        fs::read(folder.path().join(name)).unwrap()
    };
    assert_eq!(generate("a.csv", "1"), generate("b.csv", "1"));
    assert_ne!(generate("a.csv", "1"), generate("b.csv", "2"));
}

/// The files below a folder, by their names in it.
fn files_below(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            files.extend(files_below(&path).into_iter().map(|(below, text)| (format!("{name}/{below}"), text)));
        } else {
            files.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    files
}

#[test]
fn the_reference_pages_are_those_of_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run(folder.path(), &["doc", "--write", "."]).status.success());
    let committed = files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference"));
    let made = files_below(folder.path());
    assert!(committed.keys().eq(made.keys()), "{:?} beside {:?}", committed.keys(), made.keys());
    for (name, text) in made {
        assert!(committed[&name] == text, "{name} is stale: cargo run -p ioweir -- doc --write docs/reference");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = folder();
    for arguments in [&["doc", "policy"][..], &["compare", "trace.csv", "--json", "-"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(folder.path(), arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn nothing_is_coloured_unless_a_terminal_asks() {
    let folder = folder();
    let plain = run(folder.path(), &["compare", "trace.csv"]);
    assert!(!plain.stdout.contains(&0x1b) && !plain.stderr.contains(&0x1b));
    let mut forced = command(folder.path(), &["compare", "trace.csv"]);
    assert!(forced.env("CLICOLOR_FORCE", "1").output().unwrap().stdout.contains(&0x1b));
    let mut refused = command(folder.path(), &["compare", "trace.csv"]);
    let refused = refused.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").output().unwrap();
    assert!(!refused.stdout.contains(&0x1b));
}

#[test]
fn completions_are_scripts_that_ask_the_program() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(folder.path(), &["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("COMPLETE") && script.contains("ioweir"), "{shell}: {script}");
    }
    // Nushell has no such hook: its script has the verbs and the flags in it.
    let output = run(folder.path(), &["completions", "nushell"]);
    let script = String::from_utf8(output.stdout).unwrap();
    assert!(script.contains("export extern \"ioweir compare\"") && script.contains("--scheduler"), "{script}");
}

#[test]
fn plan_names_what_stands_in_its_way() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    // Three days by the hour, busy from eight to five; an hour is missing.
    let mut series = String::from("time,reads,writes\n");
    for hour in (0..72).filter(|hour| *hour != 30) {
        let busy = if (8..17).contains(&(hour % 24)) { 9 } else { 1 };
        series += &format!("2026-11-{:02} {:02}:00:00,{},{}\n", 16 + hour / 24, hour % 24, busy * 100, busy * 40);
    }
    write("load.csv", &series);
    let policy = "[pool]\nsize = \"40GiB\"\nused = \"30GiB\"\n\n[cores]\ncount = 16\nforeground_iops = 100\nbackground_operations = 50\n\n\
[load]\nread = \"reads\"\nwrite = \"writes\"\n\n[forecast]\nmethod = \"naive-day\"\nbin = \"1h\"\nhorizon = \"1d\"\n\n\
[service.snapshot-delete]\nevery = \"2h\"\nretention = \"4h\"\n\n[service.rebuild]\nowed = \"1GiB\"\ndeadline = \"6h\"\n";
    write("policy.toml", policy);
    write("column.toml", &policy.replace("\"reads\"", "\"read\""));
    write("service.toml", &policy.replace("service.rebuild", "service.rebuilt"));
    write("full.toml", &policy.replace("30GiB", "40GiB"));
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["plan", "load.csv", "--policy", "policy.toml"],
            &["plan", "load.csv", "--policy", "column.toml"],
            &["plan", "load.csv", "--policy", "service.toml"],
            &["plan", "load.csv", "--policy", "absent.toml"],
            &["plan", "load.csv", "--policy", "full.toml"],
            &["plan", "load.csv", "--policy", "policy.toml", "--export", "plan.pdf"],
            &["plan", "load.csv", "--policy", "policy.toml", "--replay", "load.csv"],
            &["doc", "service"],
            &["doc", "service", "snapshot-delete"],
        ],
    ));
    let output = run(folder.path(), &["plan", "load.csv", "--policy", "policy.toml", "--json", "-"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["plan"]["bins"].as_array().unwrap().len(), 24);
    run(folder.path(), &["plan", "load.csv", "--policy", "policy.toml", "--export", "plan.html"]);
    let page = fs::read_to_string(folder.path().join("plan.html")).unwrap();
    assert_eq!(
        page.matches("busy hours</span>").count(),
        page.matches("role=\"img\"").count(),
        "every chart marks them"
    );
}

/// Two tenants on a tiered array, and expectations of them, one of which is not met.
const EXPERIMENT: &str = "\
title = \"two tenants\"
duration = \"20s\"
warm_up = \"2s\"
schedulers = [\"fifo\", \"reward\"]
depth = 4
device = \"tiered\"

[[class]]
name = \"quick\"
backlog = 20
hit_ratio = 0.9

[[class]]
name = \"slow\"
backlog = 20
hit_ratio = 0.1

[[expect]]
class = \"quick\"
metric = \"iops\"
ratio_to = \"slow\"
at_least = 4

[[expect]]
class = \"slow\"
metric = \"latency_p99\"
at_most = \"10s\"
";

/// A folder with `two.toml` in it.
fn experiment() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("two.toml"), EXPERIMENT).unwrap();
    folder
}

#[test]
fn experiment_reads_as_drawn_with_misses() {
    let folder = experiment();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["simulate", "two.toml"],
            &["simulate", "two.toml", "--scheduler", "reward", "--seeds", "1,2,3"],
            &["show", "two.toml"],
        ],
    ));
}

#[test]
fn a_request_is_explained_in_words() {
    let folder = experiment();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["simulate", "two.toml", "--explain", "quick"],
            &["simulate", "two.toml", "--explain", "quick", "--scheduler", "reward"],
            &["simulate", "two.toml", "--explain", "3", "--scheduler", "cfq"],
            &["simulate", "two.toml", "--explain", "100000000"],
            &["simulate", "two.toml", "--explain", "quik"],
        ],
    ));
}

#[test]
fn a_damaged_experiment_is_named_with_the_place() {
    let folder = experiment();
    for (name, from, to) in [
        ("key.toml", "depth = 4", "depht = 4"),
        ("unit.toml", "\"20s\"", "20"),
        ("value.toml", "hit_ratio = 0.9", "hit_ratio = 1.9"),
        ("scheduler.toml", "\"fifo\"", "\"fifi\""),
        ("class.toml", "ratio_to = \"slow\"", "ratio_to = \"slaw\""),
    ] {
        fs::write(folder.path().join(name), EXPERIMENT.replacen(from, to, 1)).unwrap();
    }
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["simulate", "key.toml"],
            &["simulate", "unit.toml"],
            &["simulate", "value.toml"],
            &["simulate", "scheduler.toml"],
            &["simulate", "class.toml"],
            &["simulate", "missing.toml"],
            &["simulate", "two.toml", "--scheduler", "wfk"],
            &["simulate", "two.toml", "--export", "two.pdf"],
        ],
    ));
}

#[test]
fn experiments_export_the_same_in_every_form() {
    let folder = experiment();
    let arguments = ["simulate", "two.toml", "--scheduler", "reward", "--json", "a.json", "--export", "a.html"];
    let forms = ["--export", "a.csv", "--export", "a.md", "--export", "a.parquet"];
    let write = || {
        assert!(run(folder.path(), &[&arguments[..], &forms].concat()).status.success());
        ["a.json", "a.html", "a.csv", "a.md"].map(|name| fs::read(folder.path().join(name)).unwrap())
    };
    let first = write();
    assert!(write() == first, "the same experiment gives the same bytes");
    let value: serde_json::Value = serde_json::from_slice(&first[0]).unwrap();
    assert_eq!(value["results"][0]["scheduler"], "reward");
    assert!(value["results"][0]["classes"]["quick"]["iops"].as_f64().unwrap() > 100.0);
    assert!(value["expectations"][0]["met"].as_bool().unwrap());
}

#[test]
fn unwatchable_server_is_reported() {
    let folder = folder();
    let server = |control: &str| {
        format!(
            "[server]\n{control}\n[[device]]\nname = \"d\"\nbackend = \"memory\"\nsize = \"1MiB\"\n[[export]]\n\
             name = \"a\"\ndevice = \"d\"\n"
        )
    };
    fs::write(folder.path().join("without.toml"), server("")).unwrap();
    fs::write(folder.path().join("gone.toml"), server("control = \"unix:gone.control\"")).unwrap();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["top", "--help"],
            &["top", "without.toml"],
            &["top", "gone.toml", "--once"],
            &["top", "unix:trace.csv"],
            &["top", "unix:gone.control", "--interval", "1ms"],
        ],
    ));
}

/// Two tenants on one device.
const SERVED: &str = "\
[server]
listen = [\"unix:s\"]
control = \"unix:control\"

[[device]]
name = \"disk\"
backend = \"memory\"
size = \"1MiB\"
scheduler = \"sfq\"

[[export]]
name = \"gold\"
device = \"disk\"
weight = 300

[[export]]
name = \"bronze\"
device = \"disk\"
";

/// A server that is killed with the test.
struct Served(std::process::Child, std::io::Lines<std::io::BufReader<std::process::ChildStderr>>);

impl Served {
    /// Starts the server, and waits until it reports that it listens.
    fn start(folder: &Path) -> Self {
        Self::of(command(folder, &["serve", "served.toml"]))
    }

    fn of(mut serve: Command) -> Self {
        use std::io::BufRead as _;
        let mut child = serve.stderr(Stdio::piped()).spawn().unwrap();
        let lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
        let mut served = Self(child, lines);
        served.line("listening at");
        served
    }

    /// The next line on its standard error in which this stands.
    fn line(&mut self, part: &str) -> String {
        self.1.by_ref().map(|line| line.unwrap()).find(|line| line.contains(part)).unwrap()
    }

    fn signal(&self, name: &str) {
        let killed = Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn service_manager_hears_readiness_and_life() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("served.toml"), SERVED.replace("control = \"unix:control\"\n", "")).unwrap();
    let manager = std::os::unix::net::UnixDatagram::bind(folder.path().join("notify")).unwrap();
    // A server that never answers fails this test.
    manager.set_read_timeout(Some(std::time::Duration::from_secs(120))).unwrap();
    let mut serve = command(folder.path(), &["serve", "served.toml"]);
    serve.env("NOTIFY_SOCKET", folder.path().join("notify")).env("WATCHDOG_USEC", "2000000");
    let _served = Served::of(serve);
    for expected in ["READY=1", "WATCHDOG=1", "WATCHDOG=1"] {
        let mut message = [0; 64];
        let length = manager.recv(&mut message).unwrap();
        assert_eq!(String::from_utf8_lossy(&message[..length]).trim(), expected);
    }
}

#[test]
fn running_server_changes_or_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("served.toml", SERVED);
    write("plain.toml", &SERVED.replace("control = \"unix:control\"\n", ""));
    let mut served = Served::start(folder.path());
    let told = transcripts(
        folder.path(),
        &[
            &["ctl", "--help"],
            &["ctl", "set", "--help"],
            &["ctl", "missing.toml", "state"],
            &["ctl", "plain.toml", "state"],
            &["ctl", "served.toml", "clients"],
            &["ctl", "served.toml", "kick", "7"],
            &["ctl", "served.toml", "kick", "gold"],
            &["ctl", "served.toml", "set"],
            &["ctl", "served.toml", "set", "export.gold.weight=200", "export.bronze.limit_bytes=8MiB/s"],
            &["ctl", "served.toml", "set", "export.gold.weight=200"],
            &["ctl", "served.toml", "set", "export.gold.weight=0", "export.bronze.weight=7"],
            &["ctl", "served.toml", "set", "export.gold.weight=much"],
            &["ctl", "served.toml", "set", "export.gold.wait=1"],
            &["ctl", "served.toml", "set", "export.silver.weight=1"],
            &["ctl", "served.toml", "set", "exports.gold.weight=1"],
            &["ctl", "served.toml", "set", "export.gold.latency=10"],
            &["ctl", "served.toml", "set", "gold"],
            &["ctl", "unix:control", "reload"],
        ],
    );
    let saved = transcripts(
        folder.path(),
        &[
            &["ctl", "served.toml", "set", "export.gold.limit=500/s", "server.idle_timeout=1h"],
            &["ctl", "served.toml", "save"],
            &["ctl", "served.toml", "save", "kept.toml"],
            &["serve", "kept.toml", "--check"],
            &["serve", "kept.toml", "--check", "--take-over"],
        ],
    );
    let (_, printed) = saved.split_once("served.toml save\n").unwrap();
    assert!(printed.starts_with(&fs::read_to_string(folder.path().join("kept.toml")).unwrap()));
    write("served.toml", &SERVED.replace("\"sfq\"", "\"sfg\""));
    let wrong = transcript(folder.path(), &["ctl", "unix:control", "reload"]);
    served.signal("-HUP");
    // Once for the command, and once for the signal.
    served.line("unknown scheduler");
    let error = served.line("unknown scheduler");
    assert!(error.contains("served.toml:9:13: unknown scheduler `sfg`"), "{error}");
    write("served.toml", &SERVED.replace("\"1MiB\"", "\"2MiB\""));
    let refused = transcript(folder.path(), &["ctl", "unix:control", "reload"]);
    write("served.toml", &SERVED.replace("300", "400"));
    served.signal("-HUP");
    let change = served.line("300 -> 400");
    assert!(change.ends_with(" INFO ioweir: export.gold.weight 300 -> 400 event=\"spec_changed\""), "{change}");
    insta::assert_snapshot!([told, saved, wrong, refused].join("\n"));
}

#[test]
fn a_server_that_drains_ends_with_code_0() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("served.toml"), SERVED).unwrap();
    let mut served = Served::start(folder.path());
    let told = transcripts(
        folder.path(),
        &[
            &["ctl", "drain", "--help"],
            &["ctl", "served.toml", "drain", "--within", "30"],
            &["ctl", "served.toml", "drain", "--within", "30s"],
        ],
    );
    let event = served.line("draining");
    assert!(event.contains(" INFO ioweir: draining: ") && event.ends_with(" event=\"draining\""), "{event}");
    assert_eq!(served.0.wait().unwrap().code(), Some(0));
    let gone = transcript(folder.path(), &["ctl", "served.toml", "drain"]);
    insta::assert_snapshot!([told, gone].join("\n"));
}

#[test]
fn first_readme_example_prints_as_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let command = readme.lines().find_map(|line| line.split_once(" -- compare traces/")).unwrap().1;
    let first = format!("traces/{}", command.split(" --export").next().unwrap());
    let arguments: Vec<&str> = ["compare"].into_iter().chain(first.split(' ')).chain(["--quiet"]).collect();
    let output = run(&root, &arguments);
    let printed = String::from_utf8(output.stdout).unwrap();
    let (_, example) = readme.split_once("The first command prints").unwrap();
    let example = example.split("\n## ").next().unwrap().lines().filter_map(|line| line.strip_prefix("    "));
    let is_row =
        |line: &&str| line.contains("   ") && !["which", "by", "why"].iter().any(|name| line.starts_with(name));
    let (tables, sentences): (Vec<&str>, Vec<&str>) = example.partition(is_row);
    assert!(tables.len() > 4 && sentences.len() > 1, "the README shows sentences and a table");
    // The README breaks sentences where its lines end.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&printed).contains(&words(&sentences.join(" "))), "{printed}");
    for row in &tables[1..] {
        let mut cells = row.split_whitespace();
        let name = cells.next().unwrap();
        // The row of results has the factor to the reference.
        let is_result = |line: &&str| line.split_whitespace().next() == Some(name) && line.contains(" x");
        let found: Vec<&str> = printed.lines().find(is_result).unwrap().split_whitespace().collect();
        assert!(cells.all(|cell| found.contains(&cell)), "{row}: {found:?}");
    }
}
