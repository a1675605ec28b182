//! The gaps of a capture, as far as its reader can tell, and their effect on its numbers.

use serde::Serialize;

use crate::reader::order::HELD_RECORDS_MAX;

/// A device may have so many requests when a capture begins, whose completions belong to none of its requests.
const IN_FLIGHT_MAX: u64 = 64;

/// The gaps of a capture, as far as its reader can tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Completeness {
    /// Places where events are missing: marked by the tracer, or seen as gaps in the numbers of events.
    pub holes: u64,
    /// Events that were lost there, as far as their number is known.
    pub events_lost: u64,
    /// Holes of unknown size.
    pub holes_uncounted: u64,
    /// Files of other processors that the capture lacks.
    pub files_missing: Vec<String>,
    /// Requests without a latency because a hole lies between them and their completion.
    pub requests_in_holes: u64,
    /// Requests without a latency because a newer request for the same bytes came before a completion.
    pub requests_superseded: u64,
    /// Requests without a latency because more requests came before their completion than the reader keeps.
    pub requests_outlasting: u64,
    /// Requests without a latency because the trace ends before their completion.
    pub requests_unfinished: u64,
    /// Completions whose request is not in the trace.
    pub completions_unmatched: u64,
    /// Completions on devices of which the trace has no request before them.
    pub completions_elsewhere: u64,
    /// Whether latencies were to be found from completions, and there is none.
    pub completions_absent: bool,
    /// Lines that are known to belong to no event, such as stacks and summaries, and were passed over.
    pub lines_passed_over: u64,
    /// Whether no latency is given at all, because events may be missing anywhere.
    pub latencies_withheld: bool,
}

impl Completeness {
    /// Adds what another file of the same trace lacks.
    pub fn add(&mut self, other: &Self) {
        self.holes += other.holes;
        self.events_lost += other.events_lost;
        self.holes_uncounted += other.holes_uncounted;
        self.files_missing.extend_from_slice(&other.files_missing);
        self.requests_in_holes += other.requests_in_holes;
        self.requests_superseded += other.requests_superseded;
        self.requests_outlasting += other.requests_outlasting;
        self.requests_unfinished += other.requests_unfinished;
        self.completions_unmatched += other.completions_unmatched;
        self.lines_passed_over += other.lines_passed_over;
        self.completions_elsewhere += other.completions_elsewhere;
        self.completions_absent |= other.completions_absent;
        self.latencies_withheld |= other.latencies_withheld;
    }

    /// The warnings as remarks, and how many requests have no latency because another came before their completion.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> =
            self.warnings().into_iter().map(|warning| format!("Warning: {warning}.")).collect();
        if self.requests_superseded > 0 {
            remarks.push(format!(
                "{} requests have no latency because a newer one for the same bytes came before their completion.",
                self.requests_superseded
            ));
        }
        if self.requests_outlasting > 0 {
            remarks.push(format!(
                "{} requests have no latency because {HELD_RECORDS_MAX} more came before their completion: the longest latencies are \
                 missing.",
                self.requests_outlasting
            ));
        }
        if self.requests_unfinished > 0 {
            remarks.push(format!(
                "{} requests have no latency because the trace ends before their completion.",
                self.requests_unfinished
            ));
        }
        if self.completions_absent {
            remarks.push("The trace holds no completions, so no request has a latency.".to_owned());
        }
        if self.completions_unmatched > IN_FLIGHT_MAX {
            remarks.push(format!("{} completions belong to no request of the trace.", self.completions_unmatched));
        }
        if self.completions_elsewhere > IN_FLIGHT_MAX {
            remarks.push(format!(
                "{} completions are of devices without an earlier request in the trace. Where requests are those of a partition and \
                 completions those of its disk, as kernels since 5.12 have them, `--event issue` takes both from the disk.",
                self.completions_elsewhere
            ));
        }
        remarks
    }

    /// A sentence for each thing that makes the numbers of the trace less than exact.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let [first, rest @ ..] = &self.files_missing[..] {
            let others = if rest.is_empty() { "is".to_owned() } else { format!("and {} more are", rest.len()) };
            warnings.push(format!(
                "{first} {others} missing from the set: the requests of those processors are not counted, so rates and sizes \
                 are too low, and no latency is given, since a completion may belong to a request that is missing"
            ));
        }
        if self.holes > 0 {
            let lost = match (self.events_lost, self.holes_uncounted) {
                (0, _) => "an unknown number of events is lost".to_owned(),
                (lost, 0) => format!("{lost} events are lost"),
                (lost, _) => format!("at least {lost} events are lost"),
            };
            let latencies = if self.latencies_withheld {
                "no latency is given, since they may be missing anywhere".to_owned()
            } else {
                format!(
                    "{} requests have no latency because a hole lies before their completion",
                    self.requests_in_holes
                )
            };
            let holes = if self.holes == 1 { "1 place".to_owned() } else { format!("{} places", self.holes) };
            warnings.push(format!("{lost} in {holes}: counts and rates are too low, and {latencies}"));
        }
        warnings
    }
}
