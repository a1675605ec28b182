//! Fleets that lose contact: every set of servers is cut off in turn; the set of all servers is the death of etcd.

use ioweir_core::fleet::Sight;

use super::{Fleets, LIMIT, Node, SECOND, STEP, all};

/// The seconds of a lease.
const LEASE: u64 = 5;

fn sum(nodes: &[Node], of: impl Fn(&Node) -> u64) -> u64 {
    nodes.iter().map(of).sum()
}

/// Cuts off the servers whose bits are set, changes what is asked for, and lets them come back. Answers with what all servers
/// together could have served above the limit.
fn split(servers: usize, cut: u32) -> u64 {
    let alone = 100 / servers as u32;
    let is_cut = |number: usize| cut >> number & 1 == 1;
    let mut fleet = Fleets::with(servers, alone);
    // Tenants ask most of the servers that are to be cut off, and afterwards of the others.
    let ask = |fleet: &mut Fleets, of_cut: bool| {
        for (number, node) in fleet.nodes.iter_mut().enumerate() {
            node.offered = if is_cut(number) == of_cut { 20_000 } else { 500 };
        }
    };
    ask(&mut fleet, true);
    fleet.run(6, |_| {});
    let mut above = 0;
    let mut count = |nodes: &[Node]| above += all(nodes).saturating_sub(LIMIT) * STEP / SECOND;
    ask(&mut fleet, false);
    for (number, node) in fleet.nodes.iter_mut().enumerate() {
        node.coordinator.store().is_cut = is_cut(number);
    }
    fleet.run(LEASE + 4, &mut count);
    let told = format!("{servers} servers, {cut:b} cut off");
    fleet.run(3, |nodes| assert!(all(nodes) <= LIMIT, "{told}: {}", all(nodes)));
    let lost = cut.count_ones() as usize;
    for (number, sight) in fleet.sights().into_iter().enumerate() {
        assert_eq!(sight, if is_cut(number) { Sight::Alone } else { Sight::Seeing }, "{told}: server {number}");
    }
    if lost < servers {
        // The connected servers have taken back everything but the room of the others.
        let left = LIMIT * (100 - u64::from(alone) * lost as u64) / 100;
        let due = fleet.nodes.iter().enumerate().filter(|(number, _)| !is_cut(*number)).map(|(_, node)| node.limit());
        let due: u64 = due.sum();
        assert!(due <= left && due >= left * 95 / 100, "{told}: {due} of {left}");
    }
    fleet.nodes.iter_mut().for_each(|node| node.coordinator.store().is_cut = false);
    fleet.run(5, &mut count);
    fleet.run(3, |nodes| assert!(all(nodes) <= LIMIT, "{told}: healed"));
    assert!(all(&fleet.nodes) >= LIMIT * 95 / 100, "{told}: {} after it has healed", all(&fleet.nodes));
    assert_eq!(fleet.sights(), vec![Sight::Seeing; servers]);
    above
}

#[test]
fn no_split_exceeds_limits_by_a_lease() {
    // The clocks of neighbouring servers are an hour apart.
    let mut worst = 0;
    for (servers, cut) in [3, 8].into_iter().flat_map(|servers| (1..1 << servers).map(move |cut| (servers, cut))) {
        let above = split(servers, cut);
        assert!(above <= LIMIT * LEASE, "{servers} servers, {cut:b} cut off: {above} above {LIMIT}/s");
        worst = worst.max(above);
    }
    assert!(worst > 0, "servers whose lease has not ended keep parts that others have been given");
}

#[test]
fn shares_are_within_a_twentieth_of_due() {
    for servers in [3, 8] {
        let mut fleet = Fleets::with(servers, 10);
        for (number, node) in fleet.nodes.iter_mut().enumerate() {
            // All ask for more than their part, one for twice as much as the others; a policy without tags of its own.
            node.offered = if number == 0 { 40_000 } else { 20_000 };
            node.own.hears_of_others = false;
            node.own.share.weight = 10_000;
        }
        fleet.run(10, |_| {});
        let part = |node: &Node| node.part.of(node.own.share);
        for (what, due, got) in [
            ("reservation", 1_200, sum(&fleet.nodes, |node| part(node).reservation_per_second)),
            ("limit", LIMIT, sum(&fleet.nodes, |node| part(node).limit_per_second)),
            ("weight", 10_000, sum(&fleet.nodes, |node| part(node).weight.into())),
        ] {
            assert!(got <= due && got * 100 >= due * 95, "{servers} servers: {what} {got} of {due}");
        }
    }
}

#[test]
fn missing_servers_are_named_until_they_are_back() {
    let mut fleet = Fleets::with(3, 33);
    fleet.run(3, |_| {});
    let mut remarks = Vec::new();
    let mut hear = |fleet: &mut Fleets, seconds| {
        fleet.run(seconds, |nodes| remarks.extend(nodes[0].turn.remarks.iter().map(|(_, what)| what.clone())));
        remarks.sort();
        remarks.dedup();
        std::mem::take(&mut remarks)
    };
    fleet.nodes[2].coordinator.store().is_cut = true;
    let told = hear(&mut fleet, 8);
    assert!(told.len() == 1 && told[0].contains("etcdctl del /ioweir/f/member/s2"), "{told:?}");
    fleet.nodes[2].coordinator.store().is_cut = false;
    assert_eq!(hear(&mut fleet, 3), ["no room is left to server s2 any more"]);
    // A fourth server makes 132 percent of 99.
    fleet.join("s3", 33);
    let told = hear(&mut fleet, 3);
    assert!(told.len() == 1 && told[0].contains("would use 132 % of the share of gold together"), "{told:?}");
    // A server that ends well leaves no room behind.
    fleet.nodes[3].coordinator.leave();
    fleet.nodes[3].is_dead = true;
    fleet.nodes.iter_mut().for_each(|node| node.offered = 20_000);
    assert!(hear(&mut fleet, 4).is_empty());
    assert_eq!(all(&fleet.nodes), LIMIT);
}
