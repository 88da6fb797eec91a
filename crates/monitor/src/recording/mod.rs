//! The recording that a mongod made of itself (FTDC) as the series that samplers would have read.
//!
//! The same table of names serves both (`server/names.rs`), and so does the catalog of series. Counters become sums over the interval between two
//! samples; an interval in which another process started has no sums. What a recording lacks (pings, caps, queues, traces) is absent.

mod block_columns;
mod counter_track;
mod cpu_times;
mod engine_times;
mod heartbeat_reader;
mod host_columns;
mod segment_reader;

use std::path::PathBuf;

use fathom_errors::{Error, Result};
use fathom_ftdc::{SampleEvent, SampleFilter, ServerDumps, visit_servers};

use crate::server::NameTree;
use block_columns::ColumnUse;
use segment_reader::SegmentReader;
pub use segment_reader::{ClockStep, RecordedProcess, RecordedSegment, RecordingOwner};

/// A step in reading the recordings of several servers.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "events are passed on one at a time and never stored")]
pub enum RecordedEvent<'s> {
    Segment(RecordedSegment<'s>),
    /// All segments of a server were passed on.
    End(RecordingOwner),
}

/// Passes the series of recordings to `visit`, in segments of about `segment_ms` for each server. Facts that a recording lacks come from `dumps`.
/// Returns the errors of parts that could not be read.
///
/// # Errors
/// If an input does not exist or has no recording, and those of `visit`.
pub fn read_recorded_series(
    inputs: &[PathBuf],
    filter: SampleFilter,
    dumps: &ServerDumps,
    segment_ms: i64,
    visit: &mut dyn FnMut(RecordedEvent<'_>) -> Result<()>,
) -> Result<Vec<Error>> {
    let names = NameTree::new();
    let mut readers: Vec<SegmentReader<'_>> = Vec::new();
    let mut servers = 0;
    let is_read = |path: &str| is_read(path, &names);
    let problems = visit_servers(inputs, filter, &is_read, &mut |event| {
        let reader_of = |readers: &[SegmentReader<'_>], directory: &str| {
            readers.iter().position(|reader| reader.directory == directory)
        };
        match event {
            SampleEvent::Block(block) => {
                let number = reader_of(&readers, block.directory).unwrap_or_else(|| {
                    readers.push(SegmentReader::new((&names, dumps), block.directory, servers, segment_ms));
                    servers += 1;
                    readers.len() - 1
                });
                let mut visit_segment = |segment: RecordedSegment<'_>| visit(RecordedEvent::Segment(segment));
                readers.get_mut(number).map_or(Ok(()), |reader| reader.add(&block, &mut visit_segment))
            }
            SampleEvent::End { directory } => match reader_of(&readers, directory) {
                Some(number) => end(readers.remove(number), visit),
                None => Ok(()),
            },
        }
    })?;
    readers.into_iter().try_for_each(|reader| end(reader, visit))?;
    Ok(problems)
}

/// Chooses by their paths the metrics that series are made from.
pub fn recorded_metrics() -> impl Fn(&str) -> bool {
    let names = NameTree::new();
    move |path| is_read(path, &names)
}

fn is_read(path: &str, names: &NameTree) -> bool {
    !matches!(ColumnUse::from_path(path, names), ColumnUse::Unused)
}

fn end(mut reader: SegmentReader<'_>, visit: &mut dyn FnMut(RecordedEvent<'_>) -> Result<()>) -> Result<()> {
    reader.finish(&mut |segment| visit(RecordedEvent::Segment(segment)))?;
    visit(RecordedEvent::End(reader.into_owner()))
}
