//! Arrays and mixes of clients, drawn at random within the limits of a family.

use std::fmt;

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// From zero to one, both excluded.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.next() % of.len() as u64) as usize]
    }

    /// Between two bounds, uniform in the logarithm.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }
}

/// The kinds of arrays and mixes. On one queue clients differ in service times, above tiers in hits.
pub(crate) const FAMILIES: &[&str] =
    &["one server", "several servers", "two tiers", "three tiers", "tiers and service", "change", "seen late"];

#[derive(Clone)]
pub(crate) struct Tier {
    pub(crate) servers: usize,
    pub(crate) mean_nanos: f64,
}

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) weight: u32,
    /// The part of its requests that each tier serves.
    pub(crate) hits: Vec<f64>,
    /// The service times of its requests, in multiples of the mean of the tier.
    pub(crate) factor: f64,
    pub(crate) is_here: bool,
}

pub(crate) struct Case {
    pub(crate) tiers: Vec<Tier>,
    pub(crate) clients: Vec<Client>,
    /// The clients before the change, if anything changes.
    pub(crate) before: Option<Vec<Client>>,
    pub(crate) depth: u32,
    pub(crate) is_exponential: bool,
    /// Completions are seen at multiples of this, or at once.
    pub(crate) looks_every: u64,
    pub(crate) seed: u64,
}

impl Case {
    pub(crate) fn draw(family: &str, seed: u64) -> Self {
        let mut random = Random(seed);
        let random = &mut random;
        let count = match family {
            "one server" | "several servers" => 1,
            "two tiers" => 2,
            "three tiers" => 3,
            _ => random.one_of(&[1, 2, 2, 3]),
        };
        let mut mean_nanos = random.between(20_000.0, 500_000.0);
        let mut tiers = vec![];
        for _ in 0..count {
            let servers = match family {
                "one server" => 1,
                "several servers" => random.one_of(&[2, 4, 8]),
                _ => random.one_of(&[1, 1, 2, 4, 8]),
            };
            tiers.push(Tier { servers, mean_nanos });
            mean_nanos *= if count == 3 { random.between(3.0, 25.0) } else { random.between(5.0, 500.0) };
        }
        let has_factors = count == 1 || family == "tiers and service";
        let clients = (0..random.one_of(&[2, 2, 3, 5])).map(|_| client(random, count, has_factors)).collect();
        let mut case = Self {
            tiers,
            clients,
            before: None,
            depth: random.one_of(&[1, 2, 4, 8, 16, 32, 64]),
            is_exponential: random.one_of(&[true, true, false]),
            looks_every: 0,
            seed,
        };
        if family == "change" {
            case.change(random, has_factors);
        }
        if family == "seen late" {
            case.looks_every = random.between(10_000.0, 1_000_000.0) as u64;
        }
        case
    }

    /// Before the measurement, each client has other hits or another service time, is not there, or is as it will be.
    fn change(&mut self, random: &mut Random, has_factors: bool) {
        let mut before = self.clients.clone();
        for of in &mut before {
            match random.next() % 4 {
                0 => of.is_here = false,
                1 => {}
                _ => *of = Client { weight: of.weight, ..client(random, self.tiers.len(), has_factors) },
            }
        }
        before[0].is_here = true;
        if self.clients.len() > 2 {
            self.clients[2].is_here = random.next().is_multiple_of(2);
        }
        self.before = Some(before);
    }
}

fn client(random: &mut Random, tiers: usize, has_factors: bool) -> Client {
    let mut hits: Vec<f64> = (0..tiers).map(|_| random.unit().powi(2)).collect();
    if tiers > 1 && random.next().is_multiple_of(4) {
        hits[1..].fill(0.0);
    }
    let sum: f64 = hits.iter().sum();
    for part in &mut hits {
        *part /= sum;
    }
    Client {
        weight: random.one_of(&[1, 1, 1, 2, 4]),
        hits,
        factor: if has_factors { random.between(1.0, 10.0) } else { 1.0 },
        is_here: true,
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = if self.is_exponential { "exponential" } else { "constant" };
        write!(out, "depth {}, {shape}", self.depth)?;
        if self.looks_every > 0 {
            write!(out, ", seen every {} us", self.looks_every / 1_000)?;
        }
        for tier in &self.tiers {
            write!(out, "; {} x {:.0} us", tier.servers, tier.mean_nanos / 1_000.0)?;
        }
        for client in self.clients.iter().filter(|client| client.is_here) {
            write!(out, "; weight {} x {:.2}", client.weight, client.factor)?;
            for hits in &client.hits {
                write!(out, " {hits:.2}")?;
            }
        }
        Ok(())
    }
}
