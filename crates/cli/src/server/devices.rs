//! The list of a server's devices, as a table.

use ioweir_lab::document::{Column, Screen, Table};
use ioweir_serve::watch::State;
use serde_json::Value;

use super::top;
use crate::failure::Failure;
use crate::output;

/// Prints the devices of a state that `ioweir ctl` has received.
pub(crate) fn print(state: Value) -> Result<(), Failure> {
    let state: State = top::read(state)?;
    let text = if state.devices.is_empty() { "no devices\n".into() } else { draw(&state, output::screen()) };
    output::print(text.as_bytes())
}

fn draw(state: &State, screen: Screen) -> String {
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
    table.to_terminal(screen)
}
