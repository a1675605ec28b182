//! Tables and requests as Arrow, which data frames take without a copy.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, StructArray, UInt8Array, UInt32Array,
    UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use ioweir_core::{Nanos, Priority, Reason};
use ioweir_lab::document::{Kind, Table, Value};
use ioweir_trace::{Names, REQUEST_COLUMNS, Record, RunNames, Served, TraceError, TraceSink};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::ffi::{ArrayIterator, to_stream_pycapsule};

/// Rows of a batch of requests.
const BATCH_ROWS: usize = 1 << 16;

/// The stream of these batches as a capsule.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    schema: &SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
    requested: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let field = Field::new_struct("", schema.fields().clone(), false).with_metadata(schema.metadata().clone());
    let arrays = batches.map(|batch| Ok(Arc::new(StructArray::from(batch?)) as ArrayRef));
    Ok(to_stream_pycapsule(py, Box::new(ArrayIterator::new(arrays, Arc::new(field))), requested)?)
}

/// A table as one batch; each column has the narrowest type that holds its values.
pub(crate) fn batch_of(table: &Table) -> Result<RecordBatch, ArrowError> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (at, column) in table.columns.iter().enumerate() {
        let values = table.rows.iter().map(|row| row.get(at).map_or(&Value::Absent, |cell| &cell.value));
        let array: ArrayRef = match table.kind(at) {
            Kind::Flag => Arc::new(values.map(Value::flag).collect::<BooleanArray>()),
            Kind::Integer => Arc::new(values.map(Value::integer).collect::<Int64Array>()),
            Kind::Number => Arc::new(values.map(Value::number).collect::<Float64Array>()),
            Kind::Text => Arc::new(values.map(Value::field).collect::<StringArray>()),
        };
        fields.push(Field::new(&column.name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(table.rows.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
}

/// The columns of a trace.
pub(crate) fn trace_fields() -> Vec<Field> {
    let field = |name: &str, kind: DataType, nullable: bool| Field::new(name, kind, nullable);
    vec![
        field("time_nanos", DataType::UInt64, false),
        field("offset_bytes", DataType::UInt64, false),
        field("length_bytes", DataType::UInt64, false),
        field("operation", DataType::UInt8, false),
        field("flags", DataType::UInt8, false),
        field("stream", DataType::UInt32, false),
        field("volume", DataType::UInt32, false),
        field("latency_nanos", DataType::UInt64, true),
        field("priority", DataType::UInt8, true),
    ]
}

/// The priority, if the request has one.
fn known_priority(record: &Record) -> Option<u8> {
    (record.priority != Priority::NONE).then_some(record.priority.bits())
}

/// The columns of these records of a trace.
pub(crate) fn trace_arrays<'a>(records: impl Iterator<Item = &'a Record> + Clone) -> Vec<ArrayRef> {
    let long =
        |value: fn(&Record) -> u64| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(records.clone().map(value))) };
    let short =
        |value: fn(&Record) -> u32| -> ArrayRef { Arc::new(UInt32Array::from_iter_values(records.clone().map(value))) };
    let byte =
        |value: fn(&Record) -> u8| -> ArrayRef { Arc::new(UInt8Array::from_iter_values(records.clone().map(value))) };
    vec![
        long(|record| record.time.0),
        long(|record| record.offset_bytes),
        long(|record| record.length_bytes),
        byte(|record| record.operation as u8),
        byte(|record| record.flags.bits()),
        short(|record| record.stream.0),
        short(|record| record.volume),
        Arc::new(records.clone().map(|record| record.latency.map(|latency| latency.0)).collect::<UInt64Array>()),
        Arc::new(records.map(known_priority).collect::<UInt8Array>()),
    ]
}

/// The requests of runs, batch by batch.
#[derive(Debug)]
pub(crate) struct RequestBatches {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

/// Collects the requests of runs.
pub(crate) struct Collecting {
    fields: Vec<Field>,
    runs: Vec<RunNames>,
    waiting: Vec<(u32, Record, Served)>,
    batches: Vec<RecordBatch>,
    done: std::sync::mpsc::Sender<RequestBatches>,
}

impl Collecting {
    /// A sink, which sends its batches to `done` when it is finished.
    pub(crate) fn new(done: std::sync::mpsc::Sender<RequestBatches>) -> Self {
        let mut fields = trace_fields();
        for (name, _) in REQUEST_COLUMNS {
            let kind = match name {
                "run" => DataType::UInt32,
                "scheduler" | "device" | "class" => DataType::Utf8,
                "tier" => DataType::UInt8,
                _ => DataType::UInt64,
            };
            fields.push(Field::new(name, kind, false));
        }
        Self { fields, runs: Vec::new(), waiting: Vec::new(), batches: Vec::new(), done }
    }

    fn flush(&mut self) -> Result<(), ArrowError> {
        let rows = std::mem::take(&mut self.waiting);
        if rows.is_empty() {
            return Ok(());
        }
        let mut arrays = trace_arrays(rows.iter().map(|(_, record, _)| record));
        arrays.push(Arc::new(UInt32Array::from_iter_values(rows.iter().map(|(run, _, _)| *run))));
        let names: [fn(&RunNames, &Served) -> String; 3] = [
            |run, _| run.scheduler.clone(),
            |run, _| run.device.clone(),
            |run, served| run.classes.get(served.class as usize).cloned().unwrap_or_default(),
        ];
        for name in names {
            let text = rows.iter().map(|(run, _, served)| self.runs.get(*run as usize).map(|run| name(run, served)));
            arrays.push(Arc::new(text.map(Option::unwrap_or_default).map(Some).collect::<StringArray>()));
        }
        let times: [fn(&Served) -> Nanos; 3] =
            [|served| served.submitted, |served| served.dispatched, |served| served.completed];
        let served = || rows.iter().map(|(_, _, served)| served);
        let long = |values: &mut dyn Iterator<Item = u64>| Arc::new(UInt64Array::from_iter_values(values)) as ArrayRef;
        arrays.extend(times.map(|time| long(&mut served().map(|served| time(served).0))));
        arrays.extend(Reason::ALL.map(|reason| long(&mut served().map(|served| served.wait_nanos[reason as usize]))));
        arrays.push(long(&mut served().map(|served| served.cores_nanos)));
        arrays.push(Arc::new(UInt8Array::from_iter_values(served().map(|served| served.tier as u8))));
        self.batches.push(RecordBatch::try_new(Arc::new(Schema::new(self.fields.clone())), arrays)?);
        Ok(())
    }
}

impl TraceSink for Collecting {
    fn begin_run(&mut self, run: RunNames) {
        self.runs.push(run);
    }

    fn write_served(&mut self, record: &Record, served: Option<Served>, _names: &Names) -> Result<(), TraceError> {
        let run = u32::try_from(self.runs.len().saturating_sub(1)).unwrap_or(u32::MAX);
        // Every request of a run comes with how it was served.
        self.waiting.extend(served.map(|served| (run, *record, served)));
        if self.waiting.len() >= BATCH_ROWS { self.flush().map_err(broken) } else { Ok(()) }
    }

    fn write_batch(&mut self, batch: &[Record], names: &Names) -> Result<(), TraceError> {
        batch.iter().try_for_each(|record| self.write_served(record, None, names))
    }

    fn finish(mut self: Box<Self>, names: &Names, _epoch_unix_nanos: Option<i128>) -> Result<(), TraceError> {
        self.flush().map_err(broken)?;
        // The metadata equals that of a Parquet file of requests.
        let json = |names: &[String]| serde_json::Value::from(names).to_string();
        let runs: Vec<String> = self.runs.iter().map(|run| run.about.clone()).collect();
        let about = HashMap::from([
            ("ioweir.trace.streams".to_owned(), json(&names.streams)),
            ("ioweir.trace.runs".to_owned(), format!("[{}]", runs.join(","))),
        ]);
        let schema = Arc::new(Schema::new_with_metadata(self.fields, about));
        let batches = self.batches.into_iter().map(|batch| batch.with_schema(Arc::clone(&schema)));
        let batches = batches.collect::<Result<_, _>>().map_err(broken)?;
        // The receiver is gone if the caller was interrupted.
        let _ = self.done.send(RequestBatches { schema, batches });
        Ok(())
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the argument of map_err")]
fn broken(error: ArrowError) -> TraceError {
    TraceError::new("requests", ioweir_trace::Position::File, error.to_string())
}
