//! The verb `top`: who waits at a server, and why, second by second in a terminal.
//!
//! [`draw`] renders a state, the one that the live page shows, and does nothing else.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::thread;
use std::time::Duration;

use ioweir_config::{SHARE_NUMBERS, ShareNumber, format_nanos, shown};
use ioweir_core::Nanos;
use ioweir_lab::document::{Cell, Column, Screen, Table, format_seconds};
use ioweir_serve::control::{Command, ask};
use ioweir_serve::watch::{ClassState, DeviceState, FleetState, SCHEMA_VERSION, SecondState, State};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{control, services};
use crate::arguments::TopArguments;
use crate::engine;
use crate::failure::Failure;
use crate::output;

/// The least interval: more often, the watching would be part of the load.
const INTERVAL_MIN: Nanos = Nanos::from_millis(100);
/// Lines around the classes.
const LINES_AROUND: usize = 10;
/// Lines of the table of services, besides one for each.
const LINES_OF_SERVICES: usize = 3;

/// Prints the state of a server, once or repeatedly.
pub(crate) fn act(arguments: &TopArguments) -> Result<(), Failure> {
    output::set_wide(arguments.width.wide);
    let interval = engine::span("--interval", &arguments.interval)?.nanos();
    if interval < INTERVAL_MIN {
        let problem = format!("--interval {} is too short", arguments.interval);
        return Err(Failure::input(problem, "at least 100ms", ""));
    }
    let socket = control::socket_of(&arguments.server)?;
    let is_screen = io::stdout().is_terminal() && output::colour() && !arguments.once;
    let mut is_first = true;
    loop {
        let state: State = read(ask(&socket, &Command::State {})?)?;
        if is_screen {
            show_in_place(&state, is_first)?;
        } else {
            let gap = if is_first { "" } else { "\n" };
            output::print(format!("{gap}{}", draw(&state, usize::MAX, output::screen())).as_bytes())?;
        }
        if arguments.once {
            return Ok(());
        }
        is_first = false;
        pause(interval);
    }
}

/// Waits until the next state.
#[allow(clippy::disallowed_methods, reason = "a state a second is shown: nothing depends on when that is")]
fn pause(interval: Nanos) {
    thread::sleep(Duration::from_nanos(interval.0));
}

/// Prints a state that `ioweir ctl` has received.
pub(crate) fn print(state: Value) -> Result<(), Failure> {
    output::print(draw(&read::<State>(state)?, usize::MAX, output::screen()).as_bytes())
}

/// Draws over the state before. The terminal keeps its modes, so that there is nothing to restore.
fn show_in_place(state: &State, is_first: bool) -> Result<(), Failure> {
    let height = terminal_size::terminal_size().map_or(usize::MAX, |(_, height)| usize::from(height.0));
    let of_services = if state.services.is_empty() { 0 } else { LINES_OF_SERVICES + state.services.len() };
    let classes_max = height.saturating_sub(LINES_AROUND + state.devices.len() + of_services).max(1);
    let text = draw(state, classes_max, Screen { bold: true, ..output::screen() }).replace('\n', "\x1b[K\n");
    let mut out = anstream::stdout().lock();
    write!(out, "{}\x1b[H{text}\x1b[J", if is_first { "\x1b[2J" } else { "" })?;
    out.flush()?;
    Ok(())
}

/// Reads a server's answer: its state, or its clients.
pub(super) fn read<T: DeserializeOwned>(answer: Value) -> Result<T, Failure> {
    let version = answer.get("schema_version").and_then(Value::as_u64);
    if version != Some(SCHEMA_VERSION.into()) {
        let theirs = version.map_or_else(|| "none".into(), |version| version.to_string());
        let problem = format!("the server's state is of version {theirs}, and this program knows {SCHEMA_VERSION}");
        return Err(Failure::Running(format!("{problem}\n\nhint: run the `ioweir` that the server is")));
    }
    serde_json::from_value(answer).map_err(|error| Failure::Running(format!("the server's state: {error}")))
}

/// A class's counters of the last whole second, if they are known.
fn last<'a>(state: &State, class: &'a ClassState) -> Option<&'a SecondState> {
    class.seconds.last().filter(|second| second.at_seconds as f64 + 3.0 > state.now_seconds)
}

/// The part that a class was given in the last second of what its device's scheduler charges.
fn part(state: &State, class: &ClassState) -> Option<f64> {
    let device = state.devices.iter().find(|device| device.name == class.device)?;
    let of: fn(&SecondState) -> u64 = if device.scheduler.contains("cost=bytes") { bytes } else { requests };
    let charged = |class: &ClassState| last(state, class).map_or(0, of);
    let all: u64 = state.classes.iter().filter(|other| other.device == class.device).map(charged).sum();
    (all > 0).then(|| charged(class) as f64 / all as f64)
}

const fn requests(second: &SecondState) -> u64 {
    second.read_requests + second.write_requests + second.other_requests
}

const fn bytes(second: &SecondState) -> u64 {
    second.read_bytes + second.write_bytes
}

fn waited_seconds(second: &SecondState) -> f64 {
    second.wait_seconds_by_reason.values().sum()
}

/// The reason of most of the waiting, and its part of it.
fn main_reason(second: &SecondState) -> Option<String> {
    let most = second.wait_seconds_by_reason.iter().max_by(|left, right| left.1.total_cmp(right.1))?;
    let all = waited_seconds(second);
    (all > 0.0).then(|| format!("{}, {:.0} %", shown(&most.0.replace('_', " ")), most.1 / all * 100.0))
}

/// The layers that the time of requests went to, with their parts of it.
fn layers(second: &SecondState) -> Option<String> {
    let all: f64 = second.seconds_by_layer.values().sum();
    let parts = second.seconds_by_layer.iter().map(|(name, seconds)| (name, seconds / all * 100.0));
    let parts =
        parts.filter(|(_, percent)| *percent >= 0.5).map(|(name, percent)| format!("{} {percent:.0} %", shown(name)));
    (all > 0.0).then(|| parts.collect::<Vec<_>>().join(", "))
}

/// The state as tables and sentences. Of more than `classes_max` classes, those that wait most.
fn draw(state: &State, classes_max: usize, screen: Screen) -> String {
    let line = |text: &str| screen.wrapped(&shown(text), 2);
    let mut out = String::new();
    // Writing to a string does not fail.
    let up = format_nanos(Nanos::from_seconds(state.now_seconds as u64));
    let connections = format!("{} of {} connections", state.connections, state.connections_max);
    let _ = writeln!(out, "{}", line(&format!("{}: up {up}, {connections}", state.spec)));
    for device in &state.devices {
        let DeviceState { name, description, scheduler, depth, inflight_requests, queued_requests, .. } = device;
        let text = format!(
            "device {name}: {scheduler}, {inflight_requests} of {depth} in flight, {queued_requests} queued; {description}"
        );
        let _ = writeln!(out, "{}", line(&text));
        if let Some(condition) = condition(device) {
            let _ = writeln!(out, "{}", line(&format!("device {name}: {condition}")));
        }
    }
    if let Some(fleet) = &state.fleet {
        let problem = fleet.problem.as_ref().map_or_else(String::new, |problem| format!(": {problem}"));
        let FleetState { name, server, sight, servers, .. } = fleet;
        let text = format!("fleet {name}: {server} is {sight}, {servers} server(s) in its round{problem}");
        let _ = writeln!(out, "{}", line(&text));
    }
    out.push('\n');
    let chosen = chosen(state, classes_max);
    out += &table(state, chosen.iter().copied()).to_terminal(screen);
    if chosen.len() < state.classes.len() {
        let _ = writeln!(out, "and {} more, which wait less", state.classes.len() - chosen.len());
    }
    if !state.services.is_empty() {
        out.push('\n');
        out += &services::table(&state.services).to_terminal(screen);
    }
    let _ = writeln!(out, "\n{}", line(&longest(state)));
    if let Some(change) = state.changes.last() {
        let ago = format_nanos(Nanos::from_seconds((state.now_seconds - change.at_seconds).max(0.0) as u64));
        let _ = writeln!(out, "{}", line(&format!("Changed {ago} ago: {}", change.what)));
    }
    out
}

/// The condition of a device that does not work as usual.
fn condition(device: &DeviceState) -> Option<String> {
    if let Some(failed) = &device.failed {
        return Some(format!("FAILED: {}", failed.what));
    }
    if device.age_seconds > 5.0 {
        return Some(format!("does not answer: its numbers are {} old", format_seconds(device.age_seconds)));
    }
    if let Some(upstream) = &device.upstream {
        let why = upstream.problem.as_deref().map_or_else(String::new, |why| format!(": {why}"));
        if upstream.has_lost {
            return Some("the upstream may have lost what it had answered: the next flush fails".into());
        }
        if let Some(down) = upstream.down_seconds {
            return Some(format!("the upstream has been gone for {}{why}", format_seconds(down)));
        }
        if !why.is_empty() {
            return Some(format!("{} connections to the upstream, and no more{why}", upstream.connections));
        }
    }
    if let (true, Some(held)) = (device.hangs, device.oldest_operation_seconds) {
        return Some(format!("seems to hang: it has had an operation for {}", format_seconds(held)));
    }
    let behind =
        || format!("reservations broken: {} behind in all", format_seconds(device.reservations_behind_seconds));
    device.reservations_broken.then(behind)
}

/// The classes that are drawn, in the order of the spec.
fn chosen(state: &State, classes_max: usize) -> Vec<&ClassState> {
    let waited = |class: &ClassState| last(state, class).map_or(0.0, waited_seconds);
    let mut by_waiting: Vec<(usize, &ClassState)> = state.classes.iter().enumerate().collect();
    by_waiting.sort_by(|left, right| waited(right.1).total_cmp(&waited(left.1)));
    by_waiting.truncate(classes_max);
    by_waiting.sort_by_key(|(number, _)| *number);
    by_waiting.into_iter().map(|(_, class)| class).collect()
}

fn table<'a>(state: &State, classes: impl IntoIterator<Item = &'a ClassState>) -> Table {
    let mut columns = vec![
        Column::text("class"),
        Column::count("requests").unit("/s"),
        Column::seconds("latency p99"),
        Column::seconds("p50"),
        Column::digits("moved", 2).unit("MB/s"),
    ];
    columns.extend(state.columns.iter().map(|column| Column::count(&*column.title)));
    let numbers: Vec<&ShareNumber> = SHARE_NUMBERS
        .iter()
        .filter(|number| state.share_columns.iter().any(|column| column.key == number.name))
        .collect();
    columns.extend(numbers.iter().map(|number| share_column(number)));
    columns.push(Column::digits("gets", 0).unit("%"));
    columns.extend([Column::text("time goes to").spare(), Column::text("waits mostly for")]);
    let mut table = Table::new("", columns);
    for class in classes {
        let last = last(state, class);
        let mut row: Vec<Cell> = vec![
            (&class.name).into(),
            last.map(requests).into(),
            last.and_then(|second| second.latency_p99_seconds).into(),
            last.and_then(|second| second.latency_p50_seconds).into(),
            last.map(|second| bytes(second) as f64 / 1e6).into(),
        ];
        row.extend(state.columns.iter().map(|column| class.numbers.get(&column.key).and_then(Value::as_u64).into()));
        let share = |number: &ShareNumber| class.share.as_ref().and_then(number.of).filter(|value| *value > 0.0);
        row.extend(numbers.iter().map(|number| share(number).into()));
        row.push(part(state, class).map(|part| part * 100.0).into());
        row.extend([last.and_then(layers).into(), last.and_then(main_reason).into()]);
        table.row(row);
    }
    table
}

/// The column of a number of shares.
fn share_column(number: &ShareNumber) -> Column {
    match number.unit {
        "s" => Column::seconds(number.title),
        "B" => Column::bytes(number.title),
        "B/s" => Column::bytes(number.title).unit("/s"),
        unit => Column::digits(number.title, 0).unit(unit),
    }
}

/// The class that waits longest, and why.
fn longest(state: &State) -> String {
    let waiting = state.classes.iter().filter_map(|class| Some((class.oldest_wait_seconds?, class)));
    let Some((wait, class)) = waiting.max_by(|left, right| left.0.total_cmp(&right.0)) else {
        return "Nothing waits.".into();
    };
    let because = class.oldest_waits_because.as_deref().map_or_else(String::new, |why| format!(": {why}"));
    format!("{} waits longest, {}{because}.", class.name, format_seconds(wait))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ioweir_serve::backend::UpstreamStatus;
    use ioweir_serve::watch::FailureState;

    fn second(at: u64, requests: u64, bytes: u64) -> serde_json::Value {
        json!({
            "at_seconds": at, "read_requests": requests, "write_requests": 1, "other_requests": 0, "read_bytes": bytes,
            "write_bytes": 4096, "latency_p50_seconds": 0.0123, "latency_p99_seconds": 0.087,
            "latency_p999_seconds": 0.2, "latency_samples": requests,
            "wait_seconds_by_reason": { "ordering": 0.9 * requests as f64, "device_full": 2.0 },
            "seconds_by_layer": { "cores": 0.01, "scheduler": 0.9 * requests as f64, "device": 2.0 },
        })
    }

    fn class(name: &str, weight: Option<u32>, wait: Option<f64>, seconds: Vec<serde_json::Value>) -> serde_json::Value {
        json!({
            "name": name, "kind": "export", "export": name, "device": "disk", "group": null, "connections": 1,
            "share": weight.map(|weight| json!({
                "weight": weight, "reservation_per_second": 0, "limit_per_second": 0, "burst": 0,
                "limit_bytes_per_second": if weight == 300 { 8 << 20 } else { 0 }, "burst_bytes": 0, "latency_seconds": null,
            })),
            "inflight_requests": u32::from(wait.is_some()), "queued_requests": seconds.len(),
            "oldest_wait_seconds": wait, "oldest_waits_because": wait.map(|_| "gold has an earlier start"),
            "totals": {}, "wait_seconds_by_reason": {}, "seconds": seconds,
        })
    }

    fn state(classes: Vec<serde_json::Value>) -> State {
        let connections = classes.len();
        let state = json!({
            "schema_version": 1, "version": "0.0.0", "spec": "two.toml", "listen": [], "now_seconds": 75.4,
            "connections": connections, "connections_max": 64, "groups": [], "classes": classes,
            "share_columns": [
                { "key": "weight", "title": "weight", "unit": "", "help": "" },
                { "key": "limit_bytes_per_second", "title": "limit", "unit": "B/s", "help": "" },
            ],
            "columns": [
                { "key": "queued_requests", "title": "queued", "unit": "requests", "help": "" },
                { "key": "inflight_requests", "title": "in flight", "unit": "requests", "help": "" },
            ],
            "devices": [{
                "name": "disk", "description": "emulated hdd", "scheduler": "sfq", "depth": 1, "size_bytes": 4096,
                "connections": 1, "inflight_requests": 1, "queued_requests": 31, "queued_bytes": 0,
                "knows_shares": true, "checksums": null,
            }],
            "changes": [{ "at_seconds": 60.0, "what": "export.gold.weight 100 -> 300" }],
        });
        read(state).unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    #[test]
    fn a_state_reads_as_drawn() {
        let busy = |name: &str, requests| class(name, Some(100), Some(0.012), vec![second(74, requests, 4_096_000)]);
        let two = state(vec![
            class("gold", Some(300), Some(0.004), vec![second(73, 1, 1), second(74, 1499, 6_144_000)]),
            class("bro\u{1b}nze", Some(100), Some(1.5), vec![second(74, 499, 2_048_000)]),
            class("idle", None, None, vec![second(40, 9, 9)]),
        ]);
        let many = state((0..9_u64).map(|index| busy(&format!("tenant {index}"), index * 7 % 9)).collect());
        let quiet = state(vec![class("gold", None, None, vec![])]);
        let drawn = [
            draw(&two, usize::MAX, Screen::default()),
            draw(&many, 3, Screen::default()),
            draw(&quiet, usize::MAX, Screen::default()),
        ];
        insta::assert_snapshot!(drawn.join("----\n"));
    }

    #[test]
    fn latencies_and_reasons_fit_eighty_columns() {
        let busy = |name: &str| class(name, Some(300), Some(1.5), vec![second(74, 1499, 6_144_000)]);
        let state = state(vec![busy("virtual-machine-17"), busy("backup")]);
        let drawn = draw(&state, usize::MAX, Screen { width: Some(80), ..Screen::default() });
        assert!(drawn.lines().all(|line| line.chars().count() <= 80), "{drawn}");
        let head = drawn.lines().take_while(|line| !line.starts_with("---")).collect::<Vec<_>>().join(" ");
        for column in ["requests", "latency p99", "waits mostly for"] {
            assert!(head.contains(column), "{column}: {drawn}");
        }
        assert!(drawn.contains("87.0 ms") && drawn.contains("--wide"), "{drawn}");
    }

    #[test]
    fn what_is_seen_of_a_fleet_is_said() {
        let mut state = state(vec![]);
        state.fleet = Some(FleetState {
            name: "rack-7".into(),
            server: "alpha".into(),
            sight: "keeping".into(),
            servers: 3,
            failures: 2,
            problem: Some("no answer".into()),
        });
        let line = draw(&state, usize::MAX, Screen::default()).lines().nth(2).unwrap_or_default().to_string();
        assert_eq!(line, "fleet rack-7: alpha is keeping, 3 server(s) in its round: no answer");
    }

    #[test]
    fn failing_or_hanging_device_is_reported() {
        let said = |change: fn(&mut DeviceState)| {
            let mut state = state(vec![]);
            change(&mut state.devices[0]);
            draw(&state, usize::MAX, Screen::default()).lines().nth(2).unwrap_or_default().to_string()
        };
        assert_eq!(said(|_| ()), "");
        let failed = said(|device| device.failed = Some(FailureState { at_seconds: 1.0, what: "a flush".into() }));
        assert_eq!(failed, "device disk: FAILED: a flush");
        assert!(said(|device| device.age_seconds = 9.0).starts_with("device disk: does not answer: its numbers are 9"));
        let held = said(|device| (device.hangs, device.oldest_operation_seconds) = (true, Some(45.0)));
        assert_eq!(held, "device disk: seems to hang: it has had an operation for 45.0 s");
        assert_eq!(said(|device| device.oldest_operation_seconds = Some(12.0)), "");
        let mut state = state(vec![]);
        let upstream = |connections, down, has_lost| UpstreamStatus {
            name: "unix:/run/s".into(),
            connections,
            reconnects: 1,
            down_seconds: down,
            kept_bytes: 0,
            has_lost,
            problem: Some("it has closed the connection".into()),
        };
        for (its, words) in [
            (upstream(0, Some(3.0), false), "device disk: the upstream has been gone for 3"),
            (upstream(1, None, false), "device disk: 1 connections to the upstream, and no more: it has closed"),
            (
                upstream(1, None, true),
                "device disk: the upstream may have lost what it had answered: the next flush fails",
            ),
        ] {
            state.devices[0].upstream = Some(its);
            let drawn = draw(&state, usize::MAX, Screen::default());
            assert!(drawn.contains(words), "{drawn}");
        }
        assert!(said(|device| device.reservations_broken = true).starts_with("device disk: reservations broken"));
    }

    #[test]
    fn state_of_another_version_is_refused() {
        let failure = read::<State>(json!({ "schema_version": 2 })).unwrap_err();
        assert!(failure.message().is_some_and(|words| words.contains("of version 2")));
        assert!(read::<State>(json!({ "schema_version": 1 })).is_err());
    }
}
