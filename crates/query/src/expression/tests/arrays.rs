//! Tests of arrays, sets and documents.

use bson::{Bson, bson};

use super::{check, check_codes, value};

#[test]
fn elements_and_slices() {
    check(&[
        (bson!({ "$arrayElemAt": ["$numbers", 0] }), bson!(3)),
        (bson!({ "$arrayElemAt": ["$numbers", -1] }), bson!(2)),
        (bson!({ "$arrayElemAt": ["$null", 0] }), Bson::Null),
        (bson!({ "$first": "$numbers" }), bson!(3)),
        (bson!({ "$last": ["$numbers"] }), bson!(2)),
        (bson!({ "$concatArrays": ["$numbers", [4]] }), bson!([3, 1, 2, 4])),
        (bson!({ "$concatArrays": ["$numbers", null] }), Bson::Null),
        (bson!({ "$in": [1.0, "$numbers"] }), bson!(true)),
        (bson!({ "$in": ["x", "$numbers"] }), bson!(false)),
        (bson!({ "$isArray": "$numbers" }), bson!(true)),
        (bson!({ "$isArray": [[1]] }), bson!(true)),
        (bson!({ "$isArray": "x" }), bson!(false)),
        (bson!({ "$size": "$numbers" }), bson!(3)),
        (bson!({ "$reverseArray": "$numbers" }), bson!([2, 1, 3])),
        (bson!({ "$slice": ["$numbers", 2] }), bson!([3, 1])),
        (bson!({ "$slice": ["$numbers", -2] }), bson!([1, 2])),
        (bson!({ "$slice": ["$numbers", 1, 5] }), bson!([1, 2])),
        (bson!({ "$slice": ["$numbers", -5, 1] }), bson!([3])),
        (bson!({ "$range": [0, 10, 4] }), bson!([0, 4, 8])),
        (bson!({ "$range": [5, 0, -2] }), bson!([5, 3, 1])),
        (bson!({ "$range": [0, 3, -1] }), bson!([])),
        (bson!({ "$range": [3, 3] }), bson!([])),
        (bson!({ "$indexOfArray": ["$numbers", 2] }), bson!(2)),
        (bson!({ "$indexOfArray": ["$numbers", 3, 1] }), bson!(-1)),
        (bson!({ "$indexOfArray": [[1, 2, 1], 1, 1, 9] }), bson!(2)),
        (bson!({ "$zip": { "inputs": [["a", "b"], [1, 2, 3]] } }), bson!([["a", 1], ["b", 2]])),
        (
            bson!({ "$zip": { "inputs": [["a"], [1, 2]], "useLongestLength": true, "defaults": ["z", 0] } }),
            bson!([["a", 1], ["z", 2]]),
        ),
        (bson!({ "$zip": { "inputs": [[1], null] } }), Bson::Null),
    ]);
    assert_eq!(value(&bson!({ "$arrayElemAt": ["$numbers", 9] })).unwrap(), None);
    assert_eq!(value(&bson!({ "$first": { "$literal": [] } })).unwrap(), None);
}

#[test]
fn arrays_are_refused_where_they_do_not_fit() {
    check_codes(&[
        (bson!({ "$arrayElemAt": ["x", 0] }), 28689),
        (bson!({ "$arrayElemAt": ["$numbers", "x"] }), 28690),
        (bson!({ "$arrayElemAt": ["$numbers", 1.5] }), 28691),
        (bson!({ "$concatArrays": ["$one"] }), 28664),
        (bson!({ "$in": [1, "$one"] }), 40081),
        (bson!({ "$size": "$nothing" }), 17124),
        (bson!({ "$reverseArray": "x" }), 34435),
        (bson!({ "$slice": ["x", 1] }), 28724),
        (bson!({ "$slice": ["$numbers", "x"] }), 28725),
        (bson!({ "$slice": ["$numbers", 1.5] }), 28726),
        (bson!({ "$slice": ["$numbers", 1, "x"] }), 28727),
        (bson!({ "$slice": ["$numbers", 1, 0] }), 28729),
        (bson!({ "$range": ["x", 1] }), 34443),
        (bson!({ "$range": [1.5, 1] }), 34444),
        (bson!({ "$range": [1, "x"] }), 34445),
        (bson!({ "$range": [1, 1, "x"] }), 34447),
        (bson!({ "$range": [1, 1, 0] }), 34449),
        (bson!({ "$indexOfArray": ["x", 1] }), 40090),
        (bson!({ "$indexOfArray": ["$numbers", 1, "x"] }), 40096),
        (bson!({ "$indexOfArray": ["$numbers", 1, -1] }), 40097),
        (bson!({ "$zip": 1 }), 34460),
        (bson!({ "$zip": { "inputs": 1 } }), 34461),
        (bson!({ "$zip": { "inputs": [], "useLongestLength": 1 } }), 34462),
        (bson!({ "$zip": { "inputs": [] } }), 34465),
        (bson!({ "$zip": { "inputs": [[1]], "defaults": [1] } }), 34466),
        (bson!({ "$zip": { "inputs": [[1]], "useLongestLength": true, "defaults": [1, 2] } }), 34467),
        (bson!({ "$zip": { "inputs": ["$one"] } }), 34468),
    ]);
}

#[test]
fn sets_take_equal_values_for_one() {
    check(&[
        (bson!({ "$setEquals": [[1, 2, 2], [2.0, 1]] }), bson!(true)),
        (bson!({ "$setEquals": [[1], [1, 2]] }), bson!(false)),
        (bson!({ "$setIntersection": [[3, 1, 2], [2, 3.0]] }), bson!([2, 3])),
        (bson!({ "$setIntersection": [[1], null] }), Bson::Null),
        (bson!({ "$setUnion": [[3, 1], [1.0, "a"]] }), bson!([1, 3, "a"])),
        (bson!({ "$setDifference": [[3, 1, 3, 2], [2]] }), bson!([3, 1])),
        (bson!({ "$setIsSubset": [[1, 1], [1, 2]] }), bson!(true)),
        (bson!({ "$anyElementTrue": [[0, "x"]] }), bson!(true)),
        (bson!({ "$allElementsTrue": [[1, null]] }), bson!(false)),
        (bson!({ "$allElementsTrue": [[]] }), bson!(true)),
    ]);
    check_codes(&[
        (bson!({ "$setEquals": [[1]] }), 17045),
        (bson!({ "$setEquals": [[1], 1] }), 17044),
        (bson!({ "$setIntersection": [1] }), 17047),
        (bson!({ "$setUnion": [1] }), 17043),
        (bson!({ "$setDifference": [1, []] }), 17048),
        (bson!({ "$setDifference": [[], 1] }), 17049),
        (bson!({ "$setIsSubset": [1, []] }), 17046),
        (bson!({ "$setIsSubset": [[], 1] }), 17042),
        (bson!({ "$anyElementTrue": ["x"] }), 17041),
        (bson!({ "$allElementsTrue": ["x"] }), 17040),
    ]);
}

#[test]
fn documents_are_merged_and_taken_apart() {
    check(&[
        (bson!({ "$mergeObjects": [{ "a": 1, "b": 1 }, null, { "b": 2 }] }), bson!({ "a": 1, "b": 2 })),
        (bson!({ "$mergeObjects": "$deep.a" }), bson!({ "b": 7 })),
        (bson!({ "$objectToArray": "$deep.a" }), bson!([{ "k": "b", "v": 7 }])),
        (bson!({ "$objectToArray": null }), Bson::Null),
        (bson!({ "$arrayToObject": [[["a", 1], ["b", 2]]] }), bson!({ "a": 1, "b": 2 })),
        (bson!({ "$arrayToObject": [[{ "k": "a", "v": 1 }]] }), bson!({ "a": 1 })),
        (bson!({ "$bsonSize": "$deep.a" }), bson!(12)),
        (bson!({ "$bsonSize": { "$literal": { "b": 7 } } }), bson!(12)),
    ]);
    check_codes(&[
        (bson!({ "$mergeObjects": [1] }), 40400),
        (bson!({ "$objectToArray": 1 }), 40390),
        (bson!({ "$arrayToObject": "x" }), 40386),
        (bson!({ "$arrayToObject": [[["a", 1], { "k": "a", "v": 1 }]] }), 40391),
        (bson!({ "$arrayToObject": [[{ "k": "a" }]] }), 40392),
        (bson!({ "$arrayToObject": [[{ "k": "a", "x": 1 }]] }), 40393),
        (bson!({ "$arrayToObject": [[{ "k": 1, "v": 1 }]] }), 40394),
        (bson!({ "$arrayToObject": [[[1, 1]]] }), 40395),
        (bson!({ "$arrayToObject": [[{ "k": "a", "v": 1 }, ["a", 1]]] }), 40396),
        (bson!({ "$arrayToObject": [[["a"]]] }), 40397),
        (bson!({ "$arrayToObject": [[1]] }), 40398),
        (bson!({ "$bsonSize": 1 }), 31393),
    ]);
}
