//! Puts a document or array together from elements that are already bytes.
use super::Element;
use crate::Result;
use bson::RawDocumentBuf;

use super::malformed;

/// A document in the making.
#[derive(Clone, Debug)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
}

impl Builder {
    /// Empty, with room for a document of so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let mut buffer = Vec::with_capacity(bytes.max(5));
        buffer.extend_from_slice(&[0; 4]);
        Builder { bytes: buffer }
    }

    /// Whether it has no elements yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() == 4
    }

    /// Copies whole elements.
    pub(crate) fn copy(&mut self, elements: &[u8]) {
        self.bytes.extend_from_slice(elements);
    }

    /// Appends an element; the name must not contain a zero byte.
    pub(crate) fn push(&mut self, kind: u8, name: &[u8], value: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.bytes.extend_from_slice(value);
    }

    /// Appends an element of an array.
    pub(crate) fn push_index(&mut self, kind: u8, index: usize, value: &[u8]) {
        self.bytes.push(kind);
        write_index(index, &mut self.bytes);
        self.bytes.push(0);
        self.bytes.extend_from_slice(value);
    }

    /// The bytes of the finished document.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        close(&mut self.bytes, 0);
        self.bytes
    }

    /// The finished document.
    pub(crate) fn document(self) -> Result<RawDocumentBuf> {
        RawDocumentBuf::from_bytes(self.finish()).map_err(|_| malformed("a built document is too large"))
    }
}

/// Ends the document whose four bytes of length stand at `start`, behind which are its elements.
pub(crate) fn close(bytes: &mut Vec<u8>, start: usize) {
    bytes.push(0);
    // A document beyond i32 is refused by whoever checks the limit of 16 MiB, long before this could be wrong.
    let length = i32::try_from(bytes.len() - start).unwrap_or(i32::MAX).to_le_bytes();
    if let Some(header) = bytes.get_mut(start..).and_then(<[u8]>::first_chunk_mut::<4>) {
        *header = length;
    }
}

/// Appends the decimal digits of an array index.
pub(crate) fn write_index(index: usize, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let (mut rest, mut used) = (index, 0);
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        used += 1;
        if rest == 0 {
            break;
        }
    }
    out.extend(digits.iter().skip(digits.len() - used));
}

impl<'a> FromIterator<Element<'a>> for Builder {
    fn from_iter<T: IntoIterator<Item = Element<'a>>>(elements: T) -> Self {
        let mut builder = Builder::with_capacity(64);
        for element in elements {
            builder.copy(element.whole);
        }
        builder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Document, doc};

    #[test]
    fn built_documents_decode() {
        let mut array = Builder::with_capacity(0);
        for index in 0..101 {
            array.push_index(super::super::kind::INT32, index, &(index as i32).to_le_bytes());
        }
        let mut builder = Builder::with_capacity(0);
        assert!(builder.is_empty());
        builder.push(super::super::kind::ARRAY, b"a", &array.finish());
        let decoded = Document::try_from(builder.document().unwrap()).unwrap();
        assert_eq!(decoded, doc! {"a": (0..101).collect::<Vec<i32>>()});
        let mut digits = Vec::new();
        write_index(1_500_000, &mut digits);
        assert_eq!(digits, b"1500000");
    }
}
