//! Sorting of documents.
use crate::Result;
use bson::{RawDocument, RawDocumentBuf};

/// A sort pattern: `{a: 1, b: -1}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    /// Dotted paths, each with whether it descends.
    pub fields: Vec<(String, bool)>,
}

impl Sort {
    /// Parses a sort document; an empty one is no sort.
    pub fn parse(_sort: &RawDocument) -> Result<Option<Sort>> {
        Ok(None)
    }

    /// The key whose byte order is the sort's order: of arrays, the least element when ascending, the greatest when descending.
    pub fn key(&self, _document: &RawDocument) -> Vec<u8> {
        Vec::new()
    }
}

/// Sorts what is pushed, keeping only the first `limit`, in at most `memory_bytes`.
#[derive(Debug)]
pub struct Sorter {}

impl Sorter {
    /// `limit` none: all.
    pub fn new(_sort: Sort, _limit: Option<usize>, _memory_bytes: usize) -> Self {
        Sorter {}
    }

    /// Takes a document; fails with code 292 when memory is at its end.
    pub fn push(&mut self, _document: RawDocumentBuf) -> Result<()> {
        Ok(())
    }

    /// The documents in order; equal ones as they came.
    pub fn finish(self) -> Vec<RawDocumentBuf> {
        Vec::new()
    }
}
