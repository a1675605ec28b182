//! The list of a server's services, as a table.

use ioweir_lab::document::{Column, Table, format_seconds};
use ioweir_serve::engine::ServiceReport;
use ioweir_serve::watch::{ServiceState, State};
use serde_json::Value;

use super::{lists, top};
use crate::failure::Failure;

/// Prints the services of a state that `ioweir ctl` has received.
pub(crate) fn print(state: Value) -> Result<(), Failure> {
    let state: State = top::read(state)?;
    lists::print("services", table(&state.services))
}

/// The services as a table.
pub(super) fn table(services: &[ServiceState]) -> Table {
    let columns = vec![
        Column::text("service"),
        Column::text("kind"),
        Column::text("device"),
        Column::bytes("owed"),
        Column::bytes("done"),
        Column::seconds("device time"),
        Column::text("now"),
        Column::text("found"),
    ];
    let mut table = Table::new("", columns);
    for service in services {
        table.row(vec![
            (&service.name).into(),
            (&service.kind).into(),
            (&service.device).into(),
            service.report.owed_bytes.into(),
            service.report.done_bytes.into(),
            service.report.device_seconds.into(),
            now(&service.report).into(),
            found(&service.report).into(),
        ]);
    }
    table
}

/// The service's present work, or why it waits.
fn now(service: &ServiceReport) -> String {
    let lease = service.lease_left_seconds.map(|left| format!("; its lease ends in {}", format_seconds(left)));
    let late = (service.late_seconds > 0.0).then(|| format!("; late by {}", format_seconds(service.late_seconds)));
    format!("{}{}{}", service.waits_because, lease.unwrap_or_default(), late.unwrap_or_default())
}

/// The damage that the service has found, if any.
fn found(service: &ServiceReport) -> String {
    let found = &service.found;
    let all = [("damaged", found.damaged_bytes), ("failed", found.failed_bytes)];
    let words = all.into_iter().filter(|(_, bytes)| *bytes > 0).map(|(what, bytes)| format!("{bytes} B {what}"));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn service_is_drawn_with_work_and_findings() {
        let service = |change: fn(&mut ServiceReport)| {
            let mut service: ServiceReport = serde_json::from_value(json!({
                "running": false, "waits_because": "nothing is owed",
                "lease_left_seconds": null, "owed_bytes": 0, "done_bytes": 7, "device_seconds": 0.5,
                "found": { "damaged_bytes": 0, "failed_bytes": 0 },
                "last_finished": null, "due_since": null, "late_seconds": 0.0,
            }))
            .unwrap();
            change(&mut service);
            (now(&service), found(&service))
        };
        assert_eq!(service(|_| ()), ("nothing is owed".into(), String::new()));
        let late = service(|service| {
            service.waits_because = "it works".into();
            service.lease_left_seconds = Some(9.0);
            service.late_seconds = 120.0;
            (service.found.damaged_bytes, service.found.failed_bytes) = (8192, 4096);
        });
        let (now, found) = late;
        assert!(now.starts_with("it works; its lease ends in ") && now.contains("; late by "), "{now}");
        assert_eq!(found, "8192 B damaged, 4096 B failed");
    }
}
