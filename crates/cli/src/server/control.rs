//! The verb `ctl`: finds a running server, asks it, and changes it.

use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;

use ioweir_config::{read_spec, shown};
use ioweir_serve::control::{AskError, Command, Release, ServiceCommand, SnapshotCommand, VolumeCommand, ask};
use ioweir_serve::spec::{Listen, Spec};
use serde_json::Value;

use super::{clients, lists, services, top};
use crate::arguments::{
    CtlArguments, CtlVerb, DeviceVerb, JsonArguments, ListArguments, ServiceVerb, SnapshotVerb, VolumeVerb,
};
use crate::failure::Failure;
use crate::output;

/// `ioweir ctl`: asks, and prints the answer.
pub(crate) fn act(arguments: CtlArguments) -> Result<(), Failure> {
    output::set_wide(arguments.width.wide);
    let socket = socket_of(&arguments.server)?;
    let ask = |command| ask(&socket, &command);
    let command = match arguments.verb {
        CtlVerb::State(json) => return show(&json, ask(Command::State {})?, top::print),
        CtlVerb::Clients(json) => return show(&json, ask(Command::Clients {})?, clients::print),
        CtlVerb::Device(DeviceVerb::List(json)) => {
            return show_list(&json, ask(Command::State {})?, "devices", lists::print_devices);
        }
        CtlVerb::Service(ServiceVerb::List(json)) => {
            return show_list(&json, ask(Command::State {})?, "services", services::print);
        }
        CtlVerb::Volume(VolumeVerb::List(ListArguments { device, json })) => {
            return show(&json, ask(Command::Volume(VolumeCommand::List(device)))?, lists::print_volumes);
        }
        CtlVerb::Snapshot(SnapshotVerb::List(ListArguments { device, json })) => {
            return show(&json, ask(Command::Snapshot(SnapshotCommand::List(device)))?, lists::print_snapshots);
        }
        CtlVerb::Save { file } => {
            let answer = ask(Command::Save {})?;
            return output::put(&file, answer["spec"].as_str().unwrap_or_default().as_bytes());
        }
        CtlVerb::Kick { number } => Command::Kick(number),
        CtlVerb::Set { assignments } => Command::Set(assignments),
        CtlVerb::Device(DeviceVerb::Command(command)) => Command::Device(command),
        CtlVerb::Volume(VolumeVerb::Command(command)) => Command::Volume(command),
        CtlVerb::Snapshot(SnapshotVerb::Command(command)) => Command::Snapshot(command),
        CtlVerb::Service(ServiceVerb::Run { name, run }) => {
            Command::Service(ServiceCommand { name, run: Some(run), ..ServiceCommand::default() })
        }
        CtlVerb::Service(ServiceVerb::Pause { name, pause }) => {
            Command::Service(ServiceCommand { name, pause: Some(pause), ..ServiceCommand::default() })
        }
        CtlVerb::Service(ServiceVerb::Release { name }) => {
            Command::Service(ServiceCommand { name, release: Some(Release {}), ..ServiceCommand::default() })
        }
        CtlVerb::Command(command) => command,
    };
    tell(&ask(command)?)
}

/// Writes an answer as JSON where that was asked for, and else prints it for people.
fn show(
    JsonArguments { json }: &JsonArguments,
    answer: Value,
    print: impl FnOnce(Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match json {
        Some(target) => output::put(target, format!("{answer:#}\n").as_bytes()),
        None => print(answer),
    }
}

/// Shows a list of a state: as JSON the list alone, and for people with the state's remarks on it.
fn show_list(
    json: &JsonArguments,
    mut state: Value,
    list: &str,
    print: impl FnOnce(Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    show(json, if json.json.is_some() { state[list].take() } else { state }, print)
}

/// The control socket of a server: `unix:PATH`, or what the spec file says.
pub(crate) fn socket_of(server: &str) -> Result<PathBuf, Failure> {
    if let Some(path) = server.strip_prefix("unix:") {
        return Ok(path.into());
    }
    let about = std::fs::metadata(server);
    if about.as_ref().is_ok_and(|about| about.file_type().is_socket()) {
        return Ok(server.into());
    }
    if about.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Err(Failure::input(
            format!("{}: no such file", shown(server)),
            "the spec of a running server, or its control socket",
            "`ioweir ctl SPEC.toml state` and `ioweir top SPEC.toml` read where the socket is from the spec",
        ));
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

/// Prints the changes of an answer.
fn tell(answer: &Value) -> Result<(), Failure> {
    let changes: Vec<&str> = answer["changes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if changes.is_empty() {
        return output::print(b"nothing has changed\n");
    }
    output::print_lines(&changes.iter().map(|change| shown(change) + "\n").collect::<String>())
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Unreachable(problem) => {
                Self::Running(format!("{problem}\n\nhint: is `ioweir serve` running, with this `control` in its spec?"))
            }
            AskError::Refused(problem) => Self::Input(problem),
        }
    }
}
