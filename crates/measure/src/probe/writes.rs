//! Probes that write, into a scratch file: a burst up to the point where it slows down, the writes after it, reads beside writes, and
//! trims.

use ioweir_config::{Duration, Size, format_bytes};
use ioweir_core::Nanos;
use ioweir_device::parameter::Amount;
use ioweir_device::random::Random;

use super::facts::{Facts, median};
use super::measured;
use super::plan::KIB_4;
use ioweir_block::NbdError;
use ioweir_block::backend::Action;
use ioweir_block::real::{Completed, Halt, Ring};
use ioweir_device::validate::Measured;

const KIB_32: u64 = 32 << 10;
const KIB_128: u64 = 128 << 10;
/// Single writes and reads, one at a time.
const SINGLE: usize = 200;
/// Longer ones, and short ones of which so many are in flight: all of them fit into the buffer of most drives.
const SINGLE_LONG: usize = 30;
const AT_ONCE: usize = 200;
const AT_ONCE_DEPTH: usize = 16;
/// Writes in flight in a burst, and beside reads.
const BURST_DEPTH: usize = 32;
const BESIDE_DEPTH: usize = 4;
/// Reads beside writes.
const BESIDE_READS: usize = 500;
/// How long nothing is asked before a burst and before reads that are to be alone.
const REST: Nanos = Nanos::from_millis(1_000);
/// The parts of the time, in percent, at which the burst ends, and reads beside writes.
const BURST_PERCENT: u64 = 70;
const BESIDE_PERCENT: u64 = 85;
/// A trim that fails where none can be done, instead of doing nothing.
const TRIM: Action = Action::Zero { keep: false, fast: true };
/// A write that completes in the buffer of a disk takes less than this part of a revolution. A write on the medium waits for its place
/// after a seek, so that of many at random not one in twenty is as fast.
const BUFFERED_PART: f64 = 0.125;
const FASTEST_PART: usize = 20;
/// The buffer of a drive that no burst fills.
const BUFFER_UNSEEN_BYTES: u64 = 64 << 20;
/// A burst has a knee if its rate before it is at least so many times that after it.
const KNEE: f64 = 1.5;

/// The results of write probes. A result is absent if there was no time for it, or the device does not do it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// The median of single writes of 4 KiB.
    pub single_nanos: Option<f64>,
    /// The longest of the fastest twentieth of them.
    pub single_fast_nanos: Option<f64>,
    /// Bytes a second of a burst, up to its knee.
    pub burst_bytes_per_second: Option<f64>,
    /// Bytes a second after the knee, or all along if there is none.
    pub sustained_bytes_per_second: Option<f64>,
    /// Bytes written up to the knee, and how many of them the device still held then.
    pub knee: Option<(u64, u64)>,
    /// The median and the 99 % quantile of single reads of 4 KiB.
    pub reads_alone_nanos: Option<(f64, f64)>,
    /// The median and the 99 % quantile of single reads of 4 KiB beside writes.
    pub reads_beside_nanos: Option<(f64, f64)>,
    /// The median of single trims of 128 KiB.
    pub trim_nanos: Option<f64>,
    /// The median and the 99 % quantile of single reads of 4 KiB beside trims.
    pub reads_beside_trims_nanos: Option<(f64, f64)>,
    /// Writes that a model is fitted to: single short ones, single longer ones, and short ones of which several are in flight, with the
    /// number of the kind.
    pub requests: Vec<(Measured, usize)>,
    /// How long nothing was asked for before the first of them.
    pub rest_nanos: u64,
    /// Operations that the device failed.
    pub failed: u64,
    /// Bytes that were written.
    pub bytes: u64,
}

/// Writes into a file of this size, for `span` at most.
///
/// # Errors
/// If the device does not answer, or whoever watches asked to stop.
pub fn run_writes(ring: &mut Ring, size_bytes: u64, seed: u64, span: Nanos) -> Result<Written, Halt> {
    let begin = ring.now();
    let end = begin.after(span);
    let mut run = Run { ring, end, written: Written::default() };
    let mut random = Random::stream(seed, 5);
    let at = |percent| begin.after(Nanos(span.0 / 100 * percent));
    let mut place = move |length| random.below((size_bytes - length) / KIB_4 + 1) * KIB_4;
    let mut random =
        |action, count, length| -> Vec<Operation> { (0..count).map(|_| (action, place(length), length)).collect() };
    let [reads, later] = [(), ()].map(|()| random(Action::Read, SINGLE, KIB_4));
    let single = |length| (1, SINGLE_LONG, length);
    let kinds = [(1, SINGLE, KIB_4), single(KIB_32), (AT_ONCE_DEPTH, AT_ONCE, KIB_4), single(KIB_128)];
    let mut singles = Vec::new();
    run.written.rest_nanos = REST.0;
    for (kind, (depth, count, length)) in kinds.into_iter().enumerate() {
        run.rest()?;
        let mut writes = run.all(depth, random(Action::Write, count, length))?;
        writes.sort_unstable_by_key(|write| write.token);
        run.written.requests.extend(writes.iter().map(|write| (measured(write), kind)));
        if kind == 0 {
            singles = latencies(&writes, Action::Write);
        }
    }
    run.written.single_nanos = median(&mut singles);
    run.written.single_fast_nanos = singles.get(singles.len() / FASTEST_PART).copied();
    run.rest()?;
    let mut alone = latencies(&run.all(1, reads)?, Action::Read);
    run.written.reads_alone_nanos = quantiles(&mut alone);
    run.burst(size_bytes, at(BURST_PERCENT))?;
    let places = (size_bytes / KIB_128).max(1);
    let in_turn =
        |action, from: u64, count: u64| (0..count).map(move |at| (action, (from + at) % places * KIB_128, KIB_128));
    run.end = at(BESIDE_PERCENT);
    run.written.reads_beside_nanos = run.beside(in_turn(Action::Write, 0, u64::MAX), &later)?;
    run.end = end;
    run.rest()?;
    // Only written blocks are trimmed: a trim of other blocks would do nothing. A quarter is trimmed alone, another one beside reads of the
    // rest.
    let (half, quarter) = (places / 2, places / 4);
    let singles = quarter.min(SINGLE as u64);
    run.written.trim_nanos = median(&mut latencies(&run.all(1, in_turn(TRIM, half, singles))?, TRIM));
    if run.written.trim_nanos.is_some() {
        let kept: Vec<Operation> = later.iter().filter(|read| read.1 < half * KIB_128).copied().collect();
        run.written.reads_beside_trims_nanos = run.beside(in_turn(TRIM, half + quarter, quarter), &kept)?;
    }
    Ok(run.written)
}

/// An operation: the action, its offset and its length.
type Operation = (Action, u64, u64);

struct Run<'a> {
    ring: &'a mut Ring,
    end: Nanos,
    written: Written,
}

impl Run<'_> {
    /// Carries out operations, so many at once, until there are none or the time is over.
    fn all(&mut self, depth: usize, operations: impl IntoIterator<Item = Operation>) -> Result<Vec<Completed>, Halt> {
        let (mut operations, mut all, mut done) = (operations.into_iter(), Vec::new(), Vec::new());
        let mut token = 0;
        loop {
            while self.ring.in_flight() < depth && self.ring.now() < self.end {
                let Some((action, offset, length)) = operations.next() else { break };
                self.ring.start(token, action, offset, length);
                token += 1;
            }
            if self.ring.in_flight() == 0 {
                return Ok(all);
            }
            self.ring.wait(Nanos::NEVER, &mut done)?;
            for one in done.drain(..) {
                self.count(&one);
                all.extend(one.result.is_ok().then_some(one));
            }
        }
    }

    /// Asks for nothing for a while.
    fn rest(&mut self) -> Result<(), Halt> {
        let until = self.ring.now().after(REST).min(self.end);
        self.ring.wait(until, &mut Vec::new())
    }

    /// Writes from the front of the file to its end, again and again, until a time.
    fn burst(&mut self, size_bytes: u64, until: Nanos) -> Result<(), Halt> {
        self.rest()?;
        let (begin, end) = (self.ring.now(), std::mem::replace(&mut self.end, until));
        let places = size_bytes / KIB_128;
        let all =
            self.all(BURST_DEPTH, (0_u64..).map(|number| (Action::Write, number % places.max(1) * KIB_128, KIB_128)))?;
        self.end = end;
        let mut sum = 0;
        let points: Vec<(f64, u64)> = all
            .iter()
            .map(|one| {
                sum += one.length;
                (one.completed.since(begin).0 as f64 / 1e9, sum)
            })
            .collect();
        let Some(&(seconds, bytes)) = points.last().filter(|(seconds, _)| *seconds > 0.0) else { return Ok(()) };
        self.written.sustained_bytes_per_second = Some(bytes as f64 / seconds);
        // The knee is the point at which the written bytes lie furthest above the straight line from the beginning to the end.
        let above = |&(at, sum): &(f64, u64)| sum as f64 - bytes as f64 * at / seconds;
        let knee = points.iter().copied().filter(|(at, _)| *at > 0.0 && *at < seconds);
        let Some(knee) = knee.max_by(|one, other| above(one).total_cmp(&above(other))) else { return Ok(()) };
        let (burst, sustained) = (knee.1 as f64 / knee.0, (bytes - knee.1) as f64 / (seconds - knee.0));
        if burst > sustained * KNEE {
            self.written.burst_bytes_per_second = Some(burst);
            self.written.sustained_bytes_per_second = Some(sustained);
            self.written.knee = Some((knee.1, knee.1.saturating_sub((sustained * knee.0) as u64)));
        }
        Ok(())
    }

    /// Reads one at a time while other operations go on, until there are no more of either or the time is over.
    fn beside(
        &mut self,
        others: impl IntoIterator<Item = Operation>,
        reads: &[Operation],
    ) -> Result<Option<(f64, f64)>, Halt> {
        let (mut others, mut times, mut done) = (others.into_iter(), Vec::new(), Vec::new());
        let mut reads = reads.iter().cycle().take(BESIDE_READS);
        let (mut is_reading, mut is_over) = (false, false);
        loop {
            is_over |= self.ring.now() >= self.end;
            while !is_over && self.ring.in_flight() < BESIDE_DEPTH + usize::from(is_reading) {
                match others.next() {
                    Some((action, offset, length)) => self.ring.start(0, action, offset, length),
                    None => is_over = true,
                }
            }
            if !is_over && !is_reading {
                match reads.next() {
                    Some((action, offset, length)) => self.ring.start(1, *action, *offset, *length),
                    None => is_over = true,
                }
                is_reading = !is_over;
            }
            if self.ring.in_flight() == 0 {
                break;
            }
            self.ring.wait(Nanos::NEVER, &mut done)?;
            for one in done.drain(..) {
                is_reading &= one.action != Action::Read;
                self.count(&one);
                if one.action == Action::Read && one.result.is_ok() {
                    times.push(one.latency().0 as f64);
                }
            }
        }
        Ok(quantiles(&mut times))
    }

    /// Counts a completed operation: the bytes written, or a failure.
    fn count(&mut self, one: &Completed) {
        match one.result {
            Ok(()) if one.action == Action::Write => self.written.bytes += one.length,
            Ok(()) => {}
            // Some file systems cannot free a part of a file.
            Err(NbdError::NotSupported) if one.action == TRIM => {}
            Err(_) => self.written.failed += 1,
        }
    }
}

fn latencies(all: &[Completed], action: Action) -> Vec<f64> {
    all.iter().filter(|one| one.action == action).map(|one| one.latency().0 as f64).collect()
}

/// The median, and the 99 % quantile.
fn quantiles(times: &mut [f64]) -> Option<(f64, f64)> {
    let median = median(times)?;
    Some((median, *times.get(times.len() * 99 / 100)?))
}

impl Written {
    /// The parameters of a flash drive that follow from this: its write buffer and the time of a trim. Where it is known how many dies work
    /// side by side, also the time of a program with which all of them write as fast as was seen.
    #[must_use]
    pub fn of_flash(&self, facts: &Facts) -> Vec<(String, Amount)> {
        let mut known = Vec::new();
        if let Some((rate, (layout, _))) = self.sustained_bytes_per_second.zip(facts.layout) {
            let program = (layout.dies * layout.piece_bytes) as f64 / rate * 1e9;
            known.push(("ssd.program".to_owned(), Amount::Time(Duration::default()).with_number(program)));
        }
        let buffer = match self.knee {
            Some((_, held)) => Some(held).filter(|held| *held > 0),
            // A buffer that never filled is larger than the one that the fit would begin with: a small one would hold up writes that were
            // not.
            None => self.sustained_bytes_per_second.map(|_| BUFFER_UNSEEN_BYTES),
        };
        if let Some(bytes) = buffer {
            known.push(("ssd.write_buffer".to_owned(), Amount::Size(Size(bytes.next_multiple_of(KIB_4)))));
        }
        if let Some(trim) = self.trim_nanos {
            known.push(("ssd.overhead.command".to_owned(), Amount::Time(Duration::default()).with_number(trim)));
        }
        known
    }

    /// Whether a disk's buffer takes writes that come alone, if it rotates.
    fn is_buffered(&self, revolution_nanos: Option<f64>) -> Option<bool> {
        Some(self.single_fast_nanos? < revolution_nanos? * BUFFERED_PART)
    }

    /// The parameters of a disk that are known by this: which writes complete in its buffer, and what such a one takes.
    #[must_use]
    pub fn of_disk(&self, revolution_nanos: Option<f64>) -> Vec<(String, Amount)> {
        let Some(is_buffered) = self.is_buffered(revolution_nanos) else { return Vec::new() };
        let word = if is_buffered { "all" } else { "none" };
        let mut known = vec![("hdd.cache.write".to_owned(), Amount::Word(word.into()))];
        if let Some(nanos) = self.single_fast_nanos.filter(|_| is_buffered) {
            let takes = Amount::Time(Duration::default()).with_number(nanos);
            let keys = ["read", "write"].map(|before| format!("hdd.cache.hit_overhead.write_after_{before}"));
            known.extend(keys.map(|key| (key, takes.clone())));
        }
        known
    }

    /// The results in words.
    #[must_use]
    pub fn in_words(&self, revolution_nanos: Option<f64>) -> Vec<(String, String)> {
        let micros = |nanos: f64| format!("{:.0} us", nanos / 1e3);
        let rate = |rate: f64| format!("{:.1} MB/s", rate / 1e6);
        let both = |(half, most): (f64, f64)| format!("{} in the median, {} at 99 %", micros(half), micros(most));
        let burst = self
            .knee
            .zip(self.burst_bytes_per_second)
            .map(|((bytes, _), burst)| format!("{} for {}, then it slows down", rate(burst), format_bytes(bytes)));
        let cache = |is_buffered| {
            if is_buffered { "on: writes complete in it" } else { "off, or not used by writes that come alone" }
        };
        let words = [
            ("single writes", self.single_nanos.map(micros)),
            ("write cache", self.is_buffered(revolution_nanos).map(|is_buffered| cache(is_buffered).to_owned())),
            (
                "a burst of writes",
                burst.or_else(|| self.sustained_bytes_per_second.map(|_| "does not slow down".into())),
            ),
            ("sustained writes", self.sustained_bytes_per_second.map(rate)),
            ("reads alone", self.reads_alone_nanos.map(both)),
            ("reads beside writes", self.reads_beside_nanos.map(both)),
            ("single trims of 128 KiB", self.trim_nanos.map(micros)),
            ("reads beside trims", self.reads_beside_trims_nanos.map(both)),
        ];
        words.into_iter().filter_map(|(what, said)| Some((what.to_owned(), said?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioweir_block::backend::Faults;
    use ioweir_block::backend::{Backend as _, Emulated, Faulty, Media};

    const SPAN: Nanos = Nanos::from_millis(30_000);
    const FILE_BYTES: u64 = 256 << 20;

    fn known(seen: &Written) -> Vec<(String, Amount)> {
        seen.of_flash(&Facts::default())
    }

    /// The results for a drive whose truth is known: it takes 65.5 MB/s into its flash, 1 GB/s into its buffer.
    fn written(more: &str) -> Written {
        let file = tempfile::NamedTempFile::with_suffix(".toml").expect("a file");
        let text = format!(
            "[ssd]\ncapacity = \"8GiB\"\nover_provisioning_per_mille = 100\nchannels = 4\ndies_per_channel = 1\npage = \"16KiB\"\n\
             pages_per_block = 128\nmapping_unit = \"4KiB\"\nread = \"60us\"\nprogram = \"1ms\"\nerase = \"1ms\"\n\
             channel_rate = \"800MB/s\"\ninterface_rate = \"1GB/s\"\nwrite_buffer = \"64MiB\"\n[ssd.overhead]\nread = \"20us\"\n\
             write = \"25us\"\n{more}"
        );
        std::fs::write(file.path(), text).expect("it is written");
        let backend = Emulated::open(&file.path().display().to_string(), None, 0).expect("a model");
        let size = backend.size_bytes().min(FILE_BYTES);
        run_writes(&mut Ring::in_virtual_time(Box::new(backend)), size, 1, SPAN).expect("it answers")
    }

    #[test]
    fn burst_shows_buffer_and_then_flash() {
        let seen = written("");
        let within =
            |value: Option<f64>, truth: f64, part: f64| value.is_some_and(|value| (value / truth - 1.0).abs() < part);
        assert!(within(seen.knee.map(|(_, held)| held as f64), f64::from(64 << 20), 0.05), "{seen:?}");
        assert!(within(seen.sustained_bytes_per_second, 4.0 * 16_384.0 / 1e-3, 0.1), "{seen:?}");
        assert!(seen.burst_bytes_per_second > seen.sustained_bytes_per_second.map(|rate| rate * 5.0), "{seen:?}");
        let (alone, beside) = (seen.reads_alone_nanos.expect("reads"), seen.reads_beside_nanos.expect("reads"));
        assert!(beside.1 > 2.0 * alone.1, "reads wait for programs: {seen:?}");
        assert_eq!(seen.failed, 0);
        assert!(known(&seen).iter().any(|(key, _)| key == "ssd.write_buffer"), "{:?}", known(&seen));
    }

    /// The parameters found of a disk whose buffer takes some of the writes.
    fn of_disk(write: &str) -> Vec<(String, Amount)> {
        let file = tempfile::NamedTempFile::with_suffix(".toml").expect("a file");
        let text = format!(
            "[hdd]\ncapacity = \"20GB\"\nrevolutions_per_minute = 6000\nsurfaces = 2\nsurface_skew = \"least\"\n\
             cylinder_skew = \"least\"\nhead_switch = \"1ms\"\ninterface_rate = \"300MB/s\"\n[hdd.zoning]\n\
             outer_sectors_per_track = 1000\ninner = 0.6\n[hdd.overhead]\nwrite_after_write = \"200us\"\n[hdd.cache]\nsegments = 32\n\
             segment_size = \"256KiB\"\nwrite_segments = 16\nwrite = \"{write}\"\n[hdd.cache.hit_overhead]\n\
             write_after_write = \"90us\"\n[hdd.seek.datasheet]\nsingle = \"1ms\"\naverage = \"8ms\"\nfull = \"16ms\"\n"
        );
        std::fs::write(file.path(), text).expect("it is written");
        let backend = Emulated::open(&file.path().display().to_string(), None, 0).expect("a model");
        let mut ring = Ring::in_virtual_time(Box::new(backend));
        run_writes(&mut ring, FILE_BYTES, 1, SPAN).expect("it answers").of_disk(Some(10e6))
    }

    #[test]
    fn single_writes_show_a_disks_write_buffer() {
        let [none, all] = ["none", "all"].map(of_disk);
        assert_eq!(none, [("hdd.cache.write".to_owned(), Amount::Word("none".into()))]);
        assert_eq!(all.first(), Some(&("hdd.cache.write".to_owned(), Amount::Word("all".into()))));
        let takes = all.iter().find(|(key, _)| key == "hdd.cache.hit_overhead.write_after_write");
        let takes = takes.and_then(|(_, amount)| amount.number()).expect("it is known");
        // Beside the command, 4 KiB cross the interface.
        assert!((90e3..120e3).contains(&takes), "{takes}");
        assert!(Written::default().of_disk(Some(10e6)).is_empty() && all.len() == 3, "{all:?}");
    }

    #[test]
    fn trims_show_a_commands_time() {
        let seen = written("command = \"70us\"\n");
        assert_eq!(seen.trim_nanos, Some(70_000.0), "{seen:?}");
        let (alone, beside) = (seen.reads_alone_nanos.expect("reads"), seen.reads_beside_trims_nanos.expect("reads"));
        assert!((beside.0 / alone.0 - 1.0).abs() < 0.05, "trims of this drive delay no read: {seen:?}");
        assert!(known(&seen).iter().any(|(key, _)| key == "ssd.overhead.command"), "{:?}", known(&seen));
    }

    #[test]
    fn unfilled_buffer_is_taken_for_large() {
        let unfilled = Written { sustained_bytes_per_second: Some(1e9), ..Written::default() };
        assert_eq!(known(&unfilled), [("ssd.write_buffer".to_owned(), Amount::Size(Size(BUFFER_UNSEEN_BYTES)))]);
        assert!(known(&Written::default()).is_empty(), "nothing was written");
    }

    #[test]
    fn failing_device_answers_hanging_one_errs() {
        let run = |faults| {
            let backend = Faulty::new(Media::new(1 << 20), faults);
            // In this device time passes only during stalls.
            run_writes(&mut Ring::in_virtual_time(Box::new(backend)), 1 << 20, 1, Nanos::from_millis(8_000))
        };
        let slow = Faults {
            stalls_per_million: 1_000_000,
            stall: "1ms".parse().expect("a time"),
            seed: 7,
            ..Faults::default()
        };
        let failing = run(Faults { errors_per_million: 1_000_000, ..slow }).expect("it goes on");
        assert!(failing.failed > 0 && failing.bytes == 0 && known(&failing).is_empty(), "{failing:?}");
        assert_eq!(run(slow).expect("it answers").knee, None, "it is as fast all along");
        let stalled = run(Faults { stall: "100s".parse().expect("a time"), ..slow });
        assert!(matches!(stalled, Err(Halt::Stalled { .. })), "{stalled:?}");
    }
}
