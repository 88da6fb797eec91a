//! Tests that keys have the order of their values, and that they can be decoded.
use super::rounding::{Round, normalized, of_double};
use super::*;
use crate::decimal::{BIAS, Decimal, FiniteDecimal};
use crate::order::compare_owned;
use crate::order::samples::{ladder, value};
use bson::{Bson, DateTime, Decimal128, bson};
use proptest::prelude::*;

fn key(values: &[&Bson], descending: &[bool], bound: Bound) -> KeyString {
    let mut builder = KeyBuilder::new();
    for (value, descending) in values.iter().zip(descending) {
        builder.append_owned(value, *descending);
    }
    builder.check().unwrap();
    builder.finish(bound)
}

fn bytes_of(value: impl Into<Bson>) -> Vec<u8> {
    key(&[&value.into()], &[false], Bound::Exact).bytes
}

/// Equal as bytes: NaN equals NaN, -0 is not 0.
fn same(left: &Bson, right: &Bson) -> bool {
    match (left, right) {
        (Bson::Double(left), Bson::Double(right)) => {
            left.to_bits() == right.to_bits() || left.is_nan() && right.is_nan()
        }
        (Bson::Decimal128(left), Bson::Decimal128(right)) => {
            Decimal::from_value(*left) == Decimal::from_value(*right)
        }
        (Bson::Array(left), Bson::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Bson::Document(left), Bson::Document(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| left.0 == right.0 && same(left.1, right.1))
        }
        (Bson::JavaScriptCodeWithScope(left), Bson::JavaScriptCodeWithScope(right)) => {
            left.code == right.code
                && same(&Bson::Document(left.scope.clone()), &Bson::Document(right.scope.clone()))
        }
        _ => left == right,
    }
}

fn check_round_trip(value: &Bson) {
    for descending in [false, true] {
        let key = key(&[value], &[descending], Bound::Exact);
        let back = decode(&key.bytes, &key.type_bits, &[descending]).unwrap();
        assert!(back.len() == 1 && same(&back[0], value), "{value:?} came back as {back:?}");
    }
}

fn check_order(left: &Bson, right: &Bson) {
    let expected = compare_owned(left, right);
    for descending in [false, true] {
        let keys = [left, right].map(|value| key(&[value], &[descending], Bound::Exact).bytes);
        let found = keys[0].cmp(&keys[1]);
        let expected = if descending { expected.reverse() } else { expected };
        assert_eq!(found, expected, "{left:?} beside {right:?}, descending {descending}: {keys:02x?}");
    }
}

#[test]
fn bytes_are_mongodbs() {
    assert_eq!(bytes_of(1), [43, 2, 4]);
    assert_eq!(bytes_of(-1), [39, 0xfd, 4]);
    assert_eq!(bytes_of(127), [43, 254, 4]);
    assert_eq!(bytes_of(128), [44, 1, 0, 4]);
    assert_eq!(bytes_of(0), [41, 4]);
    assert_eq!(bytes_of(i32::MAX), [46, 255, 255, 255, 254, 4]);
    assert_eq!(bytes_of(i64::MAX), [50, 255, 255, 255, 255, 255, 255, 255, 254, 4]);
    assert_eq!(bytes_of(i64::MIN), [31, 0xf8, 0x3f, 255, 255, 255, 255, 255, 255, 4]);
    assert_eq!(bytes_of(1.5), [43, 3, 0x80, 0, 0, 0, 0, 0, 0, 4]);
    assert_eq!(bytes_of(0.5), [42, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 4]);
    assert_eq!(bytes_of(2.0), bytes_of(2));
    assert_eq!(bytes_of(f64::INFINITY), [51, 255, 255, 255, 255, 255, 255, 255, 255, 4]);
    assert_eq!(bytes_of("ab"), [60, b'a', b'b', 0, 4]);
    assert_eq!(bytes_of("a\0b"), [60, b'a', 0, 255, b'b', 0, 4]);
    assert_eq!(bytes_of(DateTime::from_millis(0)), [120, 0x80, 0, 0, 0, 0, 0, 0, 0, 4]);
    assert_eq!(bytes_of(bson!({ "a": 1 })), [70, 30, b'a', 0, 43, 2, 0, 4]);
    assert_eq!(bytes_of(bson!([true, null])), [80, 111, 20, 0, 4]);
    assert_eq!(key(&[&bson!("a")], &[true], Bound::Exact).bytes, [195, 158, 255, 4]);
}

#[test]
fn keys_are_as_short_as_mongodbs() {
    assert_eq!(bytes_of("user6284781860667377211").len(), 23 + 3);
    for (value, expected) in
        [(bson!(1), 0), (bson!("a"), 0), (bson!(1i64), 1), (bson!(1.5), 1), (bson!(true), 0)]
    {
        let key = key(&[&value], &[false], Bound::Exact);
        assert_eq!(key.type_bits.len(), expected, "{value:?}");
    }
}

#[test]
fn the_ladder_keeps_its_order_and_comes_back() {
    let ladder = ladder();
    for left in &ladder {
        check_round_trip(left);
        for right in &ladder {
            check_order(left, right);
        }
    }
}

/// Decimals at, just below and just above every kind of limit of the encoding.
#[test]
fn decimals_at_the_limits_keep_their_order_and_come_back() {
    let powers = [
        -1074, -1073, -1023, -1022, -1021, -500, -256, -255, -254, -20, -1, 0, 1, 52, 53, 54, 55, 56, 62, 63,
        64,
    ]
    .map(|power| {
        f64::from_bits(if power < -1022 { 1 << (power + 1074) } else { ((power + 1023) as u64) << 52 })
    });
    let mut values: Vec<Bson> = Vec::new();
    for power in powers.into_iter().chain([f64::MAX, 0.1, 1e15, 123_456.789]) {
        for double in [power.next_down(), power, power.next_up()] {
            if double == 0.0 || !double.is_finite() {
                continue;
            }
            values.push(Bson::Double(double));
            for (digits, round) in [(34, Round::Down), (34, Round::Up), (15, Round::Down), (15, Round::Up)] {
                let decimal = of_double(double, digits, round);
                for step in [-1i128, 0, 1] {
                    let full = normalized(decimal);
                    let coefficient = (full.coefficient as i128 + step) as u128;
                    let packed = Decimal::Finite(FiniteDecimal { coefficient, ..full }).pack();
                    // One digit too many is no decimal.
                    if Decimal::from_value(packed) == Decimal::Finite(FiniteDecimal { coefficient, ..full }) {
                        values.push(Bson::Decimal128(packed));
                    }
                }
            }
        }
    }
    for text in ["1E-6176", "1E+6111", "1.000E+309", "9.999999999999999999999999999999999E+6144", "4E-324"] {
        values.push(Bson::Decimal128(text.parse().unwrap()));
    }
    let mut keys: Vec<(Vec<u8>, &Bson)> =
        values.iter().map(|value| (bytes_of(value.clone()), value)).collect();
    keys.sort_by(|left, right| left.0.cmp(&right.0));
    // The order of values is transitive, so neighbours are enough for all pairs.
    for pair in keys.windows(2) {
        let (left, right) = (&pair[0], &pair[1]);
        assert_eq!(compare_owned(left.1, right.1), left.0.cmp(&right.0), "{:?} beside {:?}", left.1, right.1);
        check_round_trip(left.1);
    }
}

#[test]
fn bounds_lie_around_all_entries_with_their_values() {
    let ladder = ladder();
    for descending in [false, true] {
        let flags = [descending, false];
        for first in &ladder {
            let before = key(&[first], &flags, Bound::Before).bytes;
            let after = key(&[first], &flags, Bound::After).bytes;
            for second in ladder.iter().step_by(3) {
                let exact = key(&[first, second], &flags, Bound::Exact).bytes;
                let low = key(&[first, second], &flags, Bound::Before).bytes;
                let high = key(&[first, second], &flags, Bound::After).bytes;
                for id in [0, 1, 1 << 20, i64::MAX] {
                    let mut entry = exact.clone();
                    record_id_of(id, &mut entry);
                    assert!(before < entry && low < entry && entry < after && entry < high);
                    assert_eq!(split_record_id(&entry).map(|(_, id)| id), Some(id));
                }
            }
        }
    }
}

#[test]
fn a_reused_builder_starts_empty() {
    let first = key(&[&bson!(1.5), &bson!("text")], &[false, true], Bound::Exact);
    let expected = key(&[&bson!("other")], &[false], Bound::Exact);
    let mut builder = KeyBuilder::reuse(first);
    builder.append(RawBsonRef::String("other"), false);
    assert_eq!(builder.finish(Bound::Exact), expected);
}

#[test]
fn what_is_nested_too_deep_is_refused_both_ways() {
    let mut value = bson!(1);
    for _ in 0..200 {
        value = bson!([value]);
    }
    check_round_trip(&value);
    let mut builder = KeyBuilder::new();
    builder.append_owned(&bson!([value]), false);
    assert_eq!(builder.check().unwrap_err().code(), Code::Overflow);
    let mut deep = vec![80; 100_000];
    assert!(decode(&deep, &[], &[false]).is_err());
    deep[0] = 70;
    assert!(decode(&deep, &[], &[false]).is_err());
}

#[test]
fn what_is_no_key_is_refused() {
    let broken: [(&[u8], &[u8]); 12] = [
        (&[], &[]),
        (&[4], &[]),
        (&[43, 2], &[]),
        (&[43, 2, 1], &[]),
        (&[43, 2, 4, 4], &[]),
        (&[60, b'a'], &[]),
        (&[60, 0xff, 0, 4], &[]),
        (&[90, 200, 0, 4], &[]),
        (&[47, 255, 255, 255, 255, 254, 4], &[]),
        (&[30, 4], &[]),
        (&[42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4], &[3]),
        (&[43, 2, 4], &[0x81]),
    ];
    for (bytes, type_bits) in broken {
        assert!(decode(bytes, type_bits, &[false]).is_err(), "{bytes:?}");
    }
    let error = decode(&[5], &[], &[false]).unwrap_err();
    assert_eq!(error.message(), "KeyString format error: a byte that begins no value");
}

fn number() -> impl Strategy<Value = Bson> {
    let double = prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        (-1e6..1e6),
        -2.0..2.0,
        any::<i64>().prop_map(|i| i as f64)
    ];
    let decimal = (0..=33u32, any::<u128>(), any::<bool>(), prop_oneof![-40..10, -6176..=6111i32]).prop_map(
        |(digits, random, negative, exponent)| {
            let coefficient = random % 10u128.pow(digits + 1);
            Decimal::Finite(FiniteDecimal { negative, coefficient, exponent }).pack()
        },
    );
    let near = (any::<u64>(), prop_oneof![Just(34u32), Just(17), Just(15)], -3..=3i64).prop_filter_map(
        "finite",
        |(bits, digits, step)| {
            let double = f64::from_bits(bits);
            if !double.is_finite() || double == 0.0 {
                return None;
            }
            let finite = of_double(double.abs(), digits, Round::Down);
            let coefficient = u128::try_from(finite.coefficient as i128 + i128::from(step)).ok()?;
            let inside = coefficient < 10u128.pow(34) && (-BIAS..=6111).contains(&finite.exponent);
            let negative = double < 0.0;
            inside.then(|| Decimal::Finite(FiniteDecimal { negative, coefficient, ..finite }).pack())
        },
    );
    prop_oneof![
        any::<i32>().prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        (0..63u32, -2..=2i64, any::<bool>()).prop_map(|(bit, step, negative)| {
            let value = (1i64 << bit).saturating_add(step);
            Bson::Int64(if negative { -value } else { value })
        }),
        double.prop_map(Bson::Double),
        prop_oneof![decimal, near].prop_map(Bson::Decimal128),
        prop_oneof![Just("NaN"), Just("Infinity"), Just("-Infinity"), Just("-0E+5"), Just("0")]
            .prop_map(|text| Bson::Decimal128(text.parse::<Decimal128>().unwrap())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn numbers_keep_their_order_and_come_back(left in number(), right in number()) {
        check_round_trip(&left);
        check_order(&left, &right);
    }

    /// Compares each number with itself as another type and with its nearest neighbours.
    #[test]
    fn decimals_stand_right_beside_their_doubles(decimal in number(), steps in -2..=2i32) {
        if let Bson::Decimal128(value) = &decimal
            && let Ok(mut double) = value.to_string().parse::<f64>()
        {
            for _ in 0..steps.abs() {
                double = if steps < 0 { double.next_down() } else { double.next_up() };
            }
            check_order(&decimal, &Bson::Double(double));
            if double.abs() < 9.2e18 {
                check_order(&decimal, &Bson::Int64(double as i64));
            }
        }
    }

    #[test]
    fn values_keep_their_order_and_come_back(left in value(), right in value()) {
        check_round_trip(&left);
        check_order(&left, &right);
    }

    #[test]
    fn compound_keys_keep_their_order(
        pairs in proptest::collection::vec((value(), value(), any::<bool>(), any::<bool>()), 1..4),
    ) {
        let left: Vec<&Bson> = pairs.iter().map(|pair| &pair.0).collect();
        // Half of the fields are equal, so that later ones decide too.
        let right: Vec<&Bson> = pairs.iter().map(|pair| if pair.3 { &pair.0 } else { &pair.1 }).collect();
        let descending: Vec<bool> = pairs.iter().map(|pair| pair.2).collect();
        let mut expected = std::cmp::Ordering::Equal;
        for (place, descending) in descending.iter().enumerate() {
            let order = compare_owned(left[place], right[place]);
            expected = expected.then(if *descending { order.reverse() } else { order });
        }
        let left_key = key(&left, &descending, Bound::Exact);
        let right_key = key(&right, &descending, Bound::Exact);
        prop_assert_eq!(left_key.bytes.cmp(&right_key.bytes), expected);
        let back = decode(&left_key.bytes, &left_key.type_bits, &descending).unwrap();
        prop_assert!(back.iter().zip(&left).all(|(back, value)| same(back, value)));
    }

    #[test]
    fn no_bytes_make_decoding_panic(
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 28..55u8, Just(0), Just(255), Just(70), Just(80)], 0..40),
        type_bits in proptest::collection::vec(any::<u8>(), 0..6),
        descending in any::<bool>(),
    ) {
        if let Ok(values) = decode(&bytes, &type_bits, &[descending]) {
            check_round_trip(&values[0]);
        }
    }
}
