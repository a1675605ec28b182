//! The verb `top`: who waits at a server, and why, second by second in a terminal.
//!
//! [`draw`] says what a state looks like, and nothing else: the state is the one that the live page shows.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::thread;
use std::time::Duration;

use ioweir_config::{format_nanos, shown};
use ioweir_core::Nanos;
use ioweir_lab::document::{Column, Format, Table, format_seconds};
use ioweir_serve::control::{Command, ask};
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::TopArguments;
use crate::failure::Failure;
use crate::{control, output};

/// What a state of this program is numbered.
const SCHEMA_VERSION: u32 = 1;
/// More often, the watching would be part of what is watched.
const INTERVAL_MIN: Nanos = Nanos::from_millis(100);
/// Lines around the classes.
const LINES_AROUND: usize = 10;

/// Prints how things stand, once or again and again.
pub(crate) fn act(arguments: &TopArguments) -> Result<(), Failure> {
    let interval = arguments.interval.parse::<ioweir_config::Duration>()?.nanos();
    if interval < INTERVAL_MIN {
        let problem = format!("--interval {} is too short", arguments.interval);
        return Err(Failure::input(problem, "at least 100ms", ""));
    }
    let socket = control::socket_of(&arguments.server)?;
    let is_screen = io::stdout().is_terminal() && output::colour() && !arguments.once;
    let mut is_first = true;
    loop {
        let state = State::read(ask(&socket, &Command::State {})?)?;
        if is_screen {
            show_in_place(&state, is_first)?;
        } else {
            let gap = if is_first { "" } else { "\n" };
            output::print(format!("{gap}{}", draw(&state, usize::MAX, output::colour())).as_bytes())?;
        }
        if arguments.once {
            return Ok(());
        }
        is_first = false;
        pause(interval);
    }
}

/// Until the next look.
#[allow(
    clippy::disallowed_methods,
    reason = "whoever watches asks for a look each second: nothing depends on when it is"
)]
fn pause(interval: Nanos) {
    thread::sleep(Duration::from_nanos(interval.0));
}

/// Prints a state as `ioweir ctl` has got it.
pub(crate) fn print(state: Value) -> Result<(), Failure> {
    output::print(draw(&State::read(state)?, usize::MAX, output::colour()).as_bytes())
}

/// Draws over what was drawn before. Nothing of the terminal is changed that would have to be changed back.
fn show_in_place(state: &State, is_first: bool) -> Result<(), Failure> {
    let height = terminal_size::terminal_size().map_or(usize::MAX, |(_, height)| usize::from(height.0));
    let classes_max = height.saturating_sub(LINES_AROUND + state.devices.len()).max(1);
    let text = draw(state, classes_max, true).replace('\n', "\x1b[K\n");
    let mut out = anstream::stdout().lock();
    write!(out, "{}\x1b[H{text}\x1b[J", if is_first { "\x1b[2J" } else { "" })?;
    out.flush()?;
    Ok(())
}

/// Of a state, what is drawn here.
#[derive(Debug, Deserialize)]
struct State {
    spec: String,
    now_seconds: f64,
    connections: u32,
    connections_max: u32,
    devices: Vec<Device>,
    classes: Vec<Class>,
    changes: Vec<Change>,
}

#[derive(Debug, Deserialize)]
struct Device {
    name: String,
    description: String,
    scheduler: String,
    depth: u32,
    inflight_requests: u32,
    queued_requests: u32,
}

#[derive(Debug, Deserialize)]
struct Class {
    name: String,
    device: String,
    share: Option<Share>,
    inflight_requests: u32,
    queued_requests: u32,
    oldest_wait_seconds: Option<f64>,
    oldest_waits_because: Option<String>,
    seconds: Vec<Second>,
}

#[derive(Debug, Deserialize)]
struct Share {
    weight: u32,
}

#[derive(Debug, Deserialize)]
struct Second {
    at_seconds: u64,
    read_requests: u64,
    write_requests: u64,
    other_requests: u64,
    read_bytes: u64,
    write_bytes: u64,
    latency_p50_seconds: Option<f64>,
    latency_p99_seconds: Option<f64>,
    wait_seconds_by_reason: BTreeMap<String, f64>,
}

#[derive(Debug, Deserialize)]
struct Change {
    at_seconds: f64,
    what: String,
}

impl State {
    fn read(answer: serde_json::Value) -> Result<Self, Failure> {
        let version = answer.get("schema_version").and_then(serde_json::Value::as_u64);
        if version != Some(SCHEMA_VERSION.into()) {
            let theirs = version.map_or_else(|| "none".into(), |version| version.to_string());
            let problem = format!("the server's state is of version {theirs}, and this program knows {SCHEMA_VERSION}");
            return Err(Failure::Running(format!("{problem}\n\nhint: run the `ioweir` that the server is")));
        }
        serde_json::from_value(answer).map_err(|error| Failure::Running(format!("the server's state: {error}")))
    }

    /// What a class did in the last whole second, if that is known.
    fn last<'a>(&self, class: &'a Class) -> Option<&'a Second> {
        class.seconds.last().filter(|second| second.at_seconds as f64 + 3.0 > self.now_seconds)
    }

    /// The part that a class was given in the last second of what its device's scheduler charges.
    fn part(&self, class: &Class) -> Option<f64> {
        let device = self.devices.iter().find(|device| device.name == class.device)?;
        let is_in_bytes = device.scheduler.contains("cost=bytes");
        let charged = |class: &Class| {
            let of = |second: &Second| if is_in_bytes { second.bytes() } else { second.requests() };
            self.last(class).map_or(0, of)
        };
        let all: u64 = self.classes.iter().filter(|other| other.device == class.device).map(charged).sum();
        (all > 0).then(|| charged(class) as f64 / all as f64)
    }
}

impl Second {
    const fn requests(&self) -> u64 {
        self.read_requests + self.write_requests + self.other_requests
    }

    const fn bytes(&self) -> u64 {
        self.read_bytes + self.write_bytes
    }

    fn waited_seconds(&self) -> f64 {
        self.wait_seconds_by_reason.values().sum()
    }

    /// What most of the waiting was for, and which part of it.
    fn main_reason(&self) -> Option<String> {
        let most = self.wait_seconds_by_reason.iter().max_by(|left, right| left.1.total_cmp(right.1))?;
        let all = self.waited_seconds();
        (all > 0.0).then(|| format!("{}, {:.0} %", shown(&most.0.replace('_', " ")), most.1 / all * 100.0))
    }
}

/// The state as tables and sentences. Of more than `classes_max` classes, those that wait most.
fn draw(state: &State, classes_max: usize, colour: bool) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let up = format_nanos(Nanos::from_seconds(state.now_seconds as u64));
    let connections = format!("{} of {} connections", state.connections, state.connections_max);
    let _ = writeln!(out, "{}: up {up}, {connections}", shown(&state.spec));
    for device in &state.devices {
        let Device { name, description, scheduler, depth, inflight_requests, queued_requests } = device;
        let line = format!(
            "device {name}: {scheduler}, {inflight_requests} of {depth} in flight, {queued_requests} queued; {description}"
        );
        let _ = writeln!(out, "{}", shown(&line));
    }
    out.push('\n');
    let chosen = chosen(state, classes_max);
    out += &table(state, chosen.iter().copied()).to_terminal(colour);
    if chosen.len() < state.classes.len() {
        let _ = writeln!(out, "and {} more, who wait less", state.classes.len() - chosen.len());
    }
    let _ = writeln!(out, "\n{}", shown(&longest(state)));
    if let Some(change) = state.changes.last() {
        let ago = format_nanos(Nanos::from_seconds((state.now_seconds - change.at_seconds).max(0.0) as u64));
        let _ = writeln!(out, "Changed {ago} ago: {}", shown(&change.what));
    }
    out
}

/// The classes that are drawn, in the order of the spec.
fn chosen(state: &State, classes_max: usize) -> Vec<&Class> {
    let waited = |class: &Class| state.last(class).map_or(0.0, Second::waited_seconds);
    let mut by_waiting: Vec<(usize, &Class)> = state.classes.iter().enumerate().collect();
    by_waiting.sort_by(|left, right| waited(right.1).total_cmp(&waited(left.1)));
    by_waiting.truncate(classes_max);
    by_waiting.sort_by_key(|(number, _)| *number);
    by_waiting.into_iter().map(|(_, class)| class).collect()
}

fn table<'a>(state: &State, classes: impl IntoIterator<Item = &'a Class>) -> Table {
    let columns = [
        Column::text("class"),
        Column::count("requests").unit("/s"),
        Column::digits("moved", 2).unit("MB/s"),
        Column::seconds("latency p50"),
        Column::seconds("p99"),
        Column::count("queued"),
        Column::count("in flight"),
        Column::count("weight"),
        Column::digits("gets", 0).unit("%"),
        Column::text("waits mostly for").format(Format::Own),
    ];
    let mut table = Table::new("", columns);
    for class in classes {
        let last = state.last(class);
        table.row([
            (&class.name).into(),
            last.map(Second::requests).into(),
            last.map(|second| second.bytes() as f64 / 1e6).into(),
            last.and_then(|second| second.latency_p50_seconds).into(),
            last.and_then(|second| second.latency_p99_seconds).into(),
            class.queued_requests.into(),
            class.inflight_requests.into(),
            class.share.as_ref().map(|share| share.weight).into(),
            state.part(class).map(|part| part * 100.0).into(),
            last.and_then(Second::main_reason).into(),
        ]);
    }
    table
}

/// Who waits longest, and why.
fn longest(state: &State) -> String {
    let waiting = state.classes.iter().filter_map(|class| Some((class.oldest_wait_seconds?, class)));
    let Some((wait, class)) = waiting.max_by(|left, right| left.0.total_cmp(&right.0)) else {
        return "Nobody waits.".into();
    };
    let because = class.oldest_waits_because.as_deref().map_or_else(String::new, |why| format!(": {why}"));
    format!("{} waits longest, {}{because}.", class.name, format_seconds(wait))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn second(at: u64, requests: u64, bytes: u64) -> serde_json::Value {
        json!({
            "at_seconds": at, "read_requests": requests, "write_requests": 1, "other_requests": 0, "read_bytes": bytes,
            "write_bytes": 4096, "latency_p50_seconds": 0.0123, "latency_p99_seconds": 0.087,
            "latency_p999_seconds": 0.2, "latency_samples": requests,
            "wait_seconds_by_reason": { "ordering": 0.9 * requests as f64, "device_full": 2.0 },
        })
    }

    fn class(name: &str, weight: Option<u32>, wait: Option<f64>, seconds: Vec<serde_json::Value>) -> serde_json::Value {
        json!({
            "name": name, "device": "disk", "share": weight.map(|weight| json!({ "weight": weight })),
            "inflight_requests": u32::from(wait.is_some()), "queued_requests": seconds.len(),
            "oldest_wait_seconds": wait, "oldest_waits_because": wait.map(|_| "gold has an earlier start"),
            "seconds": seconds,
        })
    }

    fn state(classes: Vec<serde_json::Value>) -> State {
        let connections = classes.len();
        let state = json!({
            "schema_version": 1, "spec": "two.toml", "now_seconds": 75.4, "connections": connections,
            "connections_max": 64, "classes": classes,
            "devices": [{
                "name": "disk", "description": "emulated hdd", "scheduler": "sfq", "depth": 1,
                "inflight_requests": 1, "queued_requests": 31,
            }],
            "changes": [{ "at_seconds": 60.0, "what": "export.gold.weight 100 -> 300" }],
        });
        State::read(state).unwrap_or_else(|failure| panic!("{failure:?}"))
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
        let drawn = [draw(&two, usize::MAX, false), draw(&many, 3, false), draw(&quiet, usize::MAX, false)];
        insta::assert_snapshot!(drawn.join("----\n"));
    }

    #[test]
    fn a_state_of_another_version_is_not_guessed_at() {
        let failure = State::read(json!({ "schema_version": 2 })).unwrap_err();
        assert!(failure.message().is_some_and(|words| words.contains("of version 2")));
        assert!(State::read(json!({ "schema_version": 1 })).is_err());
    }
}
