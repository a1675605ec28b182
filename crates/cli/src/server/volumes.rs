//! The list of a device's volumes, as a table.

use ioweir_lab::document::{Column, Screen, Table};
use ioweir_serve::control::VolumeState;
use serde_json::Value;

use crate::failure::Failure;
use crate::output;

/// Prints the volumes that `ioweir ctl` has received.
pub(crate) fn print(volumes: Value) -> Result<(), Failure> {
    let volumes: Vec<VolumeState> = serde_json::from_value(volumes)
        .map_err(|error| Failure::Running(format!("the server's answer is not understood: {error}")))?;
    let text = if volumes.is_empty() { "no volumes\n".into() } else { draw(&volumes, output::screen()) };
    output::print(text.as_bytes())
}

fn draw(volumes: &[VolumeState], screen: Screen) -> String {
    let columns =
        vec![Column::text("volume"), Column::bytes("size"), Column::bytes("begins at"), Column::text("exports")];
    let mut table = Table::new("", columns);
    for volume in volumes {
        let exports = volume.exports.join(", ");
        table.row(vec![(&volume.name).into(), volume.size_bytes.into(), volume.offset_bytes.into(), (&exports).into()]);
    }
    table.to_terminal(screen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_listed_with_their_places_and_exports() {
        let exports = vec!["a".into(), "b".into()];
        let volume = VolumeState { name: "one".into(), offset_bytes: 1 << 20, size_bytes: 4096, exports };
        let text = draw(&[volume], Screen::default());
        assert!(text.contains("one") && text.contains("a, b"), "{text}");
    }
}
