//! The gate before what a sweep recommends: a judgement for each pair of a trace and a device.

use serde_json::{Value as Json, json};

use super::groups::{Measured, Point};
use super::rows::text;
use crate::compare::Ground;
use crate::document::Table;
use crate::gate::Judgement;
use crate::sim::Load;
use ioweir_device::Standing;

/// The columns that say which pair a row is of.
const PAIR: [&str; 3] = ["trace", "volume", "device"];

/// The judgements of a sweep.
pub(super) struct Gates<'a> {
    judged: Vec<(&'a Ground, Judgement)>,
    /// The judgement on an experiment.
    of_experiment: Option<&'a Judgement>,
    /// The values of the first row, which are those of all rows where nothing differs.
    usual: [String; PAIR.len()],
}

impl<'a> Gates<'a> {
    /// The judgements by what is known of the pairs, and by how long their rows took.
    pub(super) fn new((grounds, of_experiment): (&'a [Ground], Option<&'a Judgement>), table: &Table) -> Self {
        let place = |name: &str| table.columns.iter().position(|column| column.name == name);
        let value = |row: &[crate::document::Cell], name: &str| {
            place(name).and_then(|at| row.get(at)).map_or_else(String::new, |cell| text(&cell.value))
        };
        let pair = |row: &[crate::document::Cell]| PAIR.map(|name| value(row, name));
        let recorded = Load::RECORDED.to_string();
        let judge = |ground: &'a Ground| {
            let own = [&ground.trace, &ground.volume, &ground.device];
            let rows = table.rows.iter().filter(|row| value(row, "load") == recorded && pair(row).each_ref() == own);
            let seconds = rows.filter_map(|row| row.get(place("completion_seconds")?)?.value.number());
            (ground, ground.judgement(seconds.min_by(f64::total_cmp)))
        };
        let usual = table.rows.first().map_or_else(Default::default, |row| pair(row));
        Self { judged: grounds.iter().map(judge).collect(), of_experiment, usual }
    }

    /// Whether nothing may be recommended of the group that a point is in.
    pub(super) fn refuses(&self, measured: &Measured, point: &Point) -> bool {
        if self.of_experiment.is_some_and(|judgement| !judgement.recommends()) {
            return true;
        }
        let mut pair = self.usual.clone();
        for (name, value) in PAIR.iter().zip(&mut pair) {
            let varying = measured.dimensions.iter().zip(&point.at).find(|(dimension, _)| dimension.name == *name);
            if let Some((dimension, at)) = varying {
                *value = text(&dimension.values[*at]);
            }
        }
        let is_own = |ground: &Ground| pair.each_ref() == [&ground.trace, &ground.volume, &ground.device];
        self.judged.iter().any(|(ground, judgement)| is_own(ground) && !judgement.recommends())
    }

    /// The standing of each device model, and what the gate says of each pair that it does not simply let pass, a sentence each.
    pub(super) fn sentences(&self) -> Vec<String> {
        let mut sentences: Vec<String> = Vec::new();
        for (ground, _) in &self.judged {
            let sentence = format!("The device {} is {}.", ground.device, ground.standing.words());
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
        // That a preset is assumed has been said.
        let is_said = |ground: &Ground, judgement: &Judgement| {
            let is_assumed = matches!(ground.standing, Standing::Assumed { .. });
            judgement.reasons.is_empty() || (is_assumed && judgement.recommends() && judgement.reasons.len() == 1)
        };
        for (ground, judgement) in self.judged.iter().filter(|(ground, judgement)| !is_said(ground, judgement)) {
            sentences.push(format!("{} on {}: {}", ground.trace, ground.device, judgement.text()));
        }
        sentences.extend(self.of_experiment.map(Judgement::text).filter(|text| !text.is_empty()));
        sentences
    }

    /// The judgements as data.
    pub(super) fn data(&self) -> Json {
        let one = |(ground, judgement): &(&Ground, Judgement)| {
            json!({
                "trace": ground.trace, "volume": ground.volume, "device": ground.device,
                "standing": ground.standing, "counted": ground.of, "judgement": judgement,
            })
        };
        let of_experiment = self.of_experiment.iter().map(|judgement| json!({ "judgement": judgement }));
        self.judged.iter().map(one).chain(of_experiment).collect()
    }
}
