//! The messages between an executor and its caller: settings and directives in, steps out.

use super::{Pool, SERVICES_COUNT, Service, ServiceSettings, Slice, SliceTag, Watermark};
use crate::Nanos;

/// The resource that background work shares with the foreground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A number of cores, at least one.
    Cores(u32),
    /// The time of a device, in thousandths.
    DeviceTime,
}

impl Resource {
    /// The whole resource, in units.
    #[must_use]
    pub const fn units(self) -> u32 {
        match self {
            Self::Cores(0) => 1,
            Self::Cores(cores) => cores,
            Self::DeviceTime => 1000,
        }
    }

    /// The units that work at full speed: a core, or all of a device.
    pub(super) const fn whole(self) -> u32 {
        match self {
            Self::Cores(_) => 1,
            Self::DeviceTime => 1000,
        }
    }
}

/// The rule for how much background work gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucket {
    /// By the amount of debt alone: the first scheduler of the paper. With `harvests`, also what the foreground leaves.
    Fixed {
        /// The debt at which paying begins, and at which it takes everything.
        watermark: Watermark,
        /// Whether idle cores are used below the watermark, too.
        harvests: bool,
    },
    /// The units that the foreground leaves idle, up to the plan's limit, and at least the plan's reservation: the second scheduler of the
    /// paper.
    Planned,
}

/// The limits and reservations that a plan sets from a given time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directive {
    /// When the directive takes effect; it ends when the next one begins.
    pub from: Nanos,
    /// Units that background work gets even if the foreground wants them.
    pub reserve_units: u32,
    /// The most units of background work; the others rest, even if the foreground leaves them idle.
    pub limit_units: u32,
    /// The most work of all services that are not `urgent`, in thousandths of an operation: what those leave is not theirs.
    pub limit_work: u64,
    /// The services that cannot wait for a quieter time.
    pub urgent: [bool; SERVICES_COUNT],
    /// Whether space is short: if so, the service that frees the most space for its work goes first, and what such services leave
    /// is not for others.
    pub pressing: bool,
    /// The blocks of each service that are to be paid: they go before all other debt.
    pub pay_blocks: [u64; SERVICES_COUNT],
}

impl Directive {
    /// The directive without a plan: any debt may be paid with the units that the foreground leaves.
    pub const NONE: Self = Self {
        from: Nanos::NEVER,
        reserve_units: 0,
        limit_units: u32::MAX,
        limit_work: u64::MAX,
        urgent: [false; SERVICES_COUNT],
        pressing: false,
        pay_blocks: [0; SERVICES_COUNT],
    };
}

/// The settings of an executor.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The resource that foreground and background share.
    pub resource: Resource,
    /// The time of one background operation on one unit.
    pub operation: Nanos,
    /// The longest time that background work runs before its units may go back to the foreground.
    pub slice: Nanos,
    /// How much longer than expected a slice may run before it is interrupted; [`Nanos::NEVER`] if slices are not.
    pub grace: Nanos,
    /// Units kept free for unforeseen bursts, beyond the foreground's demand.
    pub headroom_units: u32,
    /// How long units that the foreground gave up stay idle before background work uses them.
    pub calm: Nanos,
    /// Whether debt that is nearly due gets units even if the foreground wants them.
    pub forces: bool,
    /// The rule for how much background work gets.
    pub bucket: Bucket,
    /// The state of the pool at the start.
    pub pool: Pool,
    /// The services, in the order of the table. Their cost is what is assumed until it is learnt.
    pub services: [ServiceSettings; SERVICES_COUNT],
    /// The most batches in each debt queue.
    pub batches_max: usize,
    /// The most directives in a plan.
    pub directives_max: usize,
}

named! {
    /// Why debt waits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum Hold {
        /// The debt must not be paid yet: a snapshot is kept for its retention.
        Retention = "retention",
        /// The foreground has the resource.
        Foreground = "foreground",
        /// The foreground has just given units up, and may want them back.
        Calm = "calm",
        /// The debt has not reached the fixed watermark.
        Watermark = "watermark",
        /// All units that the background may use are in use.
        Running = "running",
        /// The plan lets background work rest, because there will be a quieter time.
        Plan = "plan",
        /// The foreground feels background work.
        Objective = "objective",
        /// The service has been paid as fast as it may be.
        Rate = "rate",
        /// Slices took more than their share, which makes up for it.
        Budget = "budget",
        /// The service must not run at this hour.
        Hours = "hours",
    }
}

/// The answer to [`Executor::poll`](super::Executor::poll).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Run this now, and poll again.
    Run(Slice),
    /// Pause this slice, complete it with the blocks that it has paid, and poll again: the foreground needs its units, or it overran.
    Pause(SliceTag),
    /// End this slice by any means: it was told to pause and runs still. Poll again.
    End(SliceTag),
    /// The executor has nothing to do before this time or the next call, whichever is first; with [`Nanos::NEVER`], only a call changes
    /// that.
    WaitUntil(Nanos, Hold),
    /// There is no debt.
    Idle,
}

impl Directive {
    /// Counts blocks of a service, and their work, that a slice begins with.
    pub(super) fn spend(&mut self, service: Service, blocks: u64, work: u64) {
        let planned = &mut self.pay_blocks[service as usize];
        *planned = planned.saturating_sub(blocks);
        if self.is_limited(service) {
            self.limit_work = self.limit_work.saturating_sub(work);
        }
    }

    /// Takes back the blocks and the work that a slice did not pay.
    pub(super) fn unspend(&mut self, service: Service, blocks: u64, work: u64) {
        let planned = &mut self.pay_blocks[service as usize];
        *planned = planned.saturating_add(blocks);
        if self.is_limited(service) {
            // A limit stays a limit: `u64::MAX` would mean none.
            self.limit_work = self.limit_work.saturating_add(work).min(u64::MAX - 1);
        }
    }

    /// Whether the work of a service is limited.
    pub(super) const fn is_limited(&self, service: Service) -> bool {
        self.limit_work != u64::MAX && !self.urgent[service as usize]
    }

    pub(super) fn words(&mut self, exchange: &mut impl FnMut(u64) -> u64) -> Option<()> {
        self.from = Nanos(exchange(self.from.0));
        self.reserve_units = u32::try_from(exchange(u64::from(self.reserve_units))).ok()?;
        self.limit_units = u32::try_from(exchange(u64::from(self.limit_units))).ok()?;
        self.pressing = exchange(u64::from(self.pressing)) == 1;
        for blocks in &mut self.pay_blocks {
            *blocks = exchange(*blocks);
        }
        Some(())
    }

    pub(super) fn limit_words(&mut self, exchange: &mut impl FnMut(u64) -> u64) {
        self.limit_work = exchange(self.limit_work);
        for urgent in &mut self.urgent {
            *urgent = exchange(u64::from(*urgent)) == 1;
        }
    }
}
