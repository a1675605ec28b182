//! Transcripts of `ioweir advise`.

use std::fs;

use super::{folder, transcripts};

/// Four hundred requests of four processes, in this project's own CSV.
fn trace() -> String {
    let mut text = String::from("time_s,pid,comm,op,lba,sectors\n");
    for index in 0..400_u64 {
        let (operation, sector) =
            if index % 4 == 3 { ("WS", 900_000 + index * 64) } else { ("R", index * 977_353 % 5_000_000 * 8) };
        text +=
            &format!("{}.{:03}000,{},worker,{operation},{sector},64\n", index / 200, index % 200 * 5, 100 + index % 4);
    }
    text
}

#[test]
fn advice_reads_as_drawn() {
    let folder = folder();
    fs::write(folder.path().join("web.csv"), trace()).unwrap();
    let traces = folder.path().join("traces");
    fs::create_dir(&traces).unwrap();
    for (name, text) in [("first.csv", &trace()), ("second.csv", &trace()), ("notes.md", &"No trace.\n".into())] {
        fs::write(traces.join(name), text).unwrap();
    }
    let quick = ["--budget", "30", "--rounds", "5"];
    let with = |arguments: &[&'static str]| [arguments, &quick].concat();
    let commands = [
        with(&[
            "advise",
            "web.csv",
            "--device",
            "hdd",
            "--goal",
            "mean",
            "--recorded-under",
            "none",
            "--host-device",
            "sda",
        ]),
        with(&["advise", "web.csv", "--device", "null", "--bound", "read-p99=1ms", "--scheduler", "none,kyber"]),
        with(&["advise", "web.csv", "--device", "tiny", "--fold", "--scheduler", "none"]),
        // A folder stands for its traces.
        with(&["advise", "traces", "--device", "null", "--scheduler", "none,kyber"]),
    ];
    let commands: Vec<&[&str]> = commands.iter().map(|arguments| &arguments[..]).collect();
    insta::assert_snapshot!(transcripts(folder.path(), &commands));
}

#[test]
fn what_advice_cannot_do_is_said() {
    let folder = folder();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["advise", "--help"],
            &["advise"],
            &["advise", "trace.csv"],
            &["advise", "trace.csv", "--device", "hdx"],
            &["advise", "trace.csv", "--device", "hdd"],
            &["advise", "trace.csv", "--device", "tiny"],
            &["advise", "trace.csv", "--device", "hdd", "--goal", "p99"],
            &["advise", "trace.csv", "--device", "hdd", "--bound", "read-p99"],
            &["advise", "trace.csv", "--device", "hdd", "--budget", "1"],
            &["advise", "trace.csv", "--device", "hdd", "--recorded-under", "elevator"],
        ],
    ));
}
