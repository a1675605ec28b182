//! Services of a server: background work on a device, each a tenant of it with a share of its own.

use std::ops::Range;
use std::path::{Path, PathBuf};

use ioweir_config::{Complaint, Duration, IoPriority, KeySet as _, ShareKeys, Size, keys, shown};
use serde::{Deserialize, Serialize};

use super::check::within;
use super::{Backend, Device, Export, Spec};
use crate::backend::Relocates;

/// Discards that are carried out later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// The journal, if it outlives the server.
    pub journal: Option<PathBuf>,
}

/// The behaviour of a service without a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceDefault {
    /// The service rests.
    #[default]
    Rest,
    /// The service works, as its share allows.
    Run,
}

/// The kinds of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceKind {
    /// Reads all written data, and compares checksums.
    Scrub,
    /// Carries out discards that were answered before.
    Trim,
    /// Moves blocks between tiers.
    Relocate,
    /// Gives back the space of deleted snapshots.
    SnapshotDelete,
}

keys! {
    /// Background work of the server on a device, as a tenant of it: `[service.NAME]`, with a name of its own also among exports
    /// and tenants.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Service {
        /// what it does: `ioweir doc serve` lists the kinds
        kind: ServiceKind = required,
        /// the device that it works on
        device: String = required,
        /// what it does while no lease of `ioweir ctl SERVER service` or of a governor holds: "rest" or "run"
        default: ServiceDefault = (ServiceDefault::Rest),
        /// `scrub`: from one pass becoming due to the next; "7d" if absent
        every: Option<Duration> = absent,
        /// `scrub`: how long after a pass became due it should have ended; the state and the metrics say when it is late
        deadline: Option<Duration> = absent,
        /// `relocate`: percent of the fast tier that it keeps free, 1 to 90; 10 if absent
        margin: Option<u32> = absent,
        /// `relocate`: exports whose data belong on the fast tier however seldom they are used, the most important first: ["database"]
        first: Vec<String> = absent,
        /// requests of it that wait or are with the device at once, 1 to 64; 4 if absent, and 1 beside `idle_depth`
        depth: Option<u32> = absent,
        /// the most requests of clients, waiting or with the device, beside which it starts one of its own: 0 makes it an idle class; if
        /// absent, its share alone decides
        idle_depth: Option<u32> = absent,
        /// `scrub` and `relocate`: the longest of its requests; as long as those of clients if absent
        request_bytes_max: Option<Size> = absent,
        /// the file with what it must know after a restart; beside the device's file, as PATH.NAME.service, if absent, and needed
        /// for a device in /dev
        state: Option<PathBuf> = absent,
        /// I/O priority of its requests, as that of an export
        priority: Option<IoPriority> = absent,
        ..share: ShareKeys,
    }
}

/// A row of the table of kinds.
#[derive(Clone, Copy, Debug)]
pub struct ServiceRow {
    /// The kind.
    pub kind: ServiceKind,
    /// The value of the key `kind`.
    pub name: &'static str,
    /// One line that describes it.
    pub summary: &'static str,
    /// The keys of this kind that some other kinds do not take.
    pub keys: &'static [&'static str],
    /// Whether the service has state that must survive a restart, which it keeps in a file of its own.
    pub keeps_state: bool,
    /// The requirement of the service that a device does not meet, in words.
    pub lacks: fn(&Device) -> Option<&'static str>,
}

/// Every kind of service.
pub const SERVICES: &[ServiceRow] = &[
    ServiceRow {
        kind: ServiceKind::Scrub,
        name: "scrub",
        summary: "reads everything that was written once in `every`, and compares checksums where there are any",
        keys: &["every", "deadline", "request_bytes_max"],
        keeps_state: true,
        lacks: |_| None,
    },
    ServiceRow {
        kind: ServiceKind::Trim,
        name: "trim",
        summary: "discards of clients are answered as soon as a journal, its `state`, holds them, joined where they touch, and carried out \
                  by this service; at once where the journal is full",
        keys: &[],
        keeps_state: true,
        lacks: |device| device.read_only.then_some("a device that is written"),
    },
    ServiceRow {
        kind: ServiceKind::Relocate,
        name: "relocate",
        summary: "moves what is used often to the fast tier of a `tiered` device whose scheduler places data, and what is used least \
                  back, so that `margin` percent of the fast tier stay free",
        keys: &["margin", "first", "request_bytes_max"],
        keeps_state: false,
        lacks: |device| {
            let places = matches!(device.backend, Backend::Tiered { cache: None, .. });
            (!places).then_some("a tiered device whose scheduler places data")
        },
    },
    ServiceRow {
        kind: ServiceKind::SnapshotDelete,
        name: "snapshot-delete",
        summary: "gives back the space of deleted snapshots, 8 MiB at a time; a device with [device.snapshots] needs one",
        keys: &[],
        keeps_state: false,
        lacks: |device| device.snapshots.is_none().then_some("a device with [device.snapshots]"),
    },
];

/// Keys that only some kinds take.
const OWN_KEYS: [&str; 5] = ["every", "deadline", "margin", "first", "request_bytes_max"];
/// The percentage of the fast tier that a relocating service keeps free by default.
const MARGIN: u32 = 10;
/// The most requests of a service at once.
const DEPTH_MAX: u32 = 64;
/// The requests of a service at once by default.
const DEPTH: u32 = 4;
/// A request of a service is whole blocks.
const REQUEST_BYTES_MIN: u64 = 4 << 10;

impl ServiceKind {
    /// The row of this kind.
    ///
    /// # Panics
    /// Never: every kind has a row, which is a test.
    #[must_use]
    pub fn row(self) -> &'static ServiceRow {
        SERVICES.iter().find(|row| row.kind == self).expect("every kind has a row")
    }
}

impl ServiceRow {
    /// Whether the length of its requests can be set.
    #[must_use]
    pub fn has_request_length(&self) -> bool {
        self.keys.contains(&"request_bytes_max")
    }
}

impl Service {
    /// The most requests of it at once.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth.unwrap_or(if self.idle_depth.is_some() { 1 } else { DEPTH })
    }

    /// The file with the state that must survive a restart; `None` if the service has no such state, or its device ends with the server.
    #[must_use]
    pub fn state_path(&self, name: &str, device: &Device) -> Option<PathBuf> {
        let beside = || {
            let mut path = device.backend.main_path()?.as_os_str().to_os_string();
            path.push(format!(".{name}.service"));
            Some(path.into())
        };
        if self.kind.row().keeps_state { self.state.clone().or_else(beside) } else { None }
    }
}

impl Spec {
    /// The services of a device, by name.
    pub(crate) fn services_of<'a>(&'a self, device: &'a Device) -> impl Iterator<Item = (&'a String, &'a Service)> {
        self.service.iter().filter(|(_, service)| service.device == device.name)
    }

    /// Checks everything about services but their shares.
    pub(super) fn check_services(&mut self) -> Result<(), Complaint> {
        self.prepare_devices();
        for (name, service) in &self.service {
            let key = |key: &str| format!("service.\"{name}\".{key}");
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
            let is_taken = self.export.iter().any(|export| !export.is_removed && export.name == *name)
                || self.tenant.iter().any(|tenant| tenant.name == *name);
            if name.is_empty() || !name.chars().all(is_plain) || is_taken {
                let problem =
                    format!("service name `{}` is taken, or has other than letters, digits, - and _", shown(name));
                let expected = "a name of its own for each service, also among exports and tenants";
                return Err(Complaint::of_value(format!("service.\"{name}\""), problem).expected(expected));
            }
            within(&key("depth"), service.depth(), 1, DEPTH_MAX)?;
            let request_bytes = service.request_bytes_max.map_or(REQUEST_BYTES_MIN, |most| most.0);
            if request_bytes < REQUEST_BYTES_MIN || !request_bytes.is_multiple_of(REQUEST_BYTES_MIN) {
                let problem = "request_bytes_max: not a whole number of blocks of 4KiB";
                return Err(Complaint::of_value(key("request_bytes_max"), problem).expected("64KiB, for example"));
            }
            within(&key("margin"), service.margin.unwrap_or(MARGIN), 1, 90)?;
            let row = service.kind.row();
            let given = service.given();
            if let Some(own) = OWN_KEYS.iter().find(|own| given.contains(own) && !row.keys.contains(own)) {
                let problem = format!("{own}: a service of kind {} has none", row.name);
                return Err(Complaint::of_value(key(own), problem));
            }
            let spans = [("every", service.every), ("deadline", service.deadline)];
            if let Some((span, _)) = spans.iter().find(|(_, span)| span.is_some_and(|span| span.nanos().0 == 0)) {
                return Err(Complaint::of_value(key(span), format!("{span}: must be longer than nothing")));
            }
            let Some((_, device)) = self.device_named(&service.device) else { continue };
            if let Some(what) = (row.lacks)(device) {
                let problem =
                    format!("kind: {} needs {what}, and device {} is not that", row.name, shown(&device.name));
                return Err(Complaint::of_value(key("kind"), problem));
            }
            self.check_state(name, service, device)?;
            self.check_first(name, service)?;
            let twice = |(other, its): (&String, &Service)| other < name && its.kind == service.kind;
            if self.services_of(device).any(twice) {
                let problem =
                    format!("kind: device {} has a service of kind {} already", shown(&device.name), row.name);
                return Err(Complaint::of_value(key("kind"), problem).expected("one of each kind for a device"));
            }
        }
        self.check_debts()
    }

    /// Refuses devices with a debt that nothing would ever pay.
    fn check_debts(&self) -> Result<(), Complaint> {
        for (number, device) in self.present_devices() {
            let has = |kind| self.services_of(device).any(|(_, service)| service.kind == kind);
            if device.snapshots.is_some() && !has(ServiceKind::SnapshotDelete) {
                let problem = "snapshots: nothing would give back the space of those that are deleted";
                let complaint = Complaint::of_value(format!("device[{number}].snapshots"), problem);
                return Err(complaint.expected("a service of kind snapshot-delete for it").hint(format!(
                    "add [service.deletes] with kind = \"snapshot-delete\", device = \"{}\" and default = \"run\"",
                    shown(&device.name)
                )));
            }
        }
        Ok(())
    }

    /// Sets the keys of devices that follow from their services.
    fn prepare_devices(&mut self) {
        let Self { device, service, export, .. } = self;
        for device in device {
            let of_kind = |kind| service.iter().find(|(_, its)| its.kind == kind && its.device == device.name);
            let relocates = of_kind(ServiceKind::Relocate);
            device.relocates = relocates.map(|(_, service)| Relocates {
                margin_percent: service.margin.unwrap_or(MARGIN),
                first: service.first.iter().filter_map(|name| slice_of(export, name)).collect(),
            });
            let trims = of_kind(ServiceKind::Trim);
            device.late = trims.map(|(name, service)| Late { journal: service.state_path(name, device) });
        }
    }

    fn check_first(&self, name: &str, service: &Service) -> Result<(), Complaint> {
        for (number, export) in service.first.iter().enumerate() {
            let shown_by = self.present_exports().find(|(_, its)| its.name == *export).map(|(_, its)| its);
            let problem = match shown_by {
                None => format!("there is no export {}", shown(export)),
                Some(its) if its.device != service.device => {
                    format!("export {} shows the device {}", shown(export), shown(&its.device))
                }
                Some(its) if its.volume.is_some() => {
                    format!("export {} shows a volume, whose place on the device may change", shown(export))
                }
                Some(_) if service.first[..number].contains(export) => {
                    format!("export {} is named twice", shown(export))
                }
                Some(_) => continue,
            };
            let expected = format!("exports of the device {}, each once", shown(&service.device));
            return Err(Complaint::of_value(format!("service.\"{name}\".first"), problem).expected(expected));
        }
        Ok(())
    }

    fn check_state(&self, name: &str, service: &Service, device: &Device) -> Result<(), Complaint> {
        let key = format!("service.\"{name}\".state");
        let row = service.kind.row();
        if service.state.is_some() && !row.keeps_state {
            let problem = format!("state: a service of kind {} keeps nothing in a file of its own", row.name);
            return Err(Complaint::of_value(key, problem));
        }
        let Some(path) = service.state_path(name, device) else { return Ok(()) };
        if service.state.is_none() && path.starts_with("/dev") {
            let place = format!("service.\"{name}\".device");
            let problem =
                format!("state: it must know something after a restart, and {} is no place for a file", path.display());
            return Err(
                Complaint::of_value(place, problem).expected("state = \"PATH\" beside it, in a folder that stays")
            );
        }
        let of_services = self.service.iter().filter(|(other, _)| other.as_str() < name);
        let of_services =
            of_services.filter_map(|(other, its)| its.state_path(other, self.device_named(&its.device)?.1));
        let mut taken = self.present_devices().flat_map(|(_, device)| device.backend.paths()).chain(of_services);
        if taken.any(|other| other == path) {
            let problem = format!("file {} is used already", path.display());
            return Err(Complaint::of_value(key, problem).expected("a file of its own for each service"));
        }
        Ok(())
    }
}

/// The bytes of its device that an export shows.
fn slice_of(exports: &[Export], name: &str) -> Option<Range<u64>> {
    let export = exports.iter().find(|export| !export.is_removed && export.name == name)?;
    let from = export.offset.map_or(0, |offset| offset.0);
    Some(from..export.size.map_or(u64::MAX, |size| from.saturating_add(size.0)))
}

impl Backend {
    pub(crate) fn file(&self) -> Option<&Path> {
        if let Self::File { path, .. } = self { Some(path) } else { None }
    }

    /// The file beside which files that belong to the device lie; `None` if it has none that outlives the server.
    #[must_use]
    pub fn main_path(&self) -> Option<PathBuf> {
        match self {
            Self::File { path, .. } => Some(path.clone()),
            Self::Tiered { slow, map, .. } => map.clone().or_else(|| slow.backend.main_path()),
            Self::Joined { part } => part.iter().find_map(|part| part.backend.main_path()),
            _ => None,
        }
    }

    /// The files that hold the data of the device, or of its parts.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.leaves().into_iter().filter_map(Self::file).map(PathBuf::from).collect()
    }
}
