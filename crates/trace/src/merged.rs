//! Puts several traces together to one, in the order of time.

use std::collections::BTreeMap;

use ioweir_core::{Nanos, StreamId};

use crate::{BATCH_RECORDS, Completeness, Names, Position, Record, TraceError, TraceSource};

/// Which times of several traces are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// All begin at the same time.
    Starts,
    /// The wall clocks of their machines agree.
    Clocks,
}

/// A trace that is merged with others.
struct Part {
    name: String,
    source: Box<dyn TraceSource>,
    /// The time by which its requests come later.
    shift: Nanos,
    batch: Vec<Record>,
    next: usize,
    streams: BTreeMap<u32, u32>,
    volumes: BTreeMap<u32, u32>,
}

/// Several traces as one.
pub struct Merged {
    parts: Vec<Part>,
    epoch_unix_nanos: Option<i128>,
    /// Whether equal names of different traces are different streams and volumes.
    keeps_apart: bool,
    names: Names,
    known: [BTreeMap<String, u32>; 2],
}

impl Merged {
    /// Merges traces of these names; `offsets` are added to their times, in their order.
    ///
    /// # Errors
    /// If one cannot be read, or has no wall clock and is to be aligned by it.
    pub fn new(
        traces: Vec<(String, Box<dyn TraceSource>)>,
        alignment: Alignment,
        offsets: &[Nanos],
        keeps_apart: bool,
    ) -> Result<Self, TraceError> {
        let mut parts = Vec::new();
        for (name, mut source) in traces {
            let mut batch = Vec::new();
            source.read_batch(&mut batch)?;
            let (streams, volumes) = (BTreeMap::new(), BTreeMap::new());
            parts.push(Part { name, source, shift: Nanos::ZERO, batch, next: 0, streams, volumes });
        }
        let mut starts: Vec<i128> = Vec::new();
        for (place, part) in parts.iter().enumerate() {
            let offset = offsets.get(place).map_or(0, |offset| i128::from(offset.0));
            let clock = match alignment {
                Alignment::Starts => Some(0),
                Alignment::Clocks => part.source.epoch_unix_nanos(),
            };
            starts.push(offset + clock.ok_or_else(|| no_clock(&part.name))?);
        }
        let first = starts.iter().copied().min().unwrap_or(0);
        for (part, start) in parts.iter_mut().zip(starts) {
            part.shift = Nanos(u64::try_from(start - first).unwrap_or(u64::MAX));
        }
        let epoch_unix_nanos = (alignment == Alignment::Clocks).then_some(first);
        Ok(Self { parts, epoch_unix_nanos, keeps_apart, names: Names::default(), known: Default::default() })
    }

    /// How long after the first trace each begins.
    pub fn starts(&self) -> impl Iterator<Item = (&str, Nanos)> {
        self.parts.iter().map(|part| (part.name.as_str(), part.shift))
    }

    /// The next record of the part that has the earliest.
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        for part in &mut self.parts {
            if part.next == part.batch.len() && !part.batch.is_empty() {
                part.source.read_batch(&mut part.batch)?;
                part.next = 0;
            }
        }
        let at = |part: &Part| part.batch.get(part.next).map(|record| record.time.after(part.shift));
        let earliest = (0..self.parts.len()).filter(|place| at(&self.parts[*place]).is_some());
        let Some(place) = earliest.min_by_key(|place| at(&self.parts[*place])) else { return Ok(None) };
        let part = &mut self.parts[place];
        let mut record = part.batch[part.next];
        part.next += 1;
        record.time = record.time.after(part.shift);
        let apart = self.keeps_apart.then_some(part.name.as_str());
        let names = part.source.names();
        let [streams, volumes] = &mut self.known;
        record.stream = StreamId(
            *part
                .streams
                .entry(record.stream.0)
                .or_insert_with(|| number(apart, &names.streams, record.stream.0, streams, &mut self.names.streams)),
        );
        record.volume = *part
            .volumes
            .entry(record.volume)
            .or_insert_with(|| number(apart, &names.volumes, record.volume, volumes, &mut self.names.volumes));
        Ok(Some(record))
    }
}

#[cold]
fn no_clock(name: &str) -> TraceError {
    TraceError::new(name, Position::File, "has no wall clock")
        .expected("traces that say when they began, to be aligned by it")
        .hint("`--merge starts` lets all begin at the same time, and --offset says by how much each is later")
}

/// The number of a name among those of all parts.
fn number(
    apart: Option<&str>,
    from: &[String],
    number: u32,
    known: &mut BTreeMap<String, u32>,
    to: &mut Vec<String>,
) -> u32 {
    let name = from.get(number as usize).cloned().unwrap_or_else(|| number.to_string());
    let name = apart.map_or(name.clone(), |trace| format!("{trace}: {name}"));
    *known.entry(name).or_insert_with_key(|name| {
        to.push(name.clone());
        u32::try_from(to.len() - 1).unwrap_or(u32::MAX)
    })
}

impl TraceSource for Merged {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while batch.len() < BATCH_RECORDS {
            let Some(record) = self.next()? else { break };
            batch.push(record);
        }
        Ok(())
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn epoch_unix_nanos(&self) -> Option<i128> {
        self.epoch_unix_nanos
    }

    fn skipped(&self) -> u64 {
        self.parts.iter().map(|part| part.source.skipped()).sum()
    }

    fn completeness(&self) -> Completeness {
        let mut all = Completeness::default();
        self.parts.iter().for_each(|part| all.add(&part.source.completeness()));
        all
    }

    fn remarks(&self) -> Vec<String> {
        let of = |part: &Part| -> Vec<String> {
            part.source.remarks().into_iter().map(|remark| format!("{}: {remark}", part.name)).collect()
        };
        self.parts.iter().flat_map(of).collect()
    }
}
