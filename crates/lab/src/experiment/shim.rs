//! Stands in for the core's tenants until they are merged.
use ioweir_core::Nanos;
use ioweir_core::policy::Policy;
use ioweir_core::StreamId;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupId(pub(super) u32);
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share { pub(super) weight: u32, pub(super) reservation_per_second: u64, pub(super) limit_per_second: u64, pub(super) burst: u64, pub(super) latency: Nanos, pub(super) group: Option<GroupId>, pub(super) refuses_at_limit: bool }
impl Share { pub(super) const DEFAULT: Self = Self { weight: 1, reservation_per_second: 0, limit_per_second: 0, burst: 1, latency: Nanos::NEVER, group: None, refuses_at_limit: false }; }
#[derive(Debug)]
pub(super) struct ShareError;
impl std::fmt::Display for ShareError { fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("x") } }
pub(super) trait Control { fn configure(&mut self, now: Nanos, c: StreamId, s: Share) -> Result<(), ShareError>; fn configure_group(&mut self, now: Nanos, c: GroupId, s: Share) -> Result<(), ShareError>; fn remove(&mut self, now: Nanos, c: StreamId) -> Result<(), ShareError>; fn set_capacity(&mut self, now: Nanos, c: u64) -> Result<(), ShareError>; }
pub(super) trait TenantsShim { fn tenants(&mut self) -> Option<&mut dyn Control>; }
impl TenantsShim for Policy { fn tenants(&mut self) -> Option<&mut dyn Control> { None } }
