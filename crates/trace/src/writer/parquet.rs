//! The writer of Parquet: a row group at a time, so that a trace is never held in memory.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnPath;

use crate::format::parquet::rows::{EPOCH_KEY, STREAMS_KEY, VERSION, VERSION_KEY, VOLUMES_KEY, schema};
use crate::writer::{Target, TraceSink};
use crate::{Names, Position, Record, TraceError};

/// So many records are held before they are written as one row group.
const GROUP_RECORDS: usize = 1 << 16;

fn properties() -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(ZstdLevel::default()));
    // Times rise and offsets often do: their differences are small.
    for column in ["time_nanos", "offset_bytes"] {
        let path = ColumnPath::from(column);
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    builder.build()
}

pub(crate) fn open(target: Target) -> Result<Box<dyn TraceSink>, TraceError> {
    let name = target.name().to_owned();
    let broken = |error: ParquetError| TraceError::new(&*name, Position::File, format!("cannot be written: {error}"));
    let schema = schema().map_err(broken)?;
    let stream = target.into_stream();
    let writer = SerializedFileWriter::new(stream, schema, Arc::new(properties())).map_err(broken)?;
    Ok(Box::new(Writer { name, writer, waiting: Vec::with_capacity(GROUP_RECORDS), first_nanos: None }))
}

struct Writer {
    name: String,
    writer: SerializedFileWriter<Box<dyn Write + Send>>,
    waiting: Vec<Record>,
    first_nanos: Option<u64>,
}

impl Writer {
    fn broken(&self, error: &ParquetError) -> TraceError {
        TraceError::new(&*self.name, Position::File, format!("cannot be written: {error}"))
    }

    fn write_group(&mut self) -> Result<(), TraceError> {
        let records = std::mem::take(&mut self.waiting);
        let written = self.writer.next_row_group().and_then(|group| write_columns(group, &records));
        self.waiting = records;
        self.waiting.clear();
        written.map_err(|error| self.broken(&error))
    }
}

fn write_columns(
    mut group: SerializedRowGroupWriter<'_, Box<dyn Write + Send>>,
    records: &[Record],
) -> Result<(), ParquetError> {
    let long = |value: fn(&Record) -> u64| records.iter().map(|record| value(record).cast_signed()).collect::<Vec<_>>();
    let short =
        |value: fn(&Record) -> u32| records.iter().map(|record| value(record).cast_signed()).collect::<Vec<_>>();
    column::<Int64Type>(&mut group, &long(|record| record.time.0), None)?;
    column::<Int64Type>(&mut group, &long(|record| record.offset_bytes), None)?;
    column::<Int64Type>(&mut group, &long(|record| record.length_bytes), None)?;
    column::<Int32Type>(&mut group, &short(|record| record.operation as u32), None)?;
    column::<Int32Type>(&mut group, &short(|record| u32::from(record.flags.bits())), None)?;
    column::<Int32Type>(&mut group, &short(|record| record.stream.0), None)?;
    column::<Int32Type>(&mut group, &short(|record| record.volume), None)?;
    let there: Vec<i16> = records.iter().map(|record| i16::from(record.latency.is_some())).collect();
    let latencies: Vec<i64> =
        records.iter().filter_map(|record| record.latency).map(|latency| latency.0.cast_signed()).collect();
    column::<Int64Type>(&mut group, &latencies, Some(&there))?;
    group.close().map(|_| ())
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
    fn write_batch(&mut self, batch: &[Record], _: &Names) -> Result<(), TraceError> {
        if let Some(first) = batch.first() {
            self.first_nanos.get_or_insert(first.time.0);
        }
        for record in batch {
            self.waiting.push(*record);
            if self.waiting.len() == GROUP_RECORDS {
                self.write_group()?;
            }
        }
        Ok(())
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
