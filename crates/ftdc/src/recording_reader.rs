//! Reads the documents of one file of a recording, with its chunks inflated. Damaged parts are left out and counted.

use std::io::Read;

use bson::RawDocument;
use fathom_errors::{Error, Kind, Result};

use crate::chunk::{ChunkBuffer, MetricChunk};
use crate::document::{Document, DocumentReader, MAX_COUNTED_BYTES};

/// A file with more damaged parts is not read to its end: it is something else.
const MAX_DAMAGES: usize = 1000;

/// A document of a recording, its chunk inflated.
#[derive(Debug)]
pub enum RecordingEvent<'e> {
    /// The server's description of itself when it opens a file, type 0.
    Metadata {
        /// Milliseconds since 1970 in UTC.
        at_ms: i64,
        /// The replies of commands by their names.
        replies: &'e RawDocument,
    },
    /// A document of type 1: samples.
    Chunk {
        /// Milliseconds since 1970 in UTC.
        at_ms: i64,
        chunk: &'e MetricChunk<'e>,
    },
    /// A document of type 2: periodic metadata.
    Parameters {
        /// Milliseconds since 1970 in UTC.
        at_ms: i64,
        /// The number of the document since all parameters were recorded; 0 has all of them.
        count: i64,
        /// The replies of commands by their names.
        replies: &'e RawDocument,
    },
}

/// The result of reading a file.
#[derive(Debug, Default)]
pub struct FileEnd {
    /// Bytes of its whole documents, decompressed.
    pub bytes: u64,
    /// Bytes after them that do not form a complete document.
    pub cut_off_bytes: u64,
    /// Documents and chunks that could not be read.
    pub damages: Vec<Error>,
}

/// Passes the documents of a file to `visit`, in their order.
///
/// # Errors Those of `visit`, except for damaged chunks.
pub fn read_recording(
    contents: &mut dyn Read,
    buffer: &mut ChunkBuffer,
    visit: &mut dyn FnMut(RecordingEvent<'_>) -> Result<()>,
) -> Result<FileEnd> {
    let mut reader = DocumentReader::new(contents);
    let mut damages = Vec::new();
    loop {
        if damages.len() >= MAX_DAMAGES {
            let what = format!("{MAX_DAMAGES} parts of it are damaged, so the rest was not read");
            damages.push(Error::new(Kind::Malformed, what));
            break;
        }
        let before = reader.read_bytes();
        match reader.next_document() {
            Ok(None) => break,
            Ok(Some(Document::Metadata { at_ms, replies })) => {
                visit(RecordingEvent::Metadata { at_ms, replies })?;
            }
            Ok(Some(Document::Parameters { at_ms, count, replies })) => {
                visit(RecordingEvent::Parameters { at_ms, count, replies })?;
            }
            Ok(Some(Document::Metrics { at_ms, payload })) => {
                let visited = MetricChunk::parse(payload, buffer)
                    .and_then(|chunk| visit(RecordingEvent::Chunk { at_ms, chunk: &chunk }));
                match visited {
                    // Damaged deltas are found when columns are expanded.
                    Err(damage) if damage.kind() == Kind::Malformed => damages.push(damage),
                    visited => visited?,
                }
            }
            Ok(Some(Document::Unknown)) => {}
            Err(damage) => {
                damages.push(damage);
                // The source itself failed, so no more documents follow.
                if reader.read_bytes() == before {
                    break;
                }
            }
        }
    }
    let (bytes, cut_off_bytes) = (reader.read_bytes(), reader.cut_off_bytes());
    if reader.is_torn() {
        let what = match cut_off_bytes {
            MAX_COUNTED_BYTES.. => format!("the bytes from byte {bytes} on are not documents"),
            _ => format!("the {cut_off_bytes} bytes from byte {bytes} on are not documents"),
        };
        damages.push(Error::new(Kind::Malformed, what));
    }
    Ok(FileEnd { bytes, cut_off_bytes, damages })
}
