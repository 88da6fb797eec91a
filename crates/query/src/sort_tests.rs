//! Sorting: patterns, arrays, stability, limits.
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
    // The tuple that is least as a whole decides, not the least of each field.
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
