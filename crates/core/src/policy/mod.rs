//! Which policies are there, what can be set, and how is one made?
//!
//! A new policy is one file beside this one, one variant of [`Policy`] and one row of [`POLICIES`]: names on the command
//! line, `ioweir doc`, the reference page and the tests that run over all policies come from that row.

mod anticipatory;
mod bfq;
mod bid_adaptive;
mod bid_hdd;
mod bid_hybrid;
mod cfq;
mod cfq_paper;
mod clook;
mod deadline;
mod kyber;
#[allow(dead_code, reason = "bid-hybrid will use it, once a dispatch can name one of two devices")]
mod mq_deadline;
mod noop;
mod sptf;

use crate::elevator::{BlockScheduler, Elevator};
use crate::{CancelError, Nanos, QueueLimits, Refused, Request, Scheduler, Step, Tag, Waiting};

/// The most parameters that a policy or a schedule has.
pub const PARAMETERS_MAX: usize = 13;

/// What a parameter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// A span of time; the value is in nanoseconds.
    Duration,
    /// A size; the value is in bytes.
    Bytes,
    /// Yes (1) or no (0).
    Switch,
}

/// Something that can be set.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name on the command line.
    pub name: &'static str,
    /// What its value counts.
    pub unit: Unit,
    /// The value where none is given.
    pub default: u64,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// What it does.
    pub help: &'static str,
}

/// Values for the parameters of one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    values: [u64; PARAMETERS_MAX],
}

/// A value that a parameter does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// The policy has no parameter of this name.
    UnknownParameter,
    /// Outside of what the parameter takes.
    OutOfRange {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
}

impl Settings {
    /// Every parameter of a table at its default.
    pub(crate) fn defaults(parameters: &[Parameter]) -> Self {
        let mut values = [0; PARAMETERS_MAX];
        for (value, parameter) in values.iter_mut().zip(parameters) {
            *value = parameter.default;
        }
        Self { values }
    }

    pub(crate) fn set(&mut self, parameters: &[Parameter], name: &str, value: u64) -> Result<(), SettingError> {
        let at = parameters.iter().position(|parameter| parameter.name == name);
        let at = at.ok_or(SettingError::UnknownParameter)?;
        let Parameter { min, max, .. } = parameters[at];
        if value < min || value > max {
            return Err(SettingError::OutOfRange { min, max });
        }
        self.values[at] = value;
        Ok(())
    }

    pub(crate) fn get(&self, parameters: &[Parameter], name: &str) -> Option<u64> {
        let at = parameters.iter().position(|parameter| parameter.name == name)?;
        Some(self.values[at])
    }

    /// The first values in the order of the parameter table.
    pub(crate) fn values<const N: usize>(&self) -> [u64; N] {
        const { assert!(N <= PARAMETERS_MAX) };
        let mut values = [0; N];
        values.copy_from_slice(&self.values[..N]);
        values
    }
}

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
    build: fn(QueueLimits, &Settings) -> Policy,
}

impl PolicyRow {
    /// Every parameter at its default.
    #[must_use]
    pub fn defaults(&self) -> Settings {
        Settings::defaults(self.parameters)
    }

    /// Sets one parameter.
    ///
    /// # Errors
    /// [`SettingError`] where there is no such parameter or it does not take the value.
    pub fn set(&self, settings: &mut Settings, name: &str, value: u64) -> Result<(), SettingError> {
        settings.set(self.parameters, name, value)
    }

    /// The value of one parameter.
    #[must_use]
    pub fn get(&self, settings: &Settings, name: &str) -> Option<u64> {
        settings.get(self.parameters, name)
    }

    /// Makes a scheduler. All the memory that it will ever use is taken here.
    #[must_use]
    pub fn build(&self, limits: QueueLimits, settings: &Settings) -> Policy {
        (self.build)(limits, settings)
    }
}

/// The row of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static PolicyRow> {
    POLICIES.iter().find(|row| row.name == name)
}

/// Writes [`Policy`], its table and its dispatch from one list.
macro_rules! policies {
    ($($variant:ident, $module:ident :: $elevator:ident, $row:ident;)*) => {
        /// Any of the built-in policies.
        #[derive(Clone, Debug)]
        pub struct Policy(Inner);

        #[derive(Clone, Debug)]
        enum Inner {
            $($variant(BlockScheduler<$module::$elevator>),)*
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
            build: |limits, settings| {
                let elevator = $module::$elevator::new(&limits, $module::$row.form, settings);
                Policy(Inner::$variant(BlockScheduler::new(limits, elevator)))
            },
        }),*];

        impl Policy {
            /// Changes the settings of a running scheduler. What is queued stays queued; timers that run keep running.
            pub fn reconfigure(&mut self, settings: &Settings) {
                match &mut self.0 { $(Inner::$variant(scheduler) => scheduler.elevator.configure(settings),)* }
            }
        }

        impl Scheduler for Policy {
            fn submit(&mut self, now: Nanos, request: Request) -> Result<Tag, Refused> {
                match &mut self.0 { $(Inner::$variant(scheduler) => scheduler.submit(now, request),)* }
            }
            fn poll(&mut self, now: Nanos) -> Step {
                match &mut self.0 { $(Inner::$variant(scheduler) => scheduler.poll(now),)* }
            }
            fn weighs(&self) -> bool {
                match &self.0 { $(Inner::$variant(scheduler) => scheduler.weighs(),)* }
            }
            fn poll_weighed(&mut self, now: Nanos, weigh: &dyn Fn(&Request) -> u64) -> Step {
                match &mut self.0 { $(Inner::$variant(scheduler) => scheduler.poll_weighed(now, weigh),)* }
            }
            fn complete(&mut self, now: Nanos, tag: Tag) {
                match &mut self.0 { $(Inner::$variant(scheduler) => scheduler.complete(now, tag),)* }
            }
            fn cancel(&mut self, now: Nanos, tag: Tag) -> Result<Request, CancelError> {
                match &mut self.0 { $(Inner::$variant(scheduler) => scheduler.cancel(now, tag),)* }
            }
            fn next_member(&self, tag: Tag) -> Option<Tag> {
                match &self.0 { $(Inner::$variant(scheduler) => scheduler.next_member(tag),)* }
            }
            fn queued(&self) -> u32 {
                match &self.0 { $(Inner::$variant(scheduler) => scheduler.queued(),)* }
            }
            fn waiting(&self) -> Waiting {
                match &self.0 { $(Inner::$variant(scheduler) => scheduler.waiting(),)* }
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
