//! The work of a fleet's server in each period, given the time: it reports the demand of its tenants, looks for a new round, and adopts its
//! parts. It has no clock and no thread; the servers meet in a [`Store`].
//!
//! The server that began a round begins the next one after two periods; if it does not, another does so after three. A round is the state
//! of all reports at one revision, so that every server reads the same. While the store does not answer, the server keeps its parts until
//! its lease is over, and then uses `alone` percent of the shares in its spec.

use std::collections::{BTreeMap, BTreeSet};

use ioweir_core::Nanos;
use ioweir_core::fleet::report::{self, Entry};
use ioweir_core::fleet::{MEMBERS_MAX, Part, Sight, Standing, apportion, demand, weigh};
use ioweir_core::tenant::{Elsewhere, Share};

use super::members::{self, Members};
use super::wire::Answer;
use crate::control::{FleetClass, FleetStatus};
use crate::engine::Served;
use crate::log::EventKind;
use crate::spec::{ClassPart, Fleet as Keys};

/// A tenant counts as held back by his limit if he was throttled for this part of the time, as a divisor.
const HELD_DIVISOR: u64 = 8;

/// The place where servers meet. Errors are texts; an answer that does not come in time is one.
pub trait Store {
    /// Grants a lease of this many seconds.
    ///
    /// # Errors
    /// The reason why there is no lease.
    fn grant(&mut self, seconds: u64) -> Result<i64, String>;
    /// Renews a lease; false if it is over.
    ///
    /// # Errors
    /// Why that is unknown.
    fn renew(&mut self, lease: i64) -> Result<bool, String>;
    /// Writes a report, and reads the changes, all in one step.
    ///
    /// # Errors
    /// Why the result is unknown.
    fn exchange(&mut self, ask: &Ask<'_>) -> Result<Answer, String>;
    /// All reports and records as they were at a revision.
    ///
    /// # Errors
    /// Why they cannot be read.
    fn snapshot(&mut self, revision: i64) -> Result<Snapshot, String>;
    /// Deletes the server's record, and ends its lease, if it has one, before its time.
    fn leave(&mut self, lease: Option<i64>);
}

/// The report and the questions of a server in one exchange.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The server's lease.
    pub lease: i64,
    /// The demand of its tenants.
    pub report: &'a str,
    /// The server's record, if it is to be written anew.
    pub record: Option<&'a str>,
    /// Whether its report is the first under this lease.
    pub is_new: bool,
    /// The newest round that the server knows, by its revision, if the server wants to begin another: only if it is still the newest.
    pub begins: Option<i64>,
    /// The revision up to which the server knows the specs of tenants.
    pub tenants_after: i64,
}

/// A server's report in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The server's name.
    pub server: String,
    /// The report as it was written.
    pub report: Vec<u8>,
}

/// The content of the store at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The reports of the servers whose leases hold.
    pub reports: Vec<Heard>,
    /// The records of all servers that have not ended well.
    pub records: Vec<Heard>,
}

/// A class of this server that is a member of a tenant of the fleet.
#[derive(Clone, Debug)]
pub struct Own {
    /// The number of the class.
    pub class: u32,
    /// The tenant.
    pub tenant: String,
    /// The tenant's share on all servers together, by the spec.
    pub share: Share,
    /// Whether cost is counted in sectors, not in requests.
    pub counts_sectors: bool,
    /// Whether the scheduler takes into account the service that its clients receive on other servers.
    pub hears_of_others: bool,
}

/// The result of a period.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// The parts of classes from now on; a class without one has its share in the spec.
    pub parts: BTreeMap<u32, ClassPart>,
    /// The service that tenants have received on other servers since the last round, by class.
    pub elsewhere: Vec<(u32, Elsewhere)>,
    /// The specs of tenants in the store, if there are any.
    pub tenants: Option<Vec<u8>>,
    /// Events to be logged.
    pub remarks: Vec<(EventKind, String)>,
    /// The state of the fleet for reports.
    pub status: FleetStatus,
}

/// The parts of a class in the rounds.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    limit: Option<Part>,
    bytes: Option<Part>,
    reserved: Option<Part>,
    weight: Option<u32>,
}

impl Parts {
    fn used(&self) -> ClassPart {
        let used = |part: Option<Part>| part.map(|part| part.used());
        let (limit, limit_bytes, reservation) = (used(self.limit), used(self.bytes), used(self.reserved));
        ClassPart { limit, limit_bytes, reservation, weight: self.weight }
    }
}

/// The service and the demand of a class when it was last measured.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    at: Nanos,
    served: Served,
    entry: [u64; 5],
}

/// The report of one server, read.
type Read<'a> = (&'a str, Vec<Entry<'a>>);

/// A server's side of a fleet.
#[derive(Debug)]
pub struct Coordinator<S> {
    keys: Keys,
    store: S,
    standing: Standing,
    lease: Option<i64>,
    /// When the lease was last renewed.
    renewed: Nanos,
    /// Whether the store has a report under the lease.
    has_report: bool,
    /// The record that was last written.
    record: Option<String>,
    /// The servers that had a record and no report in the last round: room is left to them.
    missing: BTreeSet<String>,
    /// Whether servers that see nobody would exceed a limit together.
    is_excessive: bool,
    /// The newest round, when it was first seen, and whether this server has begun it.
    round: (i64, Nanos, bool),
    /// The round whose parts are used.
    adopted: i64,
    parts: BTreeMap<u32, Parts>,
    last: BTreeMap<u32, Last>,
    /// The total that each other server had served of each tenant by the last round.
    heard: BTreeMap<(String, String), u64>,
    tenants: (i64, Option<Vec<u8>>),
    status: FleetStatus,
}

impl<S: Store> Coordinator<S> {
    /// A server without a report yet.
    pub fn new(keys: Keys, store: S) -> Self {
        let (period, lease) = (keys.period.nanos(), keys.lease.nanos());
        Self {
            standing: Standing::new(Nanos(period.0 * 3), lease),
            keys,
            store,
            lease: None,
            renewed: Nanos::ZERO,
            has_report: false,
            record: None,
            missing: BTreeSet::new(),
            is_excessive: false,
            round: (0, Nanos::ZERO, false),
            adopted: 0,
            parts: BTreeMap::new(),
            last: BTreeMap::new(),
            heard: BTreeMap::new(),
            tenants: (0, None),
            status: FleetStatus::default(),
        }
    }

    /// The store in which the servers meet.
    pub const fn store(&mut self) -> &mut S {
        &mut self.store
    }

    /// Revokes the lease, so that other servers need not wait for its end.
    pub fn leave(&mut self) {
        let lease = self.lease.take();
        if lease.is_some() || self.record.is_some() {
            self.store.leave(lease);
        }
    }

    /// Does the work that is due, given the service that each class has received since the server began.
    pub fn turn(&mut self, now: Nanos, owns: &[Own], served: &[Served]) -> Turn {
        let mut turn = Turn::default();
        self.parts.retain(|class, _| owns.iter().any(|own| own.class == *class));
        for own in owns {
            self.measure(now, own, served.get(own.class as usize).copied().unwrap_or_default());
        }
        let result = self.meet(now, owns, &mut turn);
        self.see(now, result, &mut turn);
        if self.status.sight == Sight::Alone {
            self.parts.clear();
            self.adopted = 0;
        }
        let part = |own: &Own| (own.class, self.part_of(own));
        // A class that has all of its share needs no part.
        turn.parts = owns.iter().map(part).filter(|(_, part)| *part != ClassPart::default()).collect();
        turn.tenants.clone_from(&self.tenants.1);
        self.show(owns);
        turn.status = self.status.clone();
        turn
    }

    /// The part that a class uses: its part of the last round or, if it was in no round since the server was alone, `alone` percent of its
    /// share.
    fn part_of(&self, own: &Own) -> ClassPart {
        match self.parts.get(&own.class) {
            Some(parts) => parts.used(),
            None if self.keys.alone == 100 => ClassPart::default(),
            None => ClassPart::percent(&own.share, self.keys.alone),
        }
    }

    /// Derives the demand of a class from the service that it has received since the last measurement.
    fn measure(&mut self, now: Nanos, own: &Own, served: Served) {
        let last = self.last.entry(own.class).or_insert(Last { at: now, served, entry: [0; 5] });
        let span = now.since(last.at).0;
        let before = last.served;
        let units = |of: &Served| if own.counts_sectors { of.bytes / 512 } else { of.requests };
        let totals = [units(&served), served.bytes];
        if span > 0 {
            let rate = |now: u64, before: u64| {
                let more = u128::from(now.saturating_sub(before)) * 1_000_000_000;
                u64::try_from(more / u128::from(span)).unwrap_or(u64::MAX)
            };
            let is_held = |now: u64, before: u64| now.saturating_sub(before) > span / HELD_DIVISOR;
            let held = is_held(served.throttled_nanos, before.throttled_nanos);
            let waited = is_held(served.waited_nanos, before.waited_nanos);
            let (rate, bytes) = (rate(totals[0], units(&before)), rate(served.bytes, before.bytes));
            last.entry = [demand(rate, held), demand(bytes, held), demand(rate, waited), 0, 0];
            (last.at, last.served) = (now, served);
        }
        [last.entry[3], last.entry[4]] = totals;
    }

    fn report(&self, owns: &[Own]) -> String {
        let mut text = String::new();
        let entries = owns.iter().filter_map(|own| {
            let [demand, demand_bytes, demand_reserved, served, served_bytes] = self.last.get(&own.class)?.entry;
            Some(Entry { tenant: &own.tenant, demand, demand_bytes, demand_reserved, served, served_bytes })
        });
        report::write(entries, &mut text);
        text
    }

    /// Writes the report, and adopts a new round, if there is one.
    fn meet(&mut self, now: Nanos, owns: &[Own], turn: &mut Turn) -> Result<(), String> {
        let lease = self.hold_lease(now)?;
        let report = self.report(owns);
        let record = members::record(owns, self.keys.alone);
        let is_known = self.has_report && self.record.as_ref() == Some(&record);
        let period = self.keys.period.nanos().0;
        let (round, seen, is_mine) = self.round;
        let due = if is_mine { 2 * period } else { 3 * period };
        // A quarter of a period is tolerated, because turns are not exact.
        let is_due = now.since(seen).0 + period / 4 >= due;
        let ask = Ask {
            lease,
            report: &report,
            record: (!is_known).then_some(&record),
            is_new: !self.has_report,
            begins: is_due.then_some(round),
            tenants_after: self.tenants.0,
        };
        let answer = self.store.exchange(&ask)?;
        let is_free = answer.lease == Some(0) && !self.has_report;
        let is_held = answer.is_done || answer.lease == Some(lease);
        if !is_held && !is_free {
            return self.give_way(answer.lease == Some(0));
        }
        self.has_report |= is_held;
        if answer.is_done && !is_known {
            self.record = Some(record);
        }
        self.standing.heard(now);
        if let Some((revision, value)) = answer.tenants {
            self.tenants = (revision, Some(value));
        }
        if answer.round != round {
            self.round = (answer.round, now, answer.is_done && is_due);
        }
        if answer.round > self.adopted {
            let snapshot = self.store.snapshot(answer.round)?;
            self.adopt(answer.round, &snapshot, owns, turn);
        }
        Ok(())
    }

    /// The lease, renewed if it is time.
    fn hold_lease(&mut self, now: Nanos) -> Result<i64, String> {
        let span = self.keys.lease.nanos();
        if let Some(lease) = self.lease {
            if now.since(self.renewed).0 < span.0 / 4 {
                return Ok(lease);
            }
            if self.store.renew(lease)? {
                self.renewed = now;
                self.standing.renewed(now);
                return Ok(lease);
            }
            self.lose_lease();
        }
        let lease = self.store.grant(span.0 / 1_000_000_000)?;
        (self.lease, self.renewed) = (Some(lease), now);
        self.standing.renewed(now);
        Ok(lease)
    }

    fn lose_lease(&mut self) {
        (self.lease, self.has_report) = (None, false);
        self.standing.lost();
    }

    /// Drops the lease, because the report under it is gone: the lease has ended, or another server has this one's name.
    fn give_way(&mut self, is_gone: bool) -> Result<(), String> {
        self.lose_lease();
        if !is_gone {
            // The record is that of the other server of this name.
            self.record = None;
        }
        Err(if is_gone {
            "its lease has ended before its time".into()
        } else {
            format!("there is another server `{}`: this one takes no part until that has ended", self.keys.server)
        })
    }

    /// Adopts a round: all reports as they were when it began.
    fn adopt(&mut self, round: i64, snapshot: &Snapshot, owns: &[Own], turn: &mut Turn) {
        let members = self.see_members(snapshot, owns, turn);
        let mut all: Vec<Read<'_>> = Vec::with_capacity(snapshot.reports.len());
        for heard in &snapshot.reports {
            match report::read(&heard.report) {
                Ok(entries) => all.push((&heard.server, entries.collect())),
                Err(error) => {
                    let what = format!("the report of server {}: {error}", ioweir_config::shown(&heard.server));
                    turn.remarks.push((EventKind::FleetRefused, what));
                }
            }
        }
        let number = round.unsigned_abs();
        let mut heard = BTreeMap::new();
        for own in owns {
            let of_own: Vec<(&str, &Entry<'_>)> = all
                .iter()
                .flat_map(|(server, entries)| entries.iter().map(move |entry| (*server, entry)))
                .filter(|(_, entry)| entry.tenant == own.tenant)
                .take(MEMBERS_MAX)
                .collect();
            let at = of_own.iter().position(|(server, _)| *server == self.keys.server);
            let Some(at) = at else { continue };
            let demands = |of: fn(&Entry<'_>) -> u64| of_own.iter().map(|(_, entry)| of(entry)).collect::<Vec<u64>>();
            let mut parts = vec![0; of_own.len()];
            let present = members.present_percent(&own.tenant, self.keys.alone);
            let percent = |whole: u64, percent: u64| (u128::from(whole) * u128::from(percent) / 100) as u64; // no more than the whole
            let alone = u64::from(self.keys.alone);
            let mut part = |before: Option<Part>, whole: u64, least: u64, demands: Vec<u64>| {
                (whole > 0).then(|| {
                    apportion(percent(whole, present), least, &demands, &mut parts);
                    // A server that was alone until now has had no more than that, and the others have left it no more.
                    let first = || Part::first(number, parts[at]).at_most(percent(whole, alone).max(least));
                    before.map_or_else(first, |before| before.next(number, parts[at]))
                })
            };
            let before = self.parts.get(&own.class).copied().unwrap_or_default();
            let asked = demands(|entry| entry.demand_reserved);
            let next = Parts {
                limit: part(before.limit, own.share.limit_per_second, 1, demands(|entry| entry.demand)),
                bytes: part(before.bytes, own.share.limit_bytes_per_second, 1, demands(|entry| entry.demand_bytes)),
                weight: (!own.hears_of_others).then(|| weigh(own.share.weight, &asked, at)),
                reserved: part(before.reserved, own.share.reservation_per_second, 0, asked),
            };
            self.parts.insert(own.class, next);
            let others = of_own.iter().filter(|(server, _)| *server != self.keys.server);
            let mut more = 0_u64;
            for (server, entry) in others {
                let key = (server.to_string(), own.tenant.clone());
                // For a server that is new or has restarted, the service since the last round is unknown and counts as none.
                let before = self.heard.get(&key).map_or(entry.served, |before| (*before).min(entry.served));
                more = more.saturating_add(entry.served - before);
                heard.insert(key, entry.served);
            }
            if more > 0 && own.hears_of_others {
                turn.elsewhere.push((own.class, Elsewhere { by_weight: more, ..Elsewhere::default() }));
            }
        }
        self.heard = heard;
        self.adopted = round;
        self.status.servers = all.len() as u32; // ten thousand at most
        self.status.served = self.served_in_all(&all, owns);
    }

    /// Reads the records of a round, and tells people of servers that are missing.
    fn see_members<'a>(&mut self, snapshot: &'a Snapshot, owns: &[Own], turn: &mut Turn) -> Members<'a> {
        let members = Members::read(&snapshot.records, &snapshot.reports, &mut turn.remarks);
        let missing = members.missing();
        turn.remarks.extend(members::remarks(&self.keys.name, &self.missing, &missing));
        self.missing = missing;
        let excess = members.excess(owns);
        if let Some((tenant, percent)) = excess.filter(|_| !self.is_excessive) {
            let what = format!(
                "servers that see nobody would use {percent} % of the share of {} together: `alone` is to be at most 100 over \
                 their number",
                ioweir_config::shown(tenant)
            );
            turn.remarks.push((EventKind::FleetRefused, what));
        }
        self.is_excessive = excess.is_some();
        members
    }

    /// The service that each class's tenant has received on all servers, by class.
    fn served_in_all(&self, all: &[Read<'_>], owns: &[Own]) -> BTreeMap<u32, u64> {
        let of = |own: &Own| {
            let entries = all.iter().flat_map(|(_, entries)| entries).filter(|entry| entry.tenant == own.tenant);
            entries.fold(0_u64, |sum, entry| sum.saturating_add(entry.served))
        };
        owns.iter().map(|own| (own.class, of(own))).collect()
    }

    /// Updates whether the server sees the others, and logs a change.
    fn see(&mut self, now: Nanos, result: Result<(), String>, turn: &mut Turn) {
        let (before, sight) = (self.status.sight, self.standing.sight(now));
        self.status.sight = sight;
        if result.is_err() {
            self.status.failures += 1;
        }
        let problem = result.err();
        let is_news = problem.is_some() && self.status.problem != problem && sight == Sight::Alone;
        if before != sight || is_news {
            let (kind, what) = match sight {
                Sight::Seeing => (EventKind::FleetSeen, "it sees the others of the fleet"),
                Sight::Keeping => (EventKind::FleetLost, "it does not see the fleet, and keeps its parts"),
                Sight::Alone => (EventKind::FleetLost, "it does not see the fleet, and uses the shares of the spec"),
            };
            let because = problem.as_ref().map_or_else(String::new, |problem| format!(": {problem}"));
            turn.remarks.push((kind, format!("{what}{because}")));
        }
        match sight {
            Sight::Seeing => self.status.problem = None,
            Sight::Keeping | Sight::Alone => self.status.problem = problem.or(self.status.problem.take()),
        }
        if sight == Sight::Alone {
            self.status.servers = 1;
        }
    }

    /// Updates the state of each class for reports.
    fn show(&mut self, owns: &[Own]) {
        let of = |own: &Own| {
            let here = self.part_of(own).of(own.share);
            let served = self.last.get(&own.class).map_or(0, |last| last.entry[3]);
            let all = self.status.served.get(&own.class).copied().unwrap_or(0).max(served);
            (own.class, FleetClass { here, all: own.share, served_in_all: all })
        };
        self.status.classes = owns.iter().map(of).collect();
    }
}
