//! The list of a server's clients, as a table.

use std::fmt::Write as _;

use ioweir_config::shown;
use ioweir_lab::document::{Column, Screen, Table};
use ioweir_serve::control::{ClientState, Clients};
use serde_json::Value;

use super::top;
use crate::failure::Failure;
use crate::output;

/// Prints the clients that `ioweir ctl` has received.
pub(crate) fn print(clients: Value) -> Result<(), Failure> {
    output::print(draw(&top::read(clients)?, output::screen()).as_bytes())
}

/// The clients as a table, with a remark on missing ones.
fn draw(clients: &Clients, screen: Screen) -> String {
    let mut out = String::new();
    if clients.clients.is_empty() && clients.callers.is_empty() {
        out += "no clients\n";
    } else {
        out += &table(clients).to_terminal(screen);
    }
    // Writing to a string does not fail.
    let others = (clients.negotiating as usize).saturating_sub(clients.callers.len());
    if others > 0 {
        let _ = writeln!(out, "and {others} that have not agreed on an export yet");
    }
    for device in &clients.silent_devices {
        let _ = writeln!(out, "device {}: does not answer, so that its clients are missing here", shown(device));
    }
    out
}

fn table(clients: &Clients) -> Table {
    let columns = vec![
        Column::count("client"),
        Column::text("export"),
        Column::text("class"),
        Column::text("over"),
        Column::text("who"),
        Column::text("state"),
        Column::seconds("for"),
        Column::count("requests"),
        Column::bytes("moved"),
        Column::count("outstanding"),
        Column::count("waiting"),
    ];
    let mut table = Table::new("", columns);
    for client in &clients.clients {
        let ClientState { number, export, class, transport, state, since_seconds, requests, bytes, .. } = client;
        table.row(vec![
            (*number).into(),
            export.into(),
            class.into(),
            transport.into(),
            client.who().into(),
            state.into(),
            (clients.now_seconds - since_seconds).max(0.0).into(),
            (*requests).into(),
            (*bytes).into(),
            u64::from(client.outstanding_requests).into(),
            u64::from(client.waiting_requests).into(),
        ]);
    }
    for caller in &clients.callers {
        let nothing = || "-".into();
        table.row(vec![
            caller.number.into(),
            nothing(),
            nothing(),
            nothing(),
            caller.who().into(),
            "negotiating".into(),
            (clients.now_seconds - caller.since_seconds).max(0.0).into(),
            0_u64.into(),
            0_u64.into(),
            0_u64.into(),
            0_u64.into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clients_read_as_drawn_with_gaps_named() {
        let client = |number: u64, who: Value, state: &str| {
            let mut client = json!({
                "number": number, "export": "gold", "class": "gold", "transport": "nbd", "certificate": [], "process": null, "address": null,
                "since_seconds": 5.0, "state": state, "requests": 1200, "bytes": 4_915_200, "outstanding_requests": 16,
                "waiting_requests": 15,
            });
            for (key, value) in who.as_object().unwrap() {
                client[key] = value.clone();
            }
            client
        };
        let three = json!([
            client(1, json!({ "process": { "pid": 4711, "uid": 1000, "gid": 100 } }), "open"),
            client(
                3,
                json!({ "certificate": ["te\u{1b}nant"], "address": "192.0.2.1:40000", "class": "tenant" }),
                "ending"
            ),
            client(4, json!({ "transport": "vhost-user" }), "gone"),
        ]);
        let drawn = |clients: Value, negotiating: u32, silent: &[&str]| {
            let answer = json!({
                "schema_version": 1, "now_seconds": 75.4, "clients": clients, "negotiating": negotiating,
                "silent_devices": silent,
                "callers": if negotiating == 0 { json!([]) } else { json!([{
                    "number": 2, "certificate": [], "process": null, "address": "192.0.2.7:40000", "since_seconds": 75.0,
                }]) },
            });
            draw(&top::read(answer).unwrap_or_else(|failure| panic!("{failure:?}")), Screen::default())
        };
        insta::assert_snapshot!([drawn(three, 2, &["disk"]), drawn(json!([]), 0, &[])].join("----\n"));
    }
}
