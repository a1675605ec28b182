//! Classes of clients, and the client that each stream of a run belongs to.

use ioweir_core::StreamId;

/// Clients that are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientClass {
    pub name: String,
    /// Clients in it, at least one.
    pub clients: u32,
    pub weight: u32,
    /// Whether its requests come from a trace whose streams the scheduler sees. Otherwise each client is a stream.
    pub keeps_streams: bool,
}

/// All clients of a run.
///
/// The scheduler sees streams. Clients are the first streams; those of traces follow; if there are several such
/// traces, their streams alternate. A trace that is alone keeps its own numbers.
#[derive(Clone, Debug)]
pub struct Clients {
    classes: Vec<ClientClass>,
    /// First client of each class.
    first: Vec<u32>,
    class_of: Vec<u32>,
    /// Streams of traces begin here.
    streams_from: u32,
    /// Classes whose traces keep their streams.
    traces: Vec<u32>,
}

impl Clients {
    /// The clients of these classes, numbered in their order.
    #[must_use]
    pub fn new(classes: Vec<ClientClass>) -> Self {
        let (mut first, mut class_of, mut traces) = (Vec::new(), Vec::new(), Vec::new());
        for (number, class) in (0..).zip(&classes) {
            first.push(class_of.len() as u32);
            class_of.extend((0..class.clients).map(|_| number));
            traces.extend(class.keeps_streams.then_some(number));
        }
        let streams_from = match traces.len() {
            0 => u32::MAX,
            kept if kept == classes.len() => 0,
            _ => class_of.len() as u32,
        };
        Self { classes, first, class_of, streams_from, traces }
    }

    /// One client that sends all streams of a trace.
    #[must_use]
    pub fn of_trace(name: String) -> Self {
        Self::new(vec![ClientClass { name, clients: 1, weight: 1, keeps_streams: true }])
    }

    #[must_use]
    pub fn classes(&self) -> &[ClientClass] {
        &self.classes
    }

    /// How many clients there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.class_of.len()
    }

    /// The client that a stream belongs to.
    #[inline]
    #[must_use]
    pub fn client(&self, stream: StreamId) -> usize {
        if self.class_of.len() == 1 {
            return 0;
        }
        match stream.0.checked_sub(self.streams_from) {
            Some(number) if !self.traces.is_empty() => self.client_of_traces(number),
            _ => stream.0 as usize,
        }
    }

    /// The client that the stream of this number belongs to, counted over the traces.
    fn client_of_traces(&self, number: u32) -> usize {
        let traces = self.traces.len() as u32;
        let class = self.traces[(number % traces) as usize] as usize;
        (self.first[class] + number / traces % self.classes[class].clients) as usize
    }

    #[inline]
    #[must_use]
    pub fn class(&self, client: usize) -> usize {
        self.class_of[client] as usize
    }

    #[must_use]
    pub fn of_class(&self, class: usize) -> std::ops::Range<u32> {
        self.first[class]..self.first[class] + self.classes[class].clients
    }

    /// The name of each client.
    #[must_use]
    pub fn client_names(&self) -> Vec<String> {
        (0..self.class_of.len()).map(|client| self.client_name(client)).collect()
    }

    /// The name of a client: that of its class, with its number if the class has several.
    #[must_use]
    pub fn client_name(&self, client: usize) -> String {
        let class = self.class(client);
        let ClientClass { name, clients, .. } = &self.classes[class];
        match clients {
            1 => name.clone(),
            _ => format!("{name} client {}", client - self.first[class] as usize),
        }
    }

    /// The streams by which the scheduler sees the trace of a class.
    #[must_use]
    pub fn streams(&self, class: usize) -> Streams {
        match self.traces.iter().position(|trace| *trace as usize == class) {
            Some(at) => {
                let step = self.traces.len() as u32;
                Streams { from: self.streams_from.saturating_add(at as u32), step, count: u32::MAX }
            }
            None => Streams { from: self.first[class], step: 1, count: self.classes[class].clients },
        }
    }
}

/// The numbers that the streams of a trace have in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    from: u32,
    step: u32,
    count: u32,
}

impl Streams {
    /// As in the trace.
    pub const KEPT: Self = Self { from: 0, step: 1, count: u32::MAX };

    #[must_use]
    pub const fn number(self, of_trace: StreamId) -> StreamId {
        StreamId((of_trace.0 % self.count).saturating_mul(self.step).saturating_add(self.from))
    }

    /// The stream of the trace that has this number, if one has.
    #[must_use]
    pub const fn of_trace(self, number: StreamId) -> Option<StreamId> {
        match number.0.checked_sub(self.from) {
            Some(number) if number % self.step == 0 && number / self.step < self.count => {
                Some(StreamId(number / self.step))
            }
            _ => None,
        }
    }
}
