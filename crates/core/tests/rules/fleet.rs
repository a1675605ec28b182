//! Rules of a fleet: what parts of a whole add up to, how soon they are right, and that tags which hear of other servers divide
//! all of them as one fluid server would.

use ioweir_core::fleet::report::{self, Entry};
use ioweir_core::fleet::{FLOOR_DIVISOR, Part, Sight, Standing, apportion, demand, weigh};
use ioweir_core::policy::Policy;
use ioweir_core::tenant::{Elsewhere, Share};
use ioweir_core::{Nanos, Scheduler as _, Step, StreamId};
use proptest::prelude::*;

use crate::tenants::world::{MILLI, SECOND, build, control, limits, request};

fn parts(whole: u64, demands: &[u64]) -> Vec<u64> {
    let mut parts = vec![0; demands.len()];
    apportion(whole, 1, demands, &mut parts);
    parts
}

/// Water filling of a fluid: floors, then the smallest demands first, then the rest evenly.
fn fluid(whole: f64, floor: f64, demands: &[u64]) -> Vec<f64> {
    let count = demands.len() as f64;
    let mut left = whole - floor * count;
    let mut beyond: Vec<(usize, f64)> =
        demands.iter().map(|&demand| (demand as f64 - floor).max(0.0)).enumerate().collect();
    beyond.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut parts = vec![floor; demands.len()];
    for (position, &(member, asked)) in beyond.iter().enumerate() {
        let gets = asked.min(left / (demands.len() - position) as f64);
        parts[member] += gets;
        left -= gets;
    }
    parts.iter().map(|part| part + left / count).collect()
}

fn demands() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(prop_oneof![Just(0), 1u64..100, 1u64..200_000, Just(u64::MAX)], 1..40)
}

proptest! {
    #[test]
    fn parts_add_up_and_equal_a_fluid((whole, demands) in (1u64..100_000, demands())) {
        let parts = parts(whole, &demands);
        let count = demands.len() as u64;
        prop_assert_eq!(parts.iter().sum::<u64>(), whole.max(count));
        let whole = whole.max(count);
        let floor = (whole / (FLOOR_DIVISOR * count)).max(1);
        for (part, ideal) in parts.iter().zip(fluid(whole as f64, floor as f64, &demands)) {
            prop_assert!((*part as f64 - ideal).abs() < 2.0, "{} for {}", part, ideal);
        }
    }

    #[test]
    fn lie_takes_at_most_unclaimed_even_parts((whole, demands) in (100u64..100_000, demands()), liar in any::<prop::sample::Index>()) {
        let mut demands = demands;
        let liar = liar.index(demands.len());
        demands[liar] = u64::MAX;
        let even = whole / demands.len() as u64;
        for (number, (part, asked)) in parts(whole, &demands).iter().zip(&demands).enumerate() {
            prop_assert!(number == liar || *part + 1 >= even.min(*asked), "{} of {} for {}", part, even, asked);
        }
    }

    #[test]
    fn servers_of_two_rounds_stay_within_the_whole(
        (whole, rounds) in (40u64..100_000, (2usize..12).prop_flat_map(|members| {
            let asked = prop_oneof![Just(0), 1u64..200_000];
            proptest::collection::vec((proptest::collection::vec(asked, members), any::<prop::sample::Index>()), 2..12)
        }))
    ) {
        let members = rounds[0].0.len();
        let first = parts(whole, &rounds[0].0);
        let mut held: Vec<Part> = first.iter().map(|&given| Part::first(0, given)).collect();
        for (number, (demands, begins)) in (1..).zip(&rounds[1..]) {
            let given = parts(whole, demands);
            // Members take up a round one by one, in an arbitrary order.
            for step in 0..members {
                let member = (begins.index(members) + step) % members;
                held[member] = held[member].next(number, given[member]);
                let used: u64 = held.iter().map(Part::used).sum();
                prop_assert!(used <= whole, "{} of {}", used, whole);
            }
        }
    }

    #[test]
    fn a_report_reads_back_as_it_was_written(
        entries in proptest::collection::vec((any::<[u32; 5]>(), "[^\\r\\n]{1,20}"), 0..20)
    ) {
        let entry = |(numbers, tenant): &([u32; 5], String)| {
            let [demand, demand_bytes, demand_reserved, served, served_bytes] = numbers.map(u64::from);
            (demand, demand_bytes, demand_reserved, served, served_bytes, tenant.clone())
        };
        let as_entry = |of: &(u64, u64, u64, u64, u64, String)| (of.0, of.1, of.2, of.3, of.4, of.5.clone());
        let wanted: Vec<_> = entries.iter().map(entry).collect();
        let mut text = String::new();
        report::write(wanted.iter().map(|of| Entry {
            tenant: &of.5, demand: of.0, demand_bytes: of.1, demand_reserved: of.2, served: of.3, served_bytes: of.4,
        }), &mut text);
        let read = report::read(text.as_bytes()).unwrap();
        let found: Vec<_> = read.map(|of| {
            (of.demand, of.demand_bytes, of.demand_reserved, of.served, of.served_bytes, of.tenant.to_string())
        }).collect();
        prop_assert_eq!(found, wanted.iter().map(as_entry).collect::<Vec<_>>());
    }

    #[test]
    fn any_bytes_are_a_report_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = report::read(&bytes).map(Iterator::count);
        let mut text = report::HEAD.as_bytes().to_vec();
        text.push(b'\n');
        text.extend(&bytes);
        let _ = report::read(&text).map(Iterator::count);
    }
}

#[test]
fn malformed_report_is_refused_with_its_line() {
    let wrong = |text: &str| report::read(text.as_bytes()).map(Iterator::count).unwrap_err().to_string();
    assert!(wrong("").starts_with("line 1: not a report of this version"));
    assert!(wrong("ioweir-fleet 2\n").starts_with("line 1: not a report of this version"));
    for line in
        ["", "1 2 3 4 gold", "1 2 3 4 -5 gold", "1 2 3 4 +5 gold", "1 2 3 4 99999999999999999999 gold", "1 2 3 4 5 "]
    {
        assert!(
            wrong(&format!("ioweir-fleet 1\n1 2 3 4 5 gold\n{line}\n")).starts_with("line 3: expected five"),
            "{line}"
        );
    }
    let long = "1".repeat(report::REPORT_BYTES_MAX + 1);
    assert_eq!(wrong(&long), "line 1: longer than a report may be");
    let text = "ioweir-fleet 1\n18446744073709551615 2 3 4 5 a name\n";
    let asked: Vec<_> =
        report::read(text.as_bytes()).unwrap().map(|entry| (entry.demand, entry.tenant.len())).collect();
    assert_eq!(asked, [(1 << 40, 6)], "a demand counts up to the largest whole");
}

#[test]
fn moved_tenant_has_its_part_after_stated_rounds() {
    for members in [2u64, 10, 100, 1_000] {
        let whole = 1_000_000;
        // Member 0 has served the whole load; from now on member 1 gets it.
        let mut served = vec![0; members as usize];
        served[0] = whole;
        let mut held: Option<Vec<Part>> = None;
        let (mut rounds, mut used) = (0, Vec::new());
        loop {
            let asked: Vec<u64> = (0..members as usize)
                .map(|member| {
                    let part = used.get(member).copied().unwrap_or(0);
                    let wanted = if member == 1 && rounds > 0 { u64::MAX } else { 0 };
                    if rounds == 0 { served[member] } else { demand(part.min(wanted), wanted > part) }
                })
                .collect();
            let given = parts(whole, &asked);
            let next: Vec<Part> = match &held {
                None => given.iter().map(|&given| Part::first(0, given)).collect(),
                Some(held) => held.iter().zip(&given).map(|(part, &given)| part.next(rounds, given)).collect(),
            };
            used = next.iter().map(Part::used).collect();
            held = Some(next);
            let most = whole - (whole / (FLOOR_DIVISOR * members)).max(1) * (members - 1);
            if used[1] >= most {
                break;
            }
            rounds += 1;
            assert!(rounds <= 8 + u64::from(members.ilog2()), "{members}: {} of {most}", used[1]);
        }
        assert!(rounds >= 2, "{members}: it takes a round to see, and one for the smaller of two");
    }
}

#[test]
fn a_weight_is_divided_by_demand() {
    let parts = |demands: &[u64]| (0..demands.len()).map(|own| weigh(100, demands, own)).collect::<Vec<_>>();
    assert_eq!(parts(&[300, 100, 0]), [75, 25, 1]);
    assert_eq!(parts(&[0, 0]), [50, 50], "nobody asks for anything");
    assert_eq!(parts(&[u64::MAX, u64::MAX]), [50, 50]);
    assert_eq!(parts(&[7]), [100], "who is alone has all");
}

#[test]
fn silence_is_late_then_alone() {
    let second = |seconds: u64| Nanos(seconds * SECOND);
    let mut standing = Standing::new(second(1), second(5));
    assert_eq!(standing.sight(second(0)), Sight::Alone, "it has heard nothing yet");
    standing.heard(second(8));
    assert_eq!(standing.sight(second(8)), Sight::Alone, "it has no lease");
    for sent in [10, 9] {
        standing.heard(second(sent));
        standing.renewed(second(sent));
    }
    let at = [10, 11, 12, 14, 15, 100].map(|seconds| standing.sight(second(seconds)).name());
    assert_eq!(at, ["seeing", "seeing", "keeping", "keeping", "alone", "alone"]);
    standing.heard(second(16));
    assert_eq!(standing.sight(second(16)), Sight::Alone, "what it hears is no lease");
    standing.renewed(second(16));
    assert_eq!(standing.sight(second(16)), Sight::Seeing);
    standing.lost();
    assert_eq!(standing.sight(second(16)), Sight::Alone);
}

/// A fleet of servers that each serve one request in a millisecond. Client 0 asks all of them and client i server i - 1, each
/// always; with a request, client 0 says what he has got elsewhere since his last one there.
struct Fleet {
    servers: Vec<Policy>,
    /// The units that each client got on each server.
    got: Vec<[u64; 2]>,
    /// The units that client 0 had got elsewhere when it last asked each server.
    said: Vec<u64>,
}

impl Fleet {
    fn new(name: &str, parameters: &[(&str, u64)], wide: u32, local: &[u32]) -> Self {
        let server = |weight: &u32| {
            let mut policy = build(name, parameters, limits(1));
            for (client, weight) in [(0, wide), (1, *weight)] {
                control(&mut policy).configure(Nanos::ZERO, StreamId(client), Share::weighted(weight)).unwrap();
                for _ in 0..2 {
                    policy.submit(Nanos::ZERO, request(client)).unwrap();
                }
            }
            policy
        };
        Self { servers: local.iter().map(server).collect(), got: vec![[0; 2]; local.len()], said: vec![0; local.len()] }
    }

    fn run(&mut self, millis: u64) {
        for milli in 0..millis {
            let now = Nanos(milli * MILLI);
            for server in 0..self.servers.len() {
                let policy = &mut self.servers[server];
                let Step::Dispatch(dispatch) = policy.poll(now) else { panic!("it always has requests") };
                let client = dispatch.stream.0;
                self.got[server][client as usize] += 1;
                policy.complete(Nanos(now.0 + MILLI), dispatch.tag);
                let now = Nanos(now.0 + MILLI);
                if client == 0 {
                    let all: u64 = self.got.iter().map(|got| got[0]).sum();
                    let elsewhere = all - self.got[server][0];
                    let delta = elsewhere - self.said[server];
                    self.said[server] = elsewhere;
                    let told = Elsewhere { by_weight: delta, ..Elsewhere::default() };
                    assert!(control(policy).served_elsewhere(now, StreamId(0), told));
                }
                policy.submit(now, request(client)).unwrap();
            }
        }
    }
}

/// The rate of client 0 on each server if the fleet is one fluid: its service over its weight, and that of each client beside it, grow at
/// the same rate where both are served.
fn fluid_fleet(wide: u32, local: &[u32]) -> Vec<f64> {
    let gets = |level: f64| local.iter().map(move |&weight| (1.0 - level * f64::from(weight)).max(0.0));
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if gets(middle).sum::<f64>() > middle * f64::from(wide) { low = middle } else { high = middle }
    }
    gets(low).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn informed_tags_divide_the_fleet_as_fluid(
        (wide, local) in (1u32..20, proptest::collection::vec(1u32..20, 1..6))
    ) {
        for (name, parameters) in [("mclock", &[][..]), ("reward", &[]), ("reward", &[("estimator", 1)])] {
            let mut fleet = Fleet::new(name, parameters, wide, &local);
            let millis = 6_000;
            fleet.run(millis);
            for (got, ideal) in fleet.got.iter().zip(fluid_fleet(wide, &local)) {
                let share = got[0] as f64 / millis as f64;
                prop_assert!((share - ideal).abs() < 0.03, "{} {} {:?}: {} for {}", name, wide, local, share, ideal);
            }
        }
    }
}

#[test]
fn service_elsewhere_counts_towards_reservations_and_limits() {
    for name in ["mclock", "reward"] {
        let served = |elsewhere: Elsewhere, share: Share| {
            let mut policy = build(name, &[], limits(1));
            control(&mut policy).configure(Nanos::ZERO, StreamId(0), share).unwrap();
            control(&mut policy).configure(Nanos::ZERO, StreamId(1), Share::weighted(1_000)).unwrap();
            let mut got = 0;
            for client in [0, 1, 0, 1] {
                policy.submit(Nanos::ZERO, request(client)).unwrap();
            }
            for milli in 0..2_000 {
                let now = Nanos(milli * MILLI);
                if let Step::Dispatch(dispatch) = policy.poll(now) {
                    let after = Nanos(now.0 + MILLI);
                    policy.complete(after, dispatch.tag);
                    if dispatch.stream.0 == 0 {
                        got += 1;
                        control(&mut policy).served_elsewhere(after, StreamId(0), elsewhere);
                    }
                    policy.submit(after, request(dispatch.stream.0)).unwrap();
                }
            }
            got
        };
        // Every second request of the client is served elsewhere.
        let reserved = Share { reservation_per_second: 400, ..Share::weighted(1) };
        let alone = served(Elsewhere::default(), reserved);
        let half = served(Elsewhere { by_weight: 1, by_reservation: 1, by_limit: 0 }, reserved);
        assert!((795..=805).contains(&alone) && (395..=405).contains(&half), "{name}: {alone}, {half}");
        let limited = Share { limit_per_second: 200, burst: 1, ..Share::weighted(10_000) };
        let alone = served(Elsewhere::default(), limited);
        let half = served(Elsewhere { by_weight: 1, by_reservation: 0, by_limit: 1 }, limited);
        assert!((395..=405).contains(&alone) && (195..=205).contains(&half), "{name}: {alone}, {half}");
    }
}

#[test]
fn policies_without_fleet_tags_say_so() {
    let told = Elsewhere { by_weight: 5, ..Elsewhere::default() };
    for (name, takes) in [("sfq", false), ("wfq", false), ("drr", false), ("mclock", true), ("reward", true)] {
        let mut policy = build(name, &[], limits(1));
        control(&mut policy).configure(Nanos::ZERO, StreamId(0), Share::weighted(1)).unwrap();
        assert_eq!(control(&mut policy).served_elsewhere(Nanos::ZERO, StreamId(0), told), takes, "{name}");
        assert!(!control(&mut policy).served_elsewhere(Nanos::ZERO, StreamId(7), told), "{name}: nobody knows it");
    }
}
