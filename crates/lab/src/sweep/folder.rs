//! The folder of a sweep: its description, and a part for each finished cell. Parts get their name only when they are whole.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::PoisonError;

use ioweir_config::plain;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::cells::{Name, Place, Plan};
use super::making::{Made, on_threads};
use crate::compare::{Goal, Ground};
use crate::document::parquet::{Read, read};
use crate::document::{Table, TraceMeta};
use crate::gate::Judgement;
use crate::run::{Progress, RunError};

/// The layout of the folder.
const LAYOUT: u32 = 1;
/// The file with the description of the sweep.
const FILE: &str = "sweep.json";
/// The longest such file, and the longest part.
const FILE_BYTES_MAX: u64 = 256 << 20;
const PART_BYTES_MAX: u64 = 64 << 20;
/// Rows of a part: classes of an experiment.
const PART_ROWS_MAX: usize = 1 << 20;
/// Failed cells and parts that are not counted are reported by name, each up to this number.
const REPORTED_MAX: usize = 10;
/// Threads that write parts which come from elsewhere.
const TAKING_THREADS_MAX: usize = 8;

/// The description of a sweep that its folder keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct About {
    layout: u32,
    pub(super) version: String,
    pub(super) commit: String,
    pub(super) command: String,
    pub(super) title: String,
    /// The base with every default, and the values that are swept, as TOML.
    pub(super) spec_toml: String,
    pub(super) traces: Vec<TraceMeta>,
    /// Names of the swept keys.
    pub(super) keys: Vec<String>,
    /// The goal of a comparison, by which the best is chosen.
    #[serde(default)]
    pub(super) goal: Goal,
    /// The standing of each device model, and what each trace shows of it.
    #[serde(default)]
    pub(super) grounds: Vec<Ground>,
    /// The decision of the gate on the devices of an experiment.
    #[serde(default)]
    pub(super) judgement: Option<Judgement>,
    /// Names of all cells, in order.
    pub(super) cells: Vec<String>,
}

/// A folder that holds a sweep.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    pub(super) about: About,
}

/// A part of the cells: number `index`, from 1, of `of`. Each cell is in exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    of: usize,
}

impl Shard {
    /// All cells.
    pub const WHOLE: Self = Self { index: 1, of: 1 };

    fn holds(self, cell: usize) -> bool {
        cell % self.of == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((index, of)) if 1 <= index && index <= of => Ok(Self { index, of }),
            _ => Err("expected: I/N, which is part I of N, from 1/N to N/N".into()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.index, self.of)
    }
}

/// The part of a sweep to run, and on how many threads.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    /// Which of the cells.
    pub shard: Shard,
    /// One for each core where absent.
    pub threads: Option<usize>,
}

/// The cells that are left to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// How many cells were asked for.
    pub cells: usize,
    /// The places of cells without a part, in order.
    pub places: Vec<Place>,
}

/// The result of running cells of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// The number of cells to run.
    pub cells: usize,
    /// Cells that had a part before.
    pub there: usize,
    /// Cells that failed, the first in order.
    pub failed: Vec<Failed>,
    /// How many failed in all.
    pub failed_count: usize,
}

/// A cell that failed, or a file that is not counted, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failed {
    /// The cell or the file.
    pub name: String,
    /// Why.
    pub problem: String,
}

/// How far a sweep is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Cells of the sweep.
    pub cells: usize,
    /// Cells with a part.
    pub done: usize,
    /// Cells that ended with an error, which a further run tries again; the first in order.
    pub failed: Vec<Failed>,
    /// How many failed in all.
    pub failed_count: usize,
    /// Parts that are not counted; the first in order.
    pub uncounted: Vec<Failed>,
    /// How many are not counted in all.
    pub uncounted_count: usize,
}

impl Status {
    /// Cells that have neither a part nor an error.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.cells - self.done - self.failed_count
    }
}

/// The state of a cell in the folder.
pub(super) enum State {
    Done(Table),
    Missing,
    Failed(String),
    /// A part exists, but does not count.
    Uncounted(String),
}

impl Folder {
    /// Opens or makes the folder for the parts of a sweep.
    ///
    /// # Errors
    /// [`RunError::Value`] if the folder holds anything else; [`RunError::Store`] if it cannot be written.
    pub fn create(path: &Path, plan: &Plan) -> Result<Self, RunError> {
        let (sweep, origin) = (&plan.resolved.sweep, &plan.resolved.origin);
        let about = About {
            layout: LAYOUT,
            version: origin.version.clone(),
            commit: origin.commit.clone(),
            command: origin.command.clone(),
            title: sweep.title.clone(),
            spec_toml: sweep.to_toml(),
            traces: plan.resolved.traces(),
            keys: sweep.axes.iter().map(|axis| axis.key.clone()).collect(),
            goal: plan.resolved.goal(),
            grounds: plan.resolved.grounds()?,
            judgement: plan.resolved.judgement()?,
            cells: plan.names.iter().map(Name::to_string).collect(),
        };
        let failed = |error: &io::Error| RunError::Store(format!("{}: {}", path.display(), plain(error)));
        if !path.join(FILE).exists() {
            fs::create_dir_all(path).map_err(|error| failed(&error))?;
            let mut files = fs::read_dir(path).map_err(|error| failed(&error))?.filter_map(Result::ok);
            // Other shards may begin at the same time, and one that was stopped leaves these.
            let is_own = |name: &str| name == FILE || name == "parts" || name.starts_with('.');
            if files.any(|file| !is_own(&file.file_name().to_string_lossy())) {
                let problem = format!("{} holds other files, and no {FILE}", path.display());
                return Err(RunError::Value(format!(
                    "{problem}\n  expected: an empty folder, or that of this sweep\n\nhint: name another with --out"
                )));
            }
            let text = serde_json::to_vec_pretty(&about).map_err(|error| RunError::Store(error.to_string()))?;
            put(&path.join(FILE), &text, Existing::Stays)?;
        }
        fs::create_dir_all(path.join("parts")).map_err(|error| failed(&error))?;
        let folder = Self::open(path)?;
        folder.check(&about)?;
        Ok(folder)
    }

    /// The folder of a sweep that was begun.
    ///
    /// # Errors
    /// [`RunError::Value`] where it holds none.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let file = path.join(FILE);
        let wrong = |problem: String| {
            RunError::Value(format!("{}: {problem}\n  expected: a folder that `ioweir sweep` has made", file.display()))
        };
        let bytes =
            contents(&file, FILE_BYTES_MAX).map_err(|error| wrong(format!("cannot be read: {}", plain(&error))))?;
        let about: About = serde_json::from_slice(&bytes).map_err(|error| wrong(format!("is damaged: {error}")))?;
        if about.layout != LAYOUT {
            return Err(wrong(format!("has layout {}, not {LAYOUT}", about.layout)));
        }
        // Each name must be valid, as it becomes a file's name.
        if let Some(problem) = about.cells.iter().find_map(|name| name.parse::<Name>().err()) {
            return Err(wrong(format!("is damaged: {problem}")));
        }
        Ok(Self { path: path.to_owned(), about })
    }

    /// Refuses to continue with another sweep, and says what is different.
    fn check(&self, new: &About) -> Result<(), RunError> {
        let old = &self.about;
        let path = self.path.display();
        let refused = |problem: String, hint: &str| {
            Err(RunError::Value(format!("{problem}\n  expected: the folder of this sweep\n\nhint: {hint}")))
        };
        if (&old.version, &old.commit) != (&new.version, &new.commit) {
            let versions = format!("{} ({}), and this is {} ({})", old.version, old.commit, new.version, new.commit);
            let hint = "parts of two versions do not mix: continue with the version that began it, or name another folder \
                        with --out";
            return refused(format!("{path} holds a sweep of version {versions}"), hint);
        }
        if old.cells == new.cells {
            return Ok(());
        }
        let content = |about: &About| about.traces.iter().map(|trace| trace.files.clone()).collect::<Vec<_>>();
        let names = |about: &About| about.traces.iter().map(|trace| trace.name.clone()).collect::<Vec<_>>();
        let problem = if names(old) == names(new) && content(old) != content(new) {
            format!("{path} holds this sweep over traces of other content")
        } else {
            format!("{path} holds another sweep")
        };
        refused(problem, "name another folder with --out, or remove this one")
    }

    fn part(&self, name: &str) -> PathBuf {
        self.path.join("parts").join(format!("{name}.parquet"))
    }

    fn error(&self, name: &str) -> PathBuf {
        self.path.join("parts").join(format!("{name}.failed"))
    }

    /// The state of a cell in the folder.
    pub(super) fn state(&self, name: &str) -> State {
        match contents(&self.part(name), PART_BYTES_MAX) {
            Ok(bytes) => match read(bytes, PART_ROWS_MAX).and_then(|read| self.counted(name, read)) {
                Ok(table) => State::Done(table),
                Err(problem) => State::Uncounted(problem),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let error = contents(&self.error(name), PART_BYTES_MAX);
                error.map_or(State::Missing, |text| State::Failed(String::from_utf8_lossy(&text).trim_end().into()))
            }
            Err(error) => State::Uncounted(format!("cannot be read: {error}")),
        }
    }

    /// The table of a part that is of this cell and version.
    fn counted(&self, name: &str, read: Read) -> Result<Table, String> {
        let is = |key: &str| read.about(key).unwrap_or("unknown").to_owned();
        let (cell, version, commit) = (is("cell"), is("version"), is("commit"));
        if cell != name {
            return Err(format!("is of cell {cell}"));
        }
        if (&version, &commit) != (&self.about.version, &self.about.commit) {
            return Err(format!("is of version {version} ({commit})"));
        }
        Ok(read.table)
    }

    /// Runs the cells of a shard that have no part yet. A cell that fails leaves its error in the folder, and the others
    /// continue.
    ///
    /// # Errors
    /// [`RunError::Store`] where a part cannot be written.
    pub fn run(&self, plan: &Plan, running: Running, progress: &dyn Progress) -> Result<Ran, RunError> {
        let ran = Mutex::new(Ran::default());
        let counted = || ran.lock().unwrap_or_else(PoisonError::into_inner);
        let keep = |made: Made| {
            if let Err(problem) = &made.part {
                let mut ran = counted();
                ran.failed_count += 1;
                ran.failed.push(Failed { name: made.name.to_string(), problem: problem.clone() });
            }
            self.keep(&made)
        };
        on_threads(running.threads, || {
            let Missing { cells, places } = self.missing(plan, running.shard);
            let there = cells - places.len();
            (counted().cells, counted().there) = (cells, there);
            progress.started(cells);
            (0..there).for_each(|_| progress.finished(""));
            plan.resolved.run(&places, progress, &keep)
        })?;
        let mut ran = ran.into_inner().unwrap_or_else(PoisonError::into_inner);
        ran.failed.sort();
        ran.failed.truncate(REPORTED_MAX);
        Ok(ran)
    }

    /// The cells of a shard that have no part that counts; those that failed are among them.
    #[must_use]
    pub fn missing(&self, plan: &Plan, shard: Shard) -> Missing {
        let cells: Vec<usize> = (0..plan.cells()).filter(|cell| shard.holds(*cell)).collect();
        let is_missing = |cell: &usize| !matches!(self.state(&plan.names[*cell].to_string()), State::Done(_));
        let missing: Vec<usize> = cells.par_iter().copied().filter(is_missing).collect();
        Missing { cells: cells.len(), places: plan.places(missing.into_iter()) }
    }

    /// Takes what another process made of cells. A part that would not count is refused.
    ///
    /// # Errors
    /// [`RunError::Value`] for such a part; [`RunError::Store`] where one cannot be written.
    pub fn take(&self, made: &[Made]) -> Result<(), RunError> {
        let take = |made: &Made| {
            let name = made.name.to_string();
            if let Ok(part) = &made.part {
                let counted = read(part.clone(), PART_ROWS_MAX).and_then(|read| self.counted(&name, read));
                counted.map_err(|problem| RunError::Value(format!("the part that came for cell {name}: {problem}")))?;
            }
            self.keep(made)
        };
        // The threads wait for the disk together.
        on_threads(Some(made.len().clamp(1, TAKING_THREADS_MAX)), || made.par_iter().try_for_each(take))
    }

    /// Writes the part of a cell, and forgets that it failed before; or writes why it failed.
    fn keep(&self, made: &Made) -> Result<(), RunError> {
        let name = made.name.to_string();
        let part = match &made.part {
            Ok(part) => part,
            Err(problem) => return put(&self.error(&name), problem.as_bytes(), Existing::IsReplaced),
        };
        put(&self.part(&name), part, Existing::IsReplaced)?;
        match fs::remove_file(self.error(&name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(RunError::Store(format!("{}: {error}", self.error(&name).display())))
            }
            _ => Ok(()),
        }
    }

    /// How far the sweep is.
    ///
    /// # Errors
    /// [`RunError::Value`] where the folder cannot be read.
    pub fn status(&self) -> Result<Status, RunError> {
        let states: Vec<State> = self.about.cells.par_iter().map(|name| self.light_state(name)).collect();
        let mut status = Status { cells: states.len(), ..Status::default() };
        let mut uncounted = self.strangers()?;
        for (name, state) in self.about.cells.iter().zip(states) {
            let name = name.clone();
            match state {
                State::Done(_) => status.done += 1,
                State::Missing => {}
                State::Failed(problem) => {
                    status.failed_count += 1;
                    status.failed.push(Failed { name, problem });
                    status.failed.truncate(REPORTED_MAX);
                }
                State::Uncounted(problem) => uncounted.push(Failed { name: format!("{name}.parquet"), problem }),
            }
        }
        uncounted.sort();
        status.uncounted_count = uncounted.len();
        uncounted.truncate(REPORTED_MAX);
        status.uncounted = uncounted;
        Ok(status)
    }

    /// The state without the rows, which would be many for all cells together.
    fn light_state(&self, name: &str) -> State {
        match self.state(name) {
            State::Done(_) => State::Done(Table::default()),
            state => state,
        }
    }

    /// Parts of no cell of this sweep.
    fn strangers(&self) -> Result<Vec<Failed>, RunError> {
        let mut known: Vec<&str> = self.about.cells.iter().map(String::as_str).collect();
        known.sort_unstable();
        let folder = self.path.join("parts");
        let wrong = |error: io::Error| RunError::Value(format!("{}: cannot be read: {error}", folder.display()));
        let mut strangers = Vec::new();
        for file in fs::read_dir(&folder).map_err(wrong)? {
            let name = file.map_err(wrong)?.file_name().to_string_lossy().into_owned();
            let Some(stem) = name.strip_suffix(".parquet").filter(|stem| !stem.starts_with('.')) else { continue };
            if known.binary_search(&stem).is_err() {
                strangers.push(Failed { name, problem: "is of no cell of this sweep".into() });
            }
        }
        Ok(strangers)
    }
}

/// The bytes of a file of at most this length.
fn contents(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.len() > bytes_max {
        return Err(io::Error::other(format!("longer than {bytes_max} bytes")));
    }
    fs::read(path)
}

/// Whether an existing file of the same name is replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    IsReplaced,
    Stays,
}

/// Writes a file whole or not at all: under a name that does not count, to the disk, and then under its own.
fn put(path: &Path, bytes: &[u8], existing: Existing) -> Result<(), RunError> {
    let write = || {
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".ioweir-");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let mut file = builder.tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        match existing {
            Existing::IsReplaced => drop(file.persist(path)?),
            Existing::Stays => match file.persist_noclobber(path) {
                Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => return Err(error.error),
                _ => {}
            },
        }
        Ok(())
    };
    write().map_err(|error: io::Error| RunError::Store(format!("{}: {}", path.display(), plain(&error))))
}
