//! The standing of a device model: where its numbers come from, and so what may be concluded from a result that depends on it.

use ioweir_config::{Duration, Size, SpecError, format_bytes, format_count};
use serde::{Deserialize, Serialize};

use super::calibration::{ClassError, Pairs, Part, Range, Source};
use super::presets::{PRESETS, Preset};
use super::{Calibration, DeviceFile, DeviceSpec};

/// Where the numbers behind a result come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Standing {
    /// The device itself was measured, and no model is used.
    Measured,
    /// The model was fitted to measurements of a device.
    Calibrated(Calibrated),
    /// The model is a preset, or a file without a calibration record.
    Assumed {
        /// The device in words.
        description: String,
        /// About the year in which such a device was new, if that is known.
        year: Option<u16>,
    },
}

/// The error and the range that a calibration gives to its model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// The kind of the measurement.
    pub source: Source,
    /// The name of the trace or the device.
    pub name: String,
    /// The requests that the error was computed on.
    pub judged: Part,
    /// The demerit on them as a share of the mean response time, if the record has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_share: Option<f64>,
    /// Whether the device is one that this kind of model can describe.
    pub verdict: Verdict,
    /// The requests in which the device was seen.
    pub range: Range,
}

/// Whether a device is of the family that a model describes, judged by the model's error on requests that the fit did not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The model describes the device.
    Inside,
    /// The model describes the device roughly.
    Edge,
    /// The model does not describe the device.
    Outside,
}

/// A model whose demerit on unseen requests is at most this share of the mean describes the device: schedulers of one trace
/// often differ by a quarter, so that a larger error hides the choice between them.
const INSIDE_SHARE_MAX: f64 = 0.25;
/// Above this share the errors are as large as the differences between most schedulers, and nothing follows from them.
const EDGE_SHARE_MAX: f64 = 0.5;
/// The shares above of a class of requests by itself may be this many times larger: errors of a class are not averaged out.
const CLASS_FACTOR: f64 = 2.0;
/// If a device's own halves are nearly as far apart as the model is from it, the device changes by itself. No model of its kind comes much
/// nearer, so that the device is at the edge of the family, and not outside.
const UNSTEADY_FACTOR: f64 = 1.5;
/// A class counts if it has at least this share of the requests: rarer ones hardly move a result.
const CLASS_PART_MIN: f64 = 0.05;
/// A model that is further from the device than this many times a table of quantiles by class, and this share of the mean more,
/// lacks a regularity that the device has.
const TABLE_FACTOR: f64 = 1.5;
const TABLE_SLACK_SHARE: f64 = 0.1;
/// With so many times the error of the table, or of the device's own halves, and this share of the mean of all requests more, a class is
/// not one of such a device. Disks and flash drives of the family stay below after a whole search; four striped disks, which serve
/// requests beside each other, exceed both (`experiments/calibration`, devices for tuning).
const OUTSIDE_TABLE_FACTOR: f64 = 2.5;
const OUTSIDE_TABLE_SLACK_SHARE: f64 = 0.2;

impl Verdict {
    /// The verdict in a phrase about the device.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Inside => "inside the family that this model describes",
            Self::Edge => "at the edge of the family that this model describes",
            Self::Outside => "outside the family that this model describes",
        }
    }

    /// The verdict on an error, as a share of the mean response time.
    fn of_share(share: f64) -> Self {
        if share <= INSIDE_SHARE_MAX {
            Self::Inside
        } else if share <= EDGE_SHARE_MAX {
            Self::Edge
        } else {
            Self::Outside
        }
    }
}

impl Calibration {
    /// The verdict on the device, and its reasons: the errors that are larger than a good model's. A record without errors
    /// shows nothing, which is no ground for trust.
    #[must_use]
    pub fn verdict(&self) -> (Verdict, Vec<String>) {
        let Some(all) = self.overall() else {
            return (Verdict::Edge, vec!["its record does not say how far the model is from the device".into()]);
        };
        let mut verdict = Verdict::Inside;
        let mut reasons = Vec::new();
        let counts = |requests: u64| requests as f64 >= all.requests as f64 * CLASS_PART_MIN;
        let all_nanos = all.measured_mean.as_nanos_f64().max(1.0);
        for class in self.classes.iter().filter(|class| counts(class.requests)) {
            let (own, reason) = class.verdict(class.name == all.name, all_nanos);
            verdict = verdict.max(own);
            reasons.extend(reason);
        }
        if let Some(pairs) = self.pairs.filter(Pairs::is_beside) {
            verdict = Verdict::Outside;
            let Pairs { count, apart, alone } = pairs;
            reasons.push(format!(
                "it has more than one arm: of {} pairs of reads the second was complete {:.1} ms after the first, where a read takes {:.1} ms",
                format_count(count),
                apart.as_nanos_f64() / 1e6,
                alone.as_nanos_f64() / 1e6
            ));
        }
        (verdict, reasons)
    }
}

impl ClassError {
    /// The verdict by one class, and its reason. The class of all requests has this mean.
    fn verdict(&self, is_all: bool, all_nanos: f64) -> (Verdict, Option<String>) {
        let nanos = |time: Option<Duration>| time.map_or(0.0, Duration::as_nanos_f64);
        let (own, halves, table) = (self.demerit.as_nanos_f64(), nanos(self.halves), nanos(self.table));
        // Of writes that a buffer takes, a few that wait are all of the error, and little of what anybody waits for.
        let share = own / self.measured_mean.as_nanos_f64().max(all_nanos);
        let by_share = Verdict::of_share(if is_all { share } else { share / CLASS_FACTOR });
        // An error larger than the times themselves is no matter of steadiness.
        let is_unsteady = own <= halves * UNSTEADY_FACTOR && share <= 1.0;
        let by_share = if is_unsteady { by_share.min(Verdict::Edge) } else { by_share };
        let nearest = table.max(halves);
        let exceeds = |nearest: f64, factor: f64, slack: f64| own > factor * nearest + slack * all_nanos;
        let by_table = match self.table {
            Some(_) if own > OUTSIDE_TABLE_FACTOR * nearest && exceeds(nearest, 1.0, OUTSIDE_TABLE_SLACK_SHARE) => {
                Verdict::Outside
            }
            Some(_) if exceeds(table, TABLE_FACTOR, TABLE_SLACK_SHARE) => Verdict::Edge,
            _ => Verdict::Inside,
        };
        let (words, percent) = (self.words(), self.share() * 100.0);
        let table_percent = self.table_share().unwrap_or_default() * 100.0;
        let reason = match (by_share.max(by_table), by_table) {
            (Verdict::Inside, _) => return (Verdict::Inside, None),
            (_, Verdict::Inside) if is_unsteady => {
                format!(
                    "the error of {words} is {percent:.0} % of their mean, and the device's own halves are nearly as far apart"
                )
            }
            (_, Verdict::Inside) => format!("the error of {words} is {percent:.0} % of their mean"),
            _ => format!(
                "the error of {words} is {percent:.0} % of their mean, and that of a table {table_percent:.0} %"
            ),
        };
        (by_share.max(by_table), Some(reason))
    }
}

impl Calibrated {
    /// The error and the range of a record.
    #[must_use]
    pub fn of(calibration: &Calibration) -> Self {
        Self {
            source: calibration.source,
            name: calibration.name.clone(),
            judged: calibration.judged,
            error_share: calibration.overall().map(ClassError::share),
            verdict: calibration.verdict().0,
            range: calibration.range.clone(),
        }
    }
}

impl Standing {
    /// The standing of a preset, or of the device in a file.
    ///
    /// # Errors
    /// As [`DeviceFile::load`].
    pub fn load(name_or_path: &str) -> Result<Self, SpecError> {
        DeviceFile::load(name_or_path).map(|file| Self::of(name_or_path, &file))
    }

    /// The standing of a device that was read under this name.
    #[must_use]
    pub fn of(name: &str, file: &DeviceFile) -> Self {
        if let Some(calibration) = &file.calibration {
            return Self::Calibrated(Calibrated::of(calibration));
        }
        match PRESETS.iter().find(|preset| preset.name == name) {
            Some(preset) => Self::Assumed { description: preset.title.into(), year: preset.year },
            None => Self::of_file(&file.spec),
        }
    }

    /// The standing of a device that is written out, with its calibration if it came from a file with one. A preset is recognised
    /// by its parameters.
    #[must_use]
    pub fn of_device(spec: &DeviceSpec, known: Option<&Calibrated>) -> Self {
        if let Some(known) = known {
            return Self::Calibrated(known.clone());
        }
        let is_own = |preset: &&Preset| DeviceSpec::load(preset.name).is_ok_and(|own| own.resolved() == *spec);
        match PRESETS.iter().find(is_own) {
            Some(preset) => Self::Assumed { description: preset.title.into(), year: preset.year },
            None => Self::of_file(spec),
        }
    }

    fn of_file(spec: &DeviceSpec) -> Self {
        let size = spec.build(0).map(|device| Size(device.sectors().saturating_mul(ioweir_core::SECTOR_BYTES)));
        // A size that is no round number would be a long one of KiB.
        let text =
            |size: Size| Some(size.to_string()).filter(|text| text.len() <= 8).unwrap_or_else(|| format_bytes(size.0));
        let size = size.map_or_else(|_| String::new(), |size| format!(" of {}", text(size)));
        Self::Assumed { description: format!("a device file{size} without a calibration"), year: None }
    }

    /// The standing in a phrase that follows the device's name.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Measured => "measured".into(),
            Self::Calibrated(Calibrated { source, name, judged, error_share, verdict, .. }) => {
                let of = match source {
                    Source::Trace => "fitted to",
                    Source::Probe => "fitted to probes of",
                };
                let error = match error_share {
                    Some(share) => format!("its error on {} is {:.0} % of the mean", judged.name(), share * 100.0),
                    None => "its error is not known".into(),
                };
                format!("{of} {name}; {error}; the device is {}", verdict.words())
            }
            Self::Assumed { description, year: Some(year) } => {
                format!("assumed, not measured: {description} (of about {year})")
            }
            Self::Assumed { description, year: None } => format!("assumed, not measured: {description}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_assumed_and_described() {
        for preset in PRESETS {
            let standing = Standing::load(preset.name).expect("a preset");
            let words = standing.words();
            assert!(words.starts_with("assumed") && words.contains(preset.title), "{words}");
            assert_eq!(words.contains("of about"), preset.year.is_some(), "{words}");
        }
    }

    /// A record with an error of all requests, of a class with this part of them, and of a table.
    fn record(all: f64, (class, part): (f64, f64), table: Option<f64>) -> Calibration {
        let table = table.map_or_else(String::new, |share| format!("table = \"{}us\"\n", share * 1e4));
        let text = format!(
            "source = \"trace\"\nname = \"a\"\nsha256 = \"00\"\nrequests = 2000\nversion = \"1\"\nfitted = \"first_half\"\n\
             judged = \"second_half\"\n[range]\n\
             [[class]]\nname = \"all\"\nrequests = 1000\nmeasured_mean = \"10ms\"\nmodelled_mean = \"10ms\"\n\
             demerit = \"{}us\"\n{table}\
             [[class]]\nname = \"read far, small\"\nrequests = {}\nmeasured_mean = \"10ms\"\nmodelled_mean = \"10ms\"\n\
             demerit = \"{}us\"\n",
            all * 1e4,
            part * 1e3,
            class * 1e4
        );
        toml::from_str(&text).expect("a record")
    }

    #[test]
    fn a_verdict_follows_the_larger_error() {
        for (all, class, table, verdict) in [
            (0.05, (0.1, 0.9), None, Verdict::Inside),
            (0.3, (0.1, 0.9), None, Verdict::Edge),
            (0.6, (0.1, 0.9), None, Verdict::Outside),
            (0.05, (0.8, 0.9), None, Verdict::Edge),
            (0.05, (1.5, 0.9), None, Verdict::Outside),
            (0.05, (9.0, 0.01), None, Verdict::Inside),
            (0.05, (0.1, 0.9), Some(0.01), Verdict::Inside),
            (0.24, (0.1, 0.9), Some(0.2), Verdict::Inside),
            (0.24, (0.1, 0.9), Some(0.05), Verdict::Edge),
            (0.6, (0.1, 0.9), Some(0.01), Verdict::Outside),
            (0.24, (0.1, 0.9), Some(0.01), Verdict::Outside),
            (0.24, (0.1, 0.9), Some(0.1), Verdict::Inside),
        ] {
            let (found, reasons) = record(all, class, table).verdict();
            assert_eq!(found, verdict, "{all} {class:?} {table:?}");
            assert_eq!(reasons.is_empty(), verdict == Verdict::Inside, "{reasons:?}");
        }
        let mut nothing = record(0.1, (0.1, 0.9), None);
        nothing.classes[0].halves = "8ms".parse().ok();
        for (demerit, verdict) in [("9ms", Verdict::Edge), ("11ms", Verdict::Outside)] {
            nothing.classes[0].demerit = demerit.parse().expect("a time");
            assert_eq!(nothing.verdict().0, verdict, "the device is not steady");
        }
        nothing.classes[0].halves = "5ms".parse().ok();
        assert_eq!(nothing.verdict().0, Verdict::Outside, "it is steadier than the model");
        nothing.classes[1].measured_mean = "1ms".parse().expect("a time");
        nothing.classes[0] = record(0.1, (0.1, 0.9), None).classes[0].clone();
        for (demerit, verdict) in [("4ms", Verdict::Inside), ("6ms", Verdict::Edge), ("11ms", Verdict::Outside)] {
            nothing.classes[1].demerit = demerit.parse().expect("a time");
            assert_eq!(nothing.verdict().0, verdict, "a class of short times counts by the mean of all");
        }
        let mut pairs = record(0.1, (0.1, 0.9), None);
        for (count, apart, verdict) in
            [(24, "1ms", Verdict::Inside), (25, "8ms", Verdict::Inside), (25, "7ms", Verdict::Outside)]
        {
            let [apart, alone] = [apart, "10ms"].map(|time| time.parse().expect("a time"));
            pairs.pairs = Some(Pairs { count, apart, alone });
            assert_eq!(pairs.verdict().0, verdict, "{count} pairs, {apart}");
        }
        nothing.classes.clear();
        assert_eq!(nothing.verdict().0, Verdict::Edge, "what is not known is not trusted");
    }
}
