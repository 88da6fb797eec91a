//! Passes on the values of chosen metrics, block by block, for tables and exports.

use std::collections::HashMap;
use std::path::PathBuf;

use bson::RawDocument;
use fathom_errors::{Error, Result};

use crate::chunk::ChunkBuffer;
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
    /// No more samples of this directory follow. Directories in archives have no such event.
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
    let mut problems = search_recordings(inputs, &mut |event| {
        let file = match event {
            SearchEvent::File(file) => file,
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
            let wanted: Vec<bool> = chunk.metrics().iter().map(|metric| is_wanted(&metric.path)).collect();
            let metrics: Vec<&Metric> = chunk
                .metrics()
                .iter()
                .zip(&wanted)
                .filter(|(_, wanted)| **wanted)
                .map(|(metric, _)| metric)
                .collect();
            let mut columns = Vec::with_capacity(metrics.len());
            chunk.columns(
                |number| wanted.get(number) == Some(&true),
                |_, column| {
                    columns.push(found.rows.iter().filter_map(|row| column.get(*row).copied()).collect());
                },
            )?;
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
