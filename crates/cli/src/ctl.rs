//! How is a running server asked and changed from the command line?

use std::path::PathBuf;

use ioweir_lab::units::shown;
use ioweir_serve::control::{AskError, Command, ask};
use ioweir_serve::spec::{Listen, Spec};
use serde_json::Value;

use crate::arguments::{CtlArguments, CtlVerb};
use crate::failure::Failure;
use crate::output;
use crate::show::read_spec;

/// Asks, and prints the answer.
pub(crate) fn act(arguments: &CtlArguments) -> Result<(), Failure> {
    let socket = control_of(&arguments.server)?;
    match &arguments.verb {
        CtlVerb::State { json } => {
            let state = ask(&socket, &Command::State {})?;
            match json {
                Some(target) => output::put(target, format!("{state:#}\n").as_bytes()),
                None => output::print(table(&state).as_bytes()),
            }
        }
        CtlVerb::Set { assignments } => tell(&ask(&socket, &Command::Set(assignments.clone()))?),
        CtlVerb::Reload => tell(&ask(&socket, &Command::Reload {})?),
    }
}

/// Where a server is asked that is named by its spec or its socket.
pub(crate) fn control_of(server: &str) -> Result<PathBuf, Failure> {
    if let Some(path) = server.strip_prefix("unix:") {
        return Ok(path.into());
    }
    let spec = Spec::parse(server, &read_spec(server)?)?;
    match spec.server.control {
        Some(Listen::Unix(path)) => Ok(path),
        _ => Err(Failure::input(
            format!("{}: the server has no control socket", shown(server)),
            "",
            "add `control = \"unix:/run/ioweir.control\"` under [server], and start it again",
        )),
    }
}

/// What has changed.
fn tell(answer: &Value) -> Result<(), Failure> {
    let changes: Vec<&str> = answer["changes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if changes.is_empty() {
        return output::print(b"nothing has changed\n");
    }
    output::print(changes.iter().map(|change| shown(change) + "\n").collect::<String>().as_bytes())
}

/// A line a class.
fn table(state: &Value) -> String {
    let head = ["class", "kind", "device", "clients", "weight", "in flight", "queued", "waits because"];
    let mut rows = vec![head.map(str::to_string)];
    let text = |value: &Value| match value {
        Value::Null => "-".to_string(),
        Value::String(text) => shown(text),
        value => value.to_string(),
    };
    for class in state["classes"].as_array().into_iter().flatten() {
        let of = |key: &str| text(&class[key]);
        let weight = text(&class["share"]["weight"]);
        let because = of("oldest_waits_because");
        let numbers = [of("connections"), weight, of("inflight_requests"), of("queued_requests")];
        let [connections, weight, inflight, queued] = numbers;
        rows.push([of("name"), of("kind"), of("device"), connections, weight, inflight, queued, because]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            3..=6 => format!("{cell:>width$}"),
            _ => format!("{cell:<width$}"),
        });
        out += cells.collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
    }
    out
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Unreachable(problem) => Self::Running(problem),
            AskError::Refused(problem) => Self::Input(problem),
        }
    }
}
