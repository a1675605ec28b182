//! Reads Parquet files, one row group at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ioweir_core::{Flags, Nanos, Operation, Priority, StreamId};
use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;

use super::{FORMAT, footer};
use crate::input::Data;
use crate::reader::RawSource;
use crate::reader::number::{Fault, Faulty, byte_extent};
use crate::reader::order::Order;
use crate::{BATCH_RECORDS, Input, Names, Position, ReadOptions, Record, TraceError};

pub(crate) const VERSION: &str = "4";
/// The versions, with the number of columns in each. The first columns are those of a [`Record`]; then come columns on how requests were
/// served, the priority, and more on how they were served.
const VERSIONS: [(&str, usize); 4] = [("1", 8), ("2", PRIORITY_AT), ("3", PRIORITY_AT + 1), (VERSION, PRIORITY_AT + 3)];
const PRIORITY_AT: usize = 22;
pub(crate) const VERSION_KEY: &str = "ioweir.trace.version";
pub(crate) const RUNS_KEY: &str = "ioweir.trace.runs";
pub(crate) const ABOUT_KEY: &str = "ioweir.trace.about";
pub(crate) const STREAMS_KEY: &str = "ioweir.trace.streams";
pub(crate) const VOLUMES_KEY: &str = "ioweir.trace.volumes";
pub(crate) const EPOCH_KEY: &str = "ioweir.trace.epoch_unix_nanos";

/// The columns, in the order in which they are stored.
pub(crate) const SCHEMA: &str = "message trace {
    required int64 time_nanos (INTEGER(64, false));
    required int64 offset_bytes (INTEGER(64, false));
    required int64 length_bytes (INTEGER(64, false));
    required int32 operation (INTEGER(8, false));
    required int32 flags (INTEGER(8, false));
    required int32 stream (INTEGER(32, false));
    required int32 volume (INTEGER(32, false));
    optional int64 latency_nanos (INTEGER(64, false));
    optional int32 run (INTEGER(32, false));
    optional binary scheduler (STRING);
    optional binary device (STRING);
    optional binary class (STRING);
    optional int64 submitted_nanos (INTEGER(64, false));
    optional int64 dispatched_nanos (INTEGER(64, false));
    optional int64 completed_nanos (INTEGER(64, false));
    optional int64 wait_device_full_nanos (INTEGER(64, false));
    optional int64 wait_ordering_nanos (INTEGER(64, false));
    optional int64 wait_anticipating_nanos (INTEGER(64, false));
    optional int64 wait_staging_nanos (INTEGER(64, false));
    optional int64 wait_throttled_nanos (INTEGER(64, false));
    optional int64 wait_budget_nanos (INTEGER(64, false));
    optional int64 wait_queue_full_nanos (INTEGER(64, false));
    optional int32 priority (INTEGER(8, false));
    optional int64 cores_nanos (INTEGER(64, false));
    optional int32 tier (INTEGER(8, false));
}";

pub(crate) fn schema() -> Result<Arc<Type>, ParquetError> {
    parse_message_type(SCHEMA).map(Arc::new)
}

/// Runs the Parquet library on bytes that may be damaged; a panic becomes an error as well.
fn guarded<T>(file: &str, work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, TraceError> {
    let problem = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "its pages contradict its metadata".to_owned(),
    };
    Err(TraceError::new(file, Position::File, format!("damaged Parquet: {problem}")))
}

pub(super) fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, &FORMAT)?;
    let file = input.name().to_owned();
    let hint = "the file may be cut short, or compressed once more: unpack it first";
    let data = input.seekable()?;
    footer::check(&data)
        .map_err(|error| input.broken(&error))?
        .map_err(|problem| TraceError::new(&*file, Position::File, format!("damaged Parquet: {problem}")).hint(hint))?;
    let reader: Box<dyn FileReader> = match data {
        Data::File(path) => {
            let opened = std::fs::File::open(&path).map_err(|error| input.broken(&error))?;
            guarded(&file, || Ok(Box::new(SerializedFileReader::new(opened)?) as Box<dyn FileReader>))
        }
        Data::Memory(bytes) => {
            guarded(&file, || Ok(Box::new(SerializedFileReader::new(bytes)?) as Box<dyn FileReader>))
        }
        Data::Pipe(_) => return Err(input.broken(&std::io::ErrorKind::NotSeekable.into())),
    }
    .map_err(|error| error.hint(hint))?;
    let about = reader.metadata().file_metadata();
    let value = |key: &str| {
        let pairs = about.key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref())
    };
    let error = |problem: String| TraceError::new(&*file, Position::File, problem);
    let known = schema().map_err(|bad| error(bad.to_string()))?;
    let version = value(VERSION_KEY).ok_or_else(|| {
        error(format!("Parquet without the key {VERSION_KEY}")).expected("a file written by `ioweir trace convert`")
    })?;
    let (_, count) = VERSIONS.into_iter().find(|(known, _)| *known == version).ok_or_else(|| {
        error(format!("version {version} of the schema is not known")).expected(format!("version {VERSION}"))
    })?;
    let known = &known.get_fields()[..count];
    let runs = value(RUNS_KEY).and_then(|text| serde_json::from_str::<Vec<serde_json::Value>>(text).ok());
    if runs.as_ref().is_some_and(|runs| runs.len() > 1) {
        return Err(
            error("holds the requests of several runs".to_owned()).expected("a trace, or the requests of one run")
        );
    }
    if about.schema().get_fields() != known {
        let columns: Vec<&str> = about.schema().get_fields().iter().map(|field| field.name()).collect();
        return Err(error(format!("the columns are {}", columns.join(", ")))
            .expected("those of its version, see the reference"));
    }
    check_groups(reader.metadata()).map_err(|problem| error(format!("damaged Parquet: {problem}")))?;
    let names = |key: &str| {
        let text = value(key).ok_or_else(|| error(format!("the key {key} is missing")))?;
        serde_json::from_str::<Vec<String>>(text)
            .map_err(|bad| error(format!("the key {key} is not a list of names: {bad}")))
    };
    let names = Names { streams: names(STREAMS_KEY)?, volumes: names(VOLUMES_KEY)? };
    let epoch = value(EPOCH_KEY).map(|text| epoch(text).map_err(&error)).transpose()?;
    let about = value(ABOUT_KEY).map(str::to_owned);
    let order = options.order(FORMAT.window_records);
    let lenient = options.lenient;
    Ok(Box::new(Rows {
        file,
        reader,
        names,
        about,
        epoch,
        group: 0,
        columns: None,
        row: 0,
        order,
        lenient,
        skipped: 0,
    }))
}

/// The time zero. A value beyond 2^100 ns is not a date, and sums of it could overflow.
fn epoch(text: &str) -> Result<i128, String> {
    let nanos = text.parse::<i128>().ok().filter(|nanos| nanos.unsigned_abs() < 1 << 100);
    nanos.ok_or_else(|| format!("the key {EPOCH_KEY} is not a number of nanoseconds: {text}"))
}

/// The most bytes that a row group of this project's own files can unpack to: 65,536 rows of eight numbers, with some room.
const GROUP_BYTES_MAX: i64 = 64 << 20;

/// Checks the metadata's claims about the row groups, before memory is allocated for them.
fn check_groups(about: &ParquetMetaData) -> Result<(), String> {
    for (number, group) in about.row_groups().iter().enumerate() {
        let rows = group.num_rows();
        let size: i64 = group.columns().iter().fold(0, |sum, column| sum.saturating_add(column.uncompressed_size()));
        let strange = |column: &ColumnChunkMetaData| {
            let starts = [Some(column.data_page_offset()), column.dictionary_page_offset()];
            column.compressed_size() < 0
                || column.uncompressed_size() < 0
                || column.num_values() != rows
                || starts
                    .into_iter()
                    .flatten()
                    .any(|start| start < 0 || start.checked_add(column.compressed_size()).is_none())
        };
        if rows < 0 || size > GROUP_BYTES_MAX || group.columns().iter().any(strange) {
            return Err(format!("row group {} claims {rows} rows in {size} bytes", number + 1));
        }
    }
    Ok(())
}

/// The rows of a file, one batch at a time.
struct Rows {
    file: String,
    reader: Box<dyn FileReader>,
    names: Names,
    about: Option<String>,
    epoch: Option<i128>,
    group: usize,
    columns: Option<Columns>,
    row: u64,
    order: Order,
    lenient: bool,
    skipped: u64,
}

/// One column of the row group that is being read.
struct Column<T: DataType> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
}

impl<T: DataType> Column<T> {
    fn open(group: &dyn parquet::file::reader::RowGroupReader, index: usize) -> Result<Self, ParquetError> {
        Ok(Self { reader: get_typed_column_reader(group.get_column_reader(index)?), values: Vec::new() })
    }

    /// Reads the next values; for an optional column, `levels` says which rows have one.
    fn read(&mut self, levels: Option<&mut Vec<i16>>) -> Result<usize, ParquetError> {
        self.values.clear();
        let optional = levels.is_some();
        let (records, values, _) = self.reader.read_records(BATCH_RECORDS, levels, None, &mut self.values)?;
        if !optional && records != values {
            return Err(ParquetError::General("a required column has gaps".to_owned()));
        }
        Ok(records)
    }
}

/// A column whose values may be missing.
struct Optional<T: DataType> {
    column: Column<T>,
    /// Whether each row has a value.
    there: Vec<i16>,
}

impl<T: DataType> Optional<T> {
    fn open(group: &dyn parquet::file::reader::RowGroupReader, index: usize) -> Result<Self, ParquetError> {
        Ok(Self { column: Column::open(group, index)?, there: Vec::new() })
    }

    fn read(&mut self) -> Result<usize, ParquetError> {
        self.there.clear();
        let count = self.column.read(Some(&mut self.there))?;
        let values = self.there.iter().filter(|&&level| level == 1).count();
        if self.there.len() != count || self.column.values.len() != values {
            return Err(ParquetError::General("an optional column contradicts itself".to_owned()));
        }
        Ok(count)
    }

    /// The values of the rows, in order.
    fn values(&self) -> impl Iterator<Item = Option<&T::T>> {
        let mut values = self.column.values.iter();
        self.there.iter().map(move |level| if *level == 1 { values.next() } else { None })
    }
}

struct Columns {
    time: Column<Int64Type>,
    offset: Column<Int64Type>,
    length: Column<Int64Type>,
    operation: Column<Int32Type>,
    flags: Column<Int32Type>,
    stream: Column<Int32Type>,
    volume: Column<Int32Type>,
    latency: Optional<Int64Type>,
    /// Absent in older versions.
    priority: Option<Optional<Int32Type>>,
}

impl Columns {
    fn open(reader: &dyn FileReader, index: usize) -> Result<Self, ParquetError> {
        let group = &*reader.get_row_group(index)?;
        Ok(Self {
            time: Column::open(group, 0)?,
            offset: Column::open(group, 1)?,
            length: Column::open(group, 2)?,
            operation: Column::open(group, 3)?,
            flags: Column::open(group, 4)?,
            stream: Column::open(group, 5)?,
            volume: Column::open(group, 6)?,
            latency: Optional::open(group, 7)?,
            priority: (group.num_columns() > PRIORITY_AT).then(|| Optional::open(group, PRIORITY_AT)).transpose()?,
        })
    }

    fn read(&mut self) -> Result<usize, ParquetError> {
        let count = self.time.read(None)?;
        let counts = [
            self.offset.read(None)?,
            self.length.read(None)?,
            self.operation.read(None)?,
            self.flags.read(None)?,
            self.stream.read(None)?,
            self.volume.read(None)?,
            self.latency.read()?,
            self.priority.as_mut().map_or(Ok(count), Optional::read)?,
        ];
        if counts.iter().any(|&other| other != count) {
            return Err(ParquetError::General("the columns of a row group differ in length".to_owned()));
        }
        Ok(count)
    }
}

impl Rows {
    fn push(&mut self, columns: &Columns, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        let mut priorities = columns.priority.as_ref().map(Optional::values);
        for (row, latency) in columns.latency.values().enumerate() {
            self.row += 1;
            let priority = priorities.as_mut().and_then(|values| values.next().flatten()).copied();
            let read = record(columns, row, latency.copied(), priority, &self.names);
            let pushed = read.and_then(|record| self.order.push(record, batch));
            if let Err(mut fault) = pushed {
                if !self.lenient {
                    fault.problem = format!("row {}: {}", self.row, fault.problem);
                    return Err(fault.placed(&self.file, Position::File));
                }
                self.skipped += 1;
            }
        }
        Ok(())
    }
}

fn record(columns: &Columns, row: usize, latency: Option<i64>, priority: Option<i32>, names: &Names) -> Faulty<Record> {
    let long = |column: &Column<Int64Type>| column.values.get(row).map_or(0, |value| value.cast_unsigned());
    let short = |column: &Column<Int32Type>| column.values.get(row).map_or(0, |value| value.cast_unsigned());
    let (operation, flags) = (short(&columns.operation), short(&columns.flags));
    let Some(&operation) = Operation::ALL.get(operation as usize) else {
        return Err(Fault::new(0, format!("operation {operation} is not known")).expected("0 to 3"));
    };
    let Some(flags) = u8::try_from(flags).ok().and_then(Flags::from_bits) else {
        return Err(Fault::new(0, format!("flags {flags} are not known")).expected("0 to 31"));
    };
    let bits = priority.unwrap_or(0);
    let Some(priority) = u8::try_from(bits).ok().and_then(Priority::from_bits) else {
        return Err(Fault::new(0, format!("priority {bits} is not known")).expected("0 to 31"));
    };
    let (stream, volume) = (short(&columns.stream), short(&columns.volume));
    if stream as usize >= names.streams.len() || volume as usize >= names.volumes.len() {
        return Err(Fault::new(0, format!("stream {stream} or volume {volume} has no name")));
    }
    let (offset_bytes, length_bytes) = byte_extent(long(&columns.offset), long(&columns.length), 0)?;
    Ok(Record {
        time: Nanos(long(&columns.time)),
        offset_bytes,
        length_bytes,
        operation,
        flags,
        priority,
        stream: StreamId(stream),
        volume,
        latency: latency.map(|value| Nanos(value.cast_unsigned())),
    })
}

impl RawSource for Rows {
    fn read_raw(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while batch.is_empty() {
            let mut columns = match self.columns.take() {
                Some(columns) => columns,
                None if self.group < self.reader.num_row_groups() => {
                    let index = self.group;
                    self.group += 1;
                    guarded(&self.file, || Columns::open(&*self.reader, index))?
                }
                None => return Ok(()),
            };
            if guarded(&self.file, || columns.read())? > 0 {
                self.push(&columns, batch)?;
                self.columns = Some(columns);
            }
        }
        Ok(())
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        self.epoch
    }

    fn description(&self) -> Option<&str> {
        self.about.as_deref()
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn nothing_found(&self) -> TraceError {
        TraceError::new(&*self.file, Position::File, "holds no requests")
    }
}
