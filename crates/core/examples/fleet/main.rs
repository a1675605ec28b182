//! Simulates a fleet of servers that share what tenants may have, tick by tick, with the code that servers use: the rule that
//! apportions, parts from round to round, and reports. Beside it dmClock's scheme, in which requests carry counts. Prints one
//! JSON object.
//!
//! `cargo run --release -p ioweir-core --example fleet -- SERVERS TENANTS ROUNDS SEED`
//!
//! Service is a fluid: what a member asks for in a tick it gets, up to what its part, or its tag, allows. So the numbers are
//! those of the coordination alone; how closely a server keeps a limit is another matter, with tests of its own.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints what it found")]

mod dmclock;
mod load;
mod tally;

use ioweir_core::fleet::report::{self, Entry};
use ioweir_core::fleet::{Part, apportion, demand};

use load::{Load, Member};
use tally::Tally;

/// A server reports, and looks for a new round, once in so many ticks.
const PERIOD_TICKS: u64 = 4;
/// A round begins once in so many ticks: two periods.
const ROUND_TICKS: u64 = 8;
/// Rounds that are not counted: all begin with even parts.
const WARM_UP: u64 = 10;
/// The round in which a tenth of the tenants move at once, before the end.
const MOVE_BEFORE_END: u64 = 25;
/// The period that rates a second are given for.
const PERIOD_SECONDS: f64 = 0.25;

/// A tenant's state on one server.
#[derive(Clone, Copy)]
struct State {
    part: Part,
    /// The part that the newest round gives to this server, which takes it up when it next looks.
    given: u64,
    /// The demand in this server's last report.
    said: u64,
    /// Units served since its last report, in units a second times ticks, and ticks in which it was held.
    served: u64,
    held: u64,
    total: u64,
}

fn main() {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let &[servers, tenants, rounds, seed] = arguments.as_slice() else {
        eprintln!("usage: fleet SERVERS TENANTS ROUNDS SEED");
        std::process::exit(2);
    };
    let mut load = Load::new(servers as u32, tenants as usize, seed);
    let (apportioned, states) = run(&mut load, rounds);
    let bytes = report_bytes(&load, &states, servers as usize);
    let members = load.members.len();
    let mut outcomes = vec![("apportioned".to_string(), apportioned)];
    for clients in [1, 4] {
        let mut load = Load::new(servers as u32, tenants as usize, seed);
        outcomes.push((format!("dmclock, {clients} client(s) a tenant"), dmclock::run(&mut load, rounds, clients)));
    }
    let schemes: Vec<String> = outcomes.iter().map(|(name, tally)| tally.json(name)).collect();
    // Each server writes once a period, in one transaction, and reads all reports once a round.
    let (written, all) = (bytes as f64 / PERIOD_SECONDS, servers as f64 * bytes as f64);
    println!(
        "{{\"servers\":{servers},\"tenants\":{tenants},\"members\":{members},\"rounds\":{rounds},\"seed\":{seed},\
         \"period_seconds\":{PERIOD_SECONDS},\"report_bytes_mean\":{:.0},\"writes_per_second\":{:.0},\
         \"reads_per_second\":{:.0},\"written_bytes_per_second\":{written:.0},\"read_bytes_per_second\":{:.0},\
         \"schemes\":[{}]}}",
        bytes as f64 / servers as f64,
        servers as f64 / PERIOD_SECONDS,
        servers as f64 / PERIOD_SECONDS / 2.0,
        all / PERIOD_SECONDS / 2.0,
        schemes.join(",")
    );
}

fn run(load: &mut Load, rounds: u64) -> (Tally, Vec<State>) {
    let mut states = Vec::with_capacity(load.members.len());
    for tenant in &load.tenants {
        let even = tenant.limit / tenant.members.len() as u64;
        let state = State { part: Part::first(0, even), given: even, said: 0, served: 0, held: 0, total: 0 };
        states.extend(std::iter::repeat_n(state, tenant.members.len()));
    }
    let mut tally = Tally::new(load.tenants.len());
    let (mut asked, mut parts) = (Vec::new(), Vec::new());
    for tick in 0..rounds * ROUND_TICKS {
        let round = tick / ROUND_TICKS;
        if tick % ROUND_TICKS == 0 {
            load.begin_round(round, rounds.saturating_sub(MOVE_BEFORE_END));
            // One snapshot of all reports, from which every server computes the same.
            for tenant in &load.tenants {
                let its = &mut states[tenant.members.clone()];
                asked.clear();
                asked.extend(its.iter().map(|state| state.said));
                parts.resize(asked.len(), 0);
                apportion(tenant.limit, 1, &asked, &mut parts);
                its.iter_mut().zip(&parts).for_each(|(state, part)| state.given = *part);
            }
        }
        for (state, member) in states.iter_mut().zip(&load.members) {
            if (tick + u64::from(member.server)) % PERIOD_TICKS == 0 {
                state.report(round);
            }
            state.serve(member);
        }
        if round >= WARM_UP {
            let moved_at = rounds.saturating_sub(MOVE_BEFORE_END);
            for (number, tenant) in load.tenants.iter().enumerate() {
                let its = tenant.members.clone();
                let got = its.clone().map(|at| load.members[at].offered.min(states[at].part.used())).sum();
                let offered = its.map(|at| load.members[at].offered).sum::<u64>();
                tally.count(number, (got, offered, tenant.limit), tick - WARM_UP * ROUND_TICKS);
                if tenant.moved {
                    tally.follow(number, (got, offered, tenant.limit), tick.saturating_sub(moved_at * ROUND_TICKS));
                }
            }
            tally.end_tick();
        }
    }
    (tally, states)
}

impl State {
    /// Reports the demand since the last report, and takes up the round.
    fn report(&mut self, round: u64) {
        let served = self.served / PERIOD_TICKS;
        self.said = demand(served, self.held * 8 > PERIOD_TICKS);
        self.total += served;
        (self.served, self.held) = (0, 0);
        self.part = self.part.next(round, self.given);
    }

    fn serve(&mut self, member: &Member) {
        self.served += member.offered.min(self.part.used());
        self.held += u64::from(member.offered > self.part.used());
    }
}

/// The bytes of all reports, as servers would write them.
fn report_bytes(load: &Load, states: &[State], servers: usize) -> u64 {
    let mut by_server: Vec<Vec<(usize, usize)>> = vec![Vec::new(); servers];
    for (number, tenant) in load.tenants.iter().enumerate() {
        for at in tenant.members.clone() {
            by_server[load.members[at].server as usize].push((number, at));
        }
    }
    let mut text = String::new();
    let mut bytes = 0;
    for its in &by_server {
        text.clear();
        let names: Vec<String> = its.iter().map(|(tenant, _)| format!("tenant-{tenant}")).collect();
        let entries = its.iter().zip(&names).map(|((_, at), name)| {
            let state = &states[*at];
            let (demand, served) = (state.said, state.total);
            let (demand_bytes, served_bytes) = (0, served * 4096);
            Entry { tenant: name, demand, demand_bytes, demand_reserved: demand, served, served_bytes }
        });
        report::write(entries, &mut text);
        bytes += text.len() as u64;
    }
    bytes
}
