//! The verbs of the block server, and what other pages know of its spec. `no_server.rs` takes the place of this where the
//! feature `serve` is off.

mod clients;
mod control;
mod lists;
mod log;
mod probe;
mod record;
mod replay;
mod scratch;
mod serve;
mod services;
mod top;
mod under;

use std::path::Path;

use ioweir_block::real::{System, restore_left};
use ioweir_config::Key;
use ioweir_measure::record::find_tracefs;
use ioweir_serve::spec::{self, Spec};

pub(crate) use self::{
    control::act as control, probe::act as probe, record::act as record, replay::act as replay, serve::act as serve,
    top::act as top,
};
use crate::failure::Failure;
use crate::output;

/// Undoes what killed processes have left, and says what: settings of devices, and events that were switched on.
fn undo_left(system: &System, state: &Path) {
    let events = find_tracefs(system).map(|tracefs| tracefs.remove_left()).unwrap_or_default();
    events.into_iter().chain(restore_left(system, state)).for_each(|line| output::notice(&line));
}

/// Keys of a server's spec, by table.
pub(crate) fn key_tables() -> Vec<(&'static str, Vec<Key>)> {
    spec::key_tables()
}

/// The backends: name, summary, keys.
#[cfg(all(feature = "plan", feature = "reproduce"))]
pub(crate) fn backends() -> impl Iterator<Item = (&'static str, &'static str, &'static [&'static str])> {
    spec::BACKENDS.iter().map(|row| (row.name, row.summary, row.keys))
}

/// The kinds of services: name, summary, the keys that only some kinds take.
#[cfg(all(feature = "plan", feature = "reproduce"))]
pub(crate) fn service_kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static [&'static str])> {
    spec::SERVICES.iter().map(|row| (row.name, row.summary, row.keys))
}

/// The spec with every default, if the text is a server's spec.
pub(crate) fn printed(name: &str, text: &str) -> Option<Result<String, Failure>> {
    Spec::is_meant_by(text).then(|| Ok(Spec::parse(name, text)?.to_toml()))
}
