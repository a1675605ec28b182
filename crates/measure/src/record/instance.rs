//! An instance of tracefs: buffers and switches of its own, so that other users of tracing are not disturbed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ioweir_trace::tracefs::Layout;
use rustix::fs::OFlags;

use ioweir_block::real::{Number, RealError};

/// The name of an instance is this and the number of its process.
const PREFIX: &str = "ioweir-";
/// The most pages that are read from one processor at once; further pages wait for the next turn.
const PAGES_MAX: usize = 1 << 14;

/// The folder where tracefs is mounted.
#[derive(Clone, Debug)]
pub struct Tracefs {
    root: PathBuf,
}

impl Tracefs {
    /// At this folder.
    #[must_use]
    pub const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Removes the instances of processes that have gone, and says which.
    #[must_use]
    pub fn remove_left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root.join("instances")).into_iter().flatten().flatten();
        let gone = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let pid: u32 = name.strip_prefix(PREFIX)?.parse().ok()?;
            let is_gone = !Path::new("/proc").join(pid.to_string()).exists();
            (is_gone && fs::remove_dir(entry.path()).is_ok())
                .then(|| format!("the events that process {pid} had switched on were switched off"))
        });
        gone.collect()
    }
}

/// The longest description of an event.
const DESCRIPTION_BYTES: usize = 1 << 16;

/// The error for a refusal of the kernel, with the alternatives.
fn refused(path: &Path, error: &io::Error) -> RealError {
    let without = "without the kernel's events: `ioweir serve --capture` records what a server gets, and traces of blktrace, \
                   trace-cmd, perf and fio are read by every verb";
    if error.kind() == io::ErrorKind::PermissionDenied || error.raw_os_error() == Some(1) {
        let who = if rustix::process::geteuid().is_root() {
            "the kernel is locked down or this is a container: record on the host"
        } else {
            "only root may record: run it with sudo"
        };
        return RealError::refused(path, "the kernel's events are refused", error).hint(format!("{who}; {without}"));
    }
    RealError::refused(path, "the kernel's events cannot be had", error).hint(without)
}

/// An instance of the kernel's tracing, which is removed when this is dropped.
#[derive(Debug)]
pub struct Instance {
    folder: PathBuf,
    layout: Layout,
    /// The buffers of all processors.
    buffers: Vec<File>,
    page: Vec<u8>,
    events: &'static [&'static str],
}

impl Instance {
    /// Makes an instance for these events of devices with these numbers. Nothing is switched on yet.
    ///
    /// # Errors
    /// If the kernel refuses or describes it in a way that is not understood.
    pub fn begin(
        tracefs: &Tracefs,
        events: &'static [&'static str],
        numbers: &[Number],
        buffer_kib: u64,
    ) -> Result<Self, RealError> {
        if cfg!(target_endian = "big") {
            return Err(
                RealError::new("pages of a big-endian kernel cannot be read").expected("a little-endian machine")
            );
        }
        let layout = read_layout(&tracefs.root, events)?;
        let folder = tracefs.root.join("instances").join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| refused(&folder, &error))?;
        // From here on dropping `instance` removes it, whatever happens.
        let page = vec![0; layout.page_bytes()];
        let mut instance = Self { folder, layout, buffers: Vec::new(), page, events };
        instance.put("trace_clock", "mono")?;
        instance.put("buffer_size_kb", &buffer_kib.to_string())?;
        let filter: Vec<String> =
            numbers.iter().map(|number| format!("dev == {}", number.major << 20 | number.minor)).collect();
        for event in events {
            instance.put(&format!("events/block/{event}/filter"), &filter.join(" || "))?;
        }
        let processors =
            fs::read_dir(instance.folder.join("per_cpu")).map_err(|error| refused(&instance.folder, &error))?;
        for processor in processors.flatten() {
            let path = processor.path().join("trace_pipe_raw");
            let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
            let opened = OpenOptions::new().read(true).custom_flags(nonblocking).open(&path);
            instance.buffers.push(opened.map_err(|error| refused(&path, &error))?);
        }
        Ok(instance)
    }

    /// The kernel's description of its pages.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    fn put(&self, name: &str, value: &str) -> Result<(), RealError> {
        let path = self.folder.join(name);
        fs::write(&path, value).map_err(|error| refused(&path, &error))
    }

    fn switch(&self, value: &str) -> Result<(), RealError> {
        self.events.iter().try_for_each(|event| self.put(&format!("events/block/{event}/enable"), value))
    }

    /// Switches the events on.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn enable(&self) -> Result<(), RealError> {
        self.switch("1")
    }

    /// Switches the events off.
    ///
    /// # Errors
    /// As [`Self::enable`].
    pub fn disable(&self) -> Result<(), RealError> {
        self.switch("0")
    }

    /// Reads the pages that there are, without waiting.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn read(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<(), RealError> {
        for buffer in &mut self.buffers {
            for _ in 0..PAGES_MAX {
                match buffer.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(length) => take(self.page.get(..length).unwrap_or_default()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(refused(&self.folder, &error)),
                }
            }
        }
        Ok(())
    }

    /// Events that the kernel dropped since the beginning, by its own count.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let processors = fs::read_dir(self.folder.join("per_cpu")).into_iter().flatten().flatten();
        let stats = processors.filter_map(|processor| fs::read_to_string(processor.path().join("stats")).ok());
        stats.map(|stats| lost_of(&stats)).sum()
    }

    /// Removes the instance.
    ///
    /// # Errors
    /// If the kernel keeps it.
    pub fn remove(mut self) -> Result<(), RealError> {
        self.buffers.clear();
        fs::remove_dir(&self.folder).map_err(|error| RealError::refused(&self.folder, "cannot be removed", &error))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.buffers.clear();
        // If it was removed before, there is nothing to do.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The dropped events in the statistics of a processor: overwritten, and refused.
fn lost_of(stats: &str) -> u64 {
    let fields = stats.lines().filter_map(|line| line.split_once(':'));
    let counts = fields.filter(|(name, _)| matches!(*name, "overrun" | "commit overrun" | "dropped events"));
    counts.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

/// The text of a file of tracefs. Some of them give all at the first read, and nothing more at the next.
fn read_at_once(path: &Path) -> io::Result<String> {
    let (mut file, mut text, mut piece) = (File::open(path)?, Vec::new(), vec![0; DESCRIPTION_BYTES]);
    loop {
        match file.read(&mut piece)? {
            0 => return String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into()),
            _ if text.len() > DESCRIPTION_BYTES => return Err(io::ErrorKind::InvalidData.into()),
            length => text.extend_from_slice(piece.get(..length).unwrap_or_default()),
        }
    }
}

fn read_layout(root: &Path, events: &[&str]) -> Result<Layout, RealError> {
    let read = |path: PathBuf| read_at_once(&path).map_err(|error| refused(&path, &error));
    let head = read(root.join("events/header_page"))?;
    let formats: Vec<(&str, String)> = events
        .iter()
        .map(|event| read(root.join("events/block").join(event).join("format")).map(|text| (*event, text)))
        .collect::<Result<_, _>>()?;
    let formats: Vec<(&str, &str)> = formats.iter().map(|(name, text)| (*name, text.as_str())).collect();
    Layout::parse(&head, &formats).map_err(|error| {
        RealError::new(format!("the kernel's description of its events is not understood: {error}"))
            .hint("please report it with the output of `uname -r` and that file")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_events_are_summed_over_reasons() {
        let stats = "entries: 7\noverrun: 3\ncommit overrun: 2\nbytes: 99\ndropped events: 5\nread events: 8\n";
        assert_eq!(lost_of(stats), 10);
    }

    #[test]
    fn without_tracing_the_error_advises() {
        let folder = tempfile::tempdir().expect("a folder");
        let tracefs = Tracefs::new(folder.path().into());
        let error = Instance::begin(&tracefs, Layout::REQUEST_EVENTS, &[], 64).expect_err("there is none").to_string();
        assert!(error.contains("events/header_page: the kernel's events cannot be had"), "{error}");
        assert!(error.contains("hint: "), "{error}");
    }

    #[test]
    fn instances_of_dead_processes_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let instances = folder.path().join("instances");
        let own = format!("{PREFIX}{}", std::process::id());
        for name in ["ioweir-4194305", &own, "others"] {
            fs::create_dir_all(instances.join(name)).expect("a folder can be made");
        }
        let said = Tracefs::new(folder.path().into()).remove_left();
        assert_eq!(said, ["the events that process 4194305 had switched on were switched off"]);
        let mut left: Vec<_> =
            fs::read_dir(&instances).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, [&*own, "others"]);
    }
}
