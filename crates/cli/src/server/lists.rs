//! The lists of a server's devices, volumes and snapshots, as tables.

use ioweir_lab::document::{Column, Table};
use ioweir_serve::control::{SnapshotState, VolumeState};
use ioweir_serve::watch::State;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::top;
use crate::failure::Failure;
use crate::output;

/// Prints the devices of a state that `ioweir ctl` has received.
pub(crate) fn print_devices(state: Value) -> Result<(), Failure> {
    print("devices", devices(&top::read(state)?))
}

/// Prints the volumes of a device that `ioweir ctl` has received.
pub(crate) fn print_volumes(list: Value) -> Result<(), Failure> {
    print("volumes", volumes(&read(list)?))
}

/// Prints the snapshots of a device that `ioweir ctl` has received.
pub(crate) fn print_snapshots(list: Value) -> Result<(), Failure> {
    print("snapshots", snapshots(&read(list)?))
}

/// Prints a table of things of this kind, or that there are none.
pub(super) fn print(what: &str, table: Table) -> Result<(), Failure> {
    let text = if table.rows.is_empty() { format!("no {what}\n") } else { table.to_terminal(output::screen()) };
    output::print(text.as_bytes())
}

fn read<T: DeserializeOwned>(list: Value) -> Result<Vec<T>, Failure> {
    serde_json::from_value(list)
        .map_err(|error| Failure::Running(format!("the server's answer is not understood: {error}")))
}

fn devices(state: &State) -> Table {
    let columns = vec![
        Column::text("device"),
        Column::bytes("size"),
        Column::text("scheduler"),
        Column::text("exports"),
        Column::text("what it is"),
    ];
    let mut table = Table::new("", columns);
    for device in &state.devices {
        let shows = state.classes.iter().filter(|class| class.kind == "export" && class.device == device.name);
        let exports = shows.map(|class| class.name.as_str()).collect::<Vec<_>>().join(", ");
        table.row(vec![
            (&device.name).into(),
            device.size_bytes.into(),
            (&device.scheduler).into(),
            (&exports).into(),
            (&device.description).into(),
        ]);
    }
    table
}

fn volumes(list: &[VolumeState]) -> Table {
    let columns =
        vec![Column::text("volume"), Column::bytes("size"), Column::bytes("begins at"), Column::text("exports")];
    let mut table = Table::new("", columns);
    for volume in list {
        let exports = volume.exports.join(", ");
        table.row(vec![(&volume.name).into(), volume.size_bytes.into(), volume.offset_bytes.into(), (&exports).into()]);
    }
    table
}

fn snapshots(list: &[SnapshotState]) -> Table {
    let columns = vec![Column::text("snapshot"), Column::seconds("age"), Column::bytes("space, most of it shared")];
    let mut table = Table::new("", columns);
    for snapshot in list {
        let age = snapshot.age_seconds as f64;
        table.row(vec![(&snapshot.name).into(), age.into(), snapshot.bytes.into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use ioweir_lab::document::Screen;

    use super::*;

    #[test]
    fn volumes_are_listed_with_their_places_and_exports() {
        let exports = vec!["a".into(), "b".into()];
        let volume = VolumeState { name: "one".into(), offset_bytes: 1 << 20, size_bytes: 4096, exports };
        let text = volumes(&[volume]).to_terminal(Screen::default());
        assert!(text.contains("one") && text.contains("a, b"), "{text}");
    }

    #[test]
    fn snapshots_are_listed_with_their_age_and_space() {
        let snapshot = SnapshotState { name: "auto-7".into(), taken_seconds: 7, age_seconds: 90, bytes: 4096 };
        let text = snapshots(&[snapshot]).to_terminal(Screen::default());
        assert!(text.contains("auto-7") && text.contains("90") && text.contains("4"), "{text}");
    }
}
