//! Writes BSON straight into a buffer that is used again and again: replies take no memory of their own.
//!
//! A document is written field by field at the end of a `Vec<u8>`, its length put in when it ends. Nested documents and
//! arrays borrow their parent, so that nothing can be written out of order, and end when they are dropped. Whole documents are
//! spliced in as bytes; who produces them (a storage engine) may write them into the buffer itself.
//!
//! It refuses nothing: a name must not hold a NUL, as no name that came from BSON or stands in our text does.

use bson::oid::ObjectId;
use bson::spec::{BinarySubtype, ElementType};
use bson::{Bson, DateTime, Document, RawArray, RawBsonRef, RawDocument, Timestamp};

use crate::array_writer::ArrayWriter;
use crate::value_writer::{append_bson, append_raw};

/// One document being written at the end of a buffer; it ends with [`DocumentWriter::end`] or when dropped.
#[derive(Debug)]
pub struct DocumentWriter<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> DocumentWriter<'a> {
    /// Begins a document at the end of `buffer`.
    pub fn new(buffer: &'a mut Vec<u8>) -> Self {
        let start = begin(buffer);
        DocumentWriter { buffer, start }
    }

    /// Bytes of this document so far, without the NUL that ends it.
    pub fn length_bytes(&self) -> usize {
        self.buffer.len().saturating_sub(self.start)
    }

    /// Writes an element's type and name; the caller must then append exactly its value to [`DocumentWriter::buffer`].
    pub fn begin_element(&mut self, name: &str, element_type: ElementType) {
        debug_assert!(!name.as_bytes().contains(&0), "a field name holds a NUL: {name:?}");
        self.buffer.reserve(name.len() + 10);
        self.buffer.push(element_type as u8);
        self.buffer.extend_from_slice(name.as_bytes());
        self.buffer.push(0);
    }

    /// Where the value of an element that was begun goes.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer
    }

    /// Begins a document in this one.
    pub fn begin_document(&mut self, name: &str) -> DocumentWriter<'_> {
        self.begin_element(name, ElementType::EmbeddedDocument);
        DocumentWriter::new(self.buffer)
    }

    /// Begins an array in this document.
    pub fn begin_array(&mut self, name: &str) -> ArrayWriter<'_> {
        self.begin_element(name, ElementType::Array);
        ArrayWriter::new(self.buffer)
    }

    /// Ends the document and puts in its length.
    pub fn end(self) {}

    /// A double.
    pub fn f64(&mut self, name: &str, value: f64) {
        self.begin_element(name, ElementType::Double);
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    /// A string.
    pub fn string(&mut self, name: &str, value: &str) {
        self.begin_element(name, ElementType::String);
        append_string(self.buffer, value);
    }

    /// A whole document, as it is.
    pub fn document(&mut self, name: &str, value: &RawDocument) {
        self.begin_element(name, ElementType::EmbeddedDocument);
        self.buffer.extend_from_slice(value.as_bytes());
    }

    /// A whole array, as it is.
    pub fn array(&mut self, name: &str, value: &RawArray) {
        self.begin_element(name, ElementType::Array);
        self.buffer.extend_from_slice(value.as_bytes());
    }

    /// Binary data.
    pub fn binary(&mut self, name: &str, subtype: BinarySubtype, value: &[u8]) {
        self.begin_element(name, ElementType::Binary);
        append_binary(self.buffer, subtype, value);
    }

    /// An object id.
    pub fn object_id(&mut self, name: &str, value: ObjectId) {
        self.begin_element(name, ElementType::ObjectId);
        self.buffer.extend_from_slice(&value.bytes());
    }

    /// A boolean.
    pub fn bool(&mut self, name: &str, value: bool) {
        self.begin_element(name, ElementType::Boolean);
        self.buffer.push(u8::from(value));
    }

    /// A time.
    pub fn date_time(&mut self, name: &str, value: DateTime) {
        self.begin_element(name, ElementType::DateTime);
        self.buffer.extend_from_slice(&value.timestamp_millis().to_le_bytes());
    }

    /// Null.
    pub fn null(&mut self, name: &str) {
        self.begin_element(name, ElementType::Null);
    }

    /// A 32-bit integer.
    pub fn i32(&mut self, name: &str, value: i32) {
        self.begin_element(name, ElementType::Int32);
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    /// A 64-bit integer.
    pub fn i64(&mut self, name: &str, value: i64) {
        self.begin_element(name, ElementType::Int64);
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    /// A replication timestamp.
    pub fn timestamp(&mut self, name: &str, value: Timestamp) {
        self.begin_element(name, ElementType::Timestamp);
        append_timestamp(self.buffer, value);
    }

    /// A value of any type, from raw BSON.
    pub fn value(&mut self, name: &str, value: RawBsonRef<'_>) {
        self.begin_element(name, value.element_type());
        append_raw(self.buffer, value);
    }

    /// A value of any type.
    pub fn bson(&mut self, name: &str, value: &Bson) {
        self.begin_element(name, value.element_type());
        append_bson(self.buffer, value);
    }

    /// Every field of `fields`, as fields of this document.
    pub fn extend(&mut self, fields: &Document) {
        for (name, value) in fields {
            self.bson(name, value);
        }
    }

    /// Every field of `fields`, as fields of this document, without looking into them.
    pub fn extend_raw(&mut self, fields: &RawDocument) {
        let bytes = fields.as_bytes();
        if let Some(elements) = bytes.get(4..bytes.len().saturating_sub(1)) {
            self.buffer.extend_from_slice(elements);
        }
    }
}

impl Drop for DocumentWriter<'_> {
    fn drop(&mut self) {
        end(self.buffer, self.start);
    }
}

/// Leaves room for the length of a document and says where it began.
pub(crate) fn begin(buffer: &mut Vec<u8>) -> usize {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; 4]);
    start
}

/// Ends the document that began at `start`.
pub(crate) fn end(buffer: &mut Vec<u8>, start: usize) {
    buffer.push(0);
    patch_length(buffer, start);
}

/// Puts the length of what began at `start` there. Beyond 2 GiB it saturates, and whoever sends it refuses it for its size.
pub(crate) fn patch_length(buffer: &mut [u8], start: usize) {
    let length = i32::try_from(buffer.len().saturating_sub(start)).unwrap_or(i32::MAX);
    if let Some(place) = buffer.get_mut(start..).and_then(|bytes| bytes.first_chunk_mut::<4>()) {
        *place = length.to_le_bytes();
    }
}

pub(crate) fn append_length(buffer: &mut Vec<u8>, length: usize) {
    buffer.extend_from_slice(&i32::try_from(length).unwrap_or(i32::MAX).to_le_bytes());
}

pub(crate) fn append_string(buffer: &mut Vec<u8>, value: &str) {
    append_length(buffer, value.len() + 1);
    buffer.extend_from_slice(value.as_bytes());
    buffer.push(0);
}

pub(crate) fn append_binary(buffer: &mut Vec<u8>, subtype: BinarySubtype, value: &[u8]) {
    // The old subtype counts its bytes a second time.
    let old = subtype == BinarySubtype::BinaryOld;
    append_length(buffer, value.len() + if old { 4 } else { 0 });
    buffer.push(subtype.into());
    if old {
        append_length(buffer, value.len());
    }
    buffer.extend_from_slice(value);
}

pub(crate) fn append_timestamp(buffer: &mut Vec<u8>, value: Timestamp) {
    buffer.extend_from_slice(&value.increment.to_le_bytes());
    buffer.extend_from_slice(&value.time.to_le_bytes());
}
