//! Tests of operators on arrays, and of the positions `$`, `$[]` and `$[identifier]`.
use super::{apply_matched, check, fails, same};
use bson::{Bson, Document, Regex, doc, raw::cstr};

#[test]
fn push_adds_places_sorts_and_slices() {
    let push = |clauses: Document| doc! {"$push": {"a": clauses}};
    check(vec![
        (doc! {"a": [1]}, doc! {"$push": {"a": 2}}, Some(doc! {"a": [1, 2]})),
        (doc! {}, doc! {"$push": {"a.b": 2}}, Some(doc! {"a": {"b": [2]}})),
        (doc! {"a": [1]}, doc! {"$push": {"a": [2, 3]}}, Some(doc! {"a": [1, [2, 3]]})),
        (doc! {"a": [1]}, push(doc! {"$each": [2, 3]}), Some(doc! {"a": [1, 2, 3]})),
        (doc! {"a": [1]}, push(doc! {"$each": []}), None),
        (doc! {}, push(doc! {"$each": []}), Some(doc! {"a": []})),
        (doc! {"a": [1, 4]}, push(doc! {"$each": [2, 3], "$position": 1}), Some(doc! {"a": [1, 2, 3, 4]})),
        (doc! {"a": [1, 4]}, push(doc! {"$each": [2], "$position": -1}), Some(doc! {"a": [1, 2, 4]})),
        (doc! {"a": [1, 4]}, push(doc! {"$each": [2], "$position": -9}), Some(doc! {"a": [2, 1, 4]})),
        (doc! {"a": [1, 4]}, push(doc! {"$each": [2], "$position": 9}), Some(doc! {"a": [1, 4, 2]})),
        (doc! {"a": [1, 2]}, push(doc! {"$each": [3, 4], "$slice": 3}), Some(doc! {"a": [1, 2, 3]})),
        (doc! {"a": [1, 2]}, push(doc! {"$each": [3, 4], "$slice": -3}), Some(doc! {"a": [2, 3, 4]})),
        (doc! {"a": [1, 2]}, push(doc! {"$each": [3], "$slice": 0}), Some(doc! {"a": []})),
        (doc! {"a": [1, 2]}, push(doc! {"$each": [], "$slice": 5}), None),
        (doc! {"a": [1, 2]}, push(doc! {"$each": [], "$slice": i64::MIN}), None),
        (doc! {"a": [3, 1]}, push(doc! {"$each": [2, "x"], "$sort": -1}), Some(doc! {"a": ["x", 3, 2, 1]})),
        (
            doc! {"a": [{"x": 3}, {"x": 1, "y": 2}]},
            push(doc! {"$each": [{"x": 1, "y": 1}, 5], "$sort": {"x": 1, "y": -1}, "$slice": 3.0}),
            Some(doc! {"a": [5, {"x": 1, "y": 2}, {"x": 1, "y": 1}]}),
        ),
        (
            doc! {"a": [{"x": {"y": 2}}, {"x": {"y": 1}}]},
            push(doc! {"$each": [], "$sort": {"x.y": 1}}),
            Some(doc! {"a": [{"x": {"y": 1}}, {"x": {"y": 2}}]}),
        ),
    ]);
}

#[test]
fn add_to_set_compares_by_value() {
    check(vec![
        (doc! {"a": [1]}, doc! {"$addToSet": {"a": 1.0}}, None),
        (doc! {"a": [1]}, doc! {"$addToSet": {"a": 2}}, Some(doc! {"a": [1, 2]})),
        (doc! {"a": [1]}, doc! {"$addToSet": {"a": {"$each": [3, 1, 2, 3.0]}}}, Some(doc! {"a": [1, 3, 2]})),
        (
            doc! {"a": [{"x": 1, "y": 2}]},
            doc! {"$addToSet": {"a": {"y": 2, "x": 1}}},
            Some(doc! {"a": [{"x": 1, "y": 2}, {"y": 2, "x": 1}]}),
        ),
        (doc! {}, doc! {"$addToSet": {"a": {"$each": [2, 2, 1]}}}, Some(doc! {"a": [2, 1]})),
        (doc! {"a": [1]}, doc! {"$addToSet": {"a": [1]}}, Some(doc! {"a": [1, [1]]})),
    ]);
}

#[test]
fn pull_takes_values_conditions_and_documents() {
    let pattern = Regex { pattern: cstr!("^b").into(), options: cstr!("").into() };
    check(vec![
        (doc! {"a": [1, 2, 1.0, 3]}, doc! {"$pull": {"a": 1}}, Some(doc! {"a": [2, 3]})),
        (doc! {"a": [2]}, doc! {"$pull": {"a": 1}}, None),
        (doc! {"b": 1}, doc! {"$pull": {"a": 1}}, None),
        (doc! {"a": [1, 5, 9]}, doc! {"$pull": {"a": {"$gte": 5}}}, Some(doc! {"a": [1]})),
        (doc! {"a": [1, 5, 9]}, doc! {"$pull": {"a": {"$in": [1, 9]}}}, Some(doc! {"a": [5]})),
        (doc! {"a": ["abc", "bcd", 3]}, doc! {"$pull": {"a": pattern}}, Some(doc! {"a": ["abc", 3]})),
        (
            doc! {"a": [{"x": 1, "y": 2}, {"x": 2}, 1]},
            doc! {"$pull": {"a": {"x": 1}}},
            Some(doc! {"a": [{"x": 2}, 1]}),
        ),
        (
            doc! {"a": [{"x": 5}, {"x": 2}]},
            doc! {"$pull": {"a": {"x": {"$gt": 3}}}},
            Some(doc! {"a": [{"x": 2}]}),
        ),
        (
            doc! {"a": [{"r": [{"q": 1, "s": 9}]}, {"r": []}]},
            doc! {"$pull": {"a": {"r": {"$elemMatch": {"q": 1, "s": {"$gt": 8}}}}}},
            Some(doc! {"a": [{"r": []}]}),
        ),
        (doc! {"a": [[1, 2], [3]]}, doc! {"$pull": {"a": [1, 2]}}, Some(doc! {"a": [[3]]})),
        (doc! {"a": {"b": [1, 2]}}, doc! {"$pull": {"a.b": 2}}, Some(doc! {"a": {"b": [1]}})),
        (doc! {"a": [1, 2, 3, 2]}, doc! {"$pullAll": {"a": [2, 3.0]}}, Some(doc! {"a": [1]})),
        (doc! {"a": [1]}, doc! {"$pullAll": {"a": [2]}}, None),
        (doc! {"a": [1, 2, 3]}, doc! {"$pop": {"a": 1}}, Some(doc! {"a": [1, 2]})),
        (doc! {"a": [1, 2, 3]}, doc! {"$pop": {"a": -1.0}}, Some(doc! {"a": [2, 3]})),
        (doc! {"a": []}, doc! {"$pop": {"a": 1}}, None),
        (doc! {"b": []}, doc! {"$pop": {"a": 1}}, None),
    ]);
}

#[test]
fn positions_are_filled_in() {
    let before = doc! {"_id": 1, "a": [{"x": 1, "y": [1, 5]}, {"x": 2, "y": [7]}]};
    let run = |update: Document, filters: &[Document], position| {
        apply_matched(&before, update, filters, position, false).unwrap()
    };
    let after = run(doc! {"$set": {"a.$.x": 9}}, &[], Some(1)).unwrap();
    same(&after, &doc! {"_id": 1, "a": [{"x": 1, "y": [1, 5]}, {"x": 9, "y": [7]}]}, &"matched");
    let after = run(doc! {"$inc": {"a.$[].x": 10}}, &[], None).unwrap();
    same(&after, &doc! {"_id": 1, "a": [{"x": 11, "y": [1, 5]}, {"x": 12, "y": [7]}]}, &"every");
    let filters = [doc! {"big": {"$gte": 5}}, doc! {"first.x": 1}];
    let after = run(doc! {"$set": {"a.$[first].y.$[big]": 0}}, &filters, None).unwrap();
    same(&after, &doc! {"_id": 1, "a": [{"x": 1, "y": [1, 0]}, {"x": 2, "y": [7]}]}, &"filtered");
    let after = run(doc! {"$push": {"a.$[].y": 3}}, &[], None).unwrap();
    same(&after, &doc! {"_id": 1, "a": [{"x": 1, "y": [1, 5, 3]}, {"x": 2, "y": [7, 3]}]}, &"push");
    let none = [doc! {"e.x": 100}];
    assert_eq!(run(doc! {"$set": {"a.$[e].x": 0}}, &none, None), None);
    let after = run(doc! {"$unset": {"a.$": 1}}, &[], Some(0)).unwrap();
    same(&after, &doc! {"_id": 1, "a": [Bson::Null, {"x": 2, "y": [7]}]}, &"unset");
}

#[test]
fn positions_that_lead_nowhere_are_refused() {
    let before = doc! {"_id": 1, "a": [1], "b": 2};
    let run = |update: Document, filters: &[Document]| apply_matched(&before, update, filters, None, false);
    fails(
        run(doc! {"$set": {"a.$": 1}}, &[]),
        2,
        "The positional operator did not find the match needed from the query.",
    );
    fails(
        run(doc! {"$set": {"c.$[]": 1}}, &[]),
        2,
        "The path 'c' must exist in the document in order to apply array updates.",
    );
    fails(run(doc! {"$set": {"b.$[]": 1}}, &[]), 2, "Cannot apply array updates to non-array element b: 2");
    fails(
        run(doc! {"$set": {"a.$[x]": 1}}, &[]),
        2,
        "No array filter found for identifier 'x' in path 'a.$[x]'",
    );
    fails(
        run(doc! {"$set": {"a.$[]": 1}}, &[doc! {"x": 1}]),
        9,
        "The array filter for identifier 'x' was not used in the update { $set: { a.$[]: 1 } }",
    );
    fails(
        run(doc! {"$set": {"a.$[x]": 1}}, &[doc! {"x": 1}, doc! {"x": 2}]),
        9,
        "Found multiple array filters with the same top-level field name x",
    );
    fails(
        run(doc! {"$set": {"a.$[x]": 1}}, &[doc! {"x": 1, "y": 2}]),
        9,
        "Error parsing array filter :: caused by :: Expected a single top-level field name, found 'x' and 'y'",
    );
    fails(
        run(doc! {"$set": {"a.$[x]": 1}}, &[doc! {}]),
        9,
        "Cannot use an expression without a top-level field name in arrayFilters",
    );
    fails(
        run(doc! {"$set": {"a.$[X]": 1}}, &[doc! {"X": 1}]),
        2,
        "Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric string beginning with a lowercase letter, found 'X'",
    );
    fails(
        run(doc! {"$set": {"$[].a": 1}}, &[]),
        2,
        "Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in path '$[].a'",
    );
    fails(
        run(doc! {"$set": {"a.$.b.$": 1}}, &[]),
        2,
        "Too many positional (i.e. '$') elements found in path 'a.$.b.$'",
    );
    fails(
        apply_matched(&before, doc! {"$set": {"a.$": 1, "a.0": 2}}, &[], Some(0), false),
        40,
        "Update created a conflict at 'a.0'",
    );
}
