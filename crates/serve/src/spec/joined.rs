//! Devices of several parts under one scheduler.

use ioweir_config::{Complaint, KeySet as _, keys, shown};
use serde::Serialize;

use super::backends::{BACKENDS, Backend};
use super::device::{BackendKeys, check_keys, find_row, resolve_backend};

/// The most parts of a device.
const PARTS_MAX: usize = 64;

/// A part of a joined device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The name by which exports show it.
    pub name: String,
    /// The backend of the part, which is not composed of others.
    #[serde(flatten)]
    pub backend: Backend,
}

keys! {
    /// A part as the file has it.
    #[derive(Clone, Debug)]
    pub struct PartKeys {
        /// the name by which exports show it, a name of its own in the device
        name: String = required,
        /// what it is made of: file, nbd, memory, null, emulated or faulty
        backend: String = required,
        ..of: BackendKeys,
    }
}

/// Makes the backend of a device of these parts, which is at `at`.
pub(super) fn resolve(parts: Vec<PartKeys>, at: &str) -> Result<Backend, Complaint> {
    if !(1..=PARTS_MAX).contains(&parts.len()) {
        let problem = format!("part: there are {}", parts.len());
        let expected = format!("1 to {PARTS_MAX} tables [[device.part]]");
        return Err(Complaint::of_value(format!("{at}.part"), problem).expected(expected));
    }
    let mut resolved: Vec<Part> = Vec::new();
    for (number, keys) in parts.into_iter().enumerate() {
        let at = format!("{at}.part[{number}]");
        let row = find_row(&keys.backend, &at)?;
        if row.is_made_of_others() {
            let problem = format!("backend {} is no part of another device", row.name);
            return Err(Complaint::of_value(format!("{at}.backend"), problem).expected("such as file or emulated"));
        }
        check_keys(&keys.given(), row, &at)?;
        let name = keys.name.clone();
        if name.is_empty() || resolved.iter().any(|other| other.name == name) {
            let problem = format!("part name `{}` is empty or taken", shown(&name));
            let complaint = Complaint::of_value(format!("{at}.name"), problem);
            return Err(complaint.expected("a name of its own for each part of the device"));
        }
        resolved.push(Part { name, backend: resolve_backend(keys.of, row, &at)? });
    }
    Ok(Backend::Joined { part: resolved })
}

/// The default depth of all parts together, which is that of the deepest part.
pub(super) fn depth(parts: &[Part]) -> u32 {
    let of = |part: &Part| BACKENDS.iter().find(|row| row.name == part.backend.name()).map_or(1, |row| row.depth);
    parts.iter().map(of).max().unwrap_or(1)
}
