//! Fuzzes bytes as documents: an accepted document can be read completely by the `bson` crate, and written again byte for byte.

use bson::{RawBsonRef, RawDocument};
use fathom_wire::{DocumentWriter, validate_document};

pub(crate) fn take_input(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if let (Ok(length), Some(place)) = (i32::try_from(bytes.len()), bytes.first_chunk_mut::<4>()) {
        *place = length.to_le_bytes();
    }
    let Ok(document) = validate_document(&bytes) else { return };
    walk(document);
    let mut written = Vec::new();
    let mut writer = DocumentWriter::new(&mut written);
    for element in document.iter_elements().flatten() {
        if let Ok(value) = element.value() {
            writer.value(element.key().as_str(), value);
        }
    }
    writer.end();
    assert_eq!(written, bytes);
}

fn walk(document: &RawDocument) {
    for element in document {
        match element {
            Ok((_, RawBsonRef::Document(inner))) => walk(inner),
            Ok((_, RawBsonRef::Array(inner))) => assert!(inner.into_iter().all(|item| item.is_ok())),
            Ok((_, RawBsonRef::JavaScriptCodeWithScope(code))) => walk(code.scope),
            Ok(_) => {}
            Err(error) => panic!("it passed and cannot be read: {error}"),
        }
    }
}
