//! Tests of operators that MongoDB has and this server lacks, and of operators that do not exist.

use bson::bson;

use super::check_codes;

#[test]
fn operators_are_refused_by_name() {
    check_codes(&[
        (bson!({ "$foo": 1 }), 168),
        (bson!({ "a": { "$bar": 1 } }), 168),
        (bson!({ "$function": {} }), 115),
        (bson!({ "$accumulator": {} }), 115),
        (bson!({ "$meta": "textScore" }), 115),
        // They came with MongoDB 5.0.
        (bson!({ "$dateAdd": {} }), 168),
        (bson!({ "$getField": "x" }), 168),
        (bson!({ "$not": [1, 2] }), 16020),
        (bson!({ "$size": [] }), 16020),
        (bson!({ "$rand": [1] }), 3040501),
        (bson!({ "$slice": [[1]] }), 28667),
    ]);
}
