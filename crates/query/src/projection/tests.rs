//! Tests with tables of documents before and after, and refusals with their wording.
use super::*;
use crate::{Code, Failure};
use bson::{Bson, DateTime, Document, doc};

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn run(
    before: &Document,
    projection: &Document,
    dialect: Dialect,
    position: Option<usize>,
) -> Result<Document> {
    let variables = Variables::at(DateTime::from_millis(0));
    let projection = Projection::parse(&raw(projection), dialect, &variables)?.unwrap();
    let after = projection.apply(&raw(before), FilterMatch { position }, &variables)?;
    Ok(Document::try_from(after).unwrap())
}

#[track_caller]
fn check(dialect: Dialect, rows: Vec<(Document, Document, Document)>) {
    for (before, projection, after) in rows {
        let result = run(&before, &projection, dialect, None)
            .unwrap_or_else(|error| panic!("{before} {projection}: {error}"));
        assert_eq!(raw(&result), raw(&after), "{before} {projection}: {result}");
    }
}

#[track_caller]
fn refused(dialect: Dialect, projection: Document, code: i32, message: &str) {
    let failure = run(&doc! {}, &projection, dialect, None).unwrap_err();
    assert_eq!((failure.code(), failure.message()), (Code(code), message), "{projection}");
}

#[test]
fn inclusions_keep_the_documents_order() {
    let before = doc! {"_id": 1, "a": 1, "b": {"c": 2, "d": 3}, "e": [{"c": 1, "d": 2}, 5, [{"c": 3}]]};
    for dialect in [Dialect::Find, Dialect::Aggregate] {
        check(
            dialect,
            vec![
                (before.clone(), doc! {"a": 1}, doc! {"_id": 1, "a": 1}),
                (before.clone(), doc! {"a": true, "_id": 0}, doc! {"a": 1}),
                (before.clone(), doc! {"b": 1.5, "a": 2_i64}, doc! {"_id": 1, "a": 1, "b": {"c": 2, "d": 3}}),
                (before.clone(), doc! {"b.c": 1}, doc! {"_id": 1, "b": {"c": 2}}),
                (before.clone(), doc! {"b": {"d": 1}, "_id": 0}, doc! {"b": {"d": 3}}),
                (before.clone(), doc! {"e.c": 1, "_id": 0}, doc! {"e": [{"c": 1}, [{"c": 3}]]}),
                (before.clone(), doc! {"a.x": 1, "_id": 0}, doc! {}),
                (before.clone(), doc! {"b.x": 1, "_id": 0}, doc! {"b": {}}),
                (before.clone(), doc! {"_id": 1}, doc! {"_id": 1}),
                (before.clone(), doc! {"x": 1}, doc! {"_id": 1}),
                (doc! {"_id": {"x": 1, "y": 2}, "a": 1}, doc! {"_id.x": 1}, doc! {"_id": {"x": 1}}),
            ],
        );
    }
}

#[test]
fn exclusions_keep_the_rest() {
    let before = doc! {"_id": 1, "a": 1, "b": {"c": 2, "d": 3}, "e": [{"c": 1, "d": 2}, 5, [{"c": 3}]]};
    for dialect in [Dialect::Find, Dialect::Aggregate] {
        check(
            dialect,
            vec![
                (before.clone(), doc! {"b": 0, "e": 0}, doc! {"_id": 1, "a": 1}),
                (before.clone(), doc! {"_id": 0, "b": 0, "e": false}, doc! {"a": 1}),
                (before.clone(), doc! {"_id": 1, "b": 0, "e": 0}, doc! {"_id": 1, "a": 1}),
                (before.clone(), doc! {"b.c": 0, "e": 0}, doc! {"_id": 1, "a": 1, "b": {"d": 3}}),
                (before.clone(), doc! {"a": 0, "b": 0, "e.c": 0}, doc! {"_id": 1, "e": [{"d": 2}, 5, [{}]]}),
                (doc! {"_id": 1, "a": 1}, doc! {"_id": 0}, doc! {"a": 1}),
            ],
        );
    }
}

#[test]
fn slices_and_first_matches() {
    let before = doc! {"_id": 1, "a": [1, 2, 3, 4], "b": 5, "n": {"a": [1, 2]}, "d": [{"x": 1}, {"x": 2}]};
    let only = |projection: Document, field: &str| {
        let after = run(&before, &projection, Dialect::Find, None).unwrap();
        after.get(field).cloned()
    };
    let array = |items: &[i32]| Some(Bson::Array(items.iter().map(|item| Bson::Int32(*item)).collect()));
    assert_eq!(only(doc! {"a": {"$slice": 2}}, "a"), array(&[1, 2]));
    assert_eq!(only(doc! {"a": {"$slice": -3}}, "a"), array(&[2, 3, 4]));
    assert_eq!(only(doc! {"a": {"$slice": -9}}, "a"), array(&[1, 2, 3, 4]));
    assert_eq!(only(doc! {"a": {"$slice": [1, 2]}}, "a"), array(&[2, 3]));
    assert_eq!(only(doc! {"a": {"$slice": [-3, 2]}}, "a"), array(&[2, 3]));
    assert_eq!(only(doc! {"a": {"$slice": [9, 2]}}, "a"), array(&[]));
    assert_eq!(only(doc! {"a": {"$slice": 1}}, "b"), Some(Bson::Int32(5)));
    assert_eq!(only(doc! {"b": {"$slice": 1}}, "b"), Some(Bson::Int32(5)));
    check(
        Dialect::Find,
        vec![
            (before.clone(), doc! {"a": {"$slice": 1}, "b": 1}, doc! {"_id": 1, "a": [1], "b": 5}),
            (before.clone(), doc! {"n.a": {"$slice": 1}, "_id": 1}, doc! {"_id": 1, "n": {"a": [1]}}),
            (before.clone(), doc! {"a": {"$slice": 1}, "n": 0, "d": 0}, doc! {"_id": 1, "a": [1], "b": 5}),
            (before.clone(), doc! {"d": {"$elemMatch": {"x": 2}}}, doc! {"_id": 1, "d": [{"x": 2}]}),
            (before.clone(), doc! {"d": {"$elemMatch": {"x": 3}}}, doc! {"_id": 1}),
            (before.clone(), doc! {"b": {"$elemMatch": {"x": 3}}}, doc! {"_id": 1}),
            (
                before.clone(),
                doc! {"a": {"$elemMatch": {"$gt": 2}}, "b": 1},
                doc! {"_id": 1, "b": 5, "a": [3]},
            ),
            (
                before.clone(),
                doc! {"a": {"$elemMatch": {"$gt": 2}}, "d": 0, "n": 0},
                doc! {"_id": 1, "a": [3], "b": 5},
            ),
        ],
    );
}

#[test]
fn positions_keep_the_matched_element() {
    let before = doc! {"_id": 1, "a": [5, 6, 7], "b": {"c": [1, 2]}, "s": 1};
    let at = |projection: Document, position| run(&before, &projection, Dialect::Find, position);
    assert_eq!(at(doc! {"a.$": 1}, Some(1)).unwrap(), doc! {"_id": 1, "a": [6]});
    assert_eq!(at(doc! {"b.c.$": 1, "s": 1}, Some(1)).unwrap(), doc! {"_id": 1, "b": {"c": [2]}, "s": 1});
    assert_eq!(at(doc! {"s.$": 1}, None).unwrap(), doc! {"_id": 1, "s": 1});
    let failure = |result: Result<Document>| {
        let failure: Failure = result.unwrap_err();
        (failure.code().0, failure.message().to_string())
    };
    assert_eq!(
        failure(at(doc! {"a.$": 1}, None)),
        (51246, "positional operator '.$' couldn't find a matching element in the array".to_string())
    );
    assert_eq!(
        failure(at(doc! {"a.$": 1}, Some(9))),
        (51247, "positional operator '.$' element mismatch".to_string())
    );
}

#[test]
fn computed_fields_come_last() {
    let before = doc! {"_id": 1, "a": 1, "b": {"c": 2, "d": 3}, "e": [{"c": 1}, 5]};
    let bare = |projection: Document| {
        let mut projection = projection;
        projection.insert("_id", 0);
        projection
    };
    for dialect in [Dialect::Find, Dialect::Aggregate] {
        check(
            dialect,
            vec![
                (before.clone(), doc! {"x": {"$add": ["$a", 1]}, "a": 1}, doc! {"_id": 1, "a": 1, "x": 2}),
                (
                    before.clone(),
                    doc! {"z": "$a", "y": "$b.c", "b.d": 1},
                    doc! {"_id": 1, "b": {"d": 3}, "z": 1, "y": 2},
                ),
                (before.clone(), bare(doc! {"a": "text"}), doc! {"a": "text"}),
                (before.clone(), bare(doc! {"a": "$missing", "x": "$$REMOVE"}), doc! {}),
                (before.clone(), bare(doc! {"b.x": "$a", "b.c": 1}), doc! {"b": {"c": 2, "x": 1}}),
                (before.clone(), bare(doc! {"b": {"x": "$a"}}), doc! {"b": {"x": 1}}),
                (before.clone(), bare(doc! {"a.x": "$b.c"}), doc! {"a": {"x": 2}}),
                (before.clone(), bare(doc! {"n.x": "$a"}), doc! {"n": {"x": 1}}),
                (before.clone(), bare(doc! {"e.x": "$a"}), doc! {"e": [{"x": 1}, {"x": 1}]}),
                (before.clone(), doc! {"_id": "$a"}, doc! {"_id": 1}),
                (before.clone(), bare(doc! {"l": ["$a", 7]}), doc! {"l": [1, 7]}),
            ],
        );
    }
    check(
        Dialect::Find,
        vec![(before.clone(), bare(doc! {"e": {"$slice": ["$e", 1]}}), doc! {"e": [{"c": 1}]})],
    );
    let failure = run(&before, &doc! {"x": {"$nonsense": 1}}, Dialect::Find, None).unwrap_err();
    assert!([31325, 168].contains(&failure.code().0), "{failure:?}");
}

#[test]
fn contradictions_are_refused() {
    for dialect in [Dialect::Find, Dialect::Aggregate] {
        refused(
            dialect,
            doc! {"a": 0, "b": 1},
            31253,
            "Cannot do inclusion on field b in exclusion projection",
        );
        refused(
            dialect,
            doc! {"a": 1, "b": 0},
            31254,
            "Cannot do exclusion on field b in inclusion projection",
        );
        refused(
            dialect,
            doc! {"a": 1, "b": {"c": 0}},
            31254,
            "Cannot do exclusion on field b.c in inclusion projection",
        );
        refused(dialect, doc! {"a": 1, "a.b": 1}, 31249, "Path collision at a.b remaining portion b");
        refused(dialect, doc! {"a.b": 1, "a": 1}, 31250, "Path collision at a");
        refused(
            dialect,
            doc! {"a": 0, "b": {"$add": [1, 2]}},
            31252,
            "Cannot use expression other than $meta in exclusion projection",
        );
        refused(
            dialect,
            doc! {"a": 0, "b": "x"},
            31310,
            "Cannot use an expression b: \"x\" in an exclusion projection",
        );
        refused(
            dialect,
            doc! {"a": {}},
            51270,
            "An empty sub-projection is not a valid value. Found empty object at path",
        );
        refused(dialect, doc! {"": 1}, 40352, "FieldPath cannot be constructed with empty string");
        refused(dialect, doc! {"a.": 1}, 40353, "FieldPath must not end with a '.'.");
        refused(dialect, doc! {"a..b": 1}, 15998, "FieldPath field names may not be empty strings.");
        refused(dialect, doc! {"$a": 1}, 16410, "FieldPath field names may not start with '$'.");
    }
}

#[test]
fn what_only_find_has_is_checked() {
    let find = |projection: Document, code, message| refused(Dialect::Find, projection, code, message);
    find(doc! {"a.$": 1, "b.$": 1}, 31276, "Cannot specify more than one positional projection per query.");
    find(
        doc! {"a.$": 1, "b": {"$elemMatch": {"x": 1}}},
        31255,
        "Cannot specify positional operator and $elemMatch.",
    );
    find(
        doc! {"a.$": {"$slice": 1}},
        31271,
        "positional projection cannot be used with an expression or sub object",
    );
    find(
        doc! {"a.b": {"$elemMatch": {"x": 1}}},
        31275,
        "Cannot use $elemMatch projection on a nested field.",
    );
    find(doc! {"a": {"$elemMatch": 1}}, 31274, "elemMatch: Invalid argument, object required, but got int");
    find(doc! {"a": {"$slice": "x"}}, 31273, "$slice only supports numbers and [skip, limit] arrays");
    find(doc! {"a": {"$slice": [1]}}, 31272, "$slice array argument should be of form [skip, limit]");
    find(doc! {"a": {"$slice": [1, 0]}}, 31259, "$slice limit must be positive, got 0");
    find(doc! {"a": {"$meta": "textScore"}}, 115, "The projection operator $meta is not supported");
    refused(
        Dialect::Aggregate,
        doc! {"a.$": 1},
        31324,
        "Cannot use positional projection in aggregation projection",
    );
    refused(Dialect::Aggregate, doc! {"a": {"$elemMatch": {}}}, 168, "Cannot use $elemMatch in this context");
}

#[test]
fn plans_learn_what_is_needed() {
    let variables = Variables::at(DateTime::from_millis(0));
    let parse = |projection: Document| {
        Projection::parse(&raw(&projection), Dialect::Find, &variables).unwrap().unwrap()
    };
    assert_eq!(parse(doc! {"b": 1, "a.c": 1}).included_paths(), Some(vec!["_id", "a.c", "b"]));
    assert_eq!(parse(doc! {"b": 1, "_id": 0}).included_paths(), Some(vec!["b"]));
    assert_eq!(parse(doc! {"b": 0}).included_paths(), None);
    assert_eq!(parse(doc! {"b.$": 1}).included_paths(), None);
    assert_eq!(parse(doc! {"b": 1, "c": {"$slice": 1}}).included_paths(), None);
    assert!(parse(doc! {"b.$": 1}).is_positional() && !parse(doc! {"b": 0}).is_inclusion());
    assert!(Projection::parse(&raw(&doc! {}), Dialect::Find, &variables).unwrap().is_none());
}

/// Every projection of up to three of these fields and values, also of one name twice.
fn small_projections() -> Vec<RawDocumentBuf> {
    let fields = ["_id", "a", "b"].into_iter().flat_map(|name| {
        [Bson::Int32(0), Bson::Int32(2), Bson::Boolean(true), Bson::Boolean(false), Bson::Double(1.0)]
            .map(|value| (name, value))
    });
    let fields: Vec<(&str, Bson)> = fields.collect();
    let mut projections: Vec<Vec<(&str, Bson)>> = vec![Vec::new()];
    for _ in 0..3 {
        let longer: Vec<_> = projections
            .iter()
            .flat_map(|one| fields.iter().map(|field| [one.as_slice(), std::slice::from_ref(field)].concat()))
            .collect();
        projections.extend(longer);
    }
    let raw = |one: &Vec<(&str, Bson)>| {
        let mut document = RawDocumentBuf::new();
        for (name, value) in one {
            let name = bson::raw::CString::try_from(*name).unwrap();
            document.append(name, bson::RawBson::try_from(value.clone()).unwrap());
        }
        document
    };
    projections.iter().filter(|one| !one.is_empty()).map(raw).collect()
}

#[test]
fn the_short_way_for_names_goes_where_the_long_one_goes() {
    let variables = Variables::at(DateTime::from_millis(0));
    let document = raw(&doc! {"b": 1, "_id": 2, "c": 3, "a": 4});
    let mut short = 0;
    for projection in small_projections() {
        let Some(plain) = parse::plain(&projection) else { continue };
        short += 1;
        let long = parse::projection(&projection, Dialect::Find, &variables).unwrap();
        assert_eq!(plain.is_inclusion(), long.is_inclusion(), "{projection:?}");
        assert_eq!(plain.included_paths(), long.included_paths(), "{projection:?}");
        let apply = |one: &Projection| one.apply(&document, FilterMatch::default(), &variables).unwrap();
        assert_eq!(apply(&plain), apply(&long), "{projection:?}");
    }
    assert!(short > 100, "{short} of them took the short way");
}
