//! Tests of arithmetic, rounding, logarithms, angles, and accumulators as expressions.

use bson::{Bson, DateTime, bson};

use super::{MOMENT, check, check_codes, decimal, value};

#[test]
fn arithmetic_keeps_the_widest_type() {
    check(&[
        (bson!({ "$add": [1, 2] }), bson!(3)),
        (bson!({ "$add": [1, 2_i64] }), bson!(3_i64)),
        (bson!({ "$add": [1, 2.5] }), bson!(3.5)),
        (bson!({ "$add": [1, "$decimal"] }), decimal("3.5")),
        (bson!({ "$add": [i32::MAX, 1] }), bson!(2_147_483_648_i64)),
        (bson!({ "$add": [i64::MAX, 1] }), bson!(9_223_372_036_854_775_808.0)),
        (bson!({ "$add": [] }), bson!(0)),
        (bson!({ "$add": [1, "$null", "x"] }), Bson::Null),
        (bson!({ "$add": ["$date", 1000] }), Bson::DateTime(DateTime::from_millis(MOMENT + 1000))),
        (bson!({ "$add": [0.1, 0.2, 0.3] }), bson!(0.6)),
        (bson!({ "$subtract": [1, 2] }), bson!(-1)),
        (bson!({ "$subtract": [i64::MIN, 1] }), bson!(-9_223_372_036_854_775_808.0)),
        (bson!({ "$subtract": ["$date", "$date"] }), bson!(0_i64)),
        (bson!({ "$subtract": ["$date", 5] }), Bson::DateTime(DateTime::from_millis(MOMENT - 5))),
        (bson!({ "$multiply": [3, 4] }), bson!(12)),
        (bson!({ "$multiply": [i32::MAX, 2] }), bson!(4_294_967_294_i64)),
        (bson!({ "$multiply": [] }), bson!(1)),
        (bson!({ "$multiply": [2, "$nothing"] }), Bson::Null),
        (bson!({ "$divide": [6, 3] }), bson!(2.0)),
        (bson!({ "$divide": ["$decimal", 2] }), decimal("1.25")),
        (bson!({ "$mod": [7, 3] }), bson!(1)),
        (bson!({ "$mod": [-7, 3] }), bson!(-1)),
        (bson!({ "$mod": [7.5, 2] }), bson!(1.5)),
    ]);
    check_codes(&[
        (bson!({ "$add": ["$date", "$date"] }), 16612),
        (bson!({ "$add": [true] }), 16554),
        (bson!({ "$subtract": ["x", 1] }), 16556),
        (bson!({ "$multiply": ["x", 1] }), 16555),
        (bson!({ "$divide": [1, 0] }), 16608),
        (bson!({ "$divide": [1, "x"] }), 16609),
        (bson!({ "$mod": [1, 0] }), 16610),
        (bson!({ "$mod": ["x", 1] }), 16611),
        (bson!({ "$subtract": [1, 2, 3] }), 16020),
    ]);
}

#[test]
fn rounding_goes_half_to_even() {
    check(&[
        (bson!({ "$abs": -3 }), bson!(3)),
        (bson!({ "$abs": i32::MIN }), bson!(2_147_483_648_i64)),
        (bson!({ "$abs": -1.5 }), bson!(1.5)),
        (bson!({ "$abs": "$null" }), Bson::Null),
        (bson!({ "$ceil": 1.2 }), bson!(2.0)),
        (bson!({ "$ceil": 7 }), bson!(7)),
        (bson!({ "$floor": -1.2 }), bson!(-2.0)),
        (bson!({ "$floor": "$decimal" }), decimal("2")),
        (bson!({ "$round": 2.5 }), bson!(2.0)),
        (bson!({ "$round": 3.5 }), bson!(4.0)),
        (bson!({ "$round": [10.55, 1] }), bson!(10.6)),
        (bson!({ "$round": [1234, -2] }), bson!(1200)),
        (bson!({ "$round": [1250, -2] }), bson!(1200)),
        (bson!({ "$round": [1350, -2] }), bson!(1400)),
        (bson!({ "$round": [-1251_i64, -2] }), bson!(-1300_i64)),
        (bson!({ "$round": [1.5, "$null"] }), Bson::Null),
        (bson!({ "$trunc": 2.9 }), bson!(2.0)),
        (bson!({ "$trunc": [1299, -2] }), bson!(1200)),
        (bson!({ "$trunc": [-19.65, 1] }), bson!(-19.6)),
    ]);
    check_codes(&[
        (bson!({ "$abs": i64::MIN }), 28680),
        (bson!({ "$abs": "x" }), 28765),
        (bson!({ "$round": ["x", 1] }), 51081),
        (bson!({ "$round": [1, 1.5] }), 51082),
        (bson!({ "$round": [1, 101] }), 51083),
        (bson!({ "$round": [i64::MAX, -1] }), 51080),
        (bson!({ "$trunc": [1, 2, 3] }), 28667),
    ]);
}

#[test]
fn powers_and_logarithms() {
    check(&[
        (bson!({ "$sqrt": 16 }), bson!(4.0)),
        (bson!({ "$sqrt": decimal("2") }), decimal("1.414213562373095048801688724209698")),
        (bson!({ "$exp": 0 }), bson!(1.0)),
        (bson!({ "$ln": 1 }), bson!(0.0)),
        (bson!({ "$log10": 1000 }), bson!(3.0)),
        (bson!({ "$log": [8, 2] }), bson!(3.0)),
        (bson!({ "$log": ["$null", 2] }), Bson::Null),
        (bson!({ "$pow": [2, 10] }), bson!(1024)),
        (bson!({ "$pow": [2, 40] }), bson!(1_099_511_627_776_i64)),
        (bson!({ "$pow": [2, 64] }), bson!(18_446_744_073_709_551_616.0)),
        (bson!({ "$pow": [2, -1] }), bson!(0.5)),
        (bson!({ "$pow": [-1, 1_000_000_001] }), bson!(-1)),
        (bson!({ "$pow": [0, 0] }), bson!(1)),
        (bson!({ "$pow": [decimal("1.1"), 2] }), decimal("1.21")),
        (bson!({ "$sin": 0 }), bson!(0.0)),
        (bson!({ "$atan2": [0, 1] }), bson!(0.0)),
        (bson!({ "$degreesToRadians": 180 }), bson!(std::f64::consts::PI)),
        (bson!({ "$radiansToDegrees": std::f64::consts::PI }), bson!(180.0)),
    ]);
    check_codes(&[
        (bson!({ "$sqrt": -1 }), 28714),
        (bson!({ "$ln": 0 }), 28766),
        (bson!({ "$log10": -1 }), 28761),
        (bson!({ "$log": ["x", 2] }), 28756),
        (bson!({ "$log": [2, "x"] }), 28757),
        (bson!({ "$log": [-2, 2] }), 28758),
        (bson!({ "$log": [2, 1] }), 28759),
        (bson!({ "$pow": ["x", 2] }), 28762),
        (bson!({ "$pow": [2, "x"] }), 28763),
        (bson!({ "$pow": [0, -1] }), 28764),
        (bson!({ "$acos": 2 }), 50989),
        (bson!({ "$sin": f64::INFINITY }), 50989),
    ]);
}

#[test]
fn accumulators_are_expressions() {
    check(&[
        (bson!({ "$sum": "$numbers" }), bson!(6)),
        (bson!({ "$sum": ["$one", "$long", "x"] }), bson!(6_i64)),
        (bson!({ "$sum": ["$numbers", 1] }), bson!(1)),
        (bson!({ "$avg": "$numbers" }), bson!(2.0)),
        (bson!({ "$avg": ["x"] }), Bson::Null),
        (bson!({ "$min": "$numbers" }), bson!(1)),
        (bson!({ "$max": ["$one", "$text", "$null"] }), bson!("Hello")),
        (bson!({ "$stdDevPop": [2, 4, 4, 4, 5, 5, 7, 9] }), bson!(2.0)),
        (bson!({ "$stdDevSamp": [1] }), Bson::Null),
        (bson!({ "$sum": [i64::MAX, i64::MAX] }), bson!(18_446_744_073_709_551_614.0)),
    ]);
    let random = value(&bson!({ "$rand": {} })).unwrap().unwrap().as_f64().unwrap();
    assert!((0.0..1.0).contains(&random));
}
