//! A mirror grows with all its legs.

use ioweir_core::Nanos;
use ioweir_serve::backend::{Backend, Mirror, Task};

use super::rig::*;

/// Two regions and a half.
const MORE: u64 = 40;

fn bytes(mirror: &Mirror) -> u64 {
    mirror.size_bytes()
}

#[test]
fn a_mirror_grows_while_it_serves_and_what_legs_have_there_is_that_of_the_first() {
    let mut rig = Rig::with_room(1, MORE);
    rig.ok(Asked::write(0, SECTORS, 7));
    rig.mirror().grow((SECTORS + MORE) * SECTOR).unwrap();
    assert_eq!(bytes(rig.mirror()), (SECTORS + MORE) * SECTOR);
    rig.ok(Asked::write(SECTORS + 20, 8, 9));
    let added = rig.read(SECTORS, MORE);
    assert_eq!((&added[..20], &added[20..28]), (&[0x0101_0101; 20][..], &[9; 8][..]));
    assert!(rig.mirror().owed_bytes(Task::Resync) >= MORE * SECTOR, "legs differ there");
    assert!(rig.resync(99));
    assert_eq!(rig.data(1), rig.data(0));
    rig.finish();
    rig.start().unwrap();
    assert_eq!((bytes(rig.mirror()), rig.read(0, SECTORS)), ((SECTORS + MORE) * SECTOR, vec![7; SECTORS as usize]));
    assert_eq!(rig.read(SECTORS, MORE), added);
}

#[test]
fn a_mirror_does_not_grow_without_a_leg_past_its_map_or_by_half_a_block() {
    let mut rig = Rig::with_room(1, MORE);
    let refused = |rig: &mut Rig, bytes: u64| rig.mirror().grow(bytes).unwrap_err();
    assert!(refused(&mut rig, 100).contains("does not become shorter"));
    assert!(refused(&mut rig, SECTORS * SECTOR + 512).contains("not whole blocks of 4096"));
    assert!(refused(&mut rig, 32_769 * REGION).contains("its map lies before its data, and has room for 268435456"));
    rig.media(1).cut(|| true);
    rig.ok(Asked::write(0, 8, 1).durably());
    assert!(refused(&mut rig, (SECTORS + 8) * SECTOR).contains("leg 1 is out"));
    assert_eq!(bytes(rig.mirror()), SECTORS * SECTOR);
}

#[test]
fn whenever_the_power_fails_while_a_mirror_grows_it_is_as_long_as_before_or_after_and_what_was_answered_is_there() {
    let (mut before, mut after) = (0, 0);
    for cut in 1..60 {
        for seed in 0..4 {
            let mut rig = Rig::with_room(seed, MORE);
            rig.ok(Asked::write(0, SECTORS, 7).durably());
            rig.grid.cut_after(cut);
            let has_grown = rig.mirror().grow((SECTORS + MORE) * SECTOR).is_ok();
            let is_answered = has_grown && rig.run_one(Asked::write(SECTORS + 3, 5, 9).durably()).0.is_ok();
            rig.pass(Nanos::from_seconds(1));
            rig.kill();
            rig.grid.cut();
            rig.grid.restore();
            rig.start().unwrap();
            let found = bytes(rig.mirror()) / SECTOR;
            assert!([SECTORS, SECTORS + MORE].contains(&found), "cut {cut}: {found}");
            assert!(!is_answered || found > SECTORS, "cut {cut}: what was answered is there");
            (before, after) = (before + u32::from(found == SECTORS), after + u32::from(found > SECTORS));
            assert_eq!(rig.read(0, SECTORS), vec![7; SECTORS as usize], "cut {cut}");
            let first = rig.read(0, found);
            assert!(!is_answered || first[SECTORS as usize + 3..][..5] == [9; 5], "cut {cut}");
            // Whichever leg answers, it answers that.
            assert!(rig.resync(99), "cut {cut}");
            assert_eq!(rig.data(1)[..found as usize], rig.data(0)[..found as usize], "cut {cut}");
            assert_eq!(rig.read(0, found), first, "cut {cut}");
            // It can be tried again.
            if found == SECTORS {
                rig.mirror().grow((SECTORS + MORE) * SECTOR).unwrap();
                rig.ok(Asked::write(SECTORS, MORE, 3).durably());
            }
        }
    }
    assert!(before > 5 && after > 5, "{before} {after}");
}
