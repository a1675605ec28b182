//! Traffic of a job from its mix: readers, write-back and the journal each have a clock, and the earliest sender goes next.

use ioweir_core::{Flags, Nanos, Operation, SECTOR_BYTES, StreamId};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::mixes::{Burst, JobMix, Weighted};
use ioweir_trace::{BATCH_RECORDS, Names, Record, TraceError, TraceSource};

/// The first pid of the generated streams.
const FIRST_PID: u32 = 1000;
/// The distance between requests of the journal.
const JOURNAL_SECTORS: u64 = 262_144;

/// A sender of requests.
#[derive(Clone, Debug)]
struct Sender {
    role: Role,
    /// The time of the sender's next request.
    next: Nanos,
    /// The start of the sender's next sequential request.
    sector: u64,
    /// The number of requests until the sender jumps or waits.
    left: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Reader,
    WriteBack(Burst),
    Journal,
}

/// A job being generated.
pub struct JobGenerator {
    mix: &'static JobMix,
    random: Pcg64Mcg,
    senders: Vec<Sender>,
    left: u64,
    first: Option<Nanos>,
    names: Names,
}

impl JobGenerator {
    /// Starts the traffic of a job with this number of requests and readers; `None` means the mix's own number of readers.
    #[must_use]
    pub fn new(mix: &'static JobMix, requests: u64, readers: Option<u32>, seed: u64) -> Self {
        let readers = readers.unwrap_or(mix.readers);
        let mut roles: Vec<Role> = (0..readers).map(|_| Role::Reader).collect();
        roles.extend(mix.bulk.map(Role::WriteBack));
        roles.extend(mix.small.map(Role::WriteBack));
        roles.push(Role::Journal);
        let name = |(number, role): (u32, &Role)| {
            let command = match role {
                Role::Reader => "reader",
                Role::WriteBack(_) => "write-back",
                Role::Journal => "journal",
            };
            format!("{} {command}", FIRST_PID + number)
        };
        let streams = (0..).zip(&roles).map(name).collect();
        let senders = roles.into_iter().map(|role| Sender { role, next: Nanos::ZERO, sector: 0, left: 0 }).collect();
        let mut generator = Self {
            mix,
            random: Pcg64Mcg::seed_from_u64(seed),
            senders,
            left: requests,
            first: None,
            names: Names { streams, volumes: vec!["generated".into()] },
        };
        for place in 0..generator.senders.len() {
            generator.senders[place].next = match generator.senders[place].role {
                // Tasks start at different times.
                Role::Reader => Nanos(generator.below(generator.mix.read_pause.0 + 1)),
                Role::WriteBack(burst) => generator.about(burst.interval),
                Role::Journal => generator.about(generator.mix.journal_interval),
            };
        }
        generator
    }

    /// A number below `bound`, which is not zero; its bias is below one in 2^32.
    fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.random.next_u64()) * u128::from(bound.max(1));
        (product >> 64) as u64
    }

    /// A time between half of `span` and one and a half times `span`.
    fn about(&mut self, span: Nanos) -> Nanos {
        Nanos(span.0 / 2 + self.below(span.0 + 1))
    }

    /// The time from a reader's request to its next.
    fn gap(&mut self) -> Nanos {
        let place = self.below(self.mix.read_gaps.len() as u64) as usize;
        self.about(self.mix.read_gaps[place])
    }

    fn sectors(&mut self, table: &[Weighted]) -> u64 {
        let total: u64 = table.iter().map(|row| u64::from(row.weight)).sum();
        let mut draw = self.below(total);
        for row in table {
            match draw.checked_sub(u64::from(row.weight)) {
                Some(rest) => draw = rest,
                None => return u64::from(row.sectors),
            }
        }
        1
    }

    fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    /// The start of a request: where the previous one ended, or a random multiple of 4 KiB.
    fn place(&mut self, sender: &Sender, sectors: u64, goes_on: bool) -> u64 {
        let end = self.mix.sectors;
        if goes_on && sender.sector + sectors <= end { sender.sector } else { self.below((end - sectors) / 8) * 8 }
    }

    fn record(&mut self) -> Option<Record> {
        // Ties go to the first sender, so that every build generates the same trace.
        let (number, _) = self.senders.iter().enumerate().min_by_key(|(number, sender)| (sender.next, *number))?;
        let mut sender = self.senders[number].clone();
        let time = sender.next;
        let (operation, flags, sectors) = match sender.role {
            Role::Reader => self.read(&mut sender),
            Role::WriteBack(burst) => self.write_back(&mut sender, burst),
            Role::Journal => {
                let sectors = self.sectors(self.mix.journal_sectors);
                sender.sector = self.mix.sectors / 2 + self.below(JOURNAL_SECTORS / 8) * 8;
                sender.next = time.after(self.about(self.mix.journal_interval));
                (Operation::Write, Flags::SYNC.with(Flags::METADATA), sectors)
            }
        };
        let sector = sender.sector;
        sender.sector += sectors;
        self.senders[number] = sender;
        let first = *self.first.get_or_insert(time);
        Some(Record {
            time: time.since(first),
            offset_bytes: sector * SECTOR_BYTES,
            length_bytes: sectors * SECTOR_BYTES,
            operation,
            flags,
            stream: StreamId(number as u32),
            volume: 0,
            priority: ioweir_core::Priority::NONE,
            latency: None,
        })
    }

    fn read(&mut self, sender: &mut Sender) -> (Operation, Flags, u64) {
        let sectors = self.sectors(self.mix.read_sectors);
        let another_file = sender.left == 0;
        let goes_on = !another_file && self.chance(self.mix.read_sequential_per_mille);
        sender.left = if another_file { self.mix.reads_a_file.max(1) } else { sender.left } - 1;
        sender.sector = self.place(sender, sectors, goes_on);
        let wait = if sender.left == 0 { self.about(self.mix.read_pause) } else { Nanos::ZERO };
        sender.next = sender.next.after(self.gap()).after(wait);
        // A single page is metadata; longer requests were read ahead.
        let flags = if sectors <= 8 { Flags::METADATA } else { Flags::READ_AHEAD };
        (Operation::Read, flags, sectors)
    }

    fn write_back(&mut self, sender: &mut Sender, burst: Burst) -> (Operation, Flags, u64) {
        if sender.left == 0 {
            // From 1 to twice the mean, so that the mean is right.
            sender.left = 1 + self.below(u64::from(2 * burst.requests - 1)) as u32;
        }
        let sectors = self.sectors(burst.sectors);
        let goes_on = self.chance(burst.sequential_per_mille);
        sender.sector = self.place(sender, sectors, goes_on);
        sender.left -= 1;
        let wait = if sender.left == 0 { burst.interval } else { burst.gap };
        sender.next = sender.next.after(self.about(wait));
        let flags = if burst.metadata { Flags::METADATA } else { Flags::NONE };
        (Operation::Write, flags, sectors)
    }
}

impl TraceSource for JobGenerator {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        let count = self.left.min(BATCH_RECORDS as u64);
        self.left -= count;
        for _ in 0..count {
            batch.extend(self.record());
        }
        Ok(())
    }

    fn names(&self) -> &Names {
        &self.names
    }
}
