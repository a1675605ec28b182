//! Pages of tracefs: what the kernel wrote is read as the text of the same events, and nothing makes the reader panic.

use std::path::PathBuf;

use ioweir_core::{Nanos, Operation, Priority, PriorityClass};
use ioweir_trace::tracefs::{Layout, Recorded, Recording};
use ioweir_trace::{Event, Input, Names, ReadOptions, Record};
use proptest::prelude::*;

use crate::support::{read_inputs, repository};
use drive_tracefs::layout;

#[path = "../../../../fuzz/drive_tracefs.rs"]
mod drive_tracefs;

fn captured(name: &str) -> PathBuf {
    repository().join("crates/trace/tests/data/tracefs").join(name)
}

fn pages() -> Vec<Vec<u8>> {
    let files = ["cpu0.raw", "cpu1.raw"].map(|name| std::fs::read(captured(name)).unwrap());
    files.iter().flat_map(|file| file.chunks(4096)).map(<[u8]>::to_vec).collect()
}

fn recorded(pages: &[Vec<u8>], event: Event) -> (Vec<Recorded>, Recording) {
    let mut recording = Recording::new(layout(), Vec::new(), event);
    for page in pages {
        recording.page(page).unwrap();
    }
    let mut records = Vec::new();
    recording.finish(&mut records);
    (records, recording)
}

/// Text has microseconds, and the first record's time as zero; a request's own priority is only in later events.
fn coarse(record: &Record, first: Nanos, priority: Priority) -> Record {
    let micros = |nanos: u64| Nanos(nanos.saturating_add(500) / 1_000 * 1_000);
    let time = micros(record.time.0).since(micros(first.0));
    let latency = record.latency.map(|latency| micros(record.time.0 + latency.0).since(micros(record.time.0)));
    Record { time, latency, priority, ..*record }
}

#[test]
fn pages_agree_with_text_of_same_events() {
    for event in [Event::Queue, Event::Insert, Event::Issue] {
        let options = ReadOptions { event, latency: true, ..ReadOptions::default() };
        let text = read_inputs(vec![Input::from_path(&captured("trace.txt"))], &options).unwrap();
        let (records, recording) = recorded(&pages(), event);
        let first = records[0].record.time;
        let ours = records.iter().zip(&text.records);
        let ours: Vec<Record> = ours.map(|(recorded, text)| coarse(&recorded.record, first, text.priority)).collect();
        assert_eq!(records.len(), text.records.len(), "{}", event.name());
        assert_eq!(ours, text.records, "{}", event.name());
        assert_eq!(recording.names(), &text.names, "{}", event.name());
        assert!(ours.iter().filter(|record| record.latency.is_some()).count() > ours.len() / 2, "{}", event.name());
    }
}

#[test]
fn request_carries_time_and_priority_of_issue() {
    let (records, recording) = recorded(&pages(), Event::Queue);
    let mut issued = 0;
    for recorded in records.iter().filter(|recorded| recorded.record.operation != Operation::Flush) {
        let (time, at) = (recorded.record.time, recorded.issued);
        let Some(at) = at else { continue };
        issued += 1;
        assert!(time <= at, "{recorded:?}");
        let done = recorded.record.latency.map(|latency| Nanos(time.0 + latency.0));
        assert!(done.is_none_or(|done| at <= done), "{recorded:?}");
    }
    assert!(issued > 80, "{issued} of {} were issued", records.len());
    let classes = [PriorityClass::Realtime, PriorityClass::Idle, PriorityClass::BestEffort];
    for class in classes {
        assert!(records.iter().any(|recorded| recorded.record.priority.class() == class), "{class:?}");
    }
    let counts = recording.counts();
    assert_eq!((counts.lost, counts.gaps, counts.unusable, counts.damaged), (0, 0, 0, 0));
    assert!(counts.issued < counts.queued, "some were merged: {counts:?}");
}

#[test]
fn what_is_settled_early_is_the_same() {
    let (all, _) = recorded(&pages(), Event::Queue);
    let mut recording = Recording::new(layout(), Vec::new(), Event::Queue);
    for page in pages() {
        recording.page(&page).unwrap();
    }
    let (mut records, first) = (Vec::new(), all[0].record.time.0);
    for step in 0..2_000 {
        recording.settle(Nanos(first + step * 1_000_000), &mut records);
    }
    recording.finish(&mut records);
    assert_eq!(records, all);
}

#[test]
fn disk_and_partitions_are_one_volume() {
    let devices = vec![(7 << 20, "loop0".into()), (7 << 20 | 1, "loop0".into())];
    let mut recording = Recording::new(layout(), devices, Event::Queue);
    for page in pages() {
        recording.page(&page).unwrap();
    }
    recording.finish(&mut Vec::new());
    let Names { volumes, .. } = recording.names();
    assert_eq!(*volumes, ["loop0"]);
}

/// A page whose head says these bytes of events follow.
fn page(flags: u64, entries: &[u32], more: &[u8]) -> Vec<u8> {
    let mut page = 1_000_u64.to_le_bytes().to_vec();
    page.extend(((entries.len() as u64 * 4) | flags).to_le_bytes());
    page.extend(entries.iter().flat_map(|word| word.to_le_bytes()));
    page.extend(more);
    page
}

#[test]
fn dropped_events_are_counted_from_pages() {
    let mut recording = Recording::new(layout(), Vec::new(), Event::Queue);
    recording.page(&page(3 << 30, &[], &41_u64.to_le_bytes())).unwrap();
    recording.page(&page(1 << 31, &[], &[])).unwrap();
    let counts = recording.counts();
    assert_eq!((counts.lost, counts.gaps), (41, 1));
}

#[test]
fn failed_request_has_latency_unanswered_has_none() {
    // Kind and time since the one before, type, pid; device; sector; the rest as in the kernel's description. The
    // command of the device's own is empty, at byte 40.
    let queue = |sector: u32| {
        let letters = u32::from_le_bytes(*b"R\0\0\0");
        vec![14 | 5 << 5, 2097, 1, 7 << 20, 0, sector, 0, 8, letters, 0, 0, 0, 0, 0, 0]
    };
    let complete = |sector: u32, wait: u32, error: i32| {
        let letters = u32::from(u16::from_le_bytes(*b"R\0")) << 16;
        vec![12 | wait << 5, 2107, 1, 7 << 20, 0, sector, 0, 8, error.cast_unsigned(), letters, 0, 0, 40]
    };
    let late = 5_000_000_u32;
    let events = [queue(64), queue(128), queue(192), complete(64, late, -5), complete(128, 100, 0)].concat();
    let (records, recording) = recorded(&[page(0, &events, &[])], Event::Queue);
    let latencies: Vec<_> = records.iter().map(|recorded| recorded.record.latency).collect();
    let late = u64::from(late);
    assert_eq!(latencies, [Some(Nanos(10 + late)), Some(Nanos(5 + late + 100)), None]);
    assert_eq!(recording.counts().unusable, 0);
}

#[test]
fn event_times_may_be_extended_or_absolute() {
    // A queue event of 56 bytes: kind, flags, pid; device; sector; length, letters and command.
    let mut event = vec![14 | 5 << 5, 2097, 1, 7 << 20, 0, 64, 0, 8];
    event.extend([u32::from_le_bytes(*b"RS\0\0"), 0, 0, 0, 0, 0, 0]);
    let with = |before: &[u32]| {
        let mut recording = Recording::new(layout(), Vec::new(), Event::Queue);
        recording.page(&page(0, &[before, &event].concat(), &[])).unwrap();
        let mut records = Vec::new();
        recording.finish(&mut records);
        records[0].record.time
    };
    assert_eq!(with(&[]), Nanos(1_005));
    assert_eq!(with(&[30 | 7 << 5, 1]), Nanos(1_005 + 7 + (1 << 27)));
    assert_eq!(with(&[31 | 9 << 5, 2]), Nanos(5 + 9 + (2 << 27)));
    assert_eq!(with(&[29 | 1 << 5, 8, 0]), Nanos(1_005), "eight bytes of padding, and four of its head");
}

#[test]
fn incomplete_description_is_an_error() {
    let queue = std::fs::read_to_string(captured("block_bio_queue.format")).unwrap();
    let head = std::fs::read_to_string(captured("header_page")).unwrap();
    let said = |head: &str, queue: &str| {
        Layout::parse(head, &[("block_bio_queue", queue)]).expect_err("it lacks something").to_string()
    };
    assert_eq!(said("", &queue), "events/header_page: has no field `data`");
    assert_eq!(
        said(&head, &queue.replace("sector_t sector", "sector_t place")),
        "block_bio_queue: has no field `sector`"
    );
    assert_eq!(said(&head, &queue.replace("ID:", "Id:")), "block_bio_queue: has no ID");
    assert_eq!(said(&head, &queue.replace("size:8", "size:3")), "block_bio_queue: field `sector` has 3 bytes");
}

#[test]
fn a_layout_of_another_kernel_moves_every_field() {
    let shifted = |text: &str| {
        let line = |line: &str| match line.split_once("offset:") {
            Some((left, right)) => {
                let (number, rest) = right.split_once(';').unwrap();
                format!("{left}offset:{};{rest}\n", number.parse::<u32>().unwrap() + 4)
            }
            None => format!("{line}\n"),
        };
        text.lines().map(line).collect::<String>()
    };
    let head = std::fs::read_to_string(captured("header_page")).unwrap();
    let queue = std::fs::read_to_string(captured("block_bio_queue.format")).unwrap();
    let layout = Layout::parse(&head, &[("block_bio_queue", &shifted(&queue))]).unwrap();
    let mut event = vec![15 | 5 << 5, 0, 2097, 1, 7 << 20, 0, 64, 0, 8];
    event.extend([u32::from_le_bytes(*b"RS\0\0"), 0, 0, 0, 0, 0, 0]);
    let mut recording = Recording::new(layout, Vec::new(), Event::Queue);
    recording.page(&page(0, &event, &[])).unwrap();
    let mut records = Vec::new();
    recording.finish(&mut records);
    assert_eq!((records[0].record.offset_bytes, records[0].record.length_bytes), (64 * 512, 8 * 512));
}

#[test]
fn the_corpus_of_the_fuzzer_is_read() {
    for entry in std::fs::read_dir(repository().join("fuzz/corpus/tracefs")).unwrap() {
        drive_tracefs::drive(&std::fs::read(entry.unwrap().path()).unwrap());
    }
}

proptest! {
    #[test]
    fn no_damage_makes_the_reader_panic(
        which in 0_usize..7, places in prop::collection::vec((0_usize..4096, any::<u8>()), 0..40), cut in 0_usize..4097,
    ) {
        let mut page = pages().swap_remove(which);
        for (place, byte) in places {
            page[place] = byte;
        }
        page.truncate(cut);
        drive_tracefs::drive(&page);
    }

    #[test]
    fn no_description_makes_the_reader_panic(offset in 0_u64..70_000, size in 0_u64..70_000, line in 0_usize..12) {
        let queue = std::fs::read_to_string(captured("block_bio_queue.format")).unwrap();
        let head = std::fs::read_to_string(captured("header_page")).unwrap();
        let mut lines: Vec<String> = format!("{head}{queue}").lines().map(str::to_owned).collect();
        let line = line % lines.len();
        if let Some((left, _)) = lines[line].clone().split_once("offset:") {
            lines[line] = format!("{left}offset:{offset};\tsize:{size};\tsigned:0;");
        }
        drive_tracefs::drive(lines.join("\n").as_bytes());
    }
}
