//! B-WF2Q+: an order of service that gives each queue its share of the sectors, within one budget of an ideal share.
//!
//! Virtual time advances with service, more slowly the more weight is busy. A queue that becomes busy starts at the present
//! or, if later, where its last service finished; its finish is the start plus its budget divided by its weight. Among the
//! queues that have started, the one with the earliest finish is served. After its service, its finish is corrected to the
//! service that it really got, and becomes its next start. If no queue has started, virtual time jumps to the first start.
//!
//! Each class of priority has its own virtual time and queues. The most urgent class that has a queue goes first, except
//! that the idle class goes first once every 200 ms.
//!
//! Bound: within a class, a queue that stays busy gets its share of all service, less at most its own budget and the largest
//! budget of the others (worst-case fair, after Bennett and Zhang). Virtual time never goes back, so each start is passed
//! once.
//!
//! Example: queues of weight 1 with budgets of 100 and 10 become busy at 0; their finishes are 100 and 10. The small one is
//! served (10 sectors: virtual time 5). Its next start is 10, which is not reached, so the large one is served. Virtual time
//! is then 55.

use alloc::boxed::Box;
use alloc::vec;
use core::cmp::Ordering;

use crate::Nanos;
use crate::priority::Rank;
use crate::structure::{Heap, NONE};

/// A point in virtual time: sectors divided by weight, scaled. It is never mixed with [`crate::Nanos`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Virtual(u64);

impl Virtual {
    const SCALE_BITS: u32 = 22;

    /// The virtual time after `sectors` of service to a queue of `weight`.
    const fn after(self, sectors: u64, weight: u64) -> Self {
        Self(self.0.saturating_add((sectors << Self::SCALE_BITS) / weight))
    }
}

/// The class of a queue and its weight in it, which follow from its priority and raising.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) class: usize,
    pub(super) weight: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entity {
    class: usize,
    start: Virtual,
    finish: Virtual,
    weight: u64,
    budget: u64,
    /// Sectors charged in the running turn, or in the last one.
    served: u64,
    /// Breaks ties by the order in which queues became busy.
    sequence: u64,
}

impl Entity {
    /// A queue that comes from another class starts at the present of its new class.
    fn enter(&mut self, class: usize, now: Virtual) {
        if self.class != class {
            self.class = class;
            self.finish = now;
        }
    }
}

/// How often the idle class goes first (`BFQ_CL_IDLE_TIMEOUT`).
const IDLE_CLASS_INTERVAL: Nanos = Nanos::from_millis(200);

/// The queues of a class of priority.
#[derive(Clone, Debug)]
struct Class {
    /// Busy queues that have started, by finish; and those that have not, by start.
    started: Heap<Virtual>,
    future: Heap<Virtual>,
    now: Virtual,
    /// The weight of all busy queues.
    weight_sum: u64,
}

impl Class {
    fn new(queues: u32) -> Self {
        Self { started: Heap::new(queues), future: Heap::new(queues), now: Virtual::default(), weight_sum: 0 }
    }

    /// The queue that would be chosen next.
    fn following(&self) -> Option<u32> {
        Some(self.started.first().or_else(|| self.future.first())?.1)
    }

    fn sort_in(&mut self, queue: u32, entity: &Entity) {
        if entity.start <= self.now {
            self.started.set(queue, entity.finish, entity.sequence);
        } else {
            self.future.set(queue, entity.start, entity.sequence);
        }
    }

    fn remove(&mut self, queue: u32) {
        self.started.remove(queue);
        self.future.remove(queue);
    }

    fn served(&mut self, sectors: u64) {
        self.now = self.now.after(sectors, self.weight_sum.max(1));
    }
}

#[derive(Clone, Debug)]
pub(super) struct Service {
    entities: Box<[Entity]>,
    classes: [Class; Rank::CLASSES],
    current: u32,
    sequence: u64,
    /// The last time that the idle class could go first.
    idle_class_asked: Nanos,
}

impl Service {
    pub(super) fn new(queues: u32) -> Self {
        let idle = Entity {
            class: Rank::USUAL.class(),
            start: Virtual::default(),
            finish: Virtual::default(),
            weight: 1,
            budget: 0,
            served: 0,
            sequence: 0,
        };
        Self {
            entities: vec![idle; queues as usize].into_boxed_slice(),
            classes: core::array::from_fn(|_| Class::new(queues)),
            current: NONE,
            sequence: 0,
            idle_class_asked: Nanos::ZERO,
        }
    }

    /// Resets a number that is not busy, because another stream has taken it over.
    pub(super) fn reset(&mut self, queue: u32) {
        self.entities[queue as usize].finish = Virtual::default();
    }

    /// Adds a queue, whose start and finish are set, to those that wait for a turn.
    fn line_up(&mut self, queue: u32) {
        self.sequence += 1;
        let entity = &mut self.entities[queue as usize];
        entity.sequence = self.sequence;
        self.classes[entity.class].sort_in(queue, entity);
    }

    /// Makes a queue busy. One that returns in time keeps the start that it would have had without the pause.
    pub(super) fn activate(&mut self, queue: u32, standing: Standing, budget: u64, in_time: bool) {
        let Standing { class: number, weight } = standing;
        let entity = &mut self.entities[queue as usize];
        let class = &mut self.classes[number];
        entity.enter(number, class.now);
        entity.start = if in_time { entity.finish } else { entity.finish.max(class.now) };
        entity.weight = weight;
        entity.budget = budget;
        entity.served = 0;
        entity.finish = entity.start.after(budget, weight);
        class.weight_sum += weight;
        self.line_up(queue);
    }

    /// Chooses the queue whose turn it is from now on.
    pub(super) fn select(&mut self, now: Nanos) -> Option<u32> {
        let mut first = 0;
        if now > self.idle_class_asked.after(IDLE_CLASS_INTERVAL) {
            self.idle_class_asked = now;
            let idle = Rank::IDLE.class();
            first = if self.classes[idle].following().is_some() { idle } else { 0 };
        }
        let Self { entities, classes, .. } = self;
        let class = classes[first..].iter_mut().find(|class| class.following().is_some())?;
        if class.started.first().is_none() {
            class.now = class.now.max(class.future.first()?.0);
        }
        while let Some((start, queue)) = class.future.first()
            && start <= class.now
        {
            class.future.remove(queue);
            class.sort_in(queue, &entities[queue as usize]);
        }
        let (_, queue) = class.started.first()?;
        class.started.remove(queue);
        self.current = queue;
        self.entities[queue as usize].served = 0;
        Some(queue)
    }

    /// Charges the present queue.
    pub(super) fn charge(&mut self, sectors: u64) {
        if let Some(entity) = self.entities.get_mut(self.current as usize) {
            entity.served += sectors;
            self.classes[entity.class].served(sectors);
        }
    }

    /// The queue that would be chosen next.
    pub(super) fn following(&self) -> Option<u32> {
        self.classes.iter().find_map(Class::following)
    }

    /// Charges a busy queue for a request that goes before the queue's turn.
    pub(super) fn charge_ahead(&mut self, queue: u32, sectors: u64) {
        let entity = &mut self.entities[queue as usize];
        let class = &mut self.classes[entity.class];
        class.remove(queue);
        entity.start = entity.start.after(sectors, entity.weight);
        entity.finish = entity.start.after(entity.budget, entity.weight);
        class.served(sectors);
        class.sort_in(queue, entity);
    }

    /// Ends the turn. With a budget, the queue stays busy; its class and weight may have changed.
    pub(super) fn end_turn(&mut self, next: Option<(Standing, u64)>) {
        let queue = core::mem::replace(&mut self.current, NONE);
        let Some(entity) = self.entities.get_mut(queue as usize) else { return };
        entity.finish = entity.start.after(entity.served, entity.weight);
        self.classes[entity.class].weight_sum -= entity.weight;
        if let Some((Standing { class, weight }, budget)) = next {
            entity.enter(class, self.classes[class].now);
            entity.start = entity.finish;
            entity.weight = weight;
            entity.budget = budget;
            entity.finish = entity.start.after(budget, weight);
            self.classes[class].weight_sum += weight;
            self.line_up(queue);
        }
    }

    /// Removes a busy queue that has lost its last request. It is not the queue whose turn it is.
    pub(super) fn deactivate(&mut self, queue: u32) {
        let entity = &mut self.entities[queue as usize];
        let class = &mut self.classes[entity.class];
        class.remove(queue);
        entity.finish = entity.start;
        class.weight_sum -= entity.weight;
    }

    /// Whether a busy queue would be chosen before the one whose turn it is.
    pub(super) fn is_before_current(&self, queue: u32) -> bool {
        let Some(current) = self.entities.get(self.current as usize) else { return true };
        let entity = &self.entities[queue as usize];
        match entity.class.cmp(&current.class) {
            Ordering::Equal => entity.start <= self.classes[entity.class].now && entity.finish < current.finish,
            order => order == Ordering::Less,
        }
    }

    /// Sectors left of the budget of the queue whose turn it is.
    pub(super) fn budget_left(&self) -> u64 {
        self.entities.get(self.current as usize).map_or(0, |entity| entity.budget.saturating_sub(entity.served))
    }

    pub(super) fn budget(&self, queue: u32) -> u64 {
        self.entities[queue as usize].budget
    }

    /// Sectors charged in the queue's turn.
    pub(super) fn served(&self, queue: u32) -> u64 {
        self.entities[queue as usize].served
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn usual(weight: u64) -> Standing {
        Standing { class: Rank::USUAL.class(), weight }
    }

    /// The definition, on a list: number, weight, budget, start, finish, sequence; fractions as in `Virtual`.
    #[derive(Default)]
    struct Model {
        busy: Vec<(u32, u64, u64, u64, u64, u64)>,
        finished: [u64; 8],
        now: u64,
        order: u64,
    }

    impl Model {
        fn activate(&mut self, queue: u32, weight: u64, budget: u64) {
            let start = self.finished[queue as usize].max(self.now);
            self.line_up(queue, weight, budget, start);
        }

        fn line_up(&mut self, queue: u32, weight: u64, budget: u64, start: u64) {
            self.order += 1;
            self.busy.push((
                queue,
                weight,
                budget,
                start,
                start + (budget << Virtual::SCALE_BITS) / weight,
                self.order,
            ));
        }

        fn select(&mut self) -> Option<(u32, u64, u64, u64, u64, u64)> {
            let first = self.busy.iter().map(|entity| entity.3).min()?;
            self.now = self.now.max(first);
            let started = self.busy.iter().copied().filter(|entity| entity.3 <= self.now);
            started.min_by_key(|entity| (entity.4, entity.5))
        }
    }

    proptest! {
        #[test]
        fn it_serves_as_the_definition_says(
            queues in proptest::collection::vec((1u64..50, 1u64..2000), 2..8),
            turns in proptest::collection::vec((0u64..100, any::<bool>()), 1..200),
        ) {
            let mut service = Service::new(8);
            let mut model = Model::default();
            for (number, &(weight, budget)) in (0..).zip(&queues) {
                service.activate(number, usual(weight), budget, false);
                model.activate(number, weight, budget);
            }
            for (percent, stays) in turns {
                let (Some(chosen), Some(expected)) = (service.select(Nanos::ZERO), model.select()) else { break };
                prop_assert_eq!(chosen, expected.0);
                let entity = expected;
                let served = entity.2 * percent / 100;
                service.charge(served);
                let weight_sum: u64 = model.busy.iter().map(|entity| entity.1).sum();
                model.now += (served << Virtual::SCALE_BITS) / weight_sum;
                model.busy.retain(|other| other.0 != chosen);
                let (weight, budget) = queues[chosen as usize];
                let finish = entity.3 + (served << Virtual::SCALE_BITS) / weight;
                if stays {
                    service.end_turn(Some((usual(weight), budget)));
                    model.line_up(chosen, weight, budget, finish);
                } else {
                    service.end_turn(None);
                    model.finished[chosen as usize] = finish;
                    // The queue becomes busy again at once.
                    service.activate(chosen, usual(weight), budget, false);
                    model.activate(chosen, weight, budget);
                }
            }
        }

        #[test]
        fn busy_queue_gets_its_share_within_budgets(
            queues in proptest::collection::vec((1u64..50, 1u64..2000), 2..8),
        ) {
            let mut service = Service::new(8);
            for (number, &(weight, budget)) in (0..).zip(&queues) {
                service.activate(number, usual(weight), budget, false);
            }
            let weight_sum: u64 = queues.iter().map(|queue| queue.0).sum();
            let budget_max = queues.iter().map(|queue| queue.1).max().expect("there are some");
            let mut served = [0u64; 8];
            let mut total = 0;
            for _ in 0..500 {
                let chosen = service.select(Nanos::ZERO).expect("all are busy") as usize;
                let (weight, budget) = queues[chosen];
                service.charge(budget);
                served[chosen] += budget;
                total += budget;
                service.end_turn(Some((usual(weight), budget)));
                for (&(weight, budget), &served) in queues.iter().zip(&served) {
                    let share = total * weight / weight_sum;
                    prop_assert!(served + budget + budget_max >= share, "{served} of {share}");
                    prop_assert!(share + budget + budget_max >= served, "{served} instead of {share}");
                }
            }
        }
    }
}
