//! The start of a server: its engines on the present disks, and the controller that changes it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use ioweir_config::Size;
use ioweir_core::Nanos;
use ioweir_core::tenant::Share;

use super::super::canary::Canary;
use super::super::idle::Idle;
use super::super::operator::Operator;
use super::super::passes::Passes;
use super::super::plan::{DEVICES, SECTORS};
use super::super::promise::Promise;
use super::super::shares::{Both, Shares};
use super::super::tally::Tally;
use super::World;
use ioweir_serve::backend::Shape;
use ioweir_serve::buffer::Pool;
use ioweir_serve::control::{Controller, Tunables};
use ioweir_serve::engine::{Engine, Handle, Report, ServiceReport, Settings, Timeouts, Turn};
use ioweir_serve::executor::MachineClock;
use ioweir_serve::log::{DeviceLog, Log};
use ioweir_serve::nbd::Export;
use ioweir_serve::parts::{Catalog, Exports, Places};
use ioweir_serve::parts::{Engines, Facts, Opened};
use ioweir_serve::spec::{Backend, Holder, Spec};

/// A server that is up.
pub(super) struct Up {
    /// The engines, by the number of their device; `None` for a removed device.
    pub(super) sides: Vec<Option<Side>>,
    /// Engines whose devices are open and that do not serve yet, with the spec that they belong to.
    pub(super) coming: VecDeque<(Side, Spec)>,
    pub(super) controller: Controller,
    pub(super) operator: Operator,
    pub(super) tunables: Arc<Tunables>,
    /// The spec before the operator's present change.
    pub(super) spec: Arc<Spec>,
    /// Whether the spec is saved once the operator has changed it.
    pub(super) saves: bool,
    /// The time at which a pause of the first device ends.
    pub(super) resume_at: Nanos,
}

/// The engine of a device, with its checkers.
pub(super) struct Side {
    /// The number of the device's history.
    pub(super) history: usize,
    pub(super) engine: Engine,
    pub(super) handle: Handle,
    pub(super) shares: Shares,
    pub(super) passes: Passes,
    pub(super) idle: Idle,
    pub(super) due: Nanos,
    /// The engine gets no processor before this time.
    pub(super) stalled_until: Nanos,
    pub(super) tally: Tally,
    pub(super) reports: Vec<Receiver<Report>>,
    /// The services by the last report.
    pub(super) services: Vec<ServiceReport>,
    pub(super) ended: Option<Turn>,
}

impl Up {
    pub(super) fn sides(&self) -> impl Iterator<Item = &Side> {
        self.sides.iter().flatten()
    }

    pub(super) fn sides_mut(&mut self) -> impl Iterator<Item = &mut Side> {
        self.sides.iter_mut().flatten()
    }

    /// The engine of a device.
    pub(super) fn side(&mut self, device: usize) -> Option<&mut Side> {
        self.sides.get_mut(device)?.as_mut()
    }
}

impl World {
    /// The engine of the first device, which always exists.
    pub(super) fn main(&self) -> Option<&Side> {
        self.up.as_ref()?.sides.first()?.as_ref()
    }

    /// Starts a server on the disks as they are.
    pub(super) fn start(&mut self) {
        match self.open() {
            Ok(up) => self.up = Some(up),
            Err(problem) => self.broken(Promise::Durable, format!("the server does not start again: {problem}")),
        }
        self.note("start", 0, 0);
        self.look_at_volumes(Promise::Durable);
        if !self.is_broken() {
            self.probe();
        }
        if !self.is_broken() && self.plan.backing.has_checksums() {
            self.fill();
        }
        if !self.is_broken() {
            self.devices.calm();
            if let Some(canary) = self.plan.canary {
                self.mislead(canary);
            }
        }
    }

    fn open(&mut self) -> Result<Up, String> {
        let mut spec = Spec::parse("world", &self.saved).map_err(|error| error.to_string())?;
        self.put_lengths_right(&mut spec);
        let (operator, stage) = Operator::new();
        let (mut sides, mut opened) = (Vec::new(), Vec::new());
        for number in 0..spec.device.len() {
            let (side, its) = self.open_side(&spec, number)?;
            sides.push(side);
            opened.push(stage.opened(its, number));
        }
        let places: Vec<Places> = opened.iter().map(Opened::places).collect();
        let exports = Exports::of(&spec, &places)?;
        for (number, side) in sides.iter_mut().enumerate() {
            Self::configure(side, &spec, number, &exports.list)?;
        }
        let handles: Vec<Handle> = opened.iter().map(Opened::handle).collect();
        let tunables = Arc::new(Tunables::new(&spec.server, None, Catalog::new(&spec, exports, &handles)));
        let engines = Engines::new(Box::new(stage));
        engines.keep(opened);
        let log = Log::default();
        let parts = (engines, places);
        let controller = Controller::new(spec.clone(), parts, Arc::clone(&tunables), log, MachineClock::new());
        let (sides, coming, spec) = (sides.into_iter().map(Some).collect(), VecDeque::new(), Arc::new(spec));
        let (saves, resume_at) = (false, Nanos::NEVER);
        Ok(Up { sides, coming, controller, operator, tunables, spec, saves, resume_at })
    }

    /// Corrects the length of a device in the spec, as a person does who starts a server after the device has grown.
    fn put_lengths_right(&self, spec: &mut Spec) {
        let length = self.devices.extra_disk().map(|disk| Size(disk.length_bytes()));
        for device in spec.device.iter_mut().filter(|device| device.name == DEVICES[1]) {
            if let Backend::File { size, .. } = &mut device.backend {
                *size = length;
            }
        }
    }

    /// Opens a device.
    pub(super) fn open_side(&mut self, spec: &Spec, number: usize) -> Result<(Side, Facts), String> {
        let device = spec.device[number].clone();
        let is_main = device.name == DEVICES[0];
        let (backend, volumes) =
            if is_main { (self.devices.open(&device)?, None) } else { self.devices.open_extra(&device)? };
        let shape = Shape::of(&*backend);
        let classes = spec.classes();
        let services = self.services(spec, number);
        let scrub = self.scrub(&services);
        let idle = Idle::new(services.iter().map(|plan| (plan.class.0, plan.spec.idle_depth)));
        let services = self.told(services);
        let mut parts = shape.parts.clone();
        if parts.is_empty() && is_main {
            parts.push(0..SECTORS * 512);
        }
        let names = classes.iter().map(|class| class.name.clone()).collect();
        let description = backend.describe();
        let settings = Settings {
            exports: Arc::new([]),
            own_classes: spec.classes_of(number),
            device: device.clone(),
            workers: None,
            timeouts: Timeouts::new(&spec.server),
            priorities: spec.priorities(),
            services,
            epoch: self.epoch,
            now: self.now,
            log: DeviceLog { log: Log::default(), device: device.name, classes: names },
        };
        let pool = Pool::new(device.request_bytes_max.0 as usize);
        let mut engine = Engine::new(settings, backend, pool).map_err(|error| error.to_string())?;
        let shares = self.shares(spec, number);
        let sectors = parts.into_iter().flat_map(|part| part.start / 512..part.end / 512);
        let history = usize::from(!is_main);
        let passes = Passes::new((self.now, self.excused_of(history).after(self.rested)), scrub, sectors);
        engine.observe(Box::new(Both(shares.clone(), Both(passes.clone(), idle.clone()))));
        let facts = Facts { handle: engine.handle(), shape, description, volumes };
        let (handle, tally) = (engine.handle(), Tally::new(&classes, number));
        let (due, stalled_until) = (Nanos::ZERO, Nanos::ZERO);
        let (reports, services, ended) = (Vec::new(), Vec::new(), None);
        let side =
            Side { history, engine, handle, shares, passes, idle, due, stalled_until, tally, reports, services, ended };
        Ok((side, facts))
    }

    /// Lets an engine serve the exports of a spec.
    pub(super) fn configure(
        side: &mut Side,
        spec: &Spec,
        number: usize,
        exports: &Arc<[Export]>,
    ) -> Result<(), String> {
        let entitlements = spec.entitlements(number);
        side.engine.configure(Arc::clone(exports), &entitlements).map_err(|error| error.to_string())
    }

    /// The checker of shares of a device.
    fn shares(&self, spec: &Spec, number: usize) -> Shares {
        let shares = Shares::of(&spec.device[number]);
        if self.plan.canary == Some(Canary::StoppedClock) {
            shares.stop_clock();
        }
        for (holder, share) in spec.entitlements(number) {
            if let Holder::Class(class) = holder {
                let share = match self.plan.canary {
                    Some(Canary::OtherLimit) if share.limit_per_second > 0 => {
                        Share { limit_per_second: share.limit_per_second.div_ceil(4), ..share }
                    }
                    Some(Canary::OtherWeights) => Share { weight: 1 + class.0 * 90, ..share },
                    Some(Canary::OtherReservations) if share.reservation_per_second > 0 => {
                        Share { reservation_per_second: share.reservation_per_second * 4, ..share }
                    }
                    _ => share,
                };
                shares.expect(self.now, class.0, share);
            }
        }
        shares
    }
}
