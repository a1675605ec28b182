//! The list of a device's bitmaps, as a table.

use ioweir_lab::document::{Column, Table};
use ioweir_serve::control::BitmapState;
use serde_json::Value;

use crate::failure::Failure;
use crate::output;

/// Prints the bitmaps that `ioweir ctl` has received.
pub(crate) fn print(bitmaps: Value) -> Result<(), Failure> {
    let bitmaps: Vec<BitmapState> = serde_json::from_value(bitmaps)
        .map_err(|error| Failure::Running(format!("the server's answer is not understood: {error}")))?;
    let text = if bitmaps.is_empty() { "no bitmaps\n".into() } else { draw(&bitmaps, output::colour()) };
    output::print(text.as_bytes())
}

fn draw(bitmaps: &[BitmapState], colour: bool) -> String {
    let columns =
        vec![Column::text("bitmap"), Column::text(""), Column::bytes("marked"), Column::bytes("a mark is for")];
    let mut table = Table::new("", columns);
    for bitmap in bitmaps {
        let state = if bitmap.records { "records" } else { "frozen" };
        table.row(vec![(&bitmap.name).into(), state.into(), bitmap.marked_bytes.into(), bitmap.region_bytes.into()]);
    }
    table.to_terminal(colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_are_listed_with_what_they_do_and_have_marked() {
        let of =
            |name: &str, records| BitmapState { name: name.into(), records, marked_bytes: 8192, region_bytes: 4096 };
        let text = draw(&[of("daily", true), of("monday", false)], false);
        assert!(text.contains("records") && text.contains("frozen") && text.contains("monday"), "{text}");
    }
}
