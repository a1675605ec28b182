//! Limits in requests and in bytes at once: exact times, the bound on what passes, and a naive model without rounding.

use ioweir_core::policy::Policy;
use ioweir_core::tenant::{BURST_BYTES_MAX, GroupId, RATE_BYTES_MAX, Rule, Share, ShareError};
use ioweir_core::{
    Flags, Nanos, Operation, QueueLimits, Reason, RefusedCause, Request, SECTOR_BYTES, Scheduler, Step, StreamId, Tag,
};
use proptest::prelude::*;

use crate::tenants::world::{MILLI, SECOND, build, control};

const TENANTS: [&str; 9] = ["fifo", "token-bucket", "sfq", "wfq", "drr", "mclock", "pclock", "parda", "reward"];

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Sectors of a request of 4 GiB.
const SECTORS_MAX: u32 = 1 << 23;

fn policy(name: &str, parameters: &[(&str, u64)]) -> Policy {
    build(
        name,
        parameters,
        QueueLimits { request_sectors_max: SECTORS_MAX, depth: 64, ..QueueLimits::with_requests(256) },
    )
}

fn read(client: u32, bytes: u64) -> Request {
    let sectors = u32::try_from(bytes / SECTOR_BYTES).expect("at most 4 GiB");
    Request { operation: Operation::Read, flags: Flags::NONE, stream: StreamId(client), sector: 0, sectors }
}

/// Both at once: 100 requests and 1 MiB a second.
const BOTH: Share =
    Share { limit_per_second: 100, burst: 2, limit_bytes_per_second: MIB, burst_bytes: 256 * KIB, ..Share::DEFAULT };

/// Serves requests on a device that takes no time, until none is queued or it is `end`: each request with its time.
fn serve(policy: &mut Policy, now: &mut u64, end: u64) -> Vec<(u64, Request)> {
    let mut served = vec![];
    loop {
        match policy.poll(Nanos(*now)) {
            Step::Dispatch(dispatch) => {
                let ioweir_core::Dispatch { operation, flags, stream, sector, sectors, .. } = dispatch;
                served.push((*now, Request { operation, flags, stream, sector, sectors }));
                policy.complete(Nanos(*now), dispatch.tag);
            }
            Step::WaitUntil(Nanos(time), _) if time <= end => *now = time,
            Step::WaitUntil(..) | Step::Idle => return served,
        }
    }
}

fn explain(policy: &Policy, now: u64, tag: Tag) -> (Rule, Reason, String) {
    let told = policy.tenants().expect("a tenant policy").explain(Nanos(now), tag).expect("it is queued");
    (told.rule, told.reason, told.to_string())
}

#[test]
fn the_later_of_both_limits_says_when() {
    for name in TENANTS {
        for in_group in [false, true] {
            let mut policy = policy(name, &[("groups", 1)]);
            let share = Share { group: in_group.then_some(GroupId(0)), ..Share::DEFAULT };
            control(&mut policy).configure_group(Nanos::ZERO, GroupId(0), BOTH).unwrap();
            control(&mut policy).configure(Nanos::ZERO, StreamId(0), if in_group { share } else { BOTH }).unwrap();
            let sizes = [4 * KIB, 4 * KIB, 4 * KIB, MIB, 4 * KIB, 4 * KIB, 4 * KIB];
            let tags = sizes.map(|bytes| policy.submit(Nanos::ZERO, read(0, bytes)).unwrap());
            let (mut now, mut times) = (0, vec![]);
            // The limit in requests holds up to the large request, which the bucket of 256 KiB lets go. That request is paid for after 1 s
            // less the content of the bucket.
            times.extend(serve(&mut policy, &mut now, 20 * MILLI).iter().map(|served| served.0));
            let told = explain(&policy, now, tags[4]);
            let whose = if in_group { "the client's group" } else { "the client" };
            let rule = if in_group { Rule::GroupByteLimit } else { Rule::ByteLimit };
            let words = format!("{whose} is at its limit in bytes until 0.770000954 s");
            assert_eq!(told, (rule, Reason::Throttled, words), "{name}");
            // Two are 4 KiB apart, the third a hundredth of a second from the last but one.
            times.extend(serve(&mut policy, &mut now, 773_907_204).iter().map(|served| served.0));
            let told = explain(&policy, now, tags[6]);
            let rule = if in_group { Rule::GroupLimit } else { Rule::Limit };
            let words = format!("{whose} is at its limit until 0.780000954 s");
            assert_eq!(told, (rule, Reason::Throttled, words), "{name}");
            times.extend(serve(&mut policy, &mut now, SECOND).iter().map(|served| served.0));
            assert_eq!(times, [0, 0, 10_000_000, 20_000_000, 770_000_954, 773_907_204, 780_000_954], "{name}");
        }
    }
}

#[test]
fn oversized_request_goes_and_delays_the_next() {
    for name in TENANTS {
        let mut policy = policy(name, &[]);
        let share = Share { limit_bytes_per_second: MIB, burst_bytes: 1, ..Share::DEFAULT };
        control(&mut policy).configure(Nanos::ZERO, StreamId(0), share).unwrap();
        for bytes in [4 << 30, 4 << 30, 512] {
            policy.submit(Nanos::ZERO, read(0, bytes)).unwrap();
        }
        let times: Vec<u64> = serve(&mut policy, &mut 0, u64::MAX).iter().map(|served| served.0).collect();
        assert_eq!(times, [0, 4096 * SECOND, 8192 * SECOND], "{name}");
    }
}

#[test]
fn default_bursts_are_a_tenth_of_a_second() {
    for name in TENANTS {
        let mut policy = policy(name, &[]);
        let (mut now, mut at_once) = (0, vec![]);
        // Changes while it runs count, too; a burst that is given is not touched.
        for (per_second, burst, bytes_per_second, burst_bytes) in [
            (400, 0, 0, 0),
            (5, 0, 0, 0),
            (0, 0, 10 * MIB, 0),
            (0, 0, 40 * MIB, 0),
            (400, 3, 0, 0),
            (0, 0, 10 * MIB, 1),
        ] {
            now += 100 * SECOND;
            let share = share([per_second, burst, bytes_per_second, burst_bytes]);
            control(&mut policy).configure(Nanos(now), StreamId(0), share).unwrap();
            for _ in 0..80 {
                policy.submit(Nanos(now), read(0, 64 * KIB)).unwrap();
            }
            let end = now;
            at_once.push(serve(&mut policy, &mut now, end).len());
            control(&mut policy).configure(Nanos(now), StreamId(0), Share::DEFAULT).unwrap();
            serve(&mut policy, &mut now, end);
        }
        assert_eq!(at_once, [40, 1, 16, 64, 3, 1], "{name}");
    }
    assert_eq!(share([0, 0, RATE_BYTES_MAX, 0]).limit_burst_bytes(), BURST_BYTES_MAX, "it is never above the largest");
}

#[test]
fn dataless_requests_take_no_bytes() {
    let mut policy = policy("sfq", &[]);
    let share = Share { limit_bytes_per_second: MIB, burst_bytes: 1, ..Share::DEFAULT };
    control(&mut policy).configure(Nanos::ZERO, StreamId(0), share).unwrap();
    let flush = Request { operation: Operation::Flush, sectors: 0, ..read(0, 0) };
    let discard = Request { operation: Operation::Discard, ..read(0, 4 << 30) };
    for request in [flush, discard, read(0, MIB), flush, discard, read(0, MIB)] {
        policy.submit(Nanos::ZERO, request).unwrap();
    }
    let served = serve(&mut policy, &mut 0, u64::MAX);
    assert_eq!(served.iter().map(|served| served.0 / SECOND).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1]);
}

#[test]
fn outage_is_not_charged_to_a_flush() {
    const MILLI: u64 = SECOND / 1000;
    let flush = Request { operation: Operation::Flush, sectors: 0, ..read(0, 0) };
    // Eight sectors take a millisecond. The times of a flush before any data and of one after it, and the cost that is learnt.
    for (first, then, costs) in [(MILLI, 5 * SECOND, 128..=128), (5 * SECOND, MILLI, 7..=8)] {
        let mut policy = policy("sfq", &[("cost", 1)]);
        let mut now = 0;
        let mut serve_in = |policy: &mut Policy, request: Request, time: u64| {
            policy.submit(Nanos(now), request).unwrap();
            let Step::Dispatch(dispatch) = policy.poll(Nanos(now)) else { panic!("nothing limits it") };
            now += time;
            policy.complete(Nanos(now), dispatch.tag);
        };
        serve_in(&mut policy, flush, first);
        for _ in 0..40 {
            serve_in(&mut policy, read(0, 4 * KIB), MILLI);
        }
        serve_in(&mut policy, flush, then);
        let cost = |policy: &mut Policy| control(policy).expected_cost(StreamId(0), Operation::Flush, 0);
        assert!(costs.contains(&cost(&mut policy)), "{}", cost(&mut policy));
        // Where flushes stay slow, the cost follows.
        for _ in 0..12 {
            serve_in(&mut policy, flush, SECOND);
        }
        assert!(cost(&mut policy) > 4_000, "{}", cost(&mut policy));
    }
}

#[test]
fn outages_of_data_are_not_charged_to_flushes() {
    const MILLI: u64 = SECOND / 1000;
    let flush = Request { operation: Operation::Flush, sectors: 0, ..read(0, 0) };
    let mut policy = policy("sfq", &[("cost", 1)]);
    let mut now = 0;
    let data = |count| std::iter::repeat_n((read(0, 4 * KIB), MILLI), count);
    let outage = [(read(0, 4 * KIB), 5 * SECOND), (flush, 5 * SECOND)];
    // Requests with data are timed once there has been a flush.
    for (request, time) in [(flush, MILLI)].into_iter().chain(data(40)).chain(outage).chain(data(40)) {
        policy.submit(Nanos(now), request).unwrap();
        let Step::Dispatch(dispatch) = policy.poll(Nanos(now)) else { panic!("nothing limits it") };
        now += time;
        policy.complete(Nanos(now), dispatch.tag);
    }
    let cost = control(&mut policy).expected_cost(StreamId(0), Operation::Flush, 0);
    assert!((8..=128).contains(&cost), "{cost}");
}

/// Keeps four requests of a client queued; answers with when they went, and their bytes.
fn flow(policy: &mut Policy, now: &mut u64, end: u64, bytes: u64) -> Vec<(u64, u64)> {
    let mut served = vec![];
    loop {
        while policy.queued() < 4 {
            policy.submit(Nanos(*now), read(0, bytes)).unwrap();
        }
        match policy.poll(Nanos(*now)) {
            Step::Dispatch(dispatch) => {
                served.push((*now, u64::from(dispatch.sectors) * SECTOR_BYTES));
                policy.complete(Nanos(*now), dispatch.tag);
            }
            Step::WaitUntil(Nanos(time), _) if time < end => *now = time,
            Step::WaitUntil(..) | Step::Idle => {
                *now = end;
                return served;
            }
        }
    }
}

fn sum(served: &[(u64, u64)]) -> u64 {
    served.iter().map(|served| served.1).sum()
}

#[test]
fn smaller_of_both_limits_is_reached() {
    for (name, cost) in TENANTS.iter().flat_map(|name| [(name, 0), (name, 1)]) {
        for size in [4 * KIB, 16 * KIB, 64 * KIB, MIB] {
            let mut policy = policy(name, &[("cost", cost)]);
            // The limit in units of cost: in requests, or in sectors, of which these are 2 MiB.
            let per_second = if cost == 0 { 100 } else { 4 * KIB };
            let limit = Share { limit_per_second: per_second, limit_bytes_per_second: 4 * MIB, ..Share::DEFAULT };
            let share = Share { burst: 1, burst_bytes: 1, ..limit };
            control(&mut policy).configure(Nanos::ZERO, StreamId(0), share).unwrap();
            let goal = 20 * if cost == 0 { (100 * size).min(4 * MIB) } else { 2 * MIB };
            let served = sum(&flow(&mut policy, &mut 0, 20 * SECOND, size));
            assert!(served >= goal && served < goal + size, "{name}, cost {cost}, {size}: {served} of {goal}");
        }
    }
}

#[test]
fn changed_limits_hold_and_pause_earns_one_burst() {
    for name in TENANTS {
        let mut policy = policy(name, &[]);
        let mut now = 0;
        let configure = |policy: &mut Policy, now, rate| {
            let share = Share { limit_bytes_per_second: rate, burst_bytes: MIB, ..Share::DEFAULT };
            control(policy).configure(Nanos(now), StreamId(0), share).unwrap();
        };
        for rate in [64 * MIB, 2 * MIB, 128 * MIB, MIB, 3 * MIB, 64 * MIB] {
            configure(&mut policy, now, rate);
            let end = now + 4 * SECOND;
            let served = sum(&flow(&mut policy, &mut now, end, MIB));
            assert!(served + MIB >= 4 * rate && served <= 4 * rate + 2 * MIB, "{name} at {rate}: {served}");
        }
        // Without a limit all goes at once, and with one again it is kept.
        configure(&mut policy, now, 0);
        assert_eq!(serve(&mut policy, &mut now, 0).len(), 4, "{name}");
        configure(&mut policy, now, MIB);
        for pause in [0, SECOND, 3_600 * SECOND] {
            now += pause;
            let end = now + 4 * SECOND;
            let served = sum(&flow(&mut policy, &mut now, end, 64 * KIB));
            assert!((4 * MIB..=5 * MIB + 64 * KIB).contains(&served), "{name} after {pause}: {served}");
            while let Step::WaitUntil(time, _) = policy.poll(Nanos(now)) {
                now = time.0;
                serve(&mut policy, &mut now, end + 10 * SECOND);
            }
        }
    }
}

#[test]
fn used_amount_is_repaid_at_present_rate() {
    let mut policy = policy("mclock", &[]);
    let configure = |policy: &mut Policy, now, rate, burst_bytes| {
        let share = Share { limit_bytes_per_second: rate, burst_bytes, ..Share::DEFAULT };
        control(policy).configure(Nanos(now), StreamId(0), share).unwrap();
    };
    configure(&mut policy, 0, 64 * KIB, 1);
    policy.submit(Nanos::ZERO, read(0, MIB)).unwrap();
    policy.submit(Nanos::ZERO, read(0, MIB)).unwrap();
    let mut now = 0;
    assert_eq!(serve(&mut policy, &mut now, 15 * SECOND).len(), 1);
    // After a second 15/16 of it are left: a sixteenth of a second at 15 MiB/s.
    configure(&mut policy, SECOND, 15 * MIB, 1);
    now = SECOND;
    assert_eq!(serve(&mut policy, &mut now, 15 * SECOND)[0].0, 1_062_500_000);
    // A burst that is used up and then made smaller leaves a debt of at most the smaller burst.
    now = 100 * SECOND;
    configure(&mut policy, now, MIB, 64 * MIB);
    for _ in 0..65 {
        policy.submit(Nanos(now), read(0, MIB)).unwrap();
    }
    assert_eq!(serve(&mut policy, &mut now, 100 * SECOND).len(), 64);
    configure(&mut policy, now, MIB, MIB);
    assert_eq!(serve(&mut policy, &mut now, 200 * SECOND)[0].0, 100 * SECOND + 954, "a byte later");
}

#[test]
fn refusing_at_byte_limit_keeps_goodput() {
    for name in TENANTS {
        let mut policy = policy(name, &[]);
        let share = Share {
            limit_bytes_per_second: 16 * MIB,
            burst_bytes: MIB,
            limit_per_second: 1_000,
            refuses_at_limit: true,
            ..Share::DEFAULT
        };
        control(&mut policy).configure(Nanos::ZERO, StreamId(0), share).unwrap();
        let (mut now, mut taken, mut refused) = (0, 0, 0);
        while now < 10 * SECOND {
            // Three requests come at a time: queued ones count against the limit, refused ones do not.
            let answers = [0; 3].map(|_| policy.submit(Nanos(now), read(0, 256 * KIB)));
            let mut until = now + 5 * MILLI;
            for answer in answers {
                match answer {
                    Ok(_) => taken += 256 * KIB,
                    Err(error) => {
                        let RefusedCause::AtLimit(time) = error.cause else { panic!("{error:?}") };
                        assert!(time.0 > now && time.0 <= now + 64 * MILLI, "{name}: {time} at {now}");
                        (refused, until) = (refused + 1, time.0);
                    }
                }
            }
            let before = now;
            serve(&mut policy, &mut now, 0);
            assert_eq!((policy.queued(), now), (0, before), "{name}: what is taken at the limit goes at once");
            now = until;
        }
        assert!(refused > 0 && (159 * MIB..=162 * MIB).contains(&taken), "{name}: {taken}, {refused} refused");
    }
}

#[test]
fn limits_that_cannot_be_are_refused() {
    let mut policy = policy("sfq", &[]);
    let mut configure = |share| control(&mut policy).configure(Nanos::ZERO, StreamId(0), share);
    let largest = Share { limit_bytes_per_second: RATE_BYTES_MAX, burst_bytes: BURST_BYTES_MAX, ..Share::DEFAULT };
    assert_eq!(configure(largest), Ok(()));
    let error = configure(Share { limit_bytes_per_second: RATE_BYTES_MAX + 1, ..largest }).unwrap_err();
    assert_eq!(error, ShareError::ByteRate { bytes_per_second: RATE_BYTES_MAX + 1 });
    let error = configure(Share { burst_bytes: BURST_BYTES_MAX + 1, ..largest }).unwrap_err();
    assert_eq!(error.to_string(), "a burst of 8589934593 bytes is more than 8589934592 bytes");
}

/// A bucket without rounding: times are multiplied by the rate instead of being divided by it.
#[derive(Clone, Copy, Default)]
struct Bucket {
    rate: u128,
    burst: u128,
    full_at: u128,
}

const BILLION: u128 = 1_000_000_000;

impl Bucket {
    fn over(&self) -> u128 {
        self.burst.saturating_sub(1) * BILLION
    }

    fn eligible(&self) -> u128 {
        if self.rate == 0 { 0 } else { self.full_at.saturating_sub(self.over()).div_ceil(self.rate) }
    }

    fn take(&mut self, now: u128, amount: u128) {
        if self.rate == 0 {
            return;
        }
        // The bucket keeps the part of a nanosecond by which a time was rounded up.
        if self.full_at.div_ceil(self.rate) < now {
            self.full_at = now * self.rate;
        }
        self.full_at += amount * BILLION;
    }

    fn change(&mut self, now: u128, rate: u64, burst: u64) {
        // Without a limit nothing is counted.
        let used = if self.rate == 0 { 0 } else { self.full_at.saturating_sub(now * self.rate) };
        let owed = used.saturating_sub(self.over());
        // The largest default is that of bytes: requests come nowhere near it.
        let tenth = (rate / 10).clamp(1, BURST_BYTES_MAX);
        (self.rate, self.burst) = (u128::from(rate), u128::from(if burst == 0 { tenth } else { burst }));
        self.full_at = now * self.rate + used.min(self.over() + owed);
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Send(Operation, u32),
    Change([u64; 4]),
}

/// Numbers of every magnitude.
fn magnitude(most: u64) -> impl Strategy<Value = u64> {
    (0..=64 - most.leading_zeros(), any::<u64>())
        .prop_map(move |(bits, number)| if bits == 0 { 0 } else { (number >> (64 - bits) | 1 << (bits - 1)).min(most) })
}

/// Rate and burst in requests, and in bytes.
fn limit() -> impl Strategy<Value = [u64; 4]> {
    let rate = prop_oneof![1 => Just(0), 4 => magnitude(SECOND)];
    let bytes = prop_oneof![1 => Just(0), 4 => magnitude(RATE_BYTES_MAX)];
    (rate, magnitude(SECOND), bytes, magnitude(BURST_BYTES_MAX))
        .prop_map(|(rate, burst, bytes, burst_bytes)| [rate, burst, bytes, burst_bytes])
}

fn call() -> impl Strategy<Value = Call> {
    let operation = prop::sample::select(vec![
        Operation::Read,
        Operation::Write,
        Operation::Read,
        Operation::Discard,
        Operation::Flush,
    ]);
    let send = (operation, magnitude(u64::from(SECTORS_MAX)));
    prop_oneof![
        8 => send.prop_map(|(operation, sectors)| Call::Send(operation, if operation == Operation::Flush { 0 } else { sectors.max(1) as u32 })),
        1 => limit().prop_map(Call::Change),
    ]
}

fn share([limit_per_second, burst, limit_bytes_per_second, burst_bytes]: [u64; 4]) -> Share {
    Share { limit_per_second, burst, limit_bytes_per_second, burst_bytes, ..Share::DEFAULT }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn requests_go_at_the_exact_nanosecond(
        name in prop::sample::select(TENANTS.to_vec()),
        cost in 0u64..2,
        in_group in any::<bool>(),
        first in limit(),
        calls in proptest::collection::vec((magnitude(10 * SECOND), call()), 1..60),
    ) {
        let mut policy = policy(name, &[("cost", cost), ("groups", 1)]);
        let configure = |policy: &mut Policy, now, limit| {
            let control = control(policy);
            if in_group {
                control.configure_group(Nanos(now), GroupId(0), share(limit)).unwrap();
            } else {
                control.configure(Nanos(now), StreamId(0), share(limit)).unwrap();
            }
        };
        configure(&mut policy, 0, first);
        if in_group {
            let member = Share { group: Some(GroupId(0)), ..Share::DEFAULT };
            control(&mut policy).configure(Nanos::ZERO, StreamId(0), member).unwrap();
        }
        let mut buckets = [Bucket::default(); 2];
        let change = |buckets: &mut [Bucket; 2], now: u64, limit: [u64; 4]| {
            buckets[0].change(u128::from(now), limit[0], limit[1]);
            buckets[1].change(u128::from(now), limit[2], limit[3]);
        };
        change(&mut buckets, 0, first);
        // Each call comes when all requests before it have gone, or, at a change of limits, while one still waits.
        let mut now = 0;
        let mut waiting: Option<(Request, u32)> = None;
        for (gap, call) in calls.into_iter().chain([(0, Call::Change([0, 1, 0, 0]))]) {
            let due = now + gap;
            if let Call::Send(operation, sectors) = call
                && waiting.is_none()
            {
                let request = Request { operation, ..read(0, u64::from(sectors) * SECTOR_BYTES) };
                // The cost of a discard or a flush in sectors is learnt.
                let expected = control(&mut policy).expected_cost(StreamId(0), operation, request.sectors);
                policy.submit(Nanos(now), request).unwrap();
                waiting = Some((request, expected));
            }
            if let Some((request, expected_cost)) = waiting {
                let eligible = buckets[0].eligible().max(buckets[1].eligible()).max(u128::from(now));
                let served = serve(&mut policy, &mut now, due);
                let times: Vec<_> = served.iter().map(|served| u128::from(served.0)).collect();
                let expected: Vec<_> = Some(eligible).filter(|&time| time <= u128::from(due)).into_iter().collect();
                prop_assert_eq!(times, expected, "{}: {:?}", name, request);
                if served.len() == 1 {
                    waiting = None;
                    let moves = matches!(request.operation, Operation::Read | Operation::Write);
                    let sectors = if moves { u128::from(request.sectors) } else { 0 };
                    let amount = match (cost, moves) {
                        (0, _) => 1,
                        (_, true) => sectors.clamp(1, 32_767),
                        (_, false) => u128::from(expected_cost),
                    };
                    buckets[0].take(eligible, amount);
                    buckets[1].take(eligible, sectors * 512);
                }
            }
            now = due;
            if let Call::Change(limit) = call {
                configure(&mut policy, now, limit);
                change(&mut buckets, now, limit);
            }
        }
        // Without limits the remaining requests go at once, whatever was owed.
        let left = serve(&mut policy, &mut now, 0);
        prop_assert_eq!(left.len(), usize::from(waiting.is_some()), "{}", name);
    }

    #[test]
    fn neither_limit_is_exceeded_in_any_window(
        name in prop::sample::select(TENANTS.to_vec()),
        limits in proptest::collection::vec((1u64..2_000, 1u64..20, 1u64..64 * MIB, 1..MIB), 3),
        pauses in proptest::collection::vec((0u64..2_000, 0u32..6, 0u32..4, 1u64..2_000), 1..40),
    ) {
        let mut policy = policy(name, &[("groups", 1)]);
        let limits: Vec<_> = limits.into_iter().map(|(rate, burst, bytes, ahead)| [rate, burst, bytes, ahead]).collect();
        // Two clients, each with limits of its own, and a group of both with its own.
        control(&mut policy).configure_group(Nanos::ZERO, GroupId(0), share(limits[2])).unwrap();
        for (client, &own) in (0..2).zip(&limits) {
            let own = Share { group: Some(GroupId(0)), ..share(own) };
            control(&mut policy).configure(Nanos::ZERO, StreamId(client), own).unwrap();
        }
        let (mut now, mut served) = (0, vec![]);
        for (pause, count, client, sectors) in pauses {
            for _ in 0..count {
                let _ = policy.submit(Nanos(now), read(client % 2, sectors * SECTOR_BYTES));
            }
            let end = now + pause * MILLI;
            served.extend(serve(&mut policy, &mut now, end));
            now = end;
        }
        for (which, &[rate, burst, bytes, ahead]) in limits.iter().enumerate() {
            let own: Vec<_> = served.iter().filter(|served| which == 2 || served.1.stream.0 == which as u32).collect();
            for (first, start) in own.iter().enumerate() {
                let (mut count, mut sum, mut largest) = (0, 0, 0);
                for end in &own[first..] {
                    let size = u128::from(end.1.sectors) * 512;
                    (count, sum, largest) = (count + 1, sum + size, size.max(largest));
                    // Times are whole nanoseconds.
                    let span = u128::from(end.0 - start.0 + 1);
                    prop_assert!((count - u128::from(burst.min(count as u64))) * BILLION <= span * u128::from(rate));
                    let over = (sum + 1).saturating_sub(u128::from(ahead) + largest);
                    prop_assert!(over * BILLION <= span * u128::from(bytes), "{}: {} bytes in {} ns", name, sum, span);
                }
            }
        }
    }
}
