//! Rules of generations: tiers and their map are served only if all are the newest, and no slow tier is served alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::fs;
use std::path::Path;

use crate::bench::{Bench, device};
use crate::client::*;
use crate::powered::{Grid, Powered};
use ioweir_serve::backend::{self, Ledger, Placed};
use ioweir_serve::buffer::Pool;
use ioweir_serve::spec::Faults;

const ATTRIBUTE: &str = "user.ioweir.tiers";

/// Opens the tiers in a folder.
fn open(at: &Path) -> Result<Bench, String> {
    let at = at.display();
    let file = |name: &str, size: &str| {
        format!("backend = \"file\"\npath = \"{at}/{name}\"\nsize = \"{size}\"\nio = \"threads\"\n")
    };
    let keys = format!(
        "backend = \"tiered\"\nscheduler = \"bid-hybrid\"\nmap = \"{at}/map\"\n[device.slow]\n{}[device.fast]\n{}",
        file("slow", "1MiB"),
        file("fast", "64KiB")
    );
    let (device, mut pool) = (device(&keys), Pool::new(256 << 10));
    let backend = backend::open(&device, pool.registered(), None)?;
    Ok(Bench::over(device, backend, pool))
}

/// Writes a block durably, which places it on the fast tier.
fn write(bench: &mut Bench, block: u64, value: u8) {
    let mut peer = bench.connect(0, true);
    peer.send(&[request(WRITE, FUA, 1, block * 4096, 4096), vec![value; 4096]].concat());
    bench.settle();
    assert_eq!(peer.answers()[0].error, 0);
}

fn read(bench: &mut Bench, block: u64) -> Vec<u8> {
    let mut peer = bench.connect(0, true);
    peer.send(&request(READ, 0, 2, block * 4096, 4096));
    bench.settle();
    peer.answers()[0].bytes()
}

/// The file beside a map that counts its commits.
fn commit(map: &str) -> String {
    format!("{map}.commit")
}

/// Why the tiers of a folder are not served.
fn refused(at: &Path) -> String {
    open(at).err().unwrap_or_default()
}

#[test]
fn older_maps_and_tiers_are_refused_beside_newer() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let copy = |from: &str, to: &str| fs::copy(at.join(from), at.join(to)).map(|_| ()).unwrap();
    write(&mut open(at).unwrap(), 3, 1);
    let copy = |from: &str, to: &str| {
        copy(from, to);
        // The commit file, which says how new a map is, is copied with the map, as in a backup of the folder.
        if from.starts_with("map") {
            copy(&commit(from), &commit(to));
        }
    };
    for name in ["map", "fast"] {
        copy(name, &format!("{name}.yesterday"));
        // A start makes a new generation even if it writes no data.
        drop(open(at).unwrap());
        write(&mut open(at).unwrap(), 5, 2);
        copy(name, &format!("{name}.today"));
        copy(&format!("{name}.yesterday"), name);
        let problem = refused(at);
        let older = if name == "map" { "the map is an older one" } else { "the tier is an older one" };
        assert!(problem.contains("not of the same generation") && problem.contains(older), "{problem}");
        assert_eq!(refused(at), problem, "nothing has changed by that");
        copy(&format!("{name}.today"), name);
        let mut bench = open(at).unwrap();
        assert_eq!([read(&mut bench, 3), read(&mut bench, 5)], [vec![1; 4096], vec![2; 4096]], "{name}");
    }
}

#[test]
fn slow_tiers_need_their_map_and_reject_copies() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write(&mut open(at).unwrap(), 3, 1);
    if rustix::fs::getxattr(at.join("slow"), ATTRIBUTE, &mut [0_u8; 100]).is_err() {
        println!("skipped: files in {} have no attributes", at.display());
        return;
    }
    let plain = |name: &str| {
        let device = device(&format!("backend = \"file\"\npath = \"{}/{name}\"", at.display()));
        let checked = backend::check(&device).map(drop);
        let opened = backend::open(&device, &mut [], None).map(drop);
        assert_eq!(checked, opened);
        opened
    };
    assert!(plain("slow").unwrap_err().contains("is the slow tier of a tiered device"));
    assert_eq!(plain("fast"), Ok(()));
    // A file with the same data and without the attribute, as a backup may restore it.
    fs::write(at.join("restored"), fs::read(at.join("slow")).unwrap()).unwrap();
    fs::rename(at.join("slow"), at.join("slow.before")).unwrap();
    fs::rename(at.join("restored"), at.join("slow")).unwrap();
    let problem = refused(at);
    assert!(problem.contains("has no mark of its map"), "{problem}");
    // The hint names the mark that makes the copy usable.
    let mark = problem.split('"').nth(1).unwrap();
    rustix::fs::setxattr(at.join("slow"), ATTRIBUTE, mark.as_bytes(), rustix::fs::XattrFlags::empty()).unwrap();
    assert_eq!(read(&mut open(at).unwrap(), 3), [1; 4096]);
    assert!(plain("slow.before").is_err());
    rustix::fs::removexattr(at.join("slow.before"), ATTRIBUTE).unwrap();
    assert_eq!(plain("slow.before"), Ok(()));
}

/// Opens tiers on a grid, whose power fails at an operation.
fn open_on(grid: &Grid, fails_at: Option<u64>) -> Result<Bench, String> {
    let tier = |at: usize| Box::new(Powered::new(grid, at, Faults::default()));
    let ledger = Ledger::opened_by(grid.opener(2)).unwrap();
    fails_at.into_iter().for_each(|at| grid.cut_after(at));
    let keys = "backend = \"tiered\"\nscheduler = \"bid-hybrid\"\n[device.slow]\nbackend = \"memory\"\nsize = \"1MiB\"\n\
                [device.fast]\nbackend = \"memory\"\nsize = \"64KiB\"\n";
    let placed = Placed::open(tier(0), tier(1), ledger, 4)?;
    Ok(Bench::over(device(keys), Box::new(placed), Pool::new(256 << 10)))
}

#[test]
fn power_failures_while_opening_keep_tiers_together() {
    // Data that was being written when the power failed may be there or not.
    for seed in 0..16 {
        let mut cuts = 0;
        for at in 1.. {
            let grid = Grid::new(&[1 << 20, 64 << 10, 4 << 20], at + (seed << 32));
            write(&mut open_on(&grid, None).unwrap(), 3, 1);
            let is_over = open_on(&grid, Some(at)).is_ok() && grid.media(0).has_power();
            grid.cut();
            grid.restore();
            let opened = open_on(&grid, None);
            let mut bench = opened.unwrap_or_else(|problem| panic!("at operation {at}: {problem}"));
            assert_eq!(read(&mut bench, 3), [1; 4096], "at operation {at}");
            if is_over {
                break;
            }
            cuts += 1;
        }
        assert!(cuts > 4, "{cuts}");
    }
}
