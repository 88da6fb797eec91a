//! Tests of every stage on examples with documented results, and of refusals with their codes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf, doc};

use super::{Pipeline, ProcessInterface, Query, Rows};
use crate::{Code, Failure, Filter, Result, Sorter, Variables};

/// Collections in memory, and what was written.
#[derive(Default)]
struct HostStub {
    collections: HashMap<&'static str, Vec<Document>>,
    written: Mutex<Vec<Document>>,
    /// The number of checks after which the time is over.
    checks: Mutex<Option<u32>>,
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn rows(documents: Vec<Document>) -> Rows {
    Box::new(documents.into_iter().map(|document| Ok(raw(&document))))
}

impl ProcessInterface for HostStub {
    fn find(&self, collection: &str, query: Query) -> Result<Rows> {
        let documents = self.collections.get(collection).cloned().unwrap_or_default();
        let limit = query.limit.map(|limit| usize::try_from(limit).unwrap());
        let mut found = Vec::new();
        for document in &documents {
            if query.filter.matches(&raw(document))?.is_some() {
                found.push(raw(document));
            }
        }
        if let Some(sort) = query.sort {
            let mut sorter = Sorter::new(sort, limit, 1 << 20);
            found.into_iter().try_for_each(|document| sorter.push(document))?;
            found = sorter.finish();
        }
        Ok(Box::new(found.into_iter().take(limit.unwrap_or(usize::MAX)).map(Ok)))
    }

    fn out(&self, _: Option<&str>, collection: &str, rows: Rows) -> Result<()> {
        let mut written = self.written.lock().unwrap();
        written.push(doc! { "out": collection });
        for row in rows {
            written.push(Document::try_from(&*row?).unwrap());
        }
        Ok(())
    }

    fn merge(&self, options: &Document, rows: Rows) -> Result<()> {
        self.out(None, options.get_document("into").unwrap().get_str("coll").unwrap(), rows)
    }

    fn special(&self, collection: Option<&str>, stage: &str, _: &Document) -> Result<Vec<RawDocumentBuf>> {
        Ok(vec![raw(&doc! { "stage": stage, "of": collection.unwrap_or("mine") })])
    }

    fn check(&self) -> Result<()> {
        match &mut *self.checks.lock().unwrap() {
            Some(0) => Err(Failure::new(Code::MaxTimeMSExpired, "operation exceeded time limit")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn random(&self) -> f64 {
        0.5
    }
}

fn parse(stages: &[Document]) -> Result<Pipeline> {
    let stages: Vec<RawDocumentBuf> = stages.iter().map(raw).collect();
    let stages: Vec<&RawDocument> = stages.iter().map(AsRef::as_ref).collect();
    Pipeline::parse(&stages, &Variables::at(DateTime::from_millis(0)))
}

fn run_on(host: Arc<HostStub>, input: Vec<Document>, stages: &[Document]) -> Result<Vec<Document>> {
    let rows = parse(stages)?.run(rows(input), host)?;
    rows.map(|row| Ok(Document::try_from(&*row?).unwrap())).collect()
}

fn run(input: Vec<Document>, stages: &[Document]) -> Vec<Document> {
    run_on(Arc::default(), input, stages).unwrap()
}

fn sales() -> Vec<Document> {
    vec![
        doc! { "_id": 1, "item": "abc", "price": 10, "quantity": 2, "tags": ["a", "b"] },
        doc! { "_id": 2, "item": "jkl", "price": 20, "quantity": 1, "tags": [] },
        doc! { "_id": 3, "item": "xyz", "price": 5, "quantity": 10 },
        doc! { "_id": 4, "item": "abc", "price": 10, "quantity": 10, "tags": "c" },
    ]
}

fn check(cases: Vec<(Vec<Document>, Vec<Document>)>) {
    for (stages, expected) in cases {
        assert_eq!(run(sales(), &stages), expected, "{stages:?}");
    }
}

#[test]
fn stages_make_of_rows_what_the_manual_says() {
    let total = doc! { "$sum": { "$multiply": ["$price", "$quantity"] } };
    let cases: Vec<(Vec<Document>, Vec<Document>)> = vec![
        (
            vec![
                doc! { "$group": { "_id": "$item", "total": total } },
                doc! { "$sort": { "total": -1, "_id": 1 } },
            ],
            vec![
                doc! { "_id": "abc", "total": 120 },
                doc! { "_id": "xyz", "total": 50 },
                doc! { "_id": "jkl", "total": 20 },
            ],
        ),
        (vec![doc! { "$match": { "price": { "$lt": 10 } } }, doc! { "$count": "n" }], vec![doc! { "n": 1 }]),
        (
            vec![doc! { "$unwind": "$tags" }, doc! { "$project": { "tags": 1 } }],
            vec![
                doc! { "_id": 1, "tags": "a" },
                doc! { "_id": 1, "tags": "b" },
                doc! { "_id": 4, "tags": "c" },
            ],
        ),
        (
            vec![
                doc! { "$skip": 1 },
                doc! { "$limit": 1 },
                doc! { "$replaceRoot": { "newRoot": { "is": "$item" } } },
            ],
            vec![doc! { "is": "jkl" }],
        ),
        (
            vec![doc! { "$sortByCount": "$item" }, doc! { "$limit": 1 }],
            vec![doc! { "_id": "abc", "count": 2 }],
        ),
        (
            vec![doc! { "$bucket": { "groupBy": "$price", "boundaries": [0, 10, 20], "default": "more" } }],
            vec![
                doc! { "_id": 0, "count": 1 },
                doc! { "_id": 10, "count": 2 },
                doc! { "_id": "more", "count": 1 },
            ],
        ),
    ];
    check(cases);
}

#[test]
fn stages_that_divide_and_rewrite_rows_do_so() {
    let cases: Vec<(Vec<Document>, Vec<Document>)> = vec![
        (
            vec![doc! { "$bucketAuto": { "groupBy": "$price", "buckets": 2 } }],
            vec![
                doc! { "_id": { "min": 5, "max": 20 }, "count": 3 },
                doc! { "_id": { "min": 20, "max": 20 }, "count": 1 },
            ],
        ),
        (
            vec![
                doc! { "$facet": { "n": [{ "$count": "n" }], "first": [{ "$limit": 1 }, { "$project": { "item": 1 } }] } },
            ],
            vec![doc! { "n": [{ "n": 4 }], "first": [{ "_id": 1, "item": "abc" }] }],
        ),
        (
            vec![
                doc! { "$match": { "_id": 3 } },
                doc! { "$set": { "x.y": { "$add": ["$price", 1] } } },
                doc! { "$unset": ["item", "quantity"] },
            ],
            vec![doc! { "_id": 3, "price": 5, "x": { "y": 6 } }],
        ),
        (
            vec![
                doc! { "$redact": { "$cond": [{ "$eq": ["$item", "jkl"] }, "$$KEEP", "$$PRUNE"] } },
                doc! { "$project": { "item": 1 } },
            ],
            vec![doc! { "_id": 2, "item": "jkl" }],
        ),
    ];
    check(cases);
}

fn host() -> Arc<HostStub> {
    let staff = vec![
        doc! { "_id": 1, "name": "Dev" },
        doc! { "_id": 2, "name": "Eliot", "boss": "Dev" },
        doc! { "_id": 3, "name": "Ron", "boss": "Eliot" },
    ];
    let stock = vec![
        doc! { "_id": 1, "sku": "abc", "left": 120 },
        doc! { "_id": 2, "sku": "xyz" },
        doc! { "_id": 3 },
    ];
    Arc::new(HostStub {
        collections: HashMap::from([("staff", staff), ("stock", stock)]),
        ..HostStub::default()
    })
}

#[test]
fn stages_reach_other_collections() {
    let ids = |rows: &[Document], field: &str| -> Vec<Vec<i32>> {
        let ids = |row: &Document| {
            let found = row.get_array(field).unwrap().iter();
            found.map(|one| one.as_document().unwrap().get_i32("_id").unwrap()).collect()
        };
        rows.iter().map(ids).collect()
    };
    let lookup =
        doc! { "$lookup": { "from": "stock", "localField": "item", "foreignField": "sku", "as": "found" } };
    let mut input = sales();
    input.push(doc! { "_id": 5 });
    let found = run_on(host(), input, &[lookup]).unwrap();
    assert_eq!(ids(&found, "found"), [vec![1], vec![], vec![2], vec![1], vec![3]]);
    let pipeline = doc! { "$lookup": {
        "from": "stock", "let": { "item": "$item" }, "as": "found",
        "pipeline": [{ "$match": { "$expr": { "$ne": ["$sku", "$$item"] } } }, { "$sort": { "_id": -1 } }, { "$limit": 1 }],
    } };
    assert_eq!(ids(&run_on(host(), sales(), &[pipeline]).unwrap(), "found"), [[3], [3], [3], [3]]);
    let graph = doc! { "$graphLookup": {
        "from": "staff", "startWith": "$boss", "connectFromField": "boss", "connectToField": "name", "as": "above",
        "depthField": "depth",
    } };
    let above = run_on(host(), vec![doc! { "_id": 3, "boss": "Eliot" }], &[graph]).unwrap();
    assert_eq!(ids(&above, "above"), [[2, 1]]);
    let union = doc! { "$unionWith": { "coll": "stock", "pipeline": [{ "$match": { "left": 120 } }, { "$project": { "sku": 1 } }] } };
    let rows = run_on(host(), vec![doc! { "_id": 9 }], &[union]).unwrap();
    assert_eq!(rows, [doc! { "_id": 9 }, doc! { "_id": 1, "sku": "abc" }]);
    let special = doc! { "$unionWith": { "coll": "stock", "pipeline": [{ "$collStats": {} }] } };
    let rows = run_on(host(), vec![], &[special]).unwrap();
    assert_eq!(rows, [doc! { "stage": "$collStats", "of": "stock" }]);
}

#[test]
fn rows_are_written_and_none_come_back() {
    for stage in [doc! { "$out": "x" }, doc! { "$merge": "x" }] {
        let host = host();
        let stages = [doc! { "$match": { "_id": 3 } }, doc! { "$project": { "item": 1 } }, stage];
        assert_eq!(run_on(Arc::clone(&host), sales(), &stages).unwrap(), []);
        assert_eq!(*host.written.lock().unwrap(), [doc! { "out": "x" }, doc! { "_id": 3, "item": "xyz" }]);
        let pipeline = parse(&stages).unwrap();
        assert!(pipeline.writes());
        assert_eq!(pipeline.target(), Some((None, "x")));
    }
}

#[test]
fn what_a_plan_can_do_is_taken_off_and_the_rest_is_shown() {
    let stages = [
        doc! { "$match": { "a": 1 } },
        doc! { "$sort": { "b": 1 } },
        doc! { "$match": { "c": 2 } },
        doc! { "$limit": 3 },
        doc! { "$sortByCount": "$x" },
    ];
    let mut pipeline = parse(&stages).unwrap();
    let (filter, sort, limit) = pipeline.take_query();
    assert_eq!(filter, doc! { "$and": [{ "a": 1 }, { "c": 2 }] });
    assert_eq!((sort.unwrap().to_document(), limit), (doc! { "b": 1 }, Some(3)));
    assert_eq!(pipeline.to_documents().cloned().collect::<Vec<_>>(), [doc! { "$sortByCount": "$x" }]);

    let count =
        [doc! { "$match": {} }, doc! { "$skip": 2 }, doc! { "$group": { "_id": null, "n": { "$sum": 1 } } }];
    let mut pipeline = parse(&count).unwrap();
    let (filter, ..) = pipeline.take_query();
    let form = pipeline.take_count().unwrap();
    assert!(filter.is_empty() && pipeline.is_empty() && pipeline.to_documents().next().is_none());
    let counted = form.document(10).unwrap().unwrap();
    assert_eq!(Document::try_from(&*counted).unwrap(), doc! { "_id": null, "n": 8 });
    assert_eq!(form.to_documents()[0], doc! { "$skip": 2_i64 });

    let fields =
        parse(&[doc! { "$group": { "_id": "$a.b", "n": { "$sum": "$c" } } }]).unwrap().needed_fields();
    assert!(fields.unwrap().iter().eq(["a", "c"]));
}

#[test]
fn documents_stand_for_themselves_and_time_can_end() {
    let documents = [doc! { "$documents": [{ "a": { "$add": [1, 2] } }] }, doc! { "$set": { "b": 1 } }];
    assert_eq!(run(vec![], &documents), [doc! { "a": 3, "b": 1 }]);
    let host = Arc::new(HostStub { checks: Mutex::new(Some(3)), ..HostStub::default() });
    let many: Vec<Bson> = (0..1000).map(Bson::Int32).collect();
    let stages = [doc! { "$unwind": "$a" }, doc! { "$unwind": "$b" }, doc! { "$match": { "a": -1 } }];
    let failure = run_on(host, vec![doc! { "a": many.clone(), "b": many }], &stages).unwrap_err();
    assert_eq!(failure.code(), Code::MaxTimeMSExpired);
}

#[test]
fn what_is_wrong_is_refused_with_mongodbs_code() {
    for (stage, code) in [
        (doc! {}, 40323),
        (doc! { "$nope": 1 }, 40324),
        (doc! { "$limit": -1 }, 15958),
        (doc! { "$skip": -1 }, 15956),
        (doc! { "$group": { "n": { "$sum": 1 } } }, 15955),
        (doc! { "$group": { "_id": 1, "n": { "$nope": 1 } } }, 15952),
        (doc! { "$sort": {} }, 15976),
        (doc! { "$project": {} }, 51272),
        (doc! { "$lookup": { "from": "x", "as": "y" } }, 4572),
        (doc! { "$facet": { "x": [{ "$out": "y" }] } }, 40600),
        (doc! { "$unionWith": { "coll": "x", "pipeline": [{ "$out": "y" }] } }, 51047),
        (doc! { "$merge": { "into": "x", "whenMatched": "fail", "whenNotMatched": "discard" } }, 51181),
        (doc! { "$changeStream": {} }, 40573),
        (doc! { "$documents": 5 }, 5858203),
        (doc! { "$geoNear": {} }, Code::CommandNotSupported.0),
        (doc! { "$group": { "_id": 1, "n": { "$accumulator": {} } } }, Code::CommandNotSupported.0),
    ] {
        let failure = run_on(Arc::default(), vec![], std::slice::from_ref(&stage)).unwrap_err();
        assert_eq!(failure.code().0, code, "{stage}: {failure}");
    }
    assert!(Filter::parse(&raw(&doc! {}), &Variables::at(DateTime::from_millis(0))).is_ok());
}
