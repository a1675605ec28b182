//! Writes traces, and how their requests were served, as Parquet: one row group at a time.

use std::io::Write;
use std::sync::Arc;

use ioweir_core::{Nanos, Priority, Reason};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnPath;

use crate::format::parquet::rows::{
    ABOUT_KEY, EPOCH_KEY, RUNS_KEY, STREAMS_KEY, VERSION, VERSION_KEY, VOLUMES_KEY, schema,
};
use crate::writer::requests::{RunNames, Served};
use crate::writer::{Target, TraceSink};
use crate::{Names, Position, Record, TraceError};

/// The number of records that are held before they are written as one row group.
const GROUP_RECORDS: usize = 1 << 16;

fn properties() -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(ZstdLevel::default()));
    // Times increase, and offsets often do, so their differences are small.
    for column in ["time_nanos", "offset_bytes"] {
        let path = ColumnPath::from(column);
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    builder.build()
}

/// A request, how it was served, and the number of its run.
struct Row {
    record: Record,
    served: Option<(u32, Served)>,
}

pub(crate) fn open(target: Target) -> Result<Box<dyn TraceSink>, TraceError> {
    Writer::open(target).map(|writer| Box::new(writer) as Box<dyn TraceSink>)
}

struct Writer {
    name: String,
    writer: SerializedFileWriter<Box<dyn Write + Send>>,
    waiting: Vec<Row>,
    first_nanos: Option<u64>,
    about: Option<String>,
    runs: Vec<RunNames>,
}

impl Writer {
    fn open(target: Target) -> Result<Self, TraceError> {
        let name = target.name().to_owned();
        let broken =
            |error: ParquetError| TraceError::new(&*name, Position::File, format!("cannot be written: {error}"));
        let schema = schema().map_err(broken)?;
        let stream = target.into_stream();
        let writer = SerializedFileWriter::new(stream, schema, Arc::new(properties())).map_err(broken)?;
        let waiting = Vec::with_capacity(GROUP_RECORDS);
        Ok(Self { name, writer, waiting, first_nanos: None, about: None, runs: Vec::new() })
    }

    fn push(&mut self, row: Row) -> Result<(), TraceError> {
        self.waiting.push(row);
        if self.waiting.len() == GROUP_RECORDS { self.write_group() } else { Ok(()) }
    }

    fn broken(&self, error: &ParquetError) -> TraceError {
        TraceError::new(&*self.name, Position::File, format!("cannot be written: {error}"))
    }

    fn write_group(&mut self) -> Result<(), TraceError> {
        let rows = std::mem::take(&mut self.waiting);
        let written = self.writer.next_row_group().and_then(|group| write_columns(group, &rows, &self.runs));
        self.waiting = rows;
        self.waiting.clear();
        written.map_err(|error| self.broken(&error))
    }
}

fn write_columns(
    mut group: SerializedRowGroupWriter<'_, Box<dyn Write + Send>>,
    rows: &[Row],
    runs: &[RunNames],
) -> Result<(), ParquetError> {
    let long = |value: fn(&Record) -> u64| rows.iter().map(|row| value(&row.record).cast_signed()).collect::<Vec<_>>();
    let short = |value: fn(&Record) -> u32| rows.iter().map(|row| value(&row.record).cast_signed()).collect::<Vec<_>>();
    column::<Int64Type>(&mut group, &long(|record| record.time.0), None)?;
    column::<Int64Type>(&mut group, &long(|record| record.offset_bytes), None)?;
    column::<Int64Type>(&mut group, &long(|record| record.length_bytes), None)?;
    column::<Int32Type>(&mut group, &short(|record| record.operation as u32), None)?;
    column::<Int32Type>(&mut group, &short(|record| u32::from(record.flags.bits())), None)?;
    column::<Int32Type>(&mut group, &short(|record| record.stream.0), None)?;
    column::<Int32Type>(&mut group, &short(|record| record.volume), None)?;
    let latencies: Vec<Option<Nanos>> = rows.iter().map(|row| row.record.latency).collect();
    optional::<Int64Type>(&mut group, latencies.iter().map(|latency| latency.map(|nanos| nanos.0.cast_signed())))?;
    let served = || rows.iter().map(|row| row.served.as_ref());
    optional::<Int32Type>(&mut group, served().map(|served| served.map(|(run, _)| run.cast_signed())))?;
    let names: [fn(&RunNames, u32) -> String; 3] =
        [|run, _| run.scheduler.clone(), |run, _| run.device.clone(), class_name];
    for name in names {
        let name = |(run, served): &(u32, Served)| {
            let names = runs.get(*run as usize);
            ByteArray::from(names.map_or_else(String::new, |run| name(run, served.class)).into_bytes())
        };
        optional::<ByteArrayType>(&mut group, served().map(|served| served.map(name)))?;
    }
    let times: [fn(&Served) -> Nanos; 3] =
        [|served| served.submitted, |served| served.dispatched, |served| served.completed];
    for time in times {
        optional::<Int64Type>(
            &mut group,
            served().map(|served| served.map(|(_, served)| time(served).0.cast_signed())),
        )?;
    }
    for reason in Reason::ALL {
        let wait = |(_, served): &(u32, Served)| served.wait_nanos[reason as usize].cast_signed();
        optional::<Int64Type>(&mut group, served().map(|served| served.map(wait)))?;
    }
    let priorities = rows.iter().map(|row| Some(row.record.priority).filter(|priority| *priority != Priority::NONE));
    optional::<Int32Type>(&mut group, priorities.map(|priority| priority.map(|said| i32::from(said.bits()))))?;
    let cores = served().map(|served| served.map(|(_, served)| served.cores_nanos.cast_signed()));
    optional::<Int64Type>(&mut group, cores)?;
    optional::<Int32Type>(&mut group, served().map(|served| served.map(|(_, served)| served.tier as i32)))?;
    group.close().map(|_| ())
}

fn class_name(run: &RunNames, class: u32) -> String {
    run.classes.get(class as usize).cloned().unwrap_or_default()
}

/// A column whose values may be missing.
fn optional<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Box<dyn Write + Send>>,
    values: impl Iterator<Item = Option<T::T>> + Clone,
) -> Result<(), ParquetError> {
    let there: Vec<i16> = values.clone().map(|value| i16::from(value.is_some())).collect();
    column::<T>(group, &values.flatten().collect::<Vec<_>>(), Some(&there))
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Box<dyn Write + Send>>,
    values: &[T::T],
    there: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has fewer columns than are written".to_owned());
    let mut writer = group.next_column()?.ok_or_else(missing)?;
    writer.typed::<T>().write_batch(values, there, None)?;
    writer.close()
}

impl TraceSink for Writer {
    fn begin_run(&mut self, run: RunNames) {
        self.runs.push(run);
    }

    fn describe(&mut self, about: &str) {
        self.about = Some(about.into());
    }

    fn write_served(&mut self, record: &Record, served: Option<Served>, _: &Names) -> Result<(), TraceError> {
        let run = u32::try_from(self.runs.len().saturating_sub(1)).unwrap_or(u32::MAX);
        self.first_nanos.get_or_insert(record.time.0);
        self.push(Row { record: *record, served: served.map(|served| (run, served)) })
    }

    fn write_batch(&mut self, batch: &[Record], _: &Names) -> Result<(), TraceError> {
        if let Some(first) = batch.first() {
            self.first_nanos.get_or_insert(first.time.0);
        }
        batch.iter().try_for_each(|record| self.push(Row { record: *record, served: None }))
    }

    fn finish(mut self: Box<Self>, names: &Names, epoch_unix_nanos: Option<i128>) -> Result<(), TraceError> {
        if !self.waiting.is_empty() {
            self.write_group()?;
        }
        let list = |names: &[String]| serde_json::Value::from(names.to_vec()).to_string();
        let mut pairs = vec![
            (VERSION_KEY, VERSION.to_owned()),
            (STREAMS_KEY, list(&names.streams)),
            (VOLUMES_KEY, list(&names.volumes)),
        ];
        if !self.runs.is_empty() {
            let runs: Vec<&str> = self.runs.iter().map(|run| run.about.as_str()).collect();
            pairs.push((RUNS_KEY, format!("[{}]", runs.join(","))));
        }
        if let Some(about) = self.about.take() {
            pairs.push((ABOUT_KEY, about));
        }
        if let Some(epoch) = epoch_unix_nanos {
            let zero = epoch - i128::from(self.first_nanos.unwrap_or(0));
            pairs.push((EPOCH_KEY, zero.to_string()));
        }
        for (key, value) in pairs {
            self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        let finished = self.writer.finish().map(|_| ());
        finished.map_err(|error| self.broken(&error))?;
        self.writer.inner_mut().flush().map_err(|error| self.broken(&ParquetError::from(error)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use ioweir_core::{Nanos, Operation, Priority, PriorityClass, Tier};
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn row_tells_requests_outcome_or_nothing() {
        let file = Shared::default();
        let mut writer = open(Target::new("test", Box::new(file.clone()))).unwrap();
        let names = Names { streams: vec!["s".into()], volumes: vec!["v".into()] };
        let priority = Priority::new(PriorityClass::Idle, 0).unwrap();
        let record = Record { priority, ..Record::plain(Nanos(5), (4096, 512), Operation::Read, 0) };
        let served = Served {
            class: 1,
            submitted: Nanos(6),
            dispatched: Nanos(12),
            completed: Nanos(20),
            wait_nanos: std::array::from_fn(|reason| reason as u64),
            cores_nanos: 3,
            tier: Tier::Fast,
        };
        let [scheduler, device, about] = ["sfq", "d", "{}"].map(String::from);
        writer.begin_run(RunNames { scheduler, device, classes: vec!["a".into(), "b".into()], about });
        writer.write_served(&record, Some(served), &names).unwrap();
        writer.write_served(&record, None, &names).unwrap();
        writer.finish(&names, None).unwrap();
        let bytes = bytes::Bytes::from(std::mem::take(&mut *file.0.lock().unwrap()));
        let reader = SerializedFileReader::new(bytes).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(|row| {
            let row = row.unwrap();
            let shown = row.get_column_iter().map(|(name, field)| format!("{name} {field}"));
            shown.skip(8).collect::<Vec<_>>().join(", ")
        });
        let [full, none] = rows.collect::<Vec<_>>().try_into().unwrap();
        let times = "submitted_nanos 6, dispatched_nanos 12, completed_nanos 20, wait_device_full_nanos 0, wait_ordering_nanos 1, ";
        assert!(full.starts_with(&format!("run 0, scheduler \"sfq\", device \"d\", class \"b\", {times}")), "{full}");
        assert!(full.ends_with("wait_queue_full_nanos 6, priority 24, cores_nanos 3, tier 1"), "{full}");
        assert!(
            none.starts_with("run null, scheduler null") && none.ends_with("priority 24, cores_nanos null, tier null")
        );
    }
}
