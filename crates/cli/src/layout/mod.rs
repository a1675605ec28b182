//! The layout of every JSON output, of which `ioweir doc json` and JSON schemas are made.
//!
//! Reports of the server are types, from which their schemas are derived. Other layouts are tables of keys, because rows of a
//! document have names as keys (swept keys, classes, schedulers). A line of a table is a path, the types of what is there, and what it
//! says. `list[]` is each of a list, `map{}` each value of an object whose keys are names, `key?` is left out where it does not apply,
//! and `*` is any other key. The type `figure` is a number, or an interval over seeds.

#[cfg(feature = "serve")]
mod lines;
mod schema;

use std::borrow::Cow;

use ioweir_lab::document::SCHEMA_VERSION;

/// The layout of what a verb writes as JSON.
pub(crate) struct Layout {
    /// The name: the verb, with `-` for spaces, and a suffix where a verb has several layouts.
    pub(crate) name: &'static str,
    /// The command that writes it.
    pub(crate) summary: &'static str,
    /// The shape of the document.
    shape: Shape,
    keys: Keys,
}

/// The keys of a layout.
enum Keys {
    /// A table of them.
    Table(&'static str),
    /// The schema of a type of the server.
    #[cfg(feature = "serve")]
    Derived(fn() -> serde_json::Value),
}

/// The shape of a document's top.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// One object.
    One,
    /// A list of such objects.
    List,
    /// One object, or a list of several.
    Either,
}

macro_rules! layouts {
    ($($name:literal $shape:ident $summary:literal;)* => $($served:literal $form:ident $of:literal: $type:ty;)*) => {
        pub(crate) const LAYOUTS: &[Layout] = &[
            $(Layout {
                name: $name,
                summary: $summary,
                shape: Shape::$shape,
                keys: Keys::Table(include_str!(concat!($name, ".keys"))),
            },)*
            $(#[cfg(feature = "serve")] Layout {
                name: $served,
                summary: $of,
                shape: Shape::$form,
                keys: Keys::Derived(ioweir_serve::watch::schema::of::<$type>),
            },)*
        ];
    };
}

layouts! {
    "compare" One "`ioweir compare`, `ioweir demo`";
    "advise" One "`ioweir advise`";
    "scorecard" One "`ioweir advise scorecard`";
    "qos" One "`ioweir advise qos`";
    "targets" One "`ioweir advise targets`";
    "simulate" One "`ioweir simulate`, of clients on devices";
    "simulate-servers" One "`ioweir simulate`, of [[server]] tables";
    "sweep" One "`ioweir sweep merge --export FILE.json`";
    "trace-info" Either "`ioweir trace info`";
    "record" One "`ioweir record`";
    "replay" One "`ioweir replay`";
    "forecast" List "`ioweir forecast`";
    "forecast-backtest" List "`ioweir forecast --backtest`";
    "forecast-diagnose" List "`ioweir forecast --diagnose`";
    "plan" One "`ioweir plan`";
    "govern" One "`ioweir govern --dry-run`";
    "reproduce" Either "`ioweir reproduce`: a list for `all`";
    "calibrate" One "`ioweir calibrate`";
    "validate" One "`ioweir calibrate MODEL --validate TRACE`";
    "validate-presets" One "`ioweir calibrate --validate FOLDER`";
    =>
    "ctl-state" One "`ioweir ctl SERVER state`, and `/state` of the page": ioweir_serve::watch::State;
    "ctl-clients" One "`ioweir ctl SERVER clients`": ioweir_serve::control::Clients;
    "ctl-snapshots" List "`ioweir ctl SERVER snapshot list`": ioweir_serve::control::SnapshotState;
    "ctl-volumes" List "`ioweir ctl SERVER volume list`": ioweir_serve::control::VolumeState;
    "ctl-devices" List "`ioweir ctl SERVER device list`": ioweir_serve::watch::DeviceState;
    "ctl-services" List "`ioweir ctl SERVER service list`": ioweir_serve::watch::ServiceState;
}

impl Layout {
    /// The keys in the form for people.
    pub(crate) fn text(&self) -> String {
        let shape = match self.shape {
            Shape::One => "An object",
            Shape::List => "A list of objects",
            Shape::Either => "An object, or a list of several",
        };
        format!("{}. {shape}.\n\n{}", self.summary, self.lines())
    }

    /// The keys, a line each.
    fn lines(&self) -> Cow<'static, str> {
        match self.keys {
            Keys::Table(lines) => lines.into(),
            #[cfg(feature = "serve")]
            Keys::Derived(of) => lines::of(&of()).into(),
        }
    }

    /// The name of the layout's file among the reference pages.
    #[cfg(all(feature = "plan", feature = "reproduce"))]
    pub(crate) fn file(&self) -> String {
        format!("{}.schema.json", self.name)
    }

    /// The JSON schema, as text.
    pub(crate) fn schema(&self) -> String {
        let keys = match self.keys {
            Keys::Table(lines) => schema::object(lines),
            #[cfg(feature = "serve")]
            Keys::Derived(of) => of(),
        };
        let list = serde_json::json!({ "type": "array", "items": { "$ref": "#/$defs/result" } });
        let one = serde_json::json!({ "$ref": "#/$defs/result" });
        let mut whole = match self.shape {
            Shape::One => one,
            Shape::List => list,
            Shape::Either => serde_json::json!({ "anyOf": [one, list] }),
        };
        whole["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
        whole["title"] = format!("{}, version {SCHEMA_VERSION}", self.summary.replace('`', "")).into();
        whole["$defs"] = serde_json::json!({ "result": keys, "figure": schema::figure() });
        serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_line_reads_back_from_schema() {
        for layout in LAYOUTS {
            let schema = layout.schema();
            let text = layout.lines();
            let lines = text.lines().filter(|line| !line.is_empty());
            let paths: Vec<&str> = lines.filter_map(|line| line.split_whitespace().next()).collect();
            assert!(!paths.is_empty() && !schema.contains("\"type\": null"), "{}", layout.name);
            for path in &paths {
                let last = path.rsplit('.').next().unwrap_or_default().trim_end_matches(['[', ']', '{', '}', '?']);
                assert!(last == "*" || schema.contains(&format!("\"{last}\": {{")), "{}: {path}", layout.name);
                assert_eq!(paths.iter().filter(|other| other == &path).count(), 1, "{}: {path} twice", layout.name);
            }
        }
    }
}
