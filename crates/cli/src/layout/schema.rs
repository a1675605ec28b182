//! JSON schemas of tables of keys.

use serde_json::{Map, Value, json};

/// A node of the schema: its types, its meaning, and what it holds.
#[derive(Default)]
struct Place {
    types: Vec<&'static str>,
    about: &'static str,
    /// The keys, and whether each is always there.
    keys: Vec<(&'static str, bool, Place)>,
    /// The schema of each element, for a list or a map.
    each: Option<Box<Place>>,
    is_map: bool,
    /// The schema of an object's keys that are not listed.
    rest: Option<Box<Place>>,
}

/// The schema of an object with these keys.
pub(super) fn object(keys: &'static str) -> Value {
    let mut root = Place { types: vec!["object"], ..Place::default() };
    for line in keys.lines().filter(|line| !line.is_empty()) {
        let (path, rest) = line.split_once(' ').unwrap_or((line, "any"));
        let (types, about) = rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), ""));
        let place = path.split('.').fold(&mut root, |place, step| place.at(step));
        place.types.extend(types.split('|'));
        place.about = about.trim();
    }
    root.schema()
}

/// The schema of a number, or of what stands in its place where there are several seeds.
pub(super) fn figure() -> Value {
    let interval = json!({
        "type": "object",
        "properties": {
            "mean": { "type": "number" },
            "half_width": { "type": ["number", "null"], "description": "of the interval of 95 %" },
            "seeds": { "type": "integer" },
        },
        "required": ["mean", "half_width", "seeds"],
    });
    json!({ "description": "a number, or its mean and interval over seeds", "anyOf": [{ "type": ["number", "null"] }, interval] })
}

impl Place {
    /// The place that a step of a path leads to: `key`, `key?`, `key[]`, `key{}`, several of the last two, or `*`: any other key.
    fn at(&mut self, step: &'static str) -> &mut Self {
        if step == "*" {
            return self.rest.get_or_insert_default();
        }
        let end = step.find(['[', '{', '?']).unwrap_or(step.len());
        let (name, rest) = step.split_at(end);
        let is_always = !rest.starts_with('?');
        let position = self.keys.iter().position(|(key, ..)| *key == name).unwrap_or_else(|| {
            self.keys.push((name, is_always, Self::default()));
            self.keys.len() - 1
        });
        let mut place = &mut self.keys[position].2;
        for sign in rest.chars().filter(|sign| matches!(sign, '[' | '{')) {
            place.is_map = sign == '{';
            place = place.each.get_or_insert_default();
        }
        place
    }

    fn schema(&self) -> Value {
        let mut types: Vec<&str> = self.types.clone();
        if self.each.is_some() {
            let container = if self.is_map { "object" } else { "array" };
            if !types.contains(&container) {
                types.insert(0, container);
            }
        }
        let mut schema = Map::new();
        if !self.about.is_empty() {
            schema.insert("description".into(), self.about.into());
        }
        match &types[..] {
            [] | ["any"] => {}
            ["figure"] => drop(schema.insert("$ref".into(), "#/$defs/figure".into())),
            [one] => drop(schema.insert("type".into(), (*one).into())),
            several => drop(schema.insert("type".into(), several.into())),
        }
        if let Some(each) = &self.each {
            schema.insert(if self.is_map { "additionalProperties" } else { "items" }.into(), each.schema());
        }
        if let Some(rest) = &self.rest {
            schema.insert("additionalProperties".into(), rest.schema());
        }
        if !self.keys.is_empty() {
            let of = |(key, _, place): &(&str, bool, Self)| ((*key).to_owned(), place.schema());
            schema.insert("properties".into(), self.keys.iter().map(of).collect::<Map<_, _>>().into());
            let always: Vec<&str> =
                self.keys.iter().filter(|(_, is_always, _)| *is_always).map(|(key, ..)| *key).collect();
            schema.insert("required".into(), always.into());
        }
        schema.into()
    }
}
