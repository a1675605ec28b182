//! Parquet: the records with typed columns, for data frames; and tables read back as they were written.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::{Cell, Column, Document, DocumentError, Form, Kind, Table, Value};

pub(super) const FORM: Form =
    Form { suffix: "parquet", summary: "the rows of the CSV form with typed columns, for data frames", write: render };

/// Tables with fewer rows are written as they are.
const PACKED_ROWS_MIN: usize = 64;

/// The prefix of the program's own keys in a file's metadata.
const KEY_PREFIX: &str = "ioweir.";

fn render(document: &Document) -> Result<Vec<u8>, DocumentError> {
    let about = document.provenance.as_ref().map(|provenance| {
        [("version", &provenance.version), ("commit", &provenance.commit), ("command", &provenance.command)]
            .map(|(key, value)| (key, value.as_str()))
    });
    written(&document.records, about.as_ref().map_or(&[], |about| &about[..]))
}

/// A table as a Parquet file. The metadata holds what is said `about` it, under keys that begin with `ioweir.`.
pub(crate) fn written(records: &Table, about: &[(&str, &str)]) -> Result<Vec<u8>, DocumentError> {
    file(records, about).map_err(|error| DocumentError::Parquet(error.to_string()))
}

fn file(records: &Table, about: &[(&str, &str)]) -> Result<Vec<u8>, ParquetError> {
    let kinds: Vec<Kind> = (0..records.columns.len()).map(|at| records.kind(at)).collect();
    let fields = records.columns.iter().zip(&kinds).map(|(column, kind)| leaf(&column.name, physical(*kind)));
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder("records").with_fields(fields).build()?);
    let pairs = about.iter().map(|(key, value)| KeyValue::new(format!("{KEY_PREFIX}{key}"), (*value).to_owned()));
    let properties = WriterProperties::builder().set_key_value_metadata((!about.is_empty()).then(|| pairs.collect()));
    // Packing a column of a few values takes longer than many a run, and saves nothing.
    let properties = if records.rows.len() < PACKED_ROWS_MIN {
        properties.set_dictionary_enabled(false).set_statistics_enabled(EnabledStatistics::None)
    } else {
        properties.set_compression(Compression::ZSTD(ZstdLevel::default()))
    };
    let properties = properties.build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (at, kind) in kinds.into_iter().enumerate() {
        let values = records.rows.iter().map(|row| &row[at].value);
        match kind {
            Kind::Flag => column::<BoolType>(&mut group, values, Value::flag),
            Kind::Integer => column::<Int64Type>(&mut group, values, Value::integer),
            Kind::Number => column::<DoubleType>(&mut group, values, Value::number),
            Kind::Text => column::<ByteArrayType>(&mut group, values, text),
        }?;
    }
    group.close()?;
    writer.into_inner()
}

fn text(value: &Value) -> Option<ByteArray> {
    value.field().map(|text| ByteArray::from(text.into_bytes()))
}

fn physical(kind: Kind) -> Physical {
    match kind {
        Kind::Flag => Physical::BOOLEAN,
        Kind::Integer => Physical::INT64,
        Kind::Number => Physical::DOUBLE,
        Kind::Text => Physical::BYTE_ARRAY,
    }
}

fn leaf(name: &str, kind: Physical) -> Result<TypePtr, ParquetError> {
    let converted = if kind == Physical::BYTE_ARRAY { ConvertedType::UTF8 } else { ConvertedType::NONE };
    let builder = Type::primitive_type_builder(name, kind).with_repetition(Repetition::OPTIONAL);
    builder.with_converted_type(converted).build().map(Arc::new)
}

fn column<'a, T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    cells: impl Iterator<Item = &'a Value> + Clone,
    value: impl Fn(&Value) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has fewer columns than the records".to_owned());
    let mut writer = group.next_column()?.ok_or_else(missing)?;
    let values: Vec<T::T> = cells.clone().filter_map(&value).collect();
    let levels: Vec<i16> = cells.map(|cell| i16::from(value(cell).is_some())).collect();
    writer.typed::<T>().write_batch(&values, Some(&levels), None)?;
    writer.close()
}

/// The contents of a file that [`written`] has made: its table and its metadata.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) table: Table,
    about: Vec<KeyValue>,
}

impl Read {
    /// The value of a key in the metadata.
    pub(crate) fn about(&self, key: &str) -> Option<&str> {
        let is_meant = |pair: &&KeyValue| pair.key.strip_prefix(KEY_PREFIX) == Some(key);
        self.about.iter().find(is_meant)?.value.as_deref()
    }
}

/// Reads back a table that [`written`] has made. Its rows are held in memory, so there are at most `rows_max`.
///
/// # Errors
/// What is wrong with the bytes, which may be any.
pub(crate) fn read(bytes: Vec<u8>, rows_max: usize) -> Result<Read, String> {
    // The library panics on some files whose pages contradict their metadata.
    match catch_unwind(AssertUnwindSafe(|| read_file(bytes, rows_max))) {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => Err(format!("damaged Parquet: {error}")),
        Err(_) => Err("damaged Parquet: its pages contradict its metadata".into()),
    }
}

fn read_file(bytes: Vec<u8>, rows_max: usize) -> Result<Read, ParquetError> {
    let reader = SerializedFileReader::new(Bytes::from(bytes))?;
    let metadata = reader.metadata().file_metadata();
    let rows = usize::try_from(metadata.num_rows()).ok().filter(|rows| *rows <= rows_max);
    let rows = rows.ok_or_else(|| ParquetError::General(format!("more than {rows_max} rows")))?;
    let fields = metadata.schema().get_fields();
    if let Some(nested) = fields.iter().find(|field| !field.is_primitive() || !field.is_optional()) {
        return Err(ParquetError::General(format!("{} is no column of a table of ioweir", nested.name())));
    }
    let mut table = Table::new("", fields.iter().map(|field| Column::text(field.name())));
    table.rows = vec![Vec::with_capacity(fields.len()); rows];
    let mut first = 0;
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number)?;
        for (at, field) in fields.iter().enumerate() {
            let cells = match field.get_physical_type() {
                Physical::BOOLEAN => cells::<BoolType>(&*group, at, rows, |flag| Ok(Value::Flag(*flag))),
                Physical::INT64 => cells::<Int64Type>(&*group, at, rows, |count| Ok(Value::Integer((*count).into()))),
                Physical::DOUBLE => cells::<DoubleType>(&*group, at, rows, |number| Ok(Value::Number(*number))),
                Physical::BYTE_ARRAY => {
                    cells::<ByteArrayType>(&*group, at, rows, |text| Ok(Value::Text(text.as_utf8()?.to_owned())))
                }
                other => Err(ParquetError::General(format!("{} holds {other}", field.name()))),
            }?;
            for (row, cell) in table.rows.iter_mut().skip(first).zip(cells) {
                row.push(cell);
            }
        }
        first += usize::try_from(group.metadata().num_rows()).unwrap_or(rows);
    }
    if table.rows.iter().any(|row| row.len() != fields.len()) {
        return Err(ParquetError::General("its columns differ in length".into()));
    }
    Ok(Read { table, about: metadata.key_value_metadata().cloned().unwrap_or_default() })
}

/// The cells of a column of a group of rows.
fn cells<T: DataType>(
    group: &dyn RowGroupReader,
    at: usize,
    rows: usize,
    value: impl Fn(&T::T) -> Result<Value, ParquetError>,
) -> Result<Vec<Cell>, ParquetError> {
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(at)?);
    let (mut values, mut there) = (Vec::new(), Vec::new());
    reader.read_records(rows, Some(&mut there), None, &mut values)?;
    let mut values = values.iter();
    let cell = |level: i16| match level {
        0 => Ok(Cell::from(Value::Absent)),
        _ => values.next().map_or(Ok(Value::Absent), &value).map(Cell::from),
    };
    there.into_iter().map(cell).collect()
}
