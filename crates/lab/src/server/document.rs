//! An experiment on servers as a document: response times of each server under each schedule over the load.

use serde_json::{Map, Value as Json, json};

use super::{Responses, ServerCell, ServerOutcome, ServerReport};
use crate::document::{Axis, Block, Cell, Chart, Column, Document, DocumentError, Figure, Format, Mark};
use crate::document::{Series, Table, Value, format_seconds};
use crate::experiment::Figure as Estimate;

/// A column of a table of runs: its name in data, its head and unit in tables, the factor of tables, and how it is computed.
struct Number {
    key: &'static str,
    head: &'static str,
    unit: &'static str,
    scale: f64,
    of: fn(&ServerOutcome) -> Option<f64>,
}

/// The number that the swings of a run give an interval for.
const MEAN: &str = "response_mean_seconds";

const NUMBERS: &[Number] = &[
    Number { key: MEAN, head: "mean", unit: "ms", scale: 1e3, of: |outcome| outcome.mean_seconds() },
    Number {
        key: "response_p99_seconds",
        head: "p99",
        unit: "ms",
        scale: 1e3,
        of: |outcome| outcome.all.quantile_seconds(0.99),
    },
    Number {
        key: "read_mean_seconds",
        head: "reads",
        unit: "ms",
        scale: 1e3,
        of: |outcome| outcome.reads.mean_seconds(),
    },
    Number {
        key: "write_mean_seconds",
        head: "writes",
        unit: "ms",
        scale: 1e3,
        of: |outcome| outcome.writes.mean_seconds(),
    },
    Number {
        key: "answered_per_second",
        head: "answered/s",
        unit: "",
        scale: 1.0,
        of: |outcome| Some(outcome.answered_per_second),
    },
    Number {
        key: "workers_busy_share",
        head: "workers busy",
        unit: "%",
        scale: 100.0,
        of: |outcome| Some(outcome.utilisation),
    },
    Number { key: "turn_share", head: "turns", unit: "%", scale: 100.0, of: |outcome| Some(outcome.turn_share) },
    Number {
        key: "log_fill_max_share",
        head: "log full",
        unit: "%",
        scale: 100.0,
        of: |outcome| Some(outcome.log_fill_max),
    },
];

impl ServerCell {
    /// The number over all seeds; the mean response time over the swings of all seeds.
    fn estimate(&self, number: &Number) -> Option<Estimate> {
        if number.key == MEAN {
            return Estimate::of(&self.runs.iter().flat_map(|run| run.swings.iter().copied()).collect::<Vec<_>>());
        }
        let values: Vec<f64> = self.runs.iter().filter_map(number.of).collect();
        Estimate::of(&values)
    }

    fn is_steady(&self) -> bool {
        self.stationarity.is_steady
    }

    /// Response times by operation, over all runs.
    fn operations(&self) -> Json {
        let names = self.runs.iter().take(1).flat_map(|run| &run.by_operation);
        let of = |(at, (name, _)): (usize, &(String, Responses))| {
            let mut all = Responses::default();
            self.runs.iter().for_each(|run| all.merge(&run.by_operation[at].1));
            json!({
                "operation": name, "answered": all.answered(), "response_mean_seconds": all.mean_seconds(),
                "response_p99_seconds": all.quantile_seconds(0.99),
            })
        };
        names.enumerate().map(of).collect()
    }

    fn mean_seconds(&self) -> Option<f64> {
        self.estimate(&NUMBERS[0]).map(|estimate| estimate.mean)
    }
}

impl ServerReport {
    /// The result as a document.
    ///
    /// # Errors
    /// [`DocumentError`], which is a defect of the program.
    pub fn document(&self) -> Result<Document, DocumentError> {
        let experiment = &self.experiment;
        let title = if experiment.title.is_empty() { "Servers" } else { &experiment.title };
        let mut document = Document::new("ioweir simulate", title, &self.data()?)?;
        document.headline = self.headline();
        document.records = self.records();
        document.push(self.peaks_table());
        for (server, row) in experiment.servers.iter().enumerate() {
            document.heading(row.name());
            document.push(self.table(server));
            document.blocks.push(Block::Figure(self.figure(server)));
        }
        document.provenance = Some(self.meta.provenance());
        Ok(document)
    }

    fn cells_of(&self, server: usize) -> impl Iterator<Item = &ServerCell> {
        self.cells.iter().filter(move |cell| cell.server == server)
    }

    /// Which schedule answers fastest at the highest load that all schedules of a server can take, and by how much.
    fn headline(&self) -> String {
        let sentences: Vec<String> =
            (0..self.experiment.servers.len()).filter_map(|server| self.fastest(server)).collect();
        let length = format!(
            "Runs measure {} swings of the load after {} of warm-up.",
            self.experiment.measured, self.experiment.warm_up
        );
        match &sentences[..] {
            [] => format!("No server has a steady state at any of the loads under all of its schedules. {length}"),
            [one] => format!("{one} {length}"),
            [first, others @ ..] => {
                format!("{first} The tables tell of {} more {}. {length}", others.len(), plural(others.len()))
            }
        }
    }

    fn fastest(&self, server: usize) -> Option<String> {
        let mut loads = self.experiment.loads_of(server).to_vec();
        loads.sort_by(|left, right| right.total_cmp(left));
        let at = |load: f64| self.cells_of(server).filter(move |cell| cell.load.to_bits() == load.to_bits());
        let load = loads.into_iter().find(|load| at(*load).all(ServerCell::is_steady))?;
        let mut cells: Vec<(&ServerCell, f64)> =
            at(load).filter_map(|cell| Some((cell, cell.mean_seconds()?))).collect();
        cells.sort_by(|left, right| left.1.total_cmp(&right.1));
        let (&(best, low), &(worst, high)) = (cells.first()?, cells.last()?);
        let name = self.experiment.servers[server].name();
        let rate = format!("{:.0} requests a second, {:.0} % of its peak", best.requests_per_second, load * 100.0);
        Some(match cells.len() {
            1 => format!("{name} answers in {} in the mean under {}, at {rate}.", format_seconds(low), best.schedule),
            _ => format!(
                "{name} answers fastest under {}, in {} in the mean, and slowest under {}, in {}, at {rate}.",
                best.schedule,
                format_seconds(low),
                worst.schedule,
                format_seconds(high)
            ),
        })
    }

    fn peaks_table(&self) -> Table {
        let columns = [Column::text("server"), Column::text("schedule"), Column::count("peak").unit("requests/s")];
        let mut table = Table::new("Peaks", columns)
            .caption("The highest load at which the server is in a steady state and the mean response time within the limit of the platform.");
        for peak in &self.peaks {
            let name = self.experiment.servers[peak.server].name();
            table.row([name.into(), Cell::from(&peak.schedule), (peak.requests_per_second.round() as u64).into()]);
        }
        table
    }

    fn table(&self, server: usize) -> Table {
        let first = [Column::text("schedule"), Column::number("load", "%"), Column::count("offered/s")];
        let numbers = NUMBERS.iter().map(|number| Column::text(number.head).format(Format::Own).unit(number.unit));
        let columns = first.into_iter().chain(numbers).chain([Column::text("steady")]);
        let mut table = Table::new("Responses", columns).caption(
            "Means with 95 % intervals: of the mean, over the swings of all seeds; of the others, over seeds. Loads are shares of \
             the peak of the first schedule above. Where there is no steady state, numbers grow with the length of the run.",
        );
        for cell in self.cells_of(server) {
            let mut cells = vec![
                Cell::from(&cell.schedule),
                (cell.load * 100.0).into(),
                (cell.requests_per_second.round() as u64).into(),
            ];
            cells.extend(NUMBERS.iter().map(|number| match cell.estimate(number) {
                None => Value::Absent.into(),
                Some(Estimate { mean, half_width: None, .. }) => Cell::from(mean * number.scale),
                Some(Estimate { mean, half_width: Some(half_width), .. }) => {
                    Value::Interval(mean * number.scale, half_width * number.scale).into()
                }
            }));
            cells.push(if cell.is_steady() { "yes" } else { "no" }.into());
            table.row(cells);
        }
        table
    }

    /// Response times over the load, a line for each schedule; loads without a steady state are left out.
    fn figure(&self, server: usize) -> Figure {
        let chart = |title: &str, number: &Number| {
            let mut series: Vec<Series> = Vec::new();
            for cell in self.cells_of(server) {
                let millis = cell.estimate(number).filter(|_| cell.is_steady());
                let point = (cell.load * 100.0, millis.map_or(f64::NAN, |estimate| estimate.mean * number.scale));
                match series.iter_mut().find(|series| series.name == cell.schedule) {
                    Some(series) => series.points.push(point),
                    None => series.push(Series::new(cell.schedule.clone(), Mark::Line, vec![point])),
                }
            }
            let (across, upward) = (Axis::new("load (% of the peak)"), Axis::from_zero(number.unit));
            Chart { title: title.into(), across, upward, series }
        };
        Figure::new(
            format!("Over the load: {}", self.experiment.servers[server].name()),
            "Loads without a steady state are left out.",
            vec![chart("Mean response time", &NUMBERS[0]), chart("p99 response time", &NUMBERS[1])],
        )
    }

    /// One row for each run.
    fn records(&self) -> Table {
        let texts = ["platform", "workload", "schedule", "load", "seed", "requests_per_second"];
        let names = texts.into_iter().chain(NUMBERS.iter().map(|number| number.key)).chain(["saturated"]);
        let mut table = Table::new("", names.map(Column::text));
        for cell in &self.cells {
            let row = &self.experiment.servers[cell.server];
            for (seed, run) in cell.runs.iter().enumerate() {
                let mut cells = vec![Cell::from(&row.platform), Cell::from(&row.workload), Cell::from(&cell.schedule)];
                cells.extend([cell.load.into(), (seed as u64).into(), cell.requests_per_second.into()]);
                cells.extend(NUMBERS.iter().map(|number| Cell::from((number.of)(run))));
                cells.push(Value::Flag(run.saturated).into());
                table.row(cells);
            }
        }
        table
    }

    fn data(&self) -> Result<Json, DocumentError> {
        let result = |cell: &ServerCell| {
            let row = &self.experiment.servers[cell.server];
            let numbers = NUMBERS.iter().map(|number| (number.key.to_owned(), json!(cell.estimate(number))));
            let mut object: Map<String, Json> = numbers.collect();
            object.insert("platform".into(), json!(row.platform));
            object.insert("workload".into(), json!(row.workload));
            object.insert("schedule".into(), json!(cell.schedule));
            object.insert("load".into(), json!(cell.load));
            object.insert("requests_per_second".into(), json!(cell.requests_per_second));
            object.insert("saturated".into(), json!(cell.runs.iter().any(|run| run.saturated)));
            object.insert("steady".into(), json!(cell.is_steady()));
            object.insert("growth_seconds".into(), json!(cell.stationarity.growth_seconds));
            object.insert("operations".into(), cell.operations());
            object.insert("requests_simulated".into(), json!(cell.runs.iter().map(|run| run.simulated).sum::<u64>()));
            Json::Object(object)
        };
        let peak = |peak: &super::Peak| {
            let row = &self.experiment.servers[peak.server];
            json!({
                "platform": row.platform, "workload": row.workload, "schedule": peak.schedule,
                "requests_per_second": peak.requests_per_second,
            })
        };
        Ok(json!({
            "meta": serde_json::to_value(&self.meta)?,
            "peaks": self.peaks.iter().map(peak).collect::<Vec<_>>(),
            "results": self.cells.iter().map(result).collect::<Vec<_>>(),
        }))
    }
}

fn plural(servers: usize) -> &'static str {
    if servers == 1 { "server" } else { "servers" }
}
