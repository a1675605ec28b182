//! Classes, which a scheduler serves by their shares: one for each export, each tenant and each service.

use ioweir_core::tenant::{GroupId, Share, ShareError, TenantControl};
use ioweir_core::{Nanos, Priority, StreamId};

use ioweir_config::{IoPriority, ShareKeys};

use super::{Export, Spec};

/// The weight of a class or group if none is given.
pub(super) const WEIGHT: u32 = 100;

/// The kinds of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassKind {
    /// The clients of an export that belong to no tenant.
    Export,
    /// The clients of an export that have a tenant's certificate.
    Tenant,
    /// Background work of the server.
    Service,
}

impl ClassKind {
    /// The name of its table in a spec.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Export => "export",
            Self::Tenant => "tenant",
            Self::Service => "service",
        }
    }
}

/// Clients that are scheduled as one, or a service. The number of a class, its position in [`Spec::classes`], is the stream that
/// schedulers see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The name of the export or tenant; no two classes have the same.
    pub name: String,
    /// Whether the class is an export, a tenant or a service.
    pub kind: ClassKind,
    /// The number of its export, unless it is a service.
    pub export: Option<usize>,
    /// The number of its device.
    pub device: usize,
    /// A name in the certificates of its clients.
    pub certificate: Option<String>,
    /// The most clients that it may have at once.
    pub connections_max: Option<u32>,
    /// The priority of its requests.
    pub priority: Priority,
    /// Whether its export was removed while the server ran.
    pub is_removed: bool,
}

/// The class of a client that has agreed on an export and shown a certificate with these names: the first tenant of the
/// export with one of these names, or else the export's own class.
#[must_use]
pub fn class_of(classes: &[Class], export: usize, certificate_names: &[String]) -> usize {
    let is_its = |class: &Class| {
        let bears = class.certificate.as_ref().is_some_and(|name| certificate_names.contains(name));
        class.kind == ClassKind::Tenant && class.export == Some(export) && bears
    };
    let is_own = |class: &Class| class.kind == ClassKind::Export && class.export == Some(export);
    classes.iter().position(is_its).or_else(|| classes.iter().position(is_own)).unwrap_or(export)
}

/// The owner of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A group, by its number among those of the device.
    Group(GroupId),
    /// A class, by its number in the spec.
    Class(StreamId),
}

impl Holder {
    /// Gives the holder a share.
    ///
    /// # Errors
    /// If the share is not feasible.
    pub fn configure(self, control: &mut dyn TenantControl, now: Nanos, share: Share) -> Result<(), ShareError> {
        match self {
            Self::Group(group) => control.configure_group(now, group, share),
            Self::Class(class) => control.configure(now, class, share),
        }
    }
}

impl Spec {
    /// The classes: exports, then tenants, in the order of the file, then services by name, and then exports that were added while the
    /// server runs.
    #[must_use]
    pub fn classes(&self) -> Vec<Class> {
        self.with_shares().map(|(class, _)| class).collect()
    }

    /// The classes with their shares.
    fn with_shares(&self) -> impl Iterator<Item = (Class, &ShareKeys)> {
        let known = |priority: Option<IoPriority>| priority.map_or(Priority::NONE, |priority| priority.0);
        let exports = move |range: std::ops::Range<usize>| {
            self.export.iter().enumerate().skip(range.start).take(range.len()).map(move |(number, export)| {
                let class = Class {
                    name: export.name.clone(),
                    kind: ClassKind::Export,
                    export: Some(number),
                    device: self.device_of(export),
                    certificate: None,
                    connections_max: export.connections_max,
                    priority: known(export.priority),
                    is_removed: export.is_removed,
                };
                (class, &export.share)
            })
        };
        let tenants = self.tenant.iter().filter_map(move |tenant| {
            let (export, of_export) = self.present_exports().find(|(_, export)| export.name == tenant.export)?;
            let class = Class {
                name: tenant.name.clone(),
                kind: ClassKind::Tenant,
                export: Some(export),
                device: self.device_of(of_export),
                certificate: Some(tenant.certificate.clone()),
                connections_max: tenant.connections_max,
                priority: known(tenant.priority.or(of_export.priority)),
                is_removed: false,
            };
            Some((class, &tenant.share))
        });
        let services = self.service.iter().map(move |(name, service)| {
            let class = Class {
                name: name.clone(),
                kind: ClassKind::Service,
                export: None,
                device: self.device_named(&service.device).map_or(0, |(number, _)| number),
                certificate: None,
                connections_max: None,
                priority: known(service.priority),
                is_removed: false,
            };
            (class, &service.share)
        });
        let (first, all) = (self.exports_at_start.min(self.export.len()), self.export.len());
        exports(0..first).chain(tenants).chain(services).chain(exports(first..all))
    }

    /// The numbers of the classes of a device.
    #[must_use]
    pub fn classes_of(&self, device: usize) -> Vec<StreamId> {
        // Counted from zero, in a spec of a few megabytes.
        let numbered = (0..).map(StreamId).zip(self.with_shares());
        numbered.filter(|(_, (class, _))| class.device == device).map(|(number, _)| number).collect()
    }

    /// The priority of each class.
    #[must_use]
    pub fn priorities(&self) -> Vec<Priority> {
        self.classes().into_iter().map(|class| class.priority).collect()
    }

    /// The number of an export's device, which a checked spec always has.
    #[must_use]
    pub fn device_of(&self, export: &Export) -> usize {
        let named = || self.device_named(&export.device).map_or(0, |(number, _)| number);
        export.lost_device.unwrap_or_else(named)
    }

    /// The share of a class; `None` if its scheduler has no shares.
    #[must_use]
    pub fn share_of(&self, class: usize) -> Option<&ShareKeys> {
        let (class, share) = self.with_shares().nth(class)?;
        (share.weight.is_some() && !class.is_removed).then_some(share)
    }

    /// The shares to configure in a device's scheduler, groups before their members. In a fleet, classes get their parts on this server.
    #[must_use]
    pub fn entitlements(&self, device: usize) -> Vec<(Holder, Share)> {
        let part = |(holder, share): (Holder, Share)| match holder {
            Holder::Class(class) => (holder, self.parts.get(&class.0).map_or(share, |part| part.of(share))),
            Holder::Group(_) => (holder, share),
        };
        self.configured(device).into_iter().map(part).collect()
    }

    /// The shares of a device's groups and classes as the spec says.
    #[must_use]
    pub(crate) fn configured(&self, device: usize) -> Vec<(Holder, Share)> {
        let Some(on) = self.device.get(device) else { return Vec::new() };
        let its: Vec<_> = self.group.iter().filter(|group| group.device == on.name).collect();
        let number = |name: &String| (0..).map(GroupId).zip(&its).find(|(_, group)| group.name == *name);
        let groups = (0..).map(GroupId).zip(&its).map(|(id, group)| (Holder::Group(id), group.share.share(WEIGHT)));
        // Counted from zero, in a spec of a few megabytes.
        let classes = (0..).map(StreamId).zip(self.with_shares()).filter(|(_, (class, _))| class.device == device);
        let classes = classes.filter(|(_, (_, keys))| keys.weight.is_some()).map(|(id, (class, keys))| {
            let group = keys.group.as_ref().and_then(number).map(|(id, _)| id);
            // A removed class has no reservation that would keep others from theirs.
            let share = if class.is_removed { Share::weighted(WEIGHT) } else { Share { group, ..keys.share(WEIGHT) } };
            (Holder::Class(id), share)
        });
        groups.chain(classes).collect()
    }
}
