//! The history of each sector: the requests and answers of clients, and which values a read may have seen or a crash may have left.
//!
//! Every write has a value of its own, so that a read shows which write it saw. A sector is a register. Its events are kept while one of
//! them is unanswered; after that only the possible final values are kept ([`outcomes`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::promise::{Promise, Verdict};

/// The bytes of a sector, which changes at one moment.
pub const SECTOR: u64 = 512;
/// The most events of a sector; it gets no more until they are over.
const CROWD: usize = 10;

/// An event of one sector: a write of a value, or a read that saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time of the request.
    pub from: u64,
    /// The time of the answer; `None` if there was none, so that the event happened at any time later, or never.
    pub until: Option<u64>,
    /// The value that was written or seen.
    pub value: u32,
    /// Whether it is a write.
    pub writes: bool,
}

/// The values that a sector can have after these events, in some order that keeps to their times and explains every read. An
/// event that was never answered may be left out. At most 64 events.
#[must_use]
pub fn outcomes(events: &[Event], before: &BTreeSet<u32>) -> BTreeSet<u32> {
    fn explore(events: &[Event], done: u64, value: u32, seen: &mut BTreeSet<(u64, u32)>, ends: &mut BTreeSet<u32>) {
        if !seen.insert((done, value)) {
            return;
        }
        let left = || (0..events.len()).filter(move |place| done >> place & 1 == 0);
        if left().all(|place| events[place].until.is_none()) {
            ends.insert(value);
        }
        // The next event is one that began before any other remaining one was answered.
        let first_end = left().filter_map(|place| events[place].until).min().unwrap_or(u64::MAX);
        for place in left() {
            let event = events[place];
            if event.from < first_end && (event.writes || event.value == value) {
                let after = if event.writes { event.value } else { value };
                explore(events, done | 1 << place, after, seen, ends);
            }
        }
    }
    let mut ends = BTreeSet::new();
    if let ([event], Some(&only)) = (events, before.first())
        && before.len() == 1
        && event.until.is_some()
    {
        // This is the case of nearly all sectors, nearly always.
        if event.writes || event.value == only {
            ends.insert(event.value);
        }
        return ends;
    }
    let mut seen = BTreeSet::new();
    for &value in before {
        explore(events, 0, value, &mut seen, &mut ends);
    }
    ends
}

/// A write of a sector that may be there after a crash.
#[derive(Clone, Copy, Debug)]
struct Written {
    value: u32,
    from: u64,
    /// The time of the answer; `None` while the write may still be made.
    until: Option<u64>,
}

/// A sector.
#[derive(Clone, Debug)]
struct Sector {
    /// The possible values before the events.
    values: BTreeSet<u32>,
    events: Vec<(u64, Event)>,
    /// The number of unanswered events that may still be answered.
    open: u32,
    /// The values that a crash may leave.
    base: BTreeSet<u32>,
    written: Vec<Written>,
    discards: Option<Discards>,
}

/// The discards of a sector that may be carried out later than they are answered.
#[derive(Clone, Copy, Debug, Default)]
struct Discards {
    /// The number of unanswered discards.
    open: u32,
    /// The time of the last answer to a discard.
    answered: u64,
    /// The answer of the first write that was sent after all discards were answered; no discard is carried out after it.
    over: Option<u64>,
    /// Whether such a write is durable.
    are_undone: bool,
}

impl Discards {
    /// Whether a request from this time comes after all discards.
    const fn are_before(&self, from: u64) -> bool {
        self.open == 0 && self.answered < from
    }
}

/// A request for sectors, until it is settled.
#[derive(Clone, Debug)]
struct Asked {
    from: u64,
    first: u64,
    end: u64,
    kind: Kind,
}

/// The effect of a request on its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To see them.
    Read,
    /// To give them this value.
    Write(u32),
    /// To zero them at any time later, or never, but not after a later write.
    Discard,
}

/// The history of a device.
#[derive(Clone, Debug)]
pub struct History {
    sectors: Vec<Sector>,
    asked: BTreeMap<u64, Asked>,
    /// Writes that were answered and are not durable, with the time of the answer, in order.
    answered: VecDeque<(u64, u64, u64, u64)>,
    /// Requests that will never be answered, because their clients have left.
    lost: Vec<u64>,
}

impl History {
    /// The history of a device that is all zeroes.
    #[must_use]
    pub fn new(sectors: u64) -> Self {
        Self {
            sectors: vec![Sector::zero(); sectors as usize],
            asked: BTreeMap::new(),
            answered: VecDeque::new(),
            lost: Vec::new(),
        }
    }

    /// Whether these sectors may get one more request.
    #[must_use]
    pub fn has_room(&self, first: u64, end: u64) -> bool {
        self.sectors[first as usize..end as usize].iter().all(|sector| sector.events.len() < CROWD)
    }

    /// Adds a request. Each time and each cookie is used only once.
    pub fn ask(&mut self, cookie: u64, from: u64, (first, end): (u64, u64), kind: Kind) {
        for sector in &mut self.sectors[first as usize..end as usize] {
            let (value, writes) = match kind {
                Kind::Read => (0, false),
                Kind::Write(value) => (value, true),
                Kind::Discard => {
                    let Discards { open, answered, .. } = sector.discards.unwrap_or_default();
                    sector.discards = Some(Discards { open: open + 1, answered, ..Discards::default() });
                    continue;
                }
            };
            sector.open += 1;
            sector.events.push((cookie, Event { from, until: None, value, writes }));
            if writes {
                sector.written.push(Written { value, from, until: None });
            }
        }
        self.asked.insert(cookie, Asked { from, first, end, kind });
    }

    /// A read was answered with these values, or with an error.
    pub fn read(&mut self, cookie: u64, until: u64, values: Option<&[u32]>, verdict: &mut Verdict) {
        let Some(Asked { from, first, end, .. }) = self.asked.remove(&cookie) else { return };
        for (at, number) in (first..end).enumerate() {
            let sector = &mut self.sectors[number as usize];
            let seen = values.map(|values| values[at]);
            let may_be_zero = |discards: Discards| discards.over.is_none_or(|over| from < over);
            let is_discarded = seen == Some(0) && sector.discards.is_some_and(may_be_zero);
            match seen.filter(|_| !is_discarded) {
                None => sector.events.retain(|(its, _)| *its != cookie),
                Some(value) => {
                    if let Some((_, event)) = sector.events.iter_mut().find(|(its, _)| *its == cookie) {
                        (event.until, event.value) = (Some(until), value);
                    }
                }
            }
            sector.open -= 1;
            sector.close(number, verdict);
        }
    }

    /// A write was answered. One that failed may have been made in part.
    pub fn wrote(&mut self, cookie: u64, until: u64, (failed, durable): (bool, bool), verdict: &mut Verdict) {
        let Some(Asked { from, first, end, kind }) = self.asked.remove(&cookie) else { return };
        if kind == Kind::Discard {
            for discards in
                self.sectors[first as usize..end as usize].iter_mut().filter_map(|its| its.discards.as_mut())
            {
                (discards.open, discards.answered) = (discards.open - 1, until);
            }
            return;
        }
        for number in first..end {
            let sector = &mut self.sectors[number as usize];
            if let Some(written) = sector.written.iter_mut().find(|written| written.from == from) {
                written.until = Some(until);
            }
            if !failed {
                if let Some((_, event)) = sector.events.iter_mut().find(|(its, _)| *its == cookie) {
                    event.until = Some(until);
                }
                if let Some(discards) = &mut sector.discards
                    && discards.are_before(from)
                {
                    discards.over.get_or_insert(until);
                }
                if durable {
                    sector.secure(from);
                }
            }
            sector.open -= 1;
            sector.close(number, verdict);
        }
        if !failed && !durable {
            self.answered.push_back((until, from, first, end));
        }
    }

    /// A flush of these sectors, sent at this time, was answered without an error.
    pub fn flushed(&mut self, from: u64, (first, end): (u64, u64)) {
        let before = self.answered.partition_point(|(until, ..)| *until < from);
        let is_of = |(_, _, at, _): &(u64, u64, u64, u64)| first <= *at && *at < end;
        let (flushed, others): (Vec<_>, Vec<_>) = self.answered.drain(..before).partition(is_of);
        others.into_iter().rev().for_each(|other| self.answered.push_front(other));
        for (_, written, first, end) in flushed {
            self.sectors[first as usize..end as usize].iter_mut().for_each(|sector| sector.secure(written));
        }
    }

    /// The client of this request has left.
    pub fn lose(&mut self, cookie: u64) {
        if self.asked.contains_key(&cookie) {
            self.lost.push(cookie);
        }
    }

    /// The server has no requests in flight: an unanswered one has happened by now, or never will.
    pub fn settle(&mut self, now: u64, verdict: &mut Verdict) {
        for cookie in std::mem::take(&mut self.lost) {
            match self.asked.get(&cookie).map(|asked| asked.kind) {
                Some(Kind::Read) => self.read(cookie, now, None, verdict),
                Some(_) => self.wrote(cookie, now, (true, false), verdict),
                None => {}
            }
        }
    }

    /// The sectors are zero, durably, and no export shows them, so earlier requests for them have no effect any more.
    pub fn zero(&mut self, now: u64, (first, end): (u64, u64), verdict: &mut Verdict) {
        let is_of = |its: &Asked| its.first < end && first < its.end;
        let its = self.asked.iter().filter(|(_, its)| is_of(its)).map(|(cookie, _)| *cookie).collect();
        let others = std::mem::replace(&mut self.lost, its);
        self.settle(now, verdict);
        self.lost = others;
        for sector in &mut self.sectors[first as usize..end as usize] {
            *sector = Sector::zero();
        }
    }

    /// The server has ended. If it may have lost data that is not durable, any write may be there that is not older than a durable one;
    /// otherwise every answered write is there.
    pub fn crash(&mut self, now: u64, loses: bool, verdict: &mut Verdict) {
        let all: Vec<u64> = self.asked.keys().copied().collect();
        self.lost = all;
        self.settle(now, verdict);
        self.answered.clear();
        for sector in &mut self.sectors {
            let mut values = sector.values.clone();
            if loses {
                values = sector.base.clone();
                values.extend(sector.written.iter().map(|written| written.value));
            }
            if sector.discards.is_some_and(|discards| !discards.are_undone) {
                values.insert(0);
            }
            sector.values = values;
            sector.events.clear();
            sector.open = 0;
        }
    }

    /// Accepts this value of a sector, whatever it should be; after a loss of power all present values are durable.
    pub fn adopt(&mut self, now: u64, number: u64, value: u32, is_durable: bool) {
        let sector = &mut self.sectors[number as usize];
        sector.values = BTreeSet::from([value]);
        if is_durable {
            sector.base.clone_from(&sector.values);
            sector.written.clear();
        } else {
            // A loss of power may still bring back the earlier values; a flush makes this one durable.
            sector.base.extend(sector.written.iter().map(|written| written.value));
            sector.written = vec![Written { value, from: now, until: Some(now) }];
            self.answered.push_back((now, now, number, number + 1));
            // This value was written earlier, so a late discard may still zero it.
            if let Some(discards) = &mut sector.discards {
                discards.answered = now;
            }
        }
    }

    /// Checks the value that a sector has after a crash.
    pub fn found(
        &mut self,
        now: u64,
        number: u64,
        value: u32,
        (promise, is_durable): (Promise, bool),
        verdict: &mut Verdict,
    ) {
        let sector = &mut self.sectors[number as usize];
        let fits = sector.values.contains(&value);
        verdict.check(promise, fits, || {
            let allowed: Vec<_> = sector.values.iter().collect();
            format!("after a crash, sector {number} holds value {value}, and may hold one of {allowed:?}")
        });
        self.adopt(now, number, value, is_durable);
    }
}

impl Sector {
    fn zero() -> Self {
        let zero = BTreeSet::from([0]);
        Self { values: zero.clone(), events: Vec::new(), open: 0, base: zero, written: Vec::new(), discards: None }
    }

    /// A write from this time is durable, so a crash leaves no older one.
    fn secure(&mut self, from: u64) {
        if !self.written.iter().any(|written| written.from == from) {
            // A newer write is durable.
            return;
        }
        if let Some(discards) = &mut self.discards {
            discards.are_undone |= discards.are_before(from);
        }
        self.base.clear();
        self.written.retain(|written| written.until.is_none_or(|until| until >= from));
    }

    /// Keeps only the possible values, once all events are answered.
    fn close(&mut self, number: u64, verdict: &mut Verdict) {
        if self.open > 0 || self.events.is_empty() {
            return;
        }
        let events: Vec<Event> = self.events.drain(..).map(|(_, event)| event).collect();
        let ends = outcomes(&events, &self.values);
        verdict.check(Promise::Linearisable, !ends.is_empty(), || {
            format!("sector {number}, which held {:?}, cannot be explained: {events:?}", self.values)
        });
        if !ends.is_empty() {
            self.values = ends;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(events: &[Event]) -> Vec<u32> {
        outcomes(events, &BTreeSet::from([0])).into_iter().collect()
    }

    const fn event(from: u64, until: u64, value: u32, writes: bool) -> Event {
        Event { from, until: Some(until), value, writes }
    }

    #[test]
    fn only_histories_with_an_order_have_final_values() {
        assert_eq!(ends(&[event(1, 4, 7, true), event(2, 3, 0, false), event(5, 6, 7, false)]), [7]);
        assert!(ends(&[event(1, 2, 7, true), event(3, 4, 0, false)]).is_empty());
        // Two reads, one after the other, that see a write appear and vanish.
        assert!(ends(&[event(1, 9, 7, true), event(2, 3, 7, false), event(4, 5, 0, false)]).is_empty());
        assert_eq!(ends(&[Event { from: 1, until: None, value: 7, writes: true }, event(2, 3, 0, false)]), [0, 7]);
        assert_eq!(ends(&[event(1, 4, 7, true), event(2, 3, 8, true)]), [7, 8]);
    }

    #[test]
    fn late_discards_zero_earlier_writes_and_no_later() {
        let read = |history: &mut History, from, value| {
            let mut verdict = Verdict::default();
            history.ask(from, from, (0, 1), Kind::Read);
            history.read(from, from + 1, Some(&[value]), &mut verdict);
            verdict.broken.map(|broken| broken.promise)
        };
        let mut verdict = Verdict::default();
        let mut history = History::new(1);
        history.ask(1, 1, (0, 1), Kind::Discard);
        history.ask(2, 2, (0, 1), Kind::Write(7));
        history.wrote(2, 3, (false, true), &mut verdict);
        assert_eq!(read(&mut history, 4, 0), None, "it is carried out after the write, which came before its answer");
        history.wrote(1, 6, (false, false), &mut verdict);
        assert_eq!(read(&mut history, 7, 7), None, "or it is carried out later");
        let mut crashed = history.clone();
        crashed.crash(8, true, &mut verdict);
        assert_eq!(crashed.sectors[0].values, BTreeSet::from([0, 7]));
        history.ask(9, 9, (0, 1), Kind::Write(8));
        history.wrote(9, 10, (false, true), &mut verdict);
        assert_eq!(read(&mut history.clone(), 11, 0), Some(Promise::Linearisable));
        history.crash(12, true, &mut verdict);
        assert_eq!((verdict.broken, &history.sectors[0].values), (None, &BTreeSet::from([8])));
    }

    #[test]
    fn discards_may_be_carried_out_after_a_crash() {
        let mut verdict = Verdict::default();
        let mut history = History::new(1);
        history.ask(1, 1, (0, 1), Kind::Write(7));
        history.wrote(1, 2, (false, true), &mut verdict);
        history.ask(3, 3, (0, 1), Kind::Discard);
        history.wrote(3, 4, (false, true), &mut verdict);
        history.crash(5, false, &mut verdict);
        history.found(6, 0, 7, (Promise::Durable, false), &mut verdict);
        history.flushed(7, (0, 1));
        history.crash(8, false, &mut verdict);
        assert_eq!(history.sectors[0].values, BTreeSet::from([0, 7]));
        history.ask(9, 9, (0, 1), Kind::Write(8));
        history.wrote(9, 10, (false, true), &mut verdict);
        history.crash(11, false, &mut verdict);
        assert_eq!((verdict.broken, &history.sectors[0].values), (None, &BTreeSet::from([8])));
    }

    #[test]
    fn a_crash_leaves_nothing_older_than_durable_writes() {
        let mut verdict = Verdict::default();
        let mut history = History::new(1);
        let write = |history: &mut History, verdict: &mut Verdict, from, value| {
            history.ask(from, from, (0, 1), Kind::Write(value));
            history.wrote(from, from + 1, (false, false), verdict);
        };
        write(&mut history, &mut verdict, 1, 7);
        write(&mut history, &mut verdict, 3, 8);
        history.flushed(5, (0, 1));
        write(&mut history, &mut verdict, 6, 9);
        let mut crashed = history.clone();
        crashed.crash(9, true, &mut verdict);
        assert_eq!(crashed.sectors[0].values, BTreeSet::from([8, 9]));
        history.crash(9, false, &mut verdict);
        assert_eq!(history.sectors[0].values, BTreeSet::from([9]));
        assert_eq!(verdict.broken, None);
        history.found(10, 0, 7, (Promise::Durable, true), &mut verdict);
        assert_eq!(verdict.broken.map(|broken| broken.promise), Some(Promise::Durable));
    }
}
