//! Traces by name: files that form one trace, and generated traffic.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ioweir_core::SECTOR_BYTES;
use sha2::{Digest, Sha256};

use super::fold::Folded;
use super::resample::Resampled;
use super::spread::{Extent, Spread};
use super::{Progress, RunError, TraceMeta, hexadecimal};
use crate::gate::Witness;
use crate::workload::{JobGenerator, JobMix, MIXES, mix};
use ioweir_config::unknown;
use ioweir_trace::{
    self as trace, BATCH_RECORDS, Doubted, Names, Position, ReadOptions, Record, TraceError, TraceGroup, TraceSource,
};

/// The beginning of the name of generated traffic.
pub const MIX_PREFIX: &str = "mix:";

/// A trace, and how it is read.
#[derive(Clone, Debug)]
pub struct TraceFiles {
    origin: Requests,
    options: ReadOptions,
    /// Whether each seed replays a sample of the trace.
    resamples: bool,
    /// Whether its requests have been looked at for figures that no device has: once is enough.
    is_looked_at: Arc<AtomicBool>,
    first: Arc<FirstReading>,
}

/// The requests seen by the first reading of a trace, so that the trace is not read again only to look at them.
#[derive(Debug, Default)]
struct FirstReading {
    /// Whether the next reading is to look at the requests.
    is_wanted: AtomicBool,
    /// The requests and the names of their streams; empty until a reading has reached the end.
    seen: OnceLock<(Witness, Vec<String>)>,
}

/// The name that stands for each volume of a trace.
const EVERY_VOLUME: &str = "all";
/// Volumes of a trace that are replayed one by one.
const VOLUMES_MAX: usize = 4096;

/// Where the requests of a trace come from.
#[derive(Clone, Debug)]
enum Requests {
    Files(TraceGroup),
    /// A generator.
    Mix(&'static JobMix),
    /// Memory.
    Kept(KeptTrace),
}

/// Records in memory as a trace.
#[derive(Clone, Debug)]
pub struct KeptTrace {
    name: Arc<str>,
    records: Arc<[Record]>,
    names: Arc<Names>,
}

impl KeptTrace {
    /// A trace of these records, which are in the order of their times.
    #[must_use]
    pub fn new(name: String, records: Vec<Record>, names: Names) -> Self {
        Self { name: name.into(), records: records.into(), names: Arc::new(names) }
    }

    /// The records, from the first on.
    pub fn source(&self) -> impl TraceSource + use<> {
        KeptSource { trace: self.clone(), at: 0 }
    }
}

/// Hands over the records of a [`KeptTrace`].
struct KeptSource {
    trace: KeptTrace,
    at: usize,
}

impl TraceSource for KeptSource {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        let rest = self.trace.records.get(self.at..).unwrap_or_default();
        let next = &rest[..rest.len().min(BATCH_RECORDS)];
        batch.extend_from_slice(next);
        self.at += next.len();
        Ok(())
    }

    fn names(&self) -> &Names {
        &self.trace.names
    }
}

impl TraceFiles {
    /// Records in memory, of which each seed replays a sample if `resamples` is set.
    #[must_use]
    pub fn of_records(trace: KeptTrace, resamples: bool) -> Self {
        let is_looked_at = Arc::new(AtomicBool::new(true));
        Self {
            origin: Requests::Kept(trace),
            options: ReadOptions::default(),
            resamples,
            is_looked_at,
            first: Arc::default(),
        }
    }

    /// The traces of these names: mixes are kept apart from files, which are put together to traces.
    ///
    /// # Errors
    /// [`RunError`] if a mix is unknown, or files cannot be put together.
    pub fn find(names: &[String], options: &ReadOptions) -> Result<Vec<Self>, RunError> {
        let mut found = Vec::new();
        for run in names.chunk_by(|left, right| left.starts_with(MIX_PREFIX) == right.starts_with(MIX_PREFIX)) {
            if run[0].starts_with(MIX_PREFIX) {
                for name in run {
                    let name = name.trim_start_matches(MIX_PREFIX);
                    let names: Vec<_> = MIXES.iter().map(|mix| mix.name).collect();
                    let mix = mix(name).ok_or_else(|| unknown("mix", name, &names, "`ioweir doc mix` lists them"))?;
                    found.push(Requests::Mix(mix));
                }
            } else {
                let paths: Vec<PathBuf> = run.iter().map(PathBuf::from).collect();
                found.extend(trace::group(&paths)?.into_iter().map(Requests::Files));
            }
        }
        let of = |origin| {
            let is_looked_at = Arc::new(AtomicBool::new(matches!(origin, Requests::Mix(_))));
            Self { origin, options: options.clone(), resamples: false, is_looked_at, first: Arc::default() }
        };
        Ok(found.into_iter().map(of).collect())
    }

    /// As [`TraceFiles::find`], but folders stand for the traces in them and the volume `all` for each of a trace. Answers
    /// which files of folders are no traces, too.
    ///
    /// # Errors
    /// [`RunError`] if a mix is unknown, a folder cannot be read, or files cannot be put together.
    pub fn find_all(
        names: &[String],
        options: &ReadOptions,
        resamples: bool,
    ) -> Result<(Vec<Self>, Vec<TraceError>), RunError> {
        let (named, left_out) = without_folders(names, options)?;
        let mut found = Vec::new();
        for trace in Self::find(&named, options)? {
            let trace = Self { resamples, ..trace };
            match (&trace.origin, options.volume.as_deref()) {
                (Requests::Files(_), Some(EVERY_VOLUME)) => found.extend(trace.volumes()?),
                _ => found.push(trace),
            }
        }
        Ok((found, left_out))
    }

    /// The trace of each volume.
    fn volumes(self) -> Result<Vec<Self>, TraceError> {
        let resamples = self.resamples;
        let whole = Self { options: ReadOptions { volume: None, ..self.options.clone() }, resamples: false, ..self };
        let mut source = whole.open(0, u64::MAX, false)?;
        let mut batch = Vec::new();
        // A trace ends with an empty batch, and only then are all names known.
        loop {
            source.read_batch(&mut batch)?;
            if batch.is_empty() {
                break;
            }
        }
        let names = source.names().volumes.clone();
        if names.len() > VOLUMES_MAX {
            let problem = format!("holds {} volumes", names.len());
            return Err(TraceError::new(whole.name(), Position::File, problem)
                .expected(format!("at most {VOLUMES_MAX}, or one named with --volume")));
        }
        let of = |name: String| Self {
            options: ReadOptions { volume: Some(name), ..whole.options.clone() },
            resamples,
            first: Arc::default(),
            ..whole.clone()
        };
        Ok(names.into_iter().map(of).collect())
    }

    /// The volume that is replayed, if the trace holds several; empty if none was named.
    #[must_use]
    pub fn volume(&self) -> &str {
        self.options.volume.as_deref().unwrap_or_default()
    }

    /// Whether each seed replays a sample of the trace. Generated traffic differs with the seed anyway.
    #[must_use]
    pub fn is_resampled(&self) -> bool {
        self.resamples && !matches!(self.origin, Requests::Mix(_))
    }

    /// The trace's files.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        match &self.origin {
            Requests::Files(group) => &group.files,
            Requests::Mix(_) | Requests::Kept(_) => &[],
        }
    }

    /// The name the results use.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.origin {
            Requests::Files(group) => group.name.clone(),
            Requests::Mix(mix) => format!("{MIX_PREFIX}{}", mix.name),
            Requests::Kept(trace) => trace.name.to_string(),
        }
    }

    /// Opens the trace for a device of this size. Requests past its end are an error, or folded onto the device.
    ///
    /// # Errors
    /// [`TraceError`] if a file cannot be opened or recognised.
    pub fn open(&self, seed: u64, device_sectors: u64, folds: bool) -> Result<Box<dyn TraceSource>, TraceError> {
        let device_bytes = device_sectors.saturating_mul(SECTOR_BYTES);
        let end_bytes_max = (!folds).then_some(device_bytes);
        let source: Box<dyn TraceSource> = match &self.origin {
            Requests::Files(group) => {
                trace::open(&group.files, &ReadOptions { end_bytes_max, ..self.options.clone() })?
            }
            Requests::Mix(mix) => Box::new(JobGenerator::new(mix, mix.requests, None, seed)),
            Requests::Kept(trace) => Box::new(trace.source()),
        };
        let source = if self.is_resampled() { Box::new(Resampled::new(source, seed)) } else { source };
        Ok(if folds { Box::new(Folded::new(source, device_bytes)) } else { source })
    }

    /// The source, with a look at its requests if none has been taken yet.
    #[must_use]
    pub fn looked_at(&self, source: Box<dyn TraceSource>) -> Box<dyn TraceSource> {
        if self.is_looked_at.swap(true, Ordering::Relaxed) { source } else { Box::new(Doubted::new(source)) }
    }

    /// Lets the next run that replays the trace as it is look at its requests, so that [`TraceFiles::witness`] does not read it again.
    pub fn expect_witness(&self) {
        self.first.is_wanted.store(true, Ordering::Relaxed);
    }

    /// As [`TraceFiles::open`], for a run.
    ///
    /// # Errors
    /// [`TraceError`] if a file cannot be opened or recognised.
    pub(super) fn open_run(
        &self,
        seed: u64,
        device_sectors: u64,
        folds: bool,
    ) -> Result<Box<dyn TraceSource>, TraceError> {
        let changes = folds || self.is_resampled() || self.is_generated() || self.options.lenient;
        if changes || !self.first.is_wanted.swap(false, Ordering::Relaxed) {
            return Ok(self.looked_at(self.open(seed, device_sectors, folds)?));
        }
        let source = self.looked_at(self.with_latencies().open(seed, device_sectors, folds)?);
        Ok(Box::new(Witnessed { source, witness: Witness::default(), first: Arc::clone(&self.first) }))
    }

    /// The trace as it is, with the latencies that formats have to compute.
    fn with_latencies(&self) -> Self {
        let options = ReadOptions { latency: true, ..self.options.clone() };
        Self { options, resamples: false, ..self.clone() }
    }

    /// Opens it for a device of this size, over which its data are spread.
    ///
    /// # Errors
    /// [`TraceError`] if a file cannot be read.
    pub fn open_spread(&self, seed: u64, device_sectors: u64) -> Result<Box<dyn TraceSource>, TraceError> {
        let open = || self.open(seed, u64::MAX / SECTOR_BYTES, false);
        Ok(Box::new(Spread::new(open()?, self.name(), Extent::of(open()?)?, device_sectors)?))
    }

    /// The trace's description of itself as a whole, as a JSON object: where and how it was recorded.
    ///
    /// # Errors
    /// [`TraceError`] if a file cannot be opened.
    pub fn description(&self) -> Result<Option<String>, TraceError> {
        let Requests::Files(group) = &self.origin else { return Ok(None) };
        Ok(trace::open(&group.files, &self.options)?.description().map(str::to_owned))
    }

    /// Looks at all requests, with their latencies; the names of its streams, too. The trace is read unless a run has looked at it
    /// ([`TraceFiles::expect_witness`]).
    ///
    /// # Errors
    /// [`RunError`] if the trace cannot be read, or the work is stopped.
    pub fn witness(&self, progress: &dyn Progress) -> Result<(Witness, Vec<String>), RunError> {
        if let Some(seen) = self.first.seen.get() {
            return Ok(seen.clone());
        }
        let whole = self.with_latencies();
        let mut source = whole.looked_at(whole.open(0, u64::MAX / SECTOR_BYTES, false)?);
        let (mut witness, mut batch) = (Witness::default(), Vec::new());
        loop {
            source.read_batch(&mut batch)?;
            if progress.is_stopped() {
                return Err(RunError::Stopped);
            }
            if batch.is_empty() {
                tell(&*source, &self.name(), progress);
                return Ok((witness, source.names().streams.clone()));
            }
            batch.iter().for_each(|record| witness.add(record));
        }
    }

    /// Whether the requests are generated.
    #[must_use]
    pub const fn is_generated(&self) -> bool {
        matches!(self.origin, Requests::Mix(_))
    }

    /// The trace's name, format and files with their hashes, for the provenance.
    ///
    /// # Errors
    /// [`TraceError`] if a file cannot be read.
    pub fn meta(&self) -> Result<TraceMeta, TraceError> {
        let Requests::Files(group) = &self.origin else {
            return Ok(TraceMeta { name: self.name(), format: "generated".into(), files: Vec::new() });
        };
        meta_of(group.name.clone(), &group.files, &self.options)
    }
}

/// The name, format and hashes of the trace that files form.
///
/// # Errors
/// [`TraceError`] if a file cannot be read or recognised.
pub fn meta_of(name: String, files: &[PathBuf], options: &ReadOptions) -> Result<TraceMeta, TraceError> {
    let format = trace::recognise(files, options)?.name.into();
    let files: Result<Vec<_>, TraceError> = files.iter().map(|path| hashed(path)).collect();
    Ok(TraceMeta { name, format, files: files? })
}

/// The names with the trace files of each folder in its place, and which other files the folders hold.
///
/// # Errors
/// [`TraceError`] if a folder cannot be read or holds no trace.
pub fn without_folders(names: &[String], options: &ReadOptions) -> Result<(Vec<String>, Vec<TraceError>), TraceError> {
    let (mut named, mut left_out) = (Vec::new(), Vec::new());
    for name in names {
        if name.starts_with(MIX_PREFIX) || !Path::new(name).is_dir() {
            named.push(name.clone());
            continue;
        }
        let before = named.len();
        for path in files_of(Path::new(name))? {
            match trace::recognise(std::slice::from_ref(&path), options) {
                Ok(_) => named.push(path.display().to_string()),
                Err(error) => left_out.push(error),
            }
        }
        if named.len() == before {
            return Err(TraceError::new(name, Position::File, "holds no trace").expected("a folder with traces"));
        }
    }
    Ok((named, left_out))
}

/// The files of a folder, in the order of their names.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let broken = |error: std::io::Error| {
        TraceError::new(folder.display().to_string(), Position::File, format!("cannot be read: {error}"))
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(broken)? {
        let path = entry.map_err(broken)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Tells what makes the figures of a trace doubtful that has been read to its end.
pub fn tell(source: &dyn TraceSource, name: &str, progress: &dyn Progress) {
    source.remarks().iter().for_each(|remark| progress.remark(&format!("{name}: {remark}")));
}

/// A source that reports how far it has been read, and then what makes its figures doubtful.
pub(super) struct Watched<'a> {
    pub(super) source: Box<dyn TraceSource>,
    /// The name of the trace.
    pub(super) name: String,
    pub(super) progress: &'a dyn Progress,
}

impl TraceSource for Watched<'_> {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        self.source.read_batch(batch)?;
        self.progress.read(batch.len() as u64);
        if batch.is_empty() {
            tell(&*self.source, &self.name, self.progress);
        }
        Ok(())
    }

    fn names(&self) -> &Names {
        self.source.names()
    }

    fn inner(&self) -> Option<&dyn TraceSource> {
        Some(&*self.source)
    }
}

/// A source whose requests are looked at on their way.
struct Witnessed {
    source: Box<dyn TraceSource>,
    witness: Witness,
    /// Gets the witness at the end of the trace.
    first: Arc<FirstReading>,
}

impl TraceSource for Witnessed {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        self.source.read_batch(batch)?;
        if batch.is_empty() {
            let names = self.source.names().streams.clone();
            self.first.seen.get_or_init(|| (std::mem::take(&mut self.witness), names));
        }
        batch.iter().for_each(|record| self.witness.add(record));
        Ok(())
    }

    fn names(&self) -> &Names {
        self.source.names()
    }

    fn inner(&self) -> Option<&dyn TraceSource> {
        Some(&*self.source)
    }
}

/// The name of a file and its hash.
fn hashed(path: &Path) -> Result<(String, String), TraceError> {
    let name = path.display().to_string();
    let hash =
        sha256(path).map_err(|error| TraceError::new(&name, Position::File, format!("cannot be read: {error}")))?;
    Ok((name, hash))
}

/// The hash of a file, read piece by piece.
///
/// # Errors
/// What the system says if a file cannot be read.
pub fn sha256(path: &Path) -> std::io::Result<String> {
    let mut file = std::io::BufReader::with_capacity(1 << 16, trace::Input::from_path(path).stored()?);
    let mut hash = Sha256::new();
    loop {
        let piece = std::io::BufRead::fill_buf(&mut file)?;
        if piece.is_empty() {
            return Ok(hexadecimal(&hash.finalize()));
        }
        hash.update(piece);
        let length = piece.len();
        std::io::BufRead::consume(&mut file, length);
    }
}
