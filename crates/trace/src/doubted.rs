//! Looks at the requests of a trace as they are read, and says what makes its figures doubtful.

use crate::info::plausible::Seen;
use crate::{Names, Record, TraceError, TraceSource};

/// A trace whose requests are looked at for figures that no device has. [`TraceSource::remarks`] tells them after it has been
/// read to its end.
pub struct Doubted {
    source: Box<dyn TraceSource>,
    seen: Seen,
}

impl Doubted {
    /// Looks at the requests of `source`.
    ///
    /// ```
    /// use ioweir_trace::{Doubted, Input, ReadOptions, TraceError, TraceSource, format, open_inputs};
    ///
    /// let text = "0.0 0 8 8 1\n".repeat(8);
    /// let options = ReadOptions { format: format("ucare"), ..ReadOptions::default() };
    /// let mut source = Doubted::new(open_inputs(vec![Input::from_bytes("trace", text.into())], &options)?);
    /// let mut batch = Vec::new();
    /// while source.read_batch(&mut batch).is_ok() && !batch.is_empty() {}
    /// assert!(source.remarks()[0].contains("8 of 8 requests are no whole sectors"));
    /// # Ok::<(), TraceError>(())
    /// ```
    pub fn new(source: Box<dyn TraceSource>) -> Self {
        Self { source, seen: Seen::default() }
    }
}

impl TraceSource for Doubted {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        self.source.read_batch(batch)?;
        batch.iter().for_each(|record| self.seen.add(record));
        Ok(())
    }

    fn names(&self) -> &Names {
        self.source.names()
    }

    fn inner(&self) -> Option<&dyn TraceSource> {
        Some(&*self.source)
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = self.source.remarks();
        remarks.extend(self.seen.doubts().into_iter().map(|doubt| format!("Warning: {doubt}.")));
        remarks
    }
}
