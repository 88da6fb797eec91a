//! Makes synthetic recordings as of mongod (FTDC): a few metrics, with the difficulties of real ones.

use std::fs;
use std::io;
use std::path::Path;

use bson::{DateTime, Document, RawDocumentBuf, doc};
use fathom_errors::Result;
use fathom_ftdc::{ChunkWriter, Document as FtdcDocument};

/// The first sample: 2025-07-10 19:28:00 UTC.
pub const RECORDING_BEGIN_MS: i64 = 1_752_175_680_000;
/// The samples of [`write_recording`], each once.
pub const RECORDING_SAMPLES: usize = 720;
/// Samples that two of its files have.
pub const REPEATED_SAMPLES: usize = 60;

/// The process that recorded a sample.
#[derive(Clone, Copy, Debug)]
pub struct RecordedProcess {
    pub pid: i64,
    /// When it started, milliseconds since 1970 in UTC.
    pub started_ms: i64,
}

impl RecordedProcess {
    /// A sample that began at a time. `more` is added to `serverStatus`.
    pub fn sample(self, start_ms: i64, more: &Document) -> Document {
        let time = DateTime::from_millis(start_ms);
        let second = (start_ms - RECORDING_BEGIN_MS) / 1000;
        let mut status = doc! {
            "start": time, "host": "db1.example.net:27017", "version": "7.0.12", "process": "mongod", "pid": self.pid,
            "uptimeMillis": start_ms - self.started_ms,
            "opcounters": { "insert": 100 * second, "query": 7 * second },
            "storageEngine": { "name": "wiredTiger" },
            "wiredTiger": { "log": { "log sync operations": 3 * second, "log sync time duration (usecs)": 900 * second } },
        };
        status.extend(more.clone());
        doc! {
            "start": time, "serverStatus": status,
            "systemMetrics": { "disks": { "sda": { "reads": 5 * second, "io_time_ms": 12 * second } } },
            "end": DateTime::from_millis(start_ms + 3),
        }
    }
}

/// A file of a recording that is built document by document.
#[derive(Debug, Default)]
pub struct RecordingWriter {
    bytes: Vec<u8>,
    chunk: ChunkWriter,
    chunk_ms: i64,
}

impl RecordingWriter {
    /// Adds the document that mongod begins each file with.
    pub fn metadata(&mut self, at_ms: i64) {
        let replies = doc! {
            "buildInfo": { "version": "7.0.12" },
            "getCmdLineOpts": { "parsed": { "storage": { "dbPath": "/data/db" }, "replication": { "replSetName": "rs0" } } },
            "hostInfo": {
                "system": { "hostname": "db1.example.net", "numCores": 4, "memSizeMB": 7963 },
                "os": { "type": "Linux", "name": "Ubuntu", "version": "22.04" },
            },
        };
        self.metadata_of(at_ms, &replies);
    }

    /// The same with other replies of commands.
    pub fn metadata_of(&mut self, at_ms: i64, replies: &Document) {
        let replies = RawDocumentBuf::try_from(replies).unwrap_or_default();
        self.bytes.extend(FtdcDocument::Metadata { at_ms, replies: &replies }.encode());
    }

    /// Adds a document of periodic metadata; all parameters have the count 0.
    pub fn parameters(&mut self, at_ms: i64, count: i64, replies: &Document) {
        let replies = RawDocumentBuf::try_from(replies).unwrap_or_default();
        self.bytes.extend(FtdcDocument::Parameters { at_ms, count, replies: &replies }.encode());
    }

    /// Adds a sample.
    ///
    /// # Errors
    /// If it is larger than a chunk may be.
    pub fn sample(&mut self, start_ms: i64, sample: &Document) -> Result<()> {
        let raw = RawDocumentBuf::try_from(sample).unwrap_or_default();
        if let Some(payload) = self.chunk.push(&raw)? {
            self.metrics(&payload);
        }
        self.chunk_ms = start_ms;
        Ok(())
    }

    /// Ends the chunk that is open.
    ///
    /// # Errors
    /// As [`RecordingWriter::sample`].
    pub fn end_chunk(&mut self) -> Result<()> {
        if let Some(payload) = self.chunk.finish()? {
            self.metrics(&payload);
        }
        Ok(())
    }

    fn metrics(&mut self, payload: &[u8]) {
        self.bytes.extend(FtdcDocument::Metrics { at_ms: self.chunk_ms, payload }.encode());
    }

    /// The bytes of the file.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Writes a `diagnostic.data` folder: 720 samples of two processes, one a second and at the end ten a second, with a gap of five seconds and a
/// restart in the middle of a chunk; 60 of them are in the interim file too.
///
/// # Errors
/// When a file cannot be written.
pub fn write_recording(directory: &Path) -> io::Result<()> {
    let build = || -> Result<(Vec<u8>, Vec<u8>)> {
        let mut archive = RecordingWriter::default();
        archive.metadata(RECORDING_BEGIN_MS - 50);
        let mut interim = RecordingWriter::default();
        let none = Document::new();
        let first = RecordedProcess { pid: 4711, started_ms: RECORDING_BEGIN_MS - 3_600_000 };
        let second = RecordedProcess { pid: 815, started_ms: RECORDING_BEGIN_MS + 404_000 };
        for number in 0..RECORDING_SAMPLES as i64 {
            // A sample a second, none for five seconds after the first 200, then ten a second.
            let start_ms = RECORDING_BEGIN_MS
                + match number {
                    0..200 => number * 1000,
                    200..600 => (number + 5) * 1000,
                    _ => 605_000 + (number - 600) * 100,
                };
            let process = if number < 400 { first } else { second };
            let sample = process.sample(start_ms, &none);
            if number < 660 {
                archive.sample(start_ms, &sample)?;
            }
            if number >= 600 {
                interim.sample(start_ms, &sample)?;
            }
        }
        archive.end_chunk()?;
        interim.end_chunk()?;
        Ok((archive.into_bytes(), interim.into_bytes()))
    };
    let (archive, interim) = build().map_err(io::Error::other)?;
    fs::create_dir_all(directory)?;
    fs::write(directory.join("metrics.2025-07-10T19-28-00Z-00000"), archive)?;
    fs::write(directory.join("metrics.interim"), interim)
}
