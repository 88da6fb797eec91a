//! Values as a Parquet file: one row a value, so that recordings with different metrics have one table.

use std::fs::File;
use std::sync::Arc;

use fathom_errors::{Error, Kind, Result};
use fathom_ftdc::SampleBlock;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

const COLUMNS: &str = "message values {
    required int64 time (TIMESTAMP(MILLIS,true));
    required binary server (UTF8);
    required binary metric (UTF8);
    required int64 value;
}";

/// A Parquet file that is written block by block, each a row group.
pub(super) struct ParquetFile<'f> {
    writer: SerializedFileWriter<&'f File>,
}

impl<'f> ParquetFile<'f> {
    pub(super) fn create(file: &'f File) -> Result<ParquetFile<'f>> {
        let schema = Arc::new(parse_message_type(COLUMNS).map_err(failed)?);
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build())).map_err(failed)?;
        Ok(ParquetFile { writer })
    }

    /// Writes the values of a block, metric by metric.
    pub(super) fn write(&mut self, block: &SampleBlock<'_>) -> Result<()> {
        self.write_group(block).map_err(failed)
    }

    fn write_group(&mut self, block: &SampleBlock<'_>) -> Result<(), ParquetError> {
        let rows = block.starts_ms.len() * block.metrics.len();
        let mut times = Vec::with_capacity(rows);
        let mut metrics = Vec::with_capacity(rows);
        let mut values = Vec::with_capacity(rows);
        for (metric, column) in block.metrics.iter().zip(block.columns) {
            let path = ByteArray::from(metric.path.as_str());
            times.extend_from_slice(block.starts_ms);
            metrics.extend(column.iter().map(|_| path.clone()));
            values.extend_from_slice(column);
        }
        let servers = vec![ByteArray::from(block.directory); rows];
        let mut group = self.writer.next_row_group()?;
        if let Some(mut column) = group.next_column()? {
            column.typed::<Int64Type>().write_batch(&times, None, None)?;
            column.close()?;
        }
        for texts in [&servers, &metrics] {
            if let Some(mut column) = group.next_column()? {
                column.typed::<ByteArrayType>().write_batch(texts, None, None)?;
                column.close()?;
            }
        }
        if let Some(mut column) = group.next_column()? {
            column.typed::<Int64Type>().write_batch(&values, None, None)?;
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    pub(super) fn close(self) -> Result<()> {
        self.writer.close().map_err(failed)?;
        Ok(())
    }
}

fn failed(cause: ParquetError) -> Error {
    Error::new(Kind::Unsupported, "cannot write Parquet").because(cause)
}
