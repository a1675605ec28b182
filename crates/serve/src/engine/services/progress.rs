//! The state of a pass that a restart continues from, in a small file that is replaced as a whole.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Shelf;
use crate::committer::Committer;
use crate::durable::replace;
use crate::nbd::NbdError;

const VERSION: u32 = 1;
/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 4096;

/// The progress of a pass. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Progress {
    version: u32,
    /// The length of the device.
    pub(super) device_bytes: u64,
    /// When the pass became due, or the next one becomes due.
    pub(super) due_nanos: u64,
    /// The offset before which everything was done in this pass; absent if the last pass has ended.
    pub(super) position_bytes: Option<u64>,
    /// When the last pass ended.
    pub(super) finished_nanos: Option<u64>,
}

impl Progress {
    /// The progress of a pass that becomes due at this time.
    pub(super) const fn begin(device_bytes: u64, due_nanos: u64) -> Self {
        Self { version: VERSION, device_bytes, due_nanos, position_bytes: None, finished_nanos: None }
    }
}

/// Saves progress, if the service has a place for it.
#[derive(Debug)]
pub(super) struct Keeper(Option<Committer<Progress>>);

impl Keeper {
    /// Reads the saved progress. If there is none, or it cannot be used, which the remark says, the result is `None`.
    ///
    /// # Errors
    /// If the system has no threads left.
    pub(super) fn open(
        shelf: Option<Arc<dyn Shelf>>,
        device_bytes: u64,
    ) -> io::Result<(Self, Option<Progress>, Option<String>)> {
        let Some(shelf) = shelf else { return Ok((Self(None), None, None)) };
        let kept = shelf.read().and_then(|text| text.map(|text| parse(&text, device_bytes)).transpose());
        let (progress, remark) = match kept {
            Ok(progress) => (progress, None),
            Err(problem) => (None, Some(format!("{}: not used: {problem}; the pass begins anew", shelf.name()))),
        };
        let waits_for_disk = shelf.waits_for_disk();
        let keep = move |progress: &Progress| {
            let mut text = serde_json::to_vec(progress).map_err(|_| NbdError::InputOutput)?;
            text.push(b'\n');
            shelf.keep(text).map_err(|error| NbdError::from_io(&error))
        };
        Ok((Self(Some(Committer::start("ioweir-progress", waits_for_disk, keep)?)), progress, remark))
    }

    /// Begins to make progress durable; returns whether it takes time.
    pub(super) fn keep(&mut self, progress: Progress) -> bool {
        self.0.as_mut().is_some_and(|committer| {
            committer.commit(progress);
            true
        })
    }

    pub(super) fn is_busy(&self) -> bool {
        self.0.as_ref().is_some_and(Committer::is_busy)
    }

    pub(super) fn finished(&mut self) -> Option<Result<(), NbdError>> {
        self.0.as_mut()?.finished()
    }

    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(Committer::descriptor)
    }
}

impl Shelf for PathBuf {
    fn name(&self) -> String {
        self.display().to_string()
    }

    fn read(&self) -> Result<Option<Vec<u8>>, String> {
        let file = match File::open(self) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let mut text = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
        Ok(Some(text))
    }

    fn keep(&self, bytes: Vec<u8>) -> io::Result<()> {
        replace(self, &bytes)
    }

    fn waits_for_disk(&self) -> bool {
        true
    }
}

/// The progress in a text.
fn parse(text: &[u8], device_bytes: u64) -> Result<Progress, String> {
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err("it is too long".into());
    }
    let progress: Progress = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if progress.version != VERSION {
        return Err(format!("it is of version {}, and this program knows {VERSION}", progress.version));
    }
    if progress.device_bytes != device_bytes {
        return Err(format!("its device had {} bytes, and now has {device_bytes}", progress.device_bytes));
    }
    if progress.position_bytes.is_some_and(|position| position > device_bytes) {
        return Err("it is past the end of the device".into());
    }
    Ok(progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_progress_have_distinct_errors() {
        let progress = Progress { position_bytes: Some(7), ..Progress::begin(10, 3) };
        let text = serde_json::to_string(&progress).expect("numbers can be written");
        assert_eq!(parse(text.as_bytes(), 10), Ok(progress));
        let refused = |from: &str, to: &str, device_bytes| {
            let changed = text.replace(from, to);
            parse(changed.as_bytes(), device_bytes).expect_err("it is wrong")
        };
        assert!(refused("\"version\":1", "\"version\":2", 10).contains("version 2"));
        assert!(refused("7", "11", 10).contains("past the end"));
        assert!(refused("", "", 11).contains("had 10 bytes"));
        assert!(parse(&[b' '; 5000], 10).expect_err("it is long").contains("too long"));
        assert!(parse(b"{", 10).is_err());
    }
}
