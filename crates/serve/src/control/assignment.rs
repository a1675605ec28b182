//! What does `export.gold.weight=300` make of a spec? The same as if it stood in the file, judged by the same checks.

use std::ops::Range;

use ioweir_config::shown;
use ioweir_config::unknown;
use toml::{Table, Value};

use super::difference::{SERVER_KEYS, keys_of};
use crate::spec::Spec;

const EXPECTED: &str = "TABLE.NAME.KEY=VALUE, such as export.gold.weight=300, or server.KEY=VALUE";

/// Where an assignment goes.
struct Target<'a> {
    text: &'a str,
    table: &'static str,
    /// Which of the tables of this name; for the server's own, zero.
    number: usize,
    key: &'a str,
    value: &'a str,
}

/// The spec with these assignments made: keys of shares, `group`, and timeouts and the number of connections of `server`.
/// The value `none` takes a key away.
///
/// # Errors
/// Which assignment is wrong, and why, in words for people.
pub fn assign(spec: &Spec, assignments: &[String]) -> Result<Spec, String> {
    let targets: Result<Vec<Target<'_>>, String> = assignments.iter().map(|text| Target::find(spec, text)).collect();
    let targets = targets?;
    for (at, target) in targets.iter().enumerate() {
        if targets[..at].iter().any(|other| other.is_same(target)) {
            return Err(format!("{}: assigned twice", shown(target.text)));
        }
    }
    let mut table = Table::try_from(spec).map_err(|error| format!("the spec cannot be written: {error}"))?;
    for target in &targets {
        let Some(keys) = target.keys_in(&mut table) else { return Err(unheard(target.text)) };
        match target.value {
            "none" => drop(keys.remove(target.key)),
            value => {
                let value = value.parse().map_or_else(|_| Value::String(value.into()), Value::Integer);
                keys.insert(target.key.into(), value);
            }
        }
    }
    let text = toml::to_string(&table).map_err(|error| format!("the spec cannot be written: {error}"))?;
    let parsed = Spec::parse(&spec.file, &text).map_err(|error| {
        // The place is one in the text above, which nobody has seen: what was assigned there is told instead.
        let line = error.position.map_or(0, |(line, _)| line);
        let at_line: Vec<_> = targets.iter().filter(|target| target.line_in(&text) == Some(line)).collect();
        let in_table: Vec<_> = targets.iter().filter(|target| target.lines_in(&text).contains(&line)).collect();
        let meant = [at_line, in_table, targets.iter().collect()].into_iter().find(|meant| !meant.is_empty());
        let meant = meant.unwrap_or_default();
        let what = meant.iter().map(|target| shown(target.text)).collect::<Vec<_>>().join(" ");
        let hint = if error.hint.is_empty() { String::new() } else { format!("\n\nhint: {}", error.hint) };
        format!("{what}: {}{hint}", error.problem)
    })?;
    Ok(parsed)
}

fn unheard(text: &str) -> String {
    format!("{}: not an assignment\n  expected: {EXPECTED}", shown(text))
}

impl<'a> Target<'a> {
    fn find(spec: &Spec, text: &'a str) -> Result<Self, String> {
        let (table, rest) = text.split_once('.').ok_or_else(|| unheard(text))?;
        let names: Vec<&str> = match table {
            "server" => {
                let (key, value) = rest.split_once('=').ok_or_else(|| unheard(text))?;
                let target = Target { text, table: "server", number: 0, key, value };
                return target.with_key(&SERVER_KEYS);
            }
            "export" => spec.export.iter().map(|export| export.name.as_str()).collect(),
            "tenant" => spec.tenant.iter().map(|tenant| tenant.name.as_str()).collect(),
            "group" => spec.group.iter().map(|group| group.name.as_str()).collect(),
            _ => {
                let error = unknown("table", table, &["export", "tenant", "group", "server"], "");
                return Err(format!("{}: {error}", shown(text)));
            }
        };
        let table = ["export", "tenant", "group"].into_iter().find(|known| *known == table).unwrap_or("export");
        // A name may hold anything, also what parts an assignment: the longest that fits is meant.
        let fits = |name: &&str| rest.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')).is_some();
        let found = (0..).zip(&names).filter(|(_, name)| fits(name)).max_by_key(|(_, name)| name.len());
        let Some((number, name)) = found else {
            let name = rest.split_once('=').map_or(rest, |(left, _)| left);
            let name = name.rsplit_once('.').map_or(name, |(name, _)| name);
            let error = unknown(table, name, &names, "such tables do not come while the server runs");
            return Err(format!("{}: {error}", shown(text)));
        };
        let (key, value) = rest[name.len() + 1..].split_once('=').ok_or_else(|| unheard(text))?;
        Target { text, table, number, key, value }.with_key(&keys_of(table))
    }

    fn with_key(self, keys: &[&str]) -> Result<Self, String> {
        if keys.contains(&self.key) {
            return Ok(self);
        }
        let error = unknown("key", self.key, keys, "other keys do not change while the server runs");
        Err(format!("{}: {error}", shown(self.text)))
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.table, self.number, self.key) == (other.table, other.number, other.key)
    }

    fn keys_in<'t>(&self, table: &'t mut Table) -> Option<&'t mut Table> {
        match table.get_mut(self.table)? {
            Value::Table(keys) => Some(keys),
            Value::Array(tables) => tables.get_mut(self.number)?.as_table_mut(),
            _ => None,
        }
    }

    /// The lines of its table in a printed spec, from 1.
    fn lines_in(&self, text: &str) -> Range<usize> {
        let head = if self.table == "server" { "[server]".to_string() } else { format!("[[{}]]", self.table) };
        let mut heads = text.lines().enumerate().filter(|(_, line)| *line == head).map(|(number, _)| number);
        let Some(begin) = heads.nth(self.number) else { return 0..0 };
        let length = text.lines().skip(begin + 1).take_while(|line| !line.starts_with('[')).count();
        begin + 1..begin + 2 + length
    }

    /// The line in which it stands in a printed spec, from 1.
    fn line_in(&self, text: &str) -> Option<usize> {
        let key = format!("{} = ", self.key);
        let lines = self.lines_in(text);
        let found =
            text.lines().skip(lines.start.saturating_sub(1)).take(lines.len()).position(|line| line.starts_with(&key));
        found.map(|at| lines.start + at)
    }
}
