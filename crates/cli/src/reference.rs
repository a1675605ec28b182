//! What stands in `docs/reference`? Pages made from the tables that the program runs by, so that they cannot fall behind.

use std::fmt::Write as _;
use std::path::Path;

use ioweir_core::policy::POLICIES;
use ioweir_lab::choice::{format_range, format_value};
use ioweir_lab::device::PRESETS;
use ioweir_lab::trace::{Clock, FORMATS, Format};
use ioweir_lab::workload::MIXES;

use crate::failure::Failure;
use crate::output;

const NOTE: &str =
    "<!-- Made by `ioweir doc --write docs/reference` from the program's tables: change those, not this. -->\n";

/// A page: its file and how it is made.
type Page = (&'static str, fn() -> String);

const PAGES: [Page; 4] =
    [("formats.md", formats), ("policies.md", policies), ("devices.md", devices), ("mixes.md", mixes)];

/// Writes every page into `folder`.
pub(crate) fn write(folder: &str) -> Result<(), Failure> {
    for (name, page) in PAGES {
        let path = Path::new(folder).join(name);
        output::put_file(&path.display().to_string(), page().as_bytes())?;
    }
    Ok(())
}

// Writing to a string does not fail: the results of `writeln!` below are not looked at.

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
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
        let _ = write!(out, "\n## {}\n\n{}.\n\n{}\n", format.name, format.title, format.doc.trim_end());
        out += &holds(format);
    }
    out
}

/// What a writer does not hold, from the same table that conversions count losses by.
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
    format!("\nWritten, it does not hold: {}. A conversion says how many requests that touches.\n", not.join(", "))
}

fn policies() -> String {
    let mut out = format!(
        "{NOTE}\n# Policies\n\nSchedulers that `--scheduler` takes. A parameter is set behind the name: \
         `bid-hdd:wait=2ms:history=4`.\n\n| policy | what it does |\n|---|---|\n"
    );
    for row in POLICIES {
        let _ = writeln!(out, "| [`{0}`](#{0}) | {1} |", row.name, cell(row.summary));
    }
    for row in POLICIES {
        let _ = write!(out, "\n## {}\n\n{}\n\nSource: {}\n", row.name, row.doc.trim(), row.source);
        if let Some(linux) = row.linux {
            let _ = writeln!(out, "\nOn Linux: `echo {linux} > /sys/block/DEVICE/queue/scheduler`");
        }
        if row.parameters.is_empty() {
            continue;
        }
        out += "\n| parameter | default | range | meaning |\n|---|---|---|---|\n";
        for parameter in row.parameters {
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} |",
                parameter.name,
                format_value(parameter.unit, parameter.default),
                format_range(parameter),
                cell(parameter.help)
            );
        }
    }
    out
}

fn devices() -> String {
    let mut out = format!(
        "{NOTE}\n# Devices\n\nPresets that `--device` takes; `ioweir show NAME` prints one with every parameter, to start a file \
         of one's own from.\n\n| device | what it is | how far to trust it |\n|---|---|---|\n"
    );
    for preset in PRESETS {
        let _ = writeln!(out, "| [`{0}`](#{0}) | {1} | {2} |", preset.name, cell(preset.title), preset.status.name());
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
    out
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
