//! Lists the contents of recordings, server by server: files, facts, and the times of samples.

use std::path::PathBuf;

use fathom_errors::{Error, Result};
use serde::Serialize;

use crate::chunk::{ChunkBuffer, MetricChunk};
use crate::recording_file::{SearchEvent, search_recordings};
use crate::recording_reader::{RecordingEvent, read_recording};
use crate::sample_filter::SampleFilter;
use crate::server_facts::{ROLES, ServerFacts};
use crate::timeline::{SampleTime, Timeline};

/// A file of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FileInventory {
    /// Its name without the directory.
    pub name: String,
    /// Bytes of its whole documents, decompressed.
    pub bytes: u64,
    /// Bytes after them that do not form a complete document.
    pub cut_off_bytes: u64,
    pub chunks: usize,
    /// Samples, repeated ones included.
    pub samples: usize,
    /// Documents and chunks that could not be read, in words.
    pub damages: Vec<String>,
}

/// The recording of one server.
#[derive(Clone, Debug, Default)]
pub struct ServerInventory {
    /// The directory of its files.
    pub directory: String,
    /// Its files, in the order in which they were read.
    pub files: Vec<FileInventory>,
    /// Version, host and role.
    pub facts: ServerFacts,
    /// Samples over time, duplicates removed.
    pub timeline: Timeline,
    /// Samples that a second file contains too.
    pub repeated_samples: usize,
    /// The fewest and the most metrics of a sample.
    pub metrics: Option<(usize, usize)>,
    /// The samples of each file.
    samples: Vec<Vec<SampleTime>>,
}

/// Reads the contents of recordings. Returns the servers in the order in which they were found, and the errors of unreadable parts.
///
/// # Errors
/// If an input does not exist or holds no recording.
pub fn take_inventory(inputs: &[PathBuf]) -> Result<(Vec<ServerInventory>, Vec<Error>)> {
    let mut servers: Vec<ServerInventory> = Vec::new();
    let mut filter = SampleFilter::new(i64::MIN..=i64::MAX);
    let mut buffer = ChunkBuffer::default();
    let mut problems = search_recordings(inputs, &mut |event| {
        let file = match event {
            SearchEvent::File(file) => file,
            SearchEvent::Companion(..) => return Ok(()),
            SearchEvent::End { directory } => {
                filter.forget(directory);
                return Ok(());
            }
        };
        let at = servers.iter().position(|server| server.directory == file.directory);
        let at = at.unwrap_or_else(|| {
            servers
                .push(ServerInventory { directory: file.directory.to_owned(), ..ServerInventory::default() });
            servers.len() - 1
        });
        let Some(server) = servers.get_mut(at) else { return Ok(()) };
        server.samples.push(Vec::new());
        let mut entry = FileInventory { name: file.name.to_owned(), ..FileInventory::default() };
        let end = read_recording(file.contents, &mut buffer, &mut |event| {
            match event {
                RecordingEvent::Metadata { replies, .. } => server.facts.add_metadata(replies),
                RecordingEvent::Chunk { chunk, .. } => {
                    entry.chunks += 1;
                    entry.samples += chunk.samples();
                    server.add(chunk, &mut filter)?;
                }
                RecordingEvent::Parameters { replies, .. } => server.facts.add_parameters(replies),
            }
            Ok(())
        })?;
        entry.bytes = end.bytes;
        entry.cut_off_bytes = end.cut_off_bytes;
        entry.damages = end.damages.iter().map(ToString::to_string).collect();
        server.files.push(entry);
        Ok(())
    })?;
    servers.retain(|server| {
        let is_recording = server.samples.iter().any(|samples| !samples.is_empty())
            || server.files.iter().any(|file| file.bytes > 0);
        if !is_recording {
            let names: Vec<&str> = server.files.iter().map(|file| file.name.as_str()).collect();
            let what = format!("{} of {} is not a recording of a mongod", names.join(", "), server.directory);
            problems.push(Error::new(fathom_errors::Kind::Malformed, what));
        }
        is_recording
    });
    if servers.is_empty()
        && let Some(problem) = problems.pop()
    {
        return Err(problem);
    }
    for server in &mut servers {
        server.timeline = Timeline::new(std::mem::take(&mut server.samples));
    }
    Ok((servers, problems))
}

impl ServerInventory {
    fn add(&mut self, chunk: &MetricChunk<'_>, filter: &mut SampleFilter) -> Result<()> {
        self.facts.add_sample(chunk.reference());
        let count = chunk.metrics().len();
        self.metrics =
            Some(self.metrics.map_or((count, count), |(least, most)| (least.min(count), most.max(count))));
        let found = filter.rows(&self.directory, chunk)?;
        self.repeated_samples += found.repeated;
        let pid = metric(chunk, "serverStatus.pid");
        let uptime = metric(chunk, "serverStatus.uptimeMillis");
        let (mut pids, mut uptimes) = (Vec::new(), Vec::new());
        chunk.columns(
            |number| Some(number) == pid || Some(number) == uptime,
            |number, column| {
                if Some(number) == pid {
                    pids.extend_from_slice(column);
                } else {
                    uptimes.extend_from_slice(column);
                }
            },
        )?;
        for (row, start_ms) in found.rows.iter().zip(found.starts_ms) {
            let value = |column: &[i64]| column.get(*row).copied();
            let sample = SampleTime { start_ms, pid: value(&pids), uptime_ms: value(&uptimes) };
            self.samples.last_mut().into_iter().for_each(|samples| samples.push(sample));
        }
        Ok(())
    }
}

/// The number of a metric by its path, also below a role.
fn metric(chunk: &MetricChunk<'_>, path: &str) -> Option<usize> {
    let is_role = |role: &str| ROLES.contains(&role);
    chunk.metrics().iter().position(|metric| {
        let before = metric.path.strip_suffix(path);
        before.is_some_and(|before| before.is_empty() || before.strip_suffix('.').is_some_and(is_role))
    })
}
