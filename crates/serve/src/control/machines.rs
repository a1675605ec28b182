//! Sockets for virtual machines, of exports that come and go while the server runs.
//!
//! The thread that accepts clients makes the sockets and removes them. A virtual machine that connects before its export can be
//! opened waits.

use std::sync::mpsc::Sender;

use super::{Controller, PATIENCE};
use crate::confine;
use crate::spec::{Export, Listen, Spec};
use crate::stopper::{MachineSocket, Question, Stopper};
use ioweir_config::shown;

/// Sockets that a change has made for its exports. If this is dropped before they are opened, they are removed.
pub(super) struct Bound {
    front: Option<Stopper>,
    exports: Vec<usize>,
}

impl Bound {
    /// Lets the front accept virtual machines on the sockets.
    pub(super) fn open(mut self) {
        let (front, exports) = (self.front.take(), std::mem::take(&mut self.exports));
        for export in exports {
            tell(front.as_ref(), |done| Question::Open(export, done));
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        for export in &self.exports {
            tell(self.front.as_ref(), |done| Question::Close(*export, done));
        }
    }
}

/// Waits until the front, if there is one, has done this. A front that has ended has removed its sockets and accepts no client.
fn tell(front: Option<&Stopper>, question: impl FnOnce(Sender<()>) -> Question) {
    let _ = front.map(|front| front.ask(question).recv_timeout(PATIENCE));
}

/// The exports with a socket for virtual machines that are in `spec` and not in `than`.
fn more<'a>(than: &Spec, spec: &'a Spec) -> impl Iterator<Item = (usize, &'a Export, &'a Listen)> {
    let others: Vec<usize> = than.present_exports().map(|(number, _)| number).collect();
    let its = spec.present_exports().filter(move |(number, _)| !others.contains(number));
    its.filter_map(|(number, export)| Some((number, export, export.vhost.as_ref()?)))
}

impl Controller {
    /// Makes the sockets of exports that a change adds.
    pub(super) fn bind_machines(&self, before: &Spec, after: &Spec) -> Result<Bound, String> {
        let front = self.0.front.get().cloned();
        let mut bound = Bound { front, exports: Vec::new() };
        for (export, its, place) in more(before, after) {
            let of = |problem: &str| format!("export {}: {problem}", shown(&its.name));
            let Some(front) = &bound.front else { return Err(of("the server accepts no virtual machines")) };
            let socket = MachineSocket { export, place: place.clone(), server: after.server.clone() };
            let made = front.ask(|answer| Question::Bind(Box::new(socket), answer)).recv_timeout(PATIENCE);
            made.map_err(|_| of("the thread that accepts clients does not answer"))?.map_err(|problem| {
                let is_confined = confine::status().iter().any(|its| its.is_on && its.what != "calls");
                let hint = "the server has given up folders that its spec did not name when it started";
                if is_confined { of(&format!("{problem}\n\nhint: {hint}")) } else { of(&problem) }
            })?;
            bound.exports.push(export);
        }
        Ok(bound)
    }

    /// Removes the sockets of exports that a change has removed.
    pub(super) fn close_machines(&self, before: &Spec, after: &Spec) {
        for (export, ..) in more(after, before) {
            tell(self.0.front.get(), |done| Question::Close(export, done));
        }
    }
}
