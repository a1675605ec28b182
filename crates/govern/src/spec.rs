//! The keys of a govern file that name sources of load and workers.

use std::path::PathBuf;

use ioweir_config::{ByteRate, Complaint, Duration, Key, KeySet as _, Size, keys};
use regex_lite::Regex;
use serde::{Deserialize, Serialize};

use crate::processors::Processors;
use ioweir_serve::spec::Listen;

/// Where the load of the foreground is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// The kernel's counts of a disk.
    Disk,
    /// A block server of this program.
    Server,
    /// A Prometheus server, or what answers like one.
    Prometheus,
    /// A file of rates, for the past alone.
    Series,
}

keys! {
    /// A source of load. What several of them measure is taken from the first.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SourceKeys {
        /// disk (/proc/diskstats and /proc/pressure/io), server (an `ioweir serve`), prometheus, or series (a table of rates, for the
        /// past alone)
        kind: SourceKind = required,
        /// of a disk: its name in /proc/diskstats
        disk: Option<String> = absent,
        /// of a disk: the length of a worker's requests, by which what workers do is taken off the disk's requests
        worker_request: Size = (Size(128 << 10)),
        /// of a server: its control socket, unix:PATH
        control: Option<Listen> = absent,
        /// of a server: the device; all of them where absent
        device: Option<String> = absent,
        /// of Prometheus: its address, http://HOST:PORT or https://HOST:PORT
        url: Option<String> = absent,
        /// of Prometheus: the query of requests a second, which gives one series, such as "sum(rate(reads[1m]))"; of series: the column
        requests: Option<String> = absent,
        /// of Prometheus: the query of bytes a second
        bytes: Option<String> = absent,
        /// of Prometheus: the query of bytes written a second; of series: the column
        written_bytes: Option<String> = absent,
        /// of Prometheus: the query of bytes discarded a second; of series: the column
        discarded_bytes: Option<String> = absent,
        /// of Prometheus: the query of the share of what is written that is new, 0 to 1, and no overwriting; of series: the column
        unique: Option<String> = absent,
        /// of Prometheus: the query of the latency that is judged, in seconds
        latency: Option<String> = absent,
        /// of Prometheus: the query of the share of time that the device is busy, 0 to 1; of series: the column
        busy: Option<String> = absent,
        /// of Prometheus: how much of the past is asked for at the start; "0s" for none
        past: Duration = (Duration::from_seconds(28 * 86_400)),
        /// of Prometheus: the user of basic authentication
        user: Option<String> = absent,
        /// of Prometheus: the file with the password of basic authentication
        password_file: Option<PathBuf> = absent,
        /// of Prometheus: the file with a bearer token
        token_file: Option<PathBuf> = absent,
        /// of Prometheus: the authorities that may sign its certificate, in PEM
        authorities: PathBuf = (PathBuf::from("/etc/ssl/certs/ca-certificates.crt")),
        /// of Prometheus: how long an answer may take
        timeout: Duration = (Duration::from_seconds(5)),
        /// of series: the files, in order of time
        file: Vec<String> = absent,
    }
}

/// How a service is run and stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerKind {
    /// By commands.
    Command,
    /// A unit of systemd.
    Unit,
    /// A service of a block server of this program.
    Server,
}

/// The default of a service without a governor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Otherwise {
    /// The service rests.
    Rest,
    /// The service runs.
    Run,
}

keys! {
    /// How a service is run and stopped. Commands are lists of words; no shell reads them.
    #[derive(Clone, Debug, PartialEq)]
    pub struct WorkerKeys {
        /// command, unit (of systemd) or server (a service of `ioweir serve`)
        kind: WorkerKind = (WorkerKind::Command),
        /// what the service does when the governor is gone: rest or run; a service of a server does what the server's spec says
        default: Otherwise = (Otherwise::Rest),
        /// command that begins the work and returns
        start: Vec<String> = absent,
        /// command that does the work while it runs; it is paused by SIGSTOP unless `pause` is there
        run: Vec<String> = absent,
        /// command that does the part of the work from {offset_bytes} on, {length_bytes} long; the parts make `size`
        step: Vec<String> = absent,
        /// command that pauses the work; where absent a [rate] is set to its `min`, and else the work is ended
        pause: Vec<String> = absent,
        /// command that goes on with paused work; `start` where absent, and where it fails
        resume: Vec<String> = absent,
        /// command that ends work which does not pause
        end: Vec<String> = absent,
        /// command that prints how far the work is
        progress: Vec<String> = absent,
        /// regular expression for what `progress` prints, with a group (?<done>...) or (?<percent>...), and perhaps (?<total>...)
        pattern: Option<String> = absent,
        /// unit of numbers that `progress` prints without one
        pattern_unit: Size = (Size(1)),
        /// regular expression for what `progress` prints when nothing is left to do
        finished: Option<String> = absent,
        /// regular expression for what `progress` prints when the work has failed
        failed: Option<String> = absent,
        /// all of the work, for `step` and (?<percent>...)
        size: Option<Size> = absent,
        /// of `run` and `step`: the processors that their programs run on, and no others, such as "2-3,6". Keep what clients wait for off them
        processors: Option<Processors> = absent,
        /// how fast the work may be: [worker.NAME.rate]
        rate: Option<RateKeys> = absent,
        /// of a unit: its name
        unit: Option<String> = absent,
        /// of a server: its control socket, unix:PATH
        control: Option<Listen> = absent,
        /// of a server: the name of the service; that of the worker where absent
        service: Option<String> = absent,
        /// of a server whose service is an idle class: the most requests of clients beside which it starts one; 0 if absent. On flash a third
        /// of what the device does at once is felt as little
        idle_depth: Option<u32> = absent,
        /// of a server whose service is an idle class: the longest of its requests; if absent, for a scrub and for relocation 64KiB, and 1MiB
        /// while work would be late that is nearly due
        request_bytes_max: Option<Size> = absent,
        /// of a server: how long it follows the last word of a governor that is gone
        lease: Duration = (Duration::from_seconds(10)),
        /// how long a command may take, until it is ended; `run` takes as long as it does, and a `step` has `grace` beside it
        limit: Duration = (Duration::from_seconds(10)),
        /// how long a worker may take to answer beyond its commands, until that is reported
        grace: Duration = (Duration::from_seconds(30)),
    }
}

keys! {
    /// How the speed of a service is set. Where there is no other command, running is the speed of the slice, and resting is `min`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct RateKeys {
        /// file that the value is written to
        file: Option<PathBuf> = absent,
        /// command that sets the value, which stands for {value} in it
        command: Vec<String> = absent,
        /// what a value of one is worth: "1KiB/s" for a value in KiB a second
        unit: ByteRate = (ByteRate(1)),
        /// the least value, while it rests
        min: u64 = (0),
        /// the most
        max: u64 = (u64::from(u32::MAX)),
        /// the value when the governor is gone; `min` or `max`, by `default`, where absent
        otherwise: Option<u64> = absent,
    }
}

/// Every key of these tables.
#[must_use]
pub fn key_tables() -> Vec<(&'static str, Vec<Key>)> {
    vec![
        ("[[source]]", SourceKeys::keys()),
        ("[worker.NAME]", WorkerKeys::keys()),
        ("[worker.NAME.rate]", RateKeys::keys()),
    ]
}

/// The longest that a time limit can be.
const LIMIT_MAX: Duration = Duration::from_seconds(3600);

fn missing(at: &str, kind: &str, key: &str) -> Complaint {
    Complaint::of_value(at, format!("{kind} has no `{key}`"))
}

/// Refuses keys that the kind does not use: they would be ignored.
fn only(at: &str, kind: &str, given: &[&str], used: &[&str], all: &[&str]) -> Result<(), Complaint> {
    match given.iter().find(|key| all.contains(key) && !used.contains(key)) {
        None => Ok(()),
        Some(key) => Err(Complaint::of_value(format!("{at}.{key}"), format!("{key}: {kind} does not use it"))
            .expected(format!("keys of it: {}", used.join(", ")))),
    }
}

impl SourceKeys {
    /// The keys that belong to one kind.
    const OWN: [(SourceKind, &'static str, &'static [&'static str], &'static str); 4] = [
        (SourceKind::Disk, "a source of kind disk", &["disk"], "disk"),
        (SourceKind::Server, "a source of kind server", &["control", "device"], "control"),
        (
            SourceKind::Prometheus,
            "a source of kind prometheus",
            &[
                "url",
                "requests",
                "bytes",
                "written_bytes",
                "discarded_bytes",
                "unique",
                "latency",
                "busy",
                "user",
                "password_file",
                "token_file",
            ],
            "url",
        ),
        (
            SourceKind::Series,
            "a source of kind series",
            &["file", "requests", "written_bytes", "discarded_bytes", "unique", "busy"],
            "file",
        ),
    ];

    /// Checks a source, which stands at `at` in its file.
    ///
    /// # Errors
    /// [`Complaint`]: the first key that is missing, unused or wrong.
    pub fn check(&self, at: &str) -> Result<(), Complaint> {
        let all: Vec<&str> = Self::OWN.iter().flat_map(|row| row.2.iter().copied()).collect();
        let Some((_, kind, used, required)) = Self::OWN.iter().find(|row| row.0 == self.kind) else {
            unreachable!("every kind has its row")
        };
        let given: Vec<&str> = self.given_here();
        only(at, kind, &given, used, &all)?;
        if !given.contains(required) {
            return Err(missing(at, kind, required));
        }
        if let Some(Listen::Tcp(_)) = self.control {
            return Err(Complaint::of_value(format!("{at}.control"), "control: a control socket is a unix socket"));
        }
        if self.worker_request.0 == 0 {
            return Err(Complaint::of_value(format!("{at}.worker_request"), "worker_request: a request of no size"));
        }
        match self.kind {
            SourceKind::Prometheus => self.check_prometheus(at),
            SourceKind::Series if self.busy.is_none() && self.requests.is_none() => {
                Err(missing(at, kind, "busy` or `requests"))
            }
            SourceKind::Disk | SourceKind::Server | SourceKind::Series => Ok(()),
        }
    }

    fn check_prometheus(&self, at: &str) -> Result<(), Complaint> {
        let url = self.url.as_deref().unwrap_or_default();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            let complaint = Complaint::of_value(format!("{at}.url"), "url: no address of a Prometheus server");
            return Err(complaint.expected("such as \"http://localhost:9090\" or \"https://metrics.example.com\""));
        }
        if self.requests.is_none() && self.busy.is_none() && self.latency.is_none() {
            return Err(missing(at, "a source of kind prometheus", "busy`, `requests` or `latency"));
        }
        if self.user.is_some() != self.password_file.is_some() {
            return Err(Complaint::of_value(at, "basic authentication takes both `user` and `password_file`"));
        }
        if self.user.is_some() && self.token_file.is_some() {
            return Err(Complaint::of_value(at, "there is both a user and a bearer token"));
        }
        if self.timeout.nanos() == ioweir_core::Nanos::ZERO || self.timeout.nanos() > LIMIT_MAX.nanos() {
            return Err(Complaint::of_value(format!("{at}.timeout"), "timeout: out of range").expected("1ms to 1h"));
        }
        Ok(())
    }

    /// The keys that are given, but for those with a default.
    fn given_here(&self) -> Vec<&'static str> {
        ioweir_config::KeySet::given(self)
    }
}

impl WorkerKeys {
    /// Checks a worker, which stands at `at` in its file.
    ///
    /// # Errors
    /// [`Complaint`]: the first key that is missing, unused or wrong.
    pub fn check(&self, at: &str) -> Result<(), Complaint> {
        const COMMANDS: [&str; 13] = [
            "start",
            "run",
            "step",
            "pause",
            "resume",
            "end",
            "progress",
            "pattern",
            "finished",
            "failed",
            "size",
            "processors",
            "rate",
        ];
        let all: Vec<&str> =
            COMMANDS.into_iter().chain(["unit", "control", "service", "idle_depth", "request_bytes_max"]).collect();
        let given = ioweir_config::KeySet::given(self);
        let (kind, used): (_, &[&str]) = match self.kind {
            WorkerKind::Command => ("a worker of kind command", &COMMANDS),
            WorkerKind::Unit => ("a worker of kind unit", &["unit"]),
            WorkerKind::Server => {
                ("a worker of kind server", &["control", "service", "idle_depth", "request_bytes_max"])
            }
        };
        only(at, kind, &given, used, &all)?;
        for (key, limit) in [("limit", self.limit), ("grace", self.grace), ("lease", self.lease)] {
            if limit.nanos() < ioweir_core::Nanos::from_millis(100) || limit.nanos() > LIMIT_MAX.nanos() {
                let problem = format!("{key}: {limit} is out of range");
                return Err(Complaint::of_value(format!("{at}.{key}"), problem).expected("100ms to 1h"));
            }
        }
        match self.kind {
            WorkerKind::Command => self.check_commands(at, &given),
            WorkerKind::Unit if self.unit.is_none() => Err(missing(at, kind, "unit")),
            WorkerKind::Server if !matches!(self.control, Some(Listen::Unix(_))) => {
                Err(missing(at, kind, "control").expected("the control socket of the server, unix:PATH"))
            }
            WorkerKind::Unit | WorkerKind::Server => Ok(()),
        }
    }

    fn check_commands(&self, at: &str, given: &[&str]) -> Result<(), Complaint> {
        let ways = ["start", "run", "step"].into_iter().filter(|way| given.contains(way)).count();
        if ways > 1 || (ways == 0 && self.rate.is_none()) {
            let problem = "there is no one way to run it";
            return Err(
                Complaint::of_value(at, problem).expected("one of `start`, `run` and `step`, or a [rate] alone")
            );
        }
        let stops = [&self.pause, &self.end].into_iter().any(|command| !command.is_empty());
        if given.contains(&"start") && !stops && self.rate.is_none() {
            let problem = "work that has begun could not be stopped";
            return Err(Complaint::of_value(format!("{at}.start"), problem).expected("`pause` or `end` beside `start`"));
        }
        if given.contains(&"step") && self.size.is_none_or(|size| size.0 == 0) {
            return Err(missing(at, "a worker with `step`", "size"));
        }
        let takes_parts = self.step.iter().any(|word| word.contains("{offset_bytes}"));
        if given.contains(&"step") && !takes_parts {
            let problem = "step: it does the same whenever it runs";
            return Err(Complaint::of_value(format!("{at}.step"), problem)
                .expected("{offset_bytes} and {length_bytes} among its words"));
        }
        if given.contains(&"processors") && self.run.is_empty() && self.step.is_empty() {
            let problem = "processors: the work is done by programs that are not started here";
            return Err(Complaint::of_value(format!("{at}.processors"), problem).expected("`run` or `step`"));
        }
        for (key, pattern) in [("pattern", &self.pattern), ("finished", &self.finished), ("failed", &self.failed)] {
            if let Some(pattern) = pattern {
                self.check_pattern(at, key, pattern)?;
            }
        }
        match &self.rate {
            Some(rate) => rate.check(&format!("{at}.rate")),
            None => Ok(()),
        }
    }

    fn check_pattern(&self, at: &str, key: &str, pattern: &str) -> Result<(), Complaint> {
        let wrong = |problem: String| Complaint::of_value(format!("{at}.{key}"), format!("{key}: {problem}"));
        if self.progress.is_empty() {
            return Err(wrong("there is no `progress` that prints anything".into()));
        }
        let regex = Regex::new(pattern).map_err(|error| wrong(error.to_string()))?;
        let groups: Vec<&str> = regex.capture_names().flatten().collect();
        if key != "pattern" || groups.contains(&"done") {
            return Ok(());
        }
        if !groups.contains(&"percent") {
            return Err(
                wrong("it has no group for how much is done".into()).expected("(?<done>...) or (?<percent>...)")
            );
        }
        if self.size.is_none() && !groups.contains(&"total") {
            return Err(wrong("a percentage of what?".into()).expected("a group (?<total>...), or the key `size`"));
        }
        Ok(())
    }
}

impl RateKeys {
    fn check(&self, at: &str) -> Result<(), Complaint> {
        if self.file.is_some() != self.command.is_empty() {
            return Err(Complaint::of_value(at, "there is no one way to set it").expected("`file` or `command`"));
        }
        if self.file.is_none() && !self.command.iter().any(|word| word.contains("{value}")) {
            let problem = "command: it sets the same whatever the rate is";
            return Err(Complaint::of_value(format!("{at}.command"), problem).expected("{value} among its words"));
        }
        if self.min > self.max || self.unit.0 == 0 {
            return Err(Complaint::of_value(format!("{at}.max"), "max: less than `min`, or a unit of nothing"));
        }
        Ok(())
    }
}
