//! Sort patterns, the order of documents that they define, and the sorter, which keeps all documents or only the first few.
//!
//! A document is sorted by the key that an index on the same fields would give it; of several keys, by the one that the sort
//! meets first. Sorting by text score is refused by name. The sorter's memory is bounded: a sort that needs more is refused and
//! never spilled to disk.

use crate::key_pattern::MAX_FIELDS;
use crate::paths::{self, PARALLEL_ARRAYS};
use crate::{Bound, Code, Failure, KeyBuilder, Result, compare};
use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A sort pattern: `{a: 1, b: -1}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    /// Dotted paths, each with whether it descends.
    pub fields: Vec<(String, bool)>,
}

impl Sort {
    /// Parses a sort document; an empty one is no sort. It refuses what MongoDB refuses, with its codes (15974, 15975, 13103 and those
    /// of bad paths), and `{$meta: ...}` (40218). `$natural` is an access path and not a field: callers remove it before.
    pub fn parse(sort: &RawDocument) -> Result<Option<Sort>> {
        let mut fields = Vec::new();
        for field in sort {
            let (path, value) = field.map_err(|error| Failure::new(Code::InvalidBSON, error.to_string()))?;
            let path = path.as_str();
            let descending = parse_order(path, value)?;
            check_path(path)?;
            fields.push((path.to_owned(), descending));
        }
        if fields.len() > MAX_FIELDS {
            return Err(Failure::new(Code(13103), "too many compound keys"));
        }
        Ok((!fields.is_empty()).then_some(Sort { fields }))
    }

    /// The pattern with 1 and -1.
    pub fn to_document(&self) -> Document {
        let order = |descending: bool| if descending { -1 } else { 1 };
        self.fields.iter().map(|(path, descending)| (path.clone(), order(*descending).into())).collect()
    }

    /// The key whose byte order is the sort's order: of arrays, the least element if ascending, the greatest if descending.
    /// If [`try_key`](Self::try_key) refuses a document, each field counts separately, and malformed ones as missing.
    pub fn key(&self, document: &RawDocument) -> Vec<u8> {
        self.try_key(document).unwrap_or_else(|_| {
            let mut key = Vec::new();
            for field in &self.fields {
                // Without the end byte, which comes once after all fields.
                let alone = key_of(document, std::slice::from_ref(field)).unwrap_or_default();
                key.extend_from_slice(alone.split_last().map_or(&[], |(_, values)| values));
            }
            key
        })
    }

    /// As [`key`](Self::key); two arrays in parallel paths are refused as MongoDB refuses to sort them (2).
    pub fn try_key(&self, document: &RawDocument) -> Result<Vec<u8>> {
        key_of(document, &self.fields).map_err(|failure| {
            if failure.code() == PARALLEL_ARRAYS {
                Failure::new(Code::BadValue, "cannot sort with keys that are parallel arrays")
            } else {
                failure
            }
        })
    }

    /// Compares two documents as their keys compare.
    pub fn compare(&self, left: &RawDocument, right: &RawDocument) -> Ordering {
        let mut order = Ordering::Equal;
        for (path, descending) in &self.fields {
            // An array in any field makes tuples of all fields, which only keys can compare.
            let (Ok(left_value), Ok(right_value)) = (flat(left, path), flat(right, path)) else {
                return self.key(left).cmp(&self.key(right));
            };
            if order.is_eq() {
                order = compare(left_value, right_value);
                order = if *descending { order.reverse() } else { order };
            }
        }
        order
    }
}

/// The value of a path through no array; an error if it meets one, or if the document is malformed.
fn flat<'a>(document: &'a RawDocument, path: &'a str) -> Result<RawBsonRef<'a>, ()> {
    match paths::find(document, path) {
        Ok(Some(found)) if found.value.as_array().is_none() => Ok(found.value),
        Ok(None) => Ok(RawBsonRef::Null),
        _ => Err(()),
    }
}

fn key_of(document: &RawDocument, fields: &[(String, bool)]) -> Result<Vec<u8>> {
    let mut builder = KeyBuilder::new();
    for (path, descending) in fields {
        match flat(document, path) {
            Ok(value) => builder.append(value, *descending),
            Err(()) => return key_through_arrays(document, fields),
        }
    }
    Ok(builder.finish(Bound::Exact).bytes)
}

/// Descending bytes are inverted, so that the least of all keys is the best in either direction.
fn key_through_arrays(document: &RawDocument, fields: &[(String, bool)]) -> Result<Vec<u8>> {
    let mut best: Option<Vec<u8>> = None;
    let mut take = |values: &[RawBsonRef<'_>], _: bool| {
        let mut builder = KeyBuilder::new();
        for (value, (_, descending)) in values.iter().zip(fields) {
            builder.append(*value, *descending);
        }
        let key = builder.finish(Bound::Exact).bytes;
        if best.as_ref().is_none_or(|best| key < *best) {
            best = Some(key);
        }
        Ok(())
    };
    paths::tuples(document, fields.iter().map(|(path, _)| path.as_str()), &mut take)?;
    Ok(best.unwrap_or_default())
}

fn parse_order(path: &str, value: RawBsonRef<'_>) -> Result<bool> {
    let number = match value {
        RawBsonRef::Int32(value) => f64::from(value),
        RawBsonRef::Int64(value) => value as f64,
        RawBsonRef::Double(value) => value,
        RawBsonRef::Decimal128(value) => value.to_string().parse().unwrap_or(f64::NAN),
        RawBsonRef::Document(document) => {
            let meta = document.get("$meta").ok().flatten();
            return Err(match meta {
                Some(kind) => Failure::new(
                    Code(40218),
                    format!(
                        "sort by $meta is not supported by this server ({path}: {})",
                        kind.as_str().unwrap_or("")
                    ),
                ),
                None => {
                    Failure::new(Code(17312), "$meta is the only expression supported by $sort right now")
                }
            });
        }
        other => {
            let value = bson::Bson::try_from(other).map(|value| value.to_string()).unwrap_or_default();
            return Err(Failure::new(
                Code(15974),
                format!("Illegal key in $sort specification: {path}: {value}"),
            ));
        }
    };
    // As an integer, towards zero: 1.5 sorts as 1.
    match number.trunc() {
        1.0 => Ok(false),
        -1.0 => Ok(true),
        _ => Err(Failure::new(
            Code(15975),
            "$sort key ordering must be 1 (for ascending) or -1 (for descending)",
        )),
    }
}

fn check_path(path: &str) -> Result<()> {
    if path.is_empty() {
        return Err(Failure::new(Code(40352), "FieldPath cannot be constructed with empty string"));
    }
    if path.ends_with('.') {
        return Err(Failure::new(Code(40353), "FieldPath must not end with a '.'."));
    }
    for part in path.split('.') {
        if part.is_empty() {
            return Err(Failure::new(Code(15998), "FieldPath field names may not be empty strings."));
        }
        if part.starts_with('$') && !matches!(part, "$id" | "$ref" | "$db") {
            return Err(Failure::new(Code(16410), "FieldPath field names may not start with '$'."));
        }
    }
    Ok(())
}

/// Sorts the pushed documents and keeps only the first `limit`, in at most `memory_bytes`.
#[derive(Debug)]
pub struct Sorter {
    sort: Sort,
    limit: Option<usize>,
    memory_bytes: usize,
    used_bytes: usize,
    pushed: u64,
    /// With a limit, a heap whose top is the last of the kept rows; without one, the rows in the order of arrival.
    kept: SortedRows,
}

#[derive(Debug)]
enum SortedRows {
    All(Vec<SortEntry>),
    First(BinaryHeap<SortEntry>),
}

#[derive(Debug, PartialEq)]
struct SortEntry {
    key: Vec<u8>,
    /// The number that keeps equal keys in the order of arrival.
    number: u64,
    document: RawDocumentBuf,
}

impl Eq for SortEntry {}

impl PartialOrd for SortEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SortEntry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then(self.number.cmp(&other.number))
    }
}

impl SortEntry {
    fn bytes(&self) -> usize {
        size_of::<SortEntry>() + self.key.len() + self.document.as_bytes().len()
    }
}

impl Sorter {
    /// Without a `limit`, all rows are sorted.
    pub fn new(sort: Sort, limit: Option<usize>, memory_bytes: usize) -> Self {
        let kept =
            if limit.is_some() { SortedRows::First(BinaryHeap::new()) } else { SortedRows::All(Vec::new()) };
        Sorter { sort, limit, memory_bytes, used_bytes: 0, pushed: 0, kept }
    }

    /// Adds a document; fails with code 292 if the memory is used up, and if [`Sort::try_key`] fails.
    pub fn push(&mut self, document: RawDocumentBuf) -> Result<()> {
        let key = self.sort.try_key(&document)?;
        if self.is_beyond(&key) { Ok(()) } else { self.keep(key, document) }
    }

    /// As [`push`](Self::push), copying the document only if it is kept.
    pub fn push_borrowed(&mut self, document: &RawDocument) -> Result<()> {
        let key = self.sort.try_key(document)?;
        if self.is_beyond(&key) { Ok(()) } else { self.keep(key, document.to_owned()) }
    }

    /// Whether a new document with this key would not be among the first.
    fn is_beyond(&self, key: &[u8]) -> bool {
        match (&self.kept, self.limit) {
            (SortedRows::First(heap), Some(limit)) if heap.len() >= limit => {
                heap.peek().is_none_or(|last| key >= &last.key[..])
            }
            _ => false,
        }
    }

    fn keep(&mut self, key: Vec<u8>, document: RawDocumentBuf) -> Result<()> {
        let entry = SortEntry { key, number: self.pushed, document };
        self.pushed += 1;
        self.used_bytes += entry.bytes();
        match &mut self.kept {
            SortedRows::All(entries) => entries.push(entry),
            SortedRows::First(heap) => {
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

    /// The documents in order; equal ones in the order of arrival.
    pub fn finish(self) -> Vec<RawDocumentBuf> {
        let entries = match self.kept {
            SortedRows::All(mut entries) => {
                entries.sort_unstable();
                entries
            }
            SortedRows::First(heap) => heap.into_sorted_vec(),
        };
        entries.into_iter().map(|entry| entry.document).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sorter;
    use crate::order::samples::{ladder, value};
    use bson::{Bson, RawDocumentBuf, doc};
    use proptest::prelude::*;

    fn raw(document: Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    fn sort(pattern: Document) -> Sort {
        Sort::parse(&raw(pattern)).unwrap().unwrap()
    }

    fn ids(documents: &[RawDocumentBuf]) -> Vec<i32> {
        documents.iter().map(|document| document.get_i32("_id").unwrap()).collect()
    }

    fn run(pattern: Document, limit: Option<usize>, documents: &[Document]) -> Vec<i32> {
        let mut sorter = Sorter::new(sort(pattern), limit, 1 << 20);
        for document in documents {
            sorter.push(raw(document.clone())).unwrap();
        }
        ids(&sorter.finish())
    }

    #[test]
    fn patterns_are_read_and_bad_ones_refused() {
        assert_eq!(Sort::parse(&raw(doc! {})).unwrap(), None);
        let pattern = sort(doc! { "a": 1, "b.c": -1.0, "d": 1i64 });
        assert_eq!(pattern.to_document(), doc! { "a": 1, "b.c": -1, "d": 1 });
        let cases = [
            (doc! { "a": 0 }, 15975),
            (doc! { "a": 2 }, 15975),
            (doc! { "a": "x" }, 15974),
            (doc! { "a": { "$meta": "textScore" } }, 40218),
            (doc! { "a": { "b": 1 } }, 17312),
            (doc! { "": 1 }, 40352),
            (doc! { "a.": 1 }, 40353),
            (doc! { "a..b": 1 }, 15998),
            (doc! { "$a": 1 }, 16410),
            ((0..33).map(|n| (format!("f{n}"), Bson::Int32(1))).collect(), 13103),
        ];
        for (pattern, code) in cases {
            assert_eq!(Sort::parse(&raw(pattern.clone())).unwrap_err().code(), Code(code), "{pattern}");
        }
    }

    #[test]
    fn arrays_count_by_their_least_or_greatest_element() {
        let documents = [
            doc! { "_id": 1, "a": [5, 9] },
            doc! { "_id": 2, "a": 6 },
            doc! { "_id": 3, "a": [] },
            doc! { "_id": 4 },
            doc! { "_id": 5, "a": [1, 10] },
            doc! { "_id": 6, "a": null },
        ];
        assert_eq!(run(doc! { "a": 1 }, None, &documents), [3, 4, 6, 5, 1, 2]);
        assert_eq!(run(doc! { "a": -1 }, None, &documents), [5, 1, 2, 4, 6, 3]);
        let nested = [
            doc! { "_id": 1, "a": [{ "b": 3, "c": 1 }, { "b": 4, "c": 0 }] },
            doc! { "_id": 2, "a": { "b": 3, "c": 0 } },
        ];
        // The least tuple as a whole decides, not the least value of each field.
        assert_eq!(run(doc! { "a.b": 1, "a.c": 1 }, None, &nested), [2, 1]);
    }

    #[test]
    fn parallel_arrays_are_refused_by_the_sorter_and_counted_apart_by_key() {
        let document = raw(doc! { "a": [2, 1], "b": [4, 3] });
        let pattern = sort(doc! { "a": 1, "b": -1 });
        let failure = Sorter::new(pattern.clone(), None, 1 << 20).push(document.clone()).unwrap_err();
        assert_eq!(failure.code(), Code::BadValue);
        assert_eq!(failure.message(), "cannot sort with keys that are parallel arrays");
        let smaller = raw(doc! { "a": 1, "b": 5 });
        assert_eq!(pattern.compare(&document, &smaller), Ordering::Greater);
    }

    #[test]
    fn equal_documents_stay_as_they_came_with_and_without_limit() {
        let documents: Vec<Document> = (0..100).map(|id| doc! { "_id": id, "a": id % 3 }).collect();
        let all = run(doc! { "a": -1 }, None, &documents);
        let mut expected: Vec<i32> = (0..100).collect();
        expected.sort_by_key(|id| -(id % 3));
        assert_eq!(all, expected);
        for limit in [0, 1, 33, 34, 99, 100, 200] {
            assert_eq!(run(doc! { "a": -1 }, Some(limit), &documents), expected[..limit.min(100)]);
        }
    }

    #[test]
    fn memory_is_bounded_and_a_limit_needs_only_its_own() {
        let document = raw(doc! { "_id": 1, "a": "x".repeat(1000) });
        let mut sorter = Sorter::new(sort(doc! { "_id": 1 }), None, 10_000);
        let failure = (0..10).find_map(|_| sorter.push(document.clone()).err()).unwrap();
        assert_eq!(failure.code().0, 292);
        assert_eq!(
            failure.message(),
            "Sort exceeded memory limit of 10000 bytes, but did not opt in to external sorting. This server has none; allowDiskUse does not change that."
        );
        let mut sorter = Sorter::new(sort(doc! { "_id": 1 }), Some(3), 10_000);
        for id in (0..1000).rev() {
            sorter.push_borrowed(&raw(doc! { "_id": id, "a": "x".repeat(1000) })).unwrap();
        }
        assert_eq!(ids(&sorter.finish()), [0, 1, 2]);
    }

    #[test]
    fn keys_order_the_ladder() {
        let pattern = sort(doc! { "a": 1 });
        let documents: Vec<_> = ladder()
            .into_iter()
            .filter(|value| !matches!(value, Bson::Array(_)))
            .map(|value| raw(doc! { "a": value }))
            .collect();
        assert!(documents.windows(2).all(|pair| pattern.key(&pair[0]) < pattern.key(&pair[1])));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn comparing_and_keys_agree(
            left in (value(), value()),
            right in (value(), value()),
            descending in any::<(bool, bool)>(),
        ) {
            let order = |descending| if descending { -1 } else { 1 };
            let pattern = sort(doc! { "a": order(descending.0), "b.a": order(descending.1) });
            let left = raw(doc! { "a": left.0, "b": left.1 });
            let right = raw(doc! { "a": right.0, "b": right.1 });
            prop_assert_eq!(pattern.compare(&left, &right), pattern.key(&left).cmp(&pattern.key(&right)));
        }
    }
}
