//! Tests of types and conversions.

use bson::oid::ObjectId;
use bson::{Bson, DateTime, bson};

use super::{MOMENT, check, check_codes, decimal};

#[test]
fn types_have_names() {
    check(&[
        (bson!({ "$type": "$one" }), bson!("int")),
        (bson!({ "$type": "$nothing" }), bson!("missing")),
        (bson!({ "$type": "$decimal" }), bson!("decimal")),
        (bson!({ "$type": "$numbers" }), bson!("array")),
        (bson!({ "$isNumber": "$half" }), bson!(true)),
        (bson!({ "$isNumber": "$text" }), bson!(false)),
    ]);
}

#[test]
fn values_are_converted() {
    let id = ObjectId::parse_str("5ab9cbfa31c2ab715d42129e").unwrap();
    let date = Bson::DateTime(DateTime::from_millis(MOMENT));
    check(&[
        (bson!({ "$toInt": 1.9 }), bson!(1)),
        (bson!({ "$toInt": "-12" }), bson!(-12)),
        (bson!({ "$toInt": true }), bson!(1)),
        (bson!({ "$toInt": "$decimal" }), bson!(2)),
        (bson!({ "$toLong": "9000000000" }), bson!(9_000_000_000_i64)),
        (bson!({ "$toLong": "$date" }), bson!(MOMENT)),
        (bson!({ "$toDouble": "2.5e3" }), bson!(2500.0)),
        (bson!({ "$toDouble": "$decimal" }), bson!(2.5)),
        (bson!({ "$toDecimal": "1.10" }), decimal("1.10")),
        (bson!({ "$toDecimal": 2.5 }), decimal("2.50000000000000")),
        (bson!({ "$toBool": "" }), bson!(true)),
        (bson!({ "$toBool": 0.0 }), bson!(false)),
        (bson!({ "$toString": 2.5 }), bson!("2.5")),
        (bson!({ "$toString": 1e21 }), bson!("1e+21")),
        (bson!({ "$toString": 0.00001 }), bson!("1e-05")),
        (bson!({ "$toString": 5.0 }), bson!("5")),
        (bson!({ "$toString": "$date" }), bson!("2017-06-19T15:13:25.713Z")),
        (bson!({ "$toString": id }), bson!("5ab9cbfa31c2ab715d42129e")),
        (bson!({ "$toObjectId": "5ab9cbfa31c2ab715d42129e" }), Bson::ObjectId(id)),
        (bson!({ "$toDate": MOMENT }), date.clone()),
        (bson!({ "$toDate": "2017-06-19T15:13:25.713Z" }), date),
        (bson!({ "$toDate": id }), Bson::DateTime(id.timestamp())),
        (bson!({ "$toInt": null }), Bson::Null),
        (bson!({ "$convert": { "input": "x", "to": "int", "onError": "bad" } }), bson!("bad")),
        (bson!({ "$convert": { "input": null, "to": "int", "onNull": "none" } }), bson!("none")),
        (bson!({ "$convert": { "input": "7", "to": 16 } }), bson!(7)),
        (bson!({ "$convert": { "input": 7, "to": null } }), Bson::Null),
    ]);
}

#[test]
fn what_does_not_convert_is_refused() {
    check_codes(&[
        (bson!({ "$toInt": "1.5" }), 241),
        (bson!({ "$toInt": "" }), 241),
        (bson!({ "$toInt": 3e9 }), 241),
        (bson!({ "$toInt": f64::NAN }), 241),
        (bson!({ "$toInt": f64::INFINITY }), 241),
        (bson!({ "$toInt": "$date" }), 241),
        (bson!({ "$toLong": 1e19 }), 241),
        (bson!({ "$toDouble": " 1" }), 241),
        (bson!({ "$toObjectId": "xyz" }), 241),
        (bson!({ "$toDate": 5 }), 241),
        (bson!({ "$toString": [[1]] }), 241),
        (bson!({ "$convert": 1 }), 9),
        (bson!({ "$convert": { "input": 1 } }), 9),
        (bson!({ "$convert": { "input": 1, "to": "int", "x": 1 } }), 9),
        (bson!({ "$convert": { "input": 1, "to": "integer" } }), 2),
        (bson!({ "$convert": { "input": 1, "to": 99 } }), 9),
        (bson!({ "$convert": { "input": 1, "to": { "$literal": {} } } }), 9),
    ]);
}
