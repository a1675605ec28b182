//! An experiment as data: JSON and CSV. Names of figures come from the table of metrics, times in seconds.

use ioweir_core::Reason;
use serde_json::{Map, Value, json};

use crate::experiment::{ExperimentReport, Figure, METRICS, Summary};
use crate::report::ReportError;

/// A figure's name with its unit.
fn key(name: &str, is_time: bool) -> String {
    if is_time { format!("{name}_seconds") } else { name.to_owned() }
}

fn figures(summary: &Summary, class: Option<&str>) -> Map<String, Value> {
    let figure = |metric: &&crate::experiment::Metric| {
        let has = if class.is_some() { metric.of_class.is_some() } else { metric.of_run.is_some() };
        has.then(|| (key(metric.name, metric.is_time), value(summary.figure(metric, class))))
    };
    METRICS.iter().filter_map(|metric| figure(&metric)).collect()
}

fn value(figure: Option<Figure>) -> Value {
    match figure {
        None => Value::Null,
        Some(Figure { mean, half_width: None, .. }) => json!(mean),
        Some(Figure { mean, half_width, seeds }) => json!({ "mean": mean, "half_width": half_width, "seeds": seeds }),
    }
}

/// One object: where it comes from, a result for each point and scheduler, the expectations.
pub(super) fn json(report: &ExperimentReport) -> Result<String, ReportError> {
    let mut results = Vec::new();
    for summary in &report.summaries {
        let class = |name: &str| {
            let mut object = figures(summary, Some(name));
            let of_class = || {
                let classes = summary.cells.iter().flat_map(|cell| &cell.classes);
                classes.filter(|class| class.name == name)
            };
            object.insert("requests".into(), json!(of_class().map(|class| class.requests).sum::<u64>()));
            let steps: Vec<_> = of_class().map(|class| &class.steps).collect();
            object.insert("steps_by_seed".into(), json!(steps));
            (name.to_owned(), Value::Object(object))
        };
        let classes: Map<String, Value> = summary.classes().map(class).collect();
        let waits = |cell: &crate::sim::Outcome| {
            let waits = Reason::ALL.iter().map(|reason| (reason.name(), cell.wait_nanos[*reason as usize]));
            let waits =
                waits.filter(|wait| wait.1 > 0).map(|(name, nanos)| (name.to_owned(), json!(nanos as f64 / 1e9)));
            Value::Object(waits.collect())
        };
        let point: Map<String, Value> = summary.point.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        results.push(json!({
            "scheduler": summary.scheduler,
            "point": point,
            "seeds": summary.cells.iter().map(|cell| cell.seed).collect::<Vec<_>>(),
            "requests_simulated": summary.cells.iter().map(|cell| cell.requests_simulated).sum::<u64>(),
            "run": figures(summary, None),
            "classes": classes,
            "wait_seconds_by_reason_by_seed": summary.cells.iter().map(waits).collect::<Vec<_>>(),
        }));
    }
    let object = json!({
        "meta": serde_json::to_value(&report.meta)?,
        "interval_seconds": report.experiment.interval.0.as_seconds(),
        "results": results,
        "expectations": serde_json::to_value(&report.verdicts)?,
    });
    Ok(serde_json::to_string_pretty(&object)? + "\n")
}

/// One row a class, scheduler, point and seed.
pub(super) fn csv(report: &ExperimentReport) -> String {
    let metrics: Vec<_> = METRICS.iter().filter(|metric| metric.of_class.is_some()).collect();
    let points: Vec<&String> =
        report.summaries.first().map_or_else(Vec::new, |summary| summary.point.iter().map(|(key, _)| key).collect());
    let mut head = vec!["scheduler".to_owned()];
    head.extend(points.iter().map(|key| (*key).clone()));
    head.extend(["seed", "class", "requests"].map(String::from));
    head.extend(metrics.iter().map(|metric| key(metric.name, metric.is_time)));
    let mut out = row(&head);
    for cell in report.summaries.iter().flat_map(|summary| &summary.cells) {
        for class in &cell.classes {
            let mut fields = vec![cell.scheduler.clone()];
            fields.extend(cell.point.iter().map(|(_, value)| value.clone()));
            fields.extend([cell.seed.to_string(), class.name.clone(), class.requests.to_string()]);
            let figure = |metric: &&&crate::experiment::Metric| {
                metric.of(cell, Some(&class.name)).map_or_else(String::new, |value| value.to_string())
            };
            fields.extend(metrics.iter().map(|metric| figure(&metric)));
            out += &row(&fields);
        }
    }
    out
}

fn row(fields: &[String]) -> String {
    let quoted = |field: &String| {
        if field.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.clone()
        }
    };
    fields.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}
