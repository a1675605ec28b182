//! Probes: reads that show what a device is.
//!
//! A [`Probe`] is a list of reads, how many of them are kept in flight, and how long the device rests before each. [`Plan`] says which probe comes next, from what was
//! seen before; [`run`] carries all of them out on a [`Ring`], within a time, and writes nothing. [`run_writes`] writes, into a scratch file. What the answers say
//! directly, such as the speed of a spindle, is in [`Facts`]; a fit takes the requests themselves.

mod facts;
mod plan;
mod rests;
#[cfg(test)]
mod tests;
mod track;
mod writes;

use ioweir_core::{Nanos, Operation, SECTOR_BYTES};
use ioweir_device::fit::Groups;
use ioweir_device::validate::Measured;

pub use facts::{Facts, Place};
pub use plan::{BYTES_MIN, HELD_OUT, Plan};
pub use rests::Wake;
pub use writes::{Written, run_writes};

use crate::backend::Action;
use crate::real::{Completed, Halt, Ring};

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

/// What a probe does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It reads.
    Read(Io),
    /// It asks for nothing for so long.
    Rest(Nanos),
    /// It waits for a completion.
    Wait,
    /// It has been carried out.
    Done,
}

/// Reads, of which so many are kept in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What it shows.
    pub name: &'static str,
    reads: Vec<Io>,
    /// How long nothing is asked for before each of the reads; empty if they follow each other.
    rests: Vec<Nanos>,
    has_rested: bool,
    depth: usize,
    next: usize,
    in_flight: usize,
}

impl Probe {
    /// A probe that keeps `depth` of these reads in flight.
    #[must_use]
    pub const fn new(name: &'static str, depth: usize, reads: Vec<Io>) -> Self {
        Self { name, reads, rests: Vec::new(), has_rested: false, depth, next: 0, in_flight: 0 }
    }

    /// The same with a rest before each read.
    #[must_use]
    pub fn with_rests(self, rests: Vec<Nanos>) -> Self {
        Self { rests, ..self }
    }

    /// What it does next.
    pub fn step(&mut self) -> Step {
        match self.reads.get(self.next) {
            Some(io) if self.in_flight < self.depth => {
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

    /// Its reads.
    #[must_use]
    pub fn reads(&self) -> &[Io] {
        &self.reads
    }
}

/// The answers to one probe, in the order of submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// The probe.
    pub name: &'static str,
    /// Reads that were carried out.
    pub reads: Vec<Completed>,
}

/// What a device answered to a plan.
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
        self.answers.iter().find(|answers| answers.name == name).map_or(&[], |answers| &answers.reads)
    }

    /// The measured requests that a model is fitted to, and those that judge it.
    #[must_use]
    pub fn measured(&self) -> (Vec<Measured>, Vec<Measured>) {
        let requests = |is_held_out| {
            let answers = self.answers.iter().filter(move |answers| (answers.name == HELD_OUT) == is_held_out);
            answers.flat_map(|answers| &answers.reads).map(measured).collect()
        };
        (requests(false), requests(true))
    }

    /// What the requests show that a model is fitted to.
    #[must_use]
    pub fn groups(&self, facts: &Facts) -> Groups {
        let (mut seen, mut groups) = (Vec::<(&str, u64)>::new(), Groups::default());
        for Answers { name, reads } in self.answers.iter().filter(|answers| answers.name != HELD_OUT) {
            for read in reads {
                // All places of a device that does not rotate are alike.
                let shown = if facts.rotates || *name != plan::SEQUENTIAL {
                    plan::shows(name, read.token, read.length)
                } else {
                    0
                };
                let shows = (*name, shown);
                groups.of.push(seen.iter().position(|one| *one == shows).unwrap_or(seen.len()));
                if !seen.contains(&shows) {
                    seen.push(shows);
                    groups.accesses.push(self.access_nanos(shows, facts));
                }
            }
        }
        groups
    }

    /// What an access takes without the wait for a place of the medium, if the reads of a probe that show one thing show it.
    fn access_nanos(&self, (name, shown): (&str, u64), facts: &Facts) -> Option<f64> {
        let shows_distance = name == plan::SEEKS && shown > 0;
        let revolution_nanos = facts.revolution_nanos.filter(|_| shows_distance)?;
        let reads = self.to(name).iter().filter(|read| plan::shows(name, read.token, read.length) == shown);
        facts::access_nanos(revolution_nanos, reads.map(|read| read.latency().0 as f64).collect())
    }
}

fn measured(read: &Completed) -> Measured {
    Measured {
        operation: Operation::Read,
        sector: read.offset / SECTOR_BYTES,
        sectors: u32::try_from(read.length / SECTOR_BYTES).unwrap_or(u32::MAX),
        arrival_nanos: read.submitted.0,
        response_nanos: read.latency().0,
    }
}

/// Carries out a plan within `span`. Probes that there is no time for are cut; the held-out mix gets the last part of it.
/// `watch` hears of every probe that ends.
///
/// # Errors
/// If the device does not answer, or whoever watches asked to stop.
pub fn run(ring: &mut Ring, plan: &mut Plan, span: Nanos, watch: &mut dyn FnMut(&str)) -> Result<Probed, Halt> {
    let begin = ring.now();
    let others = begin.after(Nanos(span.0 / 100 * OTHERS_PERCENT));
    let mut probed = Probed::default();
    while let Some(mut probe) = plan.next(&probed) {
        let end = if probe.name == HELD_OUT { begin.after(span) } else { others };
        let answers = answer(ring, &mut probe, end, &mut probed)?;
        probed.answers.push(answers);
        watch(probe.name);
    }
    probed.took = ring.now().since(begin);
    Ok(probed)
}

fn answer(ring: &mut Ring, probe: &mut Probe, end: Nanos, probed: &mut Probed) -> Result<Answers, Halt> {
    let (mut reads, mut done) = (Vec::with_capacity(probe.reads.len()), Vec::new());
    let mut token = 0;
    loop {
        if ring.now() >= end && probe.next < probe.reads.len() {
            probe.cut();
            probed.cut.push(probe.name);
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
    Ok(Answers { name: probe.name, reads })
}
