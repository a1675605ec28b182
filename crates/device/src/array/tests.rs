//! The rules of arrays.

use std::collections::BTreeMap;

use ioweir_core::{Dispatch, Flags, Nanos, Operation, Request, StreamId};
use proptest::prelude::*;

use super::layout::Striping;
use crate::{Device, DeviceSpec, Service};

fn device(text: &str) -> Box<dyn Device> {
    let spec = DeviceSpec::parse("array.toml", text).unwrap_or_else(|error| panic!("{error}"));
    spec.build(1).unwrap_or_else(|error| panic!("{error}"))
}

/// Members that take 1 ms for anything.
fn array(layout: &str, members: u32, more: &str) -> Box<dyn Device> {
    device(&format!(
        "[array]\nlayout = \"{layout}\"\nmembers = {members}\n{more}\n[array.member.null]\ncapacity = \"1MiB\"\nservice = \"1ms\"\n"
    ))
}

const CHUNK: &str = "chunk = \"64KiB\"";

fn serve(device: &mut dyn Device, now_millis: u64, operation: Operation, sector: u64, sectors: u32) -> Service {
    let request = Request { operation, flags: Flags::NONE, stream: StreamId(0), sector, sectors };
    device.serve(Nanos(now_millis * 1_000_000), &Dispatch::alone(&request))
}

/// The time of a request on an idle array, in milliseconds.
fn millis(layout: &str, members: u32, more: &str, operation: Operation, sector: u64, sectors: u32) -> u64 {
    let mut array = array(layout, members, more);
    let service = serve(&mut *array, 10, operation, sector, sectors);
    assert_eq!(service.finish.0 - 10_000_000, service.work_nanos() + service.queue_nanos, "the parts add up");
    (service.finish.0 - 10_000_000) / 1_000_000
}

#[test]
fn array_holds_its_layouts_share_of_data() {
    for (layout, more, sectors) in
        [("concat", "", 4 * 2048), ("mirror", "", 2048), ("stripe", CHUNK, 4 * 2048), ("parity", CHUNK, 3 * 2048)]
    {
        assert_eq!(array(layout, 4, more).sectors(), sectors, "{layout}");
    }
}

#[test]
fn small_parity_write_takes_four_operations() {
    let write = |sector, sectors| millis("parity", 5, CHUNK, Operation::Write, sector, sectors);
    assert_eq!(write(0, 8), 2, "read data and parity, write data and parity");
    assert_eq!(write(0, 4 * 128), 1, "a row of four chunks");
    assert_eq!(write(0, 3 * 128), 2, "read the one chunk that stays");
    assert_eq!(write(64, 4 * 128), 2, "parts of two rows");
    let update = Striping::new(128, 5, true).update(0, 8);
    assert_eq!((update.reads.len(), update.writes.len()), (2, 2));
    let most = Striping::new(128, 5, true).update(0, 3 * 128);
    assert_eq!((most.reads, most.writes.len()), (vec![(3, 0..128)], 4));
}

#[test]
fn stripes_and_mirrors_read_in_parallel() {
    assert_eq!(millis("stripe", 4, CHUNK, Operation::Write, 0, 4 * 128), 1);
    assert_eq!(millis("parity", 4, CHUNK, Operation::Read, 0, 3 * 128), 1);
    let mut mirror = array("mirror", 2, "");
    let ends: Vec<_> = (0..4).map(|_| serve(&mut *mirror, 0, Operation::Read, 0, 8).finish.0 / 1_000_000).collect();
    assert_eq!(ends, [1, 1, 2, 2]);
    assert_eq!(serve(&mut *mirror, 0, Operation::Write, 0, 8).finish.0, 3_000_000, "a write needs both");
    assert_eq!(serve(&mut *mirror, 0, Operation::Flush, 0, 0).finish.0, 4_000_000);
    let mut concat = array("concat", 2, "");
    let across = serve(&mut *concat, 0, Operation::Read, 2040, 16);
    assert_eq!(across.finish.0, 1_000_000, "both members, at once");
}

#[test]
fn mirror_reads_from_the_nearest_head() {
    let mut mirror = device("[array]\nlayout = \"mirror\"\nmembers = 2\nmember = \"tiny\"\n");
    let far = serve(&mut *mirror, 0, Operation::Read, 9_000, 1);
    let near = serve(&mut *mirror, 1_000, Operation::Read, 10, 1);
    assert!(near.seek_nanos < far.seek_nanos, "the other disk is still at its outer edge: {near:?}");
}

#[test]
fn stripe_of_mirrors_is_an_array() {
    let text = "[array]\nlayout = \"stripe\"\nmembers = 3\nchunk = \"64KiB\"\n[array.member.array]\nlayout = \"mirror\"\n\
                members = 2\n[array.member.array.member.null]\ncapacity = \"1MiB\"\nservice = \"1ms\"\n";
    let mut array = device(text);
    assert_eq!(array.sectors(), 3 * 2048);
    assert_eq!(serve(&mut *array, 0, Operation::Write, 0, 3 * 128).finish.0, 1_000_000);
}

#[test]
fn invalid_array_is_refused_at_its_key() {
    let refused = |text: &str| DeviceSpec::parse("a.toml", text).expect_err("refused").to_string();
    let member = "member = \"tiny\"\n";
    for (text, says) in [
        (format!("[array]\nlayout = \"parity\"\nmembers = 2\nchunk = \"64KiB\"\n{member}"), "a.toml:3:11: array.members: is 2"),
        (format!("[array]\nlayout = \"stripe\"\nmembers = 2\n{member}"), "array.chunk: is missing"),
        (format!("[array]\nlayout = \"mirror\"\nmembers = 2\nchunk = \"4KiB\"\n{member}"), "array.chunk: stands in an array without"),
        (format!("[array]\nlayout = \"stripe\"\nmembers = 2\nchunk = \"1000B\"\n{member}"), "array.chunk: is 1kB"),
        ("[array]\nlayout = \"mirror\"\nmembers = 2\nmember = \"sda\"\n".into(), "array.member: `sda` is no preset"),
        ("[array]\nlayout = \"mirror\"\nmembers = 2\n[array.member.null]\ncapacity = \"1B\"\n".into(), "null.capacity: 1B is less"),
        ("[array]\nlayout = \"mirror\"\nmembers = 1000\n[array.member.array]\nlayout = \"mirror\"\nmembers = 1000\nmember = \"tiny\"\n".into(), "1000000 drives in all"),
        ("[tiered]\ncapacity = \"1GB\"\n[tiered.fast]\nmodel = \"tiered\"\n[tiered.slow]\nread = \"constant 1ms\"\n".into(), "is a tiered array itself"),
    ] {
        let message = refused(&text);
        assert!(message.contains(says), "{message}\nwants: {says}");
    }
}

proptest! {
    #[test]
    fn stripe_parts_are_joined_chunks(
        chunk in 1_u64..20, members in 2_u64..7, parity: bool, first in 0_u64..3_000, length in 1_u64..900,
    ) {
        let members = members + u64::from(parity);
        let striping = Striping::new(chunk, members, parity);
        let data = members - u64::from(parity);
        // Sector by sector.
        let mut naive: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for sector in first..first + length {
            let (number, within) = (sector / chunk, sector % chunk);
            let (row, place) = (number / data, number % data);
            let member = if parity { (members - 1 - row % members + 1 + place) % members } else { place };
            let at = row * chunk + within;
            let range = naive.entry(usize::try_from(member).expect("small")).or_insert((at, at + 1));
            *range = (range.0.min(at), range.1.max(at + 1));
        }
        let mut parts = striping.parts(first, first + length);
        parts.sort_by_key(|part| part.0);
        let found: Vec<_> = parts.into_iter().map(|(member, range)| (member, (range.start, range.end))).collect();
        prop_assert_eq!(found, naive.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn parity_of_every_changed_row_is_written(
        chunk in 1_u64..20, members in 3_u64..7, first in 0_u64..3_000, length in 1_u64..900,
    ) {
        let striping = Striping::new(chunk, members, true);
        let row_sectors = chunk * (members - 1);
        let update = striping.update(first, first + length);
        for row in first / row_sectors..=(first + length - 1) / row_sectors {
            let parity = usize::try_from(members - 1 - row % members).expect("small");
            let written = update.writes.iter().find(|part| part.0 == parity);
            prop_assert!(written.is_some_and(|(_, range)| range.start < (row + 1) * chunk && range.end > row * chunk));
            let is_whole = first <= row * row_sectors && first + length >= (row + 1) * row_sectors;
            let reads = update.reads.iter().filter(|(_, range)| range.start >= row * chunk && range.end <= (row + 1) * chunk);
            prop_assert_eq!(reads.count() == 0, is_whole, "row {}", row);
        }
    }

    #[test]
    fn service_parts_add_up_on_any_array(
        layout in prop::sample::select(vec!["concat", "mirror", "stripe", "parity"]),
        member in prop::sample::select(vec!["tiny", "hdd", "ssd-970pro"]),
        requests in prop::collection::vec((0_usize..4, 0_u64..9_000, 0_u32..800, 0_u64..5_000_000), 1..60),
    ) {
        let more = if matches!(layout, "stripe" | "parity") { CHUNK } else { "" };
        let mut array = device(&format!("[array]\nlayout = \"{layout}\"\nmembers = 3\nmember = \"{member}\"\n{more}\n"));
        let mut now = 0;
        for (operation, sector, sectors, pause) in requests {
            now += pause;
            let operation = Operation::ALL[operation];
            let sectors = if operation == Operation::Flush { 0 } else { sectors };
            let request = Request { operation, flags: Flags::NONE, stream: StreamId(0), sector, sectors };
            let service = array.serve(Nanos(now), &Dispatch::alone(&request));
            prop_assert_eq!(service.finish.0 - now, service.work_nanos() + service.queue_nanos);
        }
    }
}
