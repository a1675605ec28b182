//! Specs as Python says them: the name of a file, TOML text, or a dict; keys by name take the place of the spec's.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use toml::{Table, Value};

use crate::InputError;

/// A spec as text, and what errors call it.
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Spec {
    /// The spec, with `keys` in place of its own.
    pub(crate) fn of(spec: Option<&Bound<'_, PyAny>>, keys: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut given = match spec {
            None => Self { name: "keys".into(), text: String::new() },
            Some(spec) => match spec.cast::<PyDict>() {
                Ok(dict) => Self { name: "spec".into(), text: text_of(&table(dict)?) },
                Err(_) => Self::of_text_or_file(spec)?,
            },
        };
        let Some(keys) = keys.filter(|keys| !keys.is_empty()) else { return Ok(given) };
        // Errors in the spec itself are reported with their place there, when it is parsed whole.
        if let Ok(mut whole) = given.text.parse::<Table>() {
            whole.extend(table(keys)?);
            given.text = text_of(&whole);
        }
        Ok(given)
    }

    fn of_text_or_file(spec: &Bound<'_, PyAny>) -> PyResult<Self> {
        let name = path(spec)?;
        if spec.is_instance_of::<PyString>() && name.contains(['\n', '=']) {
            return Ok(Self { name: "spec".into(), text: name });
        }
        let text = ioweir_config::read_spec(&name).map_err(|error| InputError::new_err(error.to_string()))?;
        Ok(Self { name, text })
    }
}

/// A path as text.
pub(crate) fn path(path: &Bound<'_, PyAny>) -> PyResult<String> {
    let fspath = path.py().import("os")?.getattr("fspath")?;
    fspath.call1((path,))?.extract()
}

fn text_of(table: &Table) -> String {
    // A table of values that TOML has can be written.
    toml::to_string(table).unwrap_or_default()
}

/// The table that a dict is; entries that are `None` are left out.
fn table(dict: &Bound<'_, PyDict>) -> PyResult<Table> {
    let mut table = Table::new();
    for (key, value) in dict {
        let key: String = key.extract()?;
        if !value.is_none() {
            let value = value_of(&value).map_err(|error| named(&key, error, value.py()))?;
            table.insert(key, value);
        }
    }
    Ok(table)
}

/// The error, with the key that it is about.
fn named(key: &str, error: PyErr, py: Python<'_>) -> PyErr {
    InputError::new_err(format!("{key}: {}", error.value(py)))
}

fn value_of(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Value::Boolean(flag.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(Value::Integer(value.extract()?));
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Value::Float(number.value()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(text.to_string()));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return table(dict).map(Value::Table);
    }
    if value.hasattr("__fspath__")? {
        return path(value).map(Value::String);
    }
    // Numbers of other libraries.
    if value.hasattr("__index__")? {
        return Ok(Value::Integer(value.extract()?));
    }
    if value.hasattr("__iter__")? {
        let items = value.try_iter()?.map(|item| value_of(&item?));
        return items.collect::<PyResult<_>>().map(Value::Array);
    }
    let kind = value.get_type().qualname()?;
    Err(PyTypeError::new_err(format!("a spec cannot hold a {kind}: expected text, a number, a list, a dict or a path")))
}
