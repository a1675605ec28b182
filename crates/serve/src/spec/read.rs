//! Reads a spec: the keys of the file, the devices made of them, and the checks.

use std::collections::BTreeMap;

use ioweir_config::{Complaint, KeySet as _, SpecError, keys};

use super::device::{self, DeviceKeys};
use super::{Export, Fleet, Group, Server, Service, Spec, Tenant, Workers};

keys! {
    /// The keys of a file.
    struct File {
        /// the server as a whole
        server: Option<Server> = absent,
        /// the workers of all devices
        cores: Option<Workers> = absent,
        /// the devices
        device: Vec<DeviceKeys> = absent,
        /// groups of classes
        group: Vec<Group> = absent,
        /// what clients can ask for by name
        export: Vec<Export> = absent,
        /// clients that are recognised within an export
        tenant: Vec<Tenant> = absent,
        /// background work of the server
        service: BTreeMap<String, Service> = (BTreeMap::new()),
        /// the fleet that it is one of
        fleet: Option<Fleet> = absent,
    }
}

pub(super) fn parse(file: &str, text: &str) -> Result<Spec, SpecError> {
    let read = toml::from_str(text).map_err(|error| Complaint::of_toml(&error, HINTS));
    let spec = read.and_then(resolve).map_err(|complaint| complaint.in_file(file, Some(text)))?;
    Ok(Spec { file: file.into(), ..spec })
}

/// Hints for errors of the TOML reader; of several that fit, the first is shown.
pub(super) const HINTS: &[(&str, &str)] = &[
    ("unknown field", "`ioweir doc serve` lists the keys"),
    ("missing field", "`ioweir doc serve` lists the keys"),
    ("with a unit", "sizes, times and rates are text with a unit: \"64KiB\", \"10ms\", \"500/s\", \"10MiB/s\""),
];

fn resolve(file: File) -> Result<Spec, Complaint> {
    let File { server, cores, device, group, export, tenant, service, fleet } = file;
    let server = match server {
        Some(server) => server,
        None => Server::finish(<_>::default()).map_err(|error| Complaint::of_toml(&error, HINTS))?,
    };
    let device = device::resolve_all(device, &group, cores.as_ref())?;
    let exports_at_start = export.len();
    let parts = BTreeMap::new();
    let file = String::new();
    Spec { file, server, cores, device, group, export, tenant, service, fleet, parts, exports_at_start }.checked()
}
