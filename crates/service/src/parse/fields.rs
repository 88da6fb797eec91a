//! Access to a document's fields by name, for any document and for documents with an index of their fields.
//!
//! A command's code reads a dozen fields, most of them absent. The fields of its body are indexed once, on arrival;
//! documents inside it are scanned each time.

use bson::{RawBsonRef, RawDocument};
use fathom_wire::{Code, Failure};

use crate::Result;

/// The number of fields of a body that are indexed; further fields are searched in its bytes.
const MAX_INDEXED_FIELDS: usize = 16;

/// A document or body with named fields.
pub trait Fields<'d>: Copy {
    /// The field with this name; the first if the name is repeated.
    fn named(self, name: &str) -> Option<RawBsonRef<'d>>;
}

/// A document that was validated when it arrived.
impl<'d> Fields<'d> for &'d RawDocument {
    fn named(self, name: &str) -> Option<RawBsonRef<'d>> {
        if may_have(self.as_bytes(), name.as_bytes()) { self.get(name).ok().flatten() } else { None }
    }
}

/// A document with the positions of its fields.
#[derive(Debug)]
pub struct IndexedDocument<'d> {
    document: &'d RawDocument,
    fields: [Option<(&'d str, RawBsonRef<'d>)>; MAX_INDEXED_FIELDS],
    /// The number of entries in use.
    count: usize,
    /// Whether the document has more fields.
    more: bool,
    /// The marks of the indexed names.
    marks: u64,
}

/// A bit for a name: most absent names have one that no name of the body has.
fn mark(name: &str) -> u64 {
    let ends = name.as_bytes().first().zip(name.as_bytes().last());
    let (first, last) = ends.map_or((0, 0), |(first, last)| (usize::from(*first), usize::from(*last)));
    1 << ((name.len() + first.wrapping_mul(5) + last.wrapping_mul(11)) % 64)
}

impl<'d> IndexedDocument<'d> {
    /// Indexes the fields of a document; fails if it is malformed.
    pub fn from_document(document: &'d RawDocument) -> Result<IndexedDocument<'d>> {
        let mut listed =
            IndexedDocument { document, fields: [None; MAX_INDEXED_FIELDS], count: 0, more: false, marks: 0 };
        for element in document.iter_elements() {
            let element = element.map_err(|error| malformed(&error))?;
            let Some(place) = listed.fields.get_mut(listed.count) else {
                listed.more = true;
                break;
            };
            let value = element.value().map_err(|error| malformed(&error))?;
            let name = element.key().as_str();
            listed.marks |= mark(name);
            *place = Some((name, value));
            listed.count += 1;
        }
        Ok(listed)
    }

    pub fn document(&self) -> &'d RawDocument {
        self.document
    }

    fn listed(&self) -> impl Iterator<Item = (&'d str, RawBsonRef<'d>)> + '_ {
        self.fields.iter().take(self.count).flatten().copied()
    }

    pub fn first(&self) -> Option<(&'d str, RawBsonRef<'d>)> {
        self.listed().next()
    }

    /// Calls `each` with the fields in order; stops at its first failure, or where the document is malformed.
    pub fn each(&self, mut each: impl FnMut(&'d str, RawBsonRef<'d>) -> Result<()>) -> Result<()> {
        for (name, value) in self.listed() {
            each(name, value)?;
        }
        if self.more {
            for element in self.document.iter().skip(MAX_INDEXED_FIELDS) {
                let (name, value) = element.map_err(|error| malformed(&error))?;
                each(name.as_str(), value)?;
            }
        }
        Ok(())
    }
}

impl<'d> Fields<'d> for &IndexedDocument<'d> {
    fn named(self, name: &str) -> Option<RawBsonRef<'d>> {
        let listed = if self.marks & mark(name) == 0 {
            None
        } else {
            self.listed().find(|(listed, _)| *listed == name).map(|(_, value)| value)
        };
        if self.more { listed.or_else(|| self.document.named(name)) } else { listed }
    }
}

/// The failure for bytes that are not BSON.
pub fn malformed(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Code::InvalidBSON, format!("invalid BSON: {error}"))
}

/// Whether a document can have a field with this name. A command's code looks for many fields, and most are absent: to find
/// that out, no name need be checked for UTF-8 and no value be read.
fn may_have(document: &[u8], name: &[u8]) -> bool {
    let mut rest = document.get(4..).unwrap_or_default();
    while let Some((&kind, named)) = rest.split_first().filter(|(kind, _)| **kind != 0) {
        let Some(end) = named.iter().position(|byte| *byte == 0) else { return true };
        let (found, value) = named.split_at(end);
        if found == name {
            return true;
        }
        let value = value.get(1..).unwrap_or_default();
        let length = || value.first_chunk().map_or(usize::MAX, |bytes| u32::from_le_bytes(*bytes) as usize);
        // The types' bytes and sizes are those of bsonspec.org; other types are left to the slow path.
        let size = match kind {
            0x01 | 0x09 | 0x11 | 0x12 => 8,
            0x02 => length().saturating_add(4),
            0x03 | 0x04 => length(),
            0x05 => length().saturating_add(5),
            0x07 => 12,
            0x08 => 1,
            0x0a => 0,
            0x10 => 4,
            0x13 => 16,
            _ => return true,
        };
        rest = value.get(size..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use bson::{Binary, DateTime, Decimal128, Regex, Timestamp, oid::ObjectId, rawdoc, spec::BinarySubtype};

    use super::*;

    #[test]
    fn fields_are_found_behind_values_of_any_type() {
        let document = rawdoc! {
            "double": 1.5, "string": "x", "document": { "last": 1 }, "array": [1, "last"],
            "binary": Binary { subtype: BinarySubtype::Generic, bytes: vec![0; 9] },
            "id": ObjectId::new(), "bool": true, "date": DateTime::now(), "null": null, "int": 7,
            "stamp": Timestamp { time: 1, increment: 2 }, "long": 8_i64, "decimal": Decimal128::from_bytes([0; 16]),
            "last": 1, "regex": Regex { pattern: bson::raw::cstr!("a").to_owned(), options: bson::raw::cstr!("").to_owned() }, "behind": 2,
        };
        for name in document.iter_elements().map(|element| element.unwrap().key().to_string()) {
            assert!(document.named(&name).is_some(), "{name}");
            let longer = format!("{name}x");
            assert!(document.named(&longer).is_none() && document.named(name.get(1..).unwrap()).is_none());
        }
        assert_eq!(document.named("behind"), Some(RawBsonRef::Int32(2)));
    }

    #[test]
    fn a_listed_body_has_the_fields_of_its_document_however_many() {
        for count in
            [0, 1, MAX_INDEXED_FIELDS - 1, MAX_INDEXED_FIELDS, MAX_INDEXED_FIELDS + 1, 3 * MAX_INDEXED_FIELDS]
        {
            let mut document = bson::RawDocumentBuf::new();
            for place in 0..count {
                let name = bson::raw::CString::try_from(format!("f{place}")).unwrap();
                document.append(name, i32::try_from(place).unwrap());
            }
            // The first of two fields with one name counts.
            document.append(bson::raw::cstr!("f0"), "again");
            let listed = IndexedDocument::from_document(&document).unwrap();
            let mut names = Vec::new();
            listed
                .each(|name, value| {
                    names.push(name.to_owned());
                    assert_eq!(listed.named(name), document.get(name).unwrap(), "{name} of {count}");
                    assert!(name == "f0" || document.get(name).unwrap() == Some(value));
                    Ok(())
                })
                .unwrap();
            assert_eq!(names.len(), count + 1);
            assert!(listed.named("g").is_none());
            assert_eq!(listed.first().unwrap().0, "f0");
        }
    }
}
