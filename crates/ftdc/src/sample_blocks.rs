//! Passes on the values of chosen metrics, block by block, for tables and exports.

use std::collections::HashMap;
use std::path::PathBuf;

use bson::RawDocument;
use fathom_errors::{Error, Result};

use crate::chunk::{ChunkBuffer, MetricChunk};
use crate::metric::Metric;
use crate::recording_file::{SearchEvent, search_recordings};
use crate::recording_reader::{RecordingEvent, read_recording};
use crate::sample_filter::SampleFilter;
use crate::server_facts::ServerFacts;

/// The samples of one chunk that count, with the chosen metrics.
#[derive(Debug)]
pub struct SampleBlock<'b> {
    /// The directory of the recording, which identifies its server.
    pub directory: &'b str,
    /// The name of the file in it.
    pub file: &'b str,
    /// The facts on the server so far.
    pub facts: &'b ServerFacts,
    /// The first sample of its chunk as the server wrote it, text included.
    pub reference: &'b RawDocument,
    /// The start time of each sample, in milliseconds since 1970 in UTC.
    pub starts_ms: &'b [i64],
    pub metrics: &'b [&'b Metric],
    /// A column for each of them, with a value for each sample.
    pub columns: &'b [Vec<i64>],
}

/// A step in reading the samples of several servers.
#[derive(Debug)]
pub enum SampleEvent<'b> {
    Block(SampleBlock<'b>),
    /// No more samples of this directory follow.
    End {
        directory: &'b str,
    },
}

/// Passes the samples of recordings to `visit` in the order in which they were written, each once. `is_wanted` chooses metrics by their paths.
/// Returns the errors of unreadable parts.
///
/// # Errors
/// If an input does not exist or has no recording, and those of `visit`.
pub fn visit_samples(
    inputs: &[PathBuf],
    filter: SampleFilter,
    is_wanted: &dyn Fn(&str) -> bool,
    visit: &mut dyn FnMut(SampleBlock<'_>) -> Result<()>,
) -> Result<Vec<Error>> {
    visit_servers(inputs, filter, is_wanted, &mut |event| match event {
        SampleEvent::Block(block) => visit(block),
        SampleEvent::End { .. } => Ok(()),
    })
}

/// The same, and says when a directory was read whole.
///
/// # Errors
/// As [`visit_samples`].
pub fn visit_servers(
    inputs: &[PathBuf],
    mut filter: SampleFilter,
    is_wanted: &dyn Fn(&str) -> bool,
    visit: &mut dyn FnMut(SampleEvent<'_>) -> Result<()>,
) -> Result<Vec<Error>> {
    let mut buffer = ChunkBuffer::default();
    let mut damages = Vec::new();
    let mut known: HashMap<String, ServerFacts> = HashMap::new();
    let mut wanted = WantedColumns::default();
    let mut columns: Vec<Vec<i64>> = Vec::new();
    let mut problems = search_recordings(inputs, &mut |event| {
        let file = match event {
            SearchEvent::File(file) => file,
            SearchEvent::Companion(..) => return Ok(()),
            SearchEvent::End { directory } => {
                filter.forget(directory);
                known.remove(directory);
                return visit(SampleEvent::End { directory });
            }
        };
        let facts = known.entry(file.directory.to_owned()).or_default();
        let end = read_recording(file.contents, &mut buffer, &mut |event| {
            let chunk = match event {
                RecordingEvent::Chunk { chunk, .. } => chunk,
                RecordingEvent::Metadata { replies, .. } => {
                    facts.add_metadata(replies);
                    return Ok(());
                }
                RecordingEvent::Parameters { replies, .. } => {
                    facts.add_parameters(replies);
                    return Ok(());
                }
            };
            facts.add_sample(chunk.reference());
            let found = filter.rows(file.directory, chunk)?;
            if found.rows.is_empty() {
                return Ok(());
            }
            wanted.choose(chunk, is_wanted);
            let is_chosen = |number: usize| wanted.chosen.get(number) == Some(&true);
            let numbered = chunk.metrics().iter().enumerate();
            let metrics: Vec<&Metric> =
                numbered.filter(|(number, _)| is_chosen(*number)).map(|(_, metric)| metric).collect();
            columns.resize_with(metrics.len(), Vec::new);
            let mut targets = columns.iter_mut();
            chunk.columns(is_chosen, |_, column| {
                if let Some(target) = targets.next() {
                    set_rows(target, column, &found.rows);
                }
            })?;
            visit(SampleEvent::Block(SampleBlock {
                directory: file.directory,
                file: file.name,
                facts,
                reference: chunk.reference(),
                starts_ms: &found.starts_ms,
                metrics: &metrics,
                columns: &columns,
            }))
        })?;
        let name =
            |damage: &Error| Error::new(damage.kind(), format!("{}/{}: {damage}", file.directory, file.name));
        damages.extend(end.damages.iter().map(name));
        Ok(())
    })?;
    problems.extend(damages);
    Ok(problems)
}

/// The paths whose choice is kept. Real recordings have some thousands.
const MAX_KNOWN_PATHS: usize = 1 << 16;

/// The columns of the present schema that are wanted.
#[derive(Debug, Default)]
struct WantedColumns {
    schema: Option<u64>,
    /// For each metric, whether it is wanted.
    chosen: Vec<bool>,
    /// The same by path. A schema mostly differs from the one before in the types of a few metrics.
    known: HashMap<String, bool>,
}

impl WantedColumns {
    /// Chooses among the metrics of a chunk, if it has others than the one before.
    fn choose(&mut self, chunk: &MetricChunk<'_>, is_wanted: &dyn Fn(&str) -> bool) {
        if self.schema == Some(chunk.schema()) {
            return;
        }
        self.schema = Some(chunk.schema());
        self.chosen.clear();
        if self.known.len() > MAX_KNOWN_PATHS {
            self.known.clear();
        }
        for Metric { path, .. } in chunk.metrics() {
            let known = self.known.get(path).copied();
            let is_chosen = known.unwrap_or_else(|| {
                let is_chosen = is_wanted(path);
                self.known.insert(path.clone(), is_chosen);
                is_chosen
            });
            self.chosen.push(is_chosen);
        }
    }
}

/// Sets `target` to these rows of a column, in their order.
fn set_rows(target: &mut Vec<i64>, column: &[i64], rows: &[usize]) {
    target.clear();
    // Rows are in their order and each comes once, so as many as the column has are all of them.
    if rows.len() == column.len() {
        target.extend_from_slice(column);
    } else {
        target.extend(rows.iter().filter_map(|row| column.get(*row)));
    }
}
