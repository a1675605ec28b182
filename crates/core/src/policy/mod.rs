//! Which policies are there, what can be set, and how is one made?
//!
//! A new policy is one file beside this one, one variant of [`Policy`] and one row of [`POLICIES`]: names on the command
//! line, `ioweir doc`, the reference page and the tests that run over all policies come from that row. It is either an
//! elevator of the block layer or an order between tenants; [`Policy::tenants_mut`] tells.

mod anticipatory;
mod bfq;
mod bid_adaptive;
mod bid_hdd;
mod bid_hybrid;
mod cfq;
mod cfq_paper;
mod clook;
mod deadline;
mod drr;
mod fifo;
mod kyber;
mod mclock;
mod mq_deadline;
mod noop;
mod parda;
mod pclock;
mod reward;
mod sptf;
mod wfq;

use crate::elevator::{BlockScheduler, Elevator};
use crate::settings::settable;
use crate::tenant::{Capacity, TenantControl, TenantScheduler};
use crate::{CancelError, Nanos, QueueLimits, Reason, Refused, Request, Scheduler, Step, StreamId, Tag, Waiting};

pub use crate::settings::{PARAMETERS_MAX, Parameter, SettingError, Settings, Unit};

/// A row of the policy table.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRow {
    /// The name on the command line.
    pub name: &'static str,
    /// One line: what it does.
    pub summary: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// How it works here, and where that differs from the source.
    pub doc: &'static str,
    /// What to write into `/sys/block/DEVICE/queue/scheduler` to have it, where today's Linux has it.
    pub linux: Option<&'static str>,
    /// What can be set.
    pub parameters: &'static [Parameter],
    /// Whether it places data on a fast device beside the one that is addressed.
    pub places: bool,
    /// Whether it shares the device between clients by what they are entitled to.
    pub knows_shares: bool,
    build: fn(QueueLimits, &Settings) -> Policy,
}

impl PolicyRow {
    /// Makes a scheduler. All the memory that it will ever use is taken here.
    #[must_use]
    pub fn build(&self, limits: QueueLimits, settings: &Settings) -> Policy {
        (self.build)(limits, settings)
    }
}

settable!(PolicyRow);

/// The row of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static PolicyRow> {
    POLICIES.iter().find(|row| row.name == name)
}

/// Writes [`Policy`], its table and its dispatch from one list.
macro_rules! policies {
    (
        block { $($variant:ident, $module:ident :: $elevator:ident, $row:ident;)* }
        tenant { $($tenant:ident, $tenant_module:ident :: $order:ident, $tenant_row:ident;)* }
    ) => {
        /// Any of the built-in policies.
        #[derive(Clone, Debug)]
        pub struct Policy(Inner);

        #[derive(Clone, Debug)]
        enum Inner {
            $($variant(BlockScheduler<$module::$elevator>),)*
            $($tenant(TenantScheduler<$tenant_module::$order>),)*
        }

        /// Every policy, in the order in which help lists them.
        pub static POLICIES: &[PolicyRow] = &[$(PolicyRow {
            name: $module::$row.name,
            summary: $module::$row.summary,
            source: $module::$row.source,
            doc: $module::$row.doc,
            linux: $module::$row.linux,
            parameters: $module::$row.parameters,
            places: <$module::$elevator as Elevator>::PLACES,
            knows_shares: false,
            build: |limits, settings| {
                let elevator = $module::$elevator::new(&limits, $module::$row.form, settings);
                Policy(Inner::$variant(BlockScheduler::new(limits, elevator)))
            },
        },)* $(PolicyRow {
            name: $tenant_module::$tenant_row.name,
            summary: $tenant_module::$tenant_row.summary,
            source: $tenant_module::$tenant_row.source,
            doc: $tenant_module::$tenant_row.doc,
            linux: $tenant_module::$tenant_row.linux,
            parameters: $tenant_module::$tenant_row.parameters,
            places: false,
            knows_shares: true,
            build: |limits, settings| {
                let order = |size: &_| $tenant_module::$order::new(size, $tenant_module::$tenant_row.form, settings);
                let scheduler = TenantScheduler::new(limits, Capacity::from_settings(settings), order);
                Policy(Inner::$tenant(scheduler))
            },
        },)*];

        impl Policy {
            /// Says that the sectors from `start` to before `end` lie on the fast device already, for a policy that places
            /// data; to be called before the first request. Answers whether it can remember that: no, and nothing has
            /// changed, where it places nothing, or has as many extents or sectors as it holds.
            pub fn place(&mut self, start: u64, end: u64) -> bool {
                match &mut self.0 {
                    $(Inner::$variant(scheduler) => scheduler.elevator.place(start, end),)*
                    $(Inner::$tenant(_) => false,)*
                }
            }

            /// Live control of clients' shares; `None` where the policy knows no shares.
            pub fn tenants_mut(&mut self) -> Option<&mut dyn TenantControl> {
                match &mut self.0 {
                    $(Inner::$tenant(scheduler) => Some(scheduler),)*
                    _ => None,
                }
            }

            /// As [`Policy::tenants_mut`], for asking only.
            #[must_use]
            pub fn tenants(&self) -> Option<&dyn TenantControl> {
                match &self.0 {
                    $(Inner::$tenant(scheduler) => Some(scheduler),)*
                    _ => None,
                }
            }
        }

        impl Scheduler for Policy {
            #[inline(always)]
            fn submit(&mut self, now: Nanos, request: Request) -> Result<Tag, Refused> {
                match &mut self.0 {
                    $(Inner::$variant(scheduler) => scheduler.submit(now, request),)*
                    $(Inner::$tenant(scheduler) => scheduler.submit(now, request),)*
                }
            }
            #[inline(always)]
            fn poll(&mut self, now: Nanos) -> Step {
                match &mut self.0 {
                    $(Inner::$variant(scheduler) => scheduler.poll(now),)*
                    $(Inner::$tenant(scheduler) => scheduler.poll(now),)*
                }
            }
            fn weighs(&self) -> bool {
                match &self.0 {
                    $(Inner::$variant(scheduler) => scheduler.weighs(),)*
                    $(Inner::$tenant(scheduler) => scheduler.weighs(),)*
                }
            }
            fn poll_weighed(&mut self, now: Nanos, weigh: &dyn Fn(&Request) -> u64) -> Step {
                match &mut self.0 {
                    $(Inner::$variant(scheduler) => scheduler.poll_weighed(now, weigh),)*
                    $(Inner::$tenant(scheduler) => scheduler.poll_weighed(now, weigh),)*
                }
            }
            #[inline(always)]
            fn complete(&mut self, now: Nanos, tag: Tag) {
                match &mut self.0 {
                    $(Inner::$variant(scheduler) => scheduler.complete(now, tag),)*
                    $(Inner::$tenant(scheduler) => scheduler.complete(now, tag),)*
                }
            }
            fn cancel(&mut self, now: Nanos, tag: Tag) -> Result<Request, CancelError> {
                match &mut self.0 {
                    $(Inner::$variant(scheduler) => scheduler.cancel(now, tag),)*
                    $(Inner::$tenant(scheduler) => scheduler.cancel(now, tag),)*
                }
            }
            fn next_member(&self, tag: Tag) -> Option<Tag> {
                match &self.0 {
                    $(Inner::$variant(scheduler) => scheduler.next_member(tag),)*
                    $(Inner::$tenant(scheduler) => scheduler.next_member(tag),)*
                }
            }
            fn queued(&self) -> u32 {
                match &self.0 {
                    $(Inner::$variant(scheduler) => scheduler.queued(),)*
                    $(Inner::$tenant(scheduler) => scheduler.queued(),)*
                }
            }
            fn waiting(&self) -> Waiting {
                match &self.0 {
                    $(Inner::$variant(scheduler) => scheduler.waiting(),)*
                    $(Inner::$tenant(scheduler) => scheduler.waiting(),)*
                }
            }
            fn reason(&self, stream: StreamId) -> Option<Reason> {
                self.tenants().map(|tenants| tenants.reason(stream))
            }
        }
    };
}

/// What a policy's file says of itself. One elevator may have several rows: `form` tells them apart.
pub(crate) struct Row<F> {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) source: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) linux: Option<&'static str>,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) form: F,
}

policies! {
    block {
        Noop, noop::Noop, ROW;
        Clook, clook::Clook, ROW;
        Deadline, deadline::Deadline, LINUX;
        DeadlinePaper, deadline::Deadline, PAPER;
        Anticipatory, anticipatory::Anticipatory, ROW;
        MqDeadline, mq_deadline::MqDeadline, ROW;
        Kyber, kyber::Kyber, ROW;
        Bfq, bfq::Bfq, ROW;
        Cfq, cfq::Cfq, ROW;
        CfqPaper, cfq_paper::CfqPaper, ROW;
        Sptf, sptf::Sptf, ROW;
        BidHdd, bid_hdd::BidHdd, ROW;
        BidHybrid, bid_hybrid::BidHybrid, ROW;
        BidAdaptive, bid_adaptive::BidAdaptive, ROW;
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
    }
}
