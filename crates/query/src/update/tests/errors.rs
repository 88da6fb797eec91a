//! Tests of refused updates, with MongoDB's codes and wording.
use super::{apply, fails};
use bson::{Bson, Document, doc};

/// Checks the refusal of an update of `{_id: 1, a: 1, d: 1.5, n: {x: 1}, r: [1, 2], s: "x", max: 2^63-1}`.
fn refused(update: Document, code: i32, message: &str) {
    let before = doc! {"_id": 1, "a": 1, "d": 1.5, "n": {"x": 1}, "r": [1, 2], "s": "x", "max": i64::MAX};
    fails(apply(&before, update), code, message);
}

#[test]
fn paths_that_cannot_be() {
    refused(doc! {"$set": {"a.b": 1}}, 28, "Cannot create field 'b' in element {a: 1}");
    refused(doc! {"$set": {"r.x": 1}}, 28, "Cannot create field 'x' in element {r: [ 1, 2 ]}");
    refused(doc! {"$set": {"r.0.x": 1}}, 28, "Cannot create field 'x' in element {0: 1}");
    refused(doc! {"$pull": {"a.b": 1}}, 28, "Cannot create field 'b' in element {a: 1}");
    refused(doc! {"$set": {"a": 1, "a.b": 2}}, 40, "Updating the path 'a.b' would create a conflict at 'a'");
    refused(
        doc! {"$set": {"a": 1}, "$inc": {"a": 2}},
        40,
        "Updating the path 'a' would create a conflict at 'a'",
    );
    refused(
        doc! {"$rename": {"a": "b"}, "$set": {"b.c": 2}},
        40,
        "Updating the path 'b.c' would create a conflict at 'b'",
    );
    refused(doc! {"$set": {"": 1}}, 56, "An empty update path is not valid.");
    refused(
        doc! {"$set": {"a..b": 1}},
        56,
        "The update path 'a..b' contains an empty field name, which is not allowed.",
    );
    refused(doc! {"$set": {"r.2000000": 1}}, 34, "can't backfill more than 1500000 elements");
    let deep = vec!["a"; 181].join(".");
    refused(doc! {"$set": {deep: 1}}, 15, "Document exceeds maximum nesting depth of 180");
}

#[test]
fn the_id_stays() {
    refused(
        doc! {"$set": {"_id": 2}},
        66,
        "Performing an update on the path '_id' would modify the immutable field '_id'",
    );
    refused(
        doc! {"$unset": {"_id": 1}},
        66,
        "Performing an update on the path '_id' would modify the immutable field '_id'",
    );
    refused(
        doc! {"$rename": {"s": "_id"}, "$set": {"b": 1}},
        66,
        "Performing an update on the path '_id' would modify the immutable field '_id'",
    );
    refused(
        doc! {"_id": 2, "a": 1},
        66,
        "After applying the update, the (immutable) field '_id' was found to have been altered to _id: 2",
    );
}

#[test]
fn modifiers_that_are_not_ones() {
    let unknown = |name: &str| {
        format!(
            "Unknown modifier: {name}. Expected a valid update modifier or pipeline-style update specified as an array"
        )
    };
    refused(doc! {"$foo": {"a": 1}}, 9, &unknown("$foo"));
    refused(doc! {"$pushAll": {"a": [1]}}, 9, &unknown("$pushAll"));
    refused(doc! {"$set": {"a": 1}, "b": 1}, 9, &unknown("b"));
    refused(
        doc! {"$set": {}},
        9,
        "'$set' is empty. You must specify a field like so: {$set: {<field>: ...}}",
    );
    refused(
        doc! {"$set": 5},
        9,
        "Modifiers operate on fields but we found type int instead. For example: {$mod: {<field>: ...}} not {$set: 5}",
    );
    refused(
        doc! {"a": 1, "$set": {"b": 1}},
        52,
        "The dollar ($) prefixed field '$set' in '$set' is not valid for storage.",
    );
}

#[test]
fn names_that_may_not_be_stored() {
    refused(
        doc! {"$set": {"a": {"$b": 1}}},
        52,
        "The dollar ($) prefixed field '$b' in 'a.$b' is not valid for storage.",
    );
    refused(
        doc! {"$set": {"n.$b": 1}},
        52,
        "The dollar ($) prefixed field '$b' in 'n.$b' is not valid for storage.",
    );
    refused(
        doc! {"$push": {"r": {"x": [{"$y": 1}]}}},
        52,
        "The dollar ($) prefixed field '$y' in 'r.x.0.$y' is not valid for storage.",
    );
    refused(
        doc! {"$set": {"a": {"$ref": 1, "$id": 1}}},
        55,
        "The DBRef $ref field must be a String, not a int",
    );
    refused(doc! {"$set": {"a": {"$ref": "c"}}}, 55, "The DBRef $ref field must be followed by a $id field");
    refused(
        doc! {"$set": {"a": {"$id": 1}}},
        55,
        "Found $id field without a $ref before it, which is invalid.",
    );
    refused(
        doc! {"a": {"$b": 1}},
        52,
        "The dollar ($) prefixed field '$b' in 'a.$b' is not valid for storage.",
    );
    refused(doc! {"_id": [1]}, 53, "The '_id' value cannot be of type array");
}

#[test]
fn numbers_that_do_not_fit() {
    refused(doc! {"$inc": {"a": "x"}}, 14, "Cannot increment with non-numeric argument: {a: \"x\"}");
    refused(doc! {"$mul": {"a": Bson::Null}}, 14, "Cannot multiply with non-numeric argument: {a: null}");
    refused(
        doc! {"$inc": {"s": 1}},
        14,
        "Cannot apply $inc to a value of non-numeric type. {_id: 1} has the field 's' of non-numeric type string",
    );
    refused(
        doc! {"$inc": {"max": 1}},
        2,
        "Failed to apply $inc operations to current value ((NumberLong)9223372036854775807) for document {_id: 1}",
    );
    refused(
        doc! {"$bit": {"d": {"and": 1}}},
        2,
        "Cannot apply $bit to a value of non-integral type._id: 1 has the field d of non-integer type double",
    );
    refused(
        doc! {"$bit": {"a": {"and": 1.5}}},
        2,
        "The $bit modifier field must be an Integer(32/64 bit); a 'double' is not supported here: {and: 1.5}",
    );
    refused(
        doc! {"$bit": {"a": {"not": 1}}},
        2,
        "The $bit modifier only supports 'and', 'or', and 'xor', not 'not' which is an unknown operator: {not: 1}",
    );
    refused(
        doc! {"$bit": {"a": {}}},
        2,
        "You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}",
    );
}

#[test]
fn arrays_that_are_none() {
    refused(
        doc! {"$push": {"a": 1}},
        2,
        "The field 'a' must be an array but is of type int in document {_id: 1}",
    );
    refused(
        doc! {"$addToSet": {"n.x": 1}},
        2,
        "Cannot apply $addToSet to non-array field. Field named 'x' has non-array type int",
    );
    refused(doc! {"$pull": {"a": 1}}, 2, "Cannot apply $pull to a non-array value");
    refused(doc! {"$pullAll": {"a": [1]}}, 2, "Cannot apply $pull to a non-array value");
    refused(doc! {"$pop": {"a": 1}}, 14, "Path 'a' contains an element of non-array type 'int'");
}

#[test]
fn arguments_of_array_operators() {
    refused(doc! {"$pullAll": {"r": 1}}, 2, "$pullAll requires an array argument but was given a int");
    refused(doc! {"$pop": {"r": 2}}, 9, "$pop expects 1 or -1, found: 2");
    refused(doc! {"$pop": {"r": "x"}}, 9, "Expected a number in: r: \"x\"");
    let push = |clauses: Document| doc! {"$push": {"r": clauses}};
    refused(
        push(doc! {"$each": 1}),
        2,
        "The argument to $each in $push must be an array but it was of type: int",
    );
    refused(push(doc! {"$each": [], "$x": 1}), 2, "Unrecognized clause in $push: $x");
    refused(
        push(doc! {"$each": [], "$slice": "x"}),
        2,
        "The value for $slice must be an integer value but was given type: string",
    );
    refused(
        push(doc! {"$each": [], "$position": 1.5}),
        2,
        "The value for $position must be an integer value, not of type: double",
    );
    refused(push(doc! {"$each": [], "$sort": 2}), 2, "The $sort element value must be either 1 or -1");
    refused(
        push(doc! {"$each": [], "$sort": {}}),
        2,
        "The $sort pattern is empty when it should be a set of fields.",
    );
    refused(
        push(doc! {"$each": [], "$sort": "x"}),
        2,
        "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields",
    );
    refused(
        push(doc! {"$slice": 1}),
        52,
        "The dollar ($) prefixed field '$slice' in 'r.$slice' is not valid for storage.",
    );
    refused(
        doc! {"$addToSet": {"r": {"$each": 1}}},
        14,
        "The argument to $each in $addToSet must be an array but it was of type int",
    );
    refused(
        doc! {"$addToSet": {"r": {"$each": [], "x": 1}}},
        2,
        "Found unexpected fields after $each in $addToSet: { $each: [], x: 1 }",
    );
}

#[test]
fn arguments_of_dates_and_renames() {
    refused(
        doc! {"$currentDate": {"a": 1}},
        2,
        "int is not valid type for $currentDate. Please use a boolean ('true') or a $type expression ({$type: 'timestamp/date'}).",
    );
    refused(
        doc! {"$currentDate": {"a": {"$type": "x"}}},
        2,
        "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: 'date'}}}",
    );
    refused(doc! {"$currentDate": {"a": {"x": 1}}}, 2, "Unrecognized $currentDate option: x");
    refused(doc! {"$rename": {"a": 1}}, 2, "The 'to' field for $rename must be a string: a: 1");
    refused(doc! {"$rename": {"a": "a"}}, 2, "The source and target field for $rename must differ: a: \"a\"");
    refused(
        doc! {"$rename": {"a": "a.b"}},
        2,
        "The source and target field for $rename must not be on the same path: a: \"a.b\"",
    );
    refused(doc! {"$rename": {"r.$": "b"}}, 2, "The source field for $rename may not be dynamic: r.$");
    refused(
        doc! {"$rename": {"a": "b.$[]"}},
        2,
        "The destination field for $rename may not be dynamic: b.$[]",
    );
    refused(
        doc! {"$rename": {"r.0": "b"}},
        2,
        "The source field cannot be an array element, 'r.0' in doc with _id: 1 has an array field called 'r'",
    );
    refused(
        doc! {"$rename": {"a": "r.0"}},
        2,
        "The destination field cannot be an array element, 'r.0' in doc with _id: 1 has an array field called 'r'",
    );
}

#[test]
fn documents_that_grow_too_large() {
    let text = "x".repeat(16 * 1024 * 1024 - 100);
    let before = doc! {"_id": 1, "a": text};
    fails(
        apply(&before, doc! {"$set": {"b": "y".repeat(200)}}),
        17419,
        "Resulting document after update is larger than 16777216",
    );
    let failure = apply(&before, doc! {"$set": {"b": "y".repeat(20_000)}}).unwrap_err();
    assert_eq!(failure.code().0, 10334);
    assert!(failure.message().starts_with("BSONObj size: 16797"), "{failure}");
    assert!(apply(&before, doc! {"$set": {"b": 1}}).unwrap().is_some());
}
