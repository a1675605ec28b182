//! Traces: read as Arrow, and written from Arrow as a file that every verb reads.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader as _};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Schema};
use ioweir_core::{Flags, Nanos, Operation, Priority, StreamId};
use ioweir_lab::run::without_folders;
use ioweir_trace::{
    self as trace, Event, Format, Names, ReadOptions, Record, Target, TraceError, TraceGroup, TraceSink, TraceSource,
};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use pyo3_arrow::input::AnyRecordBatch;

use crate::RunError;
use crate::arrow::{capsule, trace_arrays, trace_fields};
use crate::spec::path;
use crate::verbs::wrong;

/// A trace that is read again for each consumer, batch by batch. As Arrow it has one row for each request.
#[pyclass(frozen, module = "ioweir")]
#[derive(Debug)]
pub(crate) struct Trace {
    files: Vec<PathBuf>,
    options: ReadOptions,
    format: &'static Format,
}

impl Trace {
    /// How its files are read.
    pub(crate) const fn options(&self) -> &ReadOptions {
        &self.options
    }

    fn open(&self) -> PyResult<Box<dyn TraceSource>> {
        trace::open(&self.files, &self.options).map_err(wrong)
    }
}

#[pymethods]
impl Trace {
    /// The name of its format.
    #[getter]
    fn format(&self) -> &'static str {
        self.format.name
    }

    /// The files of the trace.
    #[getter]
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    /// The names of streams and volumes, which the numbers in those columns stand for. Reads the whole trace.
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut source = self.open()?;
        let names = py.detach(|| {
            let mut batch = Vec::new();
            loop {
                source.read_batch(&mut batch)?;
                if batch.is_empty() {
                    return Ok(source.names().clone());
                }
            }
        });
        let names: Names = names.map_err(|error: TraceError| wrong(error))?;
        let dict = PyDict::new(py);
        dict.set_item("streams", names.streams)?;
        dict.set_item("volumes", names.volumes)?;
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        format!("<trace {} ({})>", files.join(", "), self.format.name)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let mut source = self.open()?;
        let schema = Arc::new(Schema::new(trace_fields()));
        let of = Arc::clone(&schema);
        let mut records = Vec::new();
        let batches = std::iter::from_fn(move || {
            if let Err(error) = source.read_batch(&mut records) {
                return Some(Err(ArrowError::ExternalError(Box::new(error))));
            }
            let batch = || RecordBatch::try_new(Arc::clone(&of), trace_arrays(records.iter()));
            (!records.is_empty()).then(batch)
        });
        capsule(py, &schema, batches, requested_schema)
    }
}

/// Opens a trace of any format.
#[pyfunction]
#[pyo3(signature = (files, /, *, format=None, volume=None, event=None, lenient=false))]
pub(crate) fn read(
    files: Vec<Bound<'_, PyAny>>,
    format: Option<&str>,
    volume: Option<String>,
    event: Option<&str>,
    lenient: bool,
) -> PyResult<Trace> {
    let names = files.iter().map(path).collect::<PyResult<Vec<_>>>()?;
    let event: Event = event.map_or(Ok(Event::default()), str::parse).map_err(wrong)?;
    let format = format.map(trace::named).transpose().map_err(wrong)?;
    let options = ReadOptions { format, event, lenient, volume, latency: true, ..ReadOptions::default() };
    // A folder or the common part of per-processor files stands for the files of one trace, as on the command line.
    let (names, _) = without_folders(&names, &options).map_err(wrong)?;
    let paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    let groups = trace::group(&paths).map_err(wrong)?;
    let [TraceGroup { files, .. }] = &groups[..] else {
        return Err(wrong(format!("{} traces are named\n  expected: the files of one trace", groups.len())));
    };
    let files = files.clone();
    let format = trace::recognise(&files, &options).map_err(wrong)?;
    Ok(Trace { files, options, format })
}

/// Writes a trace from Arrow data, piece by piece: each a stream or batch with the columns of a trace.
#[pyclass(frozen, module = "ioweir")]
pub(crate) struct TraceWriter(Mutex<Option<(Box<dyn TraceSink>, Rows)>>);

impl TraceWriter {
    fn ended() -> PyErr {
        RunError::new_err("the trace is finished")
    }
}

#[pymethods]
impl TraceWriter {
    #[new]
    fn new(file: &Bound<'_, PyAny>) -> PyResult<Self> {
        let name = path(file)?;
        let writer = trace::format("parquet").and_then(|format| format.write);
        let open = writer.ok_or_else(|| wrong("this build leaves out Parquet"))?.open;
        let created = File::create(&name).map_err(|error| wrong(format!("{name}: cannot be written: {error}")))?;
        let sink = open(Target::new(&*name, Box::new(BufWriter::new(created)))).map_err(wrong)?;
        Ok(Self(Mutex::new(Some((sink, Rows::default())))))
    }

    /// Adds rows, which are in the order of time.
    fn write(&self, py: Python<'_>, data: AnyRecordBatch) -> PyResult<()> {
        let reader = data.into_reader()?;
        py.detach(|| {
            let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((sink, rows)) = writer.as_mut() else { return Err(Self::ended()) };
            check_columns(&reader.schema()).map_err(wrong)?;
            let mut records = Vec::new();
            for batch in reader {
                rows.records(&batch.map_err(wrong)?, &mut records).map_err(wrong)?;
                sink.write_batch(&records, &rows.names).map_err(wrong)?;
            }
            Ok(())
        })
    }

    /// Ends the file. Returns the number of requests.
    fn finish(&self) -> PyResult<u64> {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (sink, rows) = writer.take().ok_or_else(Self::ended)?;
        sink.finish(&rows.names, None).map_err(wrong)?;
        Ok(rows.read)
    }
}

/// Writes Arrow data as CSV, as which tables of rates are read.
#[pyfunction]
pub(crate) fn write_csv(py: Python<'_>, data: AnyRecordBatch, file: &Bound<'_, PyAny>) -> PyResult<()> {
    let name = path(file)?;
    let reader = data.into_reader()?;
    py.detach(|| {
        let field = |text: String| match text.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text,
        };
        let line = |fields: Vec<String>| fields.join(",") + "\n";
        let mut text = line(reader.schema().fields().iter().map(|column| field(column.name().clone())).collect());
        let options = FormatOptions::default();
        for batch in reader {
            let batch = batch.map_err(wrong)?;
            let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
            let columns = columns.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
            for row in 0..batch.num_rows() {
                text += &line(columns.iter().map(|column| field(column.value(row).to_string())).collect());
            }
        }
        std::fs::write(&name, text).map_err(|error| wrong(format!("{name}: cannot be written: {error}")))
    })
}

/// Refuses data without the columns that every trace has.
fn check_columns(schema: &Schema) -> Said<()> {
    let known: Vec<String> = trace_fields().iter().map(|field| field.name().clone()).collect();
    let Some(missing) = known[..4].iter().find(|name| schema.column_with_name(name).is_none()) else { return Ok(()) };
    let there: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    Err(format!(
        "column {missing} is missing\n  expected: {}; the last five may be left out\n\nhint: the columns are {}",
        known.join(", "),
        there.join(", ")
    ))
}

type Said<T> = Result<T, String>;

/// Turns rows of Arrow data into records.
#[derive(Default)]
struct Rows {
    names: Names,
    read: u64,
    last: Nanos,
}

impl Rows {
    fn records(&mut self, batch: &RecordBatch, records: &mut Vec<Record>) -> Said<()> {
        records.clear();
        let column = |name: &str| batch.column_by_name(name);
        let numbers = |name: &str| column(name).map(|array| numbers(name, array)).transpose();
        let present = |name: &str| numbers(name)?.ok_or_else(|| format!("column {name} is missing"));
        let (times, offsets, lengths) = (present("time_nanos")?, present("offset_bytes")?, present("length_bytes")?);
        let operations = operations(column("operation").ok_or("column operation is missing")?)?;
        let (flags, priorities, latencies) = (numbers("flags")?, numbers("priority")?, numbers("latency_nanos")?);
        let streams = labels("stream", column("stream"), batch.num_rows(), &mut self.names.streams)?;
        let volumes = labels("volume", column("volume"), batch.num_rows(), &mut self.names.volumes)?;
        for row in 0..batch.num_rows() {
            let wrong = |what: &str| format!("row {}: {what}", self.read + row as u64);
            let value = |values: &[Option<u64>], what: &str| {
                values.get(row).copied().flatten().ok_or_else(|| wrong(&format!("{what} is null")))
            };
            let time = Nanos(value(&times, "time_nanos")?);
            if time < self.last {
                return Err(wrong("time_nanos is before the row above\n  expected: rows in the order of time"));
            }
            self.last = time;
            let byte = |values: &Option<Vec<Option<u64>>>| values.as_ref().and_then(|values| values[row]).unwrap_or(0);
            let bits = |value: u64| u8::try_from(value).ok();
            let flags = bits(byte(&flags)).and_then(Flags::from_bits).ok_or_else(|| wrong("flags are unknown"))?;
            let priority =
                bits(byte(&priorities)).and_then(Priority::from_bits).ok_or_else(|| wrong("priority is unknown"))?;
            records.push(Record {
                time,
                offset_bytes: value(&offsets, "offset_bytes")?,
                length_bytes: value(&lengths, "length_bytes")?,
                operation: operations[row].ok_or_else(|| wrong("operation is unknown"))?,
                flags,
                priority,
                stream: StreamId(streams[row]),
                volume: volumes[row],
                latency: latencies.as_ref().and_then(|values| values[row]).map(Nanos),
            });
        }
        self.read += batch.num_rows() as u64;
        Ok(())
    }
}

/// The values of a column of whole numbers.
fn numbers(name: &str, array: &ArrayRef) -> Said<Vec<Option<u64>>> {
    let wanted = || format!("column {name} holds {}\n  expected: whole numbers, not negative", array.data_type());
    if array.data_type().is_floating() {
        let cast = arrow_cast::cast(array, &DataType::Float64).map_err(|_| wanted())?;
        let whole = |value: f64| (value >= 0.0 && value.fract() == 0.0 && value < 9e15).then_some(value as u64);
        let values = cast.as_primitive::<Float64Type>().iter();
        return values.map(|value| value.map(|value| whole(value).ok_or_else(wanted)).transpose()).collect();
    }
    if array.data_type().is_signed_integer() {
        let cast = arrow_cast::cast(array, &DataType::Int64).map_err(|_| wanted())?;
        let values = cast.as_primitive::<Int64Type>().iter();
        return values.map(|value| value.map(|value| u64::try_from(value).map_err(|_| wanted())).transpose()).collect();
    }
    if !array.data_type().is_unsigned_integer() {
        return Err(wanted());
    }
    let cast = arrow_cast::cast(array, &DataType::UInt64).map_err(|_| wanted())?;
    Ok(cast.as_primitive::<UInt64Type>().iter().collect())
}

/// Text, however it is stored.
fn texts(array: &ArrayRef) -> Option<Vec<Option<String>>> {
    let is_text = |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_text = match array.data_type() {
        DataType::Dictionary(_, values) => is_text(values),
        kind => is_text(kind),
    };
    let cast = is_text.then(|| arrow_cast::cast(array, &DataType::Utf8).ok()).flatten()?;
    Some(cast.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect())
}

/// Operations, by number or by name.
fn operations(array: &ArrayRef) -> Said<Vec<Option<Operation>>> {
    if let Some(texts) = texts(array) {
        let named = |text: String| Operation::ALL.into_iter().find(|operation| operation.name() == text.to_lowercase());
        return Ok(texts.into_iter().map(|text| text.and_then(named)).collect());
    }
    let numbered = |number: u64| Operation::ALL.into_iter().find(|operation| *operation as u64 == number);
    Ok(numbers("operation", array)?.into_iter().map(|number| number.and_then(numbered)).collect())
}

/// Labels as numbers: those of a column of text get the numbers of their first appearance.
fn labels(name: &str, array: Option<&ArrayRef>, rows: usize, names: &mut Vec<String>) -> Said<Vec<u32>> {
    /// The most labels that a trace may have.
    const LABELS_MAX: usize = 1 << 20;
    let Some(array) = array else {
        if names.is_empty() {
            names.push(name.to_owned());
        }
        return Ok(vec![0; rows]);
    };
    let (mut labels, mut known) = (Vec::with_capacity(rows), std::collections::BTreeMap::new());
    known.extend(names.iter().cloned().zip(0_u32..));
    let texts = match texts(array) {
        Some(texts) => texts.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>(),
        None => {
            let numbers = numbers(name, array)?.into_iter();
            numbers.map(|number| number.map_or_else(String::new, |number| number.to_string())).collect()
        }
    };
    for text in texts {
        if let Some(number) = known.get(&text) {
            labels.push(*number);
            continue;
        }
        if names.len() == LABELS_MAX {
            return Err(format!("column {name} holds more than {LABELS_MAX} different values"));
        }
        let number = names.len() as u32;
        names.push(text.clone());
        known.insert(text, number);
        labels.push(number);
    }
    Ok(labels)
}
