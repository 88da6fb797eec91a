//! Sorts documents, all of them or only the first few, in bounded memory: what needs more is refused, never spilled to disk.
use crate::{Code, Failure, Result, Sort};
use bson::{RawDocument, RawDocumentBuf};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Sorts what is pushed, keeping only the first `limit`, in at most `memory_bytes`.
#[derive(Debug)]
pub struct Sorter {
    sort: Sort,
    limit: Option<usize>,
    memory_bytes: usize,
    used_bytes: usize,
    pushed: u64,
    /// With a limit a heap whose top is the last of those kept; without, in the order they came.
    kept: Kept,
}

#[derive(Debug)]
enum Kept {
    All(Vec<Entry>),
    First(BinaryHeap<Entry>),
}

#[derive(Debug, PartialEq)]
struct Entry {
    key: Vec<u8>,
    /// Puts equal keys in the order they came.
    number: u64,
    document: RawDocumentBuf,
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then(self.number.cmp(&other.number))
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        size_of::<Entry>() + self.key.len() + self.document.as_bytes().len()
    }
}

impl Sorter {
    /// `limit` none: all.
    pub fn new(sort: Sort, limit: Option<usize>, memory_bytes: usize) -> Self {
        let kept = if limit.is_some() { Kept::First(BinaryHeap::new()) } else { Kept::All(Vec::new()) };
        Sorter { sort, limit, memory_bytes, used_bytes: 0, pushed: 0, kept }
    }

    /// Takes a document; fails with code 292 when memory is at its end, and where [`Sort::try_key`] fails.
    pub fn push(&mut self, document: RawDocumentBuf) -> Result<()> {
        let key = self.sort.try_key(&document)?;
        if self.is_beyond(&key) { Ok(()) } else { self.keep(key, document) }
    }

    /// As [`push`](Self::push), copying the document only if it is kept.
    pub fn push_borrowed(&mut self, document: &RawDocument) -> Result<()> {
        let key = self.sort.try_key(document)?;
        if self.is_beyond(&key) { Ok(()) } else { self.keep(key, document.to_owned()) }
    }

    /// Whether a document with this key, coming now, would not be among the first.
    fn is_beyond(&self, key: &[u8]) -> bool {
        match (&self.kept, self.limit) {
            (Kept::First(heap), Some(limit)) if heap.len() >= limit => {
                heap.peek().is_none_or(|last| key >= &last.key[..])
            }
            _ => false,
        }
    }

    fn keep(&mut self, key: Vec<u8>, document: RawDocumentBuf) -> Result<()> {
        let entry = Entry { key, number: self.pushed, document };
        self.pushed += 1;
        self.used_bytes += entry.bytes();
        match &mut self.kept {
            Kept::All(entries) => entries.push(entry),
            Kept::First(heap) => {
                if self.limit.is_some_and(|limit| heap.len() >= limit)
                    && let Some(dropped) = heap.pop()
                {
                    self.used_bytes -= dropped.bytes();
                }
                heap.push(entry);
            }
        }
        if self.used_bytes > self.memory_bytes {
            return Err(Failure::new(
                Code::QueryExceededMemoryLimitNoDiskUseAllowed,
                format!(
                    "Sort exceeded memory limit of {} bytes, but did not opt in to external sorting. This server has none; allowDiskUse does not change that.",
                    self.memory_bytes
                ),
            ));
        }
        Ok(())
    }

    /// The documents in order; equal ones as they came.
    pub fn finish(self) -> Vec<RawDocumentBuf> {
        let entries = match self.kept {
            Kept::All(mut entries) => {
                entries.sort_unstable();
                entries
            }
            Kept::First(heap) => heap.into_sorted_vec(),
        };
        entries.into_iter().map(|entry| entry.document).collect()
    }
}
