//! Tests that recordings of real servers decode to the figures of an independent decoder.
//!
//! `FATHOM_RECORDINGS` names a folder with recordings and their `expected.json`.
#![allow(clippy::unwrap_used, reason = "a test")]

mod second_decoder;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_ftdc::{ChunkBuffer, Document, DocumentReader, MetricChunk};
use fathom_testkit::{Need, assert, assert_eq, skip, test};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The independent decoder's figures of a file.
#[derive(Debug, Deserialize)]
struct ExpectedFigures {
    /// The number of documents of each type.
    documents: BTreeMap<String, u64>,
    samples: u64,
    values: u64,
    metrics_min: Option<usize>,
    metrics_max: Option<usize>,
    bytes_cut_off: u64,
    /// Of counters by their paths: the first sample's value and the last one's.
    first_and_last: BTreeMap<String, (i64, i64)>,
    /// Over the columns of all chunks, each value as eight bytes, the lowest first.
    sha256_of_columns: String,
}

/// The same, as this crate reads it.
#[derive(Default)]
struct Figures {
    documents: BTreeMap<String, u64>,
    samples: u64,
    values: u64,
    metrics: Vec<usize>,
    bytes_missing: u64,
    first_and_last: BTreeMap<String, (i64, i64)>,
    hash: Sha256,
}

impl Figures {
    fn of_file(path: &Path, counters: &BTreeMap<String, (i64, i64)>) -> Figures {
        let mut reader = DocumentReader::new(fs::File::open(path).unwrap());
        let (mut figures, mut buffer) = (Figures::default(), ChunkBuffer::default());
        while let Some(document) = reader.next_document().unwrap() {
            let kind = match document {
                Document::Metadata { .. } => "0",
                Document::Metrics { payload, .. } => {
                    figures.add(&MetricChunk::parse(payload, &mut buffer).unwrap(), counters);
                    "1"
                }
                Document::Parameters { .. } => "2",
                Document::Unknown => "unknown",
            };
            *figures.documents.entry(kind.to_owned()).or_default() += 1;
        }
        // The independent decoder counts the bytes that the last document lacks.
        let (end, rest) = (reader.read_bytes() as usize, reader.cut_off_bytes());
        if rest > 0 {
            let length =
                fs::read(path).unwrap()[end..].first_chunk::<4>().map(|head| u32::from_le_bytes(*head));
            figures.bytes_missing = u64::from(length.unwrap()) - rest;
        }
        figures
    }

    fn add(&mut self, chunk: &MetricChunk<'_>, counters: &BTreeMap<String, (i64, i64)>) {
        self.samples += chunk.samples() as u64;
        self.values += (chunk.samples() * chunk.metrics().len()) as u64;
        self.metrics.push(chunk.metrics().len());
        let mut columns = 0;
        let visit = |at: usize, column: &[i64]| {
            columns += 1;
            for value in column {
                self.hash.update(value.to_le_bytes());
            }
            let path = &chunk.metrics()[at].path;
            if let (true, [first, ..], [.., last]) = (counters.contains_key(path), column, column) {
                self.first_and_last.entry(path.clone()).or_insert((*first, *last)).1 = *last;
            }
        };
        chunk.columns(|_| true, visit).unwrap();
        assert_eq!(columns, chunk.metrics().len());
    }
}

/// The folder of recordings; the test ends as skipped without one.
fn recordings() -> PathBuf {
    let folder = env::var_os("FATHOM_RECORDINGS").map(PathBuf::from).filter(|folder| folder.is_dir());
    folder.unwrap_or_else(|| skip!(Need::Recordings, "FATHOM_RECORDINGS names no folder"))
}

fn expected(folder: &Path) -> BTreeMap<String, ExpectedFigures> {
    serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap()
}

#[test]
fn each_file_decodes_as_the_independent_decoder_says() {
    let folder = recordings();
    let expected = expected(&folder);
    assert!(expected.len() >= 20, "{}", expected.len());
    for (name, expected) in expected {
        let figures = Figures::of_file(&folder.join(&name), &expected.first_and_last);
        assert_eq!(figures.documents, expected.documents, "{name}");
        assert_eq!(figures.samples, expected.samples, "{name}");
        assert_eq!(figures.values, expected.values, "{name}");
        assert_eq!(figures.metrics.iter().min().copied(), expected.metrics_min, "{name}");
        assert_eq!(figures.metrics.iter().max().copied(), expected.metrics_max, "{name}");
        assert_eq!(figures.bytes_missing, expected.bytes_cut_off, "{name}");
        assert_eq!(figures.first_and_last, expected.first_and_last, "{name}");
        let hash: String = figures.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, expected.sha256_of_columns, "{name}");
    }
}

#[test]
fn a_slow_and_obvious_decoder_reads_the_same_columns() {
    let folder = recordings();
    let mut chunks = 0;
    for name in expected(&folder).keys() {
        let mut reader = DocumentReader::new(fs::File::open(folder.join(name)).unwrap());
        let mut buffer = ChunkBuffer::default();
        while let Some(document) = reader.next_document().unwrap() {
            let Document::Metrics { payload, .. } = document else { continue };
            // Large files have hundreds of chunks of one schema.
            chunks += 1;
            if chunks % 7 != 0 {
                continue;
            }
            let chunk = MetricChunk::parse(payload, &mut buffer).unwrap();
            let mut columns = Vec::new();
            chunk.columns(|_| true, |_, column| columns.push(column.to_vec())).unwrap();
            assert!(columns == second_decoder::columns(payload), "{name}: chunk {chunks}");
        }
    }
    assert!(chunks > 100, "{chunks} chunks");
}
