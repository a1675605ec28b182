//! Linux's `io.cost`: shares of a device's time by weight, at a price for each request that a linear model gives.
//!
//! The device has a virtual clock, whose rate follows how the device does. Each client has one too: a request moves it by its price, divided by
//! the client's part of the device. A request goes while that leaves the client's clock at or behind the device's. Once a period, the
//! rate changes, and clients that use less than their part lend the rest to those that could use more.
//!
//! Invariants: held requests of a client go in their order; a client with held requests lends nothing; a part is at least 1/65,536.
//!
//! Bound: first come, first served within a client, at its part of the lowest rate, `min`.
//!
//! Example (a drive's usual coefficients): a random read of 4 KiB costs 16,135,121 units of 137,438 a microsecond, 117.4 us. A client that
//! has a quarter of the device, and wakes up in a period of 50 ms, has a credit of 25 ms: 53 reads go at once, and the next after 359 us.

mod model;
mod period;
mod tree;

use alloc::boxed::Box;
use alloc::vec;

use super::bound::{Bound, Wait};
use super::io_max::{HZ, ticks, wheel};
use super::{Parameter, Reads, Row, Settings};
use crate::settings::{MILLI, SECOND};
use crate::structure::{List, NONE, Tournament};
use crate::tenant::{CLIENTS, Controlled, Controller, GROUPS, KNOWN_COST, Lane, Rule, RuleState, Share, Size};
use crate::{Flags, Nanos, Operation};
use model::{Forgiveness, MICRO, MILLION, Model, ahead, decayed, delay_micros, scaled, unscaled};
use tree::Tree;

const PERCENT: &str = "percent of requests that take at most the latency; 0: latencies do not slow the device's clock";

const fn coefficient(name: &'static str, help: &'static str) -> Parameter {
    Parameter::count(name, 0, 0, 1 << 40, help).fixed()
}

pub(crate) static ROW: Row<()> = Row {
    name: "io-cost",
    summary: "tenants: Linux's io.cost: shares of a device's time by weight, at a modelled price for each request",
    source: "Linux 6.12.107, block/blk-iocost.c; Heo et al., IOCost: block IO control for containers in datacenters, ASPLOS 2022",
    doc: include_str!("io-cost.md"),
    bound: Bound {
        doc: "a request waits for those of its client that came before it, and itself, at their cost over the client's part at the lowest \
rate, `min`; then for those that were let go before it",
        wait: Wait::Within(|backlog, _| {
            // No request of the tests' size costs more than 100 us at the default coefficients, and `min` is a hundredth.
            let paced = Nanos(100 * 100_000).0.saturating_mul((backlog.older + 1) * (backlog.streams + 1));
            backlog.served(backlog.room).after(Nanos(paced)).after(Nanos(SECOND))
        }),
    },
    reads: Reads::WEIGHT,
    linux: None,
    parameters: &[
        CLIENTS,
        GROUPS,
        KNOWN_COST,
        HZ,
        Parameter::switch("rotational", false, "a disk: the kernel's values for one where none are given").fixed(),
        Parameter::count("min", 1, 1, 10_000, "the lowest rate, in percent of the model's").tried(10, 100),
        Parameter::count("max", 10_000, 1, 10_000, "the highest rate, in percent of the model's").tried(50, 200),
        Parameter::count("rpct", 0, 0, 99, PERCENT).tried(0, 99),
        Parameter::duration("rlat", 0, 0, 10 * SECOND, "the latency of reads; 0: the kernel's own")
            .tried(200_000, 100 * MILLI),
        Parameter::count("wpct", 0, 0, 99, PERCENT).tried(0, 99),
        Parameter::duration("wlat", 0, 0, 10 * SECOND, "the latency of writes; 0: the kernel's own")
            .tried(200_000, 100 * MILLI),
        coefficient("rbps", "bytes a second that the device reads in large requests; 0: the kernel's own"),
        coefficient("rseqiops", "sequential reads of 4 KiB a second"),
        coefficient("rrandiops", "random reads of 4 KiB a second"),
        coefficient("wbps", "bytes a second that it writes in large requests"),
        coefficient("wseqiops", "sequential writes of 4 KiB a second"),
        coefficient("wrandiops", "random writes of 4 KiB a second"),
    ],
    form: (),
};

const NOT_DUE: u64 = 1 << 62;

/// A client.
#[derive(Clone, Copy, Debug)]
struct Client {
    /// The client's clock, by which its requests are charged.
    time: u64,
    /// The clock of the client's completed requests.
    done: u64,
    activated_micros: u64,
    /// The period in which it sent its last request.
    active_period: u64,
    /// The sector after its last request; zero if there is none.
    cursor: u64,
    /// The cost of the client's requests since the period began.
    used: u64,
    debt: u64,
    delay_micros: u64,
    delayed_micros: u64,
    waiting: List,
    /// Metadata that a delay holds.
    delayed: List,
}

/// The state of `io.cost` on one device.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    model: Model,
    hz: u64,
    tree: Tree,
    clients: Box<[Client]>,
    /// When held requests of clients are looked at, in nanoseconds.
    wakes: Tournament,
    /// Prices, by slots: as the model gives them, and as they were paid.
    prices: Box<[Price]>,
    base_rate: u64,
    rate: u64,
    period: u64,
    period_micros: u64,
    period_time: u64,
    /// When the period ends; `None` while no client is active.
    fires: Option<Nanos>,
    busy: i32,
    /// Virtual time that clients have thrown away, which the device's clock makes up for.
    error: i64,
    /// By direction, requests that met their latency and that missed it.
    met: [u64; 2],
    missed: [u64; 2],
    wait_nanos: u64,
    forgiveness: Forgiveness,
}

#[derive(Clone, Copy, Debug)]
struct Price {
    cost: u64,
    paid: u64,
    /// How long the request waited for the device to take it.
    wait_nanos: u64,
}

/// A moment: in nanoseconds and microseconds, and by the device's clock.
#[derive(Clone, Copy, Debug)]
struct Moment {
    nanos: Nanos,
    micros: u64,
    time: u64,
}

pub(crate) type IoCost = Controlled<Cost>;

impl IoCost {
    pub(crate) fn new(size: &Size, (): (), settings: &Settings) -> Self {
        let [_, _, _, hz] = settings.values();
        Self::with(size, Cost::new(size, Model::new(settings, size.depth), ticks(hz)))
    }
}

impl Cost {
    fn new(size: &Size, model: Model, hz: u64) -> Self {
        let client = Client {
            time: 0,
            done: 0,
            activated_micros: 0,
            active_period: 0,
            cursor: 0,
            used: 0,
            debt: 0,
            delay_micros: 0,
            delayed_micros: 0,
            waiting: List::EMPTY,
            delayed: List::EMPTY,
        };
        let free = Price { cost: 0, paid: 0, wait_nanos: 0 };
        Self {
            model,
            hz,
            tree: Tree::new(size.nodes),
            clients: vec![client; size.nodes as usize].into_boxed_slice(),
            wakes: Tournament::new(size.nodes, NOT_DUE),
            prices: vec![free; size.slots as usize].into_boxed_slice(),
            base_rate: MICRO,
            rate: MICRO,
            period: 1,
            period_micros: 0,
            period_time: 0,
            fires: None,
            busy: 0,
            error: 0,
            met: [0; 2],
            missed: [0; 2],
            wait_nanos: 0,
            forgiveness: Forgiveness::default(),
        }
    }

    fn moment(&self, now: Nanos) -> Moment {
        let micros = now.0 / 1_000;
        let since = micros.saturating_sub(self.period_micros);
        Moment { nanos: now, micros, time: self.period_time.wrapping_add(since.wrapping_mul(self.rate)) }
    }

    /// A part of a period, in percent, by the device's clock.
    const fn margin(&self, percent: u64) -> u64 {
        self.model.period_micros * percent / 100 * self.base_rate
    }

    /// How much later than asked for the timer of a client may fire.
    const fn slack_nanos(&self) -> u64 {
        self.model.period_micros * 10
    }

    fn start_period(&mut self, now: &Moment) {
        (self.period_micros, self.period_time) = (now.micros, now.time);
        let jiffy = 1_000_000_000 / self.hz;
        let jiffies = now.nanos.0 / jiffy;
        let length = (self.model.period_micros * self.hz).div_ceil(MILLION);
        self.fires = Some(Nanos(wheel(jiffies, jiffies + length).saturating_mul(jiffy)));
    }

    /// A client sends a request: it becomes active if it was not.
    fn activate(&mut self, now: &Moment, client: u32) {
        self.clients[client as usize].active_period = self.period;
        if self.tree.of(client).is_active {
            return;
        }
        let target = self.margin(50);
        let of = &mut self.clients[client as usize];
        let moved = now.time.wrapping_sub(target).wrapping_sub(of.time);
        (of.time, of.done) = (of.time.wrapping_add(moved), of.done.wrapping_add(moved));
        (of.activated_micros, of.used) = (now.micros, 0);
        self.tree.activate(client, target.cast_signed());
        if self.fires.is_none() {
            self.forgiveness.reset(now.micros);
            self.start_period(now);
        }
    }

    fn behind(&self, now: &Moment, client: u32) -> i64 {
        ahead(now.time, self.clients[client as usize].time)
    }

    /// The price of a request for its client. A client that has lent weight takes it back if the request needs it.
    fn price(&mut self, now: &Moment, client: u32, cost: u64) -> u64 {
        let mut paid = scaled(cost, self.tree.parts(client).1);
        let behind = self.behind(now, client);
        let margin = behind - paid.cast_signed();
        let of = *self.tree.of(client);
        let is_enough = margin >= of.saved_margin || margin >= self.margin(20).cast_signed();
        if self.clients[client as usize].debt > 0 || is_enough || of.inuse == of.active {
            return paid;
        }
        let step = (of.active * 25).div_ceil(100);
        let mut inuse = of.inuse;
        loop {
            inuse += step;
            self.tree.set(client, of.active, inuse, Some(behind));
            paid = scaled(cost, self.tree.parts(client).1);
            if paid.cast_signed() <= behind || self.tree.of(client).inuse == of.active {
                return paid;
            }
        }
    }

    /// A request goes, and its client pays.
    fn commit(&mut self, lane: &mut Lane, now: &Moment, client: u32, slot: u32, paid: u64) {
        let of = &mut self.clients[client as usize];
        of.time = of.time.wrapping_add(paid);
        let price = &mut self.prices[slot as usize];
        price.paid = paid;
        of.used = of.used.saturating_add(price.cost);
        lane.pass(now.nanos, slot);
    }

    /// Metadata goes at once; its client owes the cost, and lends nearly all of its weight until it has paid.
    fn incur(&mut self, lane: &mut Lane, now: &Moment, client: u32, slot: u32) {
        let cost = self.prices[slot as usize].cost;
        let of = &mut self.clients[client as usize];
        let is_first = of.debt == 0;
        (of.debt, of.used) = (of.debt.saturating_add(cost), of.used.saturating_add(cost));
        if is_first {
            self.tree.set(client, self.tree.of(client).active, 0, None);
        }
        lane.pass(now.nanos, slot);
        self.delay(now, client);
    }

    /// Renews the delay of a client in debt; returns it.
    fn delay(&mut self, now: &Moment, client: u32) -> u64 {
        let part = self.tree.parts(client).0;
        let period = (self.model.period_micros * self.base_rate).cast_signed();
        let of = &mut self.clients[client as usize];
        let left = decayed(of.delay_micros, now.micros.saturating_sub(of.delayed_micros));
        let over = ahead(of.time, now.time).saturating_add(scaled(of.debt, part).cast_signed());
        let asked = delay_micros(over.saturating_mul(100) / period.max(1));
        if asked > left {
            (of.delay_micros, of.delayed_micros) = (asked, now.micros);
        }
        let delay = left.max(asked);
        if delay < 250 {
            of.delay_micros = 0;
        }
        of.delay_micros.min(delay)
    }

    /// Lets a client's held requests go as far as its clock allows, and sets when to look again.
    fn kick(&mut self, lane: &mut Lane, now: &Moment, client: u32) {
        let mut budget = self.behind(now, client);
        let part = self.tree.parts(client).0;
        let of = &mut self.clients[client as usize];
        if of.debt > 0 && budget > 0 {
            let pays = unscaled(budget.unsigned_abs(), part).min(of.debt);
            let paid = scaled(pays, part);
            of.debt -= pays;
            (of.time, of.done) = (of.time.wrapping_add(paid), of.done.wrapping_add(paid));
            budget -= paid.cast_signed();
            if of.debt == 0 {
                self.tree.restore(client);
            }
        }
        let delayed = self.kick_delayed(lane, now, client);
        let debt = self.clients[client as usize].debt;
        if debt > 0 {
            budget = (budget - scaled(debt, part).cast_signed()).min(0);
        }
        let inuse = self.tree.parts(client).1;
        let mut missing = None;
        while missing.is_none() {
            let slot = self.clients[client as usize].waiting.head();
            if slot == NONE {
                break;
            }
            let paid = scaled(self.prices[slot as usize].cost, inuse);
            budget -= paid.cast_signed();
            if budget < 0 {
                missing = Some(budget.unsigned_abs());
            } else {
                lane.links.remove(&mut self.clients[client as usize].waiting, slot);
                self.commit(lane, now, client, slot, paid);
            }
        }
        self.set_wake(now, client, missing, delayed);
    }

    /// Lets metadata go that a delay has held long enough; returns when the next may go.
    fn kick_delayed(&mut self, lane: &mut Lane, now: &Moment, client: u32) -> u64 {
        while let slot = self.clients[client as usize].delayed.head()
            && slot != NONE
        {
            let goes = lane.get(slot).arrived.after(Nanos(self.delay(now, client) * 1_000));
            if goes > now.nanos {
                return goes.0;
            }
            lane.links.remove(&mut self.clients[client as usize].delayed, slot);
            self.incur(lane, now, client, slot);
        }
        NOT_DUE
    }

    /// Sets the timer of a client whose next request lacks this much, unless it fires soon enough.
    fn set_wake(&mut self, now: &Moment, client: u32, missing: Option<u64>, delayed: u64) {
        let slack = self.slack_nanos();
        let micros = missing.map(|missing| missing.div_ceil(self.base_rate.max(1)));
        let expires = micros.map_or(NOT_DUE, |micros| {
            now.nanos.0.saturating_add(micros.saturating_mul(1_000)).saturating_add(slack).min(NOT_DUE)
        });
        let expires = expires.min(delayed);
        let before = self.wakes.key(client);
        if expires == NOT_DUE || before <= now.nanos.0 || before.abs_diff(expires) > slack {
            self.wakes.set(client, expires);
        }
    }

    /// Whether a client has requests that are held.
    const fn is_waiting(of: &Client) -> bool {
        !of.waiting.is_empty() || !of.delayed.is_empty()
    }
}

impl Controller for Cost {
    fn set_share(&mut self, lane: &mut Lane, now: Nanos, node: u32, share: &Share, parent: u32) {
        let now = self.moment(now);
        let margin = self.behind(&now, node);
        self.tree.configure(node, share.weight.into(), parent, margin);
        if self.tree.of(node).is_active {
            self.kick(lane, &now, node);
        }
    }

    fn forget(&mut self, now: Nanos, node: u32) {
        if self.tree.of(node).is_active {
            self.tree.deactivate(node);
        }
        self.tree.configure(node, 1, NONE, 0);
        let time = self.moment(now).time;
        let of = &mut self.clients[node as usize];
        (of.time, of.done, of.cursor, of.debt, of.delay_micros, of.used) = (time, time, 0, 0, 0, 0);
        self.wakes.set(node, NOT_DUE);
    }

    fn offer(&mut self, lane: &mut Lane, now: Nanos, slot: u32) {
        let (client, request) = (lane.get(slot).node, lane.get(slot).request);
        let cost = self.model.cost(&request, self.clients[client as usize].cursor);
        self.prices[slot as usize] = Price { cost, paid: 0, wait_nanos: 0 };
        if cost == 0 {
            lane.pass(now, slot);
            return;
        }
        let moment = self.moment(now);
        self.activate(&moment, client);
        self.clients[client as usize].cursor = request.sector_end();
        let paid = self.price(&moment, client, cost);
        let of = self.clients[client as usize];
        let is_urgent = request.flags.has(Flags::METADATA);
        if of.waiting.is_empty() && of.debt == 0 && paid.cast_signed() <= self.behind(&moment, client) {
            self.commit(lane, &moment, client, slot, paid);
        } else if is_urgent && of.delayed.is_empty() && self.delay(&moment, client) == 0 {
            self.incur(lane, &moment, client, slot);
        } else if is_urgent {
            lane.links.push_back(&mut self.clients[client as usize].delayed, slot);
        } else {
            let weight = *self.tree.of(client);
            if of.debt == 0 && weight.inuse != weight.active {
                let behind = self.behind(&moment, client);
                self.tree.set(client, weight.active, weight.active, Some(behind));
            }
            lane.links.push_back(&mut self.clients[client as usize].waiting, slot);
            self.kick(lane, &moment, client);
        }
    }

    fn withdraw(&mut self, lane: &mut Lane, now: Nanos, slot: u32) {
        let client = lane.get(slot).node;
        let of = &mut self.clients[client as usize];
        let is_urgent = lane.get(slot).request.flags.has(Flags::METADATA);
        lane.links.remove(if is_urgent { &mut of.delayed } else { &mut of.waiting }, slot);
        let moment = self.moment(now);
        self.kick(lane, &moment, client);
    }

    fn run(&mut self, lane: &mut Lane, now: Nanos) {
        loop {
            let wake = Nanos(self.wakes.min());
            let ends = self.fires.filter(|&ends| ends <= now && ends <= wake);
            if let Some(ends) = ends {
                self.end_period(lane, ends, now);
            } else if wake <= now {
                let client = self.wakes.first();
                let moment = self.moment(wake);
                self.wakes.set(client, NOT_DUE);
                self.kick(lane, &moment, client);
            } else {
                return;
            }
        }
    }

    fn due(&self) -> Nanos {
        // Each held client has a timer, and the end of a period can release it as well.
        match self.wakes.min() {
            NOT_DUE => Nanos::NEVER,
            wake => Nanos(wake).min(self.fires.unwrap_or(Nanos::NEVER)),
        }
    }

    fn began(&mut self, lane: &mut Lane, now: Nanos, slot: u32) {
        if self.prices[slot as usize].cost > 0 {
            self.prices[slot as usize].wait_nanos = now.since(lane.get(slot).passed).0;
        }
    }

    fn served(&mut self, lane: &mut Lane, now: Nanos, slot: u32) {
        let Price { paid, wait_nanos, .. } = self.prices[slot as usize];
        let of = lane.get(slot);
        let client = &mut self.clients[of.node as usize];
        client.done = client.done.wrapping_add(paid);
        if !matches!(of.request.operation, Operation::Read | Operation::Write) {
            return;
        }
        let direction = of.request.operation.direction() as usize;
        let took = now.since(of.passed).0;
        let latency = self.model.latency_micros[direction] * 1_000;
        let is_met = took.saturating_sub(self.model.costs[direction].size_nanos(of.request.sectors)) <= latency;
        let count = if is_met { &mut self.met } else { &mut self.missed };
        count[direction] += 1;
        self.wait_nanos = self.wait_nanos.saturating_add(wait_nanos);
    }

    fn refund(&mut self, lane: &mut Lane, now: Nanos, slot: u32) {
        let (client, Price { cost, paid, .. }) = (lane.get(slot).node, self.prices[slot as usize]);
        let of = &mut self.clients[client as usize];
        of.time = of.time.wrapping_sub(paid);
        of.used = of.used.saturating_sub(cost);
        if paid == 0 && of.debt > 0 {
            of.debt = of.debt.saturating_sub(cost);
            if of.debt == 0 {
                self.tree.restore(client);
            }
        }
        let moment = self.moment(now);
        self.kick(lane, &moment, client);
    }

    fn explain(&self, now: Nanos, node: u32) -> RuleState {
        let clock = self.moment(now).time;
        RuleState { rule: Rule::VirtualTime, own: self.clients[node as usize].time, clock, first_tag: 0 }
    }
}

#[cfg(test)]
mod golden;
