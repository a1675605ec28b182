//! One share over many servers: how what a tenant may have in all is apportioned over the servers that he asks.
//!
//! The pieces are pure. [`apportion`] divides a limit, a reservation or a weight by demand; [`demand`] says what a server
//! asks for; a [`Part`] is what it uses from round to round; [`Standing`] says whether it can see the others; [`report`] is
//! what servers tell one another. Whoever has clocks and messages (the server, the simulation of a fleet) calls them.
//!
//! # The rule
//!
//! Servers meet in *rounds*. A round is one snapshot of all reports, the same for every server, and a server is in the newest
//! round that it has seen. Of n members that share a whole W, each first gets a floor of W / 16n, so that a burst finds
//! something to begin with. What is left goes to demands, smallest first (water filling: nobody gets more than he asks
//! while another who asks for more has less), and what nobody asks for is divided evenly.
//!
//! **Bound while members change their minds.** The parts of one round add up to W exactly (or to n, if W is less: nobody has
//! less than 1). A server uses the smaller of its parts of its round and of the round before. So while any two servers are
//! at most one round apart, what all of them use adds up to no more than W: those in round k use at most their parts of
//! round k - 1, and so do those that are still in k - 1. A server that is later than that adds at most its own last part, for
//! at most its lease. One that sees nobody, or has been in no round yet, uses a configured part of the whole, a W; the others
//! divide W less a W for each server that they do not hear of, and one that returns uses no more than a W in its first round.
//! So if n a is at most 1, what n servers use adds up to no more than W whichever of them lose contact, but for the leases
//! during which that is not known yet.
//!
//! **Convergence.** If demands stay what they are, the parts are right two rounds after the last report: one to see it, one
//! for the smaller of two. A server that is held at its part does not know how much he wants of it, and says four times what
//! he got; since it uses the smaller of two rounds, that is four times in two rounds. So it gets from the floor to any part
//! in at most 8 + log2(n) rounds.
//!
//! **Liars.** A demand counts up to W. Whatever one says, another that asks for d gets at least the smaller of d and an
//! even part, W / n, less one unit.

pub mod report;
mod standing;

pub use standing::{Part, Sight, Standing};

/// The part of a whole, as a divisor, that is divided evenly whatever members ask for.
pub const FLOOR_DIVISOR: u64 = 16;

/// The most members of a tenant.
pub const MEMBERS_MAX: usize = 1 << 16;

/// The largest whole: every rate of a share fits.
pub const WHOLE_MAX: u64 = 1 << 40;

/// The demand that a member reports, computed from its service in the last second. A member that was held at its part for much of that
/// second asks for four times its service, as its real demand is unknown; any other asks for a sixteenth more than its service, so that it
/// is not held the next moment.
#[must_use]
pub const fn demand(served_per_second: u64, is_held: bool) -> u64 {
    match (is_held, served_per_second) {
        (true, 0) => 1,
        (true, served) => served.saturating_mul(4),
        (false, served) => served.saturating_add(served / 16),
    }
}

/// The part of a weight that a member has, in proportion to its demand; at least 1. It is for policies without tags for service elsewhere,
/// and an approximation: it is right where a tenant meets the same competition on every server.
#[must_use]
pub fn weigh(whole: u32, demands: &[u64], own: usize) -> u32 {
    let asked = |demand: &u64| u128::from((*demand).min(WHOLE_MAX));
    let all: u128 = demands.iter().map(asked).sum();
    let part = match demands.get(own) {
        Some(demand) if all > 0 => u128::from(whole) * asked(demand) / all,
        _ => u128::from(whole) / demands.len().max(1) as u128,
    };
    (part as u32).max(1) // no more than the whole
}

/// Divides a whole among members by what each asks for; `least` is what nobody has less than. Parts add up to the whole, or
/// to `least` times the number of members if that is more.
///
/// ```
/// use ioweir_core::fleet::apportion;
///
/// let mut parts = [0; 4];
/// apportion(1_600, 1, &[5_000, 100, 0, 700], &mut parts);
/// // A floor of 25 each; then 75 more for the second, and the rest evenly for those that ask for more.
/// assert_eq!(parts, [775, 100, 25, 700]);
/// ```
///
/// # Panics
/// If there are not as many parts as demands.
pub fn apportion(whole: u64, least: u64, demands: &[u64], parts: &mut [u64]) {
    assert_eq!(demands.len(), parts.len(), "a part for each demand");
    let members = demands.len() as u64;
    if members == 0 {
        return;
    }
    let whole = whole.min(WHOLE_MAX).max(least.saturating_mul(members));
    let floor = (whole / (FLOOR_DIVISOR * members)).max(least);
    let rest = whole - floor * members;
    let beyond = |demand: &u64| demand.saturating_sub(floor).min(rest);
    let taken = |level: u64| demands.iter().map(|demand| beyond(demand).min(level)).sum::<u64>();
    // The highest level of which not more is taken than there is.
    let (mut level, mut too_high) = (0, rest + 1);
    while too_high - level > 1 {
        let middle = level + (too_high - level) / 2;
        if taken(middle) <= rest { level = middle } else { too_high = middle }
    }
    let mut left = rest - taken(level);
    // The units that do not suffice to raise the level of all by one go to members that ask for more than the level.
    let mut above =
        if level < rest { demands.iter().filter(|demand| beyond(demand) > level).count() as u64 } else { 0 };
    let one_more = left.min(above);
    left -= one_more;
    above = one_more;
    let (spare, mut odd) = (left / members, left % members);
    for (demand, part) in demands.iter().zip(parts) {
        let asked = beyond(demand);
        let mut has = floor + asked.min(level) + spare;
        if asked > level && above > 0 {
            (has, above) = (has + 1, above - 1);
        } else if odd > 0 {
            (has, odd) = (has + 1, odd - 1);
        }
        *part = has;
    }
}
