//! Elevators written in Python: one event at a time, by a batch of columns, or by a cost.

use std::collections::BTreeMap;

use ioweir_core::external::{ElevatorFactory, ExternalElevator, Maker, Next};
use ioweir_core::policy::{PolicyRow, Settings};
use ioweir_core::{Nanos, Operation, QueueLimits};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyMemoryView};

use crate::verbs::wrong;
use crate::watch::raise;

/// A request as a policy sees it.
#[pyclass(frozen, module = "ioweir")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The id by which `poll` names the request to dispatch. Ids are used again after completion.
    #[pyo3(get)]
    id: u32,
    /// The first sector, of 512 bytes.
    #[pyo3(get)]
    sector: u64,
    /// The length in sectors.
    #[pyo3(get)]
    sectors: u32,
    /// The stream that submitted it.
    #[pyo3(get)]
    stream: u32,
    /// When it was queued, in nanoseconds.
    #[pyo3(get)]
    arrived: u64,
    operation: Operation,
}

#[pymethods]
impl Request {
    /// `read`, `write` or `discard`.
    #[getter]
    fn operation(&self) -> &'static str {
        self.operation.name()
    }

    /// Whether it writes.
    #[getter]
    fn is_write(&self) -> bool {
        self.operation == Operation::Write
    }

    fn __repr__(&self) -> String {
        let Self { id, sector, sectors, stream, .. } = self;
        format!("<request {id}: {} {sector}+{sectors} of stream {stream}>", self.operation.name())
    }
}

/// An answer of `poll` to wait although requests are queued.
#[pyclass(frozen, module = "ioweir")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Until when, in nanoseconds of simulated time.
    #[pyo3(get)]
    until: u64,
}

#[pymethods]
impl Wait {
    #[new]
    fn new(until: u64) -> Self {
        Self { until }
    }

    fn __repr__(&self) -> String {
        format!("Wait(until={})", self.until)
    }
}

/// The queued requests as columns, in the order of arrival. Each is a memoryview, which numpy takes without a copy.
#[pyclass(frozen, module = "ioweir")]
#[derive(Debug)]
pub(crate) struct Queue {
    /// First sectors.
    #[pyo3(get)]
    sector: Py<PyAny>,
    /// Lengths in sectors.
    #[pyo3(get)]
    sectors: Py<PyAny>,
    /// Streams.
    #[pyo3(get)]
    stream: Py<PyAny>,
    /// Times of arrival in nanoseconds.
    #[pyo3(get)]
    arrived: Py<PyAny>,
    /// Whether each writes: 1 or 0.
    #[pyo3(get)]
    is_write: Py<PyAny>,
    length: usize,
}

#[pymethods]
impl Queue {
    fn __len__(&self) -> usize {
        self.length
    }
}

/// How an elevator's class decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `submit(now, request)`, `poll(now)`, `complete(now, request)`.
    Events,
    /// `choose(now, queue)`: one place in the queue, or several, served in that order.
    Batch,
    /// `cost(now, head, queue)`: a cost for each; the lowest goes next.
    Cost,
}

/// Makes the elevators of a class.
#[derive(Debug)]
struct Factory {
    /// A function of the limits that makes an instance.
    make: Py<PyAny>,
    form: Form,
    merges: bool,
    /// A function without arguments that tells its code from any other's.
    code: Py<PyAny>,
}

impl ElevatorFactory for Factory {
    fn code(&self) -> Result<String, String> {
        told(&self.code)
    }

    fn make(&self, limits: &QueueLimits, _settings: &Settings) -> Box<dyn ExternalElevator> {
        let made = Python::attach(|py| {
            let about = PyDict::new(py);
            about.set_item("depth", limits.depth)?;
            about.set_item("requests_per_direction", limits.requests_per_direction)?;
            about.set_item("rotational", limits.rotational)?;
            let object = self.make.call1(py, (about,))?;
            let methods = Methods::of(object.bind(py))?;
            PyResult::Ok((object, methods))
        });
        let (object, methods) = made.unwrap_or_else(|error| raise(error));
        Box::new(Elevator {
            object,
            methods,
            form: self.form,
            merges: self.merges,
            queued: BTreeMap::new(),
            slots: BTreeMap::new(),
            planned: Vec::new(),
            arrivals: 0,
            head: 0,
        })
    }
}

/// The answer of a Python function, or the exception that it raises, as text.
pub(crate) fn told(code: &Py<PyAny>) -> Result<String, String> {
    Python::attach(|py| {
        let answer = code.call0(py).and_then(|answer| answer.extract(py));
        answer.map_err(|error: PyErr| error.value(py).to_string())
    })
}

/// Makes a class known as an elevator of this name.
#[pyfunction]
pub(crate) fn register_elevator(
    name: String,
    summary: String,
    make: Py<PyAny>,
    form: &str,
    merges: bool,
    code: Py<PyAny>,
) -> PyResult<()> {
    let form = match form {
        "events" => Form::Events,
        "batch" => Form::Batch,
        "cost" => Form::Cost,
        _ => return Err(PyValueError::new_err(format!("{form} is no form: events, batch, cost"))),
    };
    // The factory lives as long as the process, like the rows of the table; a class is registered once.
    let factory: &'static Factory = Box::leak(Box::new(Factory { make, form, merges, code }));
    let row = PolicyRow::external(name.leak(), summary.leak(), Maker::Elevator(factory));
    ioweir_config::register_policy(Box::leak(Box::new(row))).map_err(wrong)
}

/// The methods of an elevator, looked up once; those that its class does not have are absent.
#[derive(Debug)]
struct Methods {
    submit: Option<Py<PyAny>>,
    merged: Option<Py<PyAny>>,
    remove: Option<Py<PyAny>>,
    poll: Option<Py<PyAny>>,
    complete: Option<Py<PyAny>>,
}

impl Methods {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let method = |name: &str| PyResult::Ok(object.getattr_opt(name)?.map(Bound::unbind));
        Ok(Self {
            submit: method("submit")?,
            merged: method("merged")?,
            remove: method("remove")?,
            poll: method("poll")?,
            complete: method("complete")?,
        })
    }
}

/// An elevator whose decisions are made by a Python object.
#[derive(Debug)]
struct Elevator {
    object: Py<PyAny>,
    methods: Methods,
    form: Form,
    merges: bool,
    /// The queued requests, in the order of arrival.
    queued: BTreeMap<u64, Request>,
    /// The places of slots in that order.
    slots: BTreeMap<u32, u64>,
    /// Slots that a batch has chosen and that are still to go, the next one last.
    planned: Vec<u32>,
    arrivals: u64,
    /// The sector after the last dispatch.
    head: u64,
}

/// Calls a method, if the class has it.
fn tell(method: Option<&Py<PyAny>>, now: Nanos, request: Request) {
    if let Some(method) = method {
        Python::attach(|py| method.call1(py, (now.0, request))).unwrap_or_else(|error| raise(error));
    }
}

impl Elevator {
    fn take(&mut self, slot: u32) -> Option<Request> {
        let place = self.slots.remove(&slot)?;
        self.queued.remove(&place)
    }

    /// The class's answer to `poll`.
    fn ask(&self, py: Python<'_>, now: Nanos) -> PyResult<Next> {
        let poll = self.methods.poll.as_ref().ok_or_else(|| wrong("the class has no poll"))?;
        let answer = poll.bind(py).call1((now.0,))?;
        if answer.is_none() {
            return Ok(Next::WaitUntil(Nanos::NEVER));
        }
        if let Ok(wait) = answer.cast::<Wait>() {
            let until = wait.get().until;
            let message = || format!("poll waits until {until}, and it is {now} already: a time to come is expected");
            return if until > now.0 { Ok(Next::WaitUntil(Nanos(until))) } else { Err(wrong(message())) };
        }
        let request = answer.cast::<Request>().map(|request| request.get().id).ok();
        let id = request.map_or_else(|| answer.extract::<u32>(), Ok);
        let id =
            id.map_err(|_| wrong(format!("poll answers {answer}: the id of a request, Wait or None is expected")))?;
        if self.slots.contains_key(&id) {
            return Ok(Next::Take(id));
        }
        Err(wrong(format!(
            "poll answers {id}, which is no queued request: the id of one that was submitted is expected"
        )))
    }

    /// The queue as columns.
    fn columns(&self, py: Python<'_>) -> PyResult<Queue> {
        let view = |bytes: Vec<u8>, code: &str| -> PyResult<Py<PyAny>> {
            let view = PyMemoryView::from(&PyBytes::new(py, &bytes))?;
            Ok(view.call_method1("cast", (code,))?.unbind())
        };
        let requests = || self.queued.values();
        let long =
            |value: fn(&Request) -> u64| view(requests().flat_map(|one| value(one).to_ne_bytes()).collect(), "Q");
        let short =
            |value: fn(&Request) -> u32| view(requests().flat_map(|one| value(one).to_ne_bytes()).collect(), "I");
        Ok(Queue {
            sector: long(|one| one.sector)?,
            sectors: short(|one| one.sectors)?,
            stream: short(|one| one.stream)?,
            arrived: long(|one| one.arrived)?,
            is_write: view(requests().map(|one| u8::from(one.is_write())).collect(), "B")?,
            length: self.queued.len(),
        })
    }

    /// Has the class choose from the whole queue.
    fn choose(&mut self, py: Python<'_>, now: Nanos) -> PyResult<()> {
        let queue = self.columns(py)?;
        let object = self.object.bind(py);
        let chosen: Vec<usize> = if self.form == Form::Cost {
            let costs = object.call_method1("cost", (now.0, self.head, queue))?;
            lowest(&costs, self.queued.len())?.into_iter().collect()
        } else {
            let answer = object.call_method1("choose", (now.0, queue))?;
            if answer.is_none() {
                Vec::new()
            } else if answer.is_instance_of::<PyInt>() || answer.hasattr("__index__")? && !answer.hasattr("__len__")? {
                vec![answer.extract()?]
            } else {
                answer.try_iter()?.map(|place| place?.extract()).collect::<PyResult<_>>()?
            }
        };
        let ids: Vec<u32> = self.queued.values().map(|request| request.id).collect();
        for place in chosen.into_iter().rev() {
            let id = *ids.get(place).ok_or_else(|| {
                wrong(format!("choose answers {place}: a place in the queue of {} is expected", ids.len()))
            })?;
            if self.planned.contains(&id) {
                return Err(wrong(format!("choose answers {place} twice: each place once is expected")));
            }
            self.planned.push(id);
        }
        Ok(())
    }
}

/// The place of the lowest of `length` costs, the first of equal ones.
fn lowest(costs: &Bound<'_, PyAny>, length: usize) -> PyResult<Option<usize>> {
    let costs: Vec<f64> = match PyBuffer::<f64>::get(costs) {
        Ok(buffer) => buffer.to_vec(costs.py())?,
        Err(_) => costs.try_iter()?.map(|cost| cost?.extract()).collect::<PyResult<_>>()?,
    };
    if costs.len() != length {
        return Err(wrong(format!(
            "cost answers {} costs: one for each of {length} requests is expected",
            costs.len()
        )));
    }
    if costs.iter().any(|cost| cost.is_nan()) {
        return Err(wrong("cost answers a cost that is no number"));
    }
    Ok((0..length).min_by(|left, right| costs[*left].total_cmp(&costs[*right])))
}

impl ExternalElevator for Elevator {
    fn submit(&mut self, now: Nanos, slot: u32, request: &ioweir_core::Request) {
        let ioweir_core::Request { operation, stream, sector, sectors, .. } = *request;
        let request = Request { id: slot, sector, sectors, stream: stream.0, arrived: now.0, operation };
        self.queued.insert(self.arrivals, request);
        self.slots.insert(slot, self.arrivals);
        self.arrivals += 1;
        if self.form == Form::Events {
            tell(self.methods.submit.as_ref(), now, request);
        }
    }

    fn merged(&mut self, slot: u32, request: &ioweir_core::Request) {
        let place = self.slots.get(&slot);
        let Some(known) = place.and_then(|place| self.queued.get_mut(place)) else { return };
        (known.sector, known.sectors) = (request.sector, request.sectors);
        let known = *known;
        if self.form == Form::Events {
            tell(self.methods.merged.as_ref(), Nanos(known.arrived), known);
        }
    }

    fn remove(&mut self, slot: u32) {
        self.planned.retain(|planned| *planned != slot);
        let removed = self.take(slot);
        if let (Form::Events, Some(request)) = (self.form, removed) {
            tell(self.methods.remove.as_ref(), Nanos(request.arrived), request);
        }
    }

    fn poll(&mut self, now: Nanos) -> Next {
        let next = if self.form == Form::Events {
            Python::attach(|py| self.ask(py, now)).unwrap_or_else(|error| raise(error))
        } else {
            if self.planned.is_empty() {
                Python::attach(|py| self.choose(py, now)).unwrap_or_else(|error| raise(error));
            }
            self.planned.pop().map_or(Next::WaitUntil(Nanos::NEVER), Next::Take)
        };
        if let Next::Take(slot) = next
            && let Some(request) = self.take(slot)
        {
            self.head = request.sector + u64::from(request.sectors);
        }
        next
    }

    fn complete(&mut self, now: Nanos, slot: u32, request: &ioweir_core::Request) {
        let ioweir_core::Request { operation, stream, sector, sectors, .. } = *request;
        let request = Request { id: slot, sector, sectors, stream: stream.0, arrived: now.0, operation };
        tell(self.methods.complete.as_ref(), now, request);
    }

    fn may_merge(&self, _slot: u32, _request: &ioweir_core::Request) -> bool {
        self.merges
    }

    fn boxed(&self) -> Box<dyn ExternalElevator> {
        let copy = Python::attach(|py| {
            let copy = py.import("copy")?.getattr("deepcopy")?.call1((&self.object,))?;
            let methods = Methods::of(&copy)?;
            PyResult::Ok((copy.unbind(), methods))
        });
        let (object, methods) = copy.unwrap_or_else(|error| raise(error));
        Box::new(Self {
            object,
            methods,
            queued: self.queued.clone(),
            slots: self.slots.clone(),
            planned: self.planned.clone(),
            ..*self
        })
    }
}
