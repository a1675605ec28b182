//! Parquet: the records with typed columns, for data frames.

use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::csv::field;
use super::{Cell, Document, DocumentError, Form, Table, Value};

pub(super) const FORM: Form =
    Form { suffix: "parquet", summary: "the rows of the CSV form with typed columns, for data frames", write: render };

fn render(document: &Document) -> Result<Vec<u8>, DocumentError> {
    written(document).map_err(|error| DocumentError::Parquet(error.to_string()))
}

fn written(document: &Document) -> Result<Vec<u8>, ParquetError> {
    let records = &document.records;
    let kinds: Vec<Physical> = (0..records.columns.len()).map(|at| kind(records, at)).collect();
    let fields = records.columns.iter().zip(&kinds).map(|(column, kind)| leaf(&column.name, *kind));
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder("records").with_fields(fields).build()?);
    let origin = document.provenance.as_ref().map(|provenance| {
        let pairs =
            [("version", &provenance.version), ("commit", &provenance.commit), ("command", &provenance.command)];
        pairs.map(|(key, value)| KeyValue::new(format!("ioweir.{key}"), value.clone())).to_vec()
    });
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(origin)
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (at, kind) in kinds.into_iter().enumerate() {
        let cells = records.rows.iter().map(|row| &row[at]);
        match kind {
            Physical::INT64 => column::<Int64Type>(&mut group, cells, integer),
            Physical::DOUBLE => column::<DoubleType>(&mut group, cells, |cell| cell.value.number()),
            Physical::BOOLEAN => column::<BoolType>(&mut group, cells, flag),
            _ => column::<ByteArrayType>(&mut group, cells, text),
        }?;
    }
    group.close()?;
    writer.into_inner()
}

fn integer(cell: &Cell) -> Option<i64> {
    if let Value::Integer(integer) = cell.value { i64::try_from(integer).ok() } else { None }
}

fn flag(cell: &Cell) -> Option<bool> {
    if let Value::Flag(flag) = cell.value { Some(flag) } else { None }
}

fn text(cell: &Cell) -> Option<ByteArray> {
    (cell.value != Value::Absent).then(|| ByteArray::from(field(cell).into_bytes()))
}

/// The narrowest type that holds every value of a column; text if no number type does.
fn kind(records: &Table, at: usize) -> Physical {
    let all = |holds: fn(&Cell) -> bool| {
        records.rows.iter().map(|row| &row[at]).all(|cell| cell.value == Value::Absent || holds(cell))
    };
    if all(|cell| flag(cell).is_some()) {
        Physical::BOOLEAN
    } else if all(|cell| integer(cell).is_some()) {
        Physical::INT64
    } else if all(|cell| matches!(cell.value, Value::Number(_) | Value::Interval(..)) || integer(cell).is_some()) {
        Physical::DOUBLE
    } else {
        Physical::BYTE_ARRAY
    }
}

fn leaf(name: &str, kind: Physical) -> Result<TypePtr, ParquetError> {
    let converted = if kind == Physical::BYTE_ARRAY { ConvertedType::UTF8 } else { ConvertedType::NONE };
    let builder = Type::primitive_type_builder(name, kind).with_repetition(Repetition::OPTIONAL);
    builder.with_converted_type(converted).build().map(Arc::new)
}

fn column<'a, T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    cells: impl Iterator<Item = &'a Cell> + Clone,
    value: impl Fn(&Cell) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has fewer columns than the records".to_owned());
    let mut writer = group.next_column()?.ok_or_else(missing)?;
    let values: Vec<T::T> = cells.clone().filter_map(&value).collect();
    let levels: Vec<i16> = cells.map(|cell| i16::from(value(cell).is_some())).collect();
    writer.typed::<T>().write_batch(&values, Some(&levels), None)?;
    writer.close()
}
