//! The load of the simulated tenants: which server each asks and how much, in bursts and skewed towards one server.

use std::ops::Range;

use ioweir_core::random::SplitMix;

use super::ROUND_TICKS;

/// A seeded generator.
pub(super) struct Random(SplitMix);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.draw() % bound
    }
}

/// A tenant on a server.
pub(super) struct Member {
    pub(super) server: u32,
    /// Units a second that he asks this server for now.
    pub(super) offered: u64,
}

pub(super) struct Tenant {
    pub(super) limit: u64,
    pub(super) members: Range<usize>,
    /// The round in which the tenant's load changes next.
    changes: u64,
    /// Whether the tenant has moved all its load to one other server.
    pub(super) moved: bool,
}

pub(super) struct Load {
    pub(super) members: Vec<Member>,
    pub(super) tenants: Vec<Tenant>,
    random: Random,
}

impl Load {
    /// Half of the tenants ask two servers, others up to 16, and one in a thousand up to all.
    pub(super) fn new(servers: u32, tenants: usize, seed: u64) -> Self {
        let mut random = Random(SplitMix::new(seed));
        let (mut all, mut members) = (Vec::with_capacity(tenants), Vec::new());
        for _ in 0..tenants {
            let most = match random.below(1_000) {
                0 => u64::from(servers),
                1..=99 => 16,
                100..=499 => 4,
                _ => 2,
            };
            let count = (1 + random.below(most)).clamp(2, u64::from(servers)) as u32;
            let (first, begin) = (random.below(u64::from(servers)) as u32, members.len());
            // Spread over the servers, each once.
            let apart = servers / count;
            members.extend((0..count).map(|number| Member { server: (first + number * apart) % servers, offered: 0 }));
            // From 500 to 128,000 units a second, most of them small.
            let limit = 500 << random.below(9).min(random.below(9));
            all.push(Tenant { limit, members: begin..members.len(), changes: 0, moved: false });
        }
        Self { members, tenants: all, random }
    }

    /// Changes the load of tenants whose burst, or pause, is over. In round `moves` a tenth of them move to another server, and stay as
    /// they are from then on.
    pub(super) fn begin_round(&mut self, round: u64, moves: u64) {
        let Self { members, tenants, random } = self;
        for tenant in tenants {
            if round == moves && random.below(10) == 0 {
                tenant.moved = true;
                let its = &mut members[tenant.members.clone()];
                let from = its.iter().enumerate().max_by_key(|(_, member)| member.offered).map_or(0, |(at, _)| at);
                let to = (from + 1) % its.len();
                for (at, member) in its.iter_mut().enumerate() {
                    member.offered = if at == to { tenant.limit * 3 / 2 } else { 0 };
                }
            }
            if tenant.moved || round < tenant.changes {
                continue;
            }
            // Bursts of 10 to 50 rounds.
            tenant.changes = round + 10 + random.below(41);
            let is_skewed = random.below(2) == 0;
            for (at, member) in members[tenant.members.clone()].iter_mut().enumerate() {
                let even = tenant.limit / tenant.members.len() as u64;
                member.offered = match random.below(4) {
                    // The tenant pauses on this server.
                    0 | 1 => 0,
                    // The first server is asked for twice the tenant's whole limit.
                    2 if is_skewed && at == 0 => tenant.limit * 2,
                    2 => even / 2 + random.below(even.max(1)),
                    _ => random.below(tenant.limit * 2),
                };
            }
        }
    }
}

/// The time of a tick, in rounds.
pub(super) fn rounds(ticks: u64) -> f64 {
    ticks as f64 / ROUND_TICKS as f64
}
