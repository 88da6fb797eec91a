//! Tests with tables of documents before and after, from MongoDB's documented behaviour, and its errors with their wording.
mod arrays;
mod errors;
mod fields;
mod forms;
mod properties;

use super::*;
use crate::FilterMatch;
use bson::{Bson, DateTime, Document, Timestamp};

pub(super) const NOW_MS: i64 = 1_700_000_000_000;

pub(super) fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

/// The update on one document as the filter found it; `None` if nothing changes.
pub(super) fn apply_matched(
    before: &Document,
    update: impl Into<Bson>,
    array_filters: &[Document],
    position: Option<usize>,
    inserting: bool,
) -> Result<Option<Document>> {
    let variables = Variables::at(DateTime::from_millis(NOW_MS));
    let filters: Vec<RawDocumentBuf> = array_filters.iter().map(raw).collect();
    let filters: Vec<&RawDocument> = filters.iter().map(|filter| &**filter).collect();
    let wrapped = raw(&bson::doc! {"u": update.into()});
    let update = Update::parse(wrapped.get("u").unwrap().unwrap(), &filters, &variables)?;
    let moment = UpdateMoment {
        matched: FilterMatch { position },
        inserting,
        variables: &variables,
        timestamp: Timestamp { time: 7, increment: 9 },
    };
    match update.apply(&raw(before), &moment)? {
        DocumentUpdate::Unchanged => Ok(None),
        DocumentUpdate::Changed(after) => Ok(Some(Document::try_from(after).unwrap())),
    }
}

pub(super) fn apply(before: &Document, update: impl Into<Bson>) -> Result<Option<Document>> {
    apply_matched(before, update, &[], None, false)
}

pub(super) fn upsert(filter: &Document, update: impl Into<Bson>) -> Result<Document> {
    let variables = Variables::at(DateTime::from_millis(NOW_MS));
    let wrapped = raw(&bson::doc! {"u": update.into()});
    let update = Update::parse(wrapped.get("u").unwrap().unwrap(), &[], &variables)?;
    let moment = UpdateMoment {
        matched: FilterMatch::default(),
        inserting: true,
        variables: &variables,
        timestamp: Timestamp { time: 7, increment: 9 },
    };
    let filter = Filter::parse(&raw(filter), &variables)?;
    Ok(Document::try_from(update.upsert(&filter, &moment)?).unwrap())
}

/// Compares with field order, which the library's own equality of documents forgets.
#[track_caller]
pub(super) fn same(left: &Document, right: &Document, about: &dyn std::fmt::Debug) {
    assert_eq!(raw(left), raw(right), "{left} is not {right}: {about:?}");
}

/// Checks a row of each table: before, update, after (`None`: unchanged).
#[track_caller]
pub(super) fn check(rows: Vec<(Document, Document, Option<Document>)>) {
    for (before, update, after) in rows {
        let result =
            apply(&before, update.clone()).unwrap_or_else(|error| panic!("{before} {update}: {error}"));
        match (&result, &after) {
            (Some(result), Some(after)) => same(result, after, &update),
            _ => assert_eq!(result, after, "{before} {update}"),
        }
    }
}

/// Checks code and message.
#[track_caller]
pub(super) fn fails<T: std::fmt::Debug>(result: Result<T>, code: i32, message: &str) {
    let failure = result.expect_err(message);
    assert_eq!((failure.code(), failure.message()), (Code(code), message));
}

/// Prints the cost of the workload's update; run it in release with `--ignored --nocapture`.
#[test]
#[ignore = "a measurement, not a check"]
fn speed() {
    let mut before = bson::doc! {"_id": "user6284781860667377211"};
    for field in 0..10 {
        let bytes = vec![b'a' + field as u8; 100];
        let binary = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes };
        before.insert(format!("field{field}"), binary);
    }
    let before = raw(&before);
    let binary = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![b'z'; 100] };
    let cases = [
        ("$set one of ten fields", bson::doc! {"$set": {"field3": binary.clone()}}),
        ("$set a longer value", bson::doc! {"$set": {"field3": "x".repeat(200)}}),
        (
            "$set the same value",
            bson::doc! {"$set": {"field3": Bson::try_from(before.get("field3").unwrap().unwrap()).unwrap()}},
        ),
        ("$inc a new field", bson::doc! {"$inc": {"n": 1}}),
        ("$set a dotted path", bson::doc! {"$set": {"a.b": 1}}),
        ("replacement", bson::doc! {"field0": binary.clone(), "field1": binary}),
    ];
    let variables = Variables::at(DateTime::from_millis(NOW_MS));
    let moment = UpdateMoment {
        matched: FilterMatch::default(),
        inserting: false,
        variables: &variables,
        timestamp: Timestamp { time: 7, increment: 9 },
    };
    for (name, update) in cases {
        let update = raw(&update);
        let parsed = Update::parse(RawBsonRef::Document(&update), &[], &variables).unwrap();
        let parsing = least_ns(|| {
            std::hint::black_box(Update::parse(RawBsonRef::Document(&update), &[], &variables).unwrap());
        });
        let applying = least_ns(|| {
            std::hint::black_box(parsed.apply(std::hint::black_box(&before), &moment).unwrap());
        });
        println!("{name}: parse {parsing} ns, apply {applying} ns");
    }
}

/// The time of one call in the fastest of many batches, in which no other work uses the core.
fn least_ns(mut call: impl FnMut()) -> u128 {
    let batch = |call: &mut dyn FnMut()| {
        let start = std::time::Instant::now();
        for _ in 0..200 {
            call();
        }
        start.elapsed().as_nanos() / 200
    };
    (0..1000).map(|_| batch(&mut call)).min().unwrap_or(0)
}
