//! A device of fixed service time, zero by default, to measure everything else.

use ioweir_core::{Dispatch, Nanos, SECTOR_BYTES};

use super::spec::NullSpec;
use super::{Device, Model, Service};
use ioweir_config::Complaint;

/// A device that takes the same time for everything and has no head.
#[derive(Clone, Debug)]
pub struct NullDevice {
    sectors: u64,
    service_nanos: u64,
    free_nanos: u64,
}

impl NullSpec {
    pub(super) fn check(&self) -> Result<(), Complaint> {
        if self.capacity.0 < SECTOR_BYTES {
            return Err(Complaint::new(
                "null.capacity",
                format!("{} is less than a sector", self.capacity),
                "give at least 512B",
            ));
        }
        Ok(())
    }
}

impl Model for NullSpec {
    fn check(&self) -> Result<(), Complaint> {
        self.check()
    }

    fn build(&self, _seed: u64) -> Result<Box<dyn Device>, Complaint> {
        Ok(Box::new(NullDevice::new(self)?))
    }
}

impl NullDevice {
    pub(super) fn new(spec: &NullSpec) -> Result<Self, Complaint> {
        spec.check()?;
        Ok(Self { sectors: spec.capacity.0 / SECTOR_BYTES, service_nanos: spec.service.nanos().0, free_nanos: 0 })
    }
}

impl Device for NullDevice {
    fn serve(&mut self, now: Nanos, _dispatch: &Dispatch) -> Service {
        let start_nanos = now.0.max(self.free_nanos);
        self.free_nanos = start_nanos.saturating_add(self.service_nanos);
        Service { finish: Nanos(self.free_nanos), transfer_nanos: self.free_nanos - start_nanos, ..Service::default() }
    }

    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn tracks(&self) -> u64 {
        0
    }
}
