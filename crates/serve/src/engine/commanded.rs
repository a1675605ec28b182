//! Commands of other threads to an engine: questions, changes of shares, ending a client, stopping.

use std::sync::mpsc::TryRecvError;

use ioweir_core::policy::POLICIES;
use ioweir_core::tenant::Elsewhere;
use ioweir_core::{Nanos, StreamId};

use super::{
    Call, Change, Command, DeviceReport, Engine, Layout, Question, Rates, Report, ServiceOrder, Stopping, watch_all,
};
use crate::backend::{self, Shape, Tiers, Verifier};
use crate::log::EventKind;

/// The number of waiting requests of a connection. `waiting` is ordered by connection.
fn waiting_of(waiting: &[(u32, u32)], connection: u32) -> u32 {
    let begin = waiting.partition_point(|(its, _)| *its < connection);
    let end = waiting.partition_point(|(its, _)| *its <= connection);
    (end - begin) as u32 // 256 for each connection
}

impl Engine {
    pub(super) fn handle_commands(&mut self) {
        let mut count = [0; 8];
        // If nothing can be read, there is no command.
        let _ = rustix::io::read(&*self.handle.wake, &mut count);
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Serve(client) if self.stopping == Stopping::No && self.is_there(client.agreed.export) => {
                    self.connect(*client);
                }
                Command::Serve(_) => {}
                Command::Change(change) => self.prepare(*change),
                Command::Verdict => self.hear_verdict(),
                Command::Report(question) => self.report(question),
                Command::Reopen(answer) => {
                    // A caller that has left needs no answer, here and below.
                    let _ = answer.send(self.reopen());
                }
                Command::Snapshots(answer) => {
                    let _ = answer.send(self.dispatcher.backend().snapshots());
                }
                Command::Pause(span, ready) => self.pause(span, ready),
                Command::Resume(answer) => {
                    let _ = answer.send(self.resume());
                }
                Command::Grow(size_bytes, answer) => {
                    let _ = answer.send(self.grow(size_bytes));
                }
                Command::Wipe(range, answer) => self.wipe(range, answer),
                Command::DrainExport(export) => self.sessions.drain_export(export),
                Command::Rings(client, order) => self.sessions.carry_out(client, *order),
                // The engine looks at its device in its next turn, for which this command has woken it.
                Command::Look => {}
                Command::Clients(answer) => {
                    let (sessions, waiting) = (&self.sessions, self.admission.waiting());
                    let _ = answer.send(sessions.clients(|slot| waiting_of(&waiting, slot)));
                }
                Command::Kick(number, answer) => {
                    let waiting = self.admission.waiting();
                    let _ = answer.send(self.sessions.kick(number, |slot| waiting_of(&waiting, slot)));
                }
                Command::Service(class, order, answer) => {
                    let _ = answer.send(self.order_service(class, order));
                }
                Command::Served(answer) => {
                    let driver = self.admission.driver();
                    driver.settle_all(self.now);
                    self.accounts.count_waiting(driver);
                    let _ = answer.send(self.accounts.served());
                }
                Command::Elsewhere(told) => self.told_of_others(&told),
                Command::Stop(within) => self.stop(within),
            }
        }
    }

    /// Makes the device longer; returns a description of it.
    fn grow(&mut self, size_bytes: u64) -> Result<String, String> {
        let backend = self.dispatcher.backend_mut();
        backend.grow(size_bytes)?;
        let description = backend.describe();
        // A device that is opened again later has this length.
        if let Ok(grown) = self.device.backend.with_length(size_bytes) {
            self.device.backend = grown;
        }
        self.services.grown(size_bytes);
        Ok(description)
    }

    fn order_service(&mut self, class: StreamId, order: ServiceOrder) -> Result<(), String> {
        if self.prepared.is_some() && matches!(order, ServiceOrder::Run(_, Rates { reserved: Some(_), .. })) {
            return Err("the shares of the device are being changed: try again".into());
        }
        let row = self.device.scheduler.row;
        if matches!(order, ServiceOrder::Run(_, Rates { reserved: Some(_), .. })) && !row.reads.reservation {
            let keeping: Vec<&str> = POLICIES.iter().filter(|row| row.reads.reservation).map(|row| row.name).collect();
            return Err(format!(
                "reservation_bytes_per_second: scheduler {} keeps no reservations, so that this would change nothing\n  \
                 expected: a scheduler that does: {}",
                row.name,
                keeping.join(", ")
            ));
        }
        self.services.order(self.now, class, order, &mut self.admission)
    }

    fn stop(&mut self, within: Option<Nanos>) {
        let until = self.now.after(within.unwrap_or(self.shutdown_timeout));
        self.gives_up = self.gives_up.min(until.after(self.shutdown_timeout));
        if !matches!(self.stopping, Stopping::Closing(before) if before <= until) {
            self.is_stuck = self.dispatcher.moves_data_only();
        }
        match self.stopping {
            Stopping::No => {
                self.stopping = Stopping::Closing(until);
                self.sessions.drain_all();
                self.services.end();
            }
            Stopping::Closing(before) => self.stopping = Stopping::Closing(before.min(until)),
            Stopping::Flushing | Stopping::Done => {}
        }
    }

    /// Tries a change, and reports whether it can be made. The engine keeps its present shares until there is a verdict.
    fn prepare(&mut self, change: Change) {
        self.admission.driver().settle_all(self.now);
        let before = (!change.shares.is_empty()).then(|| self.admission.driver().scheduler().clone());
        let prepared = self.admission.set_shares(self.now, &change.shares);
        let is_feasible = prepared.is_ok();
        if let Some(before) = before {
            *self.admission.driver().scheduler_mut() = before;
        }
        // A controller that has left gives no verdict either, and the change is dropped.
        let _ = change.prepared.send(prepared);
        // A change that was prepared earlier and has no verdict by now is dropped.
        self.prepared = is_feasible.then(|| Box::new(change));
        self.hear_verdict();
    }

    /// Makes the prepared change if its verdict has come, and drops it if its controller has left.
    pub(super) fn hear_verdict(&mut self) {
        let Some(change) = self.prepared.take() else { return };
        match change.verdict.try_recv() {
            Ok(()) => self.make(*change),
            Err(TryRecvError::Empty) => self.prepared = Some(change),
            Err(TryRecvError::Disconnected) => {}
        }
    }

    fn make(&mut self, change: Change) {
        // Up to now, requests have waited for reasons that the old shares gave.
        self.admission.driver().settle_all(self.now);
        // The shares were feasible when they were prepared, and no others change in between.
        if let Err(refusal) = self.admission.set_shares(self.now, &change.shares) {
            let what = format!("a change of shares that was possible is not any more: {}", refusal.error);
            self.log.report(self.now, EventKind::ChangeRefused, &what);
        }
        self.shutdown_timeout = change.timeouts.shutdown;
        self.sessions.set_timeouts(change.timeouts);
        self.admission.set_priorities(change.priorities);
        self.services.set(&change.services);
        self.services.shares_changed(&change.shares);
        if let Some(layout) = change.exports {
            self.lay_out(layout);
        }
        self.divide_room();
        for (holder, share) in change.shares {
            self.admission.called(self.now, &Call::Configure(holder, share));
        }
    }

    /// Takes into account the service that clients received on other servers of the fleet.
    fn told_of_others(&mut self, told: &[(StreamId, Elsewhere)]) {
        self.admission.driver().settle_all(self.now);
        for &(class, elsewhere) in told {
            self.admission.served_elsewhere(self.now, class, elsewhere);
        }
    }

    fn lay_out(&mut self, layout: Layout) {
        let Layout { exports, absent, class_names, own_classes } = layout;
        self.classes = class_names.len() as u32; // a server has thousands at most
        self.admission.driver().grow_classes(self.classes);
        self.sessions.set_exports(exports);
        (self.absent, self.own_classes, self.log.classes) = (absent, own_classes, class_names);
    }

    /// Whether an export can be opened: a client may have agreed on it before it was removed.
    fn is_there(&self, export: usize) -> bool {
        !self.absent.contains(&export)
    }

    /// Opens the device again after a failure, with its durable content.
    fn reopen(&mut self) -> Result<String, String> {
        if self.dispatcher.failure().is_none() {
            return Err("it has not failed".into());
        }
        if !backend::outlives_its_backend(&self.device.backend) {
            return Err("it is in memory: opened again it would be empty".into());
        }
        if !self.dispatcher.is_idle() {
            return Err("operations are still with it: try again when they have ended".into());
        }
        // Two open backends could not use the files at the same time.
        let shape = Shape::of(self.dispatcher.backend());
        self.dispatcher.close();
        let opened = backend::open(&self.device, &mut [], self.workers.as_ref())?;
        if Shape::of(&*opened) != shape {
            return Err("its size has changed: the server must be started again".into());
        }
        watch_all(self.sessions.poller(), opened.descriptors())
            .map_err(|error| format!("it cannot be waited for: {error}"))?;
        let description = opened.describe();
        self.dispatcher.reopened(opened);
        self.log.report(self.now, EventKind::DeviceOpened, &format!("opened again: {description}"));
        Ok(description)
    }

    fn report(&mut self, question: Question) {
        self.admission.driver().settle_all(self.now);
        let counters = self.accounts.exchange(question.counters, self.admission.driver());
        let mut classes = self.admission.classes(self.now, self.classes);
        for class in self.sessions.classes() {
            if let Some(class) = classes.get_mut(class.0 as usize) {
                class.connections += 1;
            }
        }
        for (class, number) in classes.iter_mut().zip(0..) {
            (class.buffered_bytes, class.connections_waiting) = self.sessions.room_of(StreamId(number));
        }
        let inflight = self.dispatcher.in_flight() as u32; // at most the depth of the device
        let checksums = self.dispatcher.backend().verifier().map(Verifier::counts);
        let upstream = self.dispatcher.backend().upstream();
        let failure = self.dispatcher.failure();
        let tenants = self.admission.driver().scheduler().tenants();
        let reservations_behind = tenants.map_or(Nanos::ZERO, |tenants| tenants.reservations_behind());
        let (now, mut services) = (self.now, self.services.reports(self.dispatcher.backend()));
        for service in &mut services {
            // The reservation in effect, which can differ from the rate that the lease asks for.
            let share =
                service.reservation_per_second.and(tenants).map(|tenants| tenants.share(StreamId(service.class)));
            service.reservation_per_second = share.map(|share| share.reservation_per_second);
        }
        let device = DeviceReport {
            now,
            services,
            inflight,
            depth: self.admission.learnt_depth().unwrap_or(self.device.depth),
            checksums,
            upstream,
            tiers: self.dispatcher.backend().tiers().map(Tiers::status),
            failure,
            oldest_operation: self.dispatcher.oldest().map(|begun| now.since(begun)),
            hangs: self.hang.is_seen,
            reservations_behind,
        };
        (question.reply)(Report { counters, classes, device });
    }
}
