//! A calibration as a document: the error on the half that the fit did not see, and an interval for every parameter.

use ioweir_config::format_count;
use ioweir_device::calibration::BlendedClass;
use ioweir_device::{Calibration, Verdict};

use super::{Calibrated, Settings, settings};
use crate::validation::{cdf_charts, class_table, folded_remark};
use ioweir_lab::document::{Block, Cell, Column, Document, DocumentError, Emphasis, Table, records_of};
use ioweir_lab::run::RunError;

/// A parameter is not identified if its interval is a larger part of the searched range than this.
const IDENTIFIED_PART: f64 = 0.5;

impl Calibrated {
    /// The result as a document.
    ///
    /// # Errors
    /// If the model cannot be run, or [`DocumentError`], which is a defect of the program.
    pub fn document(&self) -> Result<Document, RunError> {
        let settings = settings(&self.file.spec)?;
        Ok(self.written(&settings)?)
    }

    fn written(&self, settings: &Settings) -> Result<Document, DocumentError> {
        let Some(calibration) = &self.file.calibration else { return Document::new("ioweir calibrate", "", &()) };
        let (verdict, reasons) = calibration.verdict();
        let withheld = self.withheld(settings);
        let data = serde_json::json!({
            "calibration": calibration, "device_toml": self.file.spec.to_toml(),
            "verdict": verdict, "verdict_reasons": reasons,
            "settings": withheld.is_none().then_some(settings),
            "candidates": self.evaluations, "without_latency": self.without_latency,
            "facts": self.facts.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        });
        let title = format!("A device fitted to {}", calibration.name);
        let mut document = Document::new("ioweir calibrate", title, &data)?;
        document.headline = format!("The device is {}. {}", verdict.words(), headline(calibration));
        document.records = records_of(&calibration.classes, &["name", "requests"]);
        if !reasons.is_empty() {
            let after = match verdict {
                Verdict::Outside => {
                    " Nothing should be concluded from this model: measure with `ioweir replay` instead."
                }
                _ => "",
            };
            document.text(format!("Why: {}.{after}", reasons.join("; ")));
        }
        document.text(format!(
            "{} requests; fitted to {}, judged on {}; {} candidates.",
            format_count(calibration.requests),
            calibration.fitted.name(),
            calibration.judged.name(),
            format_count(self.evaluations as u64)
        ));
        if self.without_latency > 0 {
            document
                .text(format!("{} requests have no latency, and are left out.", format_count(self.without_latency)));
        }
        folded_remark(self.folded).into_iter().chain(self.of_units.clone()).for_each(|remark| document.text(remark));
        self.remarks.iter().for_each(|remark| document.text(remark.as_str()));
        if !self.facts.is_empty() {
            document.push(Block::Facts(self.facts.clone()));
        }
        document.push(class_table(&calibration.classes));
        if !calibration.blends.is_empty() {
            document.push(blend_table(&calibration.blends));
        }
        document.push(cdf_charts(&self.unseen.by_class()));
        document.push(self.parameter_table(calibration));
        document.push(range_table(calibration));
        document.text(
            "The model is known in this range only: `compare` and `validate` say where a trace lies outside. An interval is that \
             of one more of several independent searches, and contains the value in about nine of ten cases. Parameters marked with a \
             question mark are not identified: the response times leave more than half of what was looked at.",
        );
        match withheld {
            Some(why) => {
                document.heading("Settings of other systems");
                document.text(format!("No settings are given: {why}"));
            }
            None => settings.push(&mut document, calibration.range.write_size.is_some()),
        }
        document.provenance = Some(self.provenance.clone());
        Ok(document)
    }

    /// Why there are no settings for other systems, if there is a reason.
    fn withheld(&self, settings: &Settings) -> Option<String> {
        let verdict = self.verdict().0;
        if verdict == Verdict::Outside {
            return Some(format!("the device is {}.", verdict.words()));
        }
        let measured = self.read_random_per_second.and_then(|measured| settings.contradiction(measured));
        measured.or_else(|| settings.inconsistency())
    }

    fn parameter_table(&self, calibration: &Calibration) -> Table {
        let columns = ["parameter", "value", "from", "to"].map(Column::text);
        let mut table = Table::new("Parameters", columns).caption(format!("Intervals by {}.", calibration.intervals));
        for (parameter, searched) in calibration.parameters.iter().zip(&self.searched) {
            let is_doubtful = parameter.interval().zip(*searched).is_some_and(|((low, high), (least, most))| {
                high <= low || high - low > IDENTIFIED_PART * (most - least)
            });
            let text = |amount: &Option<_>| amount.as_ref().map_or_else(String::new, ToString::to_string);
            let value = Cell::from(parameter.value.to_string());
            let value = if is_doubtful { value.emphasis(Emphasis::Doubtful) } else { value };
            table.row([
                parameter.key.as_str().into(),
                value,
                text(&parameter.low).into(),
                text(&parameter.high).into(),
            ]);
        }
        table
    }
}

fn headline(calibration: &Calibration) -> String {
    let Some(all) = calibration.overall() else { return String::new() };
    let [demerit, mean] = [all.demerit, all.measured_mean].map(ioweir_config::Duration::as_nanos_f64);
    let halves = all.halves.map_or_else(String::new, |halves| {
        format!("; the device's own halves are {:.3} ms apart", halves.as_nanos_f64() / 1e6)
    });
    format!(
        "On {}, which the fit did not see, the model is {:.3} ms from the device, {:.1} % of its mean{halves}.",
        calibration.judged.name(),
        demerit / 1e6,
        demerit / mean.max(1.0) * 100.0
    )
}

/// The share of the table in predictions by class, and the errors with and without it.
fn blend_table(blends: &[BlendedClass]) -> Table {
    let shares = ["share of table", "model", "table", "together"].map(|name| Column::digits(name, 1).unit("%"));
    let columns = [Column::text("class"), Column::count("requests")];
    let mut table = Table::new("Predictions by class", columns.into_iter().chain(shares)).caption(
        "Errors on the last quarter, in percent of the mean. The share of the table was chosen on the quarter before; `validate` predicts \
         with it. A simulation is the model's alone: a table does not say what another order would have taken.",
    );
    for own in blends {
        let mean = own.measured_mean.as_nanos_f64().max(1.0);
        let errors = [own.model, own.table, own.blend].map(|error| error.as_nanos_f64() / mean * 100.0);
        let cells = [own.name.as_str().into(), own.requests.into(), (own.table_share.value() * 100.0).into()];
        table.row(cells.into_iter().chain(errors.map(Cell::from)));
    }
    table
}

/// The range in which the device was seen.
fn range_table(calibration: &Calibration) -> Table {
    let range = &calibration.range;
    let mut table = Table::new("Seen", ["what", "from", "to"].map(Column::text));
    let mut row = |what: &str, low: String, high: String| table.row([what.into(), low.into(), high.into()]);
    for (what, span) in [("length of reads", range.read_size), ("length of writes", range.write_size)] {
        if let Some(span) = span {
            row(what, span.low.to_string(), span.high.to_string());
        }
    }
    if let Some(depth) = range.depth_max {
        row("requests at once", "1".into(), depth.to_string());
    }
    if let Some(span) = range.sequential {
        let percent = |share: ioweir_config::Ratio| format!("{:.0} %", share.value() * 100.0);
        row("sequential requests", percent(span.low), percent(span.high));
    }
    if let Some(span) = range.rate {
        row("requests a second", span.low.to_string(), span.high.to_string());
    }
    table
}
