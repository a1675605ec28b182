//! Experiments on servers: platforms under workloads, each under several schedules at shares of its peak load.

use ioweir_config::{Complaint, Key, KeySet as _, ScheduleChoice, keys};
use ioweir_core::cores::SCHEDULES;
use rayon::prelude::*;

use super::spec::{MECHANISMS, Mechanism};
use super::{CostSpec, Part, PlatformSpec, RunLength, Server, ServerOutcome, WorkloadSpec};
use super::{Stationarity, peak, repeated, stationarity};
use crate::experiment::ExperimentMeta;
use crate::run::{Origin, Progress, RunError};
use crate::spec::OneOrMore;

/// The highest load, as a share of the peak: ten times more than a server can do is no experiment.
const LOAD_MAX: f64 = 10.0;
const SWINGS_MAX: u32 = 1000;
const RUNS_MAX: u64 = 100;

keys! {
    /// An experiment on the model of a storage server. `ioweir simulate FILE` reads it: it is an experiment whose file has
    /// `[[server]]` tables in the place of classes and devices.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ServerExperiment {
        /// what the experiment is about
        title: String = (String::new()),
        /// loads, as shares of the peak load under the first schedule of `peaks`
        loads: Vec<f64> = required,
        /// swings of the load before a run is measured
        warm_up: u32 = (3),
        /// swings of the load that are measured
        measured: u32 = (9),
        /// swings of the load that are measured in each run of the search for a peak
        search_measured: u32 = (6),
        /// runs of each load at most, with different seeds: two, and more if their throughputs differ by 1 % or more
        runs_max: u64 = (5),
        /// parts of the model to leave out: tail, back-end, serial, single-block
        without: Vec<String> = (Vec::new()),
        /// schedules whose peak load is searched for: the highest at which the server is in a steady state, and the mean response
        /// time acceptable
        peaks: Vec<String> = (vec!["baseline".into()]),
        /// settings of every schedule that does not give them a value itself: ["all-weights=yes"]
        settings: Vec<String> = (Vec::new()),
        /// lists of schedules that servers name: main = ["baseline", "combo"]
        schedules: toml::Table = absent,
        /// servers, a [[server]] each
        servers as "server": Vec<ServerRow> = required,
    }
}

keys! {
    /// A server under a workload.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ServerRow {
        /// its hardware: a preset (`ioweir doc platform`) or a TOML file
        platform: String = required,
        /// what its clients ask for: a preset (`ioweir doc workload`) or a TOML file
        workload: String = required,
        /// what its work costs, and how its load swings: a preset (`ioweir doc costs`) or a TOML file
        costs: String = ("usual".into()),
        /// its schedules (`ioweir doc cores`), or the name of a list; one or several
        schedules: OneOrMore<String> = required,
        /// its loads; if none is given, those of the experiment
        loads: Vec<f64> = (Vec::new()),
    }
}

/// Every key of an experiment on servers, by table; the empty name is the file itself.
#[must_use]
pub fn key_tables() -> Vec<(&'static str, Vec<Key>)> {
    vec![("", ServerExperiment::keys()), ("[[server]]", ServerRow::keys())]
}

/// The result of an experiment on servers.
#[derive(Clone, Debug)]
pub struct ServerReport {
    pub experiment: ServerExperiment,
    /// The versions and inputs that are needed to run the experiment again.
    pub meta: ExperimentMeta,
    pub peaks: Vec<Peak>,
    /// The runs, by server, schedule and load.
    pub cells: Vec<ServerCell>,
}

/// The highest load that a server takes under a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Peak {
    /// The number of the server in the file.
    pub server: usize,
    pub schedule: String,
    /// The load.
    pub requests_per_second: f64,
}

/// A server under a schedule at a load, with several seeds.
#[derive(Clone, Debug)]
pub struct ServerCell {
    /// The number of the server in the file.
    pub server: usize,
    pub schedule: String,
    /// The load, as a share of the peak.
    pub load: f64,
    /// The load.
    pub requests_per_second: f64,
    /// A run for each seed, from 0.
    pub runs: Vec<ServerOutcome>,
    /// Whether they are those of a server in a steady state.
    pub stationarity: Stationarity,
}

impl ServerRow {
    /// Platform and workload, as reports name the server.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} under {}", self.platform, self.workload)
    }
}

crate::spec_file!(ServerExperiment, HINTS, check);

impl ServerExperiment {
    /// Whether a text describes an experiment on servers, and not one on classes and devices.
    #[must_use]
    pub fn is_described_by(text: &str) -> bool {
        let table = text.parse::<toml::Table>();
        table.is_ok_and(|table| table.get("server").is_some_and(toml::Value::is_array))
    }

    /// Checks values and names. Files of platforms and workloads are read when the experiment is run.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn check(&self) -> Result<(), Complaint> {
        let wrong = |key: &str, problem: String, expected: String| Err(Complaint::expecting(key, problem, expected));
        if self.loads.is_empty() {
            return wrong("loads", "none is named".into(), "at least one, such as [0.8, 1.0]".into());
        }
        let of_servers = self.servers.iter().enumerate().map(|(at, row)| (format!("server[{at}].loads"), &row.loads));
        for (key, loads) in of_servers.chain([("loads".into(), &self.loads)]) {
            if let Some(load) = loads.iter().find(|load| !(0.001..=LOAD_MAX).contains(*load)) {
                return wrong(&key, format!("{load} is out of range"), format!("shares from 0.001 to {LOAD_MAX}"));
            }
        }
        for (at, setting) in self.settings.iter().enumerate() {
            scheduling(&format!("{}:{setting}", SCHEDULES[0].name), &format!("settings[{at}]"))?;
        }
        for (key, swings, least) in
            [("warm_up", self.warm_up, 0), ("measured", self.measured, 1), ("search_measured", self.search_measured, 1)]
        {
            if !(least..=SWINGS_MAX).contains(&swings) {
                return wrong(key, format!("is {swings}"), format!("{least} to {SWINGS_MAX} swings"));
            }
        }
        if !(1..=RUNS_MAX).contains(&self.runs_max) {
            return wrong("runs_max", format!("is {}", self.runs_max), format!("1 to {RUNS_MAX}"));
        }
        for (at, name) in self.without.iter().enumerate() {
            mechanism(name, &format!("without[{at}]"))?;
        }
        if self.peaks.is_empty() {
            return wrong("peaks", "none is named".into(), "at least one schedule, such as [\"baseline\"]".into());
        }
        for (at, name) in self.peaks.iter().enumerate() {
            self.scheduling(name, &format!("peaks[{at}]"))?;
        }
        if self.servers.is_empty() {
            return wrong("server", "there is none".into(), "at least one [[server]]".into());
        }
        (0..self.servers.len()).try_for_each(|server| self.schedules_of(server).map(drop))
    }

    /// The loads of a server.
    #[must_use]
    pub fn loads_of(&self, server: usize) -> &[f64] {
        let own = &self.servers[server].loads;
        if own.is_empty() { &self.loads } else { own }
    }

    /// The schedule of this name, with the settings that it does not have; `key` is the place of the name.
    fn scheduling(&self, name: &str, key: &str) -> Result<ScheduleChoice, Complaint> {
        let mut whole = name.to_string();
        for setting in self.settings.iter() {
            let parameter = setting.split('=').next().unwrap_or_default();
            if !name.split(':').skip(1).any(|own| own.split('=').next() == Some(parameter)) {
                whole = format!("{whole}:{setting}");
            }
        }
        scheduling(&whole, key)
    }

    /// The schedules of a server, with the lists that it names put in.
    fn schedules_of(&self, server: usize) -> Result<Vec<(&str, ScheduleChoice)>, Complaint> {
        let mut schedules = Vec::new();
        for name in &self.servers[server].schedules.0 {
            let key = format!("server[{server}].schedules");
            match self.schedules.get(name) {
                None => schedules.push((name.as_str(), self.scheduling(name, &key)?)),
                Some(list) => {
                    let key = format!("schedules.{name}");
                    let expected = "a list of schedules: [\"baseline\", \"combo\"]";
                    let unusable = || Complaint::expecting(&key, "is no list of names", expected);
                    for name in list.as_array().ok_or_else(unusable)? {
                        let name = name.as_str().ok_or_else(unusable)?;
                        schedules.push((name, self.scheduling(name, &key)?));
                    }
                }
            }
        }
        if schedules.is_empty() {
            let key = format!("server[{server}].schedules");
            return Err(Complaint::expecting(key, "none is named", "at least one schedule"));
        }
        Ok(schedules)
    }

    /// Runs the experiment: first the searches for peaks, then each load. The report depends on nothing but the arguments and the
    /// files they name.
    ///
    /// # Errors
    /// [`RunError`] if a server or a schedule is invalid, or the run was stopped.
    pub fn run(&self, origin: &Origin, progress: &dyn Progress) -> Result<ServerReport, RunError> {
        self.check()?;
        let servers: Vec<Server> = self.servers.iter().map(|row| self.server(row)).collect::<Result<_, _>>()?;
        let mut tasks = Vec::new();
        for server in 0..servers.len() {
            for (name, scheduling) in self.schedules_of(server)? {
                tasks.extend(self.loads_of(server).iter().map(|load| (server, name, scheduling, *load)));
            }
        }
        progress.started(servers.len() * self.peaks.len() + tasks.len());
        let peaks = self.search(&servers, progress)?;
        let length = RunLength { warm_up: self.warm_up, measured: self.measured };
        let cells = tasks.par_iter().map(|&(server, schedule, scheduling, load)| {
            stop(progress)?;
            let requests_per_second = peaks[server * self.peaks.len()].requests_per_second * load;
            let long = (length, requests_per_second);
            let runs = repeated(&servers[server], &scheduling, long, self.runs_max, progress)?;
            progress.finished(schedule);
            let stationarity = stationarity(&runs, servers[server].limit_seconds());
            Ok(ServerCell { server, schedule: schedule.to_owned(), load, requests_per_second, runs, stationarity })
        });
        let cells = cells.collect::<Result<_, RunError>>()?;
        let meta = ExperimentMeta::new(origin, self.to_toml(), Vec::new());
        Ok(ServerReport { experiment: self.clone(), meta, peaks, cells })
    }

    fn server(&self, row: &ServerRow) -> Result<Server, RunError> {
        let (mut workload, mut costs) = (WorkloadSpec::load(&row.workload)?, CostSpec::load(&row.costs)?);
        for (at, name) in self.without.iter().enumerate() {
            let mechanism = mechanism(name, &format!("without[{at}]"));
            let mechanism = mechanism.map_err(|complaint| complaint.in_file("experiment", None))?;
            (mechanism.leave_out)(&mut workload, &mut costs);
        }
        Ok(Server::new(PlatformSpec::load(&row.platform)?, workload, costs)?)
    }

    /// The peaks of every server under each schedule of `peaks`, server by server.
    fn search(&self, servers: &[Server], progress: &dyn Progress) -> Result<Vec<Peak>, RunError> {
        let length = RunLength { warm_up: self.warm_up, measured: self.measured };
        let sought = RunLength { measured: self.search_measured, ..length };
        let searches: Vec<(usize, &String)> =
            (0..servers.len()).flat_map(|server| self.peaks.iter().map(move |schedule| (server, schedule))).collect();
        let found = searches.par_iter().map(|&(server, schedule)| {
            stop(progress)?;
            let scheduling =
                self.scheduling(schedule, "peaks").map_err(|complaint| complaint.in_file("experiment", None))?;
            let requests_per_second = peak(&servers[server], &scheduling, (sought, length), self.runs_max, progress)?;
            progress.finished(schedule);
            Ok(Peak { server, schedule: schedule.clone(), requests_per_second })
        });
        found.collect()
    }
}

const HINTS: &[(&str, &str)] = &[(
    "unknown field",
    "`ioweir doc simulate` lists the keys of experiments; one with [[server]] tables has no classes or devices",
)];

/// Looks up a schedule; `key` is the place of its name.
fn scheduling(name: &str, key: &str) -> Result<ScheduleChoice, Complaint> {
    name.parse().map_err(|error: ioweir_config::ChoiceError| {
        Complaint::expecting(key, error.problem, error.expected).hint(error.hint)
    })
}

/// Looks up a part of the model.
fn mechanism(name: &str, key: &str) -> Result<&'static Mechanism, Complaint> {
    MECHANISMS.iter().find(|mechanism| mechanism.name == name).ok_or_else(|| {
        let names: Vec<&str> = MECHANISMS.iter().map(|mechanism| mechanism.name).collect();
        Complaint::expecting(key, format!("no part of the model is called {name}"), names.join(", "))
    })
}

fn stop(progress: &dyn Progress) -> Result<(), RunError> {
    if progress.is_stopped() { Err(RunError::Stopped) } else { Ok(()) }
}
