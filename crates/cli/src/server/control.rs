//! The verb `ctl`: finds a running server, asks it, and changes it.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use ioweir_config::{ByteRate, Size, read_spec, shown};
use ioweir_serve::control::{
    AskError, Command, DeviceCommand, ExportCommand, PauseLease, Release, RunLease, ServiceCommand, SnapshotCommand,
    VolumeCommand, ask,
};
use ioweir_serve::spec::{Listen, Spec};
use serde_json::Value;

use super::{clients, devices, services, snapshots, top, volumes};
use crate::arguments::{CtlArguments, CtlVerb, DeviceVerb, ExportVerb, ServiceVerb, SnapshotVerb, VolumeVerb};
use crate::failure::Failure;
use crate::output;

/// `ioweir ctl`: asks, and prints the answer.
pub(crate) fn act(arguments: &CtlArguments) -> Result<(), Failure> {
    output::set_wide(arguments.width.wide);
    let socket = socket_of(&arguments.server)?;
    match &arguments.verb {
        CtlVerb::State { json } => show(json, ask(&socket, &Command::State {})?, top::print),
        CtlVerb::Clients { json } => show(json, ask(&socket, &Command::Clients {})?, clients::print),
        CtlVerb::Kick { number } => tell(&ask(&socket, &Command::Kick(*number))?),
        CtlVerb::Drain { within } => {
            let within = within.as_deref().map(str::parse).transpose()?;
            tell(&ask(&socket, &Command::Drain { within })?)
        }
        CtlVerb::Set { assignments } => tell(&ask(&socket, &Command::Set(assignments.clone()))?),
        CtlVerb::Save { file } => {
            let answer = ask(&socket, &Command::Save {})?;
            output::put(file, answer["spec"].as_str().unwrap_or_default().as_bytes())
        }
        CtlVerb::Export { verb } => export(&socket, verb),
        CtlVerb::Device { verb } => device(&socket, verb),
        CtlVerb::Volume { verb } => volume(&socket, verb),
        CtlVerb::Snapshot { verb } => snapshot(&socket, verb),
        CtlVerb::Service { verb: ServiceVerb::List { json } } => {
            show_list(json, ask(&socket, &Command::State {})?, "services", services::print)
        }
        CtlVerb::Service { verb } => tell(&ask(&socket, &Command::Service(service_command(verb)?))?),
        CtlVerb::Reload => tell(&ask(&socket, &Command::Reload {})?),
    }
}

/// Writes an answer as JSON where that was asked for, and else prints it for people.
fn show(json: &Option<String>, answer: Value, print: impl FnOnce(Value) -> Result<(), Failure>) -> Result<(), Failure> {
    match json {
        Some(target) => output::put(target, format!("{answer:#}\n").as_bytes()),
        None => print(answer),
    }
}

/// Shows a list of a state: as JSON the list alone, and for people with the state's remarks on it.
fn show_list(
    json: &Option<String>,
    mut state: Value,
    list: &str,
    print: impl FnOnce(Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    show(json, if json.is_some() { state[list].take() } else { state }, print)
}

fn export(socket: &Path, verb: &ExportVerb) -> Result<(), Failure> {
    let command = match verb {
        ExportVerb::Add { name, keys } => ExportCommand::Add { name: name.clone(), keys: keys.clone() },
        ExportVerb::Remove { name, drain } => ExportCommand::Remove { name: name.clone(), drain: *drain },
    };
    tell(&ask(socket, &Command::Export(command))?)
}

fn device(socket: &Path, verb: &DeviceVerb) -> Result<(), Failure> {
    let command = match verb {
        DeviceVerb::List { json } => {
            return show_list(json, ask(socket, &Command::State {})?, "devices", devices::print);
        }
        DeviceVerb::Add { name, keys } => DeviceCommand::Add { name: name.clone(), keys: keys.clone() },
        DeviceVerb::Resize { name, size } => DeviceCommand::Resize { name: name.clone(), size: size.parse()? },
        DeviceVerb::Remove { name } => DeviceCommand::Remove(name.clone()),
        DeviceVerb::Reopen { name } => DeviceCommand::Reopen(name.clone()),
    };
    tell(&ask(socket, &Command::Device(command))?)
}

fn volume(socket: &Path, verb: &VolumeVerb) -> Result<(), Failure> {
    let command = match verb {
        VolumeVerb::List { device, json } => {
            let command = Command::Volume(VolumeCommand::List(device.clone()));
            return show(json, ask(socket, &command)?, volumes::print);
        }
        VolumeVerb::Add { device, name, size } => {
            VolumeCommand::Add { device: device.clone(), name: name.clone(), size: size.parse()? }
        }
        VolumeVerb::Resize { device, name, size } => {
            VolumeCommand::Resize { device: device.clone(), name: name.clone(), size: size.parse()? }
        }
        VolumeVerb::Remove { device, name } => VolumeCommand::Remove { device: device.clone(), name: name.clone() },
    };
    tell(&ask(socket, &Command::Volume(command))?)
}

fn snapshot(socket: &Path, verb: &SnapshotVerb) -> Result<(), Failure> {
    let command = match verb {
        SnapshotVerb::List { device, json } => {
            let command = Command::Snapshot(SnapshotCommand::List(device.clone()));
            return show(json, ask(socket, &command)?, snapshots::print);
        }
        SnapshotVerb::Take { device, name } => SnapshotCommand::Take { device: device.clone(), name: name.clone() },
        SnapshotVerb::Delete { device, name } => SnapshotCommand::Delete { device: device.clone(), name: name.clone() },
    };
    tell(&ask(socket, &Command::Snapshot(command))?)
}

fn service_command(verb: &ServiceVerb) -> Result<ServiceCommand, Failure> {
    let of = |name: &String| ServiceCommand { name: name.clone(), ..ServiceCommand::default() };
    Ok(match verb {
        ServiceVerb::List { .. } => ServiceCommand::default(),
        ServiceVerb::Run { name, lease, rate, reservation, request, idle_depth } => {
            let [most, reserved] =
                [rate, reservation].map(|rate| rate.as_deref().map(str::parse::<ByteRate>).transpose());
            let run = RunLease {
                lease: lease.parse()?,
                bytes_per_second_max: most?.map(|rate| rate.0),
                reservation_bytes_per_second: reserved?.map(|rate| rate.0),
                request_bytes_max: request.as_deref().map(str::parse::<Size>).transpose()?.map(|size| size.0),
                idle_depth: *idle_depth,
            };
            ServiceCommand { run: Some(run), ..of(name) }
        }
        ServiceVerb::Pause { name, lease } => {
            ServiceCommand { pause: Some(PauseLease { lease: lease.parse()? }), ..of(name) }
        }
        ServiceVerb::Release { name } => ServiceCommand { release: Some(Release {}), ..of(name) },
    })
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
