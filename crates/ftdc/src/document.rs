//! The documents of a recording, one after another, from a file or a pipe.

use std::io::{self, ErrorKind, Read};

use bson::spec::BinarySubtype;
use bson::{DateTime, RawBinaryRef, RawBsonRef, RawDocument, cstr, rawdoc};
use fathom_errors::{Error, Kind, Result};

use crate::metric::malformed;

/// The length of an empty document: its own length and a zero.
const MIN_BYTES: usize = 5;
/// The limit of mongod for its own documents (`BSONObjMaxInternalSize`); recorded ones have at most 1 MB.
const MAX_BYTES: usize = (16 << 20) + (16 << 10);
/// What follows bytes that are no document is counted up to this length.
pub(crate) const MAX_COUNTED_BYTES: u64 = 256 << 20;

/// A document of a recording.
#[derive(Clone, Copy, Debug)]
pub enum Document<'d> {
    /// Type 0, at each start and for each new file: `buildInfo`, `getCmdLineOpts`, `hostInfo` and the like.
    Metadata {
        /// Milliseconds since 1970 in UTC.
        at_ms: i64,
        /// The replies of commands by their names.
        replies: &'d RawDocument,
    },
    /// Type 1: samples, for [`MetricChunk::parse`](crate::MetricChunk::parse).
    Metrics {
        /// Milliseconds since 1970 in UTC.
        at_ms: i64,
        /// The chunk, compressed with zlib.
        payload: &'d [u8],
    },
    /// Type 2, since 8.0: parameters that changed.
    Parameters {
        /// Milliseconds since 1970 in UTC.
        at_ms: i64,
        /// The number of the document since all parameters were recorded; 0 has all of them.
        count: i64,
        /// The replies of commands by their names.
        replies: &'d RawDocument,
    },
    /// A type that a later version of mongod may write.
    Unknown,
}

/// Whether a file may be one of a recording, by its first bytes: the length of a document.
pub fn may_begin_recording(head: [u8; 4]) -> bool {
    (MIN_BYTES..=MAX_BYTES).contains(&(u32::from_le_bytes(head) as usize))
}

impl Document<'_> {
    /// Encodes the document as mongod writes it; an unknown one gives no bytes.
    pub fn encode(&self) -> Vec<u8> {
        let time = DateTime::from_millis;
        let document = match *self {
            Document::Metadata { at_ms, replies } => {
                rawdoc! { "_id": time(at_ms), "type": 0, "doc": replies.to_owned() }
            }
            Document::Metrics { at_ms, payload } => {
                let data = RawBinaryRef { subtype: BinarySubtype::Generic, bytes: payload };
                let mut document = rawdoc! { "_id": time(at_ms), "type": 1 };
                document.append(cstr!("data"), data);
                document
            }
            Document::Parameters { at_ms, count, replies } => {
                rawdoc! { "_id": time(at_ms), "type": 2, "count": count, "doc": replies.to_owned() }
            }
            Document::Unknown => return Vec::new(),
        };
        document.into_bytes()
    }
}

/// Reads documents until the source ends or is damaged.
#[derive(Debug)]
pub struct DocumentReader<R> {
    source: R,
    buffer: Vec<u8>,
    /// Bytes of whole documents so far.
    read_bytes: u64,
    cut_off_bytes: u64,
    is_torn: bool,
}

impl<R: Read> DocumentReader<R> {
    /// A reader at the beginning of a recording.
    pub fn new(source: R) -> DocumentReader<R> {
        DocumentReader { source, buffer: Vec::new(), read_bytes: 0, cut_off_bytes: 0, is_torn: false }
    }

    /// Bytes of the whole documents that were read.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// The bytes after the last document that do not form a complete one, counted up to 256 MiB. A mongod that was killed may leave some.
    pub fn cut_off_bytes(&self) -> u64 {
        self.cut_off_bytes
    }

    /// True if what follows the last document is not the begin of another one, as after a kill, but something else: zeros, for instance.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// The next document, or `None` after the last whole one.
    ///
    /// # Errors If the source cannot be read, or if a complete document is not one of a recording.
    pub fn next_document(&mut self) -> Result<Option<Document<'_>>> {
        if self.cut_off_bytes > 0 || !self.fill()? {
            return Ok(None);
        }
        self.read_bytes += self.buffer.len() as u64;
        let document = RawDocument::from_bytes(&self.buffer)
            .map_err(|cause| malformed("a document that is no BSON").because(cause))?;
        parse(document).map(Some)
    }

    /// Reads a document into the buffer; false if no whole one follows.
    fn fill(&mut self) -> Result<bool> {
        self.buffer.clear();
        if self.read_up_to(4)? == 0 {
            return Ok(false);
        }
        let head = self.buffer.first_chunk::<4>().copied().unwrap_or_default();
        let (is_possible, length) = (may_begin_recording(head), u32::from_le_bytes(head) as usize);
        if is_possible && self.read_up_to(length)? == length {
            return Ok(true);
        }
        // A source that fails here says nothing about the bytes that it did not give.
        self.cut_off_bytes = self.buffer.len() as u64 + self.drain()?;
        self.is_torn = !is_possible && self.buffer.len() == 4;
        Ok(false)
    }

    /// Reads until the buffer has `length` bytes or the source ends, and returns how many it has.
    fn read_up_to(&mut self, length: usize) -> Result<usize> {
        let missing = length.saturating_sub(self.buffer.len()) as u64;
        let read = self.source.by_ref().take(missing).read_to_end(&mut self.buffer);
        read.map_err(|cause| unreadable(&cause))?;
        Ok(self.buffer.len())
    }

    /// Reads the rest of the source, unless it is long, and returns the length of what was read.
    fn drain(&mut self) -> Result<u64> {
        let mut rest = self.source.by_ref().take(MAX_COUNTED_BYTES);
        io::copy(&mut rest, &mut io::sink()).map_err(|cause| unreadable(&cause))
    }
}

fn unreadable(cause: &io::Error) -> Error {
    let kind = match cause.kind() {
        // A decompressor's error for a damaged archive.
        ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof => Kind::Malformed,
        _ => Kind::Io,
    };
    Error::new(kind, format!("cannot read the recording: {cause}"))
}

fn parse(document: &RawDocument) -> Result<Document<'_>> {
    let mut at_ms = None;
    let mut number = None;
    let mut count = 0;
    let mut replies = None;
    let mut payload = None;
    for element in document.iter() {
        let (key, value) = element.map_err(|cause| malformed("a document that is cut off").because(cause))?;
        match (key.as_str(), value) {
            ("_id", RawBsonRef::DateTime(at)) => at_ms = Some(at.timestamp_millis()),
            ("type", value) => number = integer(value),
            ("count", value) => count = integer(value).unwrap_or_default(),
            ("doc", RawBsonRef::Document(doc)) => replies = Some(doc),
            ("data", RawBsonRef::Binary(data)) if data.subtype == BinarySubtype::Generic => {
                payload = Some(data.bytes);
            }
            _ => {}
        }
    }
    let (Some(at_ms), Some(number)) = (at_ms, number) else {
        return Err(malformed("a document without a time and a type, so it is not a recording"));
    };
    match (number, replies, payload) {
        (0, Some(replies), _) => Ok(Document::Metadata { at_ms, replies }),
        (1, _, Some(payload)) => Ok(Document::Metrics { at_ms, payload }),
        (2, Some(replies), _) => Ok(Document::Parameters { at_ms, count, replies }),
        (0..=2, ..) => Err(malformed(format!("a document of type {number} without its contents"))),
        _ => Ok(Document::Unknown),
    }
}

fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(value) => Some(i64::from(value)),
        RawBsonRef::Int64(value) => Some(value),
        RawBsonRef::Double(value) => Some(value as i64),
        _ => None,
    }
}
