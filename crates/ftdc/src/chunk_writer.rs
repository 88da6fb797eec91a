//! Makes chunks from samples, as mongod does: a chunk ends after 300 samples, or when a sample has other metrics than the one before it.

use std::io::Write;

use bson::{RawDocument, RawDocumentBuf};
use fathom_errors::Result;
use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::metric::{MetricKind, malformed};
use crate::metric_reader::metrics;
use crate::varint;

/// Samples of a chunk (mongod's parameter `diagnosticDataCollectionSamplesPerChunk`).
pub const MAX_SAMPLES: usize = 300;

/// Collects samples until a chunk is full.
#[derive(Debug, Default)]
pub struct ChunkWriter {
    reference: Option<RawDocumentBuf>,
    schema: Vec<(String, MetricKind)>,
    /// A row of values for each sample.
    rows: Vec<Vec<i64>>,
}

impl ChunkWriter {
    /// Adds a sample. If it begins another chunk, returns the chunk before it; if it fills the chunk, returns that chunk.
    ///
    /// # Errors
    /// If the sample is malformed.
    pub fn push(&mut self, sample: &RawDocument) -> Result<Option<Vec<u8>>> {
        let metrics = metrics(sample)?;
        let row = metrics.iter().map(|metric| metric.first).collect();
        let schema: Vec<_> = metrics.into_iter().map(|metric| (metric.path, metric.kind)).collect();
        let before = if self.reference.is_some() && schema != self.schema { self.finish()? } else { None };
        if self.reference.is_none() {
            self.reference = Some(sample.to_owned());
            self.schema = schema;
        }
        self.rows.push(row);
        // A chunk that ends here has at least one sample, so at most one of the two is full.
        if before.is_none() && self.rows.len() >= MAX_SAMPLES { self.finish() } else { Ok(before) }
    }

    /// The chunk of the samples since the last one, which mongod keeps in `metrics.interim` meanwhile; `None` without samples.
    ///
    /// # Errors
    /// If zlib fails.
    pub fn interim(&self) -> Result<Option<Vec<u8>>> {
        let Some(reference) = &self.reference else { return Ok(None) };
        let mut inflated = reference.as_bytes().to_vec();
        for count in [self.schema.len(), self.rows.len() - 1] {
            let count = u32::try_from(count).map_err(|_| malformed("too many metrics"))?;
            inflated.extend(count.to_le_bytes());
        }
        self.put_deltas(&mut inflated);
        deflate(&inflated).map(Some)
    }

    /// The same, and begins a new chunk with the next sample.
    ///
    /// # Errors
    /// As [`ChunkWriter::interim`].
    pub fn finish(&mut self) -> Result<Option<Vec<u8>>> {
        let chunk = self.interim()?;
        *self = ChunkWriter::default();
        Ok(chunk)
    }

    fn put_deltas(&self, bytes: &mut Vec<u8>) {
        let mut zeros = 0_u64;
        for at in 0..self.schema.len() {
            let column: Vec<i64> = self.rows.iter().filter_map(|row| row.get(at).copied()).collect();
            for (before, after) in column.iter().zip(column.iter().skip(1)) {
                match after.wrapping_sub(*before).cast_unsigned() {
                    0 => zeros += 1,
                    delta => {
                        put_zeros(bytes, &mut zeros);
                        varint::put(bytes, delta);
                    }
                }
            }
        }
        put_zeros(bytes, &mut zeros);
    }
}

/// The payload of an inflated chunk: its length, and a zlib stream.
pub(crate) fn deflate(inflated: &[u8]) -> Result<Vec<u8>> {
    let length = u32::try_from(inflated.len()).map_err(|_| malformed("a sample that is too large"))?;
    let mut stream = ZlibEncoder::new(length.to_le_bytes().to_vec(), Compression::default());
    let compressed = stream.write_all(inflated).and_then(|()| stream.finish());
    compressed.map_err(|cause| malformed("a chunk that zlib cannot deflate").because(cause))
}

/// Ends a run of zeros: one, and how many more.
fn put_zeros(bytes: &mut Vec<u8>, zeros: &mut u64) {
    if let Some(more) = zeros.checked_sub(1) {
        bytes.push(0);
        varint::put(bytes, more);
    }
    *zeros = 0;
}
