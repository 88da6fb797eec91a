//! Writes BSON straight into a reusable buffer, so that replies allocate no memory of their own.
//!
//! A document is written field by field at the end of a `Vec<u8>`; its length is filled in when it ends. Nested documents and
//! arrays borrow their parent, so that nothing can be written out of order, and end when they are dropped. The keys of an array are
//! the numbers 0, 1, 2 ... as text: they are incremented in place, digit by digit. Whole documents are copied as bytes; a producer
//! such as a storage engine may write them into the buffer itself.
//!
//! No input is refused: the caller must not pass a name with a NUL, which no name from BSON or from our own text contains.

use bson::oid::ObjectId;
use bson::raw::{RawBson, cstr};
use bson::spec::{BinarySubtype, ElementType};
use bson::{Bson, DateTime, Document, RawArray, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp};

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

    /// The buffer for the value of an element that was begun.
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

    /// Ends the document and fills in its length.
    pub fn end(self) {}

    pub fn f64(&mut self, name: &str, value: f64) {
        self.begin_element(name, ElementType::Double);
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

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

    pub fn binary(&mut self, name: &str, subtype: BinarySubtype, value: &[u8]) {
        self.begin_element(name, ElementType::Binary);
        append_binary(self.buffer, subtype, value);
    }

    pub fn object_id(&mut self, name: &str, value: ObjectId) {
        self.begin_element(name, ElementType::ObjectId);
        self.buffer.extend_from_slice(&value.bytes());
    }

    pub fn bool(&mut self, name: &str, value: bool) {
        self.begin_element(name, ElementType::Boolean);
        self.buffer.push(u8::from(value));
    }

    pub fn date_time(&mut self, name: &str, value: DateTime) {
        self.begin_element(name, ElementType::DateTime);
        self.buffer.extend_from_slice(&value.timestamp_millis().to_le_bytes());
    }

    pub fn null(&mut self, name: &str) {
        self.begin_element(name, ElementType::Null);
    }

    pub fn i32(&mut self, name: &str, value: i32) {
        self.begin_element(name, ElementType::Int32);
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    pub fn i64(&mut self, name: &str, value: i64) {
        self.begin_element(name, ElementType::Int64);
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

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

    /// Writes every field of `fields` as a field of this document.
    pub fn extend(&mut self, fields: &Document) {
        for (name, value) in fields {
            self.bson(name, value);
        }
    }

    /// Writes every field of `fields` as a field of this document, without parsing the values.
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

/// Reserves the length of a document and returns its start.
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

/// Fills in the length of the document that began at `start`. Beyond 2 GiB it saturates, and the sender refuses it for its size.
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

/// One array being written at the end of a buffer; it ends with [`ArrayWriter::end`] or when dropped.
#[derive(Debug)]
pub struct ArrayWriter<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
    index: ArrayIndex,
}

/// A position in an array to return to.
#[derive(Clone, Copy, Debug)]
pub struct ArrayMark {
    length_bytes: usize,
    index: ArrayIndex,
}

impl<'a> ArrayWriter<'a> {
    /// Begins an array at the end of `buffer`.
    pub fn new(buffer: &'a mut Vec<u8>) -> Self {
        let start = begin(buffer);
        ArrayWriter { buffer, start, index: ArrayIndex::ZERO }
    }

    pub fn count(&self) -> usize {
        self.index.value
    }

    /// Bytes of this array so far, without the NUL that ends it.
    pub fn length_bytes(&self) -> usize {
        self.buffer.len().saturating_sub(self.start)
    }

    /// The position after the items so far, to return to if the next one is too large or fails.
    pub fn mark(&self) -> ArrayMark {
        ArrayMark { length_bytes: self.length_bytes(), index: self.index }
    }

    /// Removes the items that were written after `mark` was taken from this array.
    pub fn back_to(&mut self, mark: ArrayMark) {
        self.buffer.truncate(self.start + mark.length_bytes);
        self.index = mark.index;
    }

    /// Writes the type and the index of the next item; the caller must then append exactly its value to
    /// [`ArrayWriter::buffer`].
    pub fn begin_item(&mut self, element_type: ElementType) {
        self.buffer.push(element_type as u8);
        self.buffer.extend_from_slice(self.index.text());
        self.buffer.push(0);
        self.index.increment();
    }

    /// The buffer for the value of an item that was begun.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer
    }

    /// Begins a document as the next item.
    pub fn begin_document(&mut self) -> DocumentWriter<'_> {
        self.begin_item(ElementType::EmbeddedDocument);
        DocumentWriter::new(self.buffer)
    }

    /// Begins an array as the next item.
    pub fn begin_array(&mut self) -> ArrayWriter<'_> {
        self.begin_item(ElementType::Array);
        ArrayWriter::new(self.buffer)
    }

    /// A whole document, as it is.
    pub fn document(&mut self, value: &RawDocument) {
        self.begin_item(ElementType::EmbeddedDocument);
        self.buffer.extend_from_slice(value.as_bytes());
    }

    pub fn string(&mut self, value: &str) {
        self.begin_item(ElementType::String);
        append_string(self.buffer, value);
    }

    pub fn i32(&mut self, value: i32) {
        self.begin_item(ElementType::Int32);
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.begin_item(ElementType::Int64);
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    /// A value of any type, from raw BSON.
    pub fn value(&mut self, value: RawBsonRef<'_>) {
        self.begin_item(value.element_type());
        append_raw(self.buffer, value);
    }

    /// A value of any type.
    pub fn bson(&mut self, value: &Bson) {
        self.begin_item(value.element_type());
        append_bson(self.buffer, value);
    }

    /// Ends the array and fills in its length.
    pub fn end(self) {}
}

impl Drop for ArrayWriter<'_> {
    fn drop(&mut self) {
        end(self.buffer, self.start);
    }
}

/// The number of digits of the largest possible item count: a 2 GiB buffer cannot hold 10^10 of them.
const DIGITS: usize = 10;

/// A number and its text, right-aligned.
#[derive(Clone, Copy, Debug)]
struct ArrayIndex {
    value: usize,
    digits: [u8; DIGITS],
    used: usize,
}

impl ArrayIndex {
    const ZERO: ArrayIndex = ArrayIndex { value: 0, digits: [b'0'; DIGITS], used: 1 };

    fn text(&self) -> &[u8] {
        self.digits.get(DIGITS - self.used..).unwrap_or(&self.digits)
    }

    fn increment(&mut self) {
        self.value += 1;
        for (place, digit) in self.digits.iter_mut().rev().enumerate() {
            if *digit < b'9' {
                *digit += 1;
                self.used = self.used.max(place + 1);
                return;
            }
            *digit = b'0';
        }
    }
}

/// Appends a value as its raw form has it.
pub(crate) fn append_raw(buffer: &mut Vec<u8>, value: RawBsonRef<'_>) {
    match value {
        RawBsonRef::Double(value) => buffer.extend_from_slice(&value.to_le_bytes()),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => {
            append_string(buffer, text);
        }
        RawBsonRef::Document(document) => buffer.extend_from_slice(document.as_bytes()),
        RawBsonRef::Array(array) => buffer.extend_from_slice(array.as_bytes()),
        RawBsonRef::Binary(binary) => append_binary(buffer, binary.subtype, binary.bytes),
        RawBsonRef::Undefined | RawBsonRef::Null | RawBsonRef::MinKey | RawBsonRef::MaxKey => {}
        RawBsonRef::ObjectId(id) => buffer.extend_from_slice(&id.bytes()),
        RawBsonRef::Boolean(truth) => buffer.push(u8::from(truth)),
        RawBsonRef::DateTime(time) => buffer.extend_from_slice(&time.timestamp_millis().to_le_bytes()),
        RawBsonRef::RegularExpression(regex) => {
            append_cstring(buffer, regex.pattern.as_str());
            append_cstring(buffer, regex.options.as_str());
        }
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            let start = buffer.len();
            append_length(buffer, 0);
            append_string(buffer, code.code);
            buffer.extend_from_slice(code.scope.as_bytes());
            patch_length(buffer, start);
        }
        RawBsonRef::Int32(value) => buffer.extend_from_slice(&value.to_le_bytes()),
        RawBsonRef::Int64(value) => buffer.extend_from_slice(&value.to_le_bytes()),
        RawBsonRef::Timestamp(value) => append_timestamp(buffer, value),
        RawBsonRef::Decimal128(value) => buffer.extend_from_slice(&value.bytes()),
        RawBsonRef::DbPointer(_) => append_by_document(buffer, value),
    }
}

/// Appends a value of the owned form.
pub(crate) fn append_bson(buffer: &mut Vec<u8>, value: &Bson) {
    match value {
        Bson::Document(fields) => DocumentWriter::new(buffer).extend(fields),
        Bson::Array(items) => {
            let mut array = ArrayWriter::new(buffer);
            items.iter().for_each(|item| array.bson(item));
        }
        Bson::Double(value) => buffer.extend_from_slice(&value.to_le_bytes()),
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => append_string(buffer, text),
        Bson::Binary(binary) => append_binary(buffer, binary.subtype, &binary.bytes),
        Bson::Undefined | Bson::Null | Bson::MinKey | Bson::MaxKey => {}
        Bson::ObjectId(id) => buffer.extend_from_slice(&id.bytes()),
        Bson::Boolean(truth) => buffer.push(u8::from(*truth)),
        Bson::DateTime(time) => buffer.extend_from_slice(&time.timestamp_millis().to_le_bytes()),
        Bson::RegularExpression(regex) => {
            append_cstring(buffer, regex.pattern.as_str());
            append_cstring(buffer, regex.options.as_str());
        }
        Bson::JavaScriptCodeWithScope(code) => {
            let start = buffer.len();
            append_length(buffer, 0);
            append_string(buffer, &code.code);
            DocumentWriter::new(buffer).extend(&code.scope);
            patch_length(buffer, start);
        }
        Bson::Int32(value) => buffer.extend_from_slice(&value.to_le_bytes()),
        Bson::Int64(value) => buffer.extend_from_slice(&value.to_le_bytes()),
        Bson::Timestamp(value) => append_timestamp(buffer, *value),
        Bson::Decimal128(value) => buffer.extend_from_slice(&value.bytes()),
        Bson::DbPointer(_) => {
            if let Ok(raw) = RawBson::try_from(value.clone()) {
                append_by_document(buffer, raw.as_raw_bson_ref());
            }
        }
    }
}

fn append_cstring(buffer: &mut Vec<u8>, value: &str) {
    buffer.extend_from_slice(value.as_bytes());
    buffer.push(0);
}

/// Appends a value whose parts the `bson` crate does not expose, by way of a document that contains only it.
fn append_by_document(buffer: &mut Vec<u8>, value: RawBsonRef<'_>) {
    let mut alone = RawDocumentBuf::new();
    alone.append(cstr!(""), value);
    // Without the frame: the length, the type, the NUL of an empty name; and the NUL of the document.
    let bytes = alone.as_bytes();
    if let Some(value) = bytes.get(6..bytes.len().saturating_sub(1)) {
        buffer.extend_from_slice(value);
    }
}
