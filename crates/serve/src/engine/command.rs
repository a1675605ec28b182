//! Messages that other threads send to an engine, and changes of shares that must be made on several devices or on none.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{fmt, io};

use ioweir_core::tenant::{Elsewhere, Share, ShareError};
use ioweir_core::{Nanos, Priority, StreamId};
use rustix::event::{EventfdFlags, eventfd};

use super::accounts::{Report, Served};
use super::{Client, ClientAccount, Counters, ServiceOrder};
use crate::nbd::Export;
use crate::snapshots::Snapshots;
use crate::spec::{self, Holder, Server};
use crate::vhost::Order;

/// A message to an engine.
#[derive(Debug)]
pub enum Command {
    /// Serve a client.
    Serve(Box<Client>),
    /// Change shares, priorities and timeouts, if every engine concerned can.
    Change(Box<Change>),
    /// Look for the verdict on the change that was tried.
    Verdict,
    /// Open the device again after a failure; the answer describes it, or says why it stays as it is.
    Reopen(Sender<Result<String, String>>),
    /// The snapshots of the device, if it takes any.
    Snapshots(Sender<Option<Arc<Snapshots>>>),
    /// Pause the device for this time at most; the answer comes when no operation is in flight and all answered writes are durable, or says
    /// why that cannot be.
    Pause(Nanos, Sender<Result<(), String>>),
    /// End the pause; the answer is how long it was, or `None` if it had ended before.
    Resume(Sender<Option<Nanos>>),
    /// Make the device this long; the answer describes it, or says why it stays as it is.
    Grow(u64, Sender<Result<String, String>>),
    /// Make a range that no export shows read as zeroes, durably; the answer comes at the end.
    Wipe(Range<u64>, Sender<Result<(), String>>),
    /// Carry out an order of the monitor of the client of this number.
    Rings(u64, Box<Order>),
    /// Let the clients of the export of this number have the rest of their answers, and end them.
    DrainExport(usize),
    /// Look for new work of services.
    Look,
    /// List the clients.
    Clients(Sender<Vec<ClientAccount>>),
    /// End the client of this number; the answer is its account from before, or `None` if the engine has no such client.
    Kick(u64, Sender<Option<ClientAccount>>),
    /// Give an order to the service of this class; the answer says why it cannot be carried out.
    Service(StreamId, ServiceOrder, Sender<Result<(), String>>),
    /// Answer with the service that each class has received since the engine began, by its number.
    Served(Sender<Vec<Served>>),
    /// Take into account the service that clients have received on other servers of the fleet.
    Elsewhere(Vec<(StreamId, Elsewhere)>),
    /// Report counters and state.
    Report(Question),
    /// Answer the requests in flight, within this time or else the spec's `shutdown_timeout`, and stop. A further stop can only shorten the
    /// time.
    Stop(Option<Nanos>),
}

/// Sends commands to an engine from another thread.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) commands: Sender<Command>,
    pub(super) wake: Arc<OwnedFd>,
}

impl Handle {
    /// A handle, with the receiver of the commands that it and its clones send.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub(crate) fn new() -> io::Result<(Self, Receiver<Command>)> {
        let (commands, received) = channel();
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        Ok((Self { commands, wake }, received))
    }

    /// Sends a command. An engine that has ended ignores it.
    pub fn send(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            // A full counter wakes the engine, too.
            let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Asks a question. An engine that has ended gives no answer.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(Sender<T>) -> Command) -> Receiver<T> {
        let (sender, answer) = channel();
        self.send(question(sender));
        answer
    }
}

/// A request for a [`Report`].
pub struct Question {
    /// Zeroed counters, which the engine takes in exchange for its own.
    pub counters: Box<Counters>,
    /// Called with the report in the engine's thread, so it must not wait.
    pub reply: Box<dyn FnOnce(Report) + Send>,
}

impl fmt::Debug for Question {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Question")
    }
}

/// How long clients may take, how fast they must be, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// How long a client may leave a request or reply unfinished.
    pub stall: Nanos,
    /// How long a client may send no request.
    pub idle: Nanos,
    /// How fast a client must read while it has unread replies.
    pub reading_bytes_per_second: u64,
    /// How long requests may take to finish after a stop.
    pub shutdown: Nanos,
    /// The most clients, among whom memory is divided.
    pub clients_max: u32,
}

impl Timeouts {
    /// The timeouts of a spec.
    #[must_use]
    pub fn new(server: &Server) -> Self {
        Self {
            stall: server.stall_timeout.nanos(),
            idle: server.idle_timeout.map_or(Nanos::NEVER, |timeout| timeout.nanos()),
            reading_bytes_per_second: server.reading_rate_min.0,
            shutdown: server.shutdown_timeout.nanos(),
            clients_max: server.connections_max,
        }
    }
}

/// The exports and classes of a server. A number never changes: new ones follow the earlier ones.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Every export.
    pub exports: Arc<[Export]>,
    /// The numbers of exports that no client can open.
    pub absent: Vec<usize>,
    /// The names of all classes.
    pub class_names: Arc<[String]>,
    /// The classes of the device.
    pub own_classes: Vec<StreamId>,
}

/// New shares, priorities, timeouts, keys of services and exports. An engine tries the change, reports whether it can be made, and serves
/// unchanged until there is a verdict ([`Command::Verdict`]), so that no device waits for another.
#[derive(Debug)]
pub struct Change {
    /// The new shares, in the order in which to set them.
    pub shares: Vec<(Holder, Share)>,
    /// The priority of each class.
    pub priorities: Vec<Priority>,
    /// The new timeouts.
    pub timeouts: Timeouts,
    /// The keys of the services of the device.
    pub services: Vec<spec::Service>,
    /// The exports of the server, if they change.
    pub exports: Option<Layout>,
    /// Gets the report whether the engine could make the change.
    pub prepared: Sender<Result<(), Refusal>>,
    /// A message has the change made; the end of the channel has it dropped.
    pub verdict: Receiver<()>,
}

/// Why a change cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The class or group whose share is not feasible.
    pub holder: Holder,
    /// Why the share is not feasible.
    pub error: ShareError,
}
