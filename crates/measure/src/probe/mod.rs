//! Probes: reads that show what a device is.
//!
//! A [`Probe`] is a list of reads, how many of them are kept in flight, and how long the device rests before each. [`Plan`] says which probe comes next, from what was
//! seen before; [`run`] carries all of them out on a [`Ring`], within a time, and writes nothing. [`run_writes`] writes, into a scratch file. What the answers say
//! directly, such as the speed of a spindle, is in [`Facts`]; a fit takes the requests themselves.

mod buffer;
mod facts;
mod plan;
mod rests;
mod seeks;
mod strides;
mod surfaces;
#[cfg(test)]
mod tests;
mod track;
mod writes;

use ioweir_core::{Nanos, Operation, SECTOR_BYTES};
use ioweir_device::fit::Groups;
use ioweir_device::validate::Measured;

pub use buffer::{Ahead, Buffer};
pub use facts::{Facts, Place, Zones};
pub use plan::{BYTES_MIN, HELD_OUT, Plan};
pub use rests::Wake;
use seeks::Accesses;
pub use strides::{Layout, Strides};
pub use writes::{Written, run_writes};

use ioweir_block::backend::Action;
use ioweir_block::real::{Completed, Halt, Ring};

/// The part of the time, in percent, in which other probes than the held-out mix begin.
const OTHERS_PERCENT: u64 = 60;

/// A read of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// The next step of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Submit this read.
    Read(Io),
    /// Submit nothing for this time.
    Rest(Nanos),
    /// Wait for a completion.
    Wait,
    /// The probe has been carried out.
    Done,
}

/// Reads of which a number are kept in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The name, which says what the probe shows.
    pub name: &'static str,
    reads: Vec<Io>,
    /// How long the device is left alone before each of the reads; empty if they follow each other.
    rests: Vec<Nanos>,
    has_rested: bool,
    depth: usize,
    /// The number of reads that begin at once, when those before have ended; all if they do not wait for each other.
    together: usize,
    next: usize,
    in_flight: usize,
}

impl Probe {
    /// A probe that keeps `depth` of these reads in flight.
    #[must_use]
    pub const fn new(name: &'static str, depth: usize, reads: Vec<Io>) -> Self {
        Self { name, reads, rests: Vec::new(), has_rested: false, depth, together: usize::MAX, next: 0, in_flight: 0 }
    }

    /// Adds a rest before each read.
    #[must_use]
    pub fn with_rests(self, rests: Vec<Nanos>) -> Self {
        Self { rests, ..self }
    }

    /// Lets so many reads begin at once, when those before have ended.
    #[must_use]
    pub fn together(self, count: usize) -> Self {
        Self { depth: count, together: count, ..self }
    }

    /// Takes the next step.
    pub fn step(&mut self) -> Step {
        match self.reads.get(self.next) {
            Some(io)
                if self.in_flight < self.depth && (self.in_flight == 0 || !self.next.is_multiple_of(self.together)) =>
            {
                if let Some(rest) = self.rests.get(self.next).filter(|_| !self.has_rested) {
                    self.has_rested = true;
                    return Step::Rest(*rest);
                }
                self.has_rested = false;
                (self.next, self.in_flight) = (self.next + 1, self.in_flight + 1);
                Step::Read(*io)
            }
            None if self.in_flight == 0 => Step::Done,
            _ => Step::Wait,
        }
    }

    /// A read has completed.
    pub const fn completed(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Begins no further read.
    fn cut(&mut self) {
        self.reads.truncate(self.next);
    }

    #[must_use]
    pub fn reads(&self) -> &[Io] {
        &self.reads
    }
}

/// The answers to one probe with all its rounds, in the order of submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// The probe.
    pub name: &'static str,
    /// Reads that were carried out. Their numbers go on from round to round.
    pub reads: Vec<Completed>,
    /// The reads of each round, those that failed among them.
    rounds: Vec<usize>,
}

impl Answers {
    const fn rounds(&self) -> u64 {
        self.rounds.len() as u64
    }

    /// The reads of its first round: those of most probes have as many in each.
    fn round_reads(&self) -> usize {
        self.rounds.first().copied().unwrap_or(0)
    }

    /// The reads of all rounds.
    fn reads_in_all(&self) -> usize {
        self.rounds.iter().sum()
    }

    /// The reads of a round that were carried out, with their numbers in it.
    fn round(&self, round: u64) -> impl Iterator<Item = (u64, &Completed)> {
        let begin = self.rounds.iter().take(round as usize).sum::<usize>() as u64;
        let end = begin + self.rounds.get(round as usize).map_or(0, |reads| *reads as u64);
        self.reads
            .iter()
            .filter(move |read| (begin..end).contains(&read.token))
            .map(move |read| (read.token - begin, read))
    }

    /// The pairs of reads of a number in each round, with the round, where both were carried out.
    fn pairs(&self, number: usize) -> impl Iterator<Item = (u64, [&Completed; 2])> {
        let round = self.round_reads() as u64;
        self.reads.windows(2).filter_map(move |pair| {
            let [first, second] = pair else { return None };
            let is_pair = first.token % round == 2 * number as u64 && second.token == first.token + 1;
            is_pair.then_some((first.token / round, [first, second]))
        })
    }
}

/// The answers of a device to a plan of probes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// The answers, in the order of the probes; the last are those to the held-out mix.
    pub answers: Vec<Answers>,
    /// Reads that the device failed.
    pub failed: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Probes that did not end within the time.
    pub cut: Vec<&'static str>,
    /// From the first submission to the last completion.
    pub took: Nanos,
}

impl Probed {
    /// The answers to a probe.
    #[must_use]
    pub fn to(&self, name: &str) -> &[Completed] {
        self.all(name).map_or(&[], |answers| &answers.reads)
    }

    /// The answers to a probe, with its rounds.
    fn all(&self, name: &str) -> Option<&Answers> {
        self.answers.iter().find(|answers| answers.name == name)
    }

    /// Adds the answers to a probe, or to another round of it.
    fn add(&mut self, answers: Answers) {
        match self.answers.last_mut().filter(|last| last.name == answers.name) {
            Some(last) => {
                let before = last.reads_in_all() as u64;
                last.reads
                    .extend(answers.reads.into_iter().map(|read| Completed { token: read.token + before, ..read }));
                last.rounds.extend(answers.rounds);
            }
            None => self.answers.push(answers),
        }
    }

    /// The measured requests that a model is fitted to, and those that judge it.
    #[must_use]
    pub fn measured(&self) -> (Vec<Measured>, Vec<Measured>) {
        let (mut fitted, mut held_out) = (Vec::new(), Vec::new());
        // Times of reads that the model does not get are left out, so that the model does not rest during them.
        let (mut end, mut left_out_nanos) = (Nanos::ZERO, 0);
        for Answers { name, reads, .. } in &self.answers {
            let last = reads.iter().map(|read| read.completed).fold(end, Nanos::max);
            match *name {
                HELD_OUT => held_out.extend(reads.iter().map(measured)),
                name if !strides::is_fitted(name) => left_out_nanos += last.since(end).0,
                _ => fitted.extend(
                    reads
                        .iter()
                        .map(measured)
                        .map(|request| Measured { arrival_nanos: request.arrival_nanos - left_out_nanos, ..request }),
                ),
            }
            end = last;
        }
        (fitted, held_out)
    }

    /// The groups of the requests that a model is fitted to.
    #[must_use]
    pub fn groups(&self, facts: &Facts) -> Groups {
        let (mut seen, mut groups) = (Vec::<(&str, u64)>::new(), Groups::default());
        let accesses = Accesses::of(self, facts);
        let is_fitted = |name| name != HELD_OUT && strides::is_fitted(name);
        for answers in self.answers.iter().filter(|answers| is_fitted(answers.name)) {
            let name = &answers.name;
            for read in &answers.reads {
                let shown = match *name {
                    seeks::SEEKS => accesses.shows(read.token, answers.round_reads()),
                    // All places of a device that does not rotate are alike.
                    plan::SEQUENTIAL | plan::SEQUENTIAL_LARGE if !facts.rotates => 0,
                    name => plan::shows(name, read.token, read.length),
                };
                let shows = (*name, shown);
                groups.of.push(seen.iter().position(|one| *one == shows).unwrap_or(seen.len()));
                if !seen.contains(&shows) {
                    seen.push(shows);
                    groups.accesses.push(if *name == seeks::SEEKS { accesses.mean(shown) } else { None });
                }
            }
        }
        groups
    }
}

fn measured(read: &Completed) -> Measured {
    Measured {
        operation: if read.action == Action::Write { Operation::Write } else { Operation::Read },
        sector: read.offset / SECTOR_BYTES,
        sectors: u32::try_from(read.length / SECTOR_BYTES).unwrap_or(u32::MAX),
        arrival_nanos: read.submitted.0,
        response_nanos: read.latency().0,
    }
}

/// Carries out a plan within `span`. Probes that there is no time for are cut; the held-out mix gets the last part of it.
/// `watch` hears how many of the plan's probes are behind it, and how many there are.
///
/// # Errors
/// If the device does not answer, or whoever watches asked to stop.
pub fn run(ring: &mut Ring, plan: &mut Plan, span: Nanos, watch: &mut dyn FnMut(usize, usize)) -> Result<Probed, Halt> {
    let begin = ring.now();
    let others = begin.after(Nanos(span.0 / 100 * OTHERS_PERCENT));
    let mut probed = Probed::default();
    while let Some(mut probe) = plan.next(&probed) {
        let end = if probe.name == HELD_OUT { begin.after(span) } else { others };
        let answers = answer(ring, &mut probe, end, &mut probed)?;
        probed.add(answers);
        let (behind, all) = plan.behind();
        watch(behind, all);
    }
    probed.took = ring.now().since(begin);
    Ok(probed)
}

fn answer(ring: &mut Ring, probe: &mut Probe, end: Nanos, probed: &mut Probed) -> Result<Answers, Halt> {
    let round_reads = probe.reads.len();
    let (mut reads, mut done) = (Vec::with_capacity(round_reads), Vec::new());
    let mut token = 0;
    loop {
        if ring.now() >= end && probe.next < probe.reads.len() {
            probe.cut();
            if probed.cut.last() != Some(&probe.name) {
                probed.cut.push(probe.name);
            }
        }
        match probe.step() {
            Step::Read(Io { offset, length }) => {
                ring.start(token, Action::Read, offset, length);
                token += 1;
            }
            Step::Rest(rest) => ring.wait(ring.now().after(rest).min(end), &mut done)?,
            Step::Wait => {
                ring.wait(Nanos::NEVER, &mut done)?;
                for read in done.drain(..) {
                    probe.completed();
                    match read.result {
                        Ok(()) => {
                            probed.bytes += read.length;
                            reads.push(read);
                        }
                        Err(_) => probed.failed += 1,
                    }
                }
            }
            Step::Done => break,
        }
    }
    reads.sort_unstable_by_key(|read| read.token);
    Ok(Answers { name: probe.name, reads, rounds: vec![round_reads] })
}
