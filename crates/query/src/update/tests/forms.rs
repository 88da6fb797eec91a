//! Tests of replacements, upserts, and the properties of an update that the server queries.
use super::*;
use crate::FilterMatch;
use bson::{Document, Timestamp, doc};

#[test]
fn replacements_keep_the_id_and_put_it_first() {
    check(vec![
        (doc! {"_id": 1, "a": 1}, doc! {"b": 2}, Some(doc! {"_id": 1, "b": 2})),
        (doc! {"a": 1, "_id": 1}, doc! {"b": 2, "_id": 1}, Some(doc! {"_id": 1, "b": 2})),
        (doc! {"_id": 1, "a": 1}, doc! {}, Some(doc! {"_id": 1})),
        (doc! {"_id": 1, "a": 1}, doc! {"_id": 1, "a": 1}, None),
        (doc! {"_id": 1}, doc! {"_id": 1.0, "a.b": 1}, Some(doc! {"_id": 1.0, "a.b": 1})),
        (
            doc! {"_id": 1},
            doc! {"t": Timestamp { time: 0, increment: 0 }, "n": {"t": Timestamp { time: 0, increment: 0 }}},
            Some(
                doc! {"_id": 1, "t": Timestamp { time: 7, increment: 9 }, "n": {"t": Timestamp { time: 0, increment: 0 }}},
            ),
        ),
    ]);
}

#[test]
fn upserts_begin_with_the_filter() {
    let rows: Vec<(Document, Document, Document)> = vec![
        (doc! {"_id": 1}, doc! {"$set": {"a": 1}}, doc! {"_id": 1, "a": 1}),
        (doc! {"b": 2, "_id": 1}, doc! {"$set": {"a": 1}}, doc! {"_id": 1, "b": 2, "a": 1}),
        (doc! {"x.z": 1, "x.y": 2}, doc! {"$set": {"x.w": 0}}, doc! {"x": {"y": 2, "z": 1, "w": 0}}),
        (doc! {"_id": 1, "a": {"$gt": 5}}, doc! {"$inc": {"n": 1}}, doc! {"_id": 1, "n": 1}),
        (
            doc! {"$and": [{"a": 1}, {"b": {"$eq": 2}}]},
            doc! {"$set": {"c": 3}},
            doc! {"a": 1, "b": 2, "c": 3},
        ),
        (doc! {"a": 1}, doc! {"$set": {"b": 1, "_id": 7}}, doc! {"_id": 7, "a": 1, "b": 1}),
        (doc! {"_id": 1}, doc! {"$set": {"_id": 1, "a": 1}}, doc! {"_id": 1, "a": 1}),
        (doc! {"a": 1}, doc! {"$setOnInsert": {"b": 1}, "$unset": {"a": 1}}, doc! {"b": 1}),
        (doc! {"a": 1}, doc! {"$inc": {"a": 1}, "$push": {"l": 1}}, doc! {"a": 2, "l": [1]}),
        (doc! {"_id": 1, "a": 1}, doc! {"b": 2}, doc! {"_id": 1, "b": 2}),
        (doc! {"a": 1}, doc! {"b": 2, "_id": 5}, doc! {"_id": 5, "b": 2}),
        (doc! {"a": 1}, doc! {}, doc! {}),
    ];
    for (filter, update, inserted) in rows {
        let result = upsert(&filter, update.clone()).unwrap_or_else(|error| panic!("{filter}: {error}"));
        same(&result, &inserted, &(filter, update));
    }
}

#[test]
fn upserts_that_cannot_be() {
    fails(
        upsert(&doc! {"_id": 1}, doc! {"$set": {"_id": 2}}),
        66,
        "Performing an update on the path '_id' would modify the immutable field '_id'",
    );
    fails(
        upsert(&doc! {"_id": 1}, doc! {"_id": 2}),
        66,
        "After applying the update, the (immutable) field '_id' was found to have been altered to _id: 2",
    );
    fails(
        upsert(&doc! {"$and": [{"a": 1}, {"a": 1}]}, doc! {"$set": {"b": 2}}),
        54,
        "cannot infer query fields to set, path 'a' is matched twice",
    );
    fails(
        upsert(&doc! {"a": {"b": 1}, "a.b": 1}, doc! {"$set": {"b": 2}}),
        54,
        "cannot infer query fields to set, both paths 'a.b' and 'a' are matched",
    );
    fails(
        upsert(&doc! {"_id.x": 1}, doc! {"b": 2}),
        111,
        "field at '_id' must be exactly specified, field at sub-path '_id.x'found",
    );
    fails(
        upsert(&doc! {"a.b": 1}, doc! {"$set": {"a.b.c": 2}}),
        28,
        "Cannot create field 'c' in element {b: 1}",
    );
    fails(upsert(&doc! {}, doc! {"$set": {"_id": [1]}}), 53, "The '_id' value cannot be of type array");
}

#[test]
fn paths_are_those_that_indexes_name() {
    let variables = Variables::at(DateTime::from_millis(0));
    let parse =
        |update: Document| Update::parse(RawBsonRef::Document(&raw(&update)), &[], &variables).unwrap();
    let update = parse(doc! {"$set": {"b.$[].c": 1, "a.0": 2}, "$rename": {"x": "y.z"}});
    assert_eq!(update.paths().unwrap(), ["a", "b.c", "x", "y.z"]);
    assert!(!update.is_replacement());
    let replacement = parse(doc! {"a": 1});
    assert!(replacement.is_replacement() && replacement.paths().is_none());
    fails(
        Update::parse(RawBsonRef::Int32(1), &[], &variables),
        9,
        "Update argument must be either an object or an array",
    );
}

#[test]
fn duplicate_names_and_odd_bytes_stay() {
    let mut before = RawDocumentBuf::new();
    before.append(bson::raw::cstr!("a"), 1);
    before.append(bson::raw::cstr!("x"), 0);
    before.append(bson::raw::cstr!("a"), 2);
    let variables = Variables::at(DateTime::from_millis(0));
    let update = raw(&doc! {"$set": {"a": "new"}});
    let update = Update::parse(RawBsonRef::Document(&update), &[], &variables).unwrap();
    let moment = UpdateMoment {
        matched: FilterMatch::default(),
        inserting: false,
        variables: &variables,
        timestamp: Timestamp { time: 1, increment: 1 },
    };
    let DocumentUpdate::Changed(after) = update.apply(&before, &moment).unwrap() else { panic!("unchanged") };
    let names: Vec<_> = after.iter().map(|element| element.unwrap().0.as_str().to_owned()).collect();
    assert_eq!(names, ["a", "x", "a"]);
    assert_eq!(after.iter().nth(2).unwrap().unwrap().1, RawBsonRef::Int32(2));
}

#[test]
fn pipelines_make_the_document_anew() {
    let rows: Vec<(Document, Vec<Document>, Option<Document>)> = vec![
        (
            doc! {"_id": 1, "a": 1},
            vec![doc! {"$set": {"b": {"$add": ["$a", 1]}}}],
            Some(doc! {"_id": 1, "a": 1, "b": 2}),
        ),
        (doc! {"_id": 1, "a": 1}, vec![doc! {"$addFields": {"a": 1}}], None),
        (
            doc! {"_id": 1, "a": 1, "b": 2},
            vec![doc! {"$unset": "a"}, doc! {"$set": {"c": "$b"}}],
            Some(doc! {"_id": 1, "b": 2, "c": 2}),
        ),
        (doc! {"_id": 1, "a": {"x": 1}}, vec![doc! {"$replaceWith": "$a"}], Some(doc! {"_id": 1, "x": 1})),
        (
            doc! {"_id": 1, "a": 1},
            vec![doc! {"$project": {"_id": 0, "n": "$$NOW"}}],
            Some(doc! {"_id": 1, "n": DateTime::from_millis(NOW_MS)}),
        ),
    ];
    for (before, stages, after) in rows {
        let stages = bson::Bson::Array(stages.into_iter().map(Into::into).collect());
        let result = apply(&before, stages.clone()).unwrap_or_else(|error| panic!("{stages}: {error}"));
        match (&result, &after) {
            (Some(result), Some(after)) => same(result, after, &stages),
            _ => assert_eq!(result, after, "{stages}"),
        }
    }
    let stages = bson::Bson::Array(vec![doc! {"$set": {"_id": 2}}.into()]);
    fails(
        apply(&doc! {"_id": 1}, stages.clone()),
        66,
        "After applying the update, the (immutable) field '_id' was found to have been altered to _id: 2",
    );
    same(&upsert(&doc! {"a": 1}, stages).unwrap(), &doc! {"_id": 2, "a": 1}, &"upsert");
}

#[test]
fn pipelines_are_refused_where_they_do_more_than_change_a_document() {
    let stages = |stage: Document| bson::Bson::Array(vec![stage.into()]);
    fails(
        apply(&doc! {"_id": 1}, stages(doc! {"$match": {"a": 1}})),
        72,
        "$match is not allowed to be used within an update",
    );
    fails(
        apply(&doc! {"_id": 1}, bson::Bson::Array(vec![1.into()])),
        14,
        "Each element of the 'pipeline' array must be an object",
    );
    fails(
        apply_matched(&doc! {}, stages(doc! {"$set": {"a": 1}}), &[doc! {"x": 1}], None, false),
        9,
        "arrayFilters may not be specified for pipeline-syle updates",
    );
}
