//! Every example of the page of units means the same in every kind of file there is.

#![allow(
    clippy::unwrap_used,
    reason = "a test with a feature, which clippy does not take for one: a failure is to stop it"
)]

use clap::Parser as _;
use ioweir_background::plan::Policy;
use ioweir_config::{AMOUNT_EXAMPLES, AmountKind, SchedulerChoice, ShareKeys};
use ioweir_device::{DeviceSpec, PRESETS};
use ioweir_lab::compare::Comparison;
use ioweir_lab::experiment::Experiment;
use ioweir_serve::control::assign;
use ioweir_serve::spec::Spec;

use crate::arguments::{Arguments, Verb};
use crate::{compare, forecast, trace};

const SERVER: &str = "[[device]]\nname = \"d\"\nbackend = \"null\"\nsize = \"1GiB\"\nscheduler = \"mclock\"\n\
                      [[export]]\nname = \"a\"\ndevice = \"d\"\nlimit_bytes = \"1MiB/s\"\n";
const EXPERIMENT: &str = "duration = \"1s\"\nschedulers = [\"mclock\"]\n[device.null]\ncapacity = \"1GiB\"\nservice = \"1us\"\n\
                          [[class]]\nname = \"a\"\nbacklog = 1\nlimit_bytes = \"1MiB/s\"\n";
const POLICY: &str = "[pool]\nsize = \"1TiB\"\n[cores]\ncount = 1\nforeground_iops = 1\nbackground_operations = 1\n";

/// The key of a share that takes amounts of a kind.
const fn share_key(kind: AmountKind) -> &'static str {
    match kind {
        AmountKind::Size => "burst_bytes",
        AmountKind::Duration => "latency",
        AmountKind::Rate => "limit",
        AmountKind::ByteRate => "limit_bytes",
    }
}

fn of_share(keys: &ShareKeys, kind: AmountKind) -> Option<u64> {
    match kind {
        AmountKind::Size => keys.burst_bytes.map(|size| size.0),
        AmountKind::Duration => keys.latency.map(|span| span.nanos().0),
        AmountKind::Rate => keys.limit.map(|rate| rate.0),
        AmountKind::ByteRate => keys.limit_bytes.map(|rate| rate.0),
    }
}

/// The text with a scheduler that keeps shares of this kind.
fn scheduled(text: &str, kind: AmountKind) -> String {
    text.replace("mclock", if kind == AmountKind::Duration { "pclock" } else { "mclock" })
}

/// A line with the key of a share, in the place of one of the same key.
fn with_share(text: &str, kind: AmountKind, amount: &str) -> String {
    let (text, key) = (scheduled(text, kind), share_key(kind));
    let kept: String =
        text.lines().filter(|line| !line.starts_with(&format!("{key} "))).map(|line| format!("{line}\n")).collect();
    format!("{kept}{key} = \"{amount}\"\n")
}

fn in_server(kind: AmountKind, text: &str) -> Option<u64> {
    of_share(&Spec::parse("s", &with_share(SERVER, kind, text)).unwrap().export[0].share, kind)
}

fn in_experiment(kind: AmountKind, text: &str) -> Option<u64> {
    of_share(&Experiment::parse("e", &with_share(EXPERIMENT, kind, text)).unwrap().classes[0].share, kind)
}

fn in_assignment(kind: AmountKind, text: &str) -> Option<u64> {
    let spec = Spec::parse("s", &scheduled(SERVER, kind)).unwrap();
    of_share(&assign(&spec, &[format!("export.a.{}={text}", share_key(kind))]).unwrap().export[0].share, kind)
}

fn in_device(kind: AmountKind, text: &str) -> Option<u64> {
    let null = |capacity: &str, service: &str| format!("[null]\ncapacity = \"{capacity}\"\nservice = \"{service}\"\n");
    let hdd = PRESETS.iter().find(|preset| preset.name == "hdd").unwrap().parameters;
    let file = match kind {
        AmountKind::Size => null(text, "1us"),
        AmountKind::Duration => null("1GiB", text),
        AmountKind::ByteRate => hdd.replace("\"300MB/s\"", &format!("\"{text}\"")),
        AmountKind::Rate => return None,
    };
    match (kind, DeviceSpec::parse("d", &file).unwrap()) {
        (AmountKind::Size, DeviceSpec::Null(null)) => Some(null.capacity.0),
        (AmountKind::Duration, DeviceSpec::Null(null)) => Some(null.service.nanos().0),
        (_, DeviceSpec::Hdd(hdd)) => Some(hdd.interface_rate.0),
        _ => None,
    }
}

fn in_comparison(kind: AmountKind, text: &str) -> Option<u64> {
    (kind == AmountKind::Size)
        .then(|| Comparison::parse("c", &format!("request_bytes_max = \"{text}\"\n")).unwrap().request_bytes_max.0)
}

fn in_flag(kind: AmountKind, text: &str) -> Option<u64> {
    match kind {
        AmountKind::Size => {
            assert_eq!(trace::bytes(text).ok(), in_comparison(kind, text));
            let Verb::Compare(arguments) =
                Arguments::try_parse_from(["ioweir", "compare", "t", "--request-bytes-max", text]).unwrap().verb
            else {
                return None;
            };
            Some(compare::resolve(&arguments).unwrap().request_bytes_max.0)
        }
        AmountKind::Duration => {
            let Verb::Forecast(arguments) =
                Arguments::try_parse_from(["ioweir", "forecast", "s", "--horizon", text]).unwrap().verb
            else {
                return None;
            };
            assert_eq!(
                trace::time("--horizon", text).ok(),
                forecast::resolve(&arguments).ok().map(|spec| spec.horizon.nanos())
            );
            trace::time("--horizon", text).ok().map(|span| span.0)
        }
        AmountKind::Rate | AmountKind::ByteRate => None,
    }
}

fn in_parameter(kind: AmountKind, text: &str) -> Option<u64> {
    let name = match kind {
        AmountKind::Size => "back-seek-max",
        AmountKind::Duration => "read-deadline",
        AmountKind::Rate | AmountKind::ByteRate => return None,
    };
    let policy = if kind == AmountKind::Size { "cfq" } else { "bid-hdd" };
    let choice: SchedulerChoice = format!("{policy}:{name}={text}").parse().unwrap();
    choice.row.get(&choice.settings, name)
}

fn in_plan(kind: AmountKind, text: &str) -> Option<u64> {
    match kind {
        AmountKind::Size => {
            Some(Policy::parse("p", &format!("{POLICY}[load]\nrequest = \"{text}\"\n")).unwrap().load.request.0)
        }
        AmountKind::Duration => {
            let text = format!("{POLICY}[service.snapshot-delete]\nretention = \"{text}\"\n");
            Policy::parse("p", &text).unwrap().service["snapshot-delete"].shared.retention.map(|span| span.nanos().0)
        }
        AmountKind::Rate | AmountKind::ByteRate => None,
    }
}

#[test]
fn unit_examples_mean_the_same_everywhere() {
    type Reader = fn(AmountKind, &str) -> Option<u64>;
    // How many of the four kinds of amounts each takes.
    let readers: [(&str, Reader, usize); 8] = [
        ("a server's spec", in_server, 4),
        ("an experiment", in_experiment, 4),
        ("an assignment", in_assignment, 4),
        ("a device file", in_device, 3),
        ("a comparison", in_comparison, 1),
        ("a flag", in_flag, 2),
        ("a parameter of a scheduler", in_parameter, 2),
        ("the policy of a plan", in_plan, 2),
    ];
    for (place, read, kinds) in readers {
        let mut taken = std::collections::BTreeSet::new();
        for example in AMOUNT_EXAMPLES {
            if let Some(value) = read(example.kind, example.text) {
                assert_eq!(value, example.value, "{} in {place}", example.text);
                taken.insert(share_key(example.kind));
            }
        }
        assert_eq!(taken.len(), kinds, "{place}");
    }
}
