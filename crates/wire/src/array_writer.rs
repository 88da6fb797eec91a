//! Writes an array, whose keys are the numbers 0, 1, 2 ... as text: they are counted up in place, digit by digit.

use bson::spec::ElementType;
use bson::{Bson, RawBsonRef, RawDocument};

use crate::DocumentWriter;
use crate::document_writer::{append_string, begin, end};
use crate::value_writer::{append_bson, append_raw};

/// One array being written at the end of a buffer; it ends with [`ArrayWriter::end`] or when dropped.
#[derive(Debug)]
pub struct ArrayWriter<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
    index: Index,
}

/// A place in an array to go back to.
#[derive(Clone, Copy, Debug)]
pub struct ArrayMark {
    length_bytes: usize,
    index: Index,
}

impl<'a> ArrayWriter<'a> {
    /// Begins an array at the end of `buffer`.
    pub fn new(buffer: &'a mut Vec<u8>) -> Self {
        let start = begin(buffer);
        ArrayWriter { buffer, start, index: Index::ZERO }
    }

    /// Items so far.
    pub fn count(&self) -> usize {
        self.index.value
    }

    /// Bytes of this array so far, without the NUL that ends it.
    pub fn length_bytes(&self) -> usize {
        self.buffer.len().saturating_sub(self.start)
    }

    /// The place after the items so far, to come back to when the next one turns out too large or fails.
    pub fn mark(&self) -> ArrayMark {
        ArrayMark { length_bytes: self.length_bytes(), index: self.index }
    }

    /// Forgets the items that were written after `mark` was taken from this array.
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

    /// Where the value of an item that was begun goes.
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

    /// A string.
    pub fn string(&mut self, value: &str) {
        self.begin_item(ElementType::String);
        append_string(self.buffer, value);
    }

    /// A 32-bit integer.
    pub fn i32(&mut self, value: i32) {
        self.begin_item(ElementType::Int32);
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    /// A 64-bit integer.
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

    /// Ends the array and puts in its length.
    pub fn end(self) {}
}

impl Drop for ArrayWriter<'_> {
    fn drop(&mut self) {
        end(self.buffer, self.start);
    }
}

/// As many digits as the greatest count of items has: a 2 GiB buffer cannot hold 10^10 of them.
const DIGITS: usize = 10;

/// A number and its text, right-aligned.
#[derive(Clone, Copy, Debug)]
struct Index {
    value: usize,
    digits: [u8; DIGITS],
    used: usize,
}

impl Index {
    const ZERO: Index = Index { value: 0, digits: [b'0'; DIGITS], used: 1 };

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
