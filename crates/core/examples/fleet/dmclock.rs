//! dmClock's own scheme, in which servers know nothing of each other: with each request a client says how much it has got elsewhere since
//! its last request to that server. A limit tag then moves by all of that. Requests are counted in bulk, tick by tick, like a fluid.

use super::load::Load;
use super::tally::Tally;
use super::{MOVE_BEFORE_END, ROUND_TICKS, WARM_UP};

/// A member's tag for one client of its tenant, in units of service times ticks, ahead of zero or behind it; and the client's total service
/// when it last asked this member.
#[derive(Clone, Copy, Default)]
struct Tag {
    used: u64,
    heard: u64,
}

/// Each tenant has so many clients, between which what he asks of a server is divided evenly. None knows what another got.
pub(super) fn run(load: &mut Load, rounds: u64, clients: usize) -> Tally {
    let mut tags = vec![Tag::default(); load.members.len() * clients];
    let mut got = vec![0_u64; load.tenants.len() * clients];
    let mut tally = Tally::new(load.tenants.len());
    let moves = rounds.saturating_sub(MOVE_BEFORE_END);
    for tick in 0..rounds * ROUND_TICKS {
        let round = tick / ROUND_TICKS;
        if tick % ROUND_TICKS == 0 {
            load.begin_round(round, moves);
        }
        for (number, tenant) in load.tenants.iter().enumerate() {
            let count = tenant.members.len();
            let mut served = 0;
            let mut offered = 0;
            for turn in 0..count {
                // Requests of one tick go to all servers at once: none comes first in every tick.
                let at = tenant.members.start + (turn + tick as usize) % count;
                offered += load.members[at].offered;
                for client in 0..clients {
                    let asks = load.members[at].offered / clients as u64;
                    if asks == 0 {
                        continue;
                    }
                    let (tag, all) = (&mut tags[at * clients + client], &mut got[number * clients + client]);
                    // The tag is at least now less one tick, as a bucket that holds a tick's worth.
                    let now = (tick + 1) * tenant.limit;
                    tag.used = (tag.used + (*all - tag.heard)).max(now - tenant.limit);
                    let gets = asks.min(now.saturating_sub(tag.used));
                    tag.used += gets;
                    *all += gets;
                    tag.heard = *all;
                    served += gets;
                }
            }
            if round >= WARM_UP {
                tally.count(number, (served, offered, tenant.limit), tick);
                if tenant.moved {
                    tally.follow(number, (served, offered, tenant.limit), tick.saturating_sub(moves * ROUND_TICKS));
                }
            }
        }
        if round >= WARM_UP {
            tally.end_tick();
        }
    }
    tally
}
