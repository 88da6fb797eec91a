//! The recording that a mongod made of itself (FTDC) as the series that samplers would have read.
//!
//! The same table of names serves both (`server/names.rs`), and so does the catalog of series. Counters become sums over the interval between two
//! samples; an interval in which another process started has no sums. What a recording lacks (pings, caps, queues, traces) is absent.

mod counter_track;
mod cpu_times;
mod heartbeat_reader;
mod host_columns;
mod segment_reader;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

use fathom_errors::{Error, Result};
use fathom_ftdc::{SampleFilter, visit_samples};

use crate::server::NameTree;
use segment_reader::{ColumnUse, SegmentReader};
pub use segment_reader::{RecordedSegment, RecordingOwner};

/// The servers of recordings, and the parts that could not be read.
#[derive(Debug, Default)]
pub struct RecordedServers {
    /// The servers, by their numbers.
    pub servers: Vec<RecordingOwner>,
    pub problems: Vec<Error>,
}

/// Passes the series of recordings to `visit`, in segments of about `segment_ms` for each server.
///
/// # Errors
/// If an input does not exist or has no recording, and those of `visit`.
pub fn read_recorded_series(
    inputs: &[PathBuf],
    filter: SampleFilter,
    segment_ms: i64,
    visit: &mut dyn FnMut(RecordedSegment<'_>) -> Result<()>,
) -> Result<RecordedServers> {
    let names = NameTree::new();
    let mut readers: Vec<SegmentReader<'_>> = Vec::new();
    // Thousands of metrics are looked up in each chunk.
    let known: RefCell<HashMap<String, bool>> = RefCell::new(HashMap::new());
    let is_read = |path: &str| {
        if let Some(is_read) = known.borrow().get(path) {
            return *is_read;
        }
        let is_read = !matches!(ColumnUse::from_path(path, &names), ColumnUse::Unused);
        known.borrow_mut().insert(path.to_owned(), is_read);
        is_read
    };
    let problems = visit_samples(inputs, filter, &is_read, &mut |block| {
        let found = readers.iter().position(|reader| reader.directory == block.directory);
        let number = found.unwrap_or_else(|| {
            readers.push(SegmentReader::new(&names, block.directory, readers.len(), segment_ms));
            readers.len() - 1
        });
        readers.get_mut(number).map_or(Ok(()), |reader| reader.add(&block, visit))
    })?;
    readers.iter_mut().try_for_each(|reader| reader.finish(visit))?;
    let servers = readers.into_iter().map(SegmentReader::into_owner).collect();
    Ok(RecordedServers { servers, problems })
}
