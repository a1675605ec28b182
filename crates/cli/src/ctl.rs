//! How is a running server asked and changed from the command line?

use ioweir_lab::units::shown;
use ioweir_serve::control::Command;
use ioweir_serve::control::client::{AskError, ask};
use serde_json::{Value, json};

use crate::arguments::{CtlArguments, CtlVerb};
use crate::failure::Failure;
use crate::{control, output, top};

/// Asks, and prints the answer.
pub(crate) fn act(arguments: &CtlArguments) -> Result<(), Failure> {
    let command = match &arguments.verb {
        CtlVerb::State { .. } => Command::State {},
        CtlVerb::Set { assignments } => Command::Set(assignments.clone()),
        CtlVerb::Reload => Command::Reload {},
    };
    let socket = control::socket_of(&arguments.server)?;
    let answer = ask(&socket, &json!(command)).map_err(|error| match error {
        AskError::Refused(problem) => Failure::Input(problem),
        error => control::failure(error),
    })?;
    match &arguments.verb {
        CtlVerb::State { json: Some(target) } => output::put(target, format!("{answer:#}\n").as_bytes()),
        CtlVerb::State { json: None } => output::print(top::drawn(answer)?.as_bytes()),
        CtlVerb::Set { .. } | CtlVerb::Reload => tell(&answer),
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
