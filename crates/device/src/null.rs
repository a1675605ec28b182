//! A device with a fixed service time, zero by default, which measures everything else.

use ioweir_core::{Dispatch, Nanos, SECTOR_BYTES};

use super::check::fail;
use super::{Device, Model, Service};
use ioweir_config::{Complaint, Duration, Size, keys};

keys! {
    /// A device that answers after a fixed time.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NullSpec {
        /// the size of the device
        capacity: Size = required,
        /// the service time of every request
        service: Duration = (Duration::default()),
    }
}

/// A device that takes the same time for everything and has no head.
#[derive(Clone, Debug)]
pub struct NullDevice {
    sectors: u64,
    service_nanos: u64,
    free_nanos: u64,
}

impl Model for NullSpec {
    fn check(&self) -> Result<(), Complaint> {
        if self.capacity.0 < SECTOR_BYTES {
            return fail("null.capacity", format!("{} is less than a sector", self.capacity), "give at least 512B");
        }
        Ok(())
    }

    fn build(&self, _seed: u64) -> Result<Box<dyn Device>, Complaint> {
        self.check()?;
        let service_nanos = self.service.nanos().0;
        Ok(Box::new(NullDevice { sectors: self.capacity.0 / SECTOR_BYTES, service_nanos, free_nanos: 0 }))
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
}
