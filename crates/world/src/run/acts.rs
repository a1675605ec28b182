//! Events around the server: clients leave, operators give orders, disks fail, clocks jump.

use std::sync::mpsc::channel;

use ioweir_core::Nanos;
use ioweir_core::policy::Limits;

use super::super::client::{Ask, Outstanding};
use super::super::disk::Trouble;
use super::super::operator::Wanted;
use super::super::plan::{Act, Clock, Leave, Order, SECTORS};
use super::World;
use super::servers::{Side, Up};
use ioweir_serve::control::{assign, change_of};
use ioweir_serve::engine::{Command, Question};
use ioweir_serve::spec::Spec;

impl World {
    pub(super) fn act(&mut self, act: Act) {
        match act {
            Act::Connect(client, export, replies) => self.connect(client as usize, export, replies),
            Act::Ask(client, ask, fua, first, sectors) => self.ask(client as usize, ask, fua, first, sectors),
            Act::Nonsense(client, draw) => self.ask_nonsense(client as usize, draw),
            Act::Flood(client, flood) => {
                let client = &mut self.clients[client as usize];
                if client.line.is_some() && !client.is_spoilt {
                    (client.flood, client.next_at) = (Some(flood), self.now);
                }
            }
            Act::Deaf(client, span) => {
                let client = &mut self.clients[client as usize];
                if client.line.is_some() {
                    client.deaf_until = self.now.after(span);
                    self.excused = self.excused.after(span);
                }
            }
            Act::Leave(client, how) => self.leave(client as usize, how),
            Act::Order(order) => self.order(order),
            Act::Trouble(disk, trouble) => {
                let until = trouble.hangs_until;
                self.excused = self.excused.after(until);
                let hangs_until = if until > Nanos::ZERO { self.now.after(until) } else { until };
                self.has_trouble = true;
                if !self.plan.backing.holds_copies(disk) {
                    self.is_faulty = true;
                    let rots = trouble.rot_per_million + trouble.lost_per_million + trouble.misdirected_per_million > 0;
                    self.is_rotten |= rots;
                }
                self.note("trouble", disk as u64, until.0);
                self.devices.disks[disk].set_trouble(Trouble { hangs_until, ..trouble });
            }
            Act::Upstream(fate) => {
                // The pauses between tries to connect are at most as long as all before them, or ten seconds.
                self.excused = self.excused.after(Nanos(fate.span().0 * 2)).after(Nanos::from_seconds(10));
                self.note("upstream", fate.span().0, 0);
                self.devices.meet(self.now, fate);
                self.stirred = true;
            }
            Act::Jump(span) => {
                self.note("jump", span.0, 0);
                self.excused = self.excused.after(span);
                self.now = self.now.after(span);
            }
            Act::Stall(device, span) => self.stall(device, span),
            Act::SetClock(way, span) => {
                self.note("clock", way as u64, span.0);
                self.epoch = match way {
                    Clock::Back => self.epoch.since(span),
                    Clock::Forward => self.epoch.after(span),
                };
            }
            Act::End(end, pause) => self.stop(end, pause),
            Act::Rest => self.rest(),
        }
    }

    /// The engine of a device gets no processor for a time.
    fn stall(&mut self, device: usize, span: Nanos) {
        let until = self.now.after(span);
        let Some(side) = self.up.as_mut().and_then(|up| up.side(device)) else { return };
        let (history, more) = (side.history, until.since(side.stalled_until.max(self.now)));
        side.stalled_until = side.stalled_until.max(until);
        self.stalled[history] = self.stalled[history].after(more);
        self.note("stall", device as u64, span.0);
    }

    /// All engines get a processor again.
    pub(super) fn end_stalls(&mut self) {
        self.up.iter_mut().flat_map(Up::sides_mut).for_each(|side| side.stalled_until = Nanos::ZERO);
    }

    /// A client sends an invalid request.
    pub(super) fn ask_nonsense(&mut self, number: usize, draw: u64) {
        let client = &self.clients[number];
        if client.line.is_none() || client.is_spoilt || client.outstanding.len() >= 100 {
            return;
        }
        self.ticks += 1;
        let (cookie, size) = (self.ticks, SECTORS * 512);
        self.note("nonsense", cookie, draw % 5);
        let client = &self.clients[number];
        let (command, flags, offset, length) = match draw % 5 {
            0 => (0, 0, size, 512),
            1 => (1, 0, size - 256, 1024),
            2 => (77, 0, 0, 0),
            3 => (3, 0, 512, 4096),
            _ => (4, 1 << 12, 0, 512),
        };
        let mut bytes = client.head(command, flags, cookie, offset, length);
        if command == 1 {
            bytes.resize(bytes.len() + length as usize, 7);
        }
        let ask = match command {
            0 => Ask::Read,
            1 => Ask::Write,
            4 => Ask::Trim,
            _ => Ask::Flush,
        };
        let patience = (self.excused_of(client.history), Nanos::from_seconds(86_400));
        let asked =
            Outstanding::new(ask, (false, false), (offset / 512, length / 512), (self.ticks, self.now), patience);
        let client = &mut self.clients[number];
        client.outstanding.insert(cookie, asked);
        if let Some(line) = &client.line {
            line.send(&bytes);
        }
    }

    pub(super) fn leave(&mut self, number: usize, how: Leave) {
        let client = &mut self.clients[number];
        let Some(line) = client.line.clone() else { return };
        if client.is_spoilt {
            return;
        }
        client.flood = None;
        client.is_spoilt = true;
        match how {
            Leave::Disconnect => line.send(&client.head(2, 0, 1, 0, 0)),
            Leave::HalfClose => line.half_close(),
            Leave::Reset => line.reset(),
            Leave::HalfARequest => {
                self.ticks += 1;
                let cookie = self.ticks;
                let asked = (Nanos::ZERO, Nanos::NEVER);
                // The half request is answered if the server ends its client meanwhile.
                let is_valid = !client.is_read_only;
                let asked = Outstanding::new(Ask::Write, (false, is_valid), (0, 8), (cookie, self.now), asked);
                client.outstanding.insert(cookie, asked);
                line.send(&client.head(1, 0, cookie, 0, 4096));
                line.send(&[1; 700]);
            }
            Leave::Garbage => line.send(&[0xaa; 64]),
        }
        self.note("leaves", number as u64, how as u64);
        if how == Leave::Reset {
            self.leave_behind(number);
        }
    }

    pub(super) fn order(&mut self, order: Order) {
        let Some(up) = &mut self.up else { return };
        match order {
            Order::Change(draw) => {
                if let Some(assignments) = assignments(&up.spec, draw, &self.plan.spec) {
                    self.want(Wanted::Set(assignments), draw);
                }
            }
            Order::Withdrawn(draw) => self.withdraw(draw),
            Order::Kick(client) => {
                let (device, number) = (self.clients[client as usize].device, self.numbers[client as usize]);
                if let Some(side) = up.side(device) {
                    side.handle.send(Command::Kick(number, channel().0));
                }
            }
            Order::Clients => up.sides().for_each(|side| side.handle.send(Command::Clients(channel().0))),
            Order::Pause(span) => {
                self.excused = self.excused.after(span);
                up.resume_at = self.now.after(Nanos(span.0 / 2));
                self.tell_main(Command::Pause(span, channel().0));
            }
            Order::Reopen => self.tell_main(Command::Reopen(channel().0)),
            Order::Report => self.ask_report(),
            Order::Service(draw) => self.order_service(draw),
            Order::Export(draw) => self.change_exports(draw),
            Order::Extra(draw) => self.change_extra(draw),
        }
        self.note(order.name(), 0, 0);
    }

    fn tell_main(&self, command: Command) {
        if let Some(main) = self.main() {
            main.handle.send(command);
        }
    }

    /// Makes a change of the first device and undoes it, as when another engine refuses it.
    fn withdraw(&mut self, draw: u64) {
        let Some(up) = self.up.as_ref().filter(|up| up.operator.wanted.is_none()) else { return };
        let assignments = assignments(&up.spec, draw, &self.plan.spec);
        // A scheduler without shares ignores them.
        let changed = assignments.and_then(|assignments| assign(&up.spec, &assignments).ok());
        let Some((change, ..)) = changed.and_then(|spec| change_of(&up.spec, &spec, 0, None)) else { return };
        self.tell_main(Command::Change(Box::new(change)));
        self.stirred = true;
        self.turn();
    }

    pub(super) fn ask_report(&mut self) {
        let Some(up) = &mut self.up else { return };
        for side in up.sides_mut() {
            let (sender, receiver) = channel();
            // The world holds the receiver as long as it exists.
            let reply = Box::new(move |report| drop(sender.send(report)));
            side.handle.send(Command::Report(Question { counters: Box::default(), reply }));
            side.reports.push(receiver);
        }
        self.stirred = true;
    }

    pub(super) fn read_reports(&mut self) {
        for side in self.up.iter_mut().flat_map(Up::sides_mut) {
            let Side { reports, services, tally, .. } = side;
            reports.retain(|receiver| match receiver.try_recv() {
                Ok(report) => {
                    services.clone_from(&report.device.services);
                    tally.reported(report);
                    false
                }
                Err(_) => true,
            });
        }
    }
}

/// A change of weights and limits of an export.
fn assignments(spec: &Spec, draw: u64, text: &str) -> Option<Vec<String>> {
    let (export, weight) = (["a", "b", "slice"][(draw % 3) as usize], 1 + (draw >> 8) % 100);
    let (_, its) = spec.present_exports().find(|(_, its)| its.name == export)?;
    let scheduler = &spec.device[spec.device_of(its)].scheduler;
    let mut assignments: Vec<_> =
        scheduler.reads().weight.then(|| format!("export.{export}.weight={weight}")).into_iter().collect();
    if export != "b" && (draw >> 33).is_multiple_of(2) && text.contains("reservation") {
        assignments.push(format!("export.{export}.reservation={}/s", 1 + (draw >> 20) % 300));
    }
    if export == "b" && (draw >> 32).is_multiple_of(2) {
        let key = if scheduler.row.limits == Limits::Directions { "riops" } else { "limit" };
        assignments.push(format!("export.b.{key}={}/s", 20 + (draw >> 20) % 1000));
    }
    // A change of the server concerns every engine.
    if (draw >> 36).is_multiple_of(2) {
        assignments.push(format!("server.shutdown_timeout={}s", 10 + (draw >> 40) % 10));
    }
    (!assignments.is_empty()).then_some(assignments)
}
