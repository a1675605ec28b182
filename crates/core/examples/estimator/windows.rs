//! Windows of requests in flight that follow PARDA's control equation: one for all clients, or one for each.

use crate::cases::Client;

/// The most requests that an array of this experiment takes at a time.
pub(crate) const DEPTH: u32 = 64;
const INTERVAL_NANOS: u64 = 100_000_000;
const SMOOTHING: f64 = 0.2;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As many as the array takes.
    Unlimited,
    /// One window, by the mean latency of all requests.
    Shared,
    /// A window a client, by the mean latency of its requests.
    Own,
    /// A window a client, by the mean latency of all requests.
    Common,
    /// A window a client: its part of the array's depth by weight.
    Static,
}

pub(crate) struct Windows {
    kind: Kind,
    target_nanos: f64,
    windows: Vec<Window>,
}

#[derive(Clone, Default)]
struct Window {
    size: f64,
    growth: f64,
    latency_sum: f64,
    completed: f64,
    /// The end of the interval; set once a request has completed in it.
    end: Option<u64>,
}

impl Windows {
    pub(crate) fn none() -> Self {
        Self { kind: Kind::Unlimited, target_nanos: 0.0, windows: vec![] }
    }

    pub(crate) fn new(kind: Kind, clients: &[Client], target_nanos: f64, growth: f64) -> Self {
        let weights: f64 = clients.iter().map(|client| f64::from(client.weight)).sum();
        let parts: Vec<f64> = match kind {
            Kind::Unlimited => vec![],
            Kind::Shared => vec![1.0],
            Kind::Own | Kind::Common | Kind::Static => {
                clients.iter().map(|client| f64::from(client.weight) / weights).collect()
            }
        };
        let window = |part| Window { size: part * f64::from(DEPTH), growth: part * growth, ..Window::default() };
        Self { kind, target_nanos, windows: parts.into_iter().map(window).collect() }
    }

    /// The most requests in flight of all clients.
    pub(crate) fn shared(&self) -> u32 {
        if self.kind == Kind::Shared { self.windows[0].requests() } else { u32::MAX }
    }

    /// The most requests in flight of a client, if it has a window.
    pub(crate) fn of(&self, client: usize) -> Option<u32> {
        let has = matches!(self.kind, Kind::Own | Kind::Common | Kind::Static);
        has.then(|| self.windows[client].requests())
    }

    /// A client's request has completed.
    pub(crate) fn completed(&mut self, now: u64, client: usize, latency_nanos: u64) {
        let target = self.target_nanos;
        let measured = match self.kind {
            Kind::Unlimited | Kind::Static => 0..0,
            Kind::Shared => 0..1,
            Kind::Own => client..client + 1,
            Kind::Common => 0..self.windows.len(),
        };
        for window in &mut self.windows[measured] {
            window.add(now, latency_nanos as f64, target);
        }
    }
}

impl Window {
    fn requests(&self) -> u32 {
        self.size.clamp(1.0, f64::from(DEPTH)) as u32
    }

    fn add(&mut self, now: u64, latency_nanos: f64, target_nanos: f64) {
        let end = *self.end.get_or_insert(now + INTERVAL_NANOS);
        self.latency_sum += latency_nanos;
        self.completed += 1.0;
        if now >= end {
            let mean = self.latency_sum / self.completed;
            let goal = self.size * target_nanos / mean + self.growth;
            self.size = ((1.0 - SMOOTHING) * self.size + SMOOTHING * goal).clamp(1.0, f64::from(DEPTH));
            (self.latency_sum, self.completed, self.end) = (0.0, 0.0, None);
        }
    }
}
