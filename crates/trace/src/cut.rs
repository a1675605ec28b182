//! Cuts a part out of a trace: a span of time, some streams, a range of offsets.

use std::collections::BTreeMap;

use ioweir_config::date::When;
use ioweir_core::{Nanos, Operation, StreamId};

use crate::{Names, Position, Record, TraceError, TraceSource};

/// The part of a trace to keep; by default, all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The time of the first requests kept: since the first request of the trace, or as a date if the trace has a wall clock.
    pub from: When,
    /// The time before which requests are kept.
    pub to: Option<When>,
    /// Keep only requests of these streams; empty means all. A stream is given by its whole name, or by the command after
    /// the pid in it.
    pub streams: Vec<String>,
    /// Keep only requests of these volumes, given by their names; empty means all.
    pub volumes: Vec<String>,
    /// Keep requests that start at or after this byte. Flushes, which have no offset, are kept.
    pub offset_from_bytes: u64,
    /// Keep requests that start before this byte.
    pub offset_to_bytes: Option<u64>,
    /// The factor by which time is sped up, in thousandths.
    pub speed_thousandths: u64,
}

impl Default for Cut {
    fn default() -> Self {
        Self {
            from: When::After(Nanos::ZERO),
            to: None,
            streams: Vec::new(),
            volumes: Vec::new(),
            offset_from_bytes: 0,
            offset_to_bytes: None,
            speed_thousandths: 1000,
        }
    }
}

/// A part of a trace. Its times begin at zero again, and only streams and volumes with requests in it have names.
pub struct CutSource<'a> {
    source: &'a mut dyn TraceSource,
    cut: Cut,
    /// The span of time that is kept, in times of the source; known after its first request.
    span: Option<(Nanos, Option<Nanos>)>,
    /// Whether each stream and each volume of the source is wanted, by its number; `None` until its first request.
    wanted: [Vec<Option<bool>>; 2],
    first: Option<Nanos>,
    ended: bool,
    streams: BTreeMap<u32, u32>,
    volumes: BTreeMap<u32, u32>,
    names: Names,
}

/// Cuts the part that `cut` describes out of `source`.
///
/// ```
/// use ioweir_core::Nanos;
/// use ioweir_trace::{Cut, Input, ReadOptions, TraceError, TraceSource, cut, open_inputs};
///
/// let csv = "time_s,pid,comm,op,lba,sectors\n0.5,7,dd,R,0,8\n0.7,8,cp,W,8,16\n0.9,7,dd,R,8,8\n";
/// let mut source = open_inputs(vec![Input::from_bytes("example.csv", csv.into())], &ReadOptions::default())?;
/// let mut part = cut(&mut *source, Cut { streams: vec!["dd".to_owned()], ..Cut::default() });
/// let mut batch = Vec::new();
/// part.read_batch(&mut batch)?;
/// assert_eq!(batch.iter().map(|record| record.time).collect::<Vec<_>>(), [Nanos(0), Nanos(400_000_000)]);
/// # Ok::<(), TraceError>(())
/// ```
pub fn cut(source: &mut dyn TraceSource, cut: Cut) -> CutSource<'_> {
    CutSource {
        source,
        cut,
        span: None,
        wanted: [Vec::new(), Vec::new()],
        first: None,
        ended: false,
        streams: BTreeMap::new(),
        volumes: BTreeMap::new(),
        names: Names::default(),
    }
}

/// The new number of a stream or volume, which keeps its name.
fn renumbered(numbers: &mut BTreeMap<u32, u32>, number: u32, from: &[String], to: &mut Vec<String>) -> u32 {
    *numbers.entry(number).or_insert_with(|| {
        to.push(from.get(number as usize).cloned().unwrap_or_else(|| number.to_string()));
        // At most as many as there were in the source.
        u32::try_from(to.len() - 1).unwrap_or(u32::MAX)
    })
}

/// Whether the stream or volume of a number is among those that are named; all are if none is.
fn wanted(
    known: &mut Vec<Option<bool>>,
    named: &[String],
    number: u32,
    names: &[String],
    is_same: impl Fn(&str, &str) -> bool,
) -> bool {
    if named.is_empty() {
        return true;
    }
    let place = number as usize;
    if place >= known.len() {
        known.resize(place + 1, None);
    }
    let name = names.get(place).map_or("", String::as_str);
    *known[place].get_or_insert_with(|| named.iter().any(|wanted| is_same(wanted, name)))
}

impl CutSource<'_> {
    fn is_wanted(&mut self, stream: u32) -> bool {
        let names = &self.source.names().streams;
        wanted(&mut self.wanted[0], &self.cut.streams, stream, names, |wanted, name| {
            wanted == name || name.split_once(' ').is_some_and(|(_, command)| command == wanted)
        })
    }

    fn keep(&mut self, record: &Record, from: Nanos) -> bool {
        let cut = &self.cut;
        let placed = record.operation == Operation::Flush
            || record.offset_bytes >= cut.offset_from_bytes
                && cut.offset_to_bytes.is_none_or(|end| record.offset_bytes < end);
        let names = &self.source.names().volumes;
        let is_volume = |wanted: &str, name: &str| wanted == name;
        placed
            && record.time >= from
            && wanted(&mut self.wanted[1], &self.cut.volumes, record.volume, names, is_volume)
            && self.is_wanted(record.stream.0)
    }

    /// The span that is kept, in times since the first request.
    fn span(&mut self) -> Result<(Nanos, Option<Nanos>), TraceError> {
        if let Some(span) = self.span {
            return Ok(span);
        }
        let epoch = self.source.epoch_unix_nanos();
        let since = |when: When| match (when, epoch) {
            (When::After(time), _) => Ok(time),
            (When::At(moment), Some(epoch)) => {
                let nanos = moment.unix_nanos.saturating_sub(epoch).max(0);
                Ok(Nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
            }
            (When::At(_), None) => {
                Err(TraceError::new("cut", Position::File, "the trace has no wall clock, so dates say nothing")
                    .expected("a time since its first request, such as 10s"))
            }
        };
        let span = (since(self.cut.from)?, self.cut.to.map(since).transpose()?);
        self.span = Some(span);
        Ok(span)
    }

    fn carried(&mut self, mut record: Record) -> Record {
        let first = *self.first.get_or_insert(record.time);
        let span = u128::from(record.time.since(first).0) * 1000 / u128::from(self.cut.speed_thousandths.max(1));
        record.time = Nanos(u64::try_from(span).unwrap_or(u64::MAX));
        let names = self.source.names();
        record.stream =
            StreamId(renumbered(&mut self.streams, record.stream.0, &names.streams, &mut self.names.streams));
        record.volume = renumbered(&mut self.volumes, record.volume, &names.volumes, &mut self.names.volumes);
        record
    }

    #[cold]
    fn nothing_left(&self) -> TraceError {
        const SHOWN: usize = 20;
        let error = TraceError::new("cut", Position::File, "nothing is left of the trace");
        let known = &self.source.names().streams;
        let is_known = |wanted: &String| {
            known
                .iter()
                .any(|name| name == wanted || name.split_once(' ').is_some_and(|(_, command)| command == wanted))
        };
        match self.cut.streams.iter().find(|wanted| !is_known(wanted)) {
            Some(missing) => {
                let mut list = known.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
                if known.len() > SHOWN {
                    list.push_str(&format!(" and {} more", known.len() - SHOWN));
                }
                TraceError { problem: format!("{}: it has no stream `{missing}`", error.problem), ..error }
                    .expected(list)
            }
            None => error.hint("`ioweir trace info` shows its times, streams and offsets"),
        }
    }
}

impl TraceSource for CutSource<'_> {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        loop {
            batch.clear();
            if !self.ended {
                self.source.read_batch(batch)?;
            }
            if batch.is_empty() {
                return if self.first.is_none() { Err(self.nothing_left()) } else { Ok(()) };
            }
            let (from, to) = self.span()?;
            if let Some(end) = to {
                // Times do not decrease, so nothing after the end is wanted.
                let count = batch.partition_point(|record| record.time < end);
                self.ended = count < batch.len();
                batch.truncate(count);
            }
            batch.retain(|record| self.keep(record, from));
            for record in batch.iter_mut() {
                *record = self.carried(*record);
            }
            if !batch.is_empty() {
                return Ok(());
            }
        }
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn epoch_unix_nanos(&self) -> Option<i128> {
        let first = self.first?;
        self.source.epoch_unix_nanos().map(|epoch| epoch + i128::from(first.0))
    }

    fn inner(&self) -> Option<&dyn TraceSource> {
        Some(&*self.source)
    }
}
