//! The requests that count for the goal: everybody's, those of a class of I/O priorities, or those of a stream.

use ioweir_config::{Flag, FlagForm, shown, unknown};
use ioweir_core::{PriorityClass, StreamId};
use ioweir_trace::Record;

use super::Goal;
use crate::gate::Witness;
use crate::run::RunError;

/// Streams whose own figures are kept: those with the most requests.
const STREAMS_MAX: usize = 10;
/// A stream with fewer requests has no advice of its own.
const STREAM_REQUESTS_MIN: u64 = 20;

/// The flag that says which requests count.
pub const OF: Flag = Flag::new("of", "CLASS|STREAM", FlagForm::Text);

/// The word for all requests, the idle class included.
const ALL: &str = "all";
/// The priority classes by the words that the kernel prints.
const CLASSES: [PriorityClass; 3] = [PriorityClass::Realtime, PriorityClass::BestEffort, PriorityClass::Idle];

/// Refuses to count some requests where the goal is the device's work.
///
/// # Errors
/// [`RunError::Value`] if both are asked for.
pub fn check_of(goal: Goal, of: Option<&str>) -> Result<(), RunError> {
    match of {
        Some(of) if goal == Goal::Busy && of != ALL => Err(RunError::Value(format!(
            "the goal is {goal}, the device's work, and the requests of `{}` are to count\n  expected: another goal beside --of",
            shown(of)
        ))),
        _ => Ok(()),
    }
}

/// The requests that count.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Counted {
    All,
    /// All but those of the idle class.
    NotIdle,
    Class(PriorityClass),
    Streams(Vec<StreamId>),
}

/// The sets of requests of a trace that are counted apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    counted: Counted,
    /// The owners of the requests that count for the goal, as the end of a phrase such as "completion of"; `None` if all requests count.
    pub words: Option<String>,
    /// Streams whose own figures are kept, with their names.
    streams: Vec<(StreamId, String)>,
}

impl Who {
    /// The sets of a trace whose streams have these names: those that `of` names, and each stream if figures by stream are kept. The
    /// work of a device is for everybody.
    ///
    /// # Errors
    /// If there is no such class or stream.
    pub fn new(
        (goal, of): (Goal, Option<&str>),
        by_stream: bool,
        witness: &Witness,
        names: &[String],
    ) -> Result<Self, RunError> {
        let (counted, words) = match of {
            _ if goal == Goal::Busy => (Counted::All, None),
            Some(ALL) => (Counted::All, None),
            Some(word) => named(word, names)?,
            None if witness.has_idle_beside_others() => {
                (Counted::NotIdle, Some("requests that are not of the idle class".into()))
            }
            None => (Counted::All, None),
        };
        let mut streams: Vec<(u64, u32)> =
            (0..).zip(witness.by_stream()).map(|(stream, requests)| (*requests, stream)).collect();
        streams.retain(|(requests, _)| by_stream && *requests >= STREAM_REQUESTS_MIN);
        streams.sort_by_key(|(requests, stream)| (std::cmp::Reverse(*requests), *stream));
        streams.truncate(STREAMS_MAX);
        let name = |stream: u32| names.get(stream as usize).cloned().unwrap_or_else(|| stream.to_string());
        let streams = streams.into_iter().map(|(_, stream)| (StreamId(stream), name(stream))).collect();
        Ok(Self { counted, words, streams })
    }

    /// The streams that count, if they were named.
    #[must_use]
    pub fn named_streams(&self) -> Option<&[StreamId]> {
        match &self.counted {
            Counted::Streams(streams) => Some(streams),
            _ => None,
        }
    }

    /// Whether every run needs accounts: the goal is not that of all requests, or each stream has its own.
    pub(super) fn is_apart(&self) -> bool {
        self.words.is_some() || !self.streams.is_empty()
    }

    /// The number of sets: the requests that count, and each stream.
    pub(super) fn sets(&self) -> usize {
        1 + self.streams.len()
    }

    /// The names of the streams that are sets, in the order of their sets, which follow the first.
    pub(super) fn streams(&self) -> Vec<String> {
        self.streams.iter().map(|(_, name)| name.clone()).collect()
    }

    /// Whether a request counts for the goal.
    #[must_use]
    pub fn counts(&self, record: &Record) -> bool {
        let class = record.priority.class();
        match &self.counted {
            Counted::All => true,
            Counted::NotIdle => class != PriorityClass::Idle,
            // The kernel serves a request without a priority as best effort.
            Counted::Class(PriorityClass::BestEffort) => {
                matches!(class, PriorityClass::BestEffort | PriorityClass::None)
            }
            Counted::Class(own) => class == *own,
            Counted::Streams(streams) => streams.contains(&record.stream),
        }
    }

    /// The sets that a request belongs to.
    pub(super) fn choose(&self, record: &Record, set: &mut dyn FnMut(usize)) {
        if self.counts(record) {
            set(0);
        }
        if let Some(at) = self.streams.iter().position(|(stream, _)| *stream == record.stream) {
            set(1 + at);
        }
    }
}

/// A class of priorities, or streams by their name, or by the number or the command of a process.
fn named(word: &str, names: &[String]) -> Result<(Counted, Option<String>), RunError> {
    if let Some(class) = CLASSES.into_iter().find(|class| class.name() == word) {
        return Ok((Counted::Class(class), Some(format!("requests of the {word} class"))));
    }
    let is_named = |name: &String| name == word || name.split_whitespace().any(|part| part == word);
    let streams: Vec<StreamId> =
        (0..).zip(names).filter(|(_, name)| is_named(name)).map(|(stream, _)| StreamId(stream)).collect();
    if streams.is_empty() {
        let known: Vec<&str> = [ALL].into_iter().chain(CLASSES.map(PriorityClass::name)).collect();
        let all: Vec<&str> = known.into_iter().chain(names.iter().map(String::as_str)).collect();
        let hint = "a class of I/O priorities, or a stream of the trace by its name, its command or its process";
        return Err(unknown("requests", word, &all, hint).into());
    }
    Ok((Counted::Streams(streams), Some(word.to_owned())))
}
