//! Documents as bytes: walks, cuts and assembles them, and decodes only what is needed.
//!
//! The BSON library's views hide the position of an element. Updates and projections copy whole elements, so they walk the
//! bytes themselves. Every length is checked against the available bytes.

use bson::{Bson, RawBsonRef, RawDocumentBuf};

use crate::{Code, Failure, Result};

/// The error on a document that is nested deeper than any stored one.
pub(crate) fn too_deep() -> Failure {
    Failure::new(Code::Overflow, "Document exceeds maximum nesting depth of 200")
}

/// The error on bytes that are not a document.
pub(crate) fn malformed(what: &str) -> Failure {
    Failure::new(Code::InvalidBSON, format!("Malformed BSON: {what}"))
}

/// The error on a document that the BSON library cannot read.
pub(crate) fn unreadable(error: bson::error::Error) -> Failure {
    malformed(&error.to_string())
}

/// The type bytes that updates and projections must tell apart (bsonspec.org).
pub(crate) mod kind {
    pub(crate) const DOUBLE: u8 = 0x01;
    pub(crate) const STRING: u8 = 0x02;
    pub(crate) const DOCUMENT: u8 = 0x03;
    pub(crate) const ARRAY: u8 = 0x04;
    pub(crate) const UNDEFINED: u8 = 0x06;
    pub(crate) const BOOLEAN: u8 = 0x08;
    pub(crate) const DATE: u8 = 0x09;
    pub(crate) const NULL: u8 = 0x0a;
    pub(crate) const REGEX: u8 = 0x0b;
    pub(crate) const INT32: u8 = 0x10;
    pub(crate) const TIMESTAMP: u8 = 0x11;
    pub(crate) const INT64: u8 = 0x12;
    pub(crate) const DECIMAL: u8 = 0x13;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    /// The type byte of BSON.
    pub(crate) kind: u8,
    /// The name, without its end.
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Type, name and value.
    pub(crate) whole: &'a [u8],
    /// The start of `whole` in the document.
    pub(crate) start: usize,
}

impl<'a> Element<'a> {
    /// The name as text.
    pub(crate) fn name_text(&self) -> Result<&'a str> {
        std::str::from_utf8(self.name).map_err(|_| malformed("a field name is not UTF-8"))
    }

    /// The end of `whole` in the document.
    pub(crate) fn end(&self) -> usize {
        self.start + self.whole.len()
    }

    /// The text of a string.
    pub(crate) fn text(&self) -> Result<Option<&'a str>> {
        if self.kind != kind::STRING {
            return Ok(None);
        }
        let text = self.value.get(4..self.value.len().saturating_sub(1)).unwrap_or_default();
        std::str::from_utf8(text).map(Some).map_err(|_| malformed("a string is not UTF-8"))
    }
}

/// Walks the elements of a document or array; ends after the first error.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a> {
    document: &'a [u8],
    at: usize,
}

impl<'a> Elements<'a> {
    /// Walks a whole document, whose length field must agree with its bytes and whose last byte must be zero.
    pub(crate) fn new(document: &'a [u8]) -> Result<Self> {
        let framed = length_at(document) == Some(document.len()) && document.last() == Some(&0);
        if !framed || document.len() < 5 {
            return Err(malformed("a document's length is wrong"));
        }
        Ok(Elements { document, at: 4 })
    }

    fn element(&self) -> Option<Element<'a>> {
        let body = self.document.get(..self.document.len().checked_sub(1)?)?;
        let rest = body.get(self.at..)?;
        let (&kind, named) = rest.split_first()?;
        let name = named.get(..named.iter().position(|byte| *byte == 0)?)?;
        let value_at = name.len() + 2;
        let following = rest.get(value_at..)?;
        let value = following.get(..size(kind, following)?)?;
        let whole = rest.get(..value_at + value.len())?;
        Some(Element { kind, name, value, whole, start: self.at })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at + 1 >= self.document.len() {
            return None;
        }
        let element = self.element();
        self.at = element.as_ref().map_or(self.document.len(), Element::end);
        Some(element.ok_or_else(|| malformed("an element is cut short or of an unknown type")))
    }
}

/// The first element of a name.
pub(crate) fn find<'a>(document: &'a [u8], name: &[u8]) -> Result<Option<Element<'a>>> {
    for element in Elements::new(document)? {
        let element = element?;
        if element.name == name {
            return Ok(Some(element));
        }
    }
    Ok(None)
}

fn length_at(bytes: &[u8]) -> Option<usize> {
    let length = bytes.first_chunk::<4>()?;
    usize::try_from(i32::from_le_bytes(*length)).ok()
}

/// The number of bytes of a value of this type after its name; `None` if it does not fit or is malformed.
fn size(kind: u8, following: &[u8]) -> Option<usize> {
    let text = |extra: usize| {
        let length = length_at(following)?;
        let end = length.checked_add(4)?;
        (length >= 1 && following.get(end - 1) == Some(&0)).then(|| end.checked_add(extra)).flatten()
    };
    match kind {
        0x06 | 0x0a | 0x7f | 0xff => Some(0),
        0x08 => matches!(following.first(), Some(0 | 1)).then_some(1),
        0x10 => Some(4),
        0x01 | 0x09 | 0x11 | 0x12 => Some(8),
        0x07 => Some(12),
        0x13 => Some(16),
        0x02 | 0x0d | 0x0e => text(0),
        0x0c => text(12),
        0x03 | 0x04 => {
            let length = length_at(following)?;
            (length >= 5 && following.get(length - 1) == Some(&0)).then_some(length)
        }
        0x05 => length_at(following)?.checked_add(5),
        0x0b => {
            let pattern = following.iter().position(|byte| *byte == 0)? + 1;
            let options = following.get(pattern..)?.iter().position(|byte| *byte == 0)? + 1;
            Some(pattern + options)
        }
        0x0f => length_at(following).filter(|length| *length >= 14),
        _ => None,
    }
}

/// A builder of a document.
#[derive(Clone, Debug)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
}

impl Builder {
    /// An empty builder, with room for a document of this size.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let mut buffer = Vec::with_capacity(bytes.max(5));
        buffer.extend_from_slice(&[0; 4]);
        Builder { bytes: buffer }
    }

    /// Whether it has no elements yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() == 4
    }

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

    pub(crate) fn document(self) -> Result<RawDocumentBuf> {
        RawDocumentBuf::from_bytes(self.finish()).map_err(|_| malformed("a built document is too large"))
    }
}

/// Ends the document whose four bytes of length are at `start`, followed by its elements.
pub(crate) fn close(bytes: &mut Vec<u8>, start: usize) {
    bytes.push(0);
    // The check of the limit of 16 MiB refuses a document beyond i32 long before this could be wrong.
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

/// A value, kept as a document of one element without a name, so that the BSON library can show it without copying.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    document: RawDocumentBuf,
}

/// The position of the type byte, and that of the value after an empty name.
const KIND_AT: usize = 4;
const VALUE_AT: usize = 6;

fn check_depth(value_kind: u8, bytes: &[u8], depth: usize) -> Result<()> {
    if depth > 200 {
        return Err(too_deep());
    }
    if value_kind == kind::DOCUMENT || value_kind == kind::ARRAY {
        for element in Elements::new(bytes)? {
            let element = element?;
            check_depth(element.kind, element.value, depth + 1)?;
        }
    }
    Ok(())
}

impl Value {
    /// A value from a type byte and the value's bytes.
    pub(crate) fn new(kind: u8, bytes: &[u8]) -> Result<Value> {
        let mut builder = Builder::with_capacity(bytes.len() + VALUE_AT + 1);
        builder.push(kind, b"", bytes);
        Ok(Value { document: builder.document()? })
    }

    /// A copy of an element's value.
    pub(crate) fn from_element(element: &Element<'_>) -> Result<Value> {
        Value::new(element.kind, element.value)
    }

    /// A value from a decoded one; a field name with a zero byte in it is refused.
    pub(crate) fn from_bson(value: &Bson) -> Result<Value> {
        let mut document = bson::Document::new();
        document.insert("", value);
        let document = RawDocumentBuf::try_from(&document)
            .map_err(|_| malformed("a field name or pattern contains a zero byte"))?;
        Ok(Value { document })
    }

    /// The type byte of BSON.
    pub(crate) fn kind(&self) -> u8 {
        self.document.as_bytes().get(KIND_AT).copied().unwrap_or_default()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let bytes = self.document.as_bytes();
        bytes.get(VALUE_AT..bytes.len().saturating_sub(1)).unwrap_or_default()
    }

    /// The value as the BSON library shows it.
    pub(crate) fn view(&self) -> Result<RawBsonRef<'_>> {
        match self.document.iter().next() {
            Some(Ok((_, value))) => Ok(value),
            _ => Err(malformed("a value is not well formed")),
        }
    }

    /// The decoded value. The library decodes by recursion, so values nested beyond 200 levels are refused.
    pub(crate) fn to_bson(&self) -> Result<Bson> {
        check_depth(self.kind(), self.bytes(), 0)?;
        Bson::try_from(self.view()?).map_err(|_| malformed("a value is not well formed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Document, RawDocumentBuf, doc};

    #[test]
    fn elements_are_those_of_the_library() {
        let document = doc! {
            "a": 1, "b": "text", "": [1, {"c": bson::Bson::Null}], "d": bson::oid::ObjectId::from_bytes([7; 12]),
            "e": bson::Regex { pattern: bson::raw::cstr!("^a").into(), options: bson::raw::cstr!("i").into() },
            "f": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1, 2, 3] },
            "g": bson::Bson::MaxKey, "h": true, "i": 1.5, "j": bson::Timestamp { time: 1, increment: 2 },
            "k": bson::Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope { code: "x".into(), scope: doc! {"y": 1} }),
        };
        let raw = RawDocumentBuf::try_from(&document).unwrap();
        let ours: Vec<_> = Elements::new(raw.as_bytes()).unwrap().map(|element| element.unwrap()).collect();
        let theirs: Vec<_> = raw.iter_elements().map(|element| element.unwrap()).collect();
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours.name, theirs.key().as_str().as_bytes());
            assert_eq!(ours.kind, theirs.element_type() as u8);
            assert_eq!(ours.value.len(), theirs.size());
            assert_eq!(raw.as_bytes().get(ours.start..ours.end()), Some(ours.whole));
        }
    }

    #[test]
    fn cut_documents_are_refused_at_every_length() {
        let raw = RawDocumentBuf::try_from(&doc! {"a": "text", "b": {"c": [1, 2]}}).unwrap();
        let whole = raw.as_bytes();
        for length in 0..whole.len() {
            let mut cut = whole[..length].to_vec();
            assert!(Elements::new(&cut).is_err());
            if let Some(header) = cut.first_chunk_mut::<4>() {
                *header = (length as i32).to_le_bytes();
                if let Ok(elements) = Elements::new(&cut) {
                    let _ = elements.collect::<Vec<_>>();
                }
            }
        }
    }

    #[test]
    fn built_documents_decode() {
        let mut array = Builder::with_capacity(0);
        for index in 0..101 {
            array.push_index(super::kind::INT32, index, &(index as i32).to_le_bytes());
        }
        let mut builder = Builder::with_capacity(0);
        assert!(builder.is_empty());
        builder.push(super::kind::ARRAY, b"a", &array.finish());
        let decoded = Document::try_from(builder.document().unwrap()).unwrap();
        assert_eq!(decoded, doc! {"a": (0..101).collect::<Vec<i32>>()});
        let mut digits = Vec::new();
        write_index(1_500_000, &mut digits);
        assert_eq!(digits, b"1500000");
    }
}
