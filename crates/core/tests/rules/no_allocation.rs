//! No policy allocates after construction, whatever the load.

#![allow(unsafe_code, reason = "a global allocator is unsafe by its signature; this one only counts")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ioweir_core::background::{self, Bucket, Directive, Executor, Pool, SERVICES, Service, Watermark};
use ioweir_core::cores::{Cores, CoresLimits, Kind, Log, SCHEDULES, Source, Turn, Work};
use ioweir_core::driver::{Caller, Capacity, ClientRequest, Driver};
use ioweir_core::policy::{POLICIES, Policy};
use ioweir_core::tenant::{GroupId, Share};
use ioweir_core::{Flags, Nanos, Operation, Priority, QueueLimits, Request, Scheduler, Step, StreamId};

use crate::pairs::{elevators, orders, pair};

thread_local! {
    /// Allocations of this thread only: the test harness allocates in its own threads.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no counter any more.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A small generator, so that the load itself does not allocate.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Submits, cancels and serves at random; answers with how many requests were served.
fn load(scheduler: &mut impl Scheduler, steps: u64) -> u64 {
    let mut random = Random(1);
    let mut now = Nanos::ZERO;
    let mut flight = None;
    let mut newest = None;
    let mut served = 0;
    for _ in 0..steps {
        now = now.after(Nanos(random.below(4_000_000)));
        for _ in 0..random.below(4) {
            let operation = Operation::ALL[[0, 0, 1, 1, 1, 2, 3][random.below(7) as usize]];
            let flags = [Flags::NONE, Flags::SYNC, Flags::FUA][random.below(3) as usize];
            let flags = flags.at(Priority::from_bits(random.below(32) as u8).unwrap());
            let sectors = if operation == Operation::Flush { 0 } else { 8 };
            let stream = StreamId(random.below(2000) as u32);
            let request = Request { operation, flags, stream, sector: random.below(4096) * 8, sectors };
            newest = scheduler.submit(now, request).ok().or(newest);
        }
        if let Some(tag) = newest.filter(|_| random.below(8) == 0) {
            let _ = scheduler.cancel(now, tag);
        }
        if let Some(tag) = flight.take() {
            scheduler.complete(now, tag);
            served += 1;
        }
        while let Step::Dispatch(dispatch) = scheduler.poll(now) {
            if let Some(tag) = flight.replace(dispatch.tag) {
                scheduler.complete(now, tag);
            }
        }
        let waiting: u32 = scheduler.waiting().0.iter().sum();
        if waiting != scheduler.queued() {
            // A wrong count is reported by the result, because the message of an assertion would allocate.
            return 0;
        }
    }
    served
}

/// Shares that come, change and go, requests that are explained; answers with how many were served.
fn live_load(scheduler: &mut Policy, steps: u64) -> u64 {
    let mut random = Random(2);
    let mut now = Nanos::ZERO;
    let blank = Request { operation: Operation::Read, flags: Flags::NONE, stream: StreamId(0), sector: 0, sectors: 8 };
    let mut newest = None;
    let mut served = 0;
    for _ in 0..steps {
        now = now.after(Nanos(random.below(2_000_000)));
        let client = StreamId(random.below(100) as u32);
        newest = scheduler.submit(now, Request { stream: client, ..blank }).ok().or(newest);
        let Some(control) = scheduler.tenants_mut() else { return 0 };
        let group = GroupId(random.below(3) as u32);
        let share = Share {
            weight: random.below(100) as u32 + 1,
            limit_per_second: random.below(2) * 100,
            burst: 2,
            limit_bytes_per_second: random.below(2) << 19,
            burst_bytes: 1 << 14,
            reads_per_second: random.below(2) * 100,
            write_bytes_per_second: random.below(2) << 19,
            latency: Nanos(random.below(8) * 1_000_000 + 1_000),
            refuses_at_limit: random.below(4) == 0,
            group: Some(group).filter(|_| random.below(4) == 0),
            ..Share::DEFAULT
        };
        let share = control.kept(share);
        let _ = match random.below(8) {
            0 => control.configure(now, client, share).is_ok(),
            1 => control.configure_group(now, group, Share { group: None, ..share }).is_ok(),
            2 => control.remove(now, client).is_ok(),
            _ => true,
        };
        if let Some(tag) = newest {
            let _ = std::hint::black_box(control.explain(now, tag));
        }
        let mut polls = 0;
        while polls < 4
            && let Step::Dispatch(dispatch) = scheduler.poll(now)
        {
            scheduler.complete(now, dispatch.tag);
            (served, polls) = (served + 1, polls + 1);
        }
        if scheduler.waiting().0.iter().sum::<u32>() != scheduler.queued() {
            return 0;
        }
    }
    served
}

#[test]
fn tenant_policies_allocate_nothing_while_shares_change() {
    for row in POLICIES {
        let mut settings = row.defaults();
        if row.set(&mut settings, "groups", 3).is_err() {
            continue;
        }
        row.set(&mut settings, "clients", 40).expect("it has groups, so it has clients");
        let mut scheduler = row.build(QueueLimits { depth: 8, ..QueueLimits::DEFAULT }, &settings);
        let before = ALLOCATIONS.get();
        let served = live_load(&mut scheduler, 30_000);
        let after = ALLOCATIONS.get();
        assert!(served > 10_000, "{}: served {served}, or lost count of who waits", row.name);
        assert_eq!(after - before, 0, "{} allocates", row.name);
    }
}

#[test]
fn no_policy_allocates_after_construction() {
    for row in POLICIES {
        let mut scheduler = row.build(QueueLimits::DEFAULT, &row.defaults());
        let before = ALLOCATIONS.get();
        let served = load(&mut scheduler, 50_000);
        let after = ALLOCATIONS.get();
        assert!(served > 10_000, "{}: served {served}, or lost count of who waits", row.name);
        assert_eq!(after - before, 0, "{} allocates", row.name);
    }
    for name in ["bid-hdd", "bid-hybrid"] {
        let row = ioweir_core::policy::find(name).unwrap();
        let mut settings = row.defaults();
        row.set(&mut settings, "staging", 1).unwrap();
        let limits = QueueLimits { fast_sectors: 1 << 20, ..QueueLimits::with_requests(8) };
        let mut scheduler = row.build(limits, &settings);
        let before = ALLOCATIONS.get();
        let served = load(&mut scheduler, 50_000);
        assert!(served > 10_000, "{name}:staging=outside: served {served}, or lost count of who waits");
        assert_eq!(ALLOCATIONS.get() - before, 0, "{name}:staging=outside allocates");
    }
    for (row, elevator) in orders().flat_map(|row| elevators().map(move |elevator| (row.name, elevator.name))) {
        let mut scheduler = pair(row, elevator, 8, QueueLimits { depth: 2, ..QueueLimits::with_requests(8) });
        let before = ALLOCATIONS.get();
        let served = load(&mut scheduler, 5_000);
        let after = ALLOCATIONS.get();
        assert!(served > 500, "{row}+{elevator}: served {served}, or lost count of who waits");
        assert_eq!(after - before, 0, "{row}+{elevator} allocates");
    }
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_ne!(ALLOCATIONS.get(), before, "the counter counts");
}

/// As [`load`], for what schedules cores: as many workers at random, each in a turn of its own.
fn load_cores(cores: &mut Cores, steps: u64) -> u64 {
    let mut random = Random(1);
    let mut now = Nanos::ZERO;
    let mut suspended = [None; 16];
    let mut served = 0;
    for _ in 0..steps {
        now = now.after(Nanos(random.below(200_000)));
        let kind = Kind::ALL[random.below(3) as usize];
        let source = [Source::Client, Source::Client, Source::Background, Source::Critical][random.below(4) as usize];
        let deadline = (random.below(3) == 0).then(|| now.after(Nanos(random.below(5_000_000))));
        let _ = cores.submit(now, Work { kind, source, bytes: 4096, sequential: random.below(2) == 0, deadline });
        let worker = random.below(3) as u32;
        let log = Log {
            logged_bytes: random.below(1 << 40),
            room_bytes: random.below(1 << 30),
            flushing_bytes: random.below(3) << 30,
            points: random.below(4),
        };
        if cores.next(now, worker, log) == Turn::Idle {
            continue;
        }
        while let Some(run) = cores.take(now, worker) {
            now = now.after(Nanos(random.below(500_000)));
            let place = &mut suspended[random.below(16) as usize];
            match random.below(4) {
                0 => cores.preempted(now, worker, run.tag, run.allowance),
                1 if place.is_none() => {
                    cores.suspended(now, worker, run.tag, Nanos(1000));
                    *place = Some(run.tag);
                }
                _ => {
                    cores.finished(now, worker, run.tag, Nanos(2000));
                    served += 1;
                }
            }
            if let Some(tag) = suspended[random.below(16) as usize].take() {
                cores.restarted(now, tag);
            }
        }
    }
    served
}

#[test]
fn no_schedule_of_cores_allocates_after_construction() {
    for row in SCHEDULES {
        let limits = CoresLimits { requests: 64, workers: 3, cores: 4, seed: 1 };
        let mut cores = Cores::new(row.schedule(&row.defaults()), limits).unwrap();
        let before = ALLOCATIONS.get();
        let served = load_cores(&mut cores, 20_000);
        let after = ALLOCATIONS.get();
        assert!(served > 10_000, "{}: served {served}", row.name);
        assert_eq!(after - before, 0, "{} allocates", row.name);
    }
}

/// Owes, wants, plans and pays at random; answers with how many slices were done.
fn background_load(executor: &mut Executor, steps: u64) -> u64 {
    let mut random = Random(1);
    let (mut now, mut done) = (Nanos::ZERO, 0);
    let mut running = [None; 8];
    for _ in 0..steps {
        now = now.after(Nanos::from_millis(random.below(2000)));
        for place in &mut running {
            if let Some(slice) = place.take() {
                let slice: background::Slice = slice;
                executor.complete(now, slice.tag, random.below(slice.blocks + 2), Nanos(random.below(1 << 30)));
                done += 1;
            }
        }
        let service = Service::ALL[random.below(12) as usize];
        let batch = executor.service(service).batch(now, random.below(100));
        executor.incur(now, service, batch);
        executor.felt(now, random.below(8) == 0);
        executor.foreground(now, random.below(9) as u32);
        let reserve_units = random.below(9) as u32;
        executor.adopt(
            now,
            &[Directive { from: now, reserve_units, pressing: random.below(2) == 0, ..Directive::NONE }; 4],
        );
        while let background::Step::Run(slice) = executor.poll(now) {
            running[slice.tag.place()] = Some(slice);
        }
    }
    done
}

#[test]
fn background_executor_allocates_nothing_after_construction() {
    let watermark = Watermark { low_per_mille: 0, high_per_mille: 500 };
    for bucket in [Bucket::Planned, Bucket::Fixed { watermark, harvests: true }] {
        let mut executor = Executor::new(background::Settings {
            resource: background::Resource::Cores(8),
            operation: Nanos::from_millis(50),
            slice: Nanos::from_millis(100),
            grace: Nanos::from_millis(500),
            headroom_units: 0,
            forces: true,
            calm: Nanos::from_seconds(1),
            bucket,
            pool: Pool { blocks: 10_000, used_blocks: 0, floor_blocks: 500, alarm_blocks: 1000 },
            services: SERVICES.each_ref().map(|row| row.defaults()),
            batches_max: 16,
            directives_max: 4,
        });
        let before = ALLOCATIONS.get();
        let done = background_load(&mut executor, 20_000);
        let after = ALLOCATIONS.get();
        assert!(done > 10_000, "{bucket:?}: {done} slices");
        assert_eq!(after - before, 0, "{bucket:?} allocates");
    }
}

/// Hears nothing.
struct Quiet;

impl Caller for Quiet {}

#[test]
fn driver_allocates_nothing_while_holding_back() {
    for row in POLICIES {
        let limits = QueueLimits { depth: 4, ..QueueLimits::with_requests(8) };
        let scheduler = row.build(limits, &row.defaults());
        let mut driver = Driver::new(scheduler, &limits, Capacity { held: 1_000, classes: 100 });
        let mut random = Random(3);
        let (mut now, mut ended, mut refused) = (Nanos::ZERO, 0, 0);
        let mut flights = [None; 8];
        let before = ALLOCATIONS.get();
        for _ in 0..20_000 {
            now = now.after(Nanos(random.below(1_000_000)));
            if let Some(dispatch) = flights[random.below(8) as usize].take() {
                driver.complete(now, &dispatch, |finished| ended += u64::from(finished.is_last));
            }
            driver.retry(now, &mut Quiet);
            if driver.held() < 1_000
                && let Some(request) = driver.open()
            {
                let operation = Operation::ALL[random.below(2) as usize];
                let (flags, stream) = (Flags::NONE, StreamId(random.below(100) as u32));
                let (sector, sectors) = (random.below(1 << 20), random.below(4_000) + 1);
                let whole = ClientRequest { operation, flags, stream, sector, sectors };
                refused += u64::from(driver.submit(now, request, 0, whole, &mut Quiet).is_err());
            }
            while let Some(place) = flights.iter_mut().find(|flight| flight.is_none())
                && let Step::Dispatch(dispatch) = driver.poll(now)
            {
                *place = Some(dispatch);
            }
            driver.settle(now);
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "{} allocates", row.name);
        assert!(ended > 300 && refused == 0, "{}: {ended} ended, {refused} refused", row.name);
    }
}
