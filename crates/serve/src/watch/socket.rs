//! The socket of `ioweir ctl`: one line of JSON in each direction, over a unix socket that only the server's user can use.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use ioweir_config::Duration;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::Shared;
use crate::control::{
    Command, Controller, DeviceCommand, DeviceName, ExportCommand, LINE_BYTES_MAX, SnapshotCommand, VolumeCommand,
};
use crate::executor::Clock as _;
use crate::front::{self, Listener};
use crate::log::{Event, EventKind};
use crate::stopper::{Offer, Question};

/// The most connections; further ones wait.
const CONNECTIONS_MAX: usize = 16;
/// How long the thread that accepts clients may take to offer its sockets.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
/// A connection that is silent for this long is closed.
const SILENCE_MAX: std::time::Duration = std::time::Duration::from_secs(30);

/// The socket.
pub(super) struct Socket(UnixListener);

impl Socket {
    /// Called within the runtime.
    pub(super) fn new(listener: &Listener) -> io::Result<Self> {
        UnixListener::from_std(listener.duplicate()?.into()).map(Self)
    }

    pub(super) async fn serve(self, shared: Arc<Shared>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            // The semaphore is never closed.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match self.0.accept().await {
                Ok((stream, _)) => {
                    let shared = Arc::clone(&shared);
                    tokio::spawn(async move {
                        // A client that has left needs no answer.
                        let _ = talk(stream, &shared).await;
                        drop(place);
                    });
                }
                // The client has left, or descriptors are short for a while.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            }
        }
    }
}

async fn talk(mut stream: UnixStream, shared: &Shared) -> io::Result<()> {
    let (input, mut output) = stream.split();
    let mut input = BufReader::new(input);
    loop {
        let mut line = Vec::new();
        // One byte more than allowed shows that a line is too long.
        let mut bounded = (&mut input).take(LINE_BYTES_MAX as u64 + 1);
        let read = tokio::time::timeout(SILENCE_MAX, bounded.read_until(b'\n', &mut line)).await;
        if !matches!(read, Ok(Ok(1..))) {
            return Ok(());
        }
        let is_whole = line.len() <= LINE_BYTES_MAX;
        let command = Command::parse(&line);
        if command == Ok(Command::HandOver {}) {
            return hand_over(input.get_ref().as_ref(), shared).await;
        }
        let drain = if let Ok(Command::Drain { within }) = &command { Some(*within) } else { None };
        let mut answer = serde_json::to_vec(&answer(command, shared).await)?;
        answer.push(b'\n');
        let sent = tokio::time::timeout(SILENCE_MAX, output.write_all(&answer)).await;
        if let Some(within) = drain {
            // The drain begins only after the answer was sent, because a server without clients ends at once.
            shared.stopper.drain(within.map(|within| within.nanos()));
        }
        // After a line that is too long, the beginning of the next one is unknown.
        if !is_whole || !matches!(sent, Ok(Ok(()))) {
            return Ok(());
        }
    }
}

async fn answer(command: Result<Command, String>, shared: &Shared) -> Value {
    let done = match command {
        Ok(Command::State {}) => serde_json::to_value(shared.state().await).map_err(|error| error.to_string()),
        Ok(Command::Clients {}) => {
            let clients = shared.controller.clients(shared.permits.taken(), &shared.stopper);
            serde_json::to_value(clients).map_err(|error| error.to_string())
        }
        Ok(Command::HandOver {}) => Err(String::new()),
        Ok(Command::Drain { within }) => Ok(json!({ "changes": [announce_drain(within, shared)] })),
        Ok(Command::Kick(number)) => {
            shared.controller.kick(number, &shared.stopper).map(|what| json!({ "changes": [what] }))
        }
        Ok(Command::Service(command)) => shared.controller.order(&command).map(|what| json!({ "changes": [what] })),
        Ok(Command::Set(assignments)) => {
            apart(shared, move |controller| controller.set(&assignments).map(changes)).await
        }
        Ok(Command::Reload {}) => apart(shared, |controller| controller.reload().map(changes)).await,
        Ok(Command::Export(command)) => apart(shared, |controller| change_exports(controller, command)).await,
        Ok(Command::Device(command)) => apart(shared, |controller| change_devices(controller, command)).await,
        Ok(Command::Volume(command)) => apart(shared, |controller| tend_volumes(controller, command)).await,
        Ok(Command::Snapshot(command)) => apart(shared, |controller| tend_snapshots(controller, command)).await,
        Ok(Command::Save {}) => shared.controller.saved().map(|text| json!({ "spec": text })),
        Err(error) => Err(error),
    };
    match done {
        Ok(done) => json!({ "ok": done }),
        Err(error) => json!({ "error": error }),
    }
}

/// Carries out a command that waits for a disk, for devices that open or end, or for other changes, on a thread of its own.
async fn apart(
    shared: &Shared,
    act: impl FnOnce(&Controller) -> Result<Value, String> + Send + 'static,
) -> Result<Value, String> {
    let controller = shared.controller.clone();
    let done = tokio::task::spawn_blocking(move || act(&controller)).await;
    done.unwrap_or_else(|error| Err(error.to_string()))
}

fn changes(of: Vec<String>) -> Value {
    json!({ "changes": of })
}

/// The change of a device, with its name.
fn change_of(device: &str, what: &str) -> Value {
    changes(vec![format!("device {device}: {what}")])
}

fn change_exports(controller: &Controller, command: ExportCommand) -> Result<Value, String> {
    match command {
        ExportCommand::Add { name, keys } => controller.add_export(&name, &keys).map(changes),
        ExportCommand::Remove { name, drain } => controller.remove_export(&name, drain).map(changes),
    }
}

fn change_devices(controller: &Controller, command: DeviceCommand) -> Result<Value, String> {
    match command {
        DeviceCommand::Add { name, keys } => controller.add_device(&name, &keys).map(changes),
        DeviceCommand::Remove(DeviceName { name }) => controller.remove_device(&name).map(changes),
        DeviceCommand::Resize { name, size } => controller.resize_device(&name, size).map(changes),
        DeviceCommand::Reopen(DeviceName { name }) => controller.reopen(&name).map(|what| change_of(&name, &what)),
    }
}

fn tend_volumes(controller: &Controller, command: VolumeCommand) -> Result<Value, String> {
    match command {
        VolumeCommand::List(device) => {
            serde_json::to_value(controller.list_volumes(&device)?).map_err(|error| error.to_string())
        }
        VolumeCommand::Add { device, name, size } => controller.add_volume(&device, &name, size.0).map(changes),
        VolumeCommand::Resize { device, name, size } => controller.resize_volume(&device, &name, size.0).map(changes),
        VolumeCommand::Remove { device, name } => controller.remove_volume(&device, &name).map(changes),
    }
}

fn tend_snapshots(controller: &Controller, command: SnapshotCommand) -> Result<Value, String> {
    match command {
        SnapshotCommand::List(device) => {
            serde_json::to_value(controller.list_snapshots(&device)?).map_err(|error| error.to_string())
        }
        SnapshotCommand::Take { device, name } => {
            controller.take_snapshot(&device, name.as_deref()).map(|what| change_of(&device, &what))
        }
        SnapshotCommand::Delete { device, name } => {
            controller.delete_snapshot(&device, &name).map(|what| change_of(&device, &what))
        }
    }
}

/// Sends the listening sockets to the process at the other end, and keeps the connection until the server has ended.
async fn hand_over(stream: &UnixStream, shared: &Shared) -> io::Result<()> {
    let process = stream.peer_cred()?.pid().map_or(0, i32::unsigned_abs);
    let offer = shared.stopper.ask(Question::Sockets);
    let offer = tokio::task::spawn_blocking(move || offer.recv_timeout(PATIENCE)).await.map_err(io::Error::other)?;
    let Ok(Offer { names, sockets, sent }) = offer else {
        return stream.try_write(b"{\"error\":\"the server ends already\"}\n").map(drop);
    };
    let mut line = serde_json::to_vec(&json!({ "ok": { "listeners": names } }))?;
    line.push(b'\n');
    front::send_sockets(stream.as_fd(), &line, &sockets)?;
    drop(sockets);
    let what = format!("{} are handed over to process {process}: the server drains", names.join(", "));
    shared.log.report(shared.clock.now(), &Event::new(EventKind::HandedOver, &what));
    // The front's thread waits for this message.
    let _ = sent.send(process);
    // The other process learns from the end of this connection that the devices are free.
    std::future::pending().await
}

/// Logs that the server drains, and returns the text for the operator.
fn announce_drain(within: Option<Duration>, shared: &Shared) -> String {
    let limit = within.map_or_else(|| "however long that takes".into(), |within| format!("within {within}"));
    let clients = match shared.permits.taken() {
        1 => "1 client gets the rest of its answers".into(),
        clients => format!("{clients} clients get the rest of their answers"),
    };
    let what = format!("draining: new clients are refused, {clients} {limit}, and then the server ends");
    shared.log.report(shared.clock.now(), &Event::new(EventKind::Draining, &what));
    what
}
