//! What needs more than this program: measured by the scripts in `experiments/background`, and stored with the versions it was
//! measured with.

use serde::Deserialize;

use super::{Claim, Table};
use crate::run::RunError;

/// What experiments/background/delete-interference measured.
const DELETES: &str = include_str!("../../../../../experiments/background/results/delete-interference.json");

pub(super) fn delete_claims() -> Result<Vec<Claim>, RunError> {
    let measured: serde_json::Value = read(DELETES)?;
    let ratio = |name: &str| measured["summary"][name].as_f64();
    let note = "stored result of experiments/background/delete-interference; holds within a factor of 1.5";
    let claim = |id: &str, what: &str, name, paper: f64| {
        let what = format!("20 deletes beside 8 random readers: {what}");
        Claim::within(id.into(), "2", what, ratio(name), paper / 1.5, paper * 1.5)
            .paper(format!("{paper}"), "times")
            .note(note)
    };
    Ok(vec![
        claim("deletes-latency", "latency", "latency_ratio", 2.0),
        claim("deletes-iops", "IOPS", "iops_ratio", 0.5),
    ])
}

/// What experiments/background/forecast-peers measured.
const PEERS: &str = include_str!("../../../../../experiments/background/results/forecast-peers.json");

/// The generated series that is nearest to the paper's.
const DESKTOPS: &str = "vdi-18-a";

/// The stored scores of forecasters that are written in Python.
#[derive(Deserialize)]
pub(super) struct Peers {
    protocol: String,
    versions: std::collections::BTreeMap<String, String>,
    left_out: std::collections::BTreeMap<String, String>,
    rows: Vec<Peer>,
}

#[derive(Deserialize)]
struct Peer {
    series: String,
    model: String,
    smape_percent: f64,
    mase: f64,
    mean_percentage_error: f64,
    cpu_seconds_a_day: f64,
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, RunError> {
    serde_json::from_str(text).map_err(|error| RunError::Value(format!("stored measurement: {error}")))
}

impl Peers {
    pub(super) fn read() -> Result<Self, RunError> {
        read(PEERS)
    }

    fn smape(&self, model: &str) -> Option<f64> {
        self.rows.iter().find(|row| row.series == DESKTOPS && row.model == model).map(|row| row.smape_percent)
    }

    pub(super) fn claims(&self) -> Vec<Claim> {
        let (arima, holt_winters) = (self.smape("arima"), self.smape("holt-winters"));
        let worse = arima.zip(holt_winters).map(|(arima, holt_winters)| arima / holt_winters);
        let note = "stored result of experiments/background/forecast-peers on generated desktops, weekends among them; holds within \
                    a factor of 1.5";
        vec![
            Claim::within(
                "forecast-arima".into(),
                "11, 12",
                "ARIMA: SMAPE of the day-ahead forecast".into(),
                arima,
                27.8 / 1.5,
                27.8 * 1.5,
            )
            .paper("27.8", "%")
            .note(note),
            Claim::within(
                "forecast-arima-order".into(),
                "11, 12",
                "ARIMA over Holt-Winters, SMAPE".into(),
                worse,
                1.0,
                f64::INFINITY,
            )
            .paper("1.45", "times")
            .note("both stored, with a period of a day; holds where ARIMA is worse"),
        ]
    }

    pub(super) fn table(&self) -> Table {
        let words = |of: &std::collections::BTreeMap<String, String>| {
            of.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", ")
        };
        let row = |peer: &Peer| {
            let cells = [peer.smape_percent, peer.mase, peer.mean_percentage_error, peer.cpu_seconds_a_day];
            (format!("{}, {}", peer.series, peer.model), cells.map(|cell| format!("{cell:.2}")).to_vec())
        };
        Table {
            title: "Research models, stored".into(),
            text: format!(
                "{}. Made with {}. Left out: {}. `ioweir forecast --backtest` scores the built-in ones on the same series.",
                self.protocol,
                words(&self.versions),
                words(&self.left_out)
            ),
            columns: ["SMAPE %", "MASE", "mean error %", "CPU seconds a day"].map(String::from).to_vec(),
            rows: self.rows.iter().map(row).collect(),
        }
    }
}
