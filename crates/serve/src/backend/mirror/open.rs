//! Opens the legs of a mirror: finds out which of them have everything, and never takes one that may not for one that does.

use std::hash::{BuildHasher as _, RandomState};

use super::super::Backend;
use super::head::{Head, Layout};
use super::leg::{self, Leg, LegState};
use super::marks::Marks;

/// What a forced start adds to the generation, so that it is above whatever the legs that were missing have come to.
const FORCED: u64 = 1 << 32;

/// The legs of a mirror that was opened.
pub(super) struct Opened {
    pub(super) legs: Vec<Leg>,
    /// As it is on every leg that has everything, but for the number of the leg.
    pub(super) head: Head,
    pub(super) marks: Marks,
    /// Whether that is not on all of them.
    pub(super) is_new: bool,
}

/// A leg with its head, before it is known what the others say.
type Found = (Result<Box<dyn Backend>, String>, Option<Head>);

/// Opens these legs; `force` is the generation from which to go on without legs that are missing.
pub(super) fn open(
    legs: Vec<Result<Box<dyn Backend>, String>>,
    region_bytes: u64,
    force: Option<u64>,
    read_only: bool,
) -> Result<Opened, String> {
    let mut found = Vec::new();
    for (number, leg) in legs.into_iter().enumerate() {
        let at = |problem: String| format!("leg {number}: {problem}");
        found.push(match leg {
            Ok(mut backend) => match leg::first_block(&mut *backend) {
                Ok(block) => (Ok(backend), Head::decode(block.bytes()).map_err(at)?),
                Err(problem) => (Err(problem), None),
            },
            Err(problem) => (Err(problem), None),
        });
    }
    let Some(newest) =
        found.iter().filter_map(|(_, head)| *head).max_by_key(|head| (head.generation, head.members != 0))
    else {
        return create(found, region_bytes, read_only);
    };
    check(&found, &newest, region_bytes)?;
    let members = (0..found.len()).filter(|number| newest.members >> number & 1 == 1);
    // One that is empty now has nothing of what it had.
    let (there, missing): (Vec<_>, Vec<_>) = members.partition(|&number| found[number].1.is_some());
    if there.is_empty() {
        let missing = found.iter().enumerate().filter_map(|(number, (leg, _))| Some((number, leg.as_ref().err()?)));
        let missing: Vec<_> = missing.map(|(number, why)| format!("leg {number} is missing: {why}")).collect();
        let problem = "no leg that is there has everything: those that can be read were being copied to";
        return Err([&[problem.to_string()], &missing[..]].concat().join("; "));
    }
    let mut generation = newest.generation;
    if let Some(&first) = missing.first() {
        let why = found[first].0.as_ref().err().map_or("it is empty", String::as_str);
        if force != Some(generation) {
            return Err(format!(
                "leg {first} is missing, and may have what the others lack: {why}\n\nhint: to go on without it, losing what only it has, \
                 set force_generation = {generation}"
            ));
        }
        generation += FORCED;
    }
    let members = there.iter().fold(0, |all, number| all | 1 << number);
    let head = Head { generation, members, ..newest };
    let is_new = there.iter().any(|&number| found[number].1 != Some(Head { leg: number as u32, ..head }));
    let mut opened = Opened { legs: Vec::new(), head, marks: Marks::new(newest.layout, found.len()), is_new };
    for (number, (backend, its)) in found.into_iter().enumerate() {
        let leg = opened.take(number as u32, backend, its, read_only);
        opened.legs.push(leg.map_err(|problem| format!("leg {number}: {problem}"))?);
    }
    opened.compare();
    Ok(opened)
}

/// Refuses heads of other mirrors.
fn check(found: &[Found], newest: &Head, region_bytes: u64) -> Result<(), String> {
    for (number, head) in found.iter().enumerate().filter_map(|(number, (_, head))| Some((number, (*head)?))) {
        belongs(&head, newest, number as u32, found.len() as u32)
            .map_err(|problem| format!("leg {number}: {problem}"))?;
    }
    if newest.layout.region_bytes != region_bytes {
        let made = newest.layout.region_bytes;
        return Err(format!(
            "region: the mirror was made with regions of {made} bytes, and the spec says {region_bytes}"
        ));
    }
    // The memory that is taken from here on is bounded by the length of a leg.
    let fits = |(backend, head): &Found| match (backend, head) {
        (Ok(backend), Some(head)) => head.layout.leg_bytes() <= backend.size_bytes(),
        _ => true,
    };
    if let Some(number) = found.iter().position(|found| !fits(found)) {
        return Err(format!("leg {number}: is shorter than its head says"));
    }
    Ok(())
}

/// Whether a leg with this head belongs to the mirror.
fn belongs(head: &Head, newest: &Head, number: u32, legs: u32) -> Result<(), String> {
    if head.identity != newest.identity {
        return Err("belongs to another mirror; to begin anew, losing what it holds, empty its first block".into());
    }
    if head.leg != number {
        return Err(format!("is leg {} of this mirror: the order of legs must not change", head.leg));
    }
    if head.legs != legs {
        return Err(format!("the mirror was made of {} legs, and the spec has {legs}", head.legs));
    }
    Ok(())
}

impl Opened {
    /// All marks are known: the first leg that has everything is what the others may differ from.
    fn compare(&mut self) {
        let first = self.legs.iter().position(|leg| leg.state == LegState::InSync);
        for leg in (0..self.legs.len()).filter(|&leg| Some(leg) != first) {
            self.marks.lack_marked(leg);
        }
    }

    /// Takes a leg with the head that was found on it; an empty one is formatted.
    fn take(
        &mut self,
        number: u32,
        backend: Result<Box<dyn Backend>, String>,
        head: Option<Head>,
        read_only: bool,
    ) -> Result<Leg, String> {
        let out = |problem: String| Leg { backend: None, state: LegState::Out(problem), in_flight: 0 };
        let mut backend = match backend {
            Ok(backend) => backend,
            Err(problem) => return Ok(out(problem)),
        };
        let is_member = self.head.members >> number & 1 == 1;
        if !is_member && read_only {
            return Ok(out("it lacks some of the data, and nothing may be written to it".into()));
        }
        match admit(&mut *backend, number, head, &self.head, &mut self.marks) {
            Ok(state) => Ok(Leg { backend: Some(backend), state, in_flight: 0 }),
            Err(problem) if is_member => Err(problem),
            Err(problem) => Ok(out(problem)),
        }
    }
}

/// Takes a leg into a mirror: one that lacks something no longer says of itself that it had everything once.
pub(super) fn admit(
    backend: &mut dyn Backend,
    number: u32,
    found: Option<Head>,
    newest: &Head,
    marks: &mut Marks,
) -> Result<LegState, String> {
    let layout = newest.layout;
    if backend.size_bytes() < layout.leg_bytes() {
        return Err(format!(
            "has {} bytes, and a leg of this mirror takes {}",
            backend.size_bytes(),
            layout.leg_bytes()
        ));
    }
    let is_member = newest.members >> number & 1 == 1;
    match found {
        None => leg::format(backend, &newest.of_copy(number))?,
        Some(_) if is_member => {}
        Some(_) => leg::write(backend, 0, |block| newest.of_copy(number).encode(block))?,
    }
    leg::add_marks(backend, marks, layout)?;
    Ok(if is_member { LegState::InSync } else { LegState::Behind })
}

/// Reads the head of a leg that comes back.
pub(super) fn returned(backend: &mut dyn Backend, number: u32, newest: &Head) -> Result<Option<Head>, String> {
    let Some(head) = Head::decode(leg::first_block(backend)?.bytes())? else { return Ok(None) };
    belongs(&head, newest, number, newest.legs)?;
    if head.generation > newest.generation {
        return Err("is newer than the legs that serve".into());
    }
    Ok(Some(head))
}

/// Makes a mirror of empty legs. If they do not all read as zeroes, the first is what the others become.
fn create(found: Vec<Found>, region_bytes: u64, read_only: bool) -> Result<Opened, String> {
    if read_only {
        return Err("the legs are empty, and nothing may be written to them".into());
    }
    let mut backends = Vec::new();
    for (number, (backend, _)) in found.into_iter().enumerate() {
        backends.push(backend.map_err(|problem| format!("leg {number}: {problem}; a new mirror takes all its legs"))?);
    }
    let shortest = backends.iter().map(|backend| backend.size_bytes()).min().unwrap_or(0);
    let layout = Layout::of_leg(shortest, region_bytes)?;
    let legs = backends.len() as u32;
    // Random, and never zero.
    let identity = RandomState::new().hash_one(0_u8) | 1;
    let mut are_zero = true;
    for (number, backend) in backends.iter_mut().enumerate() {
        are_zero &= leg::is_zero(&mut **backend, layout).map_err(|problem| format!("leg {number}: {problem}"))?;
    }
    let members = if are_zero { u64::MAX >> (64 - legs) } else { 1 };
    let head = Head { identity, generation: 1, members, leg: 0, legs, layout };
    let mut opened = Opened { legs: Vec::new(), head, marks: Marks::new(layout, legs as usize), is_new: true };
    // The first gets its head last: a mirror that is made in part has no leg with everything, and is none.
    for (number, mut backend) in backends.into_iter().enumerate() {
        let its = number as u32;
        let state = if members >> number & 1 == 1 { LegState::InSync } else { LegState::Behind };
        if state == LegState::Behind {
            leg::format(&mut *backend, &head.of_copy(its)).map_err(|problem| format!("leg {number}: {problem}"))?;
            leg::add_marks(&mut *backend, &mut opened.marks, layout)?;
        }
        opened.legs.push(Leg { backend: Some(backend), state, in_flight: 0 });
    }
    opened.compare();
    Ok(opened)
}
