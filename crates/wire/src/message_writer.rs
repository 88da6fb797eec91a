//! Writes messages at the end of a reusable buffer, which may hold several, one after another.
//!
//! Lengths are filled in at the end. A message that exceeds the maximum size is removed again and refused.

use bson::RawDocument;

use crate::document_writer::patch_length;
use crate::header::{Header, OpCode};
use crate::limits::MAX_MESSAGE_BYTES;
use crate::op_msg::flag;
use crate::{Code, DocumentWriter, Failure};

/// An OP_MSG being written: sections in any order, then [`OpMsgWriter::finish`].
#[derive(Debug)]
#[must_use = "the length is put in by finish"]
pub struct OpMsgWriter<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> OpMsgWriter<'a> {
    /// Begins a message without flags at the end of `buffer`; `response_to` is 0 in a request.
    pub fn begin(buffer: &'a mut Vec<u8>, request_id: i32, response_to: i32) -> Self {
        let start = begin(buffer, request_id, response_to, OpCode::MSG);
        buffer.extend_from_slice(&[0; 4]);
        OpMsgWriter { buffer, start }
    }

    /// Sets the [`flag`] bits; the one for the checksum is set by [`OpMsgWriter::finish_with_checksum`].
    pub fn set_flags(&mut self, flags: u32) {
        let place = self.buffer.get_mut(self.start + Header::BYTES..);
        if let Some(place) = place.and_then(|bytes| bytes.first_chunk_mut::<4>()) {
            *place = flags.to_le_bytes();
        }
    }

    /// Begins the body, of which a message has exactly one.
    pub fn body(&mut self) -> DocumentWriter<'_> {
        DocumentWriter::new(self.body_bytes())
    }

    /// Begins the body; the caller must append exactly one document to the buffer.
    pub fn body_bytes(&mut self) -> &mut Vec<u8> {
        self.buffer.push(0);
        self.buffer
    }

    pub fn raw_body(&mut self, body: &RawDocument) {
        self.body_bytes().extend_from_slice(body.as_bytes());
    }

    /// Begins a sequence of documents that represents the field `name` of the body.
    pub fn sequence(&mut self, name: &str) -> SequenceWriter<'_> {
        debug_assert!(!name.as_bytes().contains(&0), "a sequence's name holds a NUL: {name:?}");
        self.buffer.push(1);
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        self.buffer.extend_from_slice(name.as_bytes());
        self.buffer.push(0);
        SequenceWriter { buffer: self.buffer, start }
    }

    /// Ends the message and returns its length in bytes; a message that is too long is removed from the buffer and refused.
    pub fn finish(self) -> Result<usize, Failure> {
        finish(self.buffer, self.start)
    }

    /// Ends the message as [`OpMsgWriter::finish`] does, with a CRC-32C at the end.
    pub fn finish_with_checksum(self) -> Result<usize, Failure> {
        let OpMsgWriter { buffer, start } = self;
        if let Some(first) = buffer.get_mut(start + Header::BYTES) {
            *first |= flag::CHECKSUM_PRESENT as u8;
        }
        // The sum covers the header with the final length.
        buffer.extend_from_slice(&[0; 4]);
        let length = finish(buffer, start)?;
        if let Some((covered, sum)) =
            buffer.get_mut(start..).and_then(|frame| frame.split_last_chunk_mut::<4>())
        {
            *sum = crc32c::crc32c(covered).to_le_bytes();
        }
        Ok(length)
    }
}

/// A sequence of documents being written; it ends with [`SequenceWriter::end`] or when dropped.
#[derive(Debug)]
pub struct SequenceWriter<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
}

impl SequenceWriter<'_> {
    /// Begins the next document.
    pub fn begin_document(&mut self) -> DocumentWriter<'_> {
        DocumentWriter::new(self.buffer)
    }

    /// The next document, as it is.
    pub fn document(&mut self, document: &RawDocument) {
        self.buffer.extend_from_slice(document.as_bytes());
    }

    /// The buffer to which the caller may append whole documents.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer
    }

    /// Ends the sequence and fills in its length.
    pub fn end(self) {}
}

impl Drop for SequenceWriter<'_> {
    fn drop(&mut self) {
        patch_length(self.buffer, self.start);
    }
}

/// An OP_REPLY being written: the answer to an OP_QUERY.
#[derive(Debug)]
#[must_use = "the length is put in by finish"]
pub struct OpReplyWriter<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
    count: i32,
}

impl<'a> OpReplyWriter<'a> {
    /// The flag of a reply whose only document describes a failure.
    pub const QUERY_FAILURE: u32 = 1 << 1;

    /// Begins a reply without a cursor at the end of `buffer`.
    pub fn begin(buffer: &'a mut Vec<u8>, request_id: i32, response_to: i32, flags: u32) -> Self {
        let start = begin(buffer, request_id, response_to, OpCode::REPLY);
        buffer.extend_from_slice(&flags.to_le_bytes());
        // No cursor, the first document is the first of all, and the count is filled in at the end.
        buffer.extend_from_slice(&[0; 16]);
        OpReplyWriter { buffer, start, count: 0 }
    }

    /// Begins the next document.
    pub fn begin_document(&mut self) -> DocumentWriter<'_> {
        DocumentWriter::new(self.document_bytes())
    }

    /// Begins the next document; the caller must append exactly one to the buffer.
    pub fn document_bytes(&mut self) -> &mut Vec<u8> {
        self.count += 1;
        self.buffer
    }

    /// Ends the message and returns its length in bytes; a message that is too long is removed from the buffer and refused.
    pub fn finish(self) -> Result<usize, Failure> {
        let place = self.buffer.get_mut(self.start + Header::BYTES + 16..);
        if let Some(place) = place.and_then(|bytes| bytes.first_chunk_mut::<4>()) {
            *place = self.count.to_le_bytes();
        }
        finish(self.buffer, self.start)
    }
}

/// Appends an OP_QUERY that runs `command` on `database`, for servers that accept OP_MSG only after a handshake.
pub fn write_query_command(buffer: &mut Vec<u8>, request_id: i32, database: &str, command: &RawDocument) {
    debug_assert!(!database.as_bytes().contains(&0), "a database's name holds a NUL: {database:?}");
    let start = begin(buffer, request_id, 0, OpCode::QUERY);
    // Bit 2: a secondary may answer as well.
    buffer.extend_from_slice(&4_u32.to_le_bytes());
    buffer.extend_from_slice(database.as_bytes());
    buffer.extend_from_slice(b".$cmd\0");
    buffer.extend_from_slice(&0_i32.to_le_bytes());
    buffer.extend_from_slice(&(-1_i32).to_le_bytes());
    buffer.extend_from_slice(command.as_bytes());
    patch_length(buffer, start);
}

fn begin(buffer: &mut Vec<u8>, request_id: i32, response_to: i32, op_code: OpCode) -> usize {
    let start = buffer.len();
    buffer.extend_from_slice(&Header { length_bytes: 0, request_id, response_to, op_code }.to_bytes());
    start
}

fn finish(buffer: &mut Vec<u8>, start: usize) -> Result<usize, Failure> {
    let length = buffer.len().saturating_sub(start);
    if length > MAX_MESSAGE_BYTES {
        buffer.truncate(start);
        let what = format!("a message of {length} bytes is longer than the {MAX_MESSAGE_BYTES} it may have");
        return Err(Failure::new(Code::BSONObjectTooLarge, what));
    }
    patch_length(buffer, start);
    Ok(length)
}
