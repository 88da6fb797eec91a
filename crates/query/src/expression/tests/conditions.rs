//! Tests of comparisons, boolean operators and conditionals.

use bson::{Bson, bson};

use super::{check, check_codes, value};

#[test]
fn comparison_goes_across_types() {
    check(&[
        (bson!({ "$cmp": [1, 2] }), bson!(-1)),
        (bson!({ "$cmp": ["$one", 1.0] }), bson!(0)),
        (bson!({ "$cmp": ["a", 5] }), bson!(1)),
        (bson!({ "$eq": ["$one", 1_i64] }), bson!(true)),
        (bson!({ "$eq": ["$nothing", null] }), bson!(false)),
        (bson!({ "$lt": ["$nothing", null] }), bson!(true)),
        (bson!({ "$gt": ["$null", "$nothing"] }), bson!(true)),
        (bson!({ "$gt": ["$nothing", { "$literal": Bson::MinKey }] }), bson!(true)),
        (bson!({ "$ne": [[1, 2], "$numbers"] }), bson!(true)),
        (bson!({ "$eq": [[3, 1, 2], "$numbers"] }), bson!(true)),
        (bson!({ "$eq": [{ "b": 7 }, "$deep.a"] }), bson!(true)),
        (bson!({ "$gte": [2, 2] }), bson!(true)),
        (bson!({ "$lte": [3, 2] }), bson!(false)),
    ]);
}

#[test]
fn boolean_operators_stop_early() {
    check(&[
        (bson!({ "$and": [] }), bson!(true)),
        (bson!({ "$or": [] }), bson!(false)),
        (bson!({ "$and": [1, "x", [], {}] }), bson!(true)),
        (bson!({ "$and": [0, { "$divide": [1, 0] }] }), bson!(false)),
        (bson!({ "$or": ["$yes", { "$divide": [1, 0] }] }), bson!(true)),
        (bson!({ "$or": [0, 0.0, null, "$nothing", false] }), bson!(false)),
        (bson!({ "$not": ["$nothing"] }), bson!(true)),
        (bson!({ "$not": "$text" }), bson!(false)),
    ]);
}

#[test]
fn only_the_chosen_branch_is_evaluated() {
    let fails = bson!({ "$divide": [1, 0] });
    check(&[
        (bson!({ "$cond": ["$yes", 1, &fails] }), bson!(1)),
        (bson!({ "$cond": { "if": 0, "then": &fails, "else": "$text" } }), bson!("Hello")),
        (bson!({ "$ifNull": ["$one", &fails] }), bson!(1)),
        (bson!({ "$ifNull": ["$nothing", "$null", 3] }), bson!(3)),
        (
            bson!({ "$switch": { "branches": [{ "case": false, "then": &fails }, { "case": 1, "then": "b" }], "default": &fails } }),
            bson!("b"),
        ),
        (bson!({ "$switch": { "branches": [{ "case": false, "then": 1 }], "default": "d" } }), bson!("d")),
    ]);
    assert_eq!(value(&bson!({ "$cond": [1, "$$REMOVE", 2] })).unwrap(), None);
    check_codes(&[
        (bson!({ "$cond": [1, 2] }), 16020),
        (bson!({ "$cond": { "then": 1, "else": 2 } }), 17080),
        (bson!({ "$cond": { "if": 1, "else": 2 } }), 17081),
        (bson!({ "$cond": { "if": 1, "then": 2 } }), 17082),
        (bson!({ "$cond": { "if": 1, "then": 2, "otherwise": 3 } }), 17083),
        (bson!({ "$ifNull": [1] }), 16020),
        (bson!({ "$switch": [] }), 40060),
        (bson!({ "$switch": { "branches": 1 } }), 40061),
        (bson!({ "$switch": { "branches": [1] } }), 40062),
        (bson!({ "$switch": { "branches": [{ "when": 1 }] } }), 40063),
        (bson!({ "$switch": { "branches": [{ "then": 1 }] } }), 40064),
        (bson!({ "$switch": { "branches": [{ "case": 1 }] } }), 40065),
        (bson!({ "$switch": { "branches": [{ "case": 0, "then": 1 }] } }), 40066),
        (bson!({ "$switch": { "cases": [] } }), 40067),
        (bson!({ "$switch": { "branches": [] } }), 40068),
    ]);
}
