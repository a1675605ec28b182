//! The verb `serve`: starts a server and reports what it serves.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use ioweir_config::{ShareKeys, format_count, read_spec, shown};
use ioweir_serve::capture::{Capture, CaptureWriter};
use ioweir_serve::confine;
use ioweir_serve::control::{Command, Controller, ask};
use ioweir_serve::front::{Listener, Takeover};
use ioweir_serve::server::{self, Entrance, ServeError, Server, Strictness};
use ioweir_serve::spec::{Listen, Spec};
use ioweir_trace::{Names, Target};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use super::control::socket_of;
use super::log;
use crate::arguments::ServeArguments;
use crate::failure::Failure;
use crate::output;
use crate::trace::target_format;

/// Serves until a signal comes, or the one client has gone.
pub(crate) fn act(arguments: &ServeArguments) -> Result<(), Failure> {
    let spec = Spec::parse(&arguments.spec, &read_spec(&arguments.spec)?)?;
    let listen: Result<Vec<Listen>, String> = arguments.listen.iter().map(|place| place.parse()).collect();
    let listen = listen.map_err(Failure::Input)?;
    if arguments.check {
        return check(arguments, &spec, &listen);
    }
    let entrance = if arguments.stdin {
        let descriptor = |taken: io::Result<OwnedFd>| {
            taken.map_err(|error| Failure::Running(format!("the standard streams cannot be used: {error}")))
        };
        let input = descriptor(io::stdin().as_fd().try_clone_to_owned())?;
        Entrance::Single(input, descriptor(io::stdout().as_fd().try_clone_to_owned())?)
    } else if arguments.take_over {
        Entrance::TakenOver(take_over(arguments, &spec)?)
    } else if listen.is_empty() {
        Entrance::Listeners(Listener::handed_over().map_err(Failure::Input)?)
    } else {
        let bind = |place| Listener::bind_for_clients(place, &spec.server);
        let bound: Result<Vec<Listener>, String> = listen.iter().map(bind).collect();
        Entrance::Listeners(bound.map_err(Failure::Running)?)
    };
    let (capture, writer) = match &arguments.capture {
        Some(target) => begin_capture(&spec, target).map(|(capture, writer)| (Some(capture), Some(writer)))?,
        None => (None, None),
    };
    ioweir_serve::watch::set_commit(env!("IOWEIR_COMMIT"));
    // From here on it is no end of the program.
    let hang_ups = Signals::new([SIGHUP]).map_err(|error| Failure::Running(format!("signals: {error}")))?;
    log::begin(spec.server.log.unwrap_or_default());
    std::panic::set_hook(Box::new(ioweir_serve::log::write_panic));
    let strictness = if arguments.strict { Strictness::All } else { Strictness::Some };
    let server = Server::start_with(&spec, entrance, strictness, true, capture)?;
    reload_on(hang_ups, server.controller())?;
    if !arguments.quiet {
        tell(&spec, &server);
    }
    ioweir_serve::manager::say_ready();
    server.wait()?;
    if let Some(writer) = writer {
        let requests = writer.wait().map_err(Failure::Running)?;
        if !arguments.quiet {
            say(&format!("{} requests captured", format_count(requests)));
        }
    }
    Ok(())
}

/// Says whether the spec could be served now: in the place of the server that runs, or beside it.
fn check(arguments: &ServeArguments, spec: &Spec, listen: &[Listen]) -> Result<(), Failure> {
    let said: String = server::check(spec)?.into_iter().map(|line| line + "\n").collect();
    if arguments.take_over {
        ask(&socket_of(&arguments.spec)?, &Command::State {})?;
    } else {
        let given = if listen.is_empty() { Listener::handed_over().map_err(Failure::Input)? } else { Vec::new() };
        server::check_free(spec, listen, !given.is_empty())?;
    }
    output::print(format!("{said}{}: can be served\n", shown(&arguments.spec)).as_bytes())
}

/// Gets the listening sockets of the running server, and waits until it has ended. What can be found out before is: once it
/// drains there is no way back.
fn take_over(arguments: &ServeArguments, spec: &Spec) -> Result<Vec<Listener>, Failure> {
    server::check(spec)?;
    let takeover = Takeover::ask(&socket_of(&arguments.spec)?)?;
    if !arguments.quiet {
        takeover.listeners.iter().for_each(|listener| say(&format!("taken over: {}", listener.name())));
        say("waiting for the other server to end");
    }
    takeover.wait().map_err(|error| Failure::Running(format!("the other server: {error}")))
}

/// Reads the spec again whenever a SIGHUP comes; the log tells the result.
fn reload_on(mut hang_ups: Signals, controller: Controller) -> Result<(), Failure> {
    let work = move || {
        for _ in hang_ups.forever() {
            // The controller has logged the result.
            let _ = controller.reload();
        }
    };
    let thread = std::thread::Builder::new().name("ioweir-reload".into()).spawn(work);
    // The thread ends with the program.
    thread.map(drop).map_err(|error| Failure::Running(format!("no thread can be started: {error}")))
}

/// Opens the capture file, to which the server's requests are written.
fn begin_capture(spec: &Spec, name: &str) -> Result<(Capture, CaptureWriter), Failure> {
    let format = target_format(None, name)?;
    let writer =
        format.write.ok_or_else(|| Failure::input(format!("format {} cannot be written", format.name), "", ""))?;
    let file = std::fs::File::create(name).map_err(|error| Failure::unwritable(name, &error))?;
    let names = Names {
        streams: spec.classes().into_iter().map(|class| class.name).collect(),
        volumes: spec.device.iter().map(|device| device.name.clone()).collect(),
    };
    // The server refuses to capture several.
    let device = spec.device.first().ok_or_else(|| Failure::input("there is no device to capture", "", ""))?;
    let target = Target::new(name, Box::new(io::BufWriter::new(file)));
    Capture::begin(move || (writer.open)(target), names, device).map_err(|error| Failure::unwritable(name, &error))
}

/// Prints the addresses and exports of the server on standard error.
fn tell(spec: &Spec, server: &Server) {
    let mut lines: Vec<String> = server.addresses().iter().map(|address| format!("listening at {address}")).collect();
    let machines = server.machine_addresses().iter();
    lines.extend(machines.map(|address| format!("listening at {address} for virtual machines")));
    if let Some(place) = server.watched_at() {
        let place =
            place.strip_prefix("tcp:").map_or_else(|| place.to_string(), |address| format!("http://{address}/"));
        lines.push(format!("the live page is at {place}"));
    }
    for its in confine::status() {
        lines.push(format!("{}: {}", its.what, its.words));
    }
    for (device, description) in spec.device.iter().zip(server.devices()) {
        lines.push(format!("device {}: {description}", device.name));
        let depth =
            device.depth_stated.map_or_else(|| format!("learnt, up to {}", device.depth), |depth| depth.to_string());
        lines.push(format!("device {}: scheduler {}, depth {depth}", device.name, device.scheduler));
        if let Some(cores) = spec.workers_of(device) {
            let whose = if device.shares_cores() { "shared cores" } else { "cores" };
            lines.push(format!("device {}: {whose} for checksums by schedule {}", device.name, cores.schedule));
        }
    }
    let weight = |share: &ShareKeys| share.weight.map_or_else(String::new, |weight| format!(", weight {weight}"));
    for export in &spec.export {
        let access = if export.read_only { ", read only" } else { "" };
        let share = weight(&export.share);
        lines.push(format!("export \"{}\": device {}{access}{share}", export.name, export.device));
    }
    for tenant in &spec.tenant {
        let share = weight(&tenant.share);
        lines.push(format!("tenant \"{}\": export {}{share}", tenant.name, tenant.export));
    }
    for (name, service) in &spec.service {
        let share = weight(&service.share);
        lines.push(format!("service \"{name}\": {} of device {}{share}", service.kind.row().name, service.device));
    }
    lines.iter().for_each(|line| say(line));
}

fn say(line: &str) {
    // Standard error may be closed.
    let _ = writeln!(anstream::stderr(), "ioweir: {}", shown(line));
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        Self::Running(error.to_string())
    }
}
