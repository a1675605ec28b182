//! The work of a server's cores for the requests of each class: what they cost, and what they wait for before they begin; with the checks
//! of their keys.

use ioweir_core::{Nanos, SECTOR_BYTES};

use super::spec::{ClassSpec, CoresSpec, Experiment, LocksSpec, OwnWorkSpec, Spacing, SwingSpec, TailSpec};
use crate::sim::{ClassCosts, Distribution, Pieces, Tail, Variation};
use ioweir_config::{Complaint, Duration, Ratio, Size};

/// The most times that one read can miss.
const MISSES_MAX: usize = 32;
/// The shortest and the longest period of a swing.
const PERIODS: [Duration; 2] = [Duration::new(Nanos(1_000_000)), Duration::from_seconds(3600)];

impl Experiment {
    /// The processor time of the requests of a class.
    pub(crate) fn costs(&self, cores: &CoresSpec, class: &ClassSpec) -> ClassCosts {
        let own = class.cost.clone().unwrap_or_default();
        let tail = own.tail.as_ref().or(cores.tail.as_ref()).map(TailSpec::tail);
        let tail = tail.filter(|_| !self.is_of_server(class));
        let distribution = own.distribution.unwrap_or(cores.distribution);
        let whole = ClassCosts {
            read: own.read.unwrap_or(cores.read).nanos(),
            write: own.write.unwrap_or(cores.write).nanos(),
            other: own.other.unwrap_or(cores.other).nanos(),
            kibibyte: own.per_kib.unwrap_or(cores.per_kib).nanos(),
            completion: own.completion.unwrap_or(cores.completion).nanos(),
            slow_path: own.slow_path.unwrap_or(cores.slow_path).nanos(),
            variation: Variation::new(own.spread.unwrap_or(cores.spread), distribution, tail),
        };
        // Consistency points and reads ahead have a cost of their own before their device, and none after it; none of them is longer than
        // others.
        let costs = ClassCosts { completion: Nanos::ZERO, ..whole.clone() };
        if let Some(log) = self.log.as_ref().filter(|log| log.class == class.name) {
            return ClassCosts { write: log.base.nanos(), kibibyte: log.per_kib.nanos(), ..costs };
        }
        let Some(ahead) = self.read_ahead.as_ref().filter(|ahead| ahead.class == class.name) else { return whole };
        let data = u128::from(class.size.0) * u128::from(ahead.per_kib.nanos().0) / 1024;
        let read = ahead.base.nanos().after(Nanos(u64::try_from(data).unwrap_or(u64::MAX)));
        ClassCosts { read, kibibyte: Nanos::ZERO, ..costs }
    }

    /// Whether the requests of a class are background work of the server: that of debts, or its own work.
    pub(crate) fn is_background(&self, class: &ClassSpec) -> bool {
        class.background.is_some() || self.own_work.as_ref().is_some_and(|own| own.class == class.name)
    }

    /// The number of the class whose requests are the server's own work.
    pub(crate) fn own_work_class(&self) -> Option<(&OwnWorkSpec, usize)> {
        let own = self.own_work.as_ref()?;
        Some((own, self.classes.iter().position(|class| class.name == own.class)?))
    }

    /// Checks what requests wait for in the server.
    pub(super) fn check_waits(&self) -> Result<(), Complaint> {
        if let Some(cores) = &self.cores {
            check_variation("cores", Some(cores.distribution), cores.tail.as_ref())?;
        }
        let is_locking = self.classes.iter().any(|class| class.locks);
        if let Some(locks) = &self.locks {
            check_pieces("locks", ["object", "objects"], locks.object, locks.objects)?;
        }
        match &self.locks {
            Some(_) if self.cores.is_none() => {
                let expected = "a table [cores], whose workers take the locks";
                return Err(Complaint::expecting("locks", "there are no cores", expected));
            }
            Some(_) if !is_locking => {
                let expected = "a class with locks = true";
                return Err(Complaint::expecting("locks", "no class locks anything", expected));
            }
            _ => {}
        }
        self.own_work.as_ref().map_or(Ok(()), |own| self.check_own_work(own))
    }

    fn check_own_work(&self, own: &OwnWorkSpec) -> Result<(), Complaint> {
        if self.cores.is_none() {
            let expected = "a table [cores], whose workers do it";
            return Err(Complaint::expecting("own_work", "there are no cores", expected));
        }
        check_pieces("own_work", ["region", "regions"], own.region, own.regions)?;
        let what = "requests of a [[class]] of this file are the server's own work";
        let class = &self.classes[self.find_class("own_work.class", &own.class, what)?];
        if class.background.is_some() || self.is_of_server(class) {
            let problem = format!("`{}` has requests of another kind", class.name);
            return Err(Complaint::expecting("own_work.class", problem, "a class with a rate, a backlog or a trace"));
        }
        let writes = |other: &&ClassSpec| other.read_ratio < Ratio::ONE || other.trace.is_some();
        let waits = |other: &&ClassSpec| !self.is_own_work(other) && self.group_of(other) == self.group_of(class);
        if self.classes.iter().filter(writes).any(|other| waits(&other)) {
            return Ok(());
        }
        let problem = format!("no class writes to the device of `{}`, so that nothing could wait", class.name);
        Err(Complaint::expecting("own_work.class", problem, "a class with writes on the same device"))
    }

    /// Checks the keys of a class about its work.
    pub(super) fn check_work(&self, class: &ClassSpec, key: &dyn Fn(&str) -> String) -> Result<(), Complaint> {
        if class.locks && self.locks.is_none() {
            let expected = "a table [locks] with the size of an object";
            return Err(Complaint::expecting(key("locks"), "what is locked is not said", expected));
        }
        if let Some(cost) = &class.cost {
            if self.cores.is_none() {
                let problem = "only cores take time, and there are none";
                return Err(Complaint::expecting(key("cost"), problem, "a table [cores]"));
            }
            check_variation(&key("cost"), cost.distribution, cost.tail.as_ref())?;
        }
        if let Some(swing) = &class.swing {
            swing.check(class, &|part| key(&format!("swing.{part}")))?;
        }
        let costs = self.cores.as_ref().map(|cores| self.costs(cores, class)).unwrap_or_default();
        if class.misses.is_some() && costs.read.after(costs.completion) == Nanos::ZERO {
            let expected = "a table [cores] with read or completion above 0, since nothing else takes time";
            return Err(Complaint::expecting(key("misses"), "reads would be answered at once", expected));
        }
        let misses = class.misses.as_ref().map_or(&[][..], |misses| &misses.0);
        if class.misses.is_some() && !(1..=MISSES_MAX).contains(&misses.len()) {
            let problem = format!("are {}", misses.len());
            return Err(Complaint::expecting(key("misses"), problem, format!("1 to {MISSES_MAX}")));
        }
        if misses.first().is_some_and(|first| *first < Ratio::ONE) && self.is_background(class) {
            let problem = "background work is done on its device";
            return Err(Complaint::expecting(key("misses"), problem, "the key left out"));
        }
        if class.direct > Ratio::ZERO && self.cores.is_none() {
            let problem = "without cores, devices answer all requests";
            return Err(Complaint::expecting(key("direct"), problem, "the key left out, or a table [cores]"));
        }
        let is_logged = self.log.is_some() && !self.is_own_work(class);
        if is_logged && costs.write.after(costs.completion) == Nanos::ZERO {
            let expected =
                "cores.write or cores.completion above 0, since nothing else takes time until a write is answered";
            let problem = format!("writes of `{}` would be answered at once", class.name);
            return Err(Complaint::expecting("log", problem, expected));
        }
        Ok(())
    }
}

impl LocksSpec {
    pub(crate) fn pieces(&self) -> Pieces {
        pieces(self.object, self.objects)
    }
}

impl OwnWorkSpec {
    pub(crate) fn pieces(&self) -> Pieces {
        pieces(self.region, self.regions)
    }
}

/// The objects of locks, or the regions of own work, as their table has them.
fn pieces(bytes: Option<Size>, drawn: Option<u32>) -> Pieces {
    drawn.map_or(Pieces::OfBytes(bytes.map_or(1, |bytes| bytes.0)), Pieces::Drawn)
}

/// Checks that a table gives the size of its pieces, or their number.
fn check_pieces(
    table: &str,
    [size, number]: [&str; 2],
    bytes: Option<Size>,
    drawn: Option<u32>,
) -> Result<(), Complaint> {
    match (bytes, drawn) {
        (Some(bytes), None) if bytes.0 < SECTOR_BYTES => {
            Err(Complaint::expecting(format!("{table}.{size}"), format!("is {bytes}"), "at least 512B"))
        }
        (None, Some(0)) => Err(Complaint::expecting(format!("{table}.{number}"), "is 0", "at least 1")),
        (Some(_), Some(_)) => {
            let problem = format!("is given beside {size}");
            Err(Complaint::expecting(format!("{table}.{number}"), problem, "one of both"))
        }
        (None, None) => {
            let expected = format!("{size} = \"4KiB\", or {number} = 1000");
            Err(Complaint::expecting(format!("{table}.{size}"), "neither a size nor a number is given", expected))
        }
        _ => Ok(()),
    }
}

impl TailSpec {
    fn tail(&self) -> Tail {
        Tail { share: self.share, from: self.from.nanos(), to: self.to.nanos() }
    }
}

impl SwingSpec {
    fn check(&self, class: &ClassSpec, key: &dyn Fn(&str) -> String) -> Result<(), Complaint> {
        if class.rate.is_none() || class.arrivals != Spacing::Poisson {
            let problem = "only independent arrivals of an open loop swing";
            return Err(Complaint::expecting(
                key("period"),
                problem,
                "a class with a rate, and arrivals = \"poisson\"",
            ));
        }
        if self.amplitude >= Ratio::ONE {
            let problem = format!("is {}", self.amplitude.value());
            return Err(Complaint::expecting(key("amplitude"), problem, "less than 1"));
        }
        Complaint::unless_within(key("period"), self.period, PERIODS)
    }
}

fn check_variation(table: &str, distribution: Option<Distribution>, tail: Option<&TailSpec>) -> Result<(), Complaint> {
    if let Some(distribution) = distribution {
        distribution.check(&format!("{table}.distribution"))?;
    }
    match tail {
        Some(tail) if tail.from > tail.to => {
            let problem = format!("{} is before {}", tail.to, tail.from);
            Err(Complaint::expecting(format!("{table}.tail.to"), problem, "at least as much as from"))
        }
        _ => Ok(()),
    }
}
