//! Orders of tenants written in Python.

use std::collections::BTreeSet;

use ioweir_core::Nanos;
use ioweir_core::external::{ExternalOrder, First, Maker, OrderFactory};
use ioweir_core::policy::{PolicyRow, Settings};
use ioweir_core::tenant::Share;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::elevator::told;
use crate::verbs::wrong;
use crate::watch::raise;

/// Makes the orders of a class.
#[derive(Debug)]
struct Factory {
    /// A function of the number of tenants that makes an instance.
    make: Py<PyAny>,
    /// A function without arguments that tells its code from any other's.
    code: Py<PyAny>,
}

impl OrderFactory for Factory {
    fn code(&self) -> Result<String, String> {
        told(&self.code)
    }

    fn make(&self, tenants: u32, _settings: &Settings) -> Box<dyn ExternalOrder> {
        let made = Python::attach(|py| {
            let object = self.make.call1(py, (tenants,))?;
            PyResult::Ok(Order { object, waiting: PyDict::new(py).unbind(), active: BTreeSet::new() })
        });
        Box::new(made.unwrap_or_else(|error| raise(error)))
    }
}

/// Makes a class known as an order of tenants of this name.
#[pyfunction]
pub(crate) fn register_order(name: String, summary: String, make: Py<PyAny>, code: Py<PyAny>) -> PyResult<()> {
    let factory: &'static Factory = Box::leak(Box::new(Factory { make, code }));
    let row = PolicyRow::external(name.leak(), summary.leak(), Maker::Order(factory));
    ioweir_config::register_policy(Box::leak(Box::new(row))).map_err(wrong)
}

/// An order whose decisions are Python's: `poll(now, waiting)` answers a tenant of `waiting`, which has for each active one
/// what its first request costs, when it arrived, and its number in the order of submission.
#[derive(Debug)]
struct Order {
    object: Py<PyAny>,
    waiting: Py<PyDict>,
    active: BTreeSet<u32>,
}

impl Order {
    /// Runs something with the object; an exception ends the run.
    fn with<T>(&self, act: impl FnOnce(&Bound<'_, PyAny>, &Bound<'_, PyDict>) -> PyResult<T>) -> T {
        Python::attach(|py| act(self.object.bind(py), self.waiting.bind(py))).unwrap_or_else(|error| raise(error))
    }
}

impl ExternalOrder for Order {
    fn set_share(&mut self, now: Nanos, tenant: u32, share: &Share) {
        self.with(|object, _| {
            let Some(method) = object.getattr_opt("share")? else { return Ok(()) };
            let about = PyDict::new(object.py());
            about.set_item("weight", share.weight)?;
            about.set_item("reservation_per_second", share.reservation_per_second)?;
            about.set_item("limit_per_second", share.limit_per_second)?;
            about.set_item("burst", share.burst)?;
            about.set_item("latency_nanos", (share.latency != Nanos::NEVER).then_some(share.latency.0))?;
            method.call1((now.0, tenant, about)).map(drop)
        });
    }

    fn activate(&mut self, _now: Nanos, tenant: u32, first: First) {
        self.active.insert(tenant);
        self.with(|_, waiting| waiting.set_item(tenant, (first.cost, first.arrived.0, first.sequence)));
    }

    fn deactivate(&mut self, tenant: u32) {
        self.active.remove(&tenant);
        self.with(|object, waiting| {
            waiting.del_item(tenant)?;
            match object.getattr_opt("idle")? {
                Some(method) => method.call1((tenant,)).map(drop),
                None => Ok(()),
            }
        });
    }

    fn poll(&mut self, now: Nanos) -> Option<u32> {
        if self.active.is_empty() {
            return None;
        }
        self.with(|object, waiting| {
            let answer = object.call_method1("poll", (now.0, waiting))?;
            let tenant = answer.extract::<u32>().ok().filter(|tenant| self.active.contains(tenant));
            let message = || format!("poll answers {answer}: a tenant of those that wait is expected");
            tenant.map(Some).ok_or_else(|| wrong(message()))
        })
    }

    fn served(&mut self, now: Nanos, tenant: u32, first: First) {
        self.with(|object, _| match object.getattr_opt("served")? {
            Some(method) => method.call1((now.0, tenant, first.cost)).map(drop),
            None => Ok(()),
        });
    }

    fn boxed(&self) -> Box<dyn ExternalOrder> {
        let copy = self.with(|object, waiting| {
            let copy = object.py().import("copy")?.getattr("deepcopy")?;
            Ok(Self {
                object: copy.call1((object,))?.unbind(),
                waiting: waiting.copy()?.unbind(),
                active: self.active.clone(),
            })
        });
        Box::new(copy)
    }
}
