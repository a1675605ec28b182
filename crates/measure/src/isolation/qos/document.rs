//! The search as a document: the kernel's line, how it was judged, and how to apply and to undo it.

use ioweir_config::{Ratio, Size};
use ioweir_device::calibration::{Range, Span};
use ioweir_device::{DeviceFile, Standing};
use serde_json::json;

use super::search::{Found, Kept};
use super::{QosSpec, WEIGHT};
use ioweir_lab::compare::percent;
use ioweir_lab::document::{
    Block, Cell, Column, Document, DocumentError, Format, Origin, Provenance, Table, Value, format_seconds, quoted,
};
use ioweir_lab::experiment::Figure;
use ioweir_lab::gate::{Evidence, Judgement, judge};

/// Settings that a document shows.
const SHOWN: usize = 6;

/// Makes the document.
pub(super) fn document(
    spec: &QosSpec,
    origin: &Origin,
    file: &DeviceFile,
    found: &Found,
    standing: &Standing,
) -> Result<Document, DocumentError> {
    let judgement = judgement(found, file, standing);
    let setting = found.best[0].setting;
    let is_recommended = judgement.recommends() && found.is_found && found.aside.is_kept;
    let data = json!({
        "meta": {
            "version": origin.version,
            "commit": origin.commit,
            "command": origin.command,
            "device": spec.device,
            "depth": found.loads.depth,
            "seeds": spec.seeds,
            "span_seconds": found.loads.span_seconds(),
            "model": found.model.to_string(),
            "weight": spec.weight,
            "p99_seconds": spec.p99.map(|p99| p99.nanos().as_seconds()),
        },
        "judgement": serde_json::to_value(&judgement)?,
        "recommended": is_recommended.then(|| setting.line()),
        "scheduler": setting.scheduler(&found.model).to_string(),
        "settings_tried": found.settings_tried,
        "searched": serde_json::to_value(&found.best)?,
        "other_loads": serde_json::to_value(&found.others)?,
        "kept_aside": { "setting": serde_json::to_value(found.aside)?, "uncontrolled": serde_json::to_value(found.aside_uncontrolled)? },
    });
    let mut document = Document::new("ioweir advise qos", format!("io.cost.qos for {}", spec.device), &data)?;
    document.headline = headline(spec, found, &judgement, is_recommended);
    let care = judgement.text();
    if judgement.recommends() && !care.is_empty() {
        document.text(care);
    }
    if is_recommended {
        document.push(Block::Facts(lines(spec, found)));
    }
    let table = table(found);
    document.records = table.clone();
    document.push(table);
    document.push(others(found));
    document.push(Block::Facts(facts(spec, found)));
    let specs = vec![
        ("The spec as TOML, with every default".to_owned(), spec.to_toml()),
        ("The device".into(), file.spec.to_toml()),
        ("The load kept aside".into(), found.toml.clone()),
    ];
    document.provenance = Some(Provenance::new(origin, Vec::new(), specs));
    Ok(document)
}

/// The line of a scorecard about a search: the p99 that was asked for, whether it is kept, and the command.
pub(super) fn in_short(spec: &QosSpec, found: &Found) -> String {
    let asked = spec.p99.map_or_else(String::new, |p99| p99.to_string());
    let aside = found.aside.p99_seconds.map_or("no answer".into(), |p99| format_seconds(p99.mean));
    let kept = match (found.is_found, found.aside.is_kept) {
        (false, _) => format!("no setting of {} keeps it, and this one comes nearest", found.settings_tried),
        (true, true) if found.others.iter().any(|other| !other.setting.is_kept) => {
            format!("kept under a load that the search did not see ({aside}), but not under every other")
        }
        (true, true) => format!("kept under a load that the search did not see, too: {aside}"),
        (true, false) => format!("not kept under a load that the search did not see: {aside}"),
    };
    let line = found.best[0].setting.line();
    format!(
        "{line}, searched for a p99 of {asked} with medium settings and other seeds; {kept}. Again: `{}`",
        spec.command()
    )
}

/// The decision of the gate: the requests are generated, on this device.
fn judgement(found: &Found, file: &DeviceFile, standing: &Standing) -> Judgement {
    let small = Size(4 << 10);
    let given = Range {
        read_size: Some(Span::from([small, Size(256 << 10)])),
        write_size: Some(Span::from([small; 2])),
        depth_max: Some(found.loads.depth),
        sequential: Some(Span::from([Ratio::ZERO; 2])),
        rate: None,
    };
    let outside = file.calibration.as_ref().map_or_else(Vec::new, |known| known.range.outside(&given));
    judge(standing, &Evidence { is_generated: true, outside, ..Evidence::default() })
}

fn headline(spec: &QosSpec, found: &Found, judgement: &Judgement, is_recommended: bool) -> String {
    let asked = spec.p99.map_or_else(String::new, |p99| p99.to_string());
    let p99 = |kept: &Kept| kept.p99_seconds.map_or("no answer".into(), |p99| format_seconds(p99.mean));
    let best = &found.best[0];
    if !judgement.recommends() {
        return judgement.text();
    }
    if !found.is_found {
        let lowest = best.loads.iter().filter_map(|load| Some(load.p99_seconds?.mean)).fold(0.0, f64::max);
        return format!(
            "No setting of {} keeps a p99 of {asked}: the lowest is {}. A larger --weight, or a smaller share of the device, may.",
            found.settings_tried,
            format_seconds(lowest)
        );
    }
    if !is_recommended {
        return format!(
            "Nothing is recommended: {} keeps a p99 of {asked} under the loads of the search, and under the load kept aside it is {}.",
            best.setting.line(),
            p99(&found.aside)
        );
    }
    let lost: Vec<&str> =
        found.others.iter().filter(|other| !other.setting.is_kept).map(|other| other.load.as_str()).collect();
    let worst =
        found.others.iter().filter_map(|other| other.setting.p99_seconds).map(|p99| p99.mean).fold(0.0, f64::max);
    let care = match lost.is_empty() {
        true => String::new(),
        false => format!(" It is not kept beside {}: up to {}.", lost.join("; nor beside "), format_seconds(worst)),
    };
    format!(
        "Set {}: under a load that the search did not see, the p99 is {} ({} without control), for {} of the throughput.{care}",
        best.setting.line(),
        p99(&found.aside),
        p99(&found.aside_uncontrolled),
        percent(found.aside.given_up.mean.max(0.0))
    )
}

/// The lines to type, and to undo them.
fn lines(spec: &QosSpec, found: &Found) -> Vec<(String, String)> {
    let root = "/sys/fs/cgroup";
    let setting = found.best[0].setting;
    let model = ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"].map(|name| {
        let value = found.model.row.get(&found.model.settings, name).unwrap_or(0);
        format!("{name}={value}")
    });
    let model = model.join(" ");
    let lines = [
        ("apply: the model", format!("echo \"MAJ:MIN ctrl=user model=linear {model}\" > {root}/io.cost.model")),
        ("apply: the quality", format!("echo \"MAJ:MIN {}\" > {root}/io.cost.qos", setting.line())),
        ("apply: the weight", format!("echo {} > {root}/PROTECTED/io.weight", spec.weight)),
        ("undo: the weight", format!("echo {WEIGHT} > {root}/PROTECTED/io.weight")),
        ("undo: the quality", format!("echo \"MAJ:MIN enable=0 ctrl=auto\" > {root}/io.cost.qos")),
        ("undo: the model", format!("echo \"MAJ:MIN ctrl=auto\" > {root}/io.cost.model")),
        (
            "try it before, as a scheduler",
            format!(
                "ioweir advise scorecard {} --scheduler {}",
                quoted(&spec.device),
                quoted(&setting.scheduler(&found.model).to_string())
            ),
        ),
    ];
    lines.into_iter().map(|(name, line)| (name.to_owned(), line)).collect()
}

fn value(figure: Figure, scale: f64) -> Cell {
    match figure.half_width {
        Some(half_width) => Value::Interval(figure.mean * scale, half_width * scale).into(),
        None => Value::Number(figure.mean * scale).into(),
    }
}

fn table(found: &Found) -> Table {
    let number = |name: &str, unit: &str| Column::text(name).unit(unit).format(Format::Own);
    let columns = [
        Column::text("setting"),
        number("p99 beside small", "ms"),
        number("given up", "%"),
        number("p99 beside large", "ms"),
        number("given up there", "%"),
        number("p99 kept aside", "ms"),
        number("given up aside", "%"),
    ];
    let mut table = Table::new("Settings", columns).caption(
        "p99 of the protected tenant, and the throughput of all that is given up, by that without control: beside busy tenants with small \
         reads, with small and large ones, and under the load kept aside.",
    );
    let cells = |kept: &Kept| {
        let p99 = kept.p99_seconds.map_or(Cell::from(Value::Absent), |p99| value(p99, 1e3));
        [p99.fails_if(!kept.is_kept), value(kept.given_up, 100.0)]
    };
    for (at, tried) in found.best.iter().take(SHOWN).enumerate() {
        let aside = if at == 0 { cells(&found.aside) } else { [Value::Absent.into(), Value::Absent.into()] };
        let searched = tried.loads.iter().flat_map(cells);
        table.row(std::iter::once(tried.setting.line().into()).chain(searched).chain(aside));
    }
    let none = || Cell::from(Value::Absent);
    let without = [Cell::from("without control"), none(), none(), none(), none()];
    table.row(without.into_iter().chain(cells(&found.aside_uncontrolled)));
    table
}

/// The chosen setting under loads that decide nothing.
fn others(found: &Found) -> Table {
    let number = |name: &str, unit: &str| Column::text(name).unit(unit).format(Format::Own);
    let columns =
        [Column::text("beside"), number("p99", "ms"), number("without control", "ms"), number("given up", "%")];
    let mut table = Table::new("Under other loads", columns).caption(
        "The first setting under loads and seeds that neither the search nor its judgement saw. They decide nothing: a p99 that is not kept \
         is marked.",
    );
    let p99 = |kept: &Kept| kept.p99_seconds.map_or(Cell::from(Value::Absent), |p99| value(p99, 1e3));
    for other in &found.others {
        table.row([
            other.load.as_str().into(),
            p99(&other.setting).fails_if(!other.setting.is_kept),
            p99(&other.uncontrolled),
            value(other.setting.given_up, 100.0),
        ]);
    }
    table
}

fn facts(spec: &QosSpec, found: &Found) -> Vec<(String, String)> {
    let facts = [
        ("protected", format!("a tenant with {} % of the device's reads, weight {} beside {WEIGHT}", spec.percent, spec.weight)),
        (
            "searched",
            format!(
                "{} settings on one seed, the best on {}; beside 4 tenants with small reads, and beside 2 with small and 2 with large ones",
                found.settings_tried,
                spec.seeds.len()
            ),
        ),
        (
            "kept aside",
            "6 tenants with small reads, one with large ones, one with writes, and other seeds: chosen before the search".to_owned(),
        ),
        ("kept", "the p99 is at most the one that is asked for, in every run".to_owned()),
    ];
    facts.map(|(name, value)| (name.to_owned(), value)).into()
}
