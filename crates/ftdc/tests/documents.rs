//! Tests of the documents of a recording: whole files, files truncated by a crash, and other files.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{self, Read};

use bson::spec::BinarySubtype;
use bson::{Binary, DateTime, RawDocumentBuf, rawdoc};
use fathom_errors::Kind;
use fathom_ftdc::{Document, DocumentReader};

const AT_MS: i64 = 1_700_000_000_000;

fn metadata() -> RawDocumentBuf {
    rawdoc! { "_id": DateTime::from_millis(AT_MS), "type": 0, "doc": { "buildInfo": { "version": "7.0.12" } } }
}

fn metrics(payload: &[u8]) -> RawDocumentBuf {
    let data = Binary { subtype: BinarySubtype::Generic, bytes: payload.to_vec() };
    rawdoc! { "_id": DateTime::from_millis(AT_MS + 1), "type": 1, "data": data }
}

fn parameters() -> RawDocumentBuf {
    rawdoc! { "_id": DateTime::from_millis(AT_MS + 2), "type": 2, "count": 3_i64, "doc": { "getParameter": {} } }
}

/// The documents in words, the bytes of whole ones and those cut off.
fn read(source: impl Read) -> (Vec<String>, u64, u64) {
    let mut reader = DocumentReader::new(source);
    let mut words = Vec::new();
    while let Some(document) = reader.next_document().unwrap() {
        words.push(match document {
            Document::Metadata { at_ms, replies } => {
                format!("metadata {} {}", at_ms - AT_MS, replies.iter().flatten().count())
            }
            Document::Metrics { at_ms, payload } => format!("metrics {} {payload:?}", at_ms - AT_MS),
            Document::Parameters { at_ms, count, .. } => format!("parameters {} {count}", at_ms - AT_MS),
            Document::Unknown => "unknown".to_owned(),
        });
    }
    (words, reader.read_bytes(), reader.cut_off_bytes())
}

fn file(documents: &[RawDocumentBuf]) -> Vec<u8> {
    documents.iter().flat_map(|document| document.as_bytes().to_vec()).collect()
}

#[test]
fn the_types_are_told_apart() {
    let unknown = rawdoc! { "_id": DateTime::from_millis(0), "type": 9, "future": true };
    let bytes = file(&[metadata(), metrics(&[1, 2]), parameters(), unknown]);
    let (words, read_bytes, cut_off) = read(bytes.as_slice());
    assert_eq!(words, ["metadata 0 1", "metrics 1 [1, 2]", "parameters 2 3", "unknown"]);
    assert_eq!((read_bytes, cut_off), (bytes.len() as u64, 0));
}

/// Bytes one at a time, as a pipe may give them.
struct Drip<'b>(&'b [u8]);

impl Read for Drip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = buffer.len().min(1);
        self.0.read(&mut buffer[..end])
    }
}

#[test]
fn a_file_that_is_cut_off_is_read_up_to_its_last_whole_document() {
    let (whole, last) = (file(&[metadata(), metrics(&[7])]), file(&[parameters()]));
    for length in 0..last.len() {
        let bytes = [whole.as_slice(), &last[..length]].concat();
        let (words, read_bytes, cut_off) = read(Drip(&bytes));
        assert_eq!(words, ["metadata 0 1", "metrics 1 [7]"], "{length}");
        assert_eq!((read_bytes, cut_off), (whole.len() as u64, length as u64));
    }
}

#[test]
fn zeros_and_lengths_beyond_any_document_end_a_file() {
    for tail in [vec![0; 4096], [0xff; 9].to_vec(), 4_u32.to_le_bytes().to_vec()] {
        let bytes = [file(&[metadata()]), tail.clone()].concat();
        let (words, _, cut_off) = read(bytes.as_slice());
        assert_eq!((words.len(), cut_off), (1, tail.len() as u64));
    }
    assert_eq!(read(io::empty()), (Vec::new(), 0, 0));
}

#[test]
fn a_file_of_other_documents_is_refused() {
    let others = [
        (rawdoc! { "name": "x" }, "not a recording"),
        (rawdoc! { "_id": DateTime::from_millis(0), "type": 1 }, "without its contents"),
    ];
    for (other, words) in others {
        let bytes = file(&[other]);
        let error = DocumentReader::new(bytes.as_slice()).next_document().unwrap_err();
        assert_eq!(error.kind(), Kind::Malformed);
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_source_that_fails_is_an_error_and_no_end() {
    struct FailingReader;
    impl Read for FailingReader {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let mut reader = DocumentReader::new(FailingReader);
    let error = reader.next_document().unwrap_err();
    assert_eq!(error.kind(), Kind::Io);
    assert!(error.to_string().contains("the disk is gone"), "{error}");
}
