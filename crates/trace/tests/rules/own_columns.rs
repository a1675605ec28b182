//! Formats of a user's own: a list of columns, or a TOML file of them.

use ioweir_trace::{self as trace, Input, ReadOptions, TraceError};

use crate::fixtures::*;
use crate::support::*;

fn read_by(format: &'static trace::Format, bytes: &[u8]) -> Result<Read, TraceError> {
    let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
    read_inputs(vec![Input::from_bytes("trace", bytes.to_vec())], &options)
}

fn by_list(list: &str, text: &str) -> Read {
    let format = trace::named(&format!("columns:{list}")).unwrap_or_else(|error| panic!("{error}"));
    read_by(format, text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn column_lists_read_as_built_in_formats() {
    for (format, list, text) in [
        ("alibaba-csv", "volume,op,offset:bytes,size:bytes,time:us", ALIBABA),
        ("spc", "volume,sector,size:bytes,op,time:s", SPC),
        ("systor-csv", "time:s,latency:s,op,-,offset:bytes,size:bytes", SYSTOR),
        ("tencent-csv", "time:s,sector,sectors,op:read=0:write=1,volume", TENCENT),
        ("tencent-csv-bytes", "time:s,offset:bytes,sectors,op:read=0:write=1,device", TENCENT),
        ("disksim-measured", "op,-,sector,sectors,latency:us,think:us", MEASURED),
        ("flashnet-csv", "-,latency:us,op:read=1:write=0,size:bytes,offset:bytes,time:ms", FLASHNET),
        ("mqsim", "time:ns,volume,offset:512b,size:sectors,op:write=0:read=1", MQSIM),
        ("msr-csv", "time:100ns,volume,volume,op,offset:bytes,size:bytes,latency:100ns", MSR),
    ] {
        let known = read_as(format, text.as_bytes(), false).unwrap();
        let own = by_list(list, text);
        let plain = |read: &Read| {
            read.records
                .iter()
                .map(|record| trace::Record { volume: 0, stream: ioweir_core::StreamId(0), ..*record })
                .collect::<Vec<_>>()
        };
        assert_eq!(plain(&own), plain(&known), "{format}");
    }
}

#[test]
fn line_processes_letters_and_separators_are_read() {
    let list = "time:s,pid,command,op:letters,sector,sectors";
    let known = read(HADOOP.as_bytes()).unwrap();
    // A command that holds a comma is one column, as in the format of the table.
    assert_eq!(by_list(list, HADOOP), known);
    for separator in [";", "\t", "|"] {
        let text = HADOOP.replace("a,b", "ab").replace(',', separator);
        assert_eq!(by_list(list, &text).records.len(), known.records.len(), "{separator:?}");
    }
    let blanks = "0.5  R 4096 512\n0.75 W    0 512\n";
    assert_eq!(by_list("time:s,op,offset:bytes,size:bytes", blanks).records[1].time.0, 250_000_000);
}

#[test]
fn two_columns_of_a_volume_may_be_apart() {
    let text = "a,0.5,1,R,0,512\nb,0.6,1,R,0,512\na,0.7,2,R,0,512\na,0.8,1,R,0,512\n";
    let read = by_list("volume,time:s,volume,op,offset:bytes,size:bytes", text);
    assert_eq!(read.names.volumes, ["a1", "b1", "a2"]);
    assert_eq!(read.records.iter().map(|record| record.volume).collect::<Vec<_>>(), [0, 1, 2, 0]);
}

#[test]
fn a_file_finds_columns_by_their_names() {
    let toml = r#"
separator = ","
clock = "unix"
[[column]]
name = "start_time"
role = "time"
unit = "s"
[[column]]
name = "op_type"
role = "op"
read = "READ"
write = ["WRITE", "W"]
[[column]]
name = "file_offset"
role = "offset"
unit = "bytes"
[[column]]
name = "request_io_size_bytes"
role = "size"
unit = "bytes"
[[column]]
name = "filename"
role = "volume"
[[column]]
name = "simulated_latency"
role = "latency"
unit = "s"
[[column]]
name = "application"
role = "stream"
[[column]]
name = "service_class"
role = "stream"
"#;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("thesios.toml");
    std::fs::write(&path, toml).unwrap();
    let name = path.display().to_string();
    let format = trace::named(&name).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read_by(format, THESIOS.as_bytes()).unwrap(), read(THESIOS.as_bytes()).unwrap());
    // An equal text gives the same format, which is not made twice.
    assert!(std::ptr::eq(format, trace::named(&name).unwrap()));
    std::fs::write(&path, toml.replace("\"offset\"", "\"ofset\"")).unwrap();
    let error = trace::named(&name).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{name}:15:8: role `ofset` is not known\n  expected: one of time, ")),
        "{error}"
    );
    std::fs::write(&path, toml.replace("clock", "clok")).unwrap();
    let error = trace::named(&name).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{name}:3:1: unknown field `clok`")), "{error}");
}

/// List, what is said.
const LISTS: &[(&str, &str)] = &[
    (
        "time,op,offset:bytes,size:bytes",
        "--columns:1:1: time has no unit\n  expected: a unit: s, ms, us, ns, 100ns, date, day-first, month-first, or clock",
    ),
    (
        "time:s,op,offset:furlongs,size:bytes",
        "--columns:1:18: offset does not take `furlongs`\n  expected: a unit: bytes, sectors, hex, or a size such as 4KiB",
    ),
    (
        "time:s,op,offset:bytes",
        "--columns:1:11: no column is the size\n  expected: columns for time, op, offset and size",
    ),
    (
        "completion:s,op,offset:bytes,size:bytes",
        "--columns:1:30: no column says when a request arrived\n  expected: a column `time` or `gap`, or `think` and `latency`, or `completion` and `latency`",
    ),
    ("time:s,time:s,op", "--columns:1:8: role `time` comes more than once\n  expected: each role once"),
    (
        "time:s,op:read=R:write=R,offset:bytes,size:bytes",
        "--columns:1:18: the word `R` comes more than once\n  expected: each word once",
    ),
    (
        "time:s,op:fetch=R,offset:bytes,size:bytes",
        "--columns:1:11: op does not take `fetch=R`\n  expected: letters, or words such as read=0 and write=1",
    ),
];

#[test]
fn list_errors_say_place_problem_and_expectation() {
    for (list, expected) in LISTS {
        let error = trace::named(&format!("columns:{list}")).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("{expected}\n\nhint: `ioweir doc format columns` describes roles and units"),
            "{list}"
        );
    }
    let error = trace::named("columns").unwrap_err().to_string();
    assert!(error.starts_with("--columns: the columns are not named"), "{error}");
    let error = trace::named("alibabba").unwrap_err().to_string();
    assert!(
        error.contains("unknown trace format `alibabba`") && error.contains("did you mean `alibaba-csv`?"),
        "{error}"
    );
}

#[test]
fn own_column_line_errors_say_where() {
    let format = trace::named("columns:time:s,op,offset:bytes,size:bytes").unwrap();
    let error = read_by(format, b"0.5,R,0,512\n0.6,X,0,512\n").unwrap_err().to_string();
    assert!(error.starts_with("trace:2:5: op `X` is not known\n  expected: R or W or"), "{error}");
}

#[test]
fn lines_of_other_events_are_passed_over() {
    let text = "0.000001000,Q,R,2048,8,501,fio\n0.000002000,D,R,2048,8,501,fio\n0.000003000,P,N,0,0,501,fio\n0.000004000,D,WS,4096,8,501,fio\n";
    for list in [
        "time:s,event=D,op:letters,sector,sectors,pid,command",
        "time:s,event:=D:=X,op:letters,sector,sectors,pid,command",
    ] {
        let read = by_list(list, text);
        let found: Vec<_> = read.records.iter().map(|record| (record.time.0, record.offset_bytes / 512)).collect();
        assert_eq!(found, [(0, 2048), (2000, 4096)], "{list}");
    }
}

#[test]
fn times_are_dates_clocks_or_sums_of_columns() {
    let rows = |list: &str, text: &str| {
        let read = by_list(list, text);
        (read.records.iter().map(|record| record.time.0).collect::<Vec<_>>(), read.epoch)
    };
    let epoch = Some(1_372_629_804_000_000_000);
    for (list, text) in [
        ("time:date,op,sector,sectors", "2013-06-30 22:03:24,R,0,8\n2013-06-30 22:03:24.000001,W,8,8\n"),
        ("date,op,sector,sectors", "2013-07-01T00:03:24+02:00;R;0;8\n2013-06-30T22:03:24.000001Z;W;8;8\n"),
        ("date,time:clock,op,sector,sectors", "2013-06-30 22:03:24 R 0 8\n2013-06-30 22:03:24.000001 W 8 8\n"),
    ] {
        assert_eq!(rows(list, text), (vec![0, 1000], epoch), "{list}");
    }
    let completed = "2013-06-30 22:03:24.0001,100,R,0,8\n2013-06-30 22:03:24.000101,100,W,8,8\n";
    assert_eq!(rows("completion:date,latency:us,op,sector,sectors", completed), (vec![0, 1000], epoch));
    let (times, _) = rows("time:s,time:us,op,sector,sectors", "7,999999,R,0,8\n8,0,W,8,8\n");
    assert_eq!(times, [0, 1000]);
}

#[test]
fn unclear_dates_need_an_order_of_their_own() {
    let text = "03/02/2026 10:00:00.123 AM;W;4;4096\n03/02/2026 10:00:01.123 AM;R;8;4096\n";
    let clocks = |unit: &str| {
        let list = format!("columns:time:{unit},op,offset:KiB,size:bytes");
        let read = read_by(trace::named(&list).unwrap(), text.as_bytes());
        read.map(|read| (read.epoch.unwrap(), read.records[1].time.0, read.records[1].offset_bytes))
    };
    assert_eq!(clocks("month-first").unwrap(), (1_772_445_600_123_000_000, 1_000_000_000, 8192));
    assert_eq!(clocks("day-first").unwrap().0, 1_770_112_800_123_000_000);
    let british = "31/01/2026 10:00:00;W;0;4096\n31/01/2026 10:00:01;R;0;4096\n";
    assert_eq!(by_list("time:date,op,offset:bytes,size:bytes", british).records.len(), 2);
    let unclear = "03/02/2026 10:00:00;W;0;4096\n".repeat(2);
    let list = trace::named("columns:time:date,op,offset:bytes,size:bytes").unwrap();
    assert!(read_by(list, unclear.as_bytes()).err().unwrap().to_string().contains("`time:day-first`"));
}

#[test]
fn words_of_events_may_be_quoted_and_spaced() {
    let text = "0.5,Q,R,0,512\n0.6,D,W,0,512\n";
    for list in ["time:s,event=D,op,offset:bytes,size:bytes", "time:s, event = \"D\", op, offset:bytes, size:bytes"] {
        assert_eq!(by_list(list, text).records.len(), 1, "{list}");
    }
}
