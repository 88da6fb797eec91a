//! Tests of paths and variables.

use bson::{Bson, DateTime, bson, doc};

use super::{MOMENT, check, check_codes, value};

#[test]
fn paths_go_through_documents_and_arrays() {
    check(&[
        (bson!("$one"), bson!(1)),
        (bson!("$deep.a.b"), bson!(7)),
        (bson!("$deep.list.x"), bson!([1, 2])),
        (bson!("$deep.list.nothing"), bson!([])),
        (bson!("$$ROOT.deep.a"), bson!({ "b": 7 })),
        (bson!("$$CURRENT.one"), bson!(1)),
        (bson!("$$given"), bson!(42)),
        (bson!("$$NOW"), Bson::DateTime(DateTime::from_millis(MOMENT))),
        (bson!("plain"), bson!("plain")),
        (bson!({ "$literal": "$one" }), bson!("$one")),
        (bson!({ "$const": { "$add": [1, 2] } }), Bson::Document(doc! { "$add": [1, 2] })),
    ]);
    for missing in ["$nothing", "$one.x", "$numbers.0.x.y", "$$REMOVE", "$deep.list.x.z.w", "$null.x"] {
        let found = value(&bson!(missing)).unwrap();
        assert!(found.is_none() || found == Some(bson!([])), "{missing}: {found:?}");
    }
    assert_eq!(value(&bson!("$$REMOVE")).unwrap(), None);
}

#[test]
fn objects_and_arrays_are_put_together() {
    check(&[
        (
            bson!({ "a": "$one", "b": "$nothing", "c": { "d": "$text" } }),
            bson!({ "a": 1, "c": { "d": "Hello" } }),
        ),
        (bson!(["$one", "$nothing", { "x": "$null" }]), bson!([1, null, { "x": null }])),
        (bson!({}), bson!({})),
    ]);
}

#[test]
fn names_are_checked() {
    check_codes(&[
        (bson!("$"), 16872),
        (bson!("$a."), 40353),
        (bson!("$a..b"), 15998),
        (bson!("$a.$b"), 16410),
        (bson!("$$"), 16869),
        (bson!("$$1x"), 16870),
        (bson!("$$a-b"), 16871),
        (bson!("$$unknown.x"), 17276),
        (bson!("$$CLUSTER_TIME"), 51144),
        (bson!({ "a.b": 1 }), 16412),
        (bson!({ "a": 1, "$add": 2 }), 16410),
        (bson!({ "$add": 2, "a": 1 }), 15983),
        (bson!({ "": 1 }), 15998),
    ]);
}

#[test]
fn operators_bind_variables() {
    check(&[
        (bson!({ "$let": { "vars": { "x": "$one", "y": 2 }, "in": { "$add": ["$$x", "$$y"] } } }), bson!(3)),
        (
            bson!({ "$let": { "vars": { "x": 1 }, "in": { "$let": { "vars": { "x": 2, "z": "$$x" }, "in": ["$$x", "$$z"] } } } }),
            bson!([2, 1]),
        ),
        (bson!({ "$let": { "vars": { "CURRENT": "$deep" }, "in": ["$a.b", "$$ROOT.one"] } }), bson!([7, 1])),
        (bson!({ "$let": { "vars": { "d": "$deep" }, "in": "$$d.list.x" } }), bson!([1, 2])),
        (
            bson!({ "$map": { "input": "$numbers", "as": "n", "in": { "$add": ["$$n", "$one"] } } }),
            bson!([4, 2, 3]),
        ),
        (bson!({ "$map": { "input": "$numbers", "in": "$$this" } }), bson!([3, 1, 2])),
        (bson!({ "$map": { "input": "$nothing", "in": 1 } }), Bson::Null),
        (bson!({ "$map": { "input": [1], "in": "$nothing" } }), bson!([null])),
        (
            bson!({ "$filter": { "input": "$numbers", "as": "n", "cond": { "$gt": ["$$n", 1] } } }),
            bson!([3, 2]),
        ),
        (
            bson!({ "$filter": { "input": "$deep.list", "cond": "$$this.x" } }),
            bson!([{ "x": 1 }, { "x": 2 }, [{ "x": 9 }]]),
        ),
        (
            bson!({ "$reduce": { "input": "$numbers", "initialValue": 10, "in": { "$subtract": ["$$value", "$$this"] } } }),
            bson!(4),
        ),
        (
            bson!({ "$reduce": { "input": [[1], [2, 3]], "initialValue": [], "in": { "$concatArrays": ["$$value", "$$this"] } } }),
            bson!([1, 2, 3]),
        ),
        (bson!({ "$reduce": { "input": null, "initialValue": 1, "in": 2 } }), Bson::Null),
    ]);
    check_codes(&[
        (bson!({ "$let": 1 }), 16874),
        (bson!({ "$let": { "vars": {}, "in": 1, "x": 1 } }), 16875),
        (bson!({ "$let": { "in": 1 } }), 16876),
        (bson!({ "$let": { "vars": {} } }), 16877),
        (bson!({ "$let": { "vars": { "X": 1 }, "in": 1 } }), 16867),
        (bson!({ "$let": { "vars": { "x-y": 1 }, "in": 1 } }), 16868),
        (bson!({ "$map": [1] }), 16878),
        (bson!({ "$map": { "input": "$one", "in": 1 } }), 16883),
        (bson!({ "$map": { "input": [], "as": "A", "in": 1 } }), 16867),
        (bson!({ "$filter": { "input": "$one", "cond": 1 } }), 28651),
        (bson!({ "$filter": { "input": [] } }), 28650),
        (bson!({ "$reduce": { "input": 1, "initialValue": 1, "in": 2 } }), 40080),
        (bson!({ "$reduce": { "input": [], "in": 2 } }), 40078),
        (bson!({ "$map": { "input": [1], "in": "$$other" } }), 17276),
    ]);
}
