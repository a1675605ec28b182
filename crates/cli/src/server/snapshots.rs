//! The list of a device's snapshots, as a table.

use ioweir_lab::document::{Column, Screen, Table};
use ioweir_serve::control::SnapshotState;
use serde_json::Value;

use crate::failure::Failure;
use crate::output;

/// Prints the snapshots that `ioweir ctl` has received.
pub(crate) fn print(snapshots: Value) -> Result<(), Failure> {
    let snapshots: Vec<SnapshotState> = serde_json::from_value(snapshots)
        .map_err(|error| Failure::Running(format!("the server's answer is not understood: {error}")))?;
    let text = if snapshots.is_empty() { "no snapshots\n".into() } else { draw(&snapshots, output::screen()) };
    output::print(text.as_bytes())
}

fn draw(snapshots: &[SnapshotState], screen: Screen) -> String {
    let columns = vec![Column::text("snapshot"), Column::seconds("age"), Column::bytes("space, most of it shared")];
    let mut table = Table::new("", columns);
    for snapshot in snapshots {
        let age = snapshot.age_seconds as f64;
        table.row(vec![(&snapshot.name).into(), age.into(), snapshot.bytes.into()]);
    }
    table.to_terminal(screen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_listed_with_their_age_and_space() {
        let snapshot = SnapshotState { name: "auto-7".into(), taken_seconds: 7, age_seconds: 90, bytes: 4096 };
        let text = draw(&[snapshot], Screen::default());
        assert!(text.contains("auto-7") && text.contains("90") && text.contains("4"), "{text}");
    }
}
