//! Reads one `serverStatus` in one pass by the table of names, without building a tree of its thousand fields.

use std::collections::HashMap;

use bson::{RawBsonRef, RawDocument};

use super::names::{NAMES, ValuePath};

/// A node of the paths, with the nodes below each field.
#[derive(Debug, Default)]
struct PathNode {
    fields: HashMap<&'static str, PathNode>,
    any: Option<Box<PathNode>>,
    /// The places to which the value here belongs, with its factor for each.
    counts: Vec<(usize, f64)>,
}

impl PathNode {
    fn insert(&mut self, path: &'static str, place: usize, factor: f64) {
        let mut node = self;
        for word in path.split('.') {
            node = match word {
                "*" => node.any.get_or_insert_default(),
                word => node.fields.entry(word).or_default(),
            };
        }
        node.counts.push((place, factor));
    }
}

/// The table of names as a tree to walk a reply with.
#[derive(Debug)]
pub(crate) struct NameTree {
    root: PathNode,
    places: usize,
}

impl NameTree {
    pub(crate) fn new() -> NameTree {
        let mut tree = NameTree { root: PathNode::default(), places: 0 };
        for place in NAMES.iter().flat_map(|name| name.places) {
            let number = tree.places;
            tree.places += 1;
            let paths = place.paths.iter().map(|path| (*path, place.factor));
            let less = place.less.iter().map(|path| (*path, -place.factor));
            let zero = place.zero_by.map(|path| (path, 0.0));
            for (path, factor) in paths.chain(less).chain(zero) {
                tree.root.insert(path, number, factor);
            }
        }
        tree
    }

    /// The number of value paths; [`NameTree::values`] takes a sum for each.
    pub(crate) fn paths(&self) -> usize {
        self.places
    }

    /// The value paths in which the value at a path below `serverStatus` counts, with its factors.
    pub(crate) fn counts_at(&self, path: &str) -> Vec<(usize, f64)> {
        let mut counts = Vec::new();
        add_counts(&self.root, path, &mut counts);
        counts
    }

    /// The values of a reply to `serverStatus`: one for each row of [`NAMES`], `None` for a missing one.
    pub(crate) fn read(&self, status: &RawDocument) -> Vec<Option<f64>> {
        let mut found = vec![None; self.places];
        walk(&self.root, status, &mut found);
        self.values(&found)
    }

    /// The value path that gives each row of [`NAMES`] its value, with its number: the first one that is found.
    pub(crate) fn value_paths(
        &self,
        is_found: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = Option<(usize, &'static ValuePath)>> {
        let mut next = 0;
        NAMES.iter().map(move |name| {
            let first = next;
            next += name.places.len();
            (first..).zip(name.places).find(|(number, _)| is_found(*number))
        })
    }

    /// The value of each row of [`NAMES`] from the sums of all value paths.
    fn values(&self, found: &[Option<f64>]) -> Vec<Option<f64>> {
        let sum = |number: usize| found.get(number).copied().flatten();
        let value_of = |path: Option<(usize, &ValuePath)>| {
            let (number, path) = path?;
            sum(number).map(|sum| path.value(sum))
        };
        self.value_paths(|number| sum(number).is_some()).map(value_of).collect()
    }
}

/// Adds the counts of the nodes that the rest of a path leads to from a node.
fn add_counts(node: &PathNode, path: &str, counts: &mut Vec<(usize, f64)>) {
    let (word, rest) = path.split_once('.').map_or((path, None), |(word, rest)| (word, Some(rest)));
    for next in node.fields.get(word).into_iter().chain(node.any.as_deref()) {
        match rest {
            Some(rest) => add_counts(next, rest, counts),
            None => counts.extend(&next.counts),
        }
    }
}

/// Walks through a document as deep as the tree, which has five levels. A value that cannot be read ends the walk of its level.
fn walk(node: &PathNode, document: &RawDocument, found: &mut [Option<f64>]) {
    for element in document.iter_elements() {
        let Ok(element) = element else { return };
        let by_name = node.fields.get(element.key().as_str());
        for next in by_name.into_iter().chain(node.any.as_deref()) {
            match element.value() {
                Ok(RawBsonRef::Document(inner)) => walk(next, inner, found),
                Ok(value) if !next.counts.is_empty() => add(&next.counts, value, found),
                _ => {}
            }
        }
    }
}

fn add(counts: &[(usize, f64)], value: RawBsonRef<'_>, found: &mut [Option<f64>]) {
    let Some(value) = number_of(value) else { return };
    for (place, factor) in counts {
        if let Some(sum) = found.get_mut(*place) {
            *sum = Some(sum.unwrap_or(0.0) + value * factor);
        }
    }
}

/// A finite number, also from text: mongo-rocks writes `12`, `345B`, `16KB`, `2MB` or `3GB`.
#[expect(clippy::cast_precision_loss, reason = "a counter above 2^53 loses its last digits, and no more")]
pub(crate) fn number_of(value: RawBsonRef<'_>) -> Option<f64> {
    let number = match value {
        RawBsonRef::Int32(value) => f64::from(value),
        RawBsonRef::Int64(value) => value as f64,
        RawBsonRef::Double(value) => value,
        RawBsonRef::Boolean(value) => f64::from(u8::from(value)),
        RawBsonRef::String(text) => {
            let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let factor = match text.get(digits.len()..)? {
                "" | "B" => 1.0,
                "KB" => 1024.0,
                "MB" => 1024.0 * 1024.0,
                "GB" => 1024.0 * 1024.0 * 1024.0,
                _ => return None,
            };
            digits.parse::<f64>().ok()? * factor
        }
        _ => return None,
    };
    Some(number).filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use bson::{Bson, RawDocumentBuf, doc, rawdoc};
    use fathom_record::catalog::kind_of;

    use super::*;

    fn value(values: &[Option<f64>], series: &str) -> Option<f64> {
        let row = NAMES.iter().position(|name| name.series == series).unwrap();
        values[row]
    }

    #[test]
    fn every_row_is_a_series_of_the_catalog_and_stands_once() {
        for (row, name) in NAMES.iter().enumerate() {
            assert!(kind_of(&format!("server.0.{}", name.series)).is_some(), "{}", name.series);
            assert!(NAMES[row + 1..].iter().all(|other| other.series != name.series), "{}", name.series);
        }
    }

    #[test]
    fn places_are_added_up_and_the_first_counts() {
        let status = rawdoc! {
            "locks": {
                "Global": { "acquireCount": { "r": 9_i64 }, "timeAcquiringMicros": { "r": 5_i64, "W": 2_i64 } },
                "Database": { "timeAcquiringMicros": { "r": 30_i64 } },
            },
            "metrics": { "getLastError": { "wtime": { "num": 1, "totalMillis": 7 } } },
            "wiredTiger": {
                "checkpoint": { "progress state": 5, "total time (msecs)": 12.5 },
                "transaction": { "transaction checkpoint total time (msecs)": 99 },
                "cache": {
                    "page evict attempts by application threads": 10,
                    "page evict failures by application threads": 3,
                },
            },
        };
        let tree = NameTree::new();
        let values = tree.read(&status);
        let expected = [
            ("wait.lock_us", 37.0),
            ("lock.global.wait_us", 7.0),
            ("lock.database.wait_us", 30.0),
            ("wait.replication_us", 7000.0),
            ("replication.waits", 1.0),
            ("checkpoint.running", 1.0),
            ("checkpoint.total_ms", 12.5),
            ("pages.evicted_by_operations", 7.0),
        ];
        for (series, number) in expected {
            assert_eq!(value(&values, series), Some(number), "{series}");
        }
        assert_eq!(values.iter().flatten().count(), expected.len());
        // A server without any lock wait, and the lab server, which counts all its waits in a section of its own.
        let calm = rawdoc! { "locks": { "Global": { "acquireCount": { "r": 9_i64 } } } };
        assert_eq!(value(&tree.read(&calm), "wait.lock_us"), Some(0.0));
        let lab = rawdoc! {
            "fathom": { "locks": { "totalWaitMicros": 5_i64 }, "tickets": { "totalWaitMicros": 7_i64 } },
            "locks": { "Collection": { "acquireCount": { "r": 1_i64 }, "timeAcquiringMicros": { "r": 3_i64 } } },
        };
        for (series, number) in
            [("wait.lock_us", 5.0), ("wait.ticket_us", 7.0), ("lock.collection.wait_us", 3.0)]
        {
            assert_eq!(value(&tree.read(&lab), series), Some(number), "{series}");
        }
    }

    #[test]
    fn numbers_may_be_text_as_in_mongo_rocks() {
        let number = |value: Bson| {
            let document = RawDocumentBuf::try_from(&doc! { "a": value }).unwrap();
            document.get("a").unwrap().and_then(number_of)
        };
        for (text, expected) in [
            ("12", 12.0),
            ("100B", 100.0),
            ("17KB", 17_408.0),
            ("16MB", 16_777_216.0),
            ("1GB", 1_073_741_824.0),
        ] {
            assert_eq!(number(text.into()), Some(expected), "{text}");
        }
        for text in ["", "MB", "x", "1TB", "nan", "inf"] {
            assert_eq!(number(text.into()), None, "{text}");
        }
        assert_eq!((number(Bson::Double(f64::NAN)), number(true.into())), (None, Some(1.0)));
    }
}
