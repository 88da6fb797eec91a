//! A record as a BSON document, byte for byte as YCSB's binding writes it: `_id`, a string, and the fields as binary values of
//! subtype 0, in the order of Java's `HashMap`.
//!
//! Values are written directly into the document: a load creates hundreds of thousands of them in a second.

use bson::spec::{BinarySubtype, ElementType};
use fathom_wire::DocumentWriter;

use crate::java::hash_map_order;

/// The names of a record's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldNames {
    names: Vec<String>,
    /// The places of the names, in the order of the documents' fields.
    order: Vec<usize>,
}

impl FieldNames {
    /// `prefix0`, `prefix1` and so on.
    pub fn new(prefix: &str, count: usize) -> FieldNames {
        let names: Vec<String> = (0..count).map(|number| format!("{prefix}{number}")).collect();
        let order = hash_map_order(&names);
        FieldNames { names, order }
    }

    /// The names in the order of their numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The names in the order of the documents' fields.
    pub fn in_order(&self) -> impl Iterator<Item = &str> {
        self.order.iter().filter_map(|place| self.names.get(*place)).map(String::as_str)
    }

    /// Appends the document of a record; `value` appends the bytes of a field's value, as text if `text`.
    pub fn append_document(
        &self,
        key: &str,
        text: bool,
        mut value: impl FnMut(&str, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        let mut document = DocumentWriter::new(out);
        document.string("_id", key);
        for name in self.in_order() {
            append_value(&mut document, name, text, |out| value(name, out));
        }
    }
}

/// Appends an element whose value is written by `value`: binary, of subtype 0, or text, for which it writes ASCII.
pub fn append_value(
    document: &mut DocumentWriter<'_>,
    name: &str,
    text: bool,
    value: impl FnOnce(&mut Vec<u8>),
) {
    document.begin_element(name, if text { ElementType::String } else { ElementType::Binary });
    let out = document.buffer();
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    if !text {
        out.push(BinarySubtype::Generic.into());
    }
    let begun = out.len();
    value(out);
    if text {
        out.push(0);
    }
    // Documents beyond 16 MiB are refused long before this saturates.
    let bytes = i32::try_from(out.len() - begun).unwrap_or(i32::MAX).to_le_bytes();
    if let Some(length) = out.get_mut(at..at + 4) {
        length.copy_from_slice(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use bson::spec::BinarySubtype;
    use bson::{Binary, Document, RawDocumentBuf};

    use super::*;
    use crate::keys::KeyNames;

    #[test]
    fn documents_are_those_of_the_library_in_ycsbs_order() {
        let fields = FieldNames::new("field", 10);
        let mut bytes = Vec::new();
        let key = KeyNames::default().name(0);
        fields.append_document(
            &key,
            false,
            |name, out| out.extend(name.bytes().cycle().take(100)),
            &mut bytes,
        );
        let mut expected = Document::new();
        expected.insert("_id", key);
        for number in [1, 0, 7, 6, 9, 8, 3, 2, 5, 4] {
            let name = format!("field{number}");
            let bytes: Vec<u8> = name.bytes().cycle().take(100).collect();
            expected.insert(name, Binary { subtype: BinarySubtype::Generic, bytes });
        }
        assert_eq!(bytes, RawDocumentBuf::try_from(&expected).unwrap().as_bytes());
        // Of YCSB: a key of 19 digits, fields of 100 bytes; and 8 of 250.
        assert_eq!(bytes.len(), 1168);
        let mut eight = Vec::new();
        let key = KeyNames::default().name(0);
        FieldNames::new("field", 8).append_document(&key, false, |_, out| out.extend([7; 250]), &mut eight);
        assert_eq!(eight.len(), 2142);
    }

    #[test]
    fn values_may_be_text() {
        let mut bytes = Vec::new();
        FieldNames::new("f", 1).append_document("user1", true, |_, out| out.extend(b"abc"), &mut bytes);
        let document = Document::from_reader(bytes.as_slice()).unwrap();
        assert_eq!(document, bson::doc! { "_id": "user1", "f0": "abc" });
    }

    #[test]
    fn a_document_may_stand_behind_others() {
        let mut bytes = b"before".to_vec();
        FieldNames::new("f", 0).append_document("user1", true, |_, _| {}, &mut bytes);
        let document = bson::RawDocument::from_bytes(&bytes[6..]).unwrap();
        assert_eq!(document.get_str("_id").unwrap(), "user1");
    }
}
