//! Readings as a Parquet file: written from JSON lines, in row groups of bounded size, and read row by row.
//!
//! The format is long: one row a reading, columns `name`, `unit` (UTF-8), `begin_ns`, `end_ns` (INT64) and `value`
//! (DOUBLE), all required. pandas, DuckDB and Spark open it directly.

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

use crate::series::{MAX_SERIES_BYTES, ReadingSink};
use crate::{Point, Reading, files};

const COLUMNS: &str = "message readings {
    required binary name (UTF8);
    required binary unit (UTF8);
    required int64 begin_ns;
    required int64 end_ns;
    required double value;
}";

/// Rows in a row group, which is the number that the writer keeps in memory.
const MAX_GROUP_ROWS: usize = 1 << 15;

/// Writes the readings of the lines in `lines` to `path`. A line that does not parse is skipped.
pub(crate) fn write(lines: &Path, path: &Path) -> Result<()> {
    let failed =
        |e: ParquetError| Error::new(Kind::Io, format!("cannot write {}", path.display())).because(e);
    let file = File::create(path).map_err(|e| Error::io("create", path, e))?;
    let schema = Arc::new(parse_message_type(COLUMNS).map_err(failed)?);
    let properties = Arc::new(WriterProperties::new());
    let mut writer = SerializedFileWriter::new(file, schema, properties).map_err(failed)?;
    let mut readings: Vec<Reading> = Vec::with_capacity(MAX_GROUP_ROWS);
    files::each_line(lines, MAX_SERIES_BYTES, &mut |line| {
        readings.extend(serde_json::from_slice(line).ok());
        if readings.len() == MAX_GROUP_ROWS {
            write_group(&mut writer, &mut readings).map_err(failed)?;
        }
        Ok(())
    })?;
    if !readings.is_empty() {
        write_group(&mut writer, &mut readings).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    Ok(())
}

/// Writes a row group, and empties `readings`. Its rows are sorted by name, so that the values of a series are adjacent, and a bundle
/// compresses them to two thirds of their compressed size in the order of time.
fn write_group(
    writer: &mut SerializedFileWriter<File>,
    readings: &mut Vec<Reading>,
) -> Result<(), ParquetError> {
    // A stable sort: the readings of one series stay in the order of time.
    readings.sort_by(|one, other| one.name.cmp(&other.name));
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
    readings.clear();
    Ok(())
}

/// Calls `take` with each reading of `path`.
pub(crate) fn each_reading(path: &Path, take: ReadingSink<'_>) -> Result<()> {
    each_row(&open(path)?, take).map_err(|e| unreadable(path, e))
}

/// Whether `path` has any reading.
pub(crate) fn has_rows(path: &Path) -> Result<bool> {
    Ok(open(path)?.metadata().file_metadata().num_rows() > 0)
}

fn open(path: &Path) -> Result<SerializedFileReader<File>> {
    SerializedFileReader::new(files::open(path, MAX_SERIES_BYTES)?).map_err(|e| unreadable(path, e))
}

fn unreadable(path: &Path, error: ParquetError) -> Error {
    Error::new(Kind::Malformed, format!("cannot read {}", path.display())).because(error)
}

fn each_row(reader: &SerializedFileReader<File>, take: ReadingSink<'_>) -> Result<(), ParquetError> {
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
