//! Classes of clients, which a scheduler serves by their shares: each export's own, and each tenant's.

use ioweir_core::tenant::{GroupId, Share, ShareError, TenantControl};
use ioweir_core::{Nanos, StreamId};

use ioweir_config::ShareKeys;

use super::{Export, Spec};

/// The weight of a class or group where none is given.
pub(super) const WEIGHT: u32 = 100;

/// What makes a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassKind {
    /// An export: whoever uses it and is no tenant.
    Export,
    /// A tenant: whoever uses its export with its certificate.
    Tenant,
}

impl ClassKind {
    /// The name of its table in a spec.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Export => "export",
            Self::Tenant => "tenant",
        }
    }
}

/// Clients that are scheduled as one. Its number, that is its place in [`Spec::classes`], is the stream that schedulers see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The name of the export or tenant; no two classes have the same.
    pub name: String,
    /// What it is made by.
    pub kind: ClassKind,
    /// The number of its export.
    pub export: usize,
    /// The number of its device.
    pub device: usize,
    /// A name that its clients' certificates bear.
    pub certificate: Option<String>,
    /// Clients that it may have at once.
    pub connections_max: Option<u32>,
}

/// The class of a client that has agreed on an export, having shown a certificate with these names: the first tenant of the
/// export whose name is among them, or else the export's own.
#[must_use]
pub fn class_of(classes: &[Class], export: usize, certificate_names: &[String]) -> usize {
    let is_its = |class: &Class| {
        let bears = class.certificate.as_ref().is_some_and(|name| certificate_names.contains(name));
        class.kind == ClassKind::Tenant && class.export == export && bears
    };
    // Exports come first, and each is a class of its own.
    classes.iter().position(is_its).unwrap_or(export)
}

/// Who can be entitled to something.
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
    /// The share cannot be had.
    pub fn configure(self, control: &mut dyn TenantControl, now: Nanos, share: Share) -> Result<(), ShareError> {
        match self {
            Self::Group(group) => control.configure_group(now, group, share),
            Self::Class(class) => control.configure(now, class, share),
        }
    }
}

impl Spec {
    /// The classes: exports, then tenants, in the order of the file.
    #[must_use]
    pub fn classes(&self) -> Vec<Class> {
        let exports = self.export.iter().enumerate().map(|(number, export)| Class {
            name: export.name.clone(),
            kind: ClassKind::Export,
            export: number,
            device: self.device_of(export),
            certificate: None,
            connections_max: export.connections_max,
        });
        let tenants = self.tenant.iter().filter_map(|tenant| {
            let export = self.export.iter().position(|export| export.name == tenant.export)?;
            Some(Class {
                name: tenant.name.clone(),
                kind: ClassKind::Tenant,
                export,
                device: self.device_of(self.export.get(export)?),
                certificate: Some(tenant.certificate.clone()),
                connections_max: tenant.connections_max,
            })
        });
        exports.chain(tenants).collect()
    }

    /// The number of an export's device. Specs are checked to have it.
    #[must_use]
    pub fn device_of(&self, export: &Export) -> usize {
        self.device.iter().position(|device| device.name == export.device).unwrap_or(0)
    }

    /// The share of a class; none where its scheduler knows no shares.
    #[must_use]
    pub fn share_of(&self, class: usize) -> Option<&ShareKeys> {
        let tenant = || self.tenant.get(class - self.export.len()).map(|tenant| &tenant.share);
        let share = self.export.get(class).map(|export| &export.share).or_else(tenant)?;
        share.weight.is_some().then_some(share)
    }

    /// What is to be configured in a device's scheduler, groups before those who are in them.
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
