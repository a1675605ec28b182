//! Banks of equal disks on which data lie at random, in closed form.
//!
//! Each disk serves one request at a time, in the order of arrival; its state is the time at which it becomes free. This is the
//! array of queueing models of storage servers: a request finds the queue of a disk, and no addresses, heads or caches.

use std::ops::Range;

use ioweir_core::{Dispatch, Nanos, Operation, SECTOR_BYTES, Tier};

use super::check::{fail, numbers, times};
use super::{Device, Model, Service};
use crate::random::Random;
use ioweir_config::{Complaint, Duration, Ratio, Size, keys};

/// The most disks of a bank.
const DISKS_MAX: u32 = 1024;

keys! {
    /// Equal disks, each of which serves one request at a time, in the order of arrival. A read goes to one of them, drawn at random. A
    /// write is spread over `stripe` neighbours, of which the first is drawn. Flushes and discards take no time.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BankSpec {
        /// the size that the host sees
        capacity: Size = required,
        /// the number of disks
        disks: u32 = required,
        /// the fixed time of every access to a disk
        access: Duration = (Duration::default()),
        /// the mean of a read's further time, which is exponentially distributed
        access_random: Duration = (Duration::default()),
        /// the time of each whole KiB that a disk moves
        per_kib: Duration = (Duration::default()),
        /// the number of disks among which the data of a write are divided, with an access on each
        stripe: u32 = (1),
        /// a cache before the disks: { hits = 0.75, access = "150us", per_kib = "2us" }
        cache: Option<BankCacheSpec> = absent,
    }
}

keys! {
    /// A cache of a bank. Reads that it serves find no queue; writes go to the disks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BankCacheSpec {
        /// the share of reads that it serves
        hits: Ratio = required,
        /// the time of a read
        access: Duration = (Duration::default()),
        /// the time of each whole KiB of it
        per_kib: Duration = (Duration::default()),
    }
}

/// The disks of a bank. Draws are the caller's, so that a simulator can give each request draws of its own.
#[derive(Clone, Debug)]
pub struct Bank {
    access_nanos: u64,
    kib_nanos: u64,
    stripe: usize,
    /// When each disk becomes free.
    free: Box<[u64]>,
    busy_nanos: u64,
}

impl Bank {
    /// Disks that are free, as many as the spec says, and one at least.
    #[must_use]
    pub fn new(spec: &BankSpec) -> Self {
        let disks = spec.disks.clamp(1, DISKS_MAX) as usize;
        Self {
            access_nanos: spec.access.nanos().0,
            kib_nanos: spec.per_kib.nanos().0,
            stripe: (spec.stripe.max(1) as usize).min(disks),
            free: vec![0; disks].into(),
            busy_nanos: 0,
        }
    }

    /// The number of disks.
    #[must_use]
    pub fn disks(&self) -> u32 {
        u32::try_from(self.free.len()).unwrap_or(u32::MAX)
    }

    /// The time that all disks together have worked, or will have once they have done what they were given.
    #[must_use]
    pub const fn busy_nanos(&self) -> u64 {
        self.busy_nanos
    }

    /// Reads so many bytes from a disk of this number, where the random part of the access takes `random_nanos`. Returns when the
    /// disk begins and ends.
    pub fn read(&mut self, now: Nanos, bytes: u64, disk: u32, random_nanos: u64) -> Range<Nanos> {
        let nanos = self.nanos(bytes >> 10).saturating_add(random_nanos);
        self.occupy(disk as usize, now, nanos)
    }

    /// Writes so many bytes to the disks from this number on. Returns when the disk begins and ends that is done last.
    pub fn write(&mut self, now: Nanos, bytes: u64, first: u32) -> Range<Nanos> {
        let nanos = self.nanos((bytes >> 10) / self.stripe as u64);
        let disks = first as usize..first as usize + self.stripe;
        let last = disks.map(|disk| self.occupy(disk, now, nanos)).max_by_key(|span| span.end);
        last.unwrap_or(now..now)
    }

    fn nanos(&self, kib: u64) -> u64 {
        self.access_nanos.saturating_add(self.kib_nanos.saturating_mul(kib))
    }

    fn occupy(&mut self, disk: usize, now: Nanos, nanos: u64) -> Range<Nanos> {
        let disks = self.free.len();
        let free = &mut self.free[disk % disks];
        let begin = now.0.max(*free);
        *free = begin.saturating_add(nanos);
        self.busy_nanos = self.busy_nanos.saturating_add(nanos);
        Nanos(begin)..Nanos(*free)
    }
}

/// A bank as a device, with draws of its own.
struct BankDevice {
    sectors: u64,
    bank: Bank,
    random_nanos: u64,
    cache: Option<BankCacheSpec>,
    draws: Random,
}

impl Model for BankSpec {
    fn check(&self) -> Result<(), Complaint> {
        if self.capacity.0 < SECTOR_BYTES {
            return fail("bank.capacity", format!("{} is less than a sector", self.capacity), "give at least 512B");
        }
        numbers("bank", &[("disks", self.disks, 1, DISKS_MAX), ("stripe", self.stripe, 1, self.disks)])?;
        let parts = [("access", self.access), ("access_random", self.access_random), ("per_kib", self.per_kib)];
        times("bank", &parts)?;
        self.cache.map_or(Ok(()), |cache| times("bank.cache", &[("access", cache.access), ("per_kib", cache.per_kib)]))
    }

    fn rotates(&self) -> bool {
        true
    }

    fn queue_depth(&self) -> u32 {
        self.disks.saturating_mul(32)
    }

    fn serves_at_once(&self) -> u32 {
        self.disks
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Device>, Complaint> {
        self.check()?;
        Ok(Box::new(BankDevice {
            sectors: self.capacity.0 / SECTOR_BYTES,
            bank: Bank::new(self),
            random_nanos: self.access_random.nanos().0,
            cache: self.cache,
            draws: Random::new(seed),
        }))
    }
}

impl Device for BankDevice {
    fn serve(&mut self, now: Nanos, dispatch: &Dispatch) -> Service {
        if !matches!(dispatch.operation, Operation::Read | Operation::Write) {
            return Service { finish: now, ..Service::default() };
        }
        let end = dispatch.sector.saturating_add(u64::from(dispatch.sectors)).min(self.sectors);
        let bytes = end.saturating_sub(dispatch.sector) * SECTOR_BYTES;
        if let Some(cache) = self.cache.filter(|_| dispatch.operation == Operation::Read)
            && self.draws.chance(cache.hits)
        {
            let (overhead_nanos, kib_nanos) = (cache.access.nanos().0, cache.per_kib.nanos().0);
            let transfer_nanos = kib_nanos.saturating_mul(bytes >> 10);
            let finish = now.after(Nanos(overhead_nanos)).after(Nanos(transfer_nanos));
            return Service { finish, overhead_nanos, transfer_nanos, tier: Tier::Fast, ..Service::default() };
        }
        let disk = self.draws.below(self.bank.disks().into()) as u32;
        let span = if dispatch.operation == Operation::Read {
            let random_nanos = self.draws.exponential(self.random_nanos);
            self.bank.read(now, bytes, disk, random_nanos)
        } else {
            self.bank.write(now, bytes, disk)
        };
        let work_nanos = span.end.since(span.start).0;
        let overhead_nanos = self.bank.access_nanos.min(work_nanos);
        Service {
            finish: span.end,
            overhead_nanos,
            transfer_nanos: work_nanos - overhead_nanos,
            queue_nanos: span.start.since(now).0,
            ..Service::default()
        }
    }

    fn sectors(&self) -> u64 {
        self.sectors
    }
}

#[cfg(test)]
mod tests {
    use ioweir_core::{Flags, Request, StreamId};

    use super::super::DeviceSpec;
    use super::*;

    fn device(keys: &str, seed: u64) -> Box<dyn Device> {
        let text = format!("[bank]\ncapacity = \"1TB\"\n{keys}\n");
        DeviceSpec::parse("bank.toml", &text)
            .and_then(|spec| spec.build(seed))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn serve(device: &mut dyn Device, now: u64, operation: Operation, sectors: u32) -> Service {
        let request = Request { operation, flags: Flags::NONE, stream: StreamId(0), sector: 8, sectors };
        device.serve(Nanos(now), &Dispatch::alone(&request))
    }

    #[test]
    fn disk_serves_in_order_of_arrival() {
        let mut one = device("disks = 1\naccess = \"3ms\"\nper_kib = \"8us\"", 1);
        let mut at = |now, operation, sectors| {
            let service = serve(&mut *one, now, operation, sectors);
            (service.finish.0, service.queue_nanos, service.overhead_nanos, service.transfer_nanos)
        };
        assert_eq!(at(0, Operation::Read, 32), (3_128_000, 0, 3_000_000, 128_000));
        assert_eq!(at(1_000_000, Operation::Write, 8), (6_160_000, 2_128_000, 3_000_000, 32_000));
        assert_eq!(at(1_000_000, Operation::Flush, 0), (1_000_000, 0, 0, 0));
        assert_eq!(at(9_000_000, Operation::Read, 2), (12_008_000, 0, 3_000_000, 8_000));
    }

    #[test]
    fn cached_reads_find_no_queue() {
        let mut bank =
            device("disks = 1\naccess = \"3ms\"\ncache = { hits = 0.75, access = \"150us\", per_kib = \"2us\" }", 1);
        let spans: Vec<u64> = (0..4_000).map(|_| serve(&mut *bank, 0, Operation::Read, 8).finish.0).collect();
        let hits = spans.iter().filter(|span| **span == 158_000).count();
        assert!(hits.abs_diff(3_000) < 100, "{hits}");
        assert_eq!(spans.iter().max(), Some(&(3_000_000 * (4_000 - hits as u64))), "the others queue for the disk");
        assert!(serve(&mut *bank, 0, Operation::Write, 8).finish > Nanos(158_000));
    }

    #[test]
    fn write_divides_its_data_among_stripe() {
        let mut bank = device("disks = 8\naccess = \"1ms\"\nper_kib = \"10us\"\nstripe = 8", 1);
        // 64 KiB are 8 KiB on each disk, and every disk is busy with them.
        assert_eq!(serve(&mut *bank, 0, Operation::Write, 128).finish, Nanos(1_080_000));
        assert_eq!(serve(&mut *bank, 0, Operation::Read, 2).finish, Nanos(2_090_000));
        let spec = BankSpec { stripe: 2, ..spec(4) };
        let mut bank = Bank::new(&spec);
        assert_eq!(bank.write(Nanos(0), 8192, 3), Nanos(0)..Nanos(1_040));
        // The last disk has the first as its neighbour.
        let begins = [3, 0, 1, 2].map(|disk| bank.read(Nanos(0), 0, disk, 0).start.0);
        assert_eq!((begins, bank.busy_nanos()), ([1_040, 1_040, 0, 0], 2 * 1_040 + 4 * 1_000));
    }

    fn spec(disks: u32) -> BankSpec {
        BankSpec {
            capacity: Size(1 << 40),
            disks,
            access: Duration::new(Nanos(1_000)),
            access_random: Duration::default(),
            per_kib: Duration::new(Nanos(10)),
            stripe: 1,
            cache: None,
        }
    }

    /// The mean time of reads that arrive at `rate` a second, in milliseconds.
    fn mean_response(keys: &str, rate: f64, seed: u64) -> f64 {
        let (mut bank, mut arrivals) = (device(keys, seed), Random::stream(seed, 77));
        let (mut now, mut sum, count) = (0, 0.0, 400_000);
        for _ in 0..count {
            now += arrivals.exponential((1e9 / rate) as u64);
            sum += (serve(&mut *bank, now, Operation::Read, 8).finish.0 - now) as f64;
        }
        sum / f64::from(count) / 1e6
    }

    #[test]
    fn random_split_is_queue_of_each_disk() {
        // Each of four disks is a queue of its own under a quarter of the load. M/M/1: 4 ms / (1 - 0.7).
        let exponential = mean_response("disks = 4\naccess_random = \"4ms\"", 4.0 * 0.7 / 0.004, 1);
        assert!((exponential / (4.0 / 0.3) - 1.0).abs() < 0.03, "{exponential}");
        // M/D/1, Pollaczek and Khinchine: 4 ms * (1 + 0.7 / 2 / (1 - 0.7)).
        let fixed = mean_response("disks = 4\naccess = \"4ms\"", 4.0 * 0.7 / 0.004, 1);
        assert!((fixed / (4.0 * (1.0 + 0.35 / 0.3)) - 1.0).abs() < 0.03, "{fixed}");
        // Half fixed and half exponential: a squared coefficient of variation of a quarter.
        let both = mean_response("disks = 4\naccess = \"2ms\"\naccess_random = \"2ms\"", 4.0 * 0.7 / 0.004, 1);
        assert!((both / (4.0 * (1.0 + 0.35 * 1.25 / 0.3)) - 1.0).abs() < 0.03, "{both}");
    }

    #[test]
    fn senseless_bank_is_refused() {
        for (keys, at) in [
            ("disks = 0", "bank.disks: is 0"),
            ("disks = 4\nstripe = 5", "bank.stripe: is 5"),
            ("disks = 4\naccess = \"5s\"", "bank.access: 5s is longer"),
        ] {
            let text = format!("[bank]\ncapacity = \"1TB\"\n{keys}\n");
            let error = DeviceSpec::parse("bank.toml", &text).expect_err(keys).to_string();
            assert!(error.contains(at), "{keys}: {error}");
        }
    }
}
