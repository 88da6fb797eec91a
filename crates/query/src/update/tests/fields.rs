//! Operators on fields: `$set`, `$unset`, `$inc`, `$mul`, `$min`, `$max`, `$rename`, `$setOnInsert`, `$currentDate`, `$bit`.
use super::{NOW_MS, apply_matched, check, same};
use bson::{Bson, DateTime, Timestamp, doc};

#[test]
fn set_keeps_places_and_appends_in_order() {
    check(vec![
        (doc! {"_id": 1, "a": 1, "b": 2}, doc! {"$set": {"a": "x"}}, Some(doc! {"_id": 1, "a": "x", "b": 2})),
        (
            doc! {"_id": 1},
            doc! {"$set": {"z": 1, "c": 2}, "$inc": {"m": 3}},
            Some(doc! {"_id": 1, "c": 2, "m": 3, "z": 1}),
        ),
        (doc! {"_id": 1, "a": 1}, doc! {"$set": {"a": 1}}, None),
        (doc! {"_id": 1, "a": 1}, doc! {"$set": {"a": 1.0}}, Some(doc! {"_id": 1, "a": 1.0})),
        (doc! {"_id": 1, "a": 1}, doc! {"$set": {"a": 1_i64}}, Some(doc! {"_id": 1, "a": 1_i64})),
        (
            doc! {"_id": 1, "a": {"b": 1, "c": 2}},
            doc! {"$set": {"a": {"c": 2, "b": 1}}},
            Some(doc! {"_id": 1, "a": {"c": 2, "b": 1}}),
        ),
        (doc! {"_id": 1, "a": 1}, doc! {"$set": {"_id": 1}}, None),
        (doc! {"a": {"b": {"c": 1}}}, doc! {"$set": {"a.b.c": 2}}, Some(doc! {"a": {"b": {"c": 2}}})),
        (doc! {"a": 1}, doc! {"$set": {"b.c.d": 2}}, Some(doc! {"a": 1, "b": {"c": {"d": 2}}})),
        (
            doc! {"a": {"x": 1}},
            doc! {"$set": {"a.b.c": 2, "a.b.a": 3}},
            Some(doc! {"a": {"x": 1, "b": {"a": 3, "c": 2}}}),
        ),
        (doc! {"b": 1}, doc! {"$set": {"a.0": 2}}, Some(doc! {"b": 1, "a": {"0": 2}})),
        (doc! {"a": [1, 2, 3]}, doc! {"$set": {"a.1": "x"}}, Some(doc! {"a": [1, "x", 3]})),
        (doc! {"a": [1]}, doc! {"$set": {"a.3": 4}}, Some(doc! {"a": [1, Bson::Null, Bson::Null, 4]})),
        (doc! {"a": [1]}, doc! {"$set": {"a.1.b": 4}}, Some(doc! {"a": [1, {"b": 4}]})),
        (
            doc! {"a": [{"b": 1}, {"b": 2}]},
            doc! {"$set": {"a.1.b": 3, "a.0.c": 4}},
            Some(doc! {"a": [{"b": 1, "c": 4}, {"b": 3}]}),
        ),
        (
            doc! {"a": []},
            doc! {"$set": {"a.10": 1, "a.2": 2}},
            Some(
                doc! {"a": [Bson::Null, Bson::Null, 2, Bson::Null, Bson::Null, Bson::Null, Bson::Null, Bson::Null, Bson::Null, Bson::Null, 1]},
            ),
        ),
        (doc! {"a.b": 1}, doc! {"$set": {"a.b": 2}}, Some(doc! {"a.b": 1, "a": {"b": 2}})),
        (
            doc! {"a": 1},
            doc! {"$set": {"a": {"$ref": "c", "$id": 1, "$db": "d"}}},
            Some(doc! {"a": {"$ref": "c", "$id": 1, "$db": "d"}}),
        ),
    ]);
}

#[test]
fn unset_removes_fields_and_nulls_elements() {
    check(vec![
        (doc! {"_id": 1, "a": 1, "b": 2}, doc! {"$unset": {"a": ""}}, Some(doc! {"_id": 1, "b": 2})),
        (doc! {"a": 1}, doc! {"$unset": {"b": ""}}, None),
        (doc! {"a": {"b": 1, "c": 2}}, doc! {"$unset": {"a.b": 1}}, Some(doc! {"a": {"c": 2}})),
        (doc! {"a": 1}, doc! {"$unset": {"a.b.c": 1}}, None),
        (doc! {"a": [1, 2, 3]}, doc! {"$unset": {"a.1": 1}}, Some(doc! {"a": [1, Bson::Null, 3]})),
        (doc! {"a": [1]}, doc! {"$unset": {"a.5": 1}}, None),
        (doc! {"a": [1]}, doc! {"$unset": {"a.x": 1}}, None),
        (doc! {"$odd": 1, "a": 1}, doc! {"$unset": {"$odd": 1}}, Some(doc! {"a": 1})),
        (doc! {"a": 1, "b": 2}, doc! {"$unset": {"a": 1}, "$set": {"c": 3}}, Some(doc! {"b": 2, "c": 3})),
    ]);
}

#[test]
fn numbers_follow_their_types() {
    let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
    check(vec![
        (doc! {"a": 1}, doc! {"$inc": {"a": 2}}, Some(doc! {"a": 3})),
        (doc! {"a": i32::MAX}, doc! {"$inc": {"a": 1}}, Some(doc! {"a": 1_i64 << 31})),
        (doc! {"a": 1_i64}, doc! {"$inc": {"a": 1}}, Some(doc! {"a": 2_i64})),
        (doc! {"a": 1}, doc! {"$inc": {"a": 0.5}}, Some(doc! {"a": 1.5})),
        (
            doc! {"a": 1.5},
            doc! {"$inc": {"a": decimal("1.5")}},
            Some(doc! {"a": decimal("3.00000000000000")}),
        ),
        (doc! {"a": 1}, doc! {"$inc": {"a": 0}}, None),
        (doc! {"a": 1}, doc! {"$inc": {"a": 0.0}}, Some(doc! {"a": 1.0})),
        (doc! {}, doc! {"$inc": {"a.b": 5}}, Some(doc! {"a": {"b": 5}})),
        (doc! {"a": 3}, doc! {"$mul": {"a": 2}}, Some(doc! {"a": 6})),
        (doc! {}, doc! {"$mul": {"a": 5_i64}}, Some(doc! {"a": 0_i64})),
        (doc! {"a": 3}, doc! {"$mul": {"a": 1}}, None),
        (doc! {"a": 3}, doc! {"$min": {"a": 2.5}}, Some(doc! {"a": 2.5})),
        (doc! {"a": 3}, doc! {"$min": {"a": 3.0}}, None),
        (doc! {"a": 3}, doc! {"$max": {"a": "text"}}, Some(doc! {"a": "text"})),
        (doc! {"a": 3}, doc! {"$max": {"a": 1}}, None),
        (doc! {"a": 3}, doc! {"$min": {"a": Bson::Null}}, Some(doc! {"a": Bson::Null})),
        (doc! {}, doc! {"$min": {"a": 1}, "$max": {"b": 2}}, Some(doc! {"a": 1, "b": 2})),
        (doc! {"a": 13}, doc! {"$bit": {"a": {"and": 10}}}, Some(doc! {"a": 8})),
        (doc! {"a": 3}, doc! {"$bit": {"a": {"or": 5_i64}}}, Some(doc! {"a": 7_i64})),
        (doc! {"a": -1}, doc! {"$bit": {"a": {"xor": 1, "and": 6}}}, Some(doc! {"a": 6})),
        (doc! {}, doc! {"$bit": {"a": {"or": 5}}}, Some(doc! {"a": 5})),
        (doc! {"a": 8}, doc! {"$bit": {"a": {"and": 8}}}, None),
    ]);
}

#[test]
fn renames_move_values() {
    check(vec![
        (
            doc! {"_id": 1, "a": 1, "b": 2},
            doc! {"$rename": {"a": "c"}},
            Some(doc! {"_id": 1, "b": 2, "c": 1}),
        ),
        (doc! {"a": 1, "b": 2}, doc! {"$rename": {"a": "b"}}, Some(doc! {"b": 1})),
        (doc! {"a": 1, "b": 1}, doc! {"$rename": {"a": "b"}}, Some(doc! {"b": 1})),
        (doc! {"b": 1}, doc! {"$rename": {"a": "c"}}, None),
        (
            doc! {"a": {"x": 1, "y": 2}},
            doc! {"$rename": {"a.x": "b.c"}},
            Some(doc! {"a": {"y": 2}, "b": {"c": 1}}),
        ),
        (
            doc! {"a": {"x": 1}},
            doc! {"$rename": {"a.x": "a.z"}, "$set": {"a.y": 0}},
            Some(doc! {"a": {"y": 0, "z": 1}}),
        ),
        (doc! {"a": {}}, doc! {"$rename": {"a.x.y": "b"}}, None),
        (doc! {"a": [1]}, doc! {"$rename": {"a": "b"}}, Some(doc! {"b": [1]})),
    ]);
}

#[test]
fn dates_are_of_the_moment() {
    let stamp = Timestamp { time: 7, increment: 9 };
    let now = DateTime::from_millis(NOW_MS);
    check(vec![
        (
            doc! {"a": 1},
            doc! {"$currentDate": {"a": true, "b": {"$type": "date"}, "c": {"$type": "timestamp"}}},
            Some(doc! {"a": now, "b": now, "c": stamp}),
        ),
        (doc! {"a": now}, doc! {"$currentDate": {"a": false}}, Some(doc! {"a": now})),
    ]);
}

#[test]
fn set_on_insert_waits_for_an_insert() {
    let update = doc! {"$setOnInsert": {"b": 1}, "$set": {"a": 2}};
    check(vec![
        (doc! {"a": 1}, update.clone(), Some(doc! {"a": 2})),
        (doc! {"a": 1}, doc! {"$setOnInsert": {"a": 5}}, None),
    ]);
    let inserted = apply_matched(&doc! {}, update, &[], None, true).unwrap().unwrap();
    same(&inserted, &doc! {"a": 2, "b": 1}, &"inserting");
}
