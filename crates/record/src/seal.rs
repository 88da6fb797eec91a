//! Readings as a Parquet file: written once, when a run ends, and read back.
//!
//! Long form, one row a reading, columns `name`, `unit` (UTF-8), `begin_ns`, `end_ns` (INT64) and `value`
//! (DOUBLE), all required. pandas, DuckDB and Spark open it as it is.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use fathom_errors::{Error, Kind, Result};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RowAccessor;
use parquet::schema::parser::parse_message_type;

use crate::run::MAX_SERIES_BYTES;
use crate::{Point, Reading, plain};

const COLUMNS: &str = "message readings {
    required binary name (UTF8);
    required binary unit (UTF8);
    required int64 begin_ns;
    required int64 end_ns;
    required double value;
}";

/// Writes all readings to `path`.
pub(crate) fn write(path: &Path, readings: &[Reading]) -> Result<()> {
    let file = File::create(path).map_err(|e| Error::io("create", path, e))?;
    write_columns(file, readings)
        .map_err(|e| Error::new(Kind::Io, format!("cannot write {}", path.display())).because(e))
}

fn write_columns(file: File, readings: &[Reading]) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(COLUMNS)?);
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::new()))?;
    let mut group = writer.next_row_group()?;
    for text in [|r: &Reading| &r.name, |r: &Reading| &r.unit] as [fn(&Reading) -> &String; 2] {
        let values: Vec<_> = readings.iter().map(|r| ByteArray::from(text(r).as_str())).collect();
        if let Some(mut column) = group.next_column()? {
            column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            column.close()?;
        }
    }
    for time in [|r: &Reading| r.begin_ns, |r: &Reading| r.end_ns] as [fn(&Reading) -> u64; 2] {
        let values: Vec<_> = readings.iter().map(|r| i64::try_from(time(r)).unwrap_or(i64::MAX)).collect();
        if let Some(mut column) = group.next_column()? {
            column.typed::<Int64Type>().write_batch(&values, None, None)?;
            column.close()?;
        }
    }
    let values: Vec<_> = readings.iter().map(|r| r.value).collect();
    if let Some(mut column) = group.next_column()? {
        column.typed::<DoubleType>().write_batch(&values, None, None)?;
        column.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

/// Reads all readings of `path`.
pub(crate) fn read(path: &Path) -> Result<Vec<Reading>> {
    let mut readings = Vec::new();
    each(path, &mut |name, unit, point| {
        readings.push(Reading::new(name, unit, (point.begin_ns, point.end_ns), point.value));
    })?;
    Ok(readings)
}

/// Hands every reading of `path` to `take`: name, unit, and value with its window.
pub(crate) fn each(path: &Path, take: &mut dyn FnMut(&str, &str, Point)) -> Result<()> {
    let file = plain::open(path, MAX_SERIES_BYTES)?;
    each_row(file, take)
        .map_err(|e| Error::new(Kind::Malformed, format!("cannot read {}", path.display())).because(e))
}

fn each_row(file: File, take: &mut dyn FnMut(&str, &str, Point)) -> Result<(), ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    for row in reader.get_row_iter(None)? {
        let row = row?;
        let point = Point {
            begin_ns: u64::try_from(row.get_long(2)?).unwrap_or(0),
            end_ns: u64::try_from(row.get_long(3)?).unwrap_or(0),
            value: row.get_double(4)?,
        };
        take(row.get_string(0)?, row.get_string(1)?, point);
    }
    Ok(())
}
