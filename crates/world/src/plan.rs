//! The plan of a world, made from a seed: the server's spec, its devices, and the steps of everything around it.

use std::fmt;

use ioweir_core::Nanos;

use super::canary::Canary;
use super::client::{Ask, Flood};
use super::disk::Trouble;
use super::random::Random;
use super::server;
use super::upstream::Fate;
use ioweir_serve::nbd::Replies;

/// The clients of a world.
pub(super) const CLIENTS: u64 = 6;
/// The sectors of the device: few, so that clients use the same ones.
pub(super) const SECTORS: u64 = 192;
/// The sectors of a fast tier, with its identity.
pub(super) const FAST_SECTORS: u64 = 72;
/// The offset of the export that is a slice, in sectors.
pub(super) const SLICE_FROM: u64 = 64;
/// The sectors of the first of two parts; the second one has the rest.
pub(super) const FIRST_PART_SECTORS: u64 = 120;

/// The exports that clients know: those of the start, an added one, one of the device that is added and removed, and those of its volumes.
pub(super) const EXPORTS: [&str; 9] = ["a", "b", "slice", "read", "more", "e", "v0", "v1", "v2"];
/// The device of the start, and the one that is added and removed.
pub(super) const DEVICES: [&str; 2] = ["d", "e"];
/// Volumes begin at multiples of this, as the server has it.
pub(super) const PLACE_BYTES: u64 = 1 << 20;
/// The longest volume, in sectors.
pub(super) const VOLUME_SECTORS_MAX: u64 = 64;

/// A device that is added and removed while the server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// The device's keys without its length.
    pub keys: Vec<String>,
    /// The device's first length.
    pub bytes: u64,
    /// Whether its exports show volumes.
    pub has_volumes: bool,
}

impl Extra {
    fn any(random: &mut Random) -> Self {
        let has_volumes = random.below(2) == 0;
        let bytes = if has_volumes { PLACE_BYTES + VOLUME_SECTORS_MAX * 512 } else { random.within(4, 20) * 4096 };
        Self { keys: server::extra(random, has_volumes), bytes, has_volumes }
    }

    /// The greatest length that the device can get.
    pub(super) const fn bytes_max(&self) -> u64 {
        if self.has_volumes { 2 * PLACE_BYTES + VOLUME_SECTORS_MAX * 512 } else { SECTORS * 512 }
    }
}

ioweir_core::named! {
    /// The composition of a world's device.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Backing {
        /// A disk.
        Disk = "disk",
        /// A disk with checksums.
        Checked = "checksums",
        /// A disk whose discards are carried out later.
        Late = "late discards",
        /// A disk and a faster one, with placement by the scheduler.
        Placed = "tiers with placement",
        /// A disk and a faster one that holds copies.
        Cached = "tiers with copies",
        /// A disk and a faster one that holds copies, with checksums.
        CheckedCopies = "tiers with copies, and checksums",
        /// Two disks, each of which is a part of the device.
        Joined = "two parts",
        /// The export of another server.
        Upstream = "upstream",
    }
}

impl Backing {
    /// Whether the device keeps checksums.
    pub(super) const fn has_checksums(self) -> bool {
        matches!(self, Self::Checked | Self::CheckedCopies)
    }

    /// Whether a disk only holds copies of the other, so that clients do not see its faults.
    pub(super) const fn holds_copies(self, disk: usize) -> bool {
        matches!(self, Self::Cached | Self::CheckedCopies) && disk == 1
    }

    /// The disks that may have trouble.
    const fn disks(self) -> u64 {
        match self {
            Self::Cached | Self::CheckedCopies | Self::Joined => 2,
            _ => 1,
        }
    }
}

/// The way in which a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// With the protocol's command.
    Disconnect,
    /// The client sends no more, and reads the answers.
    HalfClose,
    /// The client's connection is reset.
    Reset,
    /// The client sends half a request, and nothing after it.
    HalfARequest,
    /// The client sends bytes that are no request.
    Garbage,
}

/// An operator's order to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Changes weights and limits, as one change that may be refused.
    Change(u64),
    /// Makes a change and undoes it, as when another engine refuses it.
    Withdrawn(u64),
    /// Ends a client.
    Kick(u64),
    /// Lists the clients.
    Clients,
    /// Pauses the device for a snapshot, and ends the pause after this time.
    Pause(Nanos),
    /// Opens failed parts of the device again.
    Reopen,
    /// Asks for a report.
    Report,
    /// Lets a service work, slowly or not, or rest.
    Service(u64),
    /// Adds an export, or removes one.
    Export(u64),
    /// Adds, removes or changes the second device, its exports or its volumes.
    Extra(u64),
}

impl Order {
    /// The order's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Change(_) => "change",
            Self::Withdrawn(_) => "withdrawn",
            Self::Kick(_) => "kick",
            Self::Clients => "list",
            Self::Pause(_) => "pause",
            Self::Reopen => "reopen",
            Self::Report => "report",
            Self::Service(_) => "service",
            Self::Export(_) => "export",
            Self::Extra(_) => "extra",
        }
    }
}

ioweir_core::named! {
    /// How a server ends.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum End {
        /// By a power failure, which loses the data that is not durable.
        Power = "power",
        /// The server is killed; the disks keep all data.
        Killed = "killed",
        /// The server is stopped in order.
        Stopped = "stopped",
        /// The server hands over to the next one, which begins at once, and answers its requests, however long that takes.
        HandedOver = "handed_over",
    }
}

impl End {
    /// A phrase for servers that ended this way.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Power => "with the power",
            Self::Killed => "killed",
            Self::Stopped => "stopped",
            Self::HandedOver => "handed over",
        }
    }
}

/// The direction in which a clock is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Back.
    Back,
    /// Forward.
    Forward,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A client connects to an export and negotiates.
    Connect(u64, usize, Replies),
    /// A client asks.
    Ask(u64, Ask, bool, u64, u64),
    /// A client sends an invalid request.
    Nonsense(u64, u64),
    /// A client sends a flood of requests.
    Flood(u64, Flood),
    /// A client does not read for a time.
    Deaf(u64, Nanos),
    /// A client leaves.
    Leave(u64, Leave),
    /// An operator gives an order.
    Order(Order),
    /// A disk has these faults from now on.
    Trouble(usize, Trouble),
    /// The upstream meets a fate.
    Upstream(Fate),
    /// The clock jumps: the machine was suspended.
    Jump(Nanos),
    /// The engine of a device gets no processor for this time.
    Stall(usize, Nanos),
    /// The wall clock is put back, or forward. A server reads it when it starts.
    SetClock(Clock, Nanos),
    /// The server ends, and another one starts after a while.
    End(End, Nanos),
    /// Faults end, clients read, and every request is answered, so that nothing may be left over.
    Rest,
}

/// An event, and its time after the event before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The time since the step before.
    pub after: Nanos,
    /// What happens.
    pub act: Act,
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "+{} {:?}", self.after, self.act)
    }
}

/// A world before it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The seed of the world.
    pub seed: u64,
    /// The spec of the server.
    pub spec: String,
    /// The composition of the device.
    pub backing: Backing,
    /// The time of an operation of a disk: the least, and the span above it.
    pub service: (Nanos, Nanos),
    /// Calls of sockets in a million that move only some bytes.
    pub short_per_million: u32,
    /// The device that is added and removed, if there is one.
    pub extra: Option<Extra>,
    /// Connections to an upstream, and the most bytes that are kept until a flush covers them.
    pub upstream: (u32, u64),
    /// The steps of the world, in order.
    pub steps: Vec<Step>,
    /// A promise that is broken on purpose.
    pub canary: Option<Canary>,
}

fn range(random: &mut Random) -> (u64, u64) {
    // Requests are mostly short, and mostly at the beginning of a block.
    let sectors = random.one_of(&[1, 1, 2, 8, 8, 8, 16, 24]);
    let first = random.below(SECTORS);
    let first = if random.below(3) > 0 { first / 8 * 8 } else { first };
    (first, sectors.min(SECTORS - first))
}

fn any_ask(random: &mut Random, client: u64) -> Act {
    let ask = random.one_of(&[
        Ask::Read,
        Ask::Read,
        Ask::Read,
        Ask::Write,
        Ask::Write,
        Ask::Write,
        Ask::Flush,
        Ask::Trim,
        Ask::Zero,
        Ask::Extents,
        Ask::Cache,
    ]);
    let (first, sectors) = range(random);
    let fua = ask.changes() && random.below(4) == 0;
    Act::Ask(client, ask, fua, first, sectors)
}

fn any_flood(random: &mut Random) -> Flood {
    Flood {
        count: random.within(8, 200) as u32,
        depth: random.one_of(&[1, 2, 8, 32]),
        reads: random.one_of(&[0, 50, 80, 100]),
        sectors: random.one_of(&[0, 1, 8, 8]),
        thinks: Nanos(random.one_of(&[0, 0, 1, 1_000_000, 50_000_000])),
    }
}

/// Faults of a disk from which the device recovers, as far as its composition allows.
fn any_trouble(random: &mut Random, backing: Backing, disk: usize) -> Trouble {
    let mut trouble = Trouble::default();
    if backing == Backing::CheckedCopies && backing.holds_copies(disk) && random.below(2) == 0 {
        // No copy on this disk can be trusted.
        match random.below(3) {
            0 => trouble.rot_per_million = 500_000,
            1 => trouble.lost_per_million = 500_000,
            _ => trouble.misdirected_per_million = 500_000,
        }
        return trouble;
    }
    match random.below(6) {
        0 => trouble.reads_per_million = random.one_of(&[20_000, 500_000]) as u32,
        // A failed write leaves its block without a checksum, so that later damage is not seen. Its result is unknown, so that it is not
        // repeated when an upstream dies.
        1 if !backing.has_checksums() && backing != Backing::Upstream => {
            trouble.writes_per_million = random.one_of(&[20_000, 500_000]) as u32
        }
        2 => trouble.slow_per_million = 50_000,
        3 => trouble.hangs_until = Nanos(random.within(1, 10) * 1_000_000_000),
        // An upstream whose flush has failed does not get the earlier changes again when it dies. Reads may then show that they are gone,
        // which the failed flush has reported, so the checker would have to excuse that.
        4 if backing != Backing::Upstream => trouble.flushes_per_million = random.one_of(&[50_000, 1_000_000]) as u32,
        // Faults that only checksums reveal.
        _ if backing.has_checksums() => match random.below(3) {
            0 => trouble.rot_per_million = 20_000,
            1 => trouble.lost_per_million = 50_000,
            _ => trouble.misdirected_per_million = 50_000,
        },
        _ => trouble.slow_per_million = 500_000,
    }
    trouble
}

fn any_fate(random: &mut Random) -> Fate {
    let span = Nanos::from_millis(random.one_of(&[0, 1, 100, 5_000, 30_000]));
    match random.below(6) {
        0..=2 => Fate::Dies(span),
        3 => Fate::Restarts(span),
        4 => Fate::Breaks(random.draw()),
        _ => Fate::IsAnother(span),
    }
}

fn any_order(random: &mut Random) -> Order {
    match random.below(10) {
        0 | 1 => Order::Change(random.draw()),
        2 => Order::Withdrawn(random.draw()),
        3 => Order::Kick(random.below(CLIENTS)),
        4 => Order::Clients,
        5 => Order::Pause(Nanos::from_millis(random.within(1, 1500))),
        6 => Order::Reopen,
        7 => Order::Service(random.draw()),
        8 if random.below(2) == 0 => Order::Export(random.draw()),
        _ => Order::Report,
    }
}

fn any_replies(random: &mut Random) -> Replies {
    random.one_of(&[Replies::Simple, Replies::Structured, Replies::Extended])
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let backing = random.one_of(&Backing::ALL);
        let spec = server::spec(random, backing);
        let least = Nanos(random.one_of(&[2_000, 100_000, 1_000_000]));
        let service = (least, Nanos(least.0 * random.within(1, 8)));
        let short_per_million = random.one_of(&[0, 50_000, 600_000]) as u32;
        let upstream = (random.within(1, 5) as u32, random.one_of(&[16 << 10, 64 << 10, 1 << 20]));
        let extra = (random.below(3) == 0).then(|| Extra::any(random));
        let mut plan =
            Self { seed, spec, backing, service, short_per_million, extra, upstream, steps: Vec::new(), canary: None };
        let episodes = random.within(4, 14);
        for _ in 0..episodes {
            plan.episode(random);
        }
        plan.stall(&mut Random::new(seed).fork(3));
        plan
    }

    /// Lets engines stand still now and then.
    fn stall(&mut self, random: &mut Random) {
        for step in std::mem::take(&mut self.steps) {
            if random.below(100) == 0 {
                let device = random.below(DEVICES.len() as u64) as usize;
                let span = Nanos::from_millis(random.one_of(&[10, 1_500, 100_000]));
                self.step(Nanos::ZERO, Act::Stall(device, span));
            }
            self.steps.push(step);
        }
    }

    /// The least duration of the world.
    #[must_use]
    pub fn span(&self) -> Nanos {
        Nanos(self.steps.iter().map(|step| step.after.0).sum())
    }

    fn step(&mut self, after: Nanos, act: Act) {
        self.steps.push(Step { after, act });
    }

    /// The number of an export that a client may want.
    fn any_export(&self, random: &mut Random) -> usize {
        let extra = self.extra.as_ref().map(|extra| extra.has_volumes);
        match (random.below(4), extra) {
            (0 | 1, Some(true)) => 6 + random.below(3) as usize,
            (0 | 1, Some(false)) => 5,
            _ => random.one_of(&[0, 0, 1, 1, 2, 3, 4]),
        }
    }

    /// Adds a time of activity, with or without faults, and a quiet one after it.
    fn episode(&mut self, random: &mut Random) {
        let soon = |random: &mut Random| Nanos(random.one_of(&[0, 1_000, 100_000, 3_000_000, 200_000_000]));
        for client in 0..random.within(2, CLIENTS + 1) {
            let export = self.any_export(random);
            self.step(Nanos(random.below(1_000_000)), Act::Connect(client, export, any_replies(random)));
        }
        let has_trouble = random.below(3) == 0;
        for _ in 0..random.within(5, 60) {
            let client = random.below(CLIENTS);
            let act = match random.below(if self.extra.is_some() { 46 } else { 40 }) {
                0..=21 => any_ask(random, client),
                22..=27 => Act::Flood(client, any_flood(random)),
                28 => Act::Nonsense(client, random.draw()),
                29 => Act::Deaf(client, Nanos::from_millis(random.within(1, 40_000))),
                30 | 31 => {
                    let how = random.one_of(&[
                        Leave::Disconnect,
                        Leave::HalfClose,
                        Leave::Reset,
                        Leave::HalfARequest,
                        Leave::Garbage,
                    ]);
                    Act::Leave(client, how)
                }
                32 | 33 => Act::Connect(client, self.any_export(random), any_replies(random)),
                40.. => Act::Order(Order::Extra(random.draw())),
                34..=35 => Act::Order(any_order(random)),
                37 if has_trouble => {
                    let disk = random.below(self.backing.disks()) as usize;
                    Act::Trouble(disk, any_trouble(random, self.backing, disk))
                }
                36 if self.backing == Backing::Upstream => Act::Upstream(any_fate(random)),
                36 => Act::Order(any_order(random)),
                38 if random.below(8) == 0 => Act::Jump(Nanos::from_millis(random.within(1, 3_600_000))),
                _ => Act::Ask(client, Ask::Flush, false, 0, 0),
            };
            self.step(soon(random), act);
        }
        if random.below(4) == 0 {
            let way = random.one_of(&[Clock::Back, Clock::Back, Clock::Forward]);
            self.step(soon(random), Act::SetClock(way, Nanos::from_seconds(random.one_of(&[1, 3_600, 3_000_000]))));
        }
        match random.below(9) {
            0 | 1 => self.step(soon(random), Act::End(End::Power, Nanos::from_seconds(random.within(1, 60)))),
            2 => self.step(soon(random), Act::End(End::Killed, Nanos::from_seconds(random.within(1, 10)))),
            3 => self.step(soon(random), Act::End(End::Stopped, Nanos::from_seconds(random.within(1, 10)))),
            4 => self.step(soon(random), Act::End(End::HandedOver, Nanos::ZERO)),
            _ => {}
        }
        self.step(Nanos::from_seconds(1), Act::Rest);
        // Servers are idle most of the time; their clients stay.
        let idle = random.one_of(&[1, 30, 600, 3_600]);
        self.step(Nanos::from_seconds(idle), Act::Ask(0, Ask::Read, false, 0, 8));
    }
}
