//! A chunk: the samples of up to five minutes, one column for each metric.
//!
//! Inflated by zlib, it has the first sample as a BSON document, the number of metrics, the number of further samples, and the deltas: for each
//! metric in turn its differences from sample to sample, modulo 2^64, as varints. A zero is followed by the number of zeros after it, and such a
//! run may continue in the columns of the metrics that follow.

use std::borrow::Cow;

use bson::RawDocument;
use fathom_errors::Result;
use flate2::{Decompress, FlushDecompress, Status};

use crate::chunk_writer::deflate;
use crate::metric::{Metric, malformed};
use crate::metric_reader::{MetricReader, metrics};
use crate::varint;

/// The most values of a chunk, metrics times samples: ten times the largest that was seen, so that one chunk of a hostile file takes at most 128 MiB.
pub const MAX_VALUES: u64 = 1 << 24;
/// The most bytes of an inflated chunk. A value has at most ten bytes, and few have more than two.
const MAX_INFLATED_BYTES: usize = 64 << 20;

/// Memory for inflated chunks, used for one after another. Consecutive chunks of a server mostly have the same metrics, whose names are kept.
#[derive(Debug, Default)]
pub struct ChunkBuffer {
    inflated: Vec<u8>,
    metrics: MetricReader,
}

/// An inflated chunk whose columns are expanded on demand.
#[derive(Debug)]
pub struct MetricChunk<'b> {
    reference: &'b RawDocument,
    metrics: Cow<'b, [Metric]>,
    schema: u64,
    /// Samples after the first.
    deltas: usize,
    bytes: &'b [u8],
}

impl<'b> MetricChunk<'b> {
    /// Inflates the payload of [`Document::Metrics`](crate::Document::Metrics) into a buffer.
    ///
    /// # Errors
    /// If it is damaged, or larger than [`MAX_VALUES`].
    pub fn parse(payload: &[u8], buffer: &'b mut ChunkBuffer) -> Result<MetricChunk<'b>> {
        inflate(payload, &mut buffer.inflated)?;
        let (reference, rest) = first_sample(&buffer.inflated)?;
        let (metrics, schema) = buffer.metrics.read(reference)?;
        MetricChunk::new(reference, Cow::Borrowed(metrics), schema, rest)
    }

    /// The same for a chunk that is inflated already.
    ///
    /// # Errors
    /// As [`MetricChunk::parse`].
    pub fn parse_inflated(inflated: &'b [u8]) -> Result<MetricChunk<'b>> {
        let (reference, rest) = first_sample(inflated)?;
        MetricChunk::new(reference, Cow::Owned(metrics(reference)?), 0, rest)
    }

    /// A chunk of its first sample, the metrics in it, and the bytes after it.
    fn new(
        reference: &'b RawDocument,
        metrics: Cow<'b, [Metric]>,
        schema: u64,
        rest: &'b [u8],
    ) -> Result<MetricChunk<'b>> {
        let (counts, bytes) =
            rest.split_first_chunk::<8>().ok_or_else(|| malformed("a chunk without its counts"))?;
        let [a, b, c, d, e, f, g, h] = *counts;
        let (count, deltas) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        if metrics.len() != count as usize {
            return Err(malformed(format!(
                "a chunk of {count} metrics whose first sample has {}",
                metrics.len()
            )));
        }
        if u64::from(count) * (u64::from(deltas) + 1) > MAX_VALUES {
            return Err(malformed(format!(
                "a chunk of {count} metrics and {deltas} samples, which is too large"
            )));
        }
        Ok(MetricChunk { reference, metrics, schema, deltas: deltas as usize, bytes })
    }

    /// The first sample as the server wrote it, text included.
    pub fn reference(&self) -> &'b RawDocument {
        self.reference
    }

    /// The metrics, in the order of their columns.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// The number of its list of metrics: the next chunk of the same buffer with this number has the same paths and types.
    pub fn schema(&self) -> u64 {
        self.schema
    }

    /// The length of the chunk once inflated.
    pub fn inflated_bytes(&self) -> usize {
        self.reference.as_bytes().len() + 8 + self.bytes.len()
    }

    /// The number of samples, at least 1.
    pub fn samples(&self) -> usize {
        self.deltas + 1
    }

    /// The payload of the same chunk with another first sample, whose metrics must be as many and have the same values.
    ///
    /// # Errors
    /// If the sample has other metrics.
    pub fn with_reference(&self, reference: &RawDocument) -> Result<Vec<u8>> {
        let replaced = metrics(reference)?;
        let values =
            |metrics: &[Metric]| metrics.iter().map(|metric| (metric.kind, metric.first)).collect::<Vec<_>>();
        if values(&replaced) != values(&self.metrics) {
            return Err(malformed("a first sample with other metrics than those of its chunk"));
        }
        let mut inflated = reference.as_bytes().to_vec();
        for count in [self.metrics.len(), self.deltas] {
            let count = u32::try_from(count).map_err(|_| malformed("too many metrics"))?;
            inflated.extend(count.to_le_bytes());
        }
        inflated.extend(self.bytes);
        deflate(&inflated)
    }

    /// Expands the columns whose numbers `is_wanted` selects and passes each with its number to `visit`, in their order. Columns after the last wanted
    /// one are not read.
    ///
    /// # Errors
    /// If the deltas end before the last wanted column. Columns before the damage were visited.
    pub fn columns(
        &self,
        is_wanted: impl Fn(usize) -> bool,
        mut visit: impl FnMut(usize, &[i64]),
    ) -> Result<()> {
        let Some(last) = (0..self.metrics.len()).rfind(|at| is_wanted(*at)) else { return Ok(()) };
        let mut column = Vec::with_capacity(self.samples());
        let mut deltas = Deltas { bytes: self.bytes, zeros: 0 };
        for (at, metric) in self.metrics.iter().enumerate().take(last + 1) {
            if is_wanted(at) {
                deltas.expand(metric.first, self.deltas, &mut column)?;
                visit(at, &column);
            } else {
                deltas.skip(self.deltas)?;
            }
        }
        Ok(())
    }
}

/// The first sample of an inflated chunk, and the bytes after it.
fn first_sample(inflated: &[u8]) -> Result<(&RawDocument, &[u8])> {
    let length = inflated.first_chunk::<4>().map_or(0, |head| u32::from_le_bytes(*head) as usize);
    let (document, rest) =
        inflated.split_at_checked(length).ok_or_else(|| malformed("a chunk without its first sample"))?;
    let reference = RawDocument::from_bytes(document)
        .map_err(|cause| malformed("a first sample that is no BSON").because(cause))?;
    Ok((reference, rest))
}

/// A cursor over the deltas of a chunk.
struct Deltas<'b> {
    bytes: &'b [u8],
    /// Zeros of the present run that are still to come.
    zeros: u64,
}

impl Deltas<'_> {
    /// Sets `column` to a metric's values: its first and `count` more.
    fn expand(&mut self, first: i64, count: usize, column: &mut Vec<i64>) -> Result<()> {
        column.clear();
        column.push(first);
        let mut value = first;
        let mut left = count;
        while left > 0 {
            let zeros = self.take_zeros(left);
            if zeros > 0 {
                column.extend(std::iter::repeat_n(value, zeros));
                left -= zeros;
                continue;
            }
            match self.next()? {
                0 => {}
                delta => {
                    value = value.wrapping_add(delta.cast_signed());
                    column.push(value);
                    left -= 1;
                }
            }
        }
        Ok(())
    }

    /// Passes over the deltas of a metric.
    fn skip(&mut self, count: usize) -> Result<()> {
        let mut left = count;
        while left > 0 {
            let zeros = self.take_zeros(left);
            left -= zeros;
            if zeros == 0 && self.next()? != 0 {
                left -= 1;
            }
        }
        Ok(())
    }

    /// Zeros of the present run, at most `left`.
    fn take_zeros(&mut self, left: usize) -> usize {
        let taken = self.zeros.min(left as u64);
        self.zeros -= taken;
        taken as usize
    }

    /// The next delta. A zero begins a run, whose zeros [`Deltas::take_zeros`] returns.
    fn next(&mut self) -> Result<u64> {
        let cut_off = || malformed("a chunk whose deltas are cut off");
        let delta = varint::take(&mut self.bytes).ok_or_else(cut_off)?;
        if delta == 0 {
            let more = varint::take(&mut self.bytes).ok_or_else(cut_off)?;
            self.zeros = more.saturating_add(1);
        }
        Ok(delta)
    }
}

/// Inflates a chunk: its length once inflated, and a zlib stream.
fn inflate(payload: &[u8], inflated: &mut Vec<u8>) -> Result<()> {
    let (length, stream) =
        payload.split_first_chunk::<4>().ok_or_else(|| malformed("a chunk without its length"))?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > MAX_INFLATED_BYTES {
        return Err(malformed(format!("a chunk of {length} bytes, which is too large")));
    }
    inflated.clear();
    // With one spare byte the decompressor reaches the checksum after the data in one call.
    inflated.reserve_exact(length + 1);
    let status = Decompress::new(true)
        .decompress_vec(stream, inflated, FlushDecompress::Finish)
        .map_err(|cause| malformed("a chunk that zlib cannot inflate").because(cause))?;
    if status != Status::StreamEnd || inflated.len() != length {
        return Err(malformed(format!("a chunk of {} bytes in place of {length}", inflated.len())));
    }
    Ok(())
}
