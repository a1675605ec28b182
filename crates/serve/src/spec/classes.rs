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
    /// Its kind.
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
}

/// The class of a client that has agreed on an export and shown a certificate with these names: the first tenant of the
/// export with one of these names, or else the export's own class.
#[must_use]
pub fn class_of(classes: &[Class], export: usize, certificate_names: &[String]) -> usize {
    let is_its = |class: &Class| {
        let bears = class.certificate.as_ref().is_some_and(|name| certificate_names.contains(name));
        class.kind == ClassKind::Tenant && class.export == Some(export) && bears
    };
    // Exports come first, and each is a class of its own.
    classes.iter().position(is_its).unwrap_or(export)
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
    /// Gives it a share.
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
    /// The classes: exports, then tenants, in the order of the file, then services by name.
    #[must_use]
    pub fn classes(&self) -> Vec<Class> {
        let known = |priority: Option<IoPriority>| priority.map_or(Priority::NONE, |priority| priority.0);
        let exports = self.export.iter().enumerate().map(|(number, export)| Class {
            name: export.name.clone(),
            kind: ClassKind::Export,
            export: Some(number),
            device: self.device_of(export),
            certificate: None,
            connections_max: export.connections_max,
            priority: known(export.priority),
        });
        let tenants = self.tenant.iter().filter_map(|tenant| {
            let export = self.export.iter().position(|export| export.name == tenant.export)?;
            let of_export = self.export.get(export)?;
            Some(Class {
                name: tenant.name.clone(),
                kind: ClassKind::Tenant,
                export: Some(export),
                device: self.device_of(of_export),
                certificate: Some(tenant.certificate.clone()),
                connections_max: tenant.connections_max,
                priority: known(tenant.priority.or(of_export.priority)),
            })
        });
        let services = self.service.iter().map(|(name, service)| Class {
            name: name.clone(),
            kind: ClassKind::Service,
            export: None,
            device: self.device.iter().position(|device| device.name == service.device).unwrap_or(0),
            certificate: None,
            connections_max: None,
            priority: known(service.priority),
        });
        exports.chain(tenants).chain(services).collect()
    }

    /// The priority of each class.
    #[must_use]
    pub fn priorities(&self) -> Vec<Priority> {
        self.classes().into_iter().map(|class| class.priority).collect()
    }

    /// The number of an export's device, which a checked spec always has.
    #[must_use]
    pub fn device_of(&self, export: &Export) -> usize {
        self.device.iter().position(|device| device.name == export.device).unwrap_or(0)
    }

    /// The share of a class; `None` if its scheduler has no shares.
    #[must_use]
    pub fn share_of(&self, class: usize) -> Option<&ShareKeys> {
        let exports = self.export.iter().map(|export| &export.share);
        let tenants = self.tenant.iter().map(|tenant| &tenant.share);
        let services = self.service.values().map(|service| &service.share);
        let share = exports.chain(tenants).chain(services).nth(class)?;
        share.weight.is_some().then_some(share)
    }

    /// The shares to configure in a device's scheduler, groups before their members.
    #[must_use]
    pub fn entitlements(&self, device: usize) -> Vec<(Holder, Share)> {
        let Some(on) = self.device.get(device) else { return Vec::new() };
        let its: Vec<_> = self.group.iter().filter(|group| group.device == on.name).collect();
        let number = |name: &String| (0..).map(GroupId).zip(&its).find(|(_, group)| group.name == *name);
        let groups = (0..).map(GroupId).zip(&its).map(|(id, group)| (Holder::Group(id), group.share.share(WEIGHT)));
        let classes = self.classes().into_iter().enumerate().filter(|(_, class)| class.device == device);
        let classes = classes.filter_map(|(class, _)| {
            let keys = self.share_of(class)?;
            let group = keys.group.as_ref().and_then(number).map(|(id, _)| id);
            let share = Share { group, ..keys.share(WEIGHT) };
            // Counted from zero, in a spec of a few megabytes.
            Some((Holder::Class(StreamId(class as u32)), share))
        });
        groups.chain(classes).collect()
    }
}
