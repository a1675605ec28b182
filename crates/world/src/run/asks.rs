//! Clients that connect, and send requests.

use std::sync::Arc;

use ioweir_core::{Nanos, StreamId};

use super::super::canary::Canary;
use super::super::client::{Ask, Client, Flood, Outstanding};
use super::super::history::Kind;
use super::super::plan::{Backing, EXPORTS, FIRST_PART_SECTORS, SECTORS, SLICE_FROM};
use super::super::promise::Promise;
use super::super::wire::Line;
use super::{PATIENCE, REST_MAX, World};
use ioweir_serve::engine::{self, Command};
use ioweir_serve::log::Peer;
use ioweir_serve::nbd::protocol::COMMAND_FUA;
use ioweir_serve::nbd::{Agreed, Export, Negotiation, Progress, Replies, Tls};
use ioweir_serve::parts::Catalog;
use ioweir_serve::spec::class_of;

impl World {
    /// Reads all sectors after a start.
    pub(super) fn probe(&mut self) {
        for (client, export) in (0..).zip(self.whole()) {
            self.connect(client, export, Replies::Structured);
            let Client { history, shown: (base, end), .. } = self.clients[client];
            for first in (0..end - base).step_by(8) {
                let cookie = self.send(client, Ask::Read, false, first, 8.min(end - base - first));
                self.histories[history].read(cookie, self.ticks, None, &mut self.verdict);
                self.probes.insert(cookie, (history, base + first));
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

    /// Writes all sectors, so that every block has a checksum.
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
        let (name, catalog) = (EXPORTS[export], up.tunables.catalog());
        let exports = &catalog.exports;
        let mut negotiation = Negotiation::new(Arc::clone(&exports.list), Tls::None);
        if self.plan.canary != Some(Canary::ShownExport) {
            negotiation.hide(exports.absent.clone());
        }
        let is_it = |number: &usize| exports.list[*number].name == name && !exports.absent.contains(number);
        let there = (0..exports.list.len()).find(is_it);
        let (sent, mut out) = (handshake(name, replies), negotiation.greeting().to_vec());
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
        let agreed_on = agreed.map(|agreed| (agreed.export, agreed.replies));
        self.verdict.check(Promise::Protocol, agreed_on == there.map(|number| (number, replies)), || {
            format!("export {name}, which is there as number {there:?}, is agreed on as {agreed:?} with {replies:?}")
        });
        let Some(agreed) = agreed.filter(|_| !self.is_broken()) else { return };
        self.join(number, agreed, &catalog);
    }

    /// A client that has agreed on an export goes to the engine.
    fn join(&mut self, number: usize, agreed: Agreed, catalog: &Catalog) {
        self.connections += 1;
        self.note("connect", number as u64, agreed.export as u64);
        let line = Line::new(self.random.fork(self.connections), self.plan.short_per_million);
        let class = class_of(&catalog.classes, agreed.export, &[]);
        let device = catalog.classes[class].device;
        let export = &catalog.exports.list[agreed.export];
        let Some((history, shown)) = self.shown(export) else {
            return self.broken(Promise::Protocol, format!("export {} shows {export:?}", export.name));
        };
        let flushes = self.flushes(history, shown);
        let client = &mut self.clients[number];
        client.line = Some(line.clone());
        (client.export, client.class, client.device, client.replies) = (agreed.export, class, device, agreed.replies);
        (client.history, client.shown, client.flushes) = (history, shown, flushes);
        client.is_read_only = export.read_only;
        self.numbers[number] = self.connections;
        catalog.engines[agreed.export].send(Command::Serve(Box::new(engine::Client {
            input: line.stream(),
            output: None,
            session: None,
            rings: None,
            agreed,
            class: StreamId(class as u32),
            number: self.connections,
            peer: Peer::Unknown,
            identity: <_>::default(),
            leftover: Vec::new(),
            unsent: Vec::new(),
            permit: None,
        })));
        self.stirred = true;
    }

    /// Sends a client's request, valid or not; returns the cookie.
    pub(super) fn send(&mut self, number: usize, ask: Ask, fua: bool, first: u64, sectors: u64) -> u64 {
        self.ticks += 1;
        self.outcome.requests += 1;
        let cookie = self.ticks;
        self.note("ask", cookie, (first << 8 | sectors) << 4 | u64::from(ask.number()));
        let Client { history, shown: (base, _), is_read_only, .. } = self.clients[number];
        let is_valid =
            !(is_read_only && ask.changes() || ask == Ask::Extents && self.clients[number].replies == Replies::Simple);
        let outstanding: usize = self.clients.iter().map(|client| client.outstanding.len()).sum();
        let slowest = self.devices.slowest(&self.plan).0 * if self.has_trouble { 100 } else { 1 };
        // Each request may have to read and write twice, in as many pieces.
        let patience = PATIENCE.after(Nanos((outstanding as u64 + 64) * slowest * 8));
        let excused = self.excused_of(history);
        let client = &mut self.clients[number];
        let (offset, length) = if ask == Ask::Flush { (0, 0) } else { (first * 512, sectors * 512) };
        let flags = if fua { COMMAND_FUA } else { 0 };
        let mut bytes = client.head(ask.number(), flags, cookie, offset, length);
        if ask == Ask::Write {
            bytes.extend((cookie as u32).to_be_bytes().repeat(length as usize / 4));
        }
        let excused = (excused, patience);
        let asked = Outstanding::new(ask, (fua, is_valid), (first, sectors), (self.ticks, self.now), excused);
        client.outstanding.insert(cookie, asked);
        if let Some(line) = &client.line {
            line.send(&bytes);
        }
        let range = (base + first, base + first + sectors);
        let kind = match ask {
            Ask::Read => Kind::Read,
            Ask::Write => Kind::Write(cookie as u32),
            Ask::Trim if history == 0 && self.plan.backing == Backing::Late => Kind::Discard,
            Ask::Trim | Ask::Zero => Kind::Write(0),
            Ask::Flush | Ask::Extents | Ask::Cache => return cookie,
        };
        if is_valid {
            self.histories[history].ask(cookie, self.ticks, range, kind);
        }
        cookie
    }

    /// The numbers of exports that together show the whole device.
    fn whole(&self) -> Vec<usize> {
        let main: &[usize] = if self.plan.backing == Backing::Joined { &[0, 1] } else { &[0] };
        let Some(up) = &self.up else { return Vec::new() };
        let catalog = up.tunables.catalog();
        let is_there = |name: &str| {
            let exports = &catalog.exports;
            (0..exports.list.len()).any(|at| exports.list[at].name == name && !exports.absent.contains(&at))
        };
        main.iter().copied().chain((5..EXPORTS.len()).filter(|export| is_there(EXPORTS[*export]))).collect()
    }

    /// The history and the sectors of an export, if it has its expected length.
    fn shown(&self, export: &Export) -> Option<(usize, (u64, u64))> {
        let (offset, sectors) = (export.offset_bytes, export.size_bytes / 512);
        let (history, shown) = match (self.plan.backing, export.name.as_str()) {
            // While the device grows, the export may show less.
            (_, "e") => (1, (0, sectors.min(self.devices.extra_disk()?.length_bytes() / 512))),
            (_, volume @ ("v0" | "v1" | "v2")) => {
                let sectors = self.volumes.sectors(volume).filter(|_| offset == self.volumes.places[volume].start)?;
                (1, sectors)
            }
            (Backing::Joined, "b" | "read" | "more") => (0, (FIRST_PART_SECTORS, SECTORS)),
            (Backing::Joined, name) => (0, (if name == "slice" { SLICE_FROM } else { 0 }, FIRST_PART_SECTORS)),
            (_, name) => (0, (if name == "slice" { SLICE_FROM } else { 0 }, SECTORS)),
        };
        (sectors == shown.1 - shown.0).then_some((history, shown))
    }

    /// The sectors that a flush of a client makes durable.
    const fn flushes(&self, history: usize, (base, _): (u64, u64)) -> (u64, u64) {
        match self.plan.backing {
            Backing::Joined if history == 0 && base >= FIRST_PART_SECTORS => (FIRST_PART_SECTORS, SECTORS),
            Backing::Joined if history == 0 => (0, FIRST_PART_SECTORS),
            _ => (0, SECTORS),
        }
    }

    /// Sends a client's request, if it may have one more, and the sectors are not crowded.
    pub(super) fn ask(&mut self, number: usize, ask: Ask, fua: bool, first: u64, sectors: u64) {
        let client = &self.clients[number];
        if client.history == 0 && self.plan.backing.has_checksums() && matches!(ask, Ask::Trim | Ask::Zero) {
            // A block of which only a part is known has no checksum.
            return;
        }
        if client.line.is_none() || client.is_spoilt || client.outstanding.len() >= 100 {
            return;
        }
        let Client { history, shown: (base, end), .. } = *client;
        let first = first % (end - base);
        let sectors = sectors.min(end - base - first).max(u64::from(ask != Ask::Flush));
        if ask != Ask::Flush && !self.histories[history].has_room(base + first, base + first + sectors) {
            return;
        }
        self.send(number, ask, fua, first, sectors);
    }

    /// Sends the next requests of clients in a flood.
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

/// The bytes that a client sends until it has agreed on an export.
fn handshake(export: &str, replies: Replies) -> Vec<u8> {
    use ioweir_serve::nbd::protocol::{
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
