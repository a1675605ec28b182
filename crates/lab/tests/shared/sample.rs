//! The traces of this repository for tests: the first requests of each, or all where `scripts/thorough` runs.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ioweir_trace::{Names, ReadOptions, Record, Target, TraceError, TraceSource, convert, format, group, open};

/// Requests of each trace in the usual run.
const REQUESTS: usize = 1_500;

/// Whether tests run on everything they can: `scripts/thorough` sets the variable.
pub(crate) fn is_thorough() -> bool {
    std::env::var_os("IOWEIR_THOROUGH").is_some()
}

/// The first requests of a trace.
struct First {
    source: Box<dyn TraceSource>,
    left: usize,
}

impl TraceSource for First {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        self.source.read_batch(batch)?;
        batch.truncate(self.left);
        self.left -= batch.len();
        Ok(())
    }

    fn names(&self) -> &Names {
        self.source.names()
    }
}

/// The folder that holds `oltp/` and `hadoop/`. Files have the same names in both runs.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
        if is_thorough() { whole } else { shortened(&whole) }
    })
}

/// Writes the first requests of each trace below the build's folder: the same bytes each time, put in place whole.
fn shortened(whole: &Path) -> PathBuf {
    let part = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sample");
    let cut = |name: &str| {
        let found = group(&[whole.join(name)]).expect("the sample traces are in the repository").remove(0);
        let source = open(&found.files, &ReadOptions::default()).expect("it is a trace");
        let path = part.join(name);
        let beside = path.parent().expect("a folder");
        std::fs::create_dir_all(beside).expect("it is made");
        let file = tempfile::NamedTempFile::new_in(beside).expect("a file");
        let stream = BufWriter::new(file.reopen().expect("the same file"));
        let target = Target::new(name, Box::new(stream));
        let written = convert(&mut First { source, left: REQUESTS }, format("hadoop-csv").expect("a row"), target);
        assert_eq!(written.expect("it is written").records, REQUESTS as u64, "{name}");
        file.persist(&path).expect("it takes its name");
    };
    cut("oltp/oltp.blktrace");
    for disk in ["hdd-emul", "loop-ssd"] {
        let files =
            std::fs::read_dir(whole.join("hadoop").join(disk)).expect("the sample traces are in the repository");
        let names = files.map(|file| file.expect("a file").file_name().into_string().expect("a name"));
        names.filter(|name| name.ends_with(".insert.csv.zst")).for_each(|name| cut(&format!("hadoop/{disk}/{name}")));
    }
    part
}
