//! The policies: their table, their parameters, and [`Policy`], which holds any of them.
//!
//! A new policy is one file beside this one and one row of `policies!`, which also states how long a request can wait: names on the command line, `ioweir doc`, the
//! reference page and the tests that run over all policies come from that row. A policy is an elevator of the block layer or
//! an order between tenants; [`Policy::tenants`] is `None` for the former. [`PolicyRow::build_above`] puts an order above an
//! elevator.

mod anticipatory;
mod bfq;
mod bid_hdd;
mod bid_hybrid;
mod bound;
mod cfq;
mod cfq_paper;
mod clook;
mod clook_adaptive;
mod deadline;
mod drr;
mod fifo;
mod io_cost;
mod io_latency;
mod io_max;
mod kyber;
mod mclock;
mod noop;
mod parda;
mod pclock;
mod reward;
mod sptf;
mod wfq;

use alloc::boxed::Box;
use alloc::string::String;

use crate::elevator::{BlockScheduler, Elevator};
use crate::external::{ElevatorFactory, Maker, OrderFactory, Outside, OutsideOrder};
use crate::pair::{Lower, Pair, Upper};
use crate::settings::settable;
use crate::tenant::{CLIENTS, Capacity, GROUPS, KNOWN_COST, Order, Size, TenantControl, TenantScheduler};
use crate::window::Window;
use crate::{CancelError, Nanos, QueueLimits, Reason, Refused, Request, Room, Scheduler, Step, StreamId, Tag, Waiting};

pub use bound::{Backlog, Bound, Wait};

pub use crate::settings::{LinuxFile, PARAMETERS_MAX, Parameter, Search, SettingError, Settings, Unit};

/// A row of the policy table.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRow {
    /// The name on the command line.
    pub name: &'static str,
    /// The policy in one line.
    pub summary: &'static str,
    /// The publication that the policy is from.
    pub source: &'static str,
    /// How it works here, and where that differs from the source.
    pub doc: &'static str,
    /// How long a request can wait.
    pub bound: Bound,
    /// The policy's name in `/sys/block/DEVICE/queue/scheduler`, if current Linux has it.
    pub linux: Option<&'static str>,
    /// The policy's parameters.
    pub parameters: &'static [Parameter],
    /// Whether it places data on a fast device beside the addressed one.
    pub places: bool,
    /// Whether it serves clients by their shares, instead of ordering and merging requests for a device.
    pub knows_shares: bool,
    /// The keys of shares, and the priorities, that change its decisions.
    pub reads: Reads,
    /// The limits in shares that have an effect.
    pub limits: Limits,
    make: Make,
}

/// The keys of clients' shares, and the priorities of requests, that change a policy's decisions. Limits are not listed:
/// [`Limits`] says which a policy keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reads {
    /// Weights. In a group, they divide what the group gets under every policy that knows shares.
    pub weight: bool,
    /// Reservations.
    pub reservation: bool,
    /// Bursts, also of a client without a limit.
    pub burst: bool,
    /// Latencies.
    pub latency: bool,
    /// I/O priorities.
    pub priority: bool,
}

impl Reads {
    const NOTHING: Self = Self { weight: false, reservation: false, burst: false, latency: false, priority: false };
    const WEIGHT: Self = Self { weight: true, ..Self::NOTHING };
    const LATENCY: Self = Self { latency: true, ..Self::WEIGHT };
    const RESERVATION: Self = Self { reservation: true, ..Self::WEIGHT };
    const CURVE: Self = Self { reservation: true, burst: true, latency: true, ..Self::NOTHING };
    const PRIORITY: Self = Self { priority: true, ..Self::NOTHING };
}

/// The limits that a policy keeps for its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    /// None.
    None,
    /// `limit` and `limit_bytes`, with their bursts.
    Both,
    /// `rbps`, `wbps`, `riops` and `wiops`.
    Directions,
}

impl Limits {
    const fn of<P: Order>() -> Self {
        match (P::CONTROLS, P::LIMITS_DIRECTIONS) {
            (false, _) => Self::Both,
            (true, true) => Self::Directions,
            (true, false) => Self::None,
        }
    }
}

type Build = fn(QueueLimits, &Settings) -> Policy;

/// How schedulers of a policy are made: alone, or as the half of a pair that the policy can be.
#[derive(Clone, Copy, Debug)]
enum Make {
    Upper(Build, fn(QueueLimits, &Settings) -> Box<dyn Upper>),
    Lower(Build, fn(QueueLimits, &Settings) -> Box<dyn Lower>),
    External(Maker),
}

settable!(PolicyRow);

/// The table entry of pairs: the parameters that a pair has in addition to those of its elevator.
#[derive(Clone, Copy, Debug)]
pub struct PairRow {
    /// The name used in errors.
    pub name: &'static str,
    /// The pair in one line.
    pub summary: &'static str,
    /// The parameters.
    pub parameters: &'static [Parameter],
    /// How a pair works.
    pub doc: &'static str,
}

settable!(PairRow);

/// The pairs.
pub static PAIR: PairRow = PairRow {
    name: "pair",
    summary: "ORDER+ELEVATOR: an order of tenants above an elevator, such as sfq+deadline",
    parameters: &[Parameter::new(
        "window",
        Unit::CountOr("adaptive"),
        16,
        (0, 1 << 20),
        "requests among which the elevator chooses; 1: the order alone decides, as many as are queued: the elevator; \
adaptive: the most with which 99 of 100 requests have the latency of their shares, at most 1,024",
    )
    .tried(1, 128)],
    doc: include_str!("pair.md"),
};

/// The elevator of a pair.
#[derive(Clone, Copy, Debug)]
pub struct Below {
    /// The policy table's row of the elevator.
    pub row: &'static PolicyRow,
    /// The elevator's parameters.
    pub settings: Settings,
    /// The parameters of the pair.
    pub pair: Settings,
}

impl Below {
    fn window(&self) -> Window {
        let [window] = self.pair.values();
        Window::new(u32::try_from(window).unwrap_or(u32::MAX))
    }

    /// Whether its window follows the latencies in shares.
    #[must_use]
    pub fn is_adaptive(&self) -> bool {
        self.window().is_adaptive()
    }
}

/// Why two policies cannot form a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairError {
    /// The upper one is not an order of tenants.
    NoOrder,
    /// The lower one is not an elevator.
    NoElevator,
    /// The lower one places data on a second device.
    Places,
}

impl PolicyRow {
    /// Whether it tells clients apart, by their shares, rather than the streams of a trace.
    #[must_use]
    pub const fn has_clients(&self) -> bool {
        self.knows_shares || self.reads.weight
    }

    /// Makes a scheduler and allocates all its memory.
    #[must_use]
    pub fn build(&self, limits: QueueLimits, settings: &Settings) -> Policy {
        match self.make {
            Make::Upper(build, _) | Make::Lower(build, _) => build(limits, settings),
            Make::External(Maker::Elevator(factory)) => {
                Policy(Inner::ExternalElevator(Box::new(external_elevator(factory, limits, settings))))
            }
            Make::External(Maker::Order(factory)) => {
                Policy(Inner::ExternalOrder(Box::new(external_order(factory, limits, settings))))
            }
        }
    }

    /// A row for a policy from outside this crate. An order of tenants has the parameters that all of them have.
    #[must_use]
    pub const fn external(name: &'static str, summary: &'static str, maker: Maker) -> Self {
        let knows_shares = matches!(maker, Maker::Order(_));
        Self {
            name,
            summary,
            source: "from outside",
            doc: "",
            bound: Bound { doc: "not stated", wait: Wait::Unbounded },
            linux: None,
            parameters: if knows_shares { &[CLIENTS, GROUPS, KNOWN_COST] } else { &[] },
            places: false,
            knows_shares,
            // The policy gets the shares as they are. That it keeps reservations cannot be promised.
            reads: if knows_shares { Reads { burst: true, ..Reads::LATENCY } } else { Reads::PRIORITY },
            limits: if knows_shares { Limits::Both } else { Limits::None },
            make: Make::External(maker),
        }
    }

    /// A string that changes whenever the code of a policy from outside does; empty for a policy of the table, which the version of ioweir
    /// identifies.
    ///
    /// # Errors
    /// The reason why there is none, in words about the policy.
    pub fn code(&self) -> Result<String, String> {
        match &self.make {
            Make::Upper(..) | Make::Lower(..) => Ok(String::new()),
            Make::External(maker) => maker.code(),
        }
    }

    fn upper(&self, limits: QueueLimits, settings: &Settings) -> Option<Box<dyn Upper>> {
        match self.make {
            Make::Upper(_, upper) => Some(upper(limits, settings)),
            Make::External(Maker::Order(factory)) => Some(Box::new(external_order(factory, limits, settings))),
            Make::Lower(..) | Make::External(Maker::Elevator(_)) => None,
        }
    }

    fn lower(&self, limits: QueueLimits, settings: &Settings) -> Option<Box<dyn Lower>> {
        match self.make {
            Make::Lower(_, lower) => Some(lower(limits, settings)),
            Make::External(Maker::Elevator(factory)) => Some(Box::new(external_elevator(factory, limits, settings))),
            Make::Upper(..) | Make::External(Maker::Order(_)) => None,
        }
    }

    /// Whether this policy can form a pair above `lower`.
    ///
    /// # Errors
    /// [`PairError`] says why it cannot.
    pub const fn goes_above(&self, lower: &Self) -> Result<(), PairError> {
        match (self.knows_shares, lower.knows_shares) {
            (_, true) => Err(PairError::NoElevator),
            (false, _) => Err(PairError::NoOrder),
            _ if lower.places => Err(PairError::Places),
            _ => Ok(()),
        }
    }

    /// As [`Self::build`], above an elevator. If the two cannot form a pair ([`Self::goes_above`]), this policy is built
    /// alone.
    #[must_use]
    pub fn build_above(&self, limits: QueueLimits, settings: &Settings, below: &Below) -> Policy {
        let window = below.window();
        let Some(order) = self.upper(Pair::upper_limits(&limits, window.most()), settings) else {
            return self.build(limits, settings);
        };
        let limits_below = Pair::lower_limits(&limits, window.most(), order.slots());
        // An elevator with one request has nothing to choose from, and it must not hold that request back.
        let elevator: Option<Box<dyn Lower>> = if window.most() == 1 {
            let noop = noop::Noop::new(&limits_below, (), &below.settings);
            Some(Box::new(BlockScheduler::new(limits_below, noop)))
        } else {
            below.row.lower(limits_below, &below.settings)
        };
        let Some(elevator) = elevator else { return self.build(limits, settings) };
        Policy(Inner::Pair(Box::new(Pair::new(limits, window, order, elevator))))
    }
}

/// Finds a row by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static PolicyRow> {
    POLICIES.iter().find(|row| row.name == name)
}

/// A policy's description, in its own file. One elevator may have several rows, which `form` distinguishes.
struct Row<F> {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    doc: &'static str,
    bound: Bound,
    linux: Option<&'static str>,
    reads: Reads,
    parameters: &'static [Parameter],
    form: F,
}

impl<F> Row<F> {
    const fn row(&self, places: bool, limits: Limits, make: Make) -> PolicyRow {
        let Self { name, summary, source, doc, bound, linux, reads, parameters, .. } = *self;
        let knows_shares = matches!(make, Make::Upper(..));
        PolicyRow { name, summary, source, doc, bound, linux, parameters, places, knows_shares, reads, limits, make }
    }
}

fn external_elevator(
    factory: &dyn ElevatorFactory,
    limits: QueueLimits,
    settings: &Settings,
) -> BlockScheduler<Outside> {
    BlockScheduler::new(limits, Outside::new(factory.make(&limits, settings), &limits))
}

fn external_order(
    factory: &dyn OrderFactory,
    limits: QueueLimits,
    settings: &Settings,
) -> TenantScheduler<OutsideOrder> {
    let order = |size: &Size| OutsideOrder::new(factory.make(size.nodes, settings), size);
    TenantScheduler::new(limits, Capacity::from_settings(settings), order)
}

/// Generates, from one list, [`Policy`], its table, and a macro that calls the same method of any policy.
macro_rules! policies {
    (
        $dollar:tt
        block { $($variant:ident, $module:ident :: $elevator:ident, $row:ident;)* }
        tenant { $($tenant:ident, $tenant_module:ident :: $order:ident, $tenant_row:ident;)* }
    ) => {
        #[derive(Clone, Debug)]
        enum Inner {
            $($variant(BlockScheduler<$module::$elevator>),)*
            $($tenant(TenantScheduler<$tenant_module::$order>),)*
            Pair(Box<Pair>),
            ExternalElevator(Box<BlockScheduler<Outside>>),
            ExternalOrder(Box<TenantScheduler<OutsideOrder>>),
        }

        /// Every policy, in the order in which help lists them.
        pub static POLICIES: &[PolicyRow] = &[
            $({
                fn scheduler(limits: QueueLimits, settings: &Settings) -> BlockScheduler<$module::$elevator> {
                    BlockScheduler::new(limits, $module::$elevator::new(&limits, $module::$row.form, settings))
                }
                $module::$row.row(
                    <$module::$elevator as Elevator>::PLACES,
                    Limits::None,
                    Make::Lower(
                        |limits, settings| Policy(Inner::$variant(scheduler(limits, settings))),
                        |limits, settings| Box::new(scheduler(limits, settings)),
                    ),
                )
            },)*
            $({
                fn scheduler(limits: QueueLimits, settings: &Settings) -> TenantScheduler<$tenant_module::$order> {
                    let order = |size: &_| $tenant_module::$order::new(size, $tenant_module::$tenant_row.form, settings);
                    TenantScheduler::new(limits, Capacity::from_settings(settings), order)
                }
                $tenant_module::$tenant_row.row(
                    false,
                    Limits::of::<$tenant_module::$order>(),
                    Make::Upper(
                        |limits, settings| Policy(Inner::$tenant(scheduler(limits, settings))),
                        |limits, settings| Box::new(scheduler(limits, settings)),
                    ),
                )
            },)*
        ];

        macro_rules! each {
            ($dollar policy:expr, $dollar scheduler:ident => $dollar call:expr) => {
                match $dollar policy {
                    $(Inner::$variant($dollar scheduler) => $dollar call,)*
                    $(Inner::$tenant($dollar scheduler) => $dollar call,)*
                    Inner::Pair($dollar scheduler) => $dollar call,
                    Inner::ExternalElevator($dollar scheduler) => $dollar call,
                    Inner::ExternalOrder($dollar scheduler) => $dollar call,
                }
            };
        }
    };
}

policies! {
    $
    block {
        Noop, noop::Noop, ROW;
        NoElevator, noop::Noop, NONE;
        Clook, clook::Clook, ROW;
        Deadline, deadline::Deadline, LINUX;
        DeadlinePaper, deadline::Deadline, PAPER;
        Anticipatory, anticipatory::Anticipatory, ROW;
        MqDeadline, deadline::Deadline, MQ;
        Kyber, kyber::Kyber, ROW;
        Bfq, bfq::Bfq, ROW;
        BfqGroups, bfq::Bfq, GROUPED;
        Cfq, cfq::Cfq, ROW;
        CfqPaper, cfq_paper::CfqPaper, ROW;
        Sptf, sptf::Sptf, ROW;
        BidHdd, bid_hdd::BidHdd, ROW;
        BidHybrid, bid_hybrid::BidHybrid, ROW;
        ClookAdaptive, clook_adaptive::ClookAdaptive, ROW;
    }
    tenant {
        Fifo, fifo::Fifo, FIFO;
        TokenBucket, fifo::Fifo, TOKEN_BUCKET;
        Sfq, wfq::Wfq, SFQ;
        Wfq, wfq::Wfq, WFQ;
        Drr, drr::Drr, ROW;
        Mclock, mclock::Mclock, ROW;
        Pclock, pclock::Pclock, ROW;
        Parda, parda::Parda, ROW;
        Reward, reward::Reward, ROW;
        IoMax, io_max::IoMax, ROW;
        IoLatency, io_latency::IoLatency, ROW;
        IoCost, io_cost::IoCost, ROW;
    }
}

/// Any of the built-in policies.
///
/// ```
/// use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Request, Scheduler, Step, StreamId, policy};
///
/// let row = policy::find("deadline").expect("a built-in policy");
/// let mut settings = row.defaults();
/// row.set(&mut settings, "fifo-batch", 8)?;
/// let mut policy = row.build(QueueLimits { depth: 1, ..QueueLimits::DEFAULT }, &settings);
///
/// let read = |sector| Request {
///     operation: Operation::Read,
///     flags: Flags::NONE,
///     stream: StreamId(1),
///     sector,
///     sectors: 8,
/// };
/// let mut now = Nanos::ZERO;
/// for sector in [0, 4_000, 8] {
///     policy.submit(now, read(sector)).expect("there is room");
/// }
/// // The requests at 0 and 8 were merged; the device holds one at a time.
/// let Step::Dispatch(first) = policy.poll(now) else { panic!("the device has room") };
/// assert_eq!((first.sector, first.sectors, first.members), (0, 16, 2));
/// assert!(matches!(policy.poll(now), Step::WaitUntil(Nanos::NEVER, _)));
/// now = Nanos::from_millis(5);
/// policy.complete(now, first.tag);
/// assert!(matches!(policy.poll(now), Step::Dispatch(second) if second.sector == 4_000));
/// # Ok::<(), policy::SettingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Policy(Inner);

impl Policy {
    /// Declares that the sectors from `start` up to `end` are on the fast device, for a policy that places data. Call it
    /// before the first request. Returns whether the policy can remember that: `false`, with nothing changed, if it places
    /// no data or has no room for the extent or its sectors.
    pub fn place(&mut self, start: u64, end: u64) -> bool {
        each!(&mut self.0, scheduler => scheduler.place(start, end))
    }

    /// Live control of clients' shares; `None` if the policy has no shares.
    pub fn tenants_mut(&mut self) -> Option<&mut dyn TenantControl> {
        each!(&mut self.0, scheduler => scheduler.tenants_mut())
    }

    /// As [`Policy::tenants_mut`], without changes.
    #[must_use]
    pub fn tenants(&self) -> Option<&dyn TenantControl> {
        each!(&self.0, scheduler => scheduler.tenants())
    }
}

impl Scheduler for Policy {
    #[inline(always)]
    fn submit(&mut self, now: Nanos, request: Request) -> Result<Tag, Refused> {
        each!(&mut self.0, scheduler => scheduler.submit(now, request))
    }

    #[inline(always)]
    fn poll(&mut self, now: Nanos) -> Step {
        each!(&mut self.0, scheduler => scheduler.poll(now))
    }

    fn weighs(&self) -> bool {
        each!(&self.0, scheduler => scheduler.weighs())
    }

    fn poll_weighed(&mut self, now: Nanos, weigh: &dyn Fn(&Request) -> u64) -> Step {
        each!(&mut self.0, scheduler => scheduler.poll_weighed(now, weigh))
    }

    #[inline(always)]
    fn complete(&mut self, now: Nanos, tag: Tag) {
        each!(&mut self.0, scheduler => scheduler.complete(now, tag))
    }

    fn cancel(&mut self, now: Nanos, tag: Tag) -> Result<Request, CancelError> {
        each!(&mut self.0, scheduler => scheduler.cancel(now, tag))
    }

    fn next_member(&self, tag: Tag) -> Option<Tag> {
        each!(&self.0, scheduler => scheduler.next_member(tag))
    }

    fn slots(&self) -> u32 {
        each!(&self.0, scheduler => scheduler.slots())
    }

    #[inline(always)]
    fn room(&self, stream: StreamId) -> Option<Room> {
        each!(&self.0, scheduler => scheduler.room(stream))
    }

    fn queued(&self) -> u32 {
        each!(&self.0, scheduler => scheduler.queued())
    }

    fn waiting(&self) -> Waiting {
        each!(&self.0, scheduler => scheduler.waiting())
    }

    fn reason(&self, stream: StreamId) -> Option<Reason> {
        self.tenants().map(|tenants| tenants.reason(stream))
    }

    fn reservations_behind(&self) -> Nanos {
        self.tenants().map_or(Nanos::ZERO, TenantControl::reservations_behind)
    }
}
