//! The keys in which two specs differ, and whether a running server can change from one to the other.

use std::fmt;

use ioweir_config::{Key, KeySet as _, ShareKeys, to_table};
use toml::{Table, Value};

use crate::spec::{DeviceKeys, Export, Server, Service, Spec};

/// Keys of `server` that can change while it runs.
const SERVER_KEYS: [&str; 7] = [
    "connections_max",
    "connections_per_peer_max",
    "handshake_timeout",
    "stall_timeout",
    "reading_rate_min",
    "idle_timeout",
    "shutdown_timeout",
];

/// Keys of tables of this name that can change while the server runs.
pub(super) fn keys_of(table: &str) -> Vec<Key> {
    match table {
        "group" => ShareKeys::keys().into_iter().filter(|key| key.name != "group").collect(),
        "export" | "tenant" => {
            let live = ["priority", "size"];
            let own = Export::keys().into_iter().filter(|key| live.contains(&key.name));
            own.filter(|key| table == "export" || key.name == "priority").chain(ShareKeys::keys()).collect()
        }
        "service" => Service::keys()
            .into_iter()
            .filter(|key| !["kind", "device", "state", "margin", "first"].contains(&key.name))
            .collect(),
        "device" => DeviceKeys::keys().into_iter().filter(|key| key.name == "size").collect(),
        "server" => Server::keys().into_iter().filter(|key| SERVER_KEYS.contains(&key.name)).collect(),
        _ => Vec::new(),
    }
}

/// The differences, key by key: `export.gold.weight 100 -> 300`.
///
/// # Errors
/// A key that cannot change while a server runs.
pub fn differences(old: &Spec, new: &Spec) -> Result<Vec<String>, String> {
    let table = |spec: &Spec| to_table(spec).map_err(|error| format!("the spec cannot be written: {error}"));
    let (old, new) = (table(&old.as_file())?, table(&new.as_file())?);
    let none = Value::Array(Vec::new());
    let mut found = Vec::new();
    for name in ["server", "cores", "device", "group", "export", "tenant", "fleet"] {
        let of = |table: &Table| table.get(name).cloned().unwrap_or_else(|| none.clone());
        match (of(&old), of(&new)) {
            (Value::Table(old), Value::Table(new)) => compare(name, name, &old, &new, &mut found)?,
            (Value::Array(old), Value::Array(new)) if ["device", "export"].contains(&name) => {
                compare_moving(name, &old, &new, &mut found)?;
            }
            (Value::Array(old), Value::Array(new)) => compare_all(name, &old, &new, &mut found)?,
            _ => return Err(format!("{name}: such a table can be neither added nor removed while the server runs")),
        }
    }
    let services = |table: &Table| table.get("service").and_then(Value::as_table).cloned().unwrap_or_default();
    let named = |(name, value): (String, Value)| {
        let mut table = value.as_table().cloned().unwrap_or_default();
        table.insert("name".into(), Value::String(name));
        Value::Table(table)
    };
    let [old, new] = [services(&old), services(&new)].map(|all| all.into_iter().map(named).collect::<Vec<_>>());
    compare_all("service", &old, &new, &mut found)?;
    Ok(found)
}

/// Compares exports or devices, which can be added and removed; the others keep their order.
fn compare_moving(table: &str, old: &[Value], new: &[Value], found: &mut Vec<String>) -> Result<(), String> {
    let name = |value: &Value| value.get("name").and_then(Value::as_str).unwrap_or_default().to_string();
    let has = |values: &[Value], its: &Value| values.iter().any(|other| name(other) == name(its));
    let (left, stay): (Vec<Value>, Vec<Value>) = old.iter().cloned().partition(|its| !has(new, its));
    let (came, stayed): (Vec<Value>, Vec<Value>) = new.iter().cloned().partition(|its| !has(old, its));
    found.extend(left.iter().map(|its| format!("{table}.{} is removed", name(its))));
    found.extend(came.iter().map(|its| format!("{table}.{} is added", name(its))));
    compare_all(table, &stay, &stayed, found)
}

fn compare_all(table: &str, old: &[Value], new: &[Value], found: &mut Vec<String>) -> Result<(), String> {
    let names = |values: &[Value]| -> Vec<String> {
        let name = |value: &Value| value.get("name").and_then(Value::as_str).unwrap_or_default().to_string();
        values.iter().map(name).collect()
    };
    let (old_names, new_names) = (names(old), names(new));
    let stays = "does not change while the server runs";
    if let Some(name) = new_names.iter().find(|name| !old_names.contains(name)) {
        return Err(format!("{table} {name} is new: which ones there are {stays}"));
    }
    if let Some(name) = old_names.iter().find(|name| !new_names.contains(name)) {
        return Err(format!("{table} {name} is missing: which ones there are {stays}"));
    }
    if old_names != new_names {
        return Err(format!("the order of the tables `{table}` {stays}"));
    }
    for ((name, old), new) in old_names.iter().zip(old).zip(new) {
        if let (Value::Table(old), Value::Table(new)) = (old, new) {
            compare(table, &format!("{table}.{name}"), old, new, found)?;
        }
    }
    Ok(())
}

fn compare(table: &str, path: &str, old: &Table, new: &Table, found: &mut Vec<String>) -> Result<(), String> {
    let live = keys_of(table);
    let more = new.keys().filter(|key| !old.contains_key(*key));
    for key in old.keys().chain(more) {
        let (before, after) = (old.get(key), new.get(key));
        if before == after {
            continue;
        }
        // The slow tier of a device, too, has a length that can change while the server runs.
        if let ("device", "slow", Some(Value::Table(before)), Some(Value::Table(after))) =
            (table, key.as_str(), before, after)
        {
            compare("device", &format!("{path}.{key}"), before, after, found)?;
            continue;
        }
        let what = format!("{path}.{key} {} -> {}", Shown(before), Shown(after));
        if !live.iter().any(|live| live.name == key) {
            return Err(format!("{what}: this does not change while the server runs"));
        }
        found.push(what);
    }
    Ok(())
}

/// A value as it is written on the command line.
struct Shown<'a>(Option<&'a Value>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => out.write_str("none"),
            Some(Value::String(text)) => out.write_str(text),
            Some(value) => write!(out, "{value}"),
        }
    }
}
