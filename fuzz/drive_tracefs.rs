//! Runs one fuzzing input through the reader of tracefs, for the target and for the test that replays the corpus on stable.

use std::sync::LazyLock;

use ioweir_trace::Event;
use ioweir_trace::tracefs::{Layout, Recording};

const HEADER_PAGE: &str = include_str!("../crates/trace/tests/data/tracefs/header_page");
const FORMATS: [(&str, &str); 4] = [
    ("block_bio_queue", include_str!("../crates/trace/tests/data/tracefs/block_bio_queue.format")),
    ("block_rq_insert", include_str!("../crates/trace/tests/data/tracefs/block_rq_insert.format")),
    ("block_rq_issue", include_str!("../crates/trace/tests/data/tracefs/block_rq_issue.format")),
    ("block_rq_complete", include_str!("../crates/trace/tests/data/tracefs/block_rq_complete.format")),
];

static LAYOUT: LazyLock<Layout> = LazyLock::new(|| Layout::parse(HEADER_PAGE, &FORMATS).expect("a kernel wrote it"));

/// The layout of a kernel, as it was recorded. It is read once: reading it takes longer than a page.
pub(crate) fn layout() -> Layout {
    LAYOUT.clone()
}

/// Takes the input for a description, or for pages. There are never more records than events, nor more events than fit.
pub(crate) fn drive(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        // A page must not make the reader panic, whatever layout a description claims.
        if let Ok(layout) = Layout::parse(text, &[("block_bio_queue", text), ("block_rq_complete", text)]) {
            let mut recording = Recording::new(layout, Vec::new(), Event::Queue);
            let _ = recording.page(data);
            recording.finish(&mut Vec::new());
        }
    }
    for event in Event::ALL {
        let mut recording = Recording::new(layout(), vec![(7 << 20, "disk".into())], event);
        let mut records = Vec::new();
        for page in data.chunks(4096) {
            let _ = recording.page(page);
        }
        recording.finish(&mut records);
        let counts = recording.counts();
        assert!(records.len() as u64 <= counts.events && counts.events <= data.len() as u64 / 4);
        assert!(records.is_sorted_by_key(|recorded| recorded.record.time));
    }
}
