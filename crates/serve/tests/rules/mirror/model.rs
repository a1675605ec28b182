//! A mirror against an array: whatever its legs and the power do, nothing that was acknowledged and flushed is lost, and
//! nothing is read that was not written.

use std::collections::BTreeSet;

use ioweir_core::Nanos;
use ioweir_serve::backend::{Action, Backend as _};
use proptest::prelude::*;

use super::rig::*;
use crate::history::config;

/// What a sector may hold.
#[derive(Clone, Debug)]
struct Sector {
    /// Now; more than one where it is not known what became of a write, or which leg counts.
    possible: BTreeSet<u32>,
    /// After a loss of power: what was durable last, and everything later.
    after_cut: BTreeSet<u32>,
    /// Whether legs may hold different ones of these.
    is_uncertain: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Batch(Vec<Ask>),
    /// The power of a leg fails, if another one has everything.
    Die(usize),
    /// It is back, and opened again.
    Return(usize),
    Resync(usize),
    Pass(u64),
    /// The power of all legs fails during an operation from now on.
    Cut(u64),
    Kill,
    Finish,
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Write(u64, u64, bool),
    Zero(u64, u64, bool),
    Trim(u64, u64),
    Read(u64, u64),
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (0..SECTORS, 1_u64..24).prop_map(|(sector, sectors)| (sector, sectors.min(SECTORS - sector)));
    let ask = prop_oneof![
        5 => (range(), any::<bool>()).prop_map(|((sector, sectors), fua)| Ask::Write(sector, sectors, fua)),
        1 => (range(), any::<bool>()).prop_map(|((sector, sectors), fua)| Ask::Zero(sector, sectors, fua)),
        1 => range().prop_map(|(sector, sectors)| Ask::Trim(sector, sectors)),
        4 => range().prop_map(|(sector, sectors)| Ask::Read(sector, sectors)),
        2 => Just(Ask::Flush),
    ];
    let step = prop_oneof![
        12 => prop::collection::vec(ask, 1..5).prop_map(Step::Batch),
        2 => (0_usize..3).prop_map(Step::Die),
        2 => (0_usize..3).prop_map(Step::Return),
        3 => (1_usize..6).prop_map(Step::Resync),
        2 => prop_oneof![Just(1_u64), Just(6)].prop_map(Step::Pass),
        2 => (1_u64..60).prop_map(Step::Cut),
        1 => Just(Step::Kill),
        1 => Just(Step::Finish),
    ];
    prop::collection::vec(step, 1..50)
}

struct Run {
    rig: Rig,
    legs: usize,
    sectors: Vec<Sector>,
    dead: BTreeSet<usize>,
    value: u32,
}

impl Run {
    fn new(legs: usize, seed: u64) -> Self {
        let zero = BTreeSet::from([0]);
        let sector = Sector { possible: zero.clone(), after_cut: zero, is_uncertain: false };
        Self {
            rig: Rig::new(legs, seed),
            legs,
            sectors: vec![sector; SECTORS as usize],
            dead: BTreeSet::new(),
            value: 0,
        }
    }

    fn of(&mut self, asked: &Asked) -> &mut [Sector] {
        &mut self.sectors[asked.sector as usize..(asked.sector + asked.sectors) as usize]
    }

    fn has_power(&self) -> bool {
        (0..self.legs).any(|leg| !self.dead.contains(&leg) && self.rig.media(leg).has_power())
    }

    fn check(&mut self, asked: &Asked, found: &[u32]) {
        let begin = asked.sector;
        for (at, (sector, found)) in self.of(asked).iter_mut().zip(found).enumerate() {
            let place = begin + at as u64;
            assert!(sector.possible.contains(found), "sector {place} holds {found}, which is none of {sector:?}");
            sector.possible = BTreeSet::from([*found]);
        }
    }

    /// Operations that share no block, as the engine sees to.
    fn asked(&mut self, asks: &[Ask]) -> Vec<Asked> {
        let mut all: Vec<Asked> = Vec::new();
        for ask in asks {
            self.value += 1;
            let asked = match *ask {
                Ask::Write(sector, sectors, durable) => Asked { durable, ..Asked::write(sector, sectors, self.value) },
                Ask::Zero(sector, sectors, durable) => {
                    Asked { durable, ..Asked::new(Action::Zero { keep: false, fast: false }, sector, sectors) }
                }
                Ask::Trim(sector, sectors) => Asked::new(Action::Trim, sector, sectors),
                Ask::Read(sector, sectors) => Asked::new(Action::Read, sector, sectors),
                Ask::Flush => Asked::new(Action::Flush, 0, 0),
            };
            let blocks = |asked: &Asked| (asked.sector / 8, (asked.sector + asked.sectors).div_ceil(8));
            let overlaps = |other: &Asked| {
                let ((from, until), (start, end)) = (blocks(&asked), blocks(other));
                (asked.action != Action::Read || other.action != Action::Read) && from < end && start < until
            };
            if !all.iter().any(overlaps) {
                all.push(asked);
            }
        }
        all
    }

    fn batch(&mut self, asks: &[Ask]) {
        let asked = self.asked(asks);
        let ended = self.rig.run(&asked);
        let has_power = self.has_power();
        for (asked, (result, _)) in asked.iter().zip(&ended) {
            assert!(result.is_ok() || !has_power, "{asked:?} fails while a leg works: {result:?}");
        }
        // A flush is about what was answered before it.
        if asked.iter().zip(&ended).any(|(asked, (result, _))| asked.action == Action::Flush && result.is_ok()) {
            for sector in self.sectors.iter_mut().filter(|sector| !sector.is_uncertain) {
                sector.after_cut = sector.possible.clone();
            }
        }
        for (asked, (result, bytes)) in asked.iter().zip(&ended) {
            match asked.action {
                Action::Read if result.is_ok() => self.check(asked, &values(bytes)),
                Action::Read | Action::Flush => {}
                _ => {
                    let (value, durable, is_ok) = (asked.value, asked.durable, result.is_ok());
                    for sector in self.of(asked) {
                        if is_ok {
                            sector.possible.clear();
                        }
                        if is_ok && durable {
                            sector.after_cut.clear();
                        }
                        sector.is_uncertain = !is_ok;
                        sector.possible.insert(value);
                        sector.after_cut.insert(value);
                    }
                }
            }
        }
    }

    /// Everything that is not durable may be lost.
    fn lose(&mut self) {
        for sector in &mut self.sectors {
            sector.possible = sector.after_cut.clone();
            sector.is_uncertain = sector.possible.len() > 1;
        }
    }

    /// Which leg counts where they differ may change.
    fn doubt(&mut self) {
        for sector in self.sectors.iter_mut().filter(|sector| sector.is_uncertain) {
            sector.possible = sector.after_cut.clone();
        }
    }

    /// No leg alone is taken for more than it is: what it opens with is what there may be.
    fn check_each_alone(&self) {
        for leg in 0..self.legs {
            let grid = copy_of(&self.rig.grid, self.legs);
            if open(&grid, self.legs, &[leg], None, 1).is_ok() {
                let found = values(&grid.contents(leg)[8192..]);
                for (place, (sector, found)) in self.sectors.iter().zip(found).enumerate() {
                    let may = &sector.after_cut;
                    assert!(may.contains(&found), "leg {leg} alone has {found} in sector {place}, none of {sector:?}");
                }
            }
        }
    }

    /// After an end of whatever kind.
    fn start_again(&mut self) {
        self.rig.kill();
        self.check_each_alone();
        if let Err(refused) = self.rig.start() {
            if !self.has_power() {
                self.rig.grid.restore();
                self.dead.clear();
                self.lose();
                return self.start_again();
            }
            // It is not known that the leg which is dead lacks anything: it may be what others lack.
            assert!(!self.dead.is_empty() && refused.contains("force_generation = "), "{refused}");
            self.rig.grid.restore();
            self.dead.clear();
            self.lose();
            self.rig.start().unwrap();
        }
        self.doubt();
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Batch(ref asks) => self.batch(asks),
            Step::Die(leg) => {
                let others = (0..self.legs).filter(|&other| other != leg && !self.dead.contains(&other));
                let is_spare = others.collect::<Vec<_>>().into_iter().any(|other| self.rig.is_in_sync(other));
                if leg < self.legs && is_spare && self.dead.insert(leg) {
                    let mut even = false;
                    self.rig.media(leg).cut(|| {
                        even = !even;
                        even
                    });
                    self.doubt();
                }
            }
            Step::Return(leg) => {
                if self.dead.remove(&leg) {
                    self.rig.media(leg).restore();
                    if !matches!(self.rig.state(leg), ioweir_serve::backend::LegState::Out(_)) {
                        // It has lost what it had not made durable, and did not say so: as after a loss of power.
                        self.rig.kill();
                        self.lose();
                        return self.start_again();
                    }
                    self.rig.mirror().reopen();
                }
            }
            Step::Resync(pieces) => {
                let is_all = self.rig.resync(pieces);
                let all_in_sync = (0..self.legs).all(|leg| self.rig.is_in_sync(leg)) && self.dead.is_empty();
                if is_all && all_in_sync && self.has_power() {
                    let all = Asked::new(Action::Read, 0, SECTORS);
                    let (result, bytes) = self.rig.run_one(all.clone());
                    // Otherwise the power has failed just now.
                    if result.is_ok() {
                        let found = values(&bytes);
                        self.check(&all, &found);
                        for leg in 0..self.legs {
                            assert_eq!(self.rig.data(leg), found, "leg {leg}");
                        }
                        self.sectors.iter_mut().for_each(|sector| sector.is_uncertain = false);
                    }
                }
            }
            Step::Pass(seconds) => self.rig.pass(Nanos::from_seconds(seconds)),
            Step::Cut(operations) => self.rig.grid.cut_after(operations),
            Step::Kill => self.start_again(),
            Step::Finish => {
                let (result, _) = self.rig.run_one(Asked::new(Action::Flush, 0, 0));
                if result.is_ok() {
                    self.rig.finish();
                    for sector in self.sectors.iter_mut().filter(|sector| !sector.is_uncertain) {
                        sector.after_cut = sector.possible.clone();
                    }
                    self.start_again();
                }
            }
        }
        if !self.has_power() {
            self.rig.kill();
            self.rig.grid.restore();
            self.dead.clear();
            self.lose();
            self.start_again();
        }
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn nothing_durable_is_lost_and_nothing_is_read_that_was_not_written(steps in steps(), seed in any::<u64>(), legs in 2_usize..4) {
        let mut run = Run::new(legs, seed);
        for step in &steps {
            run.step(step);
        }
        run.batch(&[Ask::Read(0, SECTORS)]);
    }
}
