//! The clients of a running server: their identity and requests, and the end of one of them.

use std::sync::mpsc::{RecvTimeoutError, Sender};

use ioweir_config::shown;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SCHEMA_VERSION;
use super::{Controller, PATIENCE};
use crate::engine::{self, ClientAccount, Mode};
use crate::executor::Clock as _;
use crate::log::Peer;
use crate::spec::{Identity, Spec};
use crate::stopper::{CallerAccount, Question, Stopper};

/// The clients at one moment, as `ioweir ctl SERVER clients` reports them. Times count from the start of the server.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct Clients {
    /// The version of this layout.
    pub schema_version: u32,
    /// The time of the list.
    pub now_seconds: f64,
    /// The clients that have agreed on an export, by the order in which they connected.
    pub clients: Vec<ClientState>,
    /// The number of connections that still negotiate.
    pub negotiating: u32,
    /// The negotiating clients that the server has accepted, by the order in which they connected.
    #[serde(default)]
    pub callers: Vec<CallerState>,
    /// Devices that did not answer, whose clients are missing here.
    pub silent_devices: Vec<String>,
}

/// A client that has agreed on an export.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct ClientState {
    /// The client's number, from one on: no two clients of a server ever have the same.
    pub number: u64,
    /// The export.
    pub export: String,
    /// The class: a tenant, or the export itself.
    pub class: String,
    /// The transport of the requests: `nbd` or `vhost-user`.
    pub transport: String,
    /// The names in its certificate.
    pub certificate: Vec<String>,
    /// The client's process, if it runs on this machine and connected over a unix socket.
    pub process: Option<ProcessState>,
    /// The client's address and port, if it connected over TCP.
    pub address: Option<String>,
    /// When the client had agreed on its export.
    pub since_seconds: f64,
    /// `open`; `ending` if the server reads no more from the client and sends its replies; `gone` if only the device still has requests of
    /// the client.
    pub state: String,
    /// The number of answered requests.
    pub requests: u64,
    /// Bytes of the requests that were answered without an error.
    pub bytes: u64,
    /// The number of unanswered requests.
    pub outstanding_requests: u32,
    /// The number of unanswered requests that wait to be dispatched.
    pub waiting_requests: u32,
}

/// A client that has not agreed on an export yet.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct CallerState {
    /// The client's number, which it keeps after the negotiation.
    pub number: u64,
    /// The names in its certificate, once it has shown one.
    pub certificate: Vec<String>,
    /// The client's process, if it runs on this machine and connected over a unix socket.
    pub process: Option<ProcessState>,
    /// The client's address and port, if it connected over TCP.
    pub address: Option<String>,
    /// When the client connected.
    pub since_seconds: f64,
}

/// A process of this machine.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize, Deserialize)]
pub struct ProcessState {
    /// The process number; 0 if the process is in another namespace.
    pub pid: u32,
    /// The number of the process's user.
    pub uid: u32,
    /// The number of the process's effective group.
    pub gid: u32,
}

impl ClientState {
    fn new(spec: &Spec, account: ClientAccount) -> Self {
        let ClientAccount { number, export, class, transport, peer, identity, since, mode, .. } = account;
        let (process, address) = known(peer, &identity);
        let class = spec.classes().into_iter().nth(class.0 as usize).map(|class| class.name);
        Self {
            number,
            export: spec.export.get(export).map_or_else(String::new, |export| export.name.clone()),
            class: class.unwrap_or_default(),
            transport: transport.name().into(),
            certificate: identity.certificate,
            process,
            address,
            since_seconds: since.as_seconds(),
            state: mode.name().into(),
            requests: account.requests,
            bytes: account.bytes,
            outstanding_requests: account.outstanding,
            waiting_requests: account.waiting,
        }
    }

    /// A description of the client for people.
    #[must_use]
    pub fn who(&self) -> String {
        who(&self.certificate, self.process, self.address.as_ref())
    }
}

impl CallerState {
    fn new(account: CallerAccount) -> Self {
        let CallerAccount { number, peer, identity, since } = account;
        let (process, address) = known(peer, &identity);
        Self { number, certificate: identity.certificate, process, address, since_seconds: since.as_seconds() }
    }

    /// A description of the client for people.
    #[must_use]
    pub fn who(&self) -> String {
        who(&self.certificate, self.process, self.address.as_ref())
    }
}

/// The process or the address of a client.
fn known(peer: Peer, identity: &Identity) -> (Option<ProcessState>, Option<String>) {
    match (peer, identity.process) {
        (Peer::Process(pid, _), Some((uid, gid))) => (Some(ProcessState { pid, uid, gid }), None),
        (Peer::Address(address), _) => (None, Some(address.to_string())),
        _ => (None, None),
    }
}

fn who(certificate: &[String], process: Option<ProcessState>, address: Option<&String>) -> String {
    let certificate = (!certificate.is_empty()).then(|| certificate.join(", "));
    let process = process.map(|ProcessState { pid, uid, gid }| format!("uid {uid} gid {gid} pid {pid}"));
    let known: Vec<String> = certificate.into_iter().chain(process).chain(address.cloned()).collect();
    if known.is_empty() { Peer::Unknown.to_string() } else { known.join("; ") }
}

impl Controller {
    /// Asks every engine.
    pub(super) fn ask_each<T>(
        &self,
        question: impl Fn(Sender<T>) -> engine::Command,
    ) -> Vec<Result<T, RecvTimeoutError>> {
        let answers = self.0.engines.handles().iter().map(|engine| engine.ask(&question)).collect();
        self.0.engines.hear_all(answers, PATIENCE)
    }

    /// Asks every engine; `None` for those that have not answered in time.
    pub(super) fn ask_all<T>(&self, question: impl Fn(Sender<T>) -> engine::Command) -> Vec<Option<T>> {
        self.ask_each(question).into_iter().map(Result::ok).collect()
    }

    /// The clients; `connections` is the number of all, those that still negotiate with `front` included.
    pub(crate) fn clients(&self, connections: u32, front: &Stopper) -> Clients {
        let (spec, _) = self.running();
        // A client that goes to an engine meanwhile is found there, by the question to all engines below.
        let callers = front.ask(Question::Callers).recv_timeout(PATIENCE).unwrap_or_default();
        let answers = self.ask_all(engine::Command::Clients);
        let silent_devices = self.names_of_silent(&spec, &answers);
        let mut clients: Vec<_> =
            answers.into_iter().flatten().flatten().map(|its| ClientState::new(&spec, its)).collect();
        clients.sort_by_key(|client| client.number);
        let is_caller = |caller: &CallerAccount| !clients.iter().any(|client| client.number == caller.number);
        let mut callers: Vec<_> = callers.into_iter().filter(is_caller).map(CallerState::new).collect();
        callers.sort_by_key(|caller| caller.number);
        let negotiating = if silent_devices.is_empty() { connections.saturating_sub(clients.len() as u32) } else { 0 };
        let now_seconds = self.0.clock.now().as_seconds();
        Clients { schema_version: SCHEMA_VERSION, now_seconds, clients, negotiating, callers, silent_devices }
    }

    /// Disconnects the client of this number, and withdraws its queued requests. Returns a description of what was done.
    ///
    /// # Errors
    /// If there is no such client, in words.
    pub(crate) fn kick(&self, number: u64, front: &Stopper) -> Result<String, String> {
        let (spec, _) = self.running();
        // A caller that goes to an engine meanwhile is found there, by the question to all engines below.
        if let Ok(Some(caller)) = front.ask(|answer| Question::Kick(number, answer)).recv_timeout(PATIENCE) {
            let who = shown(&CallerState::new(caller).who());
            return Ok(format!("client {number} ({who}), which had not agreed on an export: ended"));
        }
        let answers = self.ask_all(|answer| engine::Command::Kick(number, answer));
        let silent = self.names_of_silent(&spec, &answers);
        let Some(account) = answers.into_iter().flatten().flatten().next() else {
            let silent = if silent.is_empty() {
                String::new()
            } else {
                format!("; it may be one of a device that does not answer: {}", silent.join(", "))
            };
            return Err(format!(
                "there is no client {number}{silent}\n\nhint: `ioweir ctl SERVER clients` lists those there are"
            ));
        };
        let has_left = account.mode == Mode::Gone;
        let client = ClientState::new(&spec, account);
        let (who, export, outstanding) = (client.who(), &client.export, client.outstanding_requests);
        let name = shown(&format!("client {number} ({who}, export \"{export}\")"));
        if has_left {
            return Err(format!("{name} is gone already: its device has not ended the last of what it asked for"));
        }
        Ok(format!("{name}: ended; requests without an answer: {outstanding}"))
    }

    /// The devices whose engines have not answered. One that is not open has no clients.
    fn names_of_silent<T>(&self, spec: &Spec, answers: &[Option<T>]) -> Vec<String> {
        let is_silent = |number: usize| {
            answers.get(number).is_some_and(Option::is_none) && self.0.engines.trouble(number).is_none()
        };
        let silent = spec.present_devices().filter(|(number, _)| is_silent(*number));
        silent.map(|(_, device)| device.name.clone()).collect()
    }
}
