//! The pages of `docs/reference`, generated from the tables that the program runs by.

use std::fmt::Write as _;
use std::path::Path;

use ioweir_background::forecast::FORECASTERS;
use ioweir_config::{Key, format_range, format_value, one_line};
use ioweir_core::background::SERVICES;
use ioweir_core::cores::SCHEDULES;
use ioweir_core::policy::{PAIR, POLICIES, Parameter};
use ioweir_device::PRESETS;
use ioweir_lab::experiment::{self, METRICS};
use ioweir_lab::server::{self, COSTS, PLATFORMS, WORKLOADS};
use ioweir_lab::workload::MIXES;
use ioweir_trace::{Clock, FORMATS, Format};

use crate::doc::{service_terms, switched_on};
use crate::failure::Failure;
use crate::layout::LAYOUTS;
use crate::output;

const NOTE: &str =
    "<!-- Made by `ioweir doc --write docs/reference` from the program's tables: change those, not this. -->\n";

/// A page: its file and how it is made.
type Page = (&'static str, fn() -> String);

const PAGES: &[Page] = &[
    ("words.md", words),
    ("formats.md", formats),
    ("policies.md", policies),
    ("cores.md", cores),
    ("devices.md", devices),
    ("mixes.md", mixes),
    ("experiments.md", experiments),
    ("sweeps.md", sweeps),
    ("serve.md", serving),
    ("plan.md", planning),
    #[cfg(feature = "govern")]
    ("govern.md", governing),
    ("services.md", services),
    ("forecasters.md", forecasters),
    ("servers.md", servers),
    ("json.md", json),
];

/// The folder of JSON schemas.
const SCHEMAS: &str = "schema";

/// Writes every page into `folder`.
pub(crate) fn write(folder: &str) -> Result<(), Failure> {
    for (name, page) in PAGES {
        let path = Path::new(folder).join(name);
        output::put_file(&path.display().to_string(), page().as_bytes())?;
    }
    let schemas = Path::new(folder).join(SCHEMAS);
    let failed = |error: std::io::Error| Failure::unwritable(&schemas.display().to_string(), &error);
    std::fs::create_dir_all(&schemas).map_err(failed)?;
    for layout in LAYOUTS {
        output::put_file(&schemas.join(layout.file()).display().to_string(), layout.schema().as_bytes())?;
    }
    Ok(())
}

// Writing to a string does not fail: the results of `writeln!` below are ignored.

/// Text in a cell of a table; outside of code, what looks like a tag of HTML is none.
fn cell(text: &str) -> String {
    let escape = |(at, part): (usize, &str)| if at % 2 == 0 { part.replace('<', "\\<") } else { part.to_owned() };
    let parts: Vec<String> = text.split('`').enumerate().map(escape).collect();
    parts.join("`").replace('|', "\\|")
}

/// Topics of `ioweir doc` that are short lists, a section each.
const LISTS: &[&str] = &["load", "columns", "reason", "requests", "units", "export", "knob", "event", "exit-codes"];

fn words() -> String {
    let mut out = format!(
        "{NOTE}\n# Loads, columns, reasons, units\n\nWhat `ioweir doc TOPIC` prints of these topics:\n\n| topic | what it lists |\n|---|---|\n"
    );
    let topics = || LISTS.iter().filter_map(|name| crate::doc::topic(name).map(|topic| (name, topic)));
    for (name, (topic, _)) in topics() {
        let _ = writeln!(out, "| [`{name}`](#{name}) | {} |", cell(topic.summary));
    }
    for (name, (topic, entries)) in topics() {
        let _ = write!(out, "\n## {name}\n\n{}\n\n| | |\n|---|---|\n", topic.about);
        for (entry, line) in entries {
            let _ = writeln!(out, "| `{}` | {} |", cell(entry), cell(line));
        }
    }
    out
}

fn formats() -> String {
    let mut out = format!(
        "{NOTE}\n# Trace formats\n\n{} formats are read; {} of them are written. Files are read as they are or packed with gzip, \
         zstd, bzip2 or xz. A format is recognised by its content; where two look the same, it is named with `--format`.\n\n",
        FORMATS.len(),
        FORMATS.iter().filter(|format| format.write.is_some()).count()
    );
    out += "| format | what it is | recognised | written |\n|---|---|---|---|\n";
    for format in FORMATS {
        let recognised = if format.ambiguous { "by name only" } else { "by content" };
        let written = if format.write.is_some() { "yes" } else { "" };
        let _ = writeln!(out, "| [`{0}`](#{0}) | {1} | {recognised} | {written} |", format.name, cell(format.title));
    }
    for format in FORMATS {
        let _ = write!(out, "\n## {}\n\n{}.\n\n{}\n", format.name, format.title, format.doc());
        out += &holds(format);
    }
    out
}

/// The properties of requests that a writer does not hold, from the same table that conversions count losses by.
fn holds(format: &Format) -> String {
    let Some(writer) = format.write else { return String::new() };
    let holds = writer.holds;
    let mut not = Vec::new();
    for (kept, what) in [(holds.discards, "discards"), (holds.flushes, "flushes")] {
        if !kept {
            not.push(what.to_owned());
        }
    }
    if holds.flags.bits() == 0 {
        not.push("flags".to_owned());
    }
    if !holds.priorities {
        not.push("I/O priorities".to_owned());
    }
    if !holds.streams {
        not.push("streams apart from volumes".to_owned());
    }
    match holds.latency_unit_nanos {
        None => not.push("latencies".to_owned()),
        Some(unit) if unit > 1 => not.push(format!("latencies below {unit} ns")),
        Some(_) => {}
    }
    if holds.time_unit_nanos > 1 {
        not.push(format!("times below {} ns", holds.time_unit_nanos));
    }
    if holds.clock == Clock::Dropped {
        not.push("the wall clock".to_owned());
    }
    if not.is_empty() {
        return "\nWritten, it holds all that a trace has.\n".to_owned();
    }
    format!("\nWritten, it does not hold: {}. A conversion says how many requests that affects.\n", not.join(", "))
}

fn policies() -> String {
    let mut out = format!(
        "{NOTE}\n# Policies\n\nSchedulers that `--scheduler` takes. A parameter follows the name: \
         `bid-hdd:wait=2ms:history=4`.\n\n| policy | what it does |\n|---|---|\n"
    );
    for row in POLICIES {
        let _ = writeln!(out, "| [`{0}`](#{0}) | {1} |", row.name, cell(row.summary));
    }
    let _ = writeln!(out, "| [{0}](#{0}) | {1} |", PAIR.name, cell(PAIR.summary));
    for row in POLICIES {
        let _ = write!(out, "\n## {}\n\n{}\n\nSource: {}\n", row.name, one_line(row.doc), row.source);
        let _ = write!(out, "\nBound on waiting: {}.\n", row.bound.doc);
        if let Some(linux) = row.linux {
            let _ = writeln!(out, "\nOn Linux: `echo {linux} > /sys/block/DEVICE/queue/scheduler`");
        }
        out += &parameters(row.parameters);
    }
    let _ = write!(out, "\n## {}\n\n{}\n{}", PAIR.name, one_line(PAIR.doc), parameters(PAIR.parameters));
    out
}

fn cores() -> String {
    let mut out = format!(
        "{NOTE}\n# Request scheduling\n\nWhich queue a worker of a storage server serves, and for how long. Every schedule has the \
         same parameters, so that all parts combine; they follow the name: `sord:qats=yes:hq-weight=90` is `combo`.\n\n\
         | schedule | what it does |\n|---|---|\n"
    );
    for row in SCHEDULES {
        let _ = writeln!(out, "| [`{0}`](#{0}) | {1} |", row.name, cell(row.summary));
    }
    for row in SCHEDULES {
        let _ = write!(out, "\n## {}\n\n{}\n\nSource: {}, {}\n", row.name, one_line(row.doc), row.source, row.section);
        out += &parameters(row.parameters);
    }
    out
}

/// The parameters as a table; empty where there are none.
fn parameters(parameters: &[Parameter]) -> String {
    if parameters.is_empty() {
        return String::new();
    }
    let mut out = "\n| parameter | default | range | meaning |\n|---|---|---|---|\n".to_owned();
    for parameter in parameters {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} |",
            parameter.name,
            format_value(parameter.unit, parameter.default),
            format_range(parameter),
            cell(parameter.help)
        );
    }
    out
}

fn devices() -> String {
    let mut out = format!(
        "{NOTE}\n# Devices\n\nPresets that `--device` takes; `ioweir show NAME` prints one with every parameter, to start a file \
         of one's own from. The keys of such a file come last; a drive takes ten lines of its datasheet.\n\n| device | what it is \
         | switched on | how far to trust it |\n|---|---|---|---|\n"
    );
    for preset in PRESETS {
        let on = cell(&switched_on(preset));
        let _ = writeln!(
            out,
            "| [`{0}`](#{0}) | {1} | {on} | {2} |",
            preset.name,
            cell(preset.title),
            preset.status.name()
        );
    }
    for preset in PRESETS {
        let _ = write!(
            out,
            "\n## {}\n\n{}: {}.\n\nWhere the numbers come from:\n\n",
            preset.name,
            preset.title,
            preset.status.name()
        );
        for source in preset.sources {
            let _ = writeln!(out, "- {source}");
        }
    }
    out += &key_sections(&ioweir_device::key_tables());
    out
}

/// Keys of a file, a section for each of its tables; the empty name is the file itself.
fn key_sections(tables: &[(&str, Vec<Key>)]) -> String {
    let mut out = String::new();
    for (table, keys) in tables {
        let title = if table.is_empty() { "The file itself".to_owned() } else { format!("`{table}`") };
        let _ = write!(out, "\n## {title}\n\n| key | default | what it says |\n|---|---|---|\n");
        for key in keys {
            let default = match (key.default)() {
                None => "required".to_owned(),
                Some(text) if text.is_empty() => text,
                Some(text) => format!("`{text}`"),
            };
            let _ = writeln!(out, "| `{}` | {default} | {} |", key.name, cell(&key.help_line()));
        }
    }
    out
}

fn experiments() -> String {
    let mut out = format!(
        "{NOTE}\n# Experiments\n\nWhat `ioweir simulate FILE` reads. Sizes, times and rates are text with a unit. `ioweir show FILE` prints a \
         file with every default; `examples/` has some to start from. A phase without a key of a share keeps the class's.\n"
    );
    out += &key_sections(&experiment::key_tables());
    out += "\n## Experiments on servers\n\nA file with `[[server]]` tables runs the model of a storage server instead: schedules of its cores at shares of \
            its peak load ([servers.md](servers.md)). These are its keys.\n";
    out += &key_sections(&server::key_tables()).replace("\n## ", "\n### ");
    out += "\n## Figures\n\nFor `metric` of an expectation. In JSON and CSV, times end in `_seconds`.\n\n| metric | of | what it says |\n|---|---|---|\n";
    for metric in METRICS {
        let of = match (metric.of_class.is_some(), metric.of_run.is_some()) {
            (true, true) => "a class, the run",
            (true, false) => "a class",
            _ => "the run",
        };
        let _ = writeln!(out, "| `{}` | {of} | {} |", metric.name, cell(metric.help));
    }
    out
}

fn sweeps() -> String {
    let mut out = format!(
        "{NOTE}\n# Keys of a sweep\n\nWhat `ioweir sweep FILE` reads; [sweeps.md](../sweeps.md) is the guide. A comparison, which has \
         `traces`, and an experiment are sweep files too.\n"
    );
    out += &key_sections(&crate::sweep::key_tables());
    out
}

fn serving() -> String {
    let mut out = format!(
        "{NOTE}\n# Keys of a server\n\nWhat `ioweir serve FILE` reads. Sizes, times and rates are text with a unit. `ioweir show FILE` prints \
         a file with every default; [block-server.md](../block-server.md) is the guide.\n"
    );
    out += &key_sections(&crate::server::key_tables());
    out += "\n## Backends\n\n| backend | what it is | its keys |\n|---|---|---|\n";
    let row = |(name, summary, keys): (&str, &str, &[&str])| {
        let keys: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
        format!("| `{name}` | {} | {} |\n", cell(summary), keys.join(", "))
    };
    out.extend(crate::server::backends().map(row));
    out += "\n## Kinds of services\n\n| kind | what it does | its keys |\n|---|---|---|\n";
    out.extend(crate::server::service_kinds().map(row));
    out
}

fn planning() -> String {
    let out = format!(
        "{NOTE}\n# Keys of a policy of plans\n\nWhat `ioweir plan SERIES --policy FILE` reads. Sizes, times and rates are text with a unit. \
         `ioweir show FILE` prints a file with every default; [services.md](services.md) has the services and what holds where their \
         table says nothing.\n"
    );
    out + &key_sections(&ioweir_background::plan::policy::key_tables())
}

#[cfg(feature = "govern")]
fn governing() -> String {
    let out = format!(
        "{NOTE}\n# Keys of a govern file\n\nWhat `ioweir govern FILE` reads. Sizes, times and rates are text with a unit. `[pool]`, \
         `[cores]`, `[forecast]` and the terms of services mean what they mean in [a policy of plans](plan.md). `ioweir show FILE` prints a file with every default; \
         [govern.md](../govern.md) is the guide.\n"
    );
    out + &key_sections(&crate::govern::key_tables())
}

fn mixes() -> String {
    let mut out = format!(
        "{NOTE}\n# Mixes\n\nJobs whose traffic `ioweir trace generate MIX OUT` makes up: the six Hadoop jobs of the BID paper's \
         Table 2. The same seed gives the same requests.\n\n| mix | the job | requests | readers at once |\n|---|---|---|---|\n"
    );
    for mix in MIXES {
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", mix.name, cell(mix.title), mix.requests, mix.readers);
    }
    if let Some(first) = MIXES.first() {
        let _ = write!(out, "\n{}\n", first.doc);
    }
    out
}

fn forecasters() -> String {
    let mut out = format!(
        "{NOTE}\n# Forecasters\n\nWhat `ioweir forecast --method` takes. A setting follows the name: `paper:trend=0.8`. Every \
         forecaster has quantiles from its own past errors, leaves gaps gaps, and follows declared holidays.\n\n| forecaster | \
         what it does |\n|---|---|\n"
    );
    for row in FORECASTERS {
        let _ = writeln!(out, "| [`{0}`](#{0}) | {1} |", row.name, cell(row.summary));
    }
    for row in FORECASTERS {
        let _ = write!(out, "\n## {}\n\n{}\n\nSource: {}\n", row.name, one_line(row.doc), row.source);
        if !row.settings.is_empty() {
            out += "\n| setting | default | range | meaning |\n|---|---|---|---|\n";
        }
        for setting in row.settings {
            let (range, help) = (format!("{} to {}", setting.min, setting.max), cell(setting.help));
            let _ = writeln!(out, "| `{}` | {} | {range} | {help} |", setting.name, setting.default);
        }
    }
    out
}

fn servers() -> String {
    let mut out = format!(
        "{NOTE}\n# Servers\n\nStorage servers that schedules of their cores run on: platforms, workloads, and what the \
         work costs. `ioweir simulate examples/server.toml` runs one, `ioweir reproduce wafl` all of them.\n"
    );
    for (title, presets) in [("Platforms", PLATFORMS), ("Workloads", WORKLOADS)] {
        let _ = write!(out, "\n## {title}\n\n| name | what it is |\n|---|---|\n");
        for preset in presets {
            let _ = writeln!(out, "| [`{0}`](#{0}) | {1} |", preset.name, cell(preset.title));
        }
        for preset in presets {
            let _ = write!(out, "\n### {}\n\n{}. Where the numbers come from:\n\n", preset.name, preset.title);
            for source in preset.sources {
                let _ = writeln!(out, "- {source}");
            }
            let _ = write!(out, "\n```toml\n{}```\n", preset.parameters);
        }
    }
    let _ = write!(out, "\n## Costs\n\n```toml\n{COSTS}```\n");
    out
}

fn services() -> String {
    let mut out = format!(
        "{NOTE}\n# Background services\n\nWhat `[service.NAME]` in the policy of `ioweir plan` runs. The numbers are those that hold where \
         the policy says nothing else.\n\n| service | what it does |\n|---|---|\n"
    );
    for row in &SERVICES {
        let _ = writeln!(out, "| [`{0}`](#{0}) | {1} |", row.name, cell(row.summary));
    }
    for row in &SERVICES {
        let _ = write!(out, "\n## {}\n\n{}\n\n| | |\n|---|---|\n", row.name, one_line(row.doc));
        for (name, value) in service_terms(row) {
            let _ = writeln!(out, "| {name} | {} |", cell(&value));
        }
    }
    out
}

fn json() -> String {
    let mut out = format!(
        "{NOTE}\n# Keys of JSON outputs\n\nWhat `--json` writes, key by key; [the schemas]({SCHEMAS}) say the same for programs. \
         `list[]` is each of a list, `map{{}}` each value of an object whose keys are names, `key?` is left out where it does not apply, \
         and `*` is any other key. A figure is a number, or an object with its mean, the half width of its interval and the number of \
         seeds. [Stability](../stability.md) says what a version of a layout promises.\n"
    );
    for layout in LAYOUTS {
        let _ = write!(out, "\n## {}\n\n```\n{}```\n", layout.name, layout.text());
    }
    out
}
