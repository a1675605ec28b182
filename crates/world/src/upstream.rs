//! A simulated upstream: another NBD server in front of a simulated disk, whose connections break, and which dies with changes that it had
//! answered and not flushed.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ioweir_core::Nanos;

use super::disk::Disk;
use super::random::Random;
use super::wire::Line;
use ioweir_serve::backend::{Action, Io, Outcome};
use ioweir_serve::buffer::{Buffer, Buffers};
use ioweir_serve::nbd::protocol::{COMMAND_FAST_ZERO, COMMAND_FUA, COMMAND_NO_HOLE, CONTEXT_ALLOCATION_ID};
use ioweir_serve::nbd::reply::Reply;
use ioweir_serve::nbd::{Command, Decoder, Event, Export, NbdError, Negotiation, Progress, Replies, Request, Tls};
use ioweir_serve::parts::Reach;
use ioweir_serve::stream::Stream;

/// An event in the life of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The upstream dies and loses the data that it had not flushed; another one starts after this time.
    Dies(Nanos),
    /// The upstream is killed and loses nothing, because the system has its data; another one starts after this time.
    Restarts(Nanos),
    /// A connection breaks, chosen by this number.
    Breaks(u64),
    /// The upstream has another size for this time, and then its former one.
    IsAnother(Nanos),
}

impl Fate {
    /// The duration of the event.
    pub(super) const fn span(self) -> Nanos {
        match self {
            Self::Dies(span) | Self::Restarts(span) | Self::IsAnother(span) => span,
            Self::Breaks(_) => Nanos::ZERO,
        }
    }
}

/// A request that is being carried out.
#[derive(Debug)]
struct Pending {
    until: Nanos,
    request: Request,
    data: Vec<u8>,
}

/// A connection, at the upstream's end.
#[derive(Debug)]
struct Connection {
    line: Line,
    unread: Vec<u8>,
    negotiation: Negotiation,
    /// The decoder, once an export is agreed on.
    serving: Option<(Decoder, Replies)>,
    /// A write whose data is being received.
    incoming: Option<(Request, Vec<u8>)>,
    pending: Vec<Pending>,
}

#[derive(Debug)]
struct State {
    disk: Disk,
    random: Random,
    short_per_million: u32,
    connections: Vec<Connection>,
    now: Nanos,
    /// The upstream is down before this time.
    down_until: Nanos,
    /// The upstream has another size before this time.
    other_until: Nanos,
    opening: u64,
}

/// An upstream, as the world and the server's end of it know it.
#[derive(Clone, Debug)]
pub(super) struct Upstream(Arc<Mutex<State>>);

impl Upstream {
    pub(super) fn new(disk: Disk, random: Random, short_per_million: u32) -> Self {
        Self(Arc::new(Mutex::new(State {
            disk,
            random,
            short_per_million,
            connections: Vec::new(),
            now: Nanos::ZERO,
            down_until: Nanos::ZERO,
            other_until: Nanos::ZERO,
            opening: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the upstream meet its fate.
    pub(super) fn meet(&self, now: Nanos, fate: Fate) {
        let mut state = self.state();
        match fate {
            Fate::Breaks(which) => {
                let count = state.connections.len() as u64;
                if count > 0 {
                    let connection = state.connections.remove((which % count) as usize);
                    state.end(connection);
                }
            }
            Fate::Dies(span) => {
                state.down_until = now.after(span);
                state.end_all();
                state.disk.die();
            }
            Fate::Restarts(span) => {
                state.down_until = now.after(span);
                state.end_all();
            }
            Fate::IsAnother(span) => {
                state.other_until = now.after(span);
                state.end_all();
            }
        }
    }

    /// Resets everything but the disk.
    pub(super) fn reset(&self) {
        let mut state = self.state();
        state.end_all();
        (state.now, state.down_until, state.other_until) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
    }
}

impl State {
    fn end_all(&mut self) {
        for connection in std::mem::take(&mut self.connections) {
            self.end(connection);
        }
    }

    /// Ends a connection. Some of its pending requests are carried out, and others never will be.
    fn end(&mut self, connection: Connection) {
        connection.line.reset();
        for pending in connection.pending {
            if self.random.below(2) == 0 {
                // No client gets this answer.
                let _ = self.disk.carry_out(io_of(&pending.request, &pending.data));
            }
        }
    }

    fn export(&self, now: Nanos) -> Export {
        let size_bytes = self.disk.media().size_bytes();
        Export {
            name: "a".into(),
            description: String::new(),
            offset_bytes: 0,
            size_bytes: if now < self.other_until { size_bytes / 2 } else { size_bytes },
            read_only: false,
            block_bytes_min: 512,
            block_bytes_preferred: 4096,
            trims: true,
        }
    }

    fn tend(&mut self, now: Nanos) {
        self.now = now;
        let mut kept = Vec::new();
        for mut connection in std::mem::take(&mut self.connections) {
            if !connection.line.is_open() {
                self.end(connection);
                continue;
            }
            let service = || self.disk.clone();
            if connection.hear(now, service) {
                connection.answer(now, &self.disk);
                kept.push(connection);
            } else {
                self.end(connection);
            }
        }
        self.connections = kept;
    }

    fn due(&self) -> Nanos {
        let of = |connection: &Connection| {
            if connection.line.has_unheard() {
                return Nanos::ZERO;
            }
            let first = connection.pending.iter().map(|pending| pending.until).min();
            first.map_or(Nanos::NEVER, |first| first.max(self.disk.trouble().hangs_until))
        };
        self.connections.iter().map(of).min().unwrap_or(Nanos::NEVER)
    }
}

fn io_of(request: &Request, data: &[u8]) -> Io {
    let action = match request.command {
        Command::Read => Action::Read,
        Command::Write => Action::Write,
        Command::Trim => Action::Trim,
        Command::WriteZeroes => {
            Action::Zero { keep: request.has(COMMAND_NO_HOLE), fast: request.has(COMMAND_FAST_ZERO) }
        }
        Command::BlockStatus => Action::Extents,
        Command::Flush => Action::Flush,
        _ => Action::Cache,
    };
    let buffers = match action {
        Action::Read | Action::Write => {
            let mut buffer = Buffer::with_capacity(request.length as usize);
            if action == Action::Write {
                buffer.bytes_mut().copy_from_slice(data);
            }
            Buffers::One(buffer)
        }
        _ => Buffers::None,
    };
    let durable = request.has(COMMAND_FUA);
    Io { id: 0, action, offset: request.offset, length: request.length, durable, dispatch: None, buffers }
}

impl Connection {
    /// Takes the received bytes; returns whether the connection continues.
    fn hear(&mut self, now: Nanos, disk: impl Fn() -> Disk) -> bool {
        self.line.hear(&mut self.unread);
        let unread = std::mem::take(&mut self.unread);
        let mut input = &unread[..];
        while self.serving.is_none() && !input.is_empty() {
            let mut out = Vec::new();
            let progress = self.negotiation.feed(&mut input, &mut out);
            self.line.send(&out);
            match progress {
                Progress::Agreed(agreed) => self.serving = Some((Decoder::new(agreed.replies), agreed.replies)),
                Progress::Closed | Progress::StartTls => return false,
                Progress::More | Progress::Answered => {}
            }
        }
        let Some((decoder, _)) = &mut self.serving else { return true };
        loop {
            match decoder.next(&mut input) {
                Ok(Some(Event::Request(request))) if request.command == Command::Disconnect => return false,
                Ok(Some(Event::Request(request))) if request.payload > 0 => self.incoming = Some((request, Vec::new())),
                Ok(Some(Event::Request(request))) => {
                    self.pending.push(Pending { until: now.after(disk().span()), request, data: Vec::new() });
                }
                Ok(Some(Event::Payload(bytes))) => {
                    if let Some((request, mut data)) = self.incoming.take() {
                        data.extend_from_slice(bytes);
                        if data.len() < request.payload as usize {
                            self.incoming = Some((request, data));
                        } else {
                            self.pending.push(Pending { until: now.after(disk().span()), request, data });
                        }
                    }
                }
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Answers completed requests, in the order of completion.
    fn answer(&mut self, now: Nanos, disk: &Disk) {
        let Some((_, replies)) = self.serving else { return };
        if now < disk.trouble().hangs_until {
            return;
        }
        while let Some(at) = (0..self.pending.len()).min_by_key(|&at| self.pending[at].until)
            && self.pending[at].until <= now
        {
            let Pending { request, data, .. } = self.pending.remove(at);
            let Some(done) = disk.carry_out(io_of(&request, &data)) else { continue };
            let Request { command, cookie, offset, length, .. } = request;
            let reply = Reply { replies, command, cookie, offset };
            let mut out = Vec::new();
            match (done.result, command) {
                (Err(error), _) => reply.put_end(&mut out, Some(error)),
                (Ok(_), Command::Read) => {
                    // The disk is so small that every length fits into 32 bits.
                    reply.put_data(&mut out, true, offset, length as u32);
                    done.buffers.as_slice().iter().for_each(|buffer| out.extend_from_slice(buffer.bytes()));
                }
                (Ok(Outcome::Extents(extents)), Command::BlockStatus) => {
                    reply.put_extents(&mut out, true, CONTEXT_ALLOCATION_ID, &extents);
                }
                (Ok(_), Command::BlockStatus) => reply.put_end(&mut out, Some(NbdError::Invalid)),
                (Ok(_), _) => reply.put_end(&mut out, None),
            }
            self.line.send(&out);
        }
    }
}

impl Reach for Upstream {
    fn connect(&mut self, now: Nanos) -> Result<Stream, String> {
        let mut state = self.state();
        if now < state.down_until {
            return Err("cannot connect: nobody is there".into());
        }
        let number = state.random.draw();
        let line = Line::new(state.random.fork(number), state.short_per_million);
        let negotiation = Negotiation::new([state.export(now)].into(), Tls::None);
        line.send(&negotiation.greeting());
        let stream = line.stream();
        let connection =
            Connection { line, unread: Vec::new(), negotiation, serving: None, incoming: None, pending: Vec::new() };
        state.connections.push(connection);
        Ok(stream)
    }

    fn tend(&mut self, now: Nanos) {
        self.state().tend(now);
    }

    fn due(&self) -> Nanos {
        self.state().due()
    }

    fn now(&mut self) -> Nanos {
        let mut state = self.state();
        state.opening += 1;
        Nanos(state.opening)
    }

    fn wait(&mut self, _descriptor: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }
}
