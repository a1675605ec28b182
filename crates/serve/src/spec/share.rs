//! What is a class of clients entitled to, and can its device's scheduler give it?

use ioweir_config::Complaint;
use ioweir_core::policy::Policy;
use ioweir_core::tenant::{GroupId, Share, ShareError, WEIGHT_MAX};
use ioweir_core::{Nanos, QueueLimits};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use toml::Spanned;

use super::raw::number;
use super::{Device, Holder};
use ioweir_config::{Duration, Size};

/// What a class of clients or a group of classes is entitled to, for schedulers that tell tenants apart. Rates and bursts
/// count requests, or sectors of 512 bytes where the scheduler's `cost` is `sectors`; the limit in bytes holds beside that,
/// whatever the cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClassShare {
    /// Its part of the device against the weights of others; in a group, its part of what the group gets.
    pub weight: u32,
    /// It is served at least so often a second while it asks for it; zero: nothing is reserved.
    pub reservation_per_second: u64,
    /// It is served at most so often a second; zero: no limit.
    pub limit_per_second: u64,
    /// How much may come at once above the limit.
    pub burst: u64,
    /// At most so many bytes are read and written for it a second; none, or zero: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_second: Option<Size>,
    /// How many bytes may go at once above that. A request goes however large it is, and the next waits for all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_bytes: Option<Size>,
    /// The latency that it is to have, where the scheduler keeps one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Duration>,
}

impl ClassShare {
    /// As the scheduler takes it.
    #[must_use]
    pub fn as_share(&self, group: Option<GroupId>) -> Share {
        Share {
            reservation_per_second: self.reservation_per_second,
            limit_per_second: self.limit_per_second,
            burst: self.burst,
            limit_bytes_per_second: self.limit_bytes_per_second.map_or(0, |size| size.0),
            burst_bytes: self.burst_bytes.map_or(0, |size| size.0),
            latency: self.latency.map_or(Nanos::NEVER, Duration::nanos),
            group,
            ..Share::weighted(self.weight)
        }
    }
}

/// The keys of a share.
pub const SHARE_KEYS: [&str; 7] = [
    "weight",
    "reservation_per_second",
    "limit_per_second",
    "burst",
    "limit_bytes_per_second",
    "burst_bytes",
    "latency",
];

/// The keys of a share, as they stand in a spec. The macro below puts the same into every table that takes them.
#[derive(Default)]
pub(super) struct RawShare {
    pub(super) weight: Option<Spanned<u32>>,
    pub(super) reservation_per_second: Option<Spanned<u64>>,
    pub(super) limit_per_second: Option<Spanned<u64>>,
    pub(super) burst: Option<Spanned<u64>>,
    pub(super) limit_bytes_per_second: Option<Spanned<Size>>,
    pub(super) burst_bytes: Option<Spanned<Size>>,
    pub(super) latency: Option<Spanned<Duration>>,
}

/// A table of the spec that takes the keys of a share beside its own.
macro_rules! table_with_share {
    (struct $name:ident { $($field:ident: $kind:ty,)* }) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $(pub(super) $field: $kind,)*
            weight: Option<Spanned<u32>>,
            reservation_per_second: Option<Spanned<u64>>,
            limit_per_second: Option<Spanned<u64>>,
            burst: Option<Spanned<u64>>,
            limit_bytes_per_second: Option<Spanned<Size>>,
            burst_bytes: Option<Spanned<Size>>,
            latency: Option<Spanned<Duration>>,
        }

        impl $name {
            /// Takes the keys of its share out of it.
            pub(super) fn take_share(&mut self) -> RawShare {
                RawShare {
                    weight: self.weight.take(),
                    reservation_per_second: self.reservation_per_second.take(),
                    limit_per_second: self.limit_per_second.take(),
                    burst: self.burst.take(),
                    limit_bytes_per_second: self.limit_bytes_per_second.take(),
                    burst_bytes: self.burst_bytes.take(),
                    latency: self.latency.take(),
                }
            }
        }
    };
}

table_with_share! {
    struct RawGroup {
        name: Spanned<String>,
        device: Spanned<String>,
    }
}

table_with_share! {
    struct RawExport {
        name: Spanned<String>,
        description: Option<Spanned<String>>,
        device: Spanned<String>,
        read_only: Option<bool>,
        group: Option<Spanned<String>>,
    }
}

table_with_share! {
    struct RawTenant {
        name: Spanned<String>,
        export: Spanned<String>,
        certificate: Spanned<String>,
        group: Option<Spanned<String>>,
    }
}

impl RawShare {
    /// Which keys are given, and where.
    fn given(&self) -> impl Iterator<Item = (&'static str, Range<usize>)> + use<> {
        let keys = [
            ("weight", self.weight.as_ref().map(Spanned::span)),
            ("reservation_per_second", self.reservation_per_second.as_ref().map(Spanned::span)),
            ("limit_per_second", self.limit_per_second.as_ref().map(Spanned::span)),
            ("burst", self.burst.as_ref().map(Spanned::span)),
            ("limit_bytes_per_second", self.limit_bytes_per_second.as_ref().map(Spanned::span)),
            ("burst_bytes", self.burst_bytes.as_ref().map(Spanned::span)),
            ("latency", self.latency.as_ref().map(Spanned::span)),
        ];
        keys.into_iter().filter_map(|(key, range)| Some((key, range?)))
    }

    fn resolve(&self) -> Result<ClassShare, Complaint> {
        if let (Some(burst), None) = (&self.burst_bytes, &self.limit_bytes_per_second) {
            let problem = "burst_bytes: without limit_bytes_per_second this would change nothing";
            let expected = "limit_bytes_per_second beside it, such as \"10MiB\"";
            return Err(Complaint::at(burst.span(), problem).expected(expected));
        }
        let value = |given: &Option<Spanned<u64>>, default| given.as_ref().map_or(default, |given| *given.get_ref());
        Ok(ClassShare {
            weight: number(self.weight.as_ref(), "weight", 100, 1, WEIGHT_MAX)?,
            reservation_per_second: value(&self.reservation_per_second, 0),
            limit_per_second: value(&self.limit_per_second, 0),
            burst: value(&self.burst, 1),
            limit_bytes_per_second: self.limit_bytes_per_second.as_ref().map(|size| *size.get_ref()),
            burst_bytes: self.burst_bytes.as_ref().map(|size| *size.get_ref()),
            latency: self.latency.as_ref().map(|latency| *latency.get_ref()),
        })
    }
}

/// The schedulers of a spec's devices, asked for every share of it one after the other: so all of them can be had together.
pub(super) struct Judge(Vec<Policy>);

impl Judge {
    pub(super) fn new(devices: &[Device]) -> Self {
        let build =
            |device: &Device| device.scheduler.row.build(QueueLimits::with_requests(1), &device.scheduler.settings);
        Self(devices.iter().map(build).collect())
    }

    /// What somebody on a device is entitled to; none where its scheduler knows no shares. Keys that would change nothing
    /// are refused. `named` is where its name stands.
    pub(super) fn resolve(
        &mut self,
        (number, device): (usize, &Device),
        (holder, group): (Holder, Option<GroupId>),
        raw: &RawShare,
        named: Range<usize>,
    ) -> Result<Option<ClassShare>, Complaint> {
        let control = self.0.get_mut(number).and_then(Policy::tenants_mut);
        let Some(control) = control else {
            let is_grouped = group.is_some() || matches!(holder, Holder::Group(_));
            let given = if is_grouped { Some(("group", named)) } else { raw.given().next() };
            let Some((key, range)) = given else { return Ok(None) };
            let name = device.scheduler.row.name;
            let problem = format!("{key}: scheduler {name} knows no shares, so that this would change nothing");
            return Err(Complaint::at(range, problem).expected("a scheduler that tells tenants apart, such as sfq"));
        };
        let share = raw.resolve()?;
        let configured = holder.configure(control, Nanos::ZERO, share.as_share(group));
        configured.map_err(|error| {
            // What is wrong with the share itself stands at its first key; that there is no room for more, at the name.
            let is_full = matches!(error, ShareError::ClientsFull { .. } | ShareError::GroupsFull { .. });
            let range = raw.given().map(|(_, range)| range).next().filter(|_| !is_full).unwrap_or(named);
            Complaint::at(range, error.to_string())
        })?;
        Ok(Some(share))
    }
}
