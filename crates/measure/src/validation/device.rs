//! One device model beside one measured trace.

use std::path::PathBuf;

use ioweir_device::calibration::{ClassError, Observed, Range};
use ioweir_device::validate::{Distribution, Load, Measured, Validation, depth_max};
use ioweir_device::{Calibration, DeviceFile};
use ioweir_trace::ReadOptions;
use serde::Serialize;

use super::drives::bench_remark;
use super::{DEMERIT_GATE_RATIO, MeasuredTrace};
use ioweir_config::{Duration, SpecError, format_count};
use ioweir_lab::document::{
    Axis, Cell, Chart, Column, Document, DocumentError, Figure, Format, Mark, Provenance, Series, Table, records_of,
};
use ioweir_lab::run::{Origin, RunError, fold_measured, meta_of};

/// The points of a drawn distribution.
const POINTS: usize = 200;

/// A device model compared with the device's response times.
#[derive(Clone, Debug)]
pub struct DeviceValidation {
    /// The device as the user named it.
    pub device: String,
    /// The trace as the user named it.
    pub trace: String,
    /// How the requests were sent.
    pub load: Load,
    /// The demerit that another model reaches, if one is named: at most 1.1 times as much passes.
    pub reference: Option<Duration>,
    requests: Vec<Measured>,
    result: Validation,
    without_latency: u64,
    /// Remarks that follow from the device's calibration.
    remarks: Vec<String>,
    /// The remarks about doubtful figures of the trace.
    doubts: Vec<String>,
    provenance: Provenance,
}

#[derive(Serialize)]
struct Data<'a> {
    device: &'a str,
    trace: &'a str,
    load: Load,
    requests: usize,
    without_latency: u64,
    measured: Distribution,
    modelled: Distribution,
    demerit_nanos: f64,
    demerit_share: f64,
    reference_nanos: Option<f64>,
    passes: Option<bool>,
    classes: &'a [ClassError],
    remarks: &'a [String],
}

#[must_use]
pub fn range_of(requests: &[Measured]) -> Range {
    let mut observed = Observed::default();
    for Measured { arrival_nanos, operation, sector, sectors, .. } in requests {
        let (sector, sectors) = (*sector, u64::from(*sectors));
        let bytes = |sectors: u64| sectors.saturating_mul(ioweir_core::SECTOR_BYTES);
        observed.add(*arrival_nanos, *operation, bytes(sector), bytes(sectors));
    }
    Range { depth_max: Some(depth_max(requests)), ..observed.range() }
}

impl DeviceValidation {
    /// Replays the trace that `files` form on a device. Without a load it is that under which the trace was measured. Requests
    /// past the end of the device are folded onto it, if that is asked for.
    ///
    /// # Errors
    /// If the device or the trace cannot be read, or a request lies past the end of the device.
    pub fn run(
        device: &str,
        files: &[PathBuf],
        options: &ReadOptions,
        (load, folds): (Option<Load>, bool),
        reference: Option<Duration>,
        origin: &Origin,
    ) -> Result<Self, RunError> {
        let DeviceFile { spec, calibration } = DeviceFile::load(device)?;
        let mut trace = MeasuredTrace::read(files, options)?;
        let load = load.unwrap_or_else(|| Load::of(&trace.requests));
        let name = files.first().map_or_else(String::new, |file| file.display().to_string());
        let mut model = spec.build(0)?;
        let folded = if folds { fold_measured(&mut trace.requests, model.sectors()) } else { 0 };
        let result = Validation::new(&mut *model, &trace.requests, load).map_err(|error| {
            SpecError::of_file(
                &name,
                error.to_string(),
                format!("is {device} a model of the device that was measured?"),
            )
        })?;
        let range = range_of(&trace.requests);
        let meta = meta_of(name.clone(), files, options)?;
        let hash = meta.sha256();
        let mut remarks = calibration.as_ref().map_or_else(Vec::new, |calibration| remarks(calibration, &range, &hash));
        remarks.extend(calibration.as_ref().and_then(|calibration| blend_remark(calibration, &result)));
        remarks.extend(folded_remark(folded));
        remarks.extend(trace.remarks.iter().cloned());
        remarks.extend(bench_remark(device, files));
        let provenance = Provenance::new(origin, vec![meta], vec![("The device".into(), spec.to_toml())]);
        Ok(Self {
            device: device.into(),
            trace: name,
            load,
            reference,
            requests: trace.requests,
            result,
            without_latency: trace.without_latency,
            remarks,
            doubts: trace.remarks,
            provenance,
        })
    }

    /// The remarks about doubtful figures of the trace.
    #[must_use]
    pub fn doubts(&self) -> &[String] {
        &self.doubts
    }

    /// Whether the demerit is at most 1.1 times the reference; `None` without a reference.
    #[must_use]
    pub fn passes(&self) -> Option<bool> {
        let gate_nanos = self.reference?.as_nanos_f64() * DEMERIT_GATE_RATIO;
        Some(self.result.demerit_nanos() <= gate_nanos)
    }

    /// The result as a document.
    ///
    /// # Errors
    /// [`DocumentError`], which is a defect of the program.
    pub fn document(&self) -> Result<Document, DocumentError> {
        let by_class = self.result.by_class();
        let classes = self.result.errors();
        let [measured, modelled] = by_class
            .first()
            .map_or_else(Default::default, |(_, times)| [Distribution::of(&times[0]), Distribution::of(&times[1])]);
        let demerit_nanos = self.result.demerit_nanos();
        let data = Data {
            device: &self.device,
            trace: &self.trace,
            load: self.load,
            requests: self.requests.len(),
            without_latency: self.without_latency,
            measured,
            modelled,
            demerit_nanos,
            demerit_share: demerit_nanos / measured.mean_nanos,
            reference_nanos: self.reference.map(Duration::as_nanos_f64),
            passes: self.passes(),
            classes: &classes,
            remarks: &self.remarks,
        };
        let title = format!("{} beside {}", self.device, self.trace);
        let mut document = Document::new("ioweir calibrate --validate", title, &data)?;
        document.headline = self.headline(demerit_nanos, measured.mean_nanos);
        document.records = records_of(classes.iter(), &["name", "requests"]);
        let load = match self.load {
            Load::Closed => "each a think time after the completion of the one before",
            Load::Arrivals => "when they arrived",
            Load::Released => "each after as many completions as before",
        };
        document.text(format!("{} requests, {load}.", format_count(self.requests.len() as u64)));
        if self.without_latency > 0 {
            let left_out = format_count(self.without_latency);
            document.text(format!("{left_out} requests of the trace have no latency, and are left out."));
        }
        for remark in &self.remarks {
            document.text(remark.as_str());
        }
        document.push(quantile_table(&by_class));
        document.push(class_table(&classes));
        document.push(cdf_charts(&by_class));
        document.provenance = Some(self.provenance.clone());
        Ok(document)
    }

    fn headline(&self, demerit_nanos: f64, mean_nanos: f64) -> String {
        let share = demerit_nanos / mean_nanos * 100.0;
        let error = format!("The model is {:.3} ms from the device, {share:.1} % of its mean", demerit_nanos / 1e6);
        match (self.reference, self.passes()) {
            (Some(reference), Some(passes)) => format!(
                "{error}; {} times the reference of {reference}: {}.",
                format_ratio(demerit_nanos / reference.as_nanos_f64()),
                if passes { "passes" } else { "fails" }
            ),
            _ => format!("{error}."),
        }
    }

    /// Every request with its two response times, as a table of records.
    #[must_use]
    pub fn requests(&self) -> Table {
        let names = ["time_ns", "operation", "sector", "sectors", "class", "measured_ns", "modelled_ns"];
        let mut table = Table::new("", names.map(Column::text));
        for (number, request) in self.requests.iter().enumerate() {
            let nanos = |times: &[u64]| Cell::from(times.get(number).copied().unwrap_or(0));
            table.row([
                request.arrival_nanos.into(),
                request.operation.name().into(),
                request.sector.into(),
                request.sectors.into(),
                self.result.class_name(number).into(),
                nanos(&self.result.measured_nanos),
                nanos(&self.result.modelled_nanos),
            ]);
        }
        table
    }
}

/// A remark on requests that were folded onto the device, if any were.
pub(crate) fn folded_remark(folded: u64) -> Option<String> {
    let words = || {
        format!(
            "{} requests lie past the end of the device and were folded onto it: seeks are not those of the trace.",
            format_count(folded)
        )
    };
    (folded > 0).then(words)
}

/// A remark on the error of predictions with the tables of a calibration, if it has some.
fn blend_remark(calibration: &Calibration, result: &Validation) -> Option<String> {
    let has_table = calibration.blends.iter().any(|own| own.table_share.value() > 0.0);
    let error = result.blended_error(&calibration.blends);
    has_table.then(|| {
        format!(
            "Predicted by class with the tables of the calibration, response times are {:.3} ms from the device, {:.1} % of its mean.",
            error.demerit.as_nanos_f64() / 1e6,
            error.share() * 100.0
        )
    })
}

fn remarks(calibration: &Calibration, range: &Range, hash: &str) -> Vec<String> {
    let mut remarks = Vec::new();
    if hash == calibration.sha256 {
        let (fitted, judged) = (calibration.fitted.name(), calibration.judged.name());
        let error = calibration.overall().map_or_else(String::new, |all| format!(": {} from the device", all.demerit));
        remarks.push(format!(
            "The device was fitted to {fitted} of this trace; evidence is its error on {judged}{error}."
        ));
    }
    let outside = calibration.range.outside(range).into_iter();
    remarks.extend(outside.map(|part| format!("Outside of the range of the calibration: the trace has {part}.")));
    remarks
}

fn format_ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}

fn millis(name: &str) -> Column {
    Column::digits(name, 3).unit("ms")
}

/// The distributions of all requests and of each class, measured and modelled.
fn quantile_table(by_class: &[(&'static str, [Vec<u64>; 2])]) -> Table {
    let columns = [Column::text("class"), Column::text("response")];
    let times = ["mean", "p50", "p95", "p99"].map(millis);
    let mut table = Table::new("", columns.into_iter().chain(times)).detail();
    for (name, times) in by_class {
        for (of, times) in ["device", "model"].into_iter().zip(times) {
            let all = Distribution::of(times);
            let quantiles = [all.p50_nanos, all.p95_nanos, all.p99_nanos].map(|nanos| Cell::from(nanos as f64 / 1e6));
            let shown = if of == "device" { *name } else { "" };
            let cells = [shown.into(), of.into(), (all.mean_nanos / 1e6).into()];
            table.row(cells.into_iter().chain(quantiles));
        }
    }
    table
}

#[must_use]
pub fn class_table(classes: &[ClassError]) -> Table {
    let has_halves = classes.iter().any(|class| class.halves.is_some());
    let mut columns = vec![Column::text("class"), Column::count("requests")];
    columns.extend(["measured mean", "modelled mean", "demerit"].map(millis));
    columns.push(Column::digits("of mean", 1).unit("%"));
    if has_halves {
        columns.push(millis("halves apart").format(Format::Digits(3)));
    }
    let has_tables = classes.iter().any(|class| class.table.is_some());
    if has_tables {
        columns.push(millis("table").format(Format::Digits(3)));
    }
    let mut table = Table::new("", columns).caption(
        "The demerit is the root mean square distance between the two distributions of response times. A model cannot be \
         expected to be closer than the device's own halves are to one another. A table of quantiles by class (operation, \
         place, size, requests in the device) of the same requests as the fit is the simplest alternative to a model.",
    );
    for class in classes {
        let nanos = [class.measured_mean, class.modelled_mean, class.demerit].map(Duration::as_nanos_f64);
        let mut cells: Vec<Cell> = vec![class.name.as_str().into(), class.requests.into()];
        cells.extend(nanos.map(|nanos| Cell::from(nanos / 1e6)));
        cells.push((nanos[2] / nanos[0].max(1.0) * 100.0).into());
        if has_halves {
            cells.push(class.halves.map(|halves| halves.as_nanos_f64() / 1e6).into());
        }
        if has_tables {
            cells.push(class.table.map(|table| table.as_nanos_f64() / 1e6).into());
        }
        table.row(cells);
    }
    table
}

/// The distributions of response times, measured and modelled, of all requests and of each class.
#[must_use]
pub fn cdf_charts(by_class: &[(&'static str, [Vec<u64>; 2])]) -> Figure {
    let curve = |times: &[u64]| {
        let count = POINTS.min(times.len());
        let at = |step: usize| {
            let nanos = times.get((2 * step + 1) * times.len() / (2 * count)).copied().unwrap_or(0);
            (nanos as f64 / 1e6, (step as f64 + 0.5) / count as f64 * 100.0)
        };
        (0..count).map(at).collect()
    };
    let chart = |(name, [measured, modelled]): &(&'static str, [Vec<u64>; 2])| Chart {
        title: (*name).into(),
        across: Axis::from_zero("response time, ms"),
        upward: Axis::from_zero("requests, %"),
        series: vec![
            Series::new("device", Mark::Line, curve(measured)),
            Series::new("model", Mark::Line, curve(modelled)),
        ],
    };
    let text = "The demerit is the distance between the two curves, taken horizontally.";
    Figure::new("Distributions of response times", text, by_class.iter().map(chart).collect())
}
