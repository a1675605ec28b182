//! Every form in which tools write series, one row for each, as their manuals and printing code have it.

use ioweir_background::series::{SeriesOptions, read_inputs};
use ioweir_trace::Input;

/// The series of a file in short: each as its name, when it begins, the length of a bin, and its values.
fn told(file: &str, text: &str) -> String {
    match read_inputs(&[Input::from_bytes(file, text.into())], &SeriesOptions::default()) {
        Err(error) => error.to_string(),
        Ok(all) => {
            let one = |series: &ioweir_background::series::Series| {
                let values: Vec<String> =
                    series.values.iter().map(|value| value.map_or("-".into(), |value| value.to_string())).collect();
                let zone = series.losses.utc_offset_seconds.map_or(String::new(), |seconds| format!(" {seconds:+}"));
                let start = series.start_unix_seconds - NOON;
                format!("{} {start}+{}{zone}: {}", series.name, series.bin_seconds, values.join(" "))
            };
            all.iter().map(one).collect::<Vec<_>>().join("; ")
        }
    }
}

/// 2026-03-02 12:00 UTC.
const NOON: i64 = 1_772_452_800;

/// A dialect: its name, the name of the file, its text, and its series in short.
pub(crate) type Row = (&'static str, &'static str, &'static str, &'static str);

fn check(rows: &[Row]) {
    for (name, file, text, expected) in rows {
        assert_eq!(told(file, text), *expected, "{name}\n{text}");
    }
}

/// Exports of dashboards and databases.
pub(crate) const EXPORTS: &[Row] = &[
    (
        "Grafana, units in the headings",
        "a.csv",
        "\"Time\",\"Reads (MiB/s)\",\"Wait (ms)\"\n2026-03-02 12:00:00,1.5,20\n2026-03-02 12:01:00,2,512 µs\n",
        "Reads (B/s) 0+60: 1572864 2097152; Wait (s) 0+60: 0.02 0.000512",
    ),
    (
        "Grafana, a separator first and numbers that are shortened",
        "a.csv",
        "sep=;\nTime;{device=\"sda\"};sdb\n2026-03-02 12:00:00;1.52 K;3 MiB/s\n2026-03-02 12:01:00;2 K;1 MiB/s\n",
        "{device=\"sda\"} 0+60: 1520 2000; sdb 0+60: 3145728 1048576",
    ),
    (
        "Grafana, series as rows",
        "a.csv",
        "Series;Time;Value\nsda;2026-03-02T13:00:00+01:00;4\nsda;2026-03-02T13:01:00+01:00;5\n",
        "sda Value 0+60 +3600: 4 5",
    ),
    (
        "InfluxDB, with annotations",
        "a.csv",
        "#group,false,false,true,true,false,false,true\n#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,dateTime:RFC3339,double,string\n#default,_result,,,,,,\n,result,table,_start,_stop,_time,_value,_field\n,,0,2026-03-02T00:00:00Z,2026-03-03T00:00:00Z,2026-03-02T12:00:00Z,4,reads\n,,0,2026-03-02T00:00:00Z,2026-03-03T00:00:00Z,2026-03-02T12:01:00Z,5,reads\n\n,result,table,_start,_stop,_time,_value,_field\n,,1,2026-03-02T00:00:00Z,2026-03-03T00:00:00Z,2026-03-02T12:00:00Z,6,writes\n,,1,2026-03-02T00:00:00Z,2026-03-03T00:00:00Z,2026-03-02T12:01:00Z,7,writes\n",
        "reads _value 0+60: 4 5; writes _value 0+60: 6 7",
    ),
    (
        "influx -precision ns",
        "a.csv",
        "name,time,reads\ndiskio,1772452800000000000,4\ndiskio,1772452860000000000,5\n",
        "diskio reads 0+60: 4 5",
    ),
    (
        "Prometheus, query_range",
        "a.json",
        "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{\"__name__\":\"io_now\",\"device\":\"sda\"},\"values\":[[1772452800,\"4\"],[1772452860.5,\"5\"]]}]}}",
        "device=sda io_now 0+60: 4 5",
    ),
    (
        "promtool query range",
        "a.txt",
        "io_now{device=\"sda\"} =>\n4 @[1772452800]\n5 @[1772452860]\n",
        "device=sda io_now 0+60: 4 5",
    ),
    (
        "Windows performance counters",
        "a.csv",
        "\"(PDH-CSV 4.0) (W. Europe Standard Time)(-60)\",\"\\\\PC\\PhysicalDisk(_Total)\\Disk Reads/sec\"\n\"03/02/2026 13:00:00.123\",\" \"\n\"03/02/2026 13:01:00.123\",\"4.5\"\n\"03/02/2026 13:02:00.123\",\"5\"\n",
        "\\\\PC\\PhysicalDisk(_Total)\\Disk Reads/sec 60+60 +3600: 4.5 5",
    ),
    (
        "typeperf, with its last words",
        "a.csv",
        "\n\"(PDH-CSV 4.0) (GMT Standard Time)(0)\",\"reads\"\n\"03/02/2026 12:00:00.123\",\"4\"\n\"03/02/2026 12:01:00.123\",\"5\"\nThe command completed successfully.\n",
        "reads 0+60: 4 5",
    ),
    (
        "CloudWatch, lines about the columns",
        "a.csv",
        "Full label,reads,\"writes, all\"\nID,m1,m2\nStatistic,Sum,Sum\n,,\n2026/03/02 12:00:00,4,6\n2026/03/02 12:01:00,5,7\n",
        "reads 0+60: 4 5; writes, all 0+60: 6 7",
    ),
    (
        "a console, lines about the recording",
        "a.csv",
        "\"Disk\";\"vm-1\"\n\"Range\";\"a day\"\n\n\"Clock\";\"IOPS\"\n\"2026-03-02T12:00:00Z\";\"4\"\n\"2026-03-02T12:01:00Z\";\"5\"\n",
        "IOPS 0+60: 4 5",
    ),
    (
        "columns of one name",
        "a.csv",
        "time,Value,Value\n2026-03-02 12:00:00,4,6\n2026-03-02 12:01:00,5,7\n",
        "Value 0+60: 4 5; Value (column 3) 0+60: 6 7",
    ),
];

#[test]
fn every_export_of_dashboards_is_read() {
    check(EXPORTS);
}

/// Reports of tools on one machine.
pub(crate) const REPORTS: &[Row] = &[
    (
        "sadf -d",
        "a.csv",
        "# hostname;interval;timestamp;DEV;tps;kB_wrtn/s\nweb1;60;2026-03-02 12:00:00 UTC;sda;4;8\nweb1;60;2026-03-02 12:01:00 UTC;sda;5;9\n",
        "web1 sda tps 0+60: 4 5; web1 sda kB_wrtn/s 0+60: 8 9",
    ),
    (
        "sadf -p",
        "a.txt",
        "web1\t60\t1772452800\tsda\ttps\t4\nweb1\t60\t1772452860\tsda\ttps\t5\n",
        "web1 sda tps value 0+60: 4 5",
    ),
    (
        "iostat -dt",
        "a.txt",
        "Linux 6.8.0 (h) \t03/02/26 \t_x86_64_\t(4 CPU)\n\n03/02/26 11:59:00 AM\nDevice tps\nsda 9\n\n03/02/26 12:00:00 PM\nDevice tps\nsda 4\n\n03/02/26 12:01:00 PM\nDevice tps\nsda 5\n\n",
        "sda tps 0+60: 4 5",
    ),
    (
        "iostat -o JSON -t",
        "a.json",
        "{\"sysstat\":{\"hosts\":[{\"statistics\":[{\"timestamp\":\"03/02/2026 11:59:00 AM\",\"disk\":[{\"disk_device\":\"sda\",\"tps\":9}]},{\"timestamp\":\"03/02/2026 12:00:00 PM\",\"disk\":[{\"disk_device\":\"sda\",\"tps\":4}]},{\"timestamp\":\"03/02/2026 12:01:00 PM\",\"disk\":[{\"disk_device\":\"sda\",\"tps\":5}]}]}]}}",
        "sda tps 0+60: 4 5",
    ),
    (
        "a log of bandwidth of fio",
        "job_bw.1.log",
        "1000, 4, 0, 0, 0\n1000, 8, 1, 0, 0\n2000, 5, 0, 0, 0\n2000, 9, 1, 0, 0\n",
        "read bw (B/s) -1772452799+1: 4096 5120; write bw (B/s) -1772452799+1: 8192 9216",
    ),
    (
        "a log of IOPS of fio, with times of a clock",
        "job_iops.1.log",
        "1772452800000, 4, 2, 4096\n1772452801000, 5, 2, 4096\n",
        "trim iops 0+1: 4 5",
    ),
    (
        "a log of fio with means and largest values",
        "job_lat.1.log",
        "1000, 4, 5, 0, 0, 0\n2000, 5, 5, 0, 0, 0\n",
        "read lat (s) -1772452799+1: 0.000000004 0.000000005; read largest lat (s) -1772452799+1: 0.000000005 0.000000005",
    ),
    (
        "iostat -dxht: units, devices last, tables side by side",
        "a.txt",
        "Linux 6.8.0 (h) \t03/02/26 \t_x86_64_\t(4 CPU)\n\n03/02/26 11:59:00 AM\n r/s rkB/s Device\n 9.00 9.0k sda\n\n w/s Device\n 9.00 sda\n\n03/02/26 12:00:00 PM\n r/s rkB/s Device\n 4.00 1.5M sda\n\n w/s Device\n 6.00 sda\n\n03/02/26 12:01:00 PM\n r/s rkB/s Device\n 5.00 512.0k sda\n\n w/s Device\n 7.00 sda\n\n",
        "sda r/s 0+60: 4 5; sda rkB/s 0+60: 1536 512; sda w/s 0+60: 6 7",
    ),
    (
        "dstat --output",
        "a.csv",
        "\"Dstat 0.7.3 CSV output\"\n\"Author:\",\"a\",,,,\"URL:\",\"u\"\n\"Host:\",\"h\",,,,\"User:\",\"root\"\n\"Cmdline:\",\"dstat -td\",,,,\"Date:\",\"02 Mar 2026 11:59:00 UTC\"\n\n\"system\",\"dsk/sda\",\n\"time\",\"read\",\"writ\"\n02-03 11:59:00,9.0,9.0\n02-03 12:00:00,4.0,6.0\n02-03 12:01:00,5.0,7.0\n",
        "dsk/sda read 0+60: 4 5; dsk/sda writ 0+60: 6 7",
    ),
    (
        "diskspd -Rxml -D1000",
        "a.xml",
        "<Results>\n<System>\n<RunTime>2026/03/02 12:00:00 UTC</RunTime>\n</System>\n<TimeSpan>\n<Iops>\n<Bucket SampleMillisecond=\"1000\" Read=\"4\" Write=\"6\" Total=\"10\"/>\n<Bucket SampleMillisecond=\"2000\" Read=\"5\" Write=\"7\" Total=\"12\"/>\n</Iops>\n</TimeSpan>\n</Results>\n",
        "Read 0+1: 4 5; Write 0+1: 6 7; Total 0+1: 10 12",
    ),
];

#[test]
fn every_report_of_tools_is_read() {
    check(REPORTS);
}

#[test]
fn logs_of_fio_jobs_are_added_up() {
    let log = |job: u32, value: u32| {
        let text = format!("1000, {value}, 0, 4096, 0\n2000, {value}, 0, 4096, 0\n");
        Input::from_bytes(format!("load_iops.{job}.log"), text.into())
    };
    let read = |total: bool| {
        let options = SeriesOptions { total, ..SeriesOptions::default() };
        let all = read_inputs(&[log(1, 4), log(2, 6)], &options).unwrap();
        all.iter().map(|series| (series.name.clone(), series.values.clone())).collect::<Vec<_>>()
    };
    let twice = |value: f64| vec![Some(value); 2];
    assert_eq!(read(false), [("load.1 read iops".into(), twice(4.0)), ("load.2 read iops".into(), twice(6.0))]);
    assert_eq!(read(true), [("iops".into(), twice(10.0))]);
}

#[test]
fn every_form_of_dates_is_read() {
    let table = |first: &str, second: &str| format!("time;n\n{first};4\n{second};5\n");
    for (first, second, zone) in [
        ("2026-03-02 12:00", "2026-03-02 12:01", ""),
        ("03/13/2026 12:00:00", "03/13/2026 12:01:00", ""),
        ("13/03/2026 12:00:00", "13/03/2026 12:01:00", ""),
        ("02.03.2026 12:00:00", "02.03.2026 12:01:00", ""),
        ("02-Mar-2026 12:00:00", "02-Mar-2026 12:01:00", ""),
        ("2026-03-02 12:00:00 PM", "2026-03-02 12:01:00 PM", ""),
        ("Mon, 02 Mar 2026 13:00:00 +0100", "Mon, 02 Mar 2026 13:01:00 +0100", " +3600"),
        ("2026-03-02T13:00+01:00[Europe/Berlin]", "2026-03-02T13:01+01:00[Europe/Berlin]", " +3600"),
    ] {
        let start = if first.contains("13/") || first.contains("/13") { 11 * 86_400 } else { 0 };
        assert_eq!(told("a.csv", &table(first, second)), format!("n {start}+60{zone}: 4 5"), "{first}");
    }
}
