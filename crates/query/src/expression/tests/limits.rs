//! Tests of the limits of depth, size and work.

use bson::{Bson, bson, doc};

use super::{check_codes, value};

#[test]
fn nesting_is_bounded() {
    let mut expression = bson!(1);
    for _ in 0..90 {
        expression = bson!({ "$add": [expression] });
    }
    assert_eq!(value(&expression).unwrap(), Some(bson!(1)));
    for _ in 0..60 {
        expression = bson!({ "$add": [expression] });
    }
    assert_eq!(value(&expression).unwrap(), Some(bson!(1)));
    for _ in 0..100 {
        expression = bson!({ "$add": expression });
    }
    check_codes(&[(expression, 15)]);
    // A value that grows deeper with each turn.
    let wrap =
        bson!({ "$reduce": { "input": { "$range": [0, 1000] }, "initialValue": [], "in": ["$$value"] } });
    check_codes(&[(wrap, 15)]);
}

#[test]
fn sizes_are_bounded() {
    let doubled = |times: usize| {
        let mut expression = bson!("0123456789abcdef");
        for _ in 0..times {
            expression = Bson::Document(
                doc! { "$let": { "vars": { "x": expression }, "in": { "$concat": ["$$x", "$$x"] } } },
            );
        }
        expression
    };
    assert_eq!(value(&doubled(10)).unwrap().unwrap().as_str().unwrap().len(), 16 << 10);
    check_codes(&[
        (doubled(40), 146),
        (bson!({ "$range": [0, i32::MAX] }), 146),
        (
            bson!({ "$reduce": { "input": { "$range": [0, 100] }, "initialValue": [1], "in": { "$concatArrays": ["$$value", "$$value"] } } }),
            146,
        ),
        (bson!({ "$replaceAll": { "input": doubled(18), "find": "0", "replacement": doubled(18) } }), 146),
    ]);
}
