//! Assignments to keys of a running spec, such as `export.gold.weight=300`, with the same checks as a file.

use ioweir_config::{Complaint, Key, from_table, shown, to_table, unknown};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Value;

use super::difference::keys_of;
use crate::spec::{Export, Spec};

const EXPECTED: &str = "TABLE.NAME.KEY=VALUE, such as export.gold.weight=300, or server.KEY=VALUE";

/// Stands for the name of a removed export, so that no assignment can name it.
const REMOVED: &str = "\0";

fn name_if_present(export: &Export) -> &str {
    if export.is_removed { REMOVED } else { &export.name }
}

/// A parsed assignment.
struct Assignment<'a> {
    text: &'a str,
    table: &'static str,
    /// The number of the assignment's table among those of the same kind; zero for the server's own.
    number: usize,
    key: Key,
    value: &'a str,
}

/// Applies assignments to the spec: to keys of shares, to priorities, and to timeouts and the number of connections of `server`. The value
/// `none` removes a key.
///
/// # Errors
/// The wrong assignment, and why it is wrong, in words.
pub fn assign(spec: &Spec, assignments: &[String]) -> Result<Spec, String> {
    let parsed: Result<Vec<Assignment<'_>>, String> =
        assignments.iter().map(|text| Assignment::parse(spec, text)).collect();
    let parsed = parsed?;
    let mut changed = spec.clone();
    for (at, assignment) in parsed.iter().enumerate() {
        if parsed[..at].iter().any(|other| other.path() == assignment.path()) {
            return Err(format!("{}: assigned twice", shown(assignment.text)));
        }
        assignment.apply(&mut changed)?;
    }
    changed.checked().map_err(|complaint| blame(&parsed, complaint))
}

/// An error of the changed spec, with the assignments that caused it: those of its key, or else those of its table.
fn blame(parsed: &[Assignment<'_>], complaint: Complaint) -> String {
    let place = complaint.key().unwrap_or_default();
    let table = place.rsplit_once('.').map_or("", |(table, _)| table);
    let of_key = parsed.iter().filter(|assignment| assignment.path() == place);
    let of_table = parsed.iter().filter(|assignment| assignment.path().starts_with(&format!("{table}.")));
    let meant: [Vec<_>; 3] = [of_key.collect(), of_table.collect(), parsed.iter().collect()];
    let meant = meant.iter().find(|meant| !meant.is_empty()).map_or(&[][..], Vec::as_slice);
    let what = meant.iter().map(|assignment| shown(assignment.text)).collect::<Vec<_>>().join(" ");
    let hint = if complaint.advice().is_empty() { String::new() } else { format!("\n\nhint: {}", complaint.advice()) };
    format!("{what}: {}{hint}", complaint.problem())
}

fn not_an_assignment(text: &str) -> String {
    format!("{}: not an assignment\n  expected: {EXPECTED}", shown(text))
}

impl<'a> Assignment<'a> {
    fn parse(spec: &Spec, text: &'a str) -> Result<Self, String> {
        let (table, rest) = text.split_once('.').ok_or_else(|| not_an_assignment(text))?;
        let (table, names): (&'static str, Vec<&str>) = match table {
            "server" => return Self::of_key(text, "server", 0, rest),
            "export" => ("export", spec.export.iter().map(name_if_present).collect()),
            "tenant" => ("tenant", spec.tenant.iter().map(|tenant| tenant.name.as_str()).collect()),
            "service" => ("service", spec.service.keys().map(String::as_str).collect()),
            "group" => ("group", spec.group.iter().map(|group| group.name.as_str()).collect()),
            _ => {
                let error = unknown("table", table, &["export", "tenant", "group", "service", "server"], "");
                return Err(format!("{}: {error}", shown(text)));
            }
        };
        // A name may contain any character, including the separators of an assignment, so the longest name that fits is meant.
        let fits =
            |name: &&str| *name != REMOVED && rest.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')).is_some();
        let found = (0..).zip(&names).filter(|(_, name)| fits(name)).max_by_key(|(_, name)| name.len());
        let Some((number, name)) = found else {
            let name = rest.split_once('=').map_or(rest, |(left, _)| left);
            let name = name.rsplit_once('.').map_or(name, |(name, _)| name);
            let hint = match table {
                "export" => format!("`ioweir ctl SERVER export add {} device=DEVICE` adds it", shown(name)),
                _ => "such tables do not come while the server runs".into(),
            };
            let names: Vec<&str> = names.into_iter().filter(|name| *name != REMOVED).collect();
            let error = unknown(table, name, &names, &hint);
            return Err(format!("{}: {error}", shown(text)));
        };
        Self::of_key(text, table, number, &rest[name.len() + 1..])
    }

    fn of_key(text: &'a str, table: &'static str, number: usize, rest: &'a str) -> Result<Self, String> {
        let (name, value) = rest.split_once('=').ok_or_else(|| not_an_assignment(text))?;
        let keys = keys_of(table);
        let Some(key) = keys.iter().find(|key| key.name == name).copied() else {
            let names: Vec<_> = keys.iter().map(|key| key.name).collect();
            let error = unknown("key", name, &names, "other keys do not change while the server runs");
            return Err(format!("{}: {error}", shown(text)));
        };
        Ok(Self { text, table, number, key, value })
    }

    /// The path of the key in the spec, as errors have it.
    fn path(&self) -> String {
        let Self { table, number, key, .. } = self;
        match *table {
            "server" => format!("server.{}", key.name),
            "service" => {
                let name =
                    self.text.strip_prefix("service.").and_then(|rest| rest.split('.').next()).unwrap_or_default();
                format!("service.\"{name}\".{}", key.name)
            }
            _ => format!("{table}[{number}].{}", key.name),
        }
    }

    fn apply(&self, spec: &mut Spec) -> Result<(), String> {
        if self.table == "server" {
            return self.put(&mut spec.server);
        }
        let (export, tenant) = (spec.export.get_mut(self.number), spec.tenant.get_mut(self.number));
        match self.table {
            "export" => export.map_or(Ok(()), |export| self.put(export)),
            "tenant" => tenant.map_or(Ok(()), |tenant| self.put(tenant)),
            "service" => spec.service.values_mut().nth(self.number).map_or(Ok(()), |service| self.put(service)),
            _ => spec.group.get_mut(self.number).map_or(Ok(()), |group| self.put(group)),
        }
    }

    /// Puts the value in its place among other keys.
    fn put<T: Serialize + DeserializeOwned>(&self, keys: &mut T) -> Result<(), String> {
        let wrong = |error: &toml::de::Error| {
            let complaint = Complaint::of_toml(error, &[]);
            format!("{}: {}", shown(self.text), complaint.problem())
        };
        let mut table = to_table(keys).map_err(|error| format!("the spec cannot be written: {error}"))?;
        table.remove(self.key.name);
        if self.value != "none" {
            let value = self.value.parse().map_or_else(|_| Value::String(self.value.into()), Value::Integer);
            table.insert(self.key.name.into(), value);
        }
        *keys = from_table(&table).map_err(|error| wrong(&error))?;
        Ok(())
    }
}
