//! Clients connect, and ask.

use std::sync::Arc;

use ioweir_core::{Nanos, StreamId};

use super::super::canary::Canary;
use super::super::client::{Ask, Flood, Outstanding};
use super::super::history::Kind;
use super::super::plan::{Backing, FIRST_PART_SECTORS, SECTORS, SLICE_FROM};
use super::super::promise::Promise;
use super::super::wire::Line;
use super::{PATIENCE, REST_MAX, World};
use crate::engine::{self, Command};
use crate::log::Peer;
use crate::nbd::protocol::COMMAND_FUA;
use crate::nbd::{Agreed, Negotiation, Progress, Replies, Tls};

impl World {
    /// Reads everything after a start.
    pub(super) fn probe(&mut self) {
        for (client, export) in (0..).zip(self.whole()) {
            self.connect(client, *export, Replies::Structured);
            let (base, end) = self.shown(client);
            for first in (0..end - base).step_by(8) {
                let cookie = self.send(client, Ask::Read, false, first, 8);
                self.history.read(cookie, self.ticks, None, &mut self.verdict);
                self.probes.insert(cookie, base + first);
            }
        }
        let until = self.now.after(REST_MAX);
        while !self.probes.is_empty() && self.now < until && !self.is_broken() {
            self.run_until(self.now.after(Nanos::from_millis(10)));
        }
        if !self.is_broken() {
            let left = self.probes.len();
            self.verdict.check(Promise::Waits, left == 0, || "what is there after a start cannot be read".into());
        }
        self.is_rotten = false;
    }

    /// Writes everything, so that every block has a checksum.
    pub(super) fn fill(&mut self) {
        for first in (0..SECTORS).step_by(8) {
            self.send(0, Ask::Write, false, first, 8);
        }
        let until = self.now.after(REST_MAX);
        while !self.clients[0].outstanding.is_empty() && self.now < until && !self.is_broken() {
            self.run_until(self.now.after(Nanos::from_millis(10)));
        }
    }

    /// A client connects, and negotiates until it has an export.
    pub(super) fn connect(&mut self, number: usize, export: usize, replies: Replies) {
        if self.clients[number].line.is_some() {
            return;
        }
        let Some(up) = &self.up else { return };
        let name = up.exports[export].name.clone();
        let mut negotiation = Negotiation::new(Arc::clone(&up.exports), Tls::None);
        if self.plan.canary != Some(Canary::ShownExport) {
            negotiation.hide(up.absent.clone());
        }
        let is_there = !up.absent.contains(&export);
        let (sent, mut out) = (handshake(&name, replies), negotiation.greeting().to_vec());
        let mut pieces = sent.as_slice();
        let agreed = loop {
            let length = (1 + self.random.below(60) as usize).min(pieces.len());
            if length == 0 {
                break None;
            }
            let mut piece = &pieces[..length];
            let progress = negotiation.feed(&mut piece, &mut out);
            pieces = &pieces[length - piece.len()..];
            match progress {
                Progress::More | Progress::Answered => {}
                Progress::Agreed(agreed) => break Some(agreed),
                Progress::StartTls | Progress::Closed => break None,
            }
        };
        let fits = agreed.map_or(!is_there, |agreed| is_there && agreed.export == export && agreed.replies == replies);
        self.verdict.check(Promise::Protocol, fits, || {
            format!("export {name}, which is there: {is_there}, is agreed on as {agreed:?} with {replies:?}")
        });
        let Some(agreed) = agreed else { return };
        self.join(number, agreed);
    }

    /// A client that has agreed on an export goes to the engine.
    pub(super) fn join(&mut self, number: usize, agreed: Agreed) {
        self.connections += 1;
        self.note("connect", number as u64, agreed.export as u64);
        let line = Line::new(self.random.fork(self.connections), self.plan.short_per_million);
        let client = &mut self.clients[number];
        (client.line, client.export, client.replies) = (Some(line.clone()), agreed.export, agreed.replies);
        self.numbers[number] = self.connections;
        let Some(up) = &mut self.up else { return };
        up.handle.send(Command::Serve(Box::new(engine::Client {
            input: line.end().into(),
            output: None,
            session: None,
            rings: None,
            agreed,
            class: StreamId(agreed.export as u32),
            number: self.connections,
            peer: Peer::Unknown,
            identity: <_>::default(),
            leftover: Vec::new(),
            unsent: Vec::new(),
            permit: None,
        })));
        self.stirred = true;
    }

    /// A client asks, whether it makes sense or not; returns the cookie.
    pub(super) fn send(&mut self, number: usize, ask: Ask, fua: bool, first: u64, sectors: u64) -> u64 {
        self.ticks += 1;
        self.outcome.requests += 1;
        let cookie = self.ticks;
        self.note("ask", cookie, (first << 8 | sectors) << 4 | u64::from(ask.number()));
        let is_read_only = self.clients[number].export == 3;
        let is_valid =
            !(is_read_only && ask.changes() || ask == Ask::Extents && self.clients[number].replies == Replies::Simple);
        let (base, _) = self.shown(number);
        let outstanding: usize = self.clients.iter().map(|client| client.outstanding.len()).sum();
        let slowest = self.devices.slowest(&self.plan).0 * if self.has_trouble { 100 } else { 1 };
        // Each may have to read and write twice, in as many pieces.
        let patience = PATIENCE.after(Nanos((outstanding as u64 + 64) * slowest * 8));
        let client = &mut self.clients[number];
        let (offset, length) = if ask == Ask::Flush { (0, 0) } else { (first * 512, sectors * 512) };
        let flags = if fua { COMMAND_FUA } else { 0 };
        let mut bytes = client.head(ask.number(), flags, cookie, offset, length);
        if ask == Ask::Write {
            bytes.extend((cookie as u32).to_be_bytes().repeat(length as usize / 4));
        }
        let asked =
            Outstanding::new(ask, (fua, is_valid), (first, sectors), (self.ticks, self.now), (self.excused, patience));
        client.outstanding.insert(cookie, asked);
        if let Some(line) = &client.line {
            line.send(&bytes);
        }
        let range = (base + first, base + first + sectors);
        if is_valid {
            match ask {
                Ask::Read => self.history.ask(cookie, self.ticks, range, Kind::Read),
                Ask::Write => self.history.ask(cookie, self.ticks, range, Kind::Write(cookie as u32)),
                Ask::Trim if self.plan.backing == Backing::Late => {
                    self.history.ask(cookie, self.ticks, range, Kind::Discard);
                }
                Ask::Trim | Ask::Zero => self.history.ask(cookie, self.ticks, range, Kind::Write(0)),
                Ask::Flush | Ask::Extents | Ask::Cache => {}
            }
        }
        cookie
    }

    /// The exports that together show all of the device.
    fn whole(&self) -> &'static [usize] {
        if self.plan.backing == Backing::Joined { &[0, 1] } else { &[0] }
    }

    /// The sectors that the export of a client shows.
    pub(super) fn shown(&self, number: usize) -> (u64, u64) {
        match (self.plan.backing, self.clients[number].export) {
            (Backing::Joined, 1 | 3) => (FIRST_PART_SECTORS, SECTORS),
            (Backing::Joined, export) => (if export == 2 { SLICE_FROM } else { 0 }, FIRST_PART_SECTORS),
            (_, export) => (if export == 2 { SLICE_FROM } else { 0 }, SECTORS),
        }
    }

    /// The sectors that a flush of a client makes durable.
    pub(super) fn flushes(&self, number: usize) -> (u64, u64) {
        match (self.plan.backing, self.clients[number].export) {
            (Backing::Joined, 1 | 3) => (FIRST_PART_SECTORS, SECTORS),
            (Backing::Joined, _) => (0, FIRST_PART_SECTORS),
            _ => (0, SECTORS),
        }
    }

    /// A client asks, if it may ask more, and the sectors are not crowded.
    pub(super) fn ask(&mut self, number: usize, ask: Ask, fua: bool, first: u64, sectors: u64) {
        if self.plan.backing.has_checksums() && matches!(ask, Ask::Trim | Ask::Zero) {
            // Such blocks have no checksums.
            return;
        }
        let client = &self.clients[number];
        if client.line.is_none() || client.is_spoilt || client.outstanding.len() >= 100 {
            return;
        }
        let (base, end) = self.shown(number);
        let first = first % (end - base);
        let sectors = sectors.min(end - base - first).max(u64::from(ask != Ask::Flush));
        if ask != Ask::Flush && !self.history.has_room(base + first, base + first + sectors) {
            return;
        }
        self.send(number, ask, fua, first, sectors);
    }

    /// Clients in a flood ask again.
    pub(super) fn go_on_asking(&mut self) {
        for number in 0..self.clients.len() {
            while let client = &mut self.clients[number]
                && client.wants_to_ask()
                && client.next_at <= self.now
                && let Some(flood) = &mut client.flood
            {
                flood.count -= 1;
                let Flood { reads, sectors, thinks, .. } = *flood;
                let random = &mut client.random;
                let ask = if random.below(100) < u64::from(reads) { Ask::Read } else { Ask::Write };
                let ask = if random.below(64) == 0 { Ask::Flush } else { ask };
                let length = if sectors == 0 { random.within(1, 25) } else { sectors };
                let first = random.below(SECTORS) / length * length;
                if thinks > Nanos::ZERO {
                    client.next_at = self.now.after(thinks);
                }
                self.ask(number, ask, false, first, if ask == Ask::Flush { 0 } else { length });
            }
        }
    }
}

/// What a client sends until it has agreed on an export.
fn handshake(export: &str, replies: Replies) -> Vec<u8> {
    use crate::nbd::protocol::{
        FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, MAGIC_OPTION, OPTION_EXTENDED_HEADERS, OPTION_GO, OPTION_LIST,
        OPTION_SET_META_CONTEXT, OPTION_STRUCTURED_REPLY,
    };
    let mut bytes = u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes().to_vec();
    let mut option = |number: u32, data: &[u8]| {
        bytes.extend(MAGIC_OPTION.to_be_bytes());
        bytes.extend(number.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
    };
    option(OPTION_LIST, &[]);
    match replies {
        Replies::Simple => {}
        Replies::Structured => option(OPTION_STRUCTURED_REPLY, &[]),
        Replies::Extended => option(OPTION_EXTENDED_HEADERS, &[]),
    }
    let name = [&(export.len() as u32).to_be_bytes()[..], export.as_bytes()].concat();
    if replies != Replies::Simple {
        let context = b"base:allocation";
        let contexts = [&name[..], &1_u32.to_be_bytes(), &(context.len() as u32).to_be_bytes(), context].concat();
        option(OPTION_SET_META_CONTEXT, &contexts);
    }
    option(OPTION_GO, &[&name[..], &0_u16.to_be_bytes()].concat());
    bytes
}
