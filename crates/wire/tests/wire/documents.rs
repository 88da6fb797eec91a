//! Tests of writing and validating documents, which take the independent `bson` crate as the reference for both.

use bson::spec::ElementType;
use bson::{Bson, RawDocument, RawDocumentBuf, doc, rawdoc};
use fathom_wire::{ArrayWriter, Code, DocumentWriter, validate_document};
use proptest::prelude::*;

use crate::values::document;

/// Reads every value through the `bson` crate, as the query code does.
fn walk(document: &RawDocument) -> bool {
    document.iter().all(|element| match element {
        Ok((_, bson::RawBsonRef::Document(inner))) => walk(inner),
        Ok((_, bson::RawBsonRef::Array(inner))) => walk(RawDocument::from_bytes(inner.as_bytes()).unwrap()),
        Ok((_, bson::RawBsonRef::JavaScriptCodeWithScope(code))) => walk(code.scope),
        other => other.is_ok(),
    })
}

proptest! {
    #[test]
    fn what_is_written_is_what_the_bson_crate_writes(fields in document()) {
        let expected = RawDocumentBuf::try_from(&fields).unwrap();
        let mut owned = vec![7];
        DocumentWriter::new(&mut owned).extend(&fields);
        prop_assert_eq!(&owned[1..], expected.as_bytes());

        let mut raw = Vec::new();
        let mut writer = DocumentWriter::new(&mut raw);
        for element in expected.iter() {
            let (name, value) = element.unwrap();
            writer.value(name.as_str(), value);
        }
        writer.end();
        prop_assert_eq!(&raw[..], expected.as_bytes());

        let mut spliced = Vec::new();
        DocumentWriter::new(&mut spliced).extend_raw(&expected);
        prop_assert_eq!(&spliced[..], expected.as_bytes());
        prop_assert!(validate_document(&spliced).is_ok());
    }

    #[test]
    fn what_passes_can_be_read_whole(fields in document(), changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4)) {
        let mut bytes = RawDocumentBuf::try_from(&fields).unwrap().into_bytes();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(document) = validate_document(&bytes) {
            prop_assert!(walk(document), "{bytes:?}");
        }
    }

    #[test]
    fn anything_at_all_is_refused_or_readable(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(document) = validate_document(&bytes) {
            prop_assert!(walk(document));
        }
    }

    #[test]
    fn every_shortened_document_is_refused(fields in document(), cut in any::<prop::sample::Index>()) {
        let bytes = RawDocumentBuf::try_from(&fields).unwrap().into_bytes();
        prop_assert!(validate_document(&bytes[..cut.index(bytes.len())]).is_err());
    }
}

#[test]
fn typed_fields_and_nesting() {
    let mut buffer = Vec::new();
    let mut reply = DocumentWriter::new(&mut buffer);
    let mut cursor = reply.begin_document("cursor");
    let mut batch = cursor.begin_array("firstBatch");
    for number in 0..1234 {
        batch.begin_item(ElementType::EmbeddedDocument);
        batch.buffer().extend_from_slice(rawdoc! { "_id": number }.as_bytes());
    }
    let mark = batch.mark();
    batch.document(&rawdoc! { "too": "large" });
    assert_eq!(batch.count(), 1235);
    batch.back_to(mark);
    assert_eq!(batch.count(), 1234);
    batch.end();
    cursor.i64("id", 0);
    cursor.string("ns", "ycsb.usertable");
    cursor.end();
    reply.f64("ok", 1.0);
    reply.end();
    let read = validate_document(&buffer).unwrap();
    let numbers: Vec<Bson> = (0..1234).map(|number| Bson::Document(doc! { "_id": number })).collect();
    let cursor = doc! { "firstBatch": numbers, "id": 0_i64, "ns": "ycsb.usertable" };
    // Compared as bytes, because reading an array as values loses its keys.
    assert_eq!(
        read.as_bytes(),
        RawDocumentBuf::try_from(&doc! { "cursor": cursor, "ok": 1.0 }).unwrap().as_bytes()
    );
}

#[test]
fn an_array_dropped_on_an_error_still_ends() {
    let mut buffer = Vec::new();
    {
        let mut array = ArrayWriter::new(&mut buffer);
        array.i32(1);
        array.begin_document().bool("a", true);
    }
    assert_eq!(buffer, RawDocumentBuf::try_from(&doc! { "0": 1, "1": { "a": true } }).unwrap().as_bytes());
}

#[test]
fn depth_is_limited_as_in_mongod() {
    let nested = |levels: usize| {
        let mut bytes = RawDocumentBuf::new().into_bytes();
        for _ in 0..levels {
            let mut outer = Vec::new();
            let mut writer = DocumentWriter::new(&mut outer);
            writer.document("a", RawDocument::from_bytes(&bytes).unwrap());
            writer.end();
            bytes = outer;
        }
        bytes
    };
    assert!(validate_document(&nested(200)).is_ok());
    assert_eq!(validate_document(&nested(201)).unwrap_err().code(), Code::Overflow);
    assert_eq!(validate_document(&nested(20_000)).unwrap_err().code(), Code::Overflow);
}

#[test]
fn each_fault_is_named() {
    let fault = |bytes: &[u8]| validate_document(bytes).unwrap_err().message().to_owned();
    assert_eq!(fault(&[]), "BSON data has to be at least 5 bytes");
    assert_eq!(fault(&[6, 0, 0, 0, 0]), "incorrect BSON length");
    assert_eq!(fault(&[5, 0, 0, 0, 1]), "incorrect BSON length");
    assert_eq!(fault(&[9, 0, 0, 0, 8, b'a', 0, 2, 0]), "BSON bool is neither false nor true");
    assert_eq!(fault(&[8, 0, 0, 0, 0x14, b'a', 0, 0]), "Unrecognized BSON type 20");
    assert_eq!(fault(&[7, 0, 0, 0, 10, b'a', 0]), "Not null terminated string");
    assert_eq!(fault(&[12, 0, 0, 0, 16, b'a', 0, 0, 0, 0, 0, 0][..11]), "incorrect BSON length");
    let invalid = [14, 0, 0, 0, 2, b'a', 0, 2, 0, 0, 0, 0xff, 0, 0];
    assert_eq!(fault(&invalid), "text in BSON is not valid UTF-8, which this server does not take");
    let old = [18, 0, 0, 0, 5, b'a', 0, 5, 0, 0, 0, 2, 9, 0, 0, 0, 1, 0];
    assert_eq!(fault(&old), "old binary subtype has wrong inner length");
    assert_eq!(validate_document(&invalid).unwrap_err().code(), Code::InvalidBSON);
}

/// Prints the cost of a pass (`--nocapture`); the bound only checks that it stays one pass.
mod timed {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn validating_is_cheap() {
        let mut document = rawdoc! { "_id": "user6284781860667377211" };
        for number in 0..10 {
            document.append(bson::raw::CString::try_from(format!("field{number}")).unwrap(), "x".repeat(100));
        }
        let began = Instant::now();
        let rounds = 20_000;
        for _ in 0..rounds {
            std::hint::black_box(validate_document(std::hint::black_box(document.as_bytes()))).unwrap();
        }
        let each = began.elapsed() / rounds;
        println!("{} bytes validated in {each:?}", document.as_bytes().len());
        assert!(each < Duration::from_micros(100));
    }
}
