//! The govern file: the spec of a governor, and beside it the sources of load, the workers, and the place of the state.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ioweir_background::govern::{self, GovernSpec};
use ioweir_config::{Complaint, Key, KeySet as _, SpecError, keys, read_spec, unknown};
use ioweir_core::background::{Service, Source as Fed};
use ioweir_govern::spec::{self, SourceKeys, SourceKind, WorkerKeys, WorkerKind};
use ioweir_serve::spec::Listen;

use crate::failure::Failure;

keys! {
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct GovernFile {
        /// the file in which the governor keeps what it knows over a restart
        state: PathBuf = required,
        /// the page (/), the status as JSON (/state), metrics for Prometheus (/metrics) and /health: unix:PATH, or
        /// tcp:127.0.0.1:PORT: it has no authentication
        watch: Option<Listen> = absent,
        /// where the load of the foreground is measured: a [[source]] for each place
        source: Vec<SourceKeys> = absent,
        /// who does the work of a service: a [worker.NAME] for each [service.NAME]
        worker: BTreeMap<String, WorkerKeys> = absent,
        ..govern: GovernSpec,
    }
}

/// Every key of a govern file, by table.
pub(crate) fn key_tables() -> Vec<(&'static str, Vec<Key>)> {
    let mut tables = vec![("", GovernFile::keys())];
    // The governor's keys without a table are among the file's own.
    tables.extend(govern::key_tables().into_iter().filter(|(table, _)| !table.is_empty()));
    tables.extend(spec::key_tables());
    tables
}

/// A govern file with every default.
pub(crate) fn to_toml(name: &str) -> Result<String, Failure> {
    let file = GovernFile::parse(name, &read_spec(name)?)?;
    toml::to_string(&file).map_err(|error| Failure::Running(error.to_string()))
}

const HINTS: &[(&str, &str)] = &[
    ("unknown field", "`ioweir doc govern` lists the keys; files to start from are in examples/govern"),
    ("missing field", "`ioweir doc govern` lists the keys; files to start from are in examples/govern"),
    ("with a unit", "sizes, times and rates are text with a unit: \"64KiB\", \"10ms\", \"10MiB/s\""),
];

impl GovernFile {
    /// Reads the text of a file; `name` is only for errors.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, SpecError> {
        let read = toml::from_str(text).map_err(|error| Complaint::of_toml(&error, HINTS));
        let checked = read.map(Self::resolved).and_then(|file: Self| file.check().map(|()| file));
        checked.map_err(|complaint| complaint.in_file(name, Some(text)))
    }

    /// Says whether workers yield to the foreground by themselves, where the file does not.
    fn resolved(mut self) -> Self {
        let is_of_server = self.worker.values().all(|worker| worker.kind == WorkerKind::Server);
        if self.govern.takes_idle_class() {
            self.govern.idle_class.get_or_insert(is_of_server);
        }
        self
    }

    /// The services with their workers, in the order of the table of services.
    pub(crate) fn workers(&self) -> impl Iterator<Item = (Service, &WorkerKeys)> {
        self.govern.services().filter_map(|(service, _)| Some((service, self.worker.get(service.name())?)))
    }

    fn check(&self) -> Result<(), Complaint> {
        self.govern.check()?;
        for (number, source) in self.source.iter().enumerate() {
            source.check(&format!("source[{number}]"))?;
        }
        let names: Vec<&str> = self.govern.service.keys().map(String::as_str).collect();
        for (name, worker) in &self.worker {
            let at = format!("worker.{name}");
            if !names.contains(&name.as_str()) {
                let error = unknown("service", name, &names, "each [worker.NAME] needs its [service.NAME]");
                return Err(Complaint::new(at, error.problem, error.hint));
            }
            worker.check(&at)?;
        }
        if let Some(name) = names.iter().find(|name| !self.worker.contains_key(**name)) {
            let problem = format!("service {name} has no worker, so that nobody would do its work");
            let hint = format!("add [worker.{name}]; files to start from are in examples/govern");
            return Err(Complaint::of_value(format!("service.{name}"), problem).hint(hint));
        }
        self.check_load()
    }

    /// Checks that some source sees the shared resource: otherwise the governor would never know that there is room.
    fn check_load(&self) -> Result<(), Complaint> {
        let (what, by_requests) =
            if self.govern.cores.is_some() { ("requests", true) } else { ("how busy the device is", false) };
        let sees = |source: &SourceKeys| match source.kind {
            SourceKind::Disk | SourceKind::Server => true,
            SourceKind::Prometheus if by_requests => source.requests.is_some(),
            SourceKind::Prometheus => source.busy.is_some(),
            SourceKind::Series => false,
        };
        if !self.source.iter().any(sees) {
            let expected = "a [[source]] of kind disk or server, or one of kind prometheus with the key for it";
            return Err(Complaint::of_all(format!("no source measures {what}")).expected(expected));
        }
        self.check_fed()
    }

    /// A service that is owed a share of what no source measures would never be owed anything.
    fn check_fed(&self) -> Result<(), Complaint> {
        let sees = |of: fn(&SourceKeys) -> &Option<String>| {
            self.source.iter().any(|source| match source.kind {
                SourceKind::Disk | SourceKind::Server => true,
                SourceKind::Prometheus => of(source).is_some(),
                SourceKind::Series => false,
            })
        };
        let [sees_writes, sees_discards] = [sees(|keys| &keys.written_bytes), sees(|keys| &keys.discarded_bytes)];
        for (service, _) in self.govern.services().filter(|(_, terms)| terms.shared.share_percent.is_some()) {
            let lacks = match service.row().source {
                Fed::Writes | Fed::Overwrites if !sees_writes => "written",
                Fed::Unmaps if !sees_discards => "discarded",
                _ => continue,
            };
            let problem = format!("share_percent: no source measures what is {lacks}, so that nothing would be owed");
            let expected = format!("a [[source]] of kind disk or server, or {lacks}_bytes of one of kind prometheus");
            let at = format!("service.{}.share_percent", service.name());
            return Err(Complaint::of_value(at, problem).expected(expected));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_is_a_govern_file() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/govern");
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() >= 9);
        for path in files {
            let (name, text) = (path.display().to_string(), std::fs::read_to_string(&path).unwrap());
            let file = GovernFile::parse(&name, &text).unwrap_or_else(|error| panic!("{error}"));
            let printed = to_toml(&name).unwrap_or_else(|failure| panic!("{failure:?}"));
            assert_eq!(GovernFile::parse("printed", &printed), Ok(file), "{name}");
        }
    }

    #[test]
    fn parts_that_would_never_run_are_refused() {
        let source = "[[source]]\nkind = \"disk\"\ndisk = \"a\"\n";
        let scrub = "[service.scrub]\nowed = \"1GiB\"\n";
        let worker = "[worker.scrub]\nrun = [\"true\"]\n";
        let fed = |queries: &str, service: &str| {
            format!(
                "[[source]]\nkind = \"prometheus\"\nurl = \"http://a\"\nbusy = \"b\"\n{queries}[service.{service}]\n\
                 share_percent = 5\n[worker.{service}]\nrun = [\"true\"]\n"
            )
        };
        for (query, service) in [("discarded", "unmap"), ("written", "snapshot-delete")] {
            let text = fed(&format!("{query}_bytes = \"c\"\n"), service);
            GovernFile::parse("a.toml", &format!("state = \"s\"\n{text}")).unwrap();
        }
        for (text, position, problem) in [
            (format!("{source}{scrub}"), Some((4, 1)), "has no worker"),
            (
                format!("{source}{scrub}{worker}[worker.trim]\nrun = [\"true\"]\n"),
                Some((8, 1)),
                "unknown service `trim`",
            ),
            (format!("{scrub}{worker}"), None, "no source measures how busy the device is"),
            (format!("{source}{scrub}{worker}limit = \"0s\""), Some((8, 9)), "limit: 0s is out of range"),
            (format!("{source}{scrub}{worker}colour = 1"), Some((8, 1)), "unknown field `colour`"),
            (format!("{source}{scrub}every = \"1s\"\n{worker}"), Some((6, 9)), "shorter than a bin"),
            (fed("", "unmap"), Some((6, 17)), "no source measures what is discarded"),
            (fed("", "snapshot-delete"), Some((6, 17)), "no source measures what is written"),
        ] {
            let text = format!("state = \"s\"\n{text}");
            let error = GovernFile::parse("a.toml", &text).unwrap_err();
            assert!(error.problem.contains(problem), "{error}");
            let position = position.map(|(line, column)| (line + 1, column));
            assert_eq!(error.position, position, "{error}");
        }
    }
}
