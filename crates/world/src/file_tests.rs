//! Tests of databases in simulated files: commits survive failed flushes and power cuts.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ioweir_core::Nanos;
use redb::DatabaseError;

use super::super::disk::Disk;
use super::super::random::Random;
use super::SimulatedFile;
use ioweir_block::backend::book::Book;
use ioweir_block::backend::opener::{Name, opener};

#[path = "../../block/tests/shared/rows.rs"]
mod rows;
use rows::{put, rows};

#[test]
fn commits_survive_failed_flushes_and_a_power_cut() {
    let (mut ended, mut reopened) = (0, 0);
    let ways = [(false, false), (false, true), (true, false), (true, true)];
    let cases = (0..10).flat_map(|first| [1, 2, 4].map(|count| (first, count)));
    for ((first, count), (keeps, dies)) in cases.flat_map(|case| ways.map(|way| (case, way))) {
        let span = Nanos(1);
        let disk = Disk::new(2 * (4 << 20), Random::new(first * 100 + u64::from(count)), (span, span));
        let file = SimulatedFile::new(disk.clone());
        let mut book = Book::opened_by("book", opener(file.clone())).unwrap();
        let mut committed = Vec::new();
        let case = format!("flush {first}, {count} of them, kept: {keeps}, dies: {dies}");
        for row in 0..8 {
            if row == first {
                file.fail(count, keeps);
            }
            if put(&mut book, row) {
                committed.push(row);
            } else if dies {
                // The next process knows nothing of the failure, and its own flushes may fail, too.
                drop(book);
                book = (0..10).find_map(|_| Book::opened_by("book", opener(file.clone())).ok()).expect(&case);
            } else {
                reopened += 1;
            }
        }
        // The process ends uncleanly, or with failing flushes.
        file.fail(if first > 7 { count } else { 0 }, keeps);
        if first % 2 == 0 {
            disk.media().turn_off();
        }
        drop(book);
        disk.cut();
        disk.media().restore();
        file.fail(0, false);
        let book = Book::opened_by("book", opener(file)).unwrap_or_else(|problem| panic!("{case}: {problem}"));
        let found = rows(&book);
        assert!(committed.iter().all(|row| found.contains(row)), "{case}: {committed:?} {found:?}");
        ended += 1;
    }
    assert!(ended == 120 && reopened > 50, "{ended} {reopened}");
}

/// A name that counts how often its file was replaced.
struct Counted(SimulatedFile, Arc<AtomicU32>);

impl Name for Counted {
    type File = <SimulatedFile as Name>::File;

    fn open(&self) -> Result<Self::File, DatabaseError> {
        self.0.open()
    }

    fn replace(&self, fill: &dyn Fn(&Self::File) -> io::Result<()>) -> io::Result<Self::File> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.replace(fill)
    }
}

#[test]
fn only_a_failed_flush_causes_a_copy() {
    let disk = Disk::new(2 * (4 << 20), Random::new(1), (Nanos(1), Nanos(1)));
    let (file, copies) = (SimulatedFile::new(disk.clone()), Arc::new(AtomicU32::new(0)));
    let mut book = Book::opened_by("book", opener(Counted(file.clone(), Arc::clone(&copies)))).unwrap();
    assert!(put(&mut book, 0));
    // Writes fail, as if the disk were full.
    disk.media().turn_off();
    assert!(!put(&mut book, 1));
    disk.media().restore();
    assert!(put(&mut book, 2));
    assert_eq!(copies.load(Ordering::Relaxed), 0);
    file.fail(1, false);
    assert!(!put(&mut book, 3));
    assert!(put(&mut book, 4));
    assert_eq!(copies.load(Ordering::Relaxed), 1);
}
